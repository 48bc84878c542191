"""The state of the user's own callbacks, as a part of each rank's own checkpoint.

XGBoost's callbacks decide by the evaluations alone, so they are given those of the rounds that are
passed over. What others count, ask of the model or draw isn't known: they are kept as they were at
the checkpoint, and are called for what comes after it only. So is the one of XGBoost's that writes
the model to files.
"""

from typing import Any, Callable, List, Optional, Sequence, Set

from xgboost.callback import CallbackContainer, TrainingCallback, TrainingCheckPoint

from ._arguments import refused
from ._errors import Code, RejoinError

# What the tracker keeps of one rank (LOCAL_LIMIT in native/protocol).
_MOST_BYTES = 256 << 10


class Carry:
    """Whose state travels: these callbacks', or without any that of all that do more than look at evaluations."""

    def __init__(self, pickler: Any, callbacks: Optional[Sequence[TrainingCallback]] = None) -> None:
        """``pickler``: the module ``pickle``, or one like it."""
        self.pickler, self._callbacks = pickler, callbacks

    def of(self, container: CallbackContainer, own_modules: Set[str]) -> List[TrainingCallback]:
        """Those of a training whose state travels."""
        if self._callbacks is None:

            def travels(each: TrainingCallback) -> bool:
                return type(each).__module__ not in own_modules or isinstance(each, TrainingCheckPoint)

            return [each for each in container.callbacks if travels(each)]
        present = {id(each) for each in container.callbacks}
        for callback in self._callbacks:
            if id(callback) not in present:
                raise refused(f"carry has {type(callback).__name__}, which isn't among this training's callbacks")
        return list(self._callbacks)


class CarriedCallbacks:
    """In the place of each callback whose state travels stands one that passes over what the
    checkpoint has: so many ``rounds``, and all of the training where it is ``complete``."""

    def __init__(
        self,
        carry: Carry,
        container: CallbackContainer,
        own_modules: Set[str],
        rounds: int,
        complete: bool,
        kept: Optional[bytes],
        loop_ends: Callable[[], None],
    ) -> None:
        """``loop_ends`` is called when the loop is over, before any of them is told so."""
        self.rounds, self.complete = rounds, complete
        self.loop_ends = loop_ends
        self._pickler = carry.pickler
        self._kept: Any = None if kept is None else self._pickler.loads(kept)
        theirs = carry.of(container, own_modules)
        if rounds > 0 and theirs and self._kept is None:
            text = f"this rank goes on after {rounds} rounds but was given no state of its callbacks"
            raise RejoinError(Code.INTERNAL, text)
        self.callbacks: List[TrainingCallback] = theirs if self._kept is None else self._kept[1]
        stand_ins = {id(each): _StandIn(self, number, each) for number, each in enumerate(theirs)}
        # The container is going through its list, whose last elements are still to come.
        container.callbacks[:] = [stand_ins.get(id(each), each) for each in container.callbacks]
        self.state({})  # what can't be pickled is refused before the first round

    @property
    def settings(self) -> Any:
        """What was set of the Booster up to the checkpoint; nothing where there is none."""
        return {} if self._kept is None else self._kept[0]

    def state(self, settings: Any) -> Optional[bytes]:
        """To be kept, with what was set of the Booster; ``None`` where there is no such callback."""
        if not self.callbacks:
            return None
        try:
            data: bytes = self._pickler.dumps((settings, self.callbacks))
        except Exception as cause:
            raise _first_that_fails(self.callbacks, self._pickler) or refused(
                f"callbacks can't be pickled: {cause}"
            ) from cause
        if len(data) > _MOST_BYTES:
            sizes = {type(each).__name__: len(self._pickler.dumps(each)) for each in self.callbacks}
            name = max(sizes, key=lambda each: sizes[each])
            raise refused(
                f"the state of the callbacks has {len(data)} bytes, the most of them in {name}; at most {_MOST_BYTES} "
                "are kept with a checkpoint. Let it keep less, or write to a file"
            )
        return data


class _StandIn(TrainingCallback):
    """What was done before the checkpoint isn't done again: all of the rounds, and the beginning of the next one,
    because the checkpoint is taken after it."""

    def __init__(self, carried: CarriedCallbacks, number: int, given: TrainingCallback) -> None:
        super().__init__()
        self._carried, self._number, self._given = carried, number, given

    def _called(self) -> TrainingCallback:
        return self._carried.callbacks[self._number]

    def before_training(self, model: Any) -> Any:
        return self._given.before_training(model)  # it comes after ours in the list

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        rounds = self._carried.rounds
        if epoch < rounds:
            return False
        if self._carried.complete:
            return True
        return False if epoch == rounds > 0 else bool(self._called().before_iteration(model, epoch, evals_log))

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if epoch < self._carried.rounds:
            return False
        return bool(self._called().after_iteration(model, epoch, evals_log))

    def after_training(self, model: Any) -> Any:
        # The model that all have trained is kept first: what is done with it here every incarnation does.
        self._carried.loop_ends()
        called = self._called()
        trained = called.after_training(model)
        if called is not self._given:
            # Whoever has given it to the training looks at it afterwards.
            vars(self._given).update(vars(called))
        return trained


def refuse_pickled_checkpoints(callbacks: Sequence[TrainingCallback]) -> None:
    """Refuses what would write a round's file once more, of a model that a rank which passes over the round has not."""
    for each in callbacks:
        if isinstance(each, TrainingCheckPoint) and getattr(each, "_as_pickle", False):
            raise refused(
                "TrainingCheckPoint(as_pickle=True) is among the callbacks: a rank that comes back would empty the "
                "files of the rounds that it passes over. Name it in carry, or let it write models (as_pickle=False)"
            )


def refuse_what_cannot_be_pickled(callbacks: List[Any], pickler: Any) -> None:
    """Raises ``BAD_ARGUMENT`` with the name of the first such callback."""
    failure = _first_that_fails(callbacks, pickler)
    if failure is not None:
        raise failure


def _first_that_fails(callbacks: List[Any], pickler: Any) -> Optional[RejoinError]:
    for callback in callbacks:
        try:
            pickler.dumps(callback)
        except Exception as cause:
            return refused(
                f"the callback {type(callback).__name__} can't be pickled ({cause}), but its state has to be kept with "
                "each checkpoint, for a rank that comes back. Leave out of it what is of this process alone (locks, "
                "open files, connections), or give it a __getstate__ that does"
            )
    return None
