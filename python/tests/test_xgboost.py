"""`xgboost.train` under `rejoin run`, killed at moments of its life: the model has the bytes of
XGBoost's own tracker, and callbacks and evaluations are what they are there."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

from launching import ROOT, Launched

PROGRAM = ROOT / "python" / "tests" / "xgboost_program.py"
WORLD = 3
LONG = "REJOIN_TIMES" in os.environ  # scripts/test.sh long


class Trained(Launched):
    """`version` is XGBoost's; the stock digests of a case are computed once."""

    version = ""
    folders = ("common",)
    stock = {}

    def path(self):
        folders = [ROOT / "build" / "python" / name for name in (f"xgboost-{self.version}", *self.folders)]
        for folder in folders:
            if not folder.is_dir():
                self.fail(f"expected XGBoost in {folder}; make it: scripts/python-xgboost.sh {sys.executable}")
        return os.pathsep.join(map(str, [ROOT / "python", *folders]))

    def told(self, out):
        """What ranks tell of the end, the same at all of them."""
        lines = set(re.findall(r"^(?:\[\d+(?:\.\d+)?\] )?(digest .*)$", out, re.MULTILINE))
        self.assertEqual(len(lines), 1, out)
        return lines.pop()

    def stock_of(self, case, world=WORLD, **variables):
        key = (self.version, case, world)
        if key not in Trained.stock:
            command = [sys.executable, str(PROGRAM), "stock", str(world), case]
            environment = dict(os.environ, PYTHONPATH=self.path(), OMP_NUM_THREADS="1", **variables)
            ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
            self.assertEqual(ended.returncode, 0, f"\n{ended.stdout}\n{ended.stderr}")
            Trained.stock[key] = self.told(ended.stdout)
        return Trained.stock[key]

    def train(self, case, *kills, status=0, world=WORLD, more=(), **variables):
        options = [word for rule in kills for word in ("--kill", rule)]
        variables = {"PYTHONPATH": self.path(), "OMP_NUM_THREADS": "1", **variables}
        out, err = self.run_ranks(
            world, PROGRAM, "--restart", *options, *more, status=status, arguments=[case], **variables
        )
        for rule in kills:
            self.assertIn(f"rule `{rule}` fired", err)
        return out, err

    def same_as_stock(self, case, *kills, restarts, world=WORLD, hooked=False, **variables):
        """`restarts` is how many incarnations beside the first ones reach the end."""
        out, err = self.train(case, *kills, world=world, **variables)
        self.assertEqual(self.told(out), self.stock_of(case, world), err)
        ended = re.findall(r"rank (\d+)\.(\d+) hooked (\w+)$", out, re.MULTILINE)
        again = {rank for rank, incarnation, _ in ended if incarnation != "0"}
        self.assertEqual(len(again), restarts, out)
        self.assertEqual({how for _, _, how in ended}, {str(hooked)})
        return out, err

    def goes_on_in_a_second_run(self, case):
        """The first run ends with a death in round 11, without a restart; the second one trains to the end."""
        with tempfile.TemporaryDirectory() as folder:
            durable = ["--durable", folder, "--job", "a training", "--resume"]
            variables = {"PYTHONPATH": self.path(), "OMP_NUM_THREADS": "1"}
            ranks = [WORLD, PROGRAM, *durable]
            self.run_ranks(*ranks, status=3, arguments=[case], ACT="kill:1:11", **variables)
            out, err = self.run_ranks(*ranks, arguments=[case], **variables)
        self.assertRegex(err, "goes on from version [12] in")
        self.assertEqual(self.told(out), self.stock_of(case), err)


