"""check_biases against dense loops written from the formulas, its invariances, its texts and its edges."""

from __future__ import annotations

import math
import pickle

import numpy as np
import polars as pl
import pytest
from oracle import design
from scipy import sparse, stats

import vardi

pytestmark = pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")  # of small samples; tested elsewhere

KINDS = ["indicator", "tilt", "power"]


def check(fit: vardi.DebiasedSample, columns: dict[str, np.ndarray], **options) -> vardi.BiasCheck:
    return fit.check_biases(columns, **options)


def simulated(kind: str, K: int = 3, n: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray, dict]:
    d = design(kind, K, n, seed)
    rng = np.random.default_rng(seed)
    return d.omega, d.source, {"z": np.asarray(d.z, float).reshape(n, -1)[:, 0], "noise": rng.normal(size=n)}


def probabilities(fit: vardi.DebiasedSample, omega: np.ndarray) -> np.ndarray:
    p = np.exp(fit.solution.u) * omega
    return p / p.sum(axis=1, keepdims=True)


def brute_score(p, s, columns, c=None):
    """Return U, V as loops over rows, features and samples; features are raw x and x^2, which the test cannot tell."""
    n, K = p.shape
    c = np.ones(n) if c is None else c
    h = np.column_stack([power for x in columns.values() for power in ((x - x.mean()), (x - x.mean()) ** 2)])
    J = h.shape[1]
    U = np.zeros(J * K)
    M_hh, M_h0, M_00 = np.zeros((J * K, J * K)), np.zeros((J * K, K)), np.zeros((K, K))
    for i in range(n):
        for k in range(K):
            for j in range(J):
                U[j * K + k] += c[i] * h[i, j] * ((s[i] == k) - p[i, k])
            for l in range(K):
                w = c[i] * p[i, k] * ((k == l) - p[i, l])
                M_00[k, l] += w
                for j in range(J):
                    M_h0[j * K + k, l] += h[i, j] * w
                    for m in range(J):
                        M_hh[j * K + k, m * K + l] += h[i, j] * h[i, m] * w
    return U, M_hh - M_h0 @ np.linalg.pinv(M_00, rcond=1e-10) @ M_h0.T


def chi2(U, V):
    scale = np.sqrt(np.maximum(np.diag(V), 1e-300))
    S = V / np.outer(scale, scale)
    T = (U / scale) @ np.linalg.pinv(S, rcond=1e-8, hermitian=True) @ (U / scale)
    df = np.linalg.matrix_rank(S, tol=1e-8 * np.linalg.norm(S, 2), hermitian=True)
    return T, stats.chi2.sf(T, df), df


# ---------------------------------------------------------------- formulas


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("K", [2, 4])
def test_the_score_test_is_that_of_the_formulas(kind, K):
    omega, s, columns = simulated(kind, K, 60)
    fit = vardi.debias_matrix(omega, s)
    found = check(fit, columns, features="poly2")
    U, V = brute_score(probabilities(fit, omega), s, columns)
    T, p, df = chi2(U, V)
    assert found.df == df
    np.testing.assert_allclose([found.statistic, found.pvalue], [T, p], rtol=1e-6)
    for k in range(K):
        part = np.arange(len(U)) % K == k
        expected = chi2(U[part], V[np.ix_(part, part)])[1]
        np.testing.assert_allclose(found.by_sample[str(k)], expected, rtol=1e-6)


@pytest.mark.long
def test_rare_values_do_not_contradict_right_biases():
    rejected = 0
    for seed in range(60):
        rng = np.random.default_rng([0, seed])
        x = np.concatenate([rng.random(50) < 0.15, rng.random(50) < 0.015 / 0.865]).astype(float)
        fit = vardi.debias_matrix(np.column_stack([np.ones(100), 1.0 - 0.9 * x]), np.repeat([0, 1], 50))
        rejected += check(fit, {"x": x}).pvalue <= 0.05
    assert rejected <= 8  # the 99% quantile of a binomial law of 60 and 5% is 8


