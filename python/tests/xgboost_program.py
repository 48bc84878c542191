"""A training for the tests: `python xgboost_program.py CASE` as a rank under `rejoin run`; after
`stock N` it is XGBoost's own tracker with N processes. Each rank prints the model's digest with what
was measured."""

import hashlib
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import threading

import numpy as np
import xgboost as xgb
from xgboost.callback import EarlyStopping, LearningRateScheduler, TrainingCallback, TrainingCheckPoint

ROUNDS = 16


def rows(rank, count=3000):
    generator = np.random.default_rng(7 + rank)
    features = generator.normal(size=(count, 8))
    labels = features[:, 0] * 2 + np.sin(features[:, 1] * 3) + generator.normal(size=count)
    return features, labels


class Act(TrainingCallback):
    """What is told in the environment, before a round of the first incarnation: ACT=kill:rank:round,… or raise:…"""

    def __init__(self, rank, incarnation):
        super().__init__()
        acts = [act.split(":") for act in os.environ.get("ACT", "").split(",") if act]
        self.acts = {int(round_): what for what, who, round_ in acts if int(who) == rank} if incarnation == 0 else {}

    def before_iteration(self, model, epoch, evals_log):
        act = self.acts.get(epoch)
        if act == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if act == "raise":
            raise KeyError("on purpose")
        return False


class Leaves(TrainingCallback):
    """Rank 1 stops after round 6."""

    def __init__(self, rank):
        super().__init__()
        self.rank = rank

    def after_iteration(self, model, epoch, evals_log):
        return self.rank == 1 and epoch == 6


class Asks(TrainingCallback):
    """Wants to know of every round what its model predicts."""

    def __init__(self, matrix):
        super().__init__()
        self.matrix = matrix

    def after_iteration(self, model, epoch, evals_log):
        model.predict(self.matrix)
        return False


class Remembers(TrainingCallback):
    """Counts the trees of each round's model, and sets the learning rate by what it draws."""

    def __init__(self):
        super().__init__()
        self.chance = random.Random(7)
        self.began, self.seen = 0, []

    def before_training(self, model):
        self.began += 1
        return model

    def before_iteration(self, model, epoch, evals_log):
        model.set_param("learning_rate", 0.1 + 0.4 * self.chance.random())
        return False

    def after_iteration(self, model, epoch, evals_log):
        self.seen.append([epoch, len(model.get_dump()), sum(map(len, evals_log["test"].values()))])
        return False


class Warm(TrainingCallback):
    """Sets something of the Booster before Rejoin knows of it."""

    def before_training(self, model):
        model.set_param("learning_rate", 0.05)
        return model


class Cuts(TrainingCallback):
    """Gives back another Booster than was trained."""

    def after_training(self, model):
        return model[: ROUNDS - 4]


CUTS = Cuts()


class Pickles(TrainingCallback):
    """A copy of the model is a Booster like any other."""

    def after_iteration(self, model, epoch, evals_log):
        if epoch == ROUNDS - 1:
            for made in (pickle.loads(pickle.dumps(model)), model.copy()):
                assert type(made) is xgb.Booster and made.save_raw() == model.save_raw()
        return False


class Seen(TrainingCallback):
    """What a callback of the user's sees of each round: it has to be the same after a restart."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def after_iteration(self, model, epoch, evals_log):
        last = {name: {metric: values[-1] for metric, values in of.items()} for name, of in evals_log.items()}
        self.seen.append([epoch, model.num_boosted_rounds(), model.attr("best_iteration"), last])
        return False


def squared(margins, matrix):
    return margins - matrix.get_label(), np.ones(len(margins))


def by_label(margins, matrix):
    """Its second derivatives aren't the same for all rows."""
    weights = 1 + matrix.get_label() ** 2
    return weights * (margins - matrix.get_label()), weights


