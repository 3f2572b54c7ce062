"""What a fit of a study would read and query, from its text and the files' metadata: no row is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import narwhals as nw

from vardi._fit.capabilities import PASSES
from vardi._inputs.engine.survey import conditions_in
from vardi.biases import ExpressionBias, ParametricBias, as_bias
from vardi.biases._expressions.compile import NarwhalsTarget
from vardi.study._data import Data
from vardi.study._engines import package, reading, schema
from vardi.study._study import Study

Columns: TypeAlias = tuple[str, ...]
Sizes: TypeAlias = Mapping[str, int] | int | None
"""Bytes of a file: by column where it is Parquet, as a whole where it is text, None where only the engine knows."""


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
    """

    what: str
    passes: tuple[int, int]
    columns: Columns
    size: int | None


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
        return _summed(None if query.size is None else query.passes[1] * query.size for query in self.queries)


def plan(study: Study) -> Plan:
    """Return what a fit of a study would read and query, without reading a row.

    Parameters
    ----------
    study : Study
        From `vardi.study.read`.

    Returns
    -------
    Plan
        The queries in their order, with passes, columns and bytes. Biases with few distinct values take fewer passes;
        if something is wrong, more are made to find out what.
    """
    contents = [_contents(data) for data in study.data]
    queries = []
    for what, columns in _steps(study):
        size = _summed(_read(sizes, columns) for _, sizes in contents)
        queries.append(Query(what, PASSES[what], columns, size))
    return Plan(study.engine, len(study.data), _summed(rows for rows, _ in contents), tuple(queries))


def _steps(study: Study) -> list[tuple[str, Columns]]:
    """Return the steps of a fit in their order, and what they read."""
    schemas = [schema(data, study.engine) for data in study.data]
    if study.engine == "memory":
        return [("read the files into memory", _unique(name for one in schemas for name in one))]
    biases = [as_bias(text) for text in study.biases.values()]
    keys = [key for key in study.known if key not in study.biases]
    margins = [key for key in keys if key in schemas[0]]
    read = [*biases, *(as_bias(key) for key in keys if key not in margins)]
    counts = [data.counts for data in study.data]
    columns = _unique((*(name for bias in read for name in bias.columns), *margins, study.label, *counts))
    families = [bias.family for bias in biases if isinstance(bias, ParametricBias)]
    target = NarwhalsTarget(nw.Schema(schemas[0]))
    parts = [part for bias in read for part in getattr(bias, "factors", (bias,))]
    are_conditions = (
        isinstance(part, ExpressionBias) and conditions_in(part.node, target) is not None for part in parts
    )
    steps: list[str] = []
    if all(are_conditions) and all(isinstance(study.known[key], Mapping) for key in margins):
        steps.append("check, and count the rows by conditions")
    else:
        steps += ["find the categories" for family in families for _ in getattr(family, "groups", ())]
        steps += ["check", "draw some rows to start from"]
        if any(getattr(family, "terms", ()) for family in families):
            steps.append("scale the columns of parameters")
        joint = families or study.known
        steps += ["see which samples overlap", "solve with known values or parameters"] if joint else ["solve"]
        if study.known:
            steps += ["solve without known values", "compare with known values"]
    unlabelled = tuple(name for name in columns if name != study.label)
    asked = [(step, unlabelled if step == "solve" else columns) for step in steps]
    if study.engine == "polars" and any(data.format == "csv" for data in study.data):
        asked.insert(0, ("check that every line is complete", ()))
    if study.variables:
        named = (name for text in study.variables for name in as_bias(text).columns)
        asked.append(("means of the variables", _unique((*columns, *named))))
    return asked


def _contents(data: Data) -> tuple[int | None, Sizes]:
    """Return the number of rows, if the files record it, and how many bytes they hold."""
    if data.format == "duckdb":
        return None, None
    if data.format != "parquet":
        return None, sum(path.stat().st_size for path in data.files)
    parquet, rows, sizes = package("pyarrow.parquet"), 0, Counter[str]()
    with reading(data):
        for path in data.files:
            about = parquet.read_metadata(path)
            rows += about.num_rows
            for group in map(about.row_group, range(about.num_row_groups)):
                for column in map(group.column, range(group.num_columns)):
                    sizes[column.path_in_schema.split(".")[0]] += column.total_compressed_size
    return rows, sizes


def _read(sizes: Sizes, columns: Columns) -> int | None:
    """Return how many bytes a pass over some columns reads; a text file is read whole."""
    return sum(sizes.get(name, 0) for name in columns) if isinstance(sizes, Mapping) else sizes


def _summed(numbers: Iterable[int | None]) -> int | None:
    """Return a sum; None if a term is unknown."""
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


def _unique(names: Iterable[str | None]) -> Columns:
    return tuple(dict.fromkeys(name for name in names if name is not None))
