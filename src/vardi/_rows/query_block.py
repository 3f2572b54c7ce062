"""The rows of a frame in an engine, as a question sees them: columns are expressions, and sums are noted.

A question is written as if its sums were numbers. So it is called twice for a frame: the first time its sums are noted,
and taken as zero; then one query computes them; and the second time they are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import narwhals as nw
import numpy as np

from vardi._inputs.engines import Aggregate, How
from vardi._inputs.lazy_part import OMEGA, PREFIX, Change, Groups, Part, Term, expression, with_columns
from vardi._inputs.partitions import with_interval
from vardi._rows.contract import Extremes, Normalised, Question, Result
from vardi._rows.expressions import Expressions, product, total
from vardi._rows.grouping import sums_by_sample
from vardi._rows.lazy_values import EngineFunction
from vardi._types import Floats, Integers

if TYPE_CHECKING:
    from vardi._rows.contract import Block, Probabilities
    from vardi._rows.point import RowsAt

STAGE, ROWS = f"{PREFIX}stage_{{}}", f"{PREFIX}rows"

#: Makes one answer of numbers of groups of rows, (G, m), and of the sample of each group.
Combine: TypeAlias = Callable[[Floats, Integers], Floats]


def _added(numbers: Floats, source: Integers) -> Floats:
    return np.asarray(numbers.sum(axis=0))


class AskedNumber(NamedTuple):
    """A number that is asked for: an aggregate times a factor, or the factor alone."""

    of: Aggregate | None
    factor: float = 1.0


class QueryBlock:
    """The rows of a frame.

    Parameters
    ----------
    part : Part
        The frame.
    K : int
        How many biases there are.
    answers : list of ndarray, optional
        The sums that were asked for, in their order; zeros by default.
    """

    def __init__(self, part: Part, K: int, answers: Sequence[Floats] | None = None) -> None:
        self.part, self.K, self._answers = part, K, answers
        self.changes: list[Change | None] = []
        self.points: dict[int, Any] = {}
        self._asked: list[tuple[list[AskedNumber], Combine]] = []
        self._columns: dict[int, Expressions] = {}
        self._staged = 0

    def put(self, question: Question[Result]) -> Result:
        """Return what a question returns; expressions stand for the arrays that it is typed for."""
        return question(cast("Block", self))

    # columns

    def columns(self, values: Sequence[EngineFunction]) -> Expressions:
        if id(values) not in self._columns:
            self._columns[id(values)] = self.let(Expressions([one(self.part) for one in values]))
        return self._columns[id(values)]

    def solved(self, values: Sequence[str]) -> Expressions:
        return Expressions([nw.col(name) for name in values], are_named=True)

    def omega(self, k: int) -> Expressions:
        return Expressions([nw.col(OMEGA.format(k))], are_named=True)

    def log_omega(self) -> Expressions:
        return np.log(Expressions([nw.col(OMEGA.format(k)) for k in range(self.K)]))

    def normalised(self, u: Floats, added: Mapping[int, Expressions]) -> Normalised:
        sampled = np.flatnonzero(np.isfinite(u)).tolist()
        with np.errstate(over="ignore"):  # sums at a point so far off are not finite, which is noticed later
            factors = np.exp(u)
        biases: list[Term] = [0.0] * self.K
        for k in sampled:
            own = self.omega(k) * float(factors[k])
            biases[k] = (own * np.exp(added[k]) if k in added else own).terms[0]
        terms = self.let(Expressions(biases))
        mass = self.let(Expressions([total([terms.terms[k] for k in sampled])]))
        weight = self.let(1.0 / mass)
        p = self.let(terms * weight)
        return Normalised(cast("Floats", weight), lambda: np.log(mass), cast("Probabilities", p))

    def tilts(self, rows: RowsAt, log_omegas: Floats) -> Floats:
        biases = [rows.users_bias(k) * float(np.exp(-log_omegas[k])) for k in range(self.K)]
        return np.hstack([one * rows.weight for one in biases])

    def of_sample(self, numbers: Floats) -> Expressions:
        return Expressions([self.part.of_sample(column.tolist()) for column in numbers.T])

    def of_own(self, p: Expressions) -> Expressions:
        return Expressions([self.part.of_sample(p.terms)])

    def let(self, columns: Expressions) -> Expressions:
        if columns.are_named:
            return columns
        names = [None if isinstance(term, float) else self._stage() for term in columns.terms]
        stage = {name: expression(term) for name, term in zip(names, columns.terms, strict=True) if name}
        self.changes.append(with_columns(stage))
        terms = [nw.col(name) if name else term for name, term in zip(names, columns.terms, strict=True)]
        return Expressions(terms, are_named=True)

    def _stage(self) -> str:
        """Return a new name of a column."""
        self._staged += 1
        return STAGE.format(self._staged)

    def counted(self, columns: Expressions) -> Expressions:
        return Expressions([self.part.times_count(expression(term)) for term in columns.terms])

    # sums

    def sum(self, columns: Expressions) -> Floats:
        return self._sums(columns.terms)

    def gram(self, columns: Expressions, others: Expressions) -> Floats:
        left, right = columns.terms, others.terms
        if columns is others:
            return self._symmetric(left, left, 0)
        return self._sums([product(a, b) for a in left for b in right]).reshape(len(left), len(right))

    def products(self, p: Expressions, weights: Expressions) -> Floats:
        weighed = [p * weights.column(j) for j in range(len(weights.terms))]
        return np.vstack([self._symmetric(one.terms, p.terms, 1) for one in weighed])

    def _symmetric(self, left: Sequence[Term], right: Sequence[Term], diagonal: int) -> Floats:
        """Return sums of products that are symmetric, of which those from a diagonal upwards are asked for."""
        upper = np.triu_indices(len(left), diagonal)
        products = [product(left[i], right[j]) for i, j in np.transpose(upper).tolist()]
        found = np.zeros((len(left), len(left)))
        found[upper] = found.T[upper] = self._sums(products)
        return found

    def by_sample(self, columns: Expressions) -> Floats:
        return self._sums(columns.terms, self._by_sample)

    def _by_sample(self, numbers: Floats, source: Integers) -> Floats:
        return sums_by_sample(numbers, source, self.K)

    def extremes(self, columns: Expressions, states: Sequence[int] = ()) -> Extremes:
        terms, inside = columns.terms, [label for label, code in self.part.codes.items() if code in states]
        if states and not inside:
            terms = (nw.lit(None, nw.Float64),) * len(terms)
        elif states and len(inside) < len(self.part.codes):
            chosen = nw.col(str(self.part.label)).is_in(inside)
            terms = tuple(nw.when(chosen).then(expression(term)) for term in terms)
        low = self._ask([_extreme(term, "min") for term in terms], _least)
        return Extremes(low, self._ask([_extreme(term, "max") for term in terms], _largest))

    def interval(self, column: Expressions, edges: Floats) -> Expressions:
        (term,), name = self.let(column).terms, self._stage()
        self.changes.append(lambda frame: with_interval(frame, name, expression(term), edges))
        return Expressions([nw.col(name)], are_named=True)

    def unknown(self, columns: Expressions) -> Floats:
        endless = (1.0 - np.isfinite(columns)).terms
        return self._ask([AskedNumber(Aggregate(expression(term))) for term in endless], _added)

    def _sums(self, terms: Sequence[Term], combine: Combine = _added) -> Floats:
        """Ask for sums, weighed by the counts of the rows."""
        return self._ask([self._sum(term) for term in terms], combine)

    def _sum(self, term: Term) -> AskedNumber:
        if isinstance(term, nw.Expr):
            return AskedNumber(Aggregate(self.part.times_count(term)))
        return AskedNumber(self.part.rows if term else None, term)

    def _ask(self, asked: list[AskedNumber], combine: Combine) -> Floats:
        """Note aggregates, or return their answers."""
        place = len(self._asked)
        self._asked.append((asked, combine))
        if self._answers is not None:
            return self._answers[place]
        return combine(np.zeros((1, len(asked))), np.zeros(1, np.int64))

    def answers(self, at_once: int = 400) -> list[Floats]:
        """Query all that was noted, so many sums at once."""
        by_sample = any(combine == self._by_sample for _, combine in self._asked)
        part = self.part if by_sample else replace(self.part, label=None)
        numbers, source, aggregates = dict[str, Floats](), np.zeros(1, np.int64), list(self._aggregates.items())
        for start in range(0, len(aggregates), at_once):
            some = dict(aggregates[start : start + at_once])
            groups = part.groups(some, *self.changes)
            source = groups.source if by_sample else np.zeros(len(groups), np.int64)
            order = np.argsort(source)  # the same for all queries
            numbers |= {name: groups.numbers(name)[order] for name in some}
            source = source[order]
        return self.split(self._table(numbers, len(source)), source)

    def by_key(
        self, keys: Sequence[str], *, of_any_sample: bool = False, most: int | None = None
    ) -> tuple[Groups, Floats]:
        """Query all that was noted by keys, and by sample or not; return the groups and their numbers, (G, T)."""
        part = replace(self.part, label=None) if of_any_sample else self.part
        groups = part.groups(self._aggregates | {ROWS: part.rows}, *self.changes, key=keys, most=most)
        return groups, self._table({name: groups.numbers(name) for name in self._aggregates}, len(groups))

    def split(self, table: Floats, source: Integers) -> list[Floats]:
        """Return the answers made of all numbers of groups, (G, T), of which each is within a sample."""
        ends = np.cumsum([len(asked) for asked, _ in self._asked])[:-1]
        parts = zip(self._asked, np.split(table, ends, axis=1), strict=True)
        return [combine(numbers, source) for (_, combine), numbers in parts]

    @property
    def _aggregates(self) -> dict[str, Aggregate]:
        """What was asked for, by names."""
        return {f"{PREFIX}{j}": one.of for j, one in enumerate(self._numbers) if one.of is not None}

    @property
    def _numbers(self) -> list[AskedNumber]:
        return [one for asked, _ in self._asked for one in asked]

    def _table(self, numbers: Mapping[str, Floats], G: int) -> Floats:
        """Return what was asked for of each group, of shape (G, T)."""
        table = np.empty((G, len(self._numbers)))
        for j, one in enumerate(self._numbers):
            table[:, j] = one.factor * numbers.get(f"{PREFIX}{j}", 1.0)
        return table


def _least(numbers: Floats, source: Integers) -> Floats:
    return np.fmin.reduce(numbers, axis=0, initial=np.inf)  # a group may have no number


def _largest(numbers: Floats, source: Integers) -> Floats:
    return np.fmax.reduce(numbers, axis=0, initial=-np.inf)


def _extreme(term: Term, how: How) -> AskedNumber:
    return AskedNumber(Aggregate(term, how)) if isinstance(term, nw.Expr) else AskedNumber(None, term)
