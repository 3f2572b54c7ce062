"""A matrix on disk that is read in blocks, at growing n: ``python -m benchmarks.blocks FILE ROWS BATCHES``.

The number of states is that of the largest data set that users of pymbar asked about (its issue 574: K = 309, n = 9.27
million, 23 GB as float64).
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import vardi
from benchmarks.growth import slope
from benchmarks.peers import VARDI
from benchmarks.process import in_fresh_process, watched_memory
from benchmarks.records import Record, Report, Settings, Target, Times
from benchmarks.timing import timed

STATES = 309
ROWS = 1500  # of each state in a batch
BATCHES, ALL_BATCHES = (1, 2, 4), (1, 2, 4, 20)  # with --full 9.27 million rows, 11.5 GB


def blocks(settings: Settings) -> Report:
    """Solve more and more rows of one file, each time in a fresh process."""
    batches = ALL_BATCHES if settings.full else BATCHES
    rows = settings.rows(ROWS, least=2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log_omega.npy"
        write_oscillators(path, rows, max(batches))
        found = [in_fresh_process("blocks", path, rows, count) for count in batches]
    records = [_record(STATES * rows * count, probe) for count, probe in zip(batches, found, strict=True)]
    return Report(
        "blocks",
        f"Harmonic oscillators, K = {STATES}, log omega as float32 in a file that is mapped and read block by block. "
        "Memory is what is not of the file, less what was there before the solve, as a multiple of the file.",
        tuple(records),
        (_growth([STATES * rows * count for count in batches], found),),
        () if settings.full else ("--full goes on to n = 9,270,000, a file of 11.5 GB.",),
    )


def _record(n: int, probe: dict[str, Any]) -> Record:
    work = f"n = {n:,}, K = {STATES}"
    if "failed" in probe:
        return Record(work, VARDI, note=f"failed: {probe['failed']}")
    note = f"passes: {probe['passes']}, over {probe['bytes'] / 1e9:.2f} GB, {probe['extra'] / 1e9:.2f} GB of memory"
    return Record(work, VARDI, Times.of(probe), probe["residual"], probe["extra"] / probe["bytes"], note)


def _growth(sizes: list[int], found: list[dict[str, Any]]) -> Target:
    times = [None if "failed" in probe else Times.of(probe).processor_median for probe in found]
    return Target("slope of processor time in n", slope(sizes, times), unit="")


def write_oscillators(path: Path, rows: int, batches: int) -> None:
    """Write batches of rows, each with all states in order, so that any first batches are a complete problem."""
    centre, spring = 1.0 * np.arange(STATES), np.linspace(1.0, 2.0, STATES)
    rng = np.random.default_rng(85)
    header = {"descr": "<f4", "fortran_order": False, "shape": (STATES * rows * batches, STATES)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for k in np.tile(np.arange(STATES), batches):
            x = rng.normal(centre[k], 1 / np.sqrt(spring[k]), rows)
            ((x[:, None] - centre) ** 2 * (-spring / 2)).astype("<f4").tofile(file)


def probe(path: str, rows: str, batches: str) -> dict[str, Any]:
    """Solve in this process, which was started for it, with the arguments of its command line."""
    from vardi._rows import stored

    passes, read = [0], stored.Reader.blocks

    def counted(self: Any) -> Any:
        passes[0] += 1
        return read(self)

    source = np.tile(np.repeat(np.arange(STATES), int(rows)), int(batches))
    matrix = np.load(path, mmap_mode="r")[: len(source)]
    with mock.patch.object(stored.Reader, "blocks", counted), watched_memory() as memory:
        times, fit = timed(partial(vardi.debias_matrix, matrix, source, log=True))
    return {
        "bytes": matrix.nbytes,
        "extra": memory[1] - memory[0],
        **asdict(times),
        "passes": passes[0],
        "residual": fit.solution.residual,
    }


if __name__ == "__main__":
    print(json.dumps(probe(*sys.argv[1:])))
