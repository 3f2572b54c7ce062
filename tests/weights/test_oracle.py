"""Three hundred random designs: each certified to 1e-9 from the outside, or refused for the right reason.

The long version is tests/slow/test_oracle_nightly.py. What ends how is in tests/judging.py.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import extended
import numpy as np
import pytest
from designs import FAMILIES, Design, design
from judging import BOUNDED, CERTIFIED, REFUSALS, WRONG, judge, judge_all, run, strong_groups, table
from oracle import exact
from scipy import sparse

import vardi

SEEDS = dict.fromkeys(FAMILIES, range(19)) | {"many samples": range(10, 18), "large": range(7)}
ONLY = {  # families that can end in one way only
    "disconnected": {"NotIdentifiableError"},
    "one way": {"NotIdentifiableError"},
    "impossible": {"ImpossibleRowError"},
    "invalid": {"InvalidBiasError", "InvalidCountsError"},
}

pytestmark = pytest.mark.skipif(not extended.HAS_64_BITS, reason="long doubles are doubles here: no oracle")


def test_there_are_three_hundred():
    assert sum(map(len, SEEDS.values())) == 300


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_every_design_is_certified_or_rightly_refused(family):
    outcomes = judge_all(family, SEEDS[family])
    assert not [str(outcome) for outcome in outcomes if outcome.kind == WRONG]
    kinds = Counter(outcome.kind for outcome in outcomes)
    if family in ONLY:
        assert set(kinds) <= ONLY[family]
    else:
        assert kinds[CERTIFIED] > len(outcomes) / 3
    if family != "faint":  # the one that is made to be too hard
        assert not kinds[BOUNDED]


def test_the_table_counts_what_there_is():
    outcomes = [judge(design(family, seed)) for family in ("indicator", "disconnected") for seed in range(3)]
    lines = table(outcomes).splitlines()
    assert lines[0].split()[:2] == ["family", "designs"]
    assert [line.split()[1] for line in lines[1:]] == ["3", "3", "6"]


# ---------------------------------------------------------------- the designs are what they claim


@pytest.mark.parametrize("family", FAMILIES)
def test_a_design_is_drawn_again_from_its_family_and_seed(family):
    first, again, other = design(family, 3), design(family, 3), design(family, 4)
    assert str(first) == str(again)
    for one, two in ((first.omega, again.omega), (first.source, again.source), (first.counts, again.counts)):
        one, two = (part.toarray() if sparse.issparse(part) else part for part in (one, two))
        np.testing.assert_array_equal(one, two)
    assert first.omega.shape != other.omega.shape or (first.source != other.source).any()


def fits(family: str, seeds: int) -> list[tuple[Design, Any]]:
    solved = []
    for seed in range(seeds):
        drawn = design(family, seed)
        try:
            solved.append((drawn, run(drawn)))
        except vardi.NotIdentifiableError:
            continue
    return solved


def test_wide_weights_span_twelve_orders_of_magnitude():
    spans = [np.log10(fit.weights.max() / fit.weights.min()) for _, fit in fits("wide weights", 10)]
    assert len(spans) >= 8
    assert min(spans) > 12


def test_logs_spread_over_hundreds():
    spreads = [
        np.ptp(x[np.isfinite(x)]) for x in (extended.log_matrix(d.omega, log=True) for d, _ in fits("log domain", 20))
    ]
    assert np.median(spreads) > 500


def test_chains_share_one_row_with_each_neighbour():
    for seed in range(10):
        drawn = design("chain", seed)
        there = extended.log_matrix(drawn.omega, log=False) > -np.inf
        shared = [
            sum(there[drawn.source == k, l]) for k in range(there.shape[1]) for l in range(there.shape[1]) if k != l
        ]
        assert set(shared) <= {0, 1}
        assert sum(shared) == 2 * (there.shape[1] - 1)


def test_shapes_forms_counts_and_states():
    drawn = [design(family, seed) for family in FAMILIES for seed in SEEDS[family]]
    assert max(d.omega.shape[1] for d in drawn) == 300
    assert {type(d.omega).__name__ for d in drawn} == {"ndarray", "csr_array", "csc_matrix", "coo_array"}
    assert {d.columns for d in drawn} == {d.log for d in drawn} == {True, False}
    counts = [d.counts for d in drawn if d.family == "counts"]
    assert any((c == 0).any() for c in counts)
    assert any(c.max() > 1e5 for c in counts)
    assert all(len(np.unique(d.source)) < d.omega.shape[1] for d in drawn if d.family == "unsampled")
    assert all(
        len(np.unique(extended.log_matrix(d.omega, log=d.log), axis=0)) < 60 for d in drawn if d.family == "ties"
    )
    assert all(d.omega.shape[0] * d.omega.shape[1] > 200_000 for d in drawn if d.family == "large")


def test_groups_by_hand():
    positive = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1]], bool)
    assert strong_groups(positive, np.array([0, 1, 2])) == [(0,), (1,), (2,)]
    positive[0, 1] = True
    assert strong_groups(positive, np.array([0, 1, 2])) == [(0, 1), (2,)]


# ---------------------------------------------------------------- the oracle itself


@pytest.mark.long
@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in ("many samples", "large", *ONLY)])
def test_the_oracle_agrees_with_fifty_digits(family):
    """Two solvers that share nothing; the bound on the error of the faster one holds."""
    seen = 0
    for seed in range(1000, 1400):
        drawn = design(family, seed)
        n, K = drawn.omega.shape
        if n * K > 250 or K == 1 or judge(drawn).kind not in (CERTIFIED, BOUNDED):
            continue
        truth = exact(drawn.omega, drawn.source, drawn.counts, log=drawn.log)
        found = extended.solve(drawn.omega, drawn.source, drawn.counts, log=drawn.log)
        sampled, covered = np.isfinite(truth.u), np.isfinite(truth.log_omegas)
        size = 1 + np.abs(truth.u[sampled]).max()  # to which 50 digits were rounded at the end
        assert np.ptp(found.u[sampled] - truth.u[sampled]) <= found.error + 4e-16 * size
        np.testing.assert_allclose(
            np.float64(found.log_omegas[covered]), truth.log_omegas[covered], rtol=4e-16, atol=1e-14
        )
        np.testing.assert_allclose(np.float64(np.exp(found.log_weights)), truth.weights, rtol=1e-12, atol=1e-290)
        np.testing.assert_allclose(found.gap, truth.gap, rtol=1e-6, atol=1e-14)
        seen += 1
        if seen == 2:
            break
    assert seen == (0 if family == "ties" else 2)  # ties have thousands of rows


@pytest.mark.parametrize("exponent", [4, 7, 8, 10, 12, 20, 60, 150, 290])
def test_links_that_vanish(exponent):
    """Two samples that allow one row of each other by 10^-exponent: a fit while the gap is above 1e-9, no longer."""
    omega = np.eye(2)[[0, 0, 0, 1, 1]]
    omega[0, 1] = omega[4, 0] = 10.0**-exponent
    truth = exact(omega, [0, 0, 0, 1, 1], digits=50 + 4 * exponent)
    if truth.gap > 1e-9:
        fit = vardi.debias_matrix(omega, [0, 0, 0, 1, 1])
        assert np.ptp(fit.solution.u - truth.u) <= fit.solution.certificate
        np.testing.assert_allclose(fit.weights, truth.weights, rtol=fit.solution.certificate + 1e-15)
    else:
        with pytest.raises(vardi.NotIdentifiableError, match="spectral gap") as caught:
            vardi.debias_matrix(omega, [0, 0, 0, 1, 1])
        assert caught.value.groups == (("0",), ("1",))
    assert (truth.gap > 1e-9) == (exponent < 9)


def test_samples_that_overlap_are_not_refused_for_a_start_that_is_far_from_the_solution():
    """Where the start is hundreds away the Hessian is singular; the gap there says nothing of that at the solution."""
    whole = design("log domain", 10_418)
    assert judge(whole).kind == "gap below 1e-9"  # for two samples that stand apart, and not for where the start is
    kept = np.array([0, 1, 2, 4, 5, 7])
    rows = np.isin(whole.source, kept)
    rest = replace(whole, omega=whole.omega[rows][:, kept], source=np.searchsorted(kept, whole.source[rows]))
    assert extended.solve(rest.omega, rest.source, log=True).gap > 1e-5
    assert str(judge(rest)) == "log domain 10418: certified "


# ---------------------------------------------------------------- what is wrong is found


@dataclass(frozen=True)
class Forged:
    """A fit that says something else."""

    names: tuple
    log_omegas: dict
    weights: np.ndarray
    probabilities: np.ndarray
    solution: Any


def forge(design: Design, **changes: Any) -> Forged:
    fit = run(design)
    given = {name: getattr(fit, name) for name in Forged.__dataclass_fields__}
    given |= {"weights": np.asarray(fit.weights), "probabilities": np.asarray(fit.probabilities)}
    return Forged(**given | {name: change(given[name]) for name, change in changes.items()})


def moved(fit: Forged, by: float) -> dict:
    return {name: value + by * (-1) ** j for j, (name, value) in enumerate(fit.items())}


def alternating(values: np.ndarray, by: float) -> np.ndarray:
    return values + by * (-1.0) ** np.arange(len(values))


def first_row_dropped(design: Design) -> Any:
    counts = np.ones(len(design.source)) if design.counts is None else design.counts.copy()
    counts[np.flatnonzero(design.source == np.bincount(design.source).argmax())[0]] = 0
    other = run(replace(design, counts=counts))
    return Forged(
        other.names,
        other.log_omegas,
        np.asarray(run(design).weights),
        np.asarray(run(design).probabilities),
        other.solution,
    )


def another_bias(design: Design) -> Any:
    omega = design.omega.copy()
    omega[:, 0] *= np.exp(1e-7 * (-1.0) ** np.arange(len(omega)))
    return run(replace(design, omega=omega))


MUTANTS = {
    "u off by 1e-7": lambda d: forge(d, solution=lambda s: replace(s, u=alternating(s.u, 5e-8))),
    "u off by 1e-7 and certified": lambda d: forge(
        d, solution=lambda s: replace(s, u=alternating(s.u, 5e-8), certificate=1e-6)
    ),
    "u off by 1e-11 without a certificate": lambda d: forge(
        d, solution=lambda s: replace(s, u=alternating(s.u, 1e-11), certificate=1e-14)
    ),
    "normalisers off by 1e-7": lambda d: forge(d, log_omegas=lambda values: moved(values, 1e-7)),
    "weights off by 1e-7": lambda d: forge(d, weights=lambda w: w * alternating(np.ones(len(w)), 1e-7)),
    "weights of a mean of 1 + 1e-9": lambda d: forge(d, weights=lambda w: w * (1 + 1e-9)),
    "weights in another order": lambda d: forge(d, weights=lambda w: w[::-1], probabilities=lambda p: p[::-1]),
    "one weight missing": lambda d: forge(d, weights=lambda w: w[1:], probabilities=lambda p: p[1:]),
    "one row left out": first_row_dropped,
    "one bias off by 1e-7": another_bias,
    "another gap": lambda d: forge(d, solution=lambda s: replace(s, gap=s.gap / 2)),
    "did not converge": lambda d: forge(d, solution=lambda s: replace(s, converged=False)),
    "not a number": lambda d: forge(d, weights=lambda w: w * np.nan),
    "names in another order": lambda d: forge(d, names=lambda names: names[::-1]),
}


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_fit_is_found(mutant):
    drawn = [design("continuous", seed) for seed in range(40)]
    drawn = [d for d in drawn if d.omega.shape[1] > 1 and d.omega.shape[0] > 2 * d.omega.shape[1]][:10]
    assert [judge(d).kind for d in drawn] == [CERTIFIED] * 10
    assert [judge(d, MUTANTS[mutant]).kind for d in drawn] == [WRONG] * 10


def refusal(error: Exception):
    def solver(design: Design) -> Any:
        raise error

    return solver


FALSE_REFUSALS = {
    "groups": vardi.NotIdentifiableError("The samples fall into 2 groups.", groups=[("0",), ("1",)]),
    "gap": vardi.NotIdentifiableError("lost in rounding (spectral gap 1.0e-12)", groups=[("0",), ("1",)]),
    "convergence": vardi.ConvergenceError("after 100 iterations", solution=None),
    "impossible": vardi.ImpossibleRowError("forbids", sample="0", rows=[0]),
    "invalid": vardi.InvalidBiasError("is nan", sample="0", rows=[0]),
    "mismatch": vardi.MismatchError("does not match"),
    "another error": ZeroDivisionError("division by zero"),
    "a warning": RuntimeWarning("invalid value encountered in divide"),
}


@pytest.mark.parametrize("kind", FALSE_REFUSALS)
def test_a_false_refusal_is_found(kind):
    families = ("continuous", "disconnected", "one way", "impossible", "invalid")
    outcomes = [judge(design(family, seed), refusal(FALSE_REFUSALS[kind])) for family in families for seed in range(4)]
    assert {outcome.kind for outcome in outcomes} == {WRONG}


@pytest.mark.parametrize("family", ONLY)
def test_a_fit_of_what_cannot_be_fitted_is_found(family):
    fit = run(design("continuous", 0))
    assert {judge(design(family, seed), lambda d: fit).kind for seed in range(5)} == {WRONG}


def test_a_cut_through_a_group_is_found():
    """Of a design that is refused for its gap, other groups than those that hardly overlap are wrong."""
    found = 0
    for seed in range(300):
        drawn = design("faint", seed)
        if judge(drawn).kind != "gap below 1e-9":
            continue
        with pytest.raises(vardi.NotIdentifiableError) as caught:
            run(drawn)
        links = extended.solve(drawn.omega, drawn.source).links
        k, l = np.unravel_index(links.argmax(), links.shape)  # these two hold together
        names = [name for group in caught.value.groups for name in group if name != str(k)]
        wrong = vardi.NotIdentifiableError(str(caught.value), groups=[(str(k),), names])
        assert any({str(k), str(l)} <= set(group) for group in caught.value.groups)
        assert judge(drawn, refusal(wrong)).kind == WRONG
        found += 1
        if found == 3:
            return
    raise AssertionError("no design was refused for its gap")


def test_every_kind_of_refusal_is_counted():
    assert len(set(REFUSALS)) == 7
