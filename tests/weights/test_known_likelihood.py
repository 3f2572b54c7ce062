"""Known values against what shares no code with the solver: raking, general optimisers, the conditions of a maximum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

import vardi

pytestmark = pytest.mark.filterwarnings("ignore::vardi.VardiWarning")  # small designs, and values that are off

Array = NDArray[np.float64]


def one_hot(column: Any, values: Any) -> Array:
    return (np.asarray(column)[:, None] == np.asarray(list(values))).astype(float)


def raked(base: Array, members: list[Array], shares: list[Array], rounds: int = 100_000) -> Array:
    """Return weights by iterative proportional fitting, one margin (a matrix of indicators) after the other."""
    weights = base / base.sum()
    for _ in range(rounds):
        before = weights
        for cells, known in zip(members, shares, strict=True):
            weights = weights * (cells @ (known / (weights @ cells)))
        if np.abs(weights / before - 1.0).max() < 1e-15:
            break
    return weights * len(base)


# ---------------------------------------------------------------- correction: raking is cells with known margins


def three_columns(n: int, seed: int) -> pd.DataFrame:
    """Return rows with columns of 10, 8 and 5 categories, of which the last are rare."""
    rng = np.random.default_rng(seed)
    columns = {
        name: rng.choice(m, n, p=np.linspace(2.0, 0.5, m) / np.linspace(2.0, 0.5, m).sum())
        for name, m in (("region", 10), ("age_group", 8), ("school", 5))
    }
    return pd.DataFrame({**columns, "design": rng.uniform(0.5, 3.0, n), "income": rng.normal(size=n)})


def off_by(rows: pd.DataFrame, factor: float, seed: int) -> dict[str, dict[int, float]]:
    """Return margins that differ from those of the rows by up to a factor, either way."""
    rng = np.random.default_rng(seed)
    margins = {}
    for column in ("region", "age_group", "school"):
        shares = rows[column].value_counts(normalize=True).sort_index()
        moved = shares * factor ** rng.uniform(-1, 1, len(shares))
        margins[column] = (moved / moved.sum()).to_dict()
    return margins


@pytest.mark.parametrize("factor", [1.2, 5.0])
def test_one_sample_with_cells_of_three_columns_is_raked(factor: float) -> None:
    rows = three_columns(1000, 0)
    margins = off_by(rows, factor, 1)
    fit = vardi.debias({"panel": rows}, {"panel": vardi.cells(*margins)}, known=margins)
    members = [one_hot(rows[column], known) for column, known in margins.items()]
    shares = [np.array(list(known.values())) for known in margins.values()]
    expected = raked(np.ones(len(rows)), members, shares)
    np.testing.assert_allclose(np.asarray(fit.weights), expected, rtol=1e-8)
    assert fit.known.residual < 1e-10
    at = fit.solved.joint.coordinates
    np.testing.assert_allclose(fit.solved.point[at.mu], 0.0, atol=1e-8)  # the margins tell parameters, and nothing else
    sizes = [len(known) for known in margins.values()]
    assert len(fit.parameters["panel"]) == sum(sizes) - 3


def test_raking_from_weights_of_a_design() -> None:
    rows = three_columns(1000, 2)
    margins = off_by(rows, 2.0, 3)
    bias = vardi.where("1 / design") * vardi.cells(*margins)
    fit = vardi.debias({"panel": rows}, {"panel": bias}, known=margins)
    members = [one_hot(rows[column], known) for column, known in margins.items()]
    shares = [np.array(list(known.values())) for known in margins.values()]
    expected = raked(rows["design"].to_numpy(), members, shares)
    np.testing.assert_allclose(np.asarray(fit.weights), expected, rtol=1e-8)


def test_raking_of_counted_rows() -> None:
    rows = three_columns(400, 4).drop(columns=["design", "income"])
    margins = off_by(rows, 2.0, 5)
    counts = np.random.default_rng(6).integers(1, 5, len(rows))
    counted = vardi.debias({"p": rows}, {"p": vardi.cells(*margins)}, known=margins, counts=counts)
    repeated = vardi.debias({"p": rows.loc[rows.index.repeat(counts)]}, {"p": vardi.cells(*margins)}, known=margins)
    np.testing.assert_allclose(np.repeat(np.asarray(counted.weights), counts), np.asarray(repeated.weights), rtol=1e-8)


def test_beside_a_sample_that_is_known_cells_are_more_than_raking() -> None:
    rng = np.random.default_rng(7)
    everyone = three_columns(6000, 8)
    taken = rng.random(6000) < np.where(everyone["region"] < 3, 0.5, 0.1)
    samples = {"panel": everyone[taken], "survey": everyone.sample(300, random_state=9)}
    biases = {"panel": vardi.cells("region"), "survey": 1}
    margin = {"region": everyone["region"].value_counts(normalize=True).sort_index().to_dict()}
    fit = vardi.debias(samples, biases, known=margin)
    fitted = fit.estimated_biases["panel"]
    certify_maximum(fit, samples, margin, {"panel": fitted, "survey": 1})
    pool = pd.concat(samples.values(), ignore_index=True)
    law = np.asarray(fit.probabilities) * biases_on(pool, {"panel": fitted})[:, 0]  # the derivative by the parameters:
    shares = (law / law.sum()) @ one_hot(pool["region"], range(10))  # the fitted panel is like the one that was drawn
    np.testing.assert_allclose(shares, one_hot(samples["panel"]["region"], range(10)).mean(axis=0), rtol=1e-9)
    alone = vardi.debias(samples, biases)
    assert fit.expectation("income").stderr < alone.expectation("income").stderr


# ---------------------------------------------------------------- information: the conditions of a maximum


def functions_of(pool: pd.DataFrame, known: Any) -> tuple[Array, Array]:
    """Return the known functions on the rows, and their known means: written out, without vardi."""
    columns, means = [], []
    for key, value in known.items():
        if isinstance(value, dict):
            columns += [(pool[key] == one).to_numpy(float) for one in value]
            means += list(value.values())
        else:
            columns.append(pool.eval(key).to_numpy(float))
            means.append(value)
    return np.column_stack(columns), np.array(means)


def biases_on(pool: pd.DataFrame, biases: Any) -> Array:
    one = vardi.debias({"pool": pool}, {"pool": 1, **{f"b_{k}": bias for k, bias in biases.items()}})
    return np.exp(one.solved.rows.spread(one.solved.rows.log_omega())[:, 1:])


def certify_maximum(fit: Any, samples: Any, known: Any, biases: Any, tol: float = 1e-8) -> None:
    r"""Check the conditions for a maximum of sum log pi - sum n_k log Omega_k under sum pi = 1 and sum pi h = tau.

    The derivative by pi_i, 1 / pi_i - sum_k n_k omega_k(z_i) / Omega_k, is a combination of 1 and h(z_i).
    """
    pool = pd.concat(samples.values(), ignore_index=True)
    H, tau = functions_of(pool, known)
    omega = biases_on(pool, biases)
    pi = np.asarray(fit.probabilities)
    sizes = np.array([len(rows) for rows in samples.values()])
    assert (pi > 0).all()
    np.testing.assert_allclose(pi @ H, tau, atol=1e-10)
    slope = 1.0 / pi - omega @ (sizes / (pi @ omega))
    constraints = np.column_stack([np.ones(len(pi)), (H - tau) / np.where(np.ptp(H, axis=0) > 0, np.ptp(H, axis=0), 1)])
    multipliers = np.linalg.lstsq(constraints, slope, rcond=1e-12)[0]
    np.testing.assert_allclose(constraints @ multipliers, slope, atol=tol * (1.0 / pi).max())
    assert abs(multipliers[0]) < tol * (1.0 / pi).max()  # that of sum pi = 1: the scale of pi does not matter


DESIGNS = {
    "one sample": (lambda rng: {"a": rng.gamma(3.0, size=60)}, {"a": 1}, {"x": 3.2, "x > 4": 0.31}),
    "lengths": (
        lambda rng: {"a": rng.gamma(3.0, size=40), "b": rng.gamma(5.0, size=80)},
        {"a": 1, "b": "x ** 2"},
        {"x > 4": 0.3, "x > 2": 0.7},
    ),
    "a mean and a square": (
        lambda rng: {"a": rng.gamma(3.0, size=40), "b": rng.gamma(4.0, size=80)},
        {"a": "x <= 6.0", "b": "x"},
        {"x": 3.1, "x ** 2": 12.4},
    ),
    "groups joined by a share": (
        lambda rng: {"a": rng.uniform(0, 5, 40), "b": rng.uniform(5, 9, 50), "c": rng.uniform(6, 9, 30)},
        {"a": "x < 5", "b": "x >= 5", "c": "x >= 6"},
        {"x < 5": 0.3, "x > 7": 0.4},
    ),
    "groups joined by a mean": (
        lambda rng: {"a": rng.uniform(0, 5, 40), "b": rng.uniform(5, 9, 50)},
        {"a": "x < 5", "b": "x >= 5"},
        {"x": 5.2},
    ),
}


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("seed", range(3))
def test_weights_meet_the_conditions_of_a_maximum(design: str, seed: int) -> None:
    draw, biases, known = DESIGNS[design]
    samples = {
        k: pd.DataFrame({"x": x[x < 6.0] if biases[k] == "x <= 6.0" else x})
        for k, x in draw(np.random.default_rng(seed)).items()
    }
    fit = vardi.debias(samples, biases, known=known)
    certify_maximum(fit, samples, known, biases)
    assert fit.known.residual < 1e-10
    for key, value in known.items():
        assert fit.expectation(key).value == pytest.approx(value, abs=1e-10)
        assert fit.expectation(key).stderr < 1e-10


def maximised(
    loss: Callable[[Array], float], start: Array, constraints: Callable[[Array], Array] | None = None
) -> Array:
    """Minimise by a general method that knows nothing of the problem: SLSQP under constraints, BFGS without."""
    if constraints is None:
        found = minimize(loss, start, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
    else:
        equal = {"type": "eq", "fun": constraints}
        found = minimize(loss, start, method="SLSQP", constraints=equal, options={"ftol": 1e-15, "maxiter": 2000})
    return np.asarray(found.x)


class Small:
    """A design of a few rows, and its likelihood in (log pi, beta) as it is defined.

    The bias of 'plain' is 1, that of 'seen' x exp(beta x), or x where there are no parameters.
    """

    def __init__(self, seed: int = 0, *, parameters: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.samples = {"plain": rng.gamma(3.0, size=9), "seen": rng.gamma(4.0, size=12)}
        self.x = np.concatenate(list(self.samples.values()))
        self.source = np.repeat([0, 1], [9, 12])
        self.parameters = parameters
        tilt = vardi.proportional_to("x") * vardi.exponential_tilt("x")
        self.biases = {"plain": 1, "seen": tilt if parameters else "x"}

    def omega(self, beta: float) -> Array:
        return np.column_stack([np.ones(len(self.x)), self.x * np.exp(beta * self.x)])

    def pi(self, point: Array) -> Array:
        logits = point[: len(self.x)]
        return np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()

    def beta(self, point: Array) -> float:
        return float(point[-1]) if self.parameters else 0.0

    def loss(self, point: Array) -> float:
        pi, omega = self.pi(point), self.omega(self.beta(point))
        own = omega[np.arange(len(self.x)), self.source]
        return float(-np.log(pi * own).sum() + [9, 12] @ np.log(pi @ omega))

    def start(self, rng: np.random.Generator) -> Array:
        return np.concatenate([0.1 * rng.normal(size=len(self.x)), [0.0] if self.parameters else []])


@pytest.mark.parametrize("parameters", [False, True])
@pytest.mark.parametrize(
    ("known", "functions"),
    [
        ({"x": 3.3}, lambda x, omega: [x - 3.3]),
        ({"x > 4": 0.25, "x > 2": 0.8}, lambda x, omega: [(x > 4) - 0.25, (x > 2) - 0.8]),
    ],
)
def test_exact_values_against_a_general_optimiser(parameters: bool, known: Any, functions: Any) -> None:
    small = Small(parameters=parameters)
    fit = vardi.debias(small.samples, small.biases, known=known)
    H = np.column_stack(functions(small.x, None))
    found = maximised(small.loss, small.start(np.random.default_rng(1)), lambda point: small.pi(point) @ H)
    np.testing.assert_allclose(fit.probabilities, small.pi(found), atol=2e-6)
    ours = np.append(np.log(fit.probabilities), fit.parameters["seen"]["x"].value if parameters else [])
    assert small.loss(ours) <= small.loss(found) + 1e-9
    if parameters:
        assert fit.parameters["seen"]["x"].value == pytest.approx(small.beta(found), abs=1e-5)


def test_a_known_normaliser_against_a_general_optimiser() -> None:
    for parameters in (False, True):  # a bias with parameters is itself the function whose mean is known
        small = Small(2, parameters=parameters)
        fit = vardi.debias(small.samples, small.biases, known={"seen": 3.0})
        found = maximised(
            small.loss,
            small.start(np.random.default_rng(1)),
            lambda point, small=small: small.pi(point) @ small.omega(small.beta(point))[:, 1] - 3.0,
        )
        np.testing.assert_allclose(fit.probabilities, small.pi(found), atol=2e-6)
        assert fit.omegas["seen"] == pytest.approx(3.0, rel=1e-10)
        ours = np.append(np.log(fit.probabilities), fit.parameters["seen"]["x"].value if parameters else [])
        assert small.loss(ours) <= small.loss(found) + 1e-9


@pytest.mark.parametrize("parameters", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_values_with_an_error_against_a_penalised_likelihood(parameters: bool, scale: float) -> None:
    """The estimate t of a survey with covariance V adds -(t - sum pi h)'V^{-1}(t - sum pi h) / 2 to the likelihood."""
    small = Small(3, parameters=parameters)
    t, V = np.array([3.4, 0.35]), np.array([[0.09, 0.01], [0.01, 0.01]])
    known = {("x", "x > 4"): vardi.Estimates(t, V)}
    biases = {**small.biases, "plain": scale}  # the answer does not depend on the units of a bias
    fit = vardi.debias(small.samples, biases, known=known)
    H = np.column_stack([small.x, small.x > 4])

    def loss(point: Array) -> float:
        off = t - small.pi(point) @ H
        return small.loss(point) + float(off @ np.linalg.solve(V, off)) / 2

    found = maximised(loss, small.start(np.random.default_rng(1)))
    np.testing.assert_allclose(fit.probabilities, small.pi(found), atol=1e-6)
    if parameters:
        assert fit.parameters["seen"]["x"].value == pytest.approx(small.beta(found), abs=1e-5)
    assert fit.known.residual < 1e-10  # at the values as they moved
    met = fit.expectation("x").value
    alone = vardi.debias(small.samples, small.biases).expectation("x").value
    assert min(alone, 3.4) < met < max(alone, 3.4)


