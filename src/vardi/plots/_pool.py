"""Weights, distributions, balance and sensitivity of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from vardi._estimate.cdf import Band
from vardi._estimate.sensitivity.result import GAMMAS, Kind, Sensitivity
from vardi._facts.diagnostics import Diagnostics
from vardi._inputs.given import Function
from vardi._inputs.pool import Name
from vardi._types import Floats
from vardi.errors._refusals import needs_rows
from vardi.plots._axes import LINE, Display, Palette, inches_of, labels, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from vardi._fit.sample import DebiasedSample


@dataclass
class WeightsDisplay(Display):
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
        masks = {name: table.source == k for k, (name, rows) in enumerate(fit.sizes.items()) if rows}
        weights, counts = ([part[mask] for mask in masks.values()] for part in (table.weights, table.counts))
        return cls(tuple(masks), weights, counts).plot(ax=ax)

    def _draw(self, ax: Axes, colours: Palette) -> None:
        from matplotlib.ticker import LogLocator, NullFormatter

        everything = np.concatenate(self.weights)
        low, high = np.log10(everything.min()), np.log10(everything.max())
        by_rows = sorted(range(len(self.names)), key=lambda k: -self.counts[k].sum())
        cycle = [f"C{k}" for k in range(10) if k != 7]  # of the style, whose grey is for the others
        groups = [[k] for k in sorted(by_rows[: len(cycle)])]
        titles, inks = [shortened(self.names[k]) for (k,) in groups], cycle[: len(groups)]
        if others := by_rows[len(cycle) :]:
            groups, titles, inks = [*groups, others], [*titles, f"{len(others):,} others"], [*inks, colours.link]
        weights, counts = (
            [np.concatenate([part[k] for k in group]) for group in groups] for part in (self.weights, self.counts)
        )
        bins = np.logspace(low - 0.05, high + 0.05, 31).tolist()
        ax.hist(weights, bins=bins, weights=counts, stacked=True, label=titles, color=inks)
        ax.axvline(1.0, color=colours.ink, lw=1, ls=":")
        ax.set(xscale="log", xlabel="weight (1: as in the pool)", ylabel="rows", title="Weights by sample")
        fine, usual, coarse = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0,)
        ax.xaxis.set_major_locator(LogLocator(subs=fine if high - low < 1 else usual if high - low < 3 else coarse))
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.legend(title="sample")


@dataclass
class CdfDisplay(Display):
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
        variable = parts.column(column, column)
        band = parts.band(variable, level)
        if band is None:
            raise needs_rows("A picture of a distribution")
        facts = parts.describe([variable])[0]
        x, shares = parts.shares(variable, facts.pooled, facts.spread).every()
        return cls(facts.label, x, shares[:, 0], shares[:, 1], band).plot(ax=ax)

    def _draw(self, ax: Axes, colours: Palette) -> None:
        (first, last), (low, high) = self.x[[0, -1]], self.band.x[[0, -1]]
        beyond = 0.03 * (last - first)
        x = np.pad(self.x, 1, constant_values=(first - beyond, last + beyond))
        for height, colour, label in (
            (self.pooled, colours.before, "pool"),
            (self.population, colours.after, "population"),
        ):
            ax.step(x, np.pad(height, 1, constant_values=(0.0, 1.0)), where="post", color=colour, label=label)
        label = f"{self.band.level:.0%} band, all points at once,\nfrom {low:.4g} to {high:.4g}"
        ax.fill_between(*self.band.drawn, step="post", color=colours.after, alpha=0.2, label=label)
        for end in (low, high):
            ax.axvline(end, color=colours.after, lw=1, ls=":")
        title = f"{self.column} before and after"
        ax.set(xlabel=self.column, ylabel="share at or below", ylim=(0, 1.02), xlim=x[[0, -1]], title=title)
        ax.legend(loc="lower right")


@dataclass
class LoveDisplay(Display):
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

    @property
    def size(self) -> tuple[float, float]:
        return 6.4, min(max(4.8, 1.2 * LINE * len(self.diagnostics.columns) + 1.5), 30.0)

    def _draw(self, ax: Axes, colours: Palette) -> None:
        columns = sorted(self.diagnostics.columns, key=lambda column: abs(column.shift))
        places = np.arange(len(columns))
        shifts = np.array([column.shift for column in columns])
        errors = [(c.high - c.debiased) / c.spread if c.spread else np.nan for c in columns]
        ax.axvline(0.0, color=colours.ink, lw=1)
        ax.hlines(places, 0.0, shifts, color=colours.link, lw=1)
        ax.errorbar(shifts, places, xerr=errors, fmt="none", ecolor=colours.after, alpha=0.5, capsize=3)
        ax.scatter(np.zeros(len(columns)), places, color=colours.before, label="pool", zorder=3)
        ax.scatter(shifts, places, color=colours.after, label="population (95%)", zorder=3)
        ax.set_yticks(*labels([column.label for column in columns], inches_of(ax)[1]))
        ax.set(xlabel="shift of the mean, in standard deviations", title="What debiasing moves")
        ax.set_ylim(-0.7, len(columns) - 0.3)
        ax.legend()


@dataclass
class SensitivityDisplay(Display):
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
        sensitivity = fit.sensitivity(values, gammas, samples=samples, kind=kind, threshold=threshold)
        return cls(sensitivity).plot(ax=ax)

    def _draw(self, ax: Axes, colours: Palette) -> None:
        ranges, gammas = self.sensitivity, self.sensitivity.gammas
        value, stderr = ranges.estimate.value, ranges.estimate.stderr
        before, after = colours.before, colours.after
        ax.fill_between(gammas, ranges.lower, ranges.upper, color=after, alpha=0.2, label=f"range ({ranges.method})")
        ax.plot(gammas, np.column_stack([ranges.lower, ranges.upper]), color=after, marker=".")
        for end, label in ((ranges.linear_lower, "to first order"), (ranges.linear_upper, None)):
            ax.plot(gammas, end, color=before, ls="--", lw=1, label=label)
        ax.axhline(value, color=colours.ink, lw=1, label="estimate")
        if np.isfinite(stderr):
            low, high = value - stderr, value + stderr
            ax.axhspan(low, high, color=colours.ink, alpha=0.12, lw=0, label="one standard error")
        if ranges.threshold is not None:
            threshold, tipping, colour = ranges.threshold, ranges.tipping, colours.threshold
            label = f"{threshold:.4g} {'not reached' if tipping is None else f'reached at {tipping:.3g}'}"
            ax.axhline(threshold, color=colour, lw=1, ls=":")
            if tipping is not None and tipping <= gammas[-1]:
                ax.plot([tipping], [threshold], color=colour, marker="o", ls="none", label=label)
            else:
                ax.plot([], [], color=colour, ls=":", label=label)
        ax.set(xscale="log", xlabel="biases wrong by up to a factor of", ylabel=ranges.name)
        ax.set_xticks(gammas, [f"{gamma:g}" for gamma in gammas])
        ax.minorticks_off()
        ax.set_title(f"Sensitivity of the {ranges.name}")
        ax.legend(fontsize=8)
