"""What a bootstrap draws: rows, or whole groups of them, within their samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from vardi._estimate.solved import SolvedFit
from vardi._inputs.by_row import in_order
from vardi._inputs.given import Labels
from vardi._rows import Rows
from vardi._rows.contract import Kept
from vardi._rows.grouping import is_sorted, sums_by_code
from vardi._rows.multipliers import SMALL
from vardi._rows.units import drawn
from vardi._types import Floats, Integers, once
from vardi.biases._values import as_array, coded, is_missing
from vardi.errors import MismatchError
from vardi.errors._refusals import missing_groups, needs_rows, no_groups, no_labels, spanning_group

LEAST_SHAPE = 0.1  # of the gamma law of a multiplicity: below it, a draw may lose all units but one

Kind: TypeAlias = Literal["bayesian", "rows"]


@dataclass(frozen=True, eq=False)
class DrawnUnits:
    """What is drawn as a whole: rows, or groups of them, in runs that are drawn separately.

    A mean over g units of a sample has (g - 1) / g of its variance if they are drawn with replacement, and
    (g - 1) / (g + 1) of it with exponential multiplicities. So where units are few, g - 1 of them are drawn, or
    multiplicities have a gamma law of shape (g - 2) / g.

    Attributes
    ----------
    of_rows : ndarray of int or None
        The unit of each row, in the order in which rows are drawn; None if rows are units.
    counts : ndarray
        How many units each one stands for.
    runs : ndarray of int
        How many of them are drawn together, and so on: one run for each sample, or for each of its parts.
    """

    of_rows: Integers | None
    counts: Floats
    runs: Integers

    @classmethod
    def of(
        cls, source: Integers, counts: Floats, K: int, groups: Integers | None, parts: Integers | None
    ) -> DrawnUnits:
        """Return the units of rows in the order in which they are drawn, given the sample, count and group of each."""
        if groups is None:
            return cls(None, counts, np.bincount(source, minlength=K))
        if parts is None:
            groups, labels = coded(groups)
            parts = np.bincount(source[_firsts(groups, len(labels))], minlength=K)
        return cls(groups, once(int(parts.sum())), parts)

    def together(self) -> DrawnUnits:
        """Return the same units in one run."""
        return replace(self, runs=np.array([self.runs.sum()]))

    def draw(self, rng: np.random.Generator, kind: Kind, out: Floats) -> Floats:
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
        ends = np.cumsum(self.runs)
        before = np.concatenate([[0.0], np.cumsum(self.counts)])
        sizes = before[ends] - before[ends - self.runs]
        few = (sizes > 1) & (sizes <= SMALL)
        shape = np.where(few, np.maximum((sizes - 2.0) / np.maximum(sizes, 1.0), LEAST_SHAPE), 1.0)
        shapes: Floats = np.repeat(shape, self.runs) * self.counts
        return None if (shapes == 1.0).all() else shapes

    def _multinomial(self, rng: np.random.Generator, out: Floats) -> None:
        ends = np.cumsum(self.runs)
        for low, high in zip(ends - self.runs, ends, strict=True):
            if low == high:  # a state that was not sampled
                continue
            c = self.counts[low:high]
            if (c == 1.0).all():
                _drawn_with_replacement(rng, out[low:high])
            else:
                n = max(round(c.sum()), 1)
                out[low:high] = rng.multinomial(n - (1 < n <= SMALL), c / c.sum())


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

    def in_order(self, order: Integers) -> Strata:
        """Return the strata of the same rows in another order."""
        return Strata(self.codes[order], self.units[order], self.spread[order])

    @cached_property
    def sizes(self) -> Floats:
        """The number of units of each."""
        return np.bincount(self.codes, self.units).astype(np.float64)

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

    Attributes
    ----------
    order : ndarray of int
        The order in which rows are drawn: sample by sample, and those that count as the same row side by side.
    kinds, runs : ndarray of int, ndarray of int or None
        The rows of ``rows`` in that order, and how many rows count as each; None where they are the same.
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
    ) -> None:
        self.rows, self.kinds = rows, np.argsort(rows.source, kind="stable")
        self.order, self.runs, self._is_sorted = self.kinds, None, is_sorted(rows.source)
        if inverse is not None:
            rank = np.empty(len(rows), np.int64)
            rank[self.kinds] = np.arange(len(rows))
            place = rank[inverse]
            self.order = np.argsort(place.astype(np.uint16) if len(rows) < 2**16 else place, kind="stable")
            self.runs = np.bincount(place, minlength=len(rows))
        source, self._counts = source[self.order], counts[self.order]
        own = None if groups is None else groups[self.order]
        units = DrawnUnits.of(source, self._counts, len(rows.sizes), own, parts)
        is_single = bool((rows.sizes <= 1).all() and (parts is not None or (units.runs <= 1).all()))
        self.whole = is_single and len(source) > 1
        self.units = units.together() if self.whole else units
        self._strata = None if self.whole or strata is None else strata.in_order(self.order)
        lengths = np.bincount(rows.source, minlength=len(rows.sizes))
        there = lengths > 0  # samples that have rows
        self._lengths, self._sizes = lengths[there], rows.sizes[there]
        if self.whole:
            self._lengths, self._sizes = np.array([len(rows)]), np.array([rows.sizes.sum()])

    def draw(self, rng: np.random.Generator, kind: Kind, out: Floats) -> tuple[Floats, Floats] | None:
        """Write the counts of ``rows``, so that each sample keeps its size.

        Where several rows that are drawn count as one of these, return how often each does, in their order, and the
        factor of each of ``kinds``.
        """
        times = self._times(rng, kind, out)
        gathered = times if self.runs is None else np.add.reduceat(times, np.cumsum(self.runs) - self.runs)
        totals = np.add.reduceat(gathered, np.cumsum(self._lengths) - self._lengths)
        factors = np.repeat(self._sizes / totals, self._lengths)
        if self._is_sorted:
            np.multiply(gathered, factors, out=out)
        else:
            out[self.kinds] = gathered * factors
        return None if self.runs is None else (times, factors)

    def _times(self, rng: np.random.Generator, kind: Kind, out: Floats) -> Floats:
        """Return how often each row counts, in their order and before samples are scaled to their sizes.

        Rows that are units are written to ``out``: fresh memory for each draw costs as much as drawing.
        """
        is_each = self.runs is None and self.units.of_rows is None
        times = self.units.draw(rng, kind, out if is_each else np.empty(len(self.units.counts)))
        if self.units.of_rows is not None:
            times = times[self.units.of_rows] * self._counts
        if self._strata is not None:
            times /= self._counts
            self._strata.settle(times[:, None])
            times *= self._counts
        return times

    def mass(self, counts: Floats, drawn: tuple[Floats, Floats] | None, weights: Floats) -> Floats:
        """Return how often each row counts times its weight, in their order, given counts and weights of ``rows``."""
        if drawn is None or self.runs is None:
            return (counts * weights)[self.kinds]
        times, factors = drawn
        return times * np.repeat(weights[self.kinds] * factors, self.runs)


def _drawn_with_replacement(rng: np.random.Generator, out: Floats, block: int = 2**15) -> None:
    """Draw len(out) units with replacement and write how often each was drawn, in blocks that fit the cache."""
    n = len(out)
    starts = np.arange(0, n, block)
    lengths = np.minimum(block, n - starts)
    for low, length, times in zip(starts, lengths, rng.multinomial(n - (1 < n <= SMALL), lengths / n), strict=True):
        out[low : low + length] = np.bincount(rng.integers(length, size=times), minlength=length)


def make_plan(solved: SolvedFit, groups: Integers | None, *, of_rows: bool, functions: Kept | None = None) -> DrawPlan:
    """Return the plan of a bootstrap: draws of distinct rows' counts where these are enough, of rows otherwise."""
    rows, measure, parts, strata = solved.rows_in_memory, solved.tangent.measure, None, None
    given = measure.rows.dependence
    if not of_rows and groups is None and not given.in_units:  # counts of distinct rows are drawn
        source, counts, inverse = rows.source, rows.counts, None
    else:
        source, counts, inverse = measure.source, measure.counts, rows.inverse
    if groups is None and given.in_units:
        order = measure.arrays.dependence.order
        effective = None if order is None else effective_rows(solved, functions)
        entry, units = measure.arrays.entries
        groups, parts = drawn(entry, units, source, measure.sizes, order, effective)
    if given.strata is not None or (given.remaining < 1.0).any():
        own = counts if groups is None else (1.0 / np.bincount(groups))[groups]
        codes = None if given.strata is None else measure.arrays.dependence.strata
        strata = Strata(source if codes is None else codes, own, np.sqrt(given.remaining)[source])
    return DrawPlan(rows, source, counts, inverse, groups, parts, strata)


