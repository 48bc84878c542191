"""Functions of the program's that the library calls inside of a call."""

import ctypes
from typing import Any, Callable, Optional

import numpy as np

from . import _library as c
from ._memory import copied

Prepare = Callable[["np.ndarray[Any, Any]"], None]
Fold = Callable[["np.ndarray[Any, Any]", "np.ndarray[Any, Any]"], "np.ndarray[Any, Any]"]


def _view(address: int, count: int, dtype: Any) -> "np.ndarray[Any, Any]":
    """Memory of the library as an array, for the time of a callback."""
    size = count * np.dtype(dtype).itemsize
    memory: Any = (ctypes.c_char * size).from_address(address)
    array: "np.ndarray[Any, Any]" = np.frombuffer(memory, dtype=dtype, count=count)
    return array


class Callbacks:
    """Keeps a call's callbacks alive, and the exception that one of them raised."""

    def __init__(self) -> None:
        self.raised: Optional[BaseException] = None

    def _guard(self, work: Callable[[], None]) -> int:
        try:
            work()
            return 0
        except BaseException as raised:  # whatever it is, it must not get lost in C
            self.raised = raised
            return 1

    def prepare(self, function: Prepare, array: "np.ndarray[Any, Any]") -> Any:
        return c.Prepare(lambda _user, _buffer, _bytes: self._guard(lambda: function(array)))

    def fold(self, function: Fold, dtype: Any) -> Any:
        def work(accumulator: int, other: int, count: int) -> None:
            left, right = _view(accumulator, count, dtype), _view(other, count, dtype)
            right.flags.writeable = False
            left[...] = function(left.copy(), right)

        return c.Fold(lambda _user, left, right, count: self._guard(lambda: work(left, right, count)))

    def fold_object(self, function: Callable[[bytes, bytes], bytes]) -> Any:
        def work(accumulator: int, size: Any, limit: int, other: int, other_size: int) -> None:
            left = copied(accumulator, size[0])
            right = copied(other, other_size)
            result = bytes(function(left, right))
            if len(result) > limit:
                raise ValueError(f"an object became {len(result)} bytes long; the limit is {limit}")
            ctypes.memmove(accumulator, result, len(result))
            size[0] = len(result)

        return c.FoldObject(lambda _user, a, size, limit, b, more: self._guard(lambda: work(a, size, limit, b, more)))
