"""Write weights and draws to files, with rows in the order in which they were read, in memory or by the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from vardi._estimate.refits import Progress
from vardi._fit.sample import DebiasedSample
from vardi._inputs.engine.part import ROW
from vardi._rows.multipliers import names_of
from vardi.errors import MismatchError, OutputError
from vardi.study._engines import first_line, package
from vardi.study._study import OpenStudy

SUFFIXES = (".parquet", ".csv", ".jsonl", ".ndjson")
BATCH = 100_000


def require_suffix(path: Path) -> None:
    """Refuse an output whose suffix is not that of a known kind of file."""
    if path.suffix.lower() not in SUFFIXES:
        kinds = f"{', '.join(SUFFIXES[:-2])} or {SUFFIXES[-2]}"
        raise OutputError(f"{path} has no suffix that names a kind of file. End its name in {kinds}.", path=str(path))


def weights_columns(opened: OpenStudy, *, with_data: bool, replicates: int = 0) -> list[str]:
    """Return the columns of a weights file, or refuse data that already have columns of those names."""
    ours = [*_own_columns(opened), *(["count"] if is_counted(opened) else []), *names_of(replicates)]
    return _beside_data(opened, ours) if with_data else ours


def is_counted(opened: OpenStudy) -> bool:
    """Return whether rows of a study stand for several units, so that a weights file has their counts, too."""
    return any(data.counts is not None for data in opened.study.data)


def _own_columns(opened: OpenStudy) -> list[str]:
    return ["source", "row", *(["id"] if _has_id(opened) else []), "weight"]


def _beside_data(opened: OpenStudy, ours: list[str]) -> list[str]:
    """Return vardi's columns, then those of the data, or refuse data that use one of vardi's names otherwise."""
    same = {"source": opened.study.label, "id": _common_id(opened), "count": _common_count(opened)}
    theirs = list(dict.fromkeys(name for names in opened.columns() for name in names))
    for name in ours:
        if name in theirs and same.get(name) != name:
            raise MismatchError(
                f"The data have a column {name!r}, and so has a weights file. Rename it in the data, or write the "
                "weights alone and join them by source and row."
            )
    return [*ours, *(name for name in theirs if name not in ours)]


def write_weights(
    opened: OpenStudy,
    fit: DebiasedSample,
    path: Path,
    *,
    with_data: bool = False,
    replicates: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> None:
    """Write source, row, id, weight and count of every row, in the order of the data, and their columns if asked.

    Replicate weights, with the options of `DebiasedSample.replicate_weights`, are further columns.
    """
    columns = weights_columns(opened, with_data=with_data, replicates=replicates["n"] if replicates else 0)
    if not opened.is_lazy:
        added = [*_own_series(opened, fit), *([_counts(opened)] if is_counted(opened) else [])]
        if replicates:
            added += fit.replicate_weights(**replicates, progress=progress).get_columns()
        frame = opened.pool.with_columns(added) if with_data else package("polars").DataFrame(added)
        write_frame(frame.select(columns), path)
        return
    weights = fit.replicate_weights(**replicates, id=ROW, progress=progress) if replicates else fit.weights
    frames = [nw.to_native(part) for part in _lazy_parts(opened, weights, columns)]
    if opened.study.engine == "polars":
        _sink(package("polars").concat(frames, how="diagonal_relaxed").select(columns), path)
    else:
        _write_batches(frames, columns, path)


def weights_frame(opened: OpenStudy, fit: DebiasedSample) -> Any:
    """Return all rows with source, row, id and weight, as a Polars frame; only for rows in memory."""
    return opened.pool.with_columns(_own_series(opened, fit))


def _own_series(opened: OpenStudy, fit: DebiasedSample) -> list[Any]:
    pl = package("polars")
    if opened.study.label is not None:
        source = opened.frames[0][opened.study.label].cast(pl.String).alias("source")
    else:
        names = [str(data.name) for data in opened.study.data]
        source = pl.Series("source", np.repeat(names, [len(frame) for frame in opened.frames]), dtype=pl.String)
    row = np.concatenate([np.arange(len(frame)) for frame in opened.frames])
    added = [source, pl.Series("row", row, dtype=pl.Int64), pl.Series("weight", np.asarray(fit.weights))]
    if _has_id(opened):
        added.append(_ids(opened))
    return added


def draw(opened: OpenStudy, fit: DebiasedSample, n: int, seed: int | None, *, replace: bool = True) -> Any:
    """Return rows drawn by weight with ``fit.sample``, each with the source and the row that it comes from.

    Rows that stay in place are drawn without replacement.
    """
    columns = [name for name in _beside_data(opened, _own_columns(opened)) if name != "weight"]
    if not opened.is_lazy:
        return weights_frame(opened, fit)[fit.held.positions(n, seed, replace=replace)].select(columns)
    drawn = _lazy_parts(opened, fit.sample(n, seed, id=ROW), columns)
    frames = [part.collect("polars").to_native() for part in drawn]
    return package("polars").concat(frames, how="diagonal_relaxed").select(columns)


def write_frame(frame: Any, path: Path) -> None:
    """Write a Polars frame in the format that the suffix asks for."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        frame.write_parquet(path)
    elif suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.write_ndjson(path)


