"""The paper's printed cells, the obtained ones beside them, and how well they agree."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cache
from io import StringIO
from itertools import groupby
from pathlib import Path

import numpy as np

from paper.experiment import Cell
from paper.trial import DEBIASED, ERM, Floats

COLUMNS = ("table", "dataset", "scenario", "model", "method", "mean", "std", "bold")


@dataclass(frozen=True)
class Line:
    """A cell of a table: its mean and spread over runs, and whether it is the best of its methods."""

    cell: Cell
    mean: float
    std: float
    bold: bool


@dataclass(frozen=True)
class Obtained(Line):
    """A cell that was computed here.

    Attributes
    ----------
    runs : int
        Runs that gave a score.
    """

    runs: int


@dataclass(frozen=True)
class Compared:
    """A printed cell and the obtained one."""

    printed: Line
    obtained: Obtained

    @property
    def deviations(self) -> float:
        """How many printed standard deviations the obtained mean lies above the printed one."""
        return (self.obtained.mean - self.printed.mean) / self.printed.std


@cache
def printed() -> dict[Cell, Line]:
    """Return the 175 cells of the paper's four tables."""
    rows = csv.DictReader(Path(__file__).with_name("printed.csv").read_text("utf-8").splitlines())
    lines = (
        Line(Cell(*(row[name] for name in COLUMNS[:5])), float(row["mean"]), float(row["std"]), row["bold"] == "1")
        for row in rows
    )
    return {line.cell: line for line in lines}


def is_judged(cell: Cell) -> bool:
    """Return whether the methods of a cell compete; otherwise no method is the best."""
    return cell.table.startswith("table") or cell.table == "adult_readings" or cell.model == "GaussianMixture"


def higher_is_better(cell: Cell) -> bool:
    """Return whether a cell is a score of success; the others are errors."""
    return cell.dataset == "Adult" and cell.table != "table4_age"


def obtained(scores: Mapping[Cell, Floats]) -> list[Obtained]:
    """Return the mean and the spread of each cell over its runs; NaN scores are runs without one."""
    lines = [
        Obtained(cell, float(np.nanmean(values)), float(np.nanstd(values)), False, int(np.isfinite(values).sum()))
        if np.isfinite(values).any()
        else Obtained(cell, math.nan, math.nan, False, 0)
        for cell, values in scores.items()
    ]
    best = {_best(rivals) for rivals in _rivals(lines) if is_judged(rivals[0].cell)}
    return [replace(line, bold=line.cell in best) for line in lines]


def _rival(cell: Cell) -> tuple[str, ...]:
    return astuple(cell)[:4]


def _rivals(lines: Iterable[Obtained]) -> Iterable[list[Obtained]]:
    ordered = sorted(lines, key=lambda line: _rival(line.cell))
    return (list(group) for _, group in groupby(ordered, key=lambda line: _rival(line.cell)))


def _best(rivals: Sequence[Obtained]) -> Cell:
    sign = -1 if higher_is_better(rivals[0].cell) else 1
    return min(rivals, key=lambda line: math.inf if math.isnan(line.mean) else sign * line.mean).cell


def compare(lines: Iterable[Obtained]) -> list[Compared]:
    """Return the lines that the paper prints, each with its printed cell, in the order of the paper."""
    ours = {line.cell: line for line in lines}
    return [Compared(line, ours[cell]) for cell, line in printed().items() if cell in ours]


@dataclass(frozen=True)
class Agreement:
    """How well the obtained cells agree with the printed ones.

    Attributes
    ----------
    cells, within_one, within_two : int
        Cells compared, and those within one and two printed standard deviations.
    beyond : tuple of Compared
        Those beyond two.
    winners : tuple of Compared
        Cells that win here but not in print.
    clear : int
        Models for which the paper prints db-ERM ahead of ERM by more than the smaller of their standard deviations.
    lost : tuple of Compared
        db-ERM cells of these models that are not ahead here.
    """

    cells: int
    within_one: int
    within_two: int
    beyond: tuple[Compared, ...]
    winners: tuple[Compared, ...]
    clear: int
    lost: tuple[Compared, ...]


def agreement(compared: Sequence[Compared]) -> Agreement:
    """Count the cells that agree, and name those that do not."""
    by_cell = {pair.printed.cell: pair for pair in compared}
    clear = [pair for pair in compared if pair.printed.cell.method == DEBIASED and _is_clear(pair, by_cell)]
    return Agreement(
        cells=len(compared),
        within_one=sum(abs(pair.deviations) <= 1 for pair in compared),
        within_two=sum(abs(pair.deviations) <= 2 for pair in compared),
        beyond=tuple(pair for pair in compared if abs(pair.deviations) > 2),
        winners=tuple(pair for pair in compared if winner_differs(pair)),
        clear=len(clear),
        lost=tuple(pair for pair in clear if _gain(pair.obtained, _erm(pair, by_cell).obtained) <= 0),
    )


def winner_differs(pair: Compared) -> bool:
    """Return whether a cell wins here but not in print."""
    return pair.obtained.bold and not pair.printed.bold


def _erm(pair: Compared, by_cell: Mapping[Cell, Compared]) -> Compared:
    return by_cell[replace(pair.printed.cell, method=ERM)]


def _gain(debiased: Line, erm: Line) -> float:
    gain = debiased.mean - erm.mean
    return gain if higher_is_better(debiased.cell) else -gain


def _is_clear(pair: Compared, by_cell: Mapping[Cell, Compared]) -> bool:
    erm = _erm(pair, by_cell).printed
    return _gain(pair.printed, erm) > min(pair.printed.std, erm.std)


def to_csv(lines: Iterable[Obtained]) -> str:
    """Return lines in the format of the printed tables, with the number of runs."""
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*COLUMNS, "runs"])
    for line in lines:
        writer.writerow([*astuple(line.cell), f"{line.mean:.6g}", f"{line.std:.6g}", int(line.bold), line.runs])
    return file.getvalue()
