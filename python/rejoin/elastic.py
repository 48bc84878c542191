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
from typing import Any, Callable, Dict, Iterator, List, NoReturn, Optional, TypeVar

import numpy as np

from . import _buffers, _tensors
from ._arguments import number, refused
from ._communicator import Communicator
from ._current import joined
from ._errors import Code, RejoinError
from ._launch import launch

__all__ = ["ElasticSampler", "State", "launch", "run"]

Result = TypeVar("Result")


class State:
    """What a training goes on from: each keyword is an attribute, and all of them together are the
    model of a checkpoint.

    What it is made of may differ between ranks: where nothing is committed yet, all begin with rank
    0's values. After each step values have to be equal at all ranks, and pickled: numbers, texts,
    numpy's arrays, PyTorch's tensors, lists and dictionaries of them. What is put back are other
    objects (tensors are in main memory), so read them from the state. But a PyTorch tensor that
    requires a gradient, or is a parameter, stays the same object with the values that are put back,
    also in lists, tuples and dictionaries, as an optimizer holds it; anywhere else it is refused
    with ``BAD_ARGUMENT``, as is one with a history (``detach()`` it).

    Of a value with ``state_dict`` and ``load_state_dict`` (an :class:`ElasticSampler`; PyTorch's
    modules and optimizers) the former is kept, and put back by the latter. That is of values
    themselves, not of what is in a list. A PyTorch module's buffers (the running means of batch
    normalization) may differ: each commit and the end take rank 0's, by one broadcast. Names that
    begin with an underscore are not kept.
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
        the same point. It is where the world may change; no other call looks for hosts that come or
        go, and this one asks nobody for that. What was done since the last commit is done again
        after a change that can't wait for the next one (a death, or a process that had to go and
        for which ``--grace`` was too short), and where the word of a change comes when the next
        batch has begun."""
        kept = self._agreed()
        self.ranks.checkpoint(kept)
        self._kept = kept

    def restore(self) -> None:
        """Puts back what was committed last (at the beginning: what all have begun with, and before
        that, what the state was made of). Of this rank alone. Raises ``INCOMPATIBLE`` where the
        job's state has values of other names, or what is trained has another shape or type."""
        self._put(self._kept)

    def sync(self) -> None:
        """All ranks take rank 0's values, as they are there now, at all ranks at the same point.
        It is an ordinary collective: a rank that is started again in the same version gets the same
        values. Where nothing is committed yet it is done once before the function is called. What
        :meth:`restore` puts back stays what was committed last."""
        self._put(self._of_rank_0())

    def _put(self, encoded: bytes) -> None:
        values: Dict[str, Any] = pickle.loads(encoded)
        if set(values) != set(self._names):
            seen = f"the job's state has the values {sorted(values)}, and this rank's {sorted(self._names)}"
            self._incompatible(f"{seen}; keep the same values at all ranks and in each run of a job")
        own = {name: self.__dict__[name] for name in self._names}
        plain = {name: value for name, value in own.items() if not _has_state_dict(value)}
        try:
            self.__dict__.update(_tensors.restored(plain, {name: values[name] for name in plain}))
        except RejoinError as error:
            self._incompatible(error.text)
        for name, value in own.items():
            if name not in plain:
                value.load_state_dict(values[name])

    def _incompatible(self, text: str) -> NoReturn:
        if "ranks" in self.__dict__:
            self.ranks.abandon(Code.INCOMPATIBLE, text)
        raise RejoinError(Code.INCOMPATIBLE, text)

    def register_reset_callbacks(self, callbacks: List[Callable[[], None]]) -> None:
        """Calls these, with the newest commit restored, each time that the function begins again in
        this process, and where it begins in another world than that which made the newest commit: so
        a process that comes calls them as those do that stay. What they change has to follow from
        the state and the world, and they make no collective calls."""
        self._callbacks.extend(callbacks)

    def _of_rank_0(self) -> bytes:
        """Rank 0's values. A rank 0 that dies on the way may come back with other ones, of another length; the
        others hear of that by the length, which goes with each try."""
        own = self._encoded() if self.ranks.rank == 0 else b""
        length = 0
        while True:
            content = np.zeros(8 + length, np.uint8)
            if self.ranks.rank == 0:
                content[:8] = np.frombuffer(len(own).to_bytes(8, "little"), np.uint8)
                if len(own) == length:
                    content[8:] = np.frombuffer(own, np.uint8)
            self.ranks.broadcast(content)
            said = int.from_bytes(content[:8].tobytes(), "little")
            if said == length:
                return bytes(content[8:])
            length = said

    def _agreed(self) -> bytes:
        """All values, when what may differ between ranks doesn't any more."""
        _buffers.share(self.ranks, [self.__dict__[name] for name in self._names])
        return self._encoded()

    def _encoded(self) -> bytes:
        values = {name: self.__dict__[name] for name in self._names}
        kept = {name: value.state_dict() if _has_state_dict(value) else value for name, value in values.items()}
        into = io.BytesIO()
        _tensors.Pickler(into, kept).dump(kept)
        return into.getvalue()

    def _train(self, ranks: Communicator, begin: Callable[[], Result]) -> Optional[Result]:
        self.ranks = ranks
        again = False
        while not ranks.over:
            try:
                version, kept = ranks.load()
                self._kept = self._kept if kept is None else kept
                self.restore()
                if again or ranks.former is not None:
                    for callback in self._callbacks:
                        callback()
                if version == 0:
                    self._kept = self._of_rank_0()
                    self.restore()
                result = begin()
                ranks.finish(self._agreed())
                return result
            except RejoinError as error:
                if error.code not in (Code.RESIZED, Code.ROLLED_BACK):
                    raise
            ranks.join_again()
            again = True
        return None


