"""A rank of a ``RejoinEstimator``, in the Python worker of its Spark task.

What stock's estimator sends to a task, ``_train_booster``, runs as it is. It finds our part in the
place of three names: ``BarrierTaskContext`` (a plain task has none), ``CommunicatorContext`` (the
communicator is there already), and ``worker_train``, which is stock's with one callback more.
"""

import contextlib
import pickle
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import pyspark
import xgboost
from pyspark import cloudpickle
from xgboost.collective import communicator_print, is_distributed
from xgboost.core import XGBoostError

from ._errors import Code, RejoinError
from ._limits import limits_of
from ._spark_rank import Launch, Rank, Rows, Shown
from ._xgboost_callbacks import Carry
from ._xgboost_rank import Rank as XgboostRank, XgboostProcess
from ._xgboost_training import Rhythm, unexpected_estimators
from .xgboost import Checkpoint, _Context

# What `_train_booster` has to refer to.
SEAMS = ("CommunicatorContext", "worker_train")

# What stock names the column of validation_indicator_col in the rows that it prepares.
_HELD_OUT = "validationIndicator"

# The most rounds between two checkpoints, and the number of them where a checkpoint changes the model.
_EVERY = 10


class EstimatorRank(Rank):
    """``work``: a generator function, pickled, of data frames with the column ``data``, from data frames."""

    def __init__(self, work: bytes, schema: Any, world: int) -> None:
        super().__init__(schema)
        self._work = work
        self._world = world
        self._xgboost = xgboost.__version__

    def take_part(self, launch: Launch, rows: Optional[Rows]) -> None:
        if xgboost.__version__ != self._xgboost:
            text = f"the driver has XGBoost {self._xgboost}, {launch.worker} has {xgboost.__version__}"
            raise RejoinError(Code.INCOMPATIBLE, f"{text}; install one version on all hosts")

        def start(*place: Any, **settings: Any) -> XgboostProcess:
            return XgboostProcess(xgboost.__version__, launch["hook"], *place, **settings)

        every, bytes_per_round = launch.number("checkpoint.rounds"), launch.number("checkpoint.bytes.per.round")
        terms = f"{self._world} workers, {every} rounds per checkpoint, {bytes_per_round} bytes per round"
        limits = limits_of(launch.seconds("join"), None, launch.seconds("finish"))
        with launch.process(start) as process:
            while True:
                (stock,) = cloudpickle.loads(self._work)
                rank = process.join_as(launch.attempt(), terms, limits, asks=launch.has_spares)
                if rank is None:
                    return
                try:
                    launch.check(rank.rank)
                except RejoinError:
                    rank.close()
                    raise
                # Up to XGBoost 3.2 it is part of the result, which depends on what was set alone.
                decides = not every and rank.keeps_booster
                if self._train(stock, rank, rows, Rhythm(every or _EVERY, bytes_per_round if decides else 0)):
                    return

    def _train(self, stock: Callable[..., Any], rank: XgboostRank, rows: Optional[Rows], rhythm: Rhythm) -> bool:
        """Whether the end was reached; otherwise all ranks go back to an older version."""
        part = _Part(rank)
        try:
            with part, _shown():
                part.texts = _texts(lambda: stock(part.frames(rows)), stock.__globals__, part, rank, rhythm)
        except RejoinError as failure:
            if failure.code != Code.ROLLED_BACK:
                raise
            return False
        return True


def _texts(
    train_booster: Callable[[], Iterator[Any]], names: Dict[str, Any], part: "_Part", rank: XgboostRank, rhythm: Rhythm
) -> List[str]:
    """What stock's rank 0 hands to the driver: evaluations, configuration, model. Every rank
    makes it, so it outlives any of them."""
    train = names["worker_train"]

    def worker_train(params: Any, *arguments: Any, callbacks: Any = None, **named: Any) -> xgboost.Booster:
        part.has_matrices = True
        checkpoint = Checkpoint()
        checkpoint._rhythm, checkpoint._carry = rhythm, Carry(cloudpickle)
        trained = train(params, *arguments, callbacks=[*(callbacks or ()), checkpoint], **named)
        if part.training is None:
            raise unexpected_estimators("its PySpark estimator trains without callbacks")
        made = part.training.made_of(bytes(trained.save_raw("ubj")))
        made.set_param("seed_per_iteration", params.get("seed_per_iteration", False))  # which is ours to set
        return made

    class Barrier:
        """Of a task that needs none."""

        @classmethod
        def get(cls) -> "Barrier":
            return cls()

        def barrier(self) -> None:
            pass

        def allGather(self, message: str = "") -> List[str]:
            return [message] * rank.world

        def partitionId(self) -> int:
            return rank.rank if part.training is None else 0

    def joined(*_: Any, **__: Any) -> Any:
        return contextlib.nullcontext()

    ours = {"CommunicatorContext": joined, "worker_train": worker_train}
    with _replaced(names, ours), _replaced(vars(pyspark), {"BarrierTaskContext": Barrier}):
        return [text for frame in train_booster() for text in frame["data"]]


@contextlib.contextmanager
def _shown() -> Iterator[None]:
    """What callbacks print goes to the driver as XGBoost's own lines do, through its communicator."""
    out: Any = Shown(_print, sys.stdout)
    with contextlib.redirect_stdout(out):
        yield


def _print(line: str) -> None:
    # A thread that XGBoost's communicator doesn't know would print it here once more.
    if not is_distributed():
        return
    with contextlib.suppress(XGBoostError):  # this rank is over, which is known
        communicator_print(line)


class _Part(_Context):
    """A rank's part in its job from its join on; what all ranks end with are stock's texts."""

    def __init__(self, rank: XgboostRank) -> None:
        super().__init__(lambda: rank)
        self.texts: List[str] = []
        self.has_matrices = False
        self._rows = 0
        self._held_out: Optional[int] = None  # without a column that says which

    def frames(self, rows: Optional[Rows]) -> Iterator[Any]:
        """What stock makes its matrices of."""
        if rows is not None and _HELD_OUT in rows.schema.names:
            self._held_out = 0
        for batch in rows or ():
            frame = batch.to_pandas()
            held_out = 0
            if self._held_out is not None:
                held_out = int(frame[_HELD_OUT].eq(True).sum())
                self._held_out += held_out
            self._rows += len(frame) - held_out
            yield frame

    def reason(self, raised: Exception) -> Tuple[Code, str]:
        """XGBoost says what is wrong with a matrix, and not which one it is."""
        code, text = super().reason(raised)
        if isinstance(raised, XGBoostError) and not self.has_matrices:
            made_of = f"{self._rows} rows to train on"
            if self._held_out is not None:
                made_of += f" and {self._held_out} that validation_indicator_col marks"
            text = f"{text.rstrip('.')}; rank {self.opened().rank} was making its matrices, of {made_of}"
        return code, text

    def outcome(self) -> Tuple[int, bytes]:
        rounds, _ = super().outcome()
        return rounds, pickle.dumps(self.texts, protocol=4)


@contextlib.contextmanager
def _replaced(names: Dict[str, Any], ours: Dict[str, Any]) -> Iterator[None]:
    theirs = {name: names[name] for name in ours}
    names.update(ours)
    try:
        yield
    finally:
        names.update(theirs)
