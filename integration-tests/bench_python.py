"""Whole fits of XGBoost's PySpark estimator, ours and stock's in turn: time, memory, and how long a
killed Python worker keeps the others waiting. One JSON line per figure (scripts/bench-python.sh)."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

from spark.cluster import ROOT, SET, WORLD, XGBOOST, dies, session

PAIRS = int(os.environ.get("PAIRS") or 9)
# Rows, columns, rounds.
SHAPES = {"20k x 10": (20_000, 10, 100), "1M x 28": (1_000_000, 28, 60)}
TIME_BAR = {"3.2.0": 1.08, "3.4.1": 1.00}[XGBOOST]
MEMORY_BAR, GAP_BAR = 1.10, 2500


def figure(config, unit, ours, theirs, bar):
    ours, theirs = ([round(value, 3) for value in values] for values in (ours, theirs))
    name = f"{config}, XGBoost {XGBOOST}"
    line = {"bench": "pyspark", "config": name, "unit": unit, "ours": ours, "peer": "stock", "theirs": theirs}
    print(json.dumps({**line, "bar": bar}), flush=True)


def table(spark, shape):
    """In Parquet, three files of it, made once."""
    rows, columns, _ = SHAPES[shape]
    path = ROOT / "build/bench" / f"pyspark-{rows}-{columns}"
    if not (path / "_SUCCESS").exists():
        values = ", ".join(f"(xxhash64(id, {column}) % 100000) / 100000.0D" for column in range(columns))
        label = (
            "CAST(features[0] * features[1] + 0.5 * features[2] + pmod(hash(id), 100) / 400.0 > 0.1 AS int) AS label"
        )
        made = spark.range(0, rows, 1, WORLD).selectExpr("id", f"array({values}) AS features")
        made.selectExpr("features", label).write.mode("overwrite").parquet(str(path))
    return spark.read.parquet(str(path))


def fit(rows, shape, survives, callback=None):
    """Its seconds."""
    from xgboost.spark import SparkXGBClassifier

    import rejoin.spark

    callbacks = [callback] if callback else None
    stock = SparkXGBClassifier(
        num_workers=WORLD, n_estimators=SHAPES[shape][2], max_depth=6, callbacks=callbacks, verbose=False
    )
    begin = time.monotonic()
    (rejoin.spark.RejoinEstimator(stock) if survives else stock).fit(rows)
    return time.monotonic() - begin


def times(shape):
    rows = table(session(WORLD), shape)
    seconds = {True: [], False: []}
    for survives in seconds:
        fit(rows, shape, survives)
    for pair in range(PAIRS):
        for survives in (True, False) if pair % 2 else (False, True):
            seconds[survives].append(1000 * fit(rows, shape, survives))
    figure(f"{shape}: fit", "ms", seconds[True], seconds[False], TIME_BAR)


def gaps(shape):
    """How long rank 0 waited in the round in which the worker of rank 1 was killed."""
    rows = table(session(WORLD), shape)
    waited = []
    for _ in range(PAIRS):
        with tempfile.TemporaryDirectory() as folder:
            fit(rows, shape, True, dying_in_the_middle(pathlib.Path(folder), SHAPES[shape][2] // 2))
            assert (pathlib.Path(folder) / "killed").exists(), "the worker of rank 1 was to be killed"
            rounds = [float(line) for line in (pathlib.Path(folder) / "rounds").read_text().split()]
        waited.append(1000 * max(after - before for before, after in zip(rounds, rounds[1:])))
    figure(f"{shape}: a killed worker keeps the others waiting", "ms", waited, [0] * PAIRS, GAP_BAR)


def dying_in_the_middle(folder, round_):
    from xgboost.callback import TrainingCallback

    die = dies("worker")

    class Watch(TrainingCallback):
        def before_iteration(self, model, epoch, evals_log):
            from xgboost.collective import get_rank

            if get_rank() == 0:
                with open(folder / "rounds", "a") as rounds:
                    rounds.write(f"{time.monotonic()}\n")
            elif (get_rank(), epoch) == (1, round_) and not (folder / "killed").exists():
                (folder / "killed").touch()
                die()
            return False

    return Watch()


def memory(shape):
    """Each fit on executors of its own: a JVM gives nothing back."""
    seen = {True: [], False: []}
    for pair in range(PAIRS):
        for survives in (True, False) if pair % 2 else (False, True):
            command = [sys.executable, __file__, "one", shape, str(survives)]
            seen[survives].append(float(subprocess.check_output(command, text=True).split()[-1]))
    figure(f"{shape}: executors and workers", "MB", seen[True], seen[False], MEMORY_BAR)


def one(shape, survives):
    """The sum of what executors, and their Python workers, had at most, in MB."""
    rows = table(session(WORLD), shape)
    peaks, ended = {}, threading.Event()

    def sample():
        while not ended.wait(0.05):
            peaks.update(below_executors())

    sampler = threading.Thread(target=sample)
    sampler.start()
    fit(rows, shape, survives == "True")
    ended.set()
    sampler.join()
    print(sum(peaks.values()) / 1000)


def below_executors():
    """Peaks of resident memory in kB by process: executors of this program, and what they have started."""
    parents, peaks, executors = {}, {}, set()
    for process in pathlib.Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
                parents[process.name] = status["PPid"].strip()
                peaks[process.name] = int(status.get("VmHWM", "0 kB").split()[0])
                if b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes():
                    executors.add(process.name)
            except (OSError, KeyError):
                pass  # it has ended

    def belongs(name):
        while name in parents and name not in executors:
            name = parents[name]
        return name in executors

    return {name: peak for name, peak in peaks.items() if belongs(name)}


def main():
    if sys.argv[1:2] == ["one"]:
        return one(*sys.argv[2:])
    print(f"PySpark on {SET}, XGBoost {XGBOOST}, {WORLD} executors, {PAIRS} pairs", flush=True)
    for shape in SHAPES:
        times(shape)
    gaps("20k x 10")
    session(WORLD).stop()
    for shape in SHAPES:
        memory(shape)


main()
