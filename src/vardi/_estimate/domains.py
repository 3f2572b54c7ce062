"""Means, shares and totals of domains: a mapping from each domain to its estimate, with all their errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from vardi._estimate.estimates import MUCH, Estimate, Estimates, cells_of, headings, with_digits_of
from vardi._estimate.intervals import REFUSED, Affine, FixedValue, Law, Share, Student, Transformed
from vardi._estimate.tangent import Influence, Tangent, estimates_with
from vardi._inputs.domains import By
from vardi._notebook import MOST_ROWS, fragment, table
from vardi._rows.contract import Evenness
from vardi._rows.domains import AT_ONCE, RowsByDomain
from vardi._rows.measure import Functions, Measure
from vardi._rows.variance import Spread
from vardi._types import Floats, Integers
from vardi.errors import MismatchError, suggest
from vardi.errors._texts import SHOWN, WIDTH, cut, more, show, width_of

T = TypeVar("T")


class ByDomain(Mapping[Hashable, T], Generic[T]):
    """A mapping from each domain to the answer for it.

    Parameters
    ----------
    by : By
        What defines the domains.
    keys : sequence of tuple
        The value of each domain in each column.
    found : callable
        Returns the answer for the domain at a place.
    """

    def __init__(self, by: By, keys: Sequence[tuple[Hashable, ...]], found: Callable[[int], T]) -> None:
        self.by = by.columns
        self._places = {by.called(key): j for j, key in enumerate(keys)}
        self._found = found

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._places)

    def __contains__(self, domain: object) -> bool:
        return domain in self._places

    def get(self, domain: Hashable, default: Any = None) -> Any:
        """Return the answer for a domain, or a default if there is none."""
        return default if domain not in self._places else self[domain]

    def __getitem__(self, domain: Hashable) -> T:
        if domain not in self._places:
            raise MismatchError(
                f"No row of the pool is in the domain {domain!r} of {show(self.by)}, so there is no estimate for it. "
                f"The domains are {show(self._places)}.{suggest(domain, self._places)}"
            )
        return self._found(self._places[domain])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} by {show(self.by)})"


class Domains(ByDomain[Estimate]):
    """The estimates of all domains: a mapping that prints as a table.

    Differences and ratios of two domains carry their errors along, as those of any two estimates of a fit do.

    Attributes
    ----------
    by : tuple of str
        The columns that define the domains. A domain is called by its value, or by a tuple of values where several
        columns were given.
    what : str
        What the numbers are: "mean of width by kind".

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import vardi
    >>> rng = np.random.default_rng(0)
    >>> trees = pd.DataFrame({"width": rng.gamma(4.0, size=300), "kind": rng.choice(["fir", "larch"], 300)})
    >>> fit = vardi.debias({"transect": trees}, {"transect": "width"})  # drawn by width
    >>> widths = fit.expectation("width", by="kind")
    >>> print(widths)
    mean of width by kind
    kind   estimate  error  95% interval
    fir        2.92   0.18  2.53 to 3.31
    larch      3.09   0.14  2.80 to 3.38
    >>> print(widths["fir"] - widths["larch"])
    -0.17 ± 0.23 (95%: -0.64 to 0.29)
    """

    def __init__(
        self,
        what: str,
        by: By,
        keys: Sequence[tuple[Hashable, ...]],
        estimates: Found,
    ) -> None:
        super().__init__(by, keys, estimates.estimate)
        self.what, self._estimates = what, estimates

    @cached_property
    def joint(self) -> Estimates:
        """All estimates in the order of the domains, with their covariance."""
        return self._estimates.joint()

    def table(self) -> str:
        """Return value, error and interval of each domain, as text of at most 80 columns."""
        heads, rows = self._cells(SHOWN)
        widths = [max(len(row[j]) for row in [heads, *rows]) for j in range(len(heads))]
        numbers = sum(widths[-3:]) + 6
        room = (WIDTH - numbers) // len(self.by) - 2
        names = [width_of(head, (row[j] for row in rows), room) for j, head in enumerate(heads[:-3])]
        lines = [
            "  ".join(
                [*(cut(cell, w).ljust(w) for cell, w in zip(row, names, strict=False))]
                + [cell.rjust(w) for cell, w in zip(row[-3:], widths[-3:], strict=True)]
            ).rstrip()
            for row in [heads, *rows]
        ]
        doubt = ["errors are approximate"] if self._estimates.approximate else []
        return "\n".join([cut(self.what, WIDTH), *lines, *more(list(self), SHOWN), *doubt])

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        heads, rows = self._cells(MOST_ROWS)
        return fragment(table(heads, rows, of="domains", total=len(self), caption=self.what))

    def _cells(self, most: int) -> tuple[list[str], list[list[str]]]:
        """Return the cells of the heading and of the first domains."""
        found, rows = self._estimates, []
        for domain, j in list(self._places.items())[:most]:
            one = found.plain(j)
            names = [str(value) for value in (domain if isinstance(domain, tuple) else (domain,))]
            value, stderr, ends = cells_of(one)
            if found.differs and found.unassisted is not None and one.stderr > 0:
                stderr += f" ({with_digits_of(one.stderr, found.unassisted.stderr[j])[0]})"
            rows.append([*names, value, stderr, ends])
        estimate, error, ends = headings(found.level)
        return [*self.by, estimate, f"{error} (without the model)" if found.differs else error, ends], rows


@dataclass(frozen=True, eq=False)
class Found:
    """The numbers of all domains; the influence on one is computed on demand.

    Attributes
    ----------
    values, stderr : ndarray of shape (G,)
        The estimates and their errors.
    laws : list of Law
        The law of each interval.
    level : float
        Nominal coverage of the intervals.
    influence : callable
        Returns the influence on the estimates at some places.
    among : tuple of str
        The samples whose rows they are made from, if not all.
    unassisted : Found or None
        The same without the assisting model.
    approximate : bool
        Whether errors ignore that of a learned bias.
    """

    values: Floats
    stderr: Floats
    laws: list[Law]
    level: float
    influence: Callable[[Integers], Influence]
    among: tuple[str, ...] = ()
    unassisted: Found | None = None
    approximate: bool = False

    def plain(self, j: int) -> Estimate:
        """Return an estimate without the influence of each row on it."""
        return Estimate(float(self.values[j]), float(self.stderr[j]), self.level, law=self.laws[j])

    def estimate(self, j: int) -> Estimate:
        """Return an estimate."""
        plain = None if self.unassisted is None else self.unassisted.plain(j)
        return replace(self.plain(j), influence=self.influence(np.array([j])), among=self.among, plain=plain)

    @property
    def differs(self) -> bool:
        """Whether a model changed some error considerably."""
        if self.unassisted is None or self.unassisted.approximate:
            return False
        without = self.unassisted.stderr
        return bool((np.abs(self.stderr - without) > MUCH * without).any())

    def joint(self) -> Estimates:
        """Return all of them with their covariance."""
        influence = self.influence(np.arange(len(self.values)))
        covariance = influence.covariance()
        return estimates_with(self.values, influence, covariance, self.stderr, self.laws, self.level, self.among)


def found_in_domains(
    tangent: Tangent, domains: RowsByDomain, level: float, factor: float | Estimate | None = None
) -> Found:
    """Return the numbers of all domains, multiplied by a factor if given, with their errors.

    Parameters
    ----------
    tangent : Tangent
        The solution.
    domains : RowsByDomain
        The domains and the function.
    level : float
        Coverage of the intervals.
    factor : float or Estimate, optional
        The size of the population, or what a total is relative to; an Estimate is from the same rows or independent.
    """
    sums = domains.sums
    times = 1.0 if factor is None else float(factor)

    def influence(places: Integers) -> Influence:
        b = tangent.jacobian.solve(domains.against(places))
        own = tangent.moved_by(domains.functions(places), np.zeros(len(places)), b)
        if not isinstance(factor, Estimate):
            return own if factor is None else own @ (times * np.eye(len(places)))
        assert factor.influence is not None
        return own @ (times * np.eye(len(places))) + factor.influence @ sums.mean[None, places]

    laws: list[Law] = []
    stderr = np.zeros(len(sums))
    for places, spread, students in _spreads(influence, len(sums), domains.at_once):
        fixed = np.zeros(len(places), bool)
        if tangent.measure.coordinates.known and not isinstance(factor, Estimate):
            fixed = tangent.is_fixed(spread, domains.naive(places) * times**2)
        for j, student, error, is_fixed in zip(places.tolist(), students, spread.stderr.tolist(), fixed, strict=True):
            law, stderr[j] = _law(tangent.measure, domains, j, student, error, factor, is_fixed=bool(is_fixed))
            laws.append(law)
    among = tangent.measure.recorded_by
    return Found(sums.mean * times, stderr, laws, level, influence, among, approximate=tangent.approximate)


def assisted_in_domains(predicted: Found, missed: Found, places: Integers, plain: Found) -> Found:
    """Return the sum of a model's mean prediction and its mean error in each domain.

    Parameters
    ----------
    predicted, missed : Found
        The mean prediction over all samples, and the mean error over those that recorded the values.
    places : ndarray of int
        The places of the latter's domains among all domains.
    plain : Found
        The numbers without the model.
    """

    def influence(chosen: Integers) -> Influence:
        return replace(predicted.influence(places[chosen]) + missed.influence(chosen), approximate=False)

    stderr, laws = np.zeros(len(places)), list[Law]()
    for chosen, spread, students in _spreads(influence, len(places), AT_ONCE):
        laws += students
        stderr[chosen] = np.where([law.df < REFUSED for law in students], math.nan, spread.stderr)
    values = predicted.values[places] + missed.values
    return Found(values, stderr, laws, plain.level, influence, plain.among, plain)


def _spreads(
    influence: Callable[[Integers], Influence], size: int, at_once: int
) -> Iterator[tuple[Integers, Spread, list[Student]]]:
    """Yield some places at a time, the spread of the estimates there, and the laws of their intervals.

    The few rows of a domain have the largest influence values, which is not a heavy tail.
    """
    for start in range(0, size, at_once):
        places = np.arange(start, min(start + at_once, size))
        moved = influence(places)
        spread = moved.spread(joint=False)
        yield places, spread, moved.laws(spread, tails=False)


class _Weighing:
    """How evenly weights are spread over the rows of a domain: from its sums or, over clusters, by one more query."""

    def __init__(self, measure: Measure, domains: RowsByDomain, j: int) -> None:
        self.measure, self.domains, self.j = measure, domains, j

    @property
    def evenness(self) -> Evenness:
        """Over the base of the domain."""
        if self.measure.in_clusters:
            return self.measure.evenness_of(self.domains.inside(self.j))
        return self.domains.sums.evenness(self.j)

    def evenness_of(self, holds: Functions | None) -> Evenness:
        """Over those rows of the domain on which a share holds."""
        if self.measure.in_clusters:
            return self.measure.evenness_of(self.domains.event(self.j))
        return self.domains.sums.evenness_of_events(self.j)


def _law(
    measure: Measure,
    domains: RowsByDomain,
    j: int,
    student: Student,
    error: float,
    factor: float | Estimate | None,
    *,
    is_fixed: bool,
) -> tuple[Law, float]:
    """Return the law of an interval and the standard error, as for a ratio of two expectations."""
    sums = domains.sums
    if isinstance(factor, Estimate):
        return student, math.nan if student.df < REFUSED else error
    times = 1.0 if factor is None else factor
    if sums.is_constant(j) and not sums.is_share(j):
        return (Student(), 0.0) if sums.rows[j] > 1 else (Student(0.0), math.nan)  # one row shows no spread
    if is_fixed:
        return FixedValue(), error
    if not sums.is_share(j):
        return student, math.nan if student.df < REFUSED else error
    value, own = float(sums.mean[j]), error / abs(times) if times else 0.0
    weighing, counts = _Weighing(measure, domains, j), (float(sums.events[j]), sums.others(j))
    share = Share.of(value, own, counts, weighing, None, lambda: weighing.evenness)
    own = share.error(own)
    law = share if factor is None else Transformed(Estimate(value, own, law=share), Affine(times, 0.0))
    return law, own * abs(times)
