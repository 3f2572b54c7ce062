"""Run experiments many times, in parallel, and keep each finished run on disk.

A run is a function of the seed, the experiment's name and the run's number alone, and computes on one thread: its
numbers are the same whatever the number of jobs, in whatever order, and after an interruption.
"""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from importlib.metadata import version
from multiprocessing import current_process
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from paper.experiment import Cell, Experiment, Scores
from paper.files import made_folder, write
from paper.trial import Floats
from vardi import OutputError

Progress: TypeAlias = Callable[[str, int, int], object]
"""Called with the experiment's name, how many of its runs are finished, and how many are wanted."""


@dataclass(frozen=True)
class Settings:
    """What the results of a run depend on, besides its number."""

    seed: int = 0
    trees: int = 1000

    def as_text(self) -> dict[str, Any]:
        """Return the settings as they are stored with each run, with the versions that computed it."""
        versions = {name: version(name) for name in ("vardi", "numpy", "scipy", "scikit-learn")}
        return {"seed": self.seed, "trees": self.trees} | versions


def run_all(
    experiments: Sequence[Experiment],
    runs: int,
    folder: Path,
    settings: Settings,
    *,
    jobs: int = 1,
    progress: Progress | None = None,
) -> dict[Cell, Floats]:
    """Run what is missing, and return each cell's scores in the order of the runs.

    Parameters
    ----------
    experiments : sequence of Experiment
        What to run.
    runs : int
        How many runs of each.
    folder : Path
        Where finished runs are kept: ``folder / name / 0000.json``.
    settings : Settings
        The seed, and the largest forest.
    jobs : int
        Number of processes.
    progress : callable, optional
        Called for each finished run.

    Raises
    ------
    OutputError
        If the folder holds runs with other settings, or a file that is not a run.
    """
    wanted = {experiment.name: [_path(folder, experiment, run) for run in range(runs)] for experiment in experiments}
    for paths in wanted.values():
        for path in paths:
            if path.exists():
                _read(path, settings)
    for experiment in experiments:
        _run_missing(experiment, wanted[experiment.name], settings, jobs, progress)
    return {
        cell: scores
        for paths in wanted.values()
        for cell, scores in _columns([_read(path, settings) for path in paths]).items()
    }


def _path(folder: Path, experiment: Experiment, run: int) -> Path:
    return folder / experiment.name / f"{run:04d}.json"


def _run_missing(
    experiment: Experiment, paths: Sequence[Path], settings: Settings, jobs: int, progress: Progress | None
) -> None:
    missing = [run for run, path in enumerate(paths) if not path.exists()]
    report = progress or (lambda name, finished, total: None)
    report(experiment.name, len(paths) - len(missing), len(paths))
    if missing:
        made_folder(paths[0].parent)
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", pre_dispatch="1.5*n_jobs")
    tasks = (joblib.delayed(_run_one)(experiment, run, paths[run], settings) for run in missing)
    with deaf_to_interruptions():
        results = parallel(tasks)
    with closing(_generator(results)) as finished:
        for done, _ in enumerate(finished, start=1):
            report(experiment.name, len(paths) - len(missing) + done, len(paths))


@contextmanager
def deaf_to_interruptions() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach, even while they load: their parent ends them.

    Signals that a thread blocks are also blocked in the processes that it starts. A Ctrl-C in the meantime is not lost:
    it arrives when the block ends. Windows has no such masks; processes there ignore it once they work.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _generator(results: Any) -> Generator[None]:
    # A generator around joblib's, so that an interruption closes it and ends its workers.
    yield from results


def _run_one(experiment: Experiment, run: int, path: Path, settings: Settings) -> None:
    if current_process().name != "MainProcess":  # on Windows, where processes inherit no signals
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    with threadpool_limits(limits=1):
        scores = experiment.run(seeds_of(experiment.name, run, settings.seed), settings.trees)
    content = {"settings": settings.as_text(), "scores": [[*astuple(cell), or_none(scores[cell])] for cell in scores]}
    write(path, json.dumps(content, indent=0).encode())


def or_none(score: float) -> float | None:
    """Return a score as JSON can hold it."""
    return None if math.isnan(score) else float(score)


def seeds_of(name: str, run: int, seed: int) -> np.random.SeedSequence:
    """Return the seeds of one run of an experiment."""
    return np.random.SeedSequence([seed, crc32(name.encode()), run])


def _read(path: Path, settings: Settings) -> Scores:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found, rows = content["settings"], content["scores"]
        scores = {Cell(*names): math.nan if score is None else float(score) for *names, score in rows}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OutputError(
            f"{path} is not a finished run: {error}. Remove it, and it will be computed again.", path=str(path)
        ) from error
    if found != settings.as_text():
        differing = ", ".join(
            f"{name} {found.get(name)} there and {value} now"
            for name, value in settings.as_text().items()
            if found.get(name) != value
        )
        raise OutputError(
            f"{path} is a run with other settings ({differing}), and runs are not mixed. Give another output folder, "
            "or start this one again.",
            path=str(path),
        )
    return scores


def _columns(runs: Sequence[Mapping[Cell, float]]) -> dict[Cell, Floats]:
    return {cell: np.array([scores[cell] for scores in runs]) for cell in runs[0]} if runs else {}
