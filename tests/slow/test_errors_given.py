"""Which designs of the oracle have an error by the degrees of freedom of the estimate, and had one by another rule.

That rule withheld every error of a fit where fewer than five rows bridge the cut of the second eigenvector.
`make slow` prints the table of docs/concepts/reliability.md.
"""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pytest
from designs import FAMILIES, design
from judging import run

import vardi

FIRST, EACH = 10_000, 100  # seeds, as in test_oracle_nightly.py
BRIDGING = 5.0
REFUSED = ("disconnected", "one way", "impossible", "invalid", "large")  # families without a fit, or of the same size


def bridging(fit: vardi.DebiasedSample) -> float:
    """Return the rows that bridge the cut of the eigenvector; infinite for one sample of several rows."""
    sampled, gram = fit.solved.tangent.hessian.sampled, fit.solved.tangent.hessian.sums.gram
    if sampled.sum() == 1:
        return np.inf if sum(fit.sizes.values()) > 1 else 0.0
    side = (fit.solution.cut > 0) & sampled
    inside = gram @ side.astype(float)
    return float(inside[sampled & ~side].sum())


def judged(family: str, seed: int) -> tuple[bool, bool] | None:
    """Return whether the mean of a column had an error, and has one; None where there is no fit."""
    drawn = design(family, seed)
    try:
        fit = run(drawn)
    except vardi.VardiError:
        return None
    column = np.random.default_rng(seed).standard_normal(len(drawn.source))
    with warnings.catch_warnings(action="ignore", category=vardi.WeakOverlapWarning):
        return bridging(fit) >= BRIDGING, not np.isnan(fit.expectation(column).stderr)


@pytest.mark.timeout(0)
def test_more_designs_have_an_error_than_had_one():
    found = Counter()
    for family in FAMILIES:
        if family not in REFUSED:
            found.update(judged(family, FIRST + seed) for seed in range(EACH))
    del found[None]
    print(
        f"\n{found.total()} fits: an error by both rules {found[True, True]}, lost {found[True, False]}, "
        f"gained {found[False, True]}, by neither {found[False, False]}"
    )
    assert found[False, True] > found[True, False]
