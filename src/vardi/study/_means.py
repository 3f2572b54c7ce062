"""The variables that a study reports: their means over the pooled rows, and over the population."""

from __future__ import annotations

import warnings

import numpy as np

from vardi._lazy import LazyDebiasedSample
from vardi._sample import DebiasedSample
from vardi._summary import VariableLine
from vardi._sums import Floats
from vardi.errors import WeakOverlapWarning
from vardi.study._study import OpenStudy


def variable_lines(opened: OpenStudy, fit: DebiasedSample) -> tuple[VariableLine, ...]:
    """Return a line for each variable that the study names; none where it names none."""
    names = list(opened.study.variables)
    if not names:
        return ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakOverlapWarning)  # the doubts of the summary say it
        estimates = fit.expectations(names)
    pooled = _lazy_means(fit, names) if isinstance(fit, LazyDebiasedSample) else _means(fit, names)
    return tuple(
        VariableLine(name, float(before), float(after), float(error))
        for name, before, after, error in zip(names, pooled, estimates.values, estimates.stderr, strict=True)
    )


def _means(fit: DebiasedSample, names: list[str]) -> Floats:
    values = np.column_stack([fit._values(name) for name in names])
    return np.asarray(np.average(values, axis=0, weights=fit._influence.strata.counts))


def _lazy_means(fit: LazyDebiasedSample, names: list[str]) -> Floats:
    total = np.zeros(len(names))
    for part in fit._lazy.parts:
        total += part.sums(None, [fit._compiled(part, name) * part.count for name in names])
    return total / fit._rows.sizes.sum()
