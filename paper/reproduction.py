"""Every table and figure of the paper, in one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from paper.adult import ADULT, AGE
from paper.boston import BOSTON
from paper.clusters import CLUSTERS
from paper.comparison import Agreement, Obtained, agreement, compare, obtained, to_csv
from paper.experiment import Cell, Experiment
from paper.figures import FIGURES as ILLUSTRATIONS
from paper.figures import save
from paper.files import made_folder, write
from paper.gaussian import FIRST_COMPONENT, NORM
from paper.layout import Table, tables
from paper.lengths import LENGTHS
from paper.page import Drawing, to_html
from paper.rates import RATES
from paper.runs import Progress, Settings, run_all
from paper.trial import Floats
from vardi.errors import suggest

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
    which = chosen(names)
    for name, number in (("runs", runs), ("jobs", jobs), ("trees", trees)):
        if number < 1:
            raise ValueError(f"{name} is {number}. Give 1 or more.")
    folder = made_folder(Path(output))
    settings = Settings(seed=seed, trees=trees)
    scores = run_all(
        [EXPERIMENTS[name] for name in which if name in EXPERIMENTS],
        runs,
        folder / "runs",
        settings,
        jobs=jobs,
        progress=progress,
    )
    lines = obtained(scores)
    agreed = agreement(compare(lines))
    _write_tables(lines, folder / "tables")
    drawings = list(_draw(which, scores, folder / "figures"))
    shown = [table for table in tables(lines) if table.name not in UNSHOWN]
    facts = [("runs", str(runs)), *((name, str(value)) for name, value in settings.as_text().items())]
    page = folder / "index.html"
    write(page, to_html(shown, agreed, drawings, facts).encode())
    return Reproduction(tuple(lines), tuple(shown), agreed, page)


def chosen(names: Sequence[str]) -> tuple[str, ...]:
    """Return names in the order of the paper, all if none is given; refuse one that the paper does not have."""
    for name in names:
        if name not in NAMES:
            raise ValueError(
                f"The paper has no experiment {name!r}.{suggest(name, NAMES)} There are {', '.join(NAMES)}."
            )
    return tuple(name for name in NAMES if name in names) or NAMES


def _write_tables(lines: Iterable[Obtained], folder: Path) -> None:
    made_folder(folder)
    ordered = sorted(lines, key=lambda line: line.cell.table)
    for name, group in groupby(ordered, key=lambda line: line.cell.table):
        write(folder / f"{name}.csv", to_csv(group).encode())


def _draw(which: Sequence[str], scores: Mapping[Cell, Floats], folder: Path) -> Iterator[Drawing]:
    """Draw the figures asked for: those of the experiments run, and with ``figures`` all others."""
    for stem, figure in ILLUSTRATIONS.items():
        if (figure.needs or FIGURES) not in which:
            continue
        made_folder(folder)
        save(figure.draw(scores) if figure.needs else figure.draw(), folder, stem)
        yield Drawing(stem, figure.title, figure.caption, (folder / f"{stem}.svg").read_bytes())
