"""Rows that stay in an engine, as a question sees them: one query answers all its sums.

A question is written as if its sums were numbers. So it is called twice for a frame: the first time its sums are noted,
and taken as zero; then one query computes them; and the second time they are there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, cast

import narwhals as nw
import numpy as np

from vardi._inputs.engine.aggregates import LENGTH, Aggregate, AggregateQuery, How
from vardi._inputs.engine.asking import answering, collected, gives_batches
from vardi._inputs.engine.dependence import CELL, UNIT, EngineDependence
from vardi._inputs.engine.part import OMEGA, PREFIX, Change, Groups, Part, changed, with_columns
from vardi._inputs.engine.queries import aggregated, stacked, with_interval
from vardi._rows.batches import Batches
from vardi._rows.columns import ByKey, Extremes, Grouped, Normalised, Question, Result, addable, pieces_of
from vardi._rows.engine.functions import EngineFunction, Reads
from vardi._rows.engine.united import can_unite, united
from vardi._rows.expressions import Expressions, Term, total
from vardi._rows.grouping import extremes_by_code, sums_by_code
from vardi._rows.series import rows_a_value
from vardi._rows.shares import evenly
from vardi._rows.units import Units
from vardi._types import Floats, Integers
from vardi.biases._expressions.targets import literal

if TYPE_CHECKING:
    from vardi._rows.columns import Block, Probabilities
    from vardi._rows.point import RowsAt

SUMS_OF_A_QUERY = 400  # at most
MANY = 16  # samples from which a local engine is asked for columns rather than for sums: see docs/ARCHITECTURE.md
EXTREMES: dict[How, Callable[[Iterable[float]], float]] = {
    "min": lambda numbers: float(np.fmin.reduce([np.inf, *numbers])),
    "max": lambda numbers: float(np.fmax.reduce([-np.inf, *numbers])),
}
STAGE, KEY, ROWS = f"{PREFIX}stage_{{}}", f"{PREFIX}key", "rows"


@dataclass(frozen=True)
class AskedNumber:
    """A number that is asked for: an aggregate times a factor, or the factor alone."""

    of: Aggregate | None
    factor: float = 1.0


class Queries:
    """Frames of an engine, each with the rows of one sample, or one with a label for each row.

    Parameters
    ----------
    parts : sequence of Part
        The frames.
    sizes : ndarray of shape (K,)
        How many rows the rows of each sample stand for.
    dependence : EngineDependence
        How rows depend on one another.
    """

    def __init__(self, parts: Sequence[Part], sizes: Floats, dependence: EngineDependence) -> None:
        self.parts, self.sizes, self.dependence = tuple(parts), sizes, dependence
        self._joined: dict[tuple[EngineFunction, ...], tuple[Part, Mapping[EngineFunction, str]] | None] = {}

    def __len__(self) -> int:
        return int(self.sizes.sum())

    def total(self, question: Question[Result], width: int = 0, *, biases: bool = True) -> Result:
        """Return the sum of the answers of all frames."""
        answers = [self._answer(part, names, question, width) for part, names in self._asked(question)]
        found = addable(answers[0])
        for answer in answers[1:]:
            found = found + addable(answer)
        return found

    @cached_property
    def by_batches(self) -> bool:
        """Whether sums over all rows are made by NumPy: there are many samples, in engines that give columns."""
        return len(self.sizes) >= MANY and all(gives_batches(part.frame) for part in self.parts)

    def grouped(self, question: Question[ByKey], width: int = 0, most: int | None = None) -> Grouped:
        """Return counted sums, and extremes, of columns by a key, which the question returns first.

        If there are more than ``most`` groups, some of them are left in the engine: one more is enough to see that.
        """
        return self._grouped(self._asked(question), question, most)

    def all_grouped(self, questions: Sequence[Question[ByKey]], width: int = 0) -> list[Grouped]:
        """Return the answers to several questions by keys of their own."""
        return [self.grouped(question) for question in questions]

    def _grouped(
        self,
        frames: Sequence[tuple[Part, Mapping[EngineFunction, str]]],
        question: Question[ByKey],
        most: int | None = None,
    ) -> Grouped:
        limit = None if most is None else most + 1
        places: dict[Any, int] = {}
        codes: list[int] = []
        numbers: list[Floats] = []
        bounds = 0
        for part, names in frames:
            block = QueryBlock(part, len(self.sizes), names)
            key, columns, *bounded = block.put(question)
            for piece in pieces_of(columns):
                block.sum(piece)
            bounds = sum(len(block.extremes(piece).low) for piece in bounded)
            terms = {f"{KEY}_{j}": _expression(term) for j, term in enumerate(_terms(key))}
            whole = replace(part, label=None)  # of any sample
            asked = block.named or {ROWS: LENGTH}  # numbers that are known need no query, but keys do
            groups = whole.groups(asked, *block.changes, with_columns(terms), key=[*terms], most=limit)
            numbers.append(block.by_group(groups))
            codes += [places.setdefault(value, len(places)) for value in _keys(groups, list(terms))]
        place, size, sums = np.array(codes, np.int64), len(places), np.concatenate(numbers)
        summed, low, high = np.hsplit(sums, [sums.shape[1] - 2 * bounds, sums.shape[1] - bounds])
        ends = extremes_by_code(place, low, high, size)
        return Grouped(list(places), np.hstack([sums_by_code(place, summed, size), *ends]))

    def frames_with(
        self, names: Sequence[str], question: Question[Floats], dropped: Sequence[Part] = ()
    ) -> dict[int | None, Any]:
        """Return the user's frames, still lazy, with further columns, which are zero for rows outside the fit.

        They are keyed by the position of their sample, or by None if one frame holds all. ``dropped`` are those of
        samples that were left out.
        """
        frames: dict[int | None, Any] = {}
        for part in self.parts:
            columns, changes = self._named(part, names, question)
            frames[part.code] = part.with_added(columns, *changes)
        zeros = dict.fromkeys(names, nw.lit(0.0))
        return frames | {part.code: part.with_added(zeros) for part in dropped}

    def adding(self, part: Part, names: Sequence[str], question: Question[Floats]) -> Change:
        """Return the step that adds columns to a frame."""
        columns, changes = self._named(part, names, question)
        return lambda frame: changed(frame, changes).with_columns(**columns)

    def _named(
        self, part: Part, names: Sequence[str], question: Question[Floats]
    ) -> tuple[dict[str, nw.Expr], list[Change | None]]:
        """Return columns of a frame by name, and the steps that they rest on."""
        block = QueryBlock(part, len(self.sizes), {})
        terms = _terms(block.put(question))
        return {name: _expression(term) for name, term in zip(names, terms, strict=True)}, block.changes

    def spaced(self, question: Question[Floats], low: float, high: float, most: int) -> Floats:
        """Return numbers of a column that are evenly spaced among the distinct ones from low to high, in order."""
        with answering():
            frames = [self._values(part, names, question) for part, names in self._asked(question)]
            frame = frames[0] if len(frames) == 1 else stacked(frames)
            inside = frame.filter((nw.col(KEY) >= literal(low)) & (nw.col(KEY) <= literal(high))).unique()
            length = aggregated(inside, AggregateQuery((), {ROWS: LENGTH}))
            places = evenly(int(collected(length).item()), most).tolist()
            ranked = inside.with_row_index(ROWS, order_by=KEY)
            chosen = collected(ranked.filter(nw.col(ROWS).is_in(places)).select(KEY))
        return np.sort(chosen.get_column(KEY).to_numpy().astype(np.float64))

    def _values(self, part: Part, names: Mapping[EngineFunction, str], question: Question[Floats]) -> nw.LazyFrame[Any]:
        """Return a frame of one column."""
        block = QueryBlock(part, len(self.sizes), names)
        (term,) = _terms(block.put(question))
        return changed(part.rows_as_asked, block.changes).select(_expression(term).alias(KEY))

    def over_units(self, question: Question[Floats], m: int) -> tuple[Units, Floats]:
        """Return the units of rows that depend on one another, and counted sums of columns over these, (E, m)."""
        dependence, lengths = self.dependence, [rows_a_value(int(size)) for size in self.sizes]
        found: list[tuple[int, Any, Any]] = []
        sums: list[Floats] = []
        for part in self.parts:
            block = QueryBlock(part, len(self.sizes), {})
            block.changes.append(dependence.units(part, lengths))
            terms = enumerate(_terms(block.put(question)))
            asked = {str(j): Aggregate(part.times_count(_expression(one))) for j, one in terms} | {ROWS: part.rows}
            groups = part.groups(asked, *block.changes, key=dependence.keys)
            cells, units = (
                groups.table.get_column(name).to_list() if name in dependence.keys else [None] * len(groups)
                for name in (CELL, UNIT)
            )
            found += zip(groups.source.tolist(), cells, units, strict=True)
            sums.append(groups.matrix(list(asked)))
        in_series = dependence.order is not None
        order = sorted(range(len(found)), key=lambda j: _place(found[j], in_series=in_series))
        found, table = [found[j] for j in order], np.concatenate(sums)[order]
        unit = _numbered([(k, label) if in_series else label for k, _, label in found])
        cell, sample = _numbered([one[:2] for one in found]), np.array([one[0] for one in found])
        return Units(unit, cell, sample, table[:, -1], dependence.remaining, in_series), table[:, :-1]

    def over_clusters(self, question: Question[Floats], m: int) -> Floats:
        """Return counted sums of columns over clusters, of shape (clusters, m)."""
        column = Expressions([nw.col(str(self.dependence.clusters))])
        return self._grouped(self._apart, lambda block: (cast("Floats", column), question(block))).sums

    def by_group(self, question: Question[Result], changes: Sequence[Change], key: str) -> GroupAnswers[Result]:
        """Return the answers to a question for groups of rows, by a column that changes add to each frame."""
        found: list[tuple[int, Any, float, Floats]] = []
        for part, change in zip(self.parts, changes, strict=True):
            block = QueryBlock(part, len(self.sizes), {})
            block.put(question)
            for code, row in part.by_sample(block.named | {ROWS: part.rows}, *block.changes, change, key=key):
                sums = np.concatenate([answer.sum(axis=0) for answer in block.answered([(code, row)], by_sample=True)])
                found.append((code, row[key], float(row[ROWS]), sums))
        found.sort(key=lambda group: (group[0], str(group[1])))  # engines give groups in any order
        source, labels, counts, totals = zip(*found, strict=True)
        return GroupAnswers(question, block, list(labels), np.array(source), np.array(counts), np.array(totals))

    def kinds_of(self, question: Question[Floats], most: int, *, biases: bool = True) -> int:
        """Return how many different numbers a column has, counted for each frame."""
        found = 0
        for part in self.parts:
            block = QueryBlock(part, len(self.sizes), {})
            (term,) = _terms(block.put(question))
            asked = {"kinds": Aggregate(_expression(term), "n_unique")}
            found += int(part.aggregates(asked, *block.changes)["kinds"])
        return found

    @property
    def _apart(self) -> list[tuple[Part, Mapping[EngineFunction, str]]]:
        """The frames, each on its own."""
        return [(part, {}) for part in self.parts]

    def _asked(self, question: Question[Any]) -> list[tuple[Part, Mapping[EngineFunction, str]]]:
        """Return the frames to ask: one in place of many, with the functions that the question reads as columns."""
        if not can_unite(self.parts):
            return self._apart
        read = self._functions_of(question)
        if not all(function.is_number for function in read):
            return self._apart
        if read not in self._joined:
            names = {function: f"{PREFIX}joined_{j}" for j, function in enumerate(read)}
            functions = {
                name: EngineFunction(function.of, function.name, Reads.USERS) for function, name in names.items()
            }
            whole = united(self.parts, functions)
            self._joined.clear()
            self._joined[read] = (whole[0], names) if len(whole) == 1 else None
        joined = self._joined[read]
        return self._apart if joined is None else [joined]

    def _functions_of(self, question: Question[Any]) -> tuple[EngineFunction, ...]:
        """Return the functions that a question reads."""
        if self.by_batches:
            read = Batches(self.parts[0], {}, self.sizes).read_by(question)
            return tuple(one for one in read if isinstance(one, EngineFunction))
        probe = QueryBlock(self.parts[0], len(self.sizes), {})
        probe.put(question)
        return tuple(dict.fromkeys(probe.read))

    def _answer(
        self, part: Part, names: Mapping[EngineFunction, str], question: Question[Result], width: int
    ) -> Result:
        if self.by_batches:
            return Batches(part, names, self.sizes).total(question, width)
        block = QueryBlock(part, len(self.sizes), names)
        block.put(question)
        return QueryBlock(part, len(self.sizes), names, block.answers()).put(question)


class QueryBlock:
    """The rows of a frame.

    Parameters
    ----------
    part : Part
        The frame.
    K : int
        How many biases there are.
    names : mapping
        Functions that are columns of the frame, with the names of these.
    answers : list of ndarray, optional
        The sums that were asked for, in their order; zeros by default.
    """

    def __init__(
        self, part: Part, K: int, names: Mapping[EngineFunction, str], answers: list[Floats] | None = None
    ) -> None:
        self.part, self.K, self._names, self._answers = part, K, names, answers
        self.changes: list[Change | None] = []
        self.points: dict[int, Any] = {}
        self.read: list[EngineFunction] = []
        self._asked: list[tuple[list[AskedNumber], bool]] = []
        self._columns: dict[int, Expressions] = {}
        self._staged = 0

    def put(self, question: Question[Result]) -> Result:
        """Return what a question returns; expressions stand for the arrays that it is typed for."""
        return question(cast("Block", self))

    # columns

    def columns(self, values: Sequence[EngineFunction]) -> Expressions:
        if id(values) not in self._columns:
            self.read += values
            named = [nw.col(self._names[one]) if one in self._names else one(self.part) for one in values]
            self._columns[id(values)] = self.let(Expressions(named))
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
        return Expressions([self._by_label(column.tolist()) for column in numbers.T])

    def of_own(self, p: Expressions) -> Expressions:
        return Expressions([self._by_label(p.terms)])

    def _by_label(self, terms: Sequence[Term]) -> Term:
        """Return the term of each row's own sample, out of K."""
        (_, first), *others = ((label, terms[code]) for label, code in self.part.codes.items())
        others = [(label, term) for label, term in others if not _are_equal(term, first)]
        chosen = _expression(first) if others else first
        for label, term in others:
            chosen = nw.when(nw.col(str(self.part.label)) == label).then(_expression(term)).otherwise(chosen)
        return chosen

    def let(self, columns: Expressions) -> Expressions:
        if columns.are_named:
            return columns
        stage: dict[str, nw.Expr] = {}
        terms: list[Term] = []
        for term in columns.terms:
            if isinstance(term, nw.Expr):
                name = STAGE.format(self._staged)
                self._staged += 1
                stage[name] = term
                terms.append(nw.col(name))
            else:
                terms.append(term)
        self.changes.append(with_columns(stage))
        return Expressions(terms, are_named=True)

    def counted(self, columns: Expressions) -> Expressions:
        return Expressions([self.part.times_count(_expression(term)) for term in columns.terms])

    # sums

    def sum(self, columns: Expressions) -> Floats:
        return self._ask([self._sum(term) for term in columns.terms])

    def gram(self, columns: Expressions, others: Expressions) -> Floats:
        left, right = columns.terms, others.terms
        if columns is others:
            return self._symmetric(left, left, 0)
        products = [_product(a, b) for a in left for b in right]
        return self._ask([self._sum(term) for term in products]).reshape(len(left), len(right))

    def products(self, p: Expressions, weights: Expressions) -> Floats:
        weighed = [p * weights.column(j) for j in range(len(weights.terms))]
        return np.vstack([self._symmetric(one.terms, p.terms, 1) for one in weighed])

    def _symmetric(self, left: Sequence[Term], right: Sequence[Term], diagonal: int) -> Floats:
        """Return sums of products that are symmetric, of which those from a diagonal upwards are asked for."""
        upper = np.triu_indices(len(left), diagonal)
        products = [_product(left[i], right[j]) for i, j in np.transpose(upper).tolist()]
        found = np.zeros((len(left), len(left)))
        found[upper] = found.T[upper] = self._ask([self._sum(term) for term in products])
        return found

    def by_sample(self, columns: Expressions) -> Floats:
        return self._ask([self._sum(term) for term in columns.terms], by_sample=True)

    def extremes(self, columns: Expressions, states: Sequence[int] = ()) -> Extremes:
        terms, inside = columns.terms, [label for label, code in self.part.codes.items() if code in states]
        if states and not inside:
            terms = (nw.lit(None, nw.Float64),) * len(terms)
        elif states and len(inside) < len(self.part.codes):
            chosen = nw.col(str(self.part.label)).is_in(inside)
            terms = tuple(nw.when(chosen).then(_expression(term)) for term in terms)
        low, high = (self._ask([_extreme(term, how) for term in terms]) for how in EXTREMES)
        return Extremes(low, high)

    def interval(self, column: Expressions, edges: Floats) -> Expressions:
        (term,) = self.let(column).terms
        name = STAGE.format(self._staged)
        self._staged += 1
        self.changes.append(lambda frame: with_interval(frame, name, _expression(term), edges))
        return Expressions([nw.col(name)], are_named=True)

    def unknown(self, columns: Expressions) -> Floats:
        endless = (1.0 - np.isfinite(columns)).terms
        return self._ask([AskedNumber(Aggregate(_expression(term))) for term in endless])

    def _sum(self, term: Term) -> AskedNumber:
        if isinstance(term, nw.Expr):
            return AskedNumber(Aggregate(self.part.times_count(term)))
        return AskedNumber(self.part.rows, term) if term else AskedNumber(None, 0.0)

    def _ask(self, asked: list[AskedNumber], *, by_sample: bool = False) -> Floats:
        """Note aggregates, or return their answers: of shape (m,), or (K, m) by sample."""
        place = len(self._asked)
        self._asked.append((asked, by_sample))
        if self._answers is not None:
            return self._answers[place]
        return np.zeros((self.K, len(asked)) if by_sample else len(asked))

    @property
    def named(self) -> dict[str, Aggregate]:
        """What was asked for, by names."""
        pairs = ((f"{i} {j}", one.of) for i, (asked, _) in enumerate(self._asked) for j, one in enumerate(asked))
        return {name: of for name, of in pairs if of is not None}

    def answers(self) -> list[Floats]:
        """Query all that was noted."""
        named, rows = self.named, list[tuple[int, dict[str, Any]]]()
        names = list(named)
        is_grouped = self.part.label is not None and any(by_sample for _, by_sample in self._asked)
        for start in range(0, len(names), SUMS_OF_A_QUERY):
            some = {name: named[name] for name in names[start : start + SUMS_OF_A_QUERY]}
            if is_grouped:
                rows += self.part.by_sample(some, *self.changes)
            else:
                rows.append((next(iter(self.part.codes.values())), self.part.aggregates(some, *self.changes)))
        return self.answered(rows)

    def by_group(self, groups: Groups) -> Floats:
        """Return what was asked for of each group, of shape (groups, m)."""
        columns = [
            np.full(len(groups), one.factor) if one.of is None else one.factor * groups.numbers(f"{i} {j}")
            for i, (asked, _) in enumerate(self._asked)
            for j, one in enumerate(asked)
        ]
        return np.column_stack(columns)

    def answered(self, rows: list[tuple[int, dict[str, Any]]], *, by_sample: bool = False) -> list[Floats]:
        """Return the answers of rows by name, each with the sample that it is of; those of all by sample, if asked."""
        return [self._answered(i, rows, by_sample=by_sample or own) for i, (_, own) in enumerate(self._asked)]

    def _answered(self, i: int, rows: list[tuple[int, dict[str, Any]]], *, by_sample: bool) -> Floats:
        asked, _ = self._asked[i]
        found = np.zeros((self.K, len(asked)))
        for j, one in enumerate(asked):
            if one.of is None:
                found[0, j] = one.factor
                continue
            told = [(code, row[f"{i} {j}"]) for code, row in rows if f"{i} {j}" in row]
            if one.of.how in EXTREMES:  # pandas gives NaN if none is inside
                found[0, j] = EXTREMES[one.of.how](float(number) for _, number in told if number is not None)
            for code, number in told if one.of.how not in EXTREMES else ():
                found[code, j] += one.factor * (np.nan if number is None else float(number))
        return found if by_sample else found.sum(axis=0)


