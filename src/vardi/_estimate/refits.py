r"""What a bootstrap draws, rows or whole groups of them within their samples, and the refit of each draw.

In memory refits are made in batches that share passes over the rows, in an engine from sums of groups.

Rows in an engine are put into groups, by a column or at random (random groups, Wolter 2007), with a single query. All
sums of a refit are linear in how often each group counts, so those of a draw are sums over groups. One step from the
solution v, with J taken there, leads to the solution of the draw, :math:`\delta = -J^{-1} g_b`, and a mean there is

.. math:: \eta_b = \frac{\sum_i b_i f_i (1 - x_i'\delta) / S_i}{\sum_i b_i (1 - x_i'\delta) / S_i},

up to terms of second order in the draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from threadpoolctl import threadpool_limits

from vardi._estimate.tangent import Tangent
from vardi._inputs.by_row import coded_labels, in_order
from vardi._inputs.given import Labels
from vardi._machine import THREADED, cores, executor
from vardi._rows import Rows
from vardi._rows.contract import JointSums, Kept, Result
from vardi._rows.grouping import is_sorted, sums_by_code
from vardi._rows.measure import Measure
from vardi._rows.multipliers import SMALL
from vardi._rows.stored import Blocks
from vardi._rows.units import batch_length, in_series, variance_shown
from vardi._solve.refit import Refit, refit_draws
from vardi._types import Floats, Integers
from vardi.biases._values import as_array, coded, once
from vardi.errors import MismatchError
from vardi.errors._refusals import missing_groups, no_groups, spanning_group

if TYPE_CHECKING:
    from vardi._fit.solved import Solved
    from vardi._rows.hashed import GroupSums

TOLERANCE = 1e-6  # of a refit: far below the spread of any draw
LONG = 0.5  # root mean square change of log weights along a step above which one step is not enough for a refit

DrawKind: TypeAlias = Literal["bayesian", "rows"]

Progress: TypeAlias = Callable[[int, int], object]

#: Statistics and log normalisers of a draw, or why it has none.
Drawn: TypeAlias = tuple[Floats, Floats] | Refit


@dataclass(frozen=True, eq=False)
class DrawnUnits:
    """What is drawn as a whole: rows, or groups of them, in runs that are drawn separately.

    A mean over g units of a sample has (g - 1) / g of its variance if they are drawn with replacement, and
    (g - 1) / (g + 1) of it with exponential multiplicities. So where units are few, g - 1 of them are drawn, or
    multiplicities have a gamma law of shape (g - 2) / g; for a variance v these are (g - 1) / v and
    ((g - 1) / v - 1) / g. Where known values or parameters were fitted, the leverage of a unit takes the place of
    1 / g.

    Attributes
    ----------
    counts : ndarray
        How many units each one stands for.
    runs : ndarray of int
        How many of them are drawn together, and so on: one run for each sample, or for each of its parts.
    shapes : ndarray, optional
        The shape of the gamma law of each, given its leverage.
    variances : ndarray, optional
        The variance of a multiplicity in each run, where it is more than 1: batches of a series do not show all of it.
    """

    counts: Floats
    runs: Integers
    shapes: Floats | None = None
    variances: Floats | None = None

    def draw(self, rng: np.random.Generator, kind: DrawKind, out: Floats) -> Floats:
        """Write how often each unit is drawn, by its count."""
        if kind == "rows":
            self._multinomial(rng, out)
        elif self._shapes is not None:  # a row with a count c has the sum of c multiplicities
            rng.standard_gamma(self._shapes, out=out)
        else:
            rng.standard_exponential(out=out)
        return out

    @cached_property
    def _shapes(self) -> Floats | None:
        """The shape of the gamma law of each multiplicity; None where all are exponential."""
        if self.shapes is not None:
            return self.shapes * self.counts
        ends = np.cumsum(self.runs)
        before = np.concatenate([[0.0], np.cumsum(self.counts)])
        sizes = before[ends] - before[ends - self.runs]
        few = (sizes > 1) & (sizes <= SMALL)
        # below a shape of 0.1 a draw may lose all units but one
        variances = np.ones(len(ends)) if self.variances is None else self.variances
        exact = np.maximum(((sizes - 1.0) / variances - 1.0) / np.maximum(sizes, 1.0), 0.1)
        shape = np.where(few | (variances > 1.0), exact, 1.0)
        shapes: Floats = np.repeat(shape, self.runs) * self.counts
        return None if (shapes == 1.0).all() else shapes

    def _multinomial(self, rng: np.random.Generator, out: Floats) -> None:
        ends = np.cumsum(self.runs)
        variances = np.ones(len(ends)) if self.variances is None else self.variances
        for low, high, variance in zip(ends - self.runs, ends, variances.tolist(), strict=True):
            if low == high:  # a state that was not sampled
                continue
            c = self.counts[low:high]
            if (c == 1.0).all() and variance == 1.0:
                _drawn_with_replacement(rng, out[low:high])
            else:
                n = max(round(c.sum()), 1)
                times = max(round((n - (1 < n <= SMALL)) / variance), 1)
                out[low:high] = rng.multinomial(times, c / c.sum()) * (n / times if variance > 1.0 else 1.0)


@dataclass(frozen=True, eq=False)
class Strata:
    """Strata, each of which keeps its number of units however often rows count.

    Attributes
    ----------
    codes : ndarray of int of shape (n,)
        The stratum of each row.
    units : ndarray of shape (n,)
        What each row contributes to the number of units.
    spread : ndarray of shape (n,)
        What deviations from the usual are multiplied by, for each row: less than 1 for a finite population.
    """

    codes: Integers
    units: Floats
    spread: Floats

    @cached_property
    def sizes(self) -> Floats:
        """The number of units of each."""
        return np.bincount(self.codes, self.units).astype(np.float64)

    def of(self, rows: Integers) -> Strata:
        """Return the strata of rows in another order."""
        return Strata(self.codes[rows], self.units[rows], self.spread[rows])

    def settle(self, times: Floats) -> None:
        """Restore each stratum's number of units, and shrink draws from finite populations, in place.

        ``times`` of shape (n, R) is how often rows count, relative to their counts; rows of a stratum that a draw lost
        count once.
        """
        sums = sums_by_code(self.codes, times * self.units[:, None], len(self.sizes))
        for stratum, place in np.argwhere((sums == 0) & (self.sizes > 0)[:, None]):
            times[self.codes == stratum, place] = 1.0
            sums[stratum, place] = self.sizes[stratum]
        times *= (self.sizes[:, None] / np.where(sums > 0, sums, 1.0))[self.codes]
        times *= self.spread[:, None]
        times += 1.0 - self.spread[:, None]


class DrawPlan:
    """What each draw of a bootstrap does: it draws units, settles strata, and scales samples to their sizes.

    Where every sample is a single row, as with a window for each row (truncation), a row and its bias are one unit, and
    units are drawn from the pool: ``whole``.

    Parameters
    ----------
    rows : Rows
        What a refit sums over: perhaps the distinct rows only.
    source, counts : ndarray
        Sample and count of each row that is drawn.
    inverse : ndarray or None
        The row of ``rows`` that each drawn row maps to; None where they are the same.
    groups : ndarray or None
        Number of each row's group.
    parts : ndarray of int, optional
        Sizes of the runs of groups that are drawn separately; by default one run for each sample.
    strata : Strata, optional
        The strata of the rows, if samples are not enough.
    shapes : ndarray, optional
        The shape of the law of how often each drawn row counts, or each group, given its leverage.
    variances : ndarray, optional
        The variance of a multiplicity in each run of groups, if it is not 1.

    Attributes
    ----------
    order : ndarray of int
        The order in which rows are drawn: sample by sample, and those that count as the same row side by side.
    """

    def __init__(
        self,
        rows: Rows,
        source: Integers,
        counts: Floats,
        inverse: Integers | None,
        groups: Integers | None,
        parts: Integers | None = None,
        strata: Strata | None = None,
        shapes: Floats | None = None,
        variances: Floats | None = None,
    ) -> None:
        self.rows, self.inverse = rows, inverse
        self.order = np.argsort(source, kind="stable") if inverse is None else np.lexsort((inverse, source))
        self._in_order = inverse is None and is_sorted(source)
        self._unit, has_parts = None, parts is not None  # the unit of each row; None where rows are units
        if groups is not None:
            self._unit = groups[self.order] if has_parts else coded(groups[self.order])[0]
        if parts is None:
            firsts = slice(None) if self._unit is None else _firsts(self._unit)
            parts = np.bincount(source[self.order][firsts], minlength=len(rows.sizes))
        self.whole = bool((rows.sizes <= 1).all() and (has_parts or (parts <= 1).all())) and len(source) > 1
        self._counts = counts[self.order]
        self._strata = None if self.whole or strata is None else strata.of(self.order)
        runs = np.array([parts.sum()]) if self.whole else parts
        if shapes is not None and groups is None:
            shapes = shapes[self.order]
        self.units = DrawnUnits(self._counts if groups is None else once(int(parts.sum())), runs, shapes, variances)
        lengths = np.bincount(source, minlength=len(rows.sizes))
        sampled = lengths > 0
        self._lengths = np.array([len(source)]) if self.whole else lengths[sampled]
        self._sizes = np.array([rows.sizes.sum()]) if self.whole else rows.sizes[sampled]

    def draw(self, rng: np.random.Generator, kind: DrawKind, out: Floats) -> Floats:
        """Write the counts of ``rows``, so that each sample keeps its size; return how often each drawn row counts.

        Rows that are units in the order of ``rows`` are written to ``out``: fresh memory for each draw costs as much as
        drawing.
        """
        in_place = self._in_order and self._unit is None
        times = self.units.draw(rng, kind, out if in_place else np.empty(len(self.units.counts)))
        if self._unit is not None:
            times = times[self._unit]
            times *= self._counts
        if self._strata is not None:
            times /= self._counts
            self._strata.settle(times[:, None])
            times *= self._counts
        totals = np.add.reduceat(times, np.cumsum(self._lengths) - self._lengths)
        times *= np.repeat(self._sizes / np.where(totals > 0, totals, 1.0), self._lengths)
        if in_place:
            return times
        of_rows = np.empty(len(times))
        of_rows[self.order] = times
        out[:] = of_rows if self.inverse is None else np.bincount(self.inverse, of_rows, minlength=len(out))
        return of_rows


def _drawn_with_replacement(rng: np.random.Generator, out: Floats, block: int = 2**15) -> None:
    """Draw len(out) units with replacement and write how often each was drawn, in blocks that fit the cache."""
    n = len(out)
    starts = np.arange(0, n, block)
    lengths = np.minimum(block, n - starts)
    for low, length, times in zip(starts, lengths, rng.multinomial(n - (1 < n <= SMALL), lengths / n), strict=True):
        out[low : low + length] = np.bincount(rng.integers(length, size=times), minlength=length)


def make_plan(solved: Solved, groups: Integers | None, *, of_rows: bool, functions: Kept | None = None) -> DrawPlan:
    """Return the plan of a bootstrap: draws of distinct rows' counts where these are enough, of rows otherwise."""
    rows, measure, parts, strata, variances = solved.rows_in_memory, solved.tangent.measure, None, None, None
    leverage, shapes = solved.tangent.leverage, None
    dependence = measure.rows.dependence
    if not of_rows and groups is None and not dependence.in_units:  # counts of distinct rows are drawn
        source, counts, inverse = rows.source, rows.counts, None
    else:
        source, counts, inverse = measure.source, measure.counts, rows.inverse
        if leverage is not None and groups is None and not dependence.in_units:
            shapes = measure.arrays.column(leverage.shape, 1)[:, 0]
    if groups is None and dependence.in_units:
        order = measure.arrays.dependence.order
        if order is None:
            entry, units = measure.arrays.entries
            rank = np.empty(len(units.part), np.int64)  # the number of each unit, part by part
            rank[np.argsort(units.part, kind="stable")] = np.arange(len(rank))
            groups, parts = rank[units.unit[entry]], np.bincount(units.part)
            if leverage is not None:
                shapes = np.empty(len(rank))
                shapes[rank] = leverage.shape_of_clusters(units)
        else:
            lengths, variances = batches(solved, functions)
            groups = in_series(source, order, lengths)
            parts = np.bincount(source[_firsts(groups)], minlength=len(measure.sizes))
    if dependence.strata is not None or dependence.is_finite:
        units_of_rows = counts if groups is None else (1.0 / np.bincount(groups))[groups]
        codes = None if dependence.strata is None else measure.arrays.dependence.strata
        strata = Strata(source if codes is None else codes, units_of_rows, spread_of_draws(measure))
    return DrawPlan(rows, source, counts, inverse, groups, parts, strata, shapes, variances)


