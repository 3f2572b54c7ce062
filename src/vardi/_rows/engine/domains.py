"""Means within domains of the rows of an engine: two queries grouped by domain, whatever the number of domains."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from itertools import product
from operator import and_
from typing import Any

import narwhals as nw
import numpy as np

from vardi._inputs.domains import (
    MOST_DOMAINS,
    By,
    in_domains,
    ordered,
    require_column,
    require_few,
    require_labelled,
)
from vardi._inputs.engine.aggregates import Aggregate
from vardi._inputs.engine.part import PREFIX, Change, Part, with_columns
from vardi._inputs.engine.queries import aggregated
from vardi._rows.domains import DomainSums
from vardi._rows.engine.functions import EngineFunction, zero_elsewhere
from vardi._rows.engine.moments import EngineMoments, is_endless
from vardi._types import Floats, Integers
from vardi.biases._expressions.targets import NarwhalsTarget, literal
from vardi.biases._values import is_missing
from vardi.errors._refusals import needs_rows, not_finite

AT_ONCE = 50  # domains whose deviations are columns of one query
VALUE, MASS = f"{PREFIX}value", f"{PREFIX}mass"

#: The domain of rows: its value in each column.
Key = tuple[Any, ...]


class EngineDomains:
    """Domains of the rows of an engine, and a function of the rows.

    Parameters
    ----------
    at : EngineMoments
        The rows at the solution.
    function : EngineFunction
        y.
    keys : sequence of tuple
        The value of each domain in each column.
    by : By
        The columns.
    base : ndarray of int of shape (G,)
        The place of the base of each domain.
    of_base : int
        How many of the columns, the first ones, distinguish bases.
    """

    at_once = AT_ONCE

    def __init__(
        self, at: EngineMoments, function: EngineFunction, keys: Sequence[Key], by: By, base: Integers, of_base: int
    ) -> None:
        self.at, self.function, self.by, self.base, self.of_base = at, function, by, base, of_base
        self.keys = keys

    @cached_property
    def sums(self) -> DomainSums:
        """The sums behind means and their distributions, with one query for each part."""
        names = ("rows", "mass", "total", "squares", "events", "event_squares", "strays")
        found = {name: np.zeros(len(self.keys)) for name in (*names, "largest", "endless")}
        low, high = np.full(len(self.keys), np.inf), np.full(len(self.keys), -np.inf)
        for part in self.at.parts:
            y, r = nw.col(VALUE), self.at.point.weight
            asked = {
                "rows": part.rows,
                "mass": Aggregate(part.times_count(r)),
                "total": Aggregate(part.times_count(r * y)),
                "squares": Aggregate(part.times_count(r * r)),
                "events": Aggregate(part.times_count((y != 0.0).cast(nw.Float64))),
                "event_squares": Aggregate(part.times_count((y != 0.0).cast(nw.Float64) * r * r)),
                "strays": Aggregate((y * (1.0 - y)).abs()),
                "endless": Aggregate(is_endless(y)),
                "largest": Aggregate(r, "max"),
                "low": Aggregate(VALUE, "min"),
                "high": Aggregate(VALUE, "max"),
            }
            for j, row in self._asked(part, asked, self._value(part)):
                for name in (*names, "endless"):
                    found[name][j] += row[name]
                found["largest"][j] = max(found["largest"][j], row["largest"])
                low[j], high[j] = min(low[j], row["low"]), max(high[j], row["high"])
        endless = found.pop("endless")
        if self.function.name is not None and endless.any():
            raise in_domains(not_finite(int(endless.sum()), self.function.name), self.by, self.keys, endless)
        return DomainSums(**found, low=low, high=high, base=self.base)

    def functions(self, places: Integers) -> list[EngineFunction]:
        """Return h of the given domains."""
        return [self._function(int(j)) for j in places]

    def event(self, j: int) -> EngineFunction:
        """Return where y is not 0 in a domain, for a y that is 0 or 1."""
        return EngineFunction(lambda part: zero_elsewhere(is_in(self.by.columns, self.keys[j]), self.function(part)))

    def inside(self, j: int) -> EngineFunction:
        """Return the rows of the base of a domain."""
        columns = self.by.columns[: self.of_base]
        return EngineFunction(lambda part: zero_elsewhere(is_in(columns, self.keys[j]), nw.lit(1.0)))

    def against(self, places: Integers, functions: Sequence[EngineFunction]) -> Floats:
        """Return sum_i c_i r_i h_i x_i, of shape (d, m)."""
        return self._products[0][:, places]

    def naive(self, places: Integers, functions: Sequence[EngineFunction]) -> Floats:
        """Return sum_i c_i (r_i h_i)^2: n^2 times the variance if the weights were known."""
        return self._products[1][places]

    @cached_property
    def _products(self) -> tuple[Floats, Floats]:
        """Sums of h against x, and of its square, one query for each part, for y minus its mean over all domains."""
        found, at = self.sums, self.at
        centre = float(found.total.sum() / found.mass.sum())
        x = [at.point.x(i) for i in at.point.active.tolist()]
        x += [at.point.weight] if at.coordinates.uncertain else []
        plain, with_y = (np.zeros((len(self.keys), 1 + len(x))) for _ in range(2))
        squares = np.zeros((len(self.keys), 2))
        for part in at.parts:
            y, m = nw.col(VALUE), nw.col(MASS)
            columns = with_columns({MASS: part.times_count(at.point.weight)})
            terms = {"m": m, **{f"m_{i}": m * one for i, one in enumerate(x)}}
            asked = terms | {f"y{name}": term * y for name, term in terms.items()}
            asked |= {"first": m * at.point.weight * y, "second": m * at.point.weight * y * y}
            summed = {name: Aggregate(term) for name, term in asked.items()}
            for j, row in self._asked(part, summed, self._value(part, centre), columns):
                plain[j] += [row[name] for name in terms]
                with_y[j] += [row[f"y{name}"] for name in terms]
                squares[j] += [row["first"], row["second"]]
        mean, scale = found.mean[:, None], at.n / found.base_mass
        h = (with_y + centre * plain - mean * found.of_base(plain)) * scale[:, None]
        own = np.bincount(self.base)[self.base] == 1  # there y minus its centre keeps digits that y itself loses
        h[own] = (with_y - (mean - centre) * plain)[own] * scale[own, None]
        return at.placed(h.T.ravel()), self._squares(squares, centre) * scale**2

    def _squares(self, sums: Floats, centre: float) -> Floats:
        """Return sum_i c_i r_i^2 (y 1_j - mu_j 1_B)^2, from sums of r^2 (y - centre) and of its product with itself."""
        found, mu = self.sums, self.sums.mean
        of_y = sums[:, 1] + 2.0 * (centre - mu) * sums[:, 0] + (centre - mu) ** 2 * found.squares
        return np.maximum(of_y + mu**2 * (found.of_base(found.squares) - found.squares), 0.0)

    def _asked(
        self, part: Part, asked: Mapping[str, Aggregate], *changes: Change | None
    ) -> list[tuple[int, dict[str, Any]]]:
        """Query aggregates by domain: the place of each, and its numbers."""
        found = _by_domain(part, self.by.columns, asked, self.at.point, *changes)
        return [(self._place[key], row) for key, row in found if key in self._place]

    @cached_property
    def _place(self) -> dict[Key, int]:
        return {key: j for j, key in enumerate(self.keys)}

    def _value(self, part: Part, centre: float = 0.0) -> Change | None:
        y = self.function(part)
        return with_columns({VALUE: y - centre if centre else y})

    def _function(self, j: int) -> EngineFunction:
        mu, scale = float(self.sums.mean[j]), float(self.at.n / self.sums.base_mass[j])
        key, columns = self.keys[j], self.by.columns

        def h(part: Part) -> nw.Expr:
            event = zero_elsewhere(is_in(columns, key), self.function(part))
            inside = zero_elsewhere(is_in(columns[: self.of_base], key), nw.lit(mu))
            return (event - inside) * scale

        return EngineFunction(h)


def domains_of(parts: Sequence[Part], by: By, mixed: Mapping[str, str], *, whole: bool) -> tuple[Key, ...]:
    """Return the domains of the rows, in their order, with one query for each part.

    Parameters
    ----------
    parts : sequence of Part
        The frames.
    by : By
        The columns.
    mixed : mapping
        Columns whose kind differs between frames, with a text that lists the kinds.
    whole : bool
        Whether every combination of values is a domain, not only those that occur.
    """
    if by.labels is not None:
        raise needs_rows("An answer by labels that are not a column")
    schemas = [part.schema for part in parts]
    for name in by.columns:
        require_column(name, schemas, mixed)
    asked = [one for part in parts for one in _by_domain(part, by.columns, {"rows": part.rows})]
    for place, name in enumerate(by.columns):
        require_labelled(name, sum(row["rows"] for key, row in asked if is_missing(key[place])))
    found, values = list(dict.fromkeys(key for key, row in asked if row["rows"])), []
    for place, name in enumerate(by.columns):
        kind = schemas[0][name]
        categories = list(kind.categories) if isinstance(kind, nw.Enum) else None
        values.append(ordered(dict.fromkeys(key[place] for key in found), categories))
    require_few(by, math.prod(map(len, values)) if whole else len(found))
    if whole:
        return tuple(product(*values))
    rank = [{value: j for j, value in enumerate(own)} for own in values]
    return tuple(sorted(found, key=lambda key: [own[value] for own, value in zip(rank, key, strict=True)]))


def missing_by_domain(parts: Sequence[Part], by: By, keys: Sequence[Key], columns: Sequence[str]) -> Floats:
    """Return how many values of the given columns are missing in each domain."""
    found = dict.fromkeys(keys, 0.0)
    for part in parts:
        asked = {
            name: Aggregate(NarwhalsTarget(part.schema).is_missing(name).cast(nw.Int64))
            for name in columns
            if name in part.schema
        }
        for key, row in _by_domain(part, by.columns, asked) if asked else []:
            found[key] = found.get(key, 0.0) + sum(row.values())
    return np.array([found[key] for key in keys])


def is_in(columns: Sequence[str], key: Key) -> nw.Expr | None:
    """Return the condition that rows have given values in columns, as an expression; None for all rows."""
    tests = [
        nw.col(name) == (literal(value) if isinstance(value, float) else value)
        for name, value in zip(columns, key, strict=False)
    ]
    return reduce(and_, tests) if tests else None


def _by_domain(
    part: Part, columns: Sequence[str], asked: Mapping[str, Aggregate], *changes: Change | None
) -> list[tuple[Key, dict[str, Any]]]:
    """Query aggregates by domain, for at most one domain more than allowed."""
    named = {f"{PREFIX}{name}": one for name, one in asked.items()}

    def query(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        for change in changes:
            frame = frame if change is None else change(frame)
        return aggregated(frame, columns, named, MOST_DOMAINS + 1)

    rows = part.ask(query).rows(named=True)
    return [
        (tuple(row[name] for name in columns), {name: _number(row[f"{PREFIX}{name}"]) for name in asked})
        for row in rows
    ]


def _number(value: Any) -> float:
    """Return an engine's answer as a number; NaN for the sum of only nulls."""
    return math.nan if value is None else float(value)
