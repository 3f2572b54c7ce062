"""Write weights and draws to files, with rows in the order in which they were read, in memory or by the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import narwhals as nw
import numpy as np

from vardi._estimate.refits import Progress
from vardi._fit.sample import DebiasedSample
from vardi._inputs.by_row import concat
from vardi._inputs.frames import as_frame
from vardi._inputs.lazy_part import ROW
from vardi._rows.multipliers import ReplicateKind, names_of
from vardi.errors import MismatchError, OutputError
from vardi.study._engines import package, without_intervals
from vardi.study._study import OpenStudy

if TYPE_CHECKING:
    import polars as pl
    from duckdb import DuckDBPyRelation

Frame: TypeAlias = "pl.DataFrame | pl.LazyFrame | DuckDBPyRelation"
Weighted: TypeAlias = "Frame | Mapping[str | None, Frame]"  # of a pool, or of each sample by name


class ReplicateOptions(TypedDict):
    """The options of `DebiasedSample.replicate_weights`."""

    n: int
    kind: ReplicateKind
    seed: int


SINKS = {".parquet": "sink_parquet", ".csv": "sink_csv", ".jsonl": "sink_ndjson", ".ndjson": "sink_ndjson"}
"""The method of Polars that writes a file of each kind."""


def require_suffix(path: Path) -> None:
    """Refuse an output whose suffix is not that of a known kind of file."""
    if path.suffix.lower() not in SINKS:
        remedy = "End its name in .parquet, .csv or .jsonl."
        raise OutputError(f"{path} has no suffix that names a kind of file. {remedy}", path=str(path))


def weights_columns(opened: OpenStudy, *, with_data: bool, replicates: ReplicateOptions | None = None) -> list[str]:
    """Return the columns of a weights file, or refuse data that already have columns of those names."""
    counted = ["count"] if is_counted(opened) else []
    ours = [*_own_columns(opened), *counted, *names_of(replicates["n"] if replicates else 0)]
    return _beside_data(opened, ours) if with_data else ours


def is_counted(opened: OpenStudy) -> bool:
    """Return whether rows of a study stand for several units, so that a weights file has their counts, too."""
    return any(data.counts is not None for data in opened.study.data)


def _own_columns(opened: OpenStudy) -> list[str]:
    has_id = any(data.id is not None for data in opened.study.data)
    return ["source", "row", *(["id"] if has_id else []), "weight"]


def _beside_data(opened: OpenStudy, ours: list[str]) -> list[str]:
    """Return vardi's columns, then those of the data, or refuse data that use one of vardi's names otherwise."""
    data, columns = opened.study.data, opened.columns()
    theirs = dict.fromkeys(name for names in columns for name in names)
    same = {  # columns of the data that are what vardi means by their name
        "source": opened.study.label == "source",
        "id": all(one.id == "id" for one in data),
        "count": all(one.counts == "count" for one, names in zip(data, columns, strict=True) if "count" in names),
    }
    for name in ours:
        if name in theirs and not same.get(name):
            raise MismatchError(
                f"The data have a column {name!r}, and so has a weights file. Rename it in the data, or write the "
                "weights alone and join them by source and row."
            )
    return list(dict.fromkeys((*ours, *theirs)))


def write_weights(
    opened: OpenStudy,
    fit: DebiasedSample,
    path: Path,
    *,
    with_data: bool = False,
    replicates: ReplicateOptions | None = None,
    progress: Progress | None = None,
) -> None:
    """Write source, row, id, weight and count of every row, in the order of the data, and their columns if asked.

    Replicate weights, with the options of `DebiasedSample.replicate_weights`, are further columns.
    """
    columns = weights_columns(opened, with_data=with_data, replicates=replicates)
    if opened.is_lazy:
        weights = fit.replicate_weights(**replicates, id=ROW, progress=progress) if replicates else fit.weights
    else:
        added = fit.replicate_weights(**replicates, progress=progress).get_columns() if replicates else []
        weights = _in_memory(opened, fit, added)
    write_frame(_joined(opened, weights, columns), path)


def draw(opened: OpenStudy, fit: DebiasedSample, n: int, seed: int | None, *, replace: bool = True) -> pl.DataFrame:
    """Return rows drawn by weight with ``fit.sample``, each with the source and the row that it comes from.

    Rows that stay in place are drawn without replacement.
    """
    columns = [name for name in _beside_data(opened, _own_columns(opened)) if name != "weight"]
    if opened.is_lazy:
        return _joined(opened, fit.sample(n, seed, id=ROW), columns).collect()
    positions = fit.solved.memory.positions(fit.solved.tangent.measure, n, seed, replace=replace)
    return _joined(opened, _in_memory(opened, fit), columns).collect()[positions]


def write_frame(frame: pl.DataFrame | pl.LazyFrame, path: Path) -> None:
    """Write a Polars frame in the format that the suffix asks for."""
    getattr(frame.lazy(), SINKS[path.suffix.lower()])(path)


def _in_memory(opened: OpenStudy, fit: DebiasedSample, added: Sequence[pl.Series] = ()) -> Weighted:
    """Return the frames with the position and the weight of each row, and with further columns of the whole pool."""
    polars = package("polars")
    columns = polars.DataFrame([polars.Series("weight", np.asarray(fit.weights)), *added])
    frames = {}
    for data, frame in zip(opened.study.data, opened.frames, strict=True):
        own, columns = columns.head(len(frame)), columns.slice(len(frame))
        frames[data.name] = frame.with_columns(polars.int_range(polars.len()).alias(ROW), *own.get_columns())
    return frames


def _joined(opened: OpenStudy, weighted: Weighted, columns: Sequence[str]) -> pl.LazyFrame:
    """Return the rows of all samples with the columns of a weights file, in the order of the data."""
    parts = [part.to_native() for part in _parts(opened, weighted, columns)]
    if not opened.is_lazy:
        return concat([as_frame(part) for part in parts]).native.lazy().select(columns)
    if opened.study.engine == "duckdb":
        parts = [without_intervals(part) for part in parts]
        _require_one_type(parts, columns)
        parts = [part.pl(lazy=True) for part in parts]
    return package("polars").concat(parts, how="diagonal_relaxed").select(columns)


def _parts(opened: OpenStudy, weighted: Weighted, columns: Sequence[str]) -> Iterator[Any]:
    """Yield the rows of each sample, with those columns of a weights file that it has."""
    named = list(zip(opened.study.data, opened.schemas(), strict=True))
    ids = {schema[data.id] for data, schema in named if data.id is not None} - {nw.Unknown()}  # which has no values
    id_type = ids.pop() if len(ids) == 1 else nw.String()
    whole = all(schema[data.counts].is_integer() for data, schema in named if data.counts is not None)
    for data, schema in named:
        frame: Any = nw.from_native(weighted[data.name] if isinstance(weighted, Mapping) else weighted)
        added = [opened.source_of(data).alias("source"), nw.col(ROW).alias("row")]
        if data.id is not None:
            column = nw.col(data.id)
            added.append((column if schema[data.id] == id_type else column.cast(id_type)).alias("id"))
        if is_counted(opened):
            count = nw.lit(1) if data.counts is None else nw.col(data.counts)
            added.append(count.cast(nw.Int64 if whole else nw.Float64).alias("count"))
        rows = frame.with_columns(*added)
        there = set(rows.collect_schema().names()) - ({"id"} if data.id is None else set())
        yield rows.select([name for name in columns if name in there])


def _require_one_type(relations: Sequence[DuckDBPyRelation], columns: Sequence[str]) -> None:
    """Refuse a column that is text in some samples only: Polars would make text of it in all."""
    schemas = [nw.from_native(relation).collect_schema() for relation in relations]
    for name in columns:
        kinds = sorted({str(schema[name]) for schema in schemas if name in schema})
        if len(kinds) > 1 and "String" in kinds:
            raise MismatchError(
                f"A column of the data has several types: {name!r} is {' in one sample and '.join(kinds)} in another. "
                "Convert it to one, or write the weights alone and join them by source and row."
            )
