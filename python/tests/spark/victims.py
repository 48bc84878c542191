"""Callbacks by which a rank dies at a moment of a training, once, and leaves a sign that it has. They
are made within functions, so that they travel by value, as a notebook's do."""

from .cluster import dies

# Between two looks at what isn't told of.
LOOK_SECONDS = 0.01


def death(folder, how, rank=1, life=0, together=1, spare_in=None):
    """What a rank does to itself in this life, when so many ranks are about to; nothing in another one.
    The folder's file of this name says that it has, and of which processes: the Python worker, what has
    forked it, and the executor."""
    import os
    import pathlib
    import time

    signs, die, look = pathlib.Path(folder), dies(how, spare_in), LOOK_SECONDS

    def die_once():
        if life > 0 and not (signs / f"{rank}-{life - 1}").exists():
            return
        try:
            with open(signs / f"{rank}-{life}", "x") as sign:
                status = pathlib.Path(f"/proc/{os.getppid()}/stat").read_text()
                sign.write(f"{os.getpid()} {os.getppid()} {status.rsplit(')', 1)[1].split()[1]}")
        except FileExistsError:
            return
        deadline = time.monotonic() + 60
        while len(list(signs.iterdir())) < together:
            if time.monotonic() > deadline:
                raise AssertionError(f"{together} ranks should die at once; there are {list(signs.iterdir())}")
            time.sleep(look)
        die()

    return die_once


def in_round(folder, how, round_, rank=1, **which):
    """Before this round."""
    from xgboost.callback import TrainingCallback

    die = death(folder, how, rank, **which)

    class Dies(TrainingCallback):
        def before_iteration(self, model, epoch, evals_log):
            from xgboost.collective import get_rank

            if (epoch, get_rank()) == (round_, rank):
                die()
            return False

    return Dies()


def outside_of_rounds(folder, how, moment, last_round, rank=1, spare_in=None):
    """``joining``: before it joins. ``loading``: its first rows are read, and no more. ``matrix``: its matrix
    has asked for its rows twice, which XGBoost does between collectives. ``end``: after the last round,
    it tells the driver what it has trained."""
    import pathlib

    from xgboost.callback import TrainingCallback

    die, sign = death(folder, how, rank, spare_in=spare_in), pathlib.Path(folder) / f"{rank}-0"

    def reading(iterate):
        def some_rows(rows):
            for batch in iterate(rows):
                yield batch
                die()

        return some_rows

    def sketching(next_rows):
        asked = []

        def some_batches(batches, take):
            asked.append(1)
            if len(asked) == 4:  # two batches, the only one and the end, twice
                die()
            return next_rows(batches, take)

        return some_batches

    def patch():
        if moment == "joining":
            die()
        elif moment == "loading":
            from rejoin._spark_rank import Rows

            Rows.__iter__ = reading(Rows.__iter__)
        elif moment == "matrix":
            from xgboost.spark.data import PartIter

            PartIter.next = sketching(PartIter.next)

    class DiesOutside(TrainingCallback):
        def __getstate__(self):
            return {"sent": True}

        def __setstate__(self, state):
            from pyspark import TaskContext

            task = TaskContext.get()
            if task is not None and (task.partitionId(), task.attemptNumber()) == (rank, 0):
                patch()

        def after_iteration(self, model, epoch, evals_log):
            import xgboost
            from xgboost.collective import get_rank

            # In its next life it may do this round again.
            if moment == "end" and (epoch, get_rank()) == (last_round, rank) and not sign.exists():
                xgboost.Booster.save_config = lambda booster: die()
            return False

    return DiesOutside()


def in_a_collective(folder, how, round_, rank=1, late=2):
    """The rank dies inside one of the collectives of this round's update, in which it waits for another
    one, which enters the update only when the former's process is gone."""
    import pathlib
    import time

    from xgboost.callback import TrainingCallback

    die, sign, look = death(folder, how, rank), pathlib.Path(folder) / f"{rank}-0", LOOK_SECONDS

    def status(process):
        """From its state on, as Linux tells it."""
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()

    def used(thread):
        """Whether this thread sleeps, and how much of the processor it has had."""
        state = status(f"self/task/{thread}")
        return state[0], state[11], state[12]

    def updates(thread):
        import sys

        frame = sys._current_frames().get(thread)
        while frame is not None:
            if frame.f_code.co_name == "update" and frame.f_code.co_filename.endswith("xgboost/core.py"):
                return True
            frame = frame.f_back
        return False

    def die_when_it_waits(identity, native):
        looks, before = 0, None
        while looks < 20:
            now = used(native)
            looks = looks + 1 if updates(identity) and now[0] == "S" and now == before else 0
            before = now
            time.sleep(look)
        die()

    def is_gone():
        words = sign.read_text().split() if sign.exists() else []
        try:
            return bool(words) and status(words[0])[0] == "Z"
        except FileNotFoundError:
            return True

    def wait_and(update):
        def late_update(*arguments):
            import xgboost

            xgboost.Booster.update = update
            deadline = time.monotonic() + 60
            while not is_gone():
                if time.monotonic() > deadline:
                    raise AssertionError(f"rank {rank} hasn't died within a collective, or is there still")
                time.sleep(look)
            return update(*arguments)

        return late_update

    class Dies(TrainingCallback):
        def before_iteration(self, model, epoch, evals_log):
            import threading

            import xgboost
            from xgboost.collective import get_rank

            if epoch == round_ and get_rank() == late and not sign.exists():
                xgboost.Booster.update = wait_and(xgboost.Booster.update)
            if epoch == round_ and get_rank() == rank and not sign.exists():
                # Of a worker that was forked, the thread's own native_id is its parent's.
                this = threading.get_ident(), threading.get_native_id()
                threading.Thread(target=die_when_it_waits, args=this, daemon=True).start()
            return False

    return Dies()


def while_rows_are_computed(folder, how, column, partition=1):
    """The column, whose Python worker or executor dies in this partition."""
    import pandas
    from pyspark.sql import functions as sql

    die = death(folder, how, partition)

    def same(values: pandas.Series) -> pandas.Series:
        from pyspark import TaskContext

        if TaskContext.get().partitionId() == partition:
            die()
        return values

    return sql.pandas_udf(same, "long")(column)


def always_raising():
    """A callback with a fault of its own."""
    from xgboost.callback import TrainingCallback

    class Raises(TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            if epoch == 2:
                raise ZeroDivisionError("a mistake in a callback")
            return False

    return Raises()


def telling(folder, round_):
    """A callback that leaves a sign when a rank has come as far as this round."""
    import pathlib

    from xgboost.callback import TrainingCallback

    signs = pathlib.Path(folder)

    class Tells(TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            if epoch == round_:
                (signs / "began").touch()
            return False

    return Tells()
