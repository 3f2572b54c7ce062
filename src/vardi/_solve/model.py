"""Which coordinates a fit has, and its solution in all of them: normalisers, parameters, known moments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from vardi._inputs.known import Known
from vardi._inputs.known_on_rows import out_of_reach
from vardi._inputs.pool import Name
from vardi._machine.threads import single_threaded_blas
from vardi._rows.base import Rows
from vardi._rows.joint import Joint, JointRows
from vardi._solve.identify import Joining, Verdict, connected, cut_verdict, group_text, judge, weak_groups
from vardi._solve.joint import Walk, descend, meet, stationary
from vardi._solve.laplacian import Laplacian
from vardi._solve.newton import GAP, Solution, newton, solve
from vardi._solve.parameters import (
    held_of,
    require_identified,
    search,
    unknown_everywhere,
    warn_of_vague_parameters,
)
from vardi._types import Floats, Integers
from vardi.errors import ConvergenceError, InvalidKnownError, NotIdentifiableError

if TYPE_CHECKING:
    from vardi._rows.lazy_model import LazyRows

MIN_PROBED_ROWS = 10_000  # rows above which a few of them are checked first
MAX_SERIAL_NUMBERS = 2_000_000  # numbers (rows times coordinates) up to which linear algebra gains nothing from threads
START_TOLERANCE = 1e-6  # of the solution on a small part of the rows, from which an engine starts
PROBED_ROWS = 50  # rows of each sample that are usually enough to show that all are linked
THIN = 1e-6  # spectral gap of a point that may be on its way to infinity
JOINED = 1e-8  # of the means of known functions in groups: below it the groups cannot be distinguished
EMPTY = 1e-5  # mass of a group, estimated from means, below which the solution has diverged and left it none


def solve_plain(
    rows: Rows | LazyRows,
    names: Sequence[Name],
    tol: float,
    max_iterations: int,
    near: Mapping[Name, float] | None = None,
) -> Solution | Verdict:
    """Return the solution of known biases alone, or the verdict that there is none.

    ``near`` are log normalisers near the solution, for some or all names, such as those of a part of the rows.
    """
    if not _are_linked(rows):
        return judge(rows, names)
    start = None if near is None else _start(rows, names, near)
    solution = solve(rows, tol=tol, max_iterations=max_iterations, start=start)
    # u still diverges while the equations nearly hold: the gap can only fall further (a minimum at infinity)
    runs_off = not solution.converged and solution.gap < THIN and solution.step >= 1.0 and solution.residual <= 1e-3
    if solution.gap < GAP or runs_off:
        return cut_verdict(judge(rows, names), solution.cut[rows.sizes > 0], solution.gap)
    if not solution.converged:
        raise ConvergenceError(
            f"Vardi's equations hold only to {solution.residual:.1e} after {solution.iterations} iterations, but "
            f"{tol:.0e} was asked for (spectral gap {solution.gap:.1e}). The samples overlap too little for the "
            "rounding of the sums, or the tolerance is below it. Raise tol or max_iterations, or add a sample "
            "between those that overlap least.",
            solution=solution,
        )
    return solution


def _are_linked(rows: Rows | LazyRows) -> bool:
    """Return whether all samples can be compared, judged by a few of their rows if these suffice."""
    if rows.positive:
        return True
    few = rows if len(rows) <= MIN_PROBED_ROWS else rows.subsample(0.0, least=PROBED_ROWS)  # their links are valid
    return connected(few.reach(), few.sizes) or (few is not rows and connected(rows.reach(), rows.sizes))


def _start(rows: Rows | LazyRows, names: Sequence[Name], near: Mapping[Name, float]) -> Floats | None:
    """Return u from log normalisers; those of new samples come from the weights of the others, None if undefined."""
    sampled, n = rows.sizes > 0, rows.sizes.sum()
    logs = np.array([near.get(name, np.nan) for name in names])
    told = sampled & np.isfinite(logs)
    new = sampled & ~told
    with np.errstate(divide="ignore", invalid="ignore"):
        log_shares = np.log(rows.sizes / n)
        u = np.where(told, log_shares - logs, -np.inf)
        if new.any():
            if not (isinstance(rows, Rows) and told.any()):
                return None  # nothing to go by, or an engine, which starts from a few of its rows
            others = rows.subset(np.flatnonzero(told[rows.source]))
            u[new] = log_shares[new] + np.log(n) - others.log_means(u)[new]
    return u if np.isfinite(u[sampled]).all() else None


@dataclass(frozen=True)
class JointFit:
    """A solution in all coordinates, and the one from the samples alone.

    Attributes
    ----------
    solution : Solution
        At the known values and the estimated parameters.
    alone : ndarray or None
        The point without known values, with each group connected by overlap on its own scale; None if only known
        values identify the parameters.
    groups : ndarray of int or None
        The group of each bias within which samples can be compared by overlap; -1 for a state without rows. None if
        all biases are known and there is one group.
    joining : Joining or None
        How known values join the groups; None if there is only one.
    """

    solution: Solution
    alone: Floats | None = None
    groups: Integers | None = None
    joining: Joining | None = None


def solve_joint(
    joint: JointRows,
    names: Sequence[Name],
    known: Known,
    values: Floats,
    verdict: Verdict,
    *,
    tol: float,
    max_iterations: int,
    near: Mapping[Name, float] | None = None,
) -> JointFit:
    """Solve for normalisers, parameters and multipliers of known moments.

    Parameters
    ----------
    joint : JointRows
        The rows, in memory or in an engine; in an engine the solution starts from that of a small part of them.
    names : sequence
        A name for each bias.
    known : Known
        What is known, for messages.
    values : ndarray of shape (n, m)
        The known functions on the rows, for messages.
    verdict : Verdict
        The verdict on the overlap.
    near : mapping, optional
        Log normalisers near the solution, if all biases are known. Parameters are always searched afresh, since
        their likelihood may have several minima.
    """
    rows, few = joint, joint.few
    reached = tol if few is rows else START_TOLERANCE
    with single_threaded_blas() if len(few) * len(few.coordinates) <= MAX_SERIAL_NUMBERS else nullcontext():
        found = _solved(few, names, known, values, verdict, reached, max_iterations, near)
    return found if isinstance(rows, Joint) else _polished_in_engine(rows, found, tol, max_iterations)


def _solved(
    joint: Joint,
    names: Sequence[Name],
    known: Known,
    values: Floats,
    verdict: Verdict,
    tol: float,
    max_iterations: int,
    near: Mapping[Name, float] | None,
) -> JointFit:
    groups = weak_groups(joint.base, verdict) if known else np.where(joint.sizes > 0, 0, -1)
    if not known:
        verdict.require()
        if len(joint.families) == int((joint.sizes > 0).sum()):
            raise unknown_everywhere([names[k] for k in joint.families], verdict)
    start, identified = _without_known(joint, names, groups, tol, max_iterations, near)
    held, joining = held_of(joint), None
    if not known:
        walk = _polished(joint, start, held, tol, max_iterations, names)
    else:
        joining = _joining(joint, start, groups, verdict)
        walk = meet(joint, start, held, tol=tol, most=max_iterations)
        if not walk.converged:
            raise _not_met(joint, walk, known, values, groups, names)
        # as u of a group diverges, the equations hold ever better, while nothing is left for the group
        least = max(EMPTY, 10 * tol) if joining is not None and not joining.exact else 10 * tol
        if error := _emptied(joint, walk, known, groups, names, least=least):
            raise error
    if joint.families:
        require_identified(joint, walk.at, names)
        warn_of_vague_parameters(joint, walk.at, names)
    without = start if known and identified else None
    return JointFit(_solution(joint, walk, groups), without, groups, joining)


def _polished_in_engine(rows: JointRows, few: JointFit, tol: float, max_iterations: int) -> JointFit:
    """Solve in the engine, starting from the solution of a small part of the rows in memory."""
    held = held_of(rows.few)
    assert few.solution.point is not None
    walk = meet(rows, few.solution.point, held, tol=tol, most=max_iterations)
    if not walk.converged:
        raise ConvergenceError(
            f"The equations hold only to {walk.at.residual:.1e} after {walk.iterations} steps, but {tol:.0e} was asked "
            "for. Collect the columns you need and debias them in memory to see more.",
            solution=replace(few.solution, converged=False),
        )
    without = few.alone
    if without is not None:
        own = rows.without_known()
        without = without[: len(own.coordinates)]
        without = (descend(own, without, held) if rows.families else stationary(own, without, held, tol=tol)).v
    _, shift = rows.weights(walk.v)
    v, at = rows.coordinates.rescaled(walk.v, shift), rows.coordinates
    u = v[at.u] - rows.model.shift(v[at.theta])
    solution = replace(few.solution, u=u, point=v, weights=None, iterations=walk.iterations)
    return replace(few, solution=replace(solution, residual=walk.at.residual, step=walk.step), alone=without)


def joining_of(joint: Joint, names: Sequence[Name], verdict: Verdict, tol: float = 1e-6) -> Joining | None:
    """Return how known values join the groups that overlap leaves, or refuse groups that they do not join."""
    groups = weak_groups(joint.base, verdict)
    if groups.max() <= 0:
        return None
    start, _ = _without_known(joint, names, groups, tol, 100)
    return _joining(joint, start, groups, verdict)


def _without_known(
    joint: Joint,
    names: Sequence[Name],
    groups: Integers,
    tol: float,
    max_iterations: int,
    near: Mapping[Name, float] | None = None,
) -> tuple[Floats, bool]:
    """Return the point from the samples alone, each group on its own scale, and whether it is identified."""
    at = joint.coordinates
    rest = np.zeros(at.known + at.uncertain)
    if joint.families:
        walk = search(joint, max_iterations)
        try:
            require_identified(joint.without_known(), walk.at, names)
            identified = True
        except NotIdentifiableError:
            if not at.known:
                raise
            identified = False
        return np.concatenate([walk.v, rest]), identified
    u = np.full(at.samples, -np.inf)
    for label in range(int(groups.max()) + 1):
        states = groups == label
        part = joint.base if groups.max() == 0 else joint.base.subset(np.flatnonzero(states[joint.source]))
        if states.sum() == 1:
            u[states] = 0.0
        else:
            found = solve_plain(part, names, tol, max_iterations, near)
            if isinstance(found, Verdict):
                raise found.error()
            u[states] = found.u[states]
        _, shift = part.weights(np.where(states, u, -np.inf))
        u[states] += shift  # weights of mean 1 within the group: it has the mass of its rows
    return np.concatenate([u, rest]), True


def _polished(joint: Joint, v: Floats, held: int, tol: float, max_iterations: int, names: Sequence[Name]) -> Walk:
    """Take the last steps to the solution, in the normalisers alone if second derivatives are unknown."""
    walk = stationary(joint, v, held, tol=tol, most=max_iterations)
    if walk.converged:
        return walk
    at = joint.coordinates
    rows, shift = joint.rows_at(v[at.theta]), joint.model.shift(v[at.theta])
    solution = newton(rows, v[at.u] - shift, tol=tol, max_iterations=max_iterations)
    point = v.copy()
    point[at.u] = solution.u + shift
    again = stationary(joint, point, held, tol=1e-6, most=0)
    squared = float(again.at.gradient @ again.at.information.solve(again.at.gradient))
    score = math.sqrt(max(squared, 0.0))
    if not solution.converged or score > 1e-4:
        raise ConvergenceError(
            f"The parameters of {', '.join(repr(str(names[k])) for k in joint.families)} were not found in "
            f"{walk.iterations} steps: the gradient of their likelihood is {score:.1e} of its standard error. The "
            "likelihood is not smooth, or the start is far off. Give another start, or a gradient.",
            solution=replace(_solution(joint, again, np.where(joint.sizes > 0, 0, -1)), converged=False),
        )
    return replace(again, converged=True, iterations=walk.iterations + solution.iterations)


def _solution(joint: Joint, walk: Walk, groups: Integers) -> Solution:
    """Return the solution in the gauge in which weights have mean 1, with u on the user's scale."""
    at = joint.coordinates
    weights, shift = joint.weights(walk.v)
    v = joint.coordinates.rescaled(walk.v, shift)
    rows = joint.rows_at(v[at.theta])
    u = v[at.u] - joint.model.shift(v[at.theta])
    gap, cut = _gap(rows, u, groups)
    return Solution(
        u, walk.converged, walk.iterations, walk.at.residual, walk.step, gap, np.nan, cut, point=v, weights=weights
    )


