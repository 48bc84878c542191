"""A session of Spark whose executors are processes of their own, one for all tests of a process."""

import atexit
import functools
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
VERSION = next(
    line.split("'")[1] for line in (ROOT / "build.gradle").read_text().splitlines() if "ext.spark35Version" in line
)
SPARK = ROOT / "build" / f"spark-{VERSION}"
FOLDERS = [
    ROOT / "python",
    *(ROOT / "build" / "python" / name for name in ("arrow", "xgboost-3.2.0")),
    SPARK / "python",
]
PYTHONPATH = os.pathsep.join(map(str, [*FOLDERS, *(SPARK / "python" / "lib").glob("py4j-*.zip")]))
JARS = [
    str(jar)
    for pattern in ("jvm-core/build/libs/rejoin-core-*.jar", "jvm-spark/build/libs/rejoin-spark_2.12-*.jar")
    for jar in ROOT.glob(pattern)
]
WORLD = 3


@functools.lru_cache(maxsize=None)
def session():
    """One executor more than ranks."""
    missing = [str(folder) for folder in [SPARK, *FOLDERS] if not folder.is_dir()]
    if missing or len(JARS) != 2:
        raise AssertionError(
            f"expected {missing or 'one jar of each kind'}; make it: scripts/python-spark.sh {sys.executable}, "
            f"scripts/python-xgboost.sh {sys.executable}, gradle :jvm-core:jar :jvm-spark:jar; saw the jars {JARS}"
        )
    sys.path[:0] = PYTHONPATH.split(os.pathsep)
    os.environ.update(SPARK_HOME=str(SPARK), PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    from pyspark.sql import SparkSession

    import rejoin.spark

    builder = SparkSession.builder.master(f"local-cluster[{WORLD + 1},1,1024]").config("spark.ui.enabled", "false")
    builder.config("spark.ui.showConsoleProgress", "false")
    builder.config("spark.rejoin.members.timeout", "30s")  # what waits for a rank in vain fails
    for name, value in {"PYTHONPATH": PYTHONPATH, "REJOIN_LIBRARY": os.environ["REJOIN_LIBRARY"]}.items():
        builder.config(f"spark.executorEnv.{name}", value)
    spark = rejoin.spark.configure(builder, JARS).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    atexit.register(spark.stop)
    return spark


def dies(how):
    """What a rank does to itself."""
    import signal
    import time

    def die():
        daemon = os.getppid()
        if how == "worker":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "executor":
            with open(f"/proc/{daemon}/stat") as stat:
                os.kill(int(stat.read().rsplit(")", 1)[1].split()[1]), signal.SIGKILL)
        elif how == "frozen":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif how == "raises":
            raise ValueError("once")
        time.sleep(60)  # until the signal is there

    return die
