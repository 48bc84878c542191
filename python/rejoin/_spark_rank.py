"""A rank in the Python worker of its Spark task."""

import contextlib
import os
import pickle
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Iterable, Iterator, List, Optional, Tuple

import numpy as np

from . import _library
from ._communicator import Communicator
from ._errors import Code, RejoinError
from ._process import Process

_END_SECONDS = 10


class Launch:
    """What the JVM gives a worker to join with (``GangTask.launchRecord``)."""

    def __init__(self, record: bytes) -> None:
        words = bytes(record).decode().split("\0")
        self._values = dict(zip(words[::2], words[1::2]))
        theirs, ours = self._values["version"], _library.library_version()
        if theirs != ours:
            text = f"the driver has Rejoin of version {theirs}, {self.worker} of version {ours}"
            raise RejoinError(Code.INCOMPATIBLE, f"{text}; expected one version everywhere")
        _library.log_level(self._values["log.level"])

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    @property
    def worker(self) -> str:
        """This process, in an error's text."""
        return f"this Python worker (executor {self['executor']} on {self['hostname']})"

    def number(self, name: str) -> int:
        return int(self._values[name])

    def seconds(self, name: str) -> float:
        return self.number(name + ".millis") / 1000

    def attempt(self) -> Tuple[int, int, int]:
        """The rank, the stage, and the task's number. In a job with spares it is the task's number in
        place of the rank."""
        return self.number("rank"), self.number("stage"), self.number("task")

    @property
    def has_spares(self) -> bool:
        """Whether the tracker says which rank a task is."""
        return self["given"] != ""

    def check(self, rank: int) -> None:
        """The rows that came along are those of the rank that the task was given in the JVM."""
        if self.has_spares and rank != self.number("given"):
            text = (
                f"the rows of rank {self['given']} came to {self.worker}, which was given rank {rank}, as the former "
                "was believed lost; the task has to be retried, and stands by then"
            )
            raise RejoinError(Code.FENCED, text)

    def process(self, start: Callable[..., Any]) -> Any:
        """This worker's agent. Its name is its own: an executor may have several workers."""
        try:
            return self._start(start)
        except RejoinError as failure:
            # A port that was taken by what has died may be free in a moment; at the very start it is the setting.
            if failure.code == Code.IO and self["ports"] != "0" and self.attempt()[1:] == (0, 0):
                text = f"{failure.text} (spark.rejoin.agent.ports is {self['ports']})"
                raise RejoinError(Code.BAD_ARGUMENT, text) from failure
            raise

    def _start(self, start: Callable[..., Any]) -> Any:
        return start(
            self["job"],
            bytes.fromhex(self["secret"]),
            self["tracker"],
            f"{self['executor']}-python-{os.getpid()}",
            listen=self["host"],
            ports=self["ports"],
            host=self["hostname"],
            encrypt=self["encrypt"] == "true",
            tracker_timeout=self.seconds("tracker"),
            log_memory=self.number("log.memory.bytes"),
            log_disk=self.number("log.disk.bytes"),
            spill=self["spill.dir"],
        )


@contextlib.contextmanager
def _stored_in(folder: Optional[str]) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        if folder is None:
            text = f"the rank's rows can't be kept in memory: {cause}; give Python workers more, or use more of them"
            raise RejoinError(Code.IO, f"{text} (spark.io.encryption.enabled keeps them off the disk)") from cause
        text = f"the rank's rows can't be stored in {folder}: {cause}; make room there, or give Spark another disk"
        raise RejoinError(Code.IO, f"{text} (spark.local.dir; on YARN yarn.nodemanager.local-dirs)") from cause


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _file_in(folder: Optional[str]) -> Any:
    if folder is None:
        return os.fdopen(os.memfd_create("rejoin-rows"), "r+b", buffering=0)
    return tempfile.TemporaryFile(dir=folder, buffering=0)


class Rows:
    """A rank's rows; each iteration gives them from the first one on, as ``pyarrow.RecordBatch``."""

    def __init__(self, schema: Any, records: Iterable[bytes], folder: Optional[str]) -> None:
        """Takes all batches, behind which there is an empty record, into a file without a name, in
        this folder: a rank that is sent back reads them again, and meanwhile they take no memory
        beside what is made of them. Without a folder the file is in memory: where Spark encrypts its
        files, nothing of them is on a disk.

        Raises ``IO`` where the empty record is missing. Where Spark fails to read a row, its stream to
        the worker has the same end as after the last one."""
        self.schema = schema
        self._places: List[Tuple[int, int]] = []
        with _stored_in(folder):
            self._file: Any = _file_in(folder)
        at = 0
        for batch in records:
            if len(batch) == 0:
                return
            with _stored_in(folder):
                _write(self._file.fileno(), batch)
            self._places.append((at, len(batch)))
            at += len(batch)
        text = f"the rank's rows ended after {len(self._places)} batches, before their end"
        raise RejoinError(Code.IO, f"{text}; the task's own error says why")

    def __iter__(self) -> Iterator[Any]:
        import pyarrow

        for at, length in self._places:
            # At its place, whatever other threads and processes that were forked read meanwhile.
            batch = os.pread(self._file.fileno(), length, at)
            if len(batch) != length:
                text = f"{len(batch)} of {length} bytes of the rank's rows could be read again at {at}"
                raise RejoinError(Code.IO, text)
            yield pyarrow.ipc.read_record_batch(pyarrow.py_buffer(batch), self.schema)

    def to_arrow(self) -> Any:
        """All of them as one ``pyarrow.Table``."""
        import pyarrow

        return pyarrow.Table.from_batches(list(self), self.schema)

    def to_pandas(self) -> Any:
        """All of them as one ``pandas.DataFrame``."""
        return self.to_arrow().to_pandas()


