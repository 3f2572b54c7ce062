"""Known values of the population: what they must equal, what must not change, and what bad ones get."""

from __future__ import annotations

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn.linear_model import LinearRegression, LogisticRegression

import vardi
from vardi.learn import inference

RNG = np.random.default_rng(85)


X = np.arange(5.0)


def people(n, seed):
    """Return a small population: region, sex, income, which depends on both."""
    rng = np.random.default_rng(seed)
    region, sex = rng.choice(["N", "S", "W"], n, p=[0.2, 0.5, 0.3]), rng.choice(["f", "m"], n)
    income = 2.0 + (region == "N") + 0.5 * (sex == "m") + rng.uniform(0, 3, n)
    return pd.DataFrame({"region": region, "sex": sex, "income": income, "age": rng.integers(18, 80, n)})


def three_regions(seed=0, sizes=(80, 40, 60)):
    """Return samples of three regions that share no rows, and their biases."""
    everyone = people(3000, seed)
    samples = {
        name: everyone[everyone.region == name].head(size).reset_index(drop=True)
        for name, size in zip("NSW", sizes, strict=True)
    }
    return samples, {name: f"region == '{name}'" for name in samples}


SHARES = {"N": 0.2, "S": 0.5, "W": 0.3}
MARGINS = {"region": SHARES, "sex": {"f": 0.55, "m": 0.45}}


# ---------------------------------------------------------------- what they must equal


def test_disjoint_strata_are_post_stratified():
    samples, biases = three_regions()
    fit = vardi.debias(samples, biases, known=SHARES)
    sizes = {name: len(rows) for name, rows in samples.items()}
    expected = np.concatenate([np.full(sizes[name], SHARES[name] * 180 / sizes[name]) for name in samples])
    np.testing.assert_allclose(np.asarray(fit.weights), expected, rtol=1e-12)
    income = fit.expectation("income")
    assert income.value == pytest.approx(sum(SHARES[k] * samples[k].income.mean() for k in samples), rel=1e-12)
    variance = sum(SHARES[k] ** 2 * samples[k].income.var(ddof=1) / sizes[k] for k in samples)
    assert income.stderr == pytest.approx(np.sqrt(variance), rel=1e-12)
    assert fit.omegas == pytest.approx(SHARES, rel=1e-12)
    assert fit.known.df == 0
    assert np.isnan(fit.known.pvalue)


def test_all_shares_but_one_say_the_same():
    samples, biases = three_regions()
    fit, less = (vardi.debias(samples, biases, known=s) for s in (SHARES, {"N": 0.2, "W": 0.3}))
    np.testing.assert_allclose(np.asarray(less.weights), np.asarray(fit.weights), rtol=1e-12)


def test_a_margin_says_the_same_as_the_samples():
    samples, biases = three_regions()
    fit = vardi.debias(samples, biases, known=SHARES)
    by_column = vardi.debias(samples, biases, known={"region": SHARES})
    by_condition = vardi.debias(samples, biases, known={"region == 'N'": 0.2, vardi.isin("region", ["S"]): 0.5})
    for other in (by_column, by_condition):
        np.testing.assert_allclose(np.asarray(other.weights), np.asarray(fit.weights), rtol=1e-12)


def test_several_margins_are_met():
    samples, biases = three_regions()
    fit = vardi.debias(samples, biases, known=MARGINS)
    assert fit.known.residual < 1e-13
    for column, known in MARGINS.items():
        for value, share in known.items():
            assert fit.expectation(f"{column} == '{value}'").value == pytest.approx(share, rel=1e-10)
            assert fit.expectation(f"{column} == '{value}'").stderr < 1e-14


