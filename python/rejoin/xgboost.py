"""XGBoost training that survives: a rank that dies is started again alone, and the model is the same, byte for byte.

    import rejoin.xgboost
    import xgboost as xgb

    with rejoin.xgboost.communicator() as ranks:
        dtrain = xgb.DMatrix(my_rows(ranks.rank, ranks.world), my_labels)
        booster = xgb.train(params, dtrain, 100, callbacks=[rejoin.xgboost.Checkpoint(every=10)])
        if ranks.rank == 0:
            booster.save_model("model.ubj")

and then: ``rejoin run -n 3 --restart -- python3 train.py``. XGBoost is used as it is installed, 3.0
to 3.4; ``docs/guides/python-xgboost.md`` says what holds, and what a training has to keep to.
"""

import json
import os
import pickle
import threading
from types import TracebackType
from typing import Any, Callable, Optional, Sequence, Tuple, Type

import xgboost
from xgboost.callback import TrainingCallback
from xgboost.collective import CommunicatorContext, get_rank, get_world_size
from xgboost.core import XGBoostError

from . import _arguments as given
from ._arguments import refused
from ._errors import Code, RejoinError
from ._limits import limits_of
from ._xgboost_callbacks import Carry
from ._xgboost_rank import Rank, join
from ._xgboost_training import Rhythm, Training

__all__ = ["Checkpoint", "Rank", "communicator"]


class _Here(threading.local):
    """The communicator of this thread, as XGBoost has one for each thread."""

    context: Optional["_Context"] = None


_here = _Here()


class _Context:
    """A rank's part in its job, from its join to its end."""

    def __init__(self, join_: Callable[[], Optional[Rank]]) -> None:
        self._join = join_
        self._carried: Any = None
        self.rank: Optional[Rank] = None
        self.training: Optional[Training] = None

    def __enter__(self) -> Rank:
        if _here.context is not None:
            raise RejoinError(Code.BAD_STATE, "this thread is inside a rejoin.xgboost.communicator() already")
        self.rank = self._join()
        if self.rank is None:
            # The job had ended well when this process came: what follows would train a model of its own.
            raise SystemExit(0)
        _here.context = self
        try:
            self._carried = CommunicatorContext(**json.loads(self.rank.communicator()))
            self._carried.__enter__()
            self.check()
        except BaseException as raised:
            self._leave(raised)
            raise
        return self.rank

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        raised: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._leave(raised)

    def check(self) -> None:
        """Without its communicator XGBoost would quietly train a model of this rank's rows alone."""
        rank = self.opened()
        if (get_rank(), get_world_size()) != (rank.rank, rank.world):
            seen = f"XGBoost's communicator says rank {get_rank()} of {get_world_size()}"
            text = f"{seen}; expected rank {rank.rank} of {rank.world}. Train in the thread of the `with` statement"
            raise RejoinError(Code.BAD_STATE, text)

    def opened(self) -> Rank:
        if self.rank is None:
            raise RejoinError(Code.BAD_STATE, "this communicator has not been entered")
        return self.rank

    def _leave(self, raised: Optional[BaseException]) -> None:
        rank = self.opened()
        _here.context = None
        if not rank.is_ours():
            return  # a forked child's copy: the communicator is its parent's
        try:
            self._end_communicator()
            if raised is None:
                rank.finish(*self.outcome())
        except RejoinError as failed:
            self._report(rank, failed)
            raise
        else:
            if raised is not None:
                known = self._report(rank, raised)
                if known is not None and known is not raised and isinstance(raised, Exception):
                    raise known from raised
        finally:
            rank.close()

    def _end_communicator(self) -> None:
        try:
            self._carried.__exit__(None, None, None)
        except (AttributeError, XGBoostError):
            pass  # it was not opened; or its sockets are gone, as those of a rank that was freed

    def outcome(self) -> Tuple[int, bytes]:
        """The rounds, and what all ranks end with."""
        if self.training is None or self.training.outcome is None:
            text = (
                "this `with` statement ends without a model: expected one xgboost.train(…, "
                "callbacks=[rejoin.xgboost.Checkpoint()]) inside it"
            )
            raise RejoinError(Code.BAD_STATE, text)
        return self.training.outcome

    def reason(self, raised: Exception) -> Tuple[Code, str]:
        """What the job is told of a failure."""
        return _reason(self.opened(), raised)

    def _report(self, rank: Rank, raised: BaseException) -> Optional[RejoinError]:
        """Tells the job why this rank has failed; gives the reason if the job knew it before: then
        what was raised is only the consequence."""
        known = rank.failure()
        if known is None and isinstance(raised, Exception):
            rank.abandon(*self.reason(raised))
        return known


def _reason(rank: Rank, raised: Exception) -> Tuple[Code, str]:
    if isinstance(raised, RejoinError):
        return raised.code, raised.text
    if isinstance(raised, XGBoostError):
        # XGBoost's own failure (of parameters, of labels) repeats. Addresses of its stack say nothing to a user.
        text = str(raised).split("Stack trace")[0].strip()
        return Code.TRAINING_FAILED, f"XGBoost failed at rank {rank.rank}: {text}"
    return Code.IO, f"rank {rank.rank}: {type(raised).__name__}: {raised}"


