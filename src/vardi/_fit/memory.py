"""A solved fit whose rows are in memory, or read in blocks: answers the questions of a DebiasedSample."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from vardi._estimate.own_states import OwnStates
from vardi._estimate.steps import Steps
from vardi._estimate.tangent import Influence, Tangent
from vardi._fit.capabilities import refusal
from vardi._fit.columns import ColumnsInMemory
from vardi._fit.held import SomeSamples
from vardi._fit.prepare import Prepared
from vardi._inputs.dependence import Dependence
from vardi._inputs.domains import By, Grouping, bases, grouping, in_domains
from vardi._inputs.frames import concat
from vardi._inputs.kept import KeptRows
from vardi._inputs.pool import Name, Pool
from vardi._machine.memory import require_memory
from vardi._rows import Rows
from vardi._rows.arrays import Arrays
from vardi._rows.joint import Joint, JointRows
from vardi._rows.measure import Functions, Measure, as_functions
from vardi._rows.point import Point
from vardi._solve.identify import Verdict, judge
from vardi._solve.model import JointFit
from vardi._types import Floats, Integers
from vardi.biases import Bias
from vardi.errors import ImpossibleRowError, MismatchError, MissingValuesError, number_of_rows
from vardi.errors._refusals import not_covered

if TYPE_CHECKING:  # what a fit itself does not need is loaded when it is asked for
    from vardi._estimate.bounds import Bounds
    from vardi._fit.parts import MemoryParts
    from vardi._rows.domains import RowsByDomain


class InMemory(ColumnsInMemory):
    """Rows of a pool with their weights.

    Parameters
    ----------
    pool : Pool
        What the user gave.
    kept : KeptRows
        Which of its rows are in the fit.
    prepared : Prepared
        What was solved.
    found : JointFit
        The solution.
    reference : InMemory or None
        With learned biases: the fit of the samples whose biases are known.
    some : SomeSamples or None
        The samples in question; all by default.
    """

    in_memory = True
    collapsed = True

    def __init__(
        self,
        pool: Pool,
        kept: KeptRows,
        prepared: Prepared,
        found: JointFit,
        reference: InMemory | None = None,
        some: SomeSamples | None = None,
    ) -> None:
        super().__init__(pool, prepared, found, some)
        self.kept, self.reference = kept, reference
        self.rows: Rows = self.joint.rows_at(self.theta)
        weights = found.solution.weights if some is None else some.tangent.measure.row_weights
        assert weights is not None
        self.row_weights: Floats = weights

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
        given: Dependence = self.pool.dependence
        return given.of(self.kept)

    @property
    def by_row(self) -> tuple[Integers, Floats, Dependence]:
        """Sample and count of each row, and how rows depend on one another."""
        return self.source, self.counts, self.dependence

    @cached_property
    def tangent(self) -> Tangent:
        """The solution as a map from functions on rows to estimates."""
        if self.some is not None:
            return self.some.tangent
        return self.tangent_at(self.measure_of(self.joint, self.point, self.row_weights), self.joint, self.point)

    def measure_of(self, joint: JointRows, v: Floats, weights: Floats) -> Measure:
        """Return the rows of the pool with their weights at a point, which has weights of mean 1."""
        assert isinstance(joint, Joint)
        rows = joint.base if joint.families else joint.base.settled(v[joint.coordinates.u])
        return Measure(Arrays(rows, *self.by_row), Point(joint.model, v, weights))

    def among(self, states: tuple[int, ...]) -> InMemory:
        """Return the same solution with the rows of some samples only: weights are 0 on all others."""
        self.require_joined_by_overlap()
        whole = self.whole
        measure = Measure.among(whole.tangent.measure, states, tuple(str(self.names[k]) for k in states))
        if measure.uncovered().any():
            rows = np.flatnonzero(measure.column(lambda at: at.share, 1)[:, 0] <= 0.0)
            raise self._not_covered(self.kept.positions[rows], states)
        tangent = Tangent(measure, whole.tangent.jacobian, whole.tangent.hessian, approximate=self.is_learned)
        return whole.with_rows_of(states, tangent)

    def with_rows_of(self, states: tuple[int, ...], tangent: Tangent) -> InMemory:
        """Return the same solution with the rows of some samples only, and their weights."""
        some = SomeSamples(self, states, tangent)
        return InMemory(self.pool, self.kept, self.prepared, self.found, self.reference, some)

    def _not_covered(self, rows: Integers, states: tuple[int, ...]) -> ImpossibleRowError:
        """Return the error for some samples, given the rows of the pool that none of them could have drawn."""
        k = int(self.pool.source[rows[0]])
        first = self.pool.place(int(rows[0]), states[0])
        others = f", nor {number_of_rows(len(rows) - 1)} more" if len(rows) > 1 else ""
        return not_covered([self.names[one] for one in states], f"{first}{others}", str(self.names[k]), rows.tolist())

    @cached_property
    def weights(self) -> Floats:
        """The weight of each row of the pool; 0 for those that were left out."""
        return self.kept.spread(self.rows.spread(self.row_weights))

    @cached_property
    def probabilities(self) -> Floats:
        """Weight times count of each row of the pool, with sum 1."""
        mass = self.weights * self.pool.counts
        return mass / mass.sum()

    def column(self, values: Floats, name: str) -> Any:
        """Return values, one for each row, in the user's library."""
        return self.pool.series(values, name)

    def table(self, values: Floats, names: Sequence[str]) -> Any:
        """Return columns of numbers, one for each row, in the user's library."""
        return self.pool.table(values, names)

    def log_means(self) -> Floats:
        """Return the log of the mean of each bias over the population, sampled or not."""
        if self.is_plain:  # Omega_k = sum_i pi_i omega_k(z_i) holds for every k, sampled or not
            return self.rows.log_means(self.solution.u) - np.log(self.rows.sizes.sum())
        return self.rows.log_weighted_means(self.row_weights)

    @cached_property
    def masses(self) -> Floats:
        """The share of the population that each row, as it was solved, represents."""
        mass = self.row_weights * self.rows.counts
        return mass / mass.sum()

    def log_omega_covariance(self) -> Floats:
        """Return the covariance of the log normalisers; from the gram of the solution, if every state has a sample."""
        own = self._own_states
        return super().log_omega_covariance() if own is None or not self.dependence.independent else own.covariance()

    def columns_of(self, asked: Mapping[str, Any]) -> dict[str, Floats]:
        """Return columns, expressions and arrays as numbers of the rows, each on its own."""
        return {name: self.values(value) for name, value in asked.items()}

    def parts(self, fit: Any) -> MemoryParts:
        """Return what accounts of a fit need of its rows."""
        from vardi._fit.parts import MemoryParts

        return MemoryParts(fit)

    def bounds(self, delta: float) -> Bounds:
        """Return the paper's finite-sample constants; their theory is for known biases joined by overlap alone."""
        if self.is_learned:
            raise refusal("bounds", "rows in memory", "learned")
        if not self.is_plain:
            raise refusal("bounds", "rows in memory", "both")
        if self.depends:
            raise refusal("bounds", "rows in memory", depends="clusters")
        from vardi._estimate.bounds import bounds

        return bounds(self.tangent, self.names, delta)

    def judge(self) -> Verdict:
        """Judge the overlap, measured by the weights."""
        return judge(self.rows, self.names, self.masses)

    def bias_influence(self) -> Influence:
        r"""Return the influence on each :math:`\log\Omega_k`; from the solution, if every state has a sample."""
        return super().bias_influence() if self._own_states is None else self._own_states.influence()

    @cached_property
    def _own_states(self) -> OwnStates | None:
        """The weights of rows under each state, if every state has a sample: its share of the row, already solved."""
        alone = self.is_plain and self.is_whole and bool(self.rows.sizes.all())
        return OwnStates(self.tangent) if alone and not callable(self.tangent.hessian.sums.gram) else None

    def known_on_rows(self, tangent: Tangent) -> Functions:
        """Return the functions with known means."""
        return self.known_functions(self.prepared.values)

    def known_biases(self) -> dict[Name, Bias]:
        """Return the functions whose means are known and that read the rows, by their labels."""
        known = self.prepared.known
        pairs = zip(known.labels, known.functions, strict=True)
        return {f"known {label}": h for label, h in pairs if isinstance(h, Bias)}

    def steps(self, values: Any) -> Steps:
        """Return where the distribution function of something steps."""
        return Steps.in_memory(self.tangent.measure, self.values(values))

    def domains(
        self, values: Any, by: By, base: int, *, whole: bool = False
    ) -> tuple[tuple[tuple[Any, ...], ...], RowsByDomain]:
        """Return domains and a function of their rows (1 for None); the first ``base`` columns define their bases."""
        from vardi._rows.domains import DomainCodes, RowsByDomain

        found, measure = self._grouping(by, whole=whole), self.tangent.measure
        y = None if values is None else as_functions(self._values_in(values, by, found)[:, None])
        places = bases(found.keys, base)
        labels = DomainCodes(found.codes, places)
        return found.keys, RowsByDomain(measure, measure.rows, y, by, found.keys, labels, places)

    def steps_by_domain(self, values: Any, by: By) -> tuple[tuple[tuple[Any, ...], ...], Callable[[int], Steps]]:
        """Return domains, and a function that returns the steps of the distribution function in each."""
        found = self._grouping(by)
        y = self._values_in(values, by, found)
        return found.keys, lambda j: Steps.in_memory(self.tangent.measure, y, (found.codes == j) * 1.0)

    def _grouping(self, by: By, *, whole: bool = False) -> Grouping:
        """Return the domain of each row; rows of samples that are not in question are in none."""
        if self.inside is None:
            return grouping(self.pool, by, self.kept, self.counts, whole=whole, states=self.states)
        inside = KeptRows.where(self.inside & self.kept.mask)
        counts = inside.of(self.pool.counts)
        found = grouping(self.pool, by, inside, counts, whole=whole, states=self.states)
        codes = np.full(len(self), -1)
        codes[inside.mask] = found.codes
        return Grouping(found.keys, self.kept.of(codes))

    def _values_in(self, values: Any, by: By, found: Grouping) -> Floats:
        """Return values; an error about missing ones names the domains that they are in."""
        try:
            return self.values(values)
        except MissingValuesError as error:
            gaps = self._gaps_of(values, error.columns)
            rows = found.codes[self.kept.of(gaps)]
            counts = np.bincount(rows[rows >= 0], minlength=len(found.keys)).astype(np.float64)
            raise in_domains(error, by, found.keys, counts) from None

    def draw(
        self, n: int, seed: int | np.random.Generator | None, *, replace: bool | None, identity: str | None = None
    ) -> Any:
        """Draw rows by weight: in the user's library, or their positions for a fit of a matrix."""
        if identity is not None:
            raise MismatchError(
                "id= names the column that identifies a row in an engine, but these rows are in memory and identified "
                "by their positions. Leave it out."
            )
        drawn = self.positions(n, seed, replace=replace is not False)
        return drawn if not self.pool.frames else concat(self.pool.frames).take(drawn)

    def positions(self, n: int, seed: int | np.random.Generator | None, *, replace: bool) -> Integers:
        """Return the positions of rows drawn by weight."""
        drawable = int(np.count_nonzero(self.probabilities))
        if not replace and n > drawable:
            raise MismatchError(
                f"{n} rows cannot be drawn without replacement from {drawable}. Draw fewer, or with replacement."
            )
        require_memory(16 * int(n), f"A draw of {n:,} rows", "Draw fewer at a time.")
        return np.random.default_rng(seed).choice(len(self), size=n, replace=replace, p=self.probabilities)

    def drawing(self) -> Floats:
        """Return the probability with which each row of the pool is drawn."""
        return self.probabilities

    def weigh(self, rows: Any) -> Any:
        """Return the weight of rows that need not be in the pool."""
        from vardi._fit.new_rows import weigh

        return weigh(self, rows)