@pytest.mark.filterwarnings("ignore::vardi.VardiWarning")
def test_shares_that_are_far_off_are_met():
    """What some weights meet is met, however far from what the rows say: patterns of several conditions at once."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        patterns = np.unique((rng.random((rng.integers(3, 40), rng.integers(1, 7))) < 0.5).astype(float), axis=0)
        target = rng.dirichlet(np.ones(len(patterns))) @ patterns
        rows = patterns[rng.choice(len(patterns), 4 * len(patterns), p=rng.dirichlet(np.ones(len(patterns))))]
        rows = np.concatenate([patterns, rows])
        frame = pd.DataFrame(rows, columns=[f"h{j}" for j in range(rows.shape[1])])
        fit = vardi.debias({"a": frame}, {"a": 1}, known=dict(zip(frame.columns, target.tolist(), strict=True)))
        np.testing.assert_allclose(np.asarray(fit.probabilities) @ rows, target, atol=1e-10)
        assert (np.asarray(fit.weights) > 0).all()


def test_normalisers_are_those_of_the_weights():
    design = vardi.datasets.length_bias(seed=3)
    x = np.concatenate(list(design.samples.values()))
    fit = vardi.debias(design.samples, design.biases, known={"x <= 2": 0.3, "x > 3": 0.45})
    shares = {name: float(np.mean(fit.weights * x**power)) for name, power in zip(fit.names, (0, 1, 2), strict=True)}
    assert fit.omegas == pytest.approx(shares, rel=1e-9)


def test_collapsed_rows_give_the_same():
    everyone = people(40_000, 1)
    samples = {"all": everyone.head(2000), "men": everyone[everyone.sex == "m"], "north": everyone[everyone.age < 40]}
    biases = {"all": 1, "men": "sex == 'm'", "north": "age < 40"}
    shares = {"region": SHARES, "sex == 'm'": 0.5}
    fit = vardi.debias(samples, biases, known=shares)
    apart = {name: f"({bias}) * (1 + 1e-13 * age)" for name, bias in biases.items()}  # so that no rows are equal
    whole = vardi.debias(samples, apart, known=shares)
    np.testing.assert_allclose(np.asarray(fit.weights), np.asarray(whole.weights), rtol=1e-9)
    assert fit.expectation("income").stderr == pytest.approx(whole.expectation("income").stderr, rel=1e-9)
    assert fit.known.statistic == pytest.approx(whole.known.statistic, rel=1e-8)


def test_case_control_recovers_the_intercept():
    rng = np.random.default_rng(4)
    x = rng.normal(size=400_000)
    ill = rng.random(len(x)) < 1 / (1 + np.exp(4.0 - x))
    frame = pd.DataFrame({"x": x, "ill": ill.astype(int)})
    samples = {"cases": frame[ill].head(2000), "controls": frame[~ill].head(4000)}
    biases = {"cases": "ill == 1", "controls": "ill == 0"}
    fit = vardi.debias(samples, biases, known={"cases": float(ill.mean())})
    result = inference(fit, LogisticRegression(C=np.inf, tol=1e-8), ["x"], "ill")
    assert abs(result["intercept"].value + 4.0) < 3 * result["intercept"].stderr < 0.2
    assert abs(result["x"].value - 1.0) < 3 * result["x"].stderr < 0.2
    pool = pd.concat(samples.values())
    naive = LogisticRegression(C=np.inf).fit(pool[["x"]], pool.ill)
    assert naive.intercept_[0] > -2.0  # half of a design's rows are cases, not a twenty-fifth


def test_case_control_of_a_table_is_bayes_rule():
    table = pd.DataFrame({"ill": [1, 1, 0, 0], "exposed": [1, 0, 1, 0], "n": [30, 20, 40, 110]})
    fit = vardi.debias(table, {1: "ill == 1", 0: "ill == 0"}, source="ill", counts="n", known={1: 0.02})
    p = {(i, e): n for i, e, n in table.itertuples(index=False)}
    unexposed = np.log(0.02 * p[1, 0] / 50) - np.log(0.98 * p[0, 0] / 150)
    exposed = np.log(0.02 * p[1, 1] / 50) - np.log(0.98 * p[0, 1] / 150)
    result = inference(fit, LogisticRegression(C=np.inf, tol=1e-10), ["exposed"], "ill")
    assert result["intercept"].value == pytest.approx(unexposed, abs=1e-9)
    assert result["exposed"].value == pytest.approx(exposed - unexposed, abs=1e-9)
    # the log odds ratio of a case-control table has Woolf's variance, whatever the prevalence (here with n - 1)
    woolf = (1 / 30 + 1 / 20) * 50 / 49 + (1 / 40 + 1 / 110) * 150 / 149
    assert result["exposed"].stderr == pytest.approx(np.sqrt(woolf), rel=1e-9)


def test_matrix_with_names_of_columns():
    omega = np.array([[2.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    source = [0, 0, 1, 1, 1]
    fit = vardi.debias_matrix(omega, source, known={"0": 0.5})  # a quarter of the population, in a scale of 2
    np.testing.assert_allclose(fit.probabilities, [0.125, 0.125, 0.25, 0.25, 0.25], rtol=1e-12)
    with np.errstate(divide="ignore"):
        logs = vardi.debias_matrix(np.log(omega), source, log=True, known={"0": 0.5})
    few = vardi.debias_matrix(sparse.csr_array(omega), source, known={"0": 0.5})
    for other in (logs, few):
        np.testing.assert_allclose(other.weights, fit.weights, rtol=1e-12)
        np.testing.assert_allclose(other.weigh(other.solved.rows.matrix), fit.weights, rtol=1e-12)
    assert fit.omegas == pytest.approx({"0": 0.5, "1": 0.75}, rel=1e-12)


# ---------------------------------------------------------------- errors are those of the whole procedure


@pytest.mark.parametrize("case", ["overlap", "groups", "groups and overlap"])
def test_influence_is_the_derivative(case):
    """One more count of a row moves an estimate by its influence value, up to a constant within samples."""
    if case == "overlap":
        design = vardi.datasets.length_bias(sizes=(8, 9, 7), seed=2)
        samples, biases, shares = design.samples, design.biases, {"x <= 2": 0.35, "x > 4": 0.2}
        values = np.sin(np.concatenate(list(samples.values())))
    else:
        samples, biases = three_regions(sizes=(9, 7, 8))
        shares = MARGINS
        if case == "groups and overlap":
            samples["young"] = samples["S"].head(6).assign(age=20)
            biases["young"] = "region == 'S' and age < 50"
        values = pd.concat(samples.values()).income.to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.VardiWarning)

        def fitted(counts):
            return vardi.debias(samples, biases, known=shares, counts=np.rint(counts / step))  # whole; ratios matter

        n, step = len(values), 1e-4
        fit = vardi.debias(samples, biases, known=shares)
        phi = fit.expectation(values).influence.of_rows()
        slopes = []
        for i in range(n):
            up, down = (fitted(1 + sign * step * (np.arange(n) == i)) for sign in (1, -1))
            means = [np.average(values, weights=np.asarray(one.probabilities)) for one in (up, down)]
            slopes.append((means[0] - means[1]) / (2 * step) * n)
    source = fit.solved.memory.source
    for k in np.unique(source):
        inside = source == k
        np.testing.assert_allclose(
            np.array(slopes)[inside] - np.mean(np.array(slopes)[inside]),
            phi[inside, 0] - phi[inside, 0].mean(),
            atol=1e-5 * np.abs(phi).max(),
        )


def test_band_has_the_covariance_of_the_cdf():
    samples, biases = three_regions(sizes=(80, 300, 60))
    samples["young"] = three_regions(sizes=(80, 300, 60), seed=1)[0]["S"].tail(150).query("age < 50")
    biases["young"] = "region == 'S' and age < 50"
    fit = vardi.debias(samples, biases, known=MARGINS)
    cdf = fit.cdf("income")
    grid = np.array([2.5, 3.0, 4.0])
    there = cdf(grid)
    below = fit.expectations([f"income <= {x}" for x in grid])
    np.testing.assert_allclose(there.values, below.values, rtol=1e-12)
    np.testing.assert_allclose(there.covariance, below.covariance, rtol=1e-9)
    band = cdf.band(draws=200)
    assert (band.low <= band.value).all()
    assert (band.value <= band.high).all()


def test_normalisers_and_their_covariance_agree():
    design = vardi.datasets.tilts(seed=5)
    fit = vardi.debias(design.samples, design.biases, known={"x > 0": 0.5})
    logs = fit.log_normalisers()
    covariance = fit.log_omega_covariance()
    assert [one.stderr**2 for one in logs.values()] == pytest.approx(np.diag(covariance), rel=1e-9)
    assert fit.normalisers()[fit.names[0]].value == pytest.approx(fit.omegas[fit.names[0]], rel=1e-12)
    assert max(fit.paper_normalisers()[k] / (fit.sizes[k] / 550) for k in fit.names) == pytest.approx(1.0, rel=1e-12)


def test_known_shares_make_errors_smaller():
    design = vardi.datasets.strata(sizes=(3500, 1200, 1300), seed=1)
    plain = vardi.debias(design.samples, design.biases)
    fit = vardi.debias(design.samples, design.biases, known={"x0 < 0.4": 0.4, "x0 < 0.75": 0.75})
    assert fit.expectation("x0").stderr < 0.6 * plain.expectation("x0").stderr


def test_bootstrap_meets_the_shares_in_every_draw():
    samples, biases = three_regions()
    north = np.concatenate([rows.region == "N" for rows in samples.values()])
    men = np.concatenate([rows.sex == "m" for rows in samples.values()])
    fit = vardi.debias(samples, biases, known=MARGINS)
    for kind in ("bayesian", "rows"):
        draws = fit.bootstrap(lambda w: [np.mean(w * north), np.mean(w * men)], n=30, kind=kind)
        np.testing.assert_allclose(draws.values, [[0.2, 0.45]] * 30, atol=1e-9)
    spread = fit.bootstrap("income", n=400)
    assert spread.stderr == pytest.approx(fit.expectation("income").stderr, rel=0.1)
    assert fit.bootstrap(n=5).log_omegas[:, 0] == pytest.approx(np.log(0.2), abs=1e-9)


def test_bootstrap_of_rows_says_when_cells_are_lost():
    samples = {"a": np.arange(6.0), "b": np.arange(10.0, 16.0)}
    biases = {"a": "x < 9", "b": "x > 9"}
    fit = vardi.debias(samples, biases, known={"a": 0.5, "x == 0 or x == 1": 0.1})
    with pytest.raises(vardi.NotIdentifiableError, match="cannot meet the known values") as caught:
        fit.bootstrap("x", n=20, kind="rows")  # a batch, of which some have no fit
    assert caught.value.groups == (("a",), ("b",))


def test_trust_is_within_groups():
    rng = np.random.default_rng(0)
    samples = {
        "low": rng.uniform(0, 0.52, 100),
        "high": rng.uniform(0.5, 1, 100),
        "far": rng.uniform(2, 3, 50),
    }
    biases = {"low": "x <= 0.52", "high": "0.5 <= x <= 1", "far": "x >= 2"}
    fit = vardi.debias(samples, biases, known={"far": 0.3})
    assert fit.trust.bridging < 5
    assert {frozenset(side) for side in fit.trust.cut} == {frozenset({"low"}), frozenset({"high"})}
    few = {"far": rng.uniform(2, 3, 50), "one": rng.uniform(0, 1, 4), "two": rng.uniform(0, 1, 4)}
    fit = vardi.debias(few, {"far": "x >= 2", "one": "x <= 1", "two": "x <= 1"}, known={"far": 0.3})
    assert fit.trust.bridging == pytest.approx(2.0)  # sum p (1 - p) over eight rows
    samples, biases = three_regions()
    assert vardi.debias(samples, biases, known=SHARES).trust.bridging == np.inf


def test_weights_that_a_mean_bends_have_no_heavy_tail():
    """Weights of indicator biases are bounded; a known mean makes of a few values many, in two heaps far apart."""
    rng = np.random.default_rng(0)
    samples = {"young": rng.uniform(20, 40, 1500), "all": rng.uniform(20, 80, 120)}
    biases = {"young": "x <= 40", "all": 1}
    assert len(np.unique(vardi.debias(samples, biases).weights.round(9))) == 2
    fit = vardi.debias(samples, biases, known={"x": 50.3})
    assert len(np.unique(fit.weights.round(9))) > 1000
    frames = {k: pl.LazyFrame({"x": x}) for k, x in samples.items()}
    for one in (fit, vardi.debias(frames, biases, known={"x": 50.3})):
        assert one.diagnostics(["x"]).trust.messages == ()
        assert one.expectation("x > 60").stderr > 0
    heavy = vardi.debias({"a": 1 / rng.uniform(0, 1, 2000) ** 0.8}, {"a": "1 / x"}, known={"x > 3": 0.7})
    assert heavy.diagnostics(["x"]).trust.tail_index > 0.4  # which the bias makes


# ---------------------------------------------------------------- what must not change


@pytest.mark.filterwarnings("ignore::vardi.VardiWarning")
@given(st.floats(1e-3, 1e3), st.integers(0, 50))
def test_scale_of_biases_does_not_matter(factor, seed):
    samples, biases = three_regions(seed, sizes=(12, 15, 14))
    fit = vardi.debias(samples, biases, known=MARGINS)
    scaled = {**biases, "S": factor * vardi.where(biases["S"])}
    other = vardi.debias(samples, scaled, known=MARGINS)
    np.testing.assert_allclose(np.asarray(other.weights), np.asarray(fit.weights), rtol=1e-10)
    named = vardi.debias(samples, scaled, known={**SHARES, "S": 0.5 * factor})  # in the scale that was declared
    assert named.omegas["S"] == pytest.approx(0.5 * factor, rel=1e-10)
    np.testing.assert_allclose(
        np.asarray(named.weights), np.asarray(vardi.debias(samples, biases, known=SHARES).weights), rtol=1e-10
    )


@pytest.mark.filterwarnings("ignore::vardi.VardiWarning")
@given(st.integers(0, 2**32 - 1))
def test_order_of_rows_and_shares_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    design = vardi.datasets.strata(sizes=(40, 30, 30), seed=7)
    shares = {"x0 < 0.5": 0.5, "x1 > 0.5": 0.7}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.VardiWarning)
        fit = vardi.debias(design.samples, design.biases, known=shares)
        order = {name: rng.permutation(len(rows)) for name, rows in design.samples.items()}
        shuffled = {name: design.samples[name][order[name]] for name in order}
        other = vardi.debias(shuffled, design.biases, known=dict(reversed(shares.items())))
    starts = np.cumsum([0, 40, 30])
    expected = np.concatenate([fit.weights[start + order[k]] for start, k in zip(starts, order, strict=True)])
    np.testing.assert_allclose(other.weights, expected, rtol=1e-9)
    assert other.solved.tangent.estimates(np.full((100, 1), 2.0), 0.95).stderr[0] < 1e-12


@pytest.mark.filterwarnings("ignore::vardi.VardiWarning")
@given(st.lists(st.integers(1, 4), min_size=30, max_size=30))
def test_duplicated_rows_are_counts(counts):
    samples, biases = three_regions(sizes=(10, 10, 10))
    counts = np.array(counts)
    counted = vardi.debias(samples, biases, known=MARGINS, counts=counts)
    pool = pd.concat(samples.values()).reset_index(drop=True)
    repeated = pool.loc[np.repeat(np.arange(30), counts)].reset_index(drop=True)
    twice = vardi.debias(repeated, biases, source="region", known=MARGINS)
    np.testing.assert_allclose(np.asarray(twice.weights), np.repeat(np.asarray(counted.weights), counts), rtol=1e-9)
    one, other = counted.expectation("income"), twice.expectation("income")
    assert (one.value, one.stderr) == pytest.approx((other.value, other.stderr), rel=1e-9)


@pytest.mark.filterwarnings("ignore::vardi.VardiWarning")
@given(st.floats(0.2, 0.8), st.integers(0, 30))
def test_shares_that_the_samples_give_change_nothing(at, seed):
    design = vardi.datasets.strata(sizes=(300, 200, 200), seed=seed)
    plain = vardi.debias(design.samples, design.biases)
    own = {f"x0 < {at}": plain.expectation(f"x0 < {at}").value}
    fit = vardi.debias(design.samples, design.biases, known=own)
    np.testing.assert_allclose(fit.weights, plain.weights, rtol=1e-10)
    assert fit.omegas == pytest.approx(plain.omegas, rel=1e-10)
    assert fit.known.pvalue == pytest.approx(1.0, abs=1e-6)


@pytest.mark.filterwarnings("ignore::vardi.VardiWarning")
@given(st.floats(0.05, 0.95))
def test_a_share_given_twice_is_given_once(share):
    samples = {"low": RNG.uniform(0, 1, 20), "high": RNG.uniform(1, 2, 30)}
    biases = {"low": "x < 1", "high": "x >= 1"}
    once = vardi.debias(samples, biases, known={"low": share})
    twice = vardi.debias(samples, biases, known={"low": share, "x < 1": share, "high": 1 - share})
    np.testing.assert_allclose(twice.weights, once.weights, rtol=1e-10)
    one, other = once.expectation("x"), twice.expectation("x")
    assert (one.value, one.stderr) == pytest.approx((other.value, other.stderr), rel=1e-10)


def test_other_libraries_and_labels():
    samples, biases = three_regions()
    fit = vardi.debias(samples, biases, known=MARGINS)
    pool = pl.from_pandas(pd.concat(samples.values()))
    other = vardi.debias(pool, biases, source="region", known={"region": pd.Series(SHARES), "sex": MARGINS["sex"]})
    assert isinstance(other.weights, pl.Series)
    np.testing.assert_allclose(other.weights.to_numpy(), np.asarray(fit.weights), rtol=1e-12)
    again = pickle.loads(pickle.dumps(fit))
    assert again.expectation("income") == fit.expectation("income")
    assert again.known == fit.known or np.isnan(fit.known.pvalue)


# ---------------------------------------------------------------- contradiction


def test_the_check_is_the_distance_in_standard_errors():
    design = vardi.datasets.tilts(seed=2)
    plain = vardi.debias(design.samples, design.biases).expectation("x > 0")
    check = vardi.debias(design.samples, design.biases, known={"x > 0": 0.5}).known
    line = check.lines[0]
    assert (line.estimated, line.stderr) == pytest.approx((plain.value, plain.stderr), rel=1e-10)
    z = (plain.value - 0.5) / plain.stderr
    assert (check.statistic, check.df, line.z) == (pytest.approx(z**2, rel=1e-9), 1, pytest.approx(z, rel=1e-9))
    assert check.freedom == pytest.approx(plain.influence.spread().df[0], rel=1e-3)
    assert check.pvalue == pytest.approx(2 * stats.t.sf(abs(z), check.freedom), rel=1e-9)
    assert not check.contradicted
    assert "do not contradict what is known" in str(check)


def test_groups_take_their_mass_before_the_rest_is_tested():
    samples, biases = three_regions()
    check = vardi.debias(samples, biases, known=MARGINS).known
    assert check.df == 1  # of three shares of regions and two of sexes one is news
    assert [line.stderr > 0 for line in check.lines] == [False] * 3 + [True] * 2
    men = sum(SHARES[k] * np.mean(samples[k].sex == "m") for k in samples)
    assert check.lines[-1].estimated == pytest.approx(men, rel=1e-12)
    assert "not identified" in check.summary()


def test_contradicted_shares_are_warned_of_and_met():
    design = vardi.datasets.tilts(seed=2)
    with pytest.warns(vardi.ContradictedKnownWarning) as caught:
        fit = vardi.debias(design.samples, design.biases, known={"x > 0": 0.9})
    text = str(caught[0].message)
    assert text.startswith("The samples contradict what is known (T2 = ")
    assert "the largest discrepancy is in 'x > 0'" in text
    assert "A bias or a known value is wrong, or they describe different populations" in text
    assert "If the selection of a sample depends on x, declare it: vardi.exponential_tilt('x > 0')." in text
    assert caught[0].filename == __file__
    assert fit.known.contradicted
    assert fit.expectation("x > 0").value == pytest.approx(0.9, rel=1e-12)


def test_summary_shows_the_shares():
    samples, biases = three_regions()
    fit = vardi.debias(samples, biases, known=MARGINS)
    text = fit.summary()
    assert "known values join them exactly: 'N' 20.0%; 'S' 50.0%; 'W' 30.0%." in " ".join(text.split())
    assert "5 known values are met to" in text
    assert max(map(len, text.splitlines())) <= 80
    assert max(map(len, str(fit.known).splitlines())) <= 80
    assert "<br><b>known</b> 5 known values are met to" in fit._repr_html_()
    assert "\nknown" not in vardi.debias(samples["N"], {"N": 1}, source=["N"] * 80).summary()


# ---------------------------------------------------------------- new rows


def test_the_weight_is_a_function_of_the_row():
    samples, biases = three_regions()
    fit = vardi.debias(samples, {**biases, "not drawn": "age"}, known=MARGINS)
    pool = pd.concat(samples.values())
    np.testing.assert_allclose(fit.weigh(pool.drop(columns="age")), np.asarray(fit.weights), rtol=1e-12)


def test_new_rows_that_nothing_is_known_of():
    samples = {"low": np.linspace(0, 1, 20), "high": np.linspace(3, 4, 20)}
    fit = vardi.debias(samples, {"low": "x <= 2.5", "high": "x >= 2"}, known={"low": 0.4})
    with pytest.raises(vardi.ImpossibleRowError, match="samples of several groups, but no row of the pool") as e:
        fit.weigh(np.array([0.5, 2.2]))
    assert e.value.rows == (1,)
    design = people(200, 0)
    fit = vardi.debias({"all": design}, {"all": 1}, known={"region": SHARES})
    strange = design.head(3).assign(region=["N", "E", "S"])
    with pytest.raises(vardi.ImpossibleRowError, match="a value of 'region' that has no known share") as e:
        fit.weigh(strange)
    assert e.value.rows == (1,)


@pytest.mark.filterwarnings("ignore::vardi.VardiWarning")
def test_new_rows_further_out_than_the_pool_have_no_weight():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(0, 1, 200), "z": rng.normal(size=200)})
    known = {"z > 0": 0.5, "x": 0.4}
    fit = vardi.debias({"all": frame}, {"all": 1}, known=known)
    new = pd.DataFrame({"x": [0.5, -30.0, 0.2, -50.0], "z": 0.1})
    lazy = vardi.debias({"all": pl.LazyFrame(frame)}, {"all": 1}, known=known)
    for one in (fit, lazy):
        assert (np.asarray(one.weigh(new.iloc[[0, 2]])) > 0).all()
        with pytest.raises(vardi.ImpossibleRowError, match="2 of the new rows .* have no weight: 'x', whose mean") as e:
            one.weigh(new)
        assert e.value.rows == (1, 3)
    scorer = vardi.debiased_scorer("squared_error", fit=fit)
    model = LinearRegression().fit(frame, frame["z"])
    with pytest.raises(vardi.ImpossibleRowError, match="'x', whose mean is known, is further out"):
        scorer(model, new, new["z"].rename("target"))
    omega = np.column_stack([np.ones(200), frame["x"]])
    matrix = vardi.debias_matrix(omega, np.zeros(200, int), known={"1": 0.4})
    with pytest.raises(vardi.ImpossibleRowError, match="'1', whose mean is known, is further out"):
        matrix.weigh(np.array([[1.0, -30.0]]))


# ---------------------------------------------------------------- learning


class ByAge(LinearRegression):
    """A line in one column of a frame that has others for the shares to read."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X[["age"]].to_numpy(), y, sample_weight)

    def predict(self, X):
        return super().predict(X[["age"]].to_numpy())


