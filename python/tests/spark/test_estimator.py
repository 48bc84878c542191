"""`RejoinEstimator` beside the estimators that it is made of, with real kills. Callbacks are defined
within functions, so that they travel by value, as a notebook's do."""

import contextlib
import io
import json
import pathlib
import re
import tempfile
import unittest
import unittest.mock
import urllib.parse
import urllib.request

from .cluster import WORLD, XGBOOST, dies, session, set_for_now
from .stateful import holding_a_lock, keeping, printing, remembering, stopping_after
from .victims import outside_of_rounds

ROUNDS = 12


def dying(how, round_, rank=1, spare_in=None):
    """A callback that does this to a rank in its first attempt, before a round; once a spare stands by where
    a folder of event logs is given."""
    from xgboost.callback import TrainingCallback

    die = dies(how, spare_in)

    class Dies(TrainingCallback):
        def before_iteration(self, model, epoch, evals_log):
            from pyspark import TaskContext
            from xgboost.collective import get_rank

            task = TaskContext.get()
            # A spare that has its rank is another task.
            if (epoch, get_rank(), task.partitionId(), task.attemptNumber()) == (round_, rank, rank, 0):
                die()
            return False

    return Dies()


class OnACluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.spark, cls.made = session(), {}
        import rejoin.spark
        import xgboost.spark
        from pyspark.ml.functions import array_to_vector
        from pyspark.sql import functions as sql

        cls.rejoin, cls.xgboost = rejoin, xgboost.spark
        columns = [(sql.xxhash64(sql.col("id"), sql.lit(column)) % 1000) / 1000.0 for column in range(6)]
        cls.rows = (
            cls.spark.range(0, 3000, 1, WORLD)
            .select("id", array_to_vector(sql.array(*columns)).alias("features"), (columns[0]).alias("first"))
            .selectExpr(
                "features",
                "CAST(first + pmod(hash(id), 100) / 400.0 > 0.1 AS int) AS label",
                "first * 3 + pmod(hash(id), 100) / 100.0 AS number",
                "pmod(hash(id), 5) AS relevance",
                "1 + pmod(id, 3) AS weight",
                "first * 2 AS margin",
                "pmod(hash(id, 7), 4) = 0 AS held_out",
                "CAST(id / 100 AS int) AS query",
            )
            .cache()  # made anew where an executor has died
        )

    def estimator(self, kind, **parameters):
        rounds = {"num_workers": WORLD, "n_estimators": ROUNDS, "max_depth": 3, "force_repartition": False}
        return getattr(self.xgboost, kind)(**{**rounds, **parameters})

    def fit(self, stock):
        return self.rejoin.spark.RejoinEstimator(stock).fit(self.rows)

    @staticmethod
    def model(fitted):
        return bytes(fitted.get_booster().save_raw("ubj"))


class TheSameModelOf(OnACluster):
    @contextlib.contextmanager
    def losing(self, *lost):
        """These ranks and no others die in the fit in here, each time, as its event log says; that is in the
        folder which this gives."""
        with tempfile.TemporaryDirectory() as folder, set_for_now(self.spark, events=folder):
            yield folder
            logs = pathlib.Path(folder).iterdir()
            facts = [json.loads(record).get("event", {}) for log in logs for record in log.read_text().splitlines()]
        ranks = [fact["RankLost"]["rank"] for fact in facts if "RankLost" in fact]
        self.assertEqual(sorted(ranks), sorted(lost), facts)

    @contextlib.contextmanager
    def a_spare_takes(self, *lost):
        with set_for_now(self.spark, spares=1), self.losing(*lost) as folder:
            yield folder
            events = "".join(file.read_text() for file in pathlib.Path(folder).iterdir())
        self.assertIn('"index":3', next(line for line in events.splitlines() if '"SpareTook"' in line))

    def dying_outside_of_rounds(self, moment, how="worker", spare_in=None):
        """A callback by which rank 1 dies then; it fails the test if it hasn't."""
        signs = tempfile.TemporaryDirectory()
        self.addCleanup(signs.cleanup)
        self.addCleanup(lambda: self.assertEqual([sign.name for sign in pathlib.Path(signs.name).iterdir()], ["1-0"]))
        return outside_of_rounds(signs.name, how, moment, ROUNDS - 1, spare_in=spare_in)

    def same(self, kind, *callbacks, **parameters):
        """Ours after what the callbacks do, and stock's without it."""
        theirs = self.stock(kind, **parameters)
        ours = self.fit(self.estimator(kind, callbacks=list(callbacks), **parameters))
        self.assertIs(type(ours), type(theirs))
        self.assertEqual(self.model(ours), self.model(theirs))
        self.assertEqual(ours.training_summary, theirs.training_summary)
        self.assertEqual(ours.get_booster().attributes(), theirs.get_booster().attributes())
        self.assertEqual(self.configuration(ours), self.configuration(theirs))
        return ours

    @staticmethod
    def configuration(fitted):
        """But for the metrics that a Booster takes up as it evaluates."""
        configuration = json.loads(fitted.get_booster().save_config())
        del configuration["learner"]["metrics"]
        return configuration

    def stock(self, kind, **parameters):
        """Its model, made once."""
        key = (kind, *sorted((name, str(value)) for name, value in parameters.items()))
        if key not in self.made:
            self.made[key] = self.estimator(kind, **parameters).fit(self.rows)
        return self.made[key]


