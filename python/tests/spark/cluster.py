"""A session of Spark whose executors are processes of their own, one for all tests of a process."""

import atexit
import contextlib
import functools
import os
import pathlib
import re
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Which Spark, and with it which Scala; which XGBoost.
SET = os.environ.get("SPARK_SET", "spark35")
XGBOOST = os.environ.get("XGBOOST") or {"spark35": "3.2.0", "spark41": "3.4.1"}[SET]
SCALA = {"spark35": "2.12", "spark41": "2.13"}[SET]
VERSION = next(
    line.split("'")[1] for line in (ROOT / "build.gradle").read_text().splitlines() if f"ext.{SET}Version" in line
)
SPARK = ROOT / "build" / f"spark-{VERSION}"
FOLDERS = [
    ROOT / "python",
    *(ROOT / "build" / "python" / name for name in ("arrow", f"xgboost-{XGBOOST}")),
    SPARK / "python",
]
PYTHONPATH = os.pathsep.join(map(str, [*FOLDERS, *(SPARK / "python" / "lib").glob("py4j-*.zip")]))
RELEASE = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE).group(1)
# Not those of sources and documentation that may be beside them.
JARS = [
    str(ROOT / f"{module}/build/libs/{name}-{RELEASE}.jar")
    for module, name in [("jvm-core", "rejoin-core"), ("jvm-spark", f"rejoin-spark_{SCALA}")]
]
WORLD = 3


@functools.lru_cache(maxsize=None)
def work_folder():
    """Where the session's event log and its scratch space are."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="rejoin-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.lru_cache(maxsize=None)
def session(executors=WORLD + 1, decommissions=False):
    """One executor more than ranks, so that one that dies is replaced at once."""
    missing = [str(path) for path in [SPARK, *FOLDERS, *map(pathlib.Path, JARS)] if not path.exists()]
    if missing:
        raise AssertionError(
            f"expected {missing}; make it: SPARK_SET={SET} scripts/python-spark.sh {sys.executable}, "
            f"scripts/python-xgboost.sh {sys.executable}, gradle :jvm-core:jar :jvm-spark:assemble"
        )
    sys.path[:0] = PYTHONPATH.split(os.pathsep)
    os.environ.update(SPARK_HOME=str(SPARK), PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    from pyspark.sql import SparkSession

    import rejoin.spark

    builder = SparkSession.builder.master(f"local-cluster[{executors},1,1024]").config("spark.ui.port", "0")
    builder.config("spark.ui.showConsoleProgress", "false")
    builder.config("spark.rejoin.members.timeout", "60s")  # what waits for a rank in vain fails
    builder.config("spark.decommission.enabled", str(decommissions).lower())
    builder.config("spark.python.worker.reuse", os.environ.get("PYTHON_WORKER_REUSE", "true"))
    for name, value in {"enabled": "true", "compress": "false", "dir": work_folder().as_uri()}.items():
        builder.config(f"spark.eventLog.{name}", value)
    builder.config("spark.local.dir", str(work_folder()))
    for name, value in {"PYTHONPATH": PYTHONPATH, "REJOIN_LIBRARY": os.environ["REJOIN_LIBRARY"]}.items():
        builder.config(f"spark.executorEnv.{name}", value)
    spark = rejoin.spark.configure(builder, JARS).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    atexit.register(spark.stop)
    return spark


@contextlib.contextmanager
def set_for_now(spark, **settings):
    """The session's settings of Rejoin, by names without ``spark.rejoin.`` and with ``_`` for dots."""
    names = {f"spark.rejoin.{name.replace('_', '.')}": str(value) for name, value in settings.items()}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in names:
            spark.conf.unset(name)


def dies(how, spare_in=None):
    """What a rank does to itself; once a spare stands by, where a folder of event logs is given. By a notice
    its executor is told that it is to go, and a frozen executor leaves its Python worker as it is."""
    import signal
    import time

    executors = {"executor": signal.SIGKILL, "frozen executor": signal.SIGSTOP, "notice": signal.SIGPWR}

    def die():
        daemon = os.getppid()
        if how == "worker":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how in executors:
            with open(f"/proc/{daemon}/stat") as stat:
                executor = int(stat.read().rsplit(")", 1)[1].split()[1])
            os.kill(executor, executors[how])
            if how != "executor":
                return
        elif how == "frozen":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif how == "raises":
            raise ValueError("once")
        time.sleep(60)  # until the signal is there

    return die if spare_in is None else once_a_spare_stands_by(spare_in, die)


def once_a_spare_stands_by(folder, die):
    """The same, when the job's event log in this folder says so."""
    import pathlib
    import time

    def stands_by():
        return any('"SpareStandsBy"' in file.read_text() for file in pathlib.Path(folder).iterdir())

    def wait_and_die():
        deadline = time.monotonic() + 60
        while not stands_by():
            if time.monotonic() > deadline:
                raise AssertionError(f"no spare stands by, as {folder} says")
            time.sleep(0.05)  # between two looks
        die()

    return wait_and_die
