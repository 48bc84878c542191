"""Logistic regression by L-BFGS over the RAND data: who sees a doctor at all? One allreduce for each look at the loss.

    rejoin run -n 4 --restart -- python3 examples/python/logistic.py

Kill any rank at any moment: it comes back at the last iteration's state, and the digest is the
same, which is the other languages', too.
"""

import sys
from typing import List, NamedTuple, Tuple

import numpy as np

import rejoin

WEIGHTS = 10  # of nine columns and a constant
MEMORY = 6  # pairs of steps and changes of the gradient that stand for the curvature
ITERATIONS = 30
PENALTY = 1e-3  # on the weights' squares


def dot(one: np.ndarray, other: np.ndarray) -> float:
    """Number after number. The sums of BLAS may depend on where in memory an array lies, and a rank
    that comes back has to repeat itself."""
    return np.cumsum(one * other, axis=-1)[..., -1]


def decay(x: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """e^-x and log(1 + e^-x) for an x from 0 on, by sums, products and quotients alone: these have
    the same bits in all languages, and what their libraries make of exp and log hasn't."""
    small = np.minimum(x, 40) / 64  # beyond 40 nothing of it is left
    power = np.ones_like(x)
    for n in range(16, 0, -1):
        power = 1 + power * small / n
    for _ in range(6):
        power *= power
    decay = 1 / power
    z = decay / (2 + decay)
    series = np.zeros_like(x)
    for k in range(17, -1, -1):
        series = series * z * z + 1 / (2 * k + 1)
    return decay, 2 * z * series


class State(NamedTuple):
    """Between two iterations. As numbers it is the model that is handed to the checkpoint."""

    loss: float
    weights: np.ndarray
    gradient: np.ndarray
    pairs: List[np.ndarray]  # newest last: (step, change of the gradient)

    def numbers(self) -> np.ndarray:
        return np.concatenate([[self.loss], self.weights, self.gradient, *[pair.ravel() for pair in self.pairs]])

    @staticmethod
    def of(numbers: np.ndarray) -> "State":
        rows = numbers[1:].reshape(-1, WEIGHTS)
        return State(numbers[0], rows[0], rows[1], list(rows[2:].reshape(-1, 2, WEIGHTS)))


def evaluate(
    ranks: rejoin.Communicator, table: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> Tuple[float, np.ndarray]:
    """Mean loss over the rows of all ranks, and its gradient."""
    score = weights[0] + dot(table[:, 1:], weights[1:])
    down, rest = decay(np.abs(score))
    error = np.where(score > 0, 1 / (1 + down), down / (1 + down)) - labels
    # log(1 + e^score) - label * score, without overflow.
    loss = np.maximum(score, 0) + rest - labels * score
    summed = np.column_stack([error[:, None] * table, loss, np.ones(len(table))])
    sums = ranks.allreduce(np.cumsum(summed, axis=0)[-1])
    mean = sums[WEIGHTS] / sums[WEIGHTS + 1] + 0.5 * PENALTY * dot(weights, weights)
    return mean, sums[:WEIGHTS] / sums[WEIGHTS + 1] + PENALTY * weights


def direction(state: State) -> np.ndarray:
    """The two-loop recursion (Nocedal and Wright, Numerical Optimization, algorithm 7.4): downhill,
    bent by the curvature."""
    way = state.gradient.copy()
    factors = []
    for step, change in reversed(state.pairs):
        factors.append(dot(step, way) / dot(step, change))
        way -= factors[-1] * change
    if state.pairs:
        step, change = state.pairs[-1]
        way *= dot(step, change) / dot(change, change)
    for step, change in state.pairs:
        way += (factors.pop() - dot(change, way) / dot(step, change)) * step
    return -way


def improved(ranks: rejoin.Communicator, table: np.ndarray, labels: np.ndarray, state: State) -> State:
    """One iteration: a direction, and a step along it that is halved until the loss falls enough (Armijo)."""
    way = direction(state)
    length = 1.0
    for _ in range(30):
        weights = state.weights + length * way
        loss, gradient = evaluate(ranks, table, labels, weights)
        if loss <= state.loss + 1e-4 * length * dot(state.gradient, way):
            pair = np.stack([weights - state.weights, gradient - state.gradient])
            pairs = state.pairs + [pair] if dot(*pair) > 1e-12 else state.pairs
            return State(loss, weights, gradient, pairs[-MEMORY:])
        length *= 0.5
    return state  # no step is downhill any more: it is as good as it gets


def train(ranks: rejoin.Communicator) -> np.ndarray:
    path = sys.argv[1] if len(sys.argv) > 1 else "integration-tests/data/randhie.csv"
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    table = table[len(table) * ranks.rank // ranks.world : len(table) * (ranks.rank + 1) // ranks.world]
    labels = np.where(table[:, 0] > 0, 1.0, 0.0)
    # Columns of about the same size, by numbers that are the same everywhere; the first one becomes the constant.
    table /= [1, 4.6, 1, 7, 1, 1, 15, 1, 1, 1]
    table[:, 0] = 1
    version, model = ranks.load()
    if model is not None:
        state = State.of(np.frombuffer(model))
    else:
        loss, gradient = evaluate(ranks, table, labels, np.zeros(WEIGHTS))
        state = State(loss, np.zeros(WEIGHTS), gradient, [])
    for iteration in range(version, ITERATIONS):
        state = improved(ranks, table, labels, state)
        ranks.checkpoint(state.numbers())
        if ranks.rank == 0:
            print(f"iteration {iteration + 1}: loss {state.loss:.6f}", flush=True)
    return state.weights


with rejoin.join("logistic regression") as ranks:
    if not ranks.over:  # else the job was over when this process came
        weights = train(ranks)
        ranks.finish(weights)
        print("digest", rejoin.digest(weights), flush=True)