def effective_rows(solved: SolvedFit, functions: Kept | None, rounding: float = 1e-9) -> Floats:
    """Return how many independent rows each series is worth: the minimum over log normalisers and functions' means."""
    measure = solved.tangent.measure
    of_functions = [] if functions is None else [solved.tangent.influence(functions)[1]]
    found = [measure.spread(one.values) for one in (solved.bias_influence(), *of_functions)]
    moved = [one.effective[:, one.stderr > rounding * one.stderr.max()] for one in found if one.stderr.max() > rounding]
    return np.asarray(np.hstack(moved).min(axis=1)) if moved else measure.sizes


def group_codes(solved: SolvedFit, groups: Labels) -> Integers:
    """Return the number of the group of each row in the fit; a group must lie within one sample."""
    if isinstance(groups, str):
        known = list(dict.fromkeys(name for frame in solved.memory.pool.frames for name in frame.columns))
        if groups not in known or not all(groups in frame.columns for frame in solved.memory.pool.frames):
            raise no_groups(groups, known)
        labels = np.concatenate([np.asarray(frame.column(groups)) for frame in solved.memory.pool.frames])
    else:
        labels = as_array(in_order(groups, solved.memory.pool.frames, "The series of groups"), "groups")
    if labels.shape != (len(solved),):
        raise MismatchError(
            f"The groups have shape {labels.shape}, but the pool has {len(solved)} rows. Give a group for each."
        )
    labels = solved.memory.kept.of(labels)
    try:
        codes, values = coded(labels)
    except TypeError as error:
        raise no_labels(repr(groups) if isinstance(groups, str) else "groups") from error
    if missing := [j for j, value in enumerate(values) if is_missing(value)]:
        raise missing_groups(int(np.isin(codes, missing).sum()))
    source, firsts = solved.tangent.measure.source, _firsts(codes, len(values))
    astray = np.flatnonzero(source[firsts][codes] != source)
    if len(astray):
        row = astray[0]
        raise spanning_group(labels.tolist()[row], solved.names[source[firsts[codes[row]]]], solved.names[source[row]])
    return codes


def _firsts(codes: Integers, groups: int) -> Integers:
    """Return the position of each code's first row."""
    firsts = np.empty(groups, np.int64)
    firsts[codes[::-1]] = np.arange(len(codes))[::-1]  # the last one written wins
    return firsts


def require_rows(solved: SolvedFit, what: str) -> None:
    """Refuse a fit whose rows are in an engine."""
    if not solved.data.in_memory:
        raise needs_rows(what)
