r"""Refits of a bootstrap: in memory in batches that share passes over the rows, in an engine from sums of groups.

Rows in an engine are put into groups, by a column or at random (random groups, Wolter 2007), with a single query. All
sums of a refit are linear in how often each group counts, so those of a draw are sums over groups. One step from the
solution v, with J taken there, leads to the solution of the draw, :math:`\delta = -J^{-1} g_b`, and a mean there is

.. math:: \eta_b = \frac{\sum_i b_i f_i (1 - x_i'\delta) / S_i}{\sum_i b_i (1 - x_i'\delta) / S_i},

up to terms of second order in the draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
from threadpoolctl import threadpool_limits

from vardi._estimate.resampling import DrawKind, DrawnUnits, DrawPlan
from vardi._estimate.tangent import Tangent
from vardi._machine import THREADED, cores, executor
from vardi._rows import Rows
from vardi._rows.contract import JointSums, Kept, Result
from vardi._rows.hashed import GroupSums
from vardi._rows.stored import Blocks
from vardi._solve.refit import Refit, refit_draws
from vardi._types import Floats
from vardi.biases._values import once

if TYPE_CHECKING:
    from vardi._fit.solved import Solved

TOLERANCE = 1e-6  # of a refit: far below the spread of any draw
LONG = 0.5  # root mean square change of log weights along a step above which one step is not enough for a refit

Progress: TypeAlias = Callable[[int, int], object]

#: Statistics and log normalisers of a draw, or why it has none.
Drawn: TypeAlias = tuple[Floats, Floats] | Refit


@dataclass(frozen=True, eq=False)
class Statistics:
    """What is taken of each draw: by default the log normalisers.

    Attributes
    ----------
    names : tuple of str
        A name for each.
    value : ndarray
        The statistics of the fit itself, in the shape that users see.
    functions : Kept or None
        The functions of the rows whose means they are; None if they are no means.
    of : callable, optional
        Returns them from the weights of rows in a draw, times how often they count.
    """

    names: tuple[str, ...]
    value: Floats
    functions: Kept | None = None
    of: Callable[[Floats], Floats] | None = None


class Refits:
    """The refit of each draw, as a function of its number."""

    def __init__(
        self, solved: Solved, plan: DrawPlan, statistics: Statistics, kind: DrawKind, entropy: int, jobs: int
    ) -> None:
        self.solved, self.plan, self.statistics, self.kind, self.entropy = solved, plan, statistics, kind, entropy
        rows, self.jobs = plan.rows, jobs
        self.may_part = kind == "rows" and not _allow_all(rows)
        self.functions = statistics.functions
        self.takes_weights = statistics.of is not None or (self.functions is not None and plan.inverse is not None)
        of_rows = np.empty((len(rows), 0)) if self.functions is None or self.takes_weights else self.functions
        self.passes = None if self.may_part else solved.shared_passes(of_rows)
        self.is_read = isinstance(rows, Blocks)
        has_threads = self.passes is not None and len(rows) * len(rows.sizes) >= THREADED
        self.in_turn = self.is_read or has_threads
        self.size = _batch_size(len(plan.order), len(rows.sizes), has_threads=has_threads)
        self._memory = np.empty((self.size if self.in_turn else 0, len(rows)))  # of counts, for one batch after another

    def batch(self, draws: range) -> list[Drawn]:
        """Return statistics and log normalisers of draws, or the refits that failed."""
        rngs = [generator_of(self.entropy, i) for i in draws]
        counts = self._memory if self.in_turn else np.empty((self.size, len(self.plan.rows)))
        drawn = list(self.each(self._draw, self.in_turn, rngs, counts))
        refits: Sequence[Refit | None] = [None] * len(draws)
        if self.passes is not None and len(draws) > 1:
            laplacian = self.solved.tangent.hessian.laplacian
            refits = refit_draws(self.passes, laplacian, counts, tol=TOLERANCE, weights=self.takes_weights)
        in_threads = self.in_turn and not self.is_read  # a draw that is solved on its own reads its rows
        return list(self.each(self._measured, in_threads, rngs, drawn, counts, refits))

    def _draw(self, rng: np.random.Generator, counts: Floats) -> Floats:
        """Write the counts of the rows; return how often those that are drawn count, if that is needed."""
        drawn = self.plan.draw(rng, self.kind, counts)
        return drawn if self.takes_weights else counts

    def _measured(self, rng: np.random.Generator, drawn: Floats, counts: Floats, refit: Refit | None) -> Drawn:
        if refit is None:
            refit = self.solved.refit(counts, tol=TOLERANCE, may_part=self.may_part, rng=rng)
        if not refit.is_solved:
            return refit
        if refit.means is not None and len(refit.means):
            return refit.means, refit.log_omegas
        if self.functions is None and self.statistics.of is None:
            return refit.log_omegas, refit.log_omegas
        assert refit.weights is not None
        inverse = self.plan.inverse
        mass = drawn * (refit.weights if inverse is None else refit.weights[inverse])
        if self.statistics.of is None:
            return mass @ np.asarray(self.functions) / mass.sum(), refit.log_omegas
        return self.statistics.of(mass), refit.log_omegas

    def each(self, function: Callable[..., Result], in_threads: bool, *values: Iterable[object]) -> Iterator[Result]:
        """Apply a function to each draw of a batch, or to each batch; yield the results in order."""
        if not in_threads or self.jobs == 1:
            yield from map(function, *values)
            return
        with executor(self.jobs if self.jobs > 0 else cores()) as pool:
            yield from pool.map(function, *values)


class GroupRefits:
    """The refit of each draw of groups.

    Parameters
    ----------
    solved : Solved
        The fit.
    sums : GroupSums
        Sums within groups; the functions are those of the statistics, then 1, then biases without rows.
    kind : {"bayesian", "rows"}
        Exponential multiplicities, or groups drawn with replacement.
    """

    def __init__(self, solved: Solved, sums: GroupSums, kind: DrawKind) -> None:
        self.tangent, self.measure, self.sums, self.kind = solved.tangent, solved.tangent.measure, sums, kind
        self.sizes, self.cut, self.point = self.measure.sizes, solved.solution.cut, self.measure.whole_point.v
        self.model = self.measure.whole_point.model
        self.idle, self.fixed = np.flatnonzero(self.sizes == 0), self.model.held

    def __call__(self, rng: np.random.Generator) -> Drawn:
        """Return statistics and log normalisers of a draw, or an unsolved refit if it has no fit."""
        at, drawn = self.measure.coordinates, self.sums.answers.drawn(self._times(rng))
        likelihood = drawn.likelihood
        delta = one_step(self.tangent, likelihood.x - likelihood.own, self.sizes, rng.standard_normal(at.uncertain))
        delta[at.u] -= delta[self.fixed]  # only differences of u matter
        if not delta @ likelihood.gram @ delta <= LONG**2 * self.measure.n:
            return Refit(None, labels=(self.cut[self.sizes > 0] > 0).astype(np.int64))
        total = drawn.total - delta @ drawn.against
        one = len(total) - 1 - len(self.idle)
        log_omegas = self._log_omegas(likelihood, delta, total, one)
        return (total[:one] / total[one] if one else log_omegas), log_omegas

    def _log_omegas(self, sums: JointSums, delta: Floats, total: Floats, one: int) -> Floats:
        """Return the log means of the biases; for one with parameters, from the rows of its sample."""
        at = self.measure.coordinates
        theta = self.point[at.theta] + delta[at.theta]
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(sums.x[at.u] - sums.gram[at.u] @ delta) - self.point[at.u]
            for k in self.model.families:
                logs[k] = np.log(self.sizes[k]) - self.point[k] - delta[k] + self.model.shift(theta)[k]
            logs[self.idle] = np.log(total[one + 1 :])
        return logs - float(np.log(total[one]))

    def _times(self, rng: np.random.Generator) -> Floats:
        """Return how often each group counts, rescaled so that each sample keeps its size."""
        # groups are numbered sample by sample
        source, counts, unit = self.sums.answers.source, self.sums.answers.counts, self.sums.unit
        units, runs = int(unit.max()) + 1, np.bincount(source, minlength=len(self.sizes))
        if units < len(unit):  # some span samples, so all are drawn together
            runs = np.array([units])
        times = DrawnUnits(once(units), runs).draw(rng, self.kind, np.empty(units))[unit]
        rows = np.bincount(source, times * counts, minlength=len(self.sizes))
        times *= (self.sizes / np.where(rows > 0, rows, 1.0))[source]
        spread = np.sqrt(self.measure.rows.dependence.remaining)[source]
        return times * spread + (1.0 - spread)


def _batch_size(n: int, K: int, *, has_threads: bool, most: int = 32) -> int:
    """Return how many draws share their passes over n rows.

    Their counts take 32 MB at most or, if they have all threads to themselves, 128 MB or an eighth of the biases.
    """
    shared = max(2**24 // n, K // 8) if has_threads else 2**22 // n
    return int(np.clip(shared, 1, most))


def one_step(tangent: Tangent, q: Floats, rows: Floats, errors: Floats) -> Floats:
    """Return the step from the solution to that of draws, with J of the solution.

    Parameters
    ----------
    tangent : Tangent
        The solution.
    q : ndarray of shape (d,) or (d, R)
        The sums of q over the rows that are drawn.
    rows : ndarray of shape (K,) or (K, R)
        How many rows of each sample are drawn.
    errors : ndarray of shape (r,) or (r, R)
        Errors of known values that have one, drawn anew, in standard deviations.
    """
    at, gradient = tangent.measure.coordinates, q.copy()
    gradient[at.u] -= rows
    gradient[at.epsilon] += (tangent.measure.whole_point.v[at.epsilon] - errors.T).T
    return -tangent.jacobian.solve(gradient)


def in_threads(refits: Refits, n: int, progress: Progress | None) -> Iterator[Drawn]:
    """Yield the refits of draws 0 to n - 1 in order, however many threads there are, if any.

    All batches have the same size, so that draw i gives the same digits for any n: the last may go beyond n. Batches
    run in turn where a pass uses threads itself, which takes the memory of one batch only, and where rows are read from
    disk, which only this thread does.
    """
    batches = [range(low, low + refits.size) for low in range(0, n, refits.size)]
    with threadpool_limits(1, user_api="blas"):  # more threads in each would only compete for the cores
        for draws, results in zip(batches, refits.each(refits.batch, not refits.in_turn, batches), strict=True):
            yield from results[: n - draws.start]
            if progress is not None:
                progress(min(draws.stop, n), n)


def in_turn(
    refit: Callable[[np.random.Generator], Drawn], entropy: int, n: int, progress: Progress | None
) -> Iterator[Drawn]:
    """Yield the refits of draws 0 to n - 1, one after the other."""
    for i in range(n):
        yield refit(generator_of(entropy, i))
        if progress is not None:
            progress(i + 1, n)


def _allow_all(rows: Rows) -> bool:
    """Return whether every bias allows every row, so that no draw can disconnect the samples."""
    sampled = np.flatnonzero(rows.sizes > 0)
    reach = rows.reach()[sampled][:, sampled]
    return isinstance(reach, np.ndarray) and bool((reach == rows.sizes[sampled]).all())


def generator_of(entropy: int, i: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(entropy, spawn_key=(i,))))


def entropy_of(seed: int | np.random.Generator | None) -> int:
    """Return a seed as one number; for a generator, its next one."""
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    return cast("int", np.random.SeedSequence(seed).entropy)
