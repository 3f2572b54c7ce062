"""Rows that depend on one another: variances by brute force, and their limits."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import vardi
from vardi._rows.units import Autocorrelation, batch_length, rows_a_value

pytestmark = pytest.mark.filterwarnings("ignore:'[ab]' has [0-9]+ clusters")

BIASES = {"a": 1, "b": "exp(x / 2)"}


def samples(rng, sizes=(90, 120)):
    return {"a": rng.normal(size=sizes[0]), "b": rng.normal(0.5, size=sizes[1])}


def influence_of(fit, values):
    """Return influence values and samples of all rows."""
    return fit.expectation(np.asarray(values, float)).influence.of_rows()[:, 0], fit.solved.memory.source


def centred(phi, source):
    means = np.array([phi[source == k].mean() for k in range(source.max() + 1)])
    return (phi - means[source]) / len(phi)


def sums_by(labels, values):
    return np.array([values[labels == label].sum() for label in np.unique(labels)])


@pytest.fixture(scope="module")
def data():
    return samples(np.random.default_rng(1))


def test_clusters_within_samples(data):
    labels = np.concatenate([np.arange(90) // 6, 100 + np.arange(120) // 4])
    fit = vardi.debias(data, BIASES, clusters=labels)
    x = np.concatenate(list(data.values()))
    phi, source = influence_of(fit, x)
    c = centred(phi, source)
    expected = sum(
        G / (G - 1) * (sums_by(labels[source == k], c[source == k]) ** 2).sum() for k, G in enumerate((15, 30))
    )
    assert_allclose(fit.expectation("x").stderr ** 2, expected, rtol=1e-12)
    assert fit.expectation("x").value == vardi.debias(data, BIASES).expectation("x").value


def test_clusters_that_span_samples_are_summed_before_they_are_squared(data):
    labels = np.concatenate([np.arange(90) % 30, np.arange(120) % 40])
    fit = vardi.debias(data, BIASES, clusters=labels)
    phi, source = influence_of(fit, np.concatenate(list(data.values())))
    expected = 40 / 39 * (sums_by(labels, centred(phi, source)) ** 2).sum()
    assert_allclose(fit.expectation("x").stderr ** 2, expected, rtol=1e-12)


def test_a_row_to_a_cluster_is_as_good_as_none(data):
    plain, each = vardi.debias(data, BIASES), vardi.debias(data, BIASES, clusters=np.arange(210))
    for question in (
        lambda fit: fit.expectation("x"),
        lambda fit: fit.cdf("x")(0.3),
        lambda fit: fit.normalisers()["b"],
        lambda fit: fit.expectation("x") / fit.expectation("x > 0"),
    ):
        one, other = question(plain), question(each)
        assert_allclose([one.stderr, *one.interval, one.df], [other.stderr, *other.interval, other.df], rtol=1e-9)
    assert_allclose(plain.cdf("x").band().low, each.cdf("x").band().low, rtol=1e-9)


def test_twins_are_worth_one_row_each(data):
    twins = {name: np.repeat(x, 2) for name, x in data.items()}
    labels = np.concatenate([np.repeat(np.arange(90), 2), 1000 + np.repeat(np.arange(120), 2)])
    fit, single = vardi.debias(twins, BIASES, clusters=labels), vardi.debias(data, BIASES)
    assert_allclose(fit.expectation("x").stderr, single.expectation("x").stderr, rtol=1e-9)
    assert_allclose(fit.expectation("x").df, single.expectation("x").df, rtol=1e-9)
    assert_allclose(fit.normalisers()["b"].stderr, single.normalisers()["b"].stderr, rtol=1e-9)


def test_counts_in_a_cluster_are_rows_in_a_cluster(data):
    counts = np.random.default_rng(3).integers(1, 4, 210)
    labels = np.arange(210) // 3
    counted = vardi.debias(data, BIASES, clusters=labels, counts=counts)
    parts = np.split(counts, [90])
    repeated = {name: np.repeat(x, own) for (name, x), own in zip(data.items(), parts, strict=True)}
    fit = vardi.debias(repeated, BIASES, clusters=np.repeat(labels, counts))
    assert_allclose(counted.expectation("x").stderr, fit.expectation("x").stderr, rtol=1e-9)


def test_strata_leave_out_what_varies_between_them(data):
    x = data["a"]
    strata = (x > 0).astype(int)  # which explain most of x
    fit = vardi.debias({"a": x}, {"a": 1}, strata=strata)
    within = sum((own.size / x.size) ** 2 * own.var(ddof=1) / own.size for own in (x[strata == h] for h in (0, 1)))
    assert_allclose(fit.expectation("x").stderr ** 2, within, rtol=1e-12)
    assert fit.expectation("x").stderr < 0.7 * vardi.debias({"a": x}, {"a": 1}).expectation("x").stderr


def test_clusters_within_strata(data):
    x, strata = data["b"], np.arange(120) // 60
    clusters = np.arange(120) // 5
    fit = vardi.debias({"b": x}, {"b": 1}, strata=strata, clusters=clusters)
    expected = 0.0
    for h in (0, 1):
        own = sums_by(clusters[strata == h], (x[strata == h] - x[strata == h].mean()) / 120)
        expected += 12 / 11 * (own**2).sum()
    assert_allclose(fit.expectation("x").stderr ** 2, expected, rtol=1e-12)


def by_strata(rng, strata=(0.0, 10.0), clusters=40):
    """Return clusters of 1 to 19 rows, so many of each stratum, whose means lie far apart."""
    size = rng.integers(1, 20, (len(strata), clusters))
    cluster = np.repeat(np.arange(size.size), size.ravel())
    stratum = cluster // clusters
    y = np.array(strata)[stratum] + rng.normal(size=size.size)[cluster] + rng.normal(size=len(cluster))
    return y, stratum, cluster


def test_clusters_of_a_stratum_vary_in_how_many_rows_they_bring():
    """Cluster totals vary about their mean in the stratum (Cochran, 11.9), not rows about theirs: sizes vary too."""
    y, strata, clusters = by_strata(np.random.default_rng(0))
    fit = vardi.debias({"b": y}, {"b": 1}, strata=strata, clusters=clusters)
    found = fit.expectation("x")
    expected = 0.0
    for h in (0, 1):
        own = sums_by(clusters[strata == h], (y[strata == h] - y.mean()) / len(y))
        expected += 40 / 39 * ((own - own.mean()) ** 2).sum()
    assert_allclose(found.stderr**2, expected, rtol=1e-12)
    for kind in ("bayesian", "rows"):  # 1,000 draws tell an error to 2%, and 40 clusters differ by as much again
        assert_allclose(fit.bootstrap("x", n=1000, seed=0, kind=kind).stderr, found.stderr, rtol=0.12)
        made = np.asarray(fit.replicate_weights(1000, kind=kind))
        means = y @ made / made.sum(axis=0)
        assert_allclose(np.sqrt(((means - found.value) ** 2).mean()), found.stderr, rtol=0.12)


@pytest.mark.long
def test_the_error_of_clusters_within_strata_is_their_spread():
    rng, found = np.random.default_rng(1), []
    for _ in range(300):
        y, strata, clusters = by_strata(rng)
        mean = vardi.debias({"b": y}, {"b": 1}, strata=strata, clusters=clusters).expectation("x")
        found.append((mean.value, mean.stderr))
    values, errors = np.array(found).T
    assert_allclose(errors.mean(), values.std(), rtol=3 / np.sqrt(600))  # three errors of a spread of 300 values


def test_rows_that_stand_for_several_are_not_taken_for_one_in_a_stratum(data):
    with pytest.raises(vardi.MismatchError, match="strata= and counts= were given without clusters="):
        vardi.debias({"a": data["a"]}, {"a": 1}, strata=np.arange(90) % 2, counts=np.full(90, 2))


def test_a_stratum_with_one_row_varies_about_its_sample(data):
    x = data["a"]
    strata = np.r_[0, np.ones(89, int)]
    fit = vardi.debias({"a": x}, {"a": 1}, strata=strata)
    others = x[1:]
    expected = ((x[0] - x.mean()) ** 2 + 89 / 88 * ((others - others.mean()) ** 2).sum()) / 90**2
    assert_allclose(fit.expectation("x").stderr ** 2, expected, rtol=1e-12)


def test_a_finite_population_has_less_to_tell(data):
    fit = vardi.debias(data, BIASES)
    phi, source = influence_of(fit, np.concatenate([data["a"], data["b"]]))
    omega = np.where(source == 1, np.exp(np.concatenate([data["a"], data["b"]]) / 2), 1.0)
    normaliser = np.where(source == 1, fit.normalisers()["b"].value, 1.0)
    unseen = 1.0 - np.minimum(omega / normaliser / 2, 1.0)
    squares = unseen * centred(phi, source) ** 2 * np.where(source == 1, 120 / 119, 90 / 89)
    half = vardi.debias(data, BIASES, population={"a": 180, "b": 240}).expectation("x").stderr
    assert_allclose(half**2, squares.sum(), rtol=1e-9)
    same = vardi.debias({"a": data["a"]}, {"a": 1}).expectation("x").stderr
    assert_allclose(
        vardi.debias({"a": data["a"]}, {"a": 1}, population=180).expectation("x").stderr, same * np.sqrt(0.5)
    )
    census = vardi.debias({"a": data["a"]}, {"a": 1}, population=90)
    assert census.expectation("x").stderr == 0.0
    clusters = vardi.debias(data, BIASES, population={"a": 180, "b": 240}, clusters=np.arange(210))
    assert_allclose(clusters.expectation("x").stderr, half, rtol=2e-3)  # factors of samples of 90 and 120, or of 210


def test_the_autocorrelation_of_a_known_process():
    rng = np.random.default_rng(0)
    x = np.empty(200_000)
    x[0] = rng.normal()
    noise = rng.normal(size=len(x)) * np.sqrt(1 - 0.8**2)
    for t in range(1, len(x)):
        x[t] = 0.8 * x[t - 1] + noise[t]
    found = Autocorrelation((x - x.mean())[:, None])
    assert_allclose(len(x) / found.effective, 9.0, rtol=0.05)  # (1 + rho) / (1 - rho)
    assert_allclose(found.covariance()[0, 0] / (x.var() * len(x)), 9.0, rtol=0.05)


def test_an_estimate_of_a_series_is_that_of_its_influence_values(data):
    fit = vardi.debias(data, BIASES, series=True)
    phi, source = influence_of(fit, np.concatenate(list(data.values())))
    c = centred(phi, source)
    expected = 0.0
    for k in (0, 1):
        own = c[source == k]
        rho = np.correlate(own, own, "full")[len(own) - 1 :] / (own @ own)
        g, lag = -1.0, 0
        while rho[lag] + rho[lag + 1] > 0:
            g, lag = g + 2 * (rho[lag] + rho[lag + 1]), lag + 2
        expected += max(g, 1.0) * (own @ own) / (1 - (2 * (lag - 1) + 1) / len(own))
    assert_allclose(fit.expectation("x").stderr ** 2, expected, rtol=1e-10)


def test_a_column_orders_a_series(data):
    order = {name: np.random.default_rng(5).permutation(len(x)) for name, x in data.items()}
    ordered = vardi.debias(data, BIASES, series=True).expectation("x").stderr
    mixed = {name: x[order[name]] for name, x in data.items()}
    assert_allclose(vardi.debias(mixed, BIASES, series=order).expectation("x").stderr, ordered, rtol=1e-12)
    assert abs(vardi.debias(mixed, BIASES, series=True).expectation("x").stderr / ordered - 1) > 1e-6


def test_long_series_are_summed_in_twos_and_fours(monkeypatch):
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=250), 8)  # blocks of eight equal rows
    exact = vardi.debias({"a": x}, {"a": 1}, series=True).expectation("x")
    monkeypatch.setattr(rows_a_value, "__defaults__", (500,))
    assert rows_a_value(2000) == 4
    summed = vardi.debias({"a": x}, {"a": 1}, series=True).expectation("x")
    assert_allclose(summed.stderr, exact.stderr, rtol=0.1)
    assert_allclose(exact.stderr, x.std() / np.sqrt(250), rtol=0.15)
    assert batch_length(2000, 8.0) == 32


def test_covariances_of_series_are_those_of_a_matrix(data):
    fit = vardi.debias(data, BIASES, series=True)
    found = fit.expectations(["x", "x * x", "x > 0"])
    assert_allclose(np.sqrt(np.diag(found.covariance)), [one.stderr for one in found], rtol=1e-12)
    assert np.linalg.eigvalsh(found.covariance).min() > 0


def test_one_row_of_a_sample_has_the_mean_of_its_law(data):
    few = {"a": data["a"], "one": np.array([0.2])}
    plain = vardi.debias(few, {"a": 1, "one": "exp(x)"})
    for depends in ({"clusters": np.arange(91)}, {"strata": np.r_[np.zeros(90, int), 1]}):
        fit = vardi.debias(few, {"a": 1, "one": "exp(x)"}, **depends)
        assert_allclose(fit.expectation("x").stderr, plain.expectation("x").stderr, rtol=1e-9)


def test_shares_without_events_are_worth_as_many_rows_as_clusters(data):
    plain = vardi.debias(data, BIASES).expectation("x > 99").interval[1]
    clustered = vardi.debias(data, BIASES, clusters=np.arange(210) // 5).expectation("x > 99").interval[1]
    assert clustered > 3 * plain


def test_the_score_test_knows_clusters():
    rng = np.random.default_rng(0)
    rejected = np.zeros(2)
    for _ in range(100):
        effects = rng.normal(size=(2, 25))
        data = {name: np.repeat(own, 6) + 0.5 * rng.normal(size=150) for name, own in zip("ab", effects, strict=True)}
        labels = np.arange(300) // 6
        rejected += [
            vardi.debias(data, {"a": 1, "b": 1}, clusters=clusters).check_biases("x").pvalue < 0.05
            for clusters in (None, labels)
        ]
    assert rejected[0] > 35  # as if all rows were independent
    assert rejected[1] <= 12


def test_what_rounding_leaves_of_a_column_does_not_touch_the_correlations_of_others():
    """Its autocorrelation is an accident, and would set the length of the batches that all correlations come from."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]])
    slow = np.cumsum(rng.normal(size=(200, 1)), axis=0)  # g is far above that of the others
    alone = Autocorrelation(values).covariance()
    both = np.hstack([values, slow - slow.mean()])
    assert_allclose(Autocorrelation(both, np.array([1.0, 1.0, 1e-18])).covariance()[:2, :2], alone, rtol=1e-12)
    assert abs(Autocorrelation(both).covariance()[0, 1] / alone[0, 1] - 1) > 0.01  # it counts in units like theirs
