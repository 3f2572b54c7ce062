"""What holds for every fit: weights, normalisers, verdicts, draws, known values, parameters."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from properties.common import Case, case, cases, close, examples, seeds

import vardi

pytestmark = pytest.mark.filterwarnings("ignore::vardi.VardiWarning")


@given(cases)
@examples(25)
def test_weights_probabilities_and_what_is_counted_from_them(one):
    fit = one.fit()
    weights, probabilities = np.asarray(fit.weights), np.asarray(fit.probabilities)
    assert len(fit) == len(weights) == len(one.pool)
    assert (weights > 0).all()
    close(weights.mean(), 1.0)
    close(probabilities, weights / len(weights))
    assert fit.names == tuple(one.samples)
    assert fit.sizes == {name: len(rows) for name, rows in one.samples.items()}
    close(sum(fit.weight_shares().values()), 1.0)
    close(list(fit.weight_shares().values()), [probabilities[one.source == name].sum() for name in one.samples])
    close(fit.effective_rows(), 1.0 / (probabilities**2).sum())
    assert 1.0 <= fit.effective_rows() <= len(fit) * (1 + 1e-12)
    assert set(fit.numeric_columns) == {"x", "y"}
    assert fit.known is None
    assert fit.parameters == {}
    assert fit.trust.errors_hold in (True, False)
    assert sorted(name for side in fit.bridge.cut for name in side) == (sorted(fit.names) if len(fit.names) > 1 else [])
    assert 0 < fit.bridge.rows <= (min(fit.sizes.values()) if len(fit.names) > 1 else math.inf)


@given(cases)
@examples(25)
def test_the_equations_hold_written_by_hand(one):
    """Omega_k = sum_i pi_i omega_k(z_i), and pi_i is 1 / n over sum_l lambda_l omega_l(z_i) / Omega_l."""
    fit, omega = one.fit(), one.omega()
    sizes = np.array(list(fit.sizes.values()))
    omegas = np.array(list(fit.omegas.values()))
    close(np.asarray(fit.probabilities) @ omega, omegas)
    close(np.asarray(fit.weights), 1.0 / (omega / omegas @ (sizes / sizes.sum())))
    close(list(fit.log_omegas.values()), np.log(omegas))
    close(fit.solution.u, np.log(sizes / sizes.sum() / omegas))
    np.testing.assert_array_equal(fit.solution.weights, fit.solved.tangent.measure.row_weights)
    assert fit.solution.point is None  # of known biases alone u is all there is
    assert fit.solution.converged
    w = np.array(list(fit.paper_normalisers().values()))
    close((w / (sizes / sizes.sum())).max(), 1.0)
    close(w / w[0], omegas / omegas[0])


@given(cases, seeds)
@examples(25)
def test_a_matrix_a_frame_and_a_log_matrix_give_one_fit(one, seed):
    fit, code = one.fit(), pd.Categorical(one.source, list(one.samples)).codes
    by_matrix = vardi.debias_matrix(one.omega(), code, names=list(one.samples))
    close(by_matrix.weights, fit.weights)
    close(list(by_matrix.omegas.values()), list(fit.omegas.values()))
    with np.errstate(divide="ignore"):
        by_log = vardi.debias_matrix(np.log(one.omega()), code, log=True)
    close(by_log.weights, fit.weights)
    order = np.random.default_rng(seed).permutation(len(one.pool))
    shuffled = vardi.debias(one.pool.iloc[order], one.biases, source=one.source[order])
    close(shuffled.weights, np.asarray(fit.weights)[order])
    assert list(shuffled.weights.index) == order.tolist()


@given(cases, st.permutations(["plain", "long", "low"]))
@examples(15)
def test_the_order_of_the_samples_is_free(one, order):
    fit, moved = one.fit(), Case({name: one.samples[name] for name in order}, one.biases).fit()
    assert moved.omegas == pytest.approx(fit.omegas, rel=1e-9)
    for name in order:
        close(np.asarray(moved.weights)[np.repeat(order, [len(one.samples[n]) for n in order]) == name],
              np.asarray(fit.weights)[one.source == name])  # fmt: skip


@given(cases, st.floats(1e-6, 1e6))
@examples(25)
def test_a_factor_of_a_bias_is_a_factor_of_its_normaliser(one, factor):
    fit = one.fit()
    scaled = vardi.debias(one.samples, one.biases | {"long": factor * vardi.proportional_to("x")})
    close(scaled.weights, fit.weights)
    close(scaled.omegas["long"], factor * fit.omegas["long"])
    close(scaled.omegas["low"], fit.omegas["low"])


@given(cases, seeds)
@examples(20)
def test_counts_are_copies_of_rows(one, seed):
    counts = np.random.default_rng(seed).integers(1, 4, len(one.pool))
    by_counts = one.fit(counts=counts)
    parts = np.split(counts, np.cumsum([len(rows) for rows in one.samples.values()])[:-1])
    copies = {
        name: rows.loc[rows.index.repeat(part)] for (name, rows), part in zip(one.samples.items(), parts, strict=True)
    }
    by_copies = vardi.debias(copies, one.biases)
    close(by_counts.expectation("y").value, by_copies.expectation("y").value)
    close(by_counts.cdf("y").quantile(0.3).value, by_copies.cdf("y").quantile(0.3).value)
    assert by_counts.omegas == pytest.approx(by_copies.omegas, rel=1e-9)
    assert by_counts.sizes == by_copies.sizes


@given(cases, st.sampled_from([pl.from_pandas, pa.Table.from_pandas, lambda frame: frame.to_records(index=False)]))
@examples(15)
def test_weigh_gives_the_rows_of_the_pool_their_weights(one, container):
    fit = vardi.debias({name: container(rows) for name, rows in one.samples.items()}, one.biases)
    close(fit.weigh(container(one.pool)), fit.weights)
    assert type(fit.weigh(one.pool)) is pd.Series


@given(cases, st.sampled_from([("long",), ("plain", "low"), ("long", "low")]))
@examples(15)
def test_weights_among_samples_are_those_of_their_biases_alone(one, names):
    fit, omega = one.fit(), one.omega()
    few = fit.among(list(names))
    places = [list(one.samples).index(name) for name in names]
    sizes, omegas = np.array(list(fit.sizes.values())), np.array(list(fit.omegas.values()))
    mass = omega[:, places] @ (sizes / omegas)[places]
    weights = np.isin(one.source, names) / mass
    close(np.asarray(few.weights), weights / weights.mean())
    found = fit.expectation("y", among=list(names))
    close(found.value, np.average(one.pool["y"], weights=weights))
    assert found.among == tuple(name for name in one.samples if name in names)
    assert fit.expectations(["y"], among=list(names)).among == found.among
    assert found.plain is None


@given(cases, seeds, st.integers(0, 60), st.booleans())
@examples(25)
def test_draws_repeat_and_come_from_rows_with_weight(one, seed, n, replace):
    counts = np.random.default_rng(seed).integers(0, 2, len(one.pool))
    assume(all(counts[one.source == name].sum() >= 5 for name in one.samples))
    assume(replace or n <= counts.sum())
    samples = {name: rows.assign(place=np.flatnonzero(one.source == name)) for name, rows in one.samples.items()}
    try:
        fit = vardi.debias(samples, one.biases, counts=counts)
    except vardi.NotIdentifiableError:
        assume(False)
    drawn = fit.sample(n, seed, replace=replace)
    assert len(drawn) == n
    assert counts[drawn["place"].to_numpy()].all()
    assert replace or drawn["place"].is_unique
    pd.testing.assert_frame_equal(drawn, fit.sample(n, np.random.default_rng(seed), replace=replace))


def _closure(reach: np.ndarray) -> list[set[int]]:
    """Return the groups of states that reach one another, by Warshall's closure: no graph library."""
    K = len(reach)
    paths = reach | np.eye(K, dtype=bool)
    for middle in range(K):
        paths |= np.outer(paths[:, middle], paths[middle])
    mutual = paths & paths.T
    return [set(np.flatnonzero(row).tolist()) for row in np.unique(mutual, axis=0)]


