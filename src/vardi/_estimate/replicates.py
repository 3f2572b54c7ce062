r"""Replicate weights: a column of weights for each draw, from whose spread any software computes standard errors.

A replicate counts row i :math:`m_i` times (:mod:`vardi._rows.multipliers`). One Newton step from the solution v, with J
taken there, leads to the solution of the replicate, and the weights move with it:

.. math::

    \delta = -J^{-1} g_m,\qquad g_m = \sum_i m_i q_i - n,\qquad
    w_i \propto m_i\,e^{-x_i'\delta} / S_i,

since x is the gradient of log S. So each replicate needs only a sum of q over the rows, linear in m: in an engine, one
query computes many. The error is of second order in the draw. That of :math:`m_i / S_i(v + \delta)` is no smaller, but
its weights could fall below zero where known values move S, or explode where parameters move a curve.
"""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
from scipy import sparse

from vardi._estimate.refits import Progress, entropy_of
from vardi._estimate.resampling import effective_rows
from vardi._inputs.engine.dependence import SERIES_APART
from vardi._machine.memory import require_memory
from vardi._rows.engine.replicates import EngineReplicates
from vardi._rows.multipliers import Multipliers, ReplicateKind, hashed_numbers, names_of
from vardi._rows.series import batch_lengths
from vardi._types import Floats, Integers, once
from vardi.errors import MismatchError, WeakOverlapWarning
from vardi.errors._refusals import needs_rows
from vardi.errors._warn import warn

FAR = 0.5  # standard deviation of the change of log weights above which one step is not enough
NUMBERS = 2**22  # multipliers held in memory at once


