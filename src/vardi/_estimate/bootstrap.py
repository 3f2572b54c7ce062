r"""Bootstrap within samples: draw how often each row counts, solve for the normalisers again, measure the spread.

Each sample was drawn separately, so a draw keeps the size :math:`n_k` of sample k and changes how often its rows count:

- *bayesian* (Rubin 1981): :math:`b_i \sim \mathrm{Exp}(1)`, rescaled to sum to :math:`n_k` over sample k. Every row
  stays, so samples that can be compared remain so;
- *rows* (Efron 1979): multinomial counts. A draw may lose the rows that join two samples: then it has no fit.

Where every sample is one row with a bias of its own (truncation), rows are drawn from the pool, with their biases.
Known values with an error are redrawn too, and parameters of biases refitted.

A refit starts at the solution and needs only the draw's counts by row of :class:`~vardi._rows.Rows`. Where equal rows
are collapsed (indicator biases) these are a handful of sums: refitting a million rows costs little beyond its random
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import numpy as np

from vardi._estimate.estimates import Estimate, cells_of, headings, judged
from vardi._estimate.intervals import Kind, Law, Student, quantile_of_student, warn_of_doubt
from vardi._estimate.refits import (
    DrawKind,
    Drawn,
    DrawPlan,
    GroupRefits,
    Progress,
    Refits,
    Statistics,
    entropy_of,
    group_codes,
    in_threads,
    in_turn,
    make_plan,
)
from vardi._estimate.tables import Record, Tabular, record_of
from vardi._inputs.given import is_function, name_of
from vardi._machine import cores
from vardi._rows.contract import Kept
from vardi._solve.identify import Name
from vardi._solve.refit import Refit
from vardi._tables import Table, fragment
from vardi._types import Floats, Integers
from vardi.errors import (
    MismatchError,
    NotIdentifiableError,
    VardiWarning,
    WeakOverlapWarning,
)
from vardi.errors._texts import show
from vardi.errors._warn import warn

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from vardi._fit.solved import Solved
    from vardi._inputs.given import Functions, Labels

#: Functions of the rows, whose means are taken, or a function of the weights.
Statistic: TypeAlias = "Functions | Callable[..., ArrayLike]"


@dataclass(frozen=True, eq=False)
class Bootstrap(Tabular):
    """The result of refits to resampled rows.

    Attributes
    ----------
    values : ndarray of shape (n, m)
        The statistics of each draw; NaN for a draw that has no fit.
    value : float or ndarray
        The statistics of the fit itself: a number for one statistic.
    log_omegas : ndarray of shape (n, K)
        The log normalisers of each draw; NaN for a draw that has no fit.
    failed : int
        Draws that have no fit, because their samples could not be compared.
    names : tuple of str
        A name for each statistic.
    level : float
        Nominal coverage of ``interval``.
    kind : str
        What was drawn.
    is_approximate : bool
        Whether biases were learned, which refits hold fixed.
    """

    values: Floats = field(repr=False)
    value: float | Floats
    log_omegas: Floats = field(repr=False)
    failed: int
    names: tuple[str, ...]
    level: float
    kind: str
    _estimates: tuple[Estimate, ...] = field(repr=False)
    is_approximate: bool = False

    @property
    def stderr(self) -> float | Floats:
        """Standard deviation over the draws that have a fit, in the shape of ``value``.

        NaN where fewer than 3 degrees of freedom are behind it: draws of one or two clusters show no spread, or hardly
        any. For a share that no row has, or all have, it is half the width of its one-deviation interval.
        """
        return self._shaped(np.array([estimate.stderr for estimate in self._estimates]))

    @property
    def laws(self) -> tuple[Law, ...]:
        """The law of each interval: Student's t with the degrees of freedom of the analytic error, or that of a share.

        Where a statistic is no mean, or groups were given, they are one less than the units that are drawn.
        """
        return tuple(estimate.law for estimate in self._estimates)

    @property
    def interval(self) -> tuple[float, float] | Floats:
        """Value plus or minus t standard errors; for shares, theirs: (low, high), or an array of shape (..., 2)."""
        low, high = np.array([estimate.interval for estimate in self._estimates]).T
        return self._ends(low, high)

    def percentile(self, level: float | None = None) -> tuple[float, float] | Floats:
        """Return the interval between quantiles of the draws.

        It follows a skewed distribution, but with few draws it covers less than ``interval`` does: use a thousand or
        more.
        """
        level = self.level if level is None else level
        quantile_of_student(level)  # refuses an invalid level
        low, high = np.quantile(self._fitted, [0.5 - level / 2, 0.5 + level / 2], axis=0)
        withheld = np.isnan([estimate.stderr for estimate in self._estimates])
        low, high = np.where(withheld, np.nan, low), np.where(withheld, np.nan, high)
        return self._ends(low, high)

    def __len__(self) -> int:
        return len(self.values)

    def _records(self) -> list[Record]:
        """Return a row for each statistic."""
        return [record_of(name, estimate) for name, estimate in zip(self.names, self._estimates, strict=True)]

    def __str__(self) -> str:
        width = max(len(name) for name in self.names)
        lines = [f"{name:<{width}}  {estimate}" for name, estimate in zip(self.names, self._estimates, strict=True)]
        return "\n".join([self._title, *lines])

    def _repr_html_(self) -> str:
        rows = [[name, *cells_of(estimate)] for name, estimate in zip(self.names, self._estimates, strict=True)]
        return fragment([self._title, Table(["", *headings(self.level)], rows, of="statistics")])

    @property
    def _title(self) -> str:
        failed = f"{self.failed} failed" if self.failed else "none failed"
        kind = "Bayesian bootstrap" if self.kind == "bayesian" else "Bootstrap of rows"
        learned = "; learned biases are held fixed, so errors are approximate" if self.is_approximate else ""
        return f"{kind}: {len(self)} refits, {failed}{learned}"

    @property
    def _fitted(self) -> Floats:
        return self.values[np.isfinite(self.log_omegas).any(axis=1)]

    def _shaped(self, flat: Floats) -> float | Floats:
        return float(flat[0]) if np.ndim(self.value) == 0 else flat.reshape(np.shape(self.value))

    def _ends(self, low: Floats, high: Floats) -> tuple[float, float] | Floats:
        if np.ndim(self.value) == 0:
            return float(low[0]), float(high[0])
        return np.stack([self._shaped(low), self._shaped(high)], axis=-1)


def bootstrap(
    solved: Solved,
    statistic: Statistic | None = None,
    n: int = 1000,
    seed: int | np.random.Generator | None = 0,
    *,
    kind: DrawKind = "bayesian",
    groups: Labels | None = None,
    level: float = 0.95,
    jobs: int | None = None,
    progress: Progress | None = None,
    identity: str | None = None,
) -> Bootstrap:
    """Refit the normalisers to resampled rows, and return the spread of a statistic over the refits.

    Rows in an engine are put into 1,000 random groups a sample, or into those of a column, and whole groups are drawn,
    each with one Newton step from the solution: see :mod:`vardi._estimate.refits`.

    Parameters
    ----------
    solved : Solved
        The fit's rows and solution.
    statistic : str, expression, array, list of these, callable or None
        A column, an expression or a value for each row, of which the debiased mean is taken; several of these; or a
        function of the weights that returns a number or an array. The weights are in pool order, each times how often
        its row was drawn, with mean 1 over the (counted) rows. None gives the log normalisers alone.
    n : int
        How many draws.
    seed : int, Generator or None
        Draw i depends on the seed and i alone, whatever ``n`` and ``jobs`` are.
    kind : {"bayesian", "rows"}
        Exponential multiplicities of mean 1 (every row stays), or rows drawn with replacement.
    groups : array or str, optional
        Groups of rows other than the clusters of the fit, to be drawn as a whole within samples: the group of each row,
        or the column that has it. By default whole clusters are drawn, batches of successive rows of series, within
        strata.
    level : float
        Nominal coverage of the interval.
    jobs : int, optional
        Threads; by default as many as there are processors, but one for a function, which may not be safe to call from
        several at once.
    progress : callable, optional
        Called as ``progress(done, n)`` as draws are done.
    identity : str, optional
        In an engine: the column that identifies a row, where the engine has no row number of its own.

    Returns
    -------
    Bootstrap
        Draws, standard errors and intervals.

    Raises
    ------
    NotIdentifiableError
        Where more than a tenth of the draws have no fit.

    Examples
    --------
    >>> import vardi
    >>> from vardi._estimate.bootstrap import bootstrap
    >>> design = vardi.datasets.house_prices(seed=0)
    >>> fit = vardi.debias(design.samples, design.biases)
    >>> print(bootstrap(fit.solved, ["MEDV", "MEDV > 30"], n=200))
    Bayesian bootstrap: 200 refits, none failed
    MEDV       23.2 ± 1.0 (95%: 21.2 to 25.2)
    MEDV > 30  0.190 ± 0.041 (95%: 0.119 to 0.281)
    """
    _check(n, kind, level, jobs)
    entropy = entropy_of(seed)
    if solved.data.in_memory or (statistic is None and groups is None and solved.summed_in_memory):
        codes = None if groups is None else group_codes(solved, groups)
        statistics = _statistics(solved, statistic)
        plan = make_plan(solved, codes, of_rows=statistic is not None, functions=_judged_by(solved, statistics))
        if not plan.whole and (solved.tangent.measure.rows.dependence.independent or codes is not None):
            _warn_of_few_units(plan, solved.names, grouped=codes is not None)
        runs = None if codes is None else plan.units.runs
        if jobs is None:
            jobs = 1 if callable(statistic) else cores()
        draws = in_threads(Refits(solved, plan, statistics, kind, entropy, jobs), n, progress)
    else:
        first = int(np.random.SeedSequence(entropy).generate_state(1)[0])
        sums = solved.engine.in_groups(solved, statistic, groups, first, identity)
        statistics, runs = _statistics(solved, statistic), None
        draws = in_turn(GroupRefits(solved, sums, kind), entropy, n, progress)
    return _gathered(draws, solved, statistics, n, level, kind, runs)


def _judged_by(solved: Solved, statistics: Statistics, most: int = 10) -> Kept | None:
    """Return functions by which autocorrelation is judged: those of the statistic, or the first numeric columns."""
    series = solved.tangent.measure.rows.dependence.named.get("series")
    if series is None or statistics.of is None:
        return statistics.functions
    columns = [name for name in solved.data.numeric_columns if name != series]
    return _means(solved, columns[:most]).functions if columns else None


def _gathered(
    draws: Iterable[Drawn],
    solved: Solved,
    statistics: Statistics,
    n: int,
    level: float,
    kind: DrawKind,
    runs: Integers | None,
) -> Bootstrap:
    """Return the draws, or report how many have no fit; ``runs`` are the numbers of groups that were drawn."""
    names, value, functions = statistics.names, statistics.value, statistics.functions
    values, log_omegas = np.full((n, len(names)), np.nan), np.full((n, len(solved.names)), np.nan)
    failures = []
    for i, refit in enumerate(draws):
        if isinstance(refit, Refit):
            failures.append(refit)
        else:
            values[i], log_omegas[i] = refit
    _report_failures(failures, n, kind, solved)
    errors, flat = values[np.isfinite(log_omegas).any(axis=1)].std(axis=0, ddof=1), np.ravel(value)
    students, kinds = _students_and_kinds(solved, functions, len(flat))
    if runs is not None:
        students = [_of_groups(student, runs) for student in students]
    laws, stderr = judged(flat, errors, students, kinds)
    warn_of_doubt(solved.names, names, laws)
    numbers = zip(flat.tolist(), stderr.tolist(), laws, strict=True)
    estimates = tuple(Estimate(one, error, level, law=law) for one, error, law in numbers)
    shown, is_approximate = value if np.ndim(value) else float(value), solved.tangent.approximate
    return Bootstrap(values, shown, log_omegas, len(failures), names, level, kind, estimates, is_approximate)


def _students_and_kinds(solved: Solved, functions: Kept | None, m: int) -> tuple[list[Student], list[Kind]]:
    """Return what the error of each statistic rests on, and what kind of number it is: of units, if it is no mean."""
    tangent = solved.tangent
    if functions is None:
        return [tangent.of_units] * m, []
    means = tangent.measure.means(functions)
    influence = tangent.influence_on(functions, means.mean)
    spread = influence.spread()
    return influence.laws(spread, tails=False), tangent.kinds(functions, means, spread)


def _of_groups(student: Student, runs: Integers) -> Student:
    """Return Student's t with no more degrees of freedom than groups of each sample leave; none if one has only one."""
    df = 0.0 if (runs == 1).any() else float((runs[runs > 0] - 1).sum())
    most = int(np.flatnonzero(runs == 1)[0]) if not df else student.most
    return replace(student, df=min(student.df, df), of_counts=min(student.of_counts, df), most=most, unit="groups")


