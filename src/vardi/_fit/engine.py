"""A solved fit whose rows stay in their engine: answers the questions of a DebiasedSample by queries."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from vardi._estimate.bounds import Bounds
from vardi._estimate.resampling import effective_rows
from vardi._estimate.steps import Steps
from vardi._estimate.tangent import Hessian, Tangent
from vardi._fit.capabilities import refusal
from vardi._fit.engine_columns import EngineColumns
from vardi._fit.engine_parts import EngineParts
from vardi._fit.held import Held, SomeSamples
from vardi._fit.new_rows import weigh
from vardi._fit.prepare import Prepared
from vardi._inputs.domains import By, bases, in_domains
from vardi._inputs.engine.part import Part
from vardi._inputs.engine.pool import LazyPool
from vardi._inputs.frames.functions import bias_of, is_function, name_of
from vardi._rows.arrays import Arrays
from vardi._rows.columns import Block, Question
from vardi._rows.domains import RowsByDomain
from vardi._rows.engine.domains import DomainColumns, domains_of, is_in, missing_by_domain
from vardi._rows.engine.draw import drawn_rows
from vardi._rows.engine.functions import EngineFunction, all_missing, compiled_functions, condition
from vardi._rows.engine.groups import GroupSums, sums_in_groups
from vardi._rows.engine.shares import Counted, SharesInEngine
from vardi._rows.joint import Joint, JointRows
from vardi._rows.measure import Functions, Measure, as_functions
from vardi._rows.point import Model, Point, RowsAt
from vardi._rows.queries import Queries
from vardi._rows.series import batch_lengths
from vardi._rows.weights import overlap
from vardi._solve.identify import Verdict, judge
from vardi._solve.model import JointFit
from vardi._types import Floats
from vardi.errors import MissingValuesError, number_of_rows
from vardi.errors._refusals import needs_rows, not_covered
from vardi.errors._texts import listed


class InEngine(Held):
    """Lazy frames with their weights as expressions.

    Parameters
    ----------
    pool : LazyPool
        The frames.
    prepared : Prepared
        What was solved: rows with known biases and, with parameters or known values, the joint rows; both in memory if
        equal rows were collapsed, and otherwise in the engine.
    found : JointFit
        The solution.
    some : SomeSamples or None
        The samples in question; all by default.
    """

    in_memory = False

    def __init__(self, pool: LazyPool, prepared: Prepared, found: JointFit, some: SomeSamples | None = None) -> None:
        super().__init__(pool, prepared, found, some)
        assert prepared.frames is not None
        assert prepared.model is not None
        self.frames, self.model = prepared.frames, prepared.model
        self.collapsed = hasattr(prepared.rows, "matrix")  # equal rows were collapsed, and are in memory
        if self.collapsed:
            self.rows = self.joint.rows_at(self.theta)

    @cached_property
    def tangent(self) -> Tangent:
        """The solution as a map from functions on rows to estimates."""
        if self.some is not None:
            return self.some.tangent
        if self.is_plain:
            hessian = Hessian(self.rows, self.solution.u, self.groups)
            return Tangent(self._measure(self.model, self.point), hessian, hessian)
        return self.tangent_at(self._measure(self.model, self.point), self.joint, self.point)

    def _measure(self, model: Model, v: Floats) -> Measure:
        """Return the frames with their weights at a point, which has weights of mean 1."""
        return Measure(self.frames, Point(model, v))

    # Weights

    @property
    def weights(self) -> Any:
        """The user's lazy frames with a column of weights."""
        point = self.tangent.measure.point
        return self._with("weight", lambda block: point.at(block).weight)

    @property
    def probabilities(self) -> Any:
        """The user's lazy frames with a column of probabilities."""
        measure = self.tangent.measure
        return self._with("probability", lambda block: block.counted(measure.point.at(block).weight) / measure.n)

    def _with(self, name: str, question: Question[Floats]) -> Any:
        """Return the user's lazy frames with a column, which is zero for rows that have no weight."""
        return self.by_name(self.rows_asked.frames_with((name,), question, self._dropped))

    @property
    def parts_asked(self) -> tuple[Part, ...]:
        """The frames with rows of the samples in question."""
        if self.some is None:
            return tuple(self.frames.parts)
        states = set(self.states)
        own = [part for part in self.frames.parts if not states.isdisjoint(part.codes.values())]
        return tuple(part.of_samples(states) for part in own)

    @cached_property
    def rows_asked(self) -> Queries:
        """The rows of the samples in question."""
        return Queries(self.parts_asked, self.frames.sizes, self.dependence)

    @property
    def _dropped(self) -> tuple[Part, ...]:
        """Frames whose rows have no weight: their samples were left out, or are not in question."""
        asked = set(self.states)
        return (*self.pool.dropped, *(part for part in self.frames.parts if asked.isdisjoint(part.codes.values())))

    def column(self, frames: Any, name: str) -> Any:
        """Return frames as they are: they already have the column."""
        return frames

    def by_name(self, frames: Mapping[int | None, Any]) -> Any:
        """Return the one frame of all samples, or frames by the name of their sample."""
        return (
            frames[None] if None in frames else {self.names[k]: frame for k, frame in frames.items() if k is not None}
        )

    def log_means(self) -> Floats:
        """Return the log of the mean of each bias over the population, sampled or not."""
        K = len(self.names)
        biases = Functions((), K, lambda block, at: np.hstack([at.users_bias(k) for k in range(K)]))
        with np.errstate(divide="ignore"):
            return np.log(self.tangent.measure.mean(biases))

    def judge(self) -> Verdict:
        """Judge the overlap, measured by the weights."""
        return judge(_Weighed(self), self.names)

    # Functions of the rows

    def functions(self, values: Any) -> list[EngineFunction]:
        """Return one column or expression as a function of the rows."""
        return self.matrix([values])

    def matrix(self, values: Any) -> list[EngineFunction]:
        """Return several columns or expressions as functions of the rows."""
        if not isinstance(values, list | tuple) or not all(is_function(part) for part in values):
            raise refusal("means of arrays", "engine")
        known = [self._compiled.get(value) if isinstance(value, str) else None for value in values]
        if not any(one is None for one in known):
            return [one for one in known if one is not None]
        parts = self.parts_asked
        functions = [bias_of(value, parts[0].schema) for value in values]
        found = compiled_functions(parts, functions, [name_of(value) for value in values])
        self._compiled |= {value: one for value, one in zip(values, found, strict=True) if isinstance(value, str)}
        return found

    values = functions

    def columns_of(self, asked: Mapping[str, Any]) -> dict[str, list[EngineFunction]]:
        """Return columns and expressions as functions of the rows, each on its own."""
        functions = self.matrix(list(asked.values())) if asked else []
        return {name: [function] for name, function in zip(asked, functions, strict=True)}

    @cached_property
    def _compiled(self) -> dict[str, EngineFunction]:
        """Functions that were checked for missing values, by their texts."""
        return {}

    def among(self, states: tuple[int, ...]) -> InEngine:
        """Return the same solution with the rows of some samples only."""
        self.require_joined_by_overlap()
        whole = self.whole
        measure = Measure.among(whole.tangent.measure, states, tuple(str(self.names[k]) for k in states))
        found = zip(self.names, measure.uncovered().tolist(), strict=True)
        if uncovered := {str(name): int(count) for name, count in found if count}:
            said = listed(f"{number_of_rows(count)} of {name!r}" for name, count in uncovered.items())
            raise not_covered([self.names[k] for k in states], said, next(iter(uncovered)), ())
        tangent = Tangent(measure, whole.tangent.jacobian, whole.tangent.hessian)
        return InEngine(whole.pool, whole.prepared, whole.found, SomeSamples(whole, states, tangent))

    def recorded_by(self, asked: Sequence[Any], columns: Sequence[str] = ()) -> tuple[int, ...]:
        """Return the samples that have recorded some functions and columns; empty if all have, or none.

        The schema shows which frames lack a column; whether a sample's values are all missing is queried if some are.
        """
        parts = self.parts_asked
        every = dict.fromkeys(name for part in parts for name in part.schema)
        named = [one for one in asked if is_function(one)]
        columns = [*columns, *(name for one in named for name in bias_of(one, every).columns if name in every)]
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
        return not bias_of(text, self.parts_asked[0].schema).columns

    def steps(self, values: Any) -> Steps:
        """Return where the distribution function of something steps."""
        return self._steps(self.functions(values)[0])

    def _steps(self, function: EngineFunction, domain: EngineFunction | None = None) -> Steps:
        """Return where the distribution function of a function steps, in a domain if one is given."""
        measure, x = self.tangent.measure, as_functions((function,))
        inside = None if domain is None else as_functions((domain,))

        def counted(block: Block) -> Counted:
            at = measure.point.at(block)
            there = measure.inside_of(block) if measure.states else None
            if inside is not None:
                own = inside.of(block, at)
                there = own if there is None else own * there
            return Counted(x.of(block, at), at.weight if there is None else at.weight * there, there)

        assert isinstance(measure.rows, Queries)
        return Steps(measure, x, SharesInEngine(measure.rows, counted), inside)

    def domains(
        self, values: Any, by: By, base: int, *, whole: bool = False
    ) -> tuple[tuple[tuple[Any, ...], ...], RowsByDomain]:
        """Return domains and a function of their rows (1 for None); the first ``base`` columns define their bases."""
        keys = domains_of(self.rows_asked, by, self.mixed, whole=whole)
        y = None if values is None else as_functions([self._function_in(values, by, keys)])
        labels = DomainColumns(self.parts_asked, by.columns, keys, base)
        return keys, RowsByDomain(self.tangent.measure, self.rows_asked, y, by, keys, labels, bases(keys, base))

    def steps_by_domain(self, values: Any, by: By) -> tuple[tuple[tuple[Any, ...], ...], Callable[[int], Steps]]:
        """Return domains, and a function that returns the steps of the distribution function in each."""
        keys = domains_of(self.rows_asked, by, self.mixed, whole=False)
        y = self._function_in(values, by, keys)
        return keys, lambda j: self._steps(y, condition(self.parts_asked, is_in(by.columns, keys[j])))

    def _function_in(self, values: Any, by: By, keys: Sequence[tuple[Any, ...]]) -> EngineFunction:
        """Return a function; an error about missing values names the domains that they are in."""
        try:
            return self.functions(values)[0]
        except MissingValuesError as error:
            counts = missing_by_domain(self.rows_asked, by, keys, list(error.columns))
            raise in_domains(error, by, keys, counts) from None

    @cached_property
    def _users(self) -> EngineColumns:
        """The user's columns."""
        return EngineColumns(self.frames.parts, {name for bias in self.pool.biases for name in bias.columns})

    @cached_property
    def numeric_columns(self) -> tuple[str, ...]:
        """The numeric columns that all frames have, without missing values: it takes a pass to find out."""
        found, gaps = self._users, self.with_gaps
        return tuple(name for name in found.by_kind["numeric"] if found.in_all(name) and name not in gaps)

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The user's columns by what they hold: those that the biases read first, those of some frames only last."""
        return self._users.by_kind

    @property
    def mixed(self) -> dict[str, str]:
        """Columns whose type differs between frames, with the type in each."""
        return self._users.mixed

    @property
    def with_gaps(self) -> tuple[str, ...]:
        """Numeric columns and conditions with missing or infinite values, by one query for each frame."""
        return self._users.with_gaps

    @cached_property
    def of_some(self) -> dict[str, tuple[int, ...]]:
        """Numeric columns and conditions that only some samples have recorded, with these samples."""
        users = self._users
        names = [name for name in users.with_means if name in users.with_gaps or not users.in_all(name)]
        found = {name: self.recorded_by([name]) for name in names}
        return {name: states for name, states in found.items() if states}

    @cached_property
    def whole_of_some(self) -> dict[str, tuple[int, ...]]:
        """Those of them that have no missing values in their samples, if these cover the pool."""
        found = {}
        for name in self.of_some:
            if name not in self.uncovered:
                with suppress(MissingValuesError):
                    held = self.recorded(name)
                    held.matrix([name])
                    found[name] = held.states
        return found

    @property
    def numeric_of_some(self) -> tuple[str, ...]:
        """The numeric columns among them."""
        return tuple(name for name in self.columns["numeric"] if name in self.whole_of_some)

    @property
    def gaps(self) -> dict[str, int]:
        """Empty: it takes a pass to count missing values."""
        return {}

    # Known values

    @property
    def summed_in_memory(self) -> bool:
        """Whether the distinct rows in memory are enough for errors, because rows are independent."""
        return self.collapsed and not self.depends

    @property
    def dependence(self) -> Any:
        """How rows depend on one another."""
        return self.frames.dependence

    def measure_of(self, joint: JointRows, v: Floats, weights: Floats) -> Measure:
        """Return the frames with their weights at a point, which has weights of mean 1."""
        return self._measure(self._model_of(joint), v)

    def quick_tangent_of(self, joint: JointRows, v: Floats) -> Tangent:
        """Return the tangent at another point of the distinct rows, if these are in memory; of the frames otherwise."""
        if not self.summed_in_memory:
            return self.tangent_of(joint, v)
        weights, scale = joint.weights(v)
        v = joint.coordinates.rescaled(v, scale)
        assert isinstance(joint, Joint)
        rows = Arrays.as_solved(joint.base)
        return self.tangent_at(Measure(rows, Point(joint.model, v, weights)), joint, v)

    def _model_of(self, joint: JointRows) -> Model:
        """Return the model of joint rows, which may have no known values, all of them, or the masses of groups."""
        if not self.collapsed:
            return joint.model
        is_of_functions = joint.coordinates.known and joint.known.by_sample is None
        return self.model if is_of_functions else dataclasses.replace(self.model, known=joint.known)

    def known_on_rows(self, tangent: Tangent) -> Functions:
        """Return the functions with known means, on the rows of a tangent."""
        in_memory = isinstance(tangent.measure.rows, Arrays)
        return self.known_functions(self.prepared.values if in_memory else self.pool.declared.function_columns)

    # Questions that take rows

    def in_groups(self, statistic: Any, groups: Any, seed: int, identity: str | None) -> GroupSums:
        """Return sums by group of rows: of the statistics, of 1, and of the biases that no row was drawn with."""
        if callable(statistic):
            raise refusal("bootstrap of functions", "engine")
        if groups is not None and not isinstance(groups, str):
            raise needs_rows("A bootstrap of groups that are not a column")
        if groups is None and not self.depends and any(part.counted for part in self.frames.parts):
            raise needs_rows("A bootstrap of means, where rows have counts,")
        given, lengths = self.dependence, None
        statistics = [statistic] if is_function(statistic) else statistic
        if groups is None:
            if given.strata:
                raise needs_rows("A bootstrap within strata")
            groups = given.clusters
            if given.series:
                effective = effective_rows(self, None if statistic is None else self.matrix(statistics))
                lengths = batch_lengths(self.rows.sizes, effective)
        idle = np.flatnonzero(self.rows.sizes == 0).tolist()
        asked = [] if statistic is None else self.matrix(statistics)

        def make(block: Block, at: RowsAt) -> Floats:
            own = [block.columns(asked)] if asked else []
            return np.hstack([*own, at.weight * 0.0 + 1.0, *(at.users_bias(k) for k in idle)])

        functions = Functions((), len(asked) + 1 + len(idle), make)
        return sums_in_groups(self.tangent.measure, functions, groups, seed, identity, self.names, lengths)

    def parts(self, fit: Any) -> EngineParts:
        """Return what accounts of a fit need of its rows."""
        return EngineParts(fit)

    def draw(self, n: int, seed: Any, *, replace: bool | None, identity: str | None = None) -> Any:
        """Draw rows by weight and without replacement, as lazy frames."""
        if replace:
            raise refusal("draws with replacement", "engine")
        point = self.tangent.measure.point
        return self.by_name(drawn_rows(self.rows_asked, lambda block: point.at(block).weight, n, seed, identity))

    def drawing(self) -> NoReturn:
        """Refuse: positions of rows are drawn in memory."""
        raise refusal("draws with replacement", "engine")

    def bounds(self, delta: float) -> Bounds:
        """Refuse: the constants are extremes over rows."""
        raise refusal("bounds", "engine")

    def weigh(self, rows: Any) -> Any:
        """Return the weight of rows in memory, which need not be in the pool."""
        return weigh(self, rows)


class _Weighed:
    """Rows in an engine whose overlap is measured by the weights."""

    def __init__(self, held: InEngine) -> None:
        self._held, self.sizes = held, held.rows.sizes

    def masses(self) -> Floats:
        return np.empty(0)

    def reach(self) -> Any:
        return self._held.rows.reach()

    def overlap(self, mass: Floats) -> Floats:
        return overlap(self._held.tangent.measure)
