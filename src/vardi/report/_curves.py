"""Distributions -> geometry: histograms, distribution functions as steps, a band, and strips with tooltips."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from vardi._facts.distributions import Distribution
from vardi._facts.numbers import number, share
from vardi.report._axes import Chart, Frame, Tick, ticks

HOVERS = 48  # places of a distribution function that have a tooltip
SIZE = 480.0, 262.0


@dataclass(frozen=True)
class Hover:
    """A strip of a chart that shows a tooltip, with the two points that it describes."""

    x: float
    width: float
    at: float
    before: float
    after: float
    title: str


@dataclass(frozen=True)
class Steps(Chart):
    """Two distribution functions and a band, or two histograms, as paths."""

    before: str
    after: str
    band: str
    hovers: tuple[Hover, ...]


@dataclass(frozen=True)
class Across:
    """Map values to the axis of a chart, through their halves, since a difference of two values may overflow."""

    frame: Frame
    low: float
    high: float

    def __call__(self, x: float) -> float:
        half_span = self.high / 2 - self.low / 2 or 1.0
        return self.frame.left + (self.frame.right - self.frame.left) * ((x / 2 - self.low / 2) / half_span)

    def ticks(self) -> tuple[Tick, ...]:
        """Return round numbers along the axis."""
        return tuple(Tick(round(self(at), 1), text) for at, text in ticks(self.low, self.high, 5))


def steps(distribution: Distribution) -> Steps:
    """Draw distribution functions as steps."""
    texts = [f"{25 * k}%" for k in range(5)]
    frame = Frame.of(*SIZE, texts)
    across = Across(frame, distribution.x[0], distribution.x[-1])
    covered = [k for k, end in enumerate(distribution.low) if end is not None]
    lows = [(across(distribution.x[k]), frame.up(distribution.low[k] or 0.0)) for k in covered]
    highs = [  # each from the next point: in between the function may rise that far
        (across(distribution.x[k]), frame.up(distribution.high[after] or 0.0))
        for k, after in zip(covered, [*covered[1:], *covered[-1:]], strict=True)
    ]
    x = [across(value) for value in distribution.x]
    return Steps(
        **vars(frame),
        x_ticks=across.ticks(),
        y_ticks=tuple(Tick(frame.up(k / 4), text) for k, text in enumerate(texts)),
        x_title=distribution.name,
        y_title="share at or below",
        before=_step_path([*zip(x, map(frame.up, distribution.pooled), strict=True)]),
        after=_step_path([*zip(x, map(frame.up, distribution.debiased), strict=True)]),
        band=_band_path(lows, highs),
        hovers=_hovers(distribution, x, frame),
    )


def bins(distribution: Distribution) -> Steps:
    """Draw two histograms: that of the population filled, that of the pool as a line."""
    found = distribution.bins
    marks = ticks(0.0, 100.0 * max(*found.pooled, *found.debiased), 4)
    most = max(*found.pooled, *found.debiased, marks[-1][0] / 100.0) or 1.0
    frame = Frame.of(*SIZE, [f"{text}%" for _, text in marks])
    across = Across(frame, found.edges[0], found.edges[-1])
    x = [across(edge) for edge in found.edges]
    hovers = []
    for k, (low, high) in enumerate(itertools.pairwise(found.edges)):
        before, after = found.pooled[k], found.debiased[k]
        title = (
            f"{distribution.name} from {number(low)} to {number(high)}: {share(before)} of the pool, {share(after)} of "
            "the population"
        )
        middle, width = (x[k] + x[k + 1]) / 2, x[k + 1] - x[k]
        heights = frame.up(before / most), frame.up(after / most)
        hovers.append(Hover(round(x[k], 1), round(max(width, 1.0), 1), round(middle, 1), *heights, title))
    return Steps(
        **vars(frame),
        x_ticks=across.ticks(),
        y_ticks=tuple(Tick(frame.up(at / 100.0 / most), f"{text}%") for at, text in marks),
        x_title=distribution.name,
        y_title="share of rows",
        before=_outline(x, [frame.up(part / most) for part in found.pooled], frame.bottom),
        after=_outline(x, [frame.up(part / most) for part in found.debiased], frame.bottom),
        band="",
        hovers=tuple(hovers),
    )


def _outline(x: Sequence[float], heights: Sequence[float], bottom: float) -> str:
    """Return a path around the bars of a histogram."""
    bars = (f"V{height:.1f}H{right:.1f}" for height, right in zip(heights, x[1:], strict=True))
    return f"M{x[0]:.1f} {bottom:.1f}{''.join(bars)}V{bottom:.1f}"


def _step_path(points: Sequence[tuple[float, float]]) -> str:
    """Return a path that holds each height until the next point."""
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    parts += [f"H{x:.1f}V{y:.1f}" for x, y in points[1:]]
    return "".join(parts)


def _band_path(lows: Sequence[tuple[float, float]], highs: Sequence[tuple[float, float]]) -> str:
    if len(lows) < 2:
        return ""
    there = _step_path(highs)
    back = [f"L{lows[-1][0]:.1f} {lows[-1][1]:.1f}"]
    back += [f"V{y:.1f}H{x:.1f}" for (x, _), y in zip(lows[-2::-1], (y for _, y in lows[-2::-1]), strict=True)]
    return there + "".join(back) + "Z"


def _hovers(distribution: Distribution, x: Sequence[float], frame: Frame) -> tuple[Hover, ...]:
    chosen = sorted({round(k * (len(x) - 1) / (HOVERS - 1)) for k in range(HOVERS)})
    ends = [(x[a] + x[b]) / 2 for a, b in itertools.pairwise(chosen)]
    lefts, rights = [x[chosen[0]], *ends], [*ends, x[chosen[-1]]]
    hovers = []
    for k, left, right in zip(chosen, lefts, rights, strict=True):
        before, after = distribution.pooled[k], distribution.debiased[k]
        low, high = distribution.low[k], distribution.high[k]
        band = "" if low is None or high is None else f" (band {share(low)} to {share(high)})"
        title = (
            f"{distribution.name} ≤ {number(distribution.x[k])}: {share(before)} of the pool, {share(after)} of the "
            f"population{band}"
        )
        heights = frame.up(before), frame.up(after)
        hovers.append(Hover(round(left, 1), round(max(right - left, 1.0), 1), round(x[k], 1), *heights, title))
    return tuple(hovers)
