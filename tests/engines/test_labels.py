"""The sums of the score test and of sensitivity to the biases, asked of an engine, against arrays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from dense import Known, problem
from engines import QUICK_TO_ASK, as_lazy_pool, local_engine
from numpy.testing import assert_allclose
from test_moments import prepared, slopes

import vardi
from vardi._estimate import bias_test
from vardi._rows.engine import labels as module
from vardi._rows.engine.functions import compiled_functions
from vardi._rows.engine.labels import EngineLabels
from vardi._rows.engine.model import EngineModel
from vardi._rows.engine.moments import EngineMoments
from vardi._rows.engine.sensitivity import common_slopes
from vardi._rows.engine.sensitivity import slopes as slopes_of_biases

LOCAL = pytest.mark.parametrize("engine", QUICK_TO_ASK, indirect=True)
POLARS = local_engine("polars-lazy")


class Labels:
    """p of the sampled biases alone, from arrays."""

    def __init__(self, given, v):
        without = replace(given, known=Known(), values=())
        dense = without.dense(v[: len(given.names) + given.parameters()])
        self.sampled = np.flatnonzero(np.isfinite(v[: len(given.names)]))
        self.P, self.c = dense.x[:, self.sampled], dense.c
        self.theta = dense.x[:, len(given.names) :]
        self.source = np.searchsorted(self.sampled, dense.source)
        self.own = dense.own[:, len(given.names) :]
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


@LOCAL
@pytest.mark.parametrize(("parts", "form"), [("", "labels counts"), ("known logistic tilt", "frames")])
def test_the_sums_of_the_score_test(engine, parts, form, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 17)
    given = problem(parts, form)
    at, functions, oracle, v = prepared(given, engine)
    wanted = Labels(given, v)
    labels = EngineLabels(at)
    h = labels.features(functions[::2], "poly2")
    mean = oracle.c @ oracle.F / oracle.n
    Z = (oracle.F - mean) / np.sqrt(oracle.c @ (oracle.F - mean) ** 2 / oracle.n)
    H = np.column_stack([Z[:, 0], Z[:, 0] ** 2 - 1, Z[:, 2], Z[:, 2] ** 2 - 1])
    sums = labels.score(h)
    assert_allclose(sums.residual, wanted.residual(H), rtol=1e-8, atol=1e-8)
    for j in range(4):
        assert_allclose(sums.cross[j], wanted.cross(H[:, j], at.model.places), rtol=1e-8, atol=1e-8)
        for l in range(4):
            assert_allclose(sums.information[j, :, l], wanted.information(H[:, j] * H[:, l]), rtol=1e-8, atol=1e-8)
    own = wanted.P[np.arange(len(wanted.c)), wanted.source]
    alone = np.bincount(wanted.source, wanted.c * (own > 0.4)) / np.bincount(wanted.source, wanted.c)
    assert_allclose(labels.alone(0.4), alone)


@LOCAL
@pytest.mark.parametrize("column", ["y", "k"])
def test_rows_by_cells(engine, column):
    given = problem("known logistic", "labels counts")
    at, _, _, v = prepared(given, engine)
    wanted = Labels(given, v)
    labels = EngineLabels(at)
    function = compiled_functions(at.parts, [vardi.where(column)], [column])[0]
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
    fifths = labels.features([function], "cells")
    assert len(fifths) == min(5, len(np.unique(x))) - 1


@pytest.mark.parametrize("kind", ["poly2", "cells"])
def test_the_score_test_is_that_of_memory(kind):
    design = vardi.datasets.length_bias(seed=1)
    biases = design.biases | {"square": "x"}
    samples = {name: POLARS.frame(pa.table({"x": rows})) for name, rows in design.samples.items()}
    pool = as_lazy_pool(samples, biases, source=None, counts=None)
    fit = vardi.debias(design.samples, biases)
    at = EngineMoments(EngineModel.of(pool), fit.solution.u)
    labels = EngineLabels(at)
    sums = labels.score(labels.features(compiled_functions(at.parts, [vardi.where("x")], ["x"]), kind))
    J, K = sums.residual.shape
    solve = fit.held.tangent.jacobian.solve
    M_h0 = sums.cross.reshape(J * K, K)
    V = sums.information.reshape(J * K, J * K) - M_h0 @ solve(M_h0.T)
    least = 1e-8 * np.maximum(np.einsum("jkjk->jk", sums.information), 1.0)
    statistic, pvalue, df = bias_test._chi2(sums.residual.ravel(), V, least.ravel())
    wanted = fit.check_biases(["x"], features=kind)
    assert_allclose((statistic, pvalue, df), (wanted.statistic, wanted.pvalue, wanted.df), rtol=1e-7)
    cells = labels.cells(compiled_functions(at.parts, [vardi.where("x")], ["x"])[0], 10)
    gap = cells.observed - cells.expected
    variance = np.stack([np.diag(M - M @ solve(M)) for M in cells.information])
    z = np.where(variance >= 1.0, gap / np.sqrt(np.maximum(variance, 1.0)), 0.0)
    assert wanted.worst is not None
    assert_allclose(z.ravel()[np.abs(z).argmax()], wanted.worst.z, rtol=1e-7)


@LOCAL
@pytest.mark.parametrize(("parts", "form"), [("", "labels counts"), ("known logistic tilt", "frames")])
def test_what_errors_of_biases_move(engine, parts, form):
    given = problem(parts, form)
    at, functions, oracle, _ = prepared(given, engine)
    b = slopes(given, 3)
    influence = at.influence(functions, oracle.eta, b)
    dense, K = oracle.dense, len(given.names)
    phi = oracle.r[:, None] * (oracle.F - oracle.eta) + dense.x @ b
    moved = np.zeros((K, len(oracle.c), 3))
    for k in np.flatnonzero(oracle.sizes):
        gradient = np.zeros((len(oracle.c), 3))
        if k in at.model.places:
            place = at.model.places[k]
            t = dense.x[:, K + place.start : K + place.stop] / dense.x[:, [k]]
            gradient = t @ b[K + place.start : K + place.stop]
        moved[k] = dense.x[:, [k]] * (phi - b[k] - gradient)
    m = oracle.c / oracle.n
    assert_allclose(slopes_of_biases(at, influence), np.einsum("i,kij->kj", m, np.abs(moved)), rtol=1e-8)
    common = m @ np.abs(moved[[0, 2]].sum(axis=0))
    assert_allclose(common_slopes(at, influence, [0, 2]), common, rtol=1e-8)
