"""The wheel, installed into an environment of its own as a user does it."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]

PROGRAM = """if True:
    import os, signal
    import numpy as np
    import rejoin
    with rejoin.join() as ranks:
        version, _ = ranks.load()
        if (ranks.rank, ranks.incarnation, version) == (1, 0, 0):
            os.kill(os.getpid(), signal.SIGKILL)
        total = ranks.allreduce(np.array([ranks.rank + 1.0]))
        print("total", total[0], "incarnation", ranks.incarnation, flush=True)
        ranks.finish(total)
"""


# Beside the one that runs this, each that may be found; the package's oldest first.
MINORS = [minor for minor in range(9, 16) if minor != sys.version_info.minor]


def found_python(minor):
    """One of this version that runs, on the path or among pyenv's; None if there is none."""
    kept = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    for python in [f"python3.{minor}", *sorted(kept.glob(f"versions/3.{minor}.*/bin/python3.{minor}"))]:
        try:
            if subprocess.run([python, "-c", "import venv"], stderr=subprocess.DEVNULL, timeout=60).returncode == 0:
                return str(python)
        except OSError:
            continue
    return None


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        wheels = list((ROOT / "build" / "wheel").glob("rejoin-*.whl"))
        if len(wheels) != 1:
            raise AssertionError(f"expected one wheel in build/wheel, saw {wheels}; make it: make wheel")
        cls.wheel = wheels[0]
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.bin = cls.environment(sys.executable, "environment")
        cls.installed = next(cls.bin.parent.glob("lib/python*/site-packages/rejoin"))

    @classmethod
    def environment(cls, python, name):
        """Where the programs of a fresh environment with the wheel are."""
        folder = pathlib.Path(cls.folder.name) / name
        subprocess.run([python, "-m", "venv", folder], check=True)
        install = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", cls.wheel]
        subprocess.run(install, check=True)
        return folder / "bin"

    def run_outside(self, *command, **environment):
        """Without what this process found its own package by."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("REJOIN_", "PYTHON"))}
        kept.update(environment)
        kept["PATH"] = f"{pathlib.Path(command[0]).parent}:{kept['PATH']}"
        return subprocess.run(
            command,
            env=kept,
            cwd=self.folder.name,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )


class AWheel(Installed):
    def test_it_is_for_any_python_and_any_glibc_from_2_17_on(self):
        self.assertRegex(self.wheel.name, r"^rejoin-[0-9.]+-py3-none-manylinux2014_(x86_64|aarch64)\.whl$")
        for native in ("librejoin.so", "bin/rejoin"):
            symbols = subprocess.check_output(
                ["readelf", "--version-info", "--wide", self.installed / native], text=True
            )
            minors = [int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", symbols)]
            self.assertTrue(minors)
            self.assertLessEqual(max(minors), 17, native)

    def test_its_launcher_and_its_library_carry_ranks_through_a_kill(self):
        self.survives(self.bin)

    def survives(self, programs):
        launch = [programs / "rejoin", "run", "-n", "2", "--restart", "--", programs / "python", "-c"]
        ended = self.run_outside(*launch, PROGRAM)
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertEqual(ended.stdout.count("total 3.0"), 2, ended.stdout)
        self.assertIn("incarnation 1", ended.stdout)
        imported = self.run_outside(programs / "python", "-c", "import rejoin.elastic, rejoin.spark")
        self.assertEqual(imported.returncode, 0, imported.stdout)

    def test_it_brings_the_jars_of_spark_3_and_4_and_the_licences_of_what_is_inside(self):
        jars = sorted(re.sub(r"-[0-9.]+jar$", "", jar.name) for jar in (self.installed / "jars").iterdir())
        self.assertEqual(jars, ["rejoin-core", "rejoin-spark_2.12", "rejoin-spark_2.13"])
        notices = [path.read_text() for path in self.installed.parent.glob("rejoin-*.dist-info/**/NOTICE")]
        self.assertEqual(len(notices), 1)
        self.assertIn("- crossbeam-channel ", notices[0])
        self.assertIn("- clap ", notices[0])
        self.assertIn("- Rust's standard library ", notices[0])
        self.assertIn("- LLVM's libunwind, ", notices[0])

    def test_its_extras_state_the_ranges_of_what_it_works_with(self):
        (said,) = [path.read_text() for path in self.installed.parent.glob("rejoin-*.dist-info/METADATA")]
        stated = re.findall(r"(?m)^Requires-Dist: ([a-z-]+)([^;\n]*)(?:; extra == ['\"](\w+)['\"])?$", said)
        self.assertEqual(
            sorted((extra, name) for name, limits, extra in stated),
            [
                ("", "numpy"),
                *(("spark", name) for name in ("pandas", "pyarrow", "pyspark")),
                *(("xgboost", name) for name in ("scikit-learn", "xgboost")),
            ],
        )
        self.assertTrue(all("<" in limits and ">=" in limits for _, limits, _ in stated), stated)

    def test_it_has_types_for_checkers(self):
        self.assertTrue((self.installed / "py.typed").exists())


def on_python(minor):
    def test(self):
        python = found_python(minor)
        if python is None:
            self.skipTest(f"no Python 3.{minor} on the path or among pyenv's")
        self.survives(self.environment(python, f"environment-3.{minor}"))

    return test


# A test each: a part of a test that is skipped isn't counted as one that was run.
for _minor in MINORS:
    setattr(AWheel, f"test_so_they_do_on_python_3_{_minor}_if_it_is_found", on_python(_minor))


class OnSpark(Installed):
    def run_on_spark(self, *program):
        from spark.cluster import FOLDERS, PYTHONPATH, SPARK

        path = [part for part in PYTHONPATH.split(os.pathsep) if part != str(FOLDERS[0])]
        ended = self.run_outside(
            *(self.bin / "python", *program),
            PYTHONPATH=os.pathsep.join(path),
            SPARK_HOME=str(SPARK),
            SPARK_LOCAL_IP="127.0.0.1",
        )
        self.assertEqual(ended.returncode, 0, ended.stdout)
        return ended.stdout

    def test_the_example_of_scikit_learn_runs_to_its_end(self):
        said = self.run_on_spark(ROOT / "examples/pyspark/partial_fit.py")
        self.assertRegex(said, r"after 20 passes 9\d\.\d % are right, say all 3 ranks")

    def test_the_notebook_of_the_examples_runs_to_its_end(self):
        self.run_outside(self.bin / "python", "-m", "pip", "install", "--quiet", "nbclient<1", "ipykernel<7")
        said = self.run_on_spark(
            "-c",
            f"""if True:
            import nbclient, nbformat
            notebook = nbformat.read({str(ROOT / "examples/pyspark/survives.ipynb")!r}, 4)
            nbclient.NotebookClient(notebook, timeout=120).execute()
            for cell in notebook.cells:
                for output in cell.get("outputs", []):
                    print(output.get("text") or output.get("data", {{}}).get("text/plain"))""",
        )
        self.assertIn("[rank 1] round 20 in attempt 1\n", said)
        self.assertIn("the same model: True", said)
        self.assertRegex(said, r"rank 2: .* started again 1 times")