def _statistics(solved: Solved, statistic: Statistic | None) -> Statistics:
    """Return what is taken of each draw."""
    if statistic is None:
        return Statistics(tuple(f"log Omega of {name}" for name in solved.names), solved.log_omegas)
    return _function(solved, statistic) if callable(statistic) else _means(solved, statistic)


def _means(solved: Solved, statistic: object) -> Statistics:
    """Return the means of columns, expressions or arrays."""
    is_one = is_function(statistic)
    every: Sequence[Any] = [statistic] if is_one else statistic if isinstance(statistic, list | tuple) else ()
    if every and all(is_function(one) or np.ndim(one) for one in every):
        names = [name_of(one) if is_function(one) else f"mean {j}" for j, one in enumerate(every)]
    else:
        array = np.asarray(statistic)
        is_one = array.ndim != 2
        every = [statistic] if is_one else list(array.T)
        names = ["mean"] if is_one else [f"mean {j}" for j in range(array.shape[1])]
    functions: Kept
    if solved.data.in_memory:
        functions = np.column_stack([solved.memory.values(one) for one in every])
    else:
        functions = solved.data.matrix(every)
    value = solved.tangent.measure.mean(functions)
    return Statistics(tuple(names), value[0] if is_one else value, functions)


def _function(solved: Solved, function: Callable[..., ArrayLike]) -> Statistics:
    kept, measure = solved.memory.kept, solved.tangent.measure
    value = np.asarray(function(kept.spread(measure.weights * measure.counts)), np.float64)
    name = getattr(function, "__name__", "statistic")
    name = "statistic" if name == "<lambda>" else name
    names = tuple(f"{name}{list(index)}" for index in np.ndindex(value.shape)) if value.ndim else (name,)

    def of(mass: Floats) -> Floats:
        result = np.asarray(function(kept.spread(mass)), np.float64)
        if result.shape != value.shape:
            raise MismatchError(
                f"The statistic has shape {value.shape} for the fit, but {result.shape} for a draw, so it has no "
                "spread. Return the same number of values whatever the weights."
            )
        return result.ravel()

    return Statistics(names, value, of=of)


