"""Logistic regression on made-up rows, in a world whose size changes: each sample is in the model once in each epoch.

    rejoin run -n 2 --min 2 --max 4 --discovery ./slots.sh -- python3 examples/python/elastic.py

`slots.sh` prints the slots that there are, as `localhost:4`. Change what it prints, or kill ranks.
The argument is the number of epochs.
"""

import sys

import numpy as np

from rejoin import elastic

ROWS, COLUMNS, BATCH = 2000, 8, 16
EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 5

random = np.random.default_rng(1)
rows = random.normal(size=(ROWS, COLUMNS))
labels = (rows @ np.arange(1.0, COLUMNS + 1) > 0).astype(float)


@elastic.run
def train(state):
    print(f"rank {state.ranks.rank} of {state.ranks.world}, epoch {state.sampler.epoch}", flush=True)
    while state.sampler.epoch < EPOCHS:
        epoch = state.sampler.epoch
        for mine in state.sampler.batches(state.ranks, BATCH):  # at the tail there may be none
            wrong = 1 / (1 + np.exp(-(rows[mine] @ state.weights))) - labels[mine]
            sums = np.zeros(COLUMNS + 1)
            sums[:COLUMNS] = wrong @ rows[mine]
            sums[COLUMNS] = len(mine)
            state.ranks.allreduce(sums)
            state.weights -= 0.5 * sums[:COLUMNS] / sums[COLUMNS]
            state.samples += int(sums[COLUMNS])
            state.commit()
        if state.ranks.rank == 0:
            right = ((rows @ state.weights > 0) == labels).mean()
            print(f"epoch {epoch}: {state.ranks.world} ranks, {100 * right:.1f} % are right", flush=True)


state = elastic.State(weights=np.zeros(COLUMNS), samples=0, sampler=elastic.ElasticSampler(ROWS, seed=1))
train(state)
print(f"the model has seen {state.samples} samples in {EPOCHS} epochs", flush=True)
