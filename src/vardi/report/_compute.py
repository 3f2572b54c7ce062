"""A fit -> all numbers and sentences of its report."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vardi._facts.account import SampleFacts, account
from vardi._facts.columns import ColumnFacts, Variables, named_variables
from vardi._facts.distributions import Distribution, Weights, distributions, weights_of
from vardi._facts.links import overlap_of
from vardi._facts.numbers import number, pvalue, share
from vardi.errors import WeakOverlapWarning
from vardi.errors._texts import SHOWN, count, listed
from vardi.report._recipe import Fingerprint, Recipe, StudyFile, fingerprint, recipe_of
from vardi.report._verdict import Findings

if TYPE_CHECKING:
    from vardi._fit.sample import DebiasedSample


@dataclass(frozen=True)
class Standout:
    """A sample that differs from the others, and how."""

    sample: SampleFacts
    why: str


@dataclass(frozen=True)
class SampleLine:
    """A sample among many: its facts, its test, and the sample that it overlaps most.

    ``pvalue`` is NaN where it was not tested; ``neighbour`` is empty for a sample without links.
    """

    sample: SampleFacts
    pvalue: float
    neighbour: str


@dataclass(frozen=True)
class Group:
    """Samples that overlap with one another, or nearly so: neighbours in the order of the overlap."""

    lines: tuple[SampleLine, ...]

    @property
    def name(self) -> str:
        """The first and the last sample."""
        first, last = self.lines[0].sample.name, self.lines[-1].sample.name
        return str(first) if first == last else f"{first} to {last}"


@dataclass(frozen=True)
class Report(Findings):
    """Everything in a report: the account of the fit, what is drawn of it, and what follows."""

    title: str
    date: str
    study: StudyFile | None
    fingerprint: Fingerprint
    distributions: tuple[Distribution, ...]
    distributions_note: str
    weights: Weights
    recipe: Recipe

    @property
    def means(self) -> tuple[ColumnFacts, ...]:
        """The variables that are not categories of a text column."""
        return tuple(variable for variable in self.variables if not variable.category_of)

    @property
    def categories(self) -> dict[str, tuple[ColumnFacts, ...]]:
        """The categories of each text column."""
        categories = [variable for variable in self.variables if variable.category_of]
        return {name: tuple(own) for name, own in groupby(categories, key=lambda variable: variable.category_of)}

    @property
    def sensitive(self) -> tuple[ColumnFacts, ...]:
        """The variables for which the effect of wrong biases is known."""
        return tuple(variable for variable in self.means if math.isfinite(variable.slope) and variable.spread)

    @property
    def slopes_note(self) -> str:
        """For which variables the effect of wrong biases is not shown, and why."""
        apart = [variable.name for variable in self.means if variable.among]
        unasked = [variable.name for variable in self.means if math.isnan(variable.slope) and not variable.among]
        notes = [f"Not shown: {listed(apart)}, which only some samples have recorded."] if apart else []
        if unasked:
            notes.append(f"Not computed for {listed(unasked)}: there are many rows and samples.")
        return " ".join([*notes, "fit.sensitivity(...) computes it for any of them."] if notes else [])

    @cached_property
    def standouts(self) -> tuple[Standout, ...]:
        """The samples that differ from the others, if there are too many to look at one by one."""
        if len(self.samples) <= SHOWN:
            return ()
        reasons: dict[str, list[str]] = {}
        for row in self.check.rows:
            if row.outcome == "contradicted":
                reasons[row.name] = [f"its declared bias is contradicted, p {pvalue(row.pvalue)}"]
        sampled = self.sampled
        least = min(sampled, key=lambda sample: sample.rows)
        uneven = min(sampled, key=lambda sample: sample.effective / sample.rows)
        heavy = max(sampled, key=lambda sample: sample.weight_share / sample.share)
        largest = max(sampled, key=lambda sample: sample.largest_weight)
        worth, each = share(uneven.effective / uneven.rows), number(heavy.weight_share / heavy.share)
        for sample, why in (
            *([(least, f"fewest rows: {count(least.rows)}")] if least.rows < max(one.rows for one in sampled) else []),
            (uneven, f"most uneven weights: its rows are worth {worth} of as many equal ones"),
            (heavy, f"heaviest rows: each stands for {each} rows of the pool on average"),
            (largest, f"largest single weight: {number(largest.largest_weight)}"),
        ):
            reasons.setdefault(str(sample.name), []).append(why)
        named = {str(sample.name): sample for sample in self.samples}
        return tuple(Standout(named[name], "; ".join(whys)) for name, whys in reasons.items())

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All samples in groups of up to 12 neighbours, of about the same size; those without rows come last."""
        if len(self.samples) <= SHOWN:
            return ()
        named = {str(sample.name): sample for sample in self.samples}
        tests = {row.name: row.pvalue for row in self.check.rows}
        strongest: dict[str, str] = {}
        for link in sorted(self.overlap.links, key=lambda link: -link.strength):
            for one, other in ((link.first, link.second), (link.second, link.first)):
                strongest.setdefault(str(one), str(other))
        others = [name for name in named if name not in set(self.overlap.names)]
        groups = []
        for names in filter(None, (self.overlap.names, others)):
            lines = [SampleLine(named[name], tests.get(name, math.nan), strongest.get(name, "")) for name in names]
            size = math.ceil(len(lines) / math.ceil(len(lines) / 12))
            groups += [Group(tuple(lines[start : start + size])) for start in range(0, len(lines), size)]
        return tuple(groups)

    @property
    def neighbours(self) -> tuple[SampleFacts, ...]:
        """The samples that have rows, if there are too many to look at one by one: neighbours stand side by side."""
        return tuple(line.sample for group in self.groups for line in group.lines if line.sample.rows)


