"""Designs x contestants -> a page in Markdown."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.accuracy.contestants import CONTESTANTS, asked
from benchmarks.accuracy.designs import PANEL, SURVEY, Design
from benchmarks.accuracy.elsewhere import Elsewhere
from benchmarks.machine import version
from benchmarks.problems import Floats
from benchmarks.render import table

ABOUT = (
    "Written by the command below from one run; do not edit. A panel of {panel:,} rows has y, and nobody knows how it "
    "was selected; a survey of {survey:,} rows of everyone lacks y. Asked for is the mean of y over the population, "
    "which is known. *Bias*, *deviation* and *rmse* are those of the estimates over all draws, which are the same for "
    "everyone; *error* is the mean half-width of the 95% interval over 1.96, and *covered* how often that holds the "
    "truth (one Monte Carlo error is about {error:.1f} points at 95%)."
)


@dataclass(frozen=True)
class Line:
    """One contestant in one design."""

    who: str
    bias: float
    deviation: float
    error: float
    covered: float
    refused: int
    note: str

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the line of a table."""
        refused = f"refused {self.refused} of the draws" if self.refused else ""
        note = "; ".join(filter(None, (self.note, refused)))
        if np.isnan(self.bias):
            return (self.who, "–", "–", "–", "–", "–", note)
        rmse = float(np.hypot(self.bias, self.deviation))
        numbers = [f"{one:.4f}" for one in (self.bias, self.deviation, rmse)]
        error = "–" if np.isnan(self.error) else f"{self.error:.4f}"
        return (self.who, *numbers, error, "–" if np.isnan(self.covered) else f"{self.covered:.3f}", note)


def summed(who: str, answers: Floats, truth: float, note: str) -> Line:
    """Return what answers of shape (draws, 3) say together; an interval that is not given covers nothing."""
    value, low, high = answers[~np.isnan(answers[:, 0])].T
    refused = int(np.isnan(answers[:, 0]).sum())
    if not len(value):
        return Line(who, np.nan, np.nan, np.nan, np.nan, refused, note)
    none = bool(np.isnan(low).all())
    return Line(
        who,
        bias=float(value.mean() - truth),
        deviation=float(value.std()),
        error=np.nan if none else float(np.nanmean((high - low) / (2 * 1.96))),
        covered=np.nan if none else float(np.mean((low <= truth) & (truth <= high))),
        refused=refused,
        note=note,
    )


def race(
    designs: Sequence[Design], peers: Sequence[Elsewhere], repeats: int, command: str, stage: Callable[[str], None]
) -> str:
    """Run everyone on the same draws of each design, and return the page."""
    reasons = {peer.name: peer.missing() for peer in peers}
    there = [peer for peer in peers if not reasons[peer.name]]
    sections = []
    for design in designs:
        draws = [design.drawn(seed) for seed in range(repeats)]
        lines = []
        for contestant, notes in CONTESTANTS:
            stage(f"{design.name}: {next(iter(notes))}")
            found = [asked(contestant, notes, design, draw) for draw in draws]
            lines += [summed(who, np.array([one[who] for one in found]), design.truth, notes[who]) for who in notes]
        for peer in there:
            stage(f"{design.name}: {peer.name}")
            lines += _of_peer(peer, design, draws)
        sections.append(_section(design, lines))
    facts = {
        "command": f"`{command}`",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "draws": f"{repeats} of each design, seeded",
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": "; ".join(
            [
                ", ".join(f"{name} {version(name)}" for name in ("vardi", "numpy", "scikit-learn", "pandas")),
                *(peer.versions() for peer in there),
            ]
        ),
    }
    error = 100 * np.sqrt(0.95 * 0.05 / repeats)
    about = ABOUT.format(panel=PANEL, survey=SURVEY, error=error)
    absent = [reason for reason in reasons.values() if reason]
    return (
        "\n\n".join(["# Accuracy", about, table(("", ""), list(facts.items()), numbers=()), *absent, *sections]) + "\n"
    )


def _of_peer(peer: Elsewhere, design: Design, draws: Sequence[tuple[pd.DataFrame, pd.DataFrame]]) -> list[Line]:
    try:
        found = peer.answers(design, draws)
    except RuntimeError as error:
        return [Line(who, np.nan, np.nan, np.nan, np.nan, 0, str(error)) for who in peer.notes]
    own = {who: found[found["who"] == who][["value", "low", "high"]].to_numpy(float) for who in peer.notes}
    return [summed(who, own[who], design.truth, note) for who, note in peer.notes.items()]


def _section(design: Design, lines: Sequence[Line]) -> str:
    head = ("who", "bias", "deviation", "rmse", "error", "covered", "note")
    found = table(head, [line.cells for line in lines], numbers=range(1, 6))
    return f"## {design.name}\n\n{design.about} The truth is {design.truth:.4f}.\n\n{found}"
