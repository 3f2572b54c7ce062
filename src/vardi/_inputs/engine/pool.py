"""Lazy frames with a column for each bias, checked by one query for each frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import narwhals as nw
import numpy as np

from vardi._inputs.engine.aggregates import LENGTH, Aggregate
from vardi._inputs.engine.asking import answering, schema_of
from vardi._inputs.engine.columns import Declared, as_floats, compiled_bias, expression, missing_values
from vardi._inputs.engine.dependence import EngineDependence
from vardi._inputs.engine.distinct import DistinctRows
from vardi._inputs.engine.expressions import on_frame
from vardi._inputs.engine.part import COUNT, PREFIX, Change, Part
from vardi._inputs.engine.queries import aggregated, as_lazy
from vardi._inputs.engine.survey import COUNTED, Draft, Survey, in_part, survey
from vardi._inputs.frames.names import require_read_as_names
from vardi._inputs.pool import Name, Pool, as_biases, as_named, require_biases_for, require_shared_columns
from vardi._machine.memory import available_memory
from vardi._types import Floats, once
from vardi.biases import Bias, ExpressionBias
from vardi.biases._expressions.compile import NarwhalsTarget, require_columns
from vardi.errors import InvalidBiasError, MismatchError
from vardi.errors._refusals import (
    MOST,
    counts_in_part,
    counts_of_a_kind,
    empty_pool,
    empty_samples,
    impossible_rows,
    invalid_bias,
    invalid_counts,
    missing_counts,
    missing_labels,
    too_many,
    unknown_label,
)
from vardi.errors._texts import show

MOST_VALUES = 10_000  # most distinct values of a column that are brought into memory
FRACTION = 0.25  # of available memory, since the engine and the user's own data need some too
COPIES = 6  # of a cell's numbers: the engine's table, its result, our matrix, its scaled copy, and two in transit


def as_lazy_pool(
    samples: Any, biases: Any, *, source: Any, counts: Any, functions: Sequence[Bias | int] = ()
) -> LazyPool:
    """Return lazy samples, biases, labels and counts as one pool; raise if they do not fit together."""
    return open_frames(samples, biases, source=source, counts=counts).survey(functions)


def open_frames(samples: Any, biases: Any, *, source: Any, counts: Any) -> OpenFrames:
    """Check names and types of the columns of lazy samples, without a query."""
    for what, given in (("source", source), ("counts", counts)):
        if given is not None and not isinstance(given, str):
            raise MismatchError(
                f"{what} was given as {type(given).__name__}, but the rows are lazy frames. Name the column that "
                "holds it."
            )
    by_name = as_named(biases, "biases")
    named: Mapping[Name, Any] = {None: samples} if source is not None else as_named(samples, "samples")
    if source is None:
        require_biases_for(named, by_name)
    declared = dict(zip(by_name, as_biases(by_name, tuple(by_name)), strict=True))
    names = tuple(by_name) if source is not None else (*named, *(name for name in by_name if name not in named))
    position = {name: k for k, name in enumerate(names)}
    biases = tuple(declared[name] for name in names)
    Declared(tuple(map(str, names)), biases).require_computable()
    parts = []
    for name, native in named.items():
        codes = position if source is not None else {None: position[name]}
        parts.append(_opened(native, source, codes, counts, name))
    return OpenFrames(names, biases, tuple(parts), counts)


@dataclass(frozen=True)
class OpenFrames:
    """Frames of which only the names and types of columns were checked.

    Attributes
    ----------
    names : tuple
        One for each bias: the samples in their order, then the states that no sample was drawn from.
    biases : tuple of Bias
        One for each name.
    parts : tuple of Part
        The frames as the user gave them.
    counts : str or None
        Column of frequency weights.
    """

    names: tuple[Name, ...]
    biases: tuple[Bias, ...]
    parts: tuple[Part, ...]
    counts: str | None

    @property
    def table(self) -> EngineTable:
        """The columns that all frames have."""
        return EngineTable(self.parts)

    def survey(self, functions: Sequence[Bias | int] = ()) -> LazyPool:
        """Add biases, features and functions to the frames as columns, and check them by one query for each frame.

        If all of them are made of conditions, the query returns the distinct rows as well.
        """
        declared = Declared(tuple(map(str, self.names)), self.biases, tuple(functions))
        columns = {part.name: tuple(schema_of(part.frame, part.name)) for part in self.parts}
        require_shared_columns(self.biases, self.names, columns)
        limit = most_cells(len(declared.columns))
        alone = len(self.names) == 1 or (len(self.parts) == 1 and self.parts[0].label is None)
        found = [_surveyed(part, declared, self.counts, limit, declared.ranged(alone=alone)) for part in self.parts]
        parts = tuple(part for part, _ in found)
        dependence = EngineDependence.none(len(self.names))
        pool = LazyPool(self.names, self.biases, (), np.empty(0, np.int64), once(0), dependence, parts, declared, self)
        return _checked(pool, [one for _, one in found])


@dataclass(frozen=True)
class LazyPool(Pool):
    """A pool of lazy frames.

    Attributes
    ----------
    parts : tuple of Part
        The frames.
    declared : Declared
        What their columns hold.
    opened : OpenFrames or None
        The frames as the user gave them.
    sizes, lengths : ndarray of shape (K,)
        The number of rows of each sample, with and without counts.
    reach : ndarray of shape (K, K)
        Counts of rows of sample l (columns) that bias k (rows) could have drawn.
    lows, highs : ndarray of shape (c,)
        Smallest and largest value of each declared column; for most biases 0 and the largest mean, as a scale.
    distinct : DistinctRows or None
        The distinct rows, if the checks have returned them.
    dropped : tuple of Part
        Frames of samples that were left out.
    """

    parts: tuple[Part, ...] = ()
    declared: Declared = field(default_factory=lambda: Declared((), ()))
    opened: OpenFrames | None = None
    sizes: Floats = field(default_factory=lambda: np.empty(0))
    lengths: Floats = field(default_factory=lambda: np.empty(0))
    reach: Floats = field(default_factory=lambda: np.empty((0, 0)))
    lows: Floats = field(default_factory=lambda: np.empty(0))
    highs: Floats = field(default_factory=lambda: np.empty(0))
    distinct: DistinctRows | None = None
    dropped: tuple[Part, ...] = ()

    def __len__(self) -> int:
        return int(self.sizes.sum())

    def of_samples(self, codes: Sequence[int]) -> LazyPool:
        """Return the pool with the rows of some samples only; the others are states that were not sampled."""
        kept = np.isin(np.arange(len(self.names)), codes)
        is_left = [any(kept[code] for code in part.codes.values()) for part in self.parts]
        pairs = list(zip(self.parts, is_left, strict=True))
        distinct = self.distinct
        if distinct is not None:
            rows = kept[distinct.source]
            distinct = DistinctRows(distinct.matrix[rows], distinct.source[rows], distinct.counts[rows])
        return replace(
            self,
            parts=tuple(part.of_samples(codes) for part, is_in in pairs if is_in),
            dropped=(*self.dropped, *(part for part, is_in in pairs if not is_in)),
            sizes=np.where(kept, self.sizes, 0.0),
            lengths=np.where(kept, self.lengths, 0.0),
            reach=self.reach * kept,
            distinct=distinct,
        )

    def nearest(self, groups: Any) -> str:
        """Return nothing: it would take rows to find the nearest samples."""
        return ""

    def values_of(self, column: str) -> Collection[Any] | None:
        """Query the distinct values of a column, by one query for each frame; None if there are too many."""
        found: set[Any] = set()
        for part in self.parts:
            if column not in part.schema:
                return None
            values = part.ask(lambda frame: frame.select(column).unique().head(MOST_VALUES + 1))
            found.update(values.get_column(column).to_list())
        return found if len(found) <= MOST_VALUES else None

    def sides(self, bounds: Sequence[tuple[str, float]]) -> Floats:
        """Query the number of rows below, at and above bounds, by one query for each frame."""
        found = np.zeros((3 * len(bounds), len(self.names)))
        for part in self.parts:
            columns = [(nw.col(column), bound) for column, bound in bounds]
            signs = [sign for column, bound in columns for sign in (column < bound, column == bound, column > bound)]
            asked = {str(j): Aggregate(part.times_count(sign.cast(nw.Float64))) for j, sign in enumerate(signs)}
            for code, row in part.by_sample(asked):
                found[:, code] += [row[name] or 0.0 for name in asked]
        return found.reshape(len(bounds), 3, -1)


def _opened(native: Any, label: str | None, codes: dict[Any, int], counts: str | None, name: Name) -> Part:
    """Return a frame as it is; raise if its columns cannot be used."""
    if isinstance(native, np.ndarray):
        raise MismatchError(
            "A NumPy array cannot be combined with lazy frames, whose columns have names and types. Make it a frame."
        )
    sample = None if name is None else str(name)
    with answering(sample):
        frame = as_lazy(native)
    schema = schema_of(frame, sample)
    require_read_as_names(schema, frame.implementation)
    ours = [column for column in schema if column.startswith(PREFIX)]
    if ours:
        raise MismatchError(f"Column names that begin with {PREFIX!r} are reserved by vardi. Rename {show(ours)}.")
    return Part(frame, label, codes, counts is not None, name=sample)


def _surveyed(
    bare: Part, declared: Declared, counts: str | None, limit: int, ranged: frozenset[str]
) -> tuple[Part, Survey]:
    """Return a frame with the columns of the fit and its survey by one query; raise if it is invalid."""
    changes, found_biases = on_frame(bare.frame, tuple(declared.columns.values()), bare.name)
    columns = dict(zip(declared.columns, found_biases, strict=True))
    for change in changes:
        bare = bare.map(change)
    schema, label = schema_of(bare.frame, bare.name), bare.label
    read = [column for bias in columns.values() for column in bias.columns]
    needed = tuple(dict.fromkeys([*read, *filter(None, (label, counts))]))
    require_columns(needed, schema)
    if counts is not None and not (schema[counts].is_numeric() or schema[counts] == nw.Boolean):
        raise counts_of_a_kind(schema[counts])
    target = NarwhalsTarget(schema)
    draft = _draft(bare, columns, len(declared.biases), ranged, target, counts, {}, needed)
    found = survey(draft, limit)
    if found.doubtful.any():
        missing = missing_values(bare, target, needed)
        _require_labels_and_counts(missing, label, counts)
        for bias in columns.values():
            expression(bare, bias, target, missing, bare.name)
        draft = _draft(bare, columns, draft.states, ranged, target, counts, missing, ())
        found = survey(draft, limit)
    _require_known_labels(found.labels, label, bare.codes)
    if counts is not None and (found.status > COUNTED).any():
        _refuse_counts(draft.part, counts, declared.names)
    known = {value: bare.codes[value] for value in dict.fromkeys(found.labels)} if label is not None else bare.codes
    whole = draft.part.frame
    if counts is None:
        return replace(draft.part, codes=known), found
    counted = nw.col(COUNT) > 0
    with answering(bare.name):
        return replace(draft.part, frame=whole.filter(counted), whole=whole, belongs=counted, codes=known), found


def _draft(
    bare: Part,
    held: dict[str, ExpressionBias],
    states: int,
    ranged: frozenset[str],
    target: NarwhalsTarget,
    counts: str | None,
    missing: Mapping[str, int],
    needed: Sequence[str],
) -> Draft:
    """Add all declared columns to a frame; check that the columns in ``needed`` have no missing values."""
    columns, certain = {}, [_present(column, target) for column in needed]
    for name, bias in held.items():
        compiled = compiled_bias(bias, target, missing)
        columns[name] = as_floats(compiled)
        if compiled.known is not None and not missing:
            certain.append(compiled.known)
    if counts is not None:
        columns[COUNT] = nw.col(counts).cast(nw.Float64)
    with answering(bare.name):
        part = replace(bare, frame=bare.frame.with_columns(**columns))
    return Draft(part, target, held, states, ranged, tuple(missing), tuple(certain))


def _present(column: str, target: NarwhalsTarget) -> nw.Expr:
    """Return a condition that holds where a column has a value; in no engine is NaN below infinity."""
    return nw.col(column) <= float("inf") if target.schema[column].is_float() else ~nw.col(column).is_null()


def _require_labels_and_counts(missing: Mapping[str, int], label: str | None, counts: str | None) -> None:
    if label is not None and label in missing:
        raise missing_labels(label, missing[label])
    if counts is not None and counts in missing:
        raise missing_counts(counts, missing[counts])


def _refuse_counts(part: Part, counts: str, names: Sequence[Name]) -> None:
    """Refuse invalid counts, naming the first sample with one and the smallest of them: there are no row numbers."""
    count = nw.col(COUNT)
    for wrong, refusal in (((count < 0) | (count == float("inf")), invalid_counts), (in_part(count), counts_in_part)):
        asked = part.by_sample({"least": Aggregate(COUNT, "min")}, _only(wrong))
        found = sorted((code, row["least"]) for code, row in asked if row["least"] is not None)
        if found:
            raise refusal(f"A count in {counts!r} of {str(names[found[0][0]])!r} is {found[0][1]}")


def _only(condition: nw.Expr) -> Change:
    return lambda frame: frame.filter(condition)


def _require_known_labels(labels: Sequence[Any], label: str | None, codes: Mapping[Any, int]) -> None:
    """Refuse a label without a bias."""
    found = [] if label is None else sorted(set(labels), key=str)  # an engine groups in any order
    strangers = [value for value in found if value not in codes]
    if strangers:
        raise unknown_label(strangers[0], str(label), found, codes)


def _checked(pool: LazyPool, surveys: Sequence[Survey]) -> LazyPool:
    """Return the pool with sizes, reach and distinct rows; raise if the surveys show an invalid column."""
    K, c = len(pool.names), len(pool.declared.columns)
    sizes, lengths, reach = np.zeros(K), np.zeros(K), np.zeros((K, K))
    lows, highs = np.full(c, np.inf), np.full(c, -np.inf)
    matrices, sources, counts = [], [], []
    for part, every in zip(pool.parts, surveys, strict=True):
        if not part.codes:
            raise empty_pool()
        found = every.of((every.status == COUNTED) & (every.counts > 0))
        source = np.array([part.codes[label] for label in found.labels], np.int64)
        for code in part.codes.values():
            if not (source == code).any():
                raise empty_samples([pool.names[code]])
            mine = found.of(source == code)
            _require_values(mine, pool.declared, code)
            sizes[code] += mine.counts.sum()
            lengths[code] += mine.rows.sum()
            reach[:, code] += mine.reach.sum(axis=0)
        lows, highs = np.minimum(lows, found.low.min(axis=0)), np.maximum(highs, found.high.max(axis=0))
        matrices.append(found.low)
        sources.append(source)
        counts.append(found.counts)
    _require_own(sizes, reach, pool.names)
    if sizes.sum() > MOST:
        raise too_many(sizes.sum())
    distinct = None
    if all(found.cells for found in surveys):
        distinct = DistinctRows.in_order(np.concatenate(matrices), np.concatenate(sources), np.concatenate(counts))
    return replace(pool, sizes=sizes, lengths=lengths, reach=reach, lows=lows, highs=highs, distinct=distinct)


def _require_values(mine: Survey, declared: Declared, code: int) -> None:
    """Refuse a bias that is negative, and any column that is NaN or infinite, on some row of a sample."""
    owners = {name: k for k, names in declared.features.items() for name in names}
    for j, (column, holds) in enumerate(declared.columns.items()):
        low, high, rows = mine.low[:, j], mine.high[:, j], f"some rows of {declared.names[code]!r}"
        is_bias = j < len(declared.biases)
        if ((low >= 0 if is_bias else low > -np.inf) & (high < np.inf)).all():
            continue
        bottom = low.min() < 0 if is_bias else low.min() == -np.inf
        value = "NaN" if np.isnan(low).any() else float(low.min()) if bottom else float(high.max())
        if is_bias:
            raise invalid_bias(declared.names[j], value, rows)
        if column in owners:
            name, bias = declared.names[owners[column]], declared.biases[owners[column]]
            raise InvalidBiasError(
                f"The bias {bias} of {name!r} reads {holds}, which is {value} at {rows}. A bias needs finite numbers, "
                "and a power a column above zero, on the rows of every sample. Correct the column, or remove these "
                "rows.",
                sample=name,
            )
        raise InvalidBiasError(
            f"{holds}, whose mean is known, is {value} at {rows}, so no weights can meet it. Correct the column, or "
            "remove these rows.",
            sample=str(holds),
        )


def _require_own(sizes: Floats, reach: Floats, names: Sequence[Name]) -> None:
    """Refuse rows that their own sample's bias forbids."""
    impossible = np.flatnonzero((np.diag(reach) < sizes) & (sizes > 0))
    if len(impossible):
        k = int(impossible[0])
        raise impossible_rows(names[k], sizes[k] - reach[k, k])


