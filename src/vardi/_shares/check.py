"""Do the data agree with the known shares? Where they can tell, the shares are tested."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vardi._estimate.bias_test import _chi2 as chi_square
from vardi._estimate.known_check import KnownCheck, known_lines
from vardi._inputs.pool import Name
from vardi._rows import Rows
from vardi._shares.anchor import Anchor, Refit
from vardi._shares.influence import AnchoredInfluence
from vardi._shares.raking import scale_of


def check_shares(anchor: Anchor, rows: Rows, refit: Refit, names: Sequence[Name], *, trusted: bool) -> KnownCheck:
    """Compare known shares with the means of their cells before raking, where groups have their known masses.

    Parameters
    ----------
    anchor, rows, refit, names
        The fit. Cells are the same for all rows of the pool that are collapsed into one, so ``rows`` are enough.
    trusted : bool
        Whether errors can be given.
    """
    shares = anchor.shares
    influence = AnchoredInfluence(
        rows.with_rows(rows.matrix, rows.source, rows.counts),
        refit.u,
        refit.base,
        rows.source,
        rows.counts,
        groups=anchor.groups,
        pattern=anchor.groups[rows.source],
        regressors=np.eye(len(anchor.masses))[:, :-1] - anchor.masses[:-1],
    )
    estimates = influence.estimates(anchor.patterns[anchor.pattern], 0.95, trusted=trusted)
    variances = np.diag(estimates.covariance)
    least = 1e-10 * np.maximum(shares * (1.0 - shares), 1e-10) / influence.n  # below which only rounding is left
    told = np.where(variances > least, np.sqrt(np.maximum(variances, 0.0)), np.where(np.isnan(variances), np.nan, 0.0))
    scale = scale_of(anchor.known, shares)
    lines = known_lines(anchor.known, estimates.values * scale, told * scale)
    samples = tuple(str(names[k]) for k in np.flatnonzero(rows.sizes > 0).tolist())
    if not trusted or not (told > 0).any():
        return KnownCheck(lines, math.nan, 0, math.nan, refit.residual, samples)
    statistic, pvalue, df = chi_square(estimates.values - shares, estimates.covariance, least)
    return KnownCheck(lines, statistic, df, pvalue, refit.residual, samples)
