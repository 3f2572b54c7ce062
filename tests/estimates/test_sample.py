"""DebiasedSample from the outside: weights and what follows from them, and the special cases with known answers."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from oracle import KINDS, as_sparse_log, certify, design, log_of
from scipy import sparse
from scipy.optimize import brentq
from textbook import origins, read

import vardi
from vardi import datasets

RNG = np.random.default_rng(3)
PLAIN, LONG = RNG.gamma(3.0, size=40), RNG.gamma(4.0, size=60)
BIASES = {"plain": 1, "long": "x", "square": "x**2"}


def length(make=None) -> vardi.DebiasedSample:
    """Return the fit of a plain and a length-biased sample, held by the library that is given."""
    if make is None:
        return vardi.debias({"plain": PLAIN, "long": LONG}, BIASES)
    return vardi.debias({"plain": make({"x": PLAIN}), "long": make({"x": LONG})}, BIASES)


# ---------------------------------------------------------------- weights


def test_weights_of_pandas_carry_the_index_of_the_user():
    samples = {
        "plain": pd.DataFrame({"x": PLAIN}, index=[f"p{i}" for i in range(40)]),
        "long": pd.DataFrame({"x": LONG}, index=[f"l{i}" for i in range(60)]),
    }
    fit = vardi.debias(samples, BIASES)
    assert isinstance(fit.weights, pd.Series)
    assert fit.weights.index.tolist() == samples["plain"].index.tolist() + samples["long"].index.tolist()
    assert fit.probabilities.index.equals(fit.weights.index)
    assert (fit.weights.name, fit.probabilities.name) == ("weight", "probability")
    np.testing.assert_allclose(fit.weights.to_numpy(), length().weights, rtol=1e-14)
    pool = pd.concat(samples.values())
    pool["w"] = fit.weights  # aligned by its labels
    np.testing.assert_array_equal(pool["w"].to_numpy(), fit.weights.to_numpy())


def test_an_index_may_repeat_or_run_backwards():
    frame = pd.DataFrame(
        {"x": np.r_[PLAIN, LONG], "s": np.repeat(["plain", "long"], [40, 60])}, index=np.arange(100)[::-1] // 2
    )
    fit = vardi.debias(frame, BIASES, source="s")
    assert fit.weights.index.equals(frame.index)
    np.testing.assert_allclose(fit.weights.to_numpy(), length().weights, rtol=1e-14)
    both = {"plain": pd.DataFrame({"x": PLAIN}), "long": pd.DataFrame({"x": LONG})}
    assert vardi.debias(both, BIASES).weights.index.tolist() == [*range(40), *range(60)]


def test_weights_in_the_library_of_the_user():
    assert isinstance(length().weights, np.ndarray)
    by_polars = length(pl.DataFrame)
    assert isinstance(by_polars.weights, pl.Series)
    assert by_polars.weights.name == "weight"
    assert isinstance(length(pa.table).weights, pa.ChunkedArray | pa.Array)
    for make in (pl.DataFrame, pa.table):
        np.testing.assert_allclose(np.asarray(length(make).weights), length().weights, rtol=1e-14)


def test_weights_and_probabilities():
    fit = length()
    assert fit.weights.mean() == pytest.approx(1, rel=1e-14)
    assert fit.probabilities.sum() == pytest.approx(1, rel=1e-14)
    np.testing.assert_allclose(fit.weights, 100 * fit.probabilities, rtol=1e-13)
    counts = np.arange(1, 101)
    counted = vardi.debias({"plain": PLAIN, "long": LONG}, BIASES, counts=counts)
    assert counted.weights @ counts / counts.sum() == pytest.approx(1, rel=1e-14)
    np.testing.assert_allclose(counted.probabilities, counted.weights * counts / counts.sum(), rtol=1e-13)
    assert fit.weights is fit.weights  # computed once


@pytest.mark.parametrize("kind", KINDS)
def test_normalisers(kind):
    d = design(kind, 5, 100, 0)
    fit = vardi.debias_matrix(d.omega, d.source, names="abcde")
    assert list(fit.omegas) == list(fit.log_omegas) == list(fit.sizes) == list(fit.paper_normalisers()) == list("abcde")
    assert fit.names == tuple("abcde")
    for k, name in enumerate("abcde"):
        assert fit.omegas[name] == pytest.approx(fit.probabilities @ d.omega[:, k], rel=1e-12)
        assert fit.log_omegas[name] == pytest.approx(np.log(fit.omegas[name]), abs=1e-12)
        assert fit.sizes[name] == (d.source == k).sum()
        assert isinstance(fit.sizes[name], int)
        assert isinstance(fit.omegas[name], float)


@pytest.mark.parametrize("kind", KINDS)
def test_w_is_in_the_scale_of_the_paper(kind):
    d = design(kind, 5, 100, 0)
    fit = vardi.debias_matrix(np.column_stack([d.omega, d.z**2]), d.source)
    assert list(fit.paper_normalisers()) == ["0", "1", "2", "3", "4"]  # the state that was not sampled has no lambda
    ratios = {name: w / (fit.sizes[name] / 100) for name, w in fit.paper_normalisers().items()}
    assert max(ratios.values()) == pytest.approx(1, rel=1e-14)
    scale = {round(w / fit.omegas[name], 12) for name, w in fit.paper_normalisers().items()}
    assert np.ptp(list(scale)) <= 1e-11  # W is Omega up to one factor


def test_normalisers_beyond_the_floating_point_range():
    """Their logs are there; the numbers themselves are infinite or zero, and nobody is warned of it."""
    log_omega = np.array([[4000.0, -4000.0], [4001.0, -4001.0]])
    fit = vardi.debias_matrix(log_omega, [0, 1], log=True)
    certify(fit, log_omega, [0, 1], log=True)
    assert 4000 < fit.log_omegas["0"] < 4001
    assert fit.omegas == {"0": np.inf, "1": 0.0}
    assert fit.paper_normalisers() == {"0": 0.5, "1": 0.0}


# ---------------------------------------------------------------- weigh


@pytest.mark.parametrize("make", [None, pd.DataFrame, pl.DataFrame, pa.table])
def test_weigh_on_the_pool_gives_the_weights(make):
    fit = length(make)
    pool = np.r_[PLAIN, LONG]
    weighed = fit.weigh(pool if make is None else make({"x": pool}))
    assert type(weighed) is type(fit.weights)
    np.testing.assert_allclose(np.asarray(weighed), np.asarray(fit.weights), rtol=1e-12)


@pytest.mark.parametrize("form", ["dense", "log", "sparse", "sparse log"])
@pytest.mark.parametrize("kind", KINDS)
def test_weigh_of_a_matrix(kind, form):
    d = design(kind, 4, 80, 0)
    given, log = {
        "dense": (d.omega, False),
        "log": (log_of(d.omega), True),
        "sparse": (sparse.csr_array(d.omega), False),
        "sparse log": (as_sparse_log(d.omega), True),
    }[form]
    fit = vardi.debias_matrix(given, d.source, log=log)
    np.testing.assert_allclose(fit.weigh(given), fit.weights, rtol=1e-12)
    np.testing.assert_allclose(fit.weigh(given[:7]), fit.weights[:7], rtol=1e-12)


def test_weigh_new_rows():
    fit = length()
    new = np.array([0.0, 1.0, 100.0])
    expected = 1 / (0.4 / fit.omegas["plain"] + 0.6 * new / fit.omegas["long"])
    np.testing.assert_allclose(fit.weigh(new), expected, rtol=1e-12)
    frame = pd.DataFrame({"x": new}, index=["p", "q", "r"])
    weighed = fit.weigh(frame)
    assert weighed.index.tolist() == ["p", "q", "r"]
    assert weighed.name == "weight"


def test_weigh_with_functions_and_products():
    biases = {"plain": 1, "long": lambda x: x, "both": vardi.where("x") * vardi.biases.FunctionBias(lambda x: x)}
    fit = vardi.debias({"plain": PLAIN, "long": LONG}, biases)
    np.testing.assert_allclose(fit.weigh(PLAIN), fit.weights[:40], rtol=1e-12)


def test_weigh_does_not_ask_for_states_that_were_not_sampled():
    """An unsampled state has no part in a weight, so a value given for the pool alone is no obstacle."""
    fit = vardi.debias({"plain": PLAIN, "long": LONG}, {"plain": 1, "long": "x", "state": np.ones(100)})
    np.testing.assert_allclose(fit.weigh(PLAIN), fit.weights[:40], rtol=1e-12)


def test_weigh_refuses_what_it_cannot_know():
    fit = vardi.debias({"low": np.array([1.0, 2.0])}, {"low": "x <= 5"})
    with pytest.raises(
        vardi.ImpossibleRowError, match=r"No sampled bias covers 2 of the new rows \(the first is row 1\)"
    ) as caught:
        fit.weigh(np.array([1.0, 7.0, 8.0]))
    assert caught.value.sample is None
    assert caught.value.rows == (1, 2)
    with pytest.raises(vardi.InvalidBiasError, match="tied to the rows of the pool"):
        vardi.debias({"a": PLAIN}, {"a": PLAIN}).weigh(PLAIN)
    with pytest.raises(vardi.MismatchError, match="There is no column 'x'"):
        length().weigh(pd.DataFrame({"y": [1.0]}))
    with pytest.raises(vardi.MissingValuesError):
        length().weigh(np.array([1.0, np.nan]))
    with pytest.raises(
        vardi.MismatchError, match=r"The new rows have shape \(3, 1\). Give a matrix of biases with 2 columns"
    ):
        vardi.debias_matrix(np.ones((2, 2)), [0, 1]).weigh(np.ones((3, 1)))


def test_weigh_speaks_of_the_new_rows_and_not_of_the_pool():
    with pytest.raises(vardi.InvalidBiasError, match="row 1 of the new rows") as caught:
        length().weigh(np.array([1.0, -2.0]))
    assert caught.value.sample == "long"
    assert caught.value.rows == (1,)


def test_weigh_no_rows():
    assert len(length().weigh(np.array([]))) == 0


# ---------------------------------------------------------------- sample


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_in_frames_out(make):
    fit = length(make)
    drawn = fit.sample(30, seed=1)
    assert type(drawn) is type(make({"x": PLAIN}))
    assert len(drawn) == 30
    values = np.asarray(drawn["x"])
    assert np.isin(values, np.r_[PLAIN, LONG]).all()
    np.testing.assert_array_equal(values, length().sample(30, seed=1))


def test_sample_is_seeded():
    fit = length()
    np.testing.assert_array_equal(fit.sample(50, seed=4), fit.sample(50, seed=4))
    np.testing.assert_array_equal(fit.sample(50, np.random.default_rng(4)), fit.sample(50, seed=4))
    assert (fit.sample(50, seed=4) != fit.sample(50, seed=5)).any()
    assert (fit.sample(50) != fit.sample(50)).any()


def test_sample_keeps_rows_whole_and_their_index():
    frames = {
        "plain": pd.DataFrame({"x": PLAIN, "twice": 2 * PLAIN}, index=[f"p{i}" for i in range(40)]),
        "long": pd.DataFrame({"x": LONG, "twice": 2 * LONG}, index=[f"l{i}" for i in range(60)]),
    }
    drawn = vardi.debias(frames, BIASES).sample(500, seed=0)
    assert list(drawn.columns) == ["x", "twice"]
    np.testing.assert_array_equal(drawn["twice"], 2 * drawn["x"])
    pool = pd.concat(frames.values())
    np.testing.assert_array_equal(pool.loc[drawn.index, "x"], drawn["x"])


def test_sample_draws_in_proportion():
    fit = length()
    drawn = vardi.debias_matrix(
        np.column_stack([np.ones(100), np.r_[PLAIN, LONG]]), np.repeat([0, 1], [40, 60])
    ).sample(200_000, seed=0)
    share = np.bincount(drawn, minlength=100) / 200_000
    error = np.sqrt(fit.probabilities * (1 - fit.probabilities) / 200_000)
    assert np.abs((share - fit.probabilities) / error).max() < 4.5  # 100 shares
    mean = fit.probabilities @ np.r_[PLAIN, LONG]
    spread = np.sqrt(fit.probabilities @ (np.r_[PLAIN, LONG] - mean) ** 2)
    assert abs(fit.sample(100_000, seed=1).mean() - mean) < 4 * spread / np.sqrt(100_000)


def test_sample_counts_rows_by_their_counts():
    fit = vardi.debias_matrix(np.ones((3, 1)), [0, 0, 0], counts=[0, 1, 9])
    share = np.bincount(fit.sample(20_000, seed=0), minlength=3) / 20_000
    assert share[0] == 0
    assert share[2] == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / 20_000))


def test_sample_without_replacement():
    fit = length()
    drawn = fit.sample(100, seed=0, replace=False)
    np.testing.assert_array_equal(np.sort(drawn), np.sort(np.r_[PLAIN, LONG]))
    assert len(set(fit.sample(40, seed=0, replace=False).tolist())) == 40
    with pytest.raises(vardi.VardiError, match="100"):
        fit.sample(101, seed=0, replace=False)


def test_sample_of_different_libraries_has_no_one_form():
    fit = vardi.debias({"plain": pd.DataFrame({"x": PLAIN}), "long": pl.DataFrame({"x": LONG})}, BIASES)
    with pytest.raises(vardi.MismatchError, match=r"different libraries.*one library"):
        fit.sample(3)


# ---------------------------------------------------------------- names, copies, text


def test_names_keep_order_and_labels():
    frame = pd.DataFrame({"x": np.r_[LONG, PLAIN], "year": np.repeat([2024, 1999], [60, 40])})
    fit = vardi.debias(frame, {1999: 1, 2024: "x", 1985: "x**2"}, source="year")
    assert fit.names == (1999, 2024, 1985)
    assert fit.sizes == {1999: 40, 2024: 60, 1985: 0}
    assert set(map(type, fit.names)) == {int}
    assert fit.omegas[2024] == pytest.approx(length().omegas["long"], rel=1e-12)
    mapping = vardi.debias({"z": LONG, "a": PLAIN}, {"m": "x**2", "a": 1, "z": "x"})
    assert mapping.names == ("z", "a", "m")
    assert list(mapping.sizes) == ["z", "a", "m"]


@pytest.mark.parametrize("again", [lambda fit: pickle.loads(pickle.dumps(fit)), copy.copy, copy.deepcopy])
@pytest.mark.parametrize("make", [None, pd.DataFrame, pl.DataFrame, pa.table])
def test_a_fit_can_be_copied_and_pickled(make, again):
    fit = length(make)
    other = again(fit)
    np.testing.assert_array_equal(np.asarray(other.weights), np.asarray(fit.weights))
    assert other.omegas == fit.omegas
    assert other.names == fit.names
    new = np.array([1.0, 2.0])
    new = new if make is None else make({"x": new})
    np.testing.assert_array_equal(np.asarray(other.weigh(new)), np.asarray(fit.weigh(new)))
    np.testing.assert_array_equal(np.asarray(other.sample(5, seed=0)), np.asarray(fit.sample(5, seed=0)))
    assert other.identify().message == fit.identify().message


def test_repr_and_length():
    fit = length()
    assert repr(fit) == "DebiasedSample(100 rows of 2 samples)"
    assert len(fit) == 100
    assert repr(vardi.debias({"a": PLAIN}, {"a": 1})) == "DebiasedSample(40 rows of 1 sample)"


def test_the_summary_fits_one_screen_and_names_everything():
    text = length(pd.DataFrame).summary()
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= 100
    for part in ("100 rows", "plain", "long", "square", "x"):
        assert part in text
    assert str(length(pd.DataFrame)) == text
    for fit in (length(), length(pl.DataFrame), vardi.debias_matrix(np.ones((2, 2)), [0, 1])):
        assert fit.summary()
        assert "<" in fit._repr_html_()


# ---------------------------------------------------------------- answers that are known


def test_one_sample_is_inverse_weighting():
    fit = vardi.debias({"long": LONG}, {"long": "x"})
    np.testing.assert_allclose(fit.weights, (1 / LONG) / np.mean(1 / LONG), rtol=1e-13)
    assert fit.omegas["long"] == pytest.approx(1 / np.mean(1 / LONG), rel=1e-13)  # the harmonic mean
    assert fit.solution.converged
    by_function = vardi.debias_matrix(-LONG[:, None] * 100, np.zeros(60, dtype=int), log=True)
    expected = np.exp(100 * (LONG - LONG.max()))
    np.testing.assert_allclose(by_function.probabilities, expected / expected.sum(), rtol=1e-11, atol=1e-290)


def test_one_sample_without_bias_is_left_alone():
    fit = vardi.debias({"plain": PLAIN}, {"plain": 1})
    np.testing.assert_array_equal(fit.weights, np.ones(40))
    assert fit.omegas == {"plain": 1.0}


@pytest.mark.parametrize(("n_plain", "n_long"), [(1, 1), (40, 60), (3, 500), (500, 3)])
def test_length_bias_with_a_plain_sample_is_one_scalar_equation(n_plain, n_long):
    """The paper's Example 1: mu = Omega of the length-biased sample solves sum_i 1 / (n_1 + n_2 x_i / mu) = 1."""
    rng = np.random.default_rng(n_plain)
    plain, long = rng.gamma(3.0, size=n_plain), rng.gamma(4.0, size=n_long)
    x = np.r_[plain, long]
    mu = np.exp(brentq(lambda t: np.sum(1 / (n_plain + n_long * x / np.exp(t))) - 1, -20, 20, xtol=1e-15, rtol=1e-15))
    fit = vardi.debias({"plain": plain, "long": long}, {"plain": 1, "long": "x"})
    assert fit.omegas["long"] == pytest.approx(mu, rel=1e-12)
    assert fit.omegas["plain"] == pytest.approx(1, rel=1e-12)
    np.testing.assert_allclose(fit.probabilities, 1 / (n_plain + n_long * x / mu), rtol=1e-12)
    assert fit.probabilities @ x == pytest.approx(mu, rel=1e-12)  # mu is the mean of the population


