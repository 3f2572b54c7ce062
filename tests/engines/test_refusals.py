"""Every error that input can raise: the same class on every engine, with its text and its data."""

from __future__ import annotations

import numpy as np
import pytest
from cases import CASES
from engines import ENGINES, LAZY, ONE_FRAME
from refusals import REFUSALS, as_table

import vardi

OF_ONE_PART = ("impossible row", "negative bias on rows of another sample", "missing number", "empty sample")
LESS = [name for name in ENGINES if name != "mixed-spark"]  # a frame in Spark is refused alike beside others
PAIRS = [
    pytest.param(engine, name, id=f"{engine}-{name}")
    for engine in ENGINES
    for name, refusal in REFUSALS.items()
    if (engine in ONE_FRAME or "source" not in refusal.options) and (engine != "mixed-spark" or name in OF_ONE_PART)
]


@pytest.mark.parametrize(("engine", "name"), PAIRS, indirect=["engine"])
def test_refusals(engine, name):
    refusal = REFUSALS[name]
    with pytest.raises(vardi.VardiError, match=refusal.message) as caught:
        refusal.debias(engine)
    assert type(caught.value) is refusal.error
    assert {key: getattr(caught.value, key) for key in refusal.data} == refusal.data


@pytest.fixture(scope="module")
def two():
    """Two samples with few rows, and what can be wrong with their columns."""
    rng = np.random.default_rng(0)
    columns = {
        "id": np.arange(80),
        "x": rng.uniform(0.5, 2.0, 80),
        "t": np.array(["N", "S"])[rng.integers(0, 2, 80)],
        "gaps": [None, *rng.normal(size=79)],
        "endless": [np.inf, *rng.normal(size=79)],
        "zero": [0.0, *np.ones(79)],
    }
    tables = {"a": as_table(columns).slice(0, 40), "b": as_table(columns).slice(40, 40)}
    return tables, {"a": 1, "b": "x"}


@pytest.mark.parametrize("engine", LESS, indirect=True)
def test_estimates_refuse_what_has_no_mean(engine, two):
    tables, biases = two
    fit = vardi.debias(engine.samples(tables), biases)
    with pytest.raises(vardi.MismatchError, match=r"^There is no column 'xx'\. .* Did you mean 'x'\?"):
        fit.expectation("xx")
    with pytest.raises(vardi.MismatchError, match="^Column 't' holds text"):
        fit.expectation("t")
    with pytest.raises(vardi.MissingValuesError, match="1 row|1 of the values") as caught:
        fit.expectation("gaps")
    assert caught.value.columns == {"gaps": 1}
    for text in ("endless", "1 / zero", "exp(1000 * x)"):
        with pytest.raises(vardi.MissingValuesError, match="of the values of .* are missing or infinite") as caught:
            fit.expectations(["x", text])
        assert list(caught.value.columns) == [text]
    with pytest.raises(vardi.MissingValuesError):
        fit.cdf("gaps").quantile(0.5)
    with pytest.raises(vardi.MismatchError, match="^The quantile 1.5 is not between 0 and 1"):
        fit.cdf("x").quantile(1.5)
    assert fit.cdf("x")(np.inf).value == pytest.approx(1.0)


@pytest.mark.parametrize("engine", [name for name in LAZY if name in LESS], indirect=True)
class TestWhatNeedsRowsInMemory:
    def test_methods(self, engine, two):
        tables, biases = two
        fit = vardi.debias(engine.samples(tables), biases)
        for call in (
            lambda: fit.sample(3, replace=True),
            lambda: fit.bootstrap(np.max, n=3),
            lambda: fit.bounds(),
            lambda: fit.expectation(np.ones(80)),
        ):
            with pytest.raises(vardi.NeedsRowsError, match=r"needs rows in memory, but these are in their engine\."):
                call()

    def test_options(self, engine, two):
        tables, _ = two
        samples = engine.samples(tables)
        with pytest.raises(vardi.NeedsRowsError, match="^The bias of 'b', .*, is a function of rows and parameters"):
            vardi.debias(samples, {"a": 1, "b": vardi.parametric(lambda rows, theta: rows["x"] ** theta, [1.0])})
        with pytest.raises(vardi.InvalidBiasError, match="which an engine cannot compute"):
            vardi.debias(samples, {"a": 1, "b": lambda rows: rows["x"]})
        with pytest.raises(vardi.MismatchError, match="^counts was given as ndarray, but the rows are lazy frames"):
            vardi.debias(samples, {"a": 1, "b": 1}, counts=np.ones(80))
        with pytest.raises(vardi.MismatchError, match="^A NumPy array cannot be combined with lazy frames"):
            vardi.debias({**samples, "c": np.ones(3)}, {"a": 1, "b": 1, "c": 1})

    def test_columns_of_the_same_names(self, engine, two):
        tables, biases = two
        ours = {name: table.append_column("__vardi_x", table["x"]) for name, table in tables.items()}
        with pytest.raises(vardi.MismatchError, match="^Column names that begin with '__vardi_' are reserved"):
            vardi.debias(engine.samples(ours), biases)
        taken = {name: table.append_column("weight", table["x"]) for name, table in tables.items()}
        fit = vardi.debias(engine.samples(taken), biases)
        with pytest.raises(vardi.MismatchError, match="^There is already a column 'weight'"):
            _ = fit.weights
        assert fit.probabilities


@pytest.mark.parametrize("engine", [name for name in ENGINES if name not in LAZY], indirect=True)
def test_what_rows_in_memory_can_do(engine, two):
    tables, biases = two
    fit = vardi.debias(engine.samples(tables), biases)
    assert len(fit.sample(3, seed=0)) == 3
    assert fit.bootstrap("x", n=3).failed == 0
    assert 0.0 <= fit.check_biases(["x"]).pvalue <= 1.0
    assert fit.bounds().kappa > 0
    assert fit.expectation(np.ones(80)).value == pytest.approx(1.0)


@pytest.mark.parametrize("engine", LESS, indirect=True)
def test_samples_that_cannot_be_compared_are_left_out(engine, two):
    tables, _ = two
    with pytest.warns(vardi.DroppedSamplesWarning, match="^Left out 'b' with 40 rows"):
        fit = vardi.debias(engine.samples(tables), {"a": "id < 40", "b": "id >= 40"}, on_unidentified="largest")
    assert fit.sizes == {"a": 40, "b": 0}
    assert fit.weight_shares() == pytest.approx({"a": 1.0, "b": 0.0})


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_unidentified_samples(engine):
    refusal = REFUSALS["not identifiable"]
    tables = {name: as_table(columns) for name, columns in refusal.rows.items()}
    verdict = vardi.identify(engine.samples(tables), refusal.biases)
    assert not verdict
    assert verdict.groups == (("low",), ("high",))
    joined = vardi.identify(engine.samples(tables), refusal.biases, known={"low": 0.25})
    assert joined


@pytest.mark.parametrize("engine", [engine for engine in ONE_FRAME if engine in LAZY], indirect=True)
def test_labels_of_lazy_frames_are_a_column(engine):
    with pytest.raises(vardi.MismatchError, match="^source was given as list, but the rows are lazy frames. Name the"):
        vardi.debias(engine.frame(CASES["windows"].tables[None]), {"a": 1}, source=["a"])