def _check(n: int, kind: DrawKind, level: float, jobs: int | None) -> None:
    quantile_of_student(level)  # refuses an invalid level
    if jobs == 0:
        raise MismatchError("jobs is 0. Give 1 or more, or -1 for all cores.")
    if n < 2:
        raise MismatchError(f"{n} draws have no spread. Give n = 2 or more, such as 1000.")
    if kind not in get_args(DrawKind):
        raise MismatchError(
            f"kind is {kind!r}. Give 'bayesian' (every row stays, with a random weight) or 'rows' (rows are drawn with "
            "replacement)."
        )


def _warn_of_few_units(plan: DrawPlan, names: Sequence[Name], *, grouped: bool, enough: int = 30) -> None:
    """Warn of samples with a single row, and of those with too few groups to know their spread."""
    units, sizes = plan.units.runs, plan.rows.sizes
    alone = (units == 1) & (sizes <= 1)  # by their counts
    if not grouped and alone.any():
        which = show(name for name, single in zip(names, alone, strict=True) if single)
        fact = f"There is only one row in {which}, so resampling shows none of its spread"
        warn(VardiWarning(f"{fact}: standard errors are too small."))
    few = (units > 1) & (units < enough) & (units < sizes)
    if grouped and few.any():
        which = show(name for name, short in zip(names, few, strict=True) if short)
        fact = f"There are fewer than {enough} groups in {which}, so the spread between them is poorly known"
        effect = "standard errors may be far off, and intervals are wide"
        remedy = "Use more groups, or smaller ones if rows of different groups are then still independent."
        warn(VardiWarning(f"{fact}: {effect}. {remedy}"))


