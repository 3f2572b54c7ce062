"""Rows drawn where they are: the same in every engine, by weight, and once each."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from dense import problem
from engines import as_lazy_pool, collected, local_engine
from numpy.testing import assert_allclose
from scipy.stats import chisquare, kstest
from test_moments import measure_of, prepared

import vardi
from vardi._rows.hashed import KEY, drawn_rows, with_key
from vardi._rows.lazy_model import model_of
from vardi._rows.point import KnownMoments
from vardi._rows.weights import weights_by_sample

POLARS = local_engine("polars-lazy")


def moments(table, bias="x", engine=POLARS, **options):
    return vardi.debias({"a": engine.frame(table)}, {"a": bias}, **options).solved.tangent.measure


def drawn(measure, *options):
    return drawn_rows(measure.rows, lambda block: measure.point.at(block).weight, *options)


def ids(frames):
    found = {code: collected(frame)["id"] for code, frame in frames.items()}
    return {code: sorted(one) for code, one in found.items()}


def exponentials(identity, seed=0):
    """E of rows that all weigh the same."""
    at = moments(pa.table({"id": identity}), 1)
    frame = with_key(at.rows, lambda block: at.point.at(block).weight, 0, seed, "id")(at.rows.parts[0].frame)
    return np.asarray(frame.collect().get_column(KEY).to_list())


@pytest.mark.parametrize(
    "identity",
    [
        np.arange(20_000),
        np.arange(20_000) * 67_108_859,
        np.arange(20_000) * 2**40 + 17,
        -(np.arange(1, 20_001) ** 2),
        np.arange(20_000) - 10_000,
    ],
    ids=["numbers", "multiples of the prime", "far apart", "squares below zero", "both signs"],
)
def test_a_hash_looks_random(identity):
    E = exponentials(identity)
    assert len(np.unique(E)) == len(E)
    assert kstest(E, "expon").pvalue > 1e-3
    u = np.exp(-E)
    for lag in (1, 2, 7, 100):
        assert abs(np.corrcoef(u[:-lag], u[lag:])[0, 1]) < 4 / np.sqrt(len(u))
        pairs = np.histogram2d(u[:-lag], u[lag:], bins=8, range=[[0, 1], [0, 1]])[0]
        assert chisquare(pairs.ravel()).pvalue > 1e-4
    other = np.exp(-exponentials(identity, seed=1))
    assert abs(np.corrcoef(u, other)[0, 1]) < 4 / np.sqrt(len(u))


def test_low_digits_are_random_too():
    u = np.exp(-exponentials(np.arange(20_000)))
    digits = np.floor(u * 2**20) % 16
    assert chisquare(np.bincount(digits.astype(int), minlength=16)).pvalue > 1e-3


@pytest.mark.parametrize(
    ("engine", "form"),
    [("polars-lazy", "frames"), ("duckdb", "labels counts"), ("ibis", "labels counts"), ("dask", "labels counts")],
    indirect=["engine"],
)
def test_every_engine_draws_the_same_rows(engine, form):
    given = problem("known logistic", form)
    (at, _, oracle, _), (reference, *_) = (prepared(given, one) for one in (engine, POLARS))
    for n in (1, 25):
        rows = drawn(at, n, 3, "id")
        found = ids(rows)
        assert sum(map(len, found.values())) == n
        assert found == ids(drawn(reference, n, 3, "id"))
        for code, frame in rows.items():
            assert list(collected(frame)) == next(iter(given.tables.values())).column_names, code
    every = drawn(at, len(oracle.c), 3, "id")
    assert sum(map(len, ids(every).values())) == len(oracle.c)


def test_rows_come_by_weight():
    x = np.array([1.0, 2.0, 4.0, 8.0])
    at = moments(pa.table({"id": np.arange(4), "x": x}))
    pi = (1 / x) / (1 / x).sum()
    first = [ids(drawn(at, 1, seed, "id"))[0][0] for seed in range(200)]
    assert chisquare(np.bincount(first, minlength=4), 200 * pi).pvalue > 1e-3
    two = [tuple(ids(drawn(at, 2, seed, "id"))[0]) for seed in range(150)]
    together = sum(pair == (0, 1) for pair in two) / 150
    expected = pi[0] * pi[1] / (1 - pi[0]) + pi[1] * pi[0] / (1 - pi[1])
    assert abs(together - expected) < 4 * np.sqrt(expected * (1 - expected) / 150)


def test_counts_are_rates():
    at = moments(pa.table({"id": np.arange(3), "x": [1.0, 1.0, 1.0], "n": [1, 0, 9]}), counts="n")
    first = [ids(drawn(at, 1, seed, "id"))[0][0] for seed in range(300)]
    assert 1 not in first
    assert abs(np.mean(np.array(first) == 2) - 0.9) < 4 * np.sqrt(0.09 / 300)


def test_the_engine_s_own_row_number():
    table = pa.table({"id": np.arange(100), "x": np.linspace(1.0, 2.0, 100)})
    assert ids(drawn(moments(table), 10, 5)) == ids(drawn(moments(table), 10, 5, "id"))
    with pytest.raises(vardi.NeedsRowsError, match="Drawing rows without a column that identifies rows"):
        drawn(moments(table, engine=local_engine("duckdb")), 10, 5)


@pytest.mark.parametrize("engine", ["polars-lazy", "duckdb", "ibis", "dask"], indirect=True)
def test_texts_identify_rows_by_their_order(engine):
    rng = np.random.default_rng(0)
    names = np.array([f"row {place:03d}" for place in range(60)])
    order = rng.permutation(60)
    x = np.linspace(1.0, 2.0, 60)
    by_text = moments(pa.table({"id": order, "name": names[order], "x": x[order]}), engine=engine)
    by_number = moments(pa.table({"id": np.arange(60), "x": x}))
    assert ids(drawn(by_text, 12, 1, "name")) == ids(drawn(by_number, 12, 1, "id"))


def test_what_cannot_be_drawn():
    at = moments(pa.table({"id": np.arange(3), "x": [1.0, 2.0, 3.0]}))
    with pytest.raises(vardi.MismatchError, match="4 rows cannot be drawn without replacement from 3"):
        drawn(at, 4, 0, "id")
    with pytest.raises(vardi.MismatchError, match="There is no column 'key' that identifies rows"):
        drawn(at, 1, 0, "key")


class TestSamplesThatAreLeftOut:
    def tables(self):
        rng = np.random.default_rng(0)
        return {
            "a": pa.table({"id": np.arange(40), "x": rng.uniform(0, 3, 40)}),
            "b": pa.table({"id": np.arange(40, 70), "x": rng.uniform(0, 5, 30)}),
            "far": pa.table({"id": np.arange(70, 75), "x": rng.uniform(7, 9, 5)}),
        }

    @pytest.mark.parametrize(
        "biases", [{"a": "x <= 3", "b": "x <= 5", "far": "x > 7"}, {"a": "exp(-x)", "b": "1 + x", "far": "x"}]
    )
    @pytest.mark.parametrize("labels", [False, True])
    def test_the_pool_without_them(self, labels, biases):
        tables, source = self.tables(), None
        samples = {name: pl.from_arrow(table).lazy() for name, table in tables.items()}
        if labels:
            source = "s"
            samples = pl.concat([frame.with_columns(s=pl.lit(name)) for name, frame in samples.items()])
        pool = as_lazy_pool(samples, biases, source=source, counts=None).of_samples([0, 1])
        kept = {name: tables[name].column("x").to_numpy() for name in ("a", "b")}
        assert_allclose(pool.sizes, [40, 30, 0])
        assert_allclose(pool.lengths, [40, 30, 0])
        assert (pool.reach[:, 2] == 0).all()
        assert len(pool.dropped) == (not labels)
        assert (pool.distinct is not None) == ("<=" in biases["a"])
        if pool.distinct is not None:
            assert set(pool.distinct.source) == {0, 1}
            assert pool.distinct.counts.sum() == 70
        fit = vardi.debias(kept, {name: biases[name] for name in kept})
        u = np.append(fit.solution.u, -np.inf)
        measure = measure_of(*model_of(pool, KnownMoments.none()), u)
        mass = weights_by_sample(measure).mass
        assert_allclose(mass / mass.sum(), [*fit.weight_shares().values(), 0.0])
        frames = measure.rows.frames_with(("weight",), lambda block: measure.point.at(block).weight, pool.dropped)
        assert list(frames) == ([None] if labels else [0, 1, 2])
        found = np.concatenate([collected(frame)["weight"] for frame in frames.values()])
        assert_allclose(found, np.concatenate([np.asarray(fit.weights), np.zeros(5)]), rtol=1e-9)
