"""Callbacks with a state, for tests of estimators. They are made within functions, so that they
travel by value, as a notebook's do."""


def remembering():
    """A callback that asks for the model in each round, draws, sets the learning rate by what it has
    drawn, and says at the end, in the model, all that it remembers."""
    import random

    from xgboost.callback import TrainingCallback

    class Remembers(TrainingCallback):
        def __init__(self):
            super().__init__()
            self.chance = random.Random(7)
            self.begun, self.seen = [], []

        def before_iteration(self, model, epoch, evals_log):
            self.begun.append(epoch)
            model.set_param("learning_rate", 0.1 + 0.4 * self.chance.random())
            return False

        def after_iteration(self, model, epoch, evals_log):
            logged = sum(len(values) for metrics in evals_log.values() for values in metrics.values())
            self.seen.append((epoch, sum(model.get_score().values()), logged))
            return False

        def after_training(self, model):
            model.set_attr(remembered=f"{self.begun} {self.seen} {self.chance.random()}")
            return model

    return Remembers()


def stopping_after(rounds):
    """A callback that counts, and stops the training after so many rounds."""
    from xgboost.callback import TrainingCallback

    class Counts(TrainingCallback):
        def __init__(self):
            super().__init__()
            self.counted = 0

        def after_iteration(self, model, epoch, evals_log):
            self.counted += 1
            return self.counted == rounds

    return Counts()


def holding_a_lock(when):
    """A callback that can't be pickled, from the beginning or once it is at work."""
    import threading

    from xgboost.callback import TrainingCallback

    class Locked(TrainingCallback):
        def __init__(self):
            super().__init__()
            if when == "made":
                self.lock = threading.Lock()

        def before_training(self, model):
            self.lock = threading.Lock()
            return model

    return Locked()


def keeping(size):
    """A callback with so many bytes of state once it is at work."""
    from xgboost.callback import TrainingCallback

    class Keeps(TrainingCallback):
        def before_training(self, model):
            self.kept = b"x" * size
            return model

    return Keeps()


def printing():
    """A callback that prints in each round."""
    from xgboost.callback import TrainingCallback

    class Prints(TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            print("round", epoch, "is done")
            return False

    return Prints()
