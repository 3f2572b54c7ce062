"""bounds against the formulas at 60 digits, its invariances, its texts, and where numbers leave the floating point."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from oracle import design
from scipy import sparse

import vardi

KINDS = ["indicator", "tilt", "power"]
NUMBERS = ("n", "kappa", "epsilon", "lambda_min", "sigma2", "log10_U", "log10_rho", "u_range", "w_min", "r")
STATEMENTS = ("proposition_1", "proposition_2", "proposition_3", "dkw")


def of(fit: vardi.DebiasedSample, delta: float = 0.05) -> vardi.Bounds:
    return fit.bounds(delta)


def same(a: vardi.Bounds, b: vardi.Bounds, rtol=1e-7):
    np.testing.assert_allclose(
        [getattr(a, name) for name in NUMBERS], [getattr(b, name) for name in NUMBERS], rtol=rtol
    )
    for name in STATEMENTS:
        mine, other = (list(vars(getattr(side, name)).values()) for side in (a, b))
        np.testing.assert_allclose(mine, other, rtol=rtol, atol=1e-7)


# ---------------------------------------------------------------- formulas


def constants(K, kappa, eps, lam, sigma):
    """Return (M, c, M', c') of Propositions 1 to 3 and of the DKW-type theorem, with U and rho, from MATH section 3."""
    mp = mpmath.mpf
    kappa, eps, lam, sigma = mp(kappa), mp(eps), mp(lam), mp(sigma)
    x = 2 / (lam * kappa * eps)
    U = mpmath.log(K / eps) * sum(x**t for t in range(1, K))
    rho = lam * mpmath.exp(-U)
    L = 4 * mpmath.sqrt(K + 1) / sigma
    M_1, c_1 = 2 * (K - 1), lam * (kappa * eps) ** 2 / 2
    M_4 = 2 * max(M_1, 2 * mp(K) ** (2 * K + 3) * (6 * U / sigma) ** K)
    c_4 = min(c_1, lam * sigma**2 / (32 * K**2))
    M2, c2 = 2 * K**2, 2 * lam / (L**2 * K)
    M3 = 2 * max(M2, 2 * K)
    c3 = min(c2 / (4 * (1 / rho + 1 / (eps**2 * lam**2 * rho**4)) ** 2), eps**2 * lam**3 * rho**4 / 2)
    M_dkw, c_dkw = 2 * max(M3, 2 * K), min(c3 * (eps * lam * rho) ** 8 / 4, eps**2 * lam**3 / 2)
    return U, rho, [(M_1, c_1, None, None), (M_4, c_4, M2, c2), (M_4, c_4, M3, c3), (M_4, c_4, M_dkw, c_dkw)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("K", [2, 3, 5])
def test_constants_are_those_of_the_formulas(kind, K):
    d = design(kind, K, 60, 1)
    found = of(vardi.debias_matrix(d.omega, d.source), delta=0.1)
    with mpmath.workdps(60):
        U, rho, expected = constants(K, found.kappa, found.epsilon, found.lambda_min, found.sigma2)
        np.testing.assert_allclose(found.log10_U, float(mpmath.log10(U)), rtol=1e-9)
        np.testing.assert_allclose(found.log10_rho, float(mpmath.log10(rho)), rtol=1e-9)
        for name, (M, c, Mp, cp) in zip(STATEMENTS, expected, strict=True):
            said = getattr(found, name)
            half = 0.1 if Mp is None else 0.05
            needed = mpmath.log(M / mpmath.mpf(half)) / c
            numbers = [said.log10_M, said.log10_c, said.log10_n0]
            close = {"rtol": 1e-8, "atol": 1e-9}
            np.testing.assert_allclose(numbers, [float(mpmath.log10(x)) for x in (M, c, mpmath.log(M) / c)], **close)
            if Mp is None:
                assert math.isnan(said.log10_t)
            else:
                numbers = [float(mpmath.log10(x)) for x in (Mp, cp)]
                np.testing.assert_allclose([said.log10_M_prime, said.log10_c_prime], numbers, **close)
                t = mpmath.sqrt(mpmath.log(Mp / mpmath.mpf(half)) / (cp * 60))
                assert said.log10_t == (math.inf if needed > 60 else pytest.approx(float(mpmath.log10(t)), rel=1e-8))
                needed = max(needed, mpmath.log(Mp / mpmath.mpf(half)) / (cp * mpmath.mpf("0.01")))
            np.testing.assert_allclose(said.log10_n, float(mpmath.log10(needed)), **close)


@pytest.mark.parametrize("kind", KINDS)
def test_the_five_numbers(kind):
    d = design(kind, 4, 50, 3)
    fit = vardi.debias_matrix(d.omega, d.source)
    found = of(fit)
    p = np.exp(fit.solution.u) * d.omega
    p /= p.sum(axis=1, keepdims=True)
    H = np.diag(p.mean(axis=0)) - p.T @ p / 50
    scaled = d.omega / d.omega.max(axis=0)
    lam = np.bincount(d.source) / 50
    assert found.n == 50
    assert found.lambda_min == lam.min()
    assert found.kappa == fit.identify().kappa
    np.testing.assert_allclose(found.epsilon, scaled[scaled > 0].min())
    np.testing.assert_allclose(found.sigma2, np.linalg.eigvalsh(H)[1], rtol=1e-9)
    np.testing.assert_allclose(found.u_range, np.ptp(fit.solution.u))
    np.testing.assert_allclose(found.w_min, min(fit.paper_normalisers().values()))
    np.testing.assert_allclose([found.U, found.rho], [10**found.log10_U, 10**found.log10_rho], rtol=1e-9)


def test_the_bounds_of_u_and_w_hold():
    for kind in KINDS:
        for seed in range(5):
            d = design(kind, 3, 60, seed)
            found = of(vardi.debias_matrix(d.omega, d.source))
            assert found.u_range <= found.U
            assert found.w_min >= found.rho


def test_figures_of_the_design_notes():
    d = vardi.datasets.strata(sizes=(3500, 1200, 1300), seed=0)
    found = of(vardi.debias(d.samples, d.biases))
    assert found.kappa == pytest.approx(0.1, abs=0.01)
    assert found.epsilon == 1
    assert math.log10(found.U) == pytest.approx(4.0, abs=0.1)
    assert found.log10_rho == pytest.approx(-4540, rel=0.15)
    assert found.sigma2 == pytest.approx(0.031, rel=0.05)
    assert 10**found.proposition_1.log10_n0 == pytest.approx(1300, rel=0.15)
    assert 10**found.proposition_2.log10_n0 == pytest.approx(8e7, rel=0.15)
    assert found.r == math.inf
    assert found.n_certificate == pytest.approx(10_400, rel=0.06)
    assert found.log10_sigma < -4500
    d = vardi.datasets.tilts(sizes=(2000, 1500, 2000), seed=0)
    assert of(vardi.debias(d.samples, d.biases)).r == pytest.approx(0.156, abs=0.003)
    d = vardi.datasets.length_bias(sizes=(800, 2500, 1700), seed=0)
    assert of(vardi.debias(d.samples, d.biases)).r == pytest.approx(0.287, abs=0.01)


def test_the_certificate():
    d = vardi.datasets.tilts(sizes=(2000, 1500, 2000), seed=0)
    fit = vardi.debias(d.samples, d.biases)
    for delta in (0.5, 0.05, 1e-6):
        found = of(fit, delta)
        tail = math.sqrt(2) * (0.5 + math.sqrt(math.log(1 / delta)))
        assert found.r == pytest.approx(-math.log(1 - tail / (found.sigma2 * math.sqrt(5500))), rel=1e-9)
        assert found.n_certificate == pytest.approx((tail / found.sigma2) ** 2)
    assert of(fit, 0.5).r < of(fit, 0.05).r < of(fit, 1e-6).r
    assert of(fit, 1e-300).r == math.inf


# ---------------------------------------------------------------- invariances


@pytest.mark.parametrize("kind", KINDS)
def test_scales_and_order_do_not_matter(kind):
    d = design(kind, 3, 60, 2)
    found = of(vardi.debias_matrix(d.omega, d.source))
    scaled = of(vardi.debias_matrix(d.omega * [1e-7, 2.0, 1e9], d.source))
    for name in ("kappa", "epsilon", "lambda_min", "sigma2", "log10_U", "r"):
        assert getattr(scaled, name) == pytest.approx(getattr(found, name), rel=1e-8)
    order = np.random.default_rng(0).permutation(60)
    same(of(vardi.debias_matrix(d.omega[order], d.source[order])), found)
    with np.errstate(divide="ignore"):
        same(of(vardi.debias_matrix(np.log(d.omega), d.source, log=True)), found)
    same(of(vardi.debias_matrix(sparse.csr_array(d.omega), d.source)), found)


@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_replication(kind):
    d = design(kind, 3, 60, 2)
    c = np.random.default_rng(1).integers(1, 5, 60)
    again = np.repeat(np.arange(60), c)
    counted = vardi.debias_matrix(d.omega, d.source, counts=c)
    same(of(counted), of(vardi.debias_matrix(d.omega[again], d.source[again])))


def test_collapsed_rows_are_rows():
    d = vardi.datasets.strata(sizes=(9000, 4000, 4000), seed=2)
    apart = {name: f"({bias}) * (1 + 1e-12 * x0)" for name, bias in d.biases.items()}  # so that no rows are equal
    same(of(vardi.debias(d.samples, apart)), of(vardi.debias(d.samples, d.biases)), rtol=1e-6)


def test_a_state_that_no_sample_was_drawn_from_takes_no_part():
    d = design("tilt", 3, 60, 0)
    wider = np.insert(d.omega, 1, np.geomspace(1e-9, 3, 60), axis=1)
    same(
        of(vardi.debias_matrix(wider, np.where(d.source > 0, d.source + 1, 0))),
        of(vardi.debias_matrix(d.omega, d.source)),
    )


# ---------------------------------------------------------------- edges


def test_one_sample_has_nothing_to_estimate():
    found = of(vardi.debias({"a": np.arange(1.0, 9)}, {"a": "x"}))
    assert (found.sigma2, found.r, found.n_certificate, found.U, found.rho) == (math.inf, 0, 0, 0, 1)
    assert found.epsilon == pytest.approx(1 / 8)
    assert found.proposition_1.log10_n == -math.inf
    assert found.proposition_2.log10_t == -math.inf
    assert "any" not in str(found)


def test_numbers_beyond_floating_point():
    rng = np.random.default_rng(0)
    z = rng.normal(size=400)
    wide = vardi.debias_matrix(np.column_stack([np.zeros(400), 200 * z]), np.repeat([0, 1], 200), log=True)
    found = of(wide)
    assert math.isinf(found.U)
    assert found.rho == 0
    assert found.log10_rho == -math.inf
    assert found.dkw.log10_c_prime == -math.inf
    assert found.dkw.log10_n == math.inf
    many = of(vardi.debias_matrix(rng.uniform(0.1, 1.0, (600, 150)), np.arange(600) % 150))
    assert math.isinf(many.U)
    assert math.isfinite(many.log10_U)
    assert many.proposition_2.log10_n0 < 30
    for text in (found.summary(), many.summary()):
        assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("delta", [0, 1, -0.1, 1.5, math.nan])
def test_delta_is_a_probability(delta):
    fit = vardi.debias_matrix(np.ones((4, 2)), [0, 0, 1, 1])
    with pytest.raises(vardi.errors.MismatchError, match="between 0 and 1"):
        of(fit, delta)


# ---------------------------------------------------------------- texts


@pytest.mark.parametrize(("n", "certificate"), [(10, "vacuous at this n"), (1000, "within a factor")])
def test_the_summary_fits_and_says_how_conservative_each_is(n, certificate):
    d = vardi.datasets.tilts(sizes=(n, n, n), seed=0)
    text = str(of(vardi.debias(d.samples, d.biases)))
    assert max(map(len, text.splitlines())) <= 80
    plain = " ".join(text.split())
    for word in (
        "kappa",
        "Prop. 1",
        "Prop. 2",
        "Prop. 3",
        "DKW",
        "optimistic",
        "error bar",
        "vacuous in practice",
        certificate,
    ):
        assert word in plain
