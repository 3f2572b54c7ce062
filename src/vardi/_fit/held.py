"""A solved fit: what its questions need, wherever the rows are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from vardi._estimate.tangent import Hessian, Influence, Tangent
from vardi._fit.prepare import Prepared
from vardi._inputs.pool import Name, Pool
from vardi._rows.columns import Block, Kept
from vardi._rows.dense import Dense
from vardi._rows.draws import SharedPasses
from vardi._rows.joint import Joint, JointRows
from vardi._rows.measure import Functions, Measure
from vardi._rows.point import RowsAt
from vardi._solve.joint import JacobianAt
from vardi._solve.model import JointFit
from vardi._solve.parameters import held_of
from vardi._solve.refit import Refit, refit_draws, refit_joint, refit_plain
from vardi._types import Floats
from vardi.errors import ImpossibleRowError, NotIdentifiableError
from vardi.errors._texts import show

if TYPE_CHECKING:
    from vardi._estimate.bias_check import BiasCheck, Features
    from vardi._estimate.sensitivity.errors_of_biases import Errors

ONLY_KNOWN = (
    "only the known values determine the parameters of a bias, so the samples alone fit any column that they describe. "
    "See fit.known, which compares all known values with one another."
)


@dataclass(frozen=True, eq=False)
class SomeSamples:
    """Some samples of a fit, with weights of their own.

    Attributes
    ----------
    whole : InMemory or InEngine
        The fit of all samples.
    states : tuple of int
        Their places in it.
    tangent : Tangent
        The solution as a map from functions on their rows to estimates.
    """

    whole: Held
    states: tuple[int, ...]
    tangent: Tangent


class Held:
    """Rows with their weights: the base of :class:`InMemory` and :class:`InEngine`.

    Parameters
    ----------
    pool : Pool
        What the user gave.
    prepared : Prepared
        What was solved.
    found : JointFit
        The solution, the point that the samples alone give, and the groups that known values join.
    some : SomeSamples or None
        The samples in question; all by default.
    """

    apart = "too few of their rows join the samples"  # why a draw of rows has no fit

    def __init__(self, pool: Pool, prepared: Prepared, found: JointFit, some: SomeSamples | None = None) -> None:
        self.pool: Any = pool if prepared.pool is None else prepared.pool
        self.prepared, self.found, self.solution, self.some = prepared, found, found.solution, some
        self.alone, self.groups, self.joining = found.alone, found.groups, found.joining
        self.joint: JointRows = prepared.joint
        self.names: tuple[Name, ...] = pool.names
        self.rows: Any = prepared.rows

    reference: Any = None  # with learned biases: the fit of the samples whose biases are known
    tangent: Any  # the solution as a map from functions to estimates with errors
    dependence: Any  # how rows depend on one another

    def __len__(self) -> int:
        return len(self.pool)

    @property
    def is_whole(self) -> bool:
        """Whether all samples are in question, not some of them."""
        return self.some is None

    @property
    def whole(self) -> Any:
        """The fit of all samples: this one itself, if it is not of some."""
        return self if self.some is None else self.some.whole

    @cached_property
    def states(self) -> tuple[int, ...]:
        """The samples in question."""
        if self.some is not None:
            return self.some.states
        return tuple(np.flatnonzero(self.rows.sizes > 0).tolist())

    @cached_property
    def log_omegas(self) -> Floats:
        """The log of each normaliser."""
        sizes: Floats = self.rows.sizes
        if sizes.all():
            return np.log(sizes / sizes.sum()) - self.solution.u
        return self.log_means() if self.some is None else self.some.whole.log_omegas

    def log_means(self) -> Floats:
        """Return the log of the mean of each bias over the population, sampled or not."""
        raise NotImplementedError

    @property
    def is_learned(self) -> bool:
        """Whether a bias was learned from the rows."""
        return self.reference is not None

    @property
    def depends(self) -> bool:
        """Whether rows are not independent: they are in clusters, series or strata."""
        return bool(self.dependence.in_units)

    @property
    def is_plain(self) -> bool:
        """Whether there are neither parameters nor known values."""
        return self.prepared.is_plain

    @property
    def point(self) -> Floats:
        """All coordinates of the solution."""
        return self.solution.u if self.solution.point is None else self.solution.point

    @property
    def solved(self) -> dict[Name, float]:
        """The log normalisers as they were solved, from which a fit of more rows can start."""
        return dict(zip(self.names, self.log_omegas.tolist(), strict=True))

    @property
    def theta(self) -> Floats:
        """The parameters, as the solver has them."""
        return self.point[self.joint.coordinates.theta]

    def tangent_at(self, measure: Measure, joint: JointRows, v: Floats) -> Tangent:
        """Return the tangent at a point of the rows, given these with their weights there."""
        at = joint.coordinates
        hessian = Hessian(joint.rows_at(v[at.theta]), v[at.u] - joint.model.shift(v[at.theta]), self.groups)
        jacobian = hessian if self.is_plain else JacobianAt(joint, v, held_of(joint))
        return Tangent(measure, jacobian, hessian, approximate=self.is_learned)

    def tangent_of(self, joint: JointRows, v: Floats) -> Tangent:
        """Return the tangent at another point of the same rows."""
        weights, scale = joint.weights(v)
        v = joint.coordinates.rescaled(v, scale)
        return self.tangent_at(self.measure_of(joint, v, weights), joint, v)

    def measure_of(self, joint: JointRows, v: Floats, weights: Floats) -> Measure:
        """Return the rows of the pool with their weights at a point, which has weights of mean 1."""
        raise NotImplementedError

    def quick_tangent_of(self, joint: JointRows, v: Floats) -> Tangent:
        """Return the tangent at another point for functions with known means, which need not ask rows in an engine."""
        return self.tangent_of(joint, v)

    @cached_property
    def tangent_of_samples(self) -> Tangent | None:
        """The solution for the samples alone, without known values; None if only these determine parameters."""
        if not self.prepared.known:
            own: Tangent = self.tangent
            return own
        joint = self.joint.without_known()
        return None if self.alone is None else self.tangent_of(joint, self.alone[: len(joint.coordinates)])

    def check_biases(self, asked: Mapping[str, Any], features: Features) -> BiasCheck:
        """Test the declared biases by overlap alone, without known values."""
        if self.reference is not None:
            from vardi._fit.reference import check_reference

            return check_reference(self, asked, features)
        return self.check_columns(self.columns_of(asked), features)

    def columns_of(self, asked: Mapping[str, Any]) -> dict[str, Kept]:
        """Return columns and expressions as they are kept, each on its own."""
        raise NotImplementedError

    def check_columns(self, columns: Mapping[str, Kept], features: Features) -> BiasCheck:
        """Test the declared biases, given columns of the rows in the fit."""
        from vardi._estimate.bias_check import untested
        from vardi._estimate.bias_test import check_biases

        if self.tangent_of_samples is None:
            return untested(ONLY_KNOWN)
        return check_biases(self.tangent_of_samples, self.names, columns, features=features)

    def bias_functions(self) -> Functions:
        r"""Return the functions :math:`\omega_k / \Omega_k` at the estimated parameters: all have the mean 1."""
        logs = np.where(np.isfinite(self.log_omegas), self.log_omegas, 0.0)  # a bias that covers no row has no tilt
        return Functions((), len(logs), lambda block, at: block.tilts(at, logs), weighed=True)

    def bias_influence(self) -> Influence:
        r"""Return the influence on each :math:`\log\Omega_k`, through weights and through the bias's parameters."""
        moved = None
        if self.joint.families:
            moved = self.tangent.n * self.joint.mean_gradients(self.point)
        return self.tangent.influence_on(self.bias_functions(), np.ones(len(self.names)), moved)

    def log_omega_covariance(self) -> Floats:
        r"""Return :math:`\sum_i \pi_i^2 g_i g_i' + a'H^+a / n` (MBAR's form), which works for samples of a single row.

        With parameters, known values, or rows that depend on one another, return that of the influence values.
        """
        if not self.is_plain or not self.dependence.independent:
            return self.bias_influence().covariance()
        tangent, functions, ones = self.tangent, self.bias_functions(), np.ones(len(self.names))

        def question(block: Block, at: RowsAt) -> tuple[Floats, Floats]:
            g = block.let(functions.over(block, at, ones))
            return at.against(g), block.gram(g, g)

        a, squares = tangent.measure.total(question, len(ones))
        return np.asarray((squares + a.T @ tangent.hessian.solve(a)) / tangent.n**2)

    def known_functions(self, values: Kept) -> Functions:
        """Return the functions with known means, of which values are kept; biases are those at a point."""
        moving, m = self.prepared.moving, len(self.prepared.known)

        def make(block: Block, at: RowsAt) -> Floats:
            columns = block.solved(values)
            own = {j: at.users_bias(k) for j, k in moving.items()}
            return np.hstack([own.get(j, columns[:, [j]]) for j in range(m)]) if own else columns

        return Functions((), m, make)

    def known_at(self, tangent: Tangent, joint: JointRows, v: Floats) -> tuple[Floats, Influence]:
        """Return the means of the known functions at another point, and the influence on them."""
        functions = self.known_on_rows(tangent)
        eta, gradients = tangent.measure.mean(functions), joint.mean_gradients(v)
        moved = np.zeros((len(joint.coordinates), len(eta)))
        for j, k in self.prepared.moving.items():
            moved[:, j] = tangent.n * eta[j] * gradients[:, k]
        return tangent.influence(functions, moved)

    def known_on_rows(self, tangent: Tangent) -> Functions:
        """Return the functions with known means, for the rows of a tangent."""
        raise NotImplementedError

    def measured_known(self) -> Floats:
        """Return the means of the known functions under the weights."""
        return self.tangent.measure.mean(self.known_on_rows(self.tangent))

    def slopes(self, influence: Influence, errors: Errors) -> Floats:
        """Return how far estimates move at worst, per unit of log Gamma."""
        from vardi._estimate.sensitivity.worst import slopes

        return slopes(self.tangent.measure, influence, errors)

    def moved_known(self) -> Floats:
        """Return the known values, shifted within their errors as in the solution."""
        moved = self.joint.known.root @ self.point[self.joint.coordinates.epsilon]
        return self.prepared.known.values + np.linalg.pinv(self.prepared.directions.T) @ moved

    @property
    def of_some(self) -> Mapping[str, tuple[int, ...]]:
        """Columns that only some samples have recorded, with these samples."""
        raise NotImplementedError

    def among(self, states: tuple[int, ...]) -> Any:
        """Return the same solution with the rows of some samples only."""
        raise NotImplementedError

    def of(self, states: tuple[int, ...]) -> Any:
        """Return the fit with the rows of some samples only, made once; this one itself if none are given."""
        if not states or states == self.states:
            return self
        made = self.whole._of_samples
        if states not in made:
            made[states] = self.among(states)
        return made[states]

    def recorded_by(self, asked: Sequence[Any], columns: Sequence[str] = ()) -> tuple[int, ...]:
        """Return the samples that have recorded some functions and columns; empty if all have, or none."""
        raise NotImplementedError

    def recorded(self, values: Any) -> Any:
        """Return the rows of the samples that have recorded something."""
        states = self.recorded_by([values])
        return self.of(states).recorded(values) if states else self

    @cached_property
    def _of_samples(self) -> dict[tuple[int, ...], Any]:
        """Fits with the rows of some samples only, as far as they were asked for."""
        return {}

    @cached_property
    def uncovered(self) -> dict[str, str]:
        """Columns that have no mean because the samples that recorded them do not cover the pool, with the reason."""
        reasons: dict[tuple[int, ...], str] = {}
        for states in dict.fromkeys(self.of_some.values()):
            try:
                self.of(states)
            except (ImpossibleRowError, NotIdentifiableError) as error:
                reasons[states] = str(error)
        return {name: reasons[states] for name, states in self.of_some.items() if states in reasons}

    def require_joined_by_overlap(self) -> None:
        """Refuse to use some samples alone if only known values join groups: normalisers are then not identified."""
        if self.groups is not None and self.groups.max() > 0:
            groups = [[self.names[k] for k in np.flatnonzero(self.groups == g)] for g in range(self.groups.max() + 1)]
            raise NotIdentifiableError(
                f"Only known values join {show(groups[0])} and {show(groups[1])}, so the weights of all rows together "
                "are determined, but not those of some samples alone. Add a sample that overlaps both.",
                groups=groups,
            )

    def refit(self, counts: Floats, *, tol: float, may_part: bool, rng: np.random.Generator | None = None) -> Refit:
        """Solve again for other counts of the rows in memory; rng redraws known values that have an error."""
        if self.is_plain:
            return refit_plain(self.rows.with_counts(counts), self.solution.u, tol=tol, may_part=may_part)
        assert isinstance(self.joint, Joint)
        return refit_joint(self.joint.with_counts(counts), self.point, tol=tol, rng=rng)

    def shared_passes(self, functions: Floats) -> SharedPasses | None:
        """Return passes over the rows that refits to other counts can share; None if they cannot share any."""
        if self.is_plain and isinstance(self.rows, Dense) and self.rows.sizes.all():
            return SharedPasses(self.rows, self.solution.u, functions)
        return None

    def refit_draws(self, passes: SharedPasses, counts: Floats, *, tol: float, weights: bool) -> Sequence[Refit | None]:
        """Solve again for counts of shape (draws, rows) in shared passes; None for a draw that must be solved alone."""
        return refit_draws(passes, self.tangent.hessian.laplacian, counts, tol=tol, weights=weights)
