"""Sensitivity to wrong biases: derivatives, exact and attained ranges, tipping points, and what is refused."""

import re
import warnings

import matplotlib as mpl
import numpy as np
import oracle
import pytest
from pools import differences, refitted, small_design
from scipy import optimize
from scipy.special import expit

import vardi
from vardi._estimate.sensitivity import question
from vardi._estimate.sensitivity.question import End, Errors, Mean, Search
from vardi._rows.dense import Dense
from vardi._rows.likelihood import Joint
from vardi._solve.saddle import stationary

mpl.use("Agg")

# samples are small here: that their overlap is weak is not what is tested
pytestmark = pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")

FREE = {"samples": None, "kind": "free"}


def slopes(fit, f, samples=None, kind="free"):
    return Search(fit.solved.tangent, Mean(f[:, None]), Errors.of(fit.solved, samples, kind)).base.slopes


# ---------------------------------------------------------------- the derivative, and what is linear in it


@pytest.mark.long
@pytest.mark.parametrize("kind", oracle.KINDS)
def test_derivative_is_that_of_refits(kind):
    design = small_design(kind)
    f = np.sin(design.z)
    found = slopes(vardi.debias_matrix(design.omega, design.source), f)
    step = 1e-4
    differences = np.zeros(found.shape)
    for i, l in zip(*np.nonzero(design.omega), strict=True):
        delta = np.zeros(found.shape)
        delta[i, l] = step
        ahead, behind = (refitted(design.omega, design.source, f, sign * delta) for sign in (1, -1))
        differences[i, l] = (ahead - behind) / (2 * step)
    np.testing.assert_allclose(found, differences, atol=1e-7 * np.abs(differences).max())
    np.testing.assert_allclose(found.sum(axis=0), 0, atol=1e-14)  # constant factors drop out


@pytest.mark.parametrize("kind", ["free", "common"])
@pytest.mark.parametrize("samples", [None, ["1"], ["0", "2"]])
def test_linear_range_sums_the_slopes(samples, kind):
    design = small_design()
    fit = vardi.debias_matrix(design.omega, design.source)
    found = fit.sensitivity(design.z, [1.3], samples=samples, kind=kind)
    half = np.log(1.3) * np.abs(slopes(fit, design.z, samples, kind)).sum()
    np.testing.assert_allclose(found.linear_upper - found.estimate.value, half, rtol=1e-10)
    np.testing.assert_allclose(found.estimate.value - found.linear_lower, half, rtol=1e-10)


# ---------------------------------------------------------------- exact ranges


def test_search_finds_the_exact_range_of_one_sample():
    rng = np.random.default_rng(1)
    omega, f = rng.uniform(0.2, 2.0, (50, 1)), rng.normal(size=50)
    fit = vardi.debias_matrix(omega, np.zeros(50, int))
    search = Search(fit.solved.tangent, Mean(f[:, None]), Errors.of(fit.solved, **FREE))
    sharp = fit.sensitivity(f, 2.5)
    start = End(sharp.estimate.value, sharp.estimate.influence)
    for side, end in ((-1, sharp.lower[0]), (1, sharp.upper[0])):
        found = search.end(2.5, side, start)
        np.testing.assert_allclose(found.value, end, rtol=1e-6)


# ---------------------------------------------------------------- attained ranges


def test_ends_are_attained_by_biases_within_the_factor():
    design = small_design(n=60)
    fit = vardi.debias_matrix(design.omega, design.source)
    found = fit.sensitivity(design.z, [1.5, 3.0], samples=["0", "2"])
    search = Search(fit.solved.tangent, Mean(design.z[:, None]), Errors.of(fit.solved, ["0", "2"], "free"))
    for side, ends in ((-1, found.lower), (1, found.upper)):
        end = End(found.estimate.value, found.estimate.influence)
        for gamma, value in zip([1.5, 3.0], ends, strict=True):
            end = search.end(gamma, side, end)
            delta = np.where(search.errors.wrong, end.point.errors, 0.0)
            assert np.abs(delta).max() <= np.log(gamma) * (1 + 1e-12)
            assert not delta[:, 1].any()  # held right
            assert refitted(design.omega, design.source, design.z, delta) == pytest.approx(value, rel=1e-9)