def test_learners_take_shares():
    samples, biases = three_regions()
    pool = pd.concat(samples.values()).reset_index(drop=True)
    source, X, y = pool.region.to_numpy(), pool[["age", "region", "sex"]], pool.income
    fit = vardi.debias(samples, biases, known=MARGINS)
    learner = ByAge()
    model = vardi.DebiasedEstimator(learner, biases=biases, known=MARGINS).fit(X, y, source=source)
    np.testing.assert_allclose(model.fit_.weigh(pool), np.asarray(fit.weights), rtol=1e-12)
    resampler = vardi.DebiasedResampler(biases=biases, known=MARGINS, random_state=0, method="systematic")
    drawn, _ = resampler.fit_resample(X, y, source=source)
    assert np.mean(drawn.region == "N") == pytest.approx(0.2, abs=0.02)
    named = vardi.debiased_risk(learner, X, y, source=source, biases=biases, known=MARGINS)
    own = vardi.debiased_risk(model, X, y, source=source)
    assert 0.5 < named.value < 2.0
    assert own.value == pytest.approx(named.value, rel=0.2)  # of folds debiased on their own
    scorer = vardi.debiased_scorer("squared_error", fit=fit)
    loss = (y - model.predict(X)) ** 2
    assert scorer(model, X, y) == pytest.approx(-np.average(loss, weights=fit.weights), rel=1e-12)


