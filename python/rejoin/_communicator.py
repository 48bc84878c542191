"""One rank of a job."""

import atexit
import ctypes
import sys
import threading
import weakref
from types import TracebackType
from typing import Any, Callable, List, Optional, Tuple, Type, TypeVar, Union

import numpy as np

from . import _arguments as given, _launched, _library as c
from ._arguments import refused
from ._arrays import Data, element as element_number, order as order_number, raw, reduction, whole
from ._callbacks import Callbacks, Fold, Prepare
from ._errors import Code, RejoinError
from ._former import Former
from ._limits import limits_of
from ._memory import copied
from ._owner import Owner
from ._placement import Placement
from ._snapshots import RELEASE, SUPPLY, keep

T = TypeVar("T")


def _site() -> bytes:
    """The first place on the stack that isn't in this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}".encode(errors="replace")


class Communicator(Owner):
    """One rank of a job in one incarnation. One thread at a time makes its calls, in the process
    that joined, not in one that is forked from it. Python hears of a signal (Ctrl-C, a notebook's
    "interrupt") when the call that waits has ended, at the latest after its time limit: where
    somebody is to interrupt it, join with a small ``call_timeout``.

    Every collective gives all ranks the same result or raises :class:`RejoinError`:
    ``BAD_ARGUMENT`` for what can't work, ``MISMATCH`` when ranks make different calls,
    ``TIMED_OUT``, ``FENCED``, or the job's own error. A call that fails leaves the arrays as they
    were. All ranks have to make the same calls in the same order.

    What the collectives have in common: ``op`` is sum, product, min, max, and, or, xor. ``order``
    is in which order the ranks' inputs are combined: ``rank``, or ``ring`` (XGBoost's).
    ``boot=True`` makes it a collective of the time before the first checkpoint whose result is kept
    for the life of the job, found again by its call site; ``boot="name"``: by that name.
    ``prepare(array)`` fills the input in place and returns ``None``, and isn't called when the result
    is a recorded one.
    """

    def __init__(self, handle: int, over: bool, launched: bool = False) -> None:
        super().__init__(handle)
        self._lock = threading.Lock()  # of calls: one at a time
        self._launched = launched
        self._over = self._ends(over)
        _not_closed.add(self)
        self.rank: int = c.library.rejoin_rank(handle)
        self.world: int = c.library.rejoin_world(handle)
        self.incarnation: int = c.library.rejoin_incarnation(handle)

    @property
    def over(self) -> bool:
        """Whether the job had reached its end when this process came: then there is nothing to do."""
        return self._over

    @property
    def placement(self) -> Placement:
        """Where this rank is among the ranks of its host, and its host among the hosts. It may change
        with any call, when a rank has come back on another host or the world was resized."""
        placement = c.Placement()
        self._call("place", ctypes.byref(placement))
        return Placement(placement.local_rank, placement.local_size, placement.cross_rank, placement.cross_size)

    @property
    def version(self) -> int:
        """The version that this rank is in: how many checkpoints the job has taken."""
        with self._using() as handle:
            return int(c.library.rejoin_version(handle))

    def load(self) -> Tuple[int, Optional[bytes]]:
        """What this incarnation starts from: the version, and the model of its checkpoint (``None``
        at version 0). Every program calls it, before its first checkpoint and the first collective
        that isn't a boot one."""
        version, model, size = ctypes.c_uint32(), ctypes.c_void_p(), ctypes.c_size_t()
        pointers = (ctypes.byref(version), ctypes.byref(model), ctypes.byref(size))
        data = self._taking(lambda: copied(model.value, size.value), "load", *pointers)
        return (version.value, data) if version.value > 0 else (0, None)

    def allreduce(
        self,
        array: "np.ndarray[Any, Any]",
        op: Union[str, Fold] = "sum",
        *,
        name: Optional[str] = None,
        element: Optional[str] = None,
        order: str = "rank",
        boot: Union[bool, str] = False,
        prepare: Optional[Prepare] = None,
    ) -> "np.ndarray[Any, Any]":
        """Every element of the array becomes the reduction of all ranks' elements at its place. Returns the array.

        ``op`` may be a function of two arrays (flat, of the same type) that gives the array of
        their combinations. It is called from left to right in the order of the ranks, need be
        neither commutative nor associative, and has to give the same whenever it is given the same;
        the array may then have any type without objects, and what the function gives has its type and
        length (what it leaves in its first argument is no result). ``name`` (the function's own, if
        it isn't given) has to be the same at all ranks.

        ``element="bfloat16"`` says that an array of uint16 holds the bits of such numbers, for
        which numpy has no type of its own. (Arrays of the package ml_dtypes say so themselves.)
        """
        whole("the array", array, True)
        callbacks = Callbacks()
        options = self._options(callbacks, order, boot, prepare, array)
        kind, reduces = _reduction(callbacks, array, op, name, element)
        self._call("allreduce" + kind, array.ctypes.data, array.size, *reduces, *options, callbacks=callbacks)
        return array

    def allreduce_object(
        self,
        data: Union[bytes, bytearray, memoryview],
        fold: Callable[[bytes, bytes], bytes],
        limit: int,
        *,
        name: Optional[str] = None,
        order: str = "rank",
        boot: Union[bool, str] = False,
    ) -> bytes:
        """The fold of all ranks' objects, each at most ``limit`` bytes long, from left to right in
        the order of the ranks."""
        whole_object = raw("the object", data).tobytes()
        if len(whole_object) > given.number("the limit", limit, 63):
            raise refused(f"an object of {len(whole_object)} bytes was given; the limit is {limit}")
        called = given.name_of(given.function("the fold", fold), name)
        callbacks = Callbacks()
        room, size = ctypes.create_string_buffer(whole_object, max(limit, 1)), ctypes.c_size_t(len(whole_object))
        options = self._options(callbacks, order, boot, None, None)
        arguments = (room, ctypes.byref(size), limit, called, callbacks.fold_object(fold), None, *options)
        self._call("allreduce_object", *arguments, callbacks=callbacks)
        return room.raw[: size.value]

    def reduce_scatter(
        self,
        array: "np.ndarray[Any, Any]",
        output: Optional["np.ndarray[Any, Any]"] = None,
        op: Union[str, Fold] = "sum",
        *,
        name: Optional[str] = None,
        element: Optional[str] = None,
        order: str = "rank",
        boot: Union[bool, str] = False,
        prepare: Optional[Prepare] = None,
    ) -> "np.ndarray[Any, Any]":
        """This rank's part of the reduction of all ranks' arrays, as :meth:`part` divides them.
        Returns the output, a flat array that is made if it isn't given. ``op``, ``name`` and
        ``element``: as :meth:`allreduce`."""
        whole("the array", array, prepare is not None)
        part = self.part(array.size, order=order)
        if output is None:
            output = np.empty(part.stop - part.start, dtype=array.dtype)
        if whole("the output", output, True).dtype != array.dtype:
            raise refused(f"the output is of {output.dtype}, the array of {array.dtype}")
        callbacks = Callbacks()
        options = self._options(callbacks, order, boot, prepare, array)
        buffers = (array.ctypes.data, array.size, output.ctypes.data, output.size)
        kind, reduces = _reduction(callbacks, array, op, name, element)
        self._call("reduce_scatter" + kind, *buffers, *reduces, *options, callbacks=callbacks)
        return output

    def part(self, count: int, rank: Optional[int] = None, *, order: str = "rank") -> slice:
        """Which of ``count`` elements are a rank's (this one's) in a reduce-scatter."""
        first, length = ctypes.c_size_t(), ctypes.c_size_t()
        number = self.rank if rank is None else given.number("the rank", rank, 32)
        count = given.number("the number of elements", count, 63)
        pointers = (ctypes.byref(first), ctypes.byref(length))
        if c.library.rejoin_part(number, self.world, count, order_number(order), *pointers) != c.OK:
            raise refused(f"rank {number} was asked for in a world of {self.world} ranks")
        return slice(first.value, first.value + length.value)

    def broadcast(
        self,
        array: "np.ndarray[Any, Any]",
        root: int = 0,
        *,
        boot: Union[bool, str] = False,
        prepare: Optional[Prepare] = None,
    ) -> "np.ndarray[Any, Any]":
        """The array becomes the root's at all ranks, and once any rank has it, at a root that was started
        again, too. Returns it. ``prepare`` is called at the root alone."""
        whole("the array", array, True)
        root = given.number("the root", root, 32)
        callbacks = Callbacks()
        options = self._options(callbacks, "rank", boot, prepare, array)
        arguments = (array.ctypes.data, array.size, element_number(array), root, *options)
        self._call("broadcast", *arguments, callbacks=callbacks)
        return array

    def allgather(
        self,
        array: "np.ndarray[Any, Any]",
        output: Optional["np.ndarray[Any, Any]"] = None,
        *,
        boot: Union[bool, str] = False,
        prepare: Optional[Prepare] = None,
    ) -> "np.ndarray[Any, Any]":
        """What each rank has, in rank order: an array of shape (world, *shape), which is made if it isn't given."""
        whole("the array", array, prepare is not None)
        if output is None:
            output = np.empty((self.world, *array.shape), dtype=array.dtype)
        if whole("the output", output, True).dtype != array.dtype or output.size != array.size * self.world:
            raise refused(
                f"the output is of {output.dtype} and has {output.size} elements; expected {array.dtype} and "
                f"{array.size} from each of {self.world} ranks"
            )
        callbacks = Callbacks()
        options = self._options(callbacks, "rank", boot, prepare, array)
        arguments = (array.ctypes.data, array.size, output.ctypes.data, element_number(array), *options)
        self._call("allgather", *arguments, callbacks=callbacks)
        return output

    def allgather_v(
        self, array: "np.ndarray[Any, Any]", *, boot: Union[bool, str] = False
    ) -> List["np.ndarray[Any, Any]"]:
        """What each rank has, in rank order, where each may have another number of elements: flat arrays."""
        whole("the array", array, False)
        output, counts = ctypes.c_void_p(), ctypes.POINTER(ctypes.c_size_t)()
        options = self._options(Callbacks(), "rank", boot, None, None)
        pointers = (ctypes.byref(output), ctypes.byref(counts))

        def parts() -> List["np.ndarray[Any, Any]"]:
            ends = np.cumsum([counts[rank] for rank in range(self.world)])
            data = copied(output.value, int(ends[-1]) * array.itemsize)
            return [part.copy() for part in np.split(np.frombuffer(data, dtype=array.dtype), ends[:-1])]

        arguments = (array.ctypes.data, array.size, element_number(array), *pointers, *options)
        return self._taking(parts, "allgather_v", *arguments)

    def barrier(self, *, boot: Union[bool, str] = False) -> None:
        """No rank goes on before all are there."""
        self._call("barrier", *self._options(Callbacks(), "rank", boot, None, None))

    def load_own(self) -> Optional[bytes]:
        """The model that only this rank had at the version that it starts from; ``None`` where none
        was taken, and for a rank that wasn't in the world that took it. In an elastic job it is the
        one of the rank that this one was then."""
        return self._own("load_own")

    @property
    def former(self) -> Optional[Former]:
        """The world that made the version which this incarnation starts from; ``None`` where it is the
        one that this rank is in, as it always is in a job that isn't elastic."""
        former = c.Former()

        def taken() -> Tuple[int, ...]:
            return tuple(former.given[index] for index in range(former.given_count)) if former.world else ()

        given = self._taking(taken, "former_world", ctypes.byref(former))
        return Former(None if former.rank < 0 else former.rank, former.world, given) if former.world else None

    def load_own_of(self, rank: int) -> Optional[bytes]:
        """The own model that a rank of the :attr:`former` world had at the version that this
        incarnation starts from: of one that this rank is given, or was itself. ``None``: it had
        none, or it is lost and may be (``rejoin run --own-may-be-lost``). Raises ``BAD_ARGUMENT`` for
        a rank whose model this one isn't given, which says whose it is."""
        return self._own("load_own_of", given.number("the rank", rank, 32))

    def _own(self, call: str, *of: int) -> Optional[bytes]:
        own, size = ctypes.c_void_p(), ctypes.c_size_t()
        pointers = (ctypes.byref(own), ctypes.byref(size))

        def taken() -> Optional[bytes]:
            return None if own.value is None else copied(own.value, size.value)

        return self._taking(taken, call, *of, *pointers)

    def checkpoint(self, model: Data, own: Optional[Data] = None) -> None:
        """Ends the version and begins the next one with this model, which has to be the same at all ranks.

        ``own`` is what only this rank has: it is held by two other processes (``own_copies``,
        ``rejoin run --own-copies``), on other hosts where there are any, before this returns. All
        ranks have to give one, or none.
        """
        data = raw("the model", model)
        if own is None:
            self._call("checkpoint", data.ctypes.data, data.size, _site())
            return
        mine = raw("the own model", own)
        self._call("checkpoint_with_own", data.ctypes.data, data.size, mine.ctypes.data, mine.size, _site())

    def checkpoint_lazy(self, supplier: Callable[[], Data]) -> None:
        """A checkpoint without the bytes: ``supplier()`` makes them when they are needed, by a
        rank that comes back or for a durable checkpoint. It stands for an immutable snapshot of
        the model: whenever it is called (for about two versions, mostly on another thread) it gives
        the same bytes, the same at all ranks. An array that the program goes on changing is none:
        copy it, and mind that a lambda sees a variable as it is when it is called. The first one's
        supplier is called in this call and in the next checkpoint, which raises ``MISMATCH`` if it
        gives something else by then."""
        given.function("the supplier", supplier)
        self._call("checkpoint_lazy", SUPPLY, RELEASE, keep(supplier), _site())

    def finish(self, model: Data) -> None:
        """The end: reports this model, the same at all ranks, and waits until all have. Then only
        :meth:`close` is left."""
        data = raw("the model", model)
        self._call("finish", data.ctypes.data, data.size)
        self._ends(True)

    def join_again(self) -> None:
        """After ``ROLLED_BACK`` or ``RESIZED``: takes part again in the same process, which keeps
        what it holds for the others, as the rank's next incarnation; after ``RESIZED`` ``rank`` and
        ``world`` may be others. Then :meth:`load` says what it starts from (or ``over`` that the
        job has ended). Raises ``BAD_STATE`` when no call has raised one of the two."""
        library = c.library

        def taken() -> Tuple[int, int, int]:
            handle = self._open()
            return library.rejoin_incarnation(handle), library.rejoin_rank(handle), library.rejoin_world(handle)

        over, numbers = self._with_status(taken, "join_again")
        self._over = self._ends(over)
        self.incarnation = numbers[0]
        if not self._over:
            _, self.rank, self.world = numbers

    def abandon(self, code: Code, reason: str) -> None:
        """The rank's program has failed for this reason. Where the code will repeat, the job ends at all
        ranks; but for ``CANCELLED``, which says that this task alone is."""
        self._call("abandon", given.number("the code", code, 31), given.text("the reason", reason))

    def print(self, text: str) -> None:
        """Shows a text to whoever started the job: ``rejoin run`` says it, :func:`rejoin.spark.run`
        prints it on the driver. From any thread, and nobody waits for it: up to 16 KiB of it, and up
        to 256 KiB in a second; what is left out is said with the next one."""
        with self._using() as handle:
            c.library.rejoin_print(handle, text.replace("\0", "?").encode(errors="replace"))

    def close(self) -> None:
        """Frees it; before :meth:`finish` this gives the rank's slot back. Closing again does
        nothing. Waits for a call that another thread has under way; inside of a call (in a function
        that it calls, or a signal handler) it takes effect when that call has ended."""
        self._close()

    def _free(self, handle: int) -> None:
        c.library.rejoin_close(handle)

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        raised: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        """An exception of the program is reported to the job, and its rank may be started again."""
        if raised is not None and self._handle is not None and isinstance(raised, Exception):
            try:
                if not isinstance(raised, RejoinError):
                    self.abandon(Code.IO, f"{type(raised).__name__}: {raised}")
            except RejoinError:
                pass  # it has failed or finished before, which is known
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def __repr__(self) -> str:
        state = "closed" if self._handle is None else "over" if self._over else "open"
        return f"<Communicator rank {self.rank} of {self.world}, incarnation {self.incarnation}, {state}>"

    def _ends(self, over: bool) -> bool:
        if over and self._launched:
            _launched.end()
        return over

    def _options(
        self,
        callbacks: Callbacks,
        order: str,
        boot: Union[bool, str],
        prepare: Optional[Prepare],
        array: Optional["np.ndarray[Any, Any]"],
    ) -> Tuple[bytes, Any]:
        options = c.Options(ctypes.sizeof(c.Options), order_number(order))
        if isinstance(boot, str):
            options.boot, options.boot_name = 2, given.text("boot", boot)
        elif isinstance(boot, (bool, np.bool_)):
            options.boot = int(boot)
        else:
            raise refused(f"boot is {boot!r}; expected True, False or a name")
        if prepare is not None and array is not None:
            options.prepare = callbacks.prepare(given.function("prepare", prepare), array)
        return _site(), ctypes.byref(options)

    def _call(self, name: str, *arguments: Any, callbacks: Optional[Callbacks] = None) -> None:
        self._with_status(lambda: None, name, *arguments, callbacks=callbacks)

    def _taking(self, take: Callable[[], T], name: str, *arguments: Any) -> T:
        """The same, and what it has left in the handle's memory."""
        return self._with_status(take, name, *arguments)[1]

    def _with_status(
        self, take: Callable[[], T], name: str, *arguments: Any, callbacks: Optional[Callbacks] = None
    ) -> Tuple[bool, T]:
        """Whether the job is over, and what was taken before another thread could close the handle."""
        if not self._lock.acquire(blocking=False):
            whose = "of another thread, or the one inside of which this one is made"
            raise RejoinError(Code.BAD_STATE, f"another call with this communicator is under way, {whose}")
        try:
            with self._using() as handle:
                status: int = getattr(c.library, "rejoin_" + name)(handle, *arguments)
                if status in (c.OK, c.OVER):
                    return status == c.OVER, take()
                text = _text(handle)
        finally:
            self._lock.release()
        raised = callbacks.raised if callbacks is not None else None
        if raised is not None and not isinstance(raised, Exception):
            raise raised
        raise RejoinError(c.code(status), text) from raised


