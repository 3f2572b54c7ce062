"""One likelihood of normalisers, parameters and known moments: its derivatives, its solutions, and what these equal."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit

import vardi
from vardi._fit.known import known_means
from vardi._fit.rows_in_memory import RowsInMemory
from vardi._inputs.pool import as_pool
from vardi._rows import Windows
from vardi._rows.choose import as_rows
from vardi._rows.dense import Dense
from vardi._rows.joint import Joint
from vardi._rows.point import KnownMoments
from vardi._rows.sparse import Sparse
from vardi._rows.stored import Blocks, as_reader
from vardi._rows.windows import Intervals
from vardi._solve.joint import At, hold, stationary
from vardi._solve.parameters import held_of

ROWS, SHIFT = 60, 500.0


@pytest.fixture(autouse=True)
def few_rows():
    """Let small designs be: warnings of weak overlap and vague curves are not what is tested here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.WeakOverlapWarning)
        warnings.simplefilter("ignore", vardi.WeakParametersWarning)
        yield


# ---------------------------------------------------------------- derivatives


def held_rows(kind):
    """Return rows of four biases, the last without a sample, and where u is of the order of 0."""
    rng = np.random.default_rng(7)
    x, counts = rng.random(ROWS), rng.integers(1, 4, ROWS).astype(float)
    low, high = np.array([0.0, 0.3, 0.0, 0.2]), np.array([0.6, 1.0, 1.0, 0.9])
    inside = (low <= x[:, None]) & (x[:, None] <= high)
    source = np.array([rng.choice(np.flatnonzero(row[:3])) for row in inside])
    omega = np.where(inside, np.exp(rng.normal(0, 0.5, (ROWS, 4))), 0.0)
    names, level = list("abcd"), 0.0
    if kind == "dense":
        rows = as_rows(omega, source, counts, names)
        assert type(rows) is Dense
    elif kind == "logs":
        with np.errstate(divide="ignore"):
            rows, level = as_rows(SHIFT + np.log(omega), source, counts, names, log=True), SHIFT
    elif kind == "sparse":
        rows = as_rows(sparse.csr_array(omega), source, counts, names)
        assert isinstance(rows, Sparse)
    elif kind == "windows":
        rows = as_rows(Windows(x, low, high), source, counts, names)
        assert isinstance(rows, Intervals)
    else:
        blocks = [omega[:17], omega[17:40], omega[40:]]
        rows = as_rows(as_reader(lambda: iter(blocks), ROWS), source, counts, names)
        assert isinstance(rows, Blocks)
    return rows, level


def require_derivatives(joint, v, free):
    """Compare gradient and J with differences, in the coordinates that are free to move."""
    held = hold(joint.sizes, np.zeros(len(joint.sizes), bool))

    def at(point):
        return At.of(joint, point, held, objective=True)

    here = at(v)
    assert here.sums.positive
    first, second, step = [], [], 1e-5
    for j in free:
        move = np.zeros(len(v))
        move[j] = step * max(abs(v[j]) if joint.coordinates.mu.start <= j < joint.coordinates.mu.stop else 1.0, 1e-3)
        ahead, behind = at(v + move), at(v - move)
        first.append((ahead.objective - behind.objective) / (2 * move[j]))
        second.append((ahead.gradient - behind.gradient)[free] / (2 * move[j]))
    np.testing.assert_allclose(here.gradient[free], first, rtol=1e-7, atol=1e-7 * np.abs(first).max())
    J = here.jacobian.matrix[np.ix_(free, free)]
    scale = np.sqrt(np.abs(np.diag(J)))
    apart = (J - np.array(second)) / np.outer(scale, scale)
    np.testing.assert_allclose(apart, 0.0, atol=1e-7 * np.abs(J / np.outer(scale, scale)).max())
    np.testing.assert_allclose(J, J.T, rtol=1e-12, atol=1e-12 * np.abs(J).max())


