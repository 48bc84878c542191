"""The slots of an elastic run, named by a function of the program that starts it."""

import os
import subprocess
import threading
import time
from typing import IO, Any, Callable, Mapping, Sequence

from ._arguments import refused

_EVERY = 1.0  # seconds; as `rejoin run` asks a program that --discovery names


def launch(command: Sequence[str], slots: Callable[[], Mapping[str, int]], **process: Any) -> "subprocess.Popen[Any]":
    """Starts a launcher that is told which slots there are by a function, which is asked once a
    second, in a thread: host names with their numbers of slots. ``localhost`` is this machine.

        def slots():
            return {node.name: node.free for node in scheduler.nodes()}

        command = ["rejoin", "run", "--discovery", "-", "-n", "4", "--min", "2", "--max", "8", "--", "./train"]
        sys.exit(elastic.launch(command, slots).wait())

    What is given back is the launcher's process (``process``: further arguments of
    :class:`subprocess.Popen`), to be waited for; its ``terminate()`` ends the run in order. Should
    this process end first, the run goes on with the slots that were named last. They hold, too,
    when the function raises; the launcher says why, once.
    """
    if not callable(slots):
        raise refused(f"slots is {slots!r}; expected a function that gives host names with their numbers of slots")
    # A pipe of the thread's own: the process's one is closed by communicate(), and is of text if the caller wants that.
    reads, writes = os.pipe()
    listener = open(writes, "wb")
    try:
        launcher = subprocess.Popen(list(command), stdin=reads, **process)
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(reads)
    threading.Thread(target=_tell, args=(slots, listener), name="rejoin-slots", daemon=True).start()
    return launcher


def _tell(slots: Callable[[], Mapping[str, int]], listener: IO[bytes]) -> None:
    try:
        with listener:
            while True:
                listener.write(_listing(slots).encode() + b"\n")  # an empty line ends a listing
                listener.flush()
                time.sleep(_EVERY)
    except OSError:
        return  # the launcher has ended


def _listing(slots: Callable[[], Mapping[str, int]]) -> str:
    try:
        return "".join(f"{host}:{count:d}\n" for host, count in slots().items())
    except Exception as error:
        return "! " + " ".join(f"{type(error).__name__}: {error}".split()) + "\n"
