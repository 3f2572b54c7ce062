"""A fit before and after it is solved: the user's rows, the solution at them, and what follows from both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, cast

import numpy as np

from vardi._estimate.estimates import ROUNDING, Estimate, estimates_of
from vardi._estimate.intervals import Kind, any_number, constant, known
from vardi._estimate.tangent import Hessian, Influence, Tangent
from vardi._fit.capabilities import Holder
from vardi._inputs.domains import By
from vardi._inputs.given import Function
from vardi._inputs.known import NOTHING_KNOWN, Known
from vardi._inputs.pool import Name, Pool
from vardi._rows import Rows
from vardi._rows.contract import Block, Kept
from vardi._rows.dense import Dense
from vardi._rows.likelihood import Joint, JointRows
from vardi._rows.measure import Functions, Measure
from vardi._rows.point import KnownMoments, Point, RowsAt
from vardi._rows.weights import overlap
from vardi._solve.identify import Verdict, joined_verdict, judge
from vardi._solve.newton import JointFit
from vardi._solve.refit import Refit, SharedPasses, refit_joint, refit_plain
from vardi._solve.saddle import Iterate
from vardi._types import Floats
from vardi.biases import Bias, ExpressionBias, ParametricBias
from vardi.errors import ImpossibleRowError, NotIdentifiableError
from vardi.errors._refusals import needs_rows
from vardi.errors._texts import show

if TYPE_CHECKING:  # what a fit itself does not need is loaded when it is asked for
    from vardi._estimate.check_results import BiasCheck, Features
    from vardi._estimate.domains import DomainEstimates
    from vardi._estimate.sensitivity.question import Errors
    from vardi._fit.rows_in_engine import RowsInEngine
    from vardi._fit.rows_in_memory import RowsInMemory
    from vardi._fit.weigher import Weigher
    from vardi._rows.lazy_model import LazyRows

    AnyRows: TypeAlias = RowsInMemory | RowsInEngine  # with the same methods, so that what asks need not know which

Keys: TypeAlias = tuple[tuple[Any, ...], ...]
"""The keys of domains: the values of the columns that define each."""

ONLY_KNOWN = (
    "only the known values determine the parameters of a bias, so the samples alone fit any column that they describe. "
    "See fit.known, which compares all known values with one another."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class UserRows:
    """What the user gave, wherever its rows are: samples and biases, all of them or those in question.

    Attributes
    ----------
    holder : str
        What is declared in ``_fit/capabilities`` for such rows.
    in_memory : bool
        Whether rows are in memory, or read in blocks, rather than in an engine.
    pool : Pool
        The rows.
    known : object
        What is known of the population, as the user gave it; checked already for an engine.
    sampled, states : tuple of int
        The places of all samples that have rows, and of those in question: none before the rows are prepared.
    reference : Solved or None
        With learned biases: the samples whose biases are known, debiased.
    """

    holder: ClassVar[Holder]
    in_memory: ClassVar[bool]
    pool: Pool
    known: Any = None
    sampled: tuple[int, ...] = ()
    states: tuple[int, ...] = ()
    reference: Solved | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all samples are in question, not some of them."""
        return self.states == self.sampled

    def of(self, states: tuple[int, ...]) -> Self:
        """Return the same rows, with other samples in question."""
        return replace(self, states=states)

    def explained(self, verdict: Verdict) -> Verdict:
        """Return a verdict with an explanation from the rows; as it is in an engine, where that would take a pass."""
        return verdict

    def solved(self, prepared: Prepared, found: JointFit) -> Solved:
        """Return the solution at the rows."""
        return Solved(prepared, found)

    @property
    def gaps(self) -> Mapping[str, int]:
        """How many values are missing or infinite in each numeric column that has such; unknown without a pass."""
        return {}


