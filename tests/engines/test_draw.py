"""Rows drawn where they are: the same in every engine, by weight, and once each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from cases import CASES
from engines import collected, local_engine
from numpy.testing import assert_allclose
from scipy.stats import chisquare

import vardi

POLARS = local_engine("polars-lazy")
LOCAL = pytest.mark.parametrize("engine", ["polars-lazy", "duckdb", "ibis", "dask"], indirect=True)


def fitted(table, bias="x", engine=POLARS, **options):
    return vardi.debias({"a": engine.frame(table)}, {"a": bias}, **options)


def ids(drawn):
    """Return the numbers of the rows that were drawn, of all samples."""
    frames = drawn.values() if isinstance(drawn, dict) else [drawn]
    return sorted(one for frame in frames for one in collected(frame)["id"])


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
def test_rows_that_are_drawn_look_random_whatever_their_numbers(identity):
    fit = fitted(pa.table({"id": identity}), 1)
    taken = [np.isin(identity, ids(fit.sample(5000, seed, replace=False, id="id"))) * 1.0 for seed in (0, 1)]
    for one in taken:
        assert one.sum() == 5000
        for lag in (1, 2, 7, 100):
            assert abs(np.corrcoef(one[:-lag], one[lag:])[0, 1]) < 4 / np.sqrt(len(one))
        assert chisquare(one.reshape(16, -1).sum(axis=1)).pvalue > 1e-4  # by place
        assert chisquare(one.reshape(-1, 16).sum(axis=0)).pvalue > 1e-4  # by last digits
    assert abs(np.corrcoef(*taken)[0, 1]) < 4 / np.sqrt(len(identity))


@LOCAL
def test_every_engine_draws_the_same_rows(engine):
    case = CASES["raking"] if engine.name == "polars-lazy" else CASES["strata"]
    fit, reference = case.fit(engine), case.fit(POLARS)
    columns = next(iter(case.tables.values())).column_names
    for n in (1, 25):
        drawn = fit.sample(n, 3, replace=False, id="id")
        found = ids(drawn)
        assert len(found) == n
        assert found == ids(reference.sample(n, 3, replace=False, id="id"))
        for frame in drawn.values() if isinstance(drawn, dict) else [drawn]:
            assert list(collected(frame)) == columns


def test_rows_come_by_weight():
    x = np.array([1.0, 2.0, 4.0, 8.0])
    fit = fitted(pa.table({"id": np.arange(4), "x": x}))
    pi = (1 / x) / (1 / x).sum()
    first = [ids(fit.sample(1, seed, replace=False, id="id"))[0] for seed in range(100)]
    assert chisquare(np.bincount(first, minlength=4), 100 * pi).pvalue > 1e-3
    two = [ids(fit.sample(2, seed, replace=False, id="id")) for seed in range(100)]
    together = sum(pair == [0, 1] for pair in two) / 100
    expected = pi[0] * pi[1] / (1 - pi[0]) + pi[1] * pi[0] / (1 - pi[1])
    assert abs(together - expected) < 4 * np.sqrt(expected * (1 - expected) / 100)


def test_counts_are_rates():
    fit = fitted(pa.table({"id": np.arange(3), "x": [1.0, 1.0, 1.0], "n": [1, 0, 9]}), counts="n")
    first = [ids(fit.sample(1, seed, replace=False, id="id"))[0] for seed in range(100)]
    assert 1 not in first
    assert abs(np.mean(np.array(first) == 2) - 0.9) < 4 * np.sqrt(0.09 / 100)


def test_the_engine_s_own_row_number():
    table = pa.table({"id": np.arange(100), "x": np.linspace(1.0, 2.0, 100)})
    fit = fitted(table)
    assert ids(fit.sample(10, 5, replace=False)) == ids(fit.sample(10, 5, replace=False, id="id"))
    with pytest.raises(vardi.NeedsRowsError, match="Drawing rows without a column that identifies rows"):
        fitted(table, engine=local_engine("duckdb")).sample(10, 5, replace=False)


@LOCAL
def test_texts_identify_rows_by_their_order(engine):
    rng = np.random.default_rng(0)
    names = np.array([f"row {place:03d}" for place in range(60)])
    order = rng.permutation(60)
    x = np.linspace(1.0, 2.0, 60)
    by_text = fitted(pa.table({"id": order, "name": names[order], "x": x[order]}), engine=engine)
    by_number = fitted(pa.table({"id": np.arange(60), "x": x}))
    assert ids(by_text.sample(12, 1, replace=False, id="name")) == ids(by_number.sample(12, 1, replace=False, id="id"))


def test_what_cannot_be_drawn():
    fit = fitted(pa.table({"id": np.arange(3), "x": [1.0, 2.0, 3.0]}))
    with pytest.raises(vardi.MismatchError, match="4 rows cannot be drawn without replacement from 3"):
        fit.sample(4, 0, replace=False, id="id")
    with pytest.raises(vardi.MismatchError, match="There is no column 'key' that identifies rows"):
        fit.sample(1, 0, replace=False, id="key")


@pytest.mark.filterwarnings("ignore::vardi.VardiWarning")
@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("steep", ["", " * x"], ids=["conditions", "densities"])
def test_samples_that_are_left_out_weigh_nothing(labels, steep):
    rng = np.random.default_rng(0)
    x = {"a": rng.uniform(0.1, 3, 40), "b": rng.uniform(0.1, 5, 30), "far": rng.uniform(7, 9, 5)}
    biases = {"a": f"(x <= 3){steep}", "b": f"(x <= 5){steep}", "far": "x > 7"}
    kept = vardi.debias({name: x[name] for name in ("a", "b")}, {name: biases[name] for name in ("a", "b")})
    pool = pa.table({"id": np.arange(75), "x": np.concatenate([*x.values()]), "s": np.repeat([*x], [40, 30, 5])})
    if labels:
        rows, options = POLARS.frame(pool), {"source": "s"}
    else:
        ends, options = {"a": (0, 40), "b": (40, 30), "far": (70, 5)}, {}
        rows = {name: POLARS.frame(pool.slice(*end)) for name, end in ends.items()}
    fit = vardi.debias(rows, biases, on_unidentified="largest", **options)
    assert fit.sizes == {"a": 40, "b": 30, "far": 0}
    assert_allclose(list(fit.weight_shares().values()), [*kept.weight_shares().values(), 0.0])
    frames = fit.weights.values() if isinstance(fit.weights, dict) else [fit.weights]
    found = np.concatenate([collected(frame)["weight"] for frame in frames])
    assert_allclose(found, np.concatenate([np.asarray(kept.weights), np.zeros(5)]), rtol=1e-9)
