"""What a terminal shows of a fit while it trains."""

import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile
import threading
import unittest

from .cluster import JARS, PYTHONPATH, SPARK


class ATerminal(unittest.TestCase):
    def test_shows_how_many_rounds_of_how_many_an_estimator_has_trained_and_its_metric_and_in_the_end_a_summary(self):
        with tempfile.TemporaryDirectory() as folder:
            seen = pathlib.Path(folder) / "seen"
            program = f"""if True:
                import pathlib, time
                import rejoin.spark
                from pyspark.sql import SparkSession
                from xgboost.callback import TrainingCallback
                from xgboost.spark import SparkXGBClassifier

                class Waits(TrainingCallback):
                    def before_iteration(self, model, epoch, evals_log):
                        deadline = time.monotonic() + 60
                        while epoch == 21 and not pathlib.Path("{seen}").exists() and time.monotonic() < deadline:
                            time.sleep(0.05)  # between two looks
                        return False

                builder = SparkSession.builder.master("local[2,2]").config("spark.ui.enabled", "false")
                spark = rejoin.spark.configure(builder, {JARS}).getOrCreate()
                rows = spark.range(200).selectExpr("CAST(id AS double) AS x", "id % 2 AS label")
                stock = SparkXGBClassifier(num_workers=2, n_estimators=30, features_col=["x"], callbacks=[Waits()])
                rejoin.spark.RejoinEstimator(stock).fit(rows)"""
            environment = dict(os.environ, PYTHONPATH=PYTHONPATH, SPARK_HOME=str(SPARK), PYSPARK_PYTHON=sys.executable)
            terminal, its_end = pty.openpty()
            driver = subprocess.Popen(
                [sys.executable, "-c", program], env=environment, stdout=subprocess.DEVNULL, stderr=its_end
            )
            os.close(its_end)
            self.addCleanup(os.close, terminal)
            self.addCleanup(driver.kill)
            watchdog = threading.Timer(180, driver.kill)
            watchdog.start()
            self.addCleanup(watchdog.cancel)
            shown = ""
            while True:
                try:
                    more = os.read(terminal, 4096).decode(errors="replace")
                except OSError:  # the last process with the other end of it has gone
                    break
                if not more:
                    break
                shown += more
                # As of the last checkpoint before round 21, which is each tenth or by sizes.
                if re.search(r"\b(1\d|2[01])/30 rounds, training-logloss [01]\.\d+, 2/2 ranks", shown):
                    seen.touch()
            self.assertEqual(driver.wait(), 0, shown[-3000:])
            self.assertTrue(seen.exists(), shown[-3000:])
            # Spark's bar of stages is away meanwhile; should a thread of ours be late, it shows once and is cleared.
            meanwhile = shown[shown.index("[Job ") : shown.rindex("[Job ")]
            self.assertLess(meanwhile.count("[Stage "), meanwhile.count("[Job "), meanwhile[-3000:])
            summaries = re.findall(r"Job \w{8}: ended at .*", shown)
            self.assertEqual(len(summaries), 1, shown[-3000:])
            ended = r"ended at version \d+ \(round 30\) after [\d.]+ s and 0 deaths; training-logloss [01]\.\d+"
            self.assertRegex(summaries[0], ended)
