"""Lazy frames: the same fit, with the rows left where they are and only sums brought back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import narwhals as nw
import numpy as np

from vardi._estimates import Estimate, Estimates, quantile_of_normal
from vardi._expressions.compile import NarwhalsTarget, compile_node, require_columns
from vardi._identify import Verdict, judge
from vardi._influence import Influence
from vardi._newton import Solution
from vardi._pool import Name, Pool, as_biases, as_named, require_biases_for, show
from vardi._rows.dense import Dense
from vardi._rows.lazy import COUNT, OMEGA, PREFIX, LazyRows, Part, cells, head, with_probabilities
from vardi._sample import DebiasedSample
from vardi._strata import Strata
from vardi._sums import Floats
from vardi._trust import Trust, require_trust
from vardi.biases import Bias, ExpressionBias, where
from vardi.errors import (
    EmptySampleError,
    ImpossibleRowError,
    InvalidBiasError,
    InvalidCountsError,
    MismatchError,
    MissingValuesError,
    NeedsRowsError,
    suggest,
)

CELLS = 200_000  # distinct rows up to which the solve goes on in memory
HEAD = 2_000  # rows of each sample that a warm start is made from
Functions = Callable[[Part], Sequence[nw.Expr]]

POINTS = 32  # points at which a quantile search asks for the cdf at once


def any_lazy(samples: Any) -> bool:
    """Tell whether some of the samples are a lazy frame of an engine."""
    if isinstance(samples, Mapping):
        samples = list(samples.values())
    rows = samples if isinstance(samples, list | tuple) else [samples]
    return any(isinstance(nw.from_native(one, pass_through=True, allow_series=True), nw.LazyFrame) for one in rows)


def as_lazy_pool(samples: Any, biases: Any, *, source: Any, counts: Any) -> LazyPool:
    """Bring lazy samples, biases, labels and counts together, or say what does not fit."""
    for what, given in (("source", source), ("counts", counts)):
        if given is not None and not isinstance(given, str):
            raise MismatchError(
                f"{what} came as {type(given).__name__}, but the rows are lazy frames. Name the column that holds it.",
                expected=("column",),
                got=(type(given).__name__,),
            )
    by_name = as_named(biases, "biases")
    if source is not None:
        return lazy_pool(
            {None: samples}, dict(zip(by_name, as_biases(by_name, tuple(by_name)), strict=True)), source, counts
        )
    named = as_named(samples, "samples")
    require_biases_for(named, by_name)
    return lazy_pool(named, dict(zip(by_name, as_biases(by_name, tuple(by_name)), strict=True)), None, counts)


@dataclass(frozen=True)
class LazyPool(Pool):
    """A pool of lazy frames."""

    parts: tuple[Part, ...] = ()
    natives: tuple[Any, ...] = ()
    sizes: Floats = field(default_factory=lambda: np.empty(0))
    reach: Floats = field(default_factory=lambda: np.empty((0, 0)))

    def __len__(self) -> int:
        return int(self.sizes.sum())

    def rows(self) -> Any:
        """Return the distinct rows in memory, or the rows where they are if there are too many of them."""
        K = len(self.names)
        matrix, source = head(self.parts, K, HEAD)
        distinct = len(np.unique(np.column_stack([matrix, source]), axis=0))
        if 4 * distinct <= len(source) and (collapsed := cells(self.parts, K, CELLS)) is not None:
            return collapsed
        return LazyRows(self.parts, K, self.sizes, self.reach, Dense(matrix, source))

    def nearest(self, groups: Any) -> str:
        """Say nothing: it would take rows to tell which samples lie nearest."""
        return ""


def lazy_pool(
    named: Mapping[Name, Any], by_name: Mapping[Name, Bias], label: str | None, counts: str | None
) -> LazyPool:
    """Put the biases on lazy frames as columns, and check them by one query for each frame.

    Parameters
    ----------
    named : mapping
        Frames by name; with a label column one frame under None.
    by_name : mapping from name to Bias
        In the order of the names.
    label : str or None
        Column with the label of each row's sample.
    counts : str or None
        Column of frequency weights.
    """
    names = tuple(by_name) if label is not None else (*named, *(name for name in by_name if name not in named))
    biases = tuple(by_name[name] for name in names)
    for name, bias in zip(names, biases, strict=True):
        if not isinstance(bias, ExpressionBias):
            raise InvalidBiasError(
                f"The bias of {str(name)!r} is {bias}, which an engine cannot compute. Give an expression in text, or "
                "collect the frame first.",
                sample=str(name),
            )
    position = {name: k for k, name in enumerate(names)}
    parts = tuple(
        _part(frame, biases, label, position if label is not None else {None: position[name]}, counts, name)
        for name, frame in named.items()
    )
    sizes, reach = _checked(parts, names)
    return LazyPool(names, biases, (), np.empty(0, np.int64), None, parts, tuple(named.values()), sizes, reach)


def _part(
    native: Any, biases: Sequence[Bias], label: str | None, codes: dict[Any, int], counts: str | None, name: Name
) -> Part:
    if isinstance(native, np.ndarray):
        raise MismatchError(
            "A NumPy array cannot stand beside lazy frames, which have names and types of columns. Make it a frame.",
            expected=("frame",),
            got=("ndarray",),
        )
    frame: nw.LazyFrame[Any] = nw.from_native(native).lazy()
    schema = frame.collect_schema()
    read = dict.fromkeys(column for bias in biases for column in bias.columns)
    require_columns([*read, *([label] if label else []), *([counts] if counts else [])], schema)
    if any(column.startswith(PREFIX) for column in schema):
        raise MismatchError(f"Columns that begin with {PREFIX!r} are ours. Rename them.", expected=(), got=schema)
    target = NarwhalsTarget(schema)
    missing = _missing(frame, target, [*read, *([label] if label else []), *([counts] if counts else [])])
    if label in missing:
        raise MissingValuesError(
            f"No label in {label!r} for {missing[label]} rows, so it is unknown which sample they belong to. Fill the "
            "labels, or take these rows out.",
            columns={str(label): missing[str(label)]},
        )
    columns = {}
    for k, bias in enumerate(biases):
        assert isinstance(bias, ExpressionBias)
        columns[OMEGA.format(k)] = _expression(frame, bias, target, missing, name)
    if counts is not None:
        columns[COUNT] = nw.col(counts).cast(nw.Float64)
    frame = frame.with_columns(**columns)
    if counts is not None:
        _require_counts(frame, counts)
        frame = frame.filter(nw.col(COUNT) > 0)
    return Part(frame, label, _known_labels(frame, label, codes), counts is not None)


def _expression(
    frame: nw.LazyFrame[Any], bias: ExpressionBias, target: NarwhalsTarget, missing: Mapping[str, int], name: Name
) -> nw.Expr:
    compiled = compile_node(bias.node, target, missing)
    if isinstance(compiled.value, float):
        return nw.lit(compiled.value)
    if compiled.known is not None:
        unknown = int(frame.select((~compiled.known).cast(nw.Int64).sum().alias("n")).collect().item() or 0)
        if unknown:
            columns = {column: missing[column] for column in bias.columns if column in missing}
            counted = ", ".join(f"{column!r} ({count})" for column, count in columns.items())
            of_sample = "" if name is None else f" of sample {str(name)!r}"
            raise MissingValuesError(
                f"The bias {bias}{of_sample} is unknown on {unknown} rows, since there are missing values in "
                f"{counted}. "
                "A missing value is neither true nor false. Fill or drop these rows, or say what holds for them.",
                columns=columns,
            )
    return compiled.value.cast(nw.Float64)


def _missing(frame: nw.LazyFrame[Any], target: NarwhalsTarget, columns: Sequence[str]) -> dict[str, int]:
    if not columns:
        return {}
    queries = [target.is_missing(column).cast(nw.Int64).sum().alias(column) for column in columns]
    row = frame.select(*queries).collect().row(0)
    return {column: int(count) for column, count in zip(columns, row, strict=True) if count}


def _require_counts(frame: nw.LazyFrame[Any], counts: str) -> None:
    low, high = frame.select(nw.col(COUNT).min().alias("a"), nw.col(COUNT).max().alias("b")).collect().row(0)
    if not (low is not None and low >= 0 and high < np.inf):
        raise InvalidCountsError(
            f"The counts in {counts!r} run from {low} to {high}. A count says how many rows a row stands for, so it "
            "is a "
            "finite number, zero or more.",
            rows=(),
        )


def _known_labels(frame: nw.LazyFrame[Any], label: str | None, codes: dict[Any, int]) -> dict[Any, int]:
    """Return the codes of the labels that are there, or refuse one without a bias."""
    if label is None:
        return codes
    found = frame.select(label).unique().collect().get_column(label).to_list()
    strangers = [value for value in found if value not in codes]
    if strangers:
        raise MismatchError(
            f"Label {str(strangers[0])!r} of {label!r} has no bias. The labels are {show(found)}, the biases "
            f"{show(codes)}.{suggest(strangers[0], codes)} Give each label a bias.",
            expected=codes,
            got=found,
        )
    return {value: codes[value] for value in found}


def _checked(parts: Sequence[Part], names: Sequence[Name]) -> tuple[Floats, Floats]:
    """Return sizes and reach, after one query for each part has shown that every bias is one."""
    K = len(names)
    sizes, reach = np.zeros(K), np.zeros((K, K))
    for part in parts:
        queries: dict[str, nw.Expr] = {"n": part.rows}
        for k in range(K):
            omega = nw.col(OMEGA.format(k))
            queries[f"low_{k}"] = omega.min()
            queries[f"high_{k}"] = omega.max()
            queries[f"nan_{k}"] = omega.is_nan().cast(nw.Int64).sum()
            queries[f"reach_{k}"] = ((omega > 0).cast(nw.Float64) * part.count).sum()
        for code, row in part.by_sample(queries):
            if not row["n"]:
                raise EmptySampleError(
                    f"No rows in {str(names[code])!r}. Leave an empty sample out of the samples; its bias may stay, "
                    "and "
                    "its normaliser is estimated all the same.",
                    samples=(str(names[code]),),
                )
            sizes[code] += row["n"]
            for k, name in enumerate(names):
                if row[f"nan_{k}"] or not (row[f"low_{k}"] >= 0 and row[f"high_{k}"] < np.inf):
                    value = "NaN" if row[f"nan_{k}"] else row[f"low_{k}"] if row[f"low_{k}"] < 0 else row[f"high_{k}"]
                    raise InvalidBiasError(
                        f"The bias of {str(name)!r} is {value} at some rows of {str(names[code])!r}. A bias says how "
                        "much "
                        "likelier a unit is to be drawn, so it must be a finite number, zero or more. Correct the "
                        "bias, "
                        "or take these rows out.",
                        sample=str(name),
                    )
                reach[k, code] += row[f"reach_{k}"]
    impossible = np.flatnonzero((np.diag(reach) < sizes) & (sizes > 0))
    if len(impossible):
        k = int(impossible[0])
        raise ImpossibleRowError(
            f"Sample {str(names[k])!r} holds {sizes[k] - reach[k, k]:g} rows that its own bias forbids. A unit with "
            "bias 0 "
            "cannot have been drawn, so the declared bias is wrong, or these rows belong to another sample. Correct "
            "the "
            "bias, or take them out.",
            sample=str(names[k]),
            rows=(),
        )
    return sizes, reach


class LazyInfluence(Influence):
    """Expectations and their errors as queries: three for any number of functions."""

    def __init__(self, pool: LazyPool, rows: Any, u: Floats, weights: Floats) -> None:
        self.pool, self.rows, self.u, self.row_weights = pool, rows, u, weights
        self.n = float(rows.sizes.sum())
        self.strata = Strata(np.empty(0, np.int64), rows.sizes, None, self)

    def query(self, functions: Functions, level: float, *, trusted: bool) -> Estimates:
        """Return the expectations of expressions, given for each part."""
        eta, projected = self._moments(functions)
        b = self.solve(projected)
        covariance = np.zeros((len(eta), len(eta)))
        for part in self.pool.parts:
            frame = with_probabilities(part.frame, self.u)
            phi = [self._phi(f, float(eta[j]), b[:, j]) for j, f in enumerate(functions(part))]
            covariance += self._within(part, frame, phi)
        return Estimates(eta, covariance if trusted else np.full_like(covariance, np.nan), level)

    def model_query(self, functions: Functions) -> tuple[Floats, Floats]:
        """Return expectations, and their covariance in the model's own form (MBAR's)."""
        eta, projected = self._moments(functions)
        m = len(eta)
        squares = np.zeros((m, m))
        for part in self.pool.parts:
            rg = [(f - float(e)) / nw.col(f"{PREFIX}S") for f, e in zip(functions(part), eta, strict=True)]
            terms = [rg[i] * rg[j] * part.count for i in range(m) for j in range(m)]
            squares += _row(with_probabilities(part.frame, self.u), terms).reshape(m, m)
        return eta, (squares + projected.T @ self.solve(projected)) / self.n**2

    def _moments(self, functions: Functions) -> tuple[Floats, Floats]:
        """Return eta and sum_i c_i r_i g_i p_i, by two queries for each part."""
        frames = [(part, with_probabilities(part.frame, self.u), list(functions(part))) for part in self.pool.parts]
        m, sampled = len(frames[0][2]), np.flatnonzero(self.sampled)
        eta = np.zeros(m)
        for part, frame, f in frames:
            eta += _row(frame, [one * part.count / nw.col(f"{PREFIX}S") for one in f]) / self.n
        projected = np.zeros((len(self.u), m))
        for part, frame, f in frames:
            rg = [(one - float(e)) * part.count / nw.col(f"{PREFIX}S") for one, e in zip(f, eta, strict=True)]
            terms = [one * nw.col(f"{PREFIX}p_{k}") for k in sampled for one in rg]
            projected[sampled] += _row(frame, terms).reshape(len(sampled), m)
        return eta, projected

    def _phi(self, f: nw.Expr, eta: float, b: Floats) -> nw.Expr:
        phi = (f - eta) / nw.col(f"{PREFIX}S")
        for k in np.flatnonzero(self.sampled):
            phi = phi + nw.col(f"{PREFIX}p_{k}") * float(b[k])
        return phi

    def _within(self, part: Part, frame: nw.LazyFrame[Any], phi: Sequence[nw.Expr]) -> Floats:
        """Return what a part adds to the covariance: the deviations of phi within its samples."""
        m = len(phi)
        upper = [(i, j) for i in range(m) for j in range(i, m)]
        queries = {f"s_{j}": (phi[j] * part.count).sum() for j in range(m)}
        queries |= {f"q_{i}_{j}": (phi[i] * phi[j] * part.count).sum() for i, j in upper}
        covariance = np.zeros((m, m))
        for code, row in Part(frame, part.label, part.codes, part.counted).by_sample(queries):
            size = self.rows.sizes[code]
            for i, j in upper:
                within = row[f"q_{i}_{j}"] - row[f"s_{i}"] * row[f"s_{j}"] / size
                covariance[i, j] += within / self.n**2 * size / max(size - 1.0, 1.0)
        return np.triu(covariance) + np.triu(covariance, 1).T


def _row(frame: nw.LazyFrame[Any], terms: Sequence[nw.Expr]) -> Floats:
    named = [term.sum().alias(str(place)) for place, term in enumerate(terms)]
    return np.array(frame.select(*named).collect().row(0), np.float64)


class LazyCdf:
    """The debiased distribution function of a column of a lazy frame, asked for where it is needed."""

    def __init__(self, fit: LazyDebiasedSample, column: str) -> None:
        self._fit, self._column = fit, column

    def __call__(self, t: Any, level: float = 0.95) -> Any:
        """Return F(t): an Estimate for a number, Estimates for several."""
        points = np.atleast_1d(np.asarray(t, np.float64))
        estimates = self._fit._query([f"({self._column}) <= {float(point)!r}" for point in points], level)
        return estimates[0] if np.ndim(t) == 0 else estimates

    def quantile(self, q: float, level: float = 0.95) -> Estimate:
        """Return the smallest x with F(x) >= q, with Woodruff's interval."""
        if not 0.0 < q < 1.0:
            raise MismatchError(
                f"The quantile {q} is not between 0 and 1. Give a probability, such as 0.5 for the median.",
                expected=("between 0 and 1",),
                got=(q,),
            )
        value = self._inverse(q)
        z = quantile_of_normal(level)
        margin = z * self(value, level).stderr
        if np.isnan(margin):
            return Estimate(value, np.nan, level)
        low, high = self._inverse(q - margin), self._inverse(q + margin)
        return Estimate(value, (high - low) / (2.0 * z), level, interval=(low, high))

    def band(self, level: float = 0.95, **_: Any) -> NoReturn:
        """Refuse: multipliers need rows in memory."""
        _needs_rows("A simultaneous band")

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
        for part in self._fit._lazy.parts:
            x = self._fit._compiled(part, self._column)
            inside = part.frame.select(x.alias("x"))
            if np.isfinite(low):
                inside = inside.filter(nw.col("x") > low)
            if np.isfinite(high):
                inside = inside.filter(nw.col("x") <= high)
            found.append(inside.select(nw.col("x").min().alias("a"), nw.col("x").max().alias("b")).collect().row(0))
        ends = [end for end in found if end[0] is not None]
        return min(float(end[0]) for end in ends), max(float(end[1]) for end in ends)

    def _heights(self, points: Floats) -> Floats:
        influence = self._fit._influence
        total = np.zeros(len(points))
        for part in influence.pool.parts:
            x = self._fit._compiled(part, self._column)
            r = part.count / nw.col(f"{PREFIX}S")
            terms = [(x <= float(point)).cast(nw.Float64) * r for point in points]
            total += _row(with_probabilities(part.frame, self._fit.solution.u), terms)
        return total / influence.n


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
        if not isinstance(matrix, list | tuple) or not all(isinstance(text, str) for text in matrix):
            _needs_rows("An expectation of values that are not columns")
        return self._query(matrix, level)

    def normalisers(self, level: float = 0.95) -> dict[Name, Estimate]:
        """Return each normaliser with its error; intervals are made on the log scale."""
        require_trust(self)
        estimates = self._influence.query(self._biases_of, level, trusted=self.trust.errors_hold)
        return {name: one.log().exp() for name, one in zip(self.names, estimates, strict=True)}

    def log_omega_covariance(self) -> Floats:
        """Return the covariance of the log normalisers, relative to the population."""
        omegas, covariance = self._influence.model_query(self._biases_of)
        return covariance / np.outer(omegas, omegas)

    def cdf(self, column: Any) -> LazyCdf:  # type: ignore[override]
        """Return the debiased distribution function of a column or an expression."""
        require_trust(self)
        return LazyCdf(self, column)

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
        return self._influence.query(lambda part: compiled[id(part)], level, trusted=self.trust.errors_hold)

    def _compiled(self, part: Part, text: str) -> nw.Expr:
        """Return a column or an expression of a part, or refuse one with missing values."""
        schema = part.frame.collect_schema()
        bias = where(f"`{text}`" if text in schema else text)
        assert isinstance(bias, ExpressionBias)
        target = NarwhalsTarget(schema)
        require_columns(bias.columns, schema)
        missing = _missing(part.frame, target, bias.columns)
        return _expression(part.frame, bias, target, missing, None)

    def _biases_of(self, part: Part) -> list[nw.Expr]:
        return [nw.col(OMEGA.format(k)) for k in range(len(self.names))]

    def _with_column(self, name: str, expression: Callable[[Part], nw.Expr]) -> Any:
        frames = []
        for part in self._lazy.parts:
            frame = with_probabilities(part.frame, self.solution.u).with_columns(expression(part).alias(name))
            ours = [column for column in frame.collect_schema() if column.startswith(PREFIX)]
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
