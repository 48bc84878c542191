"""Who holds a handle of the library."""

import os
from typing import Any, Optional

from ._errors import Code, RejoinError


class Owner:
    """Has a handle of the library, in the process that made it: a child by fork has a copy of the
    memory, but not the threads, and what it sent would be taken for this rank's."""

    def __init__(self, handle: Optional[int]) -> None:
        self._handle: Optional[int] = handle
        self._process = os.getpid()

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

    def __reduce__(self) -> Any:
        # Two objects with one handle would both free it.
        raise TypeError(f"a {type(self).__name__} belongs to one process and can't be copied or pickled")