class Rank:
    """What is sent to every worker; called with what the JVM gives it: the launch record, then the rows."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    def __call__(self, records: Iterator[bytes]) -> Iterator[bytes]:
        first = next(records, None)
        if first is None:  # a spare that wasn't needed
            return iter(())
        launch = Launch(first)
        try:
            folder = None if launch["files.encrypted"] == "true" else launch["spill.dir"]
            rows = None if self._schema is None else Rows(self._schema, records, folder)
            self.take_part(launch, rows)
        except RejoinError as failure:
            # The driver is about to end the job. If the task failed before that, Spark would try it
            # again for nothing.
            if failure.code.will_repeat:
                time.sleep(_END_SECONDS)
            raise
        return iter(())

    def take_part(self, launch: Launch, rows: Optional[Rows]) -> None:
        """Joins, and does the rank's work until the job's end."""
        raise NotImplementedError


class Shown:
    """What a rank's program prints: line by line to the driver, and where it went before, whose
    other attributes it has."""

    def __init__(self, show: Callable[[str], None], before: Any) -> None:
        self._to_driver, self._before = show, before
        self._lock, self._rest = threading.Lock(), ""
        self._inside = threading.local()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._before, name)

    def write(self, text: str) -> int:
        self._before.write(text)
        # What is printed while a line is shown (XGBoost's log says that it connects) is none of the program's: to show
        # that, too, would have no end.
        if not getattr(self._inside, "shows", False):
            with self._lock:
                *lines, self._rest = (self._rest + text).split("\n")
            for line in lines:
                self._show(line)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def end(self) -> None:
        """A last line without its end."""
        if self._rest:
            self._show(self._rest)

    def _show(self, line: str) -> None:
        self._inside.shows = True
        try:
            with contextlib.suppress(RejoinError):  # this rank is over, which is known
                self._to_driver(line)
        finally:
            self._inside.shows = False


@contextlib.contextmanager
def _shown(ranks: Communicator) -> Iterator[None]:
    # (The library's types want a whole file, of which print needs this.)
    out: Any = Shown(ranks.print, sys.stdout)
    err: Any = Shown(ranks.print, sys.stderr)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            yield
        finally:
            out.end()
            err.end()


class FunctionRank(Rank):
    """A rank of ``rejoin.spark.run``."""

    def __init__(self, work: bytes, schema: Any, world: int) -> None:
        """``work``: the function, its arguments and its named ones, pickled."""
        super().__init__(schema)
        self._work = work
        self._terms = f"rejoin.spark.run on {world} workers"

    def take_part(self, launch: Launch, rows: Optional[Rows]) -> None:
        with launch.process(Process) as process, self._join(process, launch) as ranks:
            while not ranks.over:
                launch.check(ranks.rank)
                try:
                    ranks.finish(self._run(ranks, rows))
                    return
                except RejoinError as failure:
                    if failure.code != Code.ROLLED_BACK:
                        with contextlib.suppress(RejoinError):  # after finish() there is nothing to abandon
                            ranks.abandon(failure.code, failure.text)
                        raise
                ranks.join_again()

    def _join(self, process: Process, launch: Launch) -> Communicator:
        number, stage, task = launch.attempt()
        join = process.join_as_task if launch.has_spares else process.join
        return join(
            number,
            self._terms,
            stage=stage,
            task=task,
            join_timeout=launch.seconds("join"),
            call_timeout=launch.seconds("call"),
            finish_timeout=launch.seconds("finish"),
        )

    def _run(self, ranks: Communicator, rows: Optional[Rows]) -> bytes:
        """The results of all ranks, the same bytes at each: so they outlive any of them."""
        from pyspark import cloudpickle

        fn, args, kwargs = cloudpickle.loads(self._work)
        given = args if rows is None else (rows, *args)
        begin = ranks.version
        with _shown(ranks):
            result = cloudpickle.dumps(fn(ranks, *given, **kwargs))
        if ranks.version == begin:
            ranks.load()  # the function may have had no use for it, and it may be called again here
        everyone = ranks.allgather_v(np.frombuffer(result, dtype=np.uint8))
        return pickle.dumps([each.tobytes() for each in everyone], protocol=4)
