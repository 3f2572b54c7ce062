"""What a report says: frozen values, computed once and laid out by templates.

A number that cannot be given is None, and a part that cannot be given is empty with a ``note`` that says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["bad", "doubt", "good", "fact"]


@dataclass(frozen=True)
class Point:
    """One sentence of the verdict, and how it is to be taken."""

    level: Level
    text: str


@dataclass(frozen=True)
class Headline:
    """The verdict in plain words: worst news first."""

    level: Level
    text: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class SampleRow:
    """One bias, and what its sample brings.

    Attributes
    ----------
    name, bias : str
        Its name and the text of its bias; an empty bias for a fit of a matrix.
    rows : float
        How many (counted) rows; 0 for a state that was not sampled.
    share, weight_share : float
        Its share of the pool and of the weight.
    effective, largest_weight : float or None
        Kish's effective number of its rows, and the largest of their weights.
    normaliser : float
        The mean of the bias over the population, or its log.
    stderr : float or None
        Its standard error; zero for what is known.
    left_out : bool
        Whether it has rows, but the fit does not rest on them.
    """

    name: str
    bias: str
    rows: float
    share: float
    weight_share: float
    effective: float | None
    largest_weight: float | None
    normaliser: float
    stderr: float | None
    left_out: bool = False


@dataclass(frozen=True)
class LinkRow:
    """Two samples and what joins them.

    Attributes
    ----------
    first, second : str
        Their names.
    first_in_second, second_in_first : float
        Rows of one that the bias of the other allows.
    bridging : float or None
        sum_i p_i,first p_i,second: how many rows could as well have come from the other.
    weakest : bool
        Whether the comparison of all samples hangs on this link most.
    """

    first: str
    second: str
    first_in_second: float
    second_in_first: float
    bridging: float | None
    weakest: bool


@dataclass(frozen=True)
class Overlap:
    """The graph of the samples that have rows.

    Attributes
    ----------
    names : tuple of str
        The samples, neighbours near one another.
    sizes : tuple of float
        Their rows.
    links : tuple of LinkRow
        Every pair that shares rows; the strongest only, where there are very many.
    more_links : int
        How many pairs were left out of ``links``.
    shares : tuple of tuple of float
        Share of the rows of the second (inner) that the bias of the first (outer) allows; by groups of neighbouring
        samples where there are many.
    group : int
        How many samples a cell of ``shares`` stands for, each way.
    complete : bool
        Whether every bias allows every row, so that shared rows say nothing and bridging rows all.
    kappa : float
        The paper's overlap.
    bridging : float or None
        Rows that bridge the weakest cut; None for a single sample.
    cut : tuple of two tuples of str
        The samples on either side of it.
    """

    names: tuple[str, ...]
    sizes: tuple[float, ...]
    links: tuple[LinkRow, ...]
    more_links: int
    shares: tuple[tuple[float, ...], ...]
    group: int
    complete: bool
    kappa: float
    bridging: float | None
    cut: tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class VariableRow:
    """The mean of a column, or the share of a category, before and after.

    Attributes
    ----------
    name : str
        The column or expression, or ``column: category``.
    is_share : bool
        Whether it is the share of rows for which something holds.
    pooled, debiased : float
        Over the pool and over the population.
    stderr, low, high : float or None
        Standard error of the latter and its 95% interval; None where withheld.
    shift, spread : float or None
        The change in standard deviations of the population, and that deviation; None for lazy frames.
    worth : float or None
        Rows without bias that would give the same error.
    largest_row : float or None
        Share of the variance that one row carries.
    carried : tuple of float
        Share of the variance that the rows of each sampled bias carry, in the order of the samples; may be empty.
    """

    name: str
    is_share: bool
    pooled: float
    debiased: float
    stderr: float | None
    low: float | None
    high: float | None
    shift: float | None
    spread: float | None
    worth: float | None
    largest_row: float | None
    carried: tuple[float, ...] = ()


@dataclass(frozen=True)
class Distribution:
    """The distribution function of one column on a grid, before and after.

    ``low`` and ``high`` are the ends of the simultaneous band; None where it is not given.
    """

    name: str
    x: tuple[float, ...]
    pooled: tuple[float, ...]
    debiased: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


@dataclass(frozen=True)
class Bar:
    """Rows whose weight lies between two ends (or is one value), by sample; and their share of all weight."""

    low: float
    high: float
    rows: tuple[float, ...]
    weight_share: float


@dataclass(frozen=True)
class Weights:
    """How the weight is spread.

    Attributes
    ----------
    series : tuple of str
        What the rows of each bar are split by: the samples, or all in one where they are many.
    bars : tuple of Bar
        From the smallest weight to the largest.
    is_discrete : bool
        Whether each bar is a single weight.
    top_rows, top_share : float
        So many rows of largest weight carry this share of all weight.
    largest : tuple of (position in the pool, sample, weight)
        The largest weights.
    """

    series: tuple[str, ...]
    bars: tuple[Bar, ...]
    is_discrete: bool
    top_rows: float
    top_share: float
    largest: tuple[tuple[int, str, float], ...]


@dataclass(frozen=True)
class CheckRow:
    """The check of one sample: its p-value (None where untestable), and the share of its rows that no test sees."""

    name: str
    pvalue: float | None
    untested: float


@dataclass(frozen=True)
class Check:
    """The check of the declared biases.

    Attributes
    ----------
    level : str
        How it is to be taken.
    text : str
        The outcome in a sentence.
    detail : str
        The statistic, and where the samples are most apart.
    rows : tuple of CheckRow
        By sample, worst first.
    """

    level: Level
    text: str
    detail: str
    rows: tuple[CheckRow, ...]


@dataclass(frozen=True)
class Advice:
    """One thing to collect, and why."""

    text: str
    reason: str


@dataclass(frozen=True)
class NextRow:
    """What more rows would do for one variable: where they help most, and the error they would leave."""

    name: str
    sample: str
    more: float
    stderr: float
    stderr_then: float


@dataclass(frozen=True)
class Recipe:
    """How to repeat the fit, and how to cite it.

    Attributes
    ----------
    code : str
        A Python snippet.
    versions : tuple of (str, str)
        Packages and their versions.
    solution : str
        How the equations were solved, and how exactly.
    citations : tuple of str
        What to cite.
    """

    code: str
    versions: tuple[tuple[str, str], ...]
    solution: str
    citations: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """All that a report says."""

    title: str
    date: str
    rows: float
    effective: float
    headline: Headline
    overlap: Overlap
    samples: tuple[SampleRow, ...]
    more_samples: int
    log_scale: bool
    samples_note: str
    variables: tuple[VariableRow, ...]
    variables_note: str
    distributions: tuple[Distribution, ...]
    distributions_note: str
    weights: Weights | None
    weights_note: str
    check: Check
    advice: tuple[Advice, ...]
    next_rows: tuple[NextRow, ...]
    unknowns: tuple[str, ...]
    recipe: Recipe
