"""The plan of a fit as a table for people and as JSON for machines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from vardi.study import Plan, Query

UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")
NONE = "–"


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON can hold it."""
    return {**asdict(plan), "passes": plan.passes, "bytes": plan.size}


def plan_lines(plan: Plan) -> list[RenderableType]:
    """Return a plan as lines for rich to print."""
    table = Table(Column("query"), Column("passes", justify="right"), Column("columns"), box=None, pad_edge=False)
    table.add_column("read in a pass", justify="right")
    table.add_column("numbers back", justify="right")
    for query in plan.queries:
        table.add_row(*_cells(query))
    rows = "" if plan.rows is None else f"{plan.rows:,} rows, "
    each = "" if plan.frames == 1 else f" A pass is one query for each of {plan.frames} frames."
    size = "" if plan.size is None else f", {size_text(plan.size)} read at most"
    where = "in memory" if plan.engine == "memory" else f"left in place and queried by {plan.engine}"
    total = f"{rows}{where}: {_range(plan.passes)} {'pass' if plan.passes[1] == 1 else 'passes'} over the rows{size}."
    lines: list[RenderableType] = [Text(total + each), Text(), table]
    return lines


def size_text(size: float) -> str:
    """Return a number of bytes in a readable unit."""
    place = 0
    while size >= 1000 and place < len(UNITS) - 1:
        size, place = size / 1000, place + 1
    return f"{size:.3g} {UNITS[place]}" if place else f"{size:.0f} bytes"


def _cells(query: Query) -> tuple[str, ...]:
    return (
        query.what,
        _range(query.passes),
        ", ".join(query.columns) or NONE,
        NONE if query.size is None else size_text(query.size),
        NONE if query.numbers is None else f"{query.numbers:,}",
    )


def _range(ends: tuple[int, int]) -> str:
    return str(ends[0]) if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