def _report_failures(failures: Sequence[Refit], n: int, kind: DrawKind, solved: Solved, most: float = 0.1) -> None:
    """Warn how many draws have no fit; raise if that is more than a share of them: others are not representative."""
    if not failures:
        return
    tangent = solved.tangent
    sampled, joined = list(solved.data.sampled), None if tangent.is_plain else tangent.hessian.groups
    names = [solved.names[k] for k in sampled]
    labels = failures[0].labels if joined is None else joined[sampled]
    groups = [[names[k] for k in np.flatnonzero(labels == label)] for label in dict.fromkeys(labels.tolist())]
    parts = " and ".join(f"({show(group)})" for group in groups[:6])
    parted = f" In the first such draw {parts} cannot be compared." if len(groups) > 1 else ""
    fact = (
        f"{len(failures)} of {n} draws have no fit: {solved.apart}.{parted}"
        if tangent.is_plain
        else f"{len(failures)} of {n} draws have no fit: their rows do not determine the parameters of the biases, or "
        "cannot meet the known values."
    )
    remedy = (
        "Use kind='bayesian', which keeps every row, or add rows where these samples overlap."
        if kind == "rows"
        else "Add a sample that lies between them, or more rows where they overlap."
    )
    if len(failures) > most * n:
        raise NotIdentifiableError(f"{fact} The others are not representative. {remedy}", groups=groups)
    warn(WeakOverlapWarning(f"{fact} Standard errors come from the other draws, so they are too small. {remedy}"))
