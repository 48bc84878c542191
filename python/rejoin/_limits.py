"""How long things may take."""

import ctypes
from typing import Optional

from . import _arguments as given, _library as c


def limits_of(join: Optional[float], call: Optional[float], finish: Optional[float]) -> c.Limits:
    limits = {"join_timeout": join, "call_timeout": call, "finish_timeout": finish}
    times = (given.millis(name, limit) for name, limit in limits.items())
    return c.Limits(ctypes.sizeof(c.Limits), *times)
