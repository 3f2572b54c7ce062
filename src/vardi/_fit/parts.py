"""What accounts need of the holder of a fit's rows: in memory, and in an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from vardi._estimate.cdf import Band, DebiasedCdf, Steps
from vardi._estimate.sensitivity.question import Errors
from vardi._facts.account import Given
from vardi._facts.choice import IDENTIFIER, MISSING, MOST_TEXT, by_reason, choose, most_frequent, note_on
from vardi._facts.columns import ColumnFacts, Variable, by_samples, exponent_of, facts_of
from vardi._inputs.given import is_function
from vardi._inputs.pool import Name, Pool
from vardi._machine import at_once
from vardi._rows.measure import as_functions
from vardi._rows.shares import Shares, shares_of
from vardi._rows.weights import WeightSums, WeightTable, values_in_bins, weights_by_sample, weights_in_bins
from vardi.biases import _nodes as nodes
from vardi.errors._refusals import needs_rows
from vardi.errors._texts import SHOWN

Item = TypeVar("Item")
Result = TypeVar("Result")

if TYPE_CHECKING:
    from vardi._fit.solved import Solved
    from vardi._fit.weighted import WeightedSample


class MemoryParts:
    """What accounts need of rows in memory, or in blocks of a matrix.

    Each question can be answered by sums over rows: an engine needs one query for each, and no row leaves it.
    """

    def __init__(self, fit: WeightedSample) -> None:
        self._fit, self._solved = fit, fit.solved
        self.pool: Pool = fit.solved.pool

    @property
    def _uncovered(self) -> Mapping[str, str]:
        return self._solved.uncovered

    def given(self) -> Given:
        """Return what the fit was given."""
        pool, rows = self.pool, self._solved.rows
        with_rows = np.bincount(pool.source, pool.counts, minlength=len(pool.names)) > 0
        return Given(
            biases=pool.biases,
            log=bool(rows.log),
            is_counted=pool.is_counted,
            is_labelled=len(pool.frames) == 1 and with_rows.sum() > 1,
            distinct=None if rows.inverse is None else len(rows),
            left_out={pool.names[k] for k in np.flatnonzero(with_rows & (rows.sizes == 0)).tolist()},
            costs=len(pool) * len(pool.names),
            gaps=self._solved.data.gaps,
            mixed=self._solved.data.mixed,
            uncovered=self._uncovered,
            depends=self._solved.data.dependence.words,
            named=self._solved.data.dependence.named,
        )

    def weight_sums(self) -> WeightSums:
        """Return sums of weights by bias."""
        return weights_by_sample(self._solved.tangent.measure)

    def weight_table(self) -> WeightTable:
        """Return the distribution of the weights."""
        rows = self._solved.rows_in_memory
        return WeightTable(self._solved.tangent.measure.row_weights, rows.source, rows.counts)

    def largest_weights(self, most: int) -> list[tuple[int, Name, float]]:
        """Return position in the pool, sample and weight of the heaviest rows; none if rows have no position."""
        weights, pool = self._solved.memory.row_weights(self._solved.tangent.measure), self.pool
        least = np.partition(weights, -most)[-most] if most < len(weights) else -np.inf
        large = np.flatnonzero(weights >= least)
        order = large[np.argsort(-weights[large], kind="stable")][:most]
        return [(row, pool.names[pool.source[row]], float(weights[row])) for row in order.tolist()]

    def column(self, name: str, values: Any) -> Variable:
        """Return a column, an expression or values as a variable; raise if it has no mean."""
        solved = self._solved.recorded(values)
        return Variable(name, solved.memory.values(values), () if solved.data.is_whole else solved.data.states)

    def choose(self) -> tuple[tuple[Variable, ...], str]:
        """Return the columns that a report shows, and a note on those left out."""
        data, uncovered = self._solved.memory, self._solved.uncovered
        numeric = (*data.numeric_columns, *self._solved.numeric_of_some)
        return choose(self.pool, data.kept, data.of_some, uncovered, numeric, lambda name: self.column(name, name))

    def describe(
        self, columns: Sequence[Variable], *, gains: bool = False, slopes: bool = False
    ) -> tuple[ColumnFacts, ...]:
        """Return columns' means before and after, what their errors rest on, and how far wrong biases move them."""
        found: dict[int, ColumnFacts] = {}
        for states, places in by_samples(columns).items():
            solved = self._solved.of(states)
            laws = solved.bias_functions() if gains and solved.data.is_whole else None
            most = self._most_slopes() if slopes and solved.data.is_whole else 0
            for own, functions, exponents in self._functions_of(solved, [columns[j] for j in places]):
                moved = None
                if most > 0 and not own[0].category_of:  # every bias may be wrong, independently of the others
                    moved = partial(solved.slopes, errors=Errors.of(self._solved, None, "free"))
                most -= len(own)
                facts = facts_of(own, self._fit.sizes, solved.tangent, functions, exponents, laws, moved)
                found |= dict(zip([places.pop(0) for _ in own], facts, strict=True))
        return tuple(found[j] for j in range(len(columns)))

    def _most_slopes(self, most: int = 400_000_000) -> int:
        """Return for how many columns the effect of wrong biases is computed, times rows and samples at most this."""
        return most // (len(self.pool) * len(self.pool.names))

    def _functions_of(
        self, solved: Solved, columns: Sequence[Variable]
    ) -> Iterator[tuple[list[Variable], Any, list[int]]]:
        """Yield columns, their values, and the powers of two by which these are divided: each alone, within caches."""
        for column in columns:
            exponent = exponent_of(column.values)
            yield [column], (np.ldexp(column.values, -exponent) if exponent else column.values)[:, None], [exponent]

    def each(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Apply a function that asks the rows to each item: several at a time where their holder can be asked so."""
        return at_once(function, items, len(self.pool))

    def shares(self, column: Variable, centre: float, scale: float) -> Shares:
        """Return the shares of pool and population up to values of a column; an engine has its bins about the centre.

        Between its largest values of bins an engine does not tell them.
        """
        measure = self._solved.of(column.among).tangent.measure
        rows = slice(None) if measure.inside is None else measure.inside
        counts = measure.counts[rows]
        return shares_of(column.values[rows], [counts, counts * measure.weights[rows]])

    def band(self, column: Variable, level: float = 0.95, shares: Shares | None = None) -> Band | None:
        """Return the simultaneous band of the distribution function; None if an engine does not provide it.

        Rows in memory are not read again for ``shares`` that are known already.
        """
        tangent = self._solved.of(column.among).tangent
        own = None if shares is None else shares.of_measure(1)  # the population
        return DebiasedCdf(tangent, Steps.in_memory(tangent.measure, column.values, shares=own)).band(level)


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
            distinct=len(self._solved.rows) if self._solved.prepared.in_memory else None,
            left_out={pool.names[k] for part in pool.dropped for k in part.codes.values()},
            costs=0,
            unasked=self._solved.engine.columns["numeric"],
        )

    def weight_table(self) -> WeightTable:
        return weights_in_bins(self._solved.tangent.measure, self._solved.engine.rows_asked)

    def largest_weights(self, most: int) -> list[tuple[int, Name, float]]:
        return []

    def column(self, name: str, values: Any) -> Variable:
        if not is_function(values):
            raise needs_rows("An expectation of values that are not columns")
        solved = self._solved.recorded(values)
        return Variable(name, values, () if solved.data.is_whole else solved.data.states)

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
        asked = {name: self._solved.engine.rows_by_text(name, IDENTIFIER) for name in whole[: 2 * MOST_TEXT]}
        found = {name: rows for name, rows in asked.items() if rows}
        shown = sorted(found, key=lambda name: len(found[name]))[:MOST_TEXT]
        columns = [column for name in shown for column in _conditions(name, found[name])]
        apart, many = [name for name in texts if name not in whole], [name for name in asked if name not in found]
        return columns, apart, many, [name for name in whole if name not in (*many, *shown)]

    def _most_slopes(self, most: int = 400) -> int:
        """Return for how many columns the effect of wrong biases is queried, times samples at most this."""
        return most // len(self.pool.names)

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
        else nodes.junction("and", [known, nodes.IsIn(column, (nodes.Constant(text),))])
        for text in shown
    }
    if len(texts) > len(shown):
        others: nodes.Node = nodes.Not(nodes.junction("and", [known, nodes.IsIn(column, named)]))
        others = nodes.junction("and", [known, others]) if None in shown else others
        own[f"{len(texts) - len(shown)} others"] = others
    return [Variable(f"{name}: {kind}", nodes.to_text(node), category_of=name) for kind, node in own.items()]