def softmax(margins, matrix):
    """Of three classes, by labels that aren't the matrix's own."""
    classes = np.digitize(matrix.get_float_info("label_lower_bound"), [-0.5, 0.5])
    shares = np.exp(margins - margins.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return shares - np.eye(3)[classes], np.maximum(2 * shares * (1 - shares), 1e-6)


def worst(margins, matrix):
    return "worst", float(np.abs(margins - matrix.get_label()).max())


def train(case, rank, world, more, remembers):
    params = {"objective": "reg:squarederror", "max_depth": 4, "nthread": 1, "seed_per_iteration": True, "seed": 3}
    named = {}
    if case == "stopping":
        params.update(learning_rate=0.9, max_depth=6)
        named = {"early_stopping_rounds": 4}
    elif case == "best":
        params.update(learning_rate=0.9, max_depth=6)
        more = [EarlyStopping(4, save_best=True), *more]
    elif case == "rates":
        more = [*more, LearningRateScheduler(lambda round_: 0.4 / (1 + round_))]
    elif case == "sampled":
        params.update(subsample=0.6, colsample_bynode=0.7)
    elif case == "approx":
        params.update(tree_method="approx")
    elif case == "dart":
        params.update(booster="dart", rate_drop=0.3)
    elif case == "poisson":
        params.update(objective="count:poisson", tree_method="approx")
    elif case == "metric":
        named = {"custom_metric": worst}
    elif case == "disagree":
        more = [*more, Leaves(rank)]
    elif case in ("objective", "no base score"):
        named = {"obj": squared}
        if case == "objective":
            params.update(base_score=0.25)
    elif case in ("sketched", "continued sketched"):
        params.update(tree_method="approx", base_score=0.25)
        named = {"obj": by_label}
    elif case == "classes":
        params.update(num_class=3, base_score=0.5, disable_default_eval_metric=True)
        named = {"obj": softmax}
    elif case == "warm":
        more = [Warm(), *more]
    elif case == "linear":
        params.update(booster="gblinear", updater="coord_descent", eta=0.3, alpha=0.1)
    elif case == "pickled":
        more = [TrainingCheckPoint(os.environ["FOLDER"], as_pickle=True), *more]
    elif case == "unbiased":
        params.update(objective="rank:ndcg", lambdarank_unbiased=True)
    elif case == "labels":
        params.update(objective="binary:logistic")
    elif case == "estimator":
        del params["nthread"]
    elif case == "gpu":
        params.update(device="cuda")
    features, labels = rows(rank)
    if case == "poisson":
        labels = np.abs(labels)
    matrix = xgb.QuantileDMatrix(features, labels) if case == "quantile" else xgb.DMatrix(features, labels)
    if case == "classes":
        matrix = xgb.DMatrix(features)
        matrix.set_float_info("label_lower_bound", labels)
    evaluated = xgb.DMatrix(*rows(100 + rank, 400))
    if case == "unbiased":
        for each in (matrix, evaluated):
            each.set_label(np.clip(np.round(each.get_label()), 0, 4))
            each.set_info(qid=np.arange(each.num_row()) // 50)
    if case.startswith("continued"):
        # What the second training doesn't name goes on from the first one's Booster, too.
        first = xgb.Booster({**params, "max_depth": 2, "learning_rate": 0.1}, [matrix])
        del params["max_depth"]
        for round_ in range(3):
            first.update(matrix, round_)
        named["xgb_model"] = first
    if case == "asks":
        more = [*more, Asks(evaluated)]
    elif case == "carried cut":
        more = [CUTS, *more]
    elif case.startswith("carried"):
        more = [*more, remembers] if case == "carried last" else [remembers, *more]
    elif case == "files":
        more = [*more, TrainingCheckPoint(os.environ["FOLDER"], interval=3), Pickles()]
    elif case == "twice":
        xgb.train(params, matrix, 2, callbacks=more)
    results, seen = {}, Seen()
    evals = [(matrix, "train"), (evaluated, "test")]
    if case == "estimator":
        model = xgb.XGBRegressor(n_estimators=ROUNDS, callbacks=[*more, seen], n_jobs=1, **params)
        model.fit(features, labels, eval_set=[(features, labels), rows(100 + rank, 400)], verbose=False)
        booster, results = model.get_booster(), model.evals_result()
    else:
        booster = xgb.train(
            params,
            matrix,
            ROUNDS,
            evals=evals,
            evals_result=results,
            verbose_eval=False,
            callbacks=[*more, seen],
            **named,
        )
    assert type(booster) is xgb.Booster
    remembered = [remembers.began, remembers.seen, remembers.chance.random()]
    measured = json.dumps([results, seen.seen, booster.attributes(), remembered], sort_keys=True)
    digests = [hashlib.sha256(text).hexdigest()[:16] for text in (booster.save_raw("ubj"), measured.encode())]
    best = booster.attr("best_iteration")
    return f"digest {' '.join(digests)} rounds {booster.num_boosted_rounds()} best {best}"


def tell(line):
    """In one piece: the others write to the same place."""
    os.write(1, f"{line}\n".encode())


def main(case):
    import rejoin.xgboost

    every = int(os.environ.get("EVERY", "5"))
    hook = os.environ.get("HOOK", "auto")
    with rejoin.xgboost.communicator(case, hook=hook) as ranks:
        act = Act(ranks.rank, ranks.incarnation)
        if case == "nothing":
            return
        # XGBoost makes its own callbacks the last ones; of the given ones ours need not be the first.
        remembers = Remembers()
        carry = {"carried": [remembers], "carried last": [remembers], "carry stranger": [act, Remembers()]}
        carry["carried cut"] = [CUTS]
        carry["carry locked"] = carry["carry durable"] = [act]
        if case == "carry locked":
            act.lock = threading.Lock()
        checkpoint = rejoin.xgboost.Checkpoint(every, carry.get(case, ()))
        tell(train(case, ranks.rank, ranks.world, [act, checkpoint], remembers))
        tell(f"rank {ranks.rank}.{ranks.incarnation} hooked {ranks.hooked}")


def twice():
    """A second training, in a communicator of its own."""
    for _ in range(2):
        main("plain")
        tell("one is done")


def stock(world, case):
    from xgboost.tracker import RabitTracker

    tracker = RabitTracker(n_workers=world, host_ip="127.0.0.1", sortby="task")
    tracker.start()
    arguments = json.dumps(tracker.worker_args())
    command = [sys.executable, __file__, "stock-rank", case, arguments]
    ranks = [subprocess.Popen([*command, str(rank)]) for rank in range(world)]
    sys.exit(max(rank.wait() for rank in ranks))


def stock_rank(case, arguments, task):
    with xgb.collective.CommunicatorContext(**json.loads(arguments), dmlc_task_id=task):
        rank, world = xgb.collective.get_rank(), xgb.collective.get_world_size()
        tell(train(case, rank, world, [], Remembers()))


if __name__ == "__main__":
    if sys.argv[1] == "stock":
        stock(int(sys.argv[2]), sys.argv[3])
    elif sys.argv[1] == "stock-rank":
        stock_rank(*sys.argv[2:])
    elif sys.argv[1] == "two communicators":
        twice()
    else:
        main(sys.argv[1])
