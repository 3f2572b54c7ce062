"""The same question of a block gives the same sums in every form of columns."""

from __future__ import annotations

import duckdb
import narwhals as nw
import numpy as np
import polars as pl
import pytest

from vardi._inputs.engine.part import COUNT, Part
from vardi._rows.columns import ArrayBlock, ArrayColumns, Probabilities
from vardi._rows.dense import Dense
from vardi._rows.engine.expressions import ExpressionBlock, ExpressionColumns, answers

N, K = 60, 3


def rows():
    rng = np.random.default_rng(0)
    source = np.arange(N) % K
    return rng.gamma(2.0, size=(N, K)), rng.normal(size=(N, 2)), source, rng.integers(0, 4, N).astype(float)


def question(block, omega, values, weights):
    """Return one sum of each kind."""
    return {
        "total": block.total(weights),
        "sum": block.sum(values.shifted(np.array([0.0, 2.0]))),
        "gram": block.gram(omega, values),
        "square": block.square(values, weights),
        "plain square": block.square(omega),
        "within": block.total(block.within(1, weights)),
        "own": block.sum(values.times(block.within(2, 1.0))),
    }


def in_memory():
    omega, values, source, counts = rows()
    return question(ArrayBlock(counts, source), ArrayColumns(omega), ArrayColumns(values), omega[:, 0])


def frames(engine):
    omega, values, source, counts = rows()
    frame = pl.DataFrame({f"o{k}": omega[:, k] for k in range(K)}).with_columns(
        v0=values[:, 0], v1=values[:, 1], label=source, **{COUNT: counts}
    )
    parts = [(frame.filter(pl.col("label") == k), {None: k}, None) for k in range(K)]
    parts = parts if engine == "frames" else [(frame, {k: k for k in range(K)}, "label")]
    for one, codes, label in parts:
        native = duckdb.from_arrow(one.to_arrow()) if engine == "duckdb" else one.lazy()
        yield Part(nw.from_native(native), label, codes, counted=True)


@pytest.mark.parametrize("engine", ["polars", "duckdb", "frames"])
def test_expressions_give_the_sums_of_arrays(engine):
    total = 0.0
    for part in frames(engine):
        block = ExpressionBlock(part)
        omega = ExpressionColumns.of(*(nw.col(f"o{k}") for k in range(K)))
        asked = question(block, omega, ExpressionColumns.of(nw.col("v0"), nw.col("v1")), nw.col("o0"))
        total = total + part.sums(block.terms)
    answered = answers(asked, total)
    for name, expected in in_memory().items():
        np.testing.assert_allclose(answered[name], expected, rtol=1e-12, atol=1e-12, err_msg=name)


def test_columns_that_are_not_there_are_zero():
    """A state without rows has no column of p, and its sums are zero."""
    (part,) = frames("polars")
    block = ExpressionBlock(part)
    asked = {"square": block.square(ExpressionColumns({0: nw.col("o0"), 2: nw.col("o2")}, K))}
    found = answers(asked, part.sums(block.terms))["square"]
    assert not found[1].any()
    assert not found[:, 1].any()
    assert (found[np.ix_([0, 2], [0, 2])] > 0).all()


def test_probabilities_give_the_sums_of_their_array():
    omega, values, source, counts = rows()
    counts = counts + 1.0
    u, ratio = np.array([0.2, -0.1, 0.4]), np.linspace(0.5, 2.0, N)
    p = omega * np.exp(u) / (omega @ np.exp(u))[:, None]
    block = ArrayBlock(counts, source)
    held, array = Probabilities(Dense(omega, source, counts), u, ratio), ArrayColumns(p).times(ratio)
    for found, expected in (
        (block.sum(held), block.sum(array)),
        (block.gram(held, ArrayColumns(values)), block.gram(array, ArrayColumns(values))),
        (block.square(held), block.square(array)),
        (block.sum(held.times(values[:, 0])), block.sum(array.times(values[:, 0]))),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
