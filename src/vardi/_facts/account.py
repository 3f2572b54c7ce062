"""One account of a fit: all its facts, computed once. Text, HTML, JSON and pictures are made from it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vardi._estimate.check_results import KnownCheck
from vardi._estimate.estimates import Estimate
from vardi._estimate.intervals import DOUBTED, HEAVY, REFUSED, Law
from vardi._estimate.reliability import Trust
from vardi._facts.biases import UNASKED, Check, Remark, bias_notes, check_of
from vardi._facts.columns import ColumnFacts, Variable
from vardi._facts.numbers import pvalue
from vardi._inputs.given import Function
from vardi._inputs.pool import Name
from vardi._rows.weights import WeightSums
from vardi._solve.identify import Verdict
from vardi._solve.newton import Solution
from vardi.biases import Bias, everywhere
from vardi.errors import WeakOverlapWarning
from vardi.errors._texts import listed, number_of_rows, one_in

if TYPE_CHECKING:
    from vardi._fit.sample import DebiasedSample


@dataclass(frozen=True, kw_only=True)
class Given:
    """What the fit was given, and how it was read.

    Attributes
    ----------
    biases : tuple of Bias
        In the order of the names; empty for a fit of a matrix.
    log : bool
        Whether biases were given as logs.
    is_counted, is_labelled : bool
        Whether rows have counts, and whether all samples came in one frame with labels.
    distinct : int or None
        How many distinct rows were solved for, if equal rows were collapsed.
    left_out : collection of names
        Samples that have rows but were left out of the fit.
    costs : int
        How many numbers it takes in memory to compute the errors of all normalisers.
    gaps : mapping of str to int
        Columns that have no mean because of missing or infinite values, with the number of these.
    mixed : mapping of str to str
        Columns that have no mean because their type differs between samples, with the type in each.
    unasked : tuple of str
        Columns whose means would take a pass over all rows, so they are shown only on request.
    uncovered : mapping of str to str
        Columns that have no mean because the samples that recorded them do not cover the pool, with the reason.
    depends : str
        How rows depend on one another, in words; empty if they do not.
    named : mapping of str to str
        The arguments that declared the dependence, with the columns that they name.
    """

    biases: tuple[Bias, ...]
    log: bool
    is_counted: bool
    is_labelled: bool
    distinct: int | None
    left_out: Collection[Name]
    costs: int
    gaps: Mapping[str, int]
    mixed: Mapping[str, str]
    unasked: tuple[str, ...] = ()
    uncovered: Mapping[str, str] = field(default_factory=dict)
    depends: str = ""
    named: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SampleFacts:
    """One bias, and what its sample contributes.

    Attributes
    ----------
    name : hashable
        Its name.
    bias : str
        The text of its bias; empty for a fit of a matrix.
    left_out : bool
        Whether it has rows but was left out of the fit.
    rows : float
        How many (counted) rows; 0 for a state that was not sampled.
    share, weight_share : float
        lambda_k, its share of the pool, and its share of the weight.
    effective : float
        Kish's effective number of its rows.
    largest_weight : float
        The largest weight of one of its rows; NaN without rows.
    normaliser : float
        The mean of the bias over the population, or its log.
    stderr : float
        Its standard error; zero if it is known, NaN if withheld or not computed.
    """

    name: Name
    bias: str
    left_out: bool
    rows: float
    share: float
    weight_share: float
    effective: float
    largest_weight: float
    normaliser: float
    stderr: float


@dataclass(frozen=True, kw_only=True)
class Account(Given):
    """All facts about a fit, beside what it was given.

    Attributes
    ----------
    length, rows : int, float
        How many rows the pool has, and how many these are with counts.
    effective : float
        Kish's effective number of rows, 1 / sum pi_i^2.
    samples, samples_note : tuple of SampleFacts, str
        By bias; and why normalisers have no errors, if they have none.
    log_scale : bool
        Whether normalisers are shown as logs.
    variables, variables_note : tuple of ColumnFacts, str
        By column; and which were left out.
    more_variables : int
        How many more numeric columns there are than are shown.
    bias_notes : tuple of str
        What is odd about the declared biases, though it may be intended.
    known_check : KnownCheck or None
        What is known of the population next to what the samples imply.
    parameters : dict
        Parameters of biases, by sample.
    solution, verdict, trust : Solution, Verdict, Trust
        How it was solved, which rows connect the samples, and what the errors of normalisers and of columns that were
        asked for rest on.
    rough : str
        Which columns that nobody asked for have rough errors, or none; empty if there are no such.
    check : Check
        Whether the samples agree with their declared biases, if that takes little time.
    in_time : dict
        How many independent rows the series of each sample is worth: the minimum over what is shown.
    """

    length: int
    rows: float
    effective: float
    samples: tuple[SampleFacts, ...]
    samples_note: str
    log_scale: bool
    variables: tuple[ColumnFacts, ...]
    variables_note: str
    more_variables: int
    bias_notes: tuple[str, ...]
    known_check: KnownCheck | None = field(compare=False)
    parameters: Mapping[Name, Mapping[str, Estimate]] = field(compare=False)
    solution: Solution = field(compare=False)
    verdict: Verdict = field(compare=False)
    trust: Trust = field(compare=False)
    rough: str
    check: Check
    in_time: Mapping[Name, float]

    @property
    def rows_depend(self) -> str:
        """How rows depend on one another, and how many independent rows each series is worth, in words."""
        sizes = {sample.name: sample.rows for sample in self.samples}
        worth = listed(f"{number:,.0f} of {sizes[name]:,.0f} in {name}" for name, number in self.in_time.items())
        return f"{self.depends}: worth {worth}" if self.in_time else self.depends

    @property
    def conclusion(self) -> Remark:
        """The most serious conclusion about the fit; "good" only if the declared biases were tested."""
        used, left_out = len(self.sampled), sum(sample.left_out for sample in self.samples)
        speaks = f"The {used} samples can be compared, and together they represent the population."
        if used == 1:
            speaks = "One sample, weighted by the inverse of its bias, represents the population."
        explain = "Do not use the weights until that is explained."
        if not self.trust.errors_hold:
            return Remark("bad", "Some estimates rest on too few rows for standard errors, and are rough.")
        if self.check.level == "bad":
            return Remark("bad", f"The samples contradict their declared biases. {explain}")
        if self.known_check is not None and self.known_check.contradicted:
            return Remark("bad", f"The samples contradict what is known. {explain}")
        if self.check.level == "doubt" and self.check.found is not None:
            p = self.check.found.pvalue
            return Remark("doubt", f"Look at the test of the declared biases: p = {pvalue(p)}, and {one_in(p)}.")
        if self.known_check is not None and self.known_check.outcome == "doubtful":
            p = self.known_check.pvalue
            return Remark("doubt", f"Look at the test of what is known: p = {pvalue(p)}, and {one_in(p)}.")
        if self.trust.messages:
            return Remark("doubt", "The debiased sample can be used with care: read the warnings first.")
        if left_out:
            return Remark("doubt", f"{speaks} {'One was' if left_out == 1 else f'{left_out} were'} left out.")
        return Remark("good" if self.check.is_made else "fact", speaks)

    @property
    def sampled(self) -> tuple[SampleFacts, ...]:
        """The samples that have rows."""
        return tuple(sample for sample in self.samples if sample.rows)

    @property
    def estimated(self) -> list[tuple[str, str, Estimate]]:
        """The parameters of biases: sample, parameter, and estimate."""
        return [(str(name), one, own) for name, estimates in self.parameters.items() for one, own in estimates.items()]

    @property
    def counted_rows(self) -> str:
        """How many rows there are, in words."""
        counted = "" if self.rows == self.length else f" ({self.rows:,.0f} counted)"
        return f"{number_of_rows(self.length, grouped=True)}{counted}"

    @property
    def speaks(self) -> str:
        """What the fit is, in words."""
        used = len(self.sampled)
        return f"{self.counted_rows} of {used} {'sample' if used == 1 else 'samples'} represent the population"

    @property
    def solved(self) -> str:
        """How it was solved, in words."""
        n = self.solution.iterations
        steps = {0: "by pairs of samples", 1: "1 iteration"}.get(n, f"{n} iterations")
        collapsed = "" if self.distinct is None else f" over {self.distinct:,} distinct rows"
        held = f"{steps}{collapsed}: the equations hold to {self.solution.residual:.0e}"
        if math.isnan(self.solution.certificate):  # no bound is proved with parameters or known values
            return f"{held}, one more step would move the solution by {self.solution.step:.0e}"
        return f"{held}, every ratio of weights to {self.solution.certificate:.0e}"

    @property
    def known(self) -> str:
        """How well known values are met, in words; empty if there are none."""
        if self.known_check is None:
            return ""
        lines = len(self.known_check.lines)
        values = "1 known value is" if lines == 1 else f"{lines} known values are"
        return f"{values} met to {self.known_check.residual:.0e}. {self.known_check.verdict}"

    @property
    def lines(self) -> list[tuple[str, str]]:
        """What a reader should know first: the name of each fact, and the fact in words."""
        lines = [
            ("verdict", self.conclusion.text),
            ("identified", self.verdict.message),
            ("solved", self.solved),
            ("known", self.known),
            ("rows", self.rows_depend),
            ("biases", self.check.text if self.check.is_made else ""),
        ]
        return [(name, fact) for name, fact in lines if fact]

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes beneath the tables: what is odd, and why some numbers are missing."""
        notes = [*self.bias_notes, self.samples_note]
        if self.unasked and not self.variables:
            notes.append(
                "No means are shown: the rows are in their engine, which would have to read them all again. Ask for "
                f"those you need, e.g. with fit.expectation({self.unasked[0]!r})."
            )
        if self.gaps:
            named = listed((f"{name} ({count:,})" for name, count in self.gaps.items()), 8)
            notes.append(f"Left out because of missing or infinite values: {named}.")
        if self.mixed:
            named = listed((f"{name} ({where})" for name, where in self.mixed.items()), 8)
            notes.append(f"Left out because their type differs between samples: {named}. Convert each to one type.")
        for reason in dict.fromkeys(self.uncovered.values()):
            named = listed((name for name, why in self.uncovered.items() if why == reason), 8)
            notes.append(f"Left out because only some samples record them: {named}. {reason}")
        return tuple(filter(None, (self.rough, *notes, self.note_on_some)))

    @property
    def note_on_some(self) -> str:
        """That means of columns recorded by some samples do not use the known values; may be empty."""
        apart = [variable.name for variable in self.variables if variable.among]
        if not apart or self.known_check is None:
            return ""
        return (
            f"The means of {listed(apart, 8)} come from samples whose weights alone do not meet the known "
            f"values. fit.expectation({apart[0]!r}, assisted_by=...) lets them sharpen it through a model."
        )


