"""Weights, distributions, balance and sensitivity of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from vardi._estimate.cdf import Band
from vardi._estimate.sensitivity import GAMMAS, Kind, Sensitivity
from vardi._facts.diagnostics import Diagnostics
from vardi._facts.distributions import heights
from vardi._inputs.given import Function
from vardi._inputs.pool import Name
from vardi._types import Floats
from vardi.errors._refusals import needs_rows
from vardi.plots._axes import AFTER, BEFORE, LINK, THRESHOLD, axes_of

if TYPE_CHECKING:
    from vardi._fit.sample import DebiasedSample


@dataclass
class WeightsDisplay:
    """The weights of the rows of each sample.

    Parameters
    ----------
    names : tuple
        The samples.
    weights, counts : list of ndarray
        Weights of each sample's rows, and how many rows have each; of rows in an engine in fine bins.
    """

    names: tuple[Name, ...]
    weights: list[Floats]
    counts: list[Floats]

    @classmethod
    def from_fit(cls, fit: DebiasedSample, *, ax: Any = None) -> Self:
        """Take the weights of a fit and draw them."""
        table = fit.parts.weight_table()
        own = {name: table.source == k for k, (name, rows) in enumerate(fit.sizes.items()) if rows}
        weights, counts = ([part[mine] for mine in own.values()] for part in (table.weights, table.counts))
        return cls(tuple(own), weights, counts).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw on the given axes, or on new ones."""
        self.ax_, self.figure_ = axes_of(ax)
        everything = np.concatenate(self.weights)
        low, high = np.log10(everything.min()), np.log10(everything.max())
        bins = np.logspace(low - 0.05, high + 0.05, 31)
        labels = [str(name) for name in self.names]
        self.ax_.hist(self.weights, bins=bins, weights=self.counts, stacked=True, label=labels)
        self.ax_.axvline(1.0, color="black", lw=1, ls=":")
        self.ax_.set(xscale="log", xlabel="weight (1: as in the pool)", ylabel="rows", title="Weights by sample")
        self.ax_.legend(title="sample")
        return self


@dataclass
class CdfDisplay:
    """The distribution of a column in the pool and, with its band, in the population.

    Parameters
    ----------
    column : str
        Name of the column, with the samples that it comes from where only some have recorded it.
    x, pooled : ndarray
        Values of the column, and the share of the pool at or below each, or of the rows of these samples.
    band : Band
        The debiased distribution function with its simultaneous band.
    """

    column: str
    x: Floats
    pooled: Floats
    band: Band

    @classmethod
    def from_fit(cls, fit: DebiasedSample, column: str, *, level: float = 0.95, ax: Any = None) -> Self:
        """Compute both distributions of a column and draw them."""
        parts = fit.parts
        asked = parts.column(column, column)
        band = parts.band(asked, level)
        if band is None:
            raise needs_rows("A picture of a distribution")
        facts = parts.describe([asked])[0]
        x, pooled, _ = heights(fit, asked, facts)
        return cls(facts.label, x, pooled, band).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw on the given axes, or on new ones."""
        self.ax_, self.figure_ = axes_of(ax)
        self.ax_.step(self.x, self.pooled, where="post", color=BEFORE, label="pool")
        self.ax_.step(self.band.x, self.band.value, where="post", color=AFTER, label="population")
        self.ax_.fill_between(
            *self.band.drawn,
            step="post",
            color=AFTER,
            alpha=0.2,
            label=f"{self.band.level:.0%} band, all points at once",
        )
        self.ax_.set(
            xlabel=self.column, ylabel="share at or below", ylim=(0, 1), title=f"{self.column} before and after"
        )
        self.ax_.legend(loc="lower right")
        return self


@dataclass
class LoveDisplay:
    """How far each column's mean moves from pool to population, in standard deviations (a love plot).

    Parameters
    ----------
    diagnostics : Diagnostics
        Of a fit, with its columns.
    """

    diagnostics: Diagnostics

    @classmethod
    def from_fit(cls, fit: DebiasedSample, columns: Any = None, *, ax: Any = None) -> Self:
        """Compute the shifts of some columns (all numeric ones by default) and draw them."""
        return cls(fit.diagnostics(columns)).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw on the given axes, or on new ones."""
        self.ax_, self.figure_ = axes_of(ax)
        columns = sorted(self.diagnostics.columns, key=lambda column: abs(column.shift))
        places = np.arange(len(columns))
        shifts = np.array([column.shift for column in columns])
        errors = [(c.high - c.debiased) / c.spread if c.spread else np.nan for c in columns]
        self.ax_.axvline(0.0, color="black", lw=1)
        self.ax_.hlines(places, 0.0, shifts, color=LINK, lw=1)
        self.ax_.errorbar(shifts, places, xerr=errors, fmt="none", ecolor=AFTER, alpha=0.5, capsize=3)
        self.ax_.scatter(np.zeros(len(columns)), places, color=BEFORE, label="pool", zorder=3)
        self.ax_.scatter(shifts, places, color=AFTER, label="population (95%)", zorder=3)
        self.ax_.set_yticks(places, [column.label for column in columns])
        self.ax_.set(xlabel="shift of the mean, in standard deviations", title="What debiasing moves")
        self.ax_.legend()
        return self