def test_errors_of_known_values_go_from_exact_to_none() -> None:
    rng = np.random.default_rng(4)
    samples = {"a": rng.gamma(3.0, size=100), "b": rng.gamma(4.0, size=200)}
    biases = {"a": 1, "b": "x"}
    plain, exact = (vardi.debias(samples, biases, known=known) for known in (None, {"x > 4": 0.3}))
    fits = [vardi.debias(samples, biases, known={"x > 4": (0.3, error)}) for error in (1e-6, 0.02, 10.0)]
    values = [fit.expectation("x > 4").value for fit in fits]
    assert values[0] == pytest.approx(0.3, abs=1e-6)
    assert min(values[0], values[2]) < values[1] < max(values[0], values[2])
    np.testing.assert_allclose(fits[0].weights, exact.weights, rtol=1e-5)
    np.testing.assert_allclose(fits[2].weights, plain.weights, rtol=1e-4)
    errors = [fit.expectation("x").stderr for fit in (exact, *fits)]
    assert errors == sorted(errors)
    assert errors[-1] == pytest.approx(plain.expectation("x").stderr, rel=1e-3)  # but for the leverage of rows
    assert errors[0] == pytest.approx(errors[1], rel=1e-3)


def test_an_estimate_of_a_fit_says_as_much_as_its_sample() -> None:
    """A mean known from a survey with the survey's error is worth the survey, to first order."""
    rng = np.random.default_rng(5)
    panel, survey = rng.gamma(3.0, size=400), rng.gamma(3.0, size=400)
    apart = vardi.debias({"survey": survey}, {"survey": 1})
    fit = vardi.debias({"panel": panel}, {"panel": 1}, known={"x": apart.expectation("x")})
    both = vardi.debias({"panel": panel, "survey": survey}, {"panel": 1, "survey": 1})
    ours, theirs = fit.expectation("x"), both.expectation("x")
    assert ours.value == pytest.approx(theirs.value, abs=0.1 * theirs.stderr)
    assert ours.stderr == pytest.approx(theirs.stderr, rel=0.02)