@given(st.integers(1, 6), st.integers(1, 4), st.floats(0.05, 0.6), seeds)
@examples(60)
def test_identify_agrees_with_a_search_by_hand(K, rows, density, seed):
    rng = np.random.default_rng(seed)
    source = np.repeat(np.arange(K), rows)
    omega = rng.random((K * rows, K)) < density
    omega[np.arange(K * rows), source] = True
    reach = np.array([[omega[source == l, k].any() for l in range(K)] for k in range(K)])
    groups = _closure(reach)
    verdict = vardi.identify([np.ones(rows)] * K, list(omega.T.astype(float)))
    assert {frozenset(map(int, group)) for group in verdict.groups} == {frozenset(group) for group in groups}
    assert bool(verdict) == verdict.identified == (len(groups) == 1)
    for link in verdict.links:
        assert verdict.link(link.first, link.second) == link
        k, l = int(link.first), int(link.second)
        assert link.first_in_second == omega[source == k, l].sum()
        assert link.second_in_first == omega[source == l, k].sum()
    if verdict:
        assert verdict.require() is verdict
        fit = vardi.debias_matrix(omega.astype(float), source)
        close(np.asarray(fit.weights).mean(), 1.0)
        assert fit.identify().identified
    else:
        with pytest.raises(vardi.NotIdentifiableError) as caught:
            verdict.require()
        assert caught.value.groups == verdict.error().groups == verdict.groups
        with pytest.raises(vardi.NotIdentifiableError):
            vardi.debias_matrix(omega.astype(float), source)


