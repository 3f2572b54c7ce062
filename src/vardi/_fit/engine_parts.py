"""What accounts need of rows in an engine: see :class:`vardi._fit.parts.MemoryParts`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from vardi._estimate.cdf import Band, DebiasedCdf
from vardi._facts.account import Given
from vardi._facts.choice import IDENTIFIER, MISSING, MOST_TEXT, by_reason, most_frequent, note_on
from vardi._facts.columns import Variable
from vardi._facts.fingerprint import Fingerprint
from vardi._fit.parts import Item, MemoryParts, Result
from vardi._inputs.engine.distinct import rows_by_value
from vardi._inputs.frames.functions import is_function
from vardi._inputs.pool import Name
from vardi._rows.measure import as_functions
from vardi._rows.shares import Shares, shares_of
from vardi._rows.weights import WeightTable, values_in_bins, weights_in_bins
from vardi.biases._expressions import nodes
from vardi.errors._refusals import needs_rows
from vardi.errors._texts import SHOWN

if TYPE_CHECKING:
    from vardi._fit.solved import Solved
    from vardi._fit.weighted import WeightedSample

SLOPES = 400  # biases times columns up to which the effect of wrong biases on means is computed, by one query


class EngineParts(MemoryParts):
    """Rows in an engine, which returns sums only; the distinct rows in memory answer what they can."""

    def __init__(self, fit: WeightedSample) -> None:
        super().__init__(fit)
        self._parts = fit.solved.engine.frames.parts

    @property
    def _uncovered(self) -> Mapping[str, str]:
        return {}  # it takes a pass to find out

    def given(self) -> Given:
        pool = self._solved.engine.pool
        return replace(
            super().given(),
            is_counted=any(part.counted for part in self._parts),
            is_labelled=self._parts[0].label is not None,
            distinct=len(self._rows) if self._solved.prepared.in_memory else None,
            left_out={pool.names[k] for part in pool.dropped for k in part.codes.values()},
            costs=0,
            unasked=self._solved.engine.columns["numeric"],
        )

    def fingerprint(self, columns: Sequence[str]) -> Fingerprint:
        return Fingerprint()  # it would bring every row here

    def weight_table(self) -> WeightTable:
        return weights_in_bins(self._solved.tangent.measure, self._solved.engine.rows_asked)

    def largest_weights(self, most: int) -> list[tuple[int, Name, float]]:
        return []

    def column(self, name: str, values: Any) -> Variable:
        if not is_function(values):
            raise needs_rows("An expectation of values that are not columns")
        solved = self._solved.recorded(values)
        return Variable(name, values, () if solved.is_whole else solved.states)

    def choose(self) -> tuple[tuple[Variable, ...], str]:
        """Query which columns have gaps, and which samples have recorded these."""
        data, uncovered = self._solved.engine, self._solved.uncovered
        some = data.without_gaps([name for name in data.of_some if name not in uncovered])
        every = dict.fromkeys((*data.with_gaps, *data.of_some))
        gaps = [name for name in every if name not in some and name not in uncovered]
        numeric = (*data.numeric_columns, *(name for name in data.columns["numeric"] if name in some))
        conditions = [name for name in data.columns["conditions"] if name not in (*gaps, *uncovered)]
        categories, apart, many, further = self._categories()
        left_out = {
            "missing or infinite values": gaps,
            "too many distinct texts": many,
            "more text columns than can be shown; write a condition in variables=": further,
            "text of some samples: write a condition in variables=": apart,
            "of different types in different samples": [f"{name}: {where}" for name, where in data.mixed.items()],
            **by_reason(uncovered),
        }
        columns = [
            Variable(name, name, data.of_some[name] if name in some else ()) for name in (*numeric[:SHOWN], *conditions)
        ]
        return (*columns, *categories), note_on(numeric, left_out)

    def _categories(self) -> tuple[list[Variable], list[str], list[str], list[str]]:
        """Query the most frequent categories, and return them with the columns left out.

        Left out are columns that not all frames have, columns with too many distinct texts, and columns beyond the
        number shown.
        """
        texts = [name for name in self._solved.engine.columns["texts"] if name != self._parts[0].label]
        whole = [name for name in texts if all(name in part.schema for part in self._parts)]
        asked = {name: self._rows_by_text(name) for name in whole[: 2 * MOST_TEXT]}
        found = {name: rows for name, rows in asked.items() if rows}
        shown = sorted(found, key=lambda name: len(found[name]))[:MOST_TEXT]
        columns = [column for name in shown for column in _conditions(name, found[name])]
        apart, many = [name for name in texts if name not in whole], [name for name in asked if name not in found]
        return columns, apart, many, [name for name in whole if name not in (*many, *shown)]

    def _rows_by_text(self, name: str) -> Mapping[str | None, float] | None:
        """Query how many rows have each text, or None for missing; None if it names units rather than categories."""
        text = nw.col(name).cast(nw.String)
        return rows_by_value(
            [part.map(lambda frame: frame.with_columns(text)) for part in self._parts], name, IDENTIFIER
        )

    @property
    def _most_slopes(self) -> int:
        return SLOPES // len(self._pool.names)

    def _functions_of(
        self, solved: Solved, columns: Sequence[Variable]
    ) -> Iterator[tuple[list[Variable], Any, list[int]]]:
        """Yield all columns together: a query takes as long for several as for one."""
        if columns:
            yield list(columns), solved.data.matrix([column.values for column in columns]), [0] * len(columns)

    def each(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        return [function(item) for item in items]  # an engine has threads of its own, and may take one query at a time

    def shares(self, column: Variable, centre: float, scale: float) -> Shares:
        solved = self._solved.of(column.among)
        functions = as_functions(solved.data.functions(column.values))
        x, *masses = values_in_bins(solved.tangent.measure, solved.engine.rows_asked, functions, centre, scale)
        return shares_of(x, masses)

    def band(self, column: Variable, level: float = 0.95, shares: Shares | None = None) -> Band | None:
        solved = self._solved.of(column.among)
        return DebiasedCdf(solved.tangent, solved.data.steps(solved.tangent.measure, column.values)).band(level)


def _conditions(name: str, rows: Mapping[str | None, float]) -> list[Variable]:
    """Return the most frequent categories of a column as conditions, and all others as one."""
    texts = sorted(rows, key=lambda text: (text is None, text))
    frequent = most_frequent(np.array([rows[text] for text in texts]))
    shown = [texts[k] for k in frequent.tolist()]
    column = nodes.Column(name)
    known = nodes.Not(nodes.IsMissing(column))
    named = tuple(nodes.Constant(text) for text in shown if text is not None)
    own: dict[str, nodes.Node] = {
        MISSING if text is None else text: nodes.IsMissing(column)
        if text is None
        else nodes.And((known, nodes.IsIn(column, (nodes.Constant(text),))))
        for text in shown
    }
    if len(texts) > len(shown):
        others: nodes.Node = nodes.Not(nodes.And((known, nodes.IsIn(column, named))))
        others = nodes.And((known, others)) if None in shown else others
        own[f"{len(texts) - len(shown)} others"] = others
    return [Variable(f"{name}: {kind}", nodes.to_text(node), category_of=name) for kind, node in own.items()]
