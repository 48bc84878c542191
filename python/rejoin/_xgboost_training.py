"""One training of one incarnation: XGBoost's own loop, carried through its Booster.

``xgboost.train`` knows nothing of where a rank starts: it makes a Booster and updates it from round
0 on. So the Booster is what survives. It passes over the rounds that are in the checkpoint, giving
the callbacks the evaluations of that time, and then goes on from the checkpoint's model; and before
the first round of each interval it hands its model over.
"""

import copy
import inspect
import json
import sys
from collections import OrderedDict
from types import CodeType
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import numpy as np
import xgboost
import xgboost.training
from xgboost.callback import CallbackContainer
from xgboost.collective import Op, allreduce

from ._arguments import refused
from ._errors import Code, RejoinError
from ._xgboost_callbacks import CarriedCallbacks, Carry, refuse_pickled_checkpoints
from ._xgboost_rank import Rank

_MAGIC = b"RJPX\1"

# What asks for the model's content: its trees, or what they predict.
_CONTENT = (
    "__getitem__ __copy__ __deepcopy__ __iter__ boost copy dump_model eval get_categories get_dump "
    "get_fscore get_score get_split_value_histogram inplace_predict load_config load_model predict save_raw "
    "serialize trees_to_dataframe"
).split()


# Values by the names of data and metric. (Only xgboost.cv, which isn't carried, has pairs there.)
History = Mapping[str, Mapping[str, Any]]


class Kept:
    """The parts of a checkpoint's bytes: what was measured in its rounds, and the model."""

    def __init__(self, history: History, model: bytes) -> None:
        self.history, self.model = history, model

    def to_bytes(self) -> bytes:
        history = json.dumps(self.history, default=float).encode()
        return b"".join([_MAGIC, len(history).to_bytes(8, "little"), history, self.model])

    @staticmethod
    def of(data: bytes) -> "Kept":
        begin = len(_MAGIC) + 8
        if not data.startswith(_MAGIC) or len(data) < begin:
            text = "the checkpoint's bytes were not written by this version of rejoin.xgboost; use one everywhere"
            raise RejoinError(Code.INCOMPATIBLE, text)
        end = begin + int.from_bytes(data[len(_MAGIC) : begin], "little")
        return Kept(json.loads(data[begin:end]), data[end:])


_TRAIN: CodeType = inspect.unwrap(xgboost.training.train).__code__


def _loop_of_callback() -> Tuple[Any, CallbackContainer]:
    """The parameters that ``xgboost.train`` was given in whose callback this thread is, which a
    Booster doesn't keep, and what calls the callbacks."""
    frame, container = sys._getframe(1), None
    while frame.f_code is not _TRAIN:
        owner = frame.f_locals.get("self")
        container = owner if isinstance(owner, CallbackContainer) else container
        if frame.f_back is None:
            raise refused("rejoin.xgboost.Checkpoint is for xgboost.train, and is used by something else")
        frame = frame.f_back
    if container is None or "params" not in frame.f_locals:
        raise unexpected("its xgboost.train keeps no parameters")
    return copy.copy(frame.f_locals["params"]), container


# The oldest minor version of XGBoost 3 whose training loop is known, the oldest whose PySpark estimators are, and the
# newest of both.
_OLDEST_LOOP, _OLDEST_ESTIMATORS, _NEWEST = 0, 1, 4


def unexpected(what: str) -> RejoinError:
    """For an XGBoost whose training loop is made otherwise than those that are known."""
    return _unexpected(what, f"supported are 3.{_OLDEST_LOOP}")


def unexpected_estimators(what: str) -> RejoinError:
    """For one whose PySpark estimators are."""
    return _unexpected(what, f"supported of its PySpark estimators are 3.{_OLDEST_ESTIMATORS}")


def _unexpected(what: str, supported: str) -> RejoinError:
    text = f"XGBoost {xgboost.__version__} isn't as expected: {what}"
    return RejoinError(Code.INCOMPATIBLE, f"{text}; {supported} to 3.{_NEWEST} as they come from PyPI")


def check_estimators_version() -> None:
    """Refuses an XGBoost of a minor version whose PySpark estimators aren't known."""
    major, minor = (int(part) for part in xgboost.__version__.split(".")[:2])
    if major != 3 or not _OLDEST_ESTIMATORS <= minor <= _NEWEST:
        raise unexpected_estimators("it is of another minor version")