def test_shares_may_read_the_target():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 1)), np.repeat([1, 0], 20)
    model = vardi.DebiasedEstimator(LogisticRegression(), biases={1: "y == 1", 0: "y == 0"}, known={"y == 1": 0.1}).fit(
        X, y, source=y
    )
    weights = model.fit_.weigh(np.rec.fromarrays([y], names="y"))
    assert np.average(y, weights=weights) == pytest.approx(0.1, rel=1e-12)


# ---------------------------------------------------------------- bad shares


def refused(kind, shares, *parts, samples=None, biases=None, **options):
    if samples is None:
        samples, biases = three_regions(sizes=(8, 9, 10))
    with pytest.raises(kind) as caught:
        vardi.debias(samples, biases, known=shares, **options)
    assert type(caught.value) is kind
    text, place = str(caught.value), 0
    for part in parts:
        assert part in text[place:], f"{part!r} is not there, or out of order, in:\n{text}"
        place = text.index(part, place) + len(part)
    return caught.value


def test_what_is_no_mapping():
    refused(vardi.MismatchError, [0.3, 0.7], "known was given as list", "Give a mapping")
    refused(vardi.MismatchError, {}, "There are no known values", "leave known out")


def test_names_that_match_nothing():
    refused(
        vardi.MismatchError,
        {"reigon == 'N'": 0.2},
        "known has \"reigon == 'N'\", which reads 'reigon'",
        "The samples are 'N', 'S', 'W', the columns 'region', 'sex', 'income', 'age'",
        "Did you mean 'region'?",
    )
    refused(vardi.MismatchError, {3: 0.2}, "known has '3', which is neither a sample nor a condition")
    refused(vardi.MismatchError, {"regions": SHARES}, "not a column of every sample", "Did you mean 'region'?")
    with pytest.raises(vardi.MismatchError, match="known has 'x', which is neither a sample nor a column of omega"):
        vardi.debias_matrix(np.ones((3, 1)), [0, 0, 0], known={"x": 0.2})


