"""Rows in a local engine that are read in batches: the engine gives columns, and NumPy the sums of a question.

An engine takes a time for each sum that it is asked for, and of K samples a gram has K (K + 1) / 2. A matrix product
takes a small part of that: with 30 samples a pass that sums products takes Polars less than half of the time that the
engine's own sums take, DuckDB a seventh, and with 12 samples Polars as long. So with many samples a question is put
to arrays: to a batch of rows at a time, of which the few columns that it reads are in memory.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import narwhals as nw
import numpy as np

from vardi._inputs.dependence import Dependence
from vardi._inputs.engines import in_batches
from vardi._inputs.lazy_part import COUNT, OMEGA, PREFIX, Part, expression
from vardi._machine import Scratch
from vardi._rows.arrays import ArrayBlock, Arrays
from vardi._rows.choose import MODERATE
from vardi._rows.contract import Block, Question, Result, addable
from vardi._rows.dense import Dense
from vardi._rows.lazy_values import EngineFunction
from vardi._rows.stored import in_threads
from vardi._types import Floats, Integers
from vardi.biases._compile import NumpyTarget, compile_node
from vardi.biases._nodes import columns
from vardi.biases._values import once

if TYPE_CHECKING:
    from vardi._rows.stored import Block as Read

NUMBERS = (
    2**20
)  # in a batch, 8 MB: it stays in the cache, and to compile its formulas costs little beside computing them
SAMPLE = f"{PREFIX}sample"

#: A function of the rows, or the name of a column.
ColumnKey: TypeAlias = EngineFunction | str


class Batches:
    """The rows of a frame.

    Parameters
    ----------
    part : Part
        The frame.
    sizes : ndarray of shape (K,)
        How many rows the rows of each sample stand for.
    """

    def __init__(self, part: Part, sizes: Floats) -> None:
        self.part, self.sizes = part, sizes
        self._biases = [OMEGA.format(k) for k in range(len(sizes))]

    def total(self, question: Question[Result], width: int = 0) -> Result:
        """Return the sum of the answers of all batches; ``width`` is how many columns it computes, besides biases."""
        counts = [COUNT] if self.part.counted else []
        places = {one: place for place, one in enumerate([*self._biases, *self.read_by(question), *counts])}
        formulas = {name: formula for name, formula in self.part.formulas.items() if name in places}
        raw = columns(*formulas.values())
        read = dict.fromkeys([*raw, *(one for one in places if one not in formulas)])
        scratch = Scratch()

        def answer(_: slice, rows: Floats) -> Result:
            batch = scratch("batch", (len(places) * len(rows),)).reshape(len(places), -1)
            arrays = dict(zip(read, rows.T, strict=True))
            target = NumpyTarget({name: arrays[name] for name in raw})
            for one, place in places.items():
                batch[place] = compile_node(formulas[one], target).value if one in formulas else arrays[one]
            found: Result = addable(BatchBlock(batch.T, places, self.sizes, scratch).put(question))
            return found

        batches = self._batches(list(read), max(NUMBERS // len(places), 1))
        return functools.reduce(operator.add, in_threads(answer, batches, len(read) + width))

    def read_by(self, question: Question[Any]) -> tuple[ColumnKey, ...]:
        """Return what a question reads of the rows beside their biases and counts: it is put to a row of ones."""
        K = len(self.sizes)
        block = BatchBlock(np.append(np.ones(K), 0.0)[None], {SAMPLE: K}, self.sizes, Scratch())
        block.put(question)
        return tuple(block.read)

    def _batches(self, read: Sequence[ColumnKey], most: int) -> Iterator[Read]:
        """Yield batches of so many rows at most, each column of them in one piece, with the places of their rows."""
        terms = [self._expression(one).cast(nw.Float64).alias(f"{PREFIX}{j}") for j, one in enumerate(read)]
        start = 0
        for table in in_batches(self.part.rows_as_asked.select(*terms), most, self.part.name):
            yield slice(start, start + len(table)), np.array([column.to_numpy() for column in table.iter_columns()]).T
            start += len(table)

    def _expression(self, column: ColumnKey) -> nw.Expr:
        if column == SAMPLE:
            return expression(self.part.of_sample(range(len(self.sizes))))
        return nw.col(column) if isinstance(column, str) else column(self.part)


class BatchBlock(ArrayBlock):
    """Some rows of a batch.

    Parameters
    ----------
    batch : ndarray of shape (rows, c)
        Their columns, of which the first K are the biases.
    places : mapping
        The place of each column; 0 by default.
    sizes : ndarray of shape (K,)
        How many rows the rows of each sample stand for.
    scratch : Scratch
        Memory to work in.
    """

    def __init__(self, batch: Floats, places: Mapping[ColumnKey, int], sizes: Floats, scratch: Scratch) -> None:
        self._batch, self._places = batch, places
        self.read: dict[ColumnKey, None] = {}
        omega, counts = batch[:, : len(sizes)], batch[:, places[COUNT]] if COUNT in places else once(len(batch))
        mass, nowhere = omega.sum(axis=1), np.zeros(len(batch), np.int64)
        rows = Dense(omega, nowhere, counts, moderate=bool(MODERATE[0] <= mass.min() and mass.max() <= MODERATE[1]))
        rows.sizes = sizes  # a batch need not have rows of every sample
        arrays = Arrays(rows, nowhere, counts, Dependence.none(len(sizes)))
        super().__init__(arrays, slice(0, len(batch)), None, scratch)

    def put(self, question: Question[Result]) -> Result:
        """Return what a question returns."""
        with np.errstate(all="ignore"):  # as in an engine: our checks find what is not finite
            return question(cast("Block", self))

    @cached_property
    def source(self) -> Integers:
        """The sample of each row."""
        return self.columns([SAMPLE])[:, 0].astype(np.int64)

    def columns(self, values: Sequence[ColumnKey]) -> Floats:
        self.read |= dict.fromkeys(values)
        return self._batch[:, [self._places.get(one, 0) for one in values]]

    solved = columns

    def omega(self, k: int) -> Floats:
        return self._batch[:, [k]]

    def of_sample(self, numbers: Floats) -> Floats:
        if (numbers == numbers[0]).all():  # then samples need not be told apart
            return np.broadcast_to(numbers[0], (len(self), numbers.shape[1]))
        return super().of_sample(numbers)
