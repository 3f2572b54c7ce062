"""What a bootstrap draws: rows, or whole groups of them, within their samples."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from vardi._inputs.by_row import in_order
from vardi._rows import Rows
from vardi._types import Floats, Integers, are_once, once
from vardi.biases._values import as_array, coded, is_missing
from vardi.errors import MismatchError
from vardi.errors._refusals import missing_groups, needs_rows, no_groups, no_labels, spanning_group

BLOCK = 2**15  # units whose counts stay in cache
SMALL = 30  # units of a sample up to which draws are spread a little more; beyond, it is under 3% of an error
ROUNDING = 1e-9  # share of the largest standard error that counts as zero
LEAST_SHAPE = 0.1  # of the gamma law of a multiplicity: below it, a draw may lose all units but one

Kind: TypeAlias = Literal["bayesian", "rows"]


class Plan:
    """The units of a draw: rows or whole groups of them, numbered by sample and within each sample by kind.

    A mean over g units of a sample has (g - 1) / g of its variance if they are drawn with replacement, and
    (g - 1) / (g + 1) of it with exponential multiplicities. So where units are few, g - 1 of them are drawn, or
    multiplicities have a gamma law of shape (g - 2) / g.

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
        self.rows = rows
        self.place = np.argsort(rows.source, kind="stable")  # rows of ``rows``, sample by sample
        self._is_sorted = bool((rows.source[1:] >= rows.source[:-1]).all())
        self._lengths = np.bincount(rows.source, minlength=len(rows.sizes))
        self.order, self.starts = self.place, None
        if inverse is not None:  # rows of one kind are side by side, so their sums are sums over runs
            rank = np.empty(len(rows), np.int64)
            rank[self.place] = np.arange(len(rows))
            kinds = rank[inverse]
            self.order = np.argsort(kinds.astype(np.uint16) if len(rows) < 2**16 else kinds, kind="stable")
            self.lengths = np.bincount(kinds, minlength=len(rows))
            self.starts = np.cumsum(self.lengths) - self.lengths
        self.row_counts = counts[self.order]
        self.groups: Integers | None = None
        if groups is None:
            self.units = np.bincount(source, minlength=len(rows.sizes))
        elif parts is not None:
            self.groups, self.units = groups[self.order], parts
        else:
            self.groups, found = coded(groups[self.order])
            self.units = np.bincount(source[self.order[_firsts(self.groups, len(found))]], minlength=len(rows.sizes))
        self.unit_counts = self.row_counts if groups is None else once(int(self.units.sum()))
        self.whole = len(source) > 1 and bool(
            (rows.sizes <= 1).all() and (parts is not None or (self.units <= 1).all())
        )
        self.strata: Integers = np.array([self.units.sum()]) if self.whole else self.units
        self._shapes = self._few_spread_more()
        self.cells: Integers | None = None
        if cells is not None and remaining is not None and not self.whole:
            self.cells, self.spread_of = cells[self.order], np.ones(int(cells.max()) + 1)
            self.spread_of[self.cells] = np.sqrt(remaining[source[self.order]])

    def draw(self, rng: np.random.Generator, kind: Kind, space: Floats) -> Floats:
        """Return how often each row counts, in plan order and before samples are rescaled to their sizes."""
        drawn = space[: self.units.sum()]
        if kind == "bayesian":
            self._exponential(rng, drawn)
        else:
            self._multinomial(rng, drawn)
        spread = drawn if self.groups is None else drawn[self.groups]
        if self.cells is not None:
            self._settle(spread)
        return spread if self.groups is None else spread * self.row_counts

    def _settle(self, drawn: Floats) -> None:
        """Restore each stratum's number of units, and shrink draws from finite populations, in place."""
        assert self.cells is not None
        usual = self.unit_counts if self.groups is None else once(len(drawn))
        units = usual if self.groups is None else (1.0 / np.bincount(self.groups))[self.groups]
        there, got = np.bincount(self.cells, units), np.bincount(self.cells, drawn * units / usual)
        drawn *= (there / np.maximum(got, np.finfo(float).tiny))[self.cells]
        drawn[:] = usual + (drawn - usual) * self.spread_of[self.cells]

    def gather(self, values: Floats) -> Floats:
        """Return values in plan order summed by row of ``rows``, sample by sample."""
        return values if self.starts is None else np.add.reduceat(values, self.starts)

    def spread(self, values: Floats) -> Floats:
        """Return values of ``rows``, sample by sample, for each row in plan order."""
        return values if self.starts is None else np.repeat(values, self.lengths)

    def counts(self, drawn: Floats, out: Floats) -> Floats:
        """Write the counts of ``rows``, rescaled so that each sample keeps its size; return the factor of each sample.

        ``drawn`` and ``out`` may be the same array if :attr:`is_in_place`.
        """
        gathered, sizes = self.gather(drawn), self.rows.sizes
        parts, targets = (self._lengths, sizes) if not self.whole else ([len(gathered)], [sizes.sum()])
        counts, factors = out if self._is_sorted else np.empty(len(out)), np.zeros(len(parts))
        for k, (stop, length) in enumerate(zip(np.cumsum(parts), parts, strict=True)):
            if length:  # states without rows have no factor
                own = gathered[stop - length : stop]
                factors[k] = targets[k] / own.sum()
                np.multiply(own, factors[k], out=counts[stop - length : stop])
        if not self._is_sorted:
            out[self.place] = counts
        return np.full(len(sizes), factors[0]) if self.whole else factors

    def sample_by_sample(self, values: Floats, factors: Floats) -> Floats:
        """Return values of ``rows`` as in ``place``, times the factor of each sample."""
        return (values if self._is_sorted else values[self.place]) * np.repeat(factors, self._lengths)

    @property
    def is_in_place(self) -> bool:
        """Whether draws are in the order of ``rows``, one for each, so that counts may be drawn in place."""
        return self._is_sorted and self.starts is None

    def _few_spread_more(self) -> Floats | None:
        """Return the shape of the gamma law of each multiplicity; None where all are exponential."""
        ends = np.cumsum(self.strata)
        strata = zip(ends - self.strata, ends, strict=True)
        sizes = np.array([self.unit_counts[low:high].sum() for low, high in strata])
        few = (sizes > 1) & (sizes <= SMALL)
        if not few.any() and are_once(self.unit_counts):
            return None
        shape = np.where(few, np.maximum((sizes - 2.0) / np.maximum(sizes, 1.0), LEAST_SHAPE), 1.0)
        return np.asarray(np.repeat(shape, self.strata) * self.unit_counts)

    def _exponential(self, rng: np.random.Generator, out: Floats) -> None:
        if self._shapes is not None:
            # A row with a count c has the sum of c multiplicities.
            rng.standard_gamma(self._shapes, out=out)
        else:
            rng.standard_exponential(out=out)

    def _multinomial(self, rng: np.random.Generator, out: Floats) -> None:
        ends = np.cumsum(self.strata)
        for low, high in zip(ends - self.strata, ends, strict=True):
            if low == high:  # a state that was not sampled
                continue
            c = self.unit_counts[low:high]
            if (c == 1.0).all():
                _drawn_with_replacement(rng, out[low:high])
            else:
                n = max(round(c.sum()), 1)
                out[low:high] = rng.multinomial(n - (1 < n <= SMALL), c / c.sum())