class Rhythm:
    """After how many rounds the next checkpoint is taken: the same decision at every rank."""

    def __init__(self, every: int, bytes_per_round: int = 0) -> None:
        """``every`` so many rounds; with ``bytes_per_round`` earlier, where so many bytes of a checkpoint
        for each round before the next one are not exceeded (``CheckpointRhythm``)."""
        self._every, self._bytes_per_round = every, bytes_per_round

    def rounds_after(self, checkpoint_bytes: int) -> int:
        if not self._bytes_per_round:
            return self._every
        return max(1, min(self._every, -(-checkpoint_bytes // self._bytes_per_round)))


class Training:
    """Rounds count from 0 in this training, whatever the model had before."""

    def __init__(
        self,
        rank: Rank,
        booster: xgboost.Booster,
        rhythm: Rhythm,
        check: Callable[[], None],
        carry: Optional[Carry] = None,
    ) -> None:
        """Callbacks whose state doesn't travel see the rounds that are passed over, too."""
        self._rank, self._rhythm, self._check = rank, rhythm, check
        self._booster = booster
        self._parameters, self._callbacks = _loop_of_callback()
        # XGBoost's own callbacks decide by what is the same at all ranks; of others that isn't known.
        own = {CallbackContainer.__module__, f"{__package__}.xgboost"}
        self._asks = any(type(callback).__module__ not in own for callback in self._callbacks.callbacks)
        # What callbacks have set besides, by name where there is one; and what of that was set before the first round.
        self._set: Dict[Any, Tuple[Any, Any]] = {}
        self._set_before: Dict[Any, Tuple[Any, Any]] = {}
        # The Booster's configuration then: it may go on from another one's, or have been set by callbacks before us.
        self._configuration = ""
        # First of all: of a configured Booster it would reset what linear ones select features by.
        booster.set_param("seed_per_iteration", "true")
        self._set["seed_per_iteration"] = ("seed_per_iteration", "true")
        self._had: int = booster.num_boosted_rounds()
        self._start = rank.start()
        self._kept = None if self._start.checkpoint is None else Kept.of(self._start.checkpoint)
        start, self._carried = self._start, None
        if carry is not None:
            state = (start.round, start.complete, start.own)
            self._carried = CarriedCallbacks(carry, self._callbacks, own, *state, self.end)
        refuse_pickled_checkpoints(self._callbacks.callbacks)
        # While rounds are passed over the Booster is the one that has never trained, which callbacks may set things of.
        self._passes_over = self._start.round > 0
        self._begun, self._wants_score = False, False
        self._version, self._round = self._start.version, 0
        self._entered = self._start.round
        self._next = self._entered + rhythm.rounds_after(len(self._start.checkpoint or b""))
        # Rounds, and the model's bytes, at the end.
        self.outcome: Optional[Tuple[int, bytes]] = None
        self._is_over = False
        booster._training = self
        booster.__class__ = _Surviving

    # ---------------------------------------------------------------- what the Booster's methods come to

    def update(self, dtrain: Any, round_: int, objective: Any) -> None:
        if not self._begun:
            self._begin(dtrain, objective)
        self._wants_score = True
        if round_ < self._start.round:
            self._round = round_ + 1
            return
        self._resume_at(round_)
        if round_ > self._entered:
            self._agree(stops=False)
            if round_ == self._next:
                self._enter(round_, complete=False)
            else:
                self._rank.begin_round(round_)
        self._check()
        xgboost.Booster.update(self._booster, dtrain, round_, objective)
        self._round = round_ + 1

    def eval_set(self, evals: Any, round_: int, metric: Any, *more: Any) -> str:
        if not self._wants_score:  # a callback's own question
            self._content("eval_set")
            return str(xgboost.Booster.eval_set(self._booster, evals, round_, metric, *more))
        self._wants_score = False
        if round_ >= self._start.round:
            return str(xgboost.Booster.eval_set(self._booster, evals, round_, metric, *more))
        self._restore_history(round_)
        return f"[{round_}]"  # nothing was measured: XGBoost would ask the other ranks for theirs

    def _restore_history(self, round_: int) -> None:
        kept = {} if self._kept is None else self._kept.history
        for name, metrics in kept.items():
            for metric, values in metrics.items():
                history = self._callbacks.history.setdefault(name, OrderedDict()).setdefault(metric, [])
                history.append(np.float64(values[round_]))  # the type that XGBoost's have

    def set_param(self, name: Any, value: Any) -> None:
        key = name if isinstance(name, str) else len(self._set)
        self._set.pop(key, None)
        self._set[key] = (name, value)
        xgboost.Booster.set_param(self._booster, name, value)

    def rounds(self) -> int:
        return self._had + self._round

    def _content(self, name: str) -> None:
        """A method is called that needs the model of the present round."""
        if self._passes_over and self._round == self._start.round:
            self._resume()
        if self._passes_over:
            text = (
                f"a callback asks for {name} of the model in round {self._round - 1}, which rank {self._rank.rank} "
                f"passes over after its restart: it has the model of round {self._start.round - 1}. Let the callback "
                "keep to the evaluations (evals_log)"
            )
            raise RejoinError(Code.BAD_STATE, text)

    def saves_model(self) -> bool:
        """Whether a file is written: not again by a rank that passes over the round."""
        if self._passes_over and self._round < self._start.round:
            return False
        self._content("save_model")
        return True

    # ---------------------------------------------------------------- phases

    def _begin(self, dtrain: Any, objective: Any) -> None:
        """What every incarnation does before its first version, wherever it starts."""
        self._check()
        self._configuration = str(xgboost.Booster.save_config(self._booster))
        self._set_before = dict(self._set)
        learner = json.loads(self._configuration)["learner"]
        _refuse(dict(self._parameters or {}), learner, objective, self._rank.world)
        if dtrain is not None and _sketches(learner):
            # The sketch of the matrix is made in the first update. It belongs to the start, as it
            # isn't made again. With the trees that it goes on from: second derivatives may depend
            # on them, and what is sampled on how many there are.
            begun = bytearray(xgboost.Booster.save_raw(self._booster, "ubj")) if self._had else None
            thrown_away = self._made([dtrain], begun)
            thrown_away.set_param({"max_depth": 1, "num_parallel_tree": 1})
            if objective is None or _trees_of(learner)["tree_method"] == "approx":
                # `approx` sketches with the second derivatives, the program's if there is an objective of its own.
                thrown_away.update(dtrain, 0, objective)
            else:
                # XGBoost's own objective may not fit the labels, or there are none. The program's isn't called more
                # often than without Rejoin.
                margin = thrown_away.predict(dtrain, output_margin=True, training=True)
                thrown_away.boost(dtrain, 0, grad=np.zeros_like(margin), hess=np.ones_like(margin))
        start = self._start
        self._rank.enter(start.version, start.round, start.checkpoint or b"", start.own, start.complete)
        self._begun = True

    def _resume_at(self, round_: int) -> None:
        if self._start.complete:
            text = (
                f"the other ranks have ended this training after {self._start.round} rounds, and rank "
                f"{self._rank.rank}, which was started again, goes on with round {round_}. Let all ranks end it for "
                "the same reason, and by nothing that changes from start to start"
            )
            raise RejoinError(Code.MISMATCH, text)
        if self._passes_over:
            self._resume()

    def _resume(self) -> None:
        if self._carried is not None:
            self._set.update(self._carried.settings)
        if self._kept is not None:
            self._load(self._kept.model)
        self._passes_over = False

    def _load(self, model: bytes) -> None:
        """Puts a Booster that is made of these bytes into the place of the present one."""
        made = self.made_of(model)
        made.handle, self._booster.handle = self._booster.handle, made.handle

    def _made(self, cache: List[Any], model: Optional[bytearray]) -> xgboost.Booster:
        """A Booster with the parameters of the present one."""
        made = xgboost.Booster(self._parameters, cache, model)
        if self._is_linear():
            # It would lose with its configuration what it is given as parameters.
            before = {}
        else:
            before = self._set_before
            made.save_config()  # takes the parameters in, which would otherwise win over what is loaded
            made.load_config(self._configuration)
        for key, (name, value) in self._set.items():
            if before.get(key) != (name, value):
                made.set_param(name, value)
        return made

    def _is_linear(self) -> bool:
        return str(json.loads(self._configuration)["learner"]["learner_train_param"]["booster"]) == "gblinear"

    def made_of(self, model: bytes) -> xgboost.Booster:
        """A Booster of a model's bytes with the configuration of the one that is trained: the same at all ranks. That
        one's own knows whether it has trained and evaluated (its generator's state, default metrics)."""
        return self._made([], bytearray(model))

    def _enter(self, round_: int, complete: bool) -> None:
        """Ends a version: the model after so many rounds begins the next one."""
        model = bytes(xgboost.Booster.save_raw(self._booster, "ubj"))
        self._version += 1
        own = None if self._carried is None else self._carried.state(self._set)
        checkpoint = Kept(self._callbacks.history, model).to_bytes()
        self._rank.enter(self._version, round_, checkpoint, own, complete)
        self._entered = round_
        self._next = round_ + self._rhythm.rounds_after(len(checkpoint))
        if complete:
            self.outcome = (round_, model)
        elif not self._rank.keeps_booster:
            self._load(model)

    def end(self) -> None:
        """The training's loop is over. Told by whatever comes first behind it."""
        if self._is_over:
            return
        self._is_over = True
        if not self._begun:
            self._begin(None, None)
        if self._start.complete and self._round == self._start.round and self._kept is not None:
            if self._passes_over:
                self._resume()
            self.outcome = (self._round, self._kept.model)
        elif self._round < self._start.round:
            text = (
                f"rank {self._rank.rank}, which was started again, ends this training after {self._round} rounds, "
                f"but {self._start.round} were trained before. Let a callback decide by nothing that changes from "
                "start to start"
            )
            raise RejoinError(Code.MISMATCH, text)
        else:
            if self._round > self._entered:
                self._agree(stops=True)
            self._enter(self._round, complete=True)
        self._booster.__class__ = xgboost.Booster
        del self._booster._training

    def _agree(self, stops: bool) -> None:
        """Whether all ranks stop here, or none: the others would wait for one that has left."""
        if not self._asks:
            return
        stop, goes_on = allreduce(np.array([stops, not stops], dtype=np.float32), Op.MAX)
        if stop and goes_on:
            text = (
                f"ranks disagree whether to stop after round {self._round - 1} (rank {self._rank.rank} would "
                f"{'stop' if stops else 'go on'}). A callback that stops a training has to decide by what is the same "
                "at all ranks, as its evals_log is"
            )
            raise RejoinError(Code.TRAINING_FAILED, text)


class _Surviving(xgboost.Booster):
    """A Booster while ``xgboost.train`` trains it."""

    _training: Training

    def update(self, dtrain: Any, iteration: int, fobj: Any = None) -> None:
        self._training.update(dtrain, iteration, fobj)

    def eval_set(self, evals: Any, iteration: int = 0, feval: Any = None, *more: Any, **named: Any) -> str:
        return self._training.eval_set(evals, iteration, feval, *more, *named.values())

    def set_param(self, params: Any, value: Any = None) -> None:
        self._training.set_param(params, value)

    def num_boosted_rounds(self) -> int:
        return self._training.rounds()

    def save_model(self, fname: Any) -> None:
        if self._training.saves_model():
            super().save_model(fname)

    def __getstate__(self) -> Any:
        self._training._content("a copy")
        return {name: value for name, value in super().__getstate__().items() if name != "_training"}

    def __reduce_ex__(self, protocol: Any) -> Any:
        return object.__new__, (xgboost.Booster,), self.__getstate__()


def _content_method(name: str) -> Any:
    inherited = getattr(xgboost.Booster, name)

    def method(self: _Surviving, *arguments: Any, **named: Any) -> Any:
        self._training._content(name)
        return inherited(self, *arguments, **named)

    return method


for _name in _CONTENT:
    if hasattr(xgboost.Booster, _name):
        setattr(_Surviving, _name, _content_method(_name))


def _trees_of(learner: Dict[str, Any]) -> Dict[str, Any]:
    """The parameters of tree boosters; nothing of others."""
    booster = learner.get("gradient_booster", {})
    parameters: Dict[str, Any] = booster.get("gbtree", booster).get("gbtree_train_param", {})
    return parameters


def _sketches(learner: Dict[str, Any]) -> bool:
    """Whether the matrix is sketched in the first update, and not again: that of trees is. (``approx``
    does it in every round only where the objective's second derivatives change.)"""
    return "tree_method" in _trees_of(learner)


def _refuse(parameters: Dict[str, Any], learner: Dict[str, Any], objective: Any, world: int) -> None:
    # XGBoost takes the CPU where there is no other one. (Its estimators give `None` for what isn't set.)
    device = str(parameters.get("device") or "cpu")
    if not device.startswith("cpu"):
        raise refused(f'device is "{device}"; rejoin.xgboost carries trainings on the CPU: leave it out, or say "cpu"')
    if _trees_of(learner).get("process_type", "default") != "default":
        raise refused('process_type is "update", whose rounds add no trees; expected "default"')
    if world > 1 and "gblinear" in learner.get("learner_train_param", {}).get("booster", ""):
        raise refused(
            f'booster is "gblinear", which XGBoost doesn\'t distribute: each of {world} ranks would have a model of '
            "its own rows. Train it in one rank, or as trees"
        )
    ranking = learner.get("objective", {}).get("lambdarank_param", {})
    if str(ranking.get("lambdarank_unbiased", "0")) not in ("0", "false"):
        raise refused(
            "lambdarank_unbiased is true: XGBoost trains such a model in one piece alone, and a rank that comes back "
            "goes on from the checkpoint's; expected false"
        )
    if objective is not None and learner.get("learner_model_param", {}).get("boost_from_average") != "0":
        raise refused(
            "a custom objective is used without base_score among the parameters: XGBoost starts its margins from "
            "another value than it saves with the model, so a rank that comes back would train on other ones. Give "
            "base_score"
        )
