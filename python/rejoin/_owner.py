"""Who holds a handle of the library."""

import contextlib
import os
import threading
from typing import Any, Iterator, List, Optional

from ._errors import Code, RejoinError


class Owner:
    """Has a handle of the library, in the process that made it: a child by fork has a copy of the
    memory, but not the threads, and what it sent would be taken for this rank's.

    Nobody frees the handle while a thread uses it: :meth:`close` waits for the others. Its own
    thread can't wait for itself (in a function that a call calls, or a signal handler): then the
    handle is freed when that call has ended.
    """

    def __init__(self, handle: Optional[int]) -> None:
        self._handle: Optional[int] = handle
        self._process = os.getpid()
        # A signal handler may come between any two steps of its thread: so the lock lets a thread in again, and a
        # thread counts as a user before it takes the handle.
        self._changed = threading.Condition(threading.RLock())
        self._users: List[int] = []
        self._left: Optional[int] = None

    def _free(self, handle: int) -> None:
        raise NotImplementedError

    def _is_ours(self) -> bool:
        return self._process == os.getpid()

    def _open(self) -> int:
        name = type(self).__name__
        if self._handle is None:
            raise RejoinError(Code.BAD_STATE, f"this {name} is closed")
        if not self._is_ours():
            text = f"this {name} belongs to process {self._process}; this is process {os.getpid()}, forked from it"
            raise RejoinError(Code.BAD_STATE, text)
        return self._handle

    @contextlib.contextmanager
    def _using(self) -> Iterator[int]:
        """The handle, which isn't freed before this is left."""
        self._open()  # a child by fork may find the lock taken for ever
        thread = threading.get_ident()
        with self._changed:
            self._users.append(thread)
        try:
            yield self._open()
        finally:
            left = None
            with self._changed:
                self._users.remove(thread)
                if not self._users:
                    left, self._left = self._left, None
                self._changed.notify_all()
            if left is not None:
                self._free(left)

    def _close(self) -> None:
        """Frees the handle, once."""
        if not self._is_ours():
            self._handle = None
            return
        with self._changed:
            handle, self._handle = self._handle, None
            if handle is None:
                return
            if threading.get_ident() in self._users:
                self._left = handle
                return
            self._changed.wait_for(lambda: not self._users)
        self._free(handle)

    def __reduce__(self) -> Any:
        # Two objects with one handle would both free it.
        raise TypeError(f"a {type(self).__name__} belongs to one process and can't be copied or pickled")