def account(
    fit: DebiasedSample,
    columns: Sequence[Variable],
    *,
    note: str = "",
    more: int = 0,
    named: Mapping[str, Function] | None = None,
    slopes: bool = False,
) -> Account:
    """Compute the account of a fit.

    Parameters
    ----------
    fit : DebiasedSample
        The fit.
    columns : sequence of Variable
        The columns to show.
    note, more : str, int
        A note on columns that are not shown, and how many more there are.
    named : mapping, optional
        The values asked for by name: biases that read no column are tested on these, and the verdict rests on them.
    slopes : bool
        Whether to compute how far wrong biases move the means.
    """
    parts, given = fit.parts, fit.parts.given()
    if named is not None:
        named = {
            name: values for (name, values), column in zip(named.items(), columns, strict=True) if not column.among
        }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakOverlapWarning)  # the account has it as a message
        sums, verdict = parts.weight_sums(), fit.identify()
        tasks: list[Callable[[], Any]] = [
            lambda: parts.describe(columns, slopes=slopes) if columns else (),
            lambda: check_of(fit, named) if columns or not given.unasked else UNASKED,
            lambda: normalisers_of(fit, given),
        ]
        variables, check, (normalisers, samples_note, log_scale) = parts.each(lambda task: task(), tasks)
        asked, others = (variables, ()) if named is not None else ((), variables)
        in_time = trust_of(fit, normalisers, variables).in_time
        return Account(
            **vars(given),
            length=len(fit),
            rows=float(sum(fit.sizes.values())),
            effective=sums.effective,
            samples=samples_of(fit, given, sums, normalisers),
            samples_note=samples_note,
            log_scale=log_scale,
            variables=variables,
            variables_note=note,
            more_variables=more,
            bias_notes=bias_notes(parts.pool, fit.sizes, verdict, even=sums.are_even),
            known_check=fit.known,
            parameters=fit.parameters,
            solution=fit.solution,
            verdict=verdict,
            trust=trust_of(fit, normalisers, asked),
            rough=_rough(others),
            check=check,
            in_time={name: worth for name, worth in zip(fit.names, in_time, strict=False) if worth},
        )


