"""Weights, distributions, balance and sensitivity of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from vardi._estimate.cdf import Band
from vardi._estimate.sensitivity.result import GAMMAS, Kind, Sensitivity
from vardi._facts.diagnostics import Diagnostics
from vardi._facts.distributions import heights
from vardi._inputs.given import Function
from vardi._inputs.pool import Name
from vardi._types import Floats
from vardi.errors._refusals import needs_rows
from vardi.plots._axes import LINE, Palette, axes_of, inches_of, labels, palette_of, shortened, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from vardi._fit.sample import DebiasedSample


COLOURS = (0, 1, 2, 3, 4, 5, 6, 8, 9)  # colours of samples in the style's cycle; 7 is the grey of the others


@dataclass
class WeightsDisplay:
    """The weights of the rows of each sample.

    Parameters
    ----------
    names : tuple
        The samples.
    weights, counts : list of ndarray
        Weights of each sample's rows, and how many rows have each; in fine bins for rows in an engine.
    """

    names: tuple[Name, ...]
    weights: list[Floats]
    counts: list[Floats]

    @classmethod
    def from_fit(cls, fit: DebiasedSample, *, ax: Axes | None = None) -> Self:
        """Take the weights of a fit and draw them."""
        table = fit.parts.weight_table()
        own = {name: table.source == k for k, (name, rows) in enumerate(fit.sizes.items()) if rows}
        weights, counts = ([part[mine] for mine in own.values()] for part in (table.weights, table.counts))
        return cls(tuple(own), weights, counts).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw on the given axes, or on new ones."""
        self.ax_, self.figure_ = axes_of(ax)
        everything = np.concatenate(self.weights)
        low, high = np.log10(everything.min()), np.log10(everything.max())
        bins = np.logspace(low - 0.05, high + 0.05, 31).tolist()
        named = self._named()
        others = [k for k in range(len(self.names)) if k not in named]
        groups = [[k] for k in named] + ([others] if others else [])
        titles = [shortened(self.names[k]) for k in named] + ([f"{len(others):,} others"] if others else [])
        colours = [f"C{k}" for k in COLOURS[: len(named)]] + ([palette_of(self.ax_).link] if others else [])
        weights, counts = (
            [np.concatenate([part[k] for k in own]) for own in groups] for part in (self.weights, self.counts)
        )
        self.ax_.hist(weights, bins=bins, weights=counts, stacked=True, label=titles, color=colours)
        self.ax_.axvline(1.0, color=palette_of(self.ax_).ink, lw=1, ls=":")
        self.ax_.set(xscale="log", xlabel="weight (1: as in the pool)", ylabel="rows", title="Weights by sample")
        self._ticks(high - low)
        self.ax_.legend(title="sample")
        return self

    def _named(self) -> list[int]:
        """Return the samples with their own colour, in order: all if they are few, else those with the most rows."""
        if len(self.names) <= len(COLOURS):
            return list(range(len(self.names)))
        rows = [counts.sum() for counts in self.counts]
        return sorted(sorted(range(len(rows)), key=lambda k: -rows[k])[: len(COLOURS)])

    def _ticks(self, decades: float) -> None:
        """Write the weights along their axis as plain numbers."""
        from matplotlib.ticker import LogLocator, NullFormatter

        fine, usual, coarse = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0,)
        subs = fine if decades < 1 else usual if decades < 3 else coarse
        self.ax_.xaxis.set_major_locator(LogLocator(subs=subs))
        self.ax_.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        self.ax_.xaxis.set_minor_formatter(NullFormatter())