@pytest.mark.parametrize("uncertain", [0, 1, 2])
@pytest.mark.parametrize("kind", ["dense", "logs", "sparse", "windows", "blocks"])
def test_derivatives_in_normalisers_multipliers_and_moved_values(kind, uncertain):
    rows, level = held_rows(kind)
    rng = np.random.default_rng(1)
    h, tau, root = rng.normal(size=(ROWS, 2)), np.array([0.1, -0.2]), rng.normal(size=(2, uncertain)) / 5
    known = KnownMoments(h, np.eye(2), tau, root, {})
    joint = Joint(rows, {}, known)
    u = np.append(rng.normal(0, 0.3, 3) - level, -np.inf)
    v = np.concatenate([u, [0.1, -0.15], rng.normal(size=uncertain)])
    require_derivatives(joint, v, np.delete(np.arange(len(v)), 3))


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


@pytest.mark.parametrize("what", KNOWN)
def test_derivatives_in_parameters(what):
    joint = joint_of(two_panels(), BIASES, KNOWN[what])
    at = joint.coordinates
    rng = np.random.default_rng(0)
    v = np.zeros(len(at))
    v[at.u], v[at.theta] = rng.normal(0, 0.3, 3), rng.normal(0, 0.4, at.parameters)
    v[at.mu], v[at.epsilon] = rng.uniform(0.02, 0.05, at.known), rng.normal(size=at.uncertain)
    require_derivatives(joint, v, np.arange(len(v)))
    assert at.parameters == 4