def replicate_weights(
    held: Any,
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
    held : Any
        The fit's rows and solution.
    n, kind, seed, identity, progress
        As in that method.
    """
    _check(n, kind)
    if held.in_memory:
        return held.table(_in_memory(held, n, kind, entropy_of(seed), identity, progress), names_of(n))
    return _in_engine(held, n, kind, entropy_of(seed), identity, progress)


class _Steps:
    """The step of each replicate from the solution."""

    def __init__(self, held: Any, law: Multipliers) -> None:
        self.jacobian, self.coordinates = held.tangent.jacobian, held.tangent.measure.coordinates
        self.epsilon, self.law = held.point[self.coordinates.epsilon], law
        _require_units(law)

    def __call__(self, replicates: range, drawn: Floats, rows: Floats) -> Floats:
        """Return delta, (d, R), given the sums of m q, (d, R), and of m by sample, (K, R)."""
        at, gradient = self.coordinates, drawn.copy()
        gradient[at.u] -= rows
        gradient[at.epsilon] += (self.epsilon - self._known(replicates)).T
        return np.asarray(-self.jacobian.solve(gradient))

    def _known(self, replicates: range) -> Floats:
        """Return drawn errors of the known values that have one, in standard deviations: (R, r).

        For a jackknife, whose variance is a sum of squares, they are scaled down accordingly.
        """
        rng = np.random.default_rng(np.random.SeedSequence(self.law.seed, spawn_key=(0, 2)))
        drawn = rng.standard_normal((self.law.n, self.coordinates.uncertain))[replicates.start : replicates.stop]
        return drawn / np.sqrt(self.law.n - 1.0) if self.law.kind == "jackknife" else drawn


def _in_engine(held: Any, n: int, kind: ReplicateKind, seed: Any, identity: str | None, progress: Any) -> Any:
    """Return the user's lazy frames with a column for each replicate."""
    given, lengths = held.dependence, None
    if given.strata or (given.remaining < 1.0).any():
        raise needs_rows("Making replicate weights within strata, or of finite populations,")
    if given.series:
        lengths = batch_lengths(held.rows.sizes, effective_rows(held, None))
    rows = EngineReplicates(held.measure, kind, n, seed, identity, lengths)
    steps, sizes = _Steps(held, rows.law), held.measure.sizes[:, None]
    factors, deltas, totals, far = np.empty((n, len(sizes))), np.empty((len(steps.coordinates), n)), np.empty(n), 0
    for chunk in rows.chunks():
        place = slice(chunk.start, chunk.stop)
        factors[place], drawn = rows.sums(chunk)
        deltas[:, place] = steps(chunk, drawn, sizes)
        totals[place], moved = rows.moved(chunk, factors[place], deltas[:, place])
        far += int((moved > FAR).sum())
        if progress is not None:
            progress(chunk.stop, n)
    _warn_of_far(far, n)
    return held.by_name(rows.frames(factors, deltas, totals, held.pool.dropped))


def _in_memory(held: Any, n: int, kind: ReplicateKind, seed: Any, identity: str | None, progress: Any) -> Floats:
    """Return the weights of replicates, a column each, for every row of the pool."""
    require_memory(
        16 * len(held) * n,
        f"{n} replicate weights of {len(held):,} rows",
        "Take fewer, or give lazy frames, whose replicates are columns that their engine computes.",
    )
    rows = _MemoryRows(held, kind, n, seed, identity)
    weights = np.zeros((len(held), n), order="F")
    size = max(NUMBERS // max(len(rows.source), 1), 1)
    far = 0
    for low in range(0, n, size):
        chunk = range(low, min(low + size, n))
        found, moved = rows.weights(chunk)
        weights[:, chunk.start : chunk.stop] = held.kept.spread(found)
        far += int((moved > FAR).sum())
        if progress is not None:
            progress(chunk.stop, n)
    _warn_of_far(far, n)
    return weights


class _MemoryRows:
    """Rows in memory, each with a hash of what identifies it or its cluster."""

    def __init__(self, held: Any, kind: ReplicateKind, n: int, seed: Any, identity: str | None) -> None:
        self.measure, self.source, self.counts = held.tangent.measure, held.source, held.counts
        self.solved = self.measure.arrays.source  # in which truncated rows are a sample each
        sizes, given, clusters = held.rows.sizes, held.dependence, _clusters(held)
        self.spread = np.sqrt(given.remaining)[self.source][:, None]
        # Where every sample is a single row, rows are drawn from the pool, with their biases.
        whole = clusters is None and len(self.source) > 1 and bool((sizes <= 1).all())
        self.stratum = np.zeros_like(self.source) if whole else self.source
        self.sizes = np.array([sizes.sum()]) if whole else sizes
        self.preserved = self.measure.counts  # what each replicate preserves the total of: rows
        if given.strata is not None:
            self.stratum = np.unique(given.strata, return_inverse=True)[1]
            if clusters is not None:  # a stratum keeps its number of clusters, however many rows they have
                place = np.unique(clusters, return_inverse=True)[1]
                self.preserved = (1.0 / np.bincount(place))[place]
            self.sizes = np.bincount(self.stratum, self.preserved).astype(np.float64)
        self.halves = _halves(held, seed, identity) if clusters is None else hashed_numbers(clusters, seed, 0)
        self.shared = self.counts if clusters is None else once(len(self.counts))  # by row, a multiplier for each count
        units = self.sizes if clusters is None else _units(clusters, self.stratum, len(self.sizes))
        self.law = Multipliers(kind, n, seed, units)
        self.steps = _Steps(held, self.law)
        self.own = self.measure.own_gradients

    def weights(self, replicates: range) -> tuple[Floats, Floats]:
        """Return the weights of replicates, with mean 1, and the standard deviation of x'delta in each."""
        measure, at = self.measure, self.measure.coordinates
        times = self._times(replicates)
        counted = times * self.counts[:, None]
        drawn = measure.project(times)
        drawn[at.theta] -= self.own.T @ counted
        deltas = self.steps(replicates, drawn, _summed(counted, self.solved, at.samples))
        change = measure.mix(deltas) + self.own @ deltas[at.theta]
        weights = times * measure.weights[:, None] * np.exp(-change)
        share = measure.counts / measure.n
        spread = share @ change**2 - (share @ change) ** 2
        return weights / (share @ weights), np.sqrt(np.maximum(spread, 0.0))

    def _times(self, replicates: range) -> Floats:
        """Return how often each row counts; a sample that a replicate would leave empty keeps all its rows."""
        times = self.law.of_rows(self.halves, self.stratum, replicates, self.shared)
        sums = _summed(times * self.preserved[:, None], self.stratum, len(self.sizes))
        for stratum, place in np.argwhere((sums == 0) & (self.sizes > 0)[:, None]):
            times[self.stratum == stratum, place] = 1.0
            sums[stratum, place] = self.sizes[stratum]
        factors = self.sizes[:, None] / np.where(sums > 0, sums, 1.0)
        times *= factors[self.stratum]
        times *= self.spread
        times += 1.0 - self.spread
        return times


def _clusters(held: Any) -> Integers | None:
    """Return the number of the unit that each row is drawn with: its cluster, or its batch of a series."""
    given = held.dependence
    if given.order is None:
        clusters: Integers | None = given.clusters
        return clusters
    lengths = np.array(batch_lengths(held.rows.sizes, effective_rows(held, None)))
    order = np.lexsort((given.order, held.source))
    sizes = np.bincount(held.source, minlength=len(lengths))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.asarray(place // lengths[held.source] + held.source * SERIES_APART)


def _summed(values: Floats, stratum: Integers, strata: int) -> Floats:
    """Return the sums of columns within strata."""
    members = sparse.csr_array((np.ones(len(stratum)), (stratum, np.arange(len(stratum)))), (strata, len(stratum)))
    return np.asarray(members @ values)


def _units(clusters: Integers, source: Integers, samples: int) -> Floats:
    """Return the number of clusters in each sample."""
    pairs = np.unique(np.column_stack([source, clusters]), axis=0)
    return np.bincount(pairs[:, 0], minlength=samples).astype(np.float64)


def _halves(held: Any, seed: Any, identity: str | None) -> tuple[Integers, Integers]:
    """Return a hash of each row in the fit: of its place in its frame, or of a column."""
    lengths = [len(frame) for frame in held.pool.frames] or [len(held)]
    numbers = [np.arange(length) for length in lengths]
    if identity is not None:
        numbers = [_identity(frame, identity) for frame in held.pool.frames]
        if not numbers:
            raise _no_identity(identity, ())
    ends = np.cumsum(lengths)
    own = [one[held.kept.mask[end - len(one) : end]] for one, end in zip(numbers, ends, strict=True)]
    with_rows = [one for one in own if len(one)]  # frames that were left out are not numbered
    halves = [hashed_numbers(one, seed, place) for place, one in enumerate(with_rows)]
    left, right = (np.concatenate(half) for half in zip(*halves, strict=True))
    return left, right


def _identity(frame: Any, column: str) -> Integers:
    """Return integers that identify the rows; texts and dates are numbered in sorted order."""
    if column not in frame.columns:
        raise _no_identity(column, frame.columns)
    values = np.asarray(frame.column(column))
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _no_identity(column: str, known: Any) -> MismatchError:
    named = (
        f"Name one of {', '.join(map(repr, known))}."
        if known
        else "Leave it out: rows are identified by their position."
    )
    return MismatchError(f"There is no column {column!r} that identifies rows. {named}")


def _check(n: int, kind: ReplicateKind) -> None:
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 2:
        raise MismatchError(f"{n!r} replicates have no spread. Give a whole number of 2 or more, such as 500.")
    if kind not in get_args(ReplicateKind):
        raise MismatchError(
            f"kind is {kind!r}. Give 'bayesian' (every row stays, with a random weight), 'rows' (rows are drawn with "
            "replacement) or 'jackknife' (rows are left out, a group at a time)."
        )


def _require_units(law: Multipliers) -> None:
    units = int(law.units.sum())
    if law.kind == "jackknife" and law.n > units:
        raise MismatchError(
            f"{law.n} groups cannot be made of {units} units (rows, or clusters of them), so most replicates would "
            f"leave nothing out. Give {units} or fewer, or kind='bayesian'."
        )


def _warn_of_far(far: int, n: int) -> None:
    if far:
        warn(
            WeakOverlapWarning(
                f"{far} of {n} replicates move the weights so far (by more than {FAR} on the log scale) that refitting "
                "them by one step is rough: few rows join the samples. Compare with fit.bootstrap, which "
                "solves each draw in full, or add rows where the samples overlap."
            )
        )
