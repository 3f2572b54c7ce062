"""The same question of a block gives the same sums in every form of columns, and in every holder of rows."""

from __future__ import annotations

import duckdb
import narwhals as nw
import numpy as np
import polars as pl
import pytest
from scipy import sparse

import vardi
from vardi._inputs.dependence import Dependence
from vardi._inputs.lazy_part import COUNT, OMEGA, Part
from vardi._inputs.lazy_pool import EngineDependence
from vardi._rows.arrays import Arrays
from vardi._rows.contract import within
from vardi._rows.dense import Dense
from vardi._rows.expressions import Expressions
from vardi._rows.lazy_values import EngineFunction
from vardi._rows.point import KnownMoments, Model, Point
from vardi._rows.queries import Queries
from vardi._rows.sparse import Sparse
from vardi._rows.windows import Intervals

N, K = 60, 4  # the last state was not sampled
COLUMNS = [EngineFunction(lambda part, j=j: nw.col(f"v{j}")) for j in range(2)]


def rows():
    rng = np.random.default_rng(0)
    source = np.arange(N) % (K - 1)
    return rng.gamma(2.0, size=(N, K)), rng.normal(size=(N, 2)), source, rng.integers(1, 4, N).astype(float)


def question(point, values):
    """Return a function that asks for one sum of each kind."""

    def asked(block):
        at, v = point.at(block), block.columns(values)
        b = np.arange(2.0 * K).reshape(K, 2)
        ends = block.extremes(v - np.array([0.0, 2.0]))
        return (
            block.sum(at.weight),
            block.sum(at.log_mass),
            block.gram(at.p, at.p),
            at.against(block.let(v * at.weight)),
            block.gram(v, np.abs(v) * (v > 0.1)),
            block.by_sample(at.q(b)),
            block.sum(v * within(block, 1)),
            block.sum(at.p.column(2) * np.exp(-np.logaddexp(0.0, -v))),
            block.sum(np.floor(v / 0.3) - block.of_sample(np.arange(K)[:, None] * 1.0)),
            np.stack([ends.low, ends.high]) * 0.0,  # not additive: compared below
            ends,
        )

    return asked


def compared(found, expected):
    for mine, other in zip(found[:-1], expected[:-1], strict=True):
        mine = mine.toarray() if sparse.issparse(mine) else mine
        np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found[-1].low, expected[-1].low)
    np.testing.assert_allclose(found[-1].high, expected[-1].high)


def solved(form, omega, source, counts):
    point = Point(Model(form.sizes, {}, KnownMoments.none()), np.array([0.2, -0.1, 0.4, -np.inf]))
    return Arrays(form, source, counts, Dependence.none(K)), point


def in_memory():
    omega, values, source, counts = rows()
    holder, point = solved(Dense(omega, source, counts, moderate=True), omega, source, counts)
    return holder.total(question(point, values))


def frames(engine):
    omega, values, source, counts = rows()
    frame = pl.DataFrame({OMEGA.format(k): omega[:, k] for k in range(K)}).with_columns(
        v0=values[:, 0], v1=values[:, 1], label=source, **{COUNT: counts}
    )
    parts = [(frame.filter(pl.col("label") == k), {None: k}, None) for k in range(K - 1)]
    parts = parts if engine == "frames" else [(frame, {k: k for k in range(K - 1)}, "label")]
    for one, codes, label in parts:
        native = duckdb.from_arrow(one.to_arrow()) if engine == "duckdb" else one.lazy()
        yield Part(nw.from_native(native), label, codes, counted=True)


@pytest.mark.parametrize("engine", ["polars", "duckdb", "frames"])
def test_expressions_give_the_sums_of_arrays(engine):
    _, _, source, counts = rows()
    sizes = np.bincount(source, counts, minlength=K).astype(float)
    point = Point(Model(sizes, {}, KnownMoments.none()), np.array([0.2, -0.1, 0.4, -np.inf]))
    holder = Queries(tuple(frames(engine)), sizes, EngineDependence.none(K))
    compared(holder.total(question(point, COLUMNS)), in_memory())


@pytest.mark.parametrize("form", ["logs", "sparse", "sparse logs", "collapsed"])
def test_forms_in_memory_give_the_sums_of_plain_arrays(form):
    omega, values, source, counts = rows()
    if form == "logs":
        held = Dense(np.log(omega), source, counts, log=True)
    elif form == "collapsed":
        order = np.random.default_rng(1).permutation(N)
        held = Dense(omega[order], source[order], counts[order], moderate=True, inverse=np.argsort(order))
    else:
        matrix = sparse.csr_array(np.log(omega) if "logs" in form else omega)
        held = Sparse(matrix, source, counts, log="logs" in form, moderate="logs" not in form)
    holder, point = solved(held, omega, source, counts)
    compared(holder.total(question(point, values)), in_memory())


def test_windows_give_the_sums_of_their_matrix():
    _, values, source, counts = rows()
    x = np.random.default_rng(2).uniform(size=N)
    windows = vardi.Windows(x, np.array([0.0, 0.2, 0.0, 0.5]), np.array([1.0, 1.0, 0.7, 0.9]))
    inside = windows.toarray()[np.arange(N), source]
    windows, values, source, counts = windows[inside], values[inside], source[inside], counts[inside]
    dense = Dense(windows.toarray().astype(float), source, counts, moderate=True)
    holder, point = solved(Intervals(windows, source, counts, moderate=True), None, source, counts)
    other, _ = solved(dense, None, source, counts)
    compared(holder.total(question(point, values)), other.total(question(point, values)))


def test_what_is_the_same_on_all_rows_is_a_number():
    columns = Expressions([nw.col("x"), 0.0, 2.0])
    product, plus = columns * 0.0, columns * np.array([1.0, 5.0, 3.0]) + 1.0
    assert product.terms == (0.0, 0.0, 0.0)
    assert plus.terms[1:] == (1.0, 7.0)
    assert (columns @ np.array([[0.0], [1.0], [3.0]])).terms == (6.0,)
    assert (columns[:, [2]] > 1.0).terms == (1.0,)
    with pytest.raises(TypeError):
        np.sqrt(columns)  # an operator that no question has needed yet