def compute(
    fit: DebiasedSample,
    *,
    title: str | None = None,
    variables: Variables | None = None,
    date: str = "",
    study: str | os.PathLike[str] | None = None,
) -> Report:
    """Compute the report of a fit; :func:`vardi.report.to_html` lays it out.

    Parameters
    ----------
    fit : DebiasedSample
        The fit.
    title : str, optional
        Heading of the report.
    variables : list of str, or mapping from name to values, optional
        Columns and expressions to look at; by default the numeric columns and the categories of text columns, up to a
        number.
    date : str
        Printed as it is. By default there is no date, so that the same fit gives the same report.
    study : str or path, optional
        The study file that defines the fit; the report shows its name, hash and text, and how to run it again.

    Examples
    --------
    >>> import vardi
    >>> design = vardi.datasets.house_prices(seed=0)
    >>> report = vardi.report.compute(vardi.debias(design.samples, design.biases), variables=["MEDV"])
    >>> print(report.headline.text)
    The 2 samples can be compared, and together they represent the population.
    >>> report.variables[0].debiased
    23.2...
    """
    named = named_variables(variables)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakOverlapWarning)  # the report itself shows it
        columns, note = (
            fit.parts.choose() if named is None else (tuple(fit.parts.column(*one) for one in named.items()), "")
        )
        read = [name for bias in fit.parts.given().biases for name in bias.columns]
        hashed = dict.fromkeys([*read, *(column.category_of or column.name for column in columns)])
        tasks: list[Callable[[], Any]] = [
            lambda: account(fit, columns, note=note, named=named, slopes=True),
            lambda: (fingerprint(fit.parts.pool, list(hashed)), weights_of(fit)),
        ]
        facts, (data, weights) = fit.parts.each(lambda task: task(), tasks)
        drawn, drawn_note = distributions(fit, columns, facts.variables)
        overlap = overlap_of(fit, facts.verdict, facts.trust)
    used, file = len(facts.sampled), None if study is None else StudyFile.read(Path(study))
    return Report(
        **vars(facts),
        overlap=overlap,
        title=f"One debiased sample{f' out of {used}' if used > 1 else ''}" if title is None else title,
        date=date,
        study=file,
        fingerprint=data,
        distributions=drawn,
        distributions_note=drawn_note,
        weights=weights,
        recipe=recipe_of(facts, title, variables, file),
    )