def _has_state_dict(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


class ElasticSampler:
    """Deals the samples 0 to ``size`` - 1 out, batch by batch, each of them once in an epoch.

    Where it stands is the epoch and how many samples of it were dealt out, the same at all ranks.
    So another world goes on exactly there: no sample is lost, and none is dealt out again that is
    in a committed state. ``shuffle``: each epoch has an order of its own, drawn from ``seed``. The
    size, ``seed`` and ``shuffle`` belong to its state: a rank that differs in one of them ends with
    ``BAD_ARGUMENT`` when it restores what the others have.
    """

    def __init__(self, size: int, *, seed: int = 0, shuffle: bool = True) -> None:
        self.size, self.seed, self.shuffle = number("size", size, 63), number("seed", seed, 63), bool(shuffle)
        if self.size < 1:
            raise refused("size is 0: there are no samples, and no epoch would end; expected at least 1")
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
        """Where it stands, and of what."""
        return {"epoch": self.epoch, "done": self.done, **self._dealt()}

    def load_state_dict(self, state: Dict[str, int]) -> None:
        """Goes on from there. Raises ``BAD_ARGUMENT`` for the state of a sampler of another size, seed
        or shuffle: it has dealt other samples out."""
        dealt = {name: state.get(name) for name in self._dealt()}
        if dealt != self._dealt():
            raise refused(
                f"the state is of an ElasticSampler with {dealt}, this one has {self._dealt()}: its samples were dealt "
                "out in another order. Make the sampler as it was made then"
            )
        self.epoch, self.done = state["epoch"], state["done"]

    def _dealt(self) -> Dict[str, int]:
        return {"size": self.size, "seed": self.seed, "shuffle": int(self.shuffle)}


def run(function: Callable[..., Result]) -> Callable[..., Optional[Result]]:
    """Makes a function of a :class:`State` one that trains as a rank of ``rejoin run``.

    It joins, if :func:`rejoin.torch.init` hasn't, restores the newest commit (where there is none,
    all ranks take rank 0's values, as by :meth:`State.sync`), calls the function, and ends the job
    with the state that the function has left, which has to be equal at all ranks. When the world
    changes, or all go back, the call in which the function is raises :class:`RejoinError`
    (``RESIZED``, ``ROLLED_BACK``): let it through, and the function is called again, in the new
    world. Returns what the function returns; ``None`` in a process that came when the job was over.
    A second training in the process raises ``BAD_STATE``: a ``rejoin run`` has one.

    A rank that dies and is started again begins from the newest commit alone, and the others go on.
    So from each commit on the function has to make the same calls as a rank that goes past it: what
    is done stands in the state.
    """

    @functools.wraps(function)
    def train(state: State, *arguments: Any, **named: Any) -> Optional[Result]:
        if not isinstance(state, State):
            raise refused(f"the first argument is {state!r}; expected a rejoin.elastic.State")
        with joined(f"{function.__module__}.{function.__qualname__}") as ranks:
            return state._train(ranks, lambda: function(state, *arguments, **named))

    return train
