"""Rows that stay in an engine: one query answers all sums of a question.

A question is called twice: first it notes the sums that it asks for, which are one query, then it is called again with
the answers. So a question may compute with its sums as if they were there.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any, Generic

import narwhals as nw
import numpy as np

from vardi._inputs.engines import LENGTH, AggregateQuery, LazyFrame, answering, collected, gives_batches, schema_of
from vardi._inputs.lazy_part import PREFIX, Change, Part, changed, expression, with_columns
from vardi._inputs.lazy_pool import EngineDependence
from vardi._inputs.partitions import aggregated, stacked
from vardi._rows.batches import Batches
from vardi._rows.contract import ByKey, Grouped, Question, Result, addable, pieces_of
from vardi._rows.expressions import Expressions, terms_of
from vardi._rows.grouping import extremes_by_code, sums_by_code
from vardi._rows.lazy_values import EngineFunction
from vardi._rows.query_block import ROWS, QueryBlock
from vardi._rows.shares import evenly
from vardi._rows.units import Units, rows_a_value
from vardi._types import Floats, Integers
from vardi.biases import _nodes as nodes
from vardi.biases._compile import literal
from vardi.biases._values import numbered
from vardi.errors import EngineError

MANY = 16  # samples from which a local engine is asked for columns rather than for sums: see vardi._rows.batches
FRAMES = 8  # frames from which they are asked together; fewer are asked one by one, so that errors name the sample
KEY, OF_SAMPLE = f"{PREFIX}key", f"{PREFIX}of_sample"


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
        self._united: dict[tuple[EngineFunction, ...], Sequence[Part]] = {}

    def __len__(self) -> int:
        return int(self.sizes.sum())

    def of(self, parts: Sequence[Part]) -> Queries:
        """Return other frames with rows of the same samples."""
        return Queries(parts, self.sizes, self.dependence)

    def total(self, question: Question[Result], width: int = 0, *, biases: bool = True) -> Result:
        """Return the sum of the answers of all frames."""
        return reduce(add, (addable(self._answer(part, question, width)) for part in self._frames(question)))

    @cached_property
    def by_batches(self) -> bool:
        """Whether sums over all rows are made by NumPy: there are many samples, in engines that give columns."""
        return len(self.sizes) >= MANY and all(gives_batches(part.frame) for part in self.parts)

    def grouped(self, question: Question[ByKey], width: int = 0, most: int | None = None) -> Grouped:
        """Return counted sums, and extremes, of columns by a key, which the question returns first.

        If there are more than ``most`` groups, some of them are left in the engine: one more is enough to see that.
        """
        return self._grouped(self._frames(question), question, most)

    def all_grouped(self, questions: Sequence[Question[ByKey]], width: int = 0) -> list[Grouped]:
        """Return the answers to several questions by keys of their own."""
        return [self.grouped(question) for question in questions]

    def _grouped(self, parts: Sequence[Part], question: Question[ByKey], most: int | None = None) -> Grouped:
        limit = None if most is None else most + 1
        keys: list[Hashable] = []
        tables: list[Floats] = []
        bounds = 0
        for part in parts:
            block = QueryBlock(part, len(self.sizes))
            key, columns, *bounded = block.put(question)
            for piece in pieces_of(columns):
                block.sum(piece)
            bounds = sum(len(block.extremes(piece).low) for piece in bounded)
            terms = {f"{KEY}_{j}": expression(term) for j, term in enumerate(terms_of(key))}
            block.changes.append(with_columns(terms))
            groups, table = block.by_key([*terms], of_any_sample=True, most=limit)
            tables.append(table)
            keys += groups.keys([*terms])
        (place, labels), numbers = numbered(keys), np.concatenate(tables)
        sums, low, high = np.hsplit(numbers, [numbers.shape[1] - 2 * bounds, numbers.shape[1] - bounds])
        ends = extremes_by_code(place, low, high, len(labels))
        return Grouped(labels, np.hstack([sums_by_code(place, sums, len(labels)), *ends]))

    def frames_with(
        self, names: Sequence[str], question: Question[Floats], dropped: Sequence[Part] = ()
    ) -> dict[int | None, Any]:
        """Return the user's frames, still lazy, with further columns, which are zero for rows outside the fit.

        They are keyed by the position of their sample, or by None if one frame holds all. ``dropped`` are those of
        samples that were left out.
        """
        frames = {part.code: part.with_added(names, self.adding(part, names, question)) for part in self.parts}
        zeros = with_columns(dict.fromkeys(names, nw.lit(0.0)))
        return frames | {part.code: part.with_added(names, zeros) for part in dropped}

    def adding(self, part: Part, names: Sequence[str], question: Question[Floats]) -> Change:
        """Return the step that adds columns to a frame."""
        block = QueryBlock(part, len(self.sizes))
        terms = terms_of(block.put(question))
        columns = {name: expression(term) for name, term in zip(names, terms, strict=True)}
        return lambda frame: changed(frame, [*block.changes, with_columns(columns)])

    def spaced(self, question: Question[Floats], low: float, high: float, most: int) -> Floats:
        """Return numbers of a column that are evenly spaced among the distinct ones from low to high, in order."""
        with answering():
            parts = self._frames(question)
            frames = [self.adding(part, [KEY], question)(part.rows_as_asked).select(KEY) for part in parts]
            frame = frames[0] if len(frames) == 1 else stacked(frames)
            inside = frame.filter((nw.col(KEY) >= literal(low)) & (nw.col(KEY) <= literal(high))).unique()
            length = aggregated(inside, AggregateQuery((), {ROWS: LENGTH})).item()
            places = evenly(int(length), most).tolist()
            ranked = inside.with_row_index(ROWS, order_by=KEY)
            chosen = collected(ranked.filter(nw.col(ROWS).is_in(places)).select(KEY))
        return np.sort(chosen.get_column(KEY).to_numpy().astype(np.float64))

    def over_units(self, question: Question[Floats], m: int) -> tuple[Units, Floats]:
        """Return the units of rows that depend on one another, and counted sums of columns over these, (E, m)."""
        dependence, lengths = self.dependence, [rows_a_value(int(size)) for size in self.sizes]
        changes = [dependence.units(part, lengths) for part in self.parts]
        groups = self.by_group(lambda block: block.sum(question(block)), changes, dependence.keys)
        in_series = dependence.order is not None
        unit, _ = numbered((k, label) if in_series else label for k, label, *_ in groups.labels)
        cell, _ = numbered((k, *stratum) for k, _, *stratum in groups.labels)
        return Units(unit, cell, groups.source, groups.counts, len(self.sizes), in_series), groups.totals

    def over_clusters(self, question: Question[Floats], m: int) -> Floats:
        """Return counted sums of columns over clusters, of shape (clusters, m)."""
        column = Expressions([nw.col(str(self.dependence.clusters))])
        return self._grouped(self.parts, lambda block: (column, question(block))).sums

    def by_group(
        self, question: Question[Result], changes: Sequence[Change], keys: Sequence[str]
    ) -> GroupAnswers[Result]:
        """Return the answers to a question for groups of rows within samples, by columns that changes add.

        Engines give groups in any order, so they are sorted.
        """
        labels: list[tuple[Any, ...]] = []
        tables: list[Floats] = []
        for part, change in zip(self.parts, changes, strict=True):
            block = QueryBlock(part, len(self.sizes))
            block.changes.append(change)
            block.put(question)
            groups, table = block.by_key(keys)
            labels += zip(groups.source.tolist(), *(groups.keys([key]) for key in keys), strict=True)
            tables.append(np.column_stack([groups.numbers(ROWS), table]))
        order = sorted(range(len(labels)), key=lambda j: [*map(_in_order, labels[j])])
        numbers = np.concatenate(tables)[order]
        return GroupAnswers(question, block, [labels[j] for j in order], numbers[:, 0], numbers[:, 1:])

    def kinds_of(self, question: Question[Floats], most: int, *, biases: bool = True) -> int:
        """Return how many different numbers a column has, counting no further than beyond ``most``."""
        return len(self.grouped(lambda block: (question(block), []), most=most).keys)

    def _frames(self, question: Question[Any]) -> Sequence[Part]:
        """Return the frames to ask: one in place of many, with the functions that the question reads as columns."""
        if not can_unite(self.parts):
            return self.parts
        functions = self._functions_of(question)
        if not all(function.is_number for function in functions):
            return self.parts
        if functions not in self._united:
            self._united = {functions: united(self.parts, functions)}
        return self._united[functions]

    def _functions_of(self, question: Question[Any]) -> tuple[EngineFunction, ...]:
        """Return the functions that a question reads."""
        read = Batches(self.parts[0], self.sizes).read_by(question)
        return tuple(one for one in read if isinstance(one, EngineFunction))

    def _answer(self, part: Part, question: Question[Result], width: int) -> Result:
        if self.by_batches:
            return Batches(part, self.sizes).total(question, width)
        block = QueryBlock(part, len(self.sizes))
        block.put(question)
        return QueryBlock(part, len(self.sizes), block.answers()).put(question)


def _in_order(label: object) -> tuple[float, str]:
    return (label, "") if isinstance(label, int) else (0, str(label))


@dataclass(frozen=True, eq=False)
class GroupAnswers(Generic[Result]):
    """The answers to a question for groups of rows, each within one sample; those of a draw are sums of these.

    Attributes
    ----------
    question : callable
        The question.
    block : QueryBlock
        What it noted.
    labels : list of tuple
        The sample of each group, and its keys.
    counts : ndarray of shape (G,)
        How many rows are counted in it.
    totals : ndarray of shape (G, T)
        Its sums.
    """

    question: Question[Result]
    block: QueryBlock
    labels: list[tuple[Any, ...]]
    counts: Floats
    totals: Floats

    @property
    def source(self) -> Integers:
        """The sample of each group."""
        return np.array([sample for sample, *_ in self.labels])

    def drawn(self, times: Floats) -> Result:
        """Return the answer with group g counted times_g times."""
        answers = self.block.split((times @ self.totals)[None], np.zeros(1, np.int64))
        return QueryBlock(self.block.part, self.block.K, answers).put(self.question)


def united(parts: Sequence[Part], functions: Sequence[EngineFunction] = ()) -> Sequence[Part]:
    """Return the frames of many samples as one frame of numbers with a label; as they are where they cannot be joined.

    A query for each of K frames with terms for each pair of samples is written and planned in a time that grows with
    the cube of K; one query of all frames in a time that grows with its square. Columns of the user are left behind,
    apart from functions of them, each under a name of its own, and from those that formulas read.
    """
    if not can_unite(parts):
        return parts
    schemas = [schema_of(part.frame, part.name) for part in parts]
    codes: dict[Hashable, int] = {code: code for part in parts for code in part.codes.values()}
    formulas = parts[0].formulas if all(part.formulas == parts[0].formulas for part in parts) else {}
    read = {name for formula in formulas.values() for name in nodes.columns(formula)}
    names = [
        name
        for name in schemas[0]
        if name in read
        or (name.startswith(PREFIX) and all(name in schema and schema[name].is_numeric() for schema in schemas))
    ]
    computed = {function: f"{PREFIX}joined_{j}" for j, function in enumerate(functions)}

    def numbers(part: Part) -> LazyFrame:
        values = {name: nw.col(name) for name in names} | {name: function(part) for function, name in computed.items()}
        columns = [value.cast(nw.Float64).alias(name) for name, value in values.items()]
        return part.rows_as_asked.select(*columns, nw.lit(part.code, nw.Int64).alias(OF_SAMPLE))

    try:
        with answering():
            whole = stacked([numbers(part) for part in parts])
    except EngineError:  # frames of two connections, say, which no query reads together
        return parts
    return (Part(whole, OF_SAMPLE, codes, parts[0].counted, formulas=formulas, computed=computed),)


def can_unite(parts: Sequence[Part]) -> bool:
    """Return whether there are many frames of one engine, each with the rows of one sample."""
    if len(parts) < FRAMES or any(part.label is not None for part in parts):
        return False
    return len({(part.counted, part.frame.implementation) for part in parts}) == 1
