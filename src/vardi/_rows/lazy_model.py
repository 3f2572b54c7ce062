"""A pool of lazy frames as rows to solve: in memory if it has few distinct rows, otherwise in its engine.

A small part of the rows is drawn by their values: the same in every engine, and it shows how many are distinct.
Parameters multiply features that are columns of frames. Rows that stay in place are asked only for sums, by one query
for each part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from vardi._inputs.engines import LazyFrame, schema_of
from vardi._inputs.lazy_part import OMEGA, Change, DistinctRows, Part, distinct_rows, where, with_columns
from vardi._inputs.lazy_pool import most_cells
from vardi._rows.base import additions
from vardi._rows.contract import Block, Coordinates, JointSums, Sums
from vardi._rows.dense import Dense
from vardi._rows.families import BiasFamily, OfColumns, is_of_indicators, mean_and_deviation, model_on
from vardi._rows.gram import DenseGram
from vardi._rows.likelihood import Joint, JointRows, likelihood
from vardi._rows.point import KnownMoments, Model, Point
from vardi._rows.queries import Queries, united
from vardi._rows.weights import masses_of_pairs
from vardi._types import Floats
from vardi.biases import ParametricBias
from vardi.biases import _nodes as nodes
from vardi.biases._compile import NarwhalsTarget, compile_node, literal

if TYPE_CHECKING:
    from vardi._inputs.lazy_pool import LazyPool

ROWS = 200_000  # of all samples together, in a small part of them
GRAMS = 100  # products of p up to which an engine sums them with every pass
STANDARD = "__vardi_z_{}"


def model_of(pool: LazyPool, frames: Queries, known: KnownMoments) -> tuple[Queries, Model]:
    """Return the frames and their model; features, if any, are scaled to mean 0 and deviation 1, by one query each."""
    features = pool.declared.features
    names = [name for columns in features.values() for name in columns]
    mean, deviation = _spread(pool, names)
    families: dict[int, BiasFamily] = {}
    for k, columns in features.items():
        bias, place = pool.biases[k], [names.index(name) for name in columns]
        assert isinstance(bias, ParametricBias)
        if is_of_indicators(bias):
            mean[place], deviation[place] = 0.0, 1.0
        z = tuple(map(STANDARD.format, place))
        families[k] = model_on(bias, z, mean[place], deviation[place], str(pool.names[k]))
    standard = {
        STANDARD.format(j): (nw.col(name) - float(mean[j])) / float(deviation[j]) for j, name in enumerate(names)
    }
    parts = tuple(part.map(with_columns(standard)) for part in frames.parts)
    return frames.of(parts), Model(pool.sizes, families, known)


def _spread(pool: LazyPool, names: Sequence[str]) -> tuple[Floats, Floats]:
    """Return mean and deviation of columns over the pool; approximate ones do, since they only set theta's scale."""
    if not names:
        return np.empty(0), np.empty(0)
    places = pool.places(names)
    if (rows := pool.distinct) is not None:
        return mean_and_deviation(rows.matrix[:, places], rows.counts)
    middle = (pool.lows[places] + pool.highs[places]) / 2.0  # the centre about which squares lose the fewest digits
    total = np.zeros(2 * len(names))
    for part in pool.parts:
        off = [nw.col(name) - float(centre) for name, centre in zip(names, middle, strict=True)]
        total += part.sums([part.times_count(one) for one in (*off, *(one * one for one in off))])
    mean, squares = total.reshape(2, -1) / pool.sizes.sum()
    return mean + middle, np.sqrt(np.maximum(squares - mean**2, 0.0))


