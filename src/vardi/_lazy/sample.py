"""LazyDebiasedSample: a debiased sample whose rows stay in their engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NoReturn

import narwhals as nw
import numpy as np

from vardi._cdf import DebiasedCdf, points_of
from vardi._estimates import Estimate, Estimates
from vardi._expressions.compile import NarwhalsTarget, require_columns
from vardi._identify import Verdict, judge
from vardi._lazy.influence import LazyInfluence
from vardi._lazy.pool import LazyPool, expression, missing_values
from vardi._newton import Solution
from vardi._pool import Name
from vardi._rows.engine import answering, schema_of
from vardi._rows.lazy import COUNT, OMEGA, PREFIX, LazyRows, Part, with_probabilities
from vardi._sample import DebiasedSample
from vardi._sums import Floats
from vardi._trust import Trust, require_trust
from vardi.biases import ExpressionBias, where
from vardi.errors import MismatchError, NeedsRowsError

POINTS = 32  # points at which a quantile search asks for the cdf at once


class LazyDebiasedSample(DebiasedSample):
    """A debiased sample whose rows stay in their engine."""

    def __init__(self, pool: LazyPool, rows: Any, solution: Solution, weights: Floats) -> None:
        super().__init__(pool, rows, solution, weights, None)
        self._lazy = pool

    @property
    def weights(self) -> Any:
        """The user's lazy frame with a column ``weight``; by name where the samples are frames of their own."""
        return self._with_column("weight", lambda part: 1.0 / nw.col(f"{PREFIX}S"))

    @property
    def probabilities(self) -> Any:
        """The user's lazy frame with a column ``probability`` that sums to 1."""
        n = float(self._rows.sizes.sum())
        return self._with_column("probability", lambda part: part.count / nw.col(f"{PREFIX}S") / n)

    def expectation(self, values: Any, level: float = 0.95) -> Estimate:
        """Return the mean of a column or an expression over the population, by queries."""
        return self.expectations([values], level)[0]

    def expectations(self, matrix: Any, level: float = 0.95) -> Estimates:
        """Return the means of several columns and expressions over the population, with their covariance."""
        if isinstance(matrix, str):
            matrix = [matrix]
        if not isinstance(matrix, list | tuple) or not all(isinstance(text, str) for text in matrix):
            _needs_rows("An expectation of values that are not columns")
        return self._query(matrix, level)

    def log_normalisers(self, level: float = 0.95) -> dict[Name, Estimate]:
        """Return each log normaliser with its error, relative to the population."""
        require_trust(self)
        estimates = self._influence.query(self._biases_of, level, trusted=self.trust.errors_hold)
        return {name: one.log() for name, one in zip(self.names, estimates, strict=True)}

    def log_omega_covariance(self) -> Floats:
        """Return the covariance of the log normalisers, relative to the population."""
        omegas, covariance = self._influence.model_query(self._biases_of)
        return covariance / np.outer(omegas, omegas)

    def cdf(self, column: Any) -> LazyCdf:
        """Return the debiased distribution function of a column or an expression."""
        require_trust(self)
        return LazyCdf(self, column)

    def weight_shares(self) -> dict[Name, float]:
        """Return the share of the weight that the rows of each sample carry."""
        shares = np.zeros(len(self.names))
        for part in self._lazy.parts:
            mass = (part.count / nw.col(f"{PREFIX}S")).sum()
            for code, row in part.by_sample({"mass": mass}, self.solution.u):
                shares[code] += row["mass"]
        return dict(zip(self.names, (shares / shares.sum()).tolist(), strict=True))

    def effective_rows(self) -> float:
        """Return Kish's effective number of rows."""
        squares = 0.0
        for part in self._lazy.parts:
            term = part.count / (nw.col(f"{PREFIX}S") * nw.col(f"{PREFIX}S"))
            squares += float(part.sums(self.solution.u, [term])[0])
        return float(self._rows.sizes.sum() ** 2 / squares)

    def identify(self) -> Verdict:
        """Tell through which rows the samples are compared."""
        if isinstance(self._rows, LazyRows):
            return judge(_Weighed(self._rows, self.solution.u), self.names)
        return super().identify()

    @cached_property
    def trust(self) -> Trust:
        """How far standard errors can be trusted: overlap over the weakest cut."""
        return Trust.of(self._influence, self.solution, self.names, tail=False)

    def sample(self, n: int, seed: Any = None, *, replace: bool = True) -> NoReturn:
        """Refuse: drawing rows would move them."""
        _needs_rows("Drawing rows")

    def check_biases(self, columns: Any = None, **options: Any) -> NoReturn:
        """Refuse: the test compares rows."""
        _needs_rows("check_biases()")

    def bounds(self, delta: float = 0.05) -> NoReturn:
        """Refuse: the constants are extremes over rows."""
        _needs_rows("bounds()")

    def diagnostics(self, columns: Any = None) -> NoReturn:
        """Refuse: most of it needs rows in memory."""
        _needs_rows("diagnostics()")

    def _query(self, texts: Sequence[str], level: float) -> Estimates:
        require_trust(self)
        compiled = {id(part): [self._compiled(part, text) for text in texts] for part in self._lazy.parts}
        trusted = self.trust.errors_hold
        return self._influence.query(lambda part: compiled[id(part)], level, trusted=trusted, names=texts)

    def _compiled(self, part: Part, text: str) -> nw.Expr:
        """Return a column or an expression of a part, or refuse one with missing values."""
        schema = nw.Schema({k: v for k, v in schema_of(part.frame, part.name).items() if not k.startswith(PREFIX)})
        bias = where(f"`{text}`" if text in schema else text)
        assert isinstance(bias, ExpressionBias)
        target = NarwhalsTarget(schema)
        require_columns(bias.columns, schema)
        missing = missing_values(part, target, bias.columns)
        return expression(part, bias, target, missing, None)

    @cached_property
    def _numeric_schema(self) -> tuple[str, ...]:
        """The numeric columns that all parts have, those that the biases read first; values may be missing."""
        schemas = [schema_of(part.frame, part.name) for part in self._lazy.parts]
        numeric = [
            name
            for name in schemas[0]
            if not name.startswith(PREFIX) and all(name in one and one[name].is_numeric() for one in schemas)
        ]
        read = {name for bias in self._pool.biases for name in bias.columns}
        return tuple(sorted(numeric, key=lambda name: name not in read))

    def _pooled_means(self, texts: Sequence[str]) -> Floats:
        """Return the means of columns and expressions over the pool as it came."""
        total = np.zeros(len(texts))
        for part in self._lazy.parts:
            total += part.sums(None, [self._compiled(part, text) * part.count for text in texts])
        return total / float(self._rows.sizes.sum())

    def _biases_of(self, part: Part) -> list[nw.Expr]:
        return [nw.col(OMEGA.format(k)) for k in range(len(self.names))]

    def _with_column(self, name: str, expression: Callable[[Part], nw.Expr]) -> Any:
        frames = []
        for part in self._lazy.parts:
            value = expression(part)
            if part.whole is not None:  # a row that counts for nothing has no weight
                value = nw.when(nw.col(COUNT) > 0).then(value).otherwise(nw.lit(0.0))
            rows = part.frame if part.whole is None else part.whole
            if name in schema_of(rows, part.name):
                raise MismatchError(
                    f"There is a column {name!r} already, and it would be lost. Rename it in the frame before the fit.",
                    expected=(name,),
                    got=(name,),
                )
            with answering(part.name):
                frame = with_probabilities(rows, self.solution.u).with_columns(value.alias(name))
                ours = [column for column in schema_of(frame, part.name) if column.startswith(PREFIX)]
                frames.append(frame.drop(*ours).to_native())
        if self._lazy.parts[0].label is not None:
            return frames[0]
        sampled = [next(iter(part.codes.values())) for part in self._lazy.parts]
        return {self.names[k]: frame for k, frame in zip(sampled, frames, strict=True)}

    @cached_property
    def _influence(self) -> LazyInfluence:
        return LazyInfluence(self._lazy, self._rows, self.solution.u, self._row_weights)


