"""The declared biases: what is odd about them, though it may be intended, and their check in bounded time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from vardi._estimate.check_results import MOST_PAIRED, QUASI_INDEPENDENCE, BiasCheck
from vardi._facts.numbers import pvalue
from vardi._inputs.given import Function
from vardi._inputs.pool import Name, Pool
from vardi._solve.identify import Verdict
from vardi._types import Floats
from vardi.biases import Bias, ExpressionBias, WindowBias
from vardi.biases._kinds import columns_to_test
from vardi.biases._learned import checks_of
from vardi.biases._nodes import (
    And,
    Column,
    Comparison,
    Constant,
    IsIn,
    Node,
    Product,
    children,
    is_condition,
    to_text,
)
from vardi.errors import NeedsRowsError, suggest
from vardi.errors._texts import SHOWN, Outcome, listed, one_in, outcome

if TYPE_CHECKING:
    from vardi._fit.sample import DebiasedSample

SURPRISE = "If that is a surprise, check the unit of the column and the direction of the comparison."


def bias_notes(pool: Pool, sizes: Mapping[Name, float], verdict: Verdict, *, even: bool) -> tuple[str, ...]:
    """Return what is odd about the declared biases, though it may be intended.

    Parameters
    ----------
    pool : Pool
        The rows, in memory or in an engine, which runs at most one query for each part.
    sizes : mapping from name to number
        Rows of each sample in the fit.
    verdict : Verdict
        Which samples could have drawn which rows.
    even : bool
        Whether the bias of the only sample is the same on all rows.
    """
    biases = dict(zip(pool.names, pool.biases, strict=False))
    return (
        *(_without_effect(sizes, biases) if even else ()),
        *_hardly_telling(sizes, biases, verdict),
        *_absent_values(pool, biases),
        *_cut_off(pool, sizes, biases),
        *_learned(biases),
    )


def _without_effect(sizes: Mapping[Name, float], biases: Mapping[Name, Bias]) -> Iterator[str]:
    sampled = [name for name, rows in sizes.items() if rows]
    bias = biases.get(sampled[0]) if len(sampled) == 1 else None
    if bias is not None and bias.columns and sizes[sampled[0]] > 1:
        yield (
            f"The bias {bias} of {str(sampled[0])!r} is the same on all rows, and there is no other sample, so all "
            "weights are the same and nothing is debiased. Check the unit of the column."
        )


def _hardly_telling(
    sizes: Mapping[Name, float],
    biases: Mapping[Name, Bias],
    verdict: Verdict,
    nearly: float = 0.98,
    least_rows: int = 50,
) -> Iterator[str]:
    """Yield a note on each condition that nearly all rows of the other samples meet, or fail, if these are enough."""
    met = dict(zip(verdict.names, np.asarray(verdict.reach.sum(axis=1)).ravel().tolist(), strict=True))
    for name, bias in biases.items():
        others = sum(sizes.values()) - sizes[name]
        tells = isinstance(bias, ExpressionBias) and bias.columns and is_condition(bias.node)
        if not (tells and sizes[name] and others >= least_rows):
            continue
        share = met[name] / others
        of_others = f"of the other samples meet {bias}"
        if share >= nearly:
            rows = "All rows" if share == 1 else f"{share:.1%} of the rows"
            yield f"{rows} {of_others}, so the bias of {str(name)!r} changes almost nothing. {SURPRISE}"
        elif 0 < share <= 1 - nearly:
            yield f"Only {share:.1%} of the rows {of_others}, the bias of {str(name)!r}. {SURPRISE}"


def _absent_values(pool: Pool, biases: Mapping[Name, Bias]) -> Iterator[str]:
    for name, bias in biases.items():
        if not isinstance(bias, ExpressionBias):
            continue
        for column, texts in _texts_asked_for(bias.node):
            there = pool.values_of(column)
            absent = [] if there is None else [value for value in texts if value not in there]
            if absent and there:
                near = suggest(absent[0], there)
                named = listed(map(repr, absent))
                yield f"No row has {named} in {to_text(Column(column))}, which the bias of {str(name)!r} names.{near}"


def _learned(biases: Mapping[Name, Bias]) -> Iterator[str]:
    for name, check in checks_of(biases, biases.values()).items():
        yield (
            f"The bias of {str(name)!r} was learned from {listed(check.columns)} by {check.classifier} (area under the "
            f"curve {check.area:.2f}; {check.clipped} of {check.rows:,} rows clipped): fit.learned[{name!r}] has its "
            "calibration. The means above use these weights alone, and their errors leave out the classifier's, "
            "so they are approximate: fit.expectation(...) is doubly robust."
        )


def _texts_asked_for(node: Node) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each column that a bias compares with texts, with these texts."""
    match node:
        case IsIn(Column(name), values):
            yield name, [value.value for value in values if isinstance(value.value, str)]
        case Comparison(Column(name), (("==", Constant(str(value))),)):
            yield name, [value]
        case _:
            for child in children(node):
                yield from _texts_asked_for(child)


