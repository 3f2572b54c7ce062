"""Rows of a fit that stay in their engine: their columns as expressions, and lazy frames that the user gets back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import narwhals as nw
import numpy as np

from vardi._estimate.cdf import Steps
from vardi._estimate.refits import batches, entropy_of
from vardi._facts.biases import bias_notes
from vardi._fit.capabilities import Holder, refusal
from vardi._fit.parameters import known_moments, require_told
from vardi._fit.solved import Keys, Prepared, UserRows
from vardi._inputs.column_types import types_in
from vardi._inputs.domains import By, bases, in_domains
from vardi._inputs.given import Function, bias_of, is_function, name_of, read_by
from vardi._inputs.given import Functions as UserFunctions
from vardi._inputs.known import NOTHING_KNOWN, Known, as_known
from vardi._inputs.lazy_part import COUNTS, LABEL, PREFIX, ROW, Part, changed, rows_by_value, with_columns
from vardi._inputs.lazy_pool import EngineDependence, LazyPool, OpenFrames, as_engine_dependence
from vardi._inputs.pool import Name, kinds_in_words
from vardi._rows.contract import Block, Kept
from vardi._rows.dense import Dense
from vardi._rows.domains import RowsByDomain
from vardi._rows.expressions import Expressions
from vardi._rows.hashed import GroupSums, drawn_rows, sums_in_groups
from vardi._rows.lazy_model import LazyRows, few_rows, functions_on, in_memory, joint_rows, model_of
from vardi._rows.lazy_shares import Counted, SharesInEngine
from vardi._rows.lazy_values import (
    DomainColumns,
    EngineFunction,
    all_missing,
    compiled_functions,
    condition,
    domains_of,
    is_in,
    missing_by_domain,
    with_levels,
)
from vardi._rows.likelihood import Joint, JointRows
from vardi._rows.measure import Functions, Measure, as_functions
from vardi._rows.point import KnownMoments, Model, Point, RowsAt
from vardi._rows.queries import Queries
from vardi._solve.identify import Verdict, connected, judge
from vardi._solve.newton import GAP, JointFit, Solution, solve
from vardi._types import Floats, RandomSeed
from vardi.errors import ImpossibleRowError, MissingValuesError, number_of_rows
from vardi.errors._refusals import needs_rows, not_covered
from vardi.errors._texts import listed

if TYPE_CHECKING:
    from vardi._fit.debias import FrameInputs
    from vardi._fit.solved import Solved

WEIGHT = f"{PREFIX}weight"


@dataclass(frozen=True, eq=False, kw_only=True)
class RowsInEngine(UserRows):
    """Lazy frames, whose rows stay in their engine.

    Attributes
    ----------
    pool : LazyPool
        The frames, with biases, features and known functions as columns, checked.
    known : Known
        What is known of the population.
    frames : Queries
        The frames, with the columns that biases and known functions need once the rows are prepared.
    model : Model
        Which coordinates of a point they depend on.
    inputs : FrameInputs
        The arguments of the call that gave them.
    """

    holder: ClassVar[Holder] = "engine"
    in_memory = False
    pool: LazyPool
    known: Known
    frames: Queries
    model: Model
    inputs: FrameInputs

    @classmethod
    def of_frames(cls, frames: OpenFrames, inputs: FrameInputs) -> RowsInEngine:
        """Put biases, features and known functions on the frames, and check them."""
        checked = NOTHING_KNOWN if inputs.known is None else as_known(inputs.known, frames.names, frames)
        pool = with_levels(frames).survey(checked.functions)
        require_told(pool, pool.sizes)
        return cls._of(replace(pool, dependence=as_engine_dependence(pool, inputs.depends)), checked, inputs)

    @classmethod
    def _of(cls, pool: LazyPool, known: Known, inputs: FrameInputs) -> RowsInEngine:
        frames, model = Queries(pool.parts, pool.sizes, pool.dependence), Model(pool.sizes, {}, KnownMoments.none())
        return cls(pool=pool, known=known, frames=frames, model=model, inputs=inputs)

    def of_samples(self, names: set[Name]) -> RowsInEngine:
        """Return the rows of some samples only, to be solved without the others."""
        codes = [k for k, name in enumerate(self.pool.names) if name in names]
        return self._of(self.pool.of_samples(codes), self.known, self.inputs)

    def prepare(self) -> Prepared:
        """Return the rows to solve: the distinct ones in memory, or those in the engine if they are too many."""
        pool, known = self.pool, self.known
        found, is_all = few_rows(pool)
        few = in_memory(pool, found, is_all=is_all)
        rows = few if is_all else LazyRows(self.frames, pool.reach, few, lambda: _start(few))
        H = functions_on(pool, found)
        moments = known_moments(known, H, set(pool.declared.features), pool.declared.function_columns)
        frames, model = model_of(pool, self.frames, moments)
        joint = joint_rows(pool, frames, model, found, few, is_all=is_all)
        data = replace(self, frames=frames, model=model)
        return Prepared(self.pool.names, rows, joint, data, known, in_memory=is_all)

    def overlap(self, prepared: Prepared) -> Verdict:
        """Judge which samples can be compared."""
        return judge(prepared.rows, self.pool.names)

    def notes(self, verdict: Verdict, sizes: Mapping[Name, float]) -> tuple[str, ...]:
        """Return what is odd about the declared biases."""
        even = (self.pool.lows == self.pool.highs)[: len(self.pool.names)]
        return bias_notes(self.pool, sizes, verdict, even=bool(even[self.pool.sizes > 0].all()))

    def solved(self, prepared: Prepared, found: JointFit) -> Solved:
        """Return the solution at the rows of the frames, whose weights stay in the engine."""
        return super().solved(prepared, replace(found, solution=replace(found.solution, weights=None)))

    @property
    def dependence(self) -> EngineDependence:
        """How rows depend on one another."""
        return self.frames.dependence

    def measure_of(self, joint: JointRows, v: Floats, weights: Floats | None) -> Measure:
        """Return the frames with their weights at a point, which has weights of mean 1.

        The model of joint rows may have no known values, all of them, or the masses of groups; that of distinct rows in
        memory has numbers where that of the frames has columns.
        """
        model = joint.model
        if isinstance(joint, Joint):
            of_functions = joint.coordinates.known and joint.known.by_sample is None
            model = self.model if of_functions else replace(self.model, known=joint.known)
        return Measure(self.frames, Point(model, v))

    def not_covered(self, measure: Measure) -> ImpossibleRowError:
        """Return the error for samples in question that do not cover the pool: it counts the rows of each sample."""
        counts = zip(self.pool.names, measure.uncovered().tolist(), strict=True)
        outside = {str(name): int(count) for name, count in counts if count}
        said = listed(f"{number_of_rows(count)} of {name!r}" for name, count in outside.items())
        return not_covered([self.pool.names[k] for k in self.states], said, next(iter(outside)), ())

    # Weights

    def weights(self, solved: Solved) -> Any:
        """Return the user's lazy frames with a column of weights."""
        return self._with_weights(solved, "weight", lambda part, weight: weight)

    def probabilities(self, solved: Solved) -> Any:
        """Return the user's lazy frames with a column of probabilities."""
        n = solved.tangent.measure.n
        return self._with_weights(solved, "probability", lambda part, weight: part.times_count(weight) / n)

    def _with_weights(self, solved: Solved, name: str, made_of: Callable[[Part, nw.Expr], nw.Expr]) -> Any:
        """Return the user's lazy frames with a column made of the weight.

        It is zero for rows that have no weight: their samples were left out, or are not in question.
        """
        asked, weigher = set(self.states), solved.weigher
        frames = {}
        for part in self.parts_asked:
            adding = weigher.adding(part.frame, WEIGHT, complete=True)
            own = with_columns({name: made_of(part, nw.col(WEIGHT))})
            frames[part.code] = part.with_added([name], partial(changed, changes=[adding, own]))
        others = [part for part in self.frames.parts if asked.isdisjoint(part.codes.values())]
        zeros = with_columns({name: nw.lit(0.0)})
        frames |= {part.code: part.with_added([name], zeros) for part in (*self.pool.dropped, *others)}
        return self.by_name(frames)

    @property
    def library(self) -> str | None:
        """The library of frames in memory that goes with the engine; None for those without one."""
        kind = self.frames.parts[0].frame.implementation
        return "polars" if kind.is_polars() else "pandas" if kind.is_pandas_like() or kind.is_dask() else None

    def types(self, columns: Collection[str]) -> dict[str, str]:
        """Return the types of some of the user's columns as texts."""
        schema = {name: dtype for part in reversed(self.frames.parts) for name, dtype in part.schema.items()}
        return types_in({name: schema[name] for name in columns if name in schema})

    @property
    def parts_asked(self) -> tuple[Part, ...]:
        """The frames with rows of the samples in question."""
        if self.is_whole:
            return tuple(self.frames.parts)
        states = set(self.states)
        own = [part for part in self.frames.parts if not states.isdisjoint(part.codes.values())]
        return tuple(part.of_samples(states) for part in own)

    @cached_property
    def rows_asked(self) -> Queries:
        """The rows of the samples in question."""
        return self.frames.of(self.parts_asked)

    def by_name(self, frames: Mapping[int | None, Any]) -> Any:
        """Return the one frame of all samples, or frames by the name of their sample."""
        names = self.pool.names
        return frames[None] if None in frames else {names[k]: frame for k, frame in frames.items() if k is not None}

    # Functions of the rows

    def functions(self, values: Function) -> list[EngineFunction]:
        """Return one column or expression as a function of the rows."""
        return self.matrix([values])

    def matrix(self, values: UserFunctions) -> list[EngineFunction]:
        """Return several columns or expressions as functions of the rows."""
        if not isinstance(values, list | tuple) or not all(is_function(part) for part in values):
            raise refusal("means of arrays", "engine")
        if all(isinstance(value, str) and value in self._compiled for value in values):
            return [self._compiled[value] for value in values]
        parts = self.parts_asked
        functions = [bias_of(value, parts[0].schema) for value in values]
        found = compiled_functions(parts, functions, [name_of(value) for value in values])
        self._compiled.update({value: one for value, one in zip(values, found, strict=True) if isinstance(value, str)})
        return found

    def columns_of(self, asked: Mapping[str, Function]) -> dict[str, Kept]:
        """Return columns and expressions as functions of the rows, each on its own."""
        functions = self.matrix(list(asked.values())) if asked else []
        return {name: [function] for name, function in zip(asked, functions, strict=True)}

    @cached_property
    def _compiled(self) -> dict[str, EngineFunction]:
        """Functions that were checked for missing values, by their texts."""
        return {}

    def recorded_by(self, asked: Sequence[Function], columns: Sequence[str] = ()) -> tuple[int, ...]:
        """Return the samples that have recorded some functions and columns; empty if all have, or none.

        The schema shows which frames lack a column; whether a sample's values are all missing is queried if some are.
        """
        parts = self.parts_asked
        every = dict.fromkeys(name for part in parts for name in part.schema)
        named = [one for one in asked if is_function(one)]
        columns = [*columns, *(name for one in named for name in read_by(one, every) if name in every)]
        without = [part for part in parts if any(name not in part.schema for name in columns)]
        lacking = {code for part in without for code in part.codes.values()}
        if not lacking and named:
            try:
                self.matrix(named)
            except MissingValuesError as error:
                gaps = [name for name in error.columns if name in every]
                lacking = {code for part in parts for name in gaps for code in all_missing(part, name)}
        states = [code for part in parts for code in part.codes.values()]
        has = tuple(sorted(code for code in states if code not in lacking))
        return () if len(has) == len(states) else has

    def is_declared(self, text: str) -> bool:
        """Return whether a text reads no column, so that it is its own mean."""
        return not read_by(text, self.parts_asked[0].schema)

    def steps(self, measure: Measure, values: Function) -> Steps:
        """Return where the distribution function of something steps."""
        return _steps(measure, self.functions(values)[0])

    def domains(self, measure: Measure, values: Function | None, by: By, base: int) -> tuple[Keys, RowsByDomain]:
        """Return domains and a function of their rows; the first ``base`` columns define their bases.

        Without a function it is 1, and domains are all combinations of values, also those without rows.
        """
        keys = domains_of(self.rows_asked, by, self.mixed, whole=values is None)
        y = None if values is None else as_functions([self._function_in(values, by, keys)])
        labels = DomainColumns(self.parts_asked, by.columns, keys, base)
        return keys, RowsByDomain(measure, self.rows_asked, y, by, keys, labels, bases(keys, base))

    def steps_by_domain(self, measure: Measure, values: Function, by: By) -> tuple[Keys, Callable[[int], Steps]]:
        """Return domains, and a function that returns the steps of the distribution function in each."""
        keys = domains_of(self.rows_asked, by, self.mixed, whole=False)
        y = self._function_in(values, by, keys)
        return keys, lambda j: _steps(measure, y, condition(self.parts_asked, is_in(by.columns, keys[j])))

    def _function_in(self, values: Function, by: By, keys: Sequence[tuple[Any, ...]]) -> EngineFunction:
        """Return a function; an error about missing values names the domains that they are in."""
        try:
            return self.functions(values)[0]
        except MissingValuesError as error:
            counts = missing_by_domain(self.rows_asked, by, keys, list(error.columns))
            raise in_domains(error, by, keys, counts) from None

    @cached_property
    def _kinds(self) -> dict[str, dict[Part, str]]:
        """What each column of the user holds in each frame that has it."""
        kinds: dict[str, dict[Part, str]] = {}
        for part in self.frames.parts:
            for name, dtype in part.schema.items():
                if name not in (ROW, COUNTS, LABEL):
                    kinds.setdefault(name, {})[part] = _kind(dtype)
        return kinds

    def _is_in_all(self, name: str) -> bool:
        """Return whether all frames have a column."""
        return len(self._kinds[name]) == len(self.frames.parts)

    @cached_property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The user's columns by what they hold: those that the biases read first, those of some frames only last."""
        read = {name for bias in self.pool.biases for name in bias.columns}
        names = sorted(self._kinds, key=lambda name: (name not in read, not self._is_in_all(name)))
        return {
            kind: tuple(name for name in names if set(self._kinds[name].values()) == {kind})
            for kind in ("numeric", "conditions", "texts")
        }

    @property
    def _with_means(self) -> tuple[str, ...]:
        """Numeric columns and conditions."""
        return *self.columns["numeric"], *self.columns["conditions"]

    @cached_property
    def mixed(self) -> dict[str, str]:
        """Columns whose type differs between frames, with the type in each."""
        return {
            name: kinds_in_words([str(part.schema[name]) for part in kinds], [str(part.name) for part in kinds])
            for name, kinds in self._kinds.items()
            if len(set(kinds.values())) > 1
        }

    @cached_property
    def with_gaps(self) -> tuple[str, ...]:
        """Numeric columns and conditions with missing or infinite values, by one query for each frame."""
        gaps: set[str] = set()
        for part in self.frames.parts:
            names = [name for name in self._with_means if part in self._kinds[name]]
            endless = 1.0 - np.isfinite(Expressions([nw.col(name).cast(nw.Float64) for name in names]))
            counts = part.sums(endless.terms) if names else ()
            gaps |= {name for name, count in zip(names, counts, strict=True) if count}
        return tuple(name for name in self._with_means if name in gaps)

    @cached_property
    def numeric_columns(self) -> tuple[str, ...]:
        """The numeric columns that all frames have, without missing values: it takes a pass to find out."""
        numeric, gaps = self.columns["numeric"], self.with_gaps
        return tuple(name for name in numeric if self._is_in_all(name) and name not in gaps)

    @cached_property
    def of_some(self) -> dict[str, tuple[int, ...]]:
        """Numeric columns and conditions that only some samples have recorded, with these samples."""
        names = [name for name in self._with_means if name in self.with_gaps or not self._is_in_all(name)]
        recorded = {name: self._recorded(name).states for name in names}
        return {name: states for name, states in recorded.items() if states != self.states}

    def _recorded(self, name: str) -> RowsInEngine:
        """Return the rows of the samples that have recorded a column: their frames have it, with some value."""
        states = self.recorded_by([name])
        return self.of(states)._recorded(name) if states else self

    def without_gaps(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of some columns of some samples that have no missing values in these."""
        found = []
        for name in names:
            with suppress(MissingValuesError):
                self.of(self.of_some[name]).matrix([name])
                found.append(name)
        return tuple(found)

    def numeric_without_gaps(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of some columns of some samples that are numeric, and complete in their samples."""
        return self.without_gaps([name for name in self.columns["numeric"] if name in names])

    def rows_by_text(self, name: str, most: int) -> Mapping[str | None, float] | None:
        """Query how many rows have each text, or None for missing; None if there are more than ``most`` texts."""
        text = nw.col(name).cast(nw.String)
        return rows_by_value(
            [part.map(lambda frame: frame.with_columns(text)) for part in self.frames.parts], name, most
        )

    # Questions that take rows

    def in_groups(self, solved: Solved, statistic: Any, groups: Any, seed: int, identity: str | None) -> GroupSums:
        """Return sums by group of rows: of the statistics, of 1, and of the biases that no row was drawn with."""
        if callable(statistic):
            raise refusal("bootstrap of functions", "engine")
        if groups is not None and not isinstance(groups, str):
            raise needs_rows("A bootstrap of groups that are not a column")
        if groups is None and not self.dependence.in_units and any(part.counted for part in self.frames.parts):
            raise needs_rows("A bootstrap of means, where rows have counts,")
        given, lengths, variances = self.dependence, None, None
        if groups is None and given.strata:
            raise needs_rows("A bootstrap within strata")
        asked = [] if statistic is None else self.matrix([statistic] if is_function(statistic) else statistic)
        if groups is None:
            groups = given.clusters
            lengths, variances = batches(solved, asked or None) if given.order else (None, None)
        idle = np.flatnonzero(self.frames.sizes == 0).tolist()

        def make(block: Block, at: RowsAt) -> Floats:
            own = [block.columns(asked)] if asked else []
            return np.hstack([*own, at.weight * 0.0 + 1.0, *(at.users_bias(k) for k in idle)])

        functions = Functions((), len(asked) + 1 + len(idle), make)
        sums = sums_in_groups(solved.tangent.measure, functions, groups, seed, identity, self.pool.names, lengths)
        return replace(sums, variances=variances)

    def draw(self, measure: Measure, n: int, seed: RandomSeed, *, replace: bool | None, identity: str | None) -> Any:
        """Draw rows by weight and without replacement, as lazy frames."""
        if replace:
            raise refusal("draws with replacement", "engine")
        entropy = entropy_of(seed)
        drawn = drawn_rows(self.rows_asked, measure.weight, n, entropy, identity)
        return self.by_name(drawn)

    def chances(self, measure: Measure) -> NoReturn:
        """Refuse: positions of rows are drawn in memory."""
        raise refusal("draws with replacement", "engine")


def _kind(dtype: nw.dtypes.DType) -> str:
    if dtype.is_numeric():
        return "numeric"
    return "conditions" if dtype == nw.Boolean else "texts" if dtype in (nw.String, nw.Categorical, nw.Enum) else ""


def _start(few: Dense) -> Floats:
    """Return the solution u of a small part of the rows, or a rough start if they do not determine it."""
    if connected(few.reach, few.sizes):
        solution: Solution = solve(few, tol=1e-6)
        if solution.gap >= GAP:
            return solution.u
    return few.start()


def _steps(measure: Measure, function: EngineFunction, domain: EngineFunction | None = None) -> Steps:
    """Return where the distribution function of a function steps, in a domain if one is given."""
    x = as_functions((function,))
    inside = None if domain is None else as_functions((domain,))

    def counted(block: Block) -> Counted:
        at = measure.point.at(block)
        there = block.of_sample(np.ones((block.K, 1)))
        if measure.states:
            there = there * measure.inside_of(block)
        if inside is not None:
            there = there * inside.of(block, at)
        return Counted(x.of(block, at), at.weight * there, there)

    assert isinstance(measure.rows, Queries)
    return Steps(x, SharesInEngine(measure.rows, counted), inside)
