"""A fit -> all numbers and sentences of its report."""

from __future__ import annotations

import hashlib
import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from vardi._facts.account import Account, SampleFacts, account
from vardi._facts.columns import Variable, Variables, named_variables
from vardi._facts.distributions import distributions
from vardi._facts.links import Overlap, overlap_of
from vardi._facts.numbers import number, pvalue, share
from vardi._facts.parts import Fit, Given
from vardi._facts.weights import weights_of
from vardi.errors import WeakOverlapWarning
from vardi.errors._texts import SHOWN, count, listed
from vardi.report._content import Group, Report, SampleLine, Standout, StudyFile
from vardi.report._recipe import recipe_of
from vardi.report._verdict import advice, gains, headline, next_rows, nothing_to_do, unknowns


def compute(
    fit: Fit,
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
        given = fit.parts.given()
        tasks: list[Callable[[], Any]] = [
            lambda: account(fit, columns, note=note, named=named, slopes=True),
            lambda: (fit.parts.fingerprint(_hashed(given, columns)), weights_of(fit)),
        ]
        found, (found_hash, weights) = fit.parts.each(lambda task: task(), tasks)
        drawn, drawn_note = distributions(fit, columns, found.variables)
        overlap = overlap_of(fit, found.verdict, found.trust)
        following, used = next_rows(found), len(found.sampled)
        file = None if study is None else _study_file(Path(study))
        return Report(
            **vars(found),
            title=f"One debiased sample{f' out of {used}' if used > 1 else ''}" if title is None else title,
            date=date,
            study=file,
            fingerprint=found_hash,
            headline=headline(found),
            overlap=overlap,
            distributions=drawn,
            distributions_note=drawn_note,
            weights=weights,
            advice=advice(found, overlap),
            gains=gains(found, following),
            nothing_to_do=nothing_to_do(found),
            next_rows=following,
            standouts=standouts(found),
            groups=groups(found, overlap),
            slopes_note=_slopes_note(found),
            unknowns=unknowns(found.check, estimated=bool(found.parameters), depends=found.depends),
            recipe=recipe_of(given, found, title, variables, file),
        )


def _study_file(path: Path) -> StudyFile:
    content = path.read_bytes()
    return StudyFile(path.name, content.decode("utf-8", "replace"), hashlib.sha256(content).hexdigest())


def _hashed(given: Given, columns: Sequence[Variable]) -> list[str]:
    """Return the columns that the biases read, and those that are shown."""
    read = [name for bias in given.biases for name in bias.columns]
    return list(dict.fromkeys([*read, *(column.category_of or column.name for column in columns)]))


def _slopes_note(found: Account) -> str:
    """Return for which variables the effect of wrong biases is not shown, and why."""
    means = [variable for variable in found.variables if not variable.category_of]
    apart = [variable.name for variable in means if variable.among]
    unasked = [variable.name for variable in means if math.isnan(variable.slope) and not variable.among]
    notes = [f"Not shown: {listed(apart)}, which only some samples have recorded."] if apart else []
    if unasked:
        notes.append(f"Not computed for {listed(unasked)}: there are many rows and samples.")
    return " ".join([*notes, "fit.sensitivity(...) computes it for any of them."] if notes else [])


def standouts(found: Account) -> tuple[Standout, ...]:
    """Return the samples that differ from the others, if there are too many to look at one by one."""
    if len(found.samples) <= SHOWN:
        return ()
    by_sample: dict[SampleFacts, list[str]] = {}
    for sample, why in _standouts(found):
        by_sample.setdefault(sample, []).append(why)
    return tuple(Standout(sample, "; ".join(reasons)) for sample, reasons in by_sample.items())


def _standouts(found: Account) -> Iterator[tuple[SampleFacts, str]]:
    named = {str(sample.name): sample for sample in found.samples}
    for row in found.check.rows:
        if row.outcome == "contradicted" and row.name in named:
            yield (named[row.name], f"its declared bias is contradicted, p {pvalue(row.pvalue)}")
    sampled = found.sampled
    least = min(sampled, key=lambda sample: sample.rows)
    if least.rows < max(sample.rows for sample in sampled):
        yield (least, f"fewest rows: {count(least.rows)}")
    uneven = min(sampled, key=lambda sample: sample.effective / sample.rows)
    worth = share(uneven.effective / uneven.rows)
    yield (uneven, f"most uneven weights: its rows are worth {worth} of as many equal ones")
    heavy = max(sampled, key=lambda sample: sample.weight_share / sample.share)
    each = number(heavy.weight_share / heavy.share)
    yield (heavy, f"heaviest rows: each stands for {each} rows of the pool on average")
    largest = max(sampled, key=lambda sample: sample.largest_weight)
    yield (largest, f"largest single weight: {number(largest.largest_weight)}")


def groups(found: Account, overlap: Overlap, most: int = 12) -> tuple[Group, ...]:
    """Return all samples in groups of neighbours of about the same size; those without rows come last."""
    if len(found.samples) <= SHOWN:
        return ()
    named = {str(sample.name): sample for sample in found.samples}
    tests = {row.name: row.pvalue for row in found.check.rows}
    strongest: dict[str, str] = {}
    for link in sorted(overlap.links, key=lambda link: -link.strength):
        for one, other in ((link.first, link.second), (link.second, link.first)):
            strongest.setdefault(str(one), str(other))
    others = [name for name in named if name not in set(overlap.names)]
    neighbours = []
    for names in (overlap.names, others):
        lines = [SampleLine(named[name], tests.get(name, math.nan), strongest.get(name, "")) for name in names]
        size = math.ceil(len(lines) / max(math.ceil(len(lines) / most), 1)) or 1
        neighbours += [Group(tuple(lines[start : start + size])) for start in range(0, len(lines), size)]
    return tuple(neighbours)
