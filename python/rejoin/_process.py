"""A process that was started by a launcher of the user's own."""

import ctypes
import os
from typing import Any, Optional, Tuple

from . import _arguments as given, _library as c
from ._arguments import refused
from ._arrays import raw
from ._communicator import Communicator, joined
from ._errors import RejoinError
from ._limits import limits_of
from ._owner import Owner


class Process(Owner):
    """One process's part in one job, for a launcher of your own, and for several ranks in a
    process. Close it at the end; the communicators that were made of it stay usable.

    ``job`` is 32 hexadecimal digits, ``secret`` 32 bytes, ``tracker`` an address with a port,
    ``executor`` a name that no other process of the job has, ``listen`` the IP address that peers
    reach this process at. ``log_memory`` and ``log_disk`` are the bytes that results for ranks that
    come back may take in memory (1 GiB) and in files below ``spill`` (16 GiB, in the system's
    folder for temporary files). ``durable`` is a folder that is there and that all processes of the
    job see: every ``durable_every`` versions (1) a checkpoint is written there, and should all
    processes die at once, the newest whole one is gone on from. ``own_copies`` is how many other
    processes hold each rank's own model (``checkpoint(model, own=…)``; 2), on other hosts where
    there are any: at least 1, the same at all ranks; where there are fewer others, each of them
    holds one.
    """

    _PREFIX = "rejoin_process_"

    def __init__(
        self,
        job: str,
        secret: bytes,
        tracker: str,
        executor: str,
        *,
        listen: str = "127.0.0.1",
        ports: str = "0",
        host: Optional[str] = None,
        encrypt: bool = False,
        tracker_timeout: Optional[float] = None,
        log_memory: Optional[int] = None,
        log_disk: Optional[int] = None,
        spill: Optional[str] = None,
        durable: Optional[str] = None,
        durable_every: Optional[int] = None,
        own_copies: int = 2,
    ) -> None:
        super().__init__(None)
        secret = raw("the secret", secret).tobytes()
        if len(secret) != 32:
            raise refused(f"the secret has {len(secret)} bytes; expected 32")
        texts = {"tracker": tracker, "listen": listen, "ports": ports, "host": host or listen, "executor": executor}
        words = [given.text(what, text) for what, text in texts.items()]
        config = c.Config(ctypes.sizeof(c.Config), given.text("job", job), secret, *words)
        config.encrypt = int(encrypt)
        config.tracker_timeout_millis = given.millis("tracker_timeout", tracker_timeout)
        # In C 0 is the default, and a single byte is as good as none.
        config.log_memory = 0 if log_memory is None else max(1, given.number("log_memory", log_memory, 64))
        config.log_disk = 0 if log_disk is None else max(1, given.number("log_disk", log_disk, 64))
        config.spill = None if spill is None else os.fsencode(spill)
        config.durable = None if durable is None else os.fsencode(durable)
        if durable_every is not None and durable is None:
            raise refused(f"durable_every is {durable_every!r} without a folder for it; expected durable=… too")
        config.durable_every = 0 if durable_every is None else max(1, given.number("durable_every", durable_every, 32))
        config.own_copies = given.number("own_copies", own_copies, 32)
        if config.own_copies == 0:  # in C the default
            raise refused(
                "own_copies is 0; at least 1 is needed: an own model that no other process holds is lost with its "
                "rank's process"
            )
        handle = ctypes.c_void_p()
        status = self._start(config, handle)
        self._handle = handle.value
        if status != c.OK:
            text = self._function("message")(handle).decode(errors="replace")
            self.close()
            raise RejoinError(c.code(status), text)

    def _start(self, config: c.Config, handle: Any) -> int:
        status: int = self._function("start")(ctypes.byref(config), ctypes.byref(handle))
        return status

    def _function(self, name: str) -> Any:
        return getattr(c.library, self._PREFIX + name)

    def join(
        self,
        rank: int,
        terms: str = "",
        *,
        stage: int = 0,
        task: int = 0,
        join_timeout: Optional[float] = None,
        call_timeout: Optional[float] = None,
        finish_timeout: Optional[float] = None,
    ) -> Communicator:
        """Joins as a rank; ``stage`` counts the starts of all ranks together, ``task`` those of this rank alone."""
        limits = limits_of(join_timeout, call_timeout, finish_timeout)
        return joined(*self._join(c.library.rejoin_join, (rank, stage, task), terms, limits))

    def join_as_task(
        self,
        number: int,
        terms: str = "",
        *,
        stage: int = 0,
        task: int = 0,
        join_timeout: Optional[float] = None,
        call_timeout: Optional[float] = None,
        finish_timeout: Optional[float] = None,
    ) -> Communicator:
        """The same in a job whose world may shrink and grow (``rejoin.Tracker(…, min_world=…)``): ``number``
        is the process's, which rank it is the job says. Waits while no rank is left for it."""
        limits = limits_of(join_timeout, call_timeout, finish_timeout)
        return joined(*self._join(c.library.rejoin_join_as_task, (number, stage, task), terms, limits))

    def _join(self, join: Any, attempt: Tuple[int, int, int], terms: str, limits: c.Limits) -> Tuple[int, Any]:
        """The status, and the rank's handle."""
        handle = ctypes.c_void_p()
        numbers = [given.number(what, number, 32) for what, number in zip(("the rank", "stage", "task"), attempt)]
        byref = ctypes.byref
        words = given.text("terms", terms)
        with self._using() as process:
            return join(process, *numbers, words, byref(limits), byref(handle)), handle

    def close(self) -> None:
        """Closing again does nothing. Waits for a join that another thread has under way."""
        self._close()

    def _free(self, handle: int) -> None:
        self._function("close")(handle)

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
