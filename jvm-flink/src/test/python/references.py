#!/usr/bin/env python3
"""Writes the values that the trainers of io.rejoin.flink.trainers are compared with.

Needs numpy and scikit-learn. rows.csv has the input: batch, label, weight, four features; one batch
has no rows. Each other file has a model's numbers after each batch, a line each; what they are
stands in the function that makes them. Run it again only to change the cases.
"""

import pathlib

import numpy
from sklearn.preprocessing import StandardScaler

FOLDER = pathlib.Path(__file__).parent.parent / "resources/io/rejoin/flink/trainers"
BATCHES = 8
EMPTY = 4


def rows():
    """Two classes that drift; the fourth feature is far from 0, as times of day or prices are."""
    random = numpy.random.default_rng(20)
    table = []
    for batch in range(BATCHES):
        count = 0 if batch == EMPTY else 7 + 3 * batch
        label = random.integers(0, 2, count).astype(float)
        weight = random.choice([0.0, 0.5, 1.0, 1.0, 2.0, 3.25], count)
        x = random.normal(size=(count, 4)) * [1, 0.5, 3, 2]
        x[:, :2] += 1.5 * label[:, None] - 0.5 + 0.1 * batch
        x[:, 3] += 1e6 + 3 * batch
        table.append(numpy.column_stack([numpy.full(count, batch), label, weight, x]))
    return numpy.concatenate(table)


def scaler(batches):
    """weight, four means, four variances, four scales; by scikit-learn itself."""
    model = StandardScaler()
    for _, weight, x in batches:
        if len(x):
            model.partial_fit(x, sample_weight=weight)
        yield [model.n_samples_seen_, *model.mean_, *model.var_, *model.scale_]


def save(name, lines):
    text = "".join(",".join(repr(float(number)) for number in line) + "\n" for line in lines)
    (FOLDER / name).write_text(text)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    table = rows()
    save("rows.csv", table)
    batches = [(part[:, 1], part[:, 2], part[:, 3:]) for part in (table[table[:, 0] == b] for b in range(BATCHES))]
    save("scaler.csv", scaler(batches))


if __name__ == "__main__":
    main()