def communicator(
    terms: str = "",
    *,
    hook: str = "auto",
    join_timeout: Optional[float] = None,
    finish_timeout: Optional[float] = None,
) -> _Context:
    """Joins as the rank that ``rejoin run`` has started this process as, and sets up XGBoost's
    communicator for this thread. A context manager that gives the :class:`Rank`.

    Inside it a training with a :class:`Checkpoint` among its callbacks survives the death of any
    rank. At the end of the ``with`` statement all ranks compare their models and wait for each
    other; save the model before. Where the job had ended well before this process came, it raises
    ``SystemExit(0)``: there is nothing left to do.

    ``terms`` says what the program assumes and has to be equal at all ranks (the version of XGBoost
    is, too). ``hook="off"`` leaves XGBoost's collectives to its own sockets; the bytes are the same
    (``ranks.hooked`` says what the ranks have agreed on). The timeouts are in seconds: until all
    ranks are there (5 minutes), for the end (10 minutes).

    Raises :class:`rejoin.RejoinError`: ``INCOMPATIBLE`` for a version of XGBoost that isn't
    supported; ``BAD_STATE`` outside ``rejoin run``, in a process whose job has ended (a ``rejoin run``
    has one training), and at the end when nothing was trained; else what ended this rank or the
    job. An exception of the program is reported to the job, and its rank may be started again.
    """
    limits = limits_of(join_timeout, None, finish_timeout)
    return _Context(lambda: join(xgboost.__version__, terms, hook, limits))


class Checkpoint(TrainingCallback):
    """Among the callbacks of ``xgboost.train``, inside :func:`communicator`: the training survives.

    After ``every`` rounds (10) and at the end the model is kept in the memory of all ranks. A rank
    that is started again calls the same ``xgboost.train``; it is given the last kept model and goes
    on from there. The rounds before it are not computed again: their evaluations were kept, too,
    and all callbacks see every round again as it was (early stopping, ``evals_result``, learning
    rates). Only what they ask of the model's content, its trees or predictions, is not there for
    rounds that are passed over: that is ``BAD_STATE``, and ``save_model`` leaves the file as it is.

    The callbacks in ``carry``, which are among the training's, are for that: the state of each is kept
    with the checkpoint (by ``pickle``, up to 256 KiB for all of a rank), comes back as it was there, and
    sees what comes after it only. When the training ends, the object that was given has it, too.

    ``seed_per_iteration`` is set: without it a restarted rank would draw other samples. Up to
    XGBoost 3.2 ``every`` is part of the result where rows or columns are sampled, because all ranks
    go on with the kept model.

    One training in each ``with`` statement. ``BAD_ARGUMENT`` for GPUs, for ``process_type="update"``,
    for ``lambdarank_unbiased``, for a custom objective without ``base_score`` in the parameters, for
    ``TrainingCheckPoint(as_pickle=True)`` that isn't in ``carry``, for a callback in ``carry`` that
    can't be pickled, and for any in a job with durable checkpoints, which have none of their state.
    """

    def __init__(self, every: int = 10, carry: Sequence[TrainingCallback] = ()) -> None:
        super().__init__()
        self._carry = Carry(pickle, carry) if carry else None
        durable = os.environ.get("REJOIN_DURABLE", "")  # as `rejoin run` starts a rank
        if carry and durable:
            raise refused(
                f"carry has {len(carry)} callbacks, but the job's checkpoints go to {durable} (--durable), where no "
                "state of callbacks is written; leave out one of the two"
            )
        rounds = given.number("every", every, 31)
        if rounds == 0:
            raise refused("every is 0; expected a number of rounds, at least 1")
        self._rhythm = Rhythm(rounds)

    def before_training(self, model: Any) -> Any:
        context = _here.context
        if context is None:
            text = (
                "rejoin.xgboost.Checkpoint is used outside of rejoin.xgboost.communicator(), or in another thread: "
                "expected `with rejoin.xgboost.communicator(): xgboost.train(…)`"
            )
            raise RejoinError(Code.BAD_STATE, text)
        if not isinstance(model, xgboost.Booster):
            raise refused("rejoin.xgboost.Checkpoint is for xgboost.train; xgboost.cv trains several models")
        if context.training is not None:
            text = (
                "a second training with a rejoin.xgboost.Checkpoint begins; expected one in each "
                "rejoin.xgboost.communicator(), and one Checkpoint among its callbacks"
            )
            raise RejoinError(Code.BAD_STATE, text)
        context.training = Training(context.opened(), model, self._rhythm, context.check, self._carry)
        return model

    def after_training(self, model: Any) -> Any:
        context = _here.context
        if context is not None and context.training is not None:
            context.training.end()
        return model
