"""k-means over the RAND data: every rank assigns its own rows, one allreduce an iteration adds up what all have found.

    rejoin run -n 4 --restart -- python3 examples/python/kmeans.py

Kill any rank at any moment: it comes back, gets the last centers and the sums that it missed, and
the digest is the same. Sums are made by bincount, row after row: so it is the same digest as in the
other languages.
"""

import sys

import numpy as np

import rejoin

CLUSTERS = 8
ITERATIONS = 25


def part(ranks: rejoin.Communicator) -> np.ndarray:
    """This rank's part of the RAND Health Insurance Experiment (20,190 person-years, 10 columns)."""
    path = sys.argv[1] if len(sys.argv) > 1 else "integration-tests/data/randhie.csv"
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return table[len(table) * ranks.rank // ranks.world : len(table) * (ranks.rank + 1) // ranks.world]


def sums_by(labels: np.ndarray, table: np.ndarray, groups: int) -> np.ndarray:
    """For each group the sum of its rows."""
    return np.stack([np.bincount(labels, column, groups) for column in table.T], axis=1)


def standardized(ranks: rejoin.Communicator, table: np.ndarray) -> np.ndarray:
    """Every column gets mean 0 and deviation 1, over the rows of all ranks."""
    one_group = np.zeros(len(table), dtype=int)
    both = [sums_by(one_group, table, 1)[0], sums_by(one_group, table * table, 1)[0], [len(table)]]
    # A sum that is made once in the life of the job: a rank that restarts gets the recorded one.
    sums = ranks.allreduce(np.concatenate(both), boot=True)
    mean = sums[:10] / sums[20]
    return (table - mean) / np.sqrt(sums[10:20] / sums[20] - mean * mean)


def train(ranks: rejoin.Communicator) -> np.ndarray:
    table = standardized(ranks, part(ranks))
    version, model = ranks.load()
    if model is not None:
        centers = np.frombuffer(model).reshape(CLUSTERS, 10).copy()
    else:  # rows of rank 0, far from each other in the file
        step = len(table) // CLUSTERS
        centers = ranks.broadcast(table[: CLUSTERS * step : step].copy())
    for iteration in range(version, ITERATIONS):
        distances = np.zeros((len(table), CLUSTERS))
        for column in range(10):
            apart = table[:, column, None] - centers[:, column]
            distances += apart * apart
        nearest = distances.argmin(axis=1)
        least = distances[np.arange(len(table)), nearest]
        counts = np.bincount(nearest, minlength=CLUSTERS)
        inertia = np.bincount(np.zeros(len(table), dtype=int), least, 1)
        sums = ranks.allreduce(np.concatenate([sums_by(nearest, table, CLUSTERS).ravel(), counts, inertia]))
        counts = sums[CLUSTERS * 10 : -1, None]
        means = sums[: CLUSTERS * 10].reshape(CLUSTERS, 10) / np.maximum(counts, 1)
        centers = np.where(counts > 0, means, centers)
        ranks.checkpoint(centers)
        if ranks.rank == 0:
            print(f"iteration {iteration + 1}: inertia {sums[-1]:.3f}", flush=True)
    return centers


with rejoin.join("k-means") as ranks:
    if not ranks.over:  # else the job was over when this process came
        centers = train(ranks)
        ranks.finish(centers)
        print("digest", rejoin.digest(centers), flush=True)