# ---------------------------------------------------------------- every kind of matrix


def blocks_of(matrix: Array) -> Callable[[], Any]:
    return lambda: iter(np.array_split(matrix, 7))


def same_fit(fit: Any, expected: Any, x: Array) -> None:
    np.testing.assert_allclose(fit.weights, expected.weights, rtol=1e-8)
    ours, theirs = fit.expectation(x), expected.expectation(x)
    assert (ours.value, ours.stderr) == pytest.approx((theirs.value, theirs.stderr), rel=1e-8)
    for name, one in expected.log_normalisers().items():
        other = fit.log_normalisers()[name]
        assert (other.value, other.stderr) == pytest.approx((one.value, one.stderr), rel=1e-8, abs=1e-10)
    assert "known" in str(fit)
    assert fit.known.pvalue == pytest.approx(expected.known.pvalue, rel=1e-6)


@pytest.mark.parametrize("known", [{"share": 0.4}, {"share": (0.4, 0.03)}, {"share": 0.4, "1": 2.1}])
def test_every_kind_of_matrix_gives_the_same(known: Any) -> None:
    rng = np.random.default_rng(6)
    x = np.concatenate([rng.uniform(0, 4, 150), rng.uniform(1, 3, 150), rng.uniform(2, 5, 150)])
    omega = np.column_stack([x <= 4, x * ((x >= 1) & (x <= 4.5)), x >= 2, x >= 2.5]).astype(float)
    source = np.repeat([0, 1, 2], 150)
    allowed = omega[np.arange(450), source] > 0
    x, omega, source = x[allowed], omega[allowed], source[allowed]
    names = ["0", "1", "2", "share"]  # of the last no row was drawn
    expected = vardi.debias_matrix(omega, source, known=known, names=names)
    with np.errstate(divide="ignore"):
        logs = np.log(omega)
    for fit in (
        vardi.debias_matrix(logs, source, log=True, known=known, names=names),
        vardi.debias_matrix(sparse.csr_array(omega), source, known=known, names=names),
        vardi.debias_matrix(blocks_of(omega), source, known=known, names=names),
        vardi.debias_matrix(blocks_of(logs), source, log=True, known=known, names=names),
    ):
        same_fit(fit, expected, x)
    if "1" not in known:
        assert expected.known.lines[0].label == "share"
        return
    assert expected.omegas["1"] == pytest.approx(2.1, rel=1e-10)


@pytest.mark.parametrize("known", [{"4": 0.4}, {"4": (0.4, 0.03)}, {"4": 0.4, "1": 0.62}])
def test_windows_give_the_same(known: Any) -> None:
    rng = np.random.default_rng(7)
    low, high = np.array([0.0, 1.0, 2.0, 1.5, 2.5]), np.array([2.5, 4.0, 5.0, 3.0, np.inf])
    draws = [rng.uniform(low[k], min(high[k], 5.0), 80) for k in range(4)]
    windows = vardi.Windows(np.concatenate(draws), low, high)
    source = np.repeat(np.arange(4), 80)
    expected = vardi.debias_matrix(windows.toarray().astype(float), source, known=known)
    for given in (windows, sparse.csr_array(windows.toarray().astype(float)), blocks_of(windows.toarray() * 1.0)):
        same_fit(vardi.debias_matrix(given, source, known=known), expected, windows.x)
    beyond = (windows.x >= 2.5).astype(float)
    found, alone = expected.expectation(beyond).value, vardi.debias_matrix(windows, source).expectation(beyond).value
    if known["4"] == 0.4:
        assert found == pytest.approx(0.4, abs=1e-10)
    else:
        assert 0.4 < found < alone