def test_margins_that_are_not_whole():
    refused(
        vardi.InvalidKnownError,
        {"region": {"N": 0.2, "S": 0.5, "W": 0.2}},
        "The shares of 'region' sum to 0.9",
        "Give shares that sum to 1",
    )
    error = refused(
        vardi.InvalidKnownError,
        {"region": {"N": 0.2, "S": 0.8}},
        "10 rows of the pool have region == 'W', which has no share",
        "The values with a share are 'N', 'S'",
        "Give every value",
    )
    assert error.labels == ("region = W",)
    samples, biases = three_regions(sizes=(8, 9, 10))
    rounded = vardi.debias(samples, biases, known={"region": {"N": 0.333333, "S": 0.333333, "W": 0.333333}})
    assert rounded.omegas["N"] == pytest.approx(1 / 3, rel=1e-12)


def test_cells_without_rows():
    error = refused(
        vardi.InvalidKnownError,
        {"region": {**SHARES, "N": 0.1, "E": 0.1}},
        "No row of the pool is in 'region = E', so no row can carry its share of 0.1",
        "Add such rows",
    )
    assert error.labels == ("region = E",)
    assert error.allowed == {"region = E": (0.0, 0.0)}
    refused(vardi.InvalidKnownError, {**SHARES, "age > 200": 0.1}, "No row of the pool is in 'age > 200'")


