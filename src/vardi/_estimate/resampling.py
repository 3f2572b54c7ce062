"""What a bootstrap draws: rows, or whole groups of them, within their samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from vardi._inputs.by_row import in_order
from vardi._rows import Rows
from vardi._rows.units import drawn
from vardi._types import Floats, Integers, once
from vardi.biases._values import as_array, coded, is_missing
from vardi.errors import MismatchError
from vardi.errors._refusals import missing_groups, needs_rows, no_groups, no_labels, spanning_group

BLOCK = 2**15  # units whose counts stay in cache
SMALL = 30  # units of a sample up to which draws are spread a little more; beyond, it is under 3% of an error
ROUNDING = 1e-9  # share of the largest standard error that counts as zero
LEAST_SHAPE = 0.1  # of the gamma law of a multiplicity: below it, a draw may lose all units but one

Kind: TypeAlias = Literal["bayesian", "rows"]


@dataclass(frozen=True, eq=False)
class Arrangement:
    """The rows that are drawn, sample by sample, and side by side if they count as the same row of ``rows``.

    Attributes
    ----------
    order : ndarray of int
        The rows that are drawn, as they are arranged.
    runs : ndarray of int or None
        How many of them count as each row of ``rows``, sample by sample; None where they are the same.
    place : ndarray of int
        The rows of ``rows``, sample by sample.
    is_sorted : bool
        Whether they are in that order anyway.
    lengths : ndarray of int of shape (K,)
        How many of them each sample has.
    """

    order: Integers
    runs: Integers | None
    place: Integers
    is_sorted: bool
    lengths: Integers

    @classmethod
    def of(cls, rows: Rows, inverse: Integers | None) -> Arrangement:
        """Return the arrangement, given the row of ``rows`` that each drawn row counts as, unless they are the same."""
        place, is_sorted = np.argsort(rows.source, kind="stable"), bool((rows.source[1:] >= rows.source[:-1]).all())
        lengths = np.bincount(rows.source, minlength=len(rows.sizes))
        if inverse is None:
            return cls(place, None, place, is_sorted, lengths)
        rank = np.empty(len(rows), np.int64)
        rank[place] = np.arange(len(rows))
        kinds = rank[inverse]
        order = np.argsort(kinds.astype(np.uint16) if len(rows) < 2**16 else kinds, kind="stable")
        return cls(order, np.bincount(kinds, minlength=len(rows)), place, is_sorted, lengths)

    def gather(self, values: Floats) -> Floats:
        """Return values of drawn rows summed by row of ``rows``, sample by sample."""
        return values if self._starts is None else np.add.reduceat(values, self._starts)

    def spread(self, values: Floats) -> Floats:
        """Return values of ``rows``, sample by sample, for each drawn row."""
        return values if self.runs is None else np.repeat(values, self.runs)

    @cached_property
    def _starts(self) -> Integers | None:
        return None if self.runs is None else np.cumsum(self.runs) - self.runs

    @property
    def is_in_place(self) -> bool:
        """Whether draws are in the order of ``rows``, one for each, so that counts may be drawn in place."""
        return self.is_sorted and self.runs is None


@dataclass(frozen=True, eq=False)
class DrawnUnits:
    """What is drawn as a whole: rows, or groups of them, in runs that are drawn separately.

    A mean over g units of a sample has (g - 1) / g of its variance if they are drawn with replacement, and
    (g - 1) / (g + 1) of it with exponential multiplicities. So where units are few, g - 1 of them are drawn, or
    multiplicities have a gamma law of shape (g - 2) / g.

    Attributes
    ----------
    groups : ndarray of int or None
        The unit of each row as arranged; None if rows are units.
    counts : ndarray
        How many units each one stands for.
    runs : ndarray of int
        How many of them are drawn together, and so on: one run for each sample, or for each of its parts.
    """

    groups: Integers | None
    counts: Floats
    runs: Integers

    @classmethod
    def of(
        cls, source: Integers, counts: Floats, K: int, groups: Integers | None, parts: Integers | None
    ) -> DrawnUnits:
        """Return the units of rows as arranged, of which sample, count and group are given."""
        if groups is None:
            return cls(None, counts, np.bincount(source, minlength=K))
        if parts is None:
            groups, labels = coded(groups)
            parts = np.bincount(source[_firsts(groups, len(labels))], minlength=K)
        return cls(groups, once(int(parts.sum())), parts)

    def together(self) -> DrawnUnits:
        """Return the same units in one run."""
        return replace(self, runs=np.array([self.runs.sum()]))

    def draw(self, rng: np.random.Generator, kind: Kind, out: Floats) -> None:
        """Write how often each unit is drawn."""
        if kind == "rows":
            self._multinomial(rng, out)
        elif self._shapes is not None:  # a row with a count c has the sum of c multiplicities
            rng.standard_gamma(self._shapes, out=out)
        else:
            rng.standard_exponential(out=out)

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
class DrawnStrata:
    """Strata, each of which keeps its number of units in every draw.

    Attributes
    ----------
    codes : ndarray of int
        The stratum of each row as arranged.
    usual : ndarray
        How often each row counts if nothing is drawn.
    units : ndarray
        The part of a unit that each row is, times that.
    spread : ndarray
        What deviations from that are multiplied by, for each row: less than 1 for a finite population.
    """

    codes: Integers
    usual: Floats
    units: Floats
    spread: Floats

    @classmethod
    def of(cls, codes: Integers, units: DrawnUnits, remaining: Floats) -> DrawnStrata:
        """Return strata of rows, given the share of its population that the sample of each leaves unseen."""
        spread = np.ones(int(codes.max()) + 1)
        spread[codes] = np.sqrt(remaining)
        if units.groups is None:
            return cls(codes, units.counts, units.counts, spread[codes])
        return cls(codes, once(len(codes)), (1.0 / np.bincount(units.groups))[units.groups], spread[codes])

    def settle(self, drawn: Floats) -> None:
        """Restore each stratum's number of units, and shrink draws from finite populations, in place."""
        there, got = np.bincount(self.codes, self.units), np.bincount(self.codes, drawn * self.units / self.usual)
        drawn *= (there / np.maximum(got, np.finfo(float).tiny))[self.codes]
        drawn[:] = self.usual + (drawn - self.usual) * self.spread


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
    cells : ndarray of int, optional
        The stratum of each row; a stratum keeps its number of units in every draw.
    remaining : ndarray, optional
        The share of a finite population that each sample leaves unseen; draws spread less where it is small.
    """

    def __init__(
        self,
        rows: Rows,
        source: Integers,
        counts: Floats,
        inverse: Integers | None,
        groups: Integers | None,
        parts: Integers | None = None,
        cells: Integers | None = None,
        remaining: Floats | None = None,
    ) -> None:
        self.rows, self.arranged = rows, Arrangement.of(rows, inverse)
        order = self.arranged.order
        source, self.row_counts = source[order], counts[order]
        self.units = DrawnUnits.of(
            source, self.row_counts, len(rows.sizes), None if groups is None else groups[order], parts
        )
        is_single = bool((rows.sizes <= 1).all() and (parts is not None or (self.units.runs <= 1).all()))
        self.whole = is_single and len(source) > 1
        self._drawn = self.units.together() if self.whole else self.units
        self._cells: DrawnStrata | None = None
        if cells is not None and remaining is not None and not self.whole:
            self._cells = DrawnStrata.of(cells[order], self.units, remaining[source])

    def draw(self, rng: np.random.Generator, kind: Kind, space: Floats) -> Floats:
        """Return how often each row counts, as arranged and before samples are rescaled to their sizes."""
        groups, drawn = self.units.groups, space[: len(self.units.counts)]
        self._drawn.draw(rng, kind, drawn)
        times = drawn if groups is None else drawn[groups]
        if self._cells is not None:
            self._cells.settle(times)
        return times if groups is None else times * self.row_counts

    def counts(self, drawn: Floats, out: Floats) -> Floats:
        """Write the counts of ``rows``, rescaled so that each sample keeps its size; return the factor of each sample.

        ``drawn`` and ``out`` may be the same array if the arrangement is in place.
        """
        arranged, sizes = self.arranged, self.rows.sizes
        gathered = arranged.gather(drawn)
        runs, targets = ([len(gathered)], [sizes.sum()]) if self.whole else (arranged.lengths, sizes)
        counts, factors = out if arranged.is_sorted else np.empty(len(out)), np.zeros(len(runs))
        for k, (stop, length) in enumerate(zip(np.cumsum(runs), runs, strict=True)):
            if length:  # states without rows have no factor
                own = gathered[stop - length : stop]
                factors[k] = targets[k] / own.sum()
                np.multiply(own, factors[k], out=counts[stop - length : stop])
        if not arranged.is_sorted:
            out[arranged.place] = counts
        return np.full(len(sizes), factors[0]) if self.whole else factors

    def sample_by_sample(self, values: Floats, factors: Floats) -> Floats:
        """Return values of ``rows``, sample by sample, times the factor of each sample."""
        arranged = self.arranged
        return (values if arranged.is_sorted else values[arranged.place]) * np.repeat(factors, arranged.lengths)


def _drawn_with_replacement(rng: np.random.Generator, out: Floats) -> None:
    """Draw len(out) units with replacement and write how often each was drawn, in blocks that fit the cache."""
    n = len(out)
    starts = np.arange(0, n, BLOCK)
    lengths = np.minimum(BLOCK, n - starts)
    for low, length, times in zip(starts, lengths, rng.multinomial(n - (1 < n <= SMALL), lengths / n), strict=True):
        out[low : low + length] = np.bincount(rng.integers(length, size=times), minlength=length)


def make_plan(held: Any, groups: Integers | None, *, of_rows: bool, functions: Any = None) -> DrawPlan:
    """Return the plan of a bootstrap: draws of distinct rows' counts where these are enough, of rows otherwise."""
    rows, given, parts = held.rows, held.dependence, None
    finite = bool((given.remaining < 1.0).any())
    if (
        held.prepared.in_memory and not of_rows and groups is None and not given.in_units
    ):  # counts of distinct rows are drawn directly
        return DrawPlan(
            rows, rows.source, rows.counts, None, None, None, rows.source if finite else None, given.remaining
        )
    cells = held.memory.source if finite else None
    if given.strata is not None:
        cells = given.strata
    if groups is None and given.in_units:
        effective = effective_rows(held, functions) if given.order is not None else None
        measure = held.tangent.measure
        entry, units = measure.arrays.entries
        groups, parts = drawn(entry, units, measure.source, measure.sizes, given.order, effective)
    return DrawPlan(rows, held.memory.source, held.memory.counts, rows.inverse, groups, parts, cells, given.remaining)


