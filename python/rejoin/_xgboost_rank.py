"""One rank of a job that trains with XGBoost: the calls of ``rejoin.h`` and nothing else."""

import ctypes
from typing import Any, Optional, Tuple

from . import _arguments as given, _launched, _library as c
from ._arguments import refused
from ._errors import Code, RejoinError
from ._memory import copied
from ._owner import Owner
from ._process import Process

_HOOKS = {"auto": 0, "off": 1}


class Start:
    """What an incarnation starts from."""

    def __init__(
        self, version: int, round_: int, complete: bool, checkpoint: Optional[bytes], own: Optional[bytes]
    ) -> None:
        self.version, self.round, self.complete, self.checkpoint = version, round_, complete, checkpoint
        self.own = own  # what only this rank had


class Rank(Owner):
    """One rank in one incarnation. Its calls belong to the thread that trains, but for :meth:`free`.

    ``rank``, ``world`` and ``incarnation`` (how often this rank was started before) are numbers;
    ``hooked`` says whether XGBoost's collectives are Rejoin's own.
    """

    def __init__(self, handle: int, launched: bool = False) -> None:
        super().__init__(handle)
        self._launched = launched
        self.rank: int = c.library.rejoin_xgboost_rank(handle)
        self.world: int = c.library.rejoin_xgboost_world(handle)
        self.incarnation: int = c.library.rejoin_xgboost_incarnation(handle)
        self.hooked: bool = bool(c.library.rejoin_xgboost_is_hooked(handle))
        self.keeps_booster: bool = bool(c.library.rejoin_xgboost_keeps_booster(handle))

    def free(self, code: Code, reason: str) -> None:
        """Frees the thread that trains, from another one: its calls end with this code and reason."""
        text = given.text("the reason", reason)
        with self._using() as handle:
            status = c.library.rejoin_xgboost_free(handle, int(code), text)
        if status != c.OK:
            raise RejoinError(c.code(status), f"rank {self.rank} can't be freed: it is over, or {code!r} is no failure")

    def is_ours(self) -> bool:
        """Whether this is the process that joined, not one that is forked from it."""
        return self._is_ours()

    def start(self) -> Start:
        """What this incarnation starts from."""
        version, round_, complete = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_int32()
        data, size = ctypes.c_void_p(), ctypes.c_size_t()
        numbers = (ctypes.byref(version), ctypes.byref(round_), ctypes.byref(complete))
        self.call("load", *numbers, ctypes.byref(data), ctypes.byref(size))
        checkpoint = copied(data.value, size.value) if data.value is not None else None
        self.call("load_own", ctypes.byref(data), ctypes.byref(size))
        own = copied(data.value, size.value) if data.value is not None else None
        return Start(version.value, round_.value, bool(complete.value), checkpoint, own)

    def communicator(self) -> str:
        """The arguments of XGBoost's communicator, as JSON."""
        text = ctypes.c_char_p()
        self.call("communicator", ctypes.byref(text))
        return (text.value or b"").decode()

    def enter(self, version: int, round_: int, checkpoint: bytes, own: Optional[bytes], complete: bool) -> None:
        """Ends the present phase and enters this version; ``own`` is what only this rank has."""
        self.call("enter", version, round_, checkpoint, len(checkpoint), own, len(own or b""), int(complete))

    def begin_round(self, round_: int) -> None:
        """This round begins, within a version."""
        if self.incarnation > 0:
            self.call("begin_round", round_)

    def finish(self, rounds: int, model: bytes) -> None:
        """Reports the end, and waits until all ranks have."""
        self.call("finish", rounds, model, len(model))
        if self._launched:
            _launched.end()

    def failure(self) -> Optional[RejoinError]:
        """Why this rank's calls end; ``None`` while it is in order."""
        try:
            self.call("failure")
        except RejoinError as known:
            return known
        return None

    def abandon(self, code: Code, reason: str) -> None:
        """The rank's program has failed for this reason. Where the code will repeat, the job ends at all ranks."""
        self.call("abandon", int(code), reason.replace("\0", "?").encode(errors="replace"))

    def close(self) -> None:
        """Frees it; before :meth:`finish` this gives the rank's slot back. Closing again does nothing."""
        self._close()

    def _free(self, handle: int) -> None:
        c.library.rejoin_xgboost_close(handle)

    def call(self, name: str, *arguments: Any) -> None:
        """One call of the library."""
        with self._using() as handle:
            status = getattr(c.library, "rejoin_xgboost_" + name)(handle, *arguments)
            if status != c.OK:
                raise RejoinError(c.code(status), _text(handle))

    def __repr__(self) -> str:
        state = "closed" if self._handle is None else "hooked" if self.hooked else "bridged"
        return f"<Rank {self.rank} of {self.world}, incarnation {self.incarnation}, {state}>"


def _text(handle: Any) -> str:
    """Why the last call failed."""
    text: str = c.library.rejoin_xgboost_message(handle).decode(errors="replace")
    return text


def join(version: str, terms: str, hook: str, limits: c.Limits) -> Optional[Rank]:
    """Joins as the rank that this process was started as; ``None`` when the job had ended before."""
    _launched.check()
    options, handle, words = _options(version, hook), ctypes.c_void_p(), given.text("terms", terms)
    byref = ctypes.byref
    status = c.library.rejoin_xgboost_join_launched(words, byref(options), byref(limits), byref(handle))
    rank = _joined(status, handle, launched=True)
    if rank is None:
        _launched.end()
    return rank


class XgboostProcess(Process):
    """One process's part in a job that trains with XGBoost of this version; the rest is :class:`rejoin.Process`'s."""

    _PREFIX = "rejoin_xgboost_process_"

    def __init__(self, version: str, hook: str, *place: Any, **settings: Any) -> None:
        self._options = _options(version, hook)
        super().__init__(*place, **settings)

    def _start(self, config: c.Config, handle: Any) -> int:
        byref = ctypes.byref
        status: int = self._function("start")(byref(config), byref(self._options), byref(handle))
        return status

    def join_as(
        self, attempt: Tuple[int, int, int], terms: str, limits: c.Limits, asks: bool = False
    ) -> Optional[Rank]:
        """Joins as a rank, by its number, stage and task; ``None`` when the job had ended before. One
        that ``asks``, in a job with spares, joins by its task's number as the rank that it is given."""
        join = c.library.rejoin_xgboost_join_as_task if asks else c.library.rejoin_xgboost_join
        return _joined(*self._join(join, attempt, terms, limits))


def _options(version: str, hook: str) -> c.XgboostOptions:
    if hook not in _HOOKS:
        raise refused(f"hook is {hook!r}; expected auto or off")
    return c.XgboostOptions(ctypes.sizeof(c.XgboostOptions), given.text("the version", version), _HOOKS[hook])


def _joined(status: int, handle: Any, launched: bool = False) -> Optional[Rank]:
    if status == c.OK and handle.value is not None:
        return Rank(handle.value, launched)
    text = _text(handle)
    c.library.rejoin_xgboost_close(handle)
    if status == c.OVER:
        return None
    if c.code(status) == Code.INCOMPATIBLE and "not supported" in text:
        text += '; for instance by pip install "xgboost==3.2.0"'
    raise RejoinError(c.code(status), text)