class Bridged(Trained):
    """XGBoost 3.2: all bytes go through its own sockets, and all ranks make their Booster anew at each checkpoint."""

    version = "3.2.0"

    def test_a_rank_that_is_killed_in_the_middle_comes_back_alone_and_the_model_is_stocks(self):
        self.same_as_stock("plain", "rank=1,version=1,at=bytes:2000", restarts=1)

    def test_deaths_while_the_matrix_is_made_in_the_first_and_the_last_round_of_rank_0_twice_and_after_the_end(self):
        # 16 rounds, a checkpoint every 5: version 3 is the last round alone, and 4 the end. Rank 2 comes a third time
        # when the job is over.
        self.same_as_stock(
            "plain",
            "rank=2,version=boot,at=bytes:20",
            "rank=0,version=0,at=bytes:1",
            "rank=0,incarnation=1,version=3,at=bytes:1",
            "rank=1,version=4,at=bytes:0",
            "rank=2,incarnation=1,at=finalize",
            restarts=3,
        )

    def test_early_stopping_is_stocks_with_deaths_before_and_after_the_best_round(self):
        stock = self.stock_of("stopping")
        best = int(stock.split("best ")[1])
        self.assertIn(f"rounds {best + 5} ", stock)
        self.assertGreater(best, 1)
        self.same_as_stock("stopping", restarts=2, EVERY="1", ACT=f"kill:1:{best},kill:2:{best + 3}")

    def test_an_objective_of_several_outputs_and_without_labels_gives_stocks_model(self):
        self.same_as_stock("classes", restarts=1, ACT="kill:1:7")

    def test_an_exception_in_a_callback_restarts_its_rank_which_goes_on_with_the_learning_rate_that_was_set(self):
        _, err = self.same_as_stock("rates", restarts=1, ACT="raise:0:7")
        self.assertIn("KeyError: 'on purpose'", err)
        self.assertIn("in before_iteration", err)

    def test_a_second_run_goes_on_from_the_durable_checkpoints_of_one_that_died(self):
        self.goes_on_in_a_second_run("plain")

    def test_a_callback_that_is_carried_asks_for_the_model_of_each_round_and_comes_back_as_it_was(self):
        self.same_as_stock("carried", restarts=2, ACT="kill:1:7,kill:0:15")

    def test_a_training_that_goes_on_from_a_booster_has_the_parameters_that_it_brings(self):
        self.same_as_stock("continued", restarts=1, ACT="kill:1:7")

    def test_a_linear_booster_of_one_rank_is_made_anew_with_all_that_it_was_given(self):
        self.same_as_stock("linear", restarts=0, world=1)

    def test_a_callback_that_gives_back_another_booster_does_so_at_a_rank_that_dies_after_the_last_round(self):
        self.same_as_stock("carried cut", "rank=1,version=4,at=bytes:0", restarts=1)

    def test_a_version_that_is_unknown_is_refused_by_name_with_what_to_install(self):
        program = """
            import xgboost
            xgboost.__version__ = "2.1.4"
            import rejoin.xgboost
            with rejoin.xgboost.communicator():
                pass
            """
        _, err = self.run_ranks(1, program, status=3, PYTHONPATH=self.path())
        self.assertIn('INCOMPATIBLE: XGBoost "2.1.4" is not supported; use a version of 3.0, 3.1, 3.2, 3.3 or 3.4', err)
        self.assertIn('pip install "xgboost==3.2.0"', err)

    def test_a_rank_that_was_given_no_state_of_its_callbacks_does_not_go_on_without_it(self):
        program = """
            import pickle
            from xgboost.callback import CallbackContainer, TrainingCallback
            from rejoin._xgboost_callbacks import CarriedCallbacks, Carry
            class Counts(TrainingCallback):
                pass
            CarriedCallbacks(Carry(pickle), CallbackContainer([Counts()]), set(), 3, False, None, print)
            """
        _, err = self.run_ranks(1, program, status=3, PYTHONPATH=self.path())
        self.assertIn("INTERNAL: this rank goes on after 3 rounds but was given no state of its callbacks", err)

    def test_a_loop_or_an_estimator_that_is_unknown_is_refused_with_the_versions_that_are_known(self):
        program = """
            import xgboost
            from rejoin import _xgboost_training
            for minor in (0, 9):
                xgboost.__version__ = f"3.{minor}.5"
                try:
                    _xgboost_training.check_estimators_version()
                except Exception as error:
                    print(error)
            print(_xgboost_training.unexpected("its loop is another"))
            """
        out, _ = self.run_ranks(1, program, PYTHONPATH=self.path())
        estimators = "it is of another minor version; supported of its PySpark estimators are 3.1 to 3.4 as they come"
        for version in ("3.0.5", "3.9.5"):
            self.assertIn(f"INCOMPATIBLE: XGBoost {version} isn't as expected: {estimators}", out)
        self.assertIn("its loop is another; supported are 3.0 to 3.4 as they come", out)

    def test_what_cannot_survive_is_refused_by_name_in_the_first_run(self):
        for case, code, text in [
            ("no base score", "BAD_ARGUMENT", "Give base_score"),
            ("twice", "BAD_STATE", "a second training with a rejoin.xgboost.Checkpoint begins"),
            ("carry locked", "BAD_ARGUMENT", "the callback Act can't be pickled"),
            ("carry stranger", "BAD_ARGUMENT", "carry has Remembers, which isn't among this training's callbacks"),
            ("carry durable", "BAD_ARGUMENT", "carry has 1 callbacks, but the job's checkpoints go to /"),
            ("pickled", "BAD_ARGUMENT", "TrainingCheckPoint(as_pickle=True) is among the callbacks"),
            ("unbiased", "BAD_ARGUMENT", "lambdarank_unbiased is true"),
            ("linear", "BAD_ARGUMENT", "which XGBoost doesn't distribute"),
            ("nothing", "BAD_STATE", "ends without a model: expected one xgboost.train("),
        ]:
            world = 2 if case == "linear" else 1
            with tempfile.TemporaryDirectory() as folder:
                more = ["--durable", folder, "--job", case] if case == "carry durable" else []
                _, err = self.train(case, status=4, world=world, more=more, FOLDER=folder)
            self.assertRegex(err, f"rejoin: {code}: .*{re.escape(text)}", case)

    def test_a_second_communicator_of_a_process_is_refused_and_its_training_not_skipped(self):
        out, err = self.train("two communicators", world=1, status=3)
        self.assertEqual(out.count("one is done"), 1, out)
        self.assertIn("RejoinError: BAD_STATE: the job of this process has ended", err)


