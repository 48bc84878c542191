"""XGBoost's own PySpark estimators, trained by ranks that survive."""

import os
import pickle
from typing import Any, Callable, Dict, List, Optional

from pyspark import cloudpickle
from pyspark.ml import Estimator
from pyspark.ml.param import Param
from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReadable, MLReader, MLWritable, MLWriter
from pyspark.sql import Row
from xgboost.spark import core

from ._arguments import refused
from ._spark_gang import Gang, arrow_schema, pickled, session_of
from ._spark_xgboost import SEAMS, EstimatorRank
from ._xgboost_callbacks import refuse_what_cannot_be_pickled
from ._xgboost_training import check_estimators_version, unexpected_estimators

_STOCK = "stock"

# What a stock estimator's `_fit` calls, and finds ours in the place of.
_SEAMS = ("_prepare_input", "_get_tracker_args")


# By these a training could get at rows past ours.
_WAYS_TO_ROWS = frozenset(
    {"rdd", "mapInArrow", "toArrow", "toPandas", "foreachPartition", "collect", "toLocalIterator"}
)


class RejoinEstimator(Estimator, MLReadable, MLWritable):
    """``RejoinEstimator(SparkXGBClassifier(num_workers=3, …)).fit(df)``: the fit survives.

    ``stock`` is a ``SparkXGBClassifier``, ``SparkXGBRegressor`` or ``SparkXGBRanker`` of
    ``xgboost.spark``; so is the model that comes back, with the stock bytes. This is an estimator
    with the parameters, and the uid, of the stock one, which it shares with it: it goes into
    pipelines and ``CrossValidator``, is copied, saved and loaded.

    The fit runs in a plain stage, ``num_workers`` slots at once. When a Python worker or an executor
    dies, Spark retries that task alone; it goes on from the last checkpoint, taken after 1 to 10
    rounds by the sizes of model and input, or after ``spark.rejoin.checkpoint.rounds``, while the
    others keep what they have. The rows are stored on several executors first, so that it reads the
    same ones. Callbacks of your own come back as they were at the checkpoint, by cloudpickle; one
    that can't be pickled is refused.

    ``seed_per_iteration`` is set: where rows or columns are sampled, the samples are others than
    stock's own. Up to XGBoost 3.2 ``checkpoint.rounds`` is part of the result there.

    Raises :class:`rejoin.RejoinError` as :func:`rejoin.spark.run` does; ``BAD_ARGUMENT`` for a
    device that isn't a CPU, and for other estimators; ``INCOMPATIBLE`` for an XGBoost whose
    estimator is made otherwise.
    """

    def __init__(self, stock: Any) -> None:
        if not isinstance(stock, core._SparkXGBEstimator):
            text = (
                f"stock is {type(stock).__name__}; expected a SparkXGBClassifier, SparkXGBRegressor or SparkXGBRanker"
            )
            raise refused(text)
        super().__init__()
        self.stock = stock
        self.uid = stock.uid
        self._paramMap, self._defaultParamMap = stock._paramMap, stock._defaultParamMap

    @property
    def params(self) -> List[Any]:
        """The stock estimator's."""
        params: List[Any] = self.stock.params
        return params

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.__dict__.get("stock"), name, None)
        if isinstance(value, Param):
            return value
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}; its stock estimator may have")

    def copy(self, extra: Optional[Dict[Any, Any]] = None) -> "RejoinEstimator":
        """Of the stock estimator, with these parameters besides."""
        return RejoinEstimator(self.stock.copy(extra))

    def write(self) -> "_Writer":
        """What saves it: the stock estimator, in a folder of its own."""
        return _Writer(self)

    @classmethod
    def read(cls) -> "_Reader":
        """What loads it."""
        return _Reader()

    def _fit(self, dataset: Any) -> Any:
        session = session_of(dataset)
        gang = Gang(session)
        stock = self.stock.copy()
        check_estimators_version()
        _refuse_others("its estimators have no", [name for name in _SEAMS if not hasattr(stock, name)])
        _refuse_device(stock)
        refuse_what_cannot_be_pickled(stock.getOrDefault("callbacks") or [], cloudpickle)
        workers, rounds = stock.getOrDefault(stock.num_workers), stock.getOrDefault("n_estimators")
        prepare, trained = stock._prepare_input, []

        def prepared(*given: Any) -> Any:
            frame, *more = prepare(*given)

            def train(function: Callable[..., Any]) -> List[str]:
                trained.append(_train(gang, frame, workers, rounds, function))
                return trained[-1]

            return (_Prepared(frame, train), *more)

        # Of this copy alone. Its tracker would wait for ranks that don't come.
        stock._prepare_input = prepared
        stock._get_tracker_args = lambda *_: (True, {})
        model = stock._fit(dataset)
        if len(trained) != 1:
            raise unexpected_estimators(
                f"its estimators' fit has trained {len(trained)} times on the rows that it prepared"
            )
        return model

    def __repr__(self) -> str:
        return f"RejoinEstimator({self.stock!r})"


