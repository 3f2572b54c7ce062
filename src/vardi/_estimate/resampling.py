"""What a bootstrap draws: rows, or whole groups of them, within their samples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from vardi._inputs.by_row import in_order
from vardi._inputs.given import Labels
from vardi._rows import Rows
from vardi._rows.contract import Kept
from vardi._rows.grouping import is_sorted, sums_by_code
from vardi._rows.multipliers import SMALL
from vardi._rows.units import batch_lengths, in_series
from vardi._types import Floats, Integers
from vardi.biases._values import as_array, coded, is_missing, once
from vardi.errors import MismatchError
from vardi.errors._refusals import missing_groups, needs_rows, no_groups, no_labels, spanning_group

if TYPE_CHECKING:
    from vardi._fit.solved import Solved

DrawKind: TypeAlias = Literal["bayesian", "rows"]


@dataclass(frozen=True, eq=False)
class DrawnUnits:
    """What is drawn as a whole: rows, or groups of them, in runs that are drawn separately.

    A mean over g units of a sample has (g - 1) / g of its variance if they are drawn with replacement, and
    (g - 1) / (g + 1) of it with exponential multiplicities. So where units are few, g - 1 of them are drawn, or
    multiplicities have a gamma law of shape (g - 2) / g.

    Attributes
    ----------
    counts : ndarray
        How many units each one stands for.
    runs : ndarray of int
        How many of them are drawn together, and so on: one run for each sample, or for each of its parts.
    """

    counts: Floats
    runs: Integers

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
        ends = np.cumsum(self.runs)
        before = np.concatenate([[0.0], np.cumsum(self.counts)])
        sizes = before[ends] - before[ends - self.runs]
        few = (sizes > 1) & (sizes <= SMALL)
        # below a shape of 0.1 a draw may lose all units but one
        shape = np.where(few, np.maximum((sizes - 2.0) / np.maximum(sizes, 1.0), 0.1), 1.0)
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
        self.units = DrawnUnits(self._counts if groups is None else once(int(parts.sum())), runs)
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
    rows, measure, parts, strata = solved.rows_in_memory, solved.tangent.measure, None, None
    dependence = measure.rows.dependence
    if not of_rows and groups is None and not dependence.in_units:  # counts of distinct rows are drawn
        source, counts, inverse = rows.source, rows.counts, None
    else:
        source, counts, inverse = measure.source, measure.counts, rows.inverse
    if groups is None and dependence.in_units:
        order = measure.arrays.dependence.order
        if order is None:
            entry, units = measure.arrays.entries
            rank = np.empty(len(units.part), np.int64)  # the number of each unit, part by part
            rank[np.argsort(units.part, kind="stable")] = np.arange(len(rank))
            groups, parts = rank[units.unit[entry]], np.bincount(units.part)
        else:  # batches of successive rows, as long as the effective size of a series requires
            groups = in_series(source, order, batch_lengths(measure.sizes, effective_rows(solved, functions)))
            parts = np.bincount(source[_firsts(groups)], minlength=len(measure.sizes))
    if dependence.strata is not None or (dependence.remaining < 1.0).any():
        units_of_rows = counts if groups is None else (1.0 / np.bincount(groups))[groups]
        codes = None if dependence.strata is None else measure.arrays.dependence.strata
        strata = Strata(source if codes is None else codes, units_of_rows, np.sqrt(dependence.remaining)[source])
    return DrawPlan(rows, source, counts, inverse, groups, parts, strata)


def effective_rows(solved: Solved, functions: Kept | None, rounding: float = 1e-9) -> Floats:
    """Return how many independent rows each series is worth: the minimum over log normalisers and functions' means."""
    measure = solved.tangent.measure
    of_functions = [] if functions is None else [solved.tangent.influence(functions)[1]]
    spreads = [measure.spread(influence.values) for influence in (solved.bias_influence(), *of_functions)]
    vary = [(one.effective, one.stderr / one.stderr.max()) for one in spreads if one.stderr.max() > rounding]
    effective = [rows[:, share > rounding] for rows, share in vary]
    return np.asarray(np.hstack(effective).min(axis=1)) if effective else measure.sizes


def group_codes(solved: Solved, groups: Labels) -> Integers:
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
    source, firsts = solved.tangent.measure.source, _firsts(codes)
    astray = np.flatnonzero(source[firsts][codes] != source)
    if len(astray):
        row = astray[0]
        raise spanning_group(labels.tolist()[row], solved.names[source[firsts[codes[row]]]], solved.names[source[row]])
    return codes


def _firsts(codes: Integers) -> Integers:
    """Return the position of each code's first row."""
    return np.unique(codes, return_index=True)[1]


def require_rows(solved: Solved, what: str) -> None:
    """Refuse a fit whose rows are in an engine."""
    if not solved.data.in_memory:
        raise needs_rows(what)