def _gap(rows: Rows, u: Floats, groups: Integers) -> tuple[float, Floats]:
    """Return the smallest spectral gap of a group, and its vector, negative on the other groups."""
    sums = rows.settled(u).sums(u, objective=False)
    cut, smallest = np.full(len(u), -1.0), 1.0
    cut[rows.sizes == 0] = 0.0
    for label in range(int(groups.max()) + 1):
        states = groups == label
        if states.sum() < 2:
            continue
        gap, side = Laplacian.of(sums, states).gap()
        if gap <= smallest:
            smallest = gap
            cut[rows.sizes > 0] = -1.0
            cut[states] = side if side[0] >= 0 else -side
    return smallest, cut


def _joining(joint: Joint, v: Floats, groups: Integers, verdict: Verdict) -> Joining | None:
    """Return how known values join groups, or refuse those whose share of the population is undetermined."""
    count = int(groups.max()) + 1
    if count == 1:
        return None
    weights, _ = joint.weights(v)
    mass = weights * joint.counts
    members = np.eye(count)[groups[joint.source]]
    g = joint.columns(v, lambda rows: rows.g, joint.coordinates.known)
    g = g / np.where(np.ptp(g, axis=0) > 0, np.ptp(g, axis=0), 1.0)
    means = (members * mass[:, None]).T @ g / (mass @ members)[:, None]
    left, values, _ = np.linalg.svd(np.column_stack([np.ones(count), means]))
    rank = int((values > JOINED * values[0]).sum())
    if rank == count:
        within = g - members @ means
        spread, axes = np.linalg.eigh((within * mass[:, None]).T @ within / mass.sum())
        constant = np.column_stack([np.ones(count), means @ axes[:, spread < JOINED**2]])
        return Joining(bool(np.linalg.matrix_rank(constant, JOINED) == count), float(values[0] / values[-1]))
    loose = np.flatnonzero(np.abs(left[:, rank:]).max(axis=1) > JOINED)
    wanted = " or ".join(group_text(verdict.groups[g]) for g in loose[:3])
    more = "" if len(loose) <= 3 else f" (there are {len(loose)} such groups)"
    raise NotIdentifiableError(
        f"Overlap leaves the samples in {count} groups, and the known values do not determine how much of the "
        f"population each of these represents: it is undetermined for {wanted}{more}. Give the share of what such a "
        "group can draw, by the name of its sample or as a condition, or a mean that differs between the groups.",
        groups=verdict.groups,
        verdict=verdict,
    )


