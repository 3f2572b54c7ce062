"""The variables that a study reports: their means over the pooled rows, and over the population."""

from __future__ import annotations

import warnings

from vardi._facts.summary import VariableLine
from vardi._fit.sample import DebiasedSample
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
    pooled = fit.held.pooled_means(fit.held.matrix(names))
    return tuple(
        VariableLine(name, float(before), float(after), float(error))
        for name, before, after, error in zip(names, pooled, estimates.values, estimates.stderr, strict=True)
    )