def _reduction(
    callbacks: Callbacks,
    array: "np.ndarray[Any, Any]",
    op: Union[str, Fold],
    name: Optional[str],
    element: Optional[str],
) -> Tuple[str, Tuple[Any, ...]]:
    """How a call is named that reduces so, and how its arguments say it."""
    if not callable(op):
        if name is not None:
            raise refused(f"name={name!r} is the name of a function, and {op!r} is none; leave it out")
        return "", (element_number(array, element), reduction(op))
    if element is not None:
        raise refused(f"element={element!r} was given with a function, which gets the array's own {array.dtype}")
    return "_custom", (array.itemsize, given.name_of(op, name), callbacks.fold(op, array.dtype), None)


# What isn't closed when the interpreter ends: later no other thread of the library's can run Python any more, and
# one of them lets go of what lazy checkpoints hold.
_not_closed: "weakref.WeakSet[Communicator]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for communicator in list(_not_closed):
        if not communicator._lock.locked():  # a daemon thread's call may never end
            communicator.close()


def _text(handle: Any) -> str:
    """Why the last call failed. Advice names what is written in Python."""
    text: str = c.library.rejoin_message(handle).decode(errors="replace")
    for in_c, here in (("options.boot = REJOIN_BOOT_BY_SITE", "boot=True"), ("rejoin_load()", "load()")):
        text = text.replace(in_c, here)
    return text


def joined(status: int, handle: Any, launched: bool = False) -> Communicator:
    if status in (c.OK, c.OVER):
        return Communicator(handle.value, status == c.OVER, launched)
    text = _text(handle)
    c.library.rejoin_close(handle)
    raise RejoinError(c.code(status), text)


def join(
    terms: str = "",
    *,
    join_timeout: Optional[float] = None,
    call_timeout: Optional[float] = None,
    finish_timeout: Optional[float] = None,
) -> Communicator:
    """Joins as the rank that ``rejoin run`` has started this process as.

    ``terms`` says what the program assumes (its name and version, its parameters) and has to be
    equal at all ranks. The timeouts are in seconds: until all ranks are there (5 minutes), for one
    call (10 minutes), for the end (10 minutes).

    A ``rejoin run`` has one training: in a process whose rank has finished, or that came when the job
    was over, a second join raises ``BAD_STATE``.
    """
    _launched.check()
    handle = ctypes.c_void_p()
    limits = limits_of(join_timeout, call_timeout, finish_timeout)
    status = c.library.rejoin_join_launched(given.text("terms", terms), ctypes.byref(limits), ctypes.byref(handle))
    return joined(status, handle, launched=True)
