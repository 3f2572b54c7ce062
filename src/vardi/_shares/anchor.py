"""Groups of samples and cells with known shares -> the weights that meet them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph
from scipy.special import logsumexp

from vardi._identify import Verdict, connected, group_text, strong_groups
from vardi._newton import Solution, newton
from vardi._pool import Name
from vardi._rows import Rows
from vardi._shares.cells import Cell
from vardi._shares.raking import Basis, basis_of, infeasible, rake
from vardi._sums import Floats, Integers
from vardi.errors import NotIdentifiableError

PINNED = 1e-8  # how near a group is to a combination of the cells that determines its mass


@dataclass(frozen=True)
class Refit:
    """A solution of every group, and weights that meet the shares.

    Attributes
    ----------
    u : ndarray
        The dual point, in the gauge in which every group has the mass that the shares give it.
    base, weights : ndarray
        Weight of each row before and after raking; both have mean 1.
    tilt : ndarray
        What raking added, in the coordinates of the basis.
    log_scale : float
        What it added to the log of all weights.
    residual : float
        The largest distance from a share.
    iterations : int
        Newton steps of the raking.
    """

    u: Floats
    base: Floats
    weights: Floats
    tilt: Floats
    log_scale: float
    residual: float
    iterations: int


@dataclass(frozen=True, eq=False)
class Anchor:
    """What holds the weights of a pool: its groups, its cells, and what these say of one another.

    Attributes
    ----------
    cells : tuple of Cell
        The cells.
    groups : ndarray of int
        Group of each bias; -1 for a state that was not sampled.
    pattern : ndarray of int
        Pattern of cells of each row.
    patterns : ndarray of shape (m, J)
        Which cells each pattern is in.
    basis : Basis
        The directions in which patterns differ.
    masses : ndarray of shape (G,)
        The share of the population that each group stands for.
    """

    cells: tuple[Cell, ...]
    groups: Integers
    pattern: Integers
    patterns: Floats
    basis: Basis
    masses: Floats

    @classmethod
    def of(
        cls,
        cells: tuple[Cell, ...],
        groups: Integers,
        rows: Rows,
        pattern: Integers,
        patterns: Floats,
        verdict: Verdict,
    ) -> Anchor:
        """Tie cells to rows, or say why they do not hold."""
        basis = basis_of(patterns, np.array([cell.share for cell in cells]))
        if basis.off > 1e-9:
            raise infeasible(cells, patterns)
        masses = _group_masses(cells, groups[rows.source], pattern, patterns, verdict)
        if not (masses > PINNED**2).all():
            raise infeasible(cells, patterns)
        return cls(cells, groups, pattern, patterns, basis, masses)

    @property
    def shares(self) -> Floats:
        """The known shares."""
        return np.array([cell.share for cell in self.cells])

    def weigh(self, rows: Rows, u: Floats) -> Refit | None:
        """Return weights that meet the shares for the solution of every group; None where no weights do."""
        counts = np.ones(len(rows)) if rows.counts is None else rows.counts
        label, n = self.groups[rows.source], float(rows.sizes.sum())
        log_base = -rows.log_row_mass(u)
        top = np.full(len(self.masses), -np.inf)
        np.maximum.at(top, label, log_base)
        scaled = np.exp(log_base - top[label])
        with np.errstate(divide="ignore"):
            shift = np.log(self.masses * n) - np.log(np.bincount(label, counts * scaled)) - top
        base = scaled * np.exp(shift + top)[label]
        u = u - np.where(self.groups >= 0, shift[self.groups], 0.0)
        mass = np.bincount(self.pattern, counts * base, minlength=len(self.patterns)) / n
        if not (mass > 0).all():
            return None
        raked = rake(mass, self.basis)
        if not raked.converged:
            return None
        weights = base * np.exp(raked.log_factors)[self.pattern]
        log_scale = float((raked.log_factors - self.basis.values @ raked.tilt)[0])
        return Refit(u, base, weights, raked.tilt, log_scale, raked.residual, raked.iterations)

    def refit(self, rows: Rows, u: Floats, *, tol: float, may_part: bool) -> Refit | None:
        """Solve every group anew for other counts of the same rows, from u on; None where a draw has no fit."""
        u = u.copy()
        for label in np.flatnonzero(np.bincount(self.groups[self.groups >= 0]) > 1):  # a sample alone needs no solution
            part = rows if len(self.masses) == 1 else rows.subset(np.flatnonzero(self.groups[rows.source] == label))
            if may_part and not connected(part.reach(), part.sizes):
                return None
            solution = newton(part, u, tol=tol)
            if not solution.converged:
                return None
            u = np.where(self.groups == label, solution.u, u)
        return self.weigh(rows, u)

    def log_factors(self, members: NDArray[np.bool_], refit: Refit) -> tuple[Floats, NDArray[np.bool_]]:
        """Return what raking adds to the log weight of new rows, and for which of them this is not determined."""
        gap = members - self.shares
        inside = gap @ self.basis.directions
        strange = np.abs(gap - inside @ self.basis.directions.T).max(axis=1) > 1e-9
        return inside @ refit.tilt + refit.log_scale, strange


def find_groups(rows: Any, verdict: Verdict) -> Integers:
    """Return the group of each bias within which overlap compares the samples; -1 where there are no rows."""
    sampled = np.flatnonzero(rows.sizes > 0)
    reach = sparse.csr_array(rows.reach()[sampled][:, sampled])
    _, weak = csgraph.connected_components(reach, directed=True, connection="weak")
    if weak.max() < strong_groups(reach).max():  # overlap in one direction only
        raise verdict.error()
    order = list(dict.fromkeys(weak.tolist()))  # in the order of their first sample, as in the verdict
    groups = np.full(len(rows.sizes), -1)
    groups[sampled] = [order.index(label) for label in weak.tolist()]
    return groups


def anchored_rows(rows: Rows, members: NDArray[np.bool_], counts: Floats | None) -> tuple[Rows, Integers, Floats]:
    """Return rows such that all that are collapsed into one are in the same cells, their patterns, and these."""
    packed = np.packbits(members, axis=1)
    _, first, pattern = np.unique(
        packed.view([("", packed.dtype)] * packed.shape[1]).ravel(), return_index=True, return_inverse=True
    )
    patterns = members[first].astype(np.float64)
    if rows.inverse is None:
        return rows, pattern, patterns
    kinds, inverse = np.unique(rows.inverse.astype(np.int64) * len(patterns) + pattern, return_inverse=True)
    old = kinds // len(patterns)
    counted = np.bincount(inverse, counts, minlength=len(kinds)).astype(np.float64)
    finer = rows.with_rows(rows.matrix[old], rows.source[old], counted)
    finer.inverse = inverse
    return finer, kinds % len(patterns), patterns


def raked_log_omegas(rows: Rows, weights: Floats) -> Floats:
    r"""Return :math:`\log\sum_i \pi_i\omega_k(z_i)` for every k, sampled or not."""
    with np.errstate(divide="ignore"):  # a row that a draw has none of
        log_mass = np.log(weights if rows.counts is None else weights * rows.counts)[:, None]
    sums = [logsumexp(log_omega + log_mass[place], axis=0) for place, log_omega in rows.log_blocks()]
    return np.asarray(logsumexp(sums, axis=0) - np.log(rows.sizes.sum()))


def alone(k: int, K: int) -> Solution:
    """Return the solution of a sample that stands alone: its rows are weighted by the inverse of its bias."""
    u = np.full(K, -np.inf)
    u[k] = 0.0
    return Solution(u, True, 0, 0.0, 0.0, 1.0, 0.0, np.zeros(K))


def merged(solutions: Sequence[Solution], groups: Integers) -> Solution:
    """Return the solutions of all groups as one, as good as the worst of them."""
    u, cut = np.full(len(groups), -np.inf), np.full(len(groups), -1.0)
    several = np.bincount(groups[groups >= 0]) > 1  # a sample alone has no gap to speak of
    weakest = int(np.argmin(np.where(several, [solution.gap for solution in solutions], np.inf)))
    for label, solution in enumerate(solutions):
        u[groups == label] = solution.u[groups == label]
    cut[groups == weakest] = solutions[weakest].cut[groups == weakest]
    return replace(
        solutions[weakest],
        u=u,
        cut=cut,
        iterations=max(solution.iterations for solution in solutions),
        residual=max(solution.residual for solution in solutions),
        step=max(solution.step for solution in solutions),
        certificate=max(solution.certificate for solution in solutions),
    )


def _group_masses(
    cells: Sequence[Cell], label: Integers, pattern: Integers, patterns: Floats, verdict: Verdict
) -> Floats:
    """Return the mass of each group, which must be a combination of cells: else it would rest on nothing."""
    count = int(label.max()) + 1
    kinds = np.unique(label * len(patterns) + pattern)
    design = np.column_stack([np.ones(len(kinds)), patterns[kinds % len(patterns)]])
    indicators = (kinds[:, None] // len(patterns) == np.arange(count)).astype(np.float64)
    coefficients, *_ = np.linalg.lstsq(design, indicators, rcond=None)
    loose = np.flatnonzero(np.abs(design @ coefficients - indicators).max(axis=0) > PINNED)
    if len(loose):
        raise _loose(verdict, [verdict.groups[g] for g in loose])
    return np.asarray(np.append(1.0, [cell.share for cell in cells]) @ coefficients)


def _loose(verdict: Verdict, loose: Sequence[Sequence[Name]]) -> NotIdentifiableError:
    wanted = " or ".join(group_text(group) for group in loose[:3])
    more = "" if len(loose) <= 3 else f" (there are {len(loose)} such groups)"
    return NotIdentifiableError(
        f"Overlap leaves the samples in {len(verdict.groups)} groups, and the shares do not say how much of the "
        f"population each of these stands for: it is open for {wanted}{more}. Give the share of what such a group "
        "can draw, by the name of its sample or as a condition; it may also follow from other shares.",
        groups=verdict.groups,
        verdict=verdict,
    )