class Hooked(Trained):
    """XGBoost 3.4: the wheel exports what the hook needs; a Booster goes on."""

    version = "3.4.1"

    def test_ranks_that_are_killed_come_back_alone_and_the_model_of_sampled_rows_is_stocks(self):
        self.same_as_stock(
            "sampled", "rank=1,version=1,seqno=9", "rank=0,version=boot,seqno=1", restarts=2, hooked=True
        )

    def test_a_second_run_goes_on_from_the_durable_checkpoints_of_one_that_died(self):
        self.goes_on_in_a_second_run("sampled")

    def test_a_rank_that_comes_back_has_what_its_booster_was_begun_with(self):
        for case in ("continued", "warm"):
            with self.subTest(case=case):
                self.same_as_stock(case, restarts=1, hooked=True, ACT="kill:1:7")


class Estimators(Trained):
    """XGBoost's estimators in scikit-learn's form, which give all parameters that they have, most of them `None`."""

    version = "3.4.1"
    folders = ("common", "estimators")

    def test_a_regressor_whose_rank_is_killed_has_the_model_of_stocks(self):
        self.same_as_stock("estimator", restarts=1, hooked=True, ACT="kill:1:7")


class UnderMpirun(Trained):
    """A launcher that isn't ours: a tracker, and `mpirun`, whose tasks are `rejoin run --join`."""

    version = "3.4.1"

    def test_a_rank_that_dies_in_a_round_is_started_again_below_its_task_and_the_model_is_stocks(self):
        rejoin = os.environ.get("REJOIN_COMMAND", "rejoin")
        variables = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "ACT": "kill:1:7"}
        environment = dict(os.environ, PYTHONPATH=self.path(), OMP_NUM_THREADS="1", **variables)
        with tempfile.TemporaryDirectory() as folder:
            join = os.path.join(folder, "join")
            job = ["--job", "mpirun", "-n", str(WORLD), "--join", join, "--listen", "127.0.0.1"]
            with open(os.path.join(folder, "log"), "w") as log:
                tracker = subprocess.Popen([rejoin, "tracker", *job], stdout=log, stderr=log)
            self.addCleanup(tracker.wait)
            self.addCleanup(tracker.kill)
            deadline = time.monotonic() + 60
            while not os.path.exists(join):
                said = pathlib.Path(folder, "log").read_text()
                self.assertTrue(tracker.poll() is None and time.monotonic() < deadline, said)
                time.sleep(0.01)  # Between two looks; the deadline decides, not this.
            task = [rejoin, "run", "--join", join, "--rank", "auto", "--restart", "--timeout", "50s"]
            ended = subprocess.run(
                ["mpirun", "--oversubscribe", "-n", str(WORLD), *task, "--", sys.executable, str(PROGRAM), "sampled"],
                env=environment,
                capture_output=True,
                text=True,
                timeout=90,
            )
            self.assertEqual(ended.returncode, 0, f"\n{ended.stdout}\n{ended.stderr}")
            self.assertEqual(tracker.wait(timeout=30), 0)
        self.assertEqual(ended.stderr.count("died (SIGKILL)"), 1, ended.stderr)
        self.assertEqual(self.told(ended.stdout), self.stock_of("sampled"), ended.stderr)


