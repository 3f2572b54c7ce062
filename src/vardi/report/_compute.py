"""A fit -> all numbers and sentences of its report."""

from __future__ import annotations

import warnings
from typing import Any

from vardi._facts.account import account
from vardi._facts.columns import Column, named_variables
from vardi._facts.distributions import distributions
from vardi._facts.links import overlap_of
from vardi._facts.parts import Fit
from vardi._facts.weights import weights_of
from vardi.errors import WeakOverlapWarning
from vardi.report._advice import advice, next_rows
from vardi.report._content import Report
from vardi.report._recipe import recipe_of
from vardi.report._verdict import headline, unknowns


def compute(fit: Fit, *, title: str | None = None, variables: Any = None, date: str = "") -> Report:
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
        Printed as it is; nothing is printed by default, so that the same fit gives the same report.

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
        warnings.simplefilter("ignore", WeakOverlapWarning)  # said in the report itself
        columns, note = fit.parts.choose() if named is None else (_named(fit, named), "")
        found = account(fit, columns, note=note, named=named)
        drawn, drawn_note = distributions(fit, columns, found.variables)
        overlap = overlap_of(fit, found.verdict)
        following = next_rows(found)
        used = len(found.sampled)
        return Report(
            **vars(found),
            title=f"One debiased sample{f' out of {used}' if used > 1 else ''}" if title is None else title,
            date=date,
            headline=headline(found),
            overlap=overlap,
            distributions=drawn,
            distributions_note=drawn_note,
            weights=weights_of(fit),
            advice=advice(found, overlap, following),
            next_rows=following,
            unknowns=unknowns(found.check, estimated=bool(found.parameters)),
            recipe=recipe_of(fit.parts.given(), found, title, variables),
        )


def _named(fit: Fit, named: dict[str, Any]) -> tuple[Column, ...]:
    return tuple(fit.parts.column(name, values) for name, values in named.items())
