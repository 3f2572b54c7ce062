"""A fit -> all numbers and sentences of its report."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vardi._estimates import Estimate
from vardi._pool import Name
from vardi._summary import LOGS, MOST_ERRORS
from vardi._sums import Floats
from vardi.biases import everywhere
from vardi.errors import WeakOverlapWarning
from vardi.report import _variables
from vardi.report._advice import advice, next_rows
from vardi.report._check import check_of
from vardi.report._columns import columns_of, has_rows, named_variables
from vardi.report._content import Distribution, Report, SampleRow, VariableRow
from vardi.report._overlap import overlap_of
from vardi.report._recipe import recipe_of
from vardi.report._verdict import headline, unknowns
from vardi.report._weights import weights_of

if TYPE_CHECKING:
    from vardi._sample import DebiasedSample

MOST_SAMPLES = 300  # lines of the table of samples
MOST_TILTS = 50_000_000  # rows times samples up to which errors of the normalisers are computed
IN_ENGINE = "This needs rows in memory, and these are in their engine. Collect the columns you need and debias them."


def compute(fit: DebiasedSample, *, title: str | None = None, variables: Any = None, date: str = "") -> Report:
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
    The 2 samples can be compared, and together they speak for the population.
    >>> report.variables[0].debiased
    23.2...
    """
    named = named_variables(variables)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakOverlapWarning)  # said in the report itself
        verdict, trust = fit.identify(), fit.trust
        log_scale = fit._rows.log or any(LOGS < abs(value) < math.inf for value in fit.log_omegas.values())
        samples, samples_note = _samples(fit, log_scale)
        rows, rows_note, drawn, drawn_note = _before_and_after(fit, named)
        check = check_of(fit, named)
        overlap = overlap_of(fit, verdict)
        following = next_rows(samples, rows)
        effective = fit.effective_rows()
        return Report(
            title=_title(samples) if title is None else title,
            date=date,
            rows=float(fit._rows.sizes.sum()),
            effective=effective,
            headline=headline(verdict, trust, check, samples, rows, effective, fit.shares, fit.parameters),
            overlap=overlap,
            samples=samples[:MOST_SAMPLES],
            more_samples=max(len(samples) - MOST_SAMPLES, 0),
            log_scale=log_scale,
            samples_note=samples_note,
            variables=rows,
            variables_note=rows_note,
            distributions=drawn,
            distributions_note=drawn_note,
            weights=weights_of(fit) if has_rows(fit) else None,
            weights_note="" if has_rows(fit) else IN_ENGINE,
            check=check,
            advice=advice(trust, overlap, samples, rows, following),
            next_rows=following,
            unknowns=unknowns(check, estimated=bool(fit.parameters)),
            recipe=recipe_of(fit, title, variables, samples),
        )


def _title(samples: Sequence[SampleRow]) -> str:
    used = sum(sample.rows > 0 for sample in samples)
    return "One debiased sample" if used == 1 else f"One debiased sample out of {used}"


def _before_and_after(
    fit: DebiasedSample, named: dict[str, Any] | None
) -> tuple[tuple[VariableRow, ...], str, tuple[Distribution, ...], str]:
    if not has_rows(fit):
        return *_variables.of_engine(fit, named), (), IN_ENGINE
    columns, note = columns_of(fit, named)
    drawn, drawn_note = _variables.distributions(fit, columns) if columns else ((), "There are no columns to draw.")
    return _variables.in_memory(fit, columns), note, drawn, drawn_note


def _samples(fit: DebiasedSample, log_scale: bool) -> tuple[tuple[SampleRow, ...], str]:
    sizes: Floats = fit._rows.sizes
    biases = ["everywhere" if bias == everywhere() else str(bias) for bias in fit._pool.biases]
    biases = biases or [""] * len(fit.names)
    normalisers, note = _normalisers(fit, log_scale)
    effective, largest = _weights_by_sample(fit)
    left_out = _left_out(fit)
    rows = tuple(
        SampleRow(
            str(name),
            biases[k],
            float(sizes[k]),
            float(sizes[k] / sizes.sum()),
            share,
            effective[k],
            largest[k],
            normalisers[name].value,
            None if math.isnan(normalisers[name].stderr) else normalisers[name].stderr,
            left_out[k],
        )
        for k, (name, share) in enumerate(fit.weight_shares().items())
    )
    return rows, note


def _normalisers(fit: DebiasedSample, log_scale: bool) -> tuple[dict[Name, Estimate], str]:
    many = len(fit.names) > MOST_ERRORS or (has_rows(fit) and len(fit) * len(fit.names) > MOST_TILTS)
    if not many:
        reason = "too few rows join the samples" if all(fit.trust.cut) else "one row shows no spread"
        withheld = "" if fit.trust.errors_hold else f"Errors are withheld: {reason}."
        return fit.log_normalisers() if log_scale else fit.normalisers(), withheld
    values = fit.log_omegas if log_scale else fit.omegas
    note = "Errors of the normalisers are not computed for so many rows and samples; fit.normalisers() gives them."
    return {name: Estimate(value, math.nan) for name, value in values.items()}, note


def _weights_by_sample(fit: DebiasedSample) -> tuple[list[float | None], list[float | None]]:
    """Return Kish's effective rows and the largest weight of each sample; None without rows in memory."""
    K = len(fit.names)
    if not has_rows(fit):
        return [None] * K, [None] * K
    influence = fit._influence
    weights, source = influence.weights, influence.strata.source
    counted = weights if influence.strata.counts is None else weights * influence.strata.counts
    sums = np.bincount(source, counted, minlength=K)
    squares = np.bincount(source, counted * weights, minlength=K)
    largest = np.zeros(K)
    np.maximum.at(largest, source, weights)
    effective = np.divide(sums**2, squares, out=np.zeros(K), where=squares > 0)
    sampled = (sums > 0).tolist()
    return (
        [value if is_in else None for value, is_in in zip(effective.tolist(), sampled, strict=True)],
        [value if is_in else None for value, is_in in zip(largest.tolist(), sampled, strict=True)],
    )


def _left_out(fit: DebiasedSample) -> list[bool]:
    if fit._kept is None:
        return [False] * len(fit.names)
    given = np.bincount(fit._pool.source, fit._pool.counts, minlength=len(fit.names)) > 0
    return (given & (fit._rows.sizes == 0)).tolist()
