"""How the rows of a pool depend on one another: clusters, series, strata, and finite populations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from vardi._inputs.by_row import coded_labels, in_order, of_sample, require_length
from vardi._types import Floats, Integers
from vardi.biases._values import as_array
from vardi.errors import MismatchError, MissingValuesError, VardiWarning, number_of_rows, suggest
from vardi.errors._texts import show
from vardi.errors._warn import warn

if TYPE_CHECKING:
    from vardi._inputs.given import ByRow, Population
    from vardi._inputs.pool import KeptRows, Name, Pool


Key = TypeVar("Key")


class Depends(NamedTuple):
    """How rows depend on one another, as given by the user."""

    clusters: ByRow | None = None
    series: ByRow | bool | None = None
    strata: ByRow | None = None
    population: Population | None = None

    @property
    def named(self) -> dict[str, str]:
        """The column that was named as each argument that was given; empty if it is not a column."""
        given = {what: value for what, value in self._asdict().items() if value is not None and value is not False}
        return {what: value if isinstance(value, str) else "" for what, value in given.items()}


@dataclass(frozen=True, eq=False)
class DeclaredDependence(Generic[Key]):
    """What was declared, if anything: by numbers of the rows in memory, or by columns of an engine's frames.

    Attributes
    ----------
    clusters : ndarray of int, str or None
        Number of each row's cluster, the same in all samples that it spans: its label, if that is a whole number.
    order : ndarray of int, str or None
        Place of each row in time, within its sample.
    strata : ndarray of int, str or None
        Number of each row's stratum, which lies within one sample.
    remaining : ndarray of shape (K,)
        The share of its population that each sample leaves unseen: 1 - n_k / N_k, and 1 if N_k is not given.
    named : mapping
        What was given as each argument, in words.
    """

    clusters: Key | None
    order: Key | None
    strata: Key | None
    remaining: Floats
    named: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def none(cls, K: int) -> Self:
        """Return the value for the independent rows of K samples."""
        return cls(None, None, None, np.ones(K))

    @property
    def independent(self) -> bool:
        """Whether rows do not depend on one another: nothing was declared."""
        return not self.named

    @cached_property
    def in_units(self) -> bool:
        """Whether errors are summed by cluster, series or stratum rather than over rows within whole samples."""
        return any(key is not None for key in (self.clusters, self.order, self.strata))

    @cached_property
    def is_finite(self) -> bool:
        """Whether a sample was drawn from a finite population."""
        return bool((self.remaining < 1.0).any())

    @property
    def words(self) -> str:
        """How rows depend on one another; in memory with the number of clusters and strata.

        >>> named = {"clusters": "district", "population": ""}
        >>> Dependence(np.arange(60), None, None, np.ones(1), named).words
        "in 60 clusters of 'district'; drawn from finite populations"
        """
        parts = []
        for what, codes in (("clusters", self.clusters), ("strata", self.strata)):
            if what in self.named:
                number = f"{len(np.unique(codes)):,} {what}" if isinstance(codes, np.ndarray) else what
                parts.append(f"in {number}" + self._of(what, "of"))
        if "series" in self.named:
            parts.append("one after the other in time" + self._of("series", "by"))
        if "population" in self.named:
            parts.append("drawn from finite populations")
        return "; ".join(parts)

    def _of(self, what: str, word: str) -> str:
        return f" {word} {self.named[what]!r}" if self.named[what] else ""


class Dependence(DeclaredDependence[Integers]):
    """What was declared for the rows of a pool in memory."""

    def of(self, kept: KeptRows) -> Dependence:
        """Return the dependence of the rows in a fit."""
        clusters, order, strata = (
            None if codes is None else kept.of(codes) for codes in (self.clusters, self.order, self.strata)
        )
        return Dependence(clusters, order, strata, self.remaining, self.named)


def as_dependence(pool: Pool, depends: Depends) -> Dependence:
    """Return how rows in memory depend on one another; raise if it is declared wrongly."""
    named = depends.named
    if not named:
        return Dependence.none(len(pool.names))
    refuse_together(named, counted=pool.is_counted)
    codes = cells = None
    if "clusters" in named:  # whole numbers stay as they are, as in engines
        labels = labels_of(pool, depends.clusters, "clusters")
        codes = labels.astype(np.int64) if labels.dtype.kind in "iu" else numbered(labels, "clusters")
    order = _order(pool, depends.series) if "series" in named else None
    if "strata" in named:
        numbers = numbered(labels_of(pool, depends.strata, "strata"), "strata")
        cells = np.unique(pool.source * (int(numbers.max()) + 1) + numbers, return_inverse=True)[1]
        if codes is not None:
            _require_within_strata(codes, cells, labels)
    sizes = pool.by_sample(pool.counts)
    dependence = Dependence(codes, order, cells, remaining_of(pool.names, sizes, depends.population), named)
    if codes is not None:
        pairs = np.unique(np.column_stack([pool.source, codes]), axis=0)[:, 0]
        warn_of_few_clusters(pool.names, np.bincount(pairs, minlength=len(pool.names)), sizes, named["clusters"])
    return dependence


def refuse_together(named: Mapping[str, str], *, counted: bool) -> None:
    """Refuse what cannot be declared together."""
    others = [what for what in ("clusters", "strata", "population") if what in named]
    if "series" in named and others:
        raise MismatchError(
            f"series= and {others[0]}= were given, but the rows of a sample either follow one another in time or were "
            "drawn separately. Give one of them; for several runs of a simulation in one sample, make each a sample "
            "of its own with the same bias."
        )
    if "series" in named and counted:
        raise MismatchError(
            "series= and counts= were given, but a row that stands for several has no place in time. Give each row "
            "separately."
        )
    if "strata" in named and "clusters" not in named and counted:
        raise MismatchError(
            "strata= and counts= were given without clusters=, but deviations within a stratum are taken row by row, "
            "so a row that stands for several would count as one. Give each row separately, or name the clusters that "
            "were drawn."
        )


def labels_of(pool: Pool, values: object, what: str) -> np.ndarray:
    """Return a label for each row of the pool, from a column, an array, or either of these by sample."""
    if isinstance(values, Mapping):
        return np.concatenate([*_by_sample(pool, values, what)])
    if isinstance(values, str):
        if not pool.frames or not all(values in frame.columns for frame in pool.frames):
            raise no_column(values, pool.columns, what)
        return pool.column(values)
    labels = as_array(in_order(values, pool.frames, f"The series of {what}"), what)
    require_length(what, labels, len(pool))
    return labels


def _by_sample(pool: Pool, by_name: Mapping[Name, object], what: str) -> list[np.ndarray]:
    """Return the labels of each sample, if samples are one after the other."""
    names = [name for name, size in zip(pool.names, pool.by_sample(), strict=True) if size]
    strangers = [name for name in by_name if name not in names] + [name for name in names if name not in by_name]
    if strangers or (np.diff(pool.source) < 0).any():
        raise MismatchError(
            f"{what} is for {show(by_name)}, but the samples are {show(names)}.{suggest(strangers[0], names)}"
            if strangers
            else f"{what} was given by sample, but the rows of samples are mixed in one frame. Name a column, or give "
            "an array for all rows."
        )
    pieces = []
    for frame, name in zip(pool.frames, names, strict=False):
        labels = by_name[name]
        if isinstance(labels, str) and labels not in frame.columns:
            raise no_column(labels, list(frame.columns), what)
        pieces.append(of_sample(labels, frame, what, f"{what} of {str(name)!r} has"))
    one_kind = len({piece.dtype.kind for piece in pieces}) == 1
    return pieces if one_kind else [piece.astype(object) for piece in pieces]


def no_column(column: str, known: Sequence[str], what: str) -> MismatchError:
    """Return the error for a column that some samples do not have."""
    columns = f"The columns are {show(known)}.{suggest(column, known)}" if known else "The rows have no columns."
    return MismatchError(
        f"{what}= names column {column!r}, which not every sample has. {columns} Give a column that all samples have, "
        "or an array."
    )


def missing_labels(missing: int, what: str) -> MissingValuesError:
    """Return the error for rows without a label."""
    depend = "so it is unknown which rows they depend on. Fill it in:"
    reasons = {
        "clusters": f"no cluster, {depend} a row that depends on no other is a cluster of its own.",
        "strata": f"no stratum, {depend} every row was drawn in one.",
        "series": "no time, so their place in the series is unknown. Fill it in, or leave these rows out.",
    }
    verb = "has" if missing == 1 else "have"
    return MissingValuesError(f"{number_of_rows(missing)} {verb} {reasons[what]}", columns={what: missing})


def numbered(labels: np.ndarray, what: str) -> Integers:
    """Return labels as numbers; raise if some are missing."""
    if labels.dtype.kind == "O":
        codes, _, missing = coded_labels(labels, what)
    else:
        codes, missing = np.unique(labels, return_inverse=True)[1], int(np.count_nonzero(labels != labels))
    if missing:
        raise missing_labels(missing, what)
    return codes


def _require_within_strata(clusters: Integers, cells: Integers, labels: np.ndarray) -> None:
    """Refuse a cluster that lies in several strata."""
    _, first, place = np.unique(clusters, return_index=True, return_inverse=True)
    astray = np.flatnonzero(cells[first][place] != cells)
    if len(astray):
        label = labels.tolist()[astray[0]]
        raise MismatchError(
            f"Cluster {label!r} lies in two strata, but clusters are drawn within strata. Number the clusters of each "
            "stratum separately, or leave strata= out."
        )


def _order(pool: Pool, series: object) -> Integers:
    """Return the place in time of each row within its sample."""
    if series is True:
        return np.arange(len(pool))
    times = times_of(labels_of(pool, series, "series"))
    order = np.lexsort((times, pool.source))
    step = np.diff(times[order])
    same = np.diff(pool.source[order]) == 0
    ties = np.flatnonzero(same & (step == 0))
    if len(ties):
        row = int(order[ties[0]])
        raise tied_times(len(ties), pool.names[pool.source[row]], times[row])
    _warn_of_gaps(pool, times[order], step, same, pool.source[order])
    return np.argsort(order)


def places_in_time(source: Integers, order: Integers) -> Integers:
    """Return the place of each row among those of its sample, 0 for the first in time."""
    sizes, rows = np.bincount(source), np.lexsort((order, source))
    place = np.empty(len(source), np.int64)
    place[rows] = np.arange(len(source)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return place


def times_of(labels: np.ndarray) -> Floats:
    """Return times as numbers."""
    if labels.dtype.kind in "mM":
        missing = int(np.count_nonzero(np.isnat(labels)))
        numbers = labels.astype(np.int64).astype(np.float64)
    elif labels.dtype.kind in "iufb":
        numbers = labels.astype(np.float64)
        missing = int(np.count_nonzero(np.isnan(numbers)))
    else:
        raise MismatchError(
            f"series= holds {labels.dtype}, which has no order in time. Give numbers or dates, or series=True if "
            "the rows of each sample are in time order."
        )
    if missing:
        raise missing_labels(missing, "series")
    return numbers


def tied_times(ties: int, name: Name, time: float) -> MismatchError:
    """Return the error for rows of a sample at the same time."""
    rows = "Two rows" if ties == 1 else f"{ties + 1:,} rows"
    return MismatchError(
        f"{rows} of {str(name)!r} have the time of another row (the first is {time:g}), so their order is unknown. "
        "Give a column that tells them apart, series=True if rows are in time order, or make each run a sample "
        "of its own with the same bias."
    )


def _warn_of_gaps(
    pool: Pool, times: Floats, step: Floats, same: NDArray[np.bool_], source: Integers, jump: float = 1.5
) -> None:
    """Warn of gaps in a series, a multiple of the usual step: rows on both sides are treated as neighbours."""
    for k in np.unique(source).tolist():
        places = np.flatnonzero(same & (source[1:] == k))
        if len(places) < 2:
            continue
        usual = float(np.median(step[places]))
        gaps = places[step[places] > jump * usual]
        if len(gaps):
            before, after = times[gaps[0]], times[gaps[0] + 1]
            counted = "one gap" if len(gaps) == 1 else f"{len(gaps):,} gaps, the first"
            warn(
                VardiWarning(
                    f"The series of {str(pool.names[k])!r} has {counted} from {before:g} to {after:g}, where the usual "
                    f"step is {usual:g}. Rows on either side are treated as neighbours, which does no harm in a long "
                    "series with few gaps; if there are many, make each stretch a sample of its own with the same bias."
                )
            )
            return


def remaining_of(names: Sequence[Name], sizes: Floats, population: object) -> Floats:
    """Return the share of its population that each sample leaves unseen; raise if a population is too small."""
    remaining = np.ones(len(names))
    if population is None:
        return remaining
    by_name = population if isinstance(population, Mapping) else dict.fromkeys(names, population)
    for name in by_name:
        if name not in names:
            raise MismatchError(
                f"population= is for {str(name)!r}, which is not a sample. The samples are {show(names)}."
                f"{suggest(name, names)}"
            )
    for k, name in enumerate(names):
        if name not in by_name or not sizes[k]:
            continue
        size = by_name[name]
        if isinstance(size, bool) or not isinstance(size, int | float | np.number) or not sizes[k] <= size < np.inf:
            raise MismatchError(
                f"population= is {size!r} for {str(name)!r}, of which {number_of_rows(int(sizes[k]))} were drawn "
                "without replacement. Give the number of units that this sample was drawn from, which is at least as "
                "large."
            )
        remaining[k] = 1.0 - sizes[k] / float(size)
    return remaining


def warn_of_few_clusters(
    names: Sequence[Name], clusters: Integers, sizes: Floats, column: str, enough: int = 30
) -> None:
    """Warn of samples with few clusters, or with a single one."""
    by = f" of {column!r}" if column else ""
    alone = [name for name, count, size in zip(names, clusters, sizes, strict=True) if count == 1 and size >= 2]
    few = {name: int(count) for name, count in zip(names, clusters, strict=True) if 1 < count < enough}
    if alone:
        warn(
            VardiWarning(
                f"All rows of {show(alone)} are in one cluster{by}, so how much clusters vary is unknown, and no "
                "standard error is given. Give a column of smaller clusters, if rows of different ones do not depend "
                "on one another."
            )
        )
    elif few:
        name, count = min(few.items(), key=lambda item: item[1])
        warn(
            VardiWarning(
                f"{str(name)!r} has {count} clusters{by}, and fewer than {enough} show only roughly how much they vary."
                " Intervals use Student's t with as many degrees of freedom; more clusters would help, not more rows."
            )
        )


def dealt_out(
    source: Integers,
    depends: Dependence,
    strata: Integers,
    folds: int,
    rng: np.random.Generator | np.random.RandomState,
) -> Integers:
    """Return the fold of each row: rows are dealt out within groups, clusters as a whole, series in stretches.

    Parameters
    ----------
    source : ndarray of int
        The sample of each row.
    depends : Dependence
        How rows depend on one another.
    strata : ndarray of int
        The groups within which rows are dealt out: samples, or classes of them.
    folds : int
        The number of folds.
    rng : numpy.random.Generator
        Shuffles the rows.
    """
    if depends.order is not None:
        return np.asarray(places_in_time(source, depends.order) * folds // np.bincount(source)[source])
    unit = np.arange(len(source)) if depends.clusters is None else depends.clusters
    _, first, codes = np.unique(unit, return_index=True, return_inverse=True)
    fold = np.empty(len(first), np.int64)
    fold[np.lexsort((rng.random(len(first)), strata[first]))] = np.arange(len(first)) % folds
    return fold[codes]