@given(cases, st.floats(0.15, 0.85), st.floats(0.2, 0.8))
@examples(20)
def test_known_values_are_met_exactly(one, low, first):
    fit = one.fit(known={f"x <= {one.cut}": low, "g": {"a": first, "b": 1 - first}})
    close(fit.expectation(f"x <= {one.cut}").value, low, rtol=1e-8)
    close(fit.expectation("g == 'a'").value, first, rtol=1e-8)
    close(np.asarray(fit.weights).mean(), 1.0)
    assert isinstance(fit.known, vardi.KnownCheck)
    assert 0.0 <= fit.known.pvalue <= 1.0
    assert fit.known.residual < 1e-8
    assert isinstance(fit.known.contradicted, bool)
    assert str(fit.known.summary())
    assert str(fit.known.verdict)
    assert fit.known.samples == tuple(one.samples)
    assert [line.columns for line in fit.known.lines] == [("x",), ("g",), ("g",)]
    assert [line.margin for line in fit.known.lines] == [None, ("g", "a"), ("g", "b")]
    assert all(np.isnan(line.z) or line.z * (line.estimated - line.known) >= 0 for line in fit.known.lines)


@given(seeds, st.floats(0.1, 10.0), st.floats(-5.0, 5.0))
@examples(10)
def test_parameters_follow_the_unit_of_their_column(seed, unit, shift):
    """In theta'x a change of unit divides theta, and a shift of x is a factor of the bias."""
    rng = np.random.default_rng(seed)
    plain, tilted = rng.normal(size=80), rng.normal(0.7, 1.0, size=80)
    fit = vardi.debias({"p": plain, "t": tilted}, {"p": 1, "t": vardi.exponential_tilt("x")})
    moved = vardi.debias(
        {"p": unit * plain + shift, "t": unit * tilted + shift}, {"p": 1, "t": vardi.exponential_tilt("x")}
    )
    theta, scaled = fit.parameters["t"]["x"], moved.parameters["t"]["x"]
    close(scaled.value, theta.value / unit, rtol=1e-6)
    close(scaled.stderr, theta.stderr / unit, rtol=1e-5)
    close(moved.weights, fit.weights, rtol=1e-6)
    known = vardi.debias({"p": plain, "t": tilted}, {"p": 1, "t": fit.estimated_biases["t"]})
    close(known.weights, fit.weights, rtol=1e-6)
    ratio = fit.test_no_bias("t")
    assert isinstance(ratio, vardi.LikelihoodRatio)
    assert ratio.statistic >= 0
    assert 0.0 <= ratio.pvalue <= 1.0
    close(fit.test_parameters("t", {"x": theta.value}).statistic, 0.0, atol=1e-6)


