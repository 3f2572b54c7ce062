"""Means, shares and totals of domains: a mapping from each domain to its estimate, with all their errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

import numpy as np

from vardi._estimate.estimates import MUCH, Estimate, Estimates, as_shown, cells_of, headings, judged, with_digits_of
from vardi._estimate.intervals import REFUSED, Kind, Law, ShareOf, any_number, constant, known, of_census, times
from vardi._estimate.tables import Record, Tabular, record_of
from vardi._estimate.tangent import Influence, Tangent
from vardi._inputs.domains import By
from vardi._rows.contract import Spread
from vardi._rows.domains import RowsByDomain
from vardi._tables import Part, Shown, Table
from vardi._types import Floats, Integers
from vardi.errors import MismatchError, suggest
from vardi.errors._texts import show

T = TypeVar("T")


class ByDomain(Mapping[Hashable, T], Generic[T]):
    """A mapping from each domain to the answer for it.

    Parameters
    ----------
    by : By
        What defines the domains.
    keys : sequence of tuple
        The value of each domain in each column.
    answer : callable
        Returns the answer for the domain at a place.
    """

    def __init__(self, by: By, keys: Sequence[tuple[Hashable, ...]], answer: Callable[[int], T]) -> None:
        self.by = by.columns
        self._places = {by.called(key): j for j, key in enumerate(keys)}
        self._answer = answer

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
        return self._answer(self._places[domain])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} by {show(self.by)})"


class Domains(ByDomain[Estimate], Shown, Tabular):
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

    def __init__(self, what: str, by: By, keys: Sequence[tuple[Hashable, ...]], estimates: DomainEstimates) -> None:
        super().__init__(by, keys, estimates.estimate)
        self.what, self._estimates = what, estimates

    @cached_property
    def joint(self) -> Estimates:
        """All estimates in the order of the domains, with their covariance."""
        found = self._estimates
        influence = found.influence(np.arange(len(found.values)))
        covariance = as_shown(influence.covariance(), found.stderr)
        return Estimates(found.values, covariance, found.level, influence, found.stderr, found.laws, found.among)

    _apart = "\n"

    def _records(self) -> list[Record]:
        """Return a row for each domain, with its value in each column; ``by`` before those named as a number is."""
        found = []
        for domain, estimate in self.items():
            values = domain if isinstance(domain, tuple) else (domain,)
            row = record_of(", ".join(map(str, values)), estimate)
            named = {f"by {name}" if name in row else name: value for name, value in zip(self.by, values, strict=True)}
            found.append({**named, **row})
        return found

    def _parts(self) -> list[Part]:
        estimate, error, ends = headings(self._estimates.level)
        heading = [*self.by, estimate, f"{error} (without the model)" if self._estimates.differs else error, ends]
        table = Table(heading, self._places.items(), self._cells, "domains", texts=range(len(self.by)))
        return [self.what, table, "errors are approximate" if self._estimates.approximate else ""]

    table = Shown.summary

    def _cells(self, place: tuple[Hashable, int]) -> list[str]:
        """Return the cells of a domain."""
        (domain, j), estimates = place, self._estimates
        one = estimates.plain(j)
        names = [str(value) for value in (domain if isinstance(domain, tuple) else (domain,))]
        value, stderr, ends = cells_of(one)
        if estimates.differs and estimates.unassisted is not None and one.stderr > 0:
            stderr += f" ({with_digits_of(one.stderr, estimates.unassisted.stderr[j])[0]})"
        return [*names, value, stderr, ends]


@dataclass(frozen=True, eq=False)
class DomainEstimates:
    """The numbers of all domains; the influence on one is computed on demand.

    Attributes
    ----------
    values, stderr : ndarray of shape (G,)
        The estimates and their errors.
    laws : tuple of Law
        The law of each interval.
    level : float
        Nominal coverage of the intervals.
    influence : callable
        Returns the influence on the estimates at some places.
    among : tuple of str
        The samples whose rows they are made from, if not all.
    unassisted : DomainEstimates or None
        The same without the assisting model.
    approximate : bool
        Whether errors ignore that of a learned bias.
    """

    values: Floats
    stderr: Floats
    laws: tuple[Law, ...]
    level: float
    influence: Callable[[Integers], Influence]
    among: tuple[str, ...] = ()
    unassisted: DomainEstimates | None = None
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


def estimates_in_domains(
    tangent: Tangent, domains: RowsByDomain, level: float, factor: float | Estimate | None = None
) -> DomainEstimates:
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
    if not isinstance(factor, Estimate) and domains.factor != 1.0:  # a number times a condition is a share times it
        factor = domains.factor * (1.0 if factor is None else factor)
        domains = domains.over(domains.factor)
    sums = domains.sums
    scale = 1.0 if factor is None else float(factor)

    def influence(places: Integers) -> Influence:
        b = tangent.jacobian.solve(domains.against(places))
        of_means = tangent.moved_by(domains.functions(places), np.zeros(len(places)), b)
        of_means = of_means if factor is None else of_means @ (scale * np.eye(len(places)))
        if not isinstance(factor, Estimate):
            return of_means
        assert factor.influence is not None
        return of_means + factor.influence @ sums.mean[None, places]

    def kinds(places: Integers, spread: Spread) -> Sequence[Kind]:
        if isinstance(factor, Estimate):
            return ()
        fixed = tangent.are_fixed(spread, lambda: domains.naive(places) * scale**2)
        pairs = zip(places.tolist(), fixed.tolist(), strict=True)
        is_few = tangent.of_units.df < REFUSED
        return [_kind(domains, j, factor, is_fixed=is_fixed, is_few=is_few) for j, is_fixed in pairs]

    values = sums.mean * scale
    laws, stderr = _judged(values, influence, kinds)
    among = tangent.measure.recorded_by
    return DomainEstimates(values, stderr, laws, level, influence, among, approximate=tangent.approximate)


def assisted_in_domains(
    predicted: DomainEstimates, missed: DomainEstimates, places: Integers, plain: DomainEstimates
) -> DomainEstimates:
    """Return the sum of a model's mean prediction and its mean error in each domain.

    Parameters
    ----------
    predicted, missed : DomainEstimates
        The mean prediction over all samples, and the mean error over those that recorded the values.
    places : ndarray of int
        The places of the latter's domains among all domains.
    plain : DomainEstimates
        The numbers without the model.
    """

    def influence(chosen: Integers) -> Influence:
        return replace(predicted.influence(places[chosen]) + missed.influence(chosen), approximate=False)

    values = predicted.values[places] + missed.values
    laws, stderr = _judged(values, influence, lambda chosen, spread: ())
    return DomainEstimates(values, stderr, laws, plain.level, influence, plain.among, plain)


def _judged(
    values: Floats,
    influence: Callable[[Integers], Influence],
    kinds: Callable[[Integers, Spread], Sequence[Kind]],
    at_once: int = 50,
) -> tuple[tuple[Law, ...], Floats]:
    """Return the laws of the estimates and their standard errors, from a pass over the rows for some domains at once.

    The few rows of a domain have the largest influence values, which is not a heavy tail.
    """
    laws, stderr = list[Law](), np.zeros(len(values))
    for start in range(0, len(values), at_once):
        places = np.arange(start, min(start + at_once, len(values)))
        of_some = influence(places)
        spread = of_some.spread(joint=False)
        students = of_some.laws(spread, tails=False)
        of_some_kind = [of_census] * len(places) if of_some.is_exact else kinds(places, spread)
        some, stderr[places] = judged(values[places], spread.stderr, students, of_some_kind)
        laws += some
    return tuple(laws), stderr


def _kind(domains: RowsByDomain, j: int, factor: float | None, *, is_fixed: bool, is_few: bool) -> Kind:
    """Return what kind of number that of a domain is, as for a ratio of two expectations."""
    sums = domains.sums
    if sums.strays[j] and sums.is_constant(j):
        return constant(0.0 if is_few or sums.rows[j] <= 1 else math.inf)  # one row shows no spread
    if is_fixed:
        return known
    if sums.strays[j]:
        return any_number
    evenness, of_events = partial(domains.evenness, j), partial(domains.evenness_of_events, j)
    share = ShareOf(float(sums.events[j]), sums.others(j), evenness, of_events)
    return share if factor is None else times(share, factor)
