"""Functions of the program's that the library calls inside of a call."""

import ctypes
from typing import Any, Callable, Optional, cast

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
        def work() -> None:
            result: Any = cast(Callable[..., Any], function)(array)
            if result is not None and result is not array:
                raise TypeError(
                    f"prepare returned a {type(result).__name__}; expected None: it fills the array that it is given, "
                    "array[:] = …"
                )

        return c.Prepare(lambda _user, _buffer, _bytes: self._guard(work))

    def fold(self, function: Fold, dtype: Any) -> Any:
        def work(accumulator: int, other: int, count: int) -> None:
            left, right = _view(accumulator, count, dtype), _view(other, count, dtype)
            right.flags.writeable = False
            result = function(left.copy(), right)
            # numpy would make something of nearly anything: NaN of None, and copies of a single number.
            is_array = isinstance(result, np.ndarray)
            fits = is_array and result.shape == left.shape and np.can_cast(result.dtype, left.dtype, "equiv")
            if not fits:
                seen = f"an array of {result.dtype} and shape {result.shape}" if is_array else f"{result!r:.100}"
                raise TypeError(
                    f"the function that combines two arrays returned {seen}; expected an array of {left.dtype} and "
                    f"shape {left.shape}"
                )
            left[...] = result

        return c.Fold(lambda _user, left, right, count: self._guard(lambda: work(left, right, count)))

    def fold_object(self, function: Callable[[bytes, bytes], bytes]) -> Any:
        def work(accumulator: int, size: Any, limit: int, other: int, other_size: int) -> None:
            left = copied(accumulator, size[0])
            right = copied(other, other_size)
            result = function(left, right)
            if not isinstance(result, (bytes, bytearray)):  # bytes(3) would be three zeros
                raise TypeError(f"the function that combines two objects returned {result!r:.100}; expected bytes")
            if len(result) > limit:
                raise ValueError(f"an object became {len(result)} bytes long; the limit is {limit}")
            ctypes.memmove(accumulator, bytes(result), len(result))
            size[0] = len(result)

        return c.FoldObject(lambda _user, a, size, limit, b, more: self._guard(lambda: work(a, size, limit, b, more)))