class EngineTable:
    """What known values need of rows, answered by an engine.

    Parameters
    ----------
    parts : sequence of Part
        The frames.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts, self._schemas = parts, [part.schema for part in parts]
        self.columns = tuple(name for name in self._schemas[0] if all(name in schema for schema in self._schemas))

    def counts(self, column: str) -> Mapping[Any, int]:
        """Return how many rows have each value of a column."""
        found: Counter[Any] = Counter()
        for part in self._parts:
            counted = part.ask(lambda frame: aggregated(frame, [column], {f"{PREFIX}n": LENGTH}))
            found.update(dict(zip(counted.get_column(column).to_list(), counted.get_column(f"{PREFIX}n"), strict=True)))
        return found

    def kind(self, column: str) -> Literal["number", "condition", "other"]:
        """Return whether a column holds numbers, truth values, or something that has no mean."""
        kinds = [schema[column] for schema in self._schemas]
        if all(kind == nw.Boolean for kind in kinds):
            return "condition"
        return "number" if all(kind.is_numeric() or kind == nw.Boolean for kind in kinds) else "other"


def most_cells(columns: int) -> int:
    """Return how many distinct rows, with this many columns, are brought into memory at most.

    A quarter of the memory available now, over what a cell needs: 8 bytes for each column, its count, its label and its
    hash, six times, since the engine's table, its answer, our matrix and its scaled copy coexist. With 16 GB available
    and three columns that is 14 million.
    """
    return max(int(FRACTION * available_memory() / (8 * (columns + 3) * COPIES)), 1)
