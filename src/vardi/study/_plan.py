"""What a fit of a study would read and query, from its text and the files' metadata: no row is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import narwhals as nw

from vardi._inputs.engine.survey import conditions_in
from vardi._rows.engine.subsample import NUMBERS, ROWS
from vardi.biases import Bias, ExpressionBias, ParametricBias, as_bias
from vardi.biases._expressions.compile import NarwhalsTarget
from vardi.biases._expressions.nodes import Constant
from vardi.study._data import Data
from vardi.study._engines import package, reading, schema
from vardi.study._study import Study

#: The purpose of a query, how often it runs, what it reads, and how many numbers come back.
_Asked: TypeAlias = tuple[str, tuple[int, int], tuple[str, ...], int | None]

ONCE = (1, 1)
SOLVE = (2, 4)  # passes of Newton's method over all rows, starting from the solution of a subsample
JOINT = (2, 6)  # the same with known values or parameters
TESTED = 4  # queries that compare known values with the estimates from the samples
MEANS = 3  # queries for estimates, for any number of columns at once


@dataclass(frozen=True)
class Query:
    """One kind of query, which runs on each frame.

    Attributes
    ----------
    what : str
        Its purpose.
    passes : tuple of int
        How often it runs, at least and at most.
    columns : tuple of str
        What it reads.
    size : int or None
        Bytes of the files that one pass reads; None if only the engine knows.
    numbers : int or None
        Numbers that come back from one pass, at most; None where that depends on the rows.
    """

    what: str
    passes: tuple[int, int]
    columns: tuple[str, ...]
    size: int | None
    numbers: int | None


@dataclass(frozen=True)
class Plan:
    """The queries of a fit.

    Attributes
    ----------
    engine : str
        What computes on the rows.
    frames : int
        How many frames each pass queries.
    rows : int or None
        Rows of all files; None if that is unknown without reading them.
    queries : tuple of Query
        In their order.
    """

    engine: str
    frames: int
    rows: int | None
    queries: tuple[Query, ...]

    @property
    def passes(self) -> tuple[int, int]:
        """Passes over the rows in all, at least and at most."""
        least, most = (sum(query.passes[end] for query in self.queries) for end in (0, 1))
        return least, most

    @property
    def size(self) -> int | None:
        """Bytes that are read in all, at most; None where only the engine knows."""
        sizes = [query.size for query in self.queries]
        if any(size is None for size in sizes):
            return None
        return sum(query.passes[1] * (query.size or 0) for query in self.queries)


def plan(study: Study) -> Plan:
    """Return what a fit of a study would read and query, without reading a row.

    Parameters
    ----------
    study : Study
        From `vardi.study.read`.

    Returns
    -------
    Plan
        The queries in their order, with passes, columns, bytes and how many numbers come back. Biases with few
        distinct values take fewer passes; if something is wrong, more are made to find out what.
    """
    sizes = [_sizes(data) for data in study.data]
    rows = None if any(one.rows is None for one in sizes) else sum(one.rows or 0 for one in sizes)
    kinds = [schema(data, study.engine) for data in study.data]
    reads = _Reads.of(study, kinds[0])
    every = tuple(dict.fromkeys(name for one in kinds for name in one))
    asked = [("read the files into memory", ONCE, every, None)] if study.engine == "memory" else _asked(study, reads)
    queries = [Query(what, passes, columns, _read(sizes, columns), numbers) for what, passes, columns, numbers in asked]
    return Plan(study.engine, len(study.data), rows, tuple(queries))


def _asked(study: Study, reads: _Reads) -> list[_Asked]:
    """Return the queries to an engine: purpose, how often, which columns, and how many numbers come back."""
    frames = len(study.data)
    labels = len(study.biases) if study.label is not None else frames
    columns, K = reads.columns, len(study.biases)
    asked: list[_Asked] = []
    if study.engine == "polars" and any(data.format == "csv" for data in study.data):
        asked.append(("check that every line is complete", ONCE, (), 0))
    if reads.categories:
        asked.append(("find the categories", (reads.categories, reads.categories), columns, None))
    if reads.conditions is not None:
        groups = labels * 2 ** min(reads.conditions, 30)
        asked.append(("check, and count the rows by conditions", ONCE, columns, groups * 3))
    else:
        asked.append(("check", ONCE, columns, labels * (2 * K + 5) + labels * 3 * reads.others))
        width = K + reads.others
        asked.append(("draw some rows to start from", ONCE, columns, min(ROWS, NUMBERS // width) * (width + 2)))
        if reads.features:
            asked.append(("scale the columns of parameters", ONCE, columns, frames * 2 * reads.features))
        summed = tuple(name for name in columns if name != study.label or reads.others)
        if reads.others:
            asked.append(("see which samples overlap", ONCE, columns, frames * K * (K + 1) // 2))
        asked.append(("solve", JOINT if reads.others else SOLVE, summed, frames * reads.sums))
        if study.known:
            own = K - 1 + reads.features
            asked.append(("solve without known values", JOINT, columns, frames * (own + own * (own + 1) // 2 + 2)))
            asked.append(("compare with known values", (TESTED, TESTED), columns, labels * (reads.others + 4) ** 2))
    if study.variables:
        m = len(study.variables)
        read = tuple(dict.fromkeys((*columns, *(name for text in study.variables for name in _columns(text)))))
        asked.append(("means of the variables", (MEANS, MEANS), read, labels * m * (m + 7)))
    return asked


@dataclass(frozen=True)
class _Reads:
    """What a fit reads of each row.

    Attributes
    ----------
    columns : tuple of str
        The user's columns.
    conditions : int or None
        How many conditions the expressions consist of; None if they read numbers.
    features, others : int
        How many columns have a parameter, and how many columns there are besides the biases.
    categories : int
        How many groups of categories have parameters; how many parameters only the rows can show.
    sums : int
        How many sums a step of the solver asks for.
    """

    columns: tuple[str, ...]
    conditions: int | None
    features: int
    others: int
    categories: int
    sums: int

    @classmethod
    def of(cls, study: Study, kinds: Mapping[str, Any]) -> _Reads:
        """Count what the expressions of a study read."""
        biases = [as_bias(text) for text in study.biases.values()]
        target = NarwhalsTarget(nw.Schema(kinds))
        known = [as_bias(key) for key in study.known if key not in study.biases and key not in kinds]
        margins = [key for key in study.known if key not in study.biases and key in kinds]
        families = [bias for bias in biases if isinstance(bias, ParametricBias)]
        features = sum(len(getattr(bias.family, "terms", ())) for bias in families)
        read = [name for bias in (*biases, *known) for name in bias.columns]
        counts = [data.counts for data in study.data]
        columns = tuple(dict.fromkeys(name for name in (*read, *margins, study.label, *counts) if name is not None))
        parts = [part for bias in (*biases, *known) for part in _parts(bias)]
        below = [conditions_in(part.node, target) if isinstance(part, ExpressionBias) else None for part in parts]
        found = None if families or None in below else {node for one in below if one is not None for node in one}
        if any(not isinstance(study.known[key], Mapping) for key in margins):
            found = None
        moments = sum(len(value) - 1 if isinstance(value, Mapping) else 1 for value in study.known.values())
        a = len(biases) - 1 + features + moments
        even = any(isinstance(part, ExpressionBias) and isinstance(part.node, Constant) for part in parts)
        plain = not moments and not families
        sums = a + a * (a + 1) // 2 + (0 if plain and even else 1 + a if plain else 2)
        categories = sum(len(getattr(bias.family, "groups", ())) for bias in families)
        conditions = None if found is None else len(found)
        return cls(columns, conditions, features, features + moments, categories, sums)


def _parts(bias: Bias) -> tuple[Bias, ...]:
    return tuple(getattr(bias, "factors", (bias,)))


def _columns(text: str) -> tuple[str, ...]:
    return tuple(as_bias(text).columns)


@dataclass(frozen=True)
class _Sizes:
    """Bytes of the data by column, and number of rows, where the files record them."""

    whole: int | None
    by_column: Mapping[str, int] | None
    rows: int | None


def _sizes(data: Data) -> _Sizes:
    if data.format == "duckdb":
        return _Sizes(None, None, None)
    if data.format != "parquet":
        return _Sizes(sum(path.stat().st_size for path in data.files), None, None)
    parquet = package("pyarrow.parquet")
    by_column: dict[str, int] = {}
    rows = 0
    with reading(data):
        for path in data.files:
            about = parquet.read_metadata(path)
            rows += about.num_rows
            for group in range(about.num_row_groups):
                for place in range(about.num_columns):
                    column = about.row_group(group).column(place)
                    name = column.path_in_schema.split(".")[0]
                    by_column[name] = by_column.get(name, 0) + column.total_compressed_size
    return _Sizes(None, by_column, rows)


def _read(sizes: Sequence[_Sizes], columns: Sequence[str]) -> int | None:
    """Return how many bytes a pass over the given columns reads; a text file is read whole."""
    total = 0
    for one in sizes:
        if one.by_column is not None:
            total += sum(one.by_column.get(name, 0) for name in columns)
        elif one.whole is not None:
            total += one.whole
        else:
            return None
    return total