def _drawn_with_replacement(rng: np.random.Generator, out: Floats) -> None:
    """Draw len(out) units with replacement and write how often each was drawn, in blocks that fit the cache."""
    n = len(out)
    starts = np.arange(0, n, BLOCK)
    lengths = np.minimum(BLOCK, n - starts)
    for low, length, drawn in zip(starts, lengths, rng.multinomial(n - (1 < n <= SMALL), lengths / n), strict=True):
        out[low : low + length] = np.bincount(rng.integers(length, size=drawn), minlength=length)


def make_plan(held: Any, groups: Integers | None, *, of_rows: bool, functions: Any = None) -> Plan:
    """Return the plan of a bootstrap: draws of distinct rows' counts where these are enough, of rows otherwise."""
    rows, given, parts = held.rows, held.dependence, None
    finite = bool((given.remaining < 1.0).any())
    if (
        held.collapsed and not of_rows and groups is None and not given.in_units
    ):  # counts of distinct rows are drawn directly
        return Plan(rows, rows.source, rows.counts, None, None, None, rows.source if finite else None, given.remaining)
    cells = held.source if finite else None
    if given.strata is not None:
        cells = given.strata
    if groups is None and given.in_units:
        effective = effective_rows(held, functions) if given.order is not None else None
        groups, parts = held.tangent.measure.strata.drawn(effective)
    return Plan(rows, held.source, held.counts, rows.inverse, groups, parts, cells, given.remaining)


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
    labels = held.kept.of(labels)
    try:
        codes, values = coded(labels)
    except TypeError as error:
        raise no_labels(repr(groups) if isinstance(groups, str) else "groups") from error
    if missing := [j for j, value in enumerate(values) if is_missing(value)]:
        raise missing_groups(int(np.isin(codes, missing).sum()))
    source, firsts = held.source, _firsts(codes, len(values))
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
    if not held.in_memory:
        raise needs_rows(what)
