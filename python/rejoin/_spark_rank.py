"""A rank of ``rejoin.spark.run``, in the Python worker of its Spark task."""

import os
import pickle
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from . import _library
from ._communicator import Communicator, Process
from ._errors import Code, RejoinError

_END_SECONDS = 10


class Rank:
    """What is sent to every worker; called with what the JVM gives it: the launch record, then the rows."""

    def __init__(
        self, fn: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any], schema: Any, world: int
    ) -> None:
        self._fn, self._args, self._kwargs = fn, args, kwargs
        self._schema = schema
        self._world = world

    def __call__(self, records: Iterator[bytes]) -> Iterator[bytes]:
        launch = _launch(next(records))
        _library.log_level(launch["log.level"])
        rows = None if self._schema is None else Rows(self._schema, list(records))
        try:
            self._take_part(launch, rows)
        except RejoinError as failure:
            # The driver is about to end the job. If the task failed before that, Spark would try it
            # again for nothing.
            if failure.code.will_repeat:
                time.sleep(_END_SECONDS)
            raise
        return iter(())

    def _take_part(self, launch: Dict[str, str], rows: "Optional[Rows]") -> None:
        with _process(launch) as process, self._join(process, launch) as ranks:
            while not ranks.over:
                try:
                    ranks.finish(self._run(ranks, rows))
                    return
                except RejoinError as failure:
                    if failure.code != Code.ROLLED_BACK:
                        ranks.abandon(failure.code, failure.text)
                        raise
                ranks.join_again()

    def _join(self, process: Process, launch: Dict[str, str]) -> Communicator:
        return process.join(
            int(launch["rank"]),
            f"rejoin.spark.run on {self._world} workers",
            stage=int(launch["stage"]),
            task=int(launch["task"]),
            join_timeout=int(launch["join.millis"]) / 1000,
            call_timeout=int(launch["call.millis"]) / 1000,
            finish_timeout=int(launch["finish.millis"]) / 1000,
        )

    def _run(self, ranks: Communicator, rows: "Optional[Rows]") -> bytes:
        """The results of all ranks, the same bytes at each: so they outlive any of them."""
        from pyspark import cloudpickle

        given = self._args if rows is None else (rows, *self._args)
        begin = ranks.version
        result = cloudpickle.dumps(self._fn(ranks, *given, **self._kwargs))
        if ranks.version == begin:
            ranks.load()  # the function may have had no use for it, and it may be called again here
        everyone = ranks.allgather_v(np.frombuffer(result, dtype=np.uint8))
        return pickle.dumps([each.tobytes() for each in everyone], protocol=4)


class Rows:
    """A rank's rows; each iteration gives them from the first one on, as ``pyarrow.RecordBatch``."""

    def __init__(self, schema: Any, batches: List[bytes]) -> None:
        self._batches = batches
        self.schema = schema

    def __iter__(self) -> Iterator[Any]:
        import pyarrow

        for batch in self._batches:
            yield pyarrow.ipc.read_record_batch(pyarrow.py_buffer(batch), self.schema)

    def to_arrow(self) -> Any:
        """All of them as one ``pyarrow.Table``."""
        import pyarrow

        return pyarrow.Table.from_batches(list(self), self.schema)

    def to_pandas(self) -> Any:
        """All of them as one ``pandas.DataFrame``."""
        return self.to_arrow().to_pandas()


def _launch(record: bytes) -> Dict[str, str]:
    words = bytes(record).decode().split("\0")
    return dict(zip(words[::2], words[1::2]))


def _process(launch: Dict[str, str]) -> Process:
    """This worker's agent. Its name is its own: an executor may have several workers."""
    return Process(
        launch["job"],
        bytes.fromhex(launch["secret"]),
        launch["tracker"],
        f"{launch['executor']}-python-{os.getpid()}",
        listen=launch["host"],
        ports=launch["ports"],
        host=launch["hostname"],
        encrypt=launch["encrypt"] == "true",
        tracker_timeout=int(launch["tracker.millis"]) / 1000,
        log_memory=int(launch["log.memory.bytes"]),
        log_disk=int(launch["log.disk.bytes"]),
        spill=launch["spill.dir"],
    )
