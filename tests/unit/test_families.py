"""Rows with parameters and known moments: derivatives, influence, and what is a solution."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from pools import FAMILIES, fit_of, reference_and_panel
from scipy.special import expit, logsumexp

import vardi
from vardi._estimate.likelihood_ratio import _maximum
from vardi._fit.rows_in_memory import RowsInMemory
from vardi._inputs.pool import as_pool
from vardi._rows.families import as_model
from vardi._solve.saddle import Iterate, stationary

ROWS, SHIFT = 60, 500.0


@pytest.fixture(autouse=True)
def few_rows():
    """Let small designs be: warnings of weak overlap and vague curves are not what is tested here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.WeakOverlapWarning)
        warnings.simplefilter("ignore", vardi.WeakParametersWarning)
        yield


# ---------------------------------------------------------------- derivatives


def two_panels(n=40, seed=3):
    """Return a reference, a panel drawn by a logistic curve, and one drawn by a tilt."""
    rng = np.random.default_rng(seed)

    def rows(count, accept):
        x, w = rng.normal(size=(2, 60 * count))
        kept = rng.random(60 * count) < accept(x, w)
        return pd.DataFrame({"x": x[kept][:count], "w": w[kept][:count]})

    return {
        "reference": rows(n, lambda x, w: np.ones(len(x))),
        "panel": rows(2 * n, lambda x, w: expit(2 * x - 0.5)),
        "tilted": rows(n, lambda x, w: np.exp(w - x - 3)),
    }


BIASES = {"reference": 1, "panel": vardi.logistic("x"), "tilted": "(x > -9) * exponential_tilt(x, w)"}
KNOWN = {
    "nothing": None,
    "a mean": {"x": 0.05},
    "a mean with an error": {"x": (0.05, 0.02), "w > 0": 0.5},
    "a bias with parameters": {"panel": 0.42, "w": (0.0, 0.1)},
    "a tilt with parameters": {"tilted": (2.5, 0.2), "panel": 0.42},
}


def joint_of(samples, biases, known):
    pool = as_pool(samples, biases)
    return RowsInMemory.of_pool(pool, known).prepare().joint


# ---------------------------------------------------------------- solutions


def strata_joined(known, n=80):
    """Return two strata that share no row, each of two samples, joined by what is known."""
    rng = np.random.default_rng(11)
    x = rng.random(4 * n)
    half = np.repeat([0, 1], 2 * n)
    samples = {
        name: pd.DataFrame({"x": x[place] / 2 + half[place] / 2, "w": rng.random(n)})
        for name, place in zip(["low", "lower", "high", "higher"], np.arange(4 * n).reshape(4, n), strict=True)
    }
    samples["lower"] = samples["lower"].assign(x=samples["lower"]["x"] ** 2 * 2)
    biases = {"low": "x < 0.5", "lower": "(x < 0.5) * (1 - x)", "high": "x >= 0.5", "higher": "(x >= 0.5) * x"}
    return vardi.debias(samples, biases, known=known)


def panel_by_known(known):
    """Return one sample whose selection only known values tell."""
    samples = {"panel": two_panels(n=100)["panel"]}
    return vardi.debias(samples, {"panel": vardi.exponential_tilt("x", "w")}, known=known)


FITS = {
    "known biases, a share": lambda: length({"x > 4": 0.27}),
    "known biases, a share and a mean with an error": lambda: length({"x > 4": (0.27, 0.03), "x": 3.1}),
    "known biases, a normaliser": lambda: length({"square": (12.0, 0.5)}),
    "parameters": lambda: vardi.debias(two_panels(), BIASES),
    "parameters, a mean": lambda: vardi.debias(two_panels(), BIASES, known=KNOWN["a mean"]),
    "parameters, a mean with an error": lambda: vardi.debias(two_panels(), BIASES, known=KNOWN["a mean with an error"]),
    "parameters, the mean of their bias": lambda: vardi.debias(
        two_panels(), BIASES, known=KNOWN["a bias with parameters"]
    ),
    "groups, a share": lambda: strata_joined({"x < 0.5": 0.4}),
    "groups, a mean with an error": lambda: strata_joined({"x": (0.55, 0.02)}),
    "parameters that known values tell": lambda: panel_by_known({"x": 0.1, "w": 0.05}),
    "parameters that known values with an error tell": lambda: panel_by_known({"x": (0.1, 0.1), "w": 0.05}),
}