def trust_of(fit: DebiasedSample, normalisers: Mapping[Name, Estimate], variables: Sequence[ColumnFacts]) -> Trust:
    """Return what the errors of normalisers and means rest on."""
    laws: dict[str, Law] = {"any estimate": fit.solved.tangent.of_units}
    laws |= {f"the normaliser of {str(name)!r}": estimate.law for name, estimate in normalisers.items()}
    laws |= {f"the mean of {variable.name!r}": variable.law for variable in variables}
    return Trust.of(laws, fit.bridge, fit.names)


def _rough(variables: Sequence[ColumnFacts]) -> str:
    """Return which columns have errors that rest on few rows, or heavy tails, and why, in a sentence; may be empty."""
    found = {}
    for variable in variables:
        if variable.df < REFUSED:
            found[variable.name] = f"none given, {variable.df:.1f} degrees of freedom"
        elif variable.df < DOUBTED:
            found[variable.name] = f"{variable.df:.1f} degrees of freedom"
        elif variable.tail_index > HEAVY:
            found[variable.name] = f"tail index {variable.tail_index:.2f}"
    if not found:
        return ""
    named = listed((f"{name} ({why})" for name, why in found.items()), 8)
    return f"Errors that rest on few rows: {named}. fit.expectation({next(iter(found))!r}) says what would help."