@dataclass
class CdfDisplay:
    """The distribution of a column in the pool and, with its band, in the population.

    Parameters
    ----------
    column : str
        Name of the column, with the samples that it comes from if only some have recorded it.
    x, pooled, population : ndarray
        Values of the column, the share of the pool at or below each, or of the rows of these samples, and that of the
        population.
    band : Band
        The simultaneous band of the population's distribution, from the first to the last value at which it is given.
    """

    column: str
    x: Floats
    pooled: Floats
    population: Floats
    band: Band

    @classmethod
    def from_fit(cls, fit: DebiasedSample, column: str, *, level: float = 0.95, ax: Axes | None = None) -> Self:
        """Compute both distributions of a column and draw them."""
        parts = fit.parts
        asked = parts.column(column, column)
        band = parts.band(asked, level)
        if band is None:
            raise needs_rows("A picture of a distribution")
        facts = parts.describe([asked])[0]
        return cls(facts.label, *heights(fit, asked, facts), band).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw on the given axes, or on new ones."""
        self.ax_, self.figure_ = axes_of(ax)
        colours, band = palette_of(self.ax_), self.band
        beyond = 0.03 * (self.x[-1] - self.x[0])
        x = np.concatenate([[self.x[0] - beyond], self.x, [self.x[-1] + beyond]])
        for height, colour, label in (
            (self.pooled, colours.before, "pool"),
            (self.population, colours.after, "population"),
        ):
            whole = np.concatenate([[0.0], height, [1.0]])
            self.ax_.step(x, whole, where="post", color=colour, label=label)
        low, high = band.x[[0, -1]]
        said = f"{band.level:.0%} band, all points at once,\nfrom {low:.4g} to {high:.4g}"
        self.ax_.fill_between(*band.drawn, step="post", color=colours.after, alpha=0.2, label=said)
        for end in (low, high):
            self.ax_.axvline(end, color=colours.after, lw=1, ls=":")
        title = f"{self.column} before and after"
        self.ax_.set(xlabel=self.column, ylabel="share at or below", ylim=(0, 1.02), xlim=x[[0, -1]], title=title)
        self.ax_.legend(loc="lower right")
        return self


@dataclass
class LoveDisplay:
    """How far each column's mean moves from pool to population, in standard deviations (a love plot).

    Parameters
    ----------
    diagnostics : Diagnostics
        The diagnostics of a fit, with its columns.
    """

    diagnostics: Diagnostics

    @classmethod
    def from_fit(cls, fit: DebiasedSample, columns: Sequence[str] | None = None, *, ax: Axes | None = None) -> Self:
        """Compute the shifts of columns (all numeric ones by default) and draw them."""
        return cls(fit.diagnostics(columns)).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw on the given axes, or on new ones."""
        columns = sorted(self.diagnostics.columns, key=lambda column: abs(column.shift))
        self.ax_, self.figure_ = axes_of(ax, (6.4, min(max(4.8, 1.2 * LINE * len(columns) + 1.5), 30.0)))
        colours = palette_of(self.ax_)
        places = np.arange(len(columns))
        shifts = np.array([column.shift for column in columns])
        errors = [(c.high - c.debiased) / c.spread if c.spread else np.nan for c in columns]
        self.ax_.axvline(0.0, color=colours.ink, lw=1)
        self.ax_.hlines(places, 0.0, shifts, color=colours.link, lw=1)
        self.ax_.errorbar(shifts, places, xerr=errors, fmt="none", ecolor=colours.after, alpha=0.5, capsize=3)
        self.ax_.scatter(np.zeros(len(columns)), places, color=colours.before, label="pool", zorder=3)
        self.ax_.scatter(shifts, places, color=colours.after, label="population (95%)", zorder=3)
        shown = spread(len(places), inches_of(self.ax_)[1])
        self.ax_.set_yticks(shown, labels([column.label for column in columns], shown))
        self.ax_.set(xlabel="shift of the mean, in standard deviations", title="What debiasing moves")
        self.ax_.set_ylim(-0.7, len(columns) - 0.3)
        self.ax_.legend()
        return self


@dataclass
class SensitivityDisplay:
    """The range of an estimate over wrong biases, against the factor by which they may be wrong.

    Parameters
    ----------
    sensitivity : Sensitivity
        The sensitivity of a mean, or of a model's coefficient.
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
        ax: Axes | None = None,
    ) -> Self:
        """Compute the sensitivity of a mean and draw it; the options are those of ``fit.sensitivity``."""
        found = fit.sensitivity(values, gammas, samples=samples, kind=kind, threshold=threshold)
        return cls(found).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw on the given axes, or on new ones."""
        self.ax_, self.figure_ = axes_of(ax)
        found, colours = self.sensitivity, palette_of(self.ax_)
        value, stderr = found.estimate.value, found.estimate.stderr
        self.ax_.fill_between(
            found.gammas, found.lower, found.upper, color=colours.after, alpha=0.2, label=f"range ({found.method})"
        )
        for end in (found.lower, found.upper):
            self.ax_.plot(found.gammas, end, color=colours.after, marker=".")
        for end, label in ((found.linear_lower, "to first order"), (found.linear_upper, None)):
            self.ax_.plot(found.gammas, end, color=colours.before, ls="--", lw=1, label=label)
        self.ax_.axhline(value, color=colours.ink, lw=1, label="estimate")
        if np.isfinite(stderr):
            self.ax_.axhspan(
                value - stderr, value + stderr, color=colours.ink, alpha=0.12, lw=0, label="one standard error"
            )
        if found.threshold is not None:
            self._threshold(found.threshold, found.tipping, colours)
        self.ax_.set(xscale="log", xlabel="biases wrong by up to a factor of", ylabel=found.name)
        self.ax_.set_xticks(found.gammas, [f"{gamma:g}" for gamma in found.gammas])
        self.ax_.minorticks_off()
        self.ax_.set_title(f"Sensitivity of the {found.name}")
        self.ax_.legend(fontsize=8)
        return self

    def _threshold(self, threshold: float, tipping: float | None, colours: Palette) -> None:
        self.ax_.axhline(threshold, color=colours.threshold, lw=1, ls=":")
        said = f"{threshold:.4g} not reached" if tipping is None else f"{threshold:.4g} reached at {tipping:.3g}"
        if tipping is not None and tipping <= self.sensitivity.gammas[-1]:
            self.ax_.plot([tipping], [threshold], color=colours.threshold, marker="o", ls="none", label=said)
        else:
            self.ax_.plot([], [], color=colours.threshold, ls=":", label=said)
