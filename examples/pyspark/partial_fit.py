"""scikit-learn in lock step: every rank learns from its own rows, and after each pass all go on with
the mean of their models. A worker that dies goes on from the pass in which the others are.

    python3 examples/pyspark/partial_fit.py
"""

import hashlib

import numpy as np
from pyspark.sql import SparkSession

import rejoin.spark

PASSES = 20
CLASSES = np.array([0, 1])


def learn(ranks, rows, passes):
    from sklearn.linear_model import SGDClassifier

    table = rows.to_pandas()
    inputs, labels = np.stack(table["features"].to_numpy()), table["label"].to_numpy()
    version, kept = ranks.load()
    model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.05, shuffle=False)
    # What differs from rank to rank, such as the number of rows seen, is no part of what all go on with.
    weights = np.zeros(inputs.shape[1] + 1) if kept is None else np.frombuffer(kept).copy()
    for _ in range(version, passes):
        model.coef_, model.intercept_ = weights[:-1].reshape(1, -1), weights[-1:]
        model.partial_fit(inputs, labels, classes=CLASSES)
        weights = np.concatenate([model.coef_.ravel(), model.intercept_])
        ranks.allreduce(weights)
        weights /= ranks.world
        ranks.checkpoint(weights)
    right = np.array([np.sum((inputs @ weights[:-1] + weights[-1] > 0) == labels), len(labels)], dtype=np.int64)
    ranks.allreduce(right)
    return right[0] / right[1], hashlib.sha256(weights.tobytes()).hexdigest()


def main():
    spark = rejoin.spark.configure(SparkSession.builder.master("local[3,4]")).getOrCreate()
    numbers = ", ".join(f"(xxhash64(id, {column}) % 1000) / 1000.0D" for column in range(4))
    rows = spark.range(0, 6000, 1, 3).selectExpr(f"array({numbers}) AS features")
    rows = rows.selectExpr("features", "CAST(features[0] - features[1] + 0.5 * features[2] > 0 AS int) AS label")
    results = rejoin.spark.run(learn, args=(PASSES,), num_proc=3, data=rows)
    share, digest = results[0]
    print(f"after {PASSES} passes {100 * share:.1f} % are right, say all {len(results)} ranks")
    print(f"the model is {digest}")
    spark.stop()


if __name__ == "__main__":
    main()
