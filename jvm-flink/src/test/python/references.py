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


def gradient(w, y, weight, x):
    """Of the logarithmic loss, the intercept last."""
    x = numpy.column_stack([x, numpy.ones(len(x))])
    p = 1 / (1 + numpy.exp(-x @ w))
    return x.T @ (weight * (p - y))


def ftrl(batches, alpha, beta, l1, l2):
    """Three coefficients, the intercept, four z, four n; McMahan and others (2013), algorithm 1."""
    l1, l2 = numpy.array([l1, l1, l1, 0]), numpy.array([l2, l2, l2, 0])
    w, z, n = numpy.zeros(4), numpy.zeros(4), numpy.zeros(4)
    for y, weight, x in batches:
        g = gradient(w, y, weight, x[:, :3])
        sigma = (numpy.sqrt(n + g**2) - numpy.sqrt(n)) / alpha
        z, n = z + g - sigma * w, n + g**2
        w = numpy.where(abs(z) <= l1, 0, -(z - numpy.sign(z) * l1) / ((beta + numpy.sqrt(n)) / alpha + l2))
        yield [*w, *z, *n]


def sgd(batches, rate, l1, l2):
    """Three coefficients and the intercept; a proximal step for l1."""
    l1, l2 = numpy.array([l1, l1, l1, 0]), numpy.array([l2, l2, l2, 0])
    w = numpy.zeros(4)
    for y, weight, x in batches:
        if len(x):
            w = w - rate * (gradient(w, y, weight, x[:, :3]) / weight.sum() + l2 * w)
            w = numpy.sign(w) * numpy.maximum(0, abs(w) - rate * l1)
        yield w


def kmeans(batches, decay, by_points):
    """Three centers of three numbers each, three weights: the update of Spark's StreamingKMeansModel.

    Spark 3.5.7 itself gave the same within 2e-14, with each row repeated 4 times its weight, the
    decay by points to the power of 1/4, and its weights divided by 4.
    """
    c = numpy.array([[-1, -1, 0], [1, 0.5, -2], [0.5, 1, 3]])
    n = numpy.array([0, 1, 0.5])
    for _, weight, x in batches:
        x = x[:, :3]
        nearest = ((x[:, None, :] - c) ** 2).sum(axis=2).argmin(axis=1)
        if len(x):
            n = n * (decay ** weight.sum() if by_points else decay)
        for i in set(nearest):
            own = weight * (nearest == i)
            m = own.sum()
            if m:
                n[i] += m
                c[i] = (1 - m / n[i]) * c[i] + m / n[i] * numpy.average(x, axis=0, weights=own)
        assert n.min() >= 1e-8 * n.max(), "Spark would split a cluster"
        yield [*c.ravel(), *n]


def save(name, lines):
    text = "".join(",".join(repr(float(number)) for number in line) + "\n" for line in lines)
    (FOLDER / name).write_text(text)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    table = rows()
    save("rows.csv", table)
    batches = [(part[:, 1], part[:, 2], part[:, 3:]) for part in (table[table[:, 0] == b] for b in range(BATCHES))]
    save("scaler.csv", scaler(batches))
    save("ftrl.csv", ftrl(batches, alpha=0.3, beta=0.5, l1=0.75, l2=2))
    save("sgd.csv", sgd(batches, rate=0.25, l1=0.05, l2=0.125))
    save("kmeans-batches.csv", kmeans(batches, 0.5, False))
    save("kmeans-points.csv", kmeans(batches, 0.96875, True))


if __name__ == "__main__":
    main()