class _Weighed:
    """Lazy rows whose overlap is measured by the weights at u."""

    def __init__(self, rows: LazyRows, u: Floats) -> None:
        self._rows, self._u, self.sizes = rows, u, rows.sizes

    def masses(self) -> Floats:
        return self._rows.masses()

    def reach(self) -> Floats:
        return self._rows.reach()

    def overlap(self, mass: Floats) -> Floats:
        return self._rows.overlap(u=self._u)


def _needs_rows(what: str) -> NoReturn:
    raise NeedsRowsError(
        f"{what} needs rows in memory, and these are in their engine. Collect the columns you need and debias them."
    )


def _ends(x: nw.Expr, low: float, high: float, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Ask for the smallest and the largest value in (low, high]."""
    inside = frame.select(x.alias("x"))
    if np.isfinite(low):
        inside = inside.filter(nw.col("x") > low)
    if np.isfinite(high):
        inside = inside.filter(nw.col("x") <= high)
    return inside.select(nw.col("x").min().alias("a"), nw.col("x").max().alias("b"))


class LazyCdf(DebiasedCdf):
    """The debiased distribution function of a column of a lazy frame, asked for where it is needed."""

    def __init__(self, fit: LazyDebiasedSample, column: str) -> None:
        self._fit, self._column = fit, column

    def __repr__(self) -> str:
        return f"LazyCdf({self._column!r})"

    @cached_property
    def _compiled(self) -> list[tuple[Part, nw.Expr]]:
        """The column as an expression of each part, checked once."""
        return [(part, self._fit._compiled(part, self._column)) for part in self._fit._lazy.parts]

    def __call__(self, t: Any, level: float = 0.95) -> Any:
        """Return F(t): an Estimate for a number, Estimates for several."""
        points = points_of(t).tolist()
        below = {id(part): [(x <= point).cast(nw.Float64) for point in points] for part, x in self._compiled}
        trusted = self._fit.trust.errors_hold
        estimates = self._fit._influence.query(lambda part: below[id(part)], level, trusted=trusted)
        return estimates[0] if np.ndim(t) == 0 else estimates

    def band(self, level: float = 0.95, **_: Any) -> NoReturn:
        """Refuse: multipliers need rows in memory."""
        _needs_rows("A simultaneous band")

    def _below(self, value: float) -> float:
        smallest, largest = self._range(-np.inf, np.inf)
        if value < largest or smallest == largest:
            return value
        return self._range(-np.inf, float(np.nextafter(largest, -np.inf)))[1]

    def _inverse(self, q: float) -> float:
        """Narrow a bracket, a few dozen points at a time, until one value is left in it."""
        low, high = -np.inf, np.inf
        smallest, largest = self._range(low, high)
        while smallest < largest:
            points = np.unique(np.linspace(smallest, largest, POINTS))
            heights = self._heights(points)
            place = int(np.searchsorted(heights, q - 1e-12))
            if place >= len(points):
                return largest
            low, high = (points[place - 1] if place else low), points[place]
            smallest, largest = self._range(low, high)
        return smallest

    def _range(self, low: float, high: float) -> tuple[float, float]:
        """Return the smallest and the largest value in (low, high]."""
        found = []
        for part, x in self._compiled:
            found.append(part.ask(partial(_ends, x, low, high)).row(0))
        ends = [end for end in found if end[0] is not None and end[0] == end[0]]  # pandas says NaN where none is inside
        return min(float(end[0]) for end in ends), max(float(end[1]) for end in ends)

    def _heights(self, points: Floats) -> Floats:
        influence = self._fit._influence
        total = np.zeros(len(points))
        for part, x in self._compiled:
            r = part.count / nw.col(f"{PREFIX}S")
            terms = [(x <= float(point)).cast(nw.Float64) * r for point in points]
            total += part.sums(self._fit.solution.u, terms)
        return total / influence.n
