"""The sums of the score test, asked of an engine, against arrays."""

from __future__ import annotations

from dataclasses import replace
from functools import partialmethod

import numpy as np
import pyarrow as pa
import pytest
from dense import Known, point, problem
from engines import QUICK_TO_ASK, local_engine
from numpy.testing import assert_allclose

import vardi
from vardi._estimate.bias_test import Labels, indicators, polynomials, varying_of
from vardi._estimate.tangent import Tangent
from vardi._rows.lazy_functions import compiled_functions
from vardi._rows.measure import Measure
from vardi._rows.point import KnownMoments, Point
from vardi._rows.query_block import QueryBlock

LOCAL = pytest.mark.parametrize("engine", QUICK_TO_ASK, indirect=True)
POLARS = local_engine("polars-lazy")


class Arrays:
    """p of the sampled biases alone, from arrays."""

    def __init__(self, given, v):
        without = replace(given, known=Known(), values=())
        dense = without.dense(v[: len(given.names) + given.parameters()])
        self.sampled = np.flatnonzero(np.isfinite(v[: len(given.names)]))
        self.P, self.c = dense.x[:, self.sampled], dense.c
        self.theta = dense.x[:, len(given.names) :]
        self.source = np.searchsorted(self.sampled, dense.source)
        assert_allclose(self.P.sum(axis=1), 1.0)

    def residual(self, h):
        mine = self.source[:, None] == np.arange(len(self.sampled))
        return (h * self.c[:, None]).T @ (mine - self.P)

    def information(self, w):
        return np.diag((self.c * w) @ self.P) - (self.P * (self.c * w)[:, None]).T @ self.P

    def cross(self, w, places):
        block = -(self.P * (self.c * w)[:, None]).T @ self.theta
        for k, place in places.items():
            block[np.searchsorted(self.sampled, k), place] += (self.c * w) @ self.theta[:, place]
        return np.hstack([self.information(w), block])


def labels_of(given, engine, v):
    """Return the labels at a point without known values."""
    frames, model = given.model(given.pool(engine))
    model = replace(model, known=KnownMoments.none())
    measure = Measure(frames, Point(model, v[: len(model.coordinates)]))
    return Labels(Tangent(measure, None, None)), model


def column_of(labels, name):
    return compiled_functions(labels.measure.rows.parts, [vardi.where(name)], [name])


@LOCAL
@pytest.mark.parametrize(("parts", "form"), [("", "labels counts"), ("known logistic tilt", "frames")])
def test_the_sums_of_the_score_test(engine, parts, form, monkeypatch):
    monkeypatch.setattr(QueryBlock, "answers", partialmethod(QueryBlock.answers, at_once=17))
    given = problem(parts, form)
    v = point(given)
    wanted = Arrays(given, v)
    labels, model = labels_of(given, engine, v)
    varying = varying_of(labels.measure, {name: column_of(labels, name) for name in ("y", "x * k")})
    x, c = np.column_stack([given.rows["y"], given.rows["x"] * given.rows["k"]]).astype(float), wanted.c
    Z = x - c @ x / c.sum()
    Z /= np.sqrt(c @ Z**2 / c.sum())
    H = np.column_stack([Z, Z**2 - 1])
    sums = labels.score(polynomials(labels.measure, list(varying.values())))
    assert_allclose(sums.residual, wanted.residual(H), rtol=1e-8, atol=1e-8)
    for j in range(4):
        assert_allclose(sums.cross[j], wanted.cross(H[:, j], model.places), rtol=1e-8, atol=1e-8)
        for l in range(4):
            assert_allclose(sums.information[j, :, l], wanted.information(H[:, j] * H[:, l]), rtol=1e-8, atol=1e-8)
    own = wanted.P[np.arange(len(wanted.c)), wanted.source]
    alone = np.bincount(wanted.source, wanted.c * (own > 0.4)) / np.bincount(wanted.source, wanted.c)
    assert_allclose(labels.alone(0.4), alone)


@LOCAL
@pytest.mark.parametrize("column", ["y", "k"])
def test_rows_by_cells(engine, column):
    given = problem("known logistic", "labels counts")
    v = point(given)
    wanted = Arrays(given, v)
    labels, _ = labels_of(given, engine, v)
    function = column_of(labels, column)
    cells = labels.cells(function, 10)
    x = np.asarray(given.rows[column], float)
    place = np.searchsorted(cells.high, x)
    assert (x >= cells.low[place]).all()
    for j in range(len(cells.high)):
        inside = place == j
        mine = np.bincount(wanted.source[inside], wanted.c[inside], minlength=len(wanted.sampled))
        assert_allclose(cells.observed[j], mine)
        assert_allclose(cells.expected[j], (wanted.c * inside) @ wanted.P, rtol=1e-9)
        assert_allclose(cells.information[j], wanted.information(inside * 1.0), rtol=1e-8, atol=1e-9)
    fifths = indicators(labels.measure, list(varying_of(labels.measure, {column: function}).values()), 5)
    assert fifths.width == min(5, len(np.unique(x))) - 1


@pytest.mark.parametrize("kind", ["poly2", "cells"])
def test_the_score_test_is_that_of_memory(kind):
    design = vardi.datasets.length_bias(seed=1)
    biases = design.biases | {"square": "x"}
    samples = {name: POLARS.frame(pa.table({"x": rows})) for name, rows in design.samples.items()}
    found = vardi.debias(samples, biases).check_biases(["x"], features=kind)
    wanted = vardi.debias(design.samples, biases).check_biases(["x"], features=kind)
    assert_allclose(
        (found.statistic, found.pvalue, found.df, found.worst.z),
        (wanted.statistic, wanted.pvalue, wanted.df, wanted.worst.z),
        rtol=1e-7,
    )
    assert (found.worst.region, found.worst.sample) == (wanted.worst.region, wanted.worst.sample)
    assert_allclose(list(found.by_sample.values()), list(wanted.by_sample.values()), rtol=1e-7)
    assert_allclose(list(found.untested.values()), list(wanted.untested.values()))
