"""Collectives that survive: a rank that dies is started again alone, and the result is the same, byte for byte.

    import numpy as np
    import rejoin

    with rejoin.join("my program 1") as ranks:
        if not ranks.over:                      # else the job had ended before this process came
            version, model = ranks.load()       # version 0: begin; else go on from the model
            state = np.zeros(10) if model is None else np.frombuffer(model).copy()
            for iteration in range(version, 25):
                sums = gradient(my_rows, state)
                ranks.allreduce(sums)           # in place; every rank gets the sum over all
                state -= 0.1 * sums
                ranks.checkpoint(state)
            ranks.finish(state)

and then: ``rejoin run -n 4 --restart -- python3 program.py``. Arrays are handed to the library as
they are, without a copy.
"""

from ._communicator import Communicator, join
from ._errors import Code, RejoinError
from ._library import digest, library_version, log_level
from ._former import Former
from ._placement import Placement
from ._process import Process
from ._tracker import Event, Tracker

__all__ = [
    "Code",
    "Communicator",
    "Event",
    "Former",
    "Placement",
    "Process",
    "RejoinError",
    "Tracker",
    "digest",
    "join",
    "library_version",
    "log_level",
]
