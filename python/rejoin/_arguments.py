"""What isn't an array, as C takes it. ctypes would cut off a number that is too large, and a text
at its first zero byte."""

import math
import operator
from typing import Any, Callable, Optional

from ._errors import Code, RejoinError


def refused(text: str) -> RejoinError:
    return RejoinError(Code.BAD_ARGUMENT, text)


def text(what: str, value: Any) -> bytes:
    """A text for C."""
    if not isinstance(value, str):
        raise refused(f"{what} is a {type(value).__name__}; expected a str")
    if "\0" in value:
        raise refused(f"{what} is {value!r}; expected a text without a zero byte")
    return value.encode(errors="replace")


def number(what: str, value: Any, bits: int) -> int:
    """A number from 0 that has room in so many bits."""
    try:
        whole = operator.index(value)
    except TypeError as cause:
        raise refused(f"{what} is {value!r}; expected a whole number") from cause
    if not 0 <= whole < 1 << bits:
        raise refused(f"{what} is {whole}; expected a number from 0 to {(1 << bits) - 1}")
    return whole


def millis(what: str, seconds: Any) -> int:
    """A time for C, where 0 is the default."""
    if seconds is None:
        return 0
    is_usable = isinstance(seconds, (int, float)) and math.isfinite(seconds) and seconds > 0
    if not is_usable:
        raise refused(f"{what} is {seconds!r}; expected seconds above 0")
    return max(1, number(f"{what} in milliseconds", int(seconds * 1000), 63))


def function(what: str, value: Any) -> Any:
    """What can be called."""
    if not callable(value):
        raise refused(f"{what} is a {type(value).__name__}; expected a function")
    return value


def name_of(what: Callable[..., Any], given: Optional[str]) -> bytes:
    """By which name a function is compared between ranks: the given one, or its own."""
    name = given if given is not None else getattr(what, "__qualname__", None)
    if name is None:
        raise refused(f"{what!r} has no name of its own; say name=…, the same at all ranks")
    return text("the function's name", name)
