"""One suite over every engine: the same fit, the same estimates, and rows that never leave their place."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from cases import CASES
from engines import ENGINES, ONE_FRAME, collected, local_engine
from numpy.testing import assert_allclose

import vardi
from vardi._rows.lazy import LazyRows

NUMPY = local_engine("numpy")
# On a cluster a query of a few rows costs as much as one of many, so estimates are compared on fewer problems there.
FITTED = {"mixed-spark": ("houses", "lengths")}
ESTIMATED = {
    "spark": ("houses", "lengths", "census"),
    "mixed-spark": ("lengths",),
    "ibis": ("houses", "lengths", "strata", "census"),
}
QUANTILES = {"spark": ("strata",), "mixed-spark": (), "ibis": ("houses", "strata")}


def pairs(only: dict[str, tuple[str, ...]]) -> pytest.MarkDecorator:
    """Parametrise by engines and problems; engines that are named there with the problems that are named only."""
    found = [
        pytest.param(engine, case, id=f"{engine}-{case}")
        for engine in ENGINES
        for case in only.get(engine, CASES)
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
        assert isinstance(fit._rows, LazyRows) == (engine.lazy and not CASES[case].in_memory)

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

    def test_shares_of_weight(self, both):
        fit, expected = both
        assert fit.weight_shares() == pytest.approx(expected.weight_shares(), rel=1e-9)
        assert_allclose(fit.effective_rows(), expected.effective_rows(), rtol=1e-9)


@pairs(QUANTILES)
def test_cdf_and_quantiles(both, case):
    fit, expected = both
    cdf, wanted = fit.cdf(CASES[case].column), expected.cdf(CASES[case].column)
    median = wanted.quantile(0.5)
    same(cdf.quantile(0.5), median)
    same(cdf(median.value), wanted(median.value))


@pytest.mark.parametrize(
    ("engine", "zone"),
    [(name, zone) for name in ONE_FRAME for zone in (None, "UTC") if (name, zone) != ("numpy", "UTC")],
    indirect=["engine"],
)
def test_times(engine, zone):
    noon = np.datetime64("2024-01-31T12:00:00", "us")
    at = pa.array(noon + np.arange(-30, 30) * np.timedelta64(1, "m")).cast(pa.timestamp("us", tz=zone))
    table = pa.table({"id": np.arange(60), "at": at})
    biases = {"all": 1, "late": "at >= '2024-01-31T12:00:00'", "some": "at in ('2024-01-31T11:30:00', '2024-01-31')"}
    fit = vardi.debias(engine.samples({"all": table, "late": table.slice(30)}), biases)
    assert_allclose(list(fit.omegas.values()), [1.0, 0.5, 1 / 60])
