"""Memory of the library."""

import ctypes
from typing import Any, Optional


def copied(address: Optional[int], size: int) -> bytes:
    """So many bytes of it. (``ctypes.string_at`` takes the length as a C ``int``: from 2 GiB on it
    fails, and from 4 GiB on gives fewer bytes without a word.)"""
    if not size or address is None:
        return b""
    memory: Any = (ctypes.c_char * size).from_address(address)
    return bytes(memory)
