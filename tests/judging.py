"""What a design must end in, and whether it did: from its matrix alone, without any code of the package."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import extended
import numpy as np
from designs import Design
from designs import design as draw
from scipy import sparse

import vardi

ASKED = 1e-9  # of the logs of weights and normalisers
GAP = 1e-9  # spectral gap below which samples count as not comparable
ROUNDING = 2.0**-53
ROOM = 4  # roundings that a sum may gather before it is at fault
TINY = 1e-290

CERTIFIED, BOUNDED, WRONG = "certified", "bounded", "WRONG"
REFUSALS = (
    "NotIdentifiableError",
    "gap below 1e-9",
    "ConvergenceError",
    "ImpossibleRowError",
    "InvalidBiasError",
    "InvalidCountsError",
    "EmptySampleError",
)
KINDS = (CERTIFIED, BOUNDED, *REFUSALS, WRONG)


@dataclass(frozen=True)
class Outcome:
    """How a design ended: certified, bounded by its certificate, rightly refused, or wrong and why."""

    family: str
    seed: int
    kind: str
    error: float = 0.0  # the largest true error of log u, log weights, log normalisers
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.family} {self.seed}: {self.kind} {self.reason}"


class WrongError(Exception):
    """What the package said is not so."""


def run(design: Design) -> Any:
    """Give the design to the package."""
    if not design.columns:
        return vardi.debias_matrix(design.omega, design.source, design.log, counts=design.counts)
    names = [str(k) for k in range(design.omega.shape[1])]
    biases = dict(zip(names, design.omega.T, strict=True))
    values = np.arange(len(design.source), dtype=float)
    labels = np.array(names)[design.source]
    return vardi.debias(values, biases, source=labels, counts=design.counts)


def judge(design: Design, solver: Callable[[Design], Any] = run) -> Outcome:
    """Solve the design, and say whether what came is right."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a stray warning is wrong too
        try:
            result: Any = solver(design)
        except vardi.VardiError as error:
            result = error
        except Exception as error:
            return Outcome(design.family, design.seed, WRONG, np.nan, f"{type(error).__name__}: {error}")
    try:
        kind, size = _verdict(design, result)
    except WrongError as problem:
        return Outcome(design.family, design.seed, WRONG, np.nan, str(problem))
    return Outcome(design.family, design.seed, kind, size)


def judge_all(family: str, seeds: Iterable[int]) -> list[Outcome]:
    """Judge several designs of a family."""
    return [judge(draw(family, seed)) for seed in seeds]


def _verdict(design: Design, result: Any) -> tuple[str, float]:
    counts = np.ones(len(design.source)) if design.counts is None else np.asarray(design.counts)
    bad = np.flatnonzero(~(np.isfinite(counts) & (counts >= 0)))
    if len(bad):
        _require_error(result, vardi.InvalidCountsError)
        _require(result.rows == tuple(bad[:10]), f"rows {result.rows}, and bad are {bad[:10]}")
        return "InvalidCountsError", 0.0
    K = design.omega.shape[1]
    empty = [k for k in np.unique(design.source) if not counts[design.source == k].any()]
    if empty:
        _require_error(result, vardi.EmptySampleError)
        _require(result.samples == tuple(map(str, empty)), f"empty are {empty}, and not {result.samples}")
        return "EmptySampleError", 0.0
    counted = counts > 0
    values = design.omega
    if sparse.issparse(values):
        values = np.full(values.shape, -np.inf if design.log else 0.0)
        stored = sparse.coo_array(design.omega)
        values[stored.row, stored.col] = stored.data
    invalid = (np.isnan(values) | (values == np.inf) | ((values < 0) & (not design.log))) & counted[:, None]
    if invalid.any():
        _require_error(result, vardi.InvalidBiasError)
        _require_rows(result, {str(k): np.flatnonzero(invalid[:, k]) for k in range(K)})
        return "InvalidBiasError", 0.0
    positive = values > (-np.inf if design.log else 0.0)
    impossible = ~positive[np.arange(len(values)), design.source] & counted
    if impossible.any():
        _require_error(result, vardi.ImpossibleRowError)
        _require_rows(result, {str(k): np.flatnonzero(impossible & (design.source == k)) for k in range(K)})
        return "ImpossibleRowError", 0.0
    groups = strong_groups(positive[counted], design.source[counted])
    if len(groups) > 1:
        _require_error(result, vardi.NotIdentifiableError)
        found = tuple(tuple(map(int, group)) for group in result.groups)
        _require(set(map(frozenset, found)) == set(map(frozenset, groups)), f"the groups are {groups}, not {found}")
        return "NotIdentifiableError", 0.0
    try:
        truth = extended.solve(design.omega, design.source, design.counts, log=design.log)
    except extended.UnsolvedError as error:
        raise WrongError("the oracle has no answer") from error
    if isinstance(result, Exception):
        return _refusal(truth, result), 0.0
    return _solved(design, counts, truth, result)