def _cut_off(pool: Pool, sizes: Mapping[Name, float], biases: Mapping[Name, Bias]) -> Iterator[str]:
    """Yield a note on each bound at which rows of a sample heap, unlike those of samples with rows on both sides."""
    windows = [
        (k, bound)
        for k, (name, bias) in enumerate(biases.items())
        if sizes[name] and isinstance(bias, ExpressionBias)
        for bound in dict.fromkeys(_bounds_in(bias.node))
    ]
    if len([rows for rows in sizes.values() if rows]) < 2 or not windows:
        return
    sampled = np.array([sizes[name] > 0 for name in pool.names])
    counts = pool.sides([(column, bound) for _, (column, _, bound) in windows])
    for (k, (column, sign, bound)), sides in zip(windows, counts, strict=True):
        rows = sizes[pool.names[k]]
        if _is_heap(sides, k, rows, sampled, above=sign == ">="):
            name, where, value = str(pool.names[k]), to_text(Column(column)), to_text(Constant(bound))
            kept = "min" if sign == "<=" else "max"
            yield (
                f"{sides[1, k]:,.0f} of the {rows:,.0f} rows of {name!r} have exactly {where} = {value}, the bound of "
                "their bias, but the other samples have no such spike: these values look censored, and a censored "
                f"value is only a bound. If values were cut off there, leave these rows out and declare {where} "
                f"{sign[0]} {value}; or declare no selection by {where}, and ask only for means of {kept}({where}, "
                f"{value})."
            )


def _is_heap(
    sides: Floats, k: int, rows: float, sampled: Floats, *, above: bool, least: float = 5.0, least_share: float = 0.05
) -> bool:
    """Return whether a sample has the bound far more often than those rows of others that its window allows.

    It is a heap from so many rows and such a share of them on, if others, of which at least 3 rows are expected to have
    that value, have it 4 times less often than expected.
    """
    below, at, beyond = sides
    others = sampled & (below > 0) & (beyond > 0) & (np.arange(len(at)) != k)
    allowed = at[others].sum() + (beyond if above else below)[others].sum()
    share = at[k] / rows
    expected = share * allowed
    return bool(at[k] >= least and share >= least_share and expected >= 3.0 and 4.0 * at[others].sum() <= expected)


def _bounds_in(node: Node) -> Iterator[tuple[str, str, float]]:
    """Yield the columns of a window, each with the comparison and the bound, if the bound belongs to the window."""
    match node:
        case Comparison(first, rest):
            for (_, left), (sign, right) in pairwise([("", first), *rest]):
                match left, right:
                    case (Column(name), Constant(int() | float() as bound)) if sign in ("<=", ">="):
                        yield name, sign, bound
                    case (Constant(int() | float() as bound), Column(name)) if sign in ("<=", ">="):
                        yield name, ">=" if sign == "<=" else "<=", bound
        case And() | Product():
            for child in children(node):
                yield from _bounds_in(child)


Level: TypeAlias = Literal["bad", "doubt", "good", "fact"]

LEVELS: dict[Outcome, Level] = {"contradicted": "bad", "doubtful": "doubt", "not contradicted": "good"}


@dataclass(frozen=True)
class Remark:
    """A sentence, and how serious it is."""

    level: Level
    text: str


@dataclass(frozen=True)
class CheckRow:
    """The check of one sample.

    Attributes
    ----------
    name : str
        The sample.
    pvalue : float
        Of this sample alone; NaN if it cannot be tested.
    untested : float
        The share of its rows that the test does not cover.
    outcome : str
        The outcome by its p-value, adjusted for the number of samples.
    """

    name: str
    pvalue: float
    untested: float
    outcome: Outcome


