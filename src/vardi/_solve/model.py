"""A solution in all coordinates: normalisers, parameters, multipliers of known moments; or why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from vardi._inputs.known import Known
from vardi._inputs.known_on_rows import out_of_reach
from vardi._inputs.pool import Name
from vardi._machine import single_threaded_blas
from vardi._rows.base import Rows
from vardi._rows.gram import Laplacian
from vardi._rows.likelihood import Joint, JointRows
from vardi._solve.identify import Joining, Verdict, group_text, weak_groups
from vardi._solve.newton import JointFit, Solution, newton, solve_plain
from vardi._solve.parameters import require_identified, search, unknown_everywhere, warn_of_vague_parameters
from vardi._solve.saddle import Walk, alone, meet, stationary
from vardi._types import Floats, Integers
from vardi.errors import ConvergenceError, InvalidKnownError, NotIdentifiableError

MAX_SERIAL_NUMBERS = 2_000_000  # numbers (rows times coordinates) up to which linear algebra gains nothing from threads
START_TOLERANCE = 1e-6  # of the solution on a small part of the rows, from which an engine starts
JOINED = 1e-8  # of the means of known functions in groups: below it the groups cannot be distinguished
EMPTY = 1e-5  # mass of a group, estimated from means, below which the solution has diverged and left it none


@dataclass(frozen=True, eq=False)
class JointProblem:
    """What determines normalisers, parameters and multipliers of known moments.

    Attributes
    ----------
    rows : JointRows
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

    rows: JointRows
    names: Sequence[Name]
    known: Known
    values: Floats
    verdict: Verdict
    tol: float
    max_iterations: int
    near: Mapping[Name, float] | None = None

    @cached_property
    def joint(self) -> Joint:
        """The rows in memory, or a small part of those in an engine."""
        return self.rows.few

    @cached_property
    def groups(self) -> Integers:
        """The group of each bias within which samples can be compared; -1 for biases without rows."""
        return weak_groups(self.joint.base, self.verdict) if self.known else np.where(self.joint.sizes > 0, 0, -1)

    def solve(self) -> JointFit:
        """Return the solution."""
        joint, in_memory = self.joint, isinstance(self.rows, Joint)
        with single_threaded_blas() if len(joint) * len(joint.coordinates) <= MAX_SERIAL_NUMBERS else nullcontext():
            found = (self if in_memory else replace(self, tol=START_TOLERANCE))._solved()
        return found if in_memory else self._polished_in_engine(found)

    def _solved(self) -> JointFit:
        joint, joining = self.joint, None
        if not self.known:
            self.verdict.require()
            if len(joint.families) == int((joint.sizes > 0).sum()):
                raise unknown_everywhere([self.names[k] for k in joint.families], self.verdict)
        start, identified = self._without_known()
        if not self.known:
            walk = self._polished(start)
        else:
            joining = self._joining(start)
            walk = meet(joint, start, tol=self.tol, most=self.max_iterations)
            if not walk.converged:
                raise self._not_met(walk)
            # as u of a group diverges, the equations hold ever better, while nothing is left for the group
            least = max(EMPTY, 10 * self.tol) if joining is not None and not joining.exact else 10 * self.tol
            if error := self._emptied(walk, least):
                raise error
        if joint.families:
            require_identified(walk.at, self.names)
            warn_of_vague_parameters(walk.at, self.names)
        return JointFit(self._solution(walk), start if self.known and identified else None, self.groups, joining)

    def _polished_in_engine(self, few: JointFit) -> JointFit:
        """Solve in the engine, starting from the solution of a small part of the rows in memory."""
        rows = self.rows
        assert few.solution.point is not None
        walk = meet(rows, few.solution.point, tol=self.tol, most=self.max_iterations)
        if not walk.converged:
            raise ConvergenceError(
                f"The equations hold only to {walk.at.residual:.1e} after {walk.iterations} steps, but {self.tol:.0e} "
                "was asked for. Collect the columns you need and debias them in memory to see more.",
                solution=replace(few.solution, converged=False),
            )
        without = few.alone
        if without is not None:
            own = rows.without_known()
            without = alone(own, without[: len(own.coordinates)], tol=self.tol)
        _, shift = rows.weights(walk.v)
        v, at = rows.coordinates.rescaled(walk.v, shift), rows.coordinates
        u = v[at.u] - rows.model.shift(v[at.theta])
        solution = replace(few.solution, u=u, point=v, weights=None, iterations=walk.iterations)
        return replace(few, solution=replace(solution, residual=walk.at.residual, step=walk.step), alone=without)

    def joining(self) -> Joining | None:
        """Return how known values join the groups that overlap leaves, or refuse groups that they do not join."""
        return None if self.groups.max() <= 0 else self._joining(self._without_known()[0])

    def _without_known(self) -> tuple[Floats, bool]:
        """Return the point from the samples alone, each group on its own scale, and whether it is identified."""
        joint, groups, at = self.joint, self.groups, self.joint.coordinates
        rest = np.zeros(at.known + at.uncertain)
        if joint.families:
            walk = search(joint, self.max_iterations)
            try:
                require_identified(walk.at, self.names)
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
                found = solve_plain(part, self.names, self.tol, self.max_iterations, self.near)
                if isinstance(found, Verdict):
                    raise found.error()
                u[states] = found.u[states]
            _, shift = part.weights(np.where(states, u, -np.inf))
            u[states] += shift  # weights of mean 1 within the group: it has the mass of its rows
        return np.concatenate([u, rest]), True

    def _polished(self, v: Floats) -> Walk:
        """Take the last steps to the solution, in the normalisers alone if second derivatives are unknown."""
        joint, at = self.joint, self.joint.coordinates
        walk = stationary(joint, v, tol=self.tol, most=self.max_iterations)
        if walk.converged:
            return walk
        rows, shift = joint.rows_at(v[at.theta]), joint.model.shift(v[at.theta])
        solution = newton(rows, v[at.u] - shift, tol=self.tol, max_iterations=self.max_iterations)
        point = v.copy()
        point[at.u] = solution.u + shift
        again = stationary(joint, point, tol=1e-6, most=0)
        squared = float(again.at.gradient @ again.at.information.solve(again.at.gradient))
        score = math.sqrt(max(squared, 0.0))
        if not solution.converged or score > 1e-4:
            raise ConvergenceError(
                f"The parameters of {', '.join(repr(str(self.names[k])) for k in joint.families)} were not found in "
                f"{walk.iterations} steps: the gradient of their likelihood is {score:.1e} of its standard error. The "
                "likelihood is not smooth, or the start is far off. Give another start, or a gradient.",
                solution=replace(self._solution(again), converged=False),
            )
        return replace(again, converged=True, iterations=walk.iterations + solution.iterations)

    def _solution(self, walk: Walk) -> Solution:
        """Return the solution in the gauge in which weights have mean 1, with u on the user's scale."""
        joint, at = self.joint, self.joint.coordinates
        if not walk.at.sums.positive:
            nothing = np.zeros(at.samples)
            return Solution(walk.v[at.u], False, walk.iterations, np.inf, np.inf, 0.0, np.nan, nothing)
        weights, shift = joint.weights(walk.v)
        v = at.rescaled(walk.v, shift)
        u = v[at.u] - joint.model.shift(v[at.theta])
        gap, cut = self._gap(joint.rows_at(v[at.theta]), u)
        return Solution(
            u, walk.converged, walk.iterations, walk.at.residual, walk.step, gap, np.nan, cut, point=v, weights=weights
        )

    def _gap(self, rows: Rows, u: Floats) -> tuple[float, Floats]:
        """Return the smallest spectral gap of a group, and its vector, negative on the other groups."""
        sums = rows.settled(u).sums(u, objective=False)
        cut, smallest = np.where(rows.sizes > 0, -1.0, 0.0), 1.0
        for label in range(int(self.groups.max()) + 1):
            states = self.groups == label
            if states.sum() < 2:
                continue
            gap, side = Laplacian.of(sums, states).gap()
            if gap <= smallest:
                smallest = gap
                cut[rows.sizes > 0] = -1.0
                cut[states] = side if side[0] >= 0 else -side
        return smallest, cut

    def _joining(self, v: Floats) -> Joining | None:
        """Return how known values join groups, or refuse those whose share of the population is undetermined."""
        joint, count, groups = self.joint, int(self.groups.max()) + 1, self.verdict.groups
        if count == 1:
            return None
        weights, _ = joint.weights(v)
        mass = weights * joint.counts
        members = np.eye(count)[self.groups[joint.source]]
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
        wanted = " or ".join(group_text(groups[k]) for k in loose[:3])
        more = "" if len(loose) <= 3 else f" (there are {len(loose)} such groups)"
        raise NotIdentifiableError(
            f"Overlap leaves the samples in {count} groups, and the known values do not determine how much of the "
            f"population each of these represents: it is undetermined for {wanted}{more}. Give the share of what such "
            "a group can draw, by the name of its sample or as a condition, or a mean that differs between the groups.",
            groups=groups,
            verdict=self.verdict,
        )

    def _not_met(self, walk: Walk) -> InvalidKnownError | ConvergenceError:
        """Return the error for known values that were not met, with the reason if there is one."""
        reason = out_of_reach(self.known, self.values) or self._emptied(walk, 0.01 / (1 + self.groups.max()))
        if reason is not None:
            return reason
        return ConvergenceError(
            f"Weights that meet the known values ({', '.join(map(repr, self.known.labels))}) exist, but were not "
            f"found: the equations hold to {walk.at.residual:.1e} after {walk.iterations} steps. The values are far "
            "from those of the samples, so some rows would have almost no weight. Check them; if the selection of a "
            "sample depends on what they describe, declare it, e.g. with vardi.cells(...).",
            solution=replace(self._solution(walk), converged=False),
        )

    def _emptied(self, walk: Walk, least: float) -> InvalidKnownError | None:
        """Return the error for known values that leave almost no weight for a group joined only by them."""
        if self.groups.max() == 0 or not walk.at.sums.positive:
            return None
        gone = np.flatnonzero(self.joint.masses_of(self.groups, walk.v) < least)
        if not len(gone):
            return None
        members = [self.names[int(k)] for k in np.flatnonzero(self.groups == gone[0])]
        return InvalidKnownError(
            f"The known values contradict the samples: the nearer weights come to meeting them, the less is left for "
            f"{group_text(members)}, whose rows are part of the population. Correct the known values "
            f"({', '.join(map(repr, self.known.labels))}), or the biases.",
            labels=list(self.known.labels),
        )
