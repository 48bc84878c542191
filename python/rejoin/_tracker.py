"""A job's tracker in the process of whoever starts the ranks."""

import ctypes
import json
import os
import threading
import time
from typing import Any, Dict, Iterator, NamedTuple, Optional, Tuple, Union

from . import _arguments as given, _library as c
from ._arguments import refused
from ._arrays import raw
from ._errors import Code, RejoinError
from ._memory import copied
from ._owner import Owner

# A call of C doesn't hear Ctrl-C; one that waits comes back so often.
_LOOK = 0.1


class Event(NamedTuple):
    """Something that happened in a job: its name, as ``RankLost``, and its fields, as ``rejoin run
    --events`` logs them."""

    name: str
    fields: Dict[str, Any]


class Tracker(Owner):
    """The tracker of a job of ``world`` ranks, in this process. Whoever opens it starts the ranks, by
    whatever means, and starts those again that die; each is given ``job``, ``secret`` (by a way
    that nobody else reads) and ``address``, for :class:`rejoin.Process`.

        with rejoin.Tracker(2) as tracker:
            ...                                     # start the ranks' processes
            for event in tracker:                   # until the job's end
                print(event.name, event.fields)
            model = tracker.result()                # raises RejoinError if the job has failed

    A driver that looks after its processes meanwhile calls :meth:`poll` in a loop, or lets a thread
    for each of them call :meth:`executor_gone`.

    ``listen`` is the IP address that the ranks' processes reach, ``ports`` 0 (any), a port, or
    FIRST-LAST. ``encrypt`` encrypts the links between ranks; what the tracker hears always is. With
    ``join_file``, which must not be there, ``rejoin run --join`` starts ranks, and nothing else is
    to be handed over; ``name`` is what the job is called in it. ``deaths`` is which death of one
    rank ends the job (``None``: no number of them does). Times are seconds: ``lost_after`` of
    silence (1.5) a process is declared lost; a rank may be missing for ``members`` (60). With
    ``min_world`` the world may shrink to so many ranks, and grow to ``max_world`` (``world``): then
    processes join by :meth:`rejoin.Process.join_as_task`; a replacement is waited for
    ``elastic_timeout`` (30), and the world doesn't grow for ``resize_interval`` (10) after it has
    changed. ``reset_limit`` is how often it may change (``None``: any number of times): after that
    it doesn't grow, and if it had to shrink, the job ends with ``UNRECOVERABLE``. With
    ``own_may_be_lost`` the own models of ranks that are gone may be lost, should no copy of one be
    left; without it the job ends with ``UNRECOVERABLE`` then.

    Several threads may use it, all in the process that opened it. One at a time polls.
    """

    def __init__(
        self,
        world: int,
        *,
        job: Optional[str] = None,
        secret: Optional[bytes] = None,
        listen: str = "127.0.0.1",
        ports: str = "0",
        encrypt: bool = False,
        name: Optional[str] = None,
        join_file: Optional[Union[str, "os.PathLike[str]"]] = None,
        deaths: Optional[int] = None,
        lost_after: Optional[float] = None,
        members: Optional[float] = None,
        min_world: Optional[int] = None,
        max_world: Optional[int] = None,
        elastic_timeout: Optional[float] = None,
        resize_interval: Optional[float] = None,
        reset_limit: Optional[int] = None,
        own_may_be_lost: bool = False,
    ) -> None:
        super().__init__(None)
        self._polling, self._polls = threading.RLock(), False  # a signal handler may ask for the result
        config = c.TrackerConfig(ctypes.sizeof(c.TrackerConfig), _above("world", world))
        config.job = None if job is None else given.text("job", job)
        if secret is not None:
            secret = raw("the secret", secret).tobytes()
            if len(secret) != 32:
                raise refused(f"the secret has {len(secret)} bytes; expected 32")
        config.secret = secret
        config.listen, config.ports = given.text("listen", listen), given.text("ports", ports)
        config.encrypt = int(encrypt)
        config.name = None if name is None else given.text("name", name)
        config.join_file = None if join_file is None else os.fsencode(join_file)
        # In C 0 is the default.
        config.deaths = 0 if deaths is None else _above("deaths", deaths)
        config.lost_after_millis = given.millis("lost_after", lost_after)
        config.members_millis = given.millis("members", members)
        config.min = 0 if min_world is None else _above("min_world", min_world)
        config.max = 0 if max_world is None else _above("max_world", max_world)
        config.elastic_timeout_millis = given.millis("elastic_timeout", elastic_timeout)
        config.resize_interval_millis = given.millis("resize_interval", resize_interval)
        config.most_resizes = 0 if reset_limit is None else _above("reset_limit", reset_limit)
        config.own_may_be_lost = int(own_may_be_lost)
        handle = ctypes.c_void_p()
        status = c.library.rejoin_tracker_open(ctypes.byref(config), ctypes.byref(handle))
        self._handle = handle.value
        if status != c.OK:
            error = _error(self._handle, status)
            self.close()
            raise error
        self.world = world
        #: The job's id, 32 hexadecimal digits.
        self.job: str = c.library.rejoin_tracker_job(handle).decode()
        #: 32 bytes.
        self.secret: bytes = copied(c.library.rejoin_tracker_secret(handle), 32)
        #: The tracker's address and port.
        self.address: str = c.library.rejoin_tracker_address(handle).decode()

    def poll(self, timeout: Optional[float] = None) -> Optional[Event]:
        """The next event, waiting for it at most so many seconds (``None``: for ever). ``None`` when
        there is none in time, and at once when the job is over and all events were taken
        (:attr:`over`).

        One event asks for something. ``KillWanted``: kill the process with the name ``executor`` and
        start its rank again; it was declared lost, but may only be frozen."""
        if timeout is not None and not 0 <= timeout < float("inf"):
            raise refused(f"timeout is {timeout!r}; expected seconds, 0 or more, or None")
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _LOOK if until is None else max(0.0, min(until - time.monotonic(), _LOOK))
            with self._using() as handle:
                if not self._polling.acquire(blocking=False):
                    raise RejoinError(Code.BAD_STATE, "another thread polls this Tracker; one at a time does")
                try:
                    status, event = self._polled(handle, int(left * 1000))
                finally:
                    self._polling.release()
            if event is not None or status != c.OK or (until is not None and time.monotonic() >= until):
                return event

    def _polled(self, handle: int, millis: int) -> Tuple[int, Optional[Event]]:
        """One look. What it finds is in the library's memory until the next one."""
        if self._polls:
            text = "a signal handler polls this Tracker inside of a poll; it may ask whether it is over"
            raise RejoinError(Code.BAD_STATE, text)
        self._polls = True
        try:
            event = ctypes.c_char_p()
            status: int = c.library.rejoin_tracker_poll(handle, millis, ctypes.byref(event))
            if event.value is not None:
                ((name, fields),) = json.loads(event.value).items()
                return status, Event(name, fields)
            if status != c.OK and c.library.rejoin_tracker_is_over(handle) == 0:
                raise _error(handle, status)
            return status, None
        finally:
            self._polls = False

    @property
    def over(self) -> bool:
        """Whether the job has ended, well or with an error."""
        with self._using() as handle:
            return int(c.library.rejoin_tracker_is_over(handle)) == 1

    def __iter__(self) -> Iterator[Event]:
        """Every event until the job's end, well or not."""
        while True:
            event = self.poll()
            if event is None:
                return
            yield event

    def result(self) -> bytes:
        """The model that rank 0 has finished with, as bytes. Raises the job's error if it has failed,
        ``BAD_STATE`` while it goes on."""
        model, size = ctypes.c_void_p(), ctypes.c_size_t()
        with self._using() as handle, self._polling:
            status = c.library.rejoin_tracker_result(handle, ctypes.byref(model), ctypes.byref(size))
            if status != c.OK:
                raise _error(handle, status)
            return copied(model.value, size.value)

    def executor_gone(self, executor: str, reason: str = "whoever has started it says so") -> None:
        """The process of this name is gone: its ranks are declared lost at once, and nobody waits
        for its silence to be long enough. An unknown name changes nothing."""
        self._tell("notify", given.text("executor", executor), given.text("reason", reason))

    def task_leaves(self, number: int, *, task: int, stage: int = 0) -> None:
        """With ``min_world``: the process that joins by this number, ``task`` and ``stage``
        (:meth:`Process.join_as_task`) is about to be ended, and none is started in its place. Should
        there be a slot for one again, a later ``task`` takes part as any other. The ranks finish the
        version that they are in, and go on without it; the event ``TaskReleased``, of this number as
        ``index`` and this attempt as ``attempt``, says when nothing is lost by its end. That may never
        come (the world would be too small, say): end the process after a time of your own. Then what
        the others were in is done again, and no replacement is waited for."""
        numbers = {"the number": number, "stage": stage, "task": task}
        self._tell("leaves", *(given.number(what, value, 32) for what, value in numbers.items()))

    def cancel(self, reason: str, code: Code = Code.CANCELLED) -> None:
        """Ends the job with this error, which every rank's call raises, and :meth:`result`."""
        self._tell("cancel", given.number("the code", code, 31), given.text("reason", reason))

    def close(self) -> None:
        """Stops listening. A job that is still going on ends: its ranks' calls raise ``CANCELLED``.
        So wait for the ranks' processes first. Closing again does nothing. In a signal handler it takes
        effect when the call that it interrupts has ended."""
        self._close()

    def _free(self, handle: int) -> None:
        c.library.rejoin_tracker_close(handle)

    def _tell(self, name: str, *arguments: Any) -> None:
        with self._using() as handle:
            status = getattr(c.library, "rejoin_tracker_" + name)(handle, *arguments)
            if status != c.OK:
                raise _error(handle, status)

    def __enter__(self) -> "Tracker":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _error(handle: Optional[int], status: int) -> RejoinError:
    text = c.library.rejoin_tracker_message(handle).decode(errors="replace")
    return RejoinError(c.code(status), text)


def _above(what: str, value: Any) -> int:
    """A number from 1."""
    number = given.number(what, value, 32)
    if number == 0:
        raise refused(f"{what} is 0; expected at least 1")
    return number
