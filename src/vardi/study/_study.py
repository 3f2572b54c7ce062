"""A study as a value, and the same study with its data opened."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import narwhals as nw
import numpy as np

from vardi._fit.debias import debias, identify_with_notes
from vardi._inputs.given import Counts, Known, Labels, Population, Samples
from vardi._inputs.lazy_part import COUNTS, LABEL, ROW
from vardi._inputs.shared_units import warn_of
from vardi.biases import as_bias
from vardi.errors import ExpressionError, InvalidBiasError, MissingValuesError, SharedUnitsWarning, number_of_rows
from vardi.study._data import Data, Engine
from vardi.study._engines import in_memory, left_in_place, package

if TYPE_CHECKING:
    import polars as pl

    from vardi._fit.sample import DebiasedSample
    from vardi._solve.identify import Verdict

DEPENDS: tuple[Literal["clusters", "series", "strata"], ...] = ("clusters", "series", "strata")


class DependenceOptions(TypedDict, total=False):
    """How rows depend on one another, as `vardi.debias` takes it: columns, and how many units were drawn from."""

    clusters: str
    series: str
    strata: str
    population: Population


@dataclass(frozen=True)
class Study:
    """What `vardi.study.read` returns: a study that was checked as a whole.

    Attributes
    ----------
    path : Path
        The study file.
    title : str
        Its title; the name of the file if it gives none.
    data : tuple of Data
        The files of each sample, or of the pool.
    biases : mapping of str to str
        The bias of each sample, and of states that no sample was drawn from.
    label : str or None
        For a pool, the column with the label of each row's sample.
    variables : tuple of str
        Columns and expressions to report.
    engine : {"memory", "polars", "duckdb"}
        What computes on the rows.
    known : mapping
        What is known of the population.
    notes : tuple of str
        What is odd about its columns, but may be intended.
    depends : mapping
        How rows depend on one another: clusters, series, strata, population, as `vardi.debias` takes them.
    """

    path: Path
    title: str
    data: tuple[Data, ...]
    biases: Mapping[str, str | float]
    label: str | None = None
    variables: tuple[str, ...] = ()
    engine: Engine = "memory"
    known: Known = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    depends: DependenceOptions = field(default_factory=DependenceOptions)

    def open(self) -> OpenStudy:
        """Open the data: read them into memory, or prepare queries and leave them in place."""
        texts = (*self.biases.values(), *self.variables, *self.known)
        apart = self.label is not None and any(self.label in _columns_of(text) for text in texts)  # its original values
        if self.engine == "memory":
            return OpenStudy(self, tuple(in_memory(one, None if apart else self.label) for one in self.data))
        options = {"apart": apart, "counted": any(one.counts is not None for one in self.data)}
        return OpenStudy(self, tuple(left_in_place(one, self.engine, self.label, **options) for one in self.data))

    def verdict(self) -> Verdict:
        """Return whether the samples can be compared with one another, before any solve."""
        return self.open().verdict()

    def fit(self) -> DebiasedSample:
        """Return the debiased sample of the study."""
        return self.open().fit()


@dataclass(frozen=True)
class OpenStudy:
    """A study with a frame for each of its data.

    Attributes
    ----------
    study : Study
        The study.
    frames : tuple
        Polars frames in memory; otherwise lazy Polars frames or DuckDB relations, with a column ``__row__``.
    """

    study: Study
    frames: tuple[Any, ...]

    @property
    def is_lazy(self) -> bool:
        """Whether the rows stay in place."""
        return self.study.engine != "memory"

    @property
    def _pairs(self) -> list[tuple[Data, Any]]:
        return list(zip(self.study.data, self.frames, strict=True))

    @property
    def samples(self) -> Samples:
        """The samples as `vardi.debias` takes them."""
        if self.study.label is not None:
            return self.frames[0]
        return {data.name: frame for data, frame in self._pairs}

    @property
    def source(self) -> Labels | None:
        """The labels of a pool as `vardi.debias` takes them: a column, or strings if that column is not text."""
        label = self.study.label
        if label is None:
            return None
        kinds = self.schemas()[0]
        if self.is_lazy or kinds[label] == nw.String:
            return LABEL if LABEL in kinds else label
        return nw.from_native(self.frames[0], eager_only=True)[label].cast(nw.String).to_native()

    def source_of(self, data: Data) -> nw.Expr:
        """Return the name of each row's sample, as an expression."""
        if self.study.label is None:
            return nw.lit(data.name)
        return nw.col(LABEL if LABEL in self.schemas()[0] else self.study.label).cast(nw.String)

    def schemas(self) -> list[nw.Schema]:
        """Return the columns of each frame with their types."""
        return [nw.Schema(nw.from_native(frame).collect_schema()) for frame in self.frames]

    def columns(self) -> list[list[str]]:
        """Return the user's own columns of each frame."""
        return [[name for name in own if name not in (ROW, COUNTS, LABEL)] for own in self.schemas()]

    def verdict(self) -> Verdict:
        """Return whether the samples can be compared with one another, before any solve."""
        return self.judged()[0]

    def judged(self) -> tuple[Verdict, tuple[str, ...]]:
        """Return the verdict, and what is odd about the declared biases."""
        known, counts = self.study.known or None, self._counts()
        return identify_with_notes(self.samples, self.study.biases, source=self.source, counts=counts, known=known)

    def fit(self) -> DebiasedSample:
        """Return the debiased sample of the study."""
        known = self.study.known or None
        with warnings.catch_warnings():
            if self._are_named:  # ids tell units apart better than equal rows do
                warnings.simplefilter("ignore", SharedUnitsWarning)
            samples, biases, depends = self.samples, self.study.biases, self.study.depends
            fitted = debias(samples, biases, source=self.source, counts=self._counts(), known=known, **depends)
        if self._are_named:
            self._warn_of_shared_ids()
        return fitted

    @property
    def _are_named(self) -> bool:
        """Whether all rows have an id."""
        return all(data.id is not None for data in self.study.data)

    def _warn_of_shared_ids(self) -> None:
        """Warn of ids that two samples share, with one query for each frame."""
        pl = package("polars")
        pieces = []
        for data, frame in self._pairs:
            columns = nw.col(str(data.id)).cast(nw.String).alias("id"), self.source_of(data).alias("source")
            asked = nw.from_native(frame).lazy().select(*columns)
            pieces.append(asked.unique().collect("polars").to_native())
        found = pl.concat(pieces).drop_nulls()
        if _are_numberings(found):
            return
        both = found.join(found, on="id").filter(pl.col("source") < pl.col("source_right"))
        pairs = both.group_by("source", "source_right").len().sort("len", descending=True)
        if len(pairs):
            first, second, count = pairs.row(0)
            said = "1 id is" if count == 1 else f"{count} ids are"
            warn_of(first, second, count, f"{said} in {first!r} and in {second!r}.")

    def _counts(self) -> Counts | None:
        """Return counts as `vardi.debias` takes them, or refuse missing counts."""
        counted = [(data, data.counts, frame) for data, frame in self._pairs if data.counts is not None]
        for data, column, frame in counted:
            nulls = nw.from_native(frame).lazy().select(nw.col(column).is_null().cast(nw.Int64).sum())
            missing = int(nulls.collect().item() or 0)
            if missing:
                raise MissingValuesError(
                    f"The column of counts {column!r} of {data} has no value in {number_of_rows(missing)}, so it "
                    "is unknown how many rows these stand for. Fill them in, or remove them.",
                    columns={column: missing},
                )
        if not counted:
            return None
        if self.is_lazy:
            return COUNTS
        if self.study.label is not None:
            return self.study.data[0].counts
        return {
            data.name: np.ones(len(frame)) if data.counts is None else frame[data.counts].to_numpy()
            for data, frame in self._pairs
        }


def _are_numberings(ids: pl.DataFrame) -> bool:
    """Return whether ids only number the rows of each sample, so that samples share them anyway."""
    pl = package("polars")
    number = pl.col("id").cast(pl.Int64, strict=False)
    is_numbering = (number.null_count() == 0) & number.min().is_in([0, 1]) & (number.max() - number.min() < pl.len())
    return bool(ids.group_by("source").agg(is_numbering)["id"].all())


def _columns_of(text: str | float) -> tuple[str, ...]:
    """Return the columns that a bias, a variable or a known value may read; the whole text may be a column's name."""
    with suppress(ExpressionError, InvalidBiasError):
        return (str(text), *as_bias(text).columns)
    return (str(text),)