def _keys(groups: Groups, names: Sequence[str]) -> Iterable[Hashable]:
    """Return the value of each group in a column or, in several, a tuple."""
    columns = [groups.table.get_column(name).to_list() for name in names]
    return columns[0] if len(columns) == 1 else zip(*columns, strict=True)


def _are_equal(a: Term, b: Term) -> bool:
    return isinstance(a, float) and isinstance(b, float) and a == b


def _product(a: Term, b: Term) -> Term:
    found: Term = (Expressions([a]) * Expressions([b])).terms[0]
    return found


def _numbered(labels: Sequence[Hashable]) -> Integers:
    """Return a number for each label, in the order in which they first come."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels])


def _place(unit: tuple[int, Any, Any], *, in_series: bool) -> tuple[Any, ...]:
    """Return by what units are ordered: engines give groups in any order."""
    return (unit[0], unit[2]) if in_series else (unit[0], str(unit[1]), str(unit[2]))


def _extreme(term: Term, how: How) -> AskedNumber:
    return AskedNumber(Aggregate(term, how)) if isinstance(term, nw.Expr) else AskedNumber(None, term)


def _terms(columns: Any) -> Sequence[Term]:
    terms: Sequence[Term] = columns.terms
    return terms


def _expression(term: Term) -> nw.Expr:
    return nw.lit(term) if isinstance(term, float) else term


@dataclass(frozen=True, eq=False)
class GroupAnswers(Generic[Result]):
    """The answers to a question for groups of rows, each within one sample; those of a draw are sums of these.

    Attributes
    ----------
    question : callable
        The question.
    block : QueryBlock
        What it noted.
    labels : list
        The label of each group.
    source, counts : ndarray of shape (G,)
        Its sample, and how many rows are counted in it.
    totals : ndarray of shape (G, T)
        Its sums.
    """

    question: Question[Result]
    block: QueryBlock
    labels: list[Any]
    source: Integers
    counts: Floats
    totals: Floats

    def drawn(self, times: Floats) -> Result:
        """Return the answer with group g counted times_g times."""
        block, numbers = self.block, times @ self.totals
        answers = np.split(numbers, np.cumsum([len(asked) for asked, _ in self.block._asked])[:-1])
        return QueryBlock(block.part, block.K, {}, answers).put(self.question)
