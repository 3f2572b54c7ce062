"""What a benchmark takes and returns: small frozen values, rendered elsewhere."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Settings:
    """How large and how often.

    Attributes
    ----------
    shrink : int
        Divides every number of rows: 1 for numbers worth quoting, 20 for ``--quick``.
    repeats : int
        Rounds in which every contestant has its turn.
    full : bool
        Whether slow contestants run at the largest size, instead of being scaled or left out.
    calls : int
        Calls in one turn at most.
    turn : float
        Seconds after which a turn ends; it has at least one call.
    patience : float
        Seconds of timed calls after which a contestant sits out the remaining rounds.
    """

    shrink: int = 1
    repeats: int = 3
    full: bool = False
    calls: int = 5
    turn: float = 1.0
    patience: float = 20.0

    def rows(self, n: int, *, least: int = 1) -> int:
        """Return how many rows a design of n rows has here."""
        return max(n // self.shrink, least)

    def samples(self, K: int, *, least: int = 5) -> int:
        """Return how many samples a design of K samples has here, if their number is what makes it large."""
        return max(K // math.isqrt(self.shrink), min(least, K))


@dataclass(frozen=True)
class Times:
    """Seconds of each call, by the clock and summed over all cores."""

    wall: tuple[float, ...]
    processor: tuple[float, ...] = ()

    @classmethod
    def of(cls, *probes: Mapping[str, Any]) -> Times:
        """Return the times measured by other processes, from the JSON that they wrote."""
        return cls(tuple(t for p in probes for t in p["wall"]), tuple(t for p in probes for t in p["processor"]))

    @property
    def calls(self) -> int:
        """How many calls there were."""
        return len(self.wall)

    @property
    def median(self) -> float:
        """Their median by the clock."""
        return statistics.median(self.wall)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The quartiles, between which the middle half of them lies."""
        low, high = np.percentile(self.wall, [25, 75])
        return float(low), float(high)

    @property
    def processor_median(self) -> float | None:
        """Their median in processor time."""
        return statistics.median(self.processor) if self.processor else None

    def scaled(self, factor: float) -> Times:
        """Return the times of calls that take ``factor`` times as long."""
        return Times(tuple(factor * t for t in self.wall), tuple(factor * t for t in self.processor))


@dataclass(frozen=True)
class Record:
    """One contestant on one task. None marks what was not measured."""

    work: str
    who: str
    times: Times | None = None
    accuracy: float | None = None  # max_k |Gamma_k - 1|, the residual of Vardi's system
    extra_memory: float | None = None  # as a multiple of the input matrix
    note: str = ""

    @property
    def seconds(self) -> float | None:
        """The median of its calls."""
        return self.times.median if self.times else None


@dataclass(frozen=True)
class Bar:
    """A number to reach.

    Attributes
    ----------
    name : str
        Its name in ``tried.toml``.
    benchmark : str
        The benchmark that measures it.
    """

    name: str
    benchmark: str
    level: float
    higher_is_better: bool = False

    def reached(self, measured: float) -> bool:
        """Return whether a number, rounded as shown, is as good as the level."""
        shown = float(f"{measured:.3g}")
        return shown >= self.level if self.higher_is_better else shown <= self.level


@dataclass(frozen=True)
class Target:
    """What was measured, beside the number to reach if there is one.

    Attributes
    ----------
    between : pair of float, optional
        The range of a ratio that the quartiles of its times allow.
    processor : float, optional
        The ratio in processor time.
    race : bool
        Whether it is a ratio to other packages, for which the page states whether vardi is the fastest.
    """

    what: str
    measured: float | None
    bar: Bar | None = None
    unit: str = "x"
    note: str = ""
    between: tuple[float, float] | None = None
    processor: float | None = None
    race: bool = False

    @property
    def missed(self) -> bool:
        """Whether there is a bar that was not reached."""
        return self.bar is not None and self.measured is not None and not self.bar.reached(self.measured)

    @property
    def verdict(self) -> str:
        """Say whether the bar is reached."""
        if self.measured is None:
            return "not measured"
        if self.bar is None:
            return "no bar"
        return "NOT reached" if self.missed else "reached"


def ratio(
    what: str,
    over: Times | None,
    under: Times | None,
    bar: Bar | None = None,
    note: str = "",
    *,
    race: bool = False,
) -> Target:
    """Return how many times as long one took as the other: medians, with the range that their quartiles allow."""
    if over is None or under is None:
        return Target(what, None, bar, note=note, race=race)
    (low, high), (least, most) = over.quartiles, under.quartiles
    processor = None
    if over.processor_median and under.processor_median:
        processor = over.processor_median / under.processor_median
    return Target(what, over.median / under.median, bar, "x", note, (low / most, high / least), processor, race)


@dataclass(frozen=True)
class Report:
    """The results of one benchmark."""

    name: str
    about: str
    records: tuple[Record, ...] = ()
    targets: tuple[Target, ...] = ()
    remarks: tuple[str, ...] = field(default=())
    failed: bool = False


@dataclass(frozen=True)
class Run:
    """Benchmarks that ran one after the other on one machine.

    Attributes
    ----------
    facts : mapping from str to str
        The machine.
    versions : mapping from str to str
        Versions of the installed packages.
    took : mapping from str to float
        Seconds of each benchmark.
    """

    reports: tuple[Report, ...]
    settings: Settings
    command: str
    facts: Mapping[str, str]
    versions: Mapping[str, str]
    took: Mapping[str, float]

    @property
    def judged(self) -> bool:
        """Whether it ran at the sizes to which the bars apply."""
        return self.settings.shrink == 1

    @property
    def failed(self) -> list[str]:
        """The names of the benchmarks that failed."""
        return [report.name for report in self.reports if report.failed]
