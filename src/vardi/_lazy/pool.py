"""Lazy frames with a column for each bias, checked by one query for each frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np

from vardi._expressions.compile import NarwhalsTarget, compile_node, require_columns
from vardi._pool import Name, Pool, as_biases, as_named, require_biases_for, show
from vardi._rows.dense import Dense
from vardi._rows.lazy import COUNT, OMEGA, PREFIX, LazyRows, Part, cells, head
from vardi._sums import Floats
from vardi.biases import Bias, ExpressionBias
from vardi.errors import (
    EmptySampleError,
    ImpossibleRowError,
    InvalidBiasError,
    InvalidCountsError,
    MismatchError,
    MissingValuesError,
    number_of_rows,
    suggest,
)

CELLS = 200_000  # distinct rows up to which the solve goes on in memory
HEAD = 2_000  # rows of each sample that a warm start is made from


def any_lazy(samples: Any) -> bool:
    """Tell whether some of the samples are a lazy frame of an engine."""
    if isinstance(samples, Mapping):
        samples = list(samples.values())
    rows = samples if isinstance(samples, list | tuple) else [samples]
    return any(isinstance(nw.from_native(one, pass_through=True, allow_series=True), nw.LazyFrame) for one in rows)


def as_lazy_pool(samples: Any, biases: Any, *, source: Any, counts: Any) -> LazyPool:
    """Bring lazy samples, biases, labels and counts together, or say what does not fit."""
    for what, given in (("source", source), ("counts", counts)):
        if given is not None and not isinstance(given, str):
            raise MismatchError(
                f"{what} came as {type(given).__name__}, but the rows are lazy frames. Name the column that holds it.",
                expected=("column",),
                got=(type(given).__name__,),
            )
    by_name = as_named(biases, "biases")
    if source is not None:
        return lazy_pool(
            {None: samples}, dict(zip(by_name, as_biases(by_name, tuple(by_name)), strict=True)), source, counts
        )
    named = as_named(samples, "samples")
    require_biases_for(named, by_name)
    return lazy_pool(named, dict(zip(by_name, as_biases(by_name, tuple(by_name)), strict=True)), None, counts)


@dataclass(frozen=True)
class LazyPool(Pool):
    """A pool of lazy frames."""

    parts: tuple[Part, ...] = ()
    sizes: Floats = field(default_factory=lambda: np.empty(0))
    reach: Floats = field(default_factory=lambda: np.empty((0, 0)))

    def __len__(self) -> int:
        return int(self.sizes.sum())

    def rows(self) -> Any:
        """Return the distinct rows in memory, or the rows where they are if there are too many of them."""
        K = len(self.names)
        matrix, source = head(self.parts, K, HEAD)
        distinct = len(np.unique(np.column_stack([matrix, source]), axis=0))
        if 4 * distinct <= len(source) and (collapsed := cells(self.parts, K, CELLS)) is not None:
            return collapsed
        return LazyRows(self.parts, K, self.sizes, self.reach, Dense(matrix, source))

    def nearest(self, groups: Any) -> str:
        """Say nothing: it would take rows to tell which samples lie nearest."""
        return ""


def lazy_pool(
    named: Mapping[Name, Any], by_name: Mapping[Name, Bias], label: str | None, counts: str | None
) -> LazyPool:
    """Put the biases on lazy frames as columns, and check them by one query for each frame.

    Parameters
    ----------
    named : mapping
        Frames by name; with a label column one frame under None.
    by_name : mapping from name to Bias
        In the order of the names.
    label : str or None
        Column with the label of each row's sample.
    counts : str or None
        Column of frequency weights.
    """
    names = tuple(by_name) if label is not None else (*named, *(name for name in by_name if name not in named))
    biases = tuple(by_name[name] for name in names)
    for name, bias in zip(names, biases, strict=True):
        if not isinstance(bias, ExpressionBias):
            raise InvalidBiasError(
                f"The bias of {str(name)!r} is {bias}, which an engine cannot compute. Give an expression in text, or "
                "collect the frame first.",
                sample=str(name),
            )
    position = {name: k for k, name in enumerate(names)}
    parts = tuple(
        _part(frame, biases, label, position if label is not None else {None: position[name]}, counts, name)
        for name, frame in named.items()
    )
    sizes, reach = _checked(parts, names)
    return LazyPool(names, biases, (), np.empty(0, np.int64), None, parts, sizes, reach)


def _part(
    native: Any, biases: Sequence[Bias], label: str | None, codes: dict[Any, int], counts: str | None, name: Name
) -> Part:
    if isinstance(native, np.ndarray):
        raise MismatchError(
            "A NumPy array cannot stand beside lazy frames, which have names and types of columns. Make it a frame.",
            expected=("frame",),
            got=("ndarray",),
        )
    frame: nw.LazyFrame[Any] = nw.from_native(native).lazy()
    schema = frame.collect_schema()
    read = dict.fromkeys(column for bias in biases for column in bias.columns)
    require_columns([*read, *([label] if label else []), *([counts] if counts else [])], schema)
    if any(column.startswith(PREFIX) for column in schema):
        raise MismatchError(f"Columns that begin with {PREFIX!r} are ours. Rename them.", expected=(), got=schema)
    target = NarwhalsTarget(schema)
    missing = missing_values(frame, target, [*read, *([label] if label else []), *([counts] if counts else [])])
    if label in missing:
        raise MissingValuesError(
            f"No label in {label!r} for {number_of_rows(missing[label])}, so it is unknown which sample they belong "
            "to. Fill the labels, or take these rows out.",
            columns={str(label): missing[str(label)]},
        )
    if counts in missing:
        raise MissingValuesError(
            f"The counts in {counts!r} are missing in {number_of_rows(missing[counts])}. Fill them in, or take these "
            "rows out.",
            columns={str(counts): missing[str(counts)]},
        )
    columns = {}
    for k, bias in enumerate(biases):
        assert isinstance(bias, ExpressionBias)
        columns[OMEGA.format(k)] = expression(frame, bias, target, missing, name)
    if counts is not None:
        columns[COUNT] = nw.col(counts).cast(nw.Float64)
    frame = frame.with_columns(**columns)
    if counts is not None:
        _require_counts(frame, counts)
        frame = frame.filter(nw.col(COUNT) > 0)
    return Part(frame, label, _known_labels(frame, label, codes), counts is not None)


def expression(
    frame: nw.LazyFrame[Any], bias: ExpressionBias, target: NarwhalsTarget, missing: Mapping[str, int], name: Name
) -> nw.Expr:
    """Return a bias or another expression for an engine, or refuse one that is unknown on some rows."""
    compiled = compile_node(bias.node, target, missing)
    if isinstance(compiled.value, float):
        return nw.lit(compiled.value)
    if compiled.known is not None:
        unknown = int(frame.select((~compiled.known).cast(nw.Int64).sum().alias("n")).collect().item() or 0)
        if unknown:
            columns = {column: missing[column] for column in bias.columns if column in missing}
            counted = ", ".join(f"{column!r} ({count})" for column, count in columns.items())
            of_sample = "" if name is None else f" on rows of sample {str(name)!r}"
            raise MissingValuesError(
                f"The bias {bias}{of_sample} is unknown on {number_of_rows(unknown)}, since there are missing values "
                f"in {counted}. A missing value is neither true nor false. Fill or drop these rows, or say what holds "
                "for them.",
                columns=columns,
            )
    return compiled.value.cast(nw.Float64)


def missing_values(frame: nw.LazyFrame[Any], target: NarwhalsTarget, columns: Sequence[str]) -> dict[str, int]:
    """Return those of some columns that have missing values, with their number."""
    if not columns:
        return {}
    queries = [target.is_missing(column).cast(nw.Int64).sum().alias(column) for column in columns]
    row = frame.select(*queries).collect().row(0)
    return {column: int(count) for column, count in zip(columns, row, strict=True) if count}


def _require_counts(frame: nw.LazyFrame[Any], counts: str) -> None:
    low, high = frame.select(nw.col(COUNT).min().alias("a"), nw.col(COUNT).max().alias("b")).collect().row(0)
    if not (low is not None and low >= 0 and high < np.inf):
        raise InvalidCountsError(
            f"The counts in {counts!r} run from {low} to {high}. A count says how many rows a row stands for, so it "
            "is a finite number, zero or more.",
            rows=(),
        )


def _known_labels(frame: nw.LazyFrame[Any], label: str | None, codes: dict[Any, int]) -> dict[Any, int]:
    """Return the codes of the labels that are there, or refuse one without a bias."""
    if label is None:
        return codes
    found = frame.select(label).unique().collect().get_column(label).to_list()
    strangers = [value for value in found if value not in codes]
    if strangers:
        raise MismatchError(
            f"Label {str(strangers[0])!r} of {label!r} has no bias. The labels are {show(found)}, the biases "
            f"{show(codes)}.{suggest(strangers[0], codes)} Give each label a bias.",
            expected=codes,
            got=found,
        )
    return {value: codes[value] for value in found}


def _checked(parts: Sequence[Part], names: Sequence[Name]) -> tuple[Floats, Floats]:
    """Return sizes and reach, after one query for each part has shown that every bias is one."""
    K = len(names)
    sizes, reach = np.zeros(K), np.zeros((K, K))
    for part in parts:
        queries: dict[str, nw.Expr] = {"n": part.rows}
        for k in range(K):
            omega = nw.col(OMEGA.format(k))
            queries[f"low_{k}"] = omega.min()
            queries[f"high_{k}"] = omega.max()
            queries[f"nan_{k}"] = omega.is_nan().cast(nw.Int64).sum()
            queries[f"reach_{k}"] = ((omega > 0).cast(nw.Float64) * part.count).sum()
        for code, row in part.by_sample(queries):
            if not row["n"]:
                raise EmptySampleError(
                    f"No rows in {str(names[code])!r}. Leave an empty sample out of the samples; its bias may stay, "
                    "and its normaliser is estimated all the same.",
                    samples=(str(names[code]),),
                )
            sizes[code] += row["n"]
            for k, name in enumerate(names):
                if row[f"nan_{k}"] or not (row[f"low_{k}"] >= 0 and row[f"high_{k}"] < np.inf):
                    value = "NaN" if row[f"nan_{k}"] else row[f"low_{k}"] if row[f"low_{k}"] < 0 else row[f"high_{k}"]
                    raise InvalidBiasError(
                        f"The bias of {str(name)!r} is {value} at some rows of {str(names[code])!r}. A bias says how "
                        "much likelier a unit is to be drawn, so it must be a finite number, zero or more. Correct "
                        "the bias, or take these rows out.",
                        sample=str(name),
                    )
                reach[k, code] += row[f"reach_{k}"]
    impossible = np.flatnonzero((np.diag(reach) < sizes) & (sizes > 0))
    if len(impossible):
        k = int(impossible[0])
        raise ImpossibleRowError(
            f"Sample {str(names[k])!r} holds {number_of_rows(sizes[k] - reach[k, k])} that its own bias forbids. A "
            "unit with bias 0 cannot have been drawn, so the declared bias is wrong, or these rows belong to another "
            "sample. Correct the bias, or take them out.",
            sample=str(names[k]),
            rows=(),
        )
    return sizes, reach
