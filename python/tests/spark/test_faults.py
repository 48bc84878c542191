"""The table of faults for `RejoinEstimator`: who is hit, and when. Each training gives stock's model, byte
for byte, and each fault leaves signs that it struck, without which its cell fails."""

import contextlib
import functools
import os
import pathlib
import signal
import tempfile
import threading
import time

from .cluster import set_for_now
from .test_estimator import ROUNDS, TheSameModelOf
from .victims import always_raising, in_a_collective, in_round, outside_of_rounds, telling, while_rows_are_computed

# A cell takes 2 to 15 s, where nothing else runs.
LIMIT_SECONDS = 150
MIDDLE, LAST = ROUNDS // 2, ROUNDS - 1


class Faults(TheSameModelOf):
    @contextlib.contextmanager
    def cell(self, name):
        """A folder for signs. What takes too long in here is cancelled, and so fails under this name."""
        self.stock("SparkXGBClassifier")  # the first fit waits for the session's executors
        late = threading.Event()

        def end():
            late.set()
            self.spark.sparkContext.cancelAllJobs()

        watchdog = threading.Timer(LIMIT_SECONDS, end)
        watchdog.start()
        began = time.monotonic()
        try:
            with self.subTest(name), tempfile.TemporaryDirectory() as signs:
                yield signs
                self.assertFalse(late.is_set(), "it ended only when it was cancelled")
        finally:
            watchdog.cancel()
            print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)

    def survived(self, signs, *callbacks, lost, struck=None, rows=None, kind="SparkXGBRegressor", **parameters):
        """Ours gives stock's model. ``lost``: the ranks that the tracker has seen die, each time;
        ``struck``: how many deaths left a sign, if others."""
        common = {"label_col": "number", "weight_col": "weight", "validation_indicator_col": "held_out"}
        parameters = {**(common if kind == "SparkXGBRegressor" else {}), **parameters}
        self.stock(kind, **parameters)
        before, self.rows = self.rows, self.rows if rows is None else rows
        try:
            with self.losing(*lost), set_for_now(self.spark, checkpoint_rounds=4):
                model = self.same(kind, *callbacks, **parameters)
        finally:
            self.rows = before
        expected = len(lost) if struck is None else struck
        self.assertEqual(len(list(pathlib.Path(signs).iterdir())), expected, "deaths that left a sign")
        return model


