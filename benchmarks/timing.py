"""Times of calls, taken by turns so that a slow minute of the machine affects every contestant alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.records import Settings, Times


@dataclass(frozen=True)
class Contestant:
    """A call that is timed beside others, and its name.

    Attributes
    ----------
    prepare : callable, optional
        Makes the argument of the call, for each call and untimed: a fit without cached answers, say.
    """

    who: str
    call: Callable[..., Any]
    prepare: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Timing:
    """The times of a contestant's calls.

    Attributes
    ----------
    first : float
        Seconds of the warm-up call, with compilation if there is any.
    times : Times, optional
        Times of the timed calls.
    result : object
        What the last call returned.
    failure : str
        Why there is no time; empty if there is one.
    """

    who: str
    first: float = 0.0
    times: Times | None = None
    result: Any = None
    failure: str = ""

    @property
    def warm_up(self) -> float:
        """The seconds by which the first call exceeded the median."""
        return self.first - (self.times.median if self.times else 0.0)

    @property
    def compiled(self) -> str:
        """The extra time of the first call, if it is worth mentioning."""
        long = self.times is not None and self.warm_up > max(0.2 * self.times.median, 0.1)
        return f"first call (compilation) {self.warm_up:.2g} s more" if long else ""


def race(contestants: Sequence[Contestant], settings: Settings) -> dict[str, Timing]:
    """Call each once to warm up, then give each its turn, round by round.

    A turn is one call or, if calls are short, as many as fit into it. A contestant that has used up the patience sits
    out the rest. An exception removes only its contestant from the race, with the reason on record.
    """
    timings = {contestant.who: _warmed_up(contestant) for contestant in contestants}
    with _collected():
        for _ in range(settings.repeats):
            for contestant in contestants:
                so_far = timings[contestant.who]
                if not so_far.failure and sum(so_far.times.wall if so_far.times else ()) <= settings.patience:
                    timings[contestant.who] = _turn(contestant, so_far, settings)
    return timings


def many_calls(call: Callable[[], Any], calls: int) -> Times:
    """Return the times of a call that is too short to be timed once."""
    for _ in range(min(calls, 20)):
        call()
    return _joined([timed(call)[0] for _ in range(calls)])


def timed(call: Callable[..., Any], *given: Any) -> tuple[Times, Any]:
    """Return the time of one call, and what it returned."""
    wall, processor = time.perf_counter(), time.process_time()
    result = call(*given)
    return Times((time.perf_counter() - wall,), (time.process_time() - processor,)), result


@contextmanager
def _collected() -> Iterator[None]:
    """Freeze existing objects, so that collecting garbage before each call does not take longer than the calls."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _turn(contestant: Contestant, so_far: Timing, settings: Settings) -> Timing:
    spent = 0.0
    for _ in range(settings.calls):
        so_far = _call(contestant, so_far)
        if so_far.failure:
            break
        assert so_far.times is not None
        spent += so_far.times.wall[-1]
        if spent >= settings.turn:
            break
    return so_far


def _warmed_up(contestant: Contestant) -> Timing:
    called = _call(contestant, Timing(contestant.who))
    return replace(called, first=called.times.wall[0], times=None) if called.times else called


def _call(contestant: Contestant, so_far: Timing) -> Timing:
    try:
        given = () if contestant.prepare is None else (contestant.prepare(),)
        gc.collect()
        times, result = timed(contestant.call, *given)
    except Exception as error:  # a peer that fails is a finding, not the end of the run
        return Timing(contestant.who, failure=f"failed: {type(error).__name__}: {str(error).strip()[:200]}")
    return replace(so_far, times=_joined([*([so_far.times] if so_far.times else []), times]), result=result)


def _joined(parts: Sequence[Times]) -> Times:
    return Times(tuple(t for part in parts for t in part.wall), tuple(t for part in parts for t in part.processor))
