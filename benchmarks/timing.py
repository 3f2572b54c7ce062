"""Times of calls, taken alternately so that a slow minute of the machine hits every contestant alike."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Contestant:
    """A call that is timed beside others, and whose it is."""

    who: str
    call: Callable[[], Any]


@dataclass(frozen=True)
class Timing:
    """What a contestant's calls took.

    Attributes
    ----------
    first : float
        The warm-up call: with compilation, where there is any.
    times : tuple of float
        Of the timed calls.
    result : object
        What the last call returned.
    failure : str
        Why there is no time; empty where there is one.
    """

    who: str
    first: float = 0.0
    times: tuple[float, ...] = ()
    result: Any = None
    failure: str = ""

    @property
    def calls(self) -> int:
        """How many calls were timed."""
        return len(self.times)

    @property
    def best(self) -> float | None:
        """The fastest of them."""
        return min(self.times, default=None)

    @property
    def median(self) -> float | None:
        """The median of them."""
        return statistics.median(self.times) if self.times else None

    @property
    def warm_up(self) -> float:
        """What the first call took beyond the best one."""
        return self.first - (self.best or 0.0)


def race(contestants: Sequence[Contestant], repeats: int, patience: float = float("inf")) -> dict[str, Timing]:
    """Call each once to warm up, then all of them in turn, ``repeats`` times over.

    Who has used up ``patience`` seconds of timed calls sits out the rest. An exception takes its contestant out of the
    race, with the reason on record, and nobody else.
    """
    timings = {contestant.who: _call(contestant, Timing(contestant.who), warm_up=True) for contestant in contestants}
    spent = dict.fromkeys(timings, 0.0)
    for _ in range(repeats):
        for contestant in contestants:
            who = contestant.who
            if timings[who].failure or spent[who] > patience:
                continue
            started = time.perf_counter()
            timings[who] = _call(contestant, timings[who], warm_up=False)
            spent[who] += time.perf_counter() - started
    return timings


def median_seconds(call: Callable[[], Any], calls: int) -> float:
    """Return the median over many calls of one that is too short to be timed once."""
    for _ in range(min(calls, 20)):
        call()
    times = []
    for _ in range(calls):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def _call(contestant: Contestant, so_far: Timing, *, warm_up: bool) -> Timing:
    gc.collect()
    started = time.perf_counter()
    try:
        result = contestant.call()
    except Exception as error:  # a peer that fails is a finding, not the end of the run
        return Timing(contestant.who, failure=f"failed: {type(error).__name__}: {str(error).strip()[:200]}")
    seconds = time.perf_counter() - started
    if warm_up:
        return Timing(contestant.who, first=seconds, result=result)
    return Timing(contestant.who, so_far.first, (*so_far.times, seconds), result)
