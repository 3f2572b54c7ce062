"""What a fit of a study would read and query, from its text and the files' metadata: no row is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import narwhals as nw

from vardi._fit.capabilities import PARTS, STEPS, Holder
from vardi._inputs.lazy_columns import DeclaredColumns
from vardi._inputs.lazy_survey import conditions_of
from vardi.biases import Bias, ParametricBias, as_bias, isin, proportional_to
from vardi.biases._compile import NarwhalsTarget
from vardi.study._data import Data
from vardi.study._engines import package, reading, schema
from vardi.study._study import Study


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
    columns: tuple[str, ...]
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
        return sum(query.passes[0] for query in self.queries), sum(query.passes[1] for query in self.queries)

    @property
    def size(self) -> int | None:
        """Bytes that are read in all, at most; None where only the engine knows."""
        sizes = [query.passes[1] * query.size for query in self.queries if query.size is not None]
        return sum(sizes) if sizes else None


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
    schemas = [schema(data, study.engine) for data in study.data]
    known = {key: given for key, given in study.known.items() if key not in study.biases}
    functions = [_function(key, given, schemas[0]) for key, given in known.items()]
    declared = DeclaredColumns(tuple(study.biases), tuple(map(as_bias, study.biases.values())), tuple(functions))
    holder: Holder = "rows in memory"
    if study.engine != "memory":
        conditions = conditions_of(declared.columns.values(), NarwhalsTarget(schemas[0]))
        holder = "engine" if conditions is None else "distinct rows"
    part = PARTS[bool(study.known) + 2 * bool(declared.features)]
    families = [bias.family for bias in declared.biases if isinstance(bias, ParametricBias)]
    groups = sum(len(getattr(family, "groups", ())) for family in families)
    margins = sum(isinstance(given, Mapping) for given in known.values())
    read = [name for bias in (*declared.biases, *functions) for name in bias.columns]
    counts = [data.counts for data in study.data if data.counts is not None]
    labelled = [*read, *([] if study.label is None else [study.label]), *counts]
    named = [name for text in study.variables for name in as_bias(text).columns]
    reads: dict[str, list[list[str]]] = {  # the columns of a query, for each time that it is made
        "files": [[name for one in schemas for name in one]],
        "lines": [[]] if study.engine == "polars" and any(data.format == "csv" for data in study.data) else [],
        "categories": [labelled] * (groups + margins),
        "fit": [labelled],
        "biases": [[*read, *counts]],
        "variables": [[*labelled, *named]] if study.variables else [],
    }
    rows, sizes = _contents(study.data)
    queries = []
    for step in STEPS:
        for names in reads[step.reads] if holder in step.holders and part in step.parts else []:
            columns = tuple(dict.fromkeys(names))
            size = None if sizes is None else sum(sizes[name] for name in (None, *columns))
            queries.append(Query(step.what, step.passes, columns, size))
    return Plan(study.engine, len(study.data), rows, tuple(queries))


def _function(key: str, given: object, columns: nw.Schema) -> Bias:
    """Return what a known value reads of the rows: of a margin, conditions."""
    if isinstance(given, Mapping):
        return isin(key, given)
    return proportional_to(key) if key in columns else as_bias(key)


def _contents(data: Sequence[Data]) -> tuple[int | None, Counter[str | None] | None]:
    """Return how many rows the files hold, and how many bytes in each column, or in None if every query reads them.

    Rows are known of Parquet only; bytes are None if only the engine knows.
    """
    formats, rows, sizes = {one.format for one in data}, 0, Counter[str | None]()
    for one in data:
        if one.format != "parquet":
            sizes[None] += sum(path.stat().st_size for path in one.files)
            continue
        with reading(one):
            found = [package("pyarrow.parquet").read_metadata(path) for path in one.files]
        rows += sum(about.num_rows for about in found)
        groups = [about.row_group(j) for about in found for j in range(about.num_row_groups)]
        for column in (group.column(j) for group in groups for j in range(group.num_columns)):
            sizes[column.path_in_schema.split(".")[0]] += column.total_compressed_size
    return rows if formats == {"parquet"} else None, None if "duckdb" in formats else sizes