def test_one_plain_indicator_is_a_matter_of_counting():
    """Two samples, one of them below 22: Omega is the share below among the plain ones, and nothing else."""
    plain, low = np.array([10.0, 20.0, 30.0, 40.0, 50.0]), np.array([1.0, 2.0, 3.0])
    fit = vardi.debias({"plain": plain, "low": low}, {"plain": 1, "low": "x <= 22"})
    assert fit.omegas["low"] == pytest.approx(2 / 5, rel=1e-13)
    np.testing.assert_allclose(
        fit.probabilities, [2 / 5 / 5, 2 / 5 / 5, 1 / 5, 1 / 5, 1 / 5, *[2 / 25] * 3], rtol=1e-13
    )


def test_label_shift_with_the_exact_proportions_has_normalisers_one():
    """The paper's Appendix B: priors known, classes drawn in exactly the declared shares."""
    population = {"a": 0.5, "b": 0.3, "c": 0.2}
    shares = {
        "even": {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3},
        "rare": {"a": 0.1, "b": 0.2, "c": 0.7},
        "plain": population,
    }
    sizes = {"even": 30, "rare": 20, "plain": 40}
    samples = {
        name: pd.DataFrame({"label": np.repeat(list(share), [round(p * sizes[name]) for p in share.values()])})
        for name, share in shares.items()
    }
    biases = {name: vardi.class_shift("label", share, population=population) for name, share in shares.items()}
    fit = vardi.debias(samples, biases)
    for name in samples:
        assert fit.omegas[name] == pytest.approx(1, rel=1e-12)
    labels = pd.concat(samples.values())["label"].to_numpy()
    for label, share in population.items():
        assert fit.probabilities[labels == label].sum() == pytest.approx(share, rel=1e-12)


