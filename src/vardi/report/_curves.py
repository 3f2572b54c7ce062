"""Distributions -> geometry: histograms, distribution functions as steps, a band, and strips with tooltips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from vardi._facts.distributions import Distribution
from vardi._facts.numbers import number, share
from vardi.report._axes import Axes, Chart, Scale, percents


@dataclass(frozen=True)
class Hover:
    """A strip of a chart that shows a tooltip, with the two points that it describes."""

    x: float
    width: float
    at: float
    before: float
    after: float
    title: str

    @classmethod
    def over(
        cls, axes: Axes, ends: tuple[float, float], at: float, what: str, before: float, after: float, *, band: str
    ) -> Hover:
        """Return the strip between two ends, with the shares of pool and population at a place of it."""
        title = f"{what}: {share(before)} of the pool, {share(after)} of the population{band}"
        x, width = round(ends[0], 1), round(max(ends[1] - ends[0], 1.0), 1)
        return cls(x, width, round(at, 1), axes.up(before), axes.up(after), title)


@dataclass(frozen=True)
class Curves(Chart):
    """Two distribution functions and a band, or two histograms, as paths."""

    before: str
    after: str
    band: str
    hovers: tuple[Hover, ...]


def steps(distribution: Distribution) -> Curves:
    """Draw distribution functions as steps."""
    axes = Axes.of(1.0, tuple((k / 4, f"{25 * k}%") for k in range(5)))
    across = Scale(distribution.x[0], distribution.x[-1], axes.left, axes.right)
    covered = [k for k, end in enumerate(distribution.low) if end is not None]
    lows = [(across(distribution.x[k]), axes.up(distribution.low[k] or 0.0)) for k in covered]
    highs = [  # each from the next point: in between the function may rise that far
        (across(distribution.x[k]), axes.up(distribution.high[after] or 0.0))
        for k, after in zip(covered, [*covered[1:], *covered[-1:]], strict=True)
    ]
    x = [across(value) for value in distribution.x]
    return Curves(
        **vars(axes),
        x_ticks=across.ticks(),
        x_title=distribution.name,
        y_title="share at or below",
        before=_step_path([*zip(x, map(axes.up, distribution.pooled), strict=True)]),
        after=_step_path([*zip(x, map(axes.up, distribution.debiased), strict=True)]),
        band=_band_path(lows, highs),
        hovers=_hovers(distribution, x, axes),
    )


def bins(distribution: Distribution) -> Curves:
    """Draw two histograms: that of the population filled, that of the pool as a line."""
    found = distribution.bins
    highest = max(*found.pooled, *found.debiased)
    axes = Axes.of(highest, percents(highest, 5))
    across = Scale(found.edges[0], found.edges[-1], axes.left, axes.right)
    x = [across(edge) for edge in found.edges]
    bars = zip(pairwise(x), pairwise(found.edges), found.pooled, found.debiased, strict=True)
    hovers = tuple(
        Hover.over(
            axes, ends, sum(ends) / 2, f"{distribution.name} from {number(low)} to {number(high)}", *shares, band=""
        )
        for ends, (low, high), *shares in bars
    )
    before, after = (
        _step_path([(x[0], axes.bottom), *zip(x, map(axes.up, own), strict=False), (x[-1], axes.bottom)])
        for own in (found.pooled, found.debiased)
    )
    return Curves(
        **vars(axes),
        x_ticks=across.ticks(),
        x_title=distribution.name,
        y_title="share of rows",
        before=before,
        after=after,
        band="",
        hovers=hovers,
    )


def _step_path(points: Sequence[tuple[float, float]]) -> str:
    """Return a path that holds each height until the next point."""
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    parts += [f"H{x:.1f}V{y:.1f}" for x, y in points[1:]]
    return "".join(parts)


def _band_path(lows: Sequence[tuple[float, float]], highs: Sequence[tuple[float, float]]) -> str:
    if len(lows) < 2:
        return ""
    back = [f"L{lows[-1][0]:.1f} {lows[-1][1]:.1f}", *(f"V{y:.1f}H{x:.1f}" for x, y in lows[-2::-1])]
    return _step_path(highs) + "".join(back) + "Z"


def _hovers(distribution: Distribution, x: Sequence[float], axes: Axes, most: int = 48) -> tuple[Hover, ...]:
    """Return strips at no more than so many places."""
    chosen = sorted({round(k * (len(x) - 1) / (most - 1)) for k in range(most)})
    ends = [x[chosen[0]], *((x[a] + x[b]) / 2 for a, b in pairwise(chosen)), x[chosen[-1]]]
    hovers = []
    for k, strip in zip(chosen, pairwise(ends), strict=True):
        low, high = distribution.low[k], distribution.high[k]
        band = "" if low is None or high is None else f" (band {share(low)} to {share(high)})"
        what = f"{distribution.name} ≤ {number(distribution.x[k])}"
        hovers.append(Hover.over(axes, strip, x[k], what, distribution.pooled[k], distribution.debiased[k], band=band))
    return tuple(hovers)