class LongRun(Trained):
    """Two deaths in each kind of training, and more."""

    def all_kinds(self, version, hooked, *kinds):
        self.version = version
        all_kinds = "best rates approx poisson dart metric objective sketched quantile continued warm"
        for kind in [*all_kinds.split(), "continued sketched", *kinds]:
            with self.subTest(kind=kind, version=version):
                act = "kill:1:3,kill:0:6" if kind == "best" else "kill:1:7,kill:0:12"  # it stops after 7 rounds
                self.same_as_stock(kind, restarts=2, hooked=hooked, ACT=act)

    def test_every_kind_of_training_gives_stocks_model_through_the_bridge(self):
        self.all_kinds("3.2.0", False)

    def test_every_kind_of_training_gives_stocks_model_through_the_hook(self):
        self.all_kinds("3.4.1", True, "sampled")

    def test_sampled_rows_in_an_older_xgboost_give_the_model_of_the_same_rhythm_whoever_dies(self):
        self.version = "3.2.0"
        undisturbed = self.told(self.train("sampled")[0])
        for act in ("kill:1:7,kill:0:12", "kill:1:7,kill:2:7", "kill:0:5"):
            self.assertEqual(self.told(self.train("sampled", ACT=act)[0]), undisturbed, act)

    def test_carried_callbacks_come_back_as_they_were_wherever_they_stand(self):
        for self.version, hooked in (("3.2.0", False), ("3.4.1", True)):
            # In version 4 the training has ended.
            late = [] if hooked else ["rank=2,version=4,at=bytes:0"]
            act = "kill:1:2,kill:0:15"
            self.same_as_stock("carried last", *late, restarts=2 + len(late), hooked=hooked, ACT=act)

    def test_files_of_former_rounds_are_stocks_after_a_restart(self):
        for self.version, hooked in (("3.2.0", False), ("3.4.1", True)):
            with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
                Trained.stock.clear()
                self.stock_of("files", FOLDER=theirs)
                self.same_as_stock("files", restarts=1, hooked=hooked, FOLDER=ours, ACT="kill:0:8")
                found = [{file.name: file.read_bytes() for file in pathlib.Path(at).iterdir()} for at in (ours, theirs)]
                self.assertGreater(len(found[1]), 3)
                self.assertEqual(found[0], found[1])

    def test_other_refusals_and_failures_end_the_job_with_their_reason(self):
        self.version = "3.2.0"
        for case, code, text, world in [
            ("gpu", "BAD_ARGUMENT", 'device is "cuda', 1),
            ("labels", "TRAINING_FAILED", "XGBoost failed at rank", 2),
            ("disagree", "TRAINING_FAILED", "ranks disagree whether to stop after round 6", 2),
        ]:
            _, err = self.train(case, status=4, world=world)
            self.assertRegex(err, f"rejoin: {code}: .*{re.escape(text)}", case)
        _, err = self.train("asks", status=4, world=2, ACT="kill:1:7")
        text = "BAD_STATE: rank 1.*a callback asks for predict of the model in round 0, which rank 1 passes over"
        self.assertRegex(err, text)

    def test_a_newer_xgboost_gives_stocks_model_through_the_bridge_where_that_is_asked_for(self):
        self.version = "3.4.1"
        self.same_as_stock("sampled", "rank=1,version=1,at=bytes:2000", restarts=1, HOOK="off")


class Guide(Trained):
    """What docs/guides/python-xgboost.md shows is what runs."""

    version = "3.2.0"

    def test_the_guides_program_survives_by_the_guides_own_commands_with_one_model(self):
        guide = (ROOT / "docs" / "guides" / "python-xgboost.md").read_text()
        blocks = re.findall(r"^```(\S+)(?: file=(\S+))?\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
        commands = [text for kind, _, text in blocks if kind == "sh"]
        models, deaths = [], []
        with tempfile.TemporaryDirectory() as folder:
            for name, target in (("rejoin", os.environ["REJOIN_COMMAND"]), ("python3", sys.executable)):
                link = pathlib.Path(folder, name)
                link.write_text(f'#!/bin/sh\nexec "{target}" "$@"\n')
                link.chmod(0o755)
            for kind, file, text in blocks:
                if file:
                    pathlib.Path(folder, file).write_text(text)
            path = os.pathsep.join([folder, os.environ["PATH"]])
            environment = dict(os.environ, PATH=path, PYTHONPATH=self.path(), OMP_NUM_THREADS="1")
            for command in commands:
                ended = subprocess.run(
                    command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=60
                )
                self.assertEqual(ended.returncode, 0, f"{command}\n{ended.stdout}\n{ended.stderr}")
                models += re.findall(r"the model of \d+ rounds is \w+", ended.stdout)
                deaths.append(ended.stderr.count(" died (SIGKILL)"))
                self.assertTrue(pathlib.Path(folder, "model.ubj").is_file())
        self.assertEqual(deaths, [0, 2, 0], "undisturbed, killed, with a durable folder")
        self.assertEqual(len(models), 9)
        self.assertEqual(len(set(models)), 1, models)


if not LONG:
    del LongRun


if __name__ == "__main__":
    unittest.main()
