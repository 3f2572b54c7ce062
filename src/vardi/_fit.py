"""Pool -> rows -> verdict -> solution -> DebiasedSample: plain, lazy, with parameters, and with known shares."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from vardi._anchored import AnchoredSample
from vardi._blocked import BlockedSample
from vardi._identify import Verdict, connected, cut_verdict, joined_verdict, judge
from vardi._lazy import LazyDebiasedSample, LazyPool
from vardi._lazy.shares import LazyAnchoredSample, LazyTable, collapse, with_cells
from vardi._newton import GAP, Solution, solve
from vardi._parametric import ParametricSample, Setup, estimate, warn_of_vague_parameters
from vardi._pool import Pool, show
from vardi._rows import Rows, as_rows
from vardi._rows.blocks import Blocks
from vardi._rows.lazy import Part
from vardi._sample import DebiasedSample
from vardi._shares import Anchor, SharesCheck, anchored_rows, as_cells, find_groups, members_of
from vardi._shares.anchor import alone, merged
from vardi._shares.cells import PoolTable, require_rows_in
from vardi._shares.raking import infeasible
from vardi.errors import (
    ContradictedSharesWarning,
    ConvergenceError,
    DroppedSamplesWarning,
    MismatchError,
    NeedsRowsError,
    NotIdentifiableError,
)

OnUnidentified = Literal["raise", "largest"]

MANY = 10_000  # rows from which a few of them are looked at first
FEW = 50  # rows of each sample that mostly show that all are linked


def fit(
    pool: Pool, omega: Any, on_unidentified: OnUnidentified, tol: float, max_iterations: int, *, log: bool
) -> DebiasedSample:
    kept = counted(pool)
    while True:
        rows = rows_of(pool, omega, kept, log=log)
        fitted = _solve(pool, rows, tol, max_iterations)
        if isinstance(fitted, Solution):
            break
        if on_unidentified == "raise":
            raise fitted.error()
        kept = kept & _largest_group(fitted, rows, pool)
    weights, shift = rows.weights(fitted.u)
    solution = replace(fitted, u=fitted.u + shift)
    made = BlockedSample if isinstance(rows, Blocks) else DebiasedSample
    return made(pool, rows, solution, weights, None if kept.all() else kept)


def fit_lazy(pool: LazyPool, on_unidentified: OnUnidentified, tol: float, max_iterations: int) -> DebiasedSample:
    rows = pool.rows()
    fitted = _solve(pool, rows, tol, max_iterations)
    if not isinstance(fitted, Solution):
        if on_unidentified == "largest":
            raise NeedsRowsError(
                f"{fitted.message} Leaving samples out needs rows in memory, and these are in their engine: give the "
                "samples of one group only."
            )
        raise fitted.error()
    weights, shift = rows.weights(fitted.u)
    return LazyDebiasedSample(pool, rows, replace(fitted, u=fitted.u + shift), weights)


def fit_parametric(pool: Pool, on_unidentified: OnUnidentified, tol: float, max_iterations: int) -> DebiasedSample:
    """Estimate parameters with the normalisers, then solve for the latter at these."""
    if on_unidentified == "largest":
        raise MismatchError(
            "on_unidentified='largest' leaves samples out, and with them what is known of parameters. Debias the "
            "samples of one group.",
            expected=("raise",),
            got=("largest",),
        )
    setup = Setup.of(pool)
    verdict = judged(pool, setup.start()).require()
    setup.require_known(verdict)
    names = [pool.names[k] for k in setup.sampled]
    scored = estimate(setup.likelihood, names)
    rows = setup.rows(scored.point.theta)
    fitted = _solve(pool, rows, tol, max_iterations)
    if not isinstance(fitted, Solution):
        raise fitted.error()
    warn_of_vague_parameters(scored, names, stacklevel=4)
    weights, shift = rows.weights(fitted.u)
    return ParametricSample(setup, rows, replace(fitted, u=fitted.u + shift), weights, scored)


def fit_anchored(pool: Pool, omega: Any, shares: Any, tol: float, max_iterations: int, *, log: bool) -> DebiasedSample:
    """Solve each group of samples on its own, and join them by the shares."""
    anchor, rows, _ = anchored_pool(pool, omega, shares, log=log)
    solution = _solve_groups(pool, rows, anchor, tol, max_iterations)
    refit = anchor.weigh(rows, solution.u)
    if refit is None:
        raise infeasible(anchor.cells, anchor.patterns)
    kept = counted(pool)
    fit = AnchoredSample(pool, rows, solution, anchor, refit, None if kept.all() else kept)
    _warn_of_contradiction(fit.shares)
    return fit


def fit_lazy_anchored(pool: LazyPool, shares: Any, tol: float, max_iterations: int) -> DebiasedSample:
    anchor, rows, _, parts = anchored_lazy_pool(pool, shares)
    solution = _solve_groups(pool, rows, anchor, tol, max_iterations)
    refit = anchor.weigh(rows, solution.u)
    if refit is None:
        raise infeasible(anchor.cells, anchor.patterns)
    fit = LazyAnchoredSample(replace(pool, parts=parts), rows, solution, anchor, refit)
    _warn_of_contradiction(fit.shares)
    return fit


def anchored_pool(pool: Pool, omega: Any, shares: Any, *, log: bool) -> tuple[Anchor, Rows, Verdict]:
    """Tie shares to the rows of a pool: cells, groups, and what the shares say of these."""
    cells = as_cells(shares, pool.names, PoolTable(pool))
    kept = counted(pool)
    members = members_of(cells, pool, omega, log=log)[kept]
    require_rows_in(cells, members)
    counts = None if pool.counts is None else pool.counts[kept]
    rows, pattern, patterns = anchored_rows(rows_of(pool, omega, kept, log=log), members, counts)
    verdict = judge(rows, pool.names)
    return Anchor.of(cells, find_groups(rows, verdict), rows, pattern, patterns, verdict), rows, verdict


def anchored_lazy_pool(pool: LazyPool, shares: Any) -> tuple[Anchor, Rows, Verdict, tuple[Part, ...]]:
    cells = as_cells(shares, pool.names, LazyTable(pool))
    parts = with_cells(pool, cells)
    collapsed, members = collapse(pool, parts, cells)
    require_rows_in(cells, members)
    rows, pattern, patterns = anchored_rows(collapsed, members, None)
    verdict = judge(rows, pool.names)
    return Anchor.of(cells, find_groups(rows, verdict), rows, pattern, patterns, verdict), rows, verdict, parts


def joined(anchored: Callable[[], tuple[Any, ...]]) -> Verdict:
    """Return the verdict on groups that shares join, or leave apart."""
    try:
        anchor, _, verdict, *_ = anchored()
    except NotIdentifiableError as error:
        if error.verdict is None:
            raise
        return replace(error.verdict, identified=False, message=str(error))
    return joined_verdict(verdict, anchor.masses)


def _warn_of_contradiction(shares: SharesCheck) -> None:
    if shares.contradicted:
        warnings.warn(
            f"{shares.verdict} A bias or a share is wrong, or they speak of different populations; the weights meet "
            "the shares all the same. fit.shares has the details.",
            ContradictedSharesWarning,
            stacklevel=4,
        )


def _solve_groups(pool: Pool, rows: Rows, anchor: Anchor, tol: float, max_iterations: int) -> Solution:
    """Return the solutions of all groups as one."""
    solutions = []
    for label in range(len(anchor.masses)):
        states = np.flatnonzero(anchor.groups == label)
        if len(states) == 1:
            solutions.append(alone(int(states[0]), len(anchor.groups)))
            continue
        part = rows if len(anchor.masses) == 1 else rows.subset(np.flatnonzero(anchor.groups[rows.source] == label))
        fitted = _solve(pool, part, tol, max_iterations)
        if not isinstance(fitted, Solution):
            raise fitted.error()
        solutions.append(fitted)
    return merged(solutions, anchor.groups)


def _solve(pool: Pool, rows: Any, tol: float, max_iterations: int) -> Solution | Verdict:
    """Return the solution, or the verdict that there is none."""
    few = rows if len(rows) <= MANY else rows.subsample(0.0, least=FEW)  # what these link is linked
    if not connected(few.reach(), few.sizes) and (few is rows or not connected(rows.reach(), rows.sizes)):
        return judged(pool, rows)
    solution = solve(rows, tol=tol, max_iterations=max_iterations)
    if solution.gap < GAP:
        return cut_verdict(judge(rows, pool.names), solution.cut[rows.sizes > 0], solution.gap)
    if not solution.converged:
        raise ConvergenceError(
            f"Vardi's equations hold to {solution.residual:.1e} only after {solution.iterations} iterations, and "
            f"{tol:.0e} was asked for (spectral gap {solution.gap:.1e}). The samples overlap too little for the "
            "rounding of the sums, or the tolerance is below it. Raise tol or max_iterations, or add a sample "
            "between those that overlap least.",
            solution=solution,
        )
    return solution


def judged(pool: Pool, rows: Any) -> Verdict:
    """Return the verdict; where groups share no row, with the two samples that lie nearest to one another."""
    verdict = judge(rows, pool.names)
    hint = "" if verdict.identified else pool.nearest(verdict.groups)
    return replace(verdict, message=f"{verdict.message} {hint}") if hint else verdict


def rows_of(pool: Pool, omega: Any, kept: NDArray[np.bool_], *, log: bool) -> Rows:
    if kept.all():
        return as_rows(omega, pool.source, pool.counts, pool.names, log=log)
    omega = [column[kept] for column in omega] if isinstance(omega, list) else omega[kept]
    counts = None if pool.counts is None else pool.counts[kept]
    return as_rows(omega, pool.source[kept], counts, pool.names, log=log, positions=np.flatnonzero(kept))


def counted(pool: Pool) -> NDArray[np.bool_]:
    return np.ones(len(pool), bool) if pool.counts is None else pool.counts > 0


def _largest_group(verdict: Verdict, rows: Rows, pool: Pool) -> NDArray[np.bool_]:
    """Return which rows of the pool belong to the group with the most rows, and warn of the others."""
    size = dict(zip(pool.names, rows.sizes.tolist(), strict=True))
    largest = max(verdict.groups, key=lambda group: sum(size[name] for name in group))
    dropped = [name for group in verdict.groups if group is not largest for name in group]
    warnings.warn(
        f"Left out {show(dropped)} with {sum(size[name] for name in dropped):g} rows. {verdict.message}",
        DroppedSamplesWarning,
        stacklevel=4,
    )
    kept = set(largest)
    return np.isin(pool.source, [k for k, name in enumerate(pool.names) if name in kept])
