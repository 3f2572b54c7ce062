"""Readable tables: a row for each model, the methods side by side, printed beside obtained numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from paper.adult import READING_A, READING_B
from paper.comparison import Compared, Obtained, compare, winner_differs
from paper.experiment import Cell

TITLES = {
    "table1": "Table 1. Boston (mean squared error) and Adult, bias on education (score in %)",
    "table2_norm": "Table 2. Gaussian scenarios a to f, bias on the norm (mean squared error)",
    "table3_first_component": "Table 3. Gaussian scenarios g to l, bias on the first component (mean squared error)",
    "table4_age": "Table 4. Adult, bias on age (error in %)",
    "adult_readings": "Adult, bias on education: the two readings of table 1",
    "clusters": "Example 5. Two clusters: distance of the centroids found to the true ones",
    "lengths": "Example 1. Length bias in several dimensions",
    "rates": "Rates: errors against n, by overlap",
}
NOTES = {
    "table1": (
        "The printed Adult half mixes two protocols. Its LogReg rows fit '12+ years of education' as education-num >= "
        "12 with accuracies; its RF rows fit twelve school years (education-num >= 9), regression forests and R^2. "
        "Each row is compared in the reading that it fits; the table of readings shows both in full."
    ),
    "adult_readings": (
        f"'{READING_A}': education-num >= 12, logistic regression and classification forests, accuracy in %. "
        f"'{READING_B}': education-num >= 9, people without a missing category, logistic probabilities and regression "
        "forests, R^2 in %."
    ),
    "table4_age": "Middle age is 38 to 58 here: the paper does not say. The forest has 10 trees.",
    "clusters": ("Runs in which a small sample misses the overlap cannot be debiased, and are left out of the mean."),
}


@dataclass(frozen=True)
class Entry:
    """One method of one model: the text to show and how to mark it."""

    printed: str
    obtained: str
    deviations: float | None
    bold: bool
    differs: bool

    @property
    def mark(self) -> str:
        """Return ``!`` beyond one printed standard deviation, ``!!`` beyond two, ``*`` for a new winner."""
        deviations = abs(self.deviations or 0.0)
        return ("!!" if deviations > 2 else "!" if deviations > 1 else "") + ("*" if self.differs else "")


@dataclass(frozen=True)
class Table:
    """A table ready to be shown.

    Attributes
    ----------
    rows : tuple
        The labels of each row (data set or scenario, model) and its entries by method.
    """

    name: str
    title: str
    note: str
    methods: tuple[str, ...]
    rows: tuple[tuple[str, str, dict[str, Entry]], ...]

    @property
    def compared(self) -> bool:
        """Whether the paper prints this table."""
        return any(entry.printed for _, _, entries in self.rows for entry in entries.values())


def tables(lines: Sequence[Obtained]) -> list[Table]:
    """Lay out all lines, table by table in the order of the paper."""
    pairs = {pair.printed.cell: pair for pair in compare(lines)}
    ordered = sorted(lines, key=lambda line: _order(line.cell.table))
    return [_table(name, list(group), pairs) for name, group in groupby(ordered, lambda line: line.cell.table)]


def _order(table: str) -> int:
    return list(TITLES).index(table)


def _table(name: str, lines: list[Obtained], pairs: Mapping[Cell, Compared]) -> Table:
    rows: dict[tuple[str, str], dict[str, Entry]] = {}
    most = max(line.runs for line in lines)
    for line in lines:
        cell = line.cell
        label = cell.scenario or cell.dataset
        rows.setdefault((label, cell.model), {})[cell.method] = _entry(line, pairs.get(cell), most)
    methods = tuple(dict.fromkeys(line.cell.method for line in lines))
    return Table(
        name, TITLES[name], NOTES.get(name, ""), methods, tuple((*labels, entries) for labels, entries in rows.items())
    )


def _entry(line: Obtained, pair: Compared | None, most: int) -> Entry:
    if pair is None:
        runs = "" if line.runs == most else f" ({line.runs} of {most} runs)"
        return Entry("", f"{_number(line.mean, line.std)}{runs}", None, line.bold, False)
    return Entry(
        printed=_number(pair.printed.mean, pair.printed.std),
        obtained=_number(line.mean, line.std),
        deviations=pair.deviations,
        bold=line.bold,
        differs=winner_differs(pair),
    )


def _number(mean: float, std: float) -> str:
    return f"{mean:.3g}±{std:.2g}" if abs(mean) < 10 else f"{mean:.2f}±{std:.2f}"
