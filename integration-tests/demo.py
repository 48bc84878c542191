"""XGBoost's own PySpark estimator, with Rejoin and without, while a Python worker or an executor of
three is killed: one table, and one digest."""

import hashlib
import logging
import os
import pathlib
import sys
import tempfile
import time

from spark.cluster import ROOT, WORLD, dies, session

ROUNDS = int(os.environ.get("ROUNDS") or 250)
KILL = int(os.environ.get("KILL") or ROUNDS * 4 // 5)
REPEAT = 15
FEATURES = "lncoins idp lpi fmde physlm disea hlthg hlthf hlthp".split()
COLUMNS = [
    ("Rejoin", "undisturbed", None),
    ("Rejoin", "worker killed", "worker"),
    ("Rejoin", "executor killed", "executor"),
    ("stock", "undisturbed", None),
    ("stock", "worker killed", "worker"),
]


def watching(folder, kill):
    """A callback that leaves a file for each life of a rank, and kills rank 1 in its first one."""
    from xgboost.callback import TrainingCallback

    die, round_of_death = dies(kill), KILL

    class Watch(TrainingCallback):
        def before_training(self, model):
            from xgboost.collective import get_rank

            (folder / f"{get_rank()}-{os.getpid()}-{time.monotonic_ns()}").touch()
            return model

        def before_iteration(self, model, epoch, evals_log):
            from xgboost.collective import get_rank

            if kill and (get_rank(), epoch) == (1, round_of_death) and not (folder / "killed").exists():
                (folder / "killed").touch()
                die()
            return False

    return Watch()


class Run:
    """One fit: what it took, and what came of it."""

    def __init__(self, rows, survives, kill, rounds=ROUNDS):
        from py4j.protocol import Py4JJavaError
        from xgboost.spark import SparkXGBClassifier

        import rejoin.spark

        with tempfile.TemporaryDirectory() as folder:
            estimator = SparkXGBClassifier(
                num_workers=WORLD,
                n_estimators=rounds,
                max_depth=6,
                learning_rate=0.1,
                callbacks=[watching(pathlib.Path(folder), kill)],
                verbose=False,
            )
            begin, fitted = time.monotonic(), None
            try:
                fitted = (rejoin.spark.RejoinEstimator(estimator) if survives else estimator).fit(rows)
            except Py4JJavaError as failed:
                if survives or not kill or "barrier" not in str(failed):
                    raise
            self.seconds = time.monotonic() - begin
            names = [path.name for path in pathlib.Path(folder).iterdir()]
            if kill and "killed" not in names:
                raise AssertionError(f"nobody was killed in round {KILL}; the training has {rounds}")
        self.again = sum(name != "killed" for name in names) - WORLD
        self.digest = fitted and hashlib.sha256(fitted.get_booster().save_raw("ubj")).hexdigest()[:16]


def row(name, values):
    print(f"  {name:<30}" + "".join(f"{value:>17}" for value in values), flush=True)


def lost(run, kill, undisturbed):
    if not kill:
        return "-"
    return f"{run.seconds - undisturbed:.1f}" if run.digest else f"all, {run.seconds:.1f}"


def main():
    spark = session(executors=WORLD)
    logging.getLogger("XGBoost-PySpark").setLevel(logging.WARNING)
    from pyspark.ml.feature import VectorAssembler

    columns = ", ".join(f"{name} DOUBLE" for name in ["mdvis", *FEATURES])
    table = spark.read.csv(str(ROOT / "integration-tests/data/randhie.csv"), columns, header=True)
    table = table.selectExpr("*", f"explode(sequence(1, {REPEAT})) AS copy", "CAST(mdvis > 0 AS int) AS label")
    rows = VectorAssembler(inputCols=FEATURES, outputCol="features").transform(table)
    rows = rows.select("features", "label")  # one partition, so that its shuffle has one order
    print(f"{rows.count():,} rows, {WORLD} executors, {ROUNDS} rounds; rank 1 is killed in round {KILL}", flush=True)
    for survives in (True, False):  # JVMs, workers and imports are warm then
        Run(rows, survives, None, rounds=3)

    runs = []
    for whose, what, kill in COLUMNS:
        runs.append(Run(rows, whose == "Rejoin", kill))
        print(f"  {whose}, {what}: {runs[-1].seconds:.1f} s", flush=True)
    # Spark doesn't repeat a barrier stage that gives results: the stock fit ends when a worker dies, and has to be
    # called again.
    undisturbed = {whose: run.seconds for (whose, _, kill), run in zip(COLUMNS, runs) if not kill}
    print()
    row("", [whose for whose, _, _ in COLUMNS])
    row("", [what for _, what, _ in COLUMNS])
    row("model, SHA-256", [run.digest or "none, it fails" for run in runs])
    row("whole fit, seconds", [f"{run.seconds:.1f}" for run in runs])
    row(
        "seconds lost by the kill",
        [lost(run, kill, undisturbed[whose]) for (whose, _, kill), run in zip(COLUMNS, runs)],
    )
    row("ranks that began again", [f"{run.again} of {WORLD}" if run.digest else "-" for run in runs])
    same = len({run.digest for run in runs if run.digest}) == 1 and all(run.digest for run in runs[:4])
    print("\n" + ("one model, byte for byte" if same else "THE MODELS DIFFER"), flush=True)
    sys.exit(0 if same else 1)


main()
