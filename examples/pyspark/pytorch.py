"""PyTorch in lock step: every rank computes the gradients of its own rows, all take the step of their
mean. A worker that dies goes on from the pass in which the others are, and waits for nobody.

    python3 examples/pyspark/pytorch.py

The rows are scikit-learn's breast cancer data: 569 tumours, 30 measures of each. Beside `rejoin[spark]`
it needs scikit-learn and torch, whose numpy has to be one that it was built for: numpy<2 up to torch 2.2.
"""

import hashlib
import io

import numpy as np
from pyspark.sql import SparkSession

import rejoin.spark

PASSES = 15
BATCH = 16


def train(ranks, rows, passes):
    import torch

    torch.set_num_threads(1)  # sums in one order, whatever machine a rank comes back on
    table = rows.to_pandas()
    inputs = torch.from_numpy(np.stack(table["features"].to_numpy()).astype(np.float32))
    labels = torch.from_numpy(table["label"].to_numpy().astype(np.float32))

    torch.manual_seed(7)  # all begin with the same model
    model = torch.nn.Sequential(torch.nn.Linear(inputs.shape[1], 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loss = torch.nn.BCEWithLogitsLoss()

    # Some ranks have more rows than others, and a step takes all ranks. A rank that comes back asks again,
    # and the others don't: the result of a boot collective is kept for it.
    steps = int(ranks.allreduce(np.array([len(labels) // BATCH]), "min", boot="steps")[0])
    version, kept = ranks.load()
    if kept is not None:
        state = torch.load(io.BytesIO(kept))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    for number in range(version, passes):
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(number))
        for batch in order[: steps * BATCH].split(BATCH):
            optimizer.zero_grad()
            loss(model(inputs[batch]).squeeze(1), labels[batch]).backward()
            for parameter in model.parameters():
                ranks.allreduce(parameter.grad.numpy())  # in place: they share their memory
                parameter.grad /= ranks.world
            optimizer.step()
        kept = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, kept)
        ranks.checkpoint(kept.getvalue())

    with torch.no_grad():
        right = ((model(inputs).squeeze(1) > 0) == (labels > 0.5)).sum().item()
    counts = ranks.allreduce(np.array([right, len(labels)]))
    weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    return counts[0] / counts[1], hashlib.sha256(weights).hexdigest()


def main():
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    features = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    spark = rejoin.spark.configure(SparkSession.builder.master("local[3,4]")).getOrCreate()
    rows = spark.createDataFrame(
        [(row.tolist(), int(label)) for row, label in zip(features, data.target)],
        "features array<double>, label int",
    )
    results = rejoin.spark.run(train, args=(PASSES,), num_proc=3, data=rows)
    spark.stop()
    (right, digest), *others = results
    assert all(other == (right, digest) for other in others)
    print(f"after {PASSES} passes {100 * right:.1f} % are right, say all {len(results)} ranks")
    print(f"the model is {digest}")


if __name__ == "__main__":
    main()