def _refusal(truth: extended.Extended, result: Exception) -> str:
    """Judge that the package gave up on a design that can be solved: the gap, or rounding, must be to blame."""
    if isinstance(result, vardi.NotIdentifiableError):
        _require("spectral gap" in str(result), f"one group, but {result}")
        _require(truth.gap < GAP, f"the gap is {truth.gap:.3e}, but {result}")
        sides = [np.array([int(name) for name in group]) for group in result.groups]
        sampled = np.flatnonzero(np.isfinite(truth.u))
        _require(len(sides) == 2, f"a cut has two sides, and not {result.groups}")
        _require(sorted(np.concatenate(sides)) == sampled.tolist(), f"{result.groups} are not the samples {sampled}")
        across = truth.links[np.ix_(*sides)].sum()
        volume = min(float(np.exp(truth.u[side] + truth.log_omegas[side]).sum()) for side in sides)
        # Cheeger's inequality: some cut has a conductance of at most sqrt(2 gap); below rounding none can be told apart
        allowed = max(np.sqrt(2 * max(truth.gap, 0.0)), 1e-6)
        _require(across <= allowed * volume, f"{result.groups} share {across / volume:.1e} of their rows")
        return "gap below 1e-9"
    if isinstance(result, vardi.ConvergenceError):
        _require(attainable(truth) > ASKED, f"{attainable(truth):.1e} is within reach, but {result}")
        return "ConvergenceError"
    raise WrongError(f"{type(result).__name__}: {result}")


def attainable(truth: extended.Extended) -> float:
    """Return the error that sums of doubles may leave."""
    return ROOM * ROUNDING * (1 + truth.magnitude) * truth.condition


