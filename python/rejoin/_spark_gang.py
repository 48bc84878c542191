"""What runs on the driver: ranks in the Python workers of a Spark session, through the JVM."""

import inspect
import queue
import re
import threading
import uuid
from typing import Any, Callable, List, NoReturn, Optional, Tuple

from . import _library
from ._arguments import refused
from ._errors import Code, RejoinError
from ._spark_rank import Rank

_END_SECONDS = 10
_LOOK_SECONDS = 0.2

REMEDY = "spark = rejoin.spark.configure(SparkSession.builder).getOrCreate()"


# The oldest one has tags of jobs, by which one that is interrupted is cancelled.
_PYSPARK = ((3, 5), (4, 1))


def check_pyspark() -> None:
    """Refuses a pyspark that is older than what is supported, or missing."""
    oldest, newest = (f"{major}.{minor}" for major, minor in _PYSPARK)
    try:
        import pyspark
    except ImportError as cause:
        raise RejoinError(Code.INCOMPATIBLE, "pyspark can't be imported; pip install 'rejoin[spark]'") from cause
    seen = pyspark.__version__
    if tuple(int(part) for part in seen.split(".")[:2]) < _PYSPARK[0]:
        text = f"pyspark {seen} is too old; supported are {oldest} to {newest}"
        raise RejoinError(Code.INCOMPATIBLE, f"{text}: pip install 'rejoin[spark]', and a cluster of that version")


def session_of(data: Any) -> Any:
    """The session of a data frame, or the active one; a classic one."""
    check_pyspark()
    from pyspark.sql import SparkSession

    if data is not None:
        session = data.sparkSession
    else:
        # The active one is a thread's.
        session = SparkSession.getActiveSession() or getattr(SparkSession, "_instantiatedSession", None)
    if session is None:
        raise refused(f"there is no Spark session; start one: {REMEDY}")
    if not hasattr(session, "_jsparkSession"):
        raise refused("Spark Connect is not supported: run this where the SparkContext is, with a classic session")
    return session


def arrow_schema(data: Any) -> Any:
    """The schema of the batches that a rank gets of it."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.pandas.utils import require_minimum_pyarrow_version

    require_minimum_pyarrow_version()
    # The batches themselves don't say it.
    if "prefers_large_types" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(data.schema, prefers_large_types=data.sparkSession._jconf.arrowUseLargeVarTypes())
    return to_arrow_schema(data.schema)


def pickled(*what: Any) -> bytes:
    """What a worker unpickles anew for each attempt: one that is sent back must not find what the
    attempt before has changed."""
    from pyspark import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(what)
        return data
    except Exception as cause:
        raise refused(f"the function or its arguments can't be sent to Python workers: {cause}") from cause


def _print(text: str) -> None:
    """No harm to the job where this can't be shown here."""
    try:
        print(text, end="", flush=True)
    except (OSError, ValueError):
        pass


class Gang:
    """The driver's part, in the JVM of a session."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._jvm = session._jvm.io.rejoin.spark.PythonGang
        # What isn't on the class path is a package for Py4J.
        if type(self._jvm).__name__ != "JavaClass":
            raise RejoinError(
                Code.INCOMPATIBLE,
                "this Spark session was started without Rejoin's jars, and its JVM doesn't take them any more: in a "
                f"new Python process, {REMEDY}; for spark-submit and the pyspark shell, --jars with rejoin-core and "
                "rejoin-spark",
            )
        theirs, ours = self._jvm.version(), _library.library_version()
        if theirs != ours:
            raise RejoinError(
                Code.INCOMPATIBLE,
                f"the session has Rejoin's jar of version {theirs}, Python has the package of version {ours}; both "
                "have to be of one release",
            )

    def run(self, rank: Rank, data: Any, world: int, names: Tuple[str, str], divide: bool, rounds: int = 0) -> bytes:
        """Runs it on so many tasks; what all ranks have finished with. ``names``: of the argument
        that says how many, and of what makes checkpoints more frequent. ``divide``: data that has
        another number of partitions; it is refused otherwise. ``rounds``: so many at most, for the
        line of progress; 0 where that isn't known."""
        function = self._function(rank)
        frame = None if data is None else data._jdf
        try:
            output = self._session._jvm.io.rejoin.spark.PythonOutput()
            arguments = (self._session._jsparkSession, frame, world, divide, function, *names, rounds, output)
            return self._interruptible(lambda: bytes(self._jvm.run(*arguments)), output)
        except Exception as raised:
            self._raise(raised)

    def _interruptible(self, call: Callable[[], bytes], output: Any) -> bytes:
        """Calls it in a thread of its own, prints here what ranks have printed, and cancels the call's
        Spark jobs when this thread is interrupted. This one makes no call meanwhile: Py4J has one
        connection for each thread, and pyspark's handler of SIGINT would talk into it."""
        from pyspark import InheritableThread

        context, tag = self._session.sparkContext, f"rejoin-{uuid.uuid4()}"
        results: List[bytes] = []
        raised: List[BaseException] = []

        def work() -> None:
            try:
                context.addJobTag(tag)
                results.append(call())
            except BaseException as caught:
                raised.append(caught)

        texts: "queue.SimpleQueue[Optional[str]]" = queue.SimpleQueue()

        def listen() -> None:
            try:
                while thread.is_alive():
                    thread.join(_LOOK_SECONDS)
                    texts.put(output.take())
            finally:
                texts.put(None)

        thread = InheritableThread(work)
        thread.start()
        threading.Thread(target=listen, daemon=True).start()
        try:
            text = texts.get()
            while text is not None:
                _print(text)
                text = texts.get()
            thread.join()
        except BaseException:
            output.interrupt()  # it may wait for slots, without a job
            context.cancelJobsWithTag(tag)
            thread.join(_END_SECONDS)
            raise
        if raised:
            raise raised[0]
        if not results:
            raise RejoinError(Code.INTERNAL, "the call's thread ended without a result; is the SparkContext stopped?")
        return results[0]

    def _function(self, rank: Rank) -> Any:
        """What the JVM gives to Python workers, as pyspark makes it of a function for mapPartitions."""
        from pyspark.rdd import _wrap_function
        from pyspark.serializers import NoOpSerializer

        whole = NoOpSerializer()
        return _wrap_function(self._session.sparkContext, lambda _index, records: rank(records), whole, whole)

    def _raise(self, raised: Exception) -> NoReturn:
        """A failure of the JVM's as this package's own, with the traceback of the rank that failed last."""
        thrown = getattr(raised, "java_exception", None)
        if thrown is None or thrown.getClass().getName() != "io.rejoin.RejoinException":
            raise raised
        everything = self._session._jvm.org.apache.spark.util.Utils.exceptionString(thrown)
        traceback = re.search(r"Traceback \(most recent call last\):\n.*?(?=\n\s*\tat |\Z)", everything, re.DOTALL)
        text = thrown.text() + (f"\n\nThe rank's own:\n{traceback.group().rstrip()}" if traceback else "")
        raise RejoinError(Code[thrown.code().name()], text) from None
