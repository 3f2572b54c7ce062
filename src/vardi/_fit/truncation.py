r"""Truncated rows of one sample, each with its window: as what is solved, and as a solved fit.

Inside, each row is a sample of its own, whose bias is its window; to the user there is one sample, whose bias is the
chance of being seen, :math:`\alpha S(x)`, with S the sum over windows; the weights are :math:`1 / S`. Given its window
a row's influence has mean :math:`b_i`, so :math:`\phi_i - b_i` is that of the unit with its window, and units are
independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from vardi._estimate.bias_test import quasi_independence
from vardi._estimate.check_results import BiasCheck, Features, untested
from vardi._estimate.sensitivity.question import Errors
from vardi._estimate.tangent import Hessian, Influence, Tangent
from vardi._fit.capabilities import Holder, refusal
from vardi._fit.rows_in_memory import RowsInMemory
from vardi._fit.solved import Prepared, Solved
from vardi._inputs.frames import as_frame
from vardi._inputs.pool import KeptRows, Name, Pool
from vardi._rows import Rows
from vardi._rows.arrays import Arrays
from vardi._rows.contract import Block
from vardi._rows.dense import Dense
from vardi._rows.measure import Functions, Measure
from vardi._rows.point import KnownMoments, Model, Point
from vardi._rows.windows import Intervals, Windows
from vardi._solve.identify import Verdict, judge
from vardi._solve.newton import JointFit
from vardi._solve.refit import Refit, refit_plain
from vardi._solve.risk_sets import Row, in_risk_sets, one_sample
from vardi._types import Floats
from vardi.biases import ExpressionBias, WindowBias
from vardi.biases._nodes import Node, to_text
from vardi.biases._nodes import columns as columns_of
from vardi.errors import ImpossibleRowError, InvalidBiasError, MismatchError, MissingValuesError, number_of_rows
from vardi.errors._texts import LISTED, show


@dataclass(frozen=True, eq=False, kw_only=True)
class TruncatedRows(RowsInMemory):
    """A pool of one sample, with a window for each row.

    Attributes
    ----------
    bias : WindowBias
        What declares value and window.
    windows : Windows
        The value and the window of each row of the pool.
    """

    holder: ClassVar[Holder] = "truncated rows"
    bias: WindowBias
    windows: Windows

    @classmethod
    def of_window(cls, pool: Pool, bias: WindowBias, known: Any) -> TruncatedRows:
        """Read values and windows; raise if they are invalid."""
        _require_alone(pool, bias, known)
        _require_seen(pool, bias)
        x = _numbers(pool, bias.x)
        low, high = (
            np.full(len(pool), sign * np.inf) if end is None else _numbers(pool, end)
            for end, sign in ((bias.low, -1.0), (bias.high, 1.0))
        )
        kept = KeptRows.counted(pool)
        _require_inside(pool, bias, x, low, high, kept.mask)
        return cls(pool=pool, kept=kept, bias=bias, windows=Windows(x, low, high))

    @property
    def windows_of_rows(self) -> Windows:
        """The windows of the rows that count."""
        w = self.windows
        return Windows(self.kept.of(w.x), self.kept.of(w.low), self.kept.of(w.high))

    @property
    def of_windows(self) -> tuple[str, ...]:
        """The columns that only the windows read, which the weights do not correct: they are for the values."""
        return tuple(name for name in self.bias.columns if name not in columns_of(self.bias.x))

    def prepare(self) -> Prepared:
        """Return the rows to solve: each is a sample of its own, named by its position."""
        windows = self.windows_of_rows
        rows = Intervals(windows, np.arange(len(windows.x)), self.counts, moderate=True)
        return Prepared.plain(tuple(map(Row, self.kept.positions.tolist())), rows, self)

    def overlap(self, prepared: Prepared) -> Verdict:
        """Judge whether risk sets join the rows."""
        verdict = judge(prepared.rows, prepared.names)
        return self.joined_by_risk_sets() if verdict else self.explained(verdict)

    def joined_by_risk_sets(self) -> Verdict:
        """Return the verdict on rows that their risk sets join, as those of a fit."""
        return one_sample(self.pool.names[0], self.windows_of_rows, self.counts)

    def explained(self, verdict: Verdict) -> Verdict:
        """Return a verdict in terms of risk sets."""
        rows = tuple(map(Row, self.kept.positions.tolist()))
        return in_risk_sets(verdict, self.windows_of_rows, self.counts, rows)

    def notes(self, verdict: Verdict, sizes: Mapping[Name, float]) -> tuple[str, ...]:
        """Return no notes: a window for each row is not a condition that other rows could meet."""
        return ()

    def of_samples(self, names: set[Name]) -> Self:
        """Return some rows, with their windows."""
        return self.among(np.isin(np.arange(len(self.pool)), [int(name) for name in names if isinstance(name, Row)]))

    def solved(self, prepared: Prepared, found: JointFit) -> SolvedByWindows:
        """Return the solution at the rows."""
        return SolvedByWindows(self, prepared, found)


class SolvedByWindows(Solved):
    """The solution of truncated rows: one sample to the user, and one for each row inside.

    Parameters
    ----------
    rows : TruncatedRows
        What the user gave.
    prepared : Prepared
        What was solved.
    found : JointFit
        How.
    """

    apart = "too few of their rows are at risk together"
    has_formula = False

    def __init__(self, rows: TruncatedRows, prepared: Prepared, found: JointFit) -> None:
        inner, weights = prepared.rows, found.solution.weights
        assert isinstance(inner, Rows)
        assert weights is not None
        self.truncated, self.windows = rows, rows.windows_of_rows
        self.inner, self.inner_u, self.inner_names = inner, found.solution.u, prepared.names
        self.through = np.exp(np.log(inner.sizes / inner.sizes.sum()) - self.inner_u)
        log_chance = self._log_chance(inner.sizes, np.log(self.through))
        chance = Dense(np.exp(log_chance) / weights[:, None], np.zeros(len(weights), np.int64), rows.counts)
        solution = replace(found.solution, u=np.array([-log_chance]), cut=np.ones(1))
        super().__init__(Prepared.plain(rows.pool.names, chance, rows), replace(found, solution=solution))

    @staticmethod
    def _log_chance(counts: Floats, log_omegas: Floats) -> float:
        r"""Return the log of :math:`\alpha = n / \sum_i c_i / \Omega_i`."""
        sampled = counts > 0
        return float(-np.log(np.average(np.exp(-log_omegas[sampled]), weights=counts[sampled])))

    @cached_property
    def tangent(self) -> Tangent:
        """The solution, in terms of windows, as a map from functions on rows to estimates.

        To the user all rows are of one sample. Given its window a row's influence has mean b_i, so phi_i - b_i is that
        of the unit with its window: deviations from centres by window, of which errors are taken anyway.
        """
        one = np.zeros(len(self.inner), np.int64)
        rows = Arrays(self.inner, self.inner.source, self.inner.counts, self.memory.dependence, one)
        point = Point(Model(self.inner.sizes, {}, KnownMoments.none()), self.inner_u, self.solution.weights)
        hessian = Hessian(self.inner, self.inner_u)
        return Tangent(Measure(rows, point, samples=one), hessian, Hessian(self.rows, self.solution.u))

    def bias_influence(self) -> Influence:
        r"""Return the influence on :math:`\log\alpha`, through the law of the values and through the windows seen.

        With :math:`f = \frac1n\sum_k\omega_k / \Omega_k^2` it is :math:`1 - \alpha/\Omega_i + \alpha\phi^f_i`.
        """
        measure, alpha, seen = self.tangent.measure, float(np.exp(self.log_omegas[0])), 1.0 / self.through[:, None]
        _, through = self.tangent.influence(Functions((), 1, lambda block, at: at.p @ seen, weighed=True))
        own = Functions((), 1, lambda block, at: block.of_sample(1.0 - alpha * seen), weighed=True)
        nowhere = np.zeros((len(measure.coordinates), 1))
        values = measure.influence(own, np.zeros(1), nowhere) + through.values @ np.array([[alpha]])
        return replace(through, values=values)

    @property
    def near(self) -> dict[Name, float]:
        """The log normalisers of the rows' windows."""
        return dict(zip(self.inner_names, np.log(self.through).tolist(), strict=True))

    def slopes(self, influence: Influence, errors: Errors) -> Floats:
        """Return how far estimates move at worst, per unit of log Gamma in the chance of being seen."""
        measure, values = self.tangent.measure, influence.values

        def question(block: Block) -> Floats:
            return block.sum(np.abs(values.of_functions(block)))

        return measure.rows.total(question, values.width) / measure.n

    def check_biases(self, asked: Mapping[str, Any], features: Features) -> BiasCheck:
        """Test whether columns depend on the windows, beyond the values' lying in them."""
        if self.depends:
            return untested("the test of quasi-independence assumes independent rows, but these depend on one another.")
        sides = (("low", self.truncated.bias.low), ("high", self.truncated.bias.high))
        ends = {to_text(end): getattr(self.windows, side) for side, end in sides if end}
        columns = self.truncated.columns_of(asked)
        return quasi_independence(self.names[0], self.windows, ends, columns, self.truncated.counts)

    def judge(self) -> Verdict:
        """Return the verdict in terms of risk sets."""
        return self.truncated.joined_by_risk_sets()

    def refit(self, counts: Floats, *, tol: float, may_part: bool, rng: np.random.Generator | None = None) -> Refit:
        """Solve again for other counts of the rows, each with its window."""
        found = refit_plain(self.inner.with_counts(counts), self.inner_u, tol=tol, may_part=bool((counts == 0).any()))
        if found.weights is None:
            return replace(found, labels=np.zeros(1, np.int64))
        return replace(found, log_omegas=np.array([self._log_chance(counts, found.log_omegas)]))

    def shared_passes(self, functions: Floats) -> None:
        """Return None: windows are not a matrix."""

    @property
    def weigher(self) -> NoReturn:
        """Refuse: the weight is a step function of the windows of all rows."""
        raise refusal("weights as a formula", TruncatedRows.holder)

    def weigh(self, rows: Any) -> Any:
        r"""Return :math:`1 / S(x)`, S the sum over the windows that hold x, for rows that need not be in the pool."""
        frame, value = as_frame(rows), self.truncated.bias.x
        x = np.asarray(frame.evaluate([ExpressionBias(value)], called="value")[0], np.float64)
        new = Intervals(Windows(x, self.windows.low, self.windows.high), np.zeros(len(x), np.int64))
        logs = new.log_row_mass(self.inner_u)
        outside = np.flatnonzero(np.isneginf(logs))
        if len(outside):
            raise ImpossibleRowError(
                f"No window holds the value of {len(outside)} of the new rows (the first is row {outside[0]}, where "
                f"{to_text(value)} is {x[outside[0]]:g}), so nothing is known of their weight. The debiased "
                "sample represents values at which some row was at risk.",
                sample=None,
                rows=outside[:LISTED],
            )
        return frame.wrap(np.exp(-logs), "weight")