def _solved(design: Design, counts: np.ndarray, truth: extended.Extended, fit: Any) -> tuple[str, float]:
    _require(truth.error < ASKED / 2, f"the oracle knows its own answer to {truth.error:.1e} only")
    _require(truth.gap > GAP * (1 - 1e-3), f"a fit, but the gap is {truth.gap:.3e}")
    order = [int(name) for name in fit.names]
    _require(sorted(order) == list(range(design.omega.shape[1])), f"names {fit.names}")
    u = np.empty(len(order), np.longdouble)
    u[order] = fit.solution.u
    log_omegas = np.empty(len(order), np.longdouble)
    log_omegas[order] = [fit.log_omegas[name] for name in fit.names]
    sampled, covered = np.isfinite(truth.u), np.isfinite(truth.log_omegas)
    _require((np.isfinite(u) == sampled).all(), f"u is {u}, and sampled are {np.flatnonzero(sampled)}")
    _require((log_omegas[~covered] == -np.inf).all(), "a normaliser of a bias that allows no row")
    weights, probabilities = np.asarray(fit.weights), np.asarray(fit.probabilities)
    _require(weights.shape == probabilities.shape == counts.shape, f"{weights.shape} weights for {counts.shape} rows")
    _require(abs((counts * weights).sum() / counts.sum() - 1) < 1e-12, "weights do not have mean 1")
    _require(np.allclose(probabilities, counts * weights / counts.sum(), rtol=1e-11, atol=TINY), "not probabilities")
    exact = np.exp(truth.log_weights)
    there = (counts > 0) & (exact > TINY)
    _require((weights[(counts > 0) & ~there] < 10 * TINY).all(), "a weight where there is none")
    error_u = float(np.ptp(u[sampled] - truth.u[sampled]))
    error_weights = float(np.abs(np.log(weights[there]) - truth.log_weights[there]).max())
    error_omegas = float(np.abs(log_omegas[covered] - truth.log_omegas[covered]).max())
    error = max(error_u, error_weights, error_omegas)
    _require(not np.isnan(error), "not a number")
    solution = fit.solution
    _require(solution.converged, "did not converge")
    _require(abs(solution.gap - truth.gap) <= 2e-3 * truth.gap + 1e-12, f"gap {solution.gap}, not {truth.gap}")
    last_place = 2 * ROUNDING * (1 + truth.magnitude)  # to which the numbers themselves are rounded
    bound = solution.certificate + truth.error + 2 * last_place
    ratios = float(np.ptp(np.log(weights[there]) - truth.log_weights[there]))
    _require(error_u <= bound, f"u is off by {error_u:.2e}, beyond its certificate {solution.certificate:.2e}")
    exponents = 2 * last_place + 8 * ROUNDING * (2 + float(np.abs(truth.log_weights[there]).max()))  # rounded by row
    _require(ratios <= bound + exponents, f"weights are off by {ratios:.2e}, beyond {solution.certificate:.2e}")
    if error + truth.error <= ASKED:
        return CERTIFIED, error
    _require(error <= bound + 1e-3 * ASKED, f"off by {error:.2e}, beyond its certificate {solution.certificate:.2e}")
    _require(attainable(truth) > ASKED, f"off by {error:.2e}, and {attainable(truth):.1e} is within reach")
    return BOUNDED, error


def strong_groups(positive: np.ndarray, source: np.ndarray) -> list[tuple[int, ...]]:
    """Return the samples that reach one another, along edges k -> l where bias k allows a row of sample l."""
    samples = np.unique(source).tolist()
    after = {l: set() for l in samples}
    before = {l: set(np.flatnonzero(positive[source == l].any(axis=0)).tolist()) & set(samples) for l in samples}
    for l, allowing in before.items():
        for k in allowing:
            after[k].add(l)
    left, groups = list(samples), []
    while left:
        group = _reached(left[0], after) & _reached(left[0], before)
        groups.append(tuple(sorted(group)))
        left = [k for k in left if k not in group]
    return groups


def _reached(start: int, edges: dict[int, set[int]]) -> set[int]:
    seen, front = {start}, [start]
    while front:
        new = edges[front.pop()] - seen
        seen |= new
        front.extend(new)
    return seen


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise WrongError(problem)


def _require_error(result: Any, kind: type) -> None:
    if not isinstance(result, kind):
        raise WrongError(f"{kind.__name__} was due, and what came is {type(result).__name__}: {result}")


def _require_rows(result: Any, bad: dict[str, np.ndarray]) -> None:
    rows = tuple(bad[result.sample][:10].tolist())
    _require(bool(rows) and result.rows == rows, f"rows {result.rows} of {result.sample!r}, and bad are {rows}")


def table(outcomes: Sequence[Outcome]) -> str:
    """Return how many designs of each family ended how, as text."""
    families = list(dict.fromkeys(outcome.family for outcome in outcomes))
    kinds = [kind for kind in KINDS if any(outcome.kind == kind for outcome in outcomes)]
    head = ["family", "designs", *kinds, "worst error"]
    lines = [head, *(_line(name, [o for o in outcomes if o.family == name], kinds) for name in families)]
    lines.append(_line("all", outcomes, kinds))
    widths = [max(len(line[j]) for line in lines) for j in range(len(head))]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in lines)


def _line(name: str, outcomes: Iterable[Outcome], kinds: Sequence[str]) -> list[str]:
    outcomes = list(outcomes)
    counted = Counter(outcome.kind for outcome in outcomes)
    solved = [outcome.error for outcome in outcomes if outcome.kind in (CERTIFIED, BOUNDED)]
    worst = f"{max(solved):.1e}" if solved else "-"
    return [name, str(len(outcomes)), *(str(counted[kind] or "-") for kind in kinds), worst]
