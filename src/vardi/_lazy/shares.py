"""Known shares of lazy frames: cells are columns, rows are collapsed by biases and cells, raking goes on in memory.

A row whose biases are all divided by a number keeps its p, and has its weight multiplied by that number. So what raking
adds to a weight is taken from the biases of the row, and every query of the weights serves as it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from vardi._anchored import AnchoredSample, within_groups
from vardi._estimates import Estimate, Estimates
from vardi._expressions.compile import NarwhalsTarget
from vardi._identify import Verdict
from vardi._lazy.influence import Functions, LazyInfluence
from vardi._lazy.memory import most_cells
from vardi._lazy.pool import LazyPool, expression, missing_values
from vardi._lazy.sample import LazyDebiasedSample
from vardi._newton import Solution
from vardi._pool import Name
from vardi._rows import Rows
from vardi._rows.engine import schema_of
from vardi._rows.lazy import OMEGA, PREFIX, Part, cells
from vardi._sample import DebiasedSample
from vardi._shares import Anchor, AnchoredInfluence, Cell, Refit
from vardi._shares.cells import indicator, support
from vardi._sums import Floats
from vardi._trust import Trust, require_trust
from vardi.biases import ExpressionBias
from vardi.errors import InvalidBiasError, NeedsRowsError

CELL = "__vardi_cell_{}"


class LazyTable:
    """The columns that all frames of a pool have."""

    def __init__(self, pool: LazyPool) -> None:
        self._parts = pool.parts
        columns = [
            [name for name in schema_of(part.frame, part.name) if not name.startswith(PREFIX)] for part in pool.parts
        ]
        self.columns = tuple(name for name in columns[0] if all(name in others for others in columns))

    def counts(self, column: str) -> Mapping[Any, int]:
        """Return how many rows have each value of a column."""
        found: Counter[Any] = Counter()
        for part in self._parts:
            counted = part.ask(lambda frame: frame.group_by(column).agg(nw.len().alias(f"{PREFIX}n")))
            found.update(dict(zip(counted.get_column(column).to_list(), counted.get_column(f"{PREFIX}n"), strict=True)))
        return found


def with_cells(pool: LazyPool, given: Sequence[Cell]) -> tuple[Part, ...]:
    """Put the cells on the frames of a pool as columns."""
    return tuple(_with_cells(part, given) for part in pool.parts)


def _with_cells(part: Part, given: Sequence[Cell]) -> Part:
    schema = nw.Schema({k: v for k, v in schema_of(part.frame, part.name).items() if not k.startswith(PREFIX)})
    target, columns = NarwhalsTarget(schema), {}
    for j, cell in enumerate(given):
        if cell.state is not None:
            columns[CELL.format(j)] = (nw.col(OMEGA.format(cell.state)) > 0).cast(nw.Float64)
        elif isinstance(cell.bias, ExpressionBias):
            missing = missing_values(part, target, cell.bias.columns)
            columns[CELL.format(j)] = expression(part, cell.bias, target, missing, None)
        else:
            raise InvalidBiasError(
                f"The share of {cell.label!r} is of a cell which an engine cannot compute. Give a condition in text, "
                "or collect the frame first.",
                sample=cell.label,
            )
    return part.map(lambda frame: frame.with_columns(**columns))


def collapse(pool: LazyPool, parts: Sequence[Part], given: Sequence[Cell]) -> tuple[Rows, NDArray[np.bool_]]:
    """Return the distinct rows of biases and cells, and which cells each is in."""
    K = len(pool.names)
    collapsed, limit = None, most_cells(K + len(given))
    if pool.cells is not None or pool.lengths.sum() <= limit or pool.thinned().distinct <= limit:
        collapsed = cells(parts, K, limit, [CELL.format(j) for j in range(len(given))])
    if collapsed is None:
        raise NeedsRowsError(
            f"Known shares need the distinct values of the biases in memory, and there are more than {limit:,} of "
            "them. Collect the columns that biases, shares and estimates read, and debias those."
        )
    matrix = np.ascontiguousarray(collapsed.matrix[:, :K])
    members = [
        support(matrix[:, cell.state], cell, log=False)
        if cell.state is not None
        else indicator(collapsed.matrix[:, K + j], cell)
        for j, cell in enumerate(given)
    ]
    return collapsed.with_rows(matrix, collapsed.source, collapsed.counts), np.column_stack(members)


class LazyAnchoredSample(LazyDebiasedSample, AnchoredSample):
    """A debiased sample that meets known shares, and whose rows stay in their engine."""

    def __init__(self, pool: LazyPool, rows: Rows, solution: Solution, anchor: Anchor, refit: Refit) -> None:
        DebiasedSample.__init__(self, pool, rows, replace(solution, u=refit.u), refit.weights, None)
        self._anchor, self._refit = anchor, refit
        self._lazy = replace(pool, parts=tuple(self._raked(part) for part in pool.parts))

    def identify(self) -> Verdict:
        """Tell through which rows the samples are compared, and which groups of them the shares join."""
        return AnchoredSample.identify(self)

    @cached_property
    def trust(self) -> Trust:
        """How far standard errors can be trusted: overlap over the weakest cut within a group."""
        trust = Trust.of(self._memory, self.solution, self.names, tail=False)
        return within_groups(trust, self._memory, self.solution, self._anchor.groups, self.names)

    def log_normalisers(self, level: float = 0.95) -> dict[Name, Estimate]:
        """Return each log normaliser with its error: biases are functions of the distinct rows."""
        require_trust(self)
        _, phi = self._memory.of_weighted(self._state_weights())
        covariance = self._memory.covariance(phi, trusted=self.trust.errors_hold)
        values = np.array(list(self.log_omegas.values()))
        estimates = Estimates(values, covariance, level, influence=phi, strata=self._memory.strata)
        return dict(zip(self.names, estimates, strict=True))

    def log_omega_covariance(self) -> Floats:
        """Return the covariance of the log normalisers, relative to the population."""
        return self._memory.model_covariance(self._state_weights() - self._row_weights[:, None])

    def _state_weights(self) -> Floats:
        """Return the weight of each distinct row under each state."""
        log_omegas = np.array(list(self.log_omegas.values()))
        finite = np.where(np.isfinite(log_omegas), log_omegas, 0.0)  # a state that covers no row has no tilt
        return np.asarray(np.exp(self._rows.log_omega() - finite + np.log(self._row_weights)[:, None]))

    def _raked(self, part: Part) -> Part:
        """Return a part whose biases are divided by what raking adds to the weight."""
        anchor, refit = self._anchor, self._refit
        mu = anchor.basis.directions @ refit.tilt
        exponent = nw.lit(float(mu @ anchor.shares - refit.log_scale))
        for j, value in enumerate(mu.tolist()):
            exponent = exponent - nw.col(CELL.format(j)) * value
        scaled = {OMEGA.format(k): nw.col(OMEGA.format(k)) * nw.col(f"{PREFIX}rake") for k in range(len(self.names))}
        return part.map(lambda frame: frame.with_columns(exponent.exp().alias(f"{PREFIX}rake")).with_columns(**scaled))

    def _biases_of(self, part: Part) -> list[nw.Expr]:
        return [nw.col(OMEGA.format(k)) / nw.col(f"{PREFIX}rake") for k in range(len(self.names))]

    @cached_property
    def _memory(self) -> AnchoredInfluence:
        """The influence of functions that are the same on equal rows."""
        rows, anchor = self._rows, self._anchor
        return AnchoredInfluence(
            rows,
            self.solution.u,
            self._row_weights,
            rows.source,
            rows.counts,
            groups=anchor.groups,
            pattern=anchor.pattern,
            regressors=anchor.basis.values,
        )

    @cached_property
    def _influence(self) -> LazyAnchoredInfluence:
        return LazyAnchoredInfluence(self._lazy, self._memory, self._anchor)


class LazyAnchoredInfluence(LazyInfluence):
    """Expectations and their errors as queries, of what is left after a regression on the cells."""

    def __init__(self, pool: LazyPool, memory: AnchoredInfluence, anchor: Anchor) -> None:
        super().__init__(pool, memory.rows, memory.u, memory.row_weights)
        self.memory, self.anchor = memory, anchor

    @property
    def laplacian(self) -> Any:
        """The Hessian in counts, a block for each group."""
        return self.memory.laplacian

    def query(self, functions: Functions, level: float, *, trusted: bool, names: Sequence[str] = ()) -> Estimates:
        """Return the expectations of expressions, given for each part."""
        y = self._controls()
        m = len(functions(self.pool.parts[0]))
        sums = np.zeros(len(y) * m)
        for part in self.pool.parts:
            r = part.count / nw.col(f"{PREFIX}S")
            terms = [control * f * r for control in y for f in functions(part)]
            sums += part.sums(self.u, terms) if terms else 0.0
        B = self.memory.coefficients(sums.reshape(len(y), m) / self.n)

        def residuals(part: Part) -> list[nw.Expr]:
            return [
                f - sum((control * float(b) for control, b in zip(y, B[:, j], strict=True)), start=nw.lit(0.0))
                for j, f in enumerate(functions(part))
            ]

        return super().query(residuals, level, trusted=trusted, names=names)

    def _controls(self) -> list[nw.Expr]:
        """Return the cells in the coordinates of the basis, of mean zero."""
        controls = []
        for direction in self.anchor.basis.directions.T:
            control = nw.lit(float(-direction @ self.anchor.shares))
            for j, value in enumerate(direction.tolist()):
                control = control + nw.col(CELL.format(j)) * value
            controls.append(control)
        return controls