def test_a_case_of_a_seed_is_one_case():
    first, second = case(3), case(3)
    for name in first.samples:
        pd.testing.assert_frame_equal(first.samples[name], second.samples[name])


@given(seeds, st.integers(5, 40), st.integers(2, 12))
@examples(25)
def test_windows_stand_for_their_matrix(seed, n, K):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 12, n).astype(float)  # with ties, and windows that end on a row
    low, high = np.sort(rng.integers(-1, 13, (2, K)), axis=0).astype(float)
    low[0], high[0] = -np.inf, np.inf
    windows = vardi.Windows(x, low, high)
    seen = (low <= x[:, None]) & (x[:, None] <= high)
    assert (windows.shape, windows.ndim, windows.dtype) == ((n, K), 2, bool)
    np.testing.assert_array_equal(windows.toarray(), seen)
    source = np.array([rng.choice(np.flatnonzero(row)) for row in seen])
    weights, groups = [], []
    for omega in (windows, seen.astype(float)):
        try:
            weights.append(vardi.debias_matrix(omega, source).weights)
        except vardi.NotIdentifiableError as refusal:
            groups.append({frozenset(group) for group in refusal.groups})
    if groups:
        assert groups[0] == groups[1]
    else:
        close(*weights)


@given(seeds, st.integers(3, 40), st.sampled_from(["both", "low", "high"]))
@examples(25)
def test_truncated_rows_are_one_sample_with_the_weights_of_their_windows(seed, n, ends):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 12, n).astype(float)  # with ties, and windows that end on a row
    low, high = x - rng.integers(0, 6, n), x + rng.integers(0, 6, n)
    frame = pd.DataFrame({"x": x, "u": low, "v": high, "z": rng.normal(size=n)})
    bias = vardi.window("x", None if ends == "high" else "u", None if ends == "low" else "v")
    assert vardi.where(str(bias)) == bias
    low, high = np.full(n, -np.inf) if ends == "high" else low, np.full(n, np.inf) if ends == "low" else high
    windows = vardi.Windows(x, low, high)
    try:
        matrix = vardi.debias_matrix(windows, np.arange(n))
    except vardi.NotIdentifiableError:
        with pytest.raises(vardi.NotIdentifiableError, match="at risk|in rounding|risk sets"):
            vardi.debias({"seen": frame}, {"seen": bias})
        assert not vardi.identify({"seen": frame}, {"seen": bias})
        return
    fit = vardi.debias({"seen": frame}, {"seen": bias})
    assert (fit.names, fit.sizes, vardi.identify({"seen": frame}, {"seen": bias}).identified) == (
        ("seen",),
        {"seen": n},
        True,
    )
    close(fit.weights, matrix.weights)
    close(fit.omegas["seen"], n / np.sum(1 / np.array(list(matrix.omegas.values()))))
    close(fit.weigh(frame), fit.weights)
    order = rng.permutation(n)
    shuffled = vardi.debias({"seen": frame.iloc[order]}, {"seen": bias})
    close(shuffled.weights, np.asarray(fit.weights)[order])
    close(shuffled.check_biases().pvalue, fit.check_biases().pvalue)