@dataclass
class SensitivityDisplay:
    """The range of an estimate over wrong biases, against the factor by which they may be wrong.

    Parameters
    ----------
    sensitivity : Sensitivity
        Of a mean, or of a model's coefficient.
    """

    sensitivity: Sensitivity

    @classmethod
    def from_fit(
        cls,
        fit: DebiasedSample,
        values: Function,
        gammas: float | Sequence[float] = GAMMAS,
        *,
        samples: Sequence[Name] | None = None,
        kind: Kind = "free",
        threshold: float | None = None,
        ax: Any = None,
    ) -> Self:
        """Compute the sensitivity of a mean and draw it; the options are those of ``fit.sensitivity``."""
        found = fit.sensitivity(values, gammas, samples=samples, kind=kind, threshold=threshold)
        return cls(found).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw on the given axes, or on new ones."""
        self.ax_, self.figure_ = axes_of(ax)
        found = self.sensitivity
        value, stderr = found.estimate.value, found.estimate.stderr
        self.ax_.fill_between(
            found.gammas, found.lower, found.upper, color=AFTER, alpha=0.2, label=f"range ({found.method})"
        )
        for end in (found.lower, found.upper):
            self.ax_.plot(found.gammas, end, color=AFTER, marker=".")
        for end, label in ((found.linear_lower, "to first order"), (found.linear_upper, None)):
            self.ax_.plot(found.gammas, end, color=BEFORE, ls="--", lw=1, label=label)
        self.ax_.axhline(value, color="black", lw=1, label="estimate")
        if np.isfinite(stderr):
            self.ax_.axhspan(
                value - stderr, value + stderr, color="black", alpha=0.08, lw=0, label="one standard error"
            )
        if found.threshold is not None:
            self._threshold(found.threshold, found.tipping)
        self.ax_.set(xscale="log", xlabel="biases wrong by up to a factor of", ylabel=found.name)
        self.ax_.set_xticks(found.gammas, [f"{gamma:g}" for gamma in found.gammas])
        self.ax_.minorticks_off()
        self.ax_.set_title(f"Sensitivity of the {found.name}")
        self.ax_.legend(fontsize=8)
        return self

    def _threshold(self, threshold: float, tipping: float | None) -> None:
        self.ax_.axhline(threshold, color=THRESHOLD, lw=1, ls=":")
        said = f"{threshold:g} not reached" if tipping is None else f"{threshold:g} reached at {tipping:.3g}"
        if tipping is not None and tipping <= self.sensitivity.gammas[-1]:
            self.ax_.plot([tipping], [threshold], color=THRESHOLD, marker="o", ls="none", label=said)
        else:
            self.ax_.plot([], [], color=THRESHOLD, ls=":", label=said)
