"""Many samples that overlap widely: their Hessian is enclosed by a few products with the gram, which is not formed."""

from __future__ import annotations

from dataclasses import dataclass

import extended
import numpy as np
import pytest
from designs import FAMILIES
from judging import WRONG, judge_all
from many_samples import assert_same_for_any_number_of_threads
from numpy.testing import assert_allclose, assert_array_equal
from oracle import certify, far_logs

import vardi
from vardi._rows import choose, dense
from vardi._rows.contract import Sketch
from vardi._solve import deflated, newton, passes
from vardi._solve.deflated import Deflated, subspace
from vardi._solve.laplacian import GAP_ERROR, Laplacian, SingularError
from vardi.datasets import harmonic_oscillators

K, PER, WIDE = 120, 150, 0.03


def oscillators(seed: int = 0, *, states: int = K, per: int = PER, spacing: float = WIDE):
    design = harmonic_oscillators(states=states, rows_per_state=per, seed=seed, spacing=spacing)
    return design.omega, design.source


def from_the_gram_at_the_start(rows):
    """Return a start with what spans the gram there, however few the rows are."""
    u = np.where(rows.sizes > 0, rows.start(), -np.inf)
    hessian = passes.Passes(rows, None).hessian(rows.sums(u, objective=False))
    try:
        hessian.solve(np.zeros(len(hessian.q)))
    except SingularError:
        return newton._Start(u)
    return newton._Start(u, hessian, None, passes.span_of(u, hessian) if rows.is_sketchable else None)


@pytest.fixture
def forced(monkeypatch):
    """Sketch the gram of every dense matrix, however few samples it has and however many vectors that takes."""
    monkeypatch.setattr(dense, "MIN_SKETCHED_SAMPLES", 1)
    monkeypatch.setattr(deflated, "WIDEST", 1.0)
    monkeypatch.setattr(passes, "NEAR", np.inf)
    monkeypatch.setattr(newton, "_warm_start", from_the_gram_at_the_start)


@dataclass
class Seen:
    """Rows and gram of each pass, and the Hessians from sketches."""

    grams: list[tuple[int, bool]]
    sketches: list[int]


@pytest.fixture
def seen(monkeypatch):
    """Watch the passes."""
    found = Seen([], [])
    sums, sketch = dense.Dense.sums, dense.Dense.sketch

    def watched_sums(self, u, *, gram=True, objective=True):
        found.grams.append((len(self), gram))
        return sums(self, u, gram=gram, objective=objective)

    def watched_sketch(self, u, vectors):
        found.sketches.append(len(self))
        return sketch(self, u, vectors)

    monkeypatch.setattr(dense.Dense, "sums", watched_sums)
    monkeypatch.setattr(dense.Dense, "sketch", watched_sketch)
    return found


# ---------------------------------------------------------------- the enclosure


