"""Cases by turns -> how much time and memory the new version takes over the old one."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.bars import TURNS
from benchmarks.records import Target
from benchmarks.turns.versions import TurnError, Version

ORDER = ("old", "new", "new", "old")
"""One round: what drifts, the machine's clock or its other work, affects both sides alike."""


@dataclass(frozen=True)
class Sides:
    """What both versions measured, two numbers each for a round."""

    old: tuple[float, ...]
    new: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """New over old, round by round."""
        old, new = (np.reshape(side, (-1, 2)).sum(axis=1) for side in (self.old, self.new))
        return [float(ratio) for ratio in new / old]

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The quartiles of the ratios."""
        low, high = np.percentile(self.ratios, [25, 75])
        return float(low), float(high)


@dataclass(frozen=True)
class Comparison:
    """One part of a case.

    Attributes
    ----------
    unit : str
        What was measured: seconds, bytes or queries.
    processor : Sides, optional
        Seconds of all cores.
    """

    case: str
    part: str
    unit: str
    measured: Sides
    processor: Sides | None = None

    @property
    def target(self) -> Target:
        """The ratio beside its bar, if it has one."""
        what = f"{self.case}: {self.part}"
        processor = self.processor.ratio if self.processor else None
        return Target(what, self.measured.ratio, TURNS.get(what), between=self.measured.quartiles, processor=processor)


@dataclass(frozen=True)
class Turns:
    """Cases that ran by turns on one machine.

    Attributes
    ----------
    failed : mapping from str to str
        By case, the last line of what the process that failed wrote.
    facts : mapping from str to str
        The command, the machine and both versions.
    """

    comparisons: tuple[Comparison, ...]
    failed: Mapping[str, str]
    facts: Mapping[str, str]
    shrink: int


def compare(
    case: str,
    versions: Sequence[Version],
    shrink: int,
    rounds: int,
    folder: Path,
    on_turn: Callable[[int, int], None] = lambda *_: None,
) -> list[Comparison]:
    """Run a case by turns, each time in a process of its own.

    Each version runs once before it counts: that compiles to bytecode, writes tables and brings files into memory.

    Parameters
    ----------
    case : str
        Its name.
    versions : sequence of Version
        The old one and the new one.
    shrink : int
        Divides every number of rows.
    rounds : int
        Each has four turns: old, new, new, old.
    folder : Path
        Where tables are kept between turns.
    on_turn : callable
        Called before each process with its place, from 0, and the number of all processes.
    """
    named = {version.name: version for version in versions}
    turns = [*named, *ORDER * rounds]
    found: dict[str, list[dict[str, dict[str, float]]]] = {name: [] for name in named}
    for place, name in enumerate(turns):
        on_turn(place, len(turns))
        try:
            parts = named[name].run(case, shrink, folder)
        except TurnError as error:
            raise TurnError(f"the {name} version failed:\n{error}") from None
        if place >= len(named):
            found[name].append(parts)
    return [_comparison(case, part, found["old"], found["new"]) for part in found["old"][0]]


def _comparison(
    case: str, part: str, old: Sequence[dict[str, dict[str, float]]], new: Sequence[dict[str, dict[str, float]]]
) -> Comparison:
    def sides(unit: str) -> Sides:
        return Sides(tuple(turn[part][unit] for turn in old), tuple(turn[part][unit] for turn in new))

    units = old[0][part]
    processor = sides("processor") if "processor" in units else None
    unit = next(unit for unit in units if unit != "processor")
    return Comparison(case, part, unit, sides(unit), processor)