def test_values_beyond_the_rows_come_with_the_range():
    samples, _ = three_regions(sizes=(8, 9, 10))
    age = pd.concat(samples.values()).age
    error = refused(
        vardi.InvalidKnownError,
        {**SHARES, "age": 200.0},
        f"The known value of 'age' is 200, but on the rows of the pool it ranges from {age.min()} to {age.max()}",
        f"Correct the value, or add rows above {age.max()}",
    )
    assert error.labels == ("age",)
    assert error.allowed == {"age": (age.min(), age.max())}
    omega = np.array([[2.0, 5.0], [2.0, 6.0], [2.0, 9.0]])
    with pytest.raises(
        vardi.InvalidKnownError, match="The known value of '1' is 10, but .* it ranges from 5 to 9"
    ) as e:
        vardi.debias_matrix(omega, [0, 0, 0], known={"1": 10.0})
    assert e.value.allowed == {"1": (5.0, 9.0)}


def test_missing_values_in_a_cell():
    samples, biases = three_regions(sizes=(8, 9, 10))
    samples["N"].loc[2, "sex"] = None
    error = refused(
        vardi.MissingValuesError,
        MARGINS,
        "The margin of 'sex' needs a value in every row, but 1 row of the pool",
        "Fill them in",
        samples=samples,
        biases=biases,
    )
    assert error.columns == {"sex": 1}