def test_ranks_are_the_middles_of_the_debiased_distribution_function():
    omega, s, columns = simulated("tilt", 3, 30)
    fit = vardi.debias_matrix(omega, s)
    ranked = {}
    for name, x in columns.items():
        F = np.array([fit.weights[x < one].sum() + fit.weights[x == one].sum() / 2 for one in x]) / fit.weights.sum()
        ranked[name] = F
    found, expected = check(fit, columns), check(fit, ranked, features="poly2")
    assert (found.statistic, found.df) == (pytest.approx(expected.statistic), expected.df)


def test_worst_is_the_largest_z_of_all_cells():
    omega, s, columns = simulated("tilt", 3, 200)
    fit = vardi.debias_matrix(omega, s)
    p, z = probabilities(fit, omega), {}
    for name, x in columns.items():
        cells = np.minimum((np.argsort(np.argsort(x)) * 10) // 200, 9)
        for j in range(10):
            h = (cells == j).astype(float)
            for k in range(3):
                U = h @ ((s == k) - p[:, k])
                m = np.array([(h * p[:, k] * ((k == l) - p[:, l])).sum() for l in range(3)])
                V = m[k] - m @ np.linalg.pinv(np.diag(p.sum(axis=0)) - p.T @ p, rcond=1e-10) @ m
                if V >= 1:
                    z[name, j, k] = U / math.sqrt(V), x[cells == j].min(), x[cells == j].max(), h @ (s == k)
    (name, _, k), (best, low, high, observed) = max(z.items(), key=lambda item: abs(item[1][0]))
    worst = check(fit, columns).worst
    assert (worst.column, worst.sample, worst.observed) == (name, str(k), observed)
    assert worst.region == f"{name} between {low:.4g} and {high:.4g}"
    np.testing.assert_allclose(worst.z, best, rtol=1e-6)


# ---------------------------------------------------------------- invariances


def same(a: vardi.BiasCheck, b: vardi.BiasCheck, rtol=1e-7):
    assert (a.df, list(a.by_sample)) == (b.df, list(b.by_sample))
    np.testing.assert_allclose([a.statistic, a.pvalue], [b.statistic, b.pvalue], rtol=rtol)
    np.testing.assert_allclose(list(a.by_sample.values()), list(b.by_sample.values()), rtol=rtol)
    assert (a.worst is None) == (b.worst is None)
    if a.worst:
        assert (a.worst.region, a.worst.sample) == (b.worst.region, b.worst.sample)
        np.testing.assert_allclose([a.worst.z, a.worst.expected], [b.worst.z, b.worst.expected], rtol=rtol)
    assert a.untested == pytest.approx(b.untested)


@pytest.mark.parametrize("features", ["ranks", "poly2", "cells"])
@pytest.mark.parametrize("kind", KINDS)
def test_scales_of_biases_and_columns_and_the_order_of_rows_do_not_matter(kind, features):
    omega, s, columns = simulated(kind, 3, 80)
    found = check(vardi.debias_matrix(omega, s), columns, features=features)
    same(check(vardi.debias_matrix(omega * [1e-6, 3.0, 1e8], s), columns, features=features), found)
    order = np.random.default_rng(0).permutation(80)
    shuffled = {name: x[order] for name, x in columns.items()}
    same(check(vardi.debias_matrix(omega[order], s[order]), shuffled, features=features), found)
    fit = vardi.debias_matrix(omega, s)
    moved = {"z": 5 - 3 * columns["z"], "noise": columns["noise"]}
    assert check(fit, moved, features="poly2").pvalue == pytest.approx(check(fit, columns, features="poly2").pvalue)
    curved = {"z": np.exp(columns["z"]), "noise": columns["noise"]}  # which keeps ranks
    assert check(fit, curved).pvalue == pytest.approx(check(fit, columns).pvalue)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_replication(kind):
    omega, s, columns = simulated(kind, 3, 60)
    c = np.random.default_rng(1).integers(1, 5, 60)
    again = np.repeat(np.arange(60), c)
    counted = vardi.debias_matrix(omega, s, counts=c)
    repeated = vardi.debias_matrix(omega[again], s[again])
    wide = {name: x[again] for name, x in columns.items()}
    for features in ("ranks", "poly2", "cells"):
        same(check(counted, columns, features=features), check(repeated, wide, features=features))


def test_collapsed_rows_are_rows():
    d = vardi.datasets.strata(sizes=(9000, 4000, 4000), seed=2)
    apart = {name: f"({bias}) * (1 + 1e-12 * x0)" for name, bias in d.biases.items()}  # so that no rows are equal
    collapsed, plain = vardi.debias(d.samples, d.biases), vardi.debias(d.samples, apart)
    pool = np.concatenate(list(d.samples.values()))
    x = {"x": pool[:, 0], "y": pool[:, 1]}
    for options in ({}, {"features": "cells"}):
        same(check(collapsed, x, **options), check(plain, x, **options), rtol=1e-6)


def test_checks_leave_the_fit_as_it_was():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.random((2, 80)) / 2, 0.5 + rng.random((2, 80)) / 2])
    samples = dict(zip(["low", "lower", "high", "higher"], x, strict=True))
    biases = {"low": "x < 0.5", "lower": "(x < 0.5) * (2 - x)", "high": "x >= 0.5", "higher": "(x >= 0.5) * (1 + x)"}
    fit, untouched = (vardi.debias(samples, biases, known={"x < 0.5": 0.4}) for _ in range(2))
    for features in ("ranks", "poly2", "cells"):
        fit.check_biases("x", features=features)
    again = pickle.loads(pickle.dumps(fit))  # which computes anew what the rows do not keep
    wanted = untouched.expectation("x ** 2")
    for estimate in (fit.expectation("x ** 2"), again.expectation("x ** 2")):
        assert (estimate.value, estimate.stderr) == pytest.approx((wanted.value, wanted.stderr), rel=1e-12)