def spread_of_draws(measure: Measure) -> Floats:
    """Return what deviations of draws are multiplied by, for each row: less than 1 for a finite population."""
    if not measure.rows.dependence.is_finite:
        return np.ones(len(measure.arrays))
    return np.sqrt(measure.arrays.column(measure.unseen, 1)[:, 0])


class DrawnBatches(NamedTuple):
    """Successive rows of each series that are drawn together: how many, and the variance of their multiplicities."""

    lengths: list[int]
    variances: Floats


def batches(
    solved: Solved, functions: Kept | None = None, rounding: float = 1e-9, negligible: float = 1e-6
) -> DrawnBatches:
    """Return the batches of each series, as long as its effective size requires.

    That is how many independent rows it is worth: the minimum over log normalisers and functions' means, but for those
    whose error is negligible beside the largest. Multiplicities vary by as much more as sums over batches vary too
    little.
    """
    measure = solved.tangent.measure
    of_functions = [] if functions is None else [solved.tangent.influence(functions)[1]]
    spreads = [measure.spread(influence.values) for influence in (solved.bias_influence(), *of_functions)]
    vary = [(one.effective, one.stderr / one.stderr.max()) for one in spreads if one.stderr.max() > rounding]
    effective = [rows[:, share > negligible] for rows, share in vary] or [measure.sizes[:, None]]
    worth = np.maximum(np.hstack(effective).min(axis=1), 1.0)
    g = np.where(measure.sizes > 0, measure.sizes / worth, 1.0).tolist()
    lengths = [batch_length(int(n), one) if n else 1 for n, one in zip(measure.sizes.tolist(), g, strict=True)]
    shown = [variance_shown(length, one) for length, one in zip(lengths, g, strict=True)]
    return DrawnBatches(lengths, 1.0 / np.array(shown))


