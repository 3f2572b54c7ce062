"""Lazy frames with a column for each bias, checked by one query for each frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw
import numpy as np

from vardi._expressions.compile import NarwhalsTarget, compile_node, require_columns
from vardi._frames.names import require_read_as_names
from vardi._identify import connected
from vardi._lazy.memory import most_cells
from vardi._lazy.survey import COUNTED, Draft, Survey, survey
from vardi._lazy.thinned import Thinned, thinned
from vardi._newton import GAP, solve
from vardi._pool import Name, Pool, as_biases, as_named, require_biases_for, show
from vardi._rows.dense import Dense
from vardi._rows.engine import answering, schema_of
from vardi._rows.lazy import COUNT, OMEGA, PREFIX, LazyRows, Part, cells
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

WORTHWHILE = 4  # rows for each distinct one from which it pays to collapse them


def any_lazy(samples: Any) -> bool:
    """Tell whether some of the samples are a lazy frame of an engine."""
    if isinstance(samples, Mapping):
        samples = list(samples.values())
    rows = samples if isinstance(samples, list | tuple) else [samples]
    return any(_is_lazy(one) for one in rows)


def _is_lazy(rows: Any) -> bool:
    try:
        return isinstance(nw.from_native(rows, pass_through=True, allow_series=True), nw.LazyFrame)
    except nw.exceptions.DuplicateError:  # which a frame in memory says in our words
        return False


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
    """A pool of lazy frames.

    Attributes
    ----------
    parts : tuple of Part
        The frames.
    sizes, lengths : ndarray of shape (K,)
        How many rows the rows of each sample stand for, and how many they are.
    reach : ndarray of shape (K, K)
        Counts of rows of sample l (columns) that bias k (rows) could have drawn.
    highs : ndarray of shape (K,)
        Largest value of each bias.
    cells : Dense or None
        The distinct rows, where the checks have brought them already.
    """

    parts: tuple[Part, ...] = ()
    sizes: Floats = field(default_factory=lambda: np.empty(0))
    lengths: Floats = field(default_factory=lambda: np.empty(0))
    reach: Floats = field(default_factory=lambda: np.empty((0, 0)))
    highs: Floats = field(default_factory=lambda: np.empty(0))
    cells: Dense | None = None

    def __len__(self) -> int:
        return int(self.sizes.sum())

    def rows(self) -> Any:
        """Return the distinct rows in memory, or the rows where they are if there are too many of them."""
        if self.cells is not None:
            return self.cells
        K, sub = len(self.names), self.thinned()
        if WORTHWHILE * sub.distinct <= self.lengths.sum() and sub.distinct <= (limit := most_cells(K)):
            collapsed = cells(self.parts, K, limit)
            if collapsed is not None:
                return collapsed
        few = sub.rows.standing_for(self.sizes)
        return LazyRows(self.parts, K, self.sizes, self.reach, few, lambda: _start(few))

    def thinned(self) -> Thinned:
        """Return a small part of the rows in memory, by one query for each part."""
        return thinned(self.parts, self.lengths, self.highs)

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
    limit = most_cells(len(names))
    parts, surveys = [], []
    for name, native in named.items():
        codes = position if label is not None else {None: position[name]}
        part, found = _surveyed(native, biases, label, codes, counts, name, limit)
        parts.append(part)
        surveys.append(found)
    return _checked(LazyPool(names, biases, (), np.empty(0, np.int64), None, tuple(parts)), surveys)


def _start(few: Dense) -> Floats:
    """Return u of a small part of the rows, solved, or as near as can be where it does not determine it."""
    if connected(few.reach(), few.sizes):
        solution = solve(few, tol=1e-6)
        if solution.gap >= GAP:
            return solution.u
    return few.start()


def _surveyed(
    native: Any,
    biases: Sequence[Bias],
    label: str | None,
    codes: dict[Any, int],
    counts: str | None,
    name: Name,
    limit: int,
) -> tuple[Part, Survey]:
    """Return a frame with the biases as columns and what one query tells of it, or refuse it."""
    if isinstance(native, np.ndarray):
        raise MismatchError(
            "A NumPy array cannot stand beside lazy frames, which have names and types of columns. Make it a frame.",
            expected=("frame",),
            got=("ndarray",),
        )
    sample = None if name is None else str(name)
    with answering(sample):
        frame: nw.LazyFrame[Any] = nw.from_native(native).lazy()
    schema = schema_of(frame, sample)
    require_read_as_names(schema, frame.implementation)
    needed = dict.fromkeys([*(column for bias in biases for column in bias.columns), *filter(None, (label, counts))])
    require_columns(tuple(needed), schema)
    if any(column.startswith(PREFIX) for column in schema):
        raise MismatchError(f"Columns that begin with {PREFIX!r} are ours. Rename them.", expected=(), got=schema)
    if counts is not None and not (schema[counts].is_numeric() or schema[counts] == nw.Boolean):
        raise MismatchError(
            f"counts holds {schema[counts]}, and counts are numbers. Give how many rows each row stands for.",
            expected=("numbers",),
            got=(str(schema[counts]),),
        )
    bare = Part(frame, label, codes, counts is not None, name=sample)
    target = NarwhalsTarget(schema)
    draft = _draft(bare, biases, target, counts, {}, tuple(needed))
    found = survey(draft, limit)
    if found.doubtful.any():
        missing = missing_values(bare, target, tuple(needed))
        _require_labels_and_counts(missing, label, counts)
        for bias in biases:
            expression(bare, bias, target, missing, name)
        draft = _draft(bare, biases, target, counts, missing, ())
        found = survey(draft, limit)
    _require_known_labels(found.labels, label, codes)
    if counts is not None and (found.status > COUNTED).any():
        _refuse_counts(draft.part, counts)
    known = {value: codes[value] for value in dict.fromkeys(found.labels)} if label is not None else codes
    whole = draft.part.frame
    if counts is None:
        return replace(draft.part, codes=known), found
    with answering(sample):
        return replace(draft.part, frame=whole.filter(nw.col(COUNT) > 0), whole=whole, codes=known), found


def _draft(
    bare: Part,
    biases: Sequence[Bias],
    target: NarwhalsTarget,
    counts: str | None,
    missing: Mapping[str, int],
    needed: Sequence[str],
) -> Draft:
    """Put the biases on a frame as columns; with the columns needed doubt that they have no missing values."""
    columns, certain, nodes = {}, [_present(column, target) for column in needed], []
    for k, bias in enumerate(biases):
        assert isinstance(bias, ExpressionBias)
        compiled = compile_node(bias.node, target, missing)
        value = nw.lit(compiled.value) if isinstance(compiled.value, float) else compiled.value.cast(nw.Float64)
        columns[OMEGA.format(k)] = value
        nodes.append(bias.node)
        if compiled.known is not None and not missing:
            certain.append(compiled.known)
    if counts is not None:
        columns[COUNT] = nw.col(counts).cast(nw.Float64)
    with answering(bare.name):
        part = replace(bare, frame=bare.frame.with_columns(**columns))
    return Draft(part, target, tuple(nodes), tuple(missing), tuple(certain))


def _present(column: str, target: NarwhalsTarget) -> nw.Expr:
    """Return what is true where a column has a value; what is not a number is not below infinity in any engine."""
    return nw.col(column) <= float("inf") if target.schema[column].is_float() else ~nw.col(column).is_null()


def _require_labels_and_counts(missing: Mapping[str, int], label: str | None, counts: str | None) -> None:
    if label is not None and label in missing:
        raise MissingValuesError(
            f"No label in {label!r} for {number_of_rows(missing[label])}, so it is unknown which sample they belong "
            "to. Fill the labels, or take these rows out.",
            columns={label: missing[label]},
        )
    if counts is not None and counts in missing:
        raise MissingValuesError(
            f"The counts in {counts!r} are missing in {number_of_rows(missing[counts])}. Fill them in, or take these "
            "rows out.",
            columns={counts: missing[counts]},
        )


def expression(part: Part, bias: Bias, target: NarwhalsTarget, missing: Mapping[str, int], name: Name) -> nw.Expr:
    """Return a bias or another expression for an engine, or refuse one that is unknown on some rows."""
    assert isinstance(bias, ExpressionBias)
    compiled = compile_node(bias.node, target, missing)
    if isinstance(compiled.value, float):
        return nw.lit(compiled.value)
    if compiled.known is not None:
        unknown = int(part.sums(None, [(~compiled.known).cast(nw.Int64)])[0])
        if unknown:
            columns = {column: missing[column] for column in bias.columns if column in missing}
            counted = ", ".join(f"{column!r} ({count})" for column, count in columns.items())
            of_sample = "" if name is None else f" on rows of sample {str(name)!r}"
            if not columns:
                raise InvalidBiasError(
                    f"The bias {bias}{of_sample} compares NaN on {number_of_rows(unknown)}: a logarithm, root, power "
                    "or quotient has no value there. Exclude such rows by a condition.",
                    sample="" if name is None else str(name),
                )
            raise MissingValuesError(
                f"The bias {bias}{of_sample} is unknown on {number_of_rows(unknown)}, since there are missing values "
                f"in {counted}. A missing value is neither true nor false. Fill or drop these rows, or say what holds "
                "for them.",
                columns=columns,
            )
    return compiled.value.cast(nw.Float64)


def missing_values(part: Part, target: NarwhalsTarget, columns: Sequence[str]) -> dict[str, int]:
    """Return those of some columns that have missing values, with their number."""
    if not columns:
        return {}
    counts = part.sums(None, [target.is_missing(column).cast(nw.Int64) for column in columns])
    return {column: int(count) for column, count in zip(columns, counts, strict=True) if count}


def _refuse_counts(part: Part, counts: str) -> None:
    count = nw.col(COUNT)
    low, high = part.ask(lambda frame: frame.select(count.min().alias("a"), count.max().alias("b"))).row(0)
    raise InvalidCountsError(
        f"The counts in {counts!r} run from {low} to {high}. A count says how many rows a row stands for, so it "
        "is a finite number, zero or more.",
        rows=(),
    )


def _require_known_labels(labels: Sequence[Any], label: str | None, codes: Mapping[Any, int]) -> None:
    """Refuse a label without a bias."""
    found = [] if label is None else list(dict.fromkeys(labels))
    strangers = [value for value in found if value not in codes]
    if strangers:
        raise MismatchError(
            f"Label {str(strangers[0])!r} of {label!r} has no bias. The labels are {show(found)}, the biases "
            f"{show(codes)}.{suggest(strangers[0], codes)} Give each label a bias.",
            expected=codes,
            got=found,
        )


def _checked(pool: LazyPool, surveys: Sequence[Survey]) -> LazyPool:
    """Return the pool with sizes, reach and distinct rows, after the surveys have shown that every bias is one."""
    K = len(pool.names)
    sizes, lengths, reach, highs = np.zeros(K), np.zeros(K), np.zeros((K, K)), np.zeros(K)
    matrices, sources, counts = [], [], []
    for part, every in zip(pool.parts, surveys, strict=True):
        if not part.codes:
            raise EmptySampleError("The pool has no rows. Give at least one row of one sample.")
        found = every.of((every.status == COUNTED) & (every.counts > 0))
        source = np.array([part.codes[label] for label in found.labels], np.int64)
        for code in part.codes.values():
            if not (source == code).any():
                raise EmptySampleError(
                    f"No rows in {str(pool.names[code])!r}. Leave an empty sample out of the samples; its bias may "
                    "stay, and its normaliser is estimated all the same.",
                    samples=(str(pool.names[code]),),
                )
            mine = found.of(source == code)
            _require_values(mine, pool.names, code)
            sizes[code] += mine.counts.sum()
            lengths[code] += mine.rows.sum()
            reach[:, code] += mine.reach.sum(axis=0)
        highs = np.maximum(highs, found.high.max(axis=0))
        matrices.append(found.low)
        sources.append(source)
        counts.append(found.counts)
    _require_own(sizes, reach, pool.names)
    cells = None
    if all(found.cells for found in surveys):
        matrix, source = np.concatenate(matrices), np.concatenate(sources)
        order = np.lexsort((*matrix.T, source))  # engines give groups in any order
        cells = Dense(matrix[order], source[order], np.concatenate(counts)[order])
    return replace(pool, sizes=sizes, lengths=lengths, reach=reach, highs=highs, cells=cells)


def _require_values(mine: Survey, names: Sequence[Name], code: int) -> None:
    """Refuse a bias that is negative, NaN or infinite on some row of a sample."""
    for k, name in enumerate(names):
        low, high = mine.low[:, k], mine.high[:, k]
        if not ((low >= 0) & (high < np.inf)).all():
            value = "NaN" if np.isnan(low).any() else float(low.min()) if low.min() < 0 else float(high.max())
            raise InvalidBiasError(
                f"The bias of {str(name)!r} is {value} at some rows of {str(names[code])!r}. A bias says how much "
                "likelier a unit is to be drawn, so it must be a finite number, zero or more. Correct the bias, or "
                "take these rows out.",
                sample=str(name),
            )


def _require_own(sizes: Floats, reach: Floats, names: Sequence[Name]) -> None:
    """Refuse rows that their own sample's bias forbids."""
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