@dataclass(frozen=True)
class Prepared:
    """What a fit solves.

    Attributes
    ----------
    names : tuple
        A name for each bias of these rows.
    rows : Rows or LazyRows
        The rows with their known biases; for biases with parameters, the known factor.
    joint : Joint or EngineRows
        The same with parameters and known moments.
    data : RowsInMemory or RowsInEngine
        What the user gave, with biases completed from the rows, where categories have parameters.
    known : Known
        What is known.
    in_memory : bool
        Whether the rows to solve are in memory, as they also are if equal rows of an engine were collapsed.
    """

    names: tuple[Name, ...]
    rows: Rows | LazyRows
    joint: JointRows
    data: AnyRows
    known: Known = NOTHING_KNOWN
    in_memory: bool = True

    @classmethod
    def plain(cls, names: tuple[Name, ...], rows: Rows, data: AnyRows) -> Prepared:
        """Return rows without parameters and known values."""
        return cls(names, rows, Joint(rows, {}, KnownMoments.none()), data)

    @property
    def is_plain(self) -> bool:
        """Whether there are neither parameters nor known values, so that normalisers are all there is to solve for."""
        return not self.known.labels and not self.joint.families

    @property
    def sizes(self) -> dict[Name, float]:
        """How many (counted) rows were drawn with each bias."""
        return dict(zip(self.names, self.rows.sizes.tolist(), strict=True))


