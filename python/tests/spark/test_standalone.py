"""A program that `spark-submit` starts on a standalone cluster: a master, and a worker for each
executor, as processes of their own."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

from .cluster import JARS, PYTHONPATH, SPARK, WORLD

LIMIT_SECONDS = 180

PROGRAM = """
import os
import signal
import time

import numpy as np
import rejoin.spark
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.range(0, 3000, 1, 3).selectExpr("id", "id % 7 AS number")


def summed(ranks, rows, dies):
    version, model = ranks.load()
    total = np.zeros(1) if model is None else np.frombuffer(model).copy()
    mine = rows.to_pandas()["number"].sum()
    for step in range(version, 12):
        if (ranks.incarnation, step, ranks.rank) in dies:
            process = os.getpid() if ranks.rank == 1 else executor()
            os.kill(process, signal.SIGKILL)
            time.sleep(60)  # an executor's Python worker outlives it for a while
        total += ranks.allreduce(np.array([float(mine + step)]))
        ranks.checkpoint(total)
    return float(total[0]), ranks.incarnation


def executor():
    # The parent of what has forked this Python worker.
    with open(f"/proc/{os.getppid()}/stat") as stat:
        return int(stat.read().rsplit(")", 1)[1].split()[1])


for dies in ([], [(0, 5, 1), (0, 9, 2)]):
    print("results", rejoin.spark.run(summed, args=(dies,), num_proc=3, data=rows), flush=True)
"""


class AProgramThatIsSubmitted(unittest.TestCase):
    def started(self, name, pattern, *arguments):
        """Starts one of Spark's own processes, and waits for what it says in its log."""
        log = self.folder / f"{name}.log"
        with open(log, "w") as output:
            command = [str(SPARK / "bin" / "spark-class"), *arguments]
            process = subprocess.Popen(
                command, env=self.environment, stdout=output, stderr=output, start_new_session=True
            )
        self.addCleanup(process.wait)
        self.addCleanup(lambda: process.poll() is None and os.killpg(process.pid, signal.SIGKILL))
        deadline = time.monotonic() + LIMIT_SECONDS
        while not (found := re.search(pattern, log.read_text())):
            self.assertTrue(process.poll() is None and time.monotonic() < deadline, log.read_text())
            time.sleep(0.05)  # between two looks
        return found.group(1)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rejoin-standalone-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = dict(
            os.environ,
            PYTHONPATH=PYTHONPATH,
            SPARK_HOME=str(SPARK),
            SPARK_LOCAL_IP="127.0.0.1",
            SPARK_WORKER_DIR=str(self.folder / "work"),
            SPARK_LOCAL_DIRS=str(self.folder),
            PYSPARK_PYTHON=sys.executable,
        )

    def test_has_the_same_results_when_a_worker_and_an_executor_are_killed(self):
        at = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = self.started("master", r"(spark://127\.0\.0\.1:\d+)", "org.apache.spark.deploy.master.Master", *at)
        worker = ["org.apache.spark.deploy.worker.Worker", *at, "--cores", str(WORLD + 1), "--memory", "4g", master]
        self.started("worker", "(Successfully registered with master)", *worker)
        program = self.folder / "program.py"
        program.write_text(textwrap.dedent(PROGRAM))
        settings = {"spark.executor.cores": "1", "spark.executor.memory": "512m", "spark.ui.enabled": "false"}
        for name in ("PYTHONPATH", "REJOIN_LIBRARY"):
            settings[f"spark.executorEnv.{name}"] = self.environment[name]
        submit = [str(SPARK / "bin" / "spark-submit"), "--master", master, "--jars", ",".join(JARS)]
        for name, value in settings.items():
            submit += ["--conf", f"{name}={value}"]
        output, log = self.folder / "output", self.folder / "log"
        with open(output, "w") as out, open(log, "w") as err:
            try:
                ended = subprocess.run(
                    [*submit, str(program)], env=self.environment, stdout=out, stderr=err, timeout=LIMIT_SECONDS
                )
            except subprocess.TimeoutExpired:
                self.fail(f"it doesn't end within {LIMIT_SECONDS} s:\n{output.read_text()}\n{log.read_text()}")
        self.assertEqual(ended.returncode, 0, log.read_text())
        undisturbed, killed = (eval(line) for line in re.findall("(?m)^results (.*)$", output.read_text()))
        self.assertEqual([lives for _, lives in undisturbed], [0, 0, 0])
        self.assertEqual([lives for _, lives in killed], [0, 1, 1], output.read_text() + log.read_text())
        self.assertEqual(len({total for total, _ in undisturbed + killed}), 1, output.read_text())


if __name__ == "__main__":
    unittest.main()
