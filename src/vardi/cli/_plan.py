"""The plan of a fit as a table for people and as JSON for machines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import RenderableType
from rich.filesize import decimal
from rich.table import Column, Table
from rich.text import Text

from vardi._rows.engine.subsample import ROWS
from vardi.study import Plan

NONE = "–"


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON can hold it."""
    return {**asdict(plan), "passes": plan.passes, "bytes": plan.size}


def plan_lines(plan: Plan) -> list[RenderableType]:
    """Return a plan as lines for rich to print."""
    passes, size = (Column(name, justify="right") for name in ("passes", "read in a pass"))
    table = Table("query", passes, "columns", size, box=None, pad_edge=False)
    for query in plan.queries:
        table.add_row(
            query.what,
            _range(query.passes),
            ", ".join(query.columns) or NONE,
            NONE if query.size is None else decimal(query.size),
        )
    rows = "" if plan.rows is None else f"{plan.rows:,} rows, "
    each = "" if plan.frames == 1 else f" A pass is one query for each of {plan.frames} frames."
    read = "" if plan.size is None else f", {decimal(plan.size)} read at most"
    where = "in memory" if plan.engine == "memory" else f"left in place and queried by {plan.engine}"
    total = f"{rows}{where}: {_range(plan.passes)} {'pass' if plan.passes[1] == 1 else 'passes'} over the rows{read}."
    start = f", and up to {ROWS:,} rows to start from" if any("draw" in query.what for query in plan.queries) else ""
    back = "" if plan.engine == "memory" else f" Only sums come back{start}."
    return [Text(total + each + back), Text(), table]


def _range(ends: tuple[int, int]) -> str:
    return str(ends[0]) if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
