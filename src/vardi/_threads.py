"""Work in threads: sums over blocks of rows, whose blocks and order never depend on how many threads there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")

BLOCK = 240_000  # numbers in a block: 2 MB, so that what a step writes is still in cache when it is read again
TASKS = 16  # runs of blocks handed to threads: few, as handing over costs more than a small block
THREADED = 1_000_000  # numbers from which threads pay for their start


def blocks(n: int, width: int) -> list[slice]:
    """Cut n rows of the given width into slices of about BLOCK numbers."""
    step = max(BLOCK // max(width, 1), 64)
    return [slice(low, min(low + step, n)) for low in range(0, n, step)]


def map_blocks(function: Callable[[slice], Result], n: int, width: int) -> Iterator[Result]:
    """Apply the function to every block, in threads when that pays, and give the results in order."""
    slices = blocks(n, width)
    workers = min(joblib.cpu_count(), len(slices)) if n * width >= THREADED else 1
    if workers == 1:
        yield from map(function, slices)
        return
    runs = [slices[low : low + len(slices) // TASKS + 1] for low in range(0, len(slices), len(slices) // TASKS + 1)]
    with single_threaded_blas(), ThreadPoolExecutor(workers) as pool:
        for results in pool.map(lambda run: [function(part) for part in run], runs):
            yield from results


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # finding the BLAS takes a millisecond, so once


@contextmanager
def single_threaded_blas() -> Iterator[Any]:
    """Keep the BLAS to one thread: threads of its own inside each of ours would only get in the way."""
    with _controller().limit(limits=1, user_api="blas") as limits:
        yield limits
