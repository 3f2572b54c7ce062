"""The distribution of an expression over the population, or over the pool, queried from an engine on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import narwhals as nw
import numpy as np

from vardi._inputs.engine.aggregates import LENGTH, Aggregate
from vardi._inputs.engine.asking import answering, collected
from vardi._inputs.engine.part import PREFIX, Change, Part, with_columns
from vardi._inputs.engine.queries import aggregated, stacked, with_interval
from vardi._machine.memory import require_memory
from vardi._rows.engine.functions import EngineFunction, zero_elsewhere
from vardi._rows.engine.moments import EngineMoments
from vardi._rows.engine.units import sums_over_units
from vardi._types import Floats, Integers
from vardi.biases._expressions.targets import literal
from vardi.errors import EngineError, TooLargeError

MOST_STEPS = 100_000  # distinct values brought into memory at most
FEW_POINTS = 40  # points of a band for only some samples: each pair of points takes its own sum
ROUNDING = 1e-12  # of a probability
EDGE = 1e-9  # the same, for the ends of a band
PLACE = f"{PREFIX}place"
POINTS = 32  # at which a query counts, for each quantile sought
BIN, VALUE, MASS = f"{PREFIX}bin", f"{PREFIX}value", f"{PREFIX}mass"


class Steps(NamedTuple):
    """Where a distribution function rises: distinct values in their order, and its height at each."""

    x: Floats
    heights: Floats


class Solver(Protocol):
    """J at the solution."""

    def solve(self, a: Floats) -> Floats:
        """Return J^{-1} a."""


class EngineDistribution:
    """The weighted distribution function of an expression, F(t) = sum_i pi_i 1{x_i <= t}.

    Parameters
    ----------
    at : EngineMoments
        The rows at the solution.
    function : EngineFunction
        x.
    weighted : bool
        Whether rows have their weights; if not, it is the distribution over the pool as it came.
    inside : nw.Expr, optional
        Which rows belong to the domain whose distribution it is; all by default.
    """

    def __init__(
        self, at: EngineMoments, function: EngineFunction, *, weighted: bool = True, inside: nw.Expr | None = None
    ) -> None:
        self.at, self.function, self.weighted, self.inside = at, function, weighted, inside
        self.parts: Sequence[Part] = at.parts  # what queries read: many frames joined, or the rows of a domain
        self._asked = function
        if inside is not None:
            self.parts = [part.map(lambda rows: rows.filter(inside)) for part in at.parts]
        elif not at.dependence.in_units:
            self.parts, (self._asked,) = at.together([function])

    @property
    def is_of_domain(self) -> bool:
        """Whether it is the distribution within a domain."""
        return self.inside is not None

    @cached_property
    def total(self) -> float:
        """The mass of all rows, or of those of the domain."""
        if self.inside is None:
            return self.at.n
        return float(np.nansum([part.sums([self._mass(part)], self.at.point) for part in self.parts]))

    def __str__(self) -> str:
        smallest, largest = self.ends
        return f"steps from {smallest:.4g} to {largest:.4g}"

    def below(self, points: Floats) -> list[EngineFunction]:
        """Return whether x is at most each point: functions whose means are F there.

        For a domain they are zero on other rows, and the last function is the indicator of the domain.
        """
        below = [self._below(float(t)) for t in points]
        if self.inside is None:
            return below
        inside = EngineFunction(lambda part: zero_elsewhere(self.inside, nw.lit(1.0)))
        return [*(one.times(inside) for one in below), inside]

    def at_points(self, points: Floats) -> Floats:
        """Return F at increasing points, with one query for each part."""
        return np.minimum(np.cumsum(self.masses(points)[:-1]), 1.0)

    def masses(self, edges: Floats) -> Floats:
        """Return the shares of the whole in (.., e_0], (e_0, e_1], ..., beyond the last edge."""
        return masses_between(self.parts, self._asked, self._mass, edges, self.at.point) / self.total

    def range(self, low: float = -np.inf, high: float = np.inf) -> tuple[float, float]:
        """Return the smallest and the largest value in (low, high]."""
        found = [part.ask(partial(_ends, self._asked(part), low, high)).row(0) for part in self.parts]
        ends = [end for end in found if end[0] is not None and end[0] == end[0]]  # pandas gives NaN if none is inside
        return min(float(end[0]) for end in ends), max(float(end[1]) for end in ends)

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return self.range()

    def before(self, value: float) -> float:
        """Return the largest value below the given one."""
        return self.range(-np.inf, float(np.nextafter(value, -np.inf)))[1]

    def before_last(self, value: float) -> float:
        """Return the value, or the one before it if it is the largest, where F is 1 and has no error."""
        smallest, largest = self.ends
        return value if value < largest or smallest == largest else self.before(largest)

    def inverse(self, q: float) -> float:
        """Return the smallest x with F(x) >= q."""
        return float(self.inverses(np.array([q]))[0])

    def inverses(self, q: Floats) -> Floats:
        """Return the smallest x with F(x) >= q, for several q at once."""
        steps: Steps | None = self.__dict__.get("steps")  # there if a band has asked for them
        if steps is not None:
            return steps.x[np.minimum(np.searchsorted(steps.heights, q - ROUNDING), len(steps.x) - 1)]
        return first_reaching(self.parts, self._asked, self._mass, (q - ROUNDING) * self.total, self.at.point)

    @cached_property
    def steps(self) -> Steps | None:
        """Distinct values and heights, with one query for each part; None if there are too many to hold."""
        values, masses = [], []
        for part in self.parts:
            found = part.ask(partial(self._grouped, part))
            if len(found) > MOST_STEPS:
                return None
            values.append(found.get_column(VALUE).to_numpy().astype(np.float64))
            masses.append(found.get_column(MASS).to_numpy().astype(np.float64))
        x, place = np.unique(np.concatenate(values), return_inverse=True)
        if len(x) > MOST_STEPS:
            return None
        return Steps(x, np.minimum(np.cumsum(np.bincount(place, np.concatenate(masses))) / self.total, 1.0))

    @property
    def x(self) -> Floats:
        """The values at which F steps, in order."""
        return self._held.x

    @property
    def heights(self) -> Floats:
        """F at the values x."""
        return self._held.heights

    @property
    def _held(self) -> Steps:
        if self.steps is None:
            raise TooLargeError(
                f"There are more than {MOST_STEPS:,} distinct values, so they stay in their engine. Ask for quantiles, "
                "for F at some points, or for the band, which do not need them in memory.",
                bytes=16 * MOST_STEPS,
            )
        return self.steps

    def grid(self, most: int, tail: float) -> Steps:
        """Return values that are evenly spaced among the distinct ones with F from ``tail`` to 1 - ``tail``."""
        steps = self.steps
        most = min(most, FEW_POINTS) if self.at.recorded_by else most
        if steps is None:
            x = self._among_many(most, tail)
            return Steps(x, self.at_points(x))
        edge = tail - EDGE  # a step may hit it up to rounding
        inner = np.flatnonzero((steps.heights >= edge) & (steps.heights <= 1.0 - edge))
        inner = inner if len(inner) else np.arange(len(steps.x))
        chosen = inner[_evenly(len(inner), most)]
        return Steps(steps.x[chosen], steps.heights[chosen])

    def cells(self, most: int) -> tuple[Floats, Floats]:
        """Return the smallest and the largest value of cells of about equal mass; few values are a cell each."""
        targets = np.linspace(0.0, 1.0, most + 1)[1:] * (1.0 - ROUNDING)
        steps = self.steps
        if steps is not None:
            few = len(steps.x) <= most
            last = np.arange(len(steps.x)) if few else np.unique(np.searchsorted(steps.heights, targets))
            last = np.minimum(last, len(steps.x) - 1)
            return steps.x[np.concatenate([[0], last[:-1] + 1])], steps.x[last]
        high = np.unique(self.inverses(targets + ROUNDING))
        return np.array([self.ends[0], *(self.range(low=float(one))[0] for one in high[:-1])]), high

    def covariance(self, grid: Floats, value: Floats, tangent: Any) -> Floats:
        r"""Return the covariance of F at points.

        With :math:`y_i = (1/S_i, x_i, t_{i s_i})` an influence value is :math:`1\{x_i \le t\}/S_i + y_i'\beta(t)`. So
        only sums of y and of its products, by sample and by interval of the grid, are needed, with one query for
        each part.

        Parameters
        ----------
        grid, value : ndarray of shape (g,)
            The points, increasing, and F there.
        tangent : Tangent
            Its ``jacobian`` solves J b = a for a of shape (d, g).
        """
        if self.at.recorded_by:
            return self._covariance_among(grid, value, tangent)
        y = _Rows(self.at, self.inside, self.at.n / self.total)
        sums, squares = y.asked(self, grid)
        at, n = self.at, self.at.n
        below = np.cumsum(squares[:, :-1, 0, :], axis=1)  # sum_i c_i y_i / S_i over the rows up to each point
        everywhere = squares[:, :, 0, :].sum(axis=1)
        jacobian: Solver = tangent.jacobian
        b = jacobian.solve(y.coordinates(below.sum(axis=0) - value[:, None] * everywhere.sum(axis=0)))
        beta, beyond = y.slopes(b, value), b[at.coordinates.epsilon]
        V = beyond.T @ beyond / n**2  # the part of known values with an error
        if at.dependence.in_units:
            return V + y.over_units(self, grid, beta, b)
        remaining = at.dependence.remaining
        first = np.minimum.outer(np.arange(len(grid)), np.arange(len(grid)))
        for k in np.flatnonzero(at.sizes > 0):
            size, inside = at.sizes[k], below[k]
            mixed = inside @ beta
            P = inside[:, 0][first] + mixed + mixed.T + beta.T @ squares[k].sum(axis=0) @ beta
            T = np.cumsum(sums[k, :-1, 0]) + sums[k].sum(axis=0) @ beta
            if size < 2:  # a single row: its deviation is from the mean under the fitted law
                V += (P - np.outer(T, b[k]) - np.outer(b[k], T) + size * np.outer(b[k], b[k])) * remaining[k] / n**2
            else:
                V += (P - np.outer(T, T) / size) * (remaining[k] * size / (size - 1.0) / n**2)
        return V

    def _covariance_among(self, grid: Floats, value: Floats, tangent: Any) -> Floats:
        """Return the covariance of F at points from its influence values, for only some samples."""
        eta, influence = tangent.influence(self.below(grid))
        if self.inside is not None:
            influence = influence @ (np.vstack([np.eye(len(grid)), -value]) / eta[-1])
        return np.asarray(influence.covariance())

    def by_bin(self, part: Part, edges: Floats, terms: Mapping[str, nw.Expr]) -> tuple[Integers, Integers, Floats]:
        """Return sums by the interval of edges that x is in and by sample: interval, sample and sums of each group."""
        columns = dict(terms)
        if self.inside is not None:  # rows of other domains go beyond the last edge
            columns[BIN] = nw.when(self.inside).then(nw.col(BIN)).otherwise(nw.lit(len(edges), nw.Int32))

        def placed(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
            return with_interval(self.at.point(frame), BIN, self._asked(part), edges).with_columns(**columns)

        found = part.groups({name: Aggregate(name) for name in terms}, placed, key=BIN)
        return found.numbers(BIN).astype(np.int64), found.source, found.matrix(list(terms))

    def _mass(self, part: Part) -> nw.Expr:
        return part.times_count(self.at.point.weight) if self.weighted else part.count

    def _below(self, t: float) -> EngineFunction:
        return self.function.map(lambda x: (x <= literal(t)).cast(nw.Float64))

    def _among_many(self, most: int, tail: float) -> Floats:
        """Return the grid if the distinct values stay in the engine: they are numbered there."""
        low, beyond = self.inverses(np.array([tail, 1.0 - tail + 2 * ROUNDING])).tolist()
        try:
            return self._numbered(low, self.before(beyond), most)
        except EngineError:  # frames that no query can combine: then evenly by probability
            return np.unique(self.inverses(np.linspace(tail, 1.0 - tail, most)))

    def _numbered(self, low: float, high: float, most: int) -> Floats:
        """Return distinct values at evenly spaced places among those from low to high."""
        with answering():
            frames = [part.rows_as_asked.select(self._asked(part).alias(VALUE)) for part in self.parts]
            frame = frames[0] if len(frames) == 1 else stacked(frames)
            inside = frame.filter((nw.col(VALUE) >= literal(low)) & (nw.col(VALUE) <= literal(high))).unique()
            places = _evenly(int(collected(aggregated(inside, (), {"n": LENGTH})).item()), most).tolist()
            ranked = inside.with_row_index(PLACE, order_by=VALUE)
            chosen = collected(ranked.filter(nw.col(PLACE).is_in(places)).select(VALUE))
        return np.sort(chosen.get_column(VALUE).to_numpy().astype(np.float64))

    def _grouped(self, part: Part, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        columns = self.at.point(frame).with_columns(**{VALUE: self._asked(part), MASS: self._mass(part)})
        return aggregated(columns, [VALUE], {MASS: Aggregate(MASS)}, MOST_STEPS + 1)


class _Rows:
    """The columns y of the rows: 1 / S, then x, then the gradients of their own biases.

    For a domain the first is its indicator over S and over its share, and 1 / S itself is the last.
    """

    def __init__(self, at: EngineMoments, inside: nw.Expr | None, scale: float) -> None:
        self.at, self.active, self.inside, self.scale = at, at.point.active, inside, scale
        theta = at.coordinates.theta
        self.owned: Integers = np.arange(theta.start, theta.stop)
        self.m = 1 + len(self.active) + len(self.owned) + (inside is not None)
        self.plain = 0 if inside is None else self.m - 1  # the place of 1 / S

    def asked(self, x: EngineDistribution, grid: Floats) -> tuple[Floats, Floats]:
        """Return sums of y, and of its products, by sample and by interval: (K, bins, m) and (K, bins, m, m)."""
        K, bins = self.at.coordinates.samples, len(grid) + 1
        sums, squares = np.zeros((K, bins, self.m)), np.zeros((K, bins, self.m, self.m))
        upper = [(i, j) for i in range(self.m) for j in range(i, self.m)]
        for part in self.at.parts if self.inside is not None else x.parts:
            y = self._columns(part)
            used = [place for place in upper if place[0] in y and place[1] in y]
            terms = {f"{PREFIX}t_{i}": part.times_count(y[i]) for i in y}
            terms |= {f"{PREFIX}q_{i}_{j}": part.times_count(y[i] * y[j]) for i, j in used}
            place, code, found = x.by_bin(part, grid, terms)
            sums[code[:, None], place[:, None], list(y)] += found[:, : len(y)]  # no two groups have the same place
            squares[code[:, None], place[:, None], *np.transpose(used)] += found[:, len(y) :]
        return sums, squares + np.swapaxes(np.triu(squares, 1), -1, -2)

    def over_units(self, x: EngineDistribution, grid: Floats, beta: Floats, b: Floats) -> Floats:
        """Return the covariance if rows depend on one another, from sums over units and intervals."""
        at, names = self.at, [f"{PREFIX}y_{i}" for i in range(self.m)]
        changes = []
        for part in at.parts:
            y, nothing = self._columns(part), nw.lit(0.0)
            columns = {name: y.get(i, nothing) for i, name in enumerate(names)}
            changes.append(partial(_placed, x.function(part), grid, columns))
        found = sums_over_units(at, changes, names, BIN)
        entries = len(found.units.rows)
        require_memory(24 * entries * len(grid), f"A band of {entries:,} units", "Ask for F at some points.")
        sums = found.totals @ beta
        below = np.zeros((entries, len(grid) + 1))
        np.add.at(below, (found.entry, np.array(found.key, np.int64)), found.sums[:, 0])
        sums += np.cumsum(below, axis=1)[:, :-1]
        single = (at.sizes < 2)[found.units.sample]
        sums[single] -= (b[: len(at.sizes)][found.units.sample] * found.units.rows[:, None])[single]
        return found.units.spread(sums, at.n).covariance

    def coordinates(self, over: Floats) -> Floats:
        """Return a in all coordinates, from sums of y / S at each point, of shape (points, m)."""
        at = self.at
        a = np.zeros((len(at.coordinates), len(over)))
        a[self.active] = over[:, 1 : 1 + len(self.active)].T
        a[at.coordinates.epsilon] = np.outer(at.point.weight_of_epsilon, over[:, self.plain])
        return a

    def slopes(self, b: Floats, value: Floats) -> Floats:
        """Return beta(t), of shape (m, points)."""
        at = self.at
        slopes = np.zeros((self.m, len(value)))
        slopes[: 1 + len(self.active) + len(self.owned)] = np.vstack([-value, b[self.active], -b[self.owned]])
        slopes[self.plain] += at.point.weight_of_epsilon @ b[at.coordinates.epsilon]
        return slopes

    def _columns(self, part: Part) -> dict[int, nw.Expr]:
        """Return y by place, without the gradients of biases with which no row of the part was drawn."""
        point = self.at.point
        y = {0: zero_elsewhere(self.inside, point.weight * self.scale if self.inside is not None else point.weight)}
        y |= {self.plain: point.weight} | {1 + i: point.x(int(c)) for i, c in enumerate(self.active)}
        first = 1 + len(self.active)
        for k, place in self.at.model.places.items():
            for j, t in zip(range(place.start, place.stop), point.gradient(k), strict=True):
                mine = part.only(k, t)
                if mine is not None:
                    y[first + j] = mine
        return y


def _evenly(count: int, most: int) -> Integers:
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))


def _placed(x: nw.Expr, grid: Floats, columns: dict[str, nw.Expr], frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    return with_interval(frame, BIN, x, grid).with_columns(**columns)


def _ends(x: nw.Expr, low: float, high: float, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Query the smallest and the largest value in (low, high]."""
    inside = frame.select(x.alias(VALUE))
    if np.isfinite(low):
        inside = inside.filter(nw.col(VALUE) > literal(low))
    if np.isfinite(high):
        inside = inside.filter(nw.col(VALUE) <= literal(high))
    return aggregated(inside, (), {"a": Aggregate(VALUE, "min"), "b": Aggregate(VALUE, "max")})