def length(known):
    design = vardi.datasets.length_bias(seed=1, sizes=(60, 40, 50))
    rows = {name: pd.DataFrame({"x": x, "w": np.sin(x)}) for name, x in design.samples.items()}
    return vardi.debias(rows, {**design.biases, "state": "x > 2"}, known=known)


def told(fit):
    """Return estimates of each kind: a mean, the normalisers, the parameters."""
    parameters = [estimate for own in fit.parameters.values() for estimate in own.values()]
    return [fit.expectation("w * x"), fit.expectation("x > 1"), *fit.log_normalisers().values(), *parameters]


def told_anew(fit, counts):
    """Return the same numbers of the rows with other counts."""
    joint = fit.solved.joint.with_counts(counts)
    walk = stationary(joint, fit.solved.point, tol=1e-12)
    assert walk.converged
    theta = walk.v[joint.coordinates.theta]
    mass = counts * joint.weights(walk.v)[0]
    means = [np.average(fit.solved.memory.values(name), weights=mass) for name in ("w * x", "x > 1")]
    omega = np.exp(joint.rows_at(theta).log_omega())
    users = [model.scale @ theta[joint.places[k]] for k, model in joint.families.items()]
    return np.concatenate([means, np.log(mass @ omega / mass.sum()), *users])


@pytest.mark.parametrize("name", FITS)
def test_influence_is_the_infinitesimal_jackknife(name):
    """A row that counts a little more moves every estimate by phi_i - b_k over n, k being its sample."""
    fit = FITS[name]()
    estimates, n, step = told(fit), len(fit), 1e-4
    assert type(fit) is vardi.DebiasedSample
    rng = np.random.default_rng(0)
    np.testing.assert_allclose(
        [estimate.value for estimate in estimates], told_anew(fit, np.ones(n)), rtol=1e-9, atol=1e-12
    )
    spread = np.array([estimate.influence.of_rows()[:, 0].std() for estimate in estimates])
    for i in rng.choice(n, 6, replace=False):
        move = np.zeros(n)
        move[i] = step
        moved = (told_anew(fit, 1 + move) - told_anew(fit, 1 - move)) / (2 * step)
        phi = [e.influence.of_rows()[i, 0] - e.influence.b[fit.solved.memory.source[i], 0] for e in estimates]
        np.testing.assert_allclose(n * moved, phi, rtol=1e-5, atol=1e-5 * spread.max())


@pytest.mark.parametrize("name", [name for name in FITS if not name.startswith("groups")])
def test_a_solution_is_a_minimum_in_u_and_theta_and_a_maximum_in_mu(name):
    fit = FITS[name]()
    joint, at = fit.solved.joint, fit.solved.joint.coordinates
    here = Iterate(joint, fit.solved.point)
    samples = int((joint.sizes > 0).sum())
    assert here.jacobian.inertia == (samples - 1 + at.parameters + at.uncertain, at.known)
    assert here.holds
    assert fit.solution.residual < 1e-10
    assert np.isnan(fit.solution.certificate)
    assert fit.solution.step < 1e-6


def test_a_point_without_gradient_that_is_no_minimum_is_no_solution():
    """A flat logistic curve where means agree: the gradient vanishes, and steeper curves either way fit better."""
    x = np.repeat([-1.5, 1.5, -0.4, 0.4], 25)
    samples = {"reference": x[:50], "panel": x[50:]}
    joint = joint_of(samples, {"reference": 1, "panel": vardi.logistic("x")}, None)
    intercept = 2.0
    v = np.array([0.0, -np.log(expit(intercept)), intercept, 0.0])
    here = Iterate(joint, v, objective=True)
    np.testing.assert_allclose(here.gradient, 0.0, atol=1e-12)
    assert here.jacobian.inertia[1] > 0
    assert not here.holds
    assert not stationary(joint, v).converged