def subsample(pool: LazyPool, numbers: int = 4_000_000, first: int = 2_000) -> tuple[DistinctRows, float]:
    """Draw rows of every sample, with one query for each part; and estimate how many distinct ones there are in all.

    They hold no more numbers than that; of a sample of which none is drawn the first rows are taken.

    A row is drawn if trailing digits of its biases are below the wanted share of its sample. So the order of the rows
    does not matter; equal rows are drawn together or not at all, so distinct rows are drawn at the same rate, which
    tells their number.
    """
    columns, sampled = list(pool.declared.columns), pool.lengths > 0
    wanted = min(ROWS, numbers // len(columns)) / sampled.sum()
    shares = np.where(sampled, np.minimum(wanted / np.maximum(pool.lengths, 1.0), 1.0), 0.0)
    drawn = distinct_rows(pool.parts, columns, 2 * ROWS, partial(_drawn, pool, shares.tolist()))
    rows = DistinctRows.none(len(columns)) if drawn is None else drawn
    distinct = np.inf if drawn is None else float((1.0 / shares[drawn.source]).sum())
    absent = set(np.flatnonzero(sampled).tolist()).difference(rows.source.tolist())
    for part in pool.parts:
        for label, code in part.codes.items():
            if code in absent:
                own = None if part.label is None else where(nw.col(part.label) == label)
                rows = rows.with_rows(part.first(columns, first, own), columns)
    for part in pool.parts:
        rows = _with_ends(pool, part, rows)
    return rows, distinct


def _with_ends(pool: LazyPool, part: Part, rows: DistinctRows, few: int = 2) -> DistinctRows:
    """Add a few rows at each end of a known function that no drawn row reaches, so that it is not constant."""
    columns, drawn = list(pool.declared.columns), rows.matrix
    for j in dict.fromkeys(pool.places(pool.declared.function_columns)):
        for end, reached in ((pool.lows[j], drawn[:, j].min()), (pool.highs[j], drawn[:, j].max())):
            if end != reached:
                at_end = where(nw.col(columns[j]) == literal(float(end)))
                rows = rows.with_rows(part.first(columns, few, at_end), columns)
    return rows


def _drawn(pool: LazyPool, shares: list[float], part: Part, fine: float = 2.0**30) -> Change | None:
    """Return the filter of a part that leaves the rows whose digits are below the share of their sample.

    The digits are those of logs of values, divided into fine steps.
    """
    own = {shares[code] for code in part.codes.values()}
    if min(own) >= 1:
        return None
    spread = _mixture(pool, part).log() * fine
    digits = spread - spread.floor()  # below 1, so a share of 1 draws all

    def change(frame: LazyFrame) -> LazyFrame:
        few = frame.filter(digits < max(own))
        return few if len(own) == 1 else few.filter(digits < part.of_sample(shares))

    return change


def _mixture(pool: LazyPool, part: Part) -> nw.Expr:
    """Return a positive number for each row that depends on all that its values depend on, each on its own scale.

    A formula that reads no column besides those that are read already is left out: it is equal where they are, and need
    not be computed for rows that are not drawn.
    """
    total: nw.Expr = nw.lit(0.0)
    target, read = NarwhalsTarget(schema_of(part.frame, part.name)), set[str]()
    for j, (name, low, high) in enumerate(zip(pool.declared.columns, pool.lows, pool.highs, strict=True)):
        factor = 1.0 + np.sqrt(j + 2.0)  # no sum of biases is constant
        lowest = 0.0 if j < len(pool.names) else float(low)
        node = part.formulas.get(name, nodes.Column(name))
        if high > lowest and not read.issuperset(nodes.columns(node)):
            read.update(nodes.columns(node))
            total = total + (compile_node(node, target).value - lowest) * float(factor / (high - lowest))
    return total


def few_rows(pool: LazyPool, worthwhile: float = 4.0) -> tuple[DistinctRows, bool]:
    """Return all distinct rows of a pool, or a small part of its rows; and whether these are all of them.

    All of them are queried if that pays: if there are several rows for each distinct one.
    """
    if pool.distinct is not None:
        return pool.distinct, True
    rows, distinct = subsample(pool)
    columns = list(pool.declared.columns)
    if worthwhile * distinct <= pool.lengths.sum() and distinct <= (limit := most_cells(len(columns))):
        collapsed = distinct_rows(pool.parts, columns, limit)
        if collapsed is not None:
            return collapsed, True
    return rows, False


def in_memory(pool: LazyPool, found: DistinctRows, *, is_all: bool) -> Dense:
    """Return rows with the biases among their columns; with counts that make them stand for all if they are some."""
    rows = Dense(np.ascontiguousarray(found.matrix[:, : len(pool.names)]), found.source, found.counts)
    return rows if is_all else rows.standing_for(pool.sizes)


def joint_rows(
    pool: LazyPool, frames: Queries, model: Model, found: DistinctRows, few: Dense, *, is_all: bool
) -> Joint | EngineRows:
    """Return rows with parameters and known moments: in memory if these are all distinct rows, else in the engine.

    Parameters
    ----------
    pool, frames, model : LazyPool, Queries, Model
        The pool, its frames with features, and which coordinates they depend on.
    found, few : DistinctRows, Dense
        Some rows with all their columns, and the same with their biases, standing for all.
    is_all : bool
        Whether these are all distinct rows.
    """
    families: dict[int, BiasFamily] = {}
    for k, columns in pool.declared.features.items():
        family = model.families[k]
        assert isinstance(family, OfColumns)  # of expressions
        families[k] = family.on(found.matrix[:, pool.places(columns)])
    joint = Joint(few, families, replace(model.known, values=functions_on(pool, found)))
    if is_all:
        return joint
    if len(model.coordinates) > model.coordinates.samples:  # otherwise the rows with their biases alone are summed
        frames = frames.of(united(frames.parts))
    return EngineRows(frames, model, joint, pool.reach)


def functions_on(pool: LazyPool, rows: DistinctRows) -> Floats:
    """Return the functions with known means on some rows, of shape (n, M); for a bias its known factor."""
    return rows.matrix[:, pool.places(pool.declared.function_columns)]


@dataclass(frozen=True)
class Last:
    """The sums of n rows at the last point, and from them those at points that differ only in the gauge.

    Along (1, 0, mu) every S is multiplied by the same number, so p is the same, and no new query is needed.
    """

    v: Floats
    sums: JointSums
    n: float

    def at(self, v: Floats, coordinates: Coordinates, same: float = 1e-15) -> JointSums | None:
        """Return the sums at v; None if more than the gauge differs, up to a relative difference, that of rounding."""
        u, before, rest = v[coordinates.u], self.v[coordinates.u], slice(coordinates.samples, None)
        finite = np.isfinite(u)
        if not np.array_equal(finite, np.isfinite(before)):
            return None
        u, before = u[finite], before[finite]
        if np.ptp(u - before) > same * max(np.abs(u).max(), np.abs(before).max()):
            return None
        shift = float((u - before).mean())
        there = coordinates.rescaled(self.v, shift)
        if not np.allclose(v[rest], there[rest], rtol=1e-12, atol=0.0):
            return None
        if not shift:
            return self.sums
        factor = np.ones(len(coordinates))
        factor[coordinates.mu] = np.exp(-shift)
        square, sums = factor[:, None] * factor, self.sums
        return replace(
            sums,
            inverse=sums.inverse * float(np.exp(-shift)),
            log_mass=sums.log_mass + self.n * shift,
            x=sums.x * factor,
            products_beside=sums.products_beside * square[coordinates.samples :],
            beside=sums.beside * square[coordinates.samples :],
        )


class LazyRows:
    """Several parts as one pool, with the interface that Newton's method and the verdict need.

    Parameters
    ----------
    frames : Queries
        The frames.
    reach : ndarray of shape (K, K)
        Counts of rows of sample l (columns) that bias k (rows) could have drawn.
    few : Dense
        A small part of the rows, in memory.
    start : callable
        Returns a first u.
    """

    log = False
    reading_dominates = True
    positive = False  # as far as is known without a query
    inverse = None

    def __init__(self, frames: Queries, reach: Floats, few: Dense, start: Callable[[], Floats]) -> None:
        self.frames = frames.of(united(frames.parts))
        self.sizes, self.K = frames.sizes, len(frames.sizes)
        self.reach, self._few, self.start = reach, few, start
        self._last: Last | None = None

    def __len__(self) -> int:
        return int(self.sizes.sum())

    @property
    def additions(self) -> int:
        """How many numbers an engine adds one after the other: assumed to be as many as for rows in memory."""
        return additions(len(self), self.K)

    def exponents(self, u: Floats) -> float:
        """Return 0: biases are multiplied by e^u as they are."""
        return 0.0

    def sums(self, u: Floats, *, gram: bool = True, objective: bool = True, rough: bool = False) -> Sums:
        """Return log_mass, shares and gram at u: a pass over the rows, unless the last one was there."""
        last = self._last_at(u)
        if last is None or (gram and not last.products.size) or (objective and np.isnan(last.log_mass)):
            scale = self._last is not None  # the first point is hardly ever the last
            last = self._pass(u, gram=gram, objective=objective, scale=scale)
        return Sums(last.log_mass, last.x, DenseGram(last.products) if last.products.size else None)

    def _last_at(self, u: Floats) -> JointSums | None:
        return None if self._last is None else self._last.at(u, Coordinates(self.K))

    def _pass(self, u: Floats, *, gram: bool, objective: bool, scale: bool) -> JointSums:
        """Query each part for K sums, and K (K - 1) / 2 more if these are few or asked for; one more with a scale.

        The p of a row sum to 1, so each square follows from the products of different samples. These products are the
        links between samples: each is summed on its own, since a weak link taken as a difference would be lost in
        rounding.
        """
        gram = gram or self.frames.by_batches or self.K * (self.K - 1) // 2 <= GRAMS
        top = float(u[np.isfinite(u)].max())  # p does not depend on a shift of u, and one factor less is multiplied
        once, nothing = np.ones((self.K, 1)), np.empty((0, self.K))

        def question(block: Block) -> tuple[Floats, Floats, Floats, Floats]:
            at = block.normalised(u - top, {})
            links = block.products(at.p, block.of_sample(once)) if gram else nothing
            scales = block.sum(at.weight) if scale else nothing
            return block.sum(at.p), links, scales, block.sum(at.log_mass()) if objective else nothing

        shares, links, scales, logs = self.frames.total(question)
        if gram:
            np.fill_diagonal(links, 0.0)
            np.fill_diagonal(links, shares - links.sum(axis=1))
        log_mass = float(logs.sum() + self.sizes.sum() * top) if objective else np.nan
        inverse = float(scales.sum() * np.exp(-top)) if scale else np.nan
        sums = JointSums(inverse, log_mass, shares, links, nothing, nothing, nothing, nothing, 0.0)
        self._last = Last(u, sums, float(self.sizes.sum()))
        return sums

    def log_means(self, u: Floats) -> Floats:
        """Return log sum_i c_i omega_ik / S_i(u) for every k."""

        def question(block: Block) -> Floats:
            weight = block.normalised(u, {}).weight
            return block.sum(np.hstack([block.omega(k) * weight for k in range(self.K)]))

        with np.errstate(divide="ignore"):
            return np.log(self.frames.total(question))

    def weights(self, u: Floats) -> tuple[Floats, float]:
        """Return no weights, which stay in the engine, and the log of the scale at which they have mean 1."""
        last = self._last_at(u)
        if last is None or np.isnan(last.inverse):
            last = self._pass(u, gram=True, objective=False, scale=True)
        return np.empty(0), float(np.log(last.inverse / self.sizes.sum()))

    def overlap(self, mass: Floats) -> Floats:
        """Return the masses of the rows that both biases could have drawn, as shares of the pool."""
        once = np.ones((self.K, 1))
        return masses_of_pairs(self.frames, lambda block: block.of_sample(once)) / self.sizes.sum()

    def masses(self) -> Floats:
        """Return nothing: ``overlap`` uses shares of the pool by itself."""
        return np.empty(0)

    def settled(self, u: Floats) -> LazyRows:
        """Return the rows themselves."""
        return self

    def subsample(self, fraction: float, *, least: int) -> Any:
        """Return a small part of the rows, in memory."""
        return self._few


class EngineRows(JointRows):
    """Rows in an engine with parameters and known moments.

    Parameters
    ----------
    holder : Queries
        The frames.
    model : Model
        The families, with the names of columns, and what is known.
    few : Joint
        A small part of the rows in memory, with counts that make it stand for all: for a start.
    reach : ndarray of shape (K, K)
        Counts of rows of sample l (columns) that bias k (rows) could have drawn.
    """

    holder: Queries
    reading_dominates = True

    def __init__(self, holder: Queries, model: Model, few: Joint, reach: Floats) -> None:
        super().__init__(holder, model)
        self._few, self.reach = few, reach
        self._last: Last | None = None

    @property
    def few(self) -> Joint:
        """A small part of the rows, in memory."""
        return self._few

    def with_model(self, change: Callable[[Model], Model]) -> EngineRows:
        """Return the same rows with another model."""
        return EngineRows(self.holder, change(self.model), self.few.with_model(change), self.reach)

    def rows_at(self, theta: Floats) -> LazyRows:
        """Return the rows with all biases at theta, on the user's scale."""
        few = self.few.rows_at(theta)
        assert isinstance(few, Dense)
        return LazyRows(self.holder.of(self._parts_at(theta)), self.reach, few, few.start)

    def _parts_at(self, theta: Floats) -> tuple[Part, ...]:
        """Return frames whose biases have their parameters fixed, on the user's scale: known biases like any others."""
        if not self.families:
            return self.holder.parts
        alone = replace(self.model, known=KnownMoments.none())
        point = Point(alone, np.concatenate([np.zeros(len(self.sizes)), theta]))
        names = [OMEGA.format(k) for k in self.families]

        def biases(block: Block) -> Floats:
            return np.hstack([point.at(block).users_bias(k) for k in self.families])

        changed = [part.map(self.holder.adding(part, names, biases)) for part in self.holder.parts]
        return tuple(replace(part, formulas={}) for part in changed)

    def weights(self, v: Floats) -> tuple[Floats, float]:
        """Return no weights, which stay in the engine, and the log of the scale at which they have mean 1."""
        return np.empty(0), float(np.log(self.joint_sums(v, objective=False).inverse / self.sizes.sum()))

    def joint_sums(self, v: Floats, *, objective: bool = True) -> JointSums:
        """Return all sums at v: a query for each part, unless the last point differs only in the gauge.

        ``log_mass`` is NaN unless the objective is asked for. It leaves out the known factors of own biases, which no
        coordinate moves, as in memory.
        """
        last = None if self._last is None else self._last.at(v, self.coordinates)
        if last is not None and np.isfinite(last.log_mass) >= objective:
            return last
        with np.errstate(over="ignore", invalid="ignore"):
            sums = self.holder.total(likelihood(Point(self.model, v), objective=objective)).checked
        if sums.positive:
            self._last = Last(v.copy(), sums, float(self.sizes.sum()))
        return sums
