"""Any Python function in lock step on the tasks of a plain Spark stage.

    import rejoin.spark
    from pyspark.sql import SparkSession

    spark = rejoin.spark.configure(SparkSession.builder.master("spark://…:7077")).getOrCreate()

    def mean(ranks, rows, column):
        ranks.load()
        sums = np.zeros(2)
        for batch in rows:                      # pyarrow.RecordBatch
            values = batch.column(column).to_numpy()
            sums += values.sum(), len(values)
        ranks.allreduce(sums)
        return sums[0] / sums[1]

    means = rejoin.spark.run(mean, args=("price",), num_proc=3, data=table)

The death of a Python worker or of an executor costs no restart: Spark retries that task alone, it
rejoins the running job as its rank, and the results are, byte for byte, those without the death.
"""

import os
import pathlib
import pickle
from typing import TYPE_CHECKING, Any, Callable, List, Mapping, Optional, Sequence, Tuple

from ._arguments import refused
from ._errors import Code, RejoinError
from ._spark_gang import Gang, arrow_schema, check_pyspark, pickled, session_of
from ._spark_rank import FunctionRank

if TYPE_CHECKING:
    from ._spark_estimator import RejoinEstimator as RejoinEstimator

_JARS = pathlib.Path(__file__).with_name("jars")


def configure(builder: Any, jars: Optional[Sequence[str]] = None) -> Any:
    """Adds Rejoin's jars to a ``SparkSession.builder``, and returns it.

    ``jars`` are the paths of ``rejoin-core`` and of ``rejoin-spark`` for the session's Scala; without
    it those that came with this package. They are added to ``spark.jars``; jars that the builder has
    there stay. A JVM that runs already (of an earlier session of this process, of ``spark-submit``,
    of the pyspark shell) doesn't get them, and the builder is left as it is: there they are given by
    ``--jars``. Raises :class:`rejoin.RejoinError` ``INCOMPATIBLE`` for a pyspark that is missing or too old.
    """
    check_pyspark()
    from pyspark import SparkContext

    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return builder
    ours = [str(jar) for jar in jars] if jars is not None else _own_jars()
    missing = [jar for jar in ours if not pathlib.Path(jar).is_file()]
    if missing:
        raise refused(f"there is no jar {', '.join(missing)}; expected the files of rejoin-core and rejoin-spark")
    set_before = getattr(builder, "_options", {}).get("spark.jars", "")
    return builder.config("spark.jars", ",".join(filter(None, [set_before, *ours])))


def run(
    fn: Callable[..., Any],
    args: Tuple[Any, ...] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    num_proc: int = 4,
    data: Any = None,
) -> List[Any]:
    """Runs ``fn(ranks, *args, **kwargs)`` as the ranks of a job; the results, in rank order.

    ``ranks`` is a :class:`rejoin.Communicator`. ``num_proc`` tasks of a plain stage run at once, a
    slot each. With ``data``, a classic ``DataFrame``, it is ``fn(ranks, rows, *args, **kwargs)``:
    ``rows`` are the rank's, and each ``iter(rows)`` gives them from the first one on as
    ``pyarrow.RecordBatch``; they are divided once, and stored on several executors, so that a rank
    that comes back reads the same rows in the same order. The function, its arguments and results
    travel by cloudpickle.

    What a rank does before its death it does again, and takes the results of the collectives that
    it had taken part in; ``ranks.load`` and ``ranks.checkpoint`` make that less. So it has to do the
    same each time: no clock, no random numbers without a seed. The function doesn't call
    ``ranks.finish`` or ``ranks.close``: what it returns is the end.

    The session's settings ``spark.rejoin.*`` count. Raises :class:`rejoin.RejoinError`:
    ``BAD_ARGUMENT`` and ``INCOMPATIBLE`` before any work; ``UNRECOVERABLE`` with the rank's Python
    traceback when a rank has failed more often than Spark retries; ``CANCELLED``; or the job's own
    error. Nothing of the job is left on the cluster then.
    """
    if not callable(fn):
        raise refused(f"fn is {type(fn).__name__}; expected a function")
    if isinstance(num_proc, bool) or not isinstance(num_proc, int) or num_proc < 1:
        raise refused(f"num_proc is {num_proc!r}; expected a whole number from 1 on")
    gang = Gang(session_of(data))
    schema = None if data is None else arrow_schema(data)
    rank = FunctionRank(pickled(fn, tuple(args), dict(kwargs or {})), schema, num_proc)
    names = ("num_proc", "Communicator.checkpoint more often")
    everything = gang.run(rank, data, num_proc, names, divide=True)
    from pyspark import cloudpickle

    return [cloudpickle.loads(result) for result in pickle.loads(everything)]


def _own_jars() -> List[str]:
    import pyspark

    scala = "2.12" if pyspark.__version__.startswith("3.") else "2.13"
    jars = [*_JARS.glob("rejoin-core-*.jar"), *_JARS.glob(f"rejoin-spark_{scala}-*.jar")]
    if len(jars) != 2:
        seen = ", ".join(jar.name for jar in jars) or "none"
        raise RejoinError(
            Code.INCOMPATIBLE,
            f"expected one rejoin-core and one rejoin-spark_{scala} in {_JARS}, saw {seen}; give their paths: "
            "configure(builder, jars=[…])",
        )
    return [str(jar) for jar in jars]


def __getattr__(name: str) -> Any:
    # It needs xgboost, which the rest doesn't.
    if name == "RejoinEstimator":
        from ._spark_estimator import RejoinEstimator

        return RejoinEstimator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["configure", "run"]