def effective_rows(held: Any, functions: Any) -> Floats:
    """Return how many independent rows each series is worth: the minimum over log normalisers and functions' means."""
    measure = held.tangent.measure
    of_functions = [] if functions is None else [held.tangent.influence(functions)[1]]
    found = [measure.spread(one.values) for one in (held.bias_influence(), *of_functions)]
    moved = [one.effective[:, one.stderr > ROUNDING * one.stderr.max()] for one in found if one.stderr.max() > ROUNDING]
    return np.asarray(np.hstack(moved).min(axis=1)) if moved else measure.sizes


def group_codes(held: Any, groups: Any) -> Integers:
    """Return the number of the group of each row in the fit; a group must lie within one sample."""
    if isinstance(groups, str):
        known = list(dict.fromkeys(name for frame in held.pool.frames for name in frame.columns))
        if groups not in known or not all(groups in frame.columns for frame in held.pool.frames):
            raise no_groups(groups, known)
        labels = np.concatenate([np.asarray(frame.column(groups)) for frame in held.pool.frames])
    else:
        labels = as_array(in_order(groups, held.pool.frames, "The series of groups"), "groups")
    if labels.shape != (len(held),):
        raise MismatchError(
            f"The groups have shape {labels.shape}, but the pool has {len(held)} rows. Give a group for each."
        )
    labels = held.memory.kept.of(labels)
    try:
        codes, values = coded(labels)
    except TypeError as error:
        raise no_labels(repr(groups) if isinstance(groups, str) else "groups") from error
    if missing := [j for j, value in enumerate(values) if is_missing(value)]:
        raise missing_groups(int(np.isin(codes, missing).sum()))
    source, firsts = held.memory.source, _firsts(codes, len(values))
    astray = np.flatnonzero(source[firsts][codes] != source)
    if len(astray):
        row = astray[0]
        raise spanning_group(labels.tolist()[row], held.names[source[firsts[codes[row]]]], held.names[source[row]])
    return codes


def _firsts(codes: Integers, groups: int) -> Integers:
    """Return the position of each code's first row."""
    firsts = np.empty(groups, np.int64)
    firsts[codes[::-1]] = np.arange(len(codes))[::-1]  # the last one written wins
    return firsts


def require_rows(held: Any, what: str) -> None:
    """Refuse a fit whose rows are in an engine."""
    if not held.data.in_memory:
        raise needs_rows(what)
