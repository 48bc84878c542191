"""A session of Spark Connect, which has no JVM of its own for ranks; with the packages that
scripts/python-spark.sh gets for it."""

import os
import subprocess
import sys
import unittest

from .cluster import PYTHONPATH, ROOT, SET, SPARK

PROGRAM = """
import rejoin
import rejoin.spark
from pyspark.sql import SparkSession
from xgboost.spark import SparkXGBRegressor

rows = SparkSession.builder.remote("local[1]").getOrCreate().range(4)
jobs = {
    "a function": lambda: rejoin.spark.run(lambda ranks: None),
    "a function of rows": lambda: rejoin.spark.run(lambda ranks, rows: None, data=rows),
    "a fit": lambda: rejoin.spark.RejoinEstimator(SparkXGBRegressor(num_workers=1)).fit(rows),
}
for name, job in jobs.items():
    try:
        job()
    except rejoin.RejoinError as refused:
        print(f"{name}: {refused}", flush=True)
"""


@unittest.skipUnless(SET == "spark41", "PyPI's Spark 3.5 has no server of Spark Connect")
class ASessionOfSparkConnect(unittest.TestCase):
    def test_is_refused_with_the_remedy(self):
        folder = ROOT / "build/python/connect"
        self.assertTrue(folder.is_dir(), f"make it: SPARK_SET=spark41 scripts/python-spark.sh {sys.executable} connect")
        environment = dict(
            os.environ,
            PYTHONPATH=os.pathsep.join([str(folder), PYTHONPATH]),
            SPARK_HOME=str(SPARK),
            SPARK_LOCAL_IP="127.0.0.1",
            PYSPARK_PYTHON=sys.executable,
        )
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120
        )
        remedy = "Spark Connect is not supported: run this where the SparkContext is, with a classic session"
        names = ("a function", "a function of rows", "a fit")
        refused = [line for line in ended.stdout.splitlines() if "SparkConnect" not in line]
        self.assertEqual(refused, [f"{name}: BAD_ARGUMENT: {remedy}" for name in names], ended.stderr)


if __name__ == "__main__":
    unittest.main()