def samples_of(
    fit: DebiasedSample, given: Given, sums: WeightSums, normalisers: Mapping[Name, Estimate]
) -> tuple[SampleFacts, ...]:
    """Return what each sample contributes."""
    biases = ["everywhere" if bias == everywhere() else str(bias) for bias in given.biases] or [""] * len(fit.names)
    sizes = np.array(list(fit.sizes.values()), np.float64)
    effective = np.divide(sums.mass**2, sums.squares, out=np.zeros(len(sizes)), where=sums.squares > 0)
    largest = np.where(sizes > 0, sums.largest, math.nan)
    estimates = np.array([(normalisers[name].value, normalisers[name].stderr) for name in fit.names]).T
    shares = sizes / sizes.sum(), sums.mass / sums.mass.sum()
    numbers = np.stack([sizes, *shares, effective, largest, *estimates], axis=1).tolist()
    return tuple(
        SampleFacts(name, bias, name in given.left_out, *row)
        for name, bias, row in zip(fit.names, biases, numbers, strict=True)
    )


def normalisers_of(
    fit: DebiasedSample, given: Given, most_samples: int = 200, most_numbers: int = 50_000_000, readable: float = 30.0
) -> tuple[dict[Name, Estimate], str, bool]:
    """Return normalisers or their logs with errors, a note if there are no errors, and whether they are logs.

    Errors are computed for up to so many samples, and numbers in memory; a log above ``readable`` stays one, since the
    normaliser itself is meaningless to a reader.
    """
    logs = given.log or any(readable < abs(value) < math.inf for value in fit.log_omegas.values())
    if len(fit.names) > most_samples or given.costs > most_numbers:
        note = (
            "Errors of the normalisers are not computed for this many rows and samples, and statements about errors "
            "cover only the means; fit.normalisers() gives them."
        )
        estimates = {name: Estimate(value, math.nan) for name, value in fit.log_omegas.items()}
    else:
        note, estimates = "", fit.log_normalisers()
    if logs:
        return estimates, note, logs
    light = {name: replace(one, influence=None) for name, one in estimates.items()}  # n numbers that none reads
    return {name: one.exp() for name, one in light.items()}, note, logs