class TheSameModel(TheSameModelOf):
    def test_a_fit_in_which_nobody_dies_gives_stock_s_model(self):
        model = self.same("SparkXGBClassifier")
        self.assertEqual(model.transform(self.rows).where("prediction = label").count() > 1500, True)

    def test_a_python_worker_that_is_killed_after_a_checkpoint_rejoins(self):
        with self.losing(1):
            self.same("SparkXGBClassifier", dying("worker", 11))

    def test_rank_0_that_is_killed_before_the_first_round_rejoins_with_weights_and_margins(self):
        columns = {"label_col": "number", "weight_col": "weight", "base_margin_col": "margin"}
        with self.losing(0):
            margined = self.same("SparkXGBRegressor", dying("worker", 0, rank=0), **columns)
        plain = self.stock("SparkXGBRegressor", label_col="number", weight_col="weight")
        self.assertNotEqual(self.model(margined), self.model(plain), "margins count")

    def test_an_executor_that_is_killed_rejoins_with_early_stopping(self):
        parameters = {"n_estimators": 60, "learning_rate": 1.0, "max_depth": 6, "early_stopping_rounds": 4}
        metrics = {"eval_metric": ["logloss", "error"], "validation_indicator_col": "held_out"}
        rounds = self.stock("SparkXGBClassifier", **parameters, **metrics).get_booster().num_boosted_rounds()
        with self.losing(1):
            model = self.same("SparkXGBClassifier", dying("executor", rounds - 1), **parameters, **metrics)
        self.assertLess(model.get_booster().num_boosted_rounds(), 60)

    def test_a_ranker_survives_an_exception_and_two_ranks_that_die(self):
        callbacks = [dying("raises", 5), dying("worker", 7, rank=0), dying("worker", 7, rank=2)]
        with self.losing(0, 1, 2):
            self.same("SparkXGBRanker", *callbacks, label_col="relevance", qid_col="query", force_repartition=True)

    def same_with(self, make, *dying_too, **parameters):
        """Ours with deaths, and stock's without them, of estimators with a callback of this kind."""
        theirs = self.estimator("SparkXGBClassifier", callbacks=[make()], **parameters).fit(self.rows)
        ours = self.fit(self.estimator("SparkXGBClassifier", callbacks=[make(), *dying_too], **parameters))
        self.assertEqual(self.model(ours), self.model(theirs))
        self.assertEqual(ours.training_summary, theirs.training_summary)
        return ours.get_booster()

    def test_a_callback_that_remembers_and_asks_for_the_model_comes_back_as_it_was(self):
        with self.losing(1):
            booster = self.same_with(remembering, dying("worker", 11))
        self.assertIn("(11, ", booster.attr("remembered"))

    def test_a_callback_s_own_count_stops_the_training_where_it_would_have(self):
        with self.losing(1, 2), set_for_now(self.spark, checkpoint_rounds=3):
            booster = self.same_with(lambda: stopping_after(9), dying("worker", 7), dying("executor", 8, rank=2))
        self.assertEqual(booster.num_boosted_rounds(), 9)

    def test_a_spare_has_the_rank_of_an_executor_that_is_killed_at_once(self):
        with self.a_spare_takes(1) as folder:
            self.same("SparkXGBClassifier", dying("executor", 11, spare_in=folder))

    def test_what_callbacks_and_xgboost_print_is_printed_here_with_the_rank_s_number(self):
        with contextlib.redirect_stdout(io.StringIO()) as seen:
            # Verbose, XGBoost logs while it prints.
            self.same("SparkXGBClassifier", printing(), verbosity=2)
        lines = seen.getvalue().splitlines()
        self.assertIn("[rank 1] round 11 is done", lines)
        self.assertEqual([line for line in lines if "training-logloss" in line][11][:14], "[rank 0] [11]\t")

    def test_the_tab_in_spark_s_web_ui_shows_a_fit_its_metrics_and_the_death_of_a_worker(self):
        self.same("SparkXGBClassifier", dying("worker", 11))
        page = self.page(self.spark.sparkContext.uiWebUrl + "/rejoin/")
        # The newest one is the first in a list of several; the only one has no list.
        link = re.search(r'id="rejoin-jobs".*?href="(\?job=\w+)"', page)
        page = self.page(urllib.parse.urljoin(self.spark.sparkContext.uiWebUrl + "/rejoin/", link[1])) if link else page
        text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
        self.assertIn(f"{ROUNDS} of {ROUNDS} rounds", text)
        self.assertRegex(text, rf"\[{ROUNDS - 1}\] training-logloss:0\.\d+")
        self.assertRegex(text, r"Deaths: 1, for which training stood still for")
        executors = re.findall(r"<td>(\d)-python-\d+ on 127.0.0.1(.*?)</td><td>(.*?)</td>", page)
        self.assertGreaterEqual(len(executors), WORLD, text)
        for executor, links, logs in executors:
            self.assertRegex(links + logs, rf"executorId={executor}\b.*stderr")

    @staticmethod
    def page(address):
        with urllib.request.urlopen(address, timeout=30) as answer:
            return answer.read().decode()

    def test_checkpoints_are_the_rarer_the_larger_the_model_is_beside_the_input(self):
        from rejoin._xgboost_training import Rhythm

        def rounds(rhythm):
            return [rhythm.rounds_after(size) for size in (0, 1, 1000, 1001, 9001, 1 << 30)]

        self.assertEqual(rounds(Rhythm(10, bytes_per_round=1000)), [1, 1, 1, 2, 10, 10])
        self.assertEqual(rounds(Rhythm(3)), [3] * 6)

    def test_it_is_saved_and_loaded_with_its_parameters(self):
        ours = self.rejoin.spark.RejoinEstimator(self.estimator("SparkXGBRegressor", label_col="number", reg_alpha=0.5))
        with tempfile.TemporaryDirectory() as folder:
            ours.save(folder + "/estimator")
            loaded = type(ours).load(folder + "/estimator")
        self.assertEqual((loaded.uid, loaded.getOrDefault("reg_alpha")), (ours.uid, 0.5))
        copied = loaded.copy({loaded.max_depth: 2})
        depths = [one.getOrDefault(one.max_depth) for one in (loaded, copied)]
        self.assertEqual(depths, [3, 2])

    def test_what_can_not_work_is_refused_before_any_work(self):
        def refused(words, fit):
            with self.assertRaises(self.rejoin.RejoinError) as raised:
                fit()
            self.assertEqual(raised.exception.code.name, "BAD_ARGUMENT")
            for word in words:
                self.assertIn(word, raised.exception.text)

        refused(["device", "cuda"], lambda: self.fit(self.estimator("SparkXGBClassifier", device="cuda")))
        for callback in (holding_a_lock("made"), holding_a_lock("begun")):
            words = ["callback Locked can't be pickled", "lock"]
            refused(words, lambda: self.fit(self.estimator("SparkXGBClassifier", callbacks=[callback])))
        words = ["Keeps", "has 30", "at most 262144"]
        refused(words, lambda: self.fit(self.estimator("SparkXGBClassifier", callbacks=[keeping(300_000)])))
        refused(["stock is int"], lambda: self.rejoin.spark.RejoinEstimator(5))
        one_query = self.rows.where("query = 1")
        ranker = self.estimator("SparkXGBRanker", label_col="relevance", qid_col="query", force_repartition=True)
        refused(["2 partitions for 3"], lambda: self.rejoin.spark.RejoinEstimator(ranker).fit(one_query))
        self.spark.conf.set("spark.rejoin.checkpoint.rounds", "often")
        try:
            refused(["checkpoint.rounds", "often"], lambda: self.fit(self.estimator("SparkXGBClassifier")))
        finally:
            self.spark.conf.unset("spark.rejoin.checkpoint.rounds")

    def test_an_xgboost_whose_estimator_is_made_otherwise_is_refused_by_what_it_lacks(self):
        from xgboost.spark import core

        def refused(name):
            with self.assertRaises(self.rejoin.RejoinError) as raised:
                self.fit(self.estimator("SparkXGBClassifier"))
            self.assertEqual(raised.exception.code.name, "INCOMPATIBLE")
            for word in (XGBOOST, name, "supported of its PySpark estimators are 3.1 to 3.4"):
                self.assertIn(word, raised.exception.text)

        for name in ("_prepare_input", "_get_tracker_args"):
            with self.subTest(name), unittest.mock.patch.object(core._SparkXGBEstimator, name):
                delattr(core._SparkXGBEstimator, name)
                refused(name)
        with self.subTest("another minor version"), unittest.mock.patch("xgboost.__version__", "3.9.0"):
            with self.assertRaises(self.rejoin.RejoinError) as raised:
                self.fit(self.estimator("SparkXGBClassifier"))
            self.assertIn("XGBoost 3.9.0 isn't as expected", raised.exception.text)
        with (
            self.subTest("rows by another way"),
            unittest.mock.patch.object(
                core._SparkXGBEstimator, "_fit", lambda stock, rows: stock._prepare_input(rows)[0].toPandas()
            ),
        ):
            refused("toPandas")
        with (
            self.subTest("no training"),
            unittest.mock.patch.object(core._SparkXGBEstimator, "_fit", lambda stock, rows: None),
        ):
            refused("trained 0 times")
        with self.subTest("worker_train"):
            seams = ("CommunicatorContext", "train_in_a_worker")
            with unittest.mock.patch("rejoin._spark_estimator.SEAMS", seams):
                refused("train_in_a_worker")

    def test_workers_with_another_xgboost_end_the_fit_at_the_first_try(self):
        with self.assertRaises(self.rejoin.RejoinError) as raised, self.losing():
            with unittest.mock.patch("rejoin._spark_xgboost.xgboost", unittest.mock.Mock(__version__="3.3.9")):
                self.fit(self.estimator("SparkXGBClassifier"))
        self.assertEqual(raised.exception.code.name, "INCOMPATIBLE")
        workers = re.escape(f"on 127.0.0.1) has {XGBOOST}")
        text = rf"the driver has XGBoost 3\.3\.9, this Python worker \(executor \d+ {workers}"
        self.assertRegex(raised.exception.text, text)

    def test_parameters_that_xgboost_refuses_end_the_fit_at_once_with_its_own_words(self):
        with self.assertRaises(self.rejoin.RejoinError) as raised:
            self.fit(self.estimator("SparkXGBClassifier", grow_policy="sideways"))
        self.assertEqual(raised.exception.code.name, "TRAINING_FAILED")
        self.assertIn("sideways", raised.exception.text)

    def test_rows_of_which_xgboost_makes_no_matrix_end_the_fit_with_how_many_there_are(self):
        from pyspark.sql import functions as sql

        nothing = self.rows.withColumn("nothing", sql.lit(False))
        validated = self.estimator("SparkXGBClassifier", validation_indicator_col="nothing")
        has = r"rank \d was making its matrices, of {} rows to train on{}"
        for stock, rows, text in (
            (self.estimator("SparkXGBClassifier"), self.rows.where("query < 0"), has.format(0, "$")),
            (validated, nothing, has.format(r"\d{3,4}", " and 0 that validation_indicator_col marks")),
        ):
            with self.assertRaises(self.rejoin.RejoinError) as raised:
                self.rejoin.spark.RejoinEstimator(stock).fit(rows)
            self.assertEqual(raised.exception.code.name, "TRAINING_FAILED")
            self.assertRegex(raised.exception.text.split("\n\nThe rank's own")[0], text)

    def test_an_objective_or_metric_of_one_s_own_is_refused_by_the_stock_estimator(self):
        for parameter in ("objective", "eval_metric"):
            with self.assertRaisesRegex(ValueError, f"Only string type.*'{parameter}'"):
                self.fit(self.estimator("SparkXGBRegressor", **{parameter: lambda *_: None}))


