"""One suite over every engine: the same fit, the same estimates, and rows that never leave their place."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from cases import CASES
from engines import ENGINES, EVERY_PAIR, ONE_FRAME, collected, local_engine
from numpy.testing import assert_allclose

import vardi

pytestmark = pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")  # of small samples; tested elsewhere

NUMPY = local_engine("numpy")
# On a cluster a query of a few rows costs as much as one of many, Ibis takes long to write one, and Dask to compute one
# with pandas: there every question is asked of one small fit (test_questions.py), and estimates of these problems by
# `make slow`, which sets VARDI_EVERY_PAIR.
ONE_OF_EACH_PART = ("strata", "census", "weighted_raking")  # biases alone, known values, both and parameters
FITTED = {
    "spark": ("houses", "census", "weighted_raking"),
    "mixed-spark": ("houses",),
    "ibis": ("houses", *ONE_OF_EACH_PART),
    "dask": ("houses", "lengths", *ONE_OF_EACH_PART),
}
ESTIMATED = {
    "spark": (),
    "mixed-spark": (),
    "mixed": ("lengths",),
    "ibis": (),
    "dask": (),
    "duckdb": ("houses", "lengths", "strata", "census", "weighted_raking", "everything"),
    "polars-streaming": ("lengths", "selected"),
    # Read into the arrays that "numpy" has, as the fits of all problems show; estimates are then of these arrays.
    "pandas": ("houses", "weighted_raking"),
    "polars": ("houses", "weighted_raking"),
    "pyarrow": ("houses", "weighted_raking"),
}


def pairs(only: dict[str, tuple[str, ...]]) -> pytest.MarkDecorator:
    """Parametrise by engines and problems; engines that are named there with the problems that are named only."""
    found = [
        pytest.param(engine, case, id=f"{engine}-{case}")
        for engine in ENGINES
        for case in (CASES if EVERY_PAIR else only.get(engine, CASES))
        if not (CASES[case].labelled and engine.startswith("mixed"))
    ]
    return pytest.mark.parametrize(("engine", "case"), found, indirect=["engine"])


def same(a, b):
    assert_allclose((a.value, a.stderr), (b.value, b.stderr), rtol=1e-8, atol=1e-12)
    assert_allclose(a.interval, b.interval, rtol=1e-8, atol=1e-12)


def in_order(fit, case, engine, what):
    """Return the weights or probabilities by the numbers of the rows, after a look at the rows themselves."""
    given = getattr(fit, what)
    column = {"weights": "weight", "probabilities": "probability"}[what]
    tables = CASES[case].tables
    if not engine.lazy:
        numbers = np.concatenate([table.column("id").to_numpy() for table in tables.values()])
        return np.asarray(given)[np.argsort(numbers)]
    frames = {None: given} if CASES[case].labelled else given
    assert list(frames) == list(tables)
    values = []
    for name, frame in frames.items():
        rows = collected(frame)
        values.append(rows.pop(column))
        original = collected(tables[name])
        assert rows == original
    return np.concatenate(values)


@pytest.fixture
def both(engine, case, fitted, reference):
    return fitted(case, engine), reference(case)


@pairs(FITTED)
class TestFit:
    def test_solution(self, both, case, engine):
        fit, expected = both
        assert fit.solution.converged
        assert fit.names == expected.names
        assert fit.sizes == expected.sizes
        assert_allclose(fit.solution.u, expected.solution.u, rtol=1e-9, atol=1e-9)
        assert_allclose(list(fit.omegas.values()), list(expected.omegas.values()), rtol=1e-9)

    def test_verdict(self, both):
        fit, expected = both
        verdict, wanted = fit.identify(), expected.identify()
        assert bool(verdict) is bool(wanted)
        assert verdict.message == wanted.message
        assert verdict.groups == wanted.groups
        assert_allclose(verdict.kappa, wanted.kappa)

    def test_trust(self, both):
        fit, expected = both
        assert_allclose(fit.trust.bridging, expected.trust.bridging)

    def test_weights(self, both, case, engine):
        fit, expected = both
        wanted = in_order(expected, case, NUMPY, "weights")
        found = in_order(fit, case, engine, "weights")
        assert len(found) == len(wanted)
        assert_allclose(found, wanted, rtol=1e-9)

    def test_probabilities(self, both, case, engine):
        fit, expected = both
        found = in_order(fit, case, engine, "probabilities")
        assert_allclose(found, in_order(expected, case, NUMPY, "probabilities"), rtol=1e-9)
        assert_allclose(found.sum(), 1.0)


@pairs(ESTIMATED)
class TestEstimates:
    def test_expectations(self, both, case):
        fit, expected = both
        means = list(CASES[case].means)
        found, wanted = fit.expectations(means), expected.expectations(means)
        assert_allclose(found.values, wanted.values, rtol=1e-9)
        assert_allclose(found.covariance, wanted.covariance, rtol=1e-8, atol=1e-14)
        same(fit.expectation(means[-1]), expected.expectation(means[-1]))

    def test_normalisers(self, both):
        fit, expected = both
        wanted = expected.normalisers()
        for name, estimate in fit.normalisers().items():
            same(estimate, wanted[name])
        assert_allclose(fit.log_omega_covariance(), expected.log_omega_covariance(), rtol=1e-8, atol=1e-13)

    def test_parameters_and_known_values(self, both):
        fit, expected = both
        found, wanted = fit.parameters, expected.parameters
        assert {name: list(own) for name, own in found.items()} == {name: list(own) for name, own in wanted.items()}
        for name, own in found.items():
            for parameter, estimate in own.items():
                same(estimate, wanted[name][parameter])
        assert (fit.known is None) == (expected.known is None)
        if fit.known is not None:
            numbers = [
                [(line.known, line.known_stderr, line.estimated, line.stderr) for line in one.known.lines]
                for one in both
            ]
            assert_allclose(*numbers, rtol=1e-8, atol=1e-10)
            assert_allclose(fit.known.pvalue, expected.known.pvalue, rtol=1e-7)

    def test_shares_of_weight(self, both):
        fit, expected = both
        assert fit.weight_shares() == pytest.approx(expected.weight_shares(), rel=1e-9)
        assert_allclose(fit.effective_rows(), expected.effective_rows(), rtol=1e-9)


@pairs(ESTIMATED)
def test_account(both, case):
    """What is said of samples and columns is what is said of rows in memory."""
    found, wanted = (one.diagnostics(CASES[case].means) for one in both)
    for one, other in zip((*found.samples, *found.columns), (*wanted.samples, *wanted.columns), strict=True):
        if hasattr(other, "law"):
            assert (one.df, one.tail_index) == pytest.approx((other.df, other.tail_index), rel=1e-7, nan_ok=True)
        for name, value in vars(other).items():
            if name != "law" and not isinstance(value, str | None):
                assert getattr(one, name) == pytest.approx(value, rel=1e-7, abs=1e-12, nan_ok=True), name
    assert_allclose(found.overlap, wanted.overlap, rtol=1e-8, atol=1e-12)
    assert str(found) == str(wanted)


@pairs(ESTIMATED)
def test_cdf_and_quantiles(both, case):
    fit, expected = both
    cdf, wanted = fit.cdf(CASES[case].column), expected.cdf(CASES[case].column)
    median = wanted.quantile(0.5)
    same(cdf.quantile(0.5), median)
    same(cdf(median.value), wanted(median.value))


@pairs(ESTIMATED)
def test_steps_and_band(both, case):
    fit, expected = both
    cdf, wanted = fit.cdf(CASES[case].column), expected.cdf(CASES[case].column)
    band, other = cdf.band(0.9, draws=100), wanted.band(0.9, draws=100)
    assert_allclose(band.x, other.x, rtol=1e-12)
    for ends in ("value", "low", "high"):
        assert_allclose(getattr(band, ends), getattr(other, ends), rtol=1e-8, atol=1e-10)
    assert_allclose(cdf.x, wanted.x, rtol=1e-12)
    assert_allclose(cdf.heights, wanted.heights, rtol=1e-8)


@pytest.mark.parametrize(
    ("engine", "zone"),
    [(name, zone) for name in ONE_FRAME for zone in (None, "UTC") if (name, zone) != ("numpy", "UTC")],
    indirect=["engine"],
)
def test_times(engine, zone):
    noon = np.datetime64("2024-01-31T12:00:00", "us")
    at = pa.array(noon + np.arange(-30, 30) * np.timedelta64(1, "m")).cast(pa.timestamp("us", tz=zone))
    table = pa.table({"id": np.arange(60), "at": at})
    late = table.slice(30).set_column(0, "id", pa.array(np.arange(60, 90)))
    biases = {"all": 1, "late": "at >= '2024-01-31T12:00:00'", "some": "at in ('2024-01-31T11:30:00', '2024-01-31')"}
    fit = vardi.debias(engine.samples({"all": table, "late": late}), biases)
    assert_allclose(list(fit.omegas.values()), [1.0, 0.5, 1 / 60])


@pytest.mark.parametrize("engine", [name for name in ONE_FRAME if name not in ("dask", "spark")], indirect=True)
def test_numbers_are_compared_to_the_last_digit(engine):
    """SQL may read a number of 17 digits as a decimal, and round it once more: 4% would not equal themselves."""
    x = np.random.default_rng(0).gamma(2.0, 1.0, 300)
    fit = vardi.debias(engine.samples({"all": pa.table({"x": x})}), {"all": 1, "some": vardi.isin("x", x.tolist())})
    assert fit.omegas["some"] == pytest.approx(1.0, rel=1e-12)
    equal = " + ".join(f"(x == {value!r})" for value in x[:20].tolist())
    ordered = np.sort(x)
    below = " + ".join(f"(x <= {value!r})" for value in ordered[:20].tolist())
    wanted = (20 / 300, sum(range(1, 21)) / 300)
    assert_allclose(fit.expectations([equal, below]).values, wanted, rtol=1e-12)
    assert_allclose(fit.cdf("x")(ordered[100:120]).values, np.arange(101, 121) / 300, rtol=1e-12)
