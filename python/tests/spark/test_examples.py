"""Examples of training loops, run to their ends with and without the kill of a rank. torch is Debian's
python3-torch, or whatever this Python has; scripts/python-spark.sh PYTHON torch gets what is missing."""

import os
import re
import subprocess
import sys
import unittest

from .cluster import JARS, PYTHONPATH, ROOT, SPARK

# The example as it stands, with these jars; rank 1's first life ends where it has made so many allreduces.
PROGRAM = """if True:
    import functools, os, runpy, signal, sys
    import rejoin.spark

    run, last = rejoin.spark.run, int(sys.argv[3])
    rejoin.spark.configure = functools.partial(rejoin.spark.configure, jars=sys.argv[2].split(","))

    def dying(train):
        def rank(ranks, *arguments):
            allreduce, calls = ranks.allreduce, []

            def counting(*given, **named):
                calls.append(1)
                if (ranks.rank, ranks.incarnation, len(calls)) == (1, 0, last):
                    os.kill(os.getpid(), signal.SIGKILL)
                return allreduce(*given, **named)

            ranks.allreduce = counting
            print("life", ranks.incarnation, "began")
            return train(ranks, *arguments)

        return rank

    rejoin.spark.run = lambda train, **more: run(dying(train), **more)
    runpy.run_path(sys.argv[1], run_name="__main__")
"""


class AnExample(unittest.TestCase):
    def run_with_a_death_at(self, call, name, path):
        """What the example says."""
        environment = dict(os.environ, PYTHONPATH=path, SPARK_HOME=str(SPARK), SPARK_LOCAL_IP="127.0.0.1")
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, ROOT / "examples/pyspark" / name, ",".join(JARS), str(call)],
            env=dict(environment, PYSPARK_PYTHON=sys.executable),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        self.assertEqual(ended.returncode, 0, ended.stdout)
        return ended.stdout

    def says_the_same_with_deaths_at(self, calls, name, passes, path=PYTHONPATH):
        undisturbed = self.run_with_a_death_at(0, name, path)
        self.assertRegex(
            undisturbed, rf"(?m)^after {passes} passes 9\d\.\d % are right, say all 3 ranks\nthe model is \w{{64}}$"
        )
        for call in calls:
            with self.subTest(call=call):
                disturbed = self.run_with_a_death_at(call, name, path)
                self.assertIn("[rank 1] life 1 began", disturbed)
                self.assertEqual(self.results(disturbed), self.results(undisturbed))

    @staticmethod
    def results(said):
        return re.findall(r"(?m)^(?:after|the model is) .*$", said)


class OfScikitLearn(AnExample):
    def test_says_the_same_whether_or_not_a_rank_is_killed_in_the_first_pass_or_a_later_one(self):
        self.says_the_same_with_deaths_at((1, 12), "partial_fit.py", 20)


class OfPyTorch(AnExample):
    def setUp(self):
        found = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, text=True, timeout=120)
        if found.returncode != 0:
            said = found.stderr.strip().splitlines()[-1]
            self.skipTest(f"{sys.executable} has no torch ({said}); Debian's package is python3-torch")

    def test_says_the_same_whether_or_not_a_rank_is_killed_among_the_gradients_of_a_step(self):
        # torch from before 2.3 takes no numpy 2.
        path = os.pathsep.join([str(ROOT / "build/python/torch"), PYTHONPATH])
        # In the first step of all, and amidst the passes.
        self.says_the_same_with_deaths_at((2, 300), "pytorch.py", 15, path)


del AnExample
