"""Every table and figure of the paper, in one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from vardi._machine.atomic_write import whole_file
from vardi.errors import MismatchError, OutputError, suggest
from vardi.paper._adult import ADULT, AGE
from vardi.paper._boston import BOSTON
from vardi.paper._clusters import CLUSTERS
from vardi.paper._comparison import Agreement, Obtained, agreement, compare, obtained, write_csv
from vardi.paper._experiment import Cell, Experiment
from vardi.paper._gaussian import FIRST_COMPONENT, NORM
from vardi.paper._layout import Table, tables
from vardi.paper._lengths import LENGTHS
from vardi.paper._page import Drawing, to_html
from vardi.paper._rates import RATES
from vardi.paper._runs import Progress, Settings, run_all
from vardi.paper._trial import Floats

EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment for experiment in (BOSTON, ADULT, AGE, NORM, FIRST_COMPONENT, CLUSTERS, LENGTHS, RATES)
}
FIGURES = "figures"
NAMES = (*EXPERIMENTS, FIGURES)
UNSHOWN = ("rates",)  # the table is too long to read: see its CSV and its figure


@dataclass(frozen=True)
class Reproduction:
    """The result of a reproduction.

    Attributes
    ----------
    lines : tuple of Obtained
        Each cell's mean and spread over the runs.
    tables : tuple of Table
        The same in readable form, beside the printed numbers.
    agreement : Agreement
        How well they agree with the printed numbers.
    page : Path
        The HTML page; CSV files are in ``tables``, drawings in ``figures`` beside it.
    """

    lines: tuple[Obtained, ...]
    tables: tuple[Table, ...]
    agreement: Agreement
    page: Path


def reproduce(
    names: Sequence[str] = (),
    *,
    output: str | Path,
    runs: int = 100,
    jobs: int = 2,
    seed: int = 0,
    trees: int = 1000,
    progress: Progress | None = None,
) -> Reproduction:
    """Reproduce the paper's experiments, and write its tables and figures beside the printed numbers.

    Parameters
    ----------
    names : sequence of str
        Names from ``NAMES``; none means all.
    output : path
        Folder of the results. Finished runs are kept in it, and are not computed again.
    runs : int
        Runs of each experiment; the paper has 100.
    jobs : int
        Number of processes. It changes the time, never the numbers.
    seed : int
        Seed of all runs.
    trees : int
        The largest forest to grow; cells of larger ones are left out.
    progress : callable, optional
        Called with the experiment's name, how many of its runs are finished, and how many are wanted.

    Returns
    -------
    Reproduction
        The numbers, and where they are written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     clusters = reproduce(["clusters"], output=folder, runs=2, jobs=1)
    ...     sorted(path.name for path in (clusters.page.parent / "tables").iterdir())
    ['clusters.csv']
    >>> for line in clusters.lines[::5]:
    ...     print(f"{line.cell.method}: the centroids found are {line.mean:.1f} away from the true ones")
    EM on unbiased data: the centroids found are 0.1 away from the true ones
    EM: the centroids found are 1.0 away from the true ones
    debiased EM: the centroids found are 0.2 away from the true ones
    """
    chosen = _chosen(names)
    for name, number in (("runs", runs), ("jobs", jobs), ("trees", trees)):
        if number < 1:
            raise MismatchError(f"{name} is {number}. Give 1 or more.")
    folder = _folder(Path(output))
    settings = Settings(seed=seed, trees=trees)
    scores = run_all(
        [EXPERIMENTS[name] for name in chosen if name in EXPERIMENTS],
        runs,
        folder / "runs",
        settings,
        jobs=jobs,
        progress=progress,
    )
    lines = obtained(scores)
    agreed = agreement(compare(lines))
    _write_tables(lines, folder / "tables")
    drawings = list(_draw(chosen, scores, folder / "figures"))
    shown = [table for table in tables(lines) if table.name not in UNSHOWN]
    facts = [("runs", str(runs)), *((name, str(value)) for name, value in settings.as_text().items())]
    page = folder / "index.html"
    with whole_file(page, overwrite=True) as temporary:
        temporary.write_text(to_html(shown, agreed, drawings, facts), encoding="utf-8")
    return Reproduction(tuple(lines), tuple(shown), agreed, page)


def _chosen(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in NAMES:
            raise MismatchError(
                f"The paper has no experiment {name!r}.{suggest(name, NAMES)} There are {', '.join(NAMES)}."
            )
    return tuple(name for name in NAMES if name in names) or NAMES


def _folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"The folder {path} cannot be made: {error.strerror}.", path=str(path)) from error
    return path


def _write_tables(lines: Iterable[Obtained], folder: Path) -> None:
    _folder(folder)
    ordered = sorted(lines, key=lambda line: line.cell.table)
    for name, group in groupby(ordered, key=lambda line: line.cell.table):
        with whole_file(folder / f"{name}.csv", overwrite=True) as temporary, temporary.open("w", newline="") as file:
            write_csv(group, file)


def _draw(chosen: Sequence[str], scores: Mapping[Cell, Floats], folder: Path) -> Iterator[Drawing]:
    """Draw the figures asked for: those of the experiments run, and with ``figures`` all others."""
    from vardi.paper._figures import FIGURES as ILLUSTRATIONS
    from vardi.paper._figures import save

    for stem, figure in ILLUSTRATIONS.items():
        if (figure.needs or FIGURES) not in chosen:
            continue
        _folder(folder)
        save(figure.draw(scores) if figure.needs else figure.draw(), folder, stem)
        yield Drawing(stem, figure.title, figure.caption, (folder / f"{stem}.svg").read_bytes())