def _require_alone(pool: Pool, bias: WindowBias, known: Any) -> None:
    if len(pool.names) > 1:
        name = next(name for name, one in zip(pool.names, pool.biases, strict=True) if one is bias)
        raise MismatchError(
            f"{str(name)!r} has the bias {bias}, a window for each of its rows, but was given together with "
            f"{show(other for other in pool.names if other != name)}. A window belongs to its own row, and rows of "
            "other samples have none. Debias it alone; to pool both, give vardi.debias_matrix a matrix with a column "
            "for each window and one for each other sample."
        )
    if known is not None:
        raise refusal("weights", TruncatedRows.holder, "known values")


def _require_seen(pool: Pool, bias: WindowBias) -> None:
    """Refuse censored rows: they have no value to weigh."""
    if bias.status is None:
        return
    status = _numbers(pool, bias.status)
    strange = np.flatnonzero((status != 0.0) & (status != 1.0))
    text = to_text(bias.status)
    if len(strange):
        raise InvalidBiasError(
            f"The status {text} is {status[strange[0]]:g} at row {strange[0]}. It is 1 where the value was seen, and 0 "
            f"where not: write a condition, such as {text} == {status[strange[0]]:g}.",
            sample=str(pool.names[0]),
            rows=strange[:LISTED],
        )
    censored = np.flatnonzero(status == 0.0)
    if len(censored):
        raise InvalidBiasError(
            f"{len(censored)} of {number_of_rows(len(pool))} of {str(pool.names[0])!r} are censored ({text} is 0, "
            f"first at row {censored[0]}): only a bound of {to_text(bias.x)} is known there, but weights need the "
            "value. Without these rows estimates would be biased. Use a survival package that takes entry times, such "
            "as lifelines (KaplanMeierFitter().fit(durations, event_observed, entry=...)); windows are enough if every "
            "value was seen.",
            sample=str(pool.names[0]),
            rows=censored[:LISTED],
        )


