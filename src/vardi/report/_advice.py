"""What to collect next, read from where the errors come from."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vardi._trust import CARRIES, DOUBTED, Trust
from vardi.report._content import Advice, NextRow, Overlap, SampleRow, VariableRow
from vardi.report._numbers import count, names_text, rows_text, share

TENTH = 0.1  # of the pool: how many more rows are thought of
MOST_NEXT = 20


def next_rows(samples: Sequence[SampleRow], variables: Sequence[VariableRow]) -> tuple[NextRow, ...]:
    r"""Return for each variable where more rows help most.

    The variance is a sum over samples, :math:`V = \sum_k V_k` with :math:`V_k \propto 1 / n_k`: with m more rows of
    sample k it is at most :math:`V - V_k m / (n_k + m)`.
    """
    used = [sample for sample in samples if sample.rows]
    more = max(round(TENTH * sum(sample.rows for sample in used)), 1)
    found = []
    for variable in variables[:MOST_NEXT]:
        if variable.stderr is None or not variable.carried:
            continue
        saved = [part * more / (sample.rows + more) for part, sample in zip(variable.carried, used, strict=True)]
        best = max(range(len(used)), key=saved.__getitem__)
        then = variable.stderr * math.sqrt(max(1.0 - saved[best], 0.0))
        found.append(NextRow(variable.name, used[best].name, float(more), variable.stderr, then))
    return tuple(found)


def advice(
    trust: Trust,
    overlap: Overlap,
    samples: Sequence[SampleRow],
    variables: Sequence[VariableRow],
    following: Sequence[NextRow],
) -> tuple[Advice, ...]:
    """Return what to collect, most urgent first."""
    return (
        *_bridge(overlap),
        *_tail(trust),
        *_single(variables),
        *_largest_gain(following),
        *_heaviest(samples),
        *_weakest_link(overlap),
    )


def _bridge(overlap: Overlap) -> list[Advice]:
    """Return how much is missing to a comparison that carries standard errors."""
    if overlap.bridging is None or overlap.bridging >= DOUBTED:
        return []
    times = DOUBTED / overlap.bridging if overlap.bridging > 0 else math.inf
    how_many = f"about {times:.1f} times as many as there are" if times < 1000 else "many times as many as there are"
    return [
        Advice(
            f"Rows that both sides of the weakest cut could draw: {how_many}. Or a new sample that lies between them.",
            f"{overlap.bridging:.1f} rows bridge {_sides(overlap)}, and errors are trusted from {DOUBTED:g} on.",
        )
    ]


def _weakest_link(overlap: Overlap) -> list[Advice]:
    """Return where the comparison would break first, though it holds."""
    weakest = next((link for link in overlap.links if link.weakest), None)
    if weakest is None or overlap.bridging is None or overlap.bridging < DOUBTED:
        return []
    return [
        Advice(
            f"To compare the samples more firmly: rows that both '{weakest.first}' and '{weakest.second}' could draw.",
            f"{count(round(overlap.bridging, 1))} rows bridge {_sides(overlap)}, which is enough for standard errors.",
        )
    ]


def _sides(overlap: Overlap) -> str:
    return " and ".join(names_text(side, 3) for side in overlap.cut)


def _tail(trust: Trust) -> list[Advice]:
    if not trust.of_tail:
        return []
    return [
        Advice(
            "A sample that covers the rows of large weight.",
            f"The largest weights, of {names_text([str(name) for name in trust.blame])}, have tail index "
            f"{trust.tail_index:.2f}; from 0.5 on no number of rows gives a finite variance.",
        )
    ]


def _single(variables: Sequence[VariableRow]) -> list[Advice]:
    carried = [v.name for v in variables if v.largest_row is not None and v.largest_row > CARRIES]
    if not carried:
        return []
    return [
        Advice(
            "More rows like the single ones that errors rest on.",
            f"One row carries more than {CARRIES:.0%} of the variance of {names_text(carried)}.",
        )
    ]


def _largest_gain(following: Sequence[NextRow]) -> list[Advice]:
    if not following:
        return []
    votes = [row.sample for row in following]
    favourite = max(dict.fromkeys(votes), key=votes.count)
    gains = [1.0 - row.stderr_then / row.stderr for row in following if row.sample == favourite]
    variables = "the one variable" if len(following) == 1 else f"{votes.count(favourite)} of {len(following)} variables"
    low, high = share(min(gains)), share(max(gains))
    by = low if low == high else f"{low} to {high}"
    return [
        Advice(
            f"More rows of '{favourite}'.",
            f"For {variables} its rows help most: {rows_text(following[0].more)} more would lower the error by {by} "
            "or more.",
        )
    ]


def _heaviest(samples: Sequence[SampleRow]) -> list[Advice]:
    """Return the sample whose rows stand for most of the population each, where it stands out."""
    known = [sample for sample in samples if sample.rows and sample.share > 0]
    heavy = [sample for sample in known if sample.weight_share > 2.0 * sample.share]
    if not heavy or len(known) < 2:
        return []
    most = max(heavy, key=lambda sample: sample.weight_share / sample.share)
    return [
        Advice(
            f"Rows such as those of '{most.name}', however they are drawn.",
            f"It has {share(most.share)} of the rows and carries {share(most.weight_share)} of the weight.",
        )
    ]