def test_sparse_rows_are_rows():
    omega, s, columns = simulated("indicator", 6, 120)
    dense, thin = vardi.debias_matrix(omega, s), vardi.debias_matrix(sparse.csr_array(omega), s)
    for options in ({}, {"features": "cells"}):
        same(check(thin, columns, **options), check(dense, columns, **options), rtol=1e-6)


def test_windows_are_rows():
    rng = np.random.default_rng(3)
    low, high = np.array([0.0, 0.2, 0.5]), np.array([0.6, 0.8, 1.0])
    s = rng.integers(0, 3, 150)
    x = rng.uniform(low[s], high[s])
    windows = vardi.Windows(x, low, high)
    dense, thin = vardi.debias_matrix(windows.toarray().astype(float), s), vardi.debias_matrix(windows, s)
    for options in ({}, {"features": "cells"}):
        same(check(thin, {"x": x}, **options), check(dense, {"x": x}, **options), rtol=1e-6)


def test_a_state_that_no_sample_was_drawn_from_takes_no_part():
    omega, s, columns = simulated("tilt", 3, 60)
    wider = np.insert(omega, 1, np.linspace(0.1, 3, 60), axis=1)
    for options in ({}, {"features": "cells"}):
        found = check(vardi.debias_matrix(wider, np.where(s > 0, s + 1, 0), names="axbc"), columns, **options)
        same(found, check(vardi.debias_matrix(omega, s, names="abc"), columns, **options))


def test_two_samples_have_one_p_value():
    omega, s, columns = simulated("power", 2, 50)
    found = check(vardi.debias_matrix(omega, s), columns)
    np.testing.assert_allclose(list(found.by_sample.values()), found.pvalue, rtol=1e-6)


# ---------------------------------------------------------------- what it sees, and what it cannot


