"""Distribution functions -> geometry: steps, a band, and strips that tell their values."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vardi._facts.distributions import Distribution
from vardi._facts.numbers import number, share
from vardi.report._axes import Box, Tick, ticks

HOVERS = 48  # places of a distribution function that answer when they are pointed at


@dataclass(frozen=True)
class Hover:
    """A strip of a chart that shows a value when it is pointed at, with the two points it is about."""

    x: float
    width: float
    at: float
    before: float
    after: float
    title: str


@dataclass(frozen=True)
class Steps(Box):
    """Two distribution functions and a band, as paths."""

    before: str
    after: str
    band: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    hovers: tuple[Hover, ...]


def steps(distribution: Distribution) -> Steps:
    """Draw distribution functions as steps."""
    size, left, right, top, bottom = (400.0, 240.0), 44.0, 390.0, 12.0, 212.0
    low, high = distribution.x[0], distribution.x[-1]
    half_span = high / 2 - low / 2 or 1.0  # of halves: the difference itself may be infinite

    def across(x: float) -> float:
        return left + (right - left) * ((x / 2 - low / 2) / half_span)

    def up(height: float) -> float:
        return bottom - (bottom - top) * height

    covered = [k for k, end in enumerate(distribution.low) if end is not None]
    lows = [(across(distribution.x[k]), up(distribution.low[k] or 0.0)) for k in covered]
    highs = [  # each of the next point: in between the function may rise to there
        (across(distribution.x[k]), up(distribution.high[after] or 0.0))
        for k, after in zip(covered, [*covered[1:], *covered[-1:]], strict=True)
    ]
    x = [across(value) for value in distribution.x]
    return Steps(
        *(*size, left, right, top, bottom),
        before=_step_path([*zip(x, map(up, distribution.pooled), strict=True)]),
        after=_step_path([*zip(x, map(up, distribution.debiased), strict=True)]),
        band=_band_path(lows, highs),
        x_ticks=tuple(Tick(round(across(at), 1), text) for at, text in ticks(low, high, 5)),
        y_ticks=tuple(Tick(up(k / 4), f"{25 * k}%") for k in range(5)),
        hovers=_hovers(distribution, x, up),
    )


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


def _hovers(distribution: Distribution, x: Sequence[float], up: Callable[[float], float]) -> tuple[Hover, ...]:
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
        hovers.append(
            Hover(round(left, 1), round(max(right - left, 1.0), 1), round(x[k], 1), up(before), up(after), title)
        )
    return tuple(hovers)