@dataclass(frozen=True)
class Check:
    """The check of the declared biases.

    Attributes
    ----------
    level : str
        How serious it is.
    text : str
        The outcome in a sentence.
    detail : str
        The statistic, and the largest discrepancy between the samples.
    rows : tuple of CheckRow
        By sample, worst first.
    found : BiasCheck or None
        The test itself; None if it was not run.
    """

    level: Level
    text: str
    detail: str = ""
    rows: tuple[CheckRow, ...] = ()
    found: BiasCheck | None = field(default=None, repr=False, compare=False)

    @property
    def is_made(self) -> bool:
        """Whether the biases were tested."""
        return self.found is not None and not self.found.reason


UNASKED = Check("fact", "The declared biases were not checked: fit.check_biases() runs the check in the engine.")


def check_of(fit: DebiasedSample, variables: Mapping[str, Function] | None) -> Check:
    """Run the check on the columns that the biases read or, if these read none, on the others."""
    numeric = columns_to_test(fit.parts.given().biases, fit.numeric_columns) or fit.numeric_columns[:SHOWN]
    columns = (None if numeric else variables) or {name: name for name in numeric}
    feasible = _feasible(fit, max(len(columns), 1))
    if not feasible:
        return Check("fact", "The declared biases were not checked: fit.check_biases() would take a long time here.")
    try:
        check = fit.check_biases(dict(list(columns.items())[:feasible]))
    except NeedsRowsError:
        return Check("fact", "The declared biases were not checked: that needs rows in memory.")
    adjusted = _adjusted([check.by_sample[name] for name in check.worst_first])
    rows = tuple(
        CheckRow(str(name), check.by_sample[name], check.untested[name], outcome(p))
        for name, p in zip(check.worst_first, adjusted, strict=True)
    )
    if check.reason:
        return Check("fact", f"The declared biases cannot be tested: {check.reason}", rows=rows, found=check)
    test, what = "Score test", "Where the samples overlap, the declared biases are"
    if check.method == QUASI_INDEPENDENCE:
        test = "Test of quasi-independence"
        what = "The assumption that windows are independent of the values they contain (quasi-independence) is"
    degrees = "1 degree" if check.df == 1 else f"{check.df} degrees"
    detail = f"{test} of {', '.join(check.columns)}: chi-square {check.statistic:.4g}, {degrees} of freedom."
    detail += "" if check.worst is None else f" Largest discrepancy: {check.worst}."
    p = pvalue(check.pvalue)
    equals = "" if p.startswith("below") else "= "
    text = f"{what} {check.outcome} (p {equals}{p})."
    if check.outcome == "doubtful":
        text += f" Look at how the rows of {str(check.worst_first[0])!r} were drawn: {one_in(check.pvalue)}."
    text += f" {check.note}" if check.note else ""
    return Check(LEVELS[check.outcome], text, detail, rows, check)


def _feasible(fit: DebiasedSample, columns: int, most_products: float = 1e9, most_pairs: float = 5e7) -> int:
    """Return how many columns can be compared while a reader waits: more products, or pairs of rows, take long."""
    if any(isinstance(bias, WindowBias) for bias in fit.parts.given().biases):
        return columns if columns * min(len(fit), MOST_PAIRED) ** 2 <= most_pairs else 0
    K = sum(rows > 0 for rows in fit.sizes.values())
    return next((m for m in range(columns, 0, -1) if 2 * m**2 * len(fit) * K**2 <= most_products), 0)


def _adjusted(ordered: Sequence[float]) -> list[float]:
    """Return p-values, sorted with NaN last, adjusted for their number (Holm 1979); two samples are a single test.

    >>> _adjusted([0.004, 0.03, 0.5, float("nan")])
    [0.012, 0.06, 0.5, nan]
    >>> _adjusted([0.004, 0.004])
    [0.004, 0.004]
    """
    p = np.array(ordered)
    if len(p) != 2:
        tests = np.count_nonzero(~np.isnan(p))
        p = np.maximum.accumulate(np.minimum((tests - np.arange(len(p))) * p, 1.0))
    return p.tolist()
