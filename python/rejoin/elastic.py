"""Trainings whose world may change, in the form of Horovod's ``hvd.elastic``: a state that is
committed, a function that is called again when ranks come or go, and a sampler that deals each
sample out once whatever the world is.

    import numpy as np
    from rejoin import elastic

    @elastic.run
    def train(state):
        while state.sampler.epoch < 3:
            for mine in state.sampler.batches(state.ranks, 32):     # indices; empty at the tail
                sums = np.append(gradient(rows[mine], state.model), len(mine))
                state.ranks.allreduce(sums)
                state.model = state.model - 0.1 * sums[:-1] / sums[-1]
                state.commit()
        return state.model

    train(elastic.State(model=np.zeros(10), sampler=elastic.ElasticSampler(len(rows))))

and then ``rejoin run -n 4 --min 2 --max 8 --discovery ./slots.sh --restart -- python3 program.py``.
Without ``--min`` it is as good: a rank that dies alone begins from the newest commit.
"""

import functools
import io
import pickle
from typing import Any, Callable, Dict, Iterator, List, Optional, TypeVar

import numpy as np

from ._arguments import number, refused
from ._communicator import Communicator, join
from ._errors import Code, RejoinError
from ._launch import launch

__all__ = ["ElasticSampler", "State", "launch", "run"]

Result = TypeVar("Result")


class State:
    """What a training goes on from: each keyword is an attribute, and all of them together are the
    model of a checkpoint.

    Values have to be equal at all ranks after each step, and pickled: numbers, texts, numpy's
    arrays, PyTorch's tensors (which come back in main memory), lists and dictionaries of them. Of a
    value with ``state_dict`` and ``load_state_dict``
    (an :class:`ElasticSampler`; PyTorch's modules and optimizers) the former is kept, and put back
    by the latter. Names that begin with an underscore are not kept.
    """

    ranks: Communicator

    def __init__(self, **values: Any) -> None:
        for name in values:
            if name.startswith("_") or hasattr(type(self), name) or name == "ranks":
                raise refused(f"{name} can't be a value of the state; expected another name")
        self.__dict__.update(values)
        self._names = list(values)
        self._callbacks: List[Callable[[], None]] = []
        self._kept = self._encoded()

    def commit(self) -> None:
        """Ends the version: what is done until here is done, whoever comes or goes. At all ranks at
        the same point."""
        kept = self._encoded()
        self.ranks.checkpoint(kept)
        self._kept = kept

    def restore(self) -> None:
        """Puts back what was committed last (at the beginning: what the state was made of). Of this
        rank alone."""
        values: Dict[str, Any] = pickle.loads(self._kept)
        for name, value in values.items():
            own = self.__dict__[name]
            if _has_state_dict(own):
                own.load_state_dict(value)
            else:
                self.__dict__[name] = value

    def register_reset_callbacks(self, callbacks: List[Callable[[], None]]) -> None:
        """Calls these each time that the function begins again in this process, with the newest
        commit restored and the world as it is from now on."""
        self._callbacks.extend(callbacks)

    def _encoded(self) -> bytes:
        values = {name: self.__dict__[name] for name in self._names}
        kept = {name: value.state_dict() if _has_state_dict(value) else value for name, value in values.items()}
        into = io.BytesIO()
        pickler = _Pickler(into, protocol=4)
        # Without it the bytes say which parts are one object, which a rank that was restored may see otherwise.
        pickler.fast = True
        pickler.dump(kept)
        return into.getvalue()

    def _train(self, ranks: Communicator, begin: Callable[[], Result]) -> Optional[Result]:
        self.ranks = ranks
        again = False
        while not ranks.over:
            try:
                _, kept = ranks.load()
                self._kept = self._kept if kept is None else kept
                self.restore()
                if again:
                    for callback in self._callbacks:
                        callback()
                result = begin()
                ranks.finish(self._encoded())
                return result
            except RejoinError as error:
                if error.code not in (Code.RESIZED, Code.ROLLED_BACK):
                    raise
            ranks.join_again()
            again = True
        return None


class _Pickler(pickle.Pickler):
    """Equal values have equal bytes, which PyTorch's own way to pickle tensors doesn't give: it names storages by
    where they are in memory."""

    def reducer_override(self, value: Any) -> Any:
        if type(value).__module__.split(".")[0] != "torch" or not hasattr(value, "detach"):
            return NotImplemented
        import torch

        flat = value.detach().cpu().contiguous().reshape(-1)
        dtype = str(value.dtype).split(".")[-1]
        return _tensor, (dtype, tuple(value.shape), flat.view(torch.uint8).numpy().tobytes())


def _tensor(dtype: str, shape: Any, content: bytes) -> Any:
    import torch

    if not content:
        return torch.empty(shape, dtype=getattr(torch, dtype))
    return torch.frombuffer(bytearray(content), dtype=getattr(torch, dtype)).reshape(shape)


def _has_state_dict(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


class ElasticSampler:
    """Deals the samples 0 to ``size`` - 1 out, batch by batch, each of them once in an epoch.

    Where it stands is the epoch and how many samples of it were dealt out, the same at all ranks.
    So another world goes on exactly there: no sample is lost, and none is dealt out again that is
    in a committed state. ``shuffle``: each epoch has an order of its own, drawn from ``seed``.
    """

    def __init__(self, size: int, *, seed: int = 0, shuffle: bool = True) -> None:
        self.size, self.seed, self.shuffle = number("size", size, 63), number("seed", seed, 63), shuffle
        self.epoch = 0
        self.done = 0

    def batches(self, ranks: Communicator, batch: int) -> Iterator["np.ndarray[Any, Any]"]:
        """The indices of this rank's samples, at most ``batch`` at a time, to the end of the epoch.

        All ranks get as many arrays; at the tail some have fewer indices, or none: nothing is
        padded, so weigh what you sum by how many there are. A batch counts as dealt out when it is
        given: commit when its work is done.
        """
        if number("batch", batch, 31) < 1:
            raise refused("batch is 0; expected at least 1")
        order = np.arange(self.size)
        if self.shuffle:
            order = np.random.default_rng((self.seed, self.epoch)).permutation(self.size)
        while self.done < self.size:
            begin = self.done + ranks.rank * batch
            self.done = min(self.size, self.done + ranks.world * batch)
            is_last = self.done == self.size
            if is_last:
                self.epoch, self.done = self.epoch + 1, 0
            yield order[begin : begin + batch]
            if is_last:
                return

    def state_dict(self) -> Dict[str, int]:
        """Where it stands."""
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state: Dict[str, int]) -> None:
        """Goes on from there."""
        self.epoch, self.done = state["epoch"], state["done"]


def run(function: Callable[..., Result]) -> Callable[..., Optional[Result]]:
    """Makes a function of a :class:`State` one that trains as a rank of ``rejoin run``.

    It joins, restores the newest commit, calls the function, and ends the job with the state that
    the function has left, which has to be equal at all ranks. When the world changes, or all go
    back, the call in which the function is raises :class:`RejoinError` (``RESIZED``,
    ``ROLLED_BACK``): let it through, and the function is called again, in the new world. Returns
    what the function returns; ``None`` in a process that came when the job was over.
    """

    @functools.wraps(function)
    def train(state: State, *arguments: Any, **named: Any) -> Optional[Result]:
        if not isinstance(state, State):
            raise refused(f"the first argument is {state!r}; expected a rejoin.elastic.State")
        with join(f"{function.__module__}.{function.__qualname__}") as ranks:
            return state._train(ranks, lambda: function(state, *arguments, **named))

    return train
