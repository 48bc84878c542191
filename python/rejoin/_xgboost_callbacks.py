"""The state of the user's own callbacks, as a part of each rank's own checkpoint.

XGBoost's callbacks decide by the evaluations alone, so they are given those of the rounds that are
passed over. What others count, ask of the model or draw isn't known: they are kept as they were at
the checkpoint, and are called for what comes after it only.
"""

from typing import Any, List, Optional, Set

from pyspark import cloudpickle
from xgboost.callback import CallbackContainer, TrainingCallback

from ._arguments import refused
from ._errors import RejoinError

# What the tracker keeps of one rank (LOCAL_LIMIT in native/protocol).
_MOST_BYTES = 256 << 10


class CarriedCallbacks:
    """In the place of each callback that isn't of ``own_modules`` stands one that passes over what
    the checkpoint has: so many ``rounds``, and all of the training where it is ``complete``."""

    def __init__(
        self, container: CallbackContainer, own_modules: Set[str], rounds: int, complete: bool, kept: Optional[bytes]
    ) -> None:
        self.rounds, self.complete = rounds, complete
        self._kept: Any = None if kept is None else cloudpickle.loads(kept)
        theirs = [each for each in container.callbacks if type(each).__module__ not in own_modules]
        self.callbacks: List[TrainingCallback] = theirs if self._kept is None else self._kept[1]
        stand_ins = {id(each): _StandIn(self, number) for number, each in enumerate(theirs)}
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
            data: bytes = cloudpickle.dumps((settings, self.callbacks))
        except Exception as cause:
            raise _first_that_fails(self.callbacks) or refused(f"callbacks can't be pickled: {cause}") from cause
        if len(data) > _MOST_BYTES:
            sizes = {type(each).__name__: len(cloudpickle.dumps(each)) for each in self.callbacks}
            name = max(sizes, key=lambda each: sizes[each])
            raise refused(
                f"the state of the callbacks has {len(data)} bytes, the most of them in {name}; at most {_MOST_BYTES} "
                "are kept with a checkpoint. Let it keep less, or write to a file"
            )
        return data


class _StandIn(TrainingCallback):
    """What was done before the checkpoint isn't done again: all of the rounds, and the beginning of the next one,
    because the checkpoint is taken after it."""

    def __init__(self, carried: CarriedCallbacks, number: int) -> None:
        super().__init__()
        self._carried, self._number = carried, number

    def _called(self) -> TrainingCallback:
        return self._carried.callbacks[self._number]

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
        return model if self._carried.complete else self._called().after_training(model)


def refuse_what_cannot_be_pickled(callbacks: List[Any]) -> None:
    """Raises ``BAD_ARGUMENT`` with the name of the first such callback."""
    failure = _first_that_fails(callbacks)
    if failure is not None:
        raise failure


def _first_that_fails(callbacks: List[Any]) -> Optional[RejoinError]:
    for callback in callbacks:
        try:
            cloudpickle.dumps(callback)
        except Exception as cause:
            return refused(
                f"the callback {type(callback).__name__} can't be pickled ({cause}), but its state has to be kept with "
                "each checkpoint, for a rank that comes back. Leave out of it what is of this process alone (locks, "
                "open files, connections), or give it a __getstate__ that does"
            )
    return None