class AtOtherMoments(TheSameModelOf):
    """In ``make test-long``."""

    def test_python_workers_that_are_killed_before_they_join_or_in_their_matrix_rejoin(self):
        for moment, lost in (("joining", []), ("matrix", [1])):
            with self.subTest(moment), self.losing(*lost):
                self.same("SparkXGBClassifier", self.dying_outside_of_rounds(moment))

    def test_a_python_worker_that_is_killed_after_the_last_round_rejoins(self):
        with self.losing(1):
            self.same("SparkXGBClassifier", self.dying_outside_of_rounds("end"))

    def test_a_frozen_worker_is_killed_and_rejoins(self):
        with self.losing(1):
            self.same("SparkXGBClassifier", dying("frozen", 3))

    def test_a_model_is_trained_on_from_another_one_with_learning_rates_of_its_own(self):
        from xgboost.callback import LearningRateScheduler

        first = self.estimator("SparkXGBRegressor", label_col="number", n_estimators=4).fit(self.rows)
        more = {"label_col": "number", "xgb_model": first.get_booster()}
        theirs = self.estimator("SparkXGBRegressor", callbacks=[LearningRateScheduler([0.3] * 6 + [0.1] * 6)], **more)
        dying_too = [LearningRateScheduler([0.3] * 6 + [0.1] * 6), dying("worker", 8)]
        ours = self.estimator("SparkXGBRegressor", callbacks=dying_too, **more)
        with self.losing(1):
            self.assertEqual(self.model(self.fit(ours)), self.model(theirs.fit(self.rows)))

    def test_a_spare_has_the_rank_of_an_executor_that_is_killed_before_it_had_joined(self):
        with self.a_spare_takes() as folder:
            self.same("SparkXGBClassifier", self.dying_outside_of_rounds("joining", "executor", folder))


