"""Do the data agree with the known shares? Where they can tell, the shares are tested."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass

import numpy as np

from vardi._goodness import _chi2 as chi_square
from vardi._pool import cut
from vardi._rows import Rows
from vardi._shares.anchor import Anchor, Refit
from vardi._shares.influence import AnchoredInfluence

CONTRADICTED = 0.01  # p-value below which a warning is given
SHOWN = 12
WIDTH = 80


@dataclass(frozen=True)
class ShareLine:
    """One known share, and what the samples say of it.

    Attributes
    ----------
    cell : str
        The part of the population.
    known : float
        Its known share.
    estimated, stderr : float
        Its share by the samples and their biases, with its error; the known shares give the masses of groups that
        overlap does not join. An error of zero says that the samples know nothing of it beyond that.
    """

    cell: str
    known: float
    estimated: float
    stderr: float

    @property
    def z(self) -> float:
        """How many standard errors the estimate is off; NaN where the samples cannot tell."""
        return (self.estimated - self.known) / self.stderr if self.stderr > 0 else math.nan


@dataclass(frozen=True)
class SharesCheck:
    """Known shares against the samples.

    Attributes
    ----------
    lines : tuple of ShareLine
        By cell.
    statistic, df, pvalue : float, int, float
        The chi-square test of all shares together; the p-value is NaN where the samples cannot tell.
    residual : float
        The largest distance of a share from its known value after raking.
    """

    lines: tuple[ShareLine, ...]
    statistic: float
    df: int
    pvalue: float
    residual: float

    @property
    def contradicted(self) -> bool:
        """Whether the samples contradict the shares, at one per cent."""
        return self.pvalue < CONTRADICTED

    @property
    def verdict(self) -> str:
        """The outcome in a sentence."""
        if math.isnan(self.pvalue):
            return "The samples say nothing of the shares on their own, so these cannot be tested."
        said = "contradict" if self.contradicted else "do not contradict"
        worst = max(self.lines, key=lambda line: abs(line.z) if line.stderr > 0 else -1.0)
        return (
            f"The samples {said} the shares (chi2 = {self.statistic:.4g}, df = {self.df}, p = {self.pvalue:.2g}); most "
            f"apart is {worst.cell!r}, {worst.estimated:.3g} ± {worst.stderr:.2g} by the samples and {worst.known:.3g} "
            "as given."
        )

    def summary(self) -> str:
        """Return the check in at most 80 columns."""
        width = min(max(len("share of"), *(len(line.cell) for line in self.lines)), WIDTH - 40)
        table = [f"{'share of':<{width}}  {'known':>8}  {'by the samples':>18}  {'z':>6}"]
        for line in self.lines[:SHOWN]:
            if line.stderr > 0:
                seen, z = f"{line.estimated:.4f} ± {line.stderr:.4f}", f"{line.z:+.1f}"
            else:
                seen, z = ("no error" if math.isnan(line.stderr) else "not told"), ""
            table.append(f"{cut(line.cell, width):<{width}}  {line.known:>8.4f}  {seen:>18}  {z:>6}".rstrip())
        if len(self.lines) > SHOWN:
            table.append(f"... and {len(self.lines) - SHOWN} more")
        return "\n".join([textwrap.fill(self.verdict, WIDTH), "", *table])

    __str__ = summary


def check_shares(anchor: Anchor, rows: Rows, refit: Refit, *, trusted: bool) -> SharesCheck:
    """Compare known shares with the means of their cells before raking, where groups have their known masses.

    Parameters
    ----------
    anchor, rows, refit : Anchor, Rows, Refit
        The fit. Cells are the same for all rows of the pool that are collapsed into one, so ``rows`` are enough.
    trusted : bool
        Whether errors can be given.
    """
    cells, shares = anchor.cells, anchor.shares
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
    lines = tuple(
        ShareLine(cell.label, cell.share, float(value), float(error))
        for cell, value, error in zip(cells, estimates.values, told, strict=True)
    )
    if not trusted or not (told > 0).any():
        return SharesCheck(lines, math.nan, 0, math.nan, refit.residual)
    statistic, pvalue, df = chi_square(estimates.values - shares, estimates.covariance, least)
    return SharesCheck(lines, statistic, df, pvalue, refit.residual)