class Solved:
    """The solution of a fit, at the rows of all samples or of those in question.

    Parameters
    ----------
    prepared : Prepared
        What was solved.
    found : JointFit
        The solution, the point that the samples alone give, and the groups that known values join.
    data, whole, tangent : RowsInMemory or RowsInEngine, Solved and Tangent, optional
        For some samples: their rows, the fit of all, and the solution as a map from functions to estimates.
    """

    apart = "too few of their rows join the samples"  # why a draw of rows has no fit

    def __init__(
        self,
        prepared: Prepared,
        found: JointFit,
        data: AnyRows | None = None,
        whole: Solved | None = None,
        tangent: Tangent | None = None,
    ) -> None:
        self.prepared, self.found = prepared, found
        sampled = tuple(np.flatnonzero(prepared.rows.sizes > 0).tolist())
        self.data: AnyRows = replace(prepared.data, sampled=sampled, states=sampled) if data is None else data
        self.whole: Solved = self if whole is None else whole
        if tangent is not None:
            self.tangent = tangent
        self.solution, self.alone, self.groups, self.joining = found.solution, found.alone, found.groups, found.joining
        self.joint = prepared.joint
        self.names = prepared.names
        self.rows: Rows | LazyRows = prepared.joint.rows_at(self.theta) if prepared.in_memory else prepared.rows
        self._of_samples: dict[tuple[int, ...], Solved] = {}  # those of some samples, once they are asked for

    def __len__(self) -> int:
        return len(self.pool)

    @property
    def pool(self) -> Pool:
        """What the user gave."""
        return self.data.pool

    @property
    def depends(self) -> bool:
        """Whether rows are not independent: they are in clusters, series or strata."""
        return bool(self.data.dependence.in_units)

    @property
    def is_plain(self) -> bool:
        """Whether there are neither parameters nor known values."""
        return self.prepared.is_plain

    @property
    def summed_in_memory(self) -> bool:
        """Whether the rows that were solved are in memory, and enough for errors: rows are then independent."""
        return self.prepared.in_memory and not self.depends

    @property
    def point(self) -> Floats:
        """All coordinates of the solution."""
        return self.solution.u if self.solution.point is None else self.solution.point

    @property
    def theta(self) -> Floats:
        """The parameters, as the solver has them."""
        return self.point[self.joint.coordinates.theta]

    def users_theta(self, k: int) -> Floats:
        """Return the parameters of a bias, on the user's scale."""
        return self.joint.families[k].scale @ self.theta[self.joint.places[k]]

    def fixed_bias(self, k: int) -> Bias:
        """Return a bias that has parameters, with these fixed at their estimates."""
        bias = self.pool.biases[k]
        assert isinstance(bias, ParametricBias)
        return bias.at(self.users_theta(k).tolist())

    @cached_property
    def log_omegas(self) -> Floats:
        """The log of each normaliser: of the mean of each bias over the population, sampled or not."""
        if self.whole is not self:
            return self.whole.log_omegas
        sizes, u = self.rows.sizes, self.solution.u
        if sizes.all():
            return np.log(sizes / sizes.sum()) - u
        if self.is_plain:  # Omega_k = sum_i pi_i omega_k(z_i) holds for every k, sampled or not
            return self.rows.log_means(u) - np.log(sizes.sum())
        if self.solution.weights is not None:
            return self.rows_in_memory.log_weighted_means(self.solution.weights)
        K = len(self.names)
        biases = Functions((), K, lambda block, at: np.hstack([at.users_bias(k) for k in range(K)]))
        with np.errstate(divide="ignore"):
            return np.log(self.tangent.measure.mean(biases))

    @property
    def memory(self) -> RowsInMemory:
        """The rows that the user gave, in memory."""
        return cast("RowsInMemory", self.data)

    @property
    def engine(self) -> RowsInEngine:
        """The rows that the user gave, in an engine."""
        return cast("RowsInEngine", self.data)

    @cached_property
    def read(self) -> Solved:
        """The same fit with the rows of its engine in memory, for a model to see them."""
        if self.whole is not self:
            return self.whole.read.of(self.data.states)
        return self.engine.inputs.solved_in_memory(self.near)

    @property
    def rows_in_memory(self) -> Rows:
        """The rows that were solved, in memory."""
        assert isinstance(self.rows, Rows)
        return self.rows

    @property
    def near(self) -> dict[Name, float]:
        """The log normalisers as they were solved, from which a fit of more rows can start."""
        return dict(zip(self.names, self.log_omegas.tolist(), strict=True))

    # The solution as a map from functions to estimates with errors

    @cached_property
    def tangent(self) -> Tangent:
        """The solution as a map from functions on rows to estimates."""
        measure = self.data.measure_of(self.joint, self.point, self.solution.weights)
        return self._tangent_at(measure, self.joint, self.point, self.rows if self.is_plain else None)

    def _tangent_at(
        self, measure: Measure, joint: JointRows, v: Floats, rows: Rows | LazyRows | None = None
    ) -> Tangent:
        """Return the tangent at a point of joint rows, given their weights there, and their biases if known."""
        at = joint.coordinates
        rows = joint.rows_at(v[at.theta]) if rows is None else rows
        hessian = Hessian(rows, v[at.u] - joint.model.shift(v[at.theta]), self.groups)
        jacobian = hessian if self.is_plain else Iterate(joint, v)
        return Tangent(measure, jacobian, hessian, approximate=self.data.reference is not None)

    def tangent_of(self, joint: JointRows, v: Floats, *, quick: bool = False) -> Tangent:
        """Return the tangent at another point of the same rows.

        If it is to be quick, the rows that were solved are asked where they are enough: for functions that are constant
        over equal rows, such as those with known means.
        """
        weights, scale = joint.weights(v)
        v = joint.coordinates.rescaled(v, scale)
        if quick and self.summed_in_memory and not self.data.in_memory:
            assert isinstance(joint, Joint)
            measure = Measure(joint.base.arrays, Point(joint.model, v, weights))
        else:
            measure = self.data.measure_of(joint, v, weights)
        return self._tangent_at(measure, joint, v)

    # Some samples

    def of(self, states: tuple[int, ...]) -> Solved:
        """Return the solution with the rows of some samples only, made once; this one itself if none are given.

        Weights are 0 on all other rows.
        """
        if not states or states == self.data.states:
            return self
        whole, own = self.whole, self.whole.tangent
        if states not in whole._of_samples:
            self._require_joined_by_overlap()
            measure = Measure.among(own.measure, states, tuple(str(self.names[k]) for k in states))
            if measure.uncovered().any():
                raise self.data.of(states).not_covered(measure)
            tangent = Tangent(measure, own.jacobian, own.hessian, approximate=own.approximate)
            whole._of_samples[states] = whole.with_rows_of(states, tangent)
        return whole._of_samples[states]

    def with_rows_of(self, states: tuple[int, ...], tangent: Tangent) -> Solved:
        """Return the same solution with the rows of some samples only, and their weights."""
        return Solved(self.prepared, self.found, self.data.of(states), self, tangent)

    def recorded(self, values: Function) -> Solved:
        """Return the rows of the samples that have recorded something."""
        states = self.data.recorded_by([values])
        return self.of(states).recorded(values) if states else self

    def in_domains(
        self, values: Function | None, by: By, base: int, level: float, factor: float | Estimate | None
    ) -> tuple[Keys, DomainEstimates]:
        """Return domains and their numbers; the first ``base`` columns define the rows that each is relative to."""
        from vardi._estimate.domains import estimates_in_domains

        keys, domains = self.data.domains(self.tangent.measure, values, by, base)
        return keys, estimates_in_domains(self.tangent, domains, level, factor)

    @cached_property
    def uncovered(self) -> dict[str, str]:
        """Columns that have no mean because the samples that recorded them do not cover the pool, with the reason."""
        reasons: dict[tuple[int, ...], str] = {}
        for states in dict.fromkeys(self.data.of_some.values()):
            try:
                self.of(states)
            except (ImpossibleRowError, NotIdentifiableError) as error:
                reasons[states] = str(error)
        return {name: reasons[states] for name, states in self.data.of_some.items() if states in reasons}

    @cached_property
    def numeric_of_some(self) -> tuple[str, ...]:
        """The numeric columns without missing values that only some samples have recorded, if these cover the pool."""
        return self.data.numeric_without_gaps([name for name in self.data.of_some if name not in self.uncovered])

    def _require_joined_by_overlap(self) -> None:
        """Refuse to use some samples alone if only known values join groups: normalisers are then not identified."""
        if self.groups is not None and self.groups.max() > 0:
            groups = [[self.names[k] for k in np.flatnonzero(self.groups == g)] for g in range(self.groups.max() + 1)]
            raise NotIdentifiableError(
                f"Only known values join {show(groups[0])} and {show(groups[1])}, so the weights of all rows together "
                "are determined, but not those of some samples alone. Add a sample that overlaps both.",
                groups=groups,
            )

    # Normalisers

    def bias_functions(self) -> Functions:
        r"""Return the functions :math:`\omega_k / \Omega_k` at the estimated parameters: all have the mean 1."""
        logs = np.where(np.isfinite(self.log_omegas), self.log_omegas, 0.0)  # a bias that covers no row has no tilt
        return Functions((), len(logs), lambda block, at: block.tilts(at, logs), weighed=True)

    def bias_influence(self) -> Influence:
        r"""Return the influence on each :math:`\log\Omega_k`, through weights and through the bias's parameters."""
        moved = self.tangent.n * self.joint.mean_gradients(self.point) if self.joint.families else None
        return self.tangent.influence_on(self.bias_functions(), np.ones(len(self.names)), moved)

    def log_omega_covariance(self) -> Floats:
        r"""Return :math:`\sum_i \pi_i^2 g_i g_i' + a'H^+a / n` (MBAR's form), which works for samples of a single row.

        With parameters, known values, windows, or rows that depend on one another, return that of influence values.
        """
        if self.tangent.jacobian is not self.tangent.hessian or not self.data.dependence.independent:
            return self.bias_influence().covariance()
        tangent, functions, ones = self.tangent, self.bias_functions(), np.ones(len(self.names))

        def question(block: Block, at: RowsAt) -> tuple[Floats, Floats]:
            g = block.let(functions.over(block, at, ones))
            return at.against(g), block.gram(g, g)

        a, squares = tangent.measure.total(question, len(ones))
        return (squares + a.T @ tangent.hessian.solve(a)) / tangent.n**2

    def log_normalisers(self, level: float) -> list[Estimate]:
        """Return the log of each normaliser; of a bias that reads no column, or whose mean is known, it is declared."""
        influence = self.bias_influence()
        spread = influence.spread(joint=False)
        kinds: list[Kind] = [any_number] * len(self.names)
        for k in np.flatnonzero(spread.stderr <= ROUNDING).tolist():
            bias = self.pool.biases[k] if self.pool.biases else None
            is_constant = isinstance(bias, ExpressionBias) and not bias.columns
            is_declared = is_constant or self.joint.coordinates.known
            kinds[k] = known if is_declared else constant(self.tangent.of_units.df)
        return list(estimates_of(self.log_omegas, influence, level, kinds, spread=spread))

    def log_ratio(self, k: int, l: int, level: float) -> Estimate:
        """Return log(Omega_k / Omega_l): of two samples through u alone, whatever the scale of the normalisers."""
        contrast = np.zeros((len(self.names), 1))
        contrast[k] += 1.0
        contrast[l] -= 1.0
        if self.is_plain and k != l and self.rows.sizes[[k, l]].all():
            influence = self.tangent.of_coordinates(-contrast)
        else:
            influence = self.bias_influence() @ contrast
        return Estimate.from_influence(float(self.log_omegas[k] - self.log_omegas[l]), influence, level)

    def judge(self) -> Verdict:
        """Judge the overlap, measured by the weights, and how known values join groups."""
        if self.solution.weights is None:
            verdict = judge(self.rows, self.names, overlap(self.tangent.measure))
        else:
            mass = self.solution.weights * self.rows_in_memory.counts
            verdict = judge(self.rows, self.names, self.rows_in_memory.overlap(mass / mass.sum()))
        if self.joining is None or self.groups is None:
            return verdict
        return joined_verdict(verdict, self.joining, self.joint.masses_of(self.groups, self.point))

    # Known values

    def moved_known(self) -> Floats:
        """Return the known values, shifted within their errors as in the solution."""
        moved = self.joint.known.root @ self.point[self.joint.coordinates.epsilon]
        return self.prepared.known.values + np.linalg.pinv(self.joint.known.directions.T) @ moved

    def known_biases(self) -> dict[Name, Bias]:
        """Return the functions whose means are known and that read the rows, by their labels."""
        known = self.prepared.known
        pairs = zip(known.labels, known.functions, strict=True)
        return {f"known {label}": h for label, h in pairs if isinstance(h, Bias)}

    # Questions that depend on how samples were drawn

    def check_biases(self, asked: Mapping[str, Function], features: Features) -> BiasCheck:
        """Test the declared biases by overlap alone, without known values."""
        if self.data.reference is not None:
            from vardi._fit.learned import check_reference

            return check_reference(self, asked, features)
        return self.check_columns(self.data.columns_of(asked), features)

    def check_columns(self, columns: Mapping[str, Kept], features: Features) -> BiasCheck:
        """Test the declared biases, given columns of the rows in the fit."""
        from vardi._estimate.bias_test import check_biases
        from vardi._estimate.check_results import untested

        tangent = self.tangent
        if self.prepared.known:  # which are left out
            if self.alone is None:
                return untested(ONLY_KNOWN)
            joint = self.joint.without_known()
            tangent = self.tangent_of(joint, self.alone[: len(joint.coordinates)])
        return check_biases(tangent, self.names, columns, features=features)

    def slopes(self, influence: Influence, errors: Errors) -> Floats:
        """Return how far estimates move at worst, per unit of log Gamma."""
        from vardi._estimate.sensitivity.question import slopes

        return slopes(self.tangent.measure, influence, errors)

    @cached_property
    def weigher(self) -> Weigher:
        """The weight as a function of the row."""
        from vardi._fit.weigher import Weigher

        return Weigher.of(self)

    has_formula = True  # whether the weight is one, of the columns of a row

    def weigh(self, rows: Any) -> Any:
        """Return the weight of rows that need not be in the pool."""
        return self.weigher.weigh(rows)

    # Refits, and other questions to rows in memory

    def require_rows(self, what: str) -> None:
        """Refuse a question where the rows are in an engine."""
        if not self.data.in_memory:
            raise needs_rows(what)

    def refit(self, counts: Floats, *, tol: float, may_part: bool, rng: np.random.Generator | None = None) -> Refit:
        """Solve again for other counts of the rows in memory; rng redraws known values that have an error."""
        if self.is_plain:
            return refit_plain(self.rows_in_memory.with_counts(counts), self.solution.u, tol=tol, may_part=may_part)
        assert isinstance(self.joint, Joint)
        return refit_joint(self.joint.with_counts(counts), self.point, tol=tol, rng=rng)

    def shared_passes(self, functions: Floats) -> SharedPasses | None:
        """Return passes over the rows that refits to other counts can share; None if they cannot share any."""
        if self.is_plain and isinstance(self.rows, Dense) and self.rows.sizes.all():
            return SharedPasses(self.rows, self.solution.u, functions)
        return None