def _not_met(
    joint: Joint, walk: Walk, known: Known, values: Floats, groups: Integers, names: Sequence[Name]
) -> InvalidKnownError | ConvergenceError:
    """Return the error for known values that were not met, with the reason if there is one."""
    error = out_of_reach(known, values)
    if error is not None:
        return error
    emptied = _emptied(joint, walk, known, groups, names, least=0.01 / (1 + groups.max()))
    if emptied is not None:
        return emptied
    return ConvergenceError(
        f"Weights that meet the known values ({', '.join(map(repr, known.labels))}) exist, but were not found: the "
        f"equations hold to {walk.at.residual:.1e} after {walk.iterations} steps. The values are far from those of "
        "the samples, so some rows would have almost no weight. Check them; if the selection of a sample depends on "
        "what they describe, declare it, e.g. with vardi.cells(...).",
        solution=_solution_or_none(joint, walk, groups),
    )


def _emptied(
    joint: Joint, walk: Walk, known: Known, groups: Integers, names: Sequence[Name], *, least: float
) -> InvalidKnownError | None:
    """Return the error for known values that leave almost no weight for a group joined only by them."""
    if groups.max() == 0 or not walk.at.sums.positive:
        return None
    gone = np.flatnonzero(joint.masses_of(groups, walk.v) < least)
    if not len(gone):
        return None
    members = [names[int(k)] for k in np.flatnonzero(groups == gone[0])]
    return InvalidKnownError(
        f"The known values contradict the samples: the nearer weights come to meeting them, the less is left for "
        f"{group_text(members)}, whose rows are part of the population. Correct the known values "
        f"({', '.join(map(repr, known.labels))}), or the biases.",
        labels=list(known.labels),
    )


def _solution_or_none(joint: Joint, walk: Walk, groups: Integers) -> Solution:
    nothing = np.zeros(joint.coordinates.samples)
    if not walk.at.sums.positive:
        return Solution(walk.v[joint.coordinates.u], False, walk.iterations, np.inf, np.inf, 0.0, np.nan, nothing)
    return replace(_solution(joint, walk, groups), converged=False)