@pytest.mark.parametrize("origin", origins("quasars"))
def test_doubly_truncated_quasars(origin):
    """K = n = 210: each quasar is seen through a window of its own, u_k <= y <= v_k."""
    y, u, v = read(origin, "quasars")[["y", "u", "v"]].to_numpy().T
    assert len(y) == 210
    omega = ((y[:, None] >= u) & (y[:, None] <= v)).astype(float)
    fit = vardi.debias_matrix(omega, np.arange(210))
    certify(fit, omega, np.arange(210))
    assert np.isfinite(fit.solution.certificate)
    assert fit.solution.certificate < 1e-6
    certify(vardi.debias_matrix(sparse.csr_array(omega), np.arange(210)), omega, np.arange(210))
    windows = {k: f"{u[k]!r} <= x <= {v[k]!r}".replace("np.float64(", "").replace(")", "") for k in range(210)}
    by_text = vardi.debias(y, windows, source=np.arange(210))
    np.testing.assert_allclose(by_text.weights, fit.weights, rtol=1e-11)


# ---------------------------------------------------------------- designs whose truth is known


SEEDS = range(20)


def assert_unbiased(estimates, truth, most=5.0):
    """Compare the mean over seeds with the truth, in its own standard errors."""
    estimates, truth = np.asarray(estimates), np.asarray(truth)
    error = estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates))
    off = np.abs(estimates.mean(axis=0) - truth)
    assert (off <= most * error + 1e-12).all(), (estimates.mean(axis=0), truth, error)