def test_only_differences_of_normalisers_matter():
    """The likelihood is flat along (u + c, theta, mu e^c, epsilon), at every point."""
    joint = joint_of(two_panels(), BIASES, KNOWN["a tilt with parameters"])
    at = joint.coordinates
    v = np.concatenate([[0.1, -0.2, 0.3], [0.2, -0.1, 0.3, 0.1], [0.03, -0.02], [0.5]])
    here = At.of(joint, v, 0, objective=True)
    for shift in (-3.0, 0.7, 20.0):
        there = At.of(joint, joint.coordinates.rescaled(v, shift), 0, objective=True)
        assert there.objective == pytest.approx(here.objective, rel=1e-12)
        np.testing.assert_allclose(joint.weights(there.v)[0], joint.weights(v)[0], rtol=1e-11)
        np.testing.assert_allclose(there.gradient[at.theta], here.gradient[at.theta], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(there.gradient[at.mu] * np.exp(shift), here.gradient[at.mu], rtol=1e-9)
    along = np.zeros(len(v))
    along[at.u], along[at.mu] = 1.0, v[at.mu]
    assert here.gradient @ along == pytest.approx(0.0, abs=1e-10)


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
    walk = stationary(joint, fit.solved.point, held_of(joint), tol=1e-12)
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


@pytest.mark.parametrize("name", [name for name in FITS if "error" in name])
def test_a_known_value_moves_what_it_says(name):
    """The derivative by a known value, times its error, is what its error adds to that of an estimate."""
    fit = FITS[name]()
    joint, n = fit.solved.joint, len(fit)
    estimates, step = told(fit), 1e-4

    def at(shift):
        moved = joint.with_values(joint.known.means + joint.known.root @ shift)
        walk = stationary(moved, fit.solved.point, held_of(joint), tol=1e-12)
        assert walk.converged
        return np.average(fit.solved.memory.values("w * x"), weights=moved.weights(walk.v)[0])

    along = np.eye(joint.coordinates.uncertain)
    slopes = [(at(step * e) - at(-step * e)) / (2 * step) for e in along]
    np.testing.assert_allclose(np.abs(slopes), np.abs(estimates[0].influence.beyond[:, 0]) / n, rtol=1e-5)
    rows = fit.solved.tangent.measure.covariance(estimates[0].influence.values)[0, 0]
    assert estimates[0].stderr ** 2 == pytest.approx(rows + np.square(slopes).sum(), rel=1e-5)


@pytest.mark.parametrize("name", [name for name in FITS if not name.startswith("groups")])
def test_a_solution_is_a_minimum_in_u_and_theta_and_a_maximum_in_mu(name):
    fit = FITS[name]()
    joint, at = fit.solved.joint, fit.solved.joint.coordinates
    here = At.of(joint, fit.solved.point, held_of(joint))
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
    here = At.of(joint, v, 0, objective=True)
    np.testing.assert_allclose(here.gradient, 0.0, atol=1e-12)
    assert here.jacobian.inertia[1] > 0
    assert not here.holds
    assert not stationary(joint, v, 0).converged


@pytest.mark.parametrize("name", FITS)
def test_every_equation_holds_whichever_normaliser_is_held(name):
    fit = FITS[name]()
    joint = fit.solved.joint
    for held in np.flatnonzero(joint.sizes > 0):
        assert At.of(joint, fit.solved.point, int(held)).residual < 1e-10
    if fit.solved.prepared.known:
        np.testing.assert_allclose(known_means(fit.solved), fit.solved.moved_known(), atol=1e-10)


# ---------------------------------------------------------------- what solutions equal


def raked(codes, margins, base):
    """Rake weights to margins by iterative proportional fitting."""
    weights = base.copy()
    for _ in range(10_000):
        worst = 0.0
        for code, margin in zip(codes, margins, strict=True):
            factor = margin * weights.sum() / np.bincount(code, weights, minlength=len(margin))
            weights *= factor[code]
            worst = max(worst, float(np.abs(factor - 1).max()))
        if worst < 1e-14:
            return weights / weights.mean()
    raise AssertionError("not raked")


@pytest.mark.parametrize("based", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_one_sample_with_unknown_selection_by_cells_is_raked(seed, based):
    """Margins of 10, 8 and 5 values, each up to a factor of 5 more or less than the sample has."""
    rng = np.random.default_rng(seed)
    sizes, n = {"a": 10, "b": 8, "c": 5}, 1000
    codes = [rng.choice(k, n, p=rng.dirichlet(np.full(k, 20.0))) for k in sizes.values()]
    margins = []
    for code, k in zip(codes, sizes.values(), strict=True):
        margin = np.bincount(code, minlength=k) * np.geomspace(0.2, 5.0, k)[rng.permutation(k)]
        margins.append(margin / margin.sum())
    rows = pd.DataFrame(dict(zip(sizes, codes, strict=True))).assign(inclusion=rng.uniform(0.2, 1.0, n))
    bias = vardi.exponential_tilt(*[f"{name} == {j}" for name, k in sizes.items() for j in range(1, k)])
    bias = bias * vardi.proportional_to("inclusion") if based else bias
    known = {name: dict(enumerate(margin.tolist())) for name, margin in zip(sizes, margins, strict=True)}
    fit = vardi.debias({"panel": rows}, {"panel": bias}, known=known)
    base = 1.0 / rows["inclusion"].to_numpy() if based else np.ones(n)
    np.testing.assert_allclose(fit.weights, raked(codes, margins, base), rtol=1e-8)
    mu = fit.solved.point[fit.solved.joint.coordinates.mu]
    np.testing.assert_allclose(mu, 0.0, atol=1e-8)  # the parameters have all the work to do
    assert fit.known.pvalue != fit.known.pvalue  # the samples alone say nothing of the margins


@pytest.mark.parametrize("keys", ["names", "conditions"])
def test_disjoint_strata_are_post_stratified(keys):
    rng = np.random.default_rng(4)
    cuts, shares, sizes = [0.0, 0.2, 0.7, 1.0], np.array([0.5, 0.2, 0.3]), [300, 40, 170]
    bounds = list(itertools.pairwise(cuts))
    samples = {f"s{k}": rng.uniform(low, high, sizes[k]) for k, (low, high) in enumerate(bounds)}
    biases = {f"s{k}": f"({low} <= x) * (x < {high})" for k, (low, high) in enumerate(bounds)}
    known = dict(zip(samples if keys == "names" else biases.values(), shares, strict=True))
    fit = vardi.debias(samples, biases, known=known)
    expected = np.concatenate([np.full(size, share / size) for size, share in zip(sizes, shares, strict=True)])
    np.testing.assert_allclose(fit.probabilities, expected, rtol=1e-10)
    means = np.array([x.mean() for x in samples.values()])
    variances = np.array([x.var(ddof=1) / len(x) for x in samples.values()])
    mean = fit.expectation("x")
    assert mean.value == pytest.approx(float(shares @ means), rel=1e-10)
    assert mean.stderr == pytest.approx(float(np.sqrt(shares**2 @ variances)), rel=1e-8)


@pytest.mark.long
def test_a_true_share_is_never_worse_than_none():
    """Groups of 5, 5 and 90%, omega .05, 1, 1 and f = 1, 0, 1: raking after debiasing had 3.9 times the error."""
    omega, share, f = np.array([0.05, 1.0, 1.0]), np.array([0.05, 0.05, 0.9]), np.array([1.0, 0.0, 1.0])
    law = omega * share / (omega @ share)
    warnings.simplefilter("ignore", vardi.ContradictedKnownWarning)  # which some of 200 draws must give
    errors = []
    for seed in range(200):
        counts = np.random.default_rng(seed).multinomial(4000, law)
        matrix = np.column_stack([omega, [0.0, 0.0, 1.0]])
        fits = [vardi.debias_matrix(matrix, [0, 0, 0], counts=counts, known=known) for known in (None, {"1": 0.9})]
        errors.append([float(fit.probabilities @ f) - 0.95 for fit in fits])
    without, given = np.square(errors).mean(axis=0)
    assert given <= 1.05 * without


@pytest.mark.parametrize("unit", [0.01, 100.0])
def test_the_unit_of_a_bias_says_nothing(unit):
    """Nor does it where a known value has an error: a penalty on mu itself would depend on it."""
    design = vardi.datasets.length_bias(seed=2, sizes=(60, 200, 150))
    known = {"x > 4": (0.2, 0.02), "x": 3.0}
    fits = [
        vardi.debias(
            design.samples, {"plain": factor, "length": f"{factor} * x", "square": f"{factor} * x ** 2"}, known=known
        )
        for factor in (1.0, unit)
    ]
    np.testing.assert_allclose(fits[1].weights, fits[0].weights, rtol=1e-9)
    for f in ("x > 4", "x ** 2"):
        one, other = (fit.expectation(f) for fit in fits)
        assert (other.value, other.stderr) == pytest.approx((one.value, one.stderr), rel=1e-9)
    assert fits[1].known.statistic == pytest.approx(fits[0].known.statistic, rel=1e-8)


# ---------------------------------------------------------------- what cannot be met


@pytest.mark.long
def test_values_that_no_weights_meet_are_refused_with_the_range():
    x = np.linspace(0.0, 1.0, 101)
    samples, biases = {"a": x, "b": x[50:]}, {"a": 1, "b": "x >= 0.5"}
    with pytest.raises(vardi.InvalidKnownError, match="it ranges from 0 to 1, so no weights") as caught:
        vardi.debias(samples, biases, known={"x": 1.5})
    assert caught.value.allowed == {"x": (0.0, 1.0)}
    with pytest.raises(
        vardi.InvalidKnownError, match="No weights on the rows of the pool meet all known values"
    ) as caught:
        vardi.debias(samples, biases, known={"x > 0.5": 0.3, "x > 0.7": 0.6})
    assert set(caught.value.nearest) <= {"x > 0.5", "x > 0.7"}
    with pytest.raises(vardi.InvalidKnownError, match="is 0 on every row|No row of the pool is in") as caught:
        vardi.debias(samples, biases, known={"x > 2": 0.1})
    assert caught.value.allowed == {"x > 2": (0.0, 0.0)}


def test_a_value_that_leaves_nothing_for_a_group_contradicts_the_samples():
    """Two strata with means .2 and .7: a mean of .15 would take all mass from one of them."""
    rng = np.random.default_rng(0)
    samples = {"low": rng.uniform(0.0, 0.4, 300), "high": rng.uniform(0.4, 1.0, 300)}
    biases = {"low": "x < 0.4", "high": "x >= 0.4"}
    with pytest.raises(vardi.InvalidKnownError, match="contradict the samples.*'high'"):
        vardi.debias(samples, biases, known={"x": 0.15})
    met = vardi.debias(samples, biases, known={"x": 0.5})
    assert met.expectation("x").value == pytest.approx(0.5, abs=1e-10)