def test_shares_that_cannot_be_met():
    error = refused(
        vardi.InvalidKnownError,
        {"N": 0.6, "S": 0.6},
        "No weights on the rows of the pool meet all known values at once: the nearest values that weights can meet "
        "are ",
        "instead of 0.6 for",
        "Correct the values",
    )
    assert set(error.labels) <= {"N", "S"}
    assert sum(error.nearest.values()) + 0.6 * (2 - len(error.nearest)) == pytest.approx(1.0)
    refused(
        vardi.InvalidKnownError,
        {**SHARES, "region == 'N'": 0.25},
        "contradict one another",
        "is 0 on every row of the pool, but ",
        "Correct them",
    )
    refused(
        vardi.InvalidKnownError,
        {"N": 0.2, "S": 0.3, "region != 'W'": 0.6},
        "contradict one another",
        "is 0 on every row of the pool, but -0.1 by the values given",
    )
    error = refused(
        vardi.InvalidKnownError,
        {"N": 0.4, "S": 0.6},
        "The known values leave nothing for rows with 'N' = 0 and 'S' = 0, but the pool has such rows",
        "no positive weights meet 0.4 for 'N' and 0.6 for 'S'",
    )
    assert error.labels == ("N", "S")
    refused(
        vardi.InvalidKnownError,
        {"region": SHARES, "sex == 'm' and region == 'N'": 0.2},
        "The known values leave nothing for rows with ",
        "but the pool has such rows",
    )


def test_groups_that_the_shares_leave_open():
    error = refused(
        vardi.NotIdentifiableError,
        {"N": 0.2},
        "Overlap leaves the samples in 3 groups",
        "it is undetermined for 'S' or 'W'",
        "Give the share of what such a group can draw",
    )
    assert error.groups == (("N",), ("S",), ("W",))
    refused(vardi.NotIdentifiableError, {"sex": MARGINS["sex"]}, "it is undetermined for 'N' or 'S' or 'W'")


def test_overlap_in_one_direction_is_refused_with_a_way_out():
    rng = np.random.default_rng(0)
    samples = {"all": rng.uniform(1, 5, 40), "rare": rng.uniform(0, 0.1, 30)}
    refused(
        vardi.NotIdentifiableError,
        {"rare": 0.02},
        "overlap in one direction only",
        "If the share of what 'rare' could have drawn is known, exclude it from the bias of 'all'",
        samples=samples,
        biases={"all": 1, "rare": "x < 0.1"},
    )
    fit = vardi.debias(samples, {"all": "not x < 0.1", "rare": "x < 0.1"}, known={"rare": 0.02})
    expected = 0.98 * samples["all"].mean() + 0.02 * samples["rare"].mean()
    assert fit.expectation("x").value == pytest.approx(expected, rel=1e-12)


def test_groups_of_several_samples_are_named_together():
    samples = {k: start + np.arange(4.0) for k, start in zip("abcde", (0, 2, 10, 12, 20), strict=True)}
    refused(
        vardi.NotIdentifiableError,
        {"a": 0.2},
        "it is undetermined for ('c', 'd') or 'e'. Give the share",
        samples=samples,
        biases={"a": "x < 4", "b": "2 <= x < 6", "c": "9 < x < 14", "d": "12 <= x < 16", "e": "x > 19"},
    )


@pytest.mark.filterwarnings("ignore::vardi.VardiWarning")
def test_groups_joined_by_a_mean_are_joined_by_estimate():
    rng = np.random.default_rng(0)
    samples = {"low": rng.uniform(0, 4, 50), "middle": rng.uniform(2, 5, 40), "high": rng.uniform(5, 9, 60)}
    biases = {"low": "x < 4", "middle": "2 <= x < 5", "high": "x >= 5"}
    before = vardi.identify(samples, biases, known={"x": 5.0})
    assert before
    assert re.search(r"known values join them by estimate, with condition number [\d.]+\.$", before.message)
    fit = vardi.debias(samples, biases, known={"x": 5.0})
    after = fit.identify()
    assert after.groups == (("low", "middle"), ("high",))
    low = fit.expectation("x < 5")
    below = vardi.debias({k: samples[k] for k in ("low", "middle")}, {k: biases[k] for k in ("low", "middle")})
    means = np.array([below.expectation("x").value, samples["high"].mean()])
    pool = np.concatenate(list(samples.values()))
    condition = np.linalg.cond(np.column_stack([np.ones(2), (means - 5.0) / np.ptp(pool)]))
    assert f"by estimate, with condition number {condition:.3g}: 'low', 'middle' {low.value:.1%}; " in after.message
    assert low.stderr > 0.01  # the mass of a group is an estimate, and has an error
    assert fit.expectation("x").stderr < 1e-12
    exact = vardi.debias(samples, biases, known={"x": 5.0, "high": 0.4})
    assert "known values join them exactly: 'low', 'middle' 60.0%; 'high' 40.0%." in exact.identify().message
    assert exact.expectation("x < 5").stderr < 1e-12
    assert exact.known.df == 1  # the share joins, and the mean is then tested