def hessian_of(rng: np.random.Generator, states: int, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares and the gram of rows along a line, each of samples within some width."""
    x, centre = rng.random(40 * states)[:, None], np.linspace(0, 1, states)
    p = np.exp(-(((x - centre) / width) ** 2)) * rng.gamma(2.0, size=states)
    p /= p.sum(axis=1, keepdims=True)
    return p.sum(axis=0), p.T @ p


@pytest.mark.parametrize("width", [0.1, 0.3, 2.0])
@pytest.mark.parametrize("vectors", [1, 3, 10, 39])
@pytest.mark.parametrize("found", ["at random", "of the gram", "of another gram"])
def test_bounds_hold_whatever_the_vectors(width, vectors, found):
    rng = np.random.default_rng(vectors)
    q, G = hessian_of(rng, 40, width)
    exact, root = Laplacian(q, G), np.sqrt(q)
    V = rng.standard_normal((40, vectors))
    if found != "at random":
        near = G if found == "of the gram" else hessian_of(rng, 40, 1.1 * width)[1]
        V = np.linalg.eigh(near / (root[:, None] * root))[1][:, ::-1][:, 1 : vectors + 1] / root[:, None]
    enclosed = Deflated(q, Sketch(V, G @ V, np.diag(G), 1e-15))
    gap = np.linalg.eigvalsh(exact._deflated())[0]
    low, high = enclosed.gap_bounds
    assert low <= gap * (1 + 1e-12) <= high * (1 + 2e-12)
    if low <= 0:
        assert not enclosed.is_tight
        return
    assert enclosed.largest_resistance(low) >= exact.largest_resistance(gap) * (1 - 1e-12)
    for _ in range(5):
        gradient = rng.standard_normal(40)
        gradient -= gradient.mean()
        assert enclosed.largest_decrement(gradient) >= exact.largest_decrement(gradient) * (1 - 1e-12)


def test_where_the_vectors_span_the_gram_the_bounds_are_the_numbers():
    rng = np.random.default_rng(0)
    q, G = hessian_of(rng, 200, 1.5)
    exact = Laplacian(q, G)
    V = subspace(exact)
    assert V.shape[1] < 15
    enclosed = Deflated(q, Sketch(V, G @ V, np.diag(G), 1e-15))
    gap, side = exact.gap()
    assert enclosed.is_tight
    assert enclosed.left <= 1.1 * deflated.LEFT
    assert_allclose(enclosed.gap()[0], gap, rtol=GAP_ERROR)
    assert abs(np.corrcoef(enclosed.gap()[1], side)[0, 1]) > 0.999
    assert_allclose(enclosed.largest_resistance(gap), exact.largest_resistance(gap), rtol=0.01)
    gradient = rng.standard_normal(200)
    gradient -= gradient.mean()
    ours, theirs = enclosed.solve(gradient), exact.solve(gradient)
    assert_allclose(ours - ours.mean(), theirs - theirs.mean(), atol=2 * deflated.LEFT * np.ptp(theirs))


def test_rounding_of_the_sums_widens_the_bounds():
    q, G = hessian_of(np.random.default_rng(0), 100, 1.5)
    V = subspace(Laplacian(q, G))
    fine, coarse = (Deflated(q, Sketch(V, G @ V, np.diag(G), rounding)) for rounding in (1e-15, 1e-4))
    assert coarse.gap_bounds[0] < fine.gap_bounds[0] - 1e-4
    assert coarse.gap_bounds[1] > fine.gap_bounds[1]
    assert fine.is_tight
    assert not coarse.is_tight


def test_many_vectors_are_too_many():
    q, G = hessian_of(np.random.default_rng(0), 100, 0.01)
    assert subspace(Laplacian(q, G)) is None


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("far", [0.0, 600.0])
def test_a_sketch_is_what_the_gram_tells(log, counted, far):
    omega, source = oscillators(per=10)
    rng = np.random.default_rng(1)
    if log:
        omega = omega + far * rng.standard_normal(len(source))[:, None]
    counts = rng.integers(1, 9, len(source)).astype(float) if counted else None
    rows = choose.as_rows(omega if log else np.exp(omega), source, counts, range(K), log=log)
    u, V = np.log(rows.sizes) + rng.random(K), rng.standard_normal((K, 3))
    sums, sketched = rows.sums(u), rows.sketch(u, V)
    assert_allclose(sketched.shares, sums.shares, rtol=1e-12)
    assert_allclose(sketched.gram.products, sums.gram @ V, rtol=1e-9, atol=1e-12 * np.abs(sums.gram).max())
    assert_allclose(sketched.gram.diagonal, np.diag(sums.gram), rtol=1e-12)


# ---------------------------------------------------------------- the fit


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("spacing", [WIDE, 0.1])
def test_the_gram_of_all_rows_is_not_formed(log, spacing, seen, monkeypatch):
    omega, source = oscillators(spacing=spacing)
    given = omega if log else np.exp(omega)
    monkeypatch.setattr(deflated, "WIDEST", 0.3)  # of 120 samples more than of many
    fit = vardi.debias_matrix(given, source, log=log)
    whole = [gram for rows, gram in seen.grams if rows == len(source)]
    assert not any(whole)
    assert seen.sketches.count(len(source)) == 1
    assert len(whole) <= 5
    seen.sketches.clear()
    certify(fit, given, source, log=log)
    monkeypatch.setattr(dense, "MIN_SKETCHED_SAMPLES", np.inf)
    formed = vardi.debias_matrix(given, source, log=log)
    assert not seen.sketches
    off = np.ptp(fit.solution.u - formed.solution.u)
    assert off <= fit.solution.certificate + formed.solution.certificate
    assert fit.solution.certificate < 1e-9
    assert fit.solution.gap == pytest.approx(formed.solution.gap, rel=newton.REUSED_IF_MANY)
    assert_array_equal(fit.solution.cut > 0, formed.solution.cut > 0)


def test_its_certificate_holds():
    omega, source = oscillators(per=100)
    solution = vardi.debias_matrix(omega, source, log=True).solution
    truth = extended.solve(omega, source, log=True)
    assert np.ptp(np.float64(solution.u - truth.u)) <= solution.certificate + truth.error


def test_samples_that_overlap_little_form_it(seen):
    omega, source = oscillators(spacing=0.5)
    certify(vardi.debias_matrix(omega, source, log=True), omega, source, log=True)
    assert seen.sketches.count(len(source)) == 0
    assert (len(source), True) in seen.grams


def test_a_sketch_that_tells_too_little_is_given_up(seen, monkeypatch):
    omega, source = oscillators()
    monkeypatch.setattr(passes, "subspace", lambda laplacian: np.random.default_rng(0).standard_normal((K, 2)))
    fit = vardi.debias_matrix(omega, source, log=True)
    certify(fit, omega, source, log=True)
    assert seen.sketches.count(len(source)) == 1
    assert (len(source), True) in seen.grams


def test_states_without_rows_have_their_normalisers(monkeypatch):
    omega, source = oscillators()
    kept = source % 5 > 0
    fit = vardi.debias_matrix(omega[kept], source[kept], log=True)
    monkeypatch.setattr(dense, "MIN_SKETCHED_SAMPLES", np.inf)
    formed = vardi.debias_matrix(omega[kept], source[kept], log=True)
    ours, theirs = (np.array(list(one.log_omegas.values())) for one in (fit, formed))
    assert_allclose(ours, theirs, atol=1e-9)
    assert np.isneginf(fit.solution.u[0])


@pytest.mark.usefixtures("forced")
@pytest.mark.parametrize("seed", range(3))
def test_large_logs_are_counted_in_the_certificate(seed):
    logs, source, truth = far_logs(seed)
    solution = vardi.debias_matrix(logs, source, log=True).solution
    assert truth.off(solution.u) <= solution.certificate <= 1e-8


@pytest.mark.usefixtures("forced")
def test_small_designs_are_sketched_where_that_is_forced(seen):
    omega, source = oscillators(states=4, per=20, spacing=0.5)
    certify(vardi.debias_matrix(omega, source, log=True), omega, source, log=True)
    assert seen.sketches


@pytest.mark.skipif(not extended.HAS_64_BITS, reason="long doubles are doubles here: no oracle")
@pytest.mark.usefixtures("forced")
@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in ("many samples", "large")])
def test_designs_of_every_family_are_certified_or_rightly_refused(family):
    assert not [str(outcome) for outcome in judge_all(family, range(2)) if outcome.kind == WRONG]


def test_threads_change_no_digit(monkeypatch):
    assert_same_for_any_number_of_threads(monkeypatch, *oscillators())
