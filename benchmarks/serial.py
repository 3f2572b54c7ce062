"""The share of a solve that is not divided among threads: run by ``python -m benchmarks.serial``.

A solve runs in one thread, and the process time that it spends on blocks of rows, which the threads of all cores would
share, is separated from the rest. Two sizes separate what is linear in the rows from what is not, from which the share
at 10 million rows follows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

import vardi
from benchmarks.problems import Problem, oscillators
from vardi import _machine as threads

ROWS, STATES, WANTED, CORES = 1_000_000, 50, 10_000_000, 64


@dataclass(frozen=True)
class Shares:
    """Process time of a call, and how much of it was spent on blocks of rows."""

    rows: int
    whole: float
    in_blocks: float

    @property
    def serial(self) -> float:
        """Return the share of the work that only one thread does."""
        return 1.0 - self.in_blocks / self.whole

    def __str__(self) -> str:
        return (
            f"n = {self.rows:>10,}: {self.whole:.3f} s in all, {self.whole - self.in_blocks:.3f} s not in blocks: "
            f"serial share {self.serial:.1%}"
        )


@contextmanager
def _watched() -> Iterator[list[float]]:
    """Work in one thread, and record the time of each run of blocks."""
    spent: list[float] = []
    as_it_is = threads._map_runs

    def timed(function: Callable[..., Any], *sizes: Any) -> Iterator[Any]:
        def run(part: Any) -> Any:
            start = time.process_time()
            result = function(part)
            spent.append(time.process_time() - start)
            return result

        return as_it_is(run, *sizes)

    with mock.patch("joblib.cpu_count", return_value=1), mock.patch.object(threads, "_map_runs", timed):
        yield spent


def shares(problem: Problem, repeats: int) -> Shares:
    """Return the shares of the fastest repeat."""
    found: list[Shares] = []
    with _watched() as spent, threads.single_threaded_blas():
        for _ in range(repeats):
            spent.clear()
            start = time.process_time()
            vardi.debias_matrix(problem.matrix, problem.source, log=True)
            found.append(Shares(len(problem.source), time.process_time() - start, sum(spent)))
    return min(found, key=lambda one: one.whole)


def at(rows: int, small: Shares, large: Shares) -> Shares:
    """Return the shares at another size, by a line through two sizes."""
    part = (rows - small.rows) / (large.rows - small.rows)
    whole, in_blocks = (
        low + part * (high - low) for low, high in ((small.whole, large.whole), (small.in_blocks, large.in_blocks))
    )
    return Shares(rows, whole, in_blocks)


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--states", type=int, default=STATES)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    large = oscillators(given.rows, given.states)
    half = np.arange(0, len(large.source), 2)
    small = Problem(large.matrix[half], large.source[half])
    found = [shares(problem, given.repeats) for problem in (small, large)]
    projected = at(WANTED, *found)
    print(f"K = {given.states}, log omega, process time of one thread")
    for one in (*found, projected):
        print(f"{one}{' (by the line through both)' if one is projected else ''}")
    print(f"At most {1.0 / (projected.serial + (1.0 - projected.serial) / CORES):.0f} times as fast on {CORES} cores")


if __name__ == "__main__":
    main()
