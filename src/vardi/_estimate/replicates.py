r"""Replicate weights: a column of weights for each draw, from whose spread any software computes standard errors.

A replicate counts row i :math:`m_i` times (:mod:`vardi._rows.multipliers`). One Newton step from the solution v, with J
taken there, leads to the solution of the replicate, and the weights move with it:

.. math::

    \delta = -J^{-1} g_m,\qquad g_m = \sum_i m_i q_i - n,\qquad
    w_i \propto m_i\,e^{-x_i'\delta} / S_i,

since x is the gradient of log S. So each replicate needs only a sum of q over the rows, linear in m: in an engine, one
query computes many. The error is of second order in the draw. That of :math:`m_i / S_i(v + \delta)` is no smaller, but
its weights could fall below zero where known values move S, or explode where parameters move a curve.

Multipliers are functions of a hash, so no query of an engine stores them, and its rows are read a few times for many
replicates. Samples are scaled to their sizes: rows in memory before they are summed, also within strata; those of an
engine afterwards, since sums by sample come with the same query.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import narwhals as nw
import numpy as np

from vardi._estimate.intervals import REFUSED, one_unit
from vardi._estimate.refits import LONG, Progress, Strata, batches, entropy_of, one_step, spread_of_draws
from vardi._inputs.engines import Aggregate, LazyFrame, answering
from vardi._inputs.frames import Frame
from vardi._inputs.lazy_part import Part, expression, sums_by_sample
from vardi._inputs.lazy_pool import SERIES_APART, UNIT, EngineDependence
from vardi._machine import require_memory
from vardi._rows.contract import Block, Question
from vardi._rows.hashed import LEFT, RIGHT, hashed
from vardi._rows.measure import Measure
from vardi._rows.multipliers import Multipliers, ReplicateKind, hashed_numbers, names_of, power_of_shape
from vardi._rows.point import RowsAt
from vardi._rows.queries import Queries
from vardi._rows.units import in_series
from vardi._types import Floats, Integers
from vardi.biases._values import are_once
from vardi.errors import FewUnitsError, MismatchError, WeakOverlapWarning
from vardi.errors._refusals import needs_rows, no_identity
from vardi.errors._warn import warn

if TYPE_CHECKING:
    from vardi._fit.solved import Solved

WHAT = "Making replicate weights"


def replicate_weights(
    solved: Solved,
    n: int = 500,
    kind: ReplicateKind = "bayesian",
    seed: int | np.random.Generator | None = 0,
    *,
    identity: str | None = None,
    progress: Progress | None = None,
) -> Any:
    """Return the weights of replicates of a fit; see :meth:`vardi.DebiasedSample.replicate_weights`.

    Draws are of whole clusters, or of batches of successive rows of a series, within strata; they spread less where a
    sample is a good part of a finite population.

    Parameters
    ----------
    solved : Solved
        The fit's rows and solution.
    n, kind, seed, identity, progress
        As in that method.
    """
    _check(n, kind)
    _require_freedom(solved)
    holder = ReplicatesInMemory if solved.data.in_memory else ReplicatesInEngine
    rows = holder(solved, kind, n, entropy_of(seed), identity)
    _require_units(rows.law)
    far, uncertain = 0, solved.tangent.measure.coordinates.uncertain
    size = rows.at_once()
    for chunk in (range(low, min(low + size, n)) for low in range(0, n, size)):
        times, counted, q = rows.drawn(chunk)
        steps = one_step(solved.tangent, q, counted, drawn_errors(rows.law, uncertain, chunk))
        mean, squares = rows.keep(chunk, times, steps)
        far += int((squares - mean**2 > LONG**2).sum())
        if progress is not None:
            progress(chunk.stop, n)
    if far:
        warn(
            WeakOverlapWarning(
                f"{far} of {n} replicates move the weights so far (by more than {LONG} on the log scale) that "
                "refitting them by one step is rough: few rows join the samples. Compare with fit.bootstrap, which "
                "solves each draw in full, or add rows where the samples overlap."
            )
        )
    return rows.result()


def drawn_errors(law: Multipliers, uncertain: int, replicates: range) -> Floats:
    """Return drawn errors of the known values that have one, in standard deviations: (r, R).

    For a jackknife, whose variance is a sum of squares, they are scaled down accordingly.
    """
    rng = np.random.default_rng(np.random.SeedSequence(law.seed, spawn_key=(0, 2)))
    drawn = rng.standard_normal((law.n, uncertain))[replicates.start : replicates.stop].T
    return drawn / np.sqrt(law.n - 1.0) if law.kind == "jackknife" else drawn


def _check(n: int, kind: ReplicateKind) -> None:
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 2:
        raise MismatchError(f"{n!r} replicates have no spread. Give a whole number of 2 or more, such as 500.")
    if kind not in get_args(ReplicateKind):
        raise MismatchError(
            f"kind is {kind!r}. Give 'bayesian' (every row stays, with a random weight), 'rows' (rows are drawn with "
            "replacement) or 'jackknife' (rows are left out, a group at a time)."
        )


def _require_freedom(solved: Solved) -> None:
    """Refuse replicates whose spread would be no error: of a sample in one cluster, or of hardly any units at all."""
    student = solved.tangent.of_units
    if student.df >= REFUSED:
        return
    units, remedy = student.df + 1.0, "Add some, or smaller ones, if rows of different ones are then independent."
    reason = f"there are only {units:.0f} {student.unit}, whose spread says hardly anything about errors. {remedy}"
    if not student.df and student.most >= 0:
        reason = one_unit(solved.names[student.most])
    raise FewUnitsError(f"No replicate weights are given: {reason}", df=student.df)


def _require_units(law: Multipliers) -> None:
    units = int(law.units.sum())
    if law.kind == "jackknife" and law.n > units:
        raise MismatchError(
            f"{law.n} groups cannot be made of {units} units (rows, or clusters of them), so most replicates would "
            f"leave nothing out. Give {units} or fewer, or kind='bayesian'."
        )


def moved(at: RowsAt, times: Floats, steps: Floats) -> tuple[Floats, Floats]:
    """Return weights m e^(-x'delta) / S, and x'delta, by which their logs fall, for some replicates.

    Parameters
    ----------
    at : RowsAt
        Rows at the solution.
    times : ndarray of shape (rows, R)
        How often they count in each replicate: m.
    steps : ndarray of shape (d, R)
        The step of each from the solution.
    """
    change = at.block.let(at.x(steps))
    return times * at.weight * np.exp(-change), change


class ReplicatesInMemory:
    """Rows in memory, each with a hash of what identifies it or its cluster.

    Parameters
    ----------
    solved : Solved
        The fit.
    kind, n, seed
        Options of the multipliers.
    identity : str or None
        Column that identifies a row; without it, its position.
    """

    def __init__(self, solved: Solved, kind: ReplicateKind, n: int, seed: int, identity: str | None) -> None:
        require_memory(
            16 * len(solved) * n,
            f"{n} replicate weights of {len(solved):,} rows",
            "Take fewer, or give lazy frames, whose replicates are columns that their engine computes.",
        )
        self.solved, measure = solved, solved.tangent.measure
        clusters, variances = _clusters(solved)
        self.rows, self.point, self.counts = measure.arrays, measure.whole_point, measure.counts
        self.strata = _strata(measure, clusters)
        self.is_counted = clusters is None and not are_once(self.counts)  # a row has a multiplier for each count
        halves = _halves(solved, seed, identity) if clusters is None else hashed_numbers(clusters, seed, 0)
        self.left, self.right = (half.astype(np.float64)[:, None] for half in halves)
        units = self.strata.sizes if clusters is None else self._units(clusters)
        self.law = Multipliers(kind, n, seed, units, variances)
        self.power = self._power()
        self.weights = np.zeros((len(solved), n), order="F")

    def _power(self) -> Floats | float:
        """Return the power of the multipliers of each row, by its leverage unless rows are drawn together."""
        leverage, powers = self.solved.tangent.leverage, self.law.powers
        if leverage is not None and self.law.kind == "bayesian" and not self.rows.dependence.in_units:
            return power_of_shape(self.rows.column(leverage.shape, 1))
        return 1.0 if (powers == 1.0).all() else powers[self.strata.codes][:, None]

    def at_once(self, numbers: int = 2**22) -> int:
        """Return how many replicates are computed at once; their multipliers are so many numbers."""
        return max(numbers // max(len(self.counts), 1), 1)

    def times(self, replicates: range) -> Floats:
        """Return how often each row counts; a sample that a replicate would leave empty keeps all its rows."""
        if self.is_counted:
            times = self.law.of_counts(self.left, self.right, replicates, self.counts[:, None])
        else:
            times = self.law.of(self.left, self.right, replicates, self.power)
        self.strata.settle(times)
        return times

    def drawn(self, replicates: range) -> tuple[Question[Floats], Floats, Floats]:
        """Return how often rows count, m, and counted sums of m by sample, (K, R), and of m q, (d, R)."""
        times = self.times(replicates)

        def question(block: Block) -> tuple[Floats, Floats]:
            m = block.columns(times)
            return block.by_sample(m), self.point.at(block).against_q(m)

        return lambda block: block.columns(times), *self.rows.total(question, len(replicates))

    def keep(self, replicates: range, times: Question[Floats], steps: Floats) -> tuple[Floats, Floats]:
        """Compute weights of mean 1; return the means of x'delta and of its square in each replicate."""

        def question(block: Block) -> Floats:
            return np.hstack(moved(self.point.at(block), times(block), steps))

        weights, change = np.hsplit(self.rows.column(question, 2 * len(replicates)), 2)
        share = self.counts / self.counts.sum()
        self.weights[:, replicates.start : replicates.stop] = self.solved.memory.kept.spread(
            weights / (share @ weights)
        )
        return share @ change, share @ change**2

    def result(self) -> Any:
        """Return the weights, a column for each replicate, in the user's library."""
        return self.solved.memory.pool.wrap(self.weights, *names_of(self.law.n))

    def _units(self, clusters: Integers) -> Floats:
        """Return how many clusters each stratum has."""
        pairs = np.unique(np.column_stack([self.strata.codes, clusters]), axis=0)
        return np.bincount(pairs[:, 0], minlength=len(self.strata.sizes)).astype(np.float64)


class ReplicatesInEngine:
    """Frames of an engine whose rows have a hash; all rows of a cluster, or of a batch of a series, have the same.

    Parameters
    ----------
    solved : Solved
        The fit.
    kind, n, seed
        Options of the multipliers.
    identity : str or None
        Column that identifies a row; without it the engine's own row number, if it has one.
    """

    def __init__(self, solved: Solved, kind: ReplicateKind, n: int, seed: int, identity: str | None) -> None:
        rows, self.solved = solved.tangent.measure.rows, solved
        assert isinstance(rows, Queries)
        dependence, parts = rows.dependence, rows.parts
        if dependence.strata or dependence.is_finite:
            raise needs_rows("Making replicate weights within strata, or of finite populations,")
        clusters, variances = dependence.clusters, None
        if dependence.order:
            lengths, variances = batches(solved)
            clusters, parts = UNIT, tuple(_in_batches(dependence, part, lengths) for part in parts)
        elif clusters is None and any(part.counted for part in parts):
            raise needs_rows(f"{WHAT}, where rows have counts,")
        elif clusters and len(parts) > 1 and not all(part.schema[clusters].is_integer() for part in parts):
            raise needs_rows(f"{WHAT} of clusters in several frames that are not whole numbers")
        parts = tuple(_with_hash(part, place, seed, identity, clusters) for place, part in enumerate(parts))
        self.rows = Queries(parts, rows.sizes, dependence)
        self.point = solved.tangent.measure.whole_point
        units = self.rows.sizes if clusters is None else self._units(clusters)
        self.law = Multipliers(kind, n, seed, units, variances)
        self._kept: list[tuple[Question[Floats], Floats, Floats]] = []

    def at_once(self, numbers: int = 125 * 10**6, most: int = 25) -> int:
        """Return how many replicates a query covers: so few sums, and multipliers that any engine can hold."""
        return int(np.clip(numbers // max(len(self.rows), 1), 1, most))

    def drawn(self, replicates: range) -> tuple[Question[Floats], Floats, Floats]:
        """Return how often rows count, and the same sums: a query for each frame.

        In a sample that a replicate would leave empty all rows count once.
        """
        R, sizes = len(replicates), self.rows.sizes[:, None]

        def times(block: Block) -> Floats:
            left, right = (block.solved((name,)) for name in (LEFT, RIGHT))
            return self.law.of(left, right, replicates, self._power(block))

        def question(block: Block) -> tuple[Floats, Floats]:
            q = block.let(self.point.at(block).q(np.eye(len(self.point.v))))
            m = np.hstack([block.let(times(block)), q[:, [0]] * 0.0 + 1.0])  # and once for every row
            products = [m * q[:, [j]] for j in range(len(self.point.v))]
            return block.by_sample(m), block.by_sample(np.hstack(products))

        rows, products = self.rows.total(question)
        rows, products = rows[:, :R], products.reshape(len(rows), -1, R + 1)
        factors, lost = sizes / np.where(rows > 0, rows, np.inf), (rows <= 0).astype(np.float64)
        sums = np.einsum("kr,kjr->jr", factors, products[:, :, :R]) + products[:, :, R].T @ lost

        def scaled(block: Block) -> Floats:
            return times(block) * block.of_sample(factors) + block.of_sample(lost)

        return scaled, np.tile(sizes, R), sums

    def _power(self, block: Block) -> Floats:
        """Return the power of the multipliers of each row, by its leverage unless rows are drawn together."""
        leverage = self.solved.tangent.leverage
        if leverage is not None and self.law.kind == "bayesian" and not self.rows.dependence.in_units:
            return block.let(power_of_shape(leverage.shape(block)))
        return block.of_sample(self.law.powers[:, None])

    def keep(self, replicates: range, times: Question[Floats], steps: Floats) -> tuple[Floats, Floats]:
        """Note weights of mean 1; return the means of x'delta and of its square, by a query for each frame."""

        def question(block: Block) -> tuple[Floats, Floats, Floats]:
            weights, change = moved(self.point.at(block), times(block), steps)
            return block.sum(weights), block.sum(change), block.sum(change * change)

        n = self.rows.sizes.sum()
        weight, change, squares = self.rows.total(question)
        self._kept.append((times, steps, n / weight))
        return change / n, squares / n

    def result(self) -> Any:
        """Return the user's frames, lazy as they are, with a column of weights and one for each replicate."""

        def weights(block: Block) -> Floats:
            at = self.point.at(block)
            every = [moved(at, times(block), steps)[0] * scale for times, steps, scale in self._kept]
            return np.hstack([at.weight, *every])

        names, engine = ("weight", *names_of(self.law.n)), self.solved.engine
        return engine.by_name(self.rows.frames_with(names, weights, engine.pool.dropped))

    def _units(self, clusters: str) -> Floats:
        """Return how many clusters each sample has, with a query for each frame."""
        units = {"units": Aggregate(clusters, "n_unique")}
        return sums_by_sample(self.rows.parts, len(self.rows.sizes), lambda part: units)["units"]


def _clusters(solved: Solved) -> tuple[Integers | None, Floats | None]:
    """Return the number of the unit that each row is drawn with, its cluster or batch, and how much batches vary."""
    measure = solved.tangent.measure
    dependence, source, sizes = measure.arrays.dependence, measure.source, measure.sizes
    if dependence.order is None:
        return dependence.clusters, None
    lengths, variances = batches(solved)
    counts = np.ceil(sizes / lengths).astype(np.int64)
    first = np.arange(len(sizes)) * SERIES_APART - (np.cumsum(counts) - counts)  # as in engines
    return in_series(source, dependence.order, lengths) + first[source], variances


def _strata(measure: Measure, clusters: Integers | None) -> Strata:
    """Return the strata of rows in memory, each of which keeps its number of rows, or of clusters: or else samples."""
    dependence, source, units = measure.arrays.dependence, measure.source, measure.counts
    codes, spread = source, spread_of_draws(measure)
    if dependence.strata is not None:
        codes = np.unique(dependence.strata, return_inverse=True)[1]
        if clusters is not None:  # a stratum keeps its number of clusters, however many rows they have
            place = np.unique(clusters, return_inverse=True)[1]
            units = (1.0 / np.bincount(place))[place]
    elif clusters is None and len(source) > 1 and (measure.sizes <= 1).all():
        codes = np.zeros_like(source)  # every sample is one row: rows are drawn from the pool, with their biases
    return Strata(codes, units, spread)


def _halves(solved: Solved, seed: int, identity: str | None) -> tuple[Integers, Integers]:
    """Return a hash of each row in the fit: of its place in its frame, or of a column."""
    frames, mask = solved.memory.pool.frames, solved.memory.kept.mask
    if identity is not None and not frames:
        raise no_identity(identity, ())
    numbers = [np.arange(len(frame)) if identity is None else _identity(frame, identity) for frame in frames]
    numbers = numbers or [np.arange(len(solved))]
    ends = np.cumsum([len(one) for one in numbers])
    in_fit = [one[mask[end - len(one) : end]] for one, end in zip(numbers, ends, strict=True)]
    with_rows = [one for one in in_fit if len(one)]  # frames that were left out are not numbered
    halves = [hashed_numbers(one, seed, place) for place, one in enumerate(with_rows)]
    left, right = (np.concatenate(half) for half in zip(*halves, strict=True))
    return left, right


def _identity(frame: Frame, column: str) -> Integers:
    """Return integers that identify the rows; texts and dates are numbered in sorted order."""
    if column not in frame.columns:
        raise no_identity(column, frame.columns)
    values = np.asarray(frame.column(column))
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _in_batches(dependence: EngineDependence, part: Part, lengths: list[int]) -> Part:
    """Return a part with the batch of each row, numbered separately for each sample."""
    units = dependence.units(part, lengths)
    batch = nw.col(UNIT) + expression(part.of_sample([k * SERIES_APART for k in range(len(lengths))])).cast(nw.Int64)
    return part.map(lambda frame: units(frame).with_columns(**{UNIT: batch}))


def _with_hash(part: Part, place: int, seed: int, identity: str | None, clusters: str | None) -> Part:
    """Return a part with the hash of each row; rows outside the fit are numbered, too."""
    together = clusters is not None  # a cluster has the same hash in all frames
    halves = hashed(part, 0 if together else place, seed, clusters if together else identity, WHAT, clusters=together)

    def change(frame: LazyFrame) -> LazyFrame:
        return halves(frame).with_columns(nw.col(LEFT, RIGHT).cast(nw.Float64))

    if part.whole is None or part.belongs is None:
        return part.map(change)
    with answering(part.name):
        whole = change(part.whole)
        return replace(part, frame=whole.filter(part.belongs), whole=whole)
