r"""The weight of a row as a function of its columns: all that is left of a fit once its rows are put aside.

.. math:: r(z) = 1 / S(z),\qquad S(z) = \sum_l e^{u_l}\omega_l(z;\theta) + \mu'D'(h(z) - \tau)

For some samples alone S is the first sum over these, up to the scale at which weights have mean 1. Each term is an
expression of columns, with :math:`u_l` inside its exponentials: NumPy computes it in memory, narwhals in an engine, and
from the latter follows SQL.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from vardi._estimate.estimates import Estimate, EstimatesByName
from vardi._estimate.intervals import FixedValue, Student
from vardi._fit.capabilities import refusal
from vardi._fit.saved import from_document, hash_of, save, to_document
from vardi._fit.sql import Dialect, to_sql
from vardi._inputs.column_types import dtype_of
from vardi._inputs.engines import LazyFrame, schema_of
from vardi._inputs.frames import Frame, any_lazy, as_frame
from vardi._inputs.known import NOTHING_KNOWN, Known
from vardi._inputs.known_on_rows import values_on_frame
from vardi._inputs.lazy_columns import as_floats, is_computable, on_frame
from vardi._inputs.lazy_part import PREFIX, Change, changed, with_columns
from vardi._inputs.lazy_pool import opened
from vardi._inputs.pool import Name
from vardi._rows import Checks
from vardi._rows.cells import dummies, require_seen
from vardi._rows.expressions import total as summed
from vardi._rows.families import columns_of
from vardi._tables import Shown, Table
from vardi._types import Floats, Integers
from vardi.biases import Bias, ExpressionBias, ParametricBias
from vardi.biases._compile import NarwhalsTarget, compile_node
from vardi.biases._kinds import EVERYWHERE, FunctionFamily, factors_of, number, with_parts
from vardi.biases._learned import LearnedValues
from vardi.biases._nodes import (
    Call,
    Cells,
    Comparison,
    Constant,
    Node,
    is_condition,
    junction,
    total,
)
from vardi.biases._scale import needs_no_value, never_negative, times_exp
from vardi.biases._values import as_array, as_numbers, require_columns
from vardi.errors import ImpossibleRowError, InvalidBiasError, MismatchError, NeedsRowsError, VardiError
from vardi.errors._texts import LISTED

if TYPE_CHECKING:
    from vardi._fit.solved import Solved

LARGEST = 1e308  # S beyond which a weight is not above zero


@dataclass(frozen=True, eq=False)
class NormaliserErrors:
    """The errors of the log normalisers, as numbers.

    Attributes
    ----------
    log_omegas, stderr, df : ndarray of shape (K,)
        Estimates, standard errors (NaN where there is none) and their degrees of freedom.
    declared : ndarray of bool of shape (K,)
        Which of them what was declared fixes.
    covariance : ndarray of shape (K, K)
        Their covariance.
    """

    log_omegas: Floats
    stderr: Floats
    df: Floats
    declared: NDArray[np.bool_]
    covariance: Floats

    @classmethod
    def of(cls, solved: Solved) -> NormaliserErrors:
        """Return the errors of a fit."""
        found = solved.log_normalisers(0.95)
        return cls(
            np.array([one.value for one in found]),
            np.array([one.stderr for one in found]),
            np.array([one.df for one in found]),
            np.array([isinstance(one.law, FixedValue) for one in found]),
            solved.log_omega_covariance(),
        )


@dataclass(frozen=True, eq=False)
class Weigher(Shown):
    """The weight of a row, without the rows of the fit: what ``fit.weigher()`` and :func:`vardi.load` return.

    Attributes
    ----------
    names : tuple
        The samples, then the states that no sample was drawn from.
    sizes : ndarray of shape (K,)
        How many (counted) rows of each the fit rests on.
    biases : tuple of Bias
        As declared, with the values of categories; empty for a fit of a matrix.
    theta : mapping from int to tuple of float
        The parameters of the biases that have any, on the user's scale.
    u : ndarray of shape (K,)
        The log factor of each bias in S; minus infinity for those that do not enter it.
    known : Known
        What is known, of the functions and values that enter S.
    mu : ndarray of shape (M,)
        The factor of each of these functions.
    groups : ndarray of int or None
        The group of each sample, if only known values join them.
    schema : mapping from str to str
        The columns that are read, with their types.
    log : bool
        For a fit of a matrix: whether it holds logs.
    errors : NormaliserErrors or None
        The errors of the normalisers.
    """

    names: tuple[Name, ...]
    sizes: Floats
    biases: tuple[Bias, ...]
    theta: Mapping[int, tuple[float, ...]]
    u: Floats
    known: Known
    mu: Floats
    groups: Integers | None
    schema: Mapping[str, str]
    log: bool = False
    errors: NormaliserErrors | None = None

    @classmethod
    def of(cls, solved: Solved) -> Weigher:
        """Return the weights of a fit, or of the samples in question, as a function."""
        data, whole = solved.data, solved.data.is_whole
        u = np.full(len(solved.names), -np.inf)
        u[list(data.states)] = solved.solution.u[list(data.states)]
        known, mu = NOTHING_KNOWN, np.empty(0)
        biases = tuple(with_parts(bias, _as_expression) for bias in solved.pool.biases)
        theta = {k: tuple(solved.users_theta(k).tolist()) for k in solved.joint.families}
        if not whole:
            u -= np.log(solved.tangent.measure.point.scale)
        elif solved.prepared.known:
            known = replace(solved.prepared.known, values=solved.moved_known())
            mu = solved.joint.known.directions @ solved.point[solved.joint.coordinates.mu]
        read = dict.fromkeys(
            name for bias in (*biases, *known.functions) if isinstance(bias, Bias) for name in bias.columns
        )
        return cls(
            names=solved.names,
            sizes=solved.rows.sizes,
            biases=biases,
            theta=theta,
            u=u,
            known=known,
            mu=mu,
            groups=solved.groups if solved.groups is not None and solved.groups.max() > 0 else None,
            schema=data.types(read),
            log=bool(solved.rows.log) if not biases else False,
        )

    def __len__(self) -> int:
        return int(self.sizes.sum())

    # The normalisers

    def log_normalisers(self, level: float = 0.95) -> EstimatesByName[Name]:
        r"""Return each :math:`\log\Omega_k` with its error, relative to the population."""
        assert self.errors is not None
        e = self.errors
        numbers = zip(e.log_omegas.tolist(), e.stderr.tolist(), e.df.tolist(), e.declared.tolist(), strict=True)
        return EstimatesByName(
            (name, Estimate(value, stderr, level, law=FixedValue() if declared else Student(df)))
            for name, (value, stderr, df, declared) in zip(self.names, numbers, strict=True)
        )

    def normalisers(self, level: float = 0.95) -> EstimatesByName[Name]:
        r"""Return each :math:`\Omega_k` with its error; intervals are made on the log scale."""
        return EstimatesByName((name, estimate.exp()) for name, estimate in self.log_normalisers(level).items())

    def log_omega_covariance(self) -> Floats:
        """Return the covariance of the log normalisers, relative to the population."""
        assert self.errors is not None
        return self.errors.covariance

    def _parts(self) -> Iterable[str | Table]:
        rows, samples = len(self), int((self.sizes > 0).sum())
        yield f"weights of {rows:,} rows of {samples} sample{'' if samples == 1 else 's'}, without the rows"
        if self.errors is None:
            return
        biases = map(str, self.biases) if self.biases else [""] * len(self.names)
        of_each = zip(self.normalisers().items(), self.sizes.tolist(), biases, strict=True)
        cells = [(str(name), f"{size:,.0f}", bias, str(estimate)) for (name, estimate), size, bias in of_each]
        yield Table(("sample", "rows", "bias", "normaliser"), cells, of="samples", texts=(0, 2), code=2)

    __repr__ = Shown.__str__

    # The formula

    @cached_property
    def fixed(self) -> tuple[Bias, ...]:
        """The biases, with parameters at their estimates."""
        return tuple(
            bias.at(self.theta[k]) if isinstance(bias, ParametricBias) else bias for k, bias in enumerate(self.biases)
        )

    @cached_property
    def sampled(self) -> list[int]:
        """The places of the biases in S."""
        places: list[int] = np.flatnonzero(self.u > -np.inf).tolist()
        return places

    @cached_property
    def _terms(self) -> list[Bias]:
        """Each bias times its factor."""
        return [_times(self.fixed[k], float(self.u[k])) for k in self.sampled]

    @cached_property
    def _functions(self) -> Known:
        """What is known, with functions in place of the samples whose bias they are."""
        functions = tuple(self.fixed[h] if isinstance(h, int) else h for h in self.known.functions)
        return replace(self.known, functions=functions)

    @cached_property
    def _conditions(self) -> list[ExpressionBias]:
        """What holds of a row that has a weight, besides that S is above zero."""
        found: list[Node] = []
        for k in self.sampled:
            bias = self.biases[k]
            known = bias.known if isinstance(bias, ParametricBias) else bias
            found += [
                Comparison(factor.node, ((">=", Constant(0)),))
                for factor in factors_of(known)
                if isinstance(factor, ExpressionBias) and not never_negative(factor.node)
            ]
            if isinstance(bias, ParametricBias):
                found += _allowed(bias)
        return [ExpressionBias(node) for node in dict.fromkeys(found)]

    @cached_property
    def _joint_conditions(self) -> list[ExpressionBias]:
        """What further holds of such a row, which in memory the values of biases and known functions tell."""
        found: list[Node] = []
        if self.groups is not None:
            inside = [
                junction(
                    "or",
                    [Comparison(self._node(k), ((">", Constant(0)),)) for k in self.sampled if self.groups[k] == g],
                )
                for g in range(int(self.groups.max()) + 1)
            ]
            found.append(Comparison(total(inside), (("<=", Constant(1)),)))
        for _, place in self.known.margins:
            functions = self.known.functions[place]
            found.append(junction("or", [h.node for h in functions if isinstance(h, ExpressionBias)]))
        return [ExpressionBias(node) for node in found]

    def _node(self, k: int) -> Node:
        bias = self.fixed[k]
        if not isinstance(bias, ExpressionBias):
            raise self._no_expression(k)
        return bias.node

    def _no_expression(self, k: int) -> NeedsRowsError:
        return NeedsRowsError(
            f"The bias of {str(self.names[k])!r}, {self.biases[k]}, is not an expression of columns, so neither is the "
            "weight. fit.weigh(rows) computes it for rows in memory. Write the bias as text, or learn it by a logistic "
            "regression: vardi.learned(columns, LogisticRegression())."
        )

    # Rows in memory

    def weigh(self, rows: Any) -> Any:
        r"""Return the weight of rows that need not be in the pool.

        Parameters
        ----------
        rows : array or frame
            Rows with the columns that the biases read, in memory or lazy; for a fit of a matrix, a matrix of biases.

        Returns
        -------
        array, series or lazy frame
            In memory the weights, in the library of the rows; a row without a weight is an error. Of a lazy frame
            itself with a column ``weight``, null where a row has none: :meth:`uncovered` counts these.
        """
        if not self.biases:
            return self._of_matrix(rows)
        if any_lazy(rows):
            return self._lazily(rows)
        frame = as_frame(rows)
        try:
            values = frame.evaluate([*self._terms, *self._conditions])
        except VardiError:
            self._require_valid(frame)  # says it of the bias as declared
            raise
        terms, conditions = values[: len(self._terms)], values[len(self._terms) :]
        S: Floats = sum((np.asarray(term, np.float64) for term in terms), np.zeros(len(frame)))
        may_be = reduce(and_, conditions, np.isfinite(S))
        if not may_be.all():
            self._require_valid(frame)
        _require_covered(S == 0.0)
        if self.groups is not None:
            _require_one_group(np.column_stack(terms) > 0.0, self.groups[self.sampled])
        return frame.wrap(1.0 / self._with_known(S, values_on_frame(self._functions, frame, ())), "weight")

    def _require_valid(self, frame: Frame) -> None:
        """Refuse rows on which a bias is invalid, or has no parameter."""
        names = [self.names[k] for k in self.sampled]
        biases = [self.biases[k] for k in self.sampled]
        factors = frame.evaluate([bias.known if isinstance(bias, ParametricBias) else bias for bias in biases])
        Checks(names, False, whole="the new rows").columns(factors)
        for name, bias, factor in zip(names, biases, factors, strict=True):
            if not isinstance(bias, ParametricBias):
                continue
            if isinstance(bias.family, Cells):
                require_seen(bias, frame, dummies(bias, (frame,), str(name))[1], factor > 0, str(name))
            elif not isinstance(bias.family, FunctionFamily):
                columns_of(bias, (frame,), str(name))
        Checks(names, False, whole="the new rows").columns(frame.evaluate([self.fixed[k] for k in self.sampled]))

    def _with_known(self, S: Floats, H: Floats) -> Floats:
        """Return S with the known functions; raise if it is not positive on some row."""
        known = self.known
        if not known:
            return S
        for column, place in known.margins:
            strange = np.flatnonzero(H[:, place].sum(axis=1) != 1.0)
            if len(strange):
                raise _without_weight(
                    strange,
                    f" have a value of {column!r} that has no known share, so nothing is known of their weight. Weight "
                    "only rows whose value is in the margin.",
                )
        terms = (H - known.values) * self.mu
        S = S + terms.sum(axis=1)
        bad = np.flatnonzero(~(S > 0))
        if len(bad):
            raise _without_weight(
                bad,
                f" have no weight: {known.labels[int(np.argmin(terms[bad[0]]))]!r}, whose mean is known, is further "
                "out on them than on any row of the pool, and the weights are positive on the pool only. Weight only "
                "rows like those of the pool, or debias without that known value.",
            )
        return S

    def _of_matrix(self, rows: Any) -> Floats:
        matrix = self._as_matrix(rows)
        H, matrix = matrix[:, list(self.known.states)], matrix[:, self.sampled]
        Checks([self.names[k] for k in self.sampled], self.log, whole="the new rows").columns(matrix.T)
        with np.errstate(divide="ignore"):
            logs = matrix if self.log else np.log(matrix)
        log_mass = scipy.special.logsumexp(logs + self.u[self.sampled], axis=1)
        _require_covered(log_mass == -np.inf)
        if self.groups is not None:
            _require_one_group(logs > -np.inf, self.groups[self.sampled])
        H = np.exp(H) if self.log else H
        return 1.0 / self._with_known(np.exp(log_mass), H) if self.known else np.exp(-log_mass)

    def _as_matrix(self, rows: Any) -> Floats:
        """Return new rows of a matrix fit as an array; entries that a sparse one does not store are omega = 0."""
        if sparse.issparse(rows):
            stored = sparse.coo_array(rows)
            matrix = np.full(stored.shape, -np.inf if self.log else 0.0)
            matrix[stored.row, stored.col] = stored.data
        else:
            array = as_array(rows, "The matrix of new rows")
            numbers = as_numbers(array)
            if numbers is None:
                raise InvalidBiasError(
                    f"The new rows hold {array.dtype}, but biases are numbers. Give a matrix of floats."
                )
            matrix = numbers.astype(np.float64, copy=False)
        if matrix.ndim != 2 or matrix.shape[1] != len(self.names):
            raise MismatchError(
                f"The new rows have shape {matrix.shape}. Give a matrix of biases with {len(self.names)} columns, as "
                "in the fit."
            )
        return matrix

    # Rows in an engine

    def expression(self) -> nw.Expr:
        """Return the weight as a narwhals expression, null where a row has none.

        Examples
        --------
        >>> import numpy as np
        >>> import polars as pl
        >>> import vardi
        >>> pool = {"plain": np.array([1.0, 2.0, 4.0]), "seen": np.array([2.0, 4.0, 4.0, 8.0])}
        >>> fit = vardi.debias(pool, {"plain": 1, "seen": "x"})
        >>> rows = pl.LazyFrame({"x": [0.0, 1.0, None]})
        >>> nw.from_native(rows).select(w=fit.expression().round(3)).collect()["w"].to_list()
        [2.333, 1.599, None]
        """
        return self.expression_on(nw.Schema({name: dtype_of(text) for name, text in self.schema.items()}))

    def expression_on(self, schema: nw.Schema) -> nw.Expr:
        """Return the weight as an expression of columns with these types."""
        return _inverse(*self._compiled(self._expressions(), NarwhalsTarget(schema)))

    def to_sql(self, table: str, dialect: Dialect = "duckdb", name: str = "weight") -> str:
        """Return a query of a table with a column of weights, NULL for rows that have none.

        Parameters
        ----------
        table : str
            The table as it is written in SQL, or a reference of dbt; it is inserted as it is.
        dialect : {"duckdb", "postgres", "bigquery", "snowflake", "spark", "sqlite"}
            For which database. Others than DuckDB need sqlglot: ``pip install 'vardi[sql]'``.
        name : str
            The name of the column.

        Examples
        --------
        >>> import vardi
        >>> design = vardi.datasets.house_prices(seed=0)
        >>> fit = vardi.debias(design.samples, {"agency": "MEDV <= 22", "national": 1})
        >>> print(fit.to_sql("houses"))
        -- 'weight': 1 / (how often such a row is drawn), with mean 1 over the rows of the fit;
        -- NULL where no sample could have drawn a row, or a value that decides it is missing.
        -- By vardi ... from 'agency' (200 rows), 'national' (100 rows); fit sha256:...
        SELECT
          *,
          CASE WHEN ... END AS "weight"
        FROM houses
        <BLANKLINE>
        """
        self._expressions()
        document = to_document(replace(self, errors=None))
        return to_sql(self, table, dialect, name, hash_of(document)[:19])

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the fit, without its rows, to a file that :func:`vardi.load` reads: JSON that a person can read.

        Parameters
        ----------
        path : str or path
            Where to; the file appears whole or not at all.
        overwrite : bool
            Whether an existing file may be replaced.
        """
        return save(self, path, overwrite=overwrite)

    def __getstate__(self) -> dict[str, Any]:
        return to_document(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(vars(from_document(state)))

    def _expressions(self) -> list[ExpressionBias]:
        """Return all that S is made of; raise if a part of it is no expression of columns."""
        if not self.biases:
            raise refusal("weights as a formula", "sparse")
        for k in self.sampled:
            self._node(k)
        functions = self._functions.functions
        for label, h in zip(self.known.labels, functions, strict=True):
            if not isinstance(h, ExpressionBias):
                raise NeedsRowsError(
                    f"The known function {label!r} is not an expression of columns, so neither is the weight. "
                    "fit.weigh(rows) computes it for rows in memory. Write it as text."
                )
        every = *self._terms, *functions, *self._conditions, *self._joint_conditions
        return [bias for bias in every if isinstance(bias, ExpressionBias)]

    def uncovered(self, rows: Any) -> int:
        """Return how many rows have no weight: no sample could have drawn them, or a value is missing."""
        frame = nw.from_native(self._lazily(rows))
        missing = frame.select(nw.col("weight").is_null().cast(nw.Int64).sum()).collect().item()
        return int(missing or 0)

    def _lazily(self, rows: Any) -> Any:
        if isinstance(rows, np.ndarray):
            rows = as_frame(rows)._eager("narwhals").to_native()
        part = opened(rows, None, {None: 0}, None)
        return part.with_added(["weight"], self.adding(part.frame))

    def adding(self, frame: LazyFrame, name: str = "weight", *, complete: bool = False) -> Change:
        """Return the change that adds the weight to a frame as a column; ``complete`` if all its rows have one."""
        for k, bias in zip(self.sampled, self._terms, strict=True):
            if not is_computable(bias):
                raise self._no_expression(k)
        functions = [h for h in self._functions.functions if isinstance(h, Bias)]
        conditions = [] if complete else [*self._conditions, *self._joint_conditions]
        every = [*self._terms, *functions, *conditions]
        changes, found = on_frame(frame, every, None, "weight")
        schema = schema_of(changed(frame, changes))
        require_columns([name for bias in found for name in bias.columns], schema)
        mass, valid = self._compiled(found, NarwhalsTarget(schema))
        names = f"{PREFIX}mass", f"{PREFIX}valid"
        stage = with_columns(dict(zip(names, (mass, valid), strict=True)))
        weight = 1.0 / nw.col(names[0]) if complete else _inverse(*map(nw.col, names))
        return lambda rows: changed(rows, [*changes, stage, with_columns({name: weight})])

    def _compiled(self, found: Sequence[ExpressionBias], target: NarwhalsTarget) -> tuple[nw.Expr, nw.Expr]:
        """Return S and whether a row has a weight as far as S does not tell, as expressions.

        Expressions whose value may be known although a column is missing carry a mask of where it is; the columns of
        all others have to be there.
        """
        lenient = [needs_no_value(bias.node) for bias in found]
        needed = dict.fromkeys(
            name for bias, is_so in zip(found, lenient, strict=True) if not is_so for name in bias.columns
        )
        compiled = [
            compile_node(bias.node, target, target.columns if is_so else ())
            for bias, is_so in zip(found, lenient, strict=True)
        ]
        terms, ends = [as_floats(one) for one in compiled], (len(self.sampled), len(self.sampled) + len(self.known))
        factors, values = self.mu.tolist(), self.known.values.tolist()
        beyond = [(h - t) * m for h, t, m in zip(terms[slice(*ends)], values, factors, strict=True)]
        valid = [~target.is_missing(name) for name in needed]
        valid += [one.known for one in compiled if one.known is not None]
        valid += [one.value for one in compiled[ends[1] :]]
        mass = summed([*terms[: ends[0]], *beyond])
        assert not isinstance(mass, float)
        return mass, _all(valid) if valid else nw.lit(True)


def _all(conditions: Sequence[nw.Expr]) -> nw.Expr:
    """Return where all conditions hold, as a shallow tree: engines limit the depth of an expression."""
    half = len(conditions) // 2
    return conditions[0] if len(conditions) == 1 else _all(conditions[:half]) & _all(conditions[half:])


def _inverse(mass: nw.Expr, valid: nw.Expr) -> nw.Expr:
    """Return 1 / S where a row has a weight, and null elsewhere."""
    return nw.when(valid & (mass > 0.0) & (mass < LARGEST)).then(nw.lit(1.0) / mass)


def _times(bias: Bias, u: float) -> Bias:
    """Return e^u times a bias."""
    if isinstance(bias, ExpressionBias):
        return ExpressionBias(times_exp(bias.node, u))
    return number(float(np.exp(u))) * bias


def _allowed(bias: ParametricBias) -> list[Node]:
    """Return what holds of a row that the family of a bias has a value for."""
    family = bias.family
    if isinstance(family, FunctionFamily):
        return []
    if not isinstance(family, Cells):
        features = [term for term in family.features() if is_condition(term) is not True]
        positive = [Comparison(term, ((">", Constant(0)),)) for term in family.terms if family.kind == "power"]
        return [*positive, *(Comparison(Call("abs", (term,)), (("<=", Constant(LARGEST)),)) for term in features)]
    nowhere: list[Node] = []
    if bias.known != EVERYWHERE and isinstance(bias.known, ExpressionBias):
        nowhere = [Comparison(bias.known.node, (("==", Constant(0)),))]
    return [junction("or", [*nowhere, *family.holding(place)]) for place in range(len(family.groups))]


def _as_expression(bias: Bias) -> Bias:
    """Return a bias that was learned by logistic regressions as an expression, by other models without the rows."""
    if not isinstance(bias, LearnedValues):
        return bias
    node = bias.expression()
    return replace(bias, values=bias.values[:0], fold=bias.fold[:0]) if node is None else ExpressionBias(node)


def _require_covered(uncovered: NDArray[np.bool_]) -> None:
    if uncovered.any():
        raise _without_weight(
            np.flatnonzero(uncovered),
            ", so nothing is known of their weight. The debiased sample represents the part of the population that "
            "some sample could have drawn.",
            "No sampled bias covers ",
        )


def _require_one_group(allowed: NDArray[np.bool_], groups: Integers) -> None:
    """Refuse new rows that samples of several groups could have drawn: the pool has no such row to weigh them by."""
    several = [allowed[:, groups == label].any(axis=1) for label in range(int(groups.max()) + 1)]
    between = np.flatnonzero(np.sum(several, axis=0) > 1)
    if len(between):
        raise _without_weight(
            between,
            " could have been drawn by samples of several groups, but no row of the pool could, so it is unknown how "
            "the groups compare there. Leave them out, or narrow the biases to what was drawn.",
        )


def _without_weight(rows: Integers, why: str, no_bias: str = "") -> ImpossibleRowError:
    """Return the error for new rows that have no weight."""
    message = f"{no_bias}{len(rows)} of the new rows (the first is row {rows[0]}){why}"
    return ImpossibleRowError(message, sample=None, rows=rows[:LISTED])
