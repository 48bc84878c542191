"""What the library has to know of an array: where it is, how many elements, of which type."""

from typing import Any, Optional, Union

import numpy as np

from ._arguments import refused

Data = Union[bytes, bytearray, memoryview, "np.ndarray[Any, Any]"]

# In the order of the C library's numbers.
_ELEMENT_NAMES = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64"
_ELEMENTS = {name: number for number, name in enumerate(_ELEMENT_NAMES.split())}

_REDUCTIONS = {name: number for number, name in enumerate("sum product min max and or xor".split())}

_ORDERS = {"rank": 0, "ring": 1}


def element(array: "np.ndarray[Any, Any]", given: Optional[str] = None) -> int:
    """The number of its element type: the array's own, or bfloat16 whose bits are in an array of uint16."""
    name = array.dtype.name
    if given is not None and given != name:
        if (given, name) != ("bfloat16", "uint16"):
            seen = f"an array of {array.dtype} was given for elements of {given!r}"
            raise refused(f"{seen}; only bfloat16 may come as uint16")
        name = given
    number = _ELEMENTS.get(name)
    if number is None or not array.dtype.isnative:
        expected = f"expected one of {', '.join(_ELEMENTS)}, in this machine's byte order"
        raise refused(f"an array of {array.dtype} was given; {expected}")
    return number


def reduction(name: str) -> int:
    if not isinstance(name, str) or name not in _REDUCTIONS:
        raise refused(f"reduction {name!r} is unknown; expected one of {', '.join(_REDUCTIONS)}, or a function")
    return _REDUCTIONS[name]


def order(name: str) -> int:
    if not isinstance(name, str) or name not in _ORDERS:
        raise refused(f"order {name!r} is unknown; expected rank or ring")
    return _ORDERS[name]


def whole(what: str, array: Any, writable: bool) -> "np.ndarray[Any, Any]":
    """The array itself, if its elements lie one behind the other in memory."""
    if not isinstance(array, np.ndarray):
        raise refused(f"{what} is a {type(array).__name__}; expected a numpy array")
    if isinstance(array, np.ma.MaskedArray):
        raise refused(f"{what} is masked, and its mask can't be sent; hand over its data, or filled() values")
    if not array.flags.c_contiguous:
        raise refused(f"{what} of shape {array.shape} isn't contiguous; make it so with numpy.ascontiguousarray")
    if writable and not array.flags.writeable:
        raise refused(f"{what} is read-only, and the result has to be written there")
    if array.dtype.hasobject:
        raise refused(f"{what} holds Python objects, which can't be sent")
    return array


def raw(what: str, data: Data) -> "np.ndarray[Any, Any]":
    """The bytes of whatever holds some, without a copy."""
    if isinstance(data, np.ndarray):
        data = whole(what, data, False)
        return data.reshape(-1).view(np.uint8)
    try:
        view: "np.ndarray[Any, Any]" = np.frombuffer(data, dtype=np.uint8)
        return view
    except (TypeError, ValueError, BufferError) as cause:
        raise refused(f"{what} is a {type(data).__name__}; expected bytes or a numpy array ({cause})") from cause
