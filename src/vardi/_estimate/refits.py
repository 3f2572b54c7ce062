"""Refits of a bootstrap: draws in batches that share passes over the rows, the same for any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from threadpoolctl import threadpool_limits

from vardi._estimate.resampling import DrawPlan, Kind
from vardi._machine.threads import THREADED, can_start, cores, executor
from vardi._rows import Rows
from vardi._rows.blocks import Blocks
from vardi._solve.refit import Refit
from vardi._types import Floats

TOLERANCE = 1e-6  # of a refit: far below the spread of any draw
BATCH = 32  # draws that a thread takes at once, which share their passes over the rows
SHARED_NUMBERS = 2**22  # counts in such a batch, at most: 100 MB or less
MANY_SHARED_NUMBERS = 2**25  # the same for a batch that has all threads to itself: 256 MB
BESIDE = 8  # ... or one in so many of the numbers in the matrix of biases, if that is more

Progress: TypeAlias = Callable[[int, int], object]


@dataclass(frozen=True, eq=False)
class Statistics:
    """What is taken of each draw: by default the log normalisers.

    Attributes
    ----------
    names : tuple of str
        A name for each.
    value : ndarray
        The statistics of the fit itself, in the shape that users see.
    functions : Any
        The functions of the rows whose means they are, as their holder keeps them; None if they are no means.
    of : callable, optional
        Returns them from multiplicities of a draw, and from the weights of ``rows`` in its refit, where counts and
        weights of ``rows`` are not enough.
    """

    names: tuple[str, ...]
    value: Floats
    functions: Any = None
    of: Callable[[Floats, Floats], Floats] | None = None


class Refits:
    """The refit of each draw, as a function of its number."""

    def __init__(
        self, held: Any, plan: DrawPlan, statistics: Statistics, kind: Kind, entropy: int | Sequence[int], jobs: int
    ) -> None:
        self.solved, self.plan, self.statistics, self.kind, self.entropy = held, plan, statistics, kind, entropy
        rows, self.jobs = plan.rows, jobs
        rows.anchor(held.solution.u)  # once for all refits, which do not move u far
        self.may_part = kind == "rows" and not _allow_all(rows)
        self.passes = None if self.may_part else held.shared_passes(self._functions)
        self.is_read = isinstance(rows, Blocks)
        has_threads = self.passes is not None and len(rows) * len(rows.sizes) >= THREADED
        self.in_turn = self.is_read or has_threads
        most = SHARED_NUMBERS // len(plan.arranged.order)
        if has_threads:
            most = max(MANY_SHARED_NUMBERS // len(plan.arranged.order), len(rows.sizes) // BESIDE)
        self.size = int(np.clip(most, 1, BATCH))
        self._reused: Floats | None = None
        if self.in_turn:  # one after the other in the same memory: allocating it afresh costs as much as a pass
            self._reused = np.empty((self.size, len(rows)))

    def batch(self, draws: range) -> list[tuple[Floats, Floats] | Refit]:
        """Return statistics and log normalisers of draws, or the refits that failed."""
        rngs, counts = [generator_of(self.entropy, i) for i in draws], self._space()
        drawn, factors = zip(*self._each(self._draw, self.in_turn, rngs, counts), strict=True)
        refits: Sequence[Refit | None] = [None] * len(draws)
        if self.passes is not None and len(draws) > 1:
            weights = self.statistics.of is not None
            refits = self.solved.refit_draws(self.passes, counts, tol=TOLERANCE, weights=weights)
        in_threads = self.in_turn and not self.is_read  # a draw that is solved on its own reads its rows
        return self._each(self._measured, in_threads, rngs, drawn, counts, factors, refits)

    def _space(self) -> Floats:
        """Return the array that the counts of a batch are written to."""
        return np.empty((self.size, len(self.plan.rows))) if self._reused is None else self._reused

    def _draw(self, rng: np.random.Generator, out: Floats) -> tuple[Floats | None, Floats]:
        """Write the counts of a draw; return what was drawn, if needed, and the factor of each sample."""
        plan = self.plan
        is_asked = self.statistics.of is not None
        space = out if plan.arranged.is_in_place and not is_asked else np.empty(len(plan.arranged.order))
        drawn = plan.draw(rng, self.kind, space)
        return (drawn if is_asked else None), plan.counts(drawn, out)

    def _measured(
        self, rng: np.random.Generator, drawn: Floats | None, counts: Floats, factors: Floats, refit: Refit | None
    ) -> tuple[Floats, Floats] | Refit:
        if refit is None:
            refit = self.solved.refit(counts, tol=TOLERANCE, may_part=self.may_part, rng=rng)
        if not refit.is_solved:
            return refit
        if self.statistics.functions is None and self.statistics.of is None:
            return refit.log_omegas, refit.log_omegas
        if refit.means is not None:
            return refit.means, refit.log_omegas
        assert refit.weights is not None
        if self.statistics.of is None:
            mass = counts * refit.weights
            return mass @ self._functions / mass.sum(), refit.log_omegas
        assert drawn is not None
        return self.statistics.of(drawn, self.plan.sample_by_sample(refit.weights, factors)), refit.log_omegas

    @property
    def _functions(self) -> Floats:
        """The functions whose means are the statistics, on the rows that have counts; none for normalisers alone."""
        functions = self.statistics.functions
        return np.empty((len(self.plan.rows), 0)) if functions is None else functions

    def _each(self, function: Callable[..., Any], in_threads: bool, *values: Iterable[Any]) -> list[Any]:
        """Apply a function to each draw of a batch."""
        if not in_threads or self.jobs == 1:
            return list(map(function, *values))
        with executor(self.jobs if self.jobs > 0 else cores()) as pool:
            return list(pool.map(function, *values))


def in_threads(refits: Refits, n: int, progress: Progress | None) -> Iterator[tuple[Floats, Floats] | Refit]:
    """Yield the refits of draws 0 to n - 1 in order, however many threads there are, if any.

    All batches have the same size, so that draw i gives the same digits for any n: the last may go beyond n. Batches
    run in turn where a pass uses threads itself, which takes the memory of one batch only, and where rows are read from
    disk, which only this thread does.
    """
    import joblib  # slow to load

    batches = [range(low, low + refits.size) for low in range(0, n, refits.size)]
    jobs = refits.jobs if can_start() and not refits.in_turn else 1
    with threadpool_limits(1, user_api="blas"):  # more threads in each would only compete for the cores
        parallel = joblib.Parallel(n_jobs=jobs, backend="threading", return_as="generator")
        for draws, results in zip(batches, parallel(map(joblib.delayed(refits.batch), batches)), strict=True):
            yield from results[: n - draws.start]
            if progress is not None:
                progress(min(draws.stop, n), n)


def in_turn(
    refit: Callable[[np.random.Generator], tuple[Floats, Floats] | Refit],
    entropy: int | Sequence[int],
    n: int,
    progress: Progress | None,
) -> Iterator[tuple[Floats, Floats] | Refit]:
    """Yield the refits of draws 0 to n - 1, one after the other."""
    for i in range(n):
        yield refit(generator_of(entropy, i))
        if progress is not None:
            progress(i + 1, n)


def _allow_all(rows: Rows) -> bool:
    """Return whether every bias allows every row, so that no draw can disconnect the samples."""
    sampled = np.flatnonzero(rows.sizes > 0)
    reach = rows.reach()[sampled][:, sampled]
    return isinstance(reach, np.ndarray) and bool((reach == rows.sizes[sampled]).all())


def generator_of(entropy: Any, i: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(entropy, spawn_key=(i,))))


def entropy_of(seed: int | np.random.Generator | None) -> Any:
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    return np.random.SeedSequence(seed).entropy