# ---------------------------------------------------------------- what cannot be met


ROWS, SHIFT = 60, 500.0


# ---------------------------------------------------------------- what cannot be met


@pytest.fixture(scope="module")
def samples():
    return reference_and_panel()


def panel_joint_of(samples, bias):
    """Return the rows with the parameters of the panel's bias."""
    pool = as_pool(samples, {"reference": 1, "panel": bias})
    return RowsInMemory.of_pool(pool, None).prepare().joint


@pytest.mark.parametrize("name", FAMILIES)
def test_gradient_and_hessian_are_those_of_differences(samples, name):
    joint = panel_joint_of(samples, FAMILIES[name])
    rng = np.random.default_rng(0)
    d = len(joint.coordinates)
    point = rng.normal(0, 0.5, d)

    def at(x):
        return Iterate(joint, x, objective=True)

    steps = 1e-5 * np.eye(d)
    differences = [(at(point + h).objective - at(point - h).objective) / 2e-5 for h in steps]
    np.testing.assert_allclose(at(point).gradient / 750, np.array(differences) / 750, atol=1e-9)
    second = [(at(point + h).gradient - at(point - h).gradient) / 2e-5 for h in steps]
    np.testing.assert_allclose(at(point).jacobian.matrix / 750, np.array(second) / 750, atol=1e-9)
    assert np.linalg.eigvalsh(at(point).information.matrix / 750)[0] > -1e-12  # a covariance, unlike the Hessian


# --- functions


def tilt(rows, theta):
    return np.exp(theta[0] * rows["x"] + theta[1] * rows["w"])


def tilt_gradient(rows, theta):
    return np.column_stack([rows["x"], rows["w"]]) * np.asarray(tilt(rows, theta))[:, None]


def test_differences_are_good_on_any_scale(samples):
    pool = as_pool({key: rows.assign(x=1e6 * rows["x"]) for key, rows in samples.items()}, {"reference": 1, "panel": 1})
    everything = np.ones(750, bool)
    differences = as_model(vardi.parametric(tilt, start=[0.0, 0.0]), pool.frames, everything, None, "panel")
    exact = as_model(
        vardi.parametric(tilt, start=[0.0, 0.0], gradient=tilt_gradient), pool.frames, everything, None, "panel"
    )
    theta = np.array([1e-6, -0.5])
    np.testing.assert_allclose(differences.gradient(theta), exact.gradient(theta), rtol=1e-8)


# --- tests


def test_a_hypothesis_under_which_the_rest_runs_away_is_refused():
    rng = np.random.default_rng(0)
    rows = {"reference": rng.normal(size=50), "panel": rng.normal(12, 1, 50)}
    joint = panel_joint_of(rows, vardi.exponential_tilt("x"))
    with pytest.raises(vardi.UnidentifiedParametersError, match="of 'panel' as declared, the others diverge"):
        _maximum(joint, np.zeros(3), np.eye(1), "panel")


# --- what a person sees


def test_a_likelihood_of_known_biases_is_the_dual(samples):
    """Q at any point is the dual of the core, whose minimum the core finds."""
    core = fit_of(samples, vardi.exponential_tilt("x", "w").at([1.0, -0.5]))
    L = core.solved.rows.log_omega()
    A = L + core.solution.u
    expected = float((logsumexp(A, axis=1) - A[np.arange(750), core.solved.memory.source]).mean())
    joint = panel_joint_of(samples, vardi.exponential_tilt("x", "w"))
    model = joint.families[1]
    theta = np.array([1.0, -0.5]) * model.deviation
    u = core.solution.u + np.array([0.0, model.offset(theta)])
    found = Iterate(joint, np.concatenate([u, theta]), objective=True)
    assert found.objective / 750 == pytest.approx(expected, rel=1e-12)