class EarlyStopping(TheSameModelOf):
    def test_a_death_before_the_best_round_and_one_after_it_change_neither_it_nor_the_end(self):
        stops = {"n_estimators": 60, "learning_rate": 0.7, "early_stopping_rounds": 4}
        parameters = {**stops, "eval_metric": "logloss", "validation_indicator_col": "held_out"}
        best = self.stock("SparkXGBClassifier", **parameters).get_booster().best_iteration
        self.assertGreater(best, 2)
        for round_ in (best - 1, best + 2):
            with self.subTest(round=round_, best=best), self.losing(1), set_for_now(self.spark, checkpoint_rounds=3):
                model = self.same("SparkXGBClassifier", dying("worker", round_), **parameters)
                self.assertEqual(model.get_booster().best_iteration, best)


class InACrossValidation(OnACluster):
    def test_it_takes_its_place_in_a_cross_validation_of_a_pipeline(self):
        from pyspark.ml import Pipeline
        from pyspark.ml.evaluation import BinaryClassificationEvaluator
        from pyspark.ml.tuning import CrossValidator, ParamGridBuilder

        def validated(make):
            stock = self.estimator("SparkXGBClassifier", num_workers=2, n_estimators=3)
            wrapped = make(stock)
            grid = ParamGridBuilder().addGrid(wrapped.max_depth, [1, 3]).build()
            judge = BinaryClassificationEvaluator()
            validator = CrossValidator(
                estimator=Pipeline(stages=[wrapped]),
                estimatorParamMaps=grid,
                evaluator=judge,
                numFolds=2,
                parallelism=2,
                seed=5,
            )
            with tempfile.TemporaryDirectory() as folder:
                validator.save(folder + "/validator")
                validator = CrossValidator.load(folder + "/validator")
            self.assertIs(type(validator.getEstimator().getStages()[0]), type(wrapped))
            return validator.fit(self.rows)

        theirs, ours = validated(lambda stock: stock), validated(self.rejoin.spark.RejoinEstimator)
        self.assertEqual(ours.avgMetrics, theirs.avgMetrics)
        self.assertEqual(self.model(ours.bestModel.stages[0]), self.model(theirs.bestModel.stages[0]))
