"""The machine: work in threads, and the memory that there is.

Sums over blocks of rows are made in threads; blocks and their order never depend on how many threads there are.
"""

from __future__ import annotations

import functools
import operator
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from vardi.errors import TooLargeError

Result = TypeVar("Result")
Item = TypeVar("Item")

_this_thread = threading.local()  # whether it is one of as many as there are cores

BLOCK = 240_000  # numbers in a block: 2 MB, so what a step writes is still in the cache when it is read again
LONG_BLOCK = 2**20  # numbers of a block up to which it may grow, so that its sums cost little beside it
THREADED = 1_000_000  # numbers above which threads are worth starting
CGROUP = Path("/sys/fs/cgroup")
ALWAYS = 2**26  # bytes that are allocated without a check


def blocks(n: int, width: int, sums: int | None = None) -> list[slice]:
    """Split n rows of the given width into slices of about BLOCK numbers, at least half as many as a block's sums.

    ``sums`` is how many numbers these are, width^2 by default. They are written and added once for each block, which
    should not cost more than the block itself: where it may have four times as many numbers, it does.
    """
    width, most = max(width, 1), LONG_BLOCK // max(width, 1)
    per_row = (width**2 if sums is None else sums) // width
    step = max(BLOCK // width, min(4 * per_row, most), per_row // 2, 64)
    return [slice(low, min(low + step, n)) for low in range(0, n, step)]


def map_blocks(function: Callable[[slice], Result], n: int, width: int) -> Iterator[Result]:
    """Apply the function to every block, in threads if that pays, and yield the results in order."""
    for results in _map_runs(lambda run: [function(part) for part in run], n, width):
        yield from results


def sum_blocks(function: Callable[[slice], Result], n: int, width: int, sums: int | None = None) -> Result:
    """Sum the function's results over all blocks, in an order that is the same for any number of threads.

    ``sums`` is how many numbers a result has, if not width^2.
    """
    total = functools.partial(functools.reduce, operator.add)
    return total(_map_runs(lambda run: total(map(function, run)), n, width, sums))


def at_once(function: Callable[[Item], Result], items: Sequence[Item], n: int) -> list[Result]:
    """Apply the function, which goes over n rows, to each item: several at a time when that pays.

    It may itself work in threads, while there are more cores than items; the results never depend on how many.
    """
    workers = min(cores(), len(items)) if n * len(items) >= THREADED else 1
    if workers <= 1:
        return [function(item) for item in items]

    def alone(item: Item) -> Result:
        _this_thread.has_a_core = workers == cores()
        return function(item)

    with single_threaded_blas(), executor(workers) as pool:
        return list(pool.map(alone, items))


def _map_runs(
    function: Callable[[list[slice]], Result],
    n: int,
    width: int,
    sums: int | None = None,
    tasks_each: int = 8,
    numbers: int = 2**24,
) -> Iterator[Result]:
    """Apply the function to 16 to 256 runs of blocks, which never depend on the threads, and have sums of their own.

    Each thread takes few tasks of several runs, since handing over costs more than a small block; the sums of all runs
    are so many numbers, if that allows more than the fewest runs.
    """
    slices = blocks(n, width, sums)
    runs = _cut(slices, min(max(numbers // max(width**2 if sums is None else sums, 1), 16), 256))
    is_one_of_many = getattr(_this_thread, "has_a_core", False)  # starting more threads would only take time
    workers = min(cores(), len(slices)) if n * width >= THREADED and not is_one_of_many else 1
    if workers == 1:
        yield from map(function, runs)
        return
    tasks = _cut(runs, tasks_each * workers)
    with single_threaded_blas(), executor(workers) as pool:
        for results in pool.map(lambda task: list(map(function, task)), tasks):
            yield from results


def _cut(items: list[Item], pieces: int) -> list[list[Item]]:
    """Split a list into at most ``pieces`` pieces of equal length."""
    length = -(-len(items) // pieces)
    return [items[low : low + length] for low in range(0, len(items), length)]


def cores() -> int:
    """Return how many threads may run at once, as joblib counts them, from the process's limits and environment."""
    return loaded("joblib").cpu_count()  # slow to load, and small problems run in one thread


def loaded(package: str) -> Any:
    """Import a package in a thread of its own: Ctrl-C, which reaches the main one, would leave it half imported."""
    if package in sys.modules:
        return import_module(package)  # waits if another thread has not finished it
    with executor(1) as pool:
        return pool.submit(import_module, package).result()


def can_start() -> bool:
    """Return whether a thread can be started: in a browser none can.

    It is checked each time, in less than a tenth of a millisecond, since a limit of the system may come and go.
    """
    thread = threading.Thread(target=int)
    try:
        thread.start()
    except RuntimeError:
        return False
    thread.join()
    return True


def executor(workers: int) -> Executor:
    """Return threads to work in, or this one if no other can be started."""
    return ThreadPoolExecutor(workers) if can_start() else _InThisThread()


class _InThisThread(Executor):
    """Runs what is submitted immediately."""

    def submit(self, function: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        future: Future[Result] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Scratch(threading.local):
    """Arrays that a thread reuses from block to block: fresh memory for each costs as much as the arithmetic."""

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[np.float64]] = {}

    def __call__(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return an array of the shape, with arbitrary contents."""
        array = self._arrays.get(name)
        if array is None or array.shape[1:] != shape[1:] or len(array) < shape[0]:
            array = self._arrays[name] = np.empty(shape)
        return array[: shape[0]]


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # once, since finding the BLAS takes a millisecond


def single_threaded_blas() -> AbstractContextManager[object]:
    """Limit the BLAS to one thread: its own threads inside each of ours would only get in the way."""
    limits: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limits


def available_memory() -> int:
    """Return the bytes that this process could still allocate: of the machine, or of its container if that has less.

    Linux reports what is available; other systems mostly report the total, of which half is assumed. If nothing is
    known it is 2 GiB.
    """
    machine = _of_machine()
    container = _of_container()
    return machine if container is None else min(machine, container)


def require_memory(needed: int, what: str, remedy: str) -> None:
    """Refuse what needs more memory than is available, before any of it is allocated."""
    if needed <= ALWAYS:
        return
    available = available_memory()
    if needed > available:
        raise TooLargeError(
            f"{what} need {_shown(needed)} of memory, but {_shown(available)} is available. {remedy}", bytes=needed
        )


def _shown(size: int) -> str:
    return f"{size / 2**30:,.1f} GB" if size >= 2**30 / 10 else f"{size / 2**20:,.1f} MB"


def _of_machine() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, OSError, ValueError):
        return 2 * 2**30


def _of_container() -> int | None:
    try:
        limit = (CGROUP / "memory.max").read_text(encoding="ascii").strip()
        used = int((CGROUP / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return None if limit == "max" else max(int(limit) - used, 0)