class OfWorkersAndExecutors(Faults):
    def each(self, moment, deaths, *more, **expected):
        """A cell for a Python worker, one for an executor, and these more. ``deaths``: the callbacks by which it
        comes to them, of a folder and of what happens."""
        for how in ("worker", "executor", *more):
            with self.cell(f"{how}, {moment}") as signs:
                self.survived(signs, *deaths(signs, how), **expected)

    def test_one_that_is_killed_while_the_rows_are_computed_that_ranks_are_to_have(self):
        for how in ("worker", "executor"):
            with self.cell(f"{how}, while rows are computed") as signs:
                column = while_rows_are_computed(signs, how, self.rows["weight"])
                self.survived(signs, lost=[], struck=1, rows=self.rows.withColumn("weight", column))

    def test_one_that_is_killed_before_its_rank_joins(self):
        self.each("before it joins", lambda *to: [outside_of_rounds(*to, "joining", LAST)], lost=[], struck=1)

    def test_one_that_is_killed_while_data_is_loaded(self):
        self.each("while data is loaded", lambda *to: [outside_of_rounds(*to, "loading", LAST)], lost=[1])

    def test_one_that_is_killed_amidst_the_construction_of_its_matrix(self):
        self.each("in its matrix", lambda *to: [outside_of_rounds(*to, "matrix", LAST)], lost=[1])

    def test_one_that_is_killed_or_frozen_or_raises_in_the_first_a_middle_or_the_last_round(self):
        for round_ in (0, MIDDLE, LAST):
            deaths = functools.partial(self.in_round, round_)
            self.each(f"round {round_} of {ROUNDS}", deaths, "frozen", "raises", lost=[1])

    @staticmethod
    def in_round(round_, signs, how, rank=1):
        return [in_round(signs, how, round_, rank=rank)]

    def test_an_executor_that_freezes_after_its_python_worker_has_all_rows(self):
        with self.cell("frozen executor, middle round") as signs:
            try:
                self.survived(signs, in_round(signs, "frozen executor", MIDDLE), lost=[], struck=1)
            finally:
                for sign in pathlib.Path(signs).iterdir():
                    os.kill(int(sign.read_text().split()[2]), signal.SIGKILL)

    def test_one_that_is_killed_after_the_last_round(self):
        self.each("after the last round", lambda *to: [outside_of_rounds(*to, "end", LAST)], lost=[1])

    def test_one_that_is_killed_or_frozen_inside_a_collective(self):
        self.each("inside a collective", lambda *to: [in_a_collective(*to, MIDDLE)], "frozen", lost=[1])

    def test_one_whose_rank_is_killed_twice(self):
        def twice(*to):
            return [in_round(*to, MIDDLE), in_round(*to, MIDDLE + 1, life=1)]

        self.each("twice", twice, lost=[1, 1])

    def test_two_that_are_killed_at_once(self):
        self.each("two at once", lambda *to: [in_round(*to, MIDDLE, rank, together=2) for rank in (1, 2)], lost=[1, 2])

    def test_that_of_rank_0_in_the_first_a_middle_or_the_last_round(self):
        for round_ in (0, MIDDLE, LAST):
            self.each(f"rank 0, round {round_}", functools.partial(self.in_round, round_, rank=0), lost=[0])

    def test_one_that_is_killed_before_and_after_the_best_round_of_a_training_that_stops_early(self):
        stops = {"n_estimators": 60, "learning_rate": 0.7, "early_stopping_rounds": 4}
        parameters = {**stops, "eval_metric": "logloss", "validation_indicator_col": "held_out"}
        best = self.stock("SparkXGBClassifier", **parameters).get_booster().best_iteration
        self.assertTrue(2 < best < 50, best)
        for round_ in (best - 1, best + 2):
            deaths = functools.partial(self.in_round, round_)
            name = f"round {round_}, the best is {best}"
            self.each(name, deaths, lost=[1], kind="SparkXGBClassifier", **parameters)


class EndedByOthers(Faults):
    """A fit that ends otherwise leaves a session in which the next one gives stock's model."""

    def ended(self, name, end, expected, code=None):
        """A long fit, on which this is done once it has trained for some rounds, ends so within five seconds."""
        with self.cell(name) as signs:
            sign, times = pathlib.Path(signs) / "began", []

            def wait_and_end():
                deadline = time.monotonic() + 60
                while not sign.exists() and time.monotonic() < deadline:
                    time.sleep(0.05)  # between two looks
                times.append(time.monotonic())
                end()

            ender = threading.Thread(target=wait_and_end)
            ender.start()
            try:
                with self.assertRaises(expected) as raised:
                    estimator = self.estimator(
                        "SparkXGBClassifier", n_estimators=100_000, callbacks=[telling(signs, 3)]
                    )
                    self.fit(estimator)
                self.assertLess(time.monotonic() - times[0], 5)
            finally:
                ender.join()
            self.assertTrue(sign.exists())
            if code is not None:
                self.assertEqual(raised.exception.code.name, code)
            self.same("SparkXGBClassifier")

    def test_one_whose_job_group_is_cancelled_ends_with_that_code(self):
        context = self.spark.sparkContext
        context.setJobGroup("to be cancelled", "a fit that takes too long")
        try:
            cancel = functools.partial(context.cancelJobGroup, "to be cancelled")
            self.ended("its job group is cancelled", cancel, self.rejoin.RejoinError, "CANCELLED")
        finally:
            context.setJobGroup("others", "")

    def test_one_that_is_interrupted_as_by_ctrl_c_or_a_notebook_ends_with_keyboard_interrupt(self):
        self.ended("Ctrl-C", lambda: os.kill(os.getpid(), signal.SIGINT), KeyboardInterrupt)

    def test_a_callback_that_raises_at_every_try_ends_the_fit_with_its_traceback(self):
        with self.cell("always raises"):
            with self.assertRaises(self.rejoin.RejoinError) as raised:
                self.fit(self.estimator("SparkXGBClassifier", callbacks=[always_raising()]))
            self.assertEqual(raised.exception.code.name, "UNRECOVERABLE")
            self.assertIn("ZeroDivisionError: a mistake in a callback", raised.exception.text)
            self.same("SparkXGBClassifier")


del Faults, TheSameModelOf