@pytest.mark.filterwarnings("ignore::vardi.VardiWarning")
def test_groups_that_a_mean_does_not_tell_apart():
    samples = {"a": np.array([0.0, 2.0, 4.0]), "b": np.array([10.0, 12.0, 14.0])}
    biases = {"a": "x < 9", "b": "x > 9"}
    error = refused(
        vardi.NotIdentifiableError,
        {"(x - 2) * (x - 12)": 2.5},
        "the known values do not determine how much of the population each of these represents: it is undetermined for "
        "'a' or 'b'",
        samples=samples,
        biases=biases,
    )
    assert error.groups == (("a",), ("b",))


@pytest.mark.parametrize(("share", "gone"), [(0.05, "b"), (0.15, "b"), (0.9, "a")])
@pytest.mark.parametrize("seed", range(5))
def test_a_mean_that_would_leave_nothing_for_a_group(share, gone, seed):
    """The mean lies within the range of the rows, but beyond those of both groups: one of them would lose its mass."""
    rng = np.random.default_rng(seed)
    samples = {"a": (rng.permutation(200) < 40).astype(float), "b": 10.0 + (rng.permutation(200) < 140)}
    biases = {"a": "x < 5", "b": "x > 5"}
    error = refused(
        vardi.InvalidKnownError,
        {"x == 1 or x == 11": share},
        "The known values contradict the samples: the nearer weights come to meeting them",
        f"the less is left for '{gone}'",
        samples=samples,
        biases=biases,
    )
    assert error.labels == ("x == 1 or x == 11",)


def test_what_does_not_go_with_shares():
    refused(vardi.MismatchError, SHARES, "on_unidentified='largest' leaves samples out", on_unidentified="largest")
    with pytest.raises(vardi.MismatchError, match="Give 'raise' or 'largest'"):
        vardi.debias({"a": np.ones(3)}, {"a": 1}, known={"x > 0": 1.0}, on_unidentified="smallest")


# ---------------------------------------------------------------- lazy frames


def lazy_frames(samples, engine):
    if engine == "polars":
        return {name: pl.LazyFrame(rows.reset_index(drop=True)) for name, rows in samples.items()}
    duckdb = pytest.importorskip("duckdb")
    return {name: duckdb.from_arrow(pl.from_pandas(rows).to_arrow()) for name, rows in samples.items()}


def test_what_lazy_frames_do_not_give():
    samples, biases = three_regions(sizes=(8, 9, 10))
    lazy = lazy_frames(samples, "polars")
    refused(
        vardi.InvalidBiasError,
        {**SHARES, vardi.biases.as_bias(len): 0.5},
        "The mean of <function len> is known, which an engine cannot compute",
        samples=lazy,
        biases=biases,
    )
    refused(
        vardi.InvalidKnownError, {"region": {"N": 0.5, "S": 0.5}}, "10 rows of the pool", samples=lazy, biases=biases
    )


def test_identify_knows_shares():
    samples, biases = three_regions(sizes=(8, 9, 10))
    verdict = vardi.identify(samples, biases)
    assert not verdict
    assert "give known values" in verdict.message
    joined = vardi.identify(samples, biases, known=SHARES)
    assert joined
    assert joined.message.endswith("3 groups that overlap does not connect; known values join them exactly.")
    assert joined.groups == verdict.groups
    loose = vardi.identify(samples, biases, known={"sex": MARGINS["sex"]})
    assert not loose
    assert "it is undetermined for 'N' or 'S' or 'W'" in loose.message
    one_way = vardi.identify({"a": X, "b": X + 9}, {"a": "x < 9", "b": 1}, known={"a": 0.5})
    assert not one_way
    assert "one direction only" in one_way.message


def test_rows_without_counts_have_no_part():
    samples, biases = three_regions(sizes=(8, 9, 10))
    fit = vardi.debias(samples, biases, known=SHARES, counts=np.r_[0, np.ones(26)])
    assert np.asarray(fit.weights)[0] == 0
    assert np.asarray(fit.probabilities)[:8].sum() == pytest.approx(0.2, rel=1e-12)
    youngest = pd.concat(samples.values()).age.min()
    counts = np.concatenate([rows.age > youngest for rows in samples.values()]).astype(float)
    refused(
        vardi.InvalidKnownError,
        {**SHARES, f"age == {youngest}": 0.1},
        f"No row of the pool is in 'age == {youngest}'",  # that counts
        samples=samples,
        biases=biases,
        counts=counts,
    )


def test_diagnostics_of_groups_that_shares_join():
    rng = np.random.default_rng(0)
    samples = {"north": rng.uniform(0, 5, 60), "south": rng.uniform(5.001, 9, 40)}
    fit = vardi.debias(samples, {"north": "x <= 5", "south": "x > 5"}, known={"north": 0.3})
    text = str(fit.diagnostics())
    assert "overlap         none between 2 groups: known values join them" in text
    assert "bridging" not in text
    assert "weakest link" not in text