def _numbers(pool: Pool, node: Node) -> Floats:
    """Return the value or an end of the window of each row."""
    what = f"{to_text(node)}, of the window of {str(pool.names[0])!r},"
    try:
        values = np.asarray(pool.evaluate([ExpressionBias(node)], pool.names[:1], "column")[0], np.float64)
    except MismatchError as error:
        if any(name not in frame.columns for name in columns_of(node) for frame in pool.frames):
            raise
        raise MismatchError(
            f"{what} is not a number. Values and ends of windows are "
            "numbers: count dates from a first day, e.g. with (dates - first).dt.days."
        ) from error
    except MissingValuesError as error:
        raise MissingValuesError(
            f"{what} is missing in some rows: "
            f"{', '.join(f'{name!r} ({count})' for name, count in error.columns.items())}. A value that was not seen "
            "is censored or lost, and an end that is open is -inf or inf. Fill the ends in, and remove rows without "
            "a value if they were lost at random.",
            columns=error.columns,
        ) from error
    bad = np.flatnonzero(np.isnan(values))
    if len(bad):
        raise InvalidBiasError(
            f"{what} has no value at row {bad[0]}: a logarithm, root or "
            "quotient has none there. Correct it, or remove such rows.",
            sample=str(pool.names[0]),
            rows=bad[:LISTED],
        )
    return values


def _require_inside(
    pool: Pool, bias: WindowBias, x: Floats, low: Floats, high: Floats, kept: NDArray[np.bool_]
) -> None:
    bad = np.flatnonzero(kept & ~((low <= x) & (x <= high) & np.isfinite(x)))
    if len(bad):
        row = int(bad[0])
        raise ImpossibleRowError(
            f"{number_of_rows(len(bad))} of {str(pool.names[0])!r} {'lies' if len(bad) == 1 else 'lie'} outside "
            f"{'its' if len(bad) == 1 else 'their'} own window (the first is row {row}: {to_text(bias.x)} is "
            f"{x[row]:g}, and its window reaches from {low[row]:g} to {high[row]:g}). Such a unit was not at risk, and "
            "could not have been seen. Correct the ends of the window, or remove these rows.",
            sample=str(pool.names[0]),
            rows=bad[:LISTED],
        )