def first_reaching(
    parts: Sequence[Part],
    value: Callable[[Part], nw.Expr],
    mass: Callable[[Part], nw.Expr],
    targets: Floats,
    change: Change | None = None,
) -> Floats:
    """Return for each target the smallest value up to which the rows have that mass, or else the largest value.

    All targets are sought at once: in each round one query sums the mass between points of all brackets, and another
    finds the ends of the brackets that are left.
    """
    low, high = np.full(len(targets), -np.inf), np.full(len(targets), np.inf)
    smallest, largest = _bracket(parts, value, low[:1], high[:1], change)
    found = np.full(len(targets), largest[0])
    smallest, largest = np.repeat(smallest, len(targets)), np.repeat(largest, len(targets))
    open_ = np.flatnonzero(smallest < largest)
    while len(open_):
        points = np.unique(np.concatenate([np.linspace(smallest[j], largest[j], POINTS) for j in open_]))
        below = np.cumsum(masses_between(parts, value, mass, points, change)[:-1])
        place = np.searchsorted(below, targets[open_])
        beyond = place >= len(points)
        found[open_[beyond]] = largest[open_[beyond]]
        open_, place = open_[~beyond], place[~beyond]
        low[open_] = np.where(place > 0, points[np.maximum(place - 1, 0)], -np.inf)
        high[open_] = points[place]
        smallest[open_], largest[open_] = _bracket(parts, value, low[open_], high[open_], change)
        closed = smallest[open_] == largest[open_]
        found[open_[closed]] = smallest[open_[closed]]
        open_ = open_[~closed]
    return found


