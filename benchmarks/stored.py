"""A run <-> JSON, so that its page can be written again: with other notes of what was tried, or other bars."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from benchmarks.bars import BARS
from benchmarks.records import Record, Report, Run, Settings, Target, Times


def to_json(run: Run) -> str:
    """Return the whole run; bars are stored by name only."""
    plain = asdict(run)
    for report in plain["reports"]:
        for target in report["targets"]:
            target["bar"] = target["bar"] and target["bar"]["name"]
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Run:
    """Return the run, with the current bars."""
    plain = json.loads(text)
    reports = tuple(_report(report) for report in plain["reports"])
    return Run(**(plain | {"reports": reports, "settings": Settings(**plain["settings"])}))


def _report(plain: dict[str, Any]) -> Report:
    return Report(
        plain["name"],
        plain["about"],
        tuple(_record(record) for record in plain["records"]),
        tuple(_target(target) for target in plain["targets"]),
        tuple(plain["remarks"]),
        plain["failed"],
    )


def _record(plain: dict[str, Any]) -> Record:
    return Record(**(plain | {"times": Times.of(plain["times"]) if plain["times"] else None}))


def _target(plain: dict[str, Any]) -> Target:
    between = tuple(plain["between"]) if plain["between"] else None
    return Target(**(plain | {"bar": BARS.get(plain["bar"]), "between": between}))
