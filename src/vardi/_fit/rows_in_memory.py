"""Rows of a fit in memory, or read in blocks: their columns as numbers, and what the user gets back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from vardi._estimate.cdf import Steps
from vardi._fit.capabilities import Holder
from vardi._fit.solved import Keys, Prepared, UserRows
from vardi._inputs.by_row import concat, in_order
from vardi._inputs.dependence import Dependence
from vardi._inputs.domains import By, Grouping, bases, grouping, in_domains
from vardi._inputs.frames import as_frame, gaps_in, joined
from vardi._inputs.given import Formula, Function, Functions, is_function, name_of, read_by
from vardi._inputs.pool import KeptRows, Name, Pool, require_everywhere
from vardi._machine import require_memory
from vardi._rows import Rows, as_rows
from vardi._rows.arrays import Arrays
from vardi._rows.contract import Kept
from vardi._rows.likelihood import Joint, JointRows
from vardi._rows.measure import Measure, as_functions
from vardi._rows.point import Point
from vardi._solve.identify import Verdict, judge
from vardi._types import Floats, Integers, RandomSeed
from vardi.biases import ParametricBias
from vardi.biases._values import as_array
from vardi.errors import ImpossibleRowError, MismatchError, MissingValuesError, number_of_rows
from vardi.errors._refusals import not_covered, not_finite
from vardi.errors._texts import LISTED, listed

if TYPE_CHECKING:  # what a fit itself does not need is loaded when it is asked for
    from vardi._fit.solved import Solved
    from vardi._rows.domains import RowsByDomain


@dataclass(frozen=True, eq=False, kw_only=True)
class RowsInMemory(UserRows):
    """The rows of a pool.

    Attributes
    ----------
    kept : KeptRows
        Which of its rows are in the fit.
    omega : object
        The values of the biases, if these were given as a matrix.
    log : bool
        Whether omega holds logs.
    """

    holder: ClassVar[Holder] = "rows in memory"
    in_memory = True
    kept: KeptRows
    omega: Any = None
    log: bool = False

    @classmethod
    def of_pool(cls, pool: Pool, known: Any, omega: Any = None, *, log: bool = False) -> RowsInMemory:
        """Return all rows that count."""
        return cls(pool=pool, known=known, kept=KeptRows.counted(pool), omega=omega, log=log)

    def among(self, rows: NDArray[np.bool_]) -> Self:
        """Return some rows of the pool, to be solved without the others."""
        return replace(self, kept=KeptRows(self.kept.mask & rows))

    def of_samples(self, names: set[Name]) -> Self:
        """Return the rows of some samples only, to be solved without the others."""
        return self.among(np.isin(self.pool.source, [k for k, name in enumerate(self.pool.names) if name in names]))

    def prepare(self) -> Prepared:
        """Return the rows to solve."""
        biases = self.pool.biases
        factors = tuple(bias.known if isinstance(bias, ParametricBias) else bias for bias in biases)
        omega = self.pool.evaluate(factors, self.pool.names) if self.omega is None else self.omega
        if self.known is None and not any(isinstance(bias, ParametricBias) for bias in biases):
            return Prepared.plain(self.pool.names, self.rows_with(omega), self)
        from vardi._fit.parameters import prepare

        return prepare(self, omega)

    def rows_with(self, omega: Any, also: Sequence[np.ndarray] = ()) -> Rows:
        """Return the rows that count with their biases; distinct ones differ in these or in other columns."""
        pool, kept = self.pool, self.kept
        omega = [kept.of(column) for column in omega] if isinstance(omega, list) else kept.of(omega)
        return as_rows(
            omega,
            self.source,
            self.counts,
            pool.names,
            log=self.log,
            positions=None if kept.is_all else kept.positions,
            also=also,
            place=pool.place,
        )

    def overlap(self, prepared: Prepared) -> Verdict:
        """Judge which samples can be compared."""
        first = [model.starts()[0] for model in prepared.joint.families.values()]
        return self.explained(judge(prepared.joint.rows_at(np.concatenate([np.empty(0), *first])), self.pool.names))

    def explained(self, verdict: Verdict) -> Verdict:
        """Return the verdict; if groups share no row, with the two samples that are nearest to one another."""
        hint = "" if verdict.identified else self.pool.nearest(verdict.groups)
        return replace(verdict, message=f"{verdict.message} {hint}") if hint else verdict

    def notes(self, verdict: Verdict, sizes: Mapping[Name, float]) -> tuple[str, ...]:
        """Return what is odd about the declared biases; whether one has no effect at all only the weights can show."""
        from vardi._facts.biases import bias_notes

        return bias_notes(self.pool, sizes, verdict, even=False)

    @cached_property
    def source(self) -> Integers:
        """Sample of each row in the fit."""
        return self.kept.of(self.pool.source)

    @cached_property
    def counts(self) -> Floats:
        """The counts of these rows."""
        return self.kept.of(self.pool.counts)

    @cached_property
    def dependence(self) -> Dependence:
        """How these rows depend on one another."""
        return self.pool.dependence.of(self.kept)

    @property
    def of_windows(self) -> tuple[str, ...]:
        """The columns that only the windows of truncated rows read, which the weights do not correct."""
        return ()

    def measure_of(self, joint: JointRows, v: Floats, weights: Floats | None) -> Measure:
        """Return the rows of the pool with their weights at a point, which has weights of mean 1."""
        assert isinstance(joint, Joint)
        rows = joint.base if joint.families else joint.base.settled(v[joint.coordinates.u])
        return Measure(Arrays(rows, self.source, self.counts, self.dependence), Point(joint.model, v, weights))

    def not_covered(self, measure: Measure) -> ImpossibleRowError:
        """Return the error for samples in question that do not cover the pool: it names the first row."""
        outside = np.flatnonzero(measure.column(lambda at: at.share, 1)[:, 0] <= 0.0)
        rows, names = self.kept.positions[outside], [self.pool.names[k] for k in self.states]
        first = self.pool.place(int(rows[0]), self.states[0])
        others = f", nor {number_of_rows(len(rows) - 1)} more" if len(rows) > 1 else ""
        own = str(self.pool.names[int(self.pool.source[rows[0]])])
        return not_covered(names, f"{first}{others}", own, rows.tolist())

    def row_weights(self, measure: Measure) -> Floats:
        """Return the weight of each row of the pool; 0 for those that were left out."""
        return self.kept.spread(measure.weights)

    def weights(self, solved: Solved) -> Any:
        """Return the weight of each row, in the user's library."""
        return self.pool.wrap(self.row_weights(solved.tangent.measure), "weight")

    @property
    def library(self) -> str | None:
        """The library of the frames; None for arrays."""
        return next((frame.library for frame in self.pool.frames if frame.library is not None), None)

    def types(self, columns: Collection[str]) -> dict[str, str]:
        """Return the types of some columns as texts."""
        every = {name: text for frame in reversed(self.pool.frames) for name, text in frame.types(columns).items()}
        return {name: every[name] for name in columns if name in every}

    def chances(self, measure: Measure) -> Floats:
        """Return weight times count of each row of the pool, with sum 1."""
        mass = self.row_weights(measure) * self.pool.counts
        return mass / mass.sum()

    def probabilities(self, solved: Solved) -> Any:
        """Return the probability of each row, in the user's library."""
        return self.pool.wrap(self.chances(solved.tangent.measure), "probability")

    def columns_of(self, asked: Mapping[str, Function]) -> dict[str, Kept]:
        """Return columns, expressions and arrays as numbers of the rows, each on its own."""
        return {name: self.values(value) for name, value in asked.items()}

    def steps(self, measure: Measure, values: Function) -> Steps:
        """Return where the distribution function of something steps."""
        return Steps.in_memory(measure, self.values(values))

    def domains(self, measure: Measure, values: Function | None, by: By, base: int) -> tuple[Keys, RowsByDomain]:
        """Return domains and a function of their rows; the first ``base`` columns define their bases.

        Without a function it is 1, and domains are all combinations of values, also those without rows.
        """
        from vardi._rows.domains import DomainCodes, RowsByDomain

        found = self._grouping(by, whole=values is None)
        y = None if values is None else as_functions(self._values_in(values, by, found)[:, None])
        places = bases(found.keys, base)
        labels = DomainCodes(found.codes, places)
        return found.keys, RowsByDomain(measure, measure.rows, y, by, found.keys, labels, places)

    def steps_by_domain(self, measure: Measure, values: Function, by: By) -> tuple[Keys, Callable[[int], Steps]]:
        """Return domains, and a function that returns the steps of the distribution function in each."""
        found = self._grouping(by)
        y = self._values_in(values, by, found)
        return found.keys, lambda j: Steps.in_memory(measure, y, (found.codes == j) * 1.0)

    def _grouping(self, by: By, *, whole: bool = False) -> Grouping:
        """Return the domain of each row; rows of samples that are not in question are in none."""
        inside = self.kept if self.inside is None else KeptRows(self.inside & self.kept.mask)
        found = grouping(self.pool, by, inside, inside.of(self.pool.counts), whole=whole, states=self.states)
        codes = np.full(len(self.pool), -1)
        codes[inside.mask] = found.codes
        return Grouping(found.keys, self.kept.of(codes))

    def _values_in(self, values: Function, by: By, found: Grouping) -> Floats:
        """Return values; an error about missing ones names the domains that they are in."""
        try:
            return self.values(values)
        except MissingValuesError as error:
            gaps = self._gaps_of(values, error.columns)
            rows = found.codes[self.kept.of(gaps)]
            counts = np.bincount(rows[rows >= 0], minlength=len(found.keys)).astype(np.float64)
            raise in_domains(error, by, found.keys, counts) from None

    def draw(self, measure: Measure, n: int, seed: RandomSeed, *, replace: bool | None, identity: str | None) -> Any:
        """Draw rows by weight: in the user's library, or their positions for a fit of a matrix."""
        if identity is not None:
            raise MismatchError(
                "id= names the column that identifies a row in an engine, but these rows are in memory and identified "
                "by their positions. Leave it out."
            )
        drawn = self.positions(measure, n, seed, replace=replace is not False)
        return drawn if not self.pool.frames else concat(self.pool.frames).take(drawn)

    def positions(self, measure: Measure, n: int, seed: RandomSeed, *, replace: bool) -> Integers:
        """Return the positions of rows drawn by weight."""
        chances = self.chances(measure)
        drawable = int(np.count_nonzero(chances))
        if not replace and n > drawable:
            raise MismatchError(
                f"{n} rows cannot be drawn without replacement from {drawable}. Draw fewer, or with replacement."
            )
        require_memory(16 * int(n), f"A draw of {n:,} rows", "Draw fewer at a time.")
        return np.random.default_rng(seed).choice(len(self.pool), size=n, replace=replace, p=chances)

    @cached_property
    def inside(self) -> NDArray[np.bool_] | None:
        """Which rows of the pool belong to the samples in question; None for all."""
        return None if self.is_whole else np.isin(self.pool.source, self.states)

    def recorded_by(self, asked: Sequence[Function], columns: Sequence[str] = ()) -> tuple[int, ...]:
        """Return the samples that have recorded some functions and columns; empty if all have, or none.

        A sample whose values are all missing has not recorded them.
        """
        lacking = np.zeros(len(self.pool.names), bool)
        every = self.pool.columns
        for values in asked:
            if is_function(values):
                columns = (*columns, *read_by(values, every))
                continue
            empty = gaps_in(self._given(values, "The series of values"))
            if len(empty) == len(self.pool):
                lacking |= self.pool.by_sample(empty) == self.pool.by_sample()
        for name in dict.fromkeys(columns):
            if name in every and (gaps := self.pool.gaps(name)).any():
                lacking |= gaps == self.pool.by_sample()
        has = tuple(k for k in self.states if not lacking[k])
        return () if has == self.states else has

    def functions(self, values: Function) -> Floats:
        """Return one column, expression or array as numbers of shape (n, 1), for the rows in the fit."""
        return self.values(values)[:, None]

    def matrix(self, values: Functions) -> Floats:
        """Return several columns, expressions or arrays as numbers of shape (n, m)."""
        if isinstance(values, list | tuple) and any(is_function(part) for part in values):
            return np.stack([self.values(part) for part in values]).T  # columns in one piece
        numbers = _numbers(self._given(values, "The frame of values"))
        if numbers.ndim != 2 or len(numbers) != len(self.pool) or not numbers.shape[1]:
            raise MismatchError(
                f"The values have shape {numbers.shape}, but the pool has {len(self.pool)} rows. Give a matrix with a "
                "row for each, or a list of columns."
            )
        return self.in_fit(numbers)

    def values(self, values: Function) -> Floats:
        """Return a column, an expression or an array as numbers, one for each row in the fit."""
        if is_function(values):
            self._require_of_units(values)
            if len(self.pool.frames) > 1:
                frames = {self.pool.names[k]: self.pool.frames[k].columns for k in self.states}
                every = dict.fromkeys(column for columns in frames.values() for column in columns)
                require_everywhere(read_by(values, every), frames)
            pieces = self._evaluated(values)
            if not pieces:
                raise MismatchError(
                    f"The fit has only biases, no column {name_of(values)!r}. Give a value for each row."
                )
            array = _numbers(joined(pieces), copy=len(pieces) == 1)
        else:
            array = _numbers(self._given(values, "The series of values"))
        if array.shape != self.kept.mask.shape:
            raise MismatchError(
                f"The values have shape {array.shape}, but the pool has {len(self.pool)} rows. Give one for each."
            )
        return self.in_fit(array, name_of(values) if is_function(values) else None)

    def _require_of_units(self, function: Formula) -> None:
        """Refuse a function that reads the windows of truncated rows."""
        read = read_by(function, self.pool.frames[0].columns) if self.of_windows else ()
        ends = [name for name in read if name in self.of_windows]
        if ends:
            raise MismatchError(
                f"{ends[0]!r} belongs to the window of a row, but the weights are for the units' values: wide "
                "windows are seen more often whatever the value, which the weights do not correct. Ask for "
                "columns of the units."
            )

    def _given(self, values: Any, what: str) -> np.ndarray:
        """Return given values as an array in pool order; raise if they are not one for each row."""
        array = as_array(in_order(values, self.pool.frames, what), what)
        if array.ndim:
            return array
        remedy = "Name a column, write an expression, or give an array with a value for each row of the pool."
        if isinstance(values, Mapping):
            remedy = "Give a list of columns or expressions, or a frame or matrix with a row for each row of the pool."
        raise MismatchError(
            f"The values were given as {type(values).__name__}, which has no value for each row. {remedy}"
        )

    def _evaluated(self, function: Formula) -> list[np.ndarray]:
        """Return a function on each frame, 0 on the rows of samples that are not in question."""
        frames = self.pool.frames
        if len(frames) > 1:
            return [
                frame.evaluate_formula(function, str(self.pool.names[k])) if k in self.states else np.zeros(len(frame))
                for k, frame in enumerate(frames)
            ]
        if self.inside is None or not frames:
            return [frame.evaluate_formula(function) for frame in frames]
        own = as_frame(frames[0].take(np.flatnonzero(self.inside))).evaluate_formula(function)
        values = np.zeros(len(self.pool), own.dtype)
        values[self.inside] = own
        return [values]

    def is_declared(self, text: str) -> bool:
        """Return whether a text reads no column, so that it is its own mean."""
        return not any(read_by(text, frame.columns) for frame in self.pool.frames)

    def in_fit(self, values: Floats, name: str | None = None) -> Floats:
        """Return values on the rows in the fit; raise if they are not all finite."""
        if self.inside is not None:
            values = np.where(self.inside.reshape(-1, *[1] * (values.ndim - 1)), values, 0.0)
        values = self.kept.of(values)
        finite = np.isfinite(values)
        if not finite.all():
            gaps = gaps_in(values)
            rows, lost = (np.bincount(one, minlength=len(self.pool.names)) for one in (self.source, self.source[gaps]))
            lacking = [self.pool.names[k] for k in np.flatnonzero((rows > 0) & (lost == rows)).tolist()]
            positions = enumerate(self.kept.positions[gaps].tolist())
            where = listed(self.pool.place(row) if k < LISTED else "" for k, row in positions)
            raise not_finite(int(np.count_nonzero(~finite)), name, lacking, where)
        return values

    def _gaps_of(self, values: Function, columns: Mapping[str, int]) -> NDArray[np.bool_]:
        """Return on which rows of the pool an array, or any of some columns, has a missing or infinite value."""
        if not is_function(values):
            return gaps_in(as_array(values, "The values"))
        gaps = np.zeros(len(self.pool), bool)
        for name in columns:
            gaps |= joined([f.gaps(name) if name in f.columns else np.zeros(len(f), bool) for f in self.pool.frames])
        return gaps

    @cached_property
    def gaps(self) -> dict[str, int]:
        """How many values are missing or infinite in each numeric column that has such, and in those that are empty."""
        every = range(len(self.pool.names))
        missing = {name: int(self.pool.gaps(name)[[*self.of_some.get(name, every)]].sum()) for name in self._columns}
        return {
            name: count
            for name, count in missing.items()
            if count and (count == len(self.pool) or self.pool.is_numeric(name))
        }

    @cached_property
    def _columns(self) -> tuple[str, ...]:
        """The columns that rows in one frame would have."""
        return tuple(name for frame in self.pool.alike()[:1] for name in frame.columns)

    @cached_property
    def of_some(self) -> dict[str, tuple[int, ...]]:
        """Columns that only some samples have recorded, with these."""
        states = {name: self.recorded_by((), (name,)) for name in self._columns}
        return {name: own for name, own in states.items() if own}

    def numeric_without_gaps(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of some columns of some samples that are numeric, and complete in their samples."""
        return tuple(name for name in names if name not in self.gaps and self.pool.is_numeric(name))

    @property
    def mixed(self) -> dict[str, str]:
        """Columns whose type differs between samples, with the type in each."""
        return self.pool.mixed

    @cached_property
    def numeric_columns(self) -> tuple[str, ...]:
        """The numeric columns of the pool without missing values, those that the biases read first."""
        read = {name for bias in self.pool.biases for name in bias.columns}
        apart = {*self.of_some, *self.of_windows}
        names = self.numeric_without_gaps([name for name in self._columns if name not in apart])
        return tuple(sorted(names, key=lambda name: name not in read))


def _numbers(array: np.ndarray, *, copy: bool = True) -> Floats:
    if array.dtype.kind not in "fiub":
        raise MismatchError(
            f"The values hold {array.dtype}, but only numbers have a mean. Give numbers, or a condition of them; a "
            "list of columns goes to expectations()."
        )
    return array.astype(np.float64, copy=copy)