def group_codes(solved: Solved, groups: Labels) -> Integers:
    """Return the number of the group of each row in the fit; a group must lie within one sample."""
    frames = solved.memory.pool.frames
    if isinstance(groups, str):
        if not frames or not all(groups in frame.columns for frame in frames):
            raise no_groups(groups, solved.pool.columns)
        labels = np.concatenate([np.asarray(frame.column(groups)) for frame in frames])
    else:
        labels = as_array(in_order(groups, frames, "The series of groups"), "groups")
    if labels.shape != (len(solved),):
        raise MismatchError(
            f"The groups have shape {labels.shape}, but the pool has {len(solved)} rows. Give a group for each."
        )
    labels = solved.memory.kept.of(labels)
    codes, _, missing = coded_labels(labels, repr(groups) if isinstance(groups, str) else "groups")
    if missing:
        raise missing_groups(missing)
    source, firsts = solved.tangent.measure.source, _firsts(codes)
    astray = np.flatnonzero(source[firsts][codes] != source)
    if len(astray):
        row = astray[0]
        raise spanning_group(labels.tolist()[row], solved.names[source[firsts[codes[row]]]], solved.names[source[row]])
    return codes


def _firsts(codes: Integers) -> Integers:
    """Return the position of each code's first row."""
    return np.unique(codes, return_index=True)[1]


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
        times = DrawnUnits(once(units), runs, variances=self.sums.variances).draw(rng, self.kind, np.empty(units))[unit]
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
    reach = rows.reach[sampled][:, sampled]
    return isinstance(reach, np.ndarray) and bool((reach == rows.sizes[sampled]).all())


def generator_of(entropy: int, i: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(entropy, spawn_key=(i,))))


def entropy_of(seed: int | np.random.Generator | None) -> int:
    """Return a seed as one number; for a generator, its next one."""
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    return cast("int", np.random.SeedSequence(seed).entropy)