def _has_id(opened: OpenStudy) -> bool:
    return any(data.id is not None for data in opened.study.data)


def _common_id(opened: OpenStudy) -> str | None:
    """Return the column of ids if it is the same one in all data."""
    found = {data.id for data in opened.study.data}
    return found.pop() if len(found) == 1 else None


def _common_count(opened: OpenStudy) -> str | None:
    """Return "count" if all data with a column of that name use it for counts, as vardi does."""
    pairs = zip(opened.study.data, opened.columns(), strict=True)
    return "count" if all(data.counts == "count" for data, names in pairs if "count" in names) else None


def _counts(opened: OpenStudy) -> Any:
    """Return how many units each row stands for; 1 in a sample without counts."""
    pl = package("polars")
    pieces = [
        pl.Series("count", [1] * len(frame)) if data.counts is None else frame[data.counts].alias("count")
        for data, frame in zip(opened.study.data, opened.frames, strict=True)
    ]
    kind = pl.Int64 if _are_counts_whole(opened) else pl.Float64
    return pl.concat([piece.cast(kind) for piece in pieces])


def _are_counts_whole(opened: OpenStudy) -> bool:
    schemas = [nw.from_native(frame).collect_schema() for frame in opened.frames]
    pairs = zip(opened.study.data, schemas, strict=True)
    return all(schema[data.counts].is_integer() for data, schema in pairs if data.counts is not None)


def _ids(opened: OpenStudy) -> Any:
    """Return the ids of all rows: as text if they are of several types, missing where a sample has none."""
    pl = package("polars")
    pieces = [
        pl.Series("id", [None] * len(frame)) if data.id is None else frame[data.id].alias("id")
        for data, frame in zip(opened.study.data, opened.frames, strict=True)
    ]
    kinds = {piece.dtype for piece in pieces if piece.dtype != pl.Null}
    kind = kinds.pop() if len(kinds) == 1 else pl.String
    return pl.concat([piece.cast(kind) for piece in pieces])


def _lazy_parts(opened: OpenStudy, frames: Any, columns: Sequence[str]) -> Iterator[Any]:
    """Yield the lazy frame of each sample, with those columns of a weights file that it has."""
    kinds = _id_kinds(opened)
    parts = [frames] if opened.study.label is not None else [frames[data.name] for data in opened.study.data]
    for data, part in zip(opened.study.data, parts, strict=True):
        frame: Any = nw.from_native(part)
        source = nw.lit(data.name) if opened.study.label is None else nw.col(opened.source)
        added = [source.alias("source"), nw.col(ROW).alias("row")]
        if data.id is not None:
            added.append((nw.col(data.id).cast(nw.String) if len(kinds) > 1 else nw.col(data.id)).alias("id"))
        if is_counted(opened):
            kind = nw.Int64 if _are_counts_whole(opened) else nw.Float64
            added.append((nw.lit(1) if data.counts is None else nw.col(data.counts)).cast(kind).alias("count"))
        without_id = {"id"} if data.id is None else set()
        whole = frame.with_columns(*added)
        there = set(whole.collect_schema().names()) - without_id
        yield whole.select([name for name in columns if name in there])


def _id_kinds(opened: OpenStudy) -> set[Any]:
    pairs = zip(opened.study.data, opened.frames, strict=True)
    return {nw.from_native(frame).collect_schema()[data.id] for data, frame in pairs if data.id is not None}


def _sink(frame: Any, path: Path) -> None:
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        frame.sink_parquet(path)
    elif suffix == ".csv":
        frame.sink_csv(path)
    else:
        frame.sink_ndjson(path)


def _write_batches(relations: Sequence[Any], columns: Sequence[str], path: Path) -> None:
    """Write relations one after the other, a batch of rows at a time.

    DuckDB's own COPY would need permission to write files, which its connections do not have.
    """
    pa = package("pyarrow")
    schemas = [relation.limit(0).to_arrow_table().schema for relation in relations]
    try:
        whole = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise MismatchError(
            f"A column of the data has several types: {first_line(error)} Convert it to one, or write the weights "
            "alone and join them by source and row."
        ) from error
    whole = pa.schema([whole.field(name) for name in columns])
    with _batch_writer(whole, path) as write:
        for relation in relations:
            for batch in relation.to_arrow_reader(BATCH):
                write(_aligned(pa.Table.from_batches([batch]), whole))


def _aligned(table: Any, whole: Any) -> Any:
    pa = package("pyarrow")
    arrays = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in whole
    ]
    return pa.Table.from_arrays(arrays, schema=whole)


@contextmanager
def _batch_writer(whole: Any, path: Path) -> Iterator[Callable[[Any], Any]]:
    """Yield a function that appends an Arrow table to a file."""
    if path.suffix.lower() == ".parquet":
        with package("pyarrow.parquet").ParquetWriter(path, whole) as writer:
            yield writer.write_table
        return
    pl = package("polars")
    with path.open("wb") as file:
        if path.suffix.lower() == ".csv":
            pl.from_arrow(whole.empty_table()).write_csv(file)
            yield lambda table: pl.from_arrow(table).write_csv(file, include_header=False)
        else:
            yield lambda table: pl.from_arrow(table).write_ndjson(file)
