"""A comparison -> Markdown and JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks.machine import NONE
from benchmarks.records import Target
from benchmarks.render import duration, level, table
from benchmarks.turns.compare import Comparison, Sides, Turns

ABOUT = (
    "Written by the command below; do not edit. Each number is from a process of its own, in the order old, new, new, "
    "old; a round has these four. *Old* and *new* are medians over processes by the clock, ratios are new over old: "
    "the median over rounds, with the quartiles beside it."
)


def page(turns: Turns) -> str:
    """Return the whole page."""
    judged = [one.target for one in turns.comparisons if one.target.bar] if turns.shrink == 1 else []
    return (
        "\n\n".join(
            [
                "# Old and new by turns",
                ABOUT,
                *([_standing(judged)] if judged else []),
                table(("", ""), list(turns.facts.items()), numbers=()),
                ratios(turns),
            ]
        )
        + "\n"
    )


def ratios(turns: Turns) -> str:
    """Return the table of the cases, and those that failed below it."""
    head = ("case", "old", "new", "ratio", "quartiles", "in processor time", "quartiles", "bar", "verdict")
    rows = [_row(one, judged=turns.shrink == 1) for one in turns.comparisons]
    failed = [f"**{case}** failed: {reason}" for case, reason in turns.failed.items()]
    return "\n\n".join([table(head, rows, numbers=range(1, 8)), *failed])


def to_json(turns: Turns) -> str:
    """Return every number that was measured."""
    return json.dumps(asdict(turns), indent=1, ensure_ascii=False) + "\n"


def _standing(judged: Sequence[Target]) -> str:
    missed = [target for target in judged if target.missed]
    text = f"**Bars**: {len(judged) - len(missed)} of {len(judged)} reached."
    if not missed:
        return text
    return f"{text} Missed: " + "; ".join(f"{t.what} ({level(t.measured, 'x')})" for t in missed) + "."


def _row(one: Comparison, *, judged: bool) -> tuple[str, ...]:
    target = one.target
    return (
        target.what,
        *(_amount(statistics.median(side), one.unit) for side in (one.measured.old, one.measured.new)),
        *_ratio(one.measured),
        *_ratio(one.processor),
        level(target.bar.level if target.bar else None, "x"),
        target.verdict if judged or target.bar is None else "not judged",
    )


def _ratio(sides: Sides | None) -> tuple[str, str]:
    if sides is None:
        return NONE, NONE
    return level(sides.ratio, "x"), " to ".join(level(end, "x") for end in sides.quartiles)


def _amount(number: float, unit: str) -> str:
    if unit == "seconds":
        return duration(number)
    return level(number / 1e6, "MB") if unit == "bytes" else level(number, unit)