def masses_between(
    parts: Sequence[Part],
    value: Callable[[Part], nw.Expr],
    mass: Callable[[Part], nw.Expr],
    edges: Floats,
    change: Change | None = None,
) -> Floats:
    """Return the mass of rows in (.., e_0], (e_0, e_1], ..., beyond the last of increasing edges."""
    found = np.zeros(len(edges) + 1)
    for part in parts:
        answer = part.ask(partial(_summed, change, value(part), mass(part), edges))
        places = answer.get_column(BIN).to_numpy().astype(np.int64)
        np.add.at(found, places, answer.get_column(MASS).to_numpy().astype(np.float64))
    return found


def _summed(
    change: Change | None, x: nw.Expr, mass: nw.Expr, edges: Floats, frame: nw.LazyFrame[Any]
) -> nw.LazyFrame[Any]:
    changed = frame if change is None else change(frame)
    return aggregated(
        with_interval(changed, BIN, x, edges).with_columns(**{MASS: mass}), [BIN], {MASS: Aggregate(MASS)}
    )


def _bracket(
    parts: Sequence[Part],
    value: Callable[[Part], nw.Expr],
    low: Floats,
    high: Floats,
    change: Change | None,
) -> tuple[Floats, Floats]:
    """Return the smallest and the largest value in each bracket (low, high], which holds at least one."""
    smallest, largest = np.full(len(low), np.inf), np.full(len(low), -np.inf)
    x = nw.col(VALUE)
    asked: dict[str, Aggregate] = {}
    for j, (a, b) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        inside = x
        if np.isfinite(a) or np.isfinite(b):
            above, below = x > literal(a), x <= literal(b)
            is_in = below if not np.isfinite(a) else above if not np.isfinite(b) else above & below
            inside = nw.when(is_in).then(x)
        asked |= {f"a_{j}": Aggregate(inside, "min"), f"b_{j}": Aggregate(inside, "max")}
    for part in parts:
        row = part.aggregates(asked, change, with_columns({VALUE: value(part)}))
        for j in range(len(low)):
            if row[f"a_{j}"] is not None and row[f"a_{j}"] == row[f"a_{j}"]:  # pandas gives NaN if none is inside
                smallest[j] = min(smallest[j], row[f"a_{j}"])
                largest[j] = max(largest[j], row[f"b_{j}"])
    return smallest, largest