@pytest.mark.long
def test_against_many_starts_of_another_optimiser():
    design = small_design(n=32)
    fit = vardi.debias_matrix(design.omega, design.source)
    search = Search(fit.solved.tangent, Mean(design.z[:, None]), Errors.of(fit.solved, **FREE))
    rng = np.random.default_rng(0)

    def negative(delta):
        point = search._at(delta.reshape(32, 3), np.zeros(3))
        return -point.value, -point.slopes.ravel()

    reach = np.log(2.0)
    starts = [np.zeros(96), *rng.uniform(-reach, reach, (10, 96))]
    best = max(-optimize.minimize(negative, x, jac=True, bounds=[(-reach, reach)] * 96).fun for x in starts)
    assert abs(fit.sensitivity(design.z, 2.0).upper[0] - best) <= 1e-3


# ---------------------------------------------------------------- the ways rows are held


def test_too_many_rows_for_refits(monkeypatch):
    design = small_design(n=40)
    fit = vardi.debias_matrix(design.omega, design.source)
    refits = fit.sensitivity(design.z, [1.2, 2])
    monkeypatch.setattr(question.Question._worst, "__defaults__", (100,))
    linear = fit.sensitivity(design.z, [1.2, 2], threshold=refits.linear_upper[0])
    assert (refits.method, linear.method) == ("attained", "linear")
    np.testing.assert_array_equal(linear.upper, refits.linear_upper)
    np.testing.assert_array_equal(linear.lower, refits.linear_lower)
    assert linear.tipping == pytest.approx(1.2, rel=1e-3)
    assert "Rows times samples are 120, but biases are refitted only up to 100" in " ".join(str(linear).split())
    assert fit.sensitivity(design.z, 2, kind="common").sharp  # needs no refits


# ---------------------------------------------------------------- errors and doubts


def test_ends_have_the_errors_of_refits():
    design = small_design(n=200)
    fit = vardi.debias_matrix(design.omega, design.source)
    search = Search(fit.solved.tangent, Mean(design.z[:, None]), Errors.of(fit.solved, **FREE))
    found = fit.sensitivity(design.z, [1.0, 2.0])
    end = search.end(2.0, 1, End(found.estimate.value, found.estimate.influence))
    there = vardi.debias_matrix(design.omega * np.exp(end.point.errors), design.source).expectation(design.z)
    assert found.upper_stderr[1] == pytest.approx(there.stderr, rel=1e-8)
    assert found.upper_stderr[0] == pytest.approx(found.estimate.stderr, rel=1e-12)
    t = (found.estimate.interval[1] - found.estimate.value) / found.estimate.stderr
    np.testing.assert_allclose(found.interval()[1, 1], found.upper[1] + t * there.stderr, rtol=1e-8)
    np.testing.assert_allclose(found.interval()[0], found.estimate.interval, rtol=1e-12)
    assert (found.interval(0.99)[:, 0] < found.interval()[:, 0]).all()


# ---------------------------------------------------------------- what is refused


def refused(kind, text, call):
    with pytest.raises(kind, match=re.escape(text)) as caught:
        call()
    assert str(caught.value) == text
    return caught.value


# ---------------------------------------------------------------- known values and parameters, which are fitted anew


@pytest.mark.long
@pytest.mark.parametrize("kind", ["free", "common"])
@pytest.mark.parametrize("known", [None, {"x > 1": 0.17}, {"x > 1": (0.17, 0.02), "x": 0.03}])
def test_parameters_are_estimated_anew(known, kind):
    rng = np.random.default_rng(0)
    x = rng.normal(size=3000)
    samples = {"reference": rng.normal(size=25), "panel": x[rng.random(3000) < expit(2 * x - 0.5)][:35]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.errors.WeakParametersWarning)
        fit = vardi.debias(samples, {"reference": 1, "panel": vardi.logistic("x")}, known=known)
    joint, f = fit.solved.joint, np.sin(np.concatenate(list(samples.values())))

    def value(delta):
        base = Dense(joint.base.matrix * np.exp(delta), joint.source)
        moved = Joint(base, joint.families, joint.known)
        walk = stationary(moved, fit.solved.point)
        assert walk.converged
        return float(np.average(f, weights=moved.weights(walk.v)[0]))

    found = fit.sensitivity(f, [1.3], kind=kind)
    assert found.method == "linear"
    half = np.log(1.3) * differences(value, 60, 2, kind)
    assert found.upper[0] - found.estimate.value == pytest.approx(half, rel=1e-6)
