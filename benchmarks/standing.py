"""Reports -> where vardi stands: which bars are reached, which are missed and what was tried, who was raced."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bars import BARS
from benchmarks.records import Bar, Report, Target

TRIED = Path(__file__).with_name("tried.toml")
WAYS = 2  # different ways to try before a bar is given up


@dataclass(frozen=True)
class Missed:
    """A target below its bar.

    Attributes
    ----------
    tried : tuple of str
        What was tried to reach it, from notes kept by hand.
    """

    target: Target
    bar: Bar
    tried: tuple[str, ...] = ()

    @property
    def by(self) -> str:
        """By how much, in percent of the bar."""
        assert self.target.measured is not None
        apart = self.target.measured / self.bar.level - 1
        return f"{abs(apart):.0%} {'over' if apart > 0 else 'short'}"


@dataclass(frozen=True)
class Standing:
    """The summary at the top of the page.

    Attributes
    ----------
    judged : tuple of Target
        Those that have a bar and were measured.
    unmeasured : tuple of str
        What benchmarks of the run should have measured but did not.
    races : tuple of Target
        The ratios to other packages.
    """

    judged: tuple[Target, ...]
    missed: tuple[Missed, ...]
    unmeasured: tuple[str, ...]
    races: tuple[Target, ...]


def standing(reports: Sequence[Report], tried: Mapping[str, Sequence[str]]) -> Standing:
    """Compare what was measured with the bars."""
    judged = tuple(t for report in reports for t in report.targets if t.bar and t.measured is not None)
    attempted = [(t.bar, t) for report in reports for t in report.targets if t.bar]
    absent = [bar for bar in BARS.values() if bar.benchmark in {report.name for report in reports}]
    absent = [bar for bar in absent if bar not in [own for own, _ in attempted]]
    return Standing(
        judged,
        tuple(Missed(t, t.bar, tuple(tried.get(t.bar.name, ()))) for t in judged if t.bar and t.missed),
        (
            *(f"{bar.name} ({target.what})" for bar, target in attempted if target.measured is None),
            *(bar.name for bar in absent),
        ),
        tuple(t for report in reports for t in report.targets if t.race and t.measured is not None),
    )


def read_tried(path: Path = TRIED) -> dict[str, tuple[str, ...]]:
    """Return what was tried for each bar, by its name."""
    notes = tomllib.loads(path.read_text(encoding="utf-8"))
    strange = [name for name in notes if name not in BARS]
    if strange:
        raise ValueError(f"{path.name} has notes on unknown bars: {', '.join(strange)}.")
    return {name: tuple(note["tried"]) for name, note in notes.items()}