class _Writer(MLWriter):
    def __init__(self, instance: RejoinEstimator) -> None:
        super().__init__()
        self._instance = instance

    def saveImpl(self, path: str) -> None:
        DefaultParamsWriter.saveMetadata(self._instance, path, self.sc, paramMap={})
        self._instance.stock.save(os.path.join(path, _STOCK))


class _Reader(MLReader):
    def load(self, path: str) -> RejoinEstimator:
        return RejoinEstimator(DefaultParamsReader.loadParamsInstance(os.path.join(path, _STOCK), self.sc))


def _train(gang: Gang, frame: Any, workers: int, rounds: int, function: Callable[..., Any]) -> List[str]:
    missing = [name for name in SEAMS if name not in function.__globals__]
    # This one it imports as it runs.
    missing += [name for name in ["BarrierTaskContext"] if name not in function.__code__.co_names]
    _refuse_others("its estimators' training doesn't use", missing)
    rank = EstimatorRank(pickled(function), arrow_schema(frame), workers)
    # Divided as stock has divided it: queries stay whole.
    names = ("num_workers", "spark.rejoin.checkpoint.rounds")
    texts: List[str] = pickle.loads(gang.run(rank, frame, workers, names, divide=False, rounds=rounds))
    return texts


def _refuse_others(what: str, missing: List[str]) -> None:
    """An XGBoost that lacks these names, in whose places ours would do nothing."""
    if missing:
        raise unexpected_estimators(f"{what} {', '.join(missing)}")


class _Prepared:
    """The data frame that stock has prepared, as far as it uses it from there on."""

    def __init__(self, frame: Any, train: Callable[[Callable[..., Any]], List[str]]) -> None:
        self._frame, self._train = frame, train

    def __getattr__(self, name: str) -> Any:
        if name in _WAYS_TO_ROWS:
            raise unexpected_estimators(f"its estimators train on a data frame's {name}, not by mapInPandas")
        return getattr(self._frame, name)

    def mapInPandas(self, function: Callable[..., Any], schema: Any, *_: Any, **__: Any) -> "_Trained":
        """Stock's training, in lock step."""
        return _Trained(lambda: self._train(function))


class _Trained:
    """What stock asks for its results: a data frame, or the elements of a barrier stage."""

    def __init__(self, train: Callable[[], List[str]]) -> None:
        self._train = train

    @property
    def rdd(self) -> "_Trained":
        return self

    def barrier(self) -> "_Trained":
        return self

    def mapPartitions(self, _: Any) -> "_Trained":
        return self

    def collect(self) -> List[Any]:
        return [Row(data=text) for text in self._train()]


def _refuse_device(stock: Any) -> None:
    given = stock.getOrDefault("device") if stock.hasParam("device") and stock.isDefined("device") else None
    device = str(given or "cpu")
    gpu = stock.hasParam("use_gpu") and stock.isDefined("use_gpu") and stock.getOrDefault("use_gpu")
    if gpu or not device.startswith("cpu"):
        seen = "use_gpu is True" if gpu else f'device is "{device}"'
        raise refused(f'{seen}; a RejoinEstimator trains on the CPU: leave it out, or say "cpu"')
