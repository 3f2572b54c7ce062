"""A solved fit whose rows are in memory, or read in blocks: what the questions of a DebiasedSample ask of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vardi._estimate.bias_check import BiasCheck, untested
from vardi._estimate.bias_test import check_biases
from vardi._estimate.bounds import Bounds, bounds
from vardi._estimate.cdf import PoolSteps
from vardi._estimate.estimates import Estimate
from vardi._estimate.sensitivity.errors_of_biases import Errors
from vardi._estimate.sensitivity.linear import slope
from vardi._estimate.tangent import Hessian, Influence, Tangent
from vardi._fit.capabilities import refusal
from vardi._fit.held import ONLY_KNOWN, Held
from vardi._fit.new_rows import weigh
from vardi._fit.parts import MemoryParts
from vardi._fit.prepare import Prepared
from vardi._inputs.dependence import Dependence
from vardi._inputs.domains import By, Grouping, bases, grouping, in_domains
from vardi._inputs.frames import concat
from vardi._inputs.frames.functions import bias_of, evaluated, is_function, name_of
from vardi._inputs.pool import Name, Pool, in_order
from vardi._machine.memory import require_memory
from vardi._rows import Rows
from vardi._rows.blocks import ANSWER, Blocks
from vardi._rows.dense import Dense
from vardi._rows.domains import RowDomains
from vardi._rows.joint import Joint
from vardi._rows.tilted import TiltedRows
from vardi._rows.weighted import Weighed, WeightedRows
from vardi._solve.identify import Verdict, judge
from vardi._solve.joint import JacobianAt
from vardi._solve.model import JointFit
from vardi._solve.newton import newton
from vardi._solve.parameters import held_of
from vardi._types import Floats, Integers
from vardi.biases import Bias
from vardi.biases._learned import learned_columns
from vardi.biases._values import as_array, is_missing
from vardi.errors import MismatchError, MissingValuesError, TooLargeError
from vardi.errors._refusals import column_of_some, not_finite

TILTS = 2**28  # numbers, one for each row and bias, up to which they are all held at once


class InMemory(Held):
    """Rows of a pool with their weights.

    Parameters
    ----------
    pool : Pool
        What the user gave.
    kept : ndarray of bool or None
        Which rows of it the fit rests on; None for all.
    prepared : Prepared
        What was solved.
    found : JointFit
        How.
    """

    in_memory = True
    collapsed = True

    def __init__(self, pool: Pool, kept: NDArray[np.bool_] | None, prepared: Prepared, found: JointFit) -> None:
        super().__init__(pool, prepared, found)
        self.kept = kept
        self.rows: Rows = prepared.rows if self.joint is None else self.joint.rows_at(self.theta)
        assert found.solution.weights is not None
        self.row_weights: Floats = found.solution.weights

    @cached_property
    def source(self) -> Integers:
        """Sample of each row that the fit rests on."""
        return self.pool.source if self.kept is None else self.pool.source[self.kept]

    @cached_property
    def counts(self) -> Floats | None:
        """How many rows each of them stands for."""
        counts = self.pool.counts
        return counts if counts is None or self.kept is None else counts[self.kept]

    @cached_property
    def dependence(self) -> Dependence | None:
        """How they depend on one another."""
        given = self.pool.dependence
        return given if given is None or self.kept is None else given.of(self.kept)

    @property
    def by_row(self) -> tuple[Integers, Floats | None, Dependence | None]:
        """Sample and count of each row, and how rows depend on one another."""
        return self.source, self.counts, self.dependence

    @cached_property
    def tangent(self) -> Tangent:
        """The solution as a map from functions on rows to estimates."""
        hessian = Hessian(self.rows, self.solution.u, self.groups)
        if self.joint is None:
            measure = WeightedRows(self.rows, self.solution.u, self.row_weights, *self.by_row)
            return Tangent(measure, hessian, hessian, approximate=bool(learned_columns(self.pool.biases)))
        measure = WeightedRows(self.joint, self.point, self.row_weights, *self.by_row)
        jacobian = JacobianAt(self.joint, self.point, held_of(self.joint))
        return Tangent(measure, jacobian, hessian, approximate=bool(learned_columns(self.pool.biases)))

    def tangent_of(self, joint: Joint, v: Floats) -> Tangent:
        """Return the tangent at another point of the same rows."""
        weights, scale = joint.weights(v)
        v, at = joint.rescaled(v, scale), joint.coordinates
        hessian = Hessian(joint.rows_at(v[at.theta]), v[at.u] - joint.shift(v[at.theta]), self.groups)
        measure = WeightedRows(joint, v, weights, *self.by_row)
        return Tangent(measure, JacobianAt(joint, v, held_of(joint)), hessian)

    @cached_property
    def weights(self) -> Floats:
        """The weight of each row of the pool; 0 for those that were left out."""
        weights = self.rows.spread(self.row_weights)
        if self.kept is None:
            return weights
        spread = np.zeros(len(self))
        spread[self.kept] = weights
        return spread

    @cached_property
    def probabilities(self) -> Floats:
        """Weight times count of each row of the pool, with sum 1."""
        mass = self.weights if self.pool.counts is None else self.weights * self.pool.counts
        return mass / mass.sum()

    def column(self, values: Floats, name: str) -> Any:
        """Return values, one for each row, in the user's library."""
        return self.pool.series(values, name)

    def table(self, values: Floats, names: Sequence[str]) -> Any:
        """Return columns, with a number for each row, in the user's library."""
        return self.pool.table(values, names)

    @cached_property
    def log_omegas(self) -> Floats:
        """The log of each normaliser."""
        sizes, u = self.rows.sizes, self.solution.u
        if sizes.all():
            return np.log(sizes / sizes.sum()) - u
        if self.joint is None:  # Omega_k = sum_i pi_i omega_k(z_i) holds for every k, sampled or not
            return self.rows.log_means(u) - np.log(sizes.sum())
        return self.rows.log_weighted_means(self.row_weights)

    @cached_property
    def masses(self) -> Floats:
        """The share of the population that each row, as it was solved, stands for."""
        mass = self.row_weights if self.rows.counts is None else self.row_weights * self.rows.counts
        return mass / mass.sum()

    def log_omega_covariance(self) -> Floats:
        r"""Return :math:`\sum_i \pi_i^2 g_i g_i' + a'H^+a / n` (MBAR's form), which single rows do not trouble.

        With parameters, known values, or rows that depend on one another, the covariance of the influence values.
        """
        if self.joint is not None or self.dependence is not None:
            return self.bias_influence().covariance()
        tangent, functions = self._tilted
        ones = np.ones(len(self.names))
        a = tangent.measure.against(functions, ones)
        squares = tangent.measure.squares(functions, ones)
        return np.asarray((squares + a.T @ tangent.hessian.solve(a)) / tangent.n**2)

    def check_biases(self, asked: Mapping[str, Any], **options: Any) -> BiasCheck:
        """Test the declared biases by what overlap alone says: known values have no part in it."""
        values = {name: self.values(value) for name, value in asked.items()}
        if self.depends and options.get("method", "score") != "score":
            raise refusal("ks tests", "rows in memory", depends="clusters")
        if self.joint is None or not self.joint.families:
            return check_biases(self.overlap_tangent, self.names, values, **options)
        if options.get("method", "score") != "score":
            raise refusal("ks tests", "rows in memory", "parameters")
        without = self.point if self.prepared.known is None else self.alone
        if without is None:
            return untested(ONLY_KNOWN)
        joint = self.joint.without_known()
        tangent = self.tangent_of(joint, without[: len(joint.coordinates)])
        return check_biases(tangent, self.names, values, **options)

    def parts(self, fit: Any) -> MemoryParts:
        """Return what accounts of a fit ask of its rows."""
        return MemoryParts(fit)

    def bounds(self, delta: float) -> Bounds:
        """Return the paper's finite-sample constants, whose theory is of known biases that overlap alone joins."""
        if self.joint is not None:
            raise refusal("bounds", "rows in memory", "both")
        if self.depends:
            raise refusal("bounds", "rows in memory", depends="clusters")
        return bounds(self.tangent, self.names, delta)

    @cached_property
    def overlap_tangent(self) -> Tangent:
        """The samples on their own, each group that overlap joins by itself, without what is known beside."""
        if self.joint is None:
            return self.tangent
        assert self.groups is not None
        u = self.solution.u.copy()
        for label in range(int(self.groups.max()) + 1):
            states = self.groups == label
            part = self.rows if self.groups.max() == 0 else self.rows.subset(np.flatnonzero(states[self.rows.source]))
            if states.sum() > 1:
                u[states] = newton(part, np.where(states, u, -np.inf)).u[states]
        weights, shift = self.rows.weights(u)
        hessian = Hessian(self.rows, u + shift, self.groups)
        return Tangent(WeightedRows(self.rows, u + shift, weights, *self.by_row), hessian, hessian)

    def judge(self) -> Verdict:
        """Judge the overlap, measured by the weights."""
        return judge(self.rows, self.names, self.masses)

    def bias_influence(self) -> Influence:
        r"""Return the influence on each :math:`\log\Omega_k`: by the weights, and by parameters of the bias itself."""
        moved = None
        if self.joint is not None and self.joint.families:
            moved = self.tangent.n * self.joint.mean_gradients(self.point)
        tangent, functions = self._tilted
        return tangent.influence(functions, moved)[1]

    @property
    def _tilted(self) -> tuple[Tangent, Any]:
        """The functions omega_k / Omega_k, and the rows in whose language these are."""
        K, most = len(self.names), ANSWER if isinstance(self.rows, Blocks) else TILTS
        if not self.depends and isinstance(self.rows, Dense) and len(self.source) * K > most and K * K <= TILTS:
            return self._summed, self._summed.measure.tilts
        return self.tangent, Weighed(self.tilts())

    @cached_property
    def _summed(self) -> Tangent:
        """The solution for functions of the biases alone, by one pass over rows that are too many for them all."""
        tangent = self.tangent
        assert isinstance(self.rows, Dense)
        return Tangent(TiltedRows(self.rows, tangent.measure, self.log_omegas), tangent.jacobian, tangent.hessian)

    def tilts(self) -> Floats:
        """Return r_i omega_k(z_i) / Omega_k, the weight of row i under state k, for all rows and states."""
        numbers = len(self.source) * len(self.names)
        if numbers > TILTS:
            raise TooLargeError(
                f"This needs a number for each of {len(self.source):,} rows and {len(self.names):,} biases, "
                f"{8 * numbers / 2**30:,.0f} GB in all. fit.omegas has the normalisers without their errors; "
                "fit.expectation(values of one bias) has one with its error.",
                bytes=8 * numbers,
            )
        log_weights = np.log(self.row_weights)[:, None]
        finite = np.where(np.isfinite(self.log_omegas), self.log_omegas, 0.0)  # what covers no row has no tilt
        return self.rows.spread(np.exp(self.rows.log_omega() - finite + log_weights))

    def nothing(self, m: int) -> Floats:
        """Return m functions that are zero on every row."""
        return np.zeros((len(self.source), m))

    none_on_rows = nothing

    def known_at(self, tangent: Tangent, joint: Joint, v: Floats) -> tuple[Floats, Floats]:
        """Return the known functions on the rows of the pool at a point, and what this moves of them."""
        return self.rows.spread(self.prepared.values_at(joint, v)), self.prepared.moved_at(joint, v)

    def measured_known(self) -> Floats:
        """Return the means of the known functions under the weights."""
        assert self.joint is not None
        return np.asarray(self.masses @ self.prepared.values_at(self.joint, self.point))

    def known_functions(self) -> dict[Name, Bias]:
        """Return what known values read of the rows, by how it is called."""
        known = self.prepared.known
        if known is None:
            return {}
        pairs = zip(known.labels, known.functions, strict=True)
        return {f"known {label}": h for label, h in pairs if isinstance(h, Bias)}

    def functions(self, values: Any) -> Floats:
        """Return one column, expression or array as numbers of shape (n, 1), for the rows that the fit rests on."""
        return self.values(values)[:, None]

    def matrix(self, values: Any) -> Floats:
        """Return several columns, expressions or arrays as numbers of shape (n, m)."""
        if isinstance(values, list | tuple) and any(is_function(part) for part in values):
            return np.column_stack([self.values(part) for part in values])
        array = as_array(in_order(values, self.pool.frames, "The frame of values"), "The matrix of values")
        numbers = _numbers(array)
        if numbers.ndim != 2 or len(numbers) != len(self) or not numbers.shape[1]:
            raise MismatchError(
                f"The values have shape {numbers.shape}, but the pool has {len(self)} rows. Give a matrix with a row "
                "for each, or a list of columns.",
                expected=(len(self),),
                got=numbers.shape,
            )
        return self.in_fit(numbers)

    def values(self, values: Any) -> Floats:
        """Return a column, an expression or an array as numbers, one for each row that the fit rests on."""
        if is_function(values):
            frames = self.pool.frames
            names = [str(name) for name in self.names] if len(frames) > 1 else [None]
            if len(frames) > 1:
                self._require_everywhere(values)
            pieces = [evaluated(values, frame, name) for frame, name in zip(frames, names, strict=False)]
            if not pieces:
                raise MismatchError(
                    f"The fit knows biases only, and no column {name_of(values)!r}. Give a value for each row.",
                    expected=("array",),
                    got=(name_of(values),),
                )
            array = np.concatenate(pieces)
        else:
            array = as_array(in_order(values, self.pool.frames, "The series of values"), "The series of values")
        array = _numbers(array)
        if array.shape != (len(self),):
            raise MismatchError(
                f"The values have shape {array.shape}, but the pool has {len(self)} rows. Give one for each.",
                expected=(len(self),),
                got=array.shape,
            )
        return self.in_fit(array, name_of(values) if is_function(values) else None)

    def is_declared(self, text: str) -> bool:
        """Tell whether a text reads no column, so that it is its own mean."""
        return not any(bias_of(text, frame.columns).columns for frame in self.pool.frames)

    def in_fit(self, values: Floats, name: str | None = None) -> Floats:
        """Return values of the rows that the fit rests on, or refuse those that are not numbers."""
        values = values if self.kept is None else values[self.kept]
        bad = int(np.count_nonzero(~np.isfinite(values)))
        if bad:
            rows, gaps = (
                np.bincount(self.source, w, len(self.names))
                for w in (None, ~np.isfinite(values).reshape(len(values), -1).all(axis=1))
            )
            raise not_finite(bad, name, [self.names[k] for k in np.flatnonzero((rows > 0) & (gaps == rows)).tolist()])
        return values

    def _require_everywhere(self, function: Any) -> None:
        """Refuse a column that some samples have and others lack."""
        frames = dict(zip(self.names, self.pool.frames, strict=False))
        every = dict.fromkeys(column for frame in frames.values() for column in frame.columns)
        for column in bias_of(function, every).columns:
            lacks = [name for name, frame in frames.items() if column not in frame.columns]
            if 0 < len(lacks) < len(frames):
                raise column_of_some(column, [name for name in frames if name not in lacks], lacks)

    def sensitivity(self, estimate: Estimate, errors: Errors) -> float:
        """Return what an estimate moves at worst, for each unit of log Gamma."""
        assert estimate.influence is not None
        return slope(self.tangent.measure, estimate.influence, errors)

    def steps(self, values: Any) -> PoolSteps:
        """Return where the distribution function of something steps."""
        return PoolSteps(self.tangent.measure, self.values(values))

    def domains(
        self, values: Any, by: By, base: int, *, whole: bool = False
    ) -> tuple[tuple[tuple[Any, ...], ...], RowDomains]:
        """Return domains, and a function of their rows, which is 1 for None; the first columns tell bases apart."""
        found = grouping(self.pool, by, self.kept, self.counts, whole=whole)
        y = np.ones(len(self.source)) if values is None else self._values_in(values, by, found)
        return found.keys, RowDomains(self.tangent.measure, y, found.codes, bases(found.keys, base))

    def steps_by_domain(self, values: Any, by: By) -> tuple[tuple[tuple[Any, ...], ...], Callable[[int], PoolSteps]]:
        """Return domains, and what gives the steps of the distribution function in each."""
        found = grouping(self.pool, by, self.kept, self.counts)
        y = self._values_in(values, by, found)
        return found.keys, lambda j: PoolSteps(self.tangent.measure, y, found.codes == j)

    def _values_in(self, values: Any, by: By, found: Grouping) -> Floats:
        """Return values, or refuse missing ones with the domains that these are in."""
        try:
            return self.values(values)
        except MissingValuesError as error:
            gaps = self._gaps_of(values, error.columns)
            rows = found.codes[gaps if self.kept is None else gaps[self.kept]]
            counts = np.bincount(rows[rows >= 0], minlength=len(found.keys)).astype(np.float64)
            raise in_domains(error, by, found.keys, counts) from None

    def _gaps_of(self, values: Any, columns: Mapping[str, int]) -> NDArray[np.bool_]:
        """Tell on which rows of the pool an array, or one of some columns, has no number."""
        if not is_function(values):
            return _gaps(as_array(values, "The values"))
        read = [[frame.column(name) for name in columns if name in frame.columns] for frame in self.pool.frames]
        none = [np.zeros(len(frame), bool) for frame in self.pool.frames]
        return np.concatenate(
            [np.any([start, *map(_gaps, own)], axis=0) for start, own in zip(none, read, strict=True)]
        )

    def pooled_means(self, functions: Floats) -> Floats:
        """Return means over the pool as it came."""
        return np.asarray(np.average(functions, axis=0, weights=self.counts))

    @cached_property
    def gaps(self) -> dict[str, int]:
        """How many values are missing or infinite in each numeric column that has such, and in those that are empty."""
        whole = self.pool.whole()
        missing = {} if whole is None else {name: _missing_in(whole.column(name)) for name in whole.columns}
        return {name: count for name, count in missing.items() if count}

    @property
    def mixed(self) -> dict[str, str]:
        """Columns that are of different kinds in different samples, with where they are what."""
        return self.pool.mixed

    @cached_property
    def numeric_columns(self) -> tuple[str, ...]:
        """The numeric columns of the pool without missing values, those that the biases read first."""
        whole = self.pool.whole()
        if whole is None:
            return ()
        numeric = [name for name in whole.columns if whole.column(name).dtype.kind in "fiu"]
        read = {name for bias in self.pool.biases for name in bias.columns}
        return tuple(sorted((name for name in numeric if name not in self.gaps), key=lambda name: name not in read))

    def draw(
        self, n: int, seed: int | np.random.Generator | None, *, replace: bool | None, identity: str | None = None
    ) -> Any:
        """Draw rows by weight: in the user's library, or their positions for a fit of a matrix."""
        if identity is not None:
            raise MismatchError(
                "id= names what identifies a row in an engine, and these rows are in memory, where their places do.",
                expected=(None,),
                got=(identity,),
            )
        drawn = self.positions(n, seed, replace=replace is not False)
        return drawn if not self.pool.frames else concat(self.pool.frames).take(drawn)

    def positions(self, n: int, seed: int | np.random.Generator | None, *, replace: bool) -> Integers:
        """Return the positions of rows drawn by weight."""
        drawable = int(np.count_nonzero(self.probabilities))
        if not replace and n > drawable:
            raise MismatchError(
                f"{n} rows cannot be drawn without replacement from {drawable}. Draw fewer, or with replacement.",
                expected=(drawable,),
                got=(n,),
            )
        require_memory(16 * int(n), f"A draw of {n:,} rows", "Draw fewer at a time.")
        return np.random.default_rng(seed).choice(len(self), size=n, replace=replace, p=self.probabilities)

    def drawing(self) -> Floats:
        """Return the probability with which each row of the pool is drawn."""
        return self.probabilities

    def weigh(self, rows: Any) -> Any:
        """Return the weight of rows that need not be of the pool."""
        return weigh(self, rows)


def _numbers(array: NDArray[Any]) -> Floats:
    if array.dtype.kind not in "fiub":
        raise MismatchError(
            f"The values hold {array.dtype}, and only numbers have a mean. Give numbers, or a condition of them; a "
            "list of columns goes to expectations().",
            expected=("numbers",),
            got=(str(array.dtype),),
        )
    return array.astype(np.float64)


def _gaps(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell where a value is missing or infinite."""
    if column.dtype.kind in "fiub":
        return ~np.isfinite(column)
    return np.fromiter((is_missing(value) for value in column.tolist()), bool, len(column))


def _missing_in(column: NDArray[Any]) -> int:
    """Return how many numbers of a column are missing or infinite; of other columns all values, or none."""
    if column.dtype.kind in "fiu":
        return int(np.count_nonzero(~np.isfinite(column)))
    empty = column.dtype.kind == "O" and all(not hasattr(value, "__len__") and is_missing(value) for value in column)
    return len(column) if empty else 0