def selected(seed: int, n: int = 2000) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=6 * n)
    chosen = z[rng.random(len(z)) < 1 / (1 + np.exp(-2 * z))][:n]
    return {"panel": chosen, "survey": rng.normal(size=n // 4)}


@pytest.mark.parametrize("features", ["ranks", "poly2", "cells"])
def test_a_wrong_bias_is_rejected_and_the_right_one_is_not(features):
    samples = selected(0)
    x = {"x": np.concatenate(list(samples.values()))}
    wrong = vardi.debias(samples, {"panel": 1, "survey": 1})
    right = vardi.debias(samples, {"panel": "1 / (1 + exp(-2 * x))", "survey": 1})
    assert check(wrong, x, features=features).pvalue <= 0.01
    assert check(right, x, features=features).pvalue > 0.05


def test_the_sample_to_blame_and_the_region_are_named():
    rng = np.random.default_rng(0)
    samples = {"a": rng.random(3000), "b": rng.random(3000), "c": rng.random(4000)}
    samples["c"] = samples["c"][~((samples["c"] > 0.6) & (samples["c"] < 0.7) & (rng.random(4000) < 0.6))]
    fit = vardi.debias(samples, {"a": 1, "b": 1, "c": 1})
    x = {"quiet": rng.normal(size=len(fit)), "x": np.concatenate(list(samples.values()))}
    found = check(fit, x, features="cells")
    assert min(found.by_sample, key=found.by_sample.get) == "c"
    assert (found.worst.column, found.worst.sample) == ("x", "c")
    assert found.worst.z < -5
    assert found.worst.observed < found.worst.expected
    assert found.worst.region == "x between 0.5844 and 0.7065"


def test_an_error_where_no_other_sample_reaches_is_invisible():
    rng = np.random.default_rng(1)
    low, high = rng.random(500) * 0.6, 0.4 + rng.random(500) * 0.6
    moved = np.where(high > 0.6, 0.6 + (high - 0.6) ** 3 / 0.16, high)  # wrong, but only where "high" is alone
    biases = {"low": "x < 0.6", "high": "x > 0.4"}
    before, after = (
        check(vardi.debias({"low": low, "high": x}, biases), {"x": np.concatenate([low, x])}, features="cells")
        for x in (high, moved)
    )
    assert after.pvalue > 0.05
    assert before.untested == pytest.approx(after.untested, abs=0.01)
    assert 0.5 < after.untested["high"] < 0.8


# ---------------------------------------------------------------- edges


def test_structural_zeros_take_degrees_of_freedom_away():
    rng = np.random.default_rng(0)
    x = {"a": rng.random(200), "b": 0.5 + rng.random(200), "c": 1 + rng.random(200)}
    fit = vardi.debias(x, {"a": "x < 1", "b": "0.5 < x < 1.5", "c": "x > 1"})
    pool = np.concatenate(list(x.values()))
    assert check(fit, {"x": pool}).df == 4
    cut = np.digitize(pool, [0.5, 1.0, 1.5]).astype(float)  # constant wherever two samples overlap
    found = check(fit, {"cut": cut})
    assert found.df is None or found.df < 4
    inside = (pool > 0.5) & (pool < 1)
    assert check(fit, {"half": np.where(inside, (pool > 0.75), 0.0)}).df == 1
    assert found.reason == "no column was given that varies where the samples overlap."
    assert math.isnan(found.pvalue)


def test_a_sample_without_overlap_in_a_column_has_no_p_value_of_its_own():
    rng = np.random.default_rng(0)
    x = {"a": rng.random(200), "b": 0.5 + rng.random(200), "c": 1 + rng.random(200)}
    fit = vardi.debias(x, {"a": "x < 1", "b": "0.5 < x < 1.5", "c": "x > 1"})
    pool = np.concatenate(list(x.values()))
    half = np.where((pool > 0.5) & (pool < 1), pool > 0.75, 0.0)
    for features in ("ranks", "poly2", "cells"):
        found = check(fit, {"half": half}, features=features)
        assert math.isnan(found.by_sample["c"])
        assert found.pvalue == pytest.approx(found.by_sample["a"])
    assert found.summary().splitlines()[-4].split()[:2] == ["c", "nan"]


def test_one_sample_alone_cannot_be_tested():
    fit = vardi.debias({"a": np.arange(1.0, 9)}, {"a": "x"})
    found = check(fit, {"x": np.arange(1.0, 9)})
    assert math.isnan(found.pvalue)
    assert "only one sample" in found.reason
    assert (found.worst, found.df, found.untested) == (None, None, {"a": 1.0})
    assert found.summary().startswith("The declared biases cannot be tested: there is only one sample")


def test_columns_that_do_not_vary_are_left_out():
    omega, s, columns = simulated("tilt", 3, 60)
    fit = vardi.debias_matrix(omega, s)
    found = check(fit, {"one": np.ones(60), **columns})
    assert found.columns == ("z", "noise")
    same(found, check(fit, columns))
    for nothing in ({}, {"one": np.ones(60)}):
        assert math.isnan(check(fit, nothing).pvalue)
        assert "no column" in check(fit, nothing).summary()


def test_a_two_valued_column_has_one_feature():
    omega, s, _ = simulated("tilt", 3, 60)
    flag = np.tile([0.0, 1.0], 30)
    found = check(vardi.debias_matrix(omega, s), {"flag": flag})
    assert found.df == 2
    same(found, check(vardi.debias_matrix(omega, s), {"flag": flag}, features="cells"))
    assert found.worst.region in ("flag equal to 0", "flag equal to 1")


def test_samples_of_one_row():
    rng = np.random.default_rng(0)
    omega, s = np.exp(rng.normal(size=(40, 3)) / 3), np.repeat([0, 1, 2], [20, 19, 1])
    fit = vardi.debias_matrix(omega, s)
    x = {"x": rng.normal(size=40)}
    assert 0 < check(fit, x).pvalue < 1


@pytest.mark.parametrize("lazy", [False, True])
def test_unknown_features_are_refused(lazy):
    samples = {"a": pl.DataFrame({"x": [1.0, 2.0, 3.0]}), "b": pl.DataFrame({"x": [1.5, 2.5]})}
    fit = vardi.debias({name: rows.lazy() for name, rows in samples.items()} if lazy else samples, {"a": 1, "b": "x"})
    choice = "Choose one of 'ranks', 'poly2', 'cells'. Did you mean"
    with pytest.raises(vardi.MismatchError, match=f"no features 'cell' .* {choice}"):
        fit.check_biases("x", features="cell")


# ---------------------------------------------------------------- texts


def test_the_summary_fits_and_says_what_it_cannot_see():
    d = vardi.datasets.strata(seed=0)
    pool = np.concatenate(list(d.samples.values()))
    samples, biases = ({name + 60 * "x": part for name, part in side.items()} for side in (d.samples, d.biases))
    fit = vardi.debias(samples, biases)
    columns = {"a column with quite a long name indeed " * 3: pool[:, 0], "y": pool[:, 1]}
    text = str(check(fit, columns))
    assert max(map(len, text.splitlines())) <= 80
    assert "stays invisible" in " ".join(text.split())
    assert "validates nothing" in " ".join(text.split())


def test_the_summary_of_many_samples_shows_the_worst_first():
    omega, s, columns = simulated("tilt", 28, 400)
    text = check(vardi.debias_matrix(omega, s), columns).summary()
    assert "... and 8 more" in text
    shown = [float(line.split()[1]) for line in text.split("\n\n")[1].splitlines()[1:-1]]
    assert len(shown) == 20
    assert shown == sorted(shown)


def test_words_follow_the_p_value():
    omega, source, columns = simulated("tilt", 3, 200)
    found = check(vardi.debias_matrix(omega, source), columns)
    worst = type(found.worst)("price", "price between 12.1 and 18.3", "agency", 83.0, 61.25, 3.44)
    assert str(worst) == "price between 12.1 and 18.3, 83 rows of 'agency' where 61.25 are expected (z = +3.4)"
    for p, word in (
        (0.02, "are not contradicted"),
        (0.0026, "Look at it: 1 in 380 right fits has one as small."),
        (5e-5, "are contradicted"),
    ):
        found = vardi.BiasCheck(p, 9.0, 2, "score", ("price",), {"agency": p}, worst, {"agency": 0.4})
        assert word in " ".join(found.summary().split())
        assert "40%" in found.summary()