def column(design_, name: str) -> np.ndarray:
    rows = np.concatenate(list(design_.samples.values()))
    return rows if name == "x" else rows[:, int(name.removeprefix("x"))]


TRUTHS = {
    "length_bias": (datasets.length_bias, {"mean": lambda d: column(d, "x")}),
    "tilts": (datasets.tilts, {"mean": lambda d: column(d, "x")}),
    "exponential_tilts": (datasets.exponential_tilts, {"mean": lambda d: column(d, "x")}),
    "strata": (datasets.strata, {"mean": lambda d: column(d, "x1"), "mean of x0": lambda d: column(d, "x0")}),
    "two_gaussians": (
        lambda seed: datasets.two_gaussians(seed, sizes=(120, 1200, 120)),  # with 30 rows a side some draws do not meet
        {f"mean of x{j}": lambda d, j=j: column(d, f"x{j}") for j in (0, 1)},
    ),
    "multivariate_length_bias": (
        datasets.multivariate_length_bias,
        {f"mean of x{j}": lambda d, j=j: column(d, f"x{j}") for j in (0, 1)},
    ),
} | {
    f"gaussian_scenario {letter}": (
        lambda letter=letter, **options: datasets.gaussian_scenario(letter, **options),
        {"mean": lambda d: np.linalg.norm(np.concatenate(list(d.samples.values())), axis=1)},
    )
    for letter in "abcdefghijkl"
}


@pytest.mark.parametrize("name", TRUTHS)
def test_simulated_designs_estimate_their_truth(name):
    draw, quantities = TRUTHS[name]
    fits = [(d, vardi.debias(d.samples, d.biases)) for d in (draw(seed=seed) for seed in SEEDS)]
    truth = fits[0][0].truth
    for key, quantity in quantities.items():
        assert_unbiased([fit.probabilities @ quantity(d) for d, fit in fits], truth[key])
    names = fits[0][1].names
    assert_unbiased([[fit.omegas[k] for k in names] for _, fit in fits], [truth[f"Omega of {k}"] for k in names])


def test_simulated_truncation_estimates_its_truth():
    means, ratios = [], []
    for seed in SEEDS:
        d = datasets.truncation(seed=seed)
        try:
            fit = vardi.debias_matrix(d.omega, d.source)
        except vardi.NotIdentifiableError:  # its docstring allows for that
            continue
        certify(fit, d.omega, d.source)
        means.append(fit.probabilities @ d.rows)
        ratios.append(np.mean(np.array(list(fit.omegas.values())) - d.truth["Omegas"]))
    assert len(means) >= 15
    assert_unbiased(means, 0.5)
    assert_unbiased(ratios, 0.0)


def test_simulated_oscillators_estimate_their_truth():
    estimates = []
    for seed in SEEDS:
        d = datasets.harmonic_oscillators(seed=seed)
        fit = vardi.debias_matrix(d.omega, d.source, log=d.log)
        values = np.array(list(fit.log_omegas.values()))
        estimates.append(values - values[0])
    assert_unbiased(estimates, d.truth["log Omega differences"])


def test_errors_of_states_that_are_far_from_the_population():
    """Rows e^1000 apart in likelihood have no weight in the population, and all of it under their states."""
    rng = np.random.default_rng(0)
    centres, source = np.array([0.0, 0.8, 1.6]), np.repeat(np.arange(3), 60)
    logs = -0.5 * (rng.normal(centres[source])[:, None] - centres) ** 2
    near = vardi.debias_matrix(logs, source, log=True)
    far = vardi.debias_matrix(logs + rng.normal(0, 1000, (180, 1)), source, log=True)
    errors = []
    for fit in (near, far):
        C = fit.log_omega_covariance()
        with warnings.catch_warnings(action="ignore", category=vardi.WeakOverlapWarning):
            found = fit.log_normalisers()
        errors.append([np.sqrt(C[0, 0] + C[2, 2] - 2 * C[0, 2]), (found["2"] - found["0"]).stderr])
    assert_allclose(errors[1], errors[0], rtol=1e-7)
