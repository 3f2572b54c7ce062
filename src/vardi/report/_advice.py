"""What to collect next, judged by where the errors come from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from vardi._estimate.intervals import DOUBTED, HEAVY
from vardi._estimate.reliability import Trust
from vardi._facts.account import Account, SampleFacts
from vardi._facts.links import Overlap
from vardi._facts.numbers import rows_text, share
from vardi.report._content import Advice, NextRow

TENTH = 0.1  # of the pool: how many more rows are considered
MOST_NEXT = 20


def next_rows(found: Account) -> tuple[NextRow, ...]:
    r"""Return for each variable where more rows help most.

    The variance is a sum over samples, :math:`V = \sum_k V_k` with :math:`V_k \propto 1 / n_k`: with m more rows of
    sample k it is at most :math:`V - V_k m / (n_k + m)`. This does not hold for means from only some samples.
    """
    used, more = found.sampled, max(round(TENTH * found.rows), 1)
    following = []
    for variable in found.variables[:MOST_NEXT]:
        if math.isnan(variable.stderr) or not variable.carried or variable.among:
            continue
        saved = [part * more / (sample.rows + more) for part, sample in zip(variable.carried, used, strict=True)]
        best = max(range(len(used)), key=saved.__getitem__)
        then = variable.stderr * math.sqrt(max(1.0 - saved[best], 0.0))
        following.append(NextRow(variable.name, used[best].name, float(more), variable.stderr, then))
    return tuple(following)


def advice(found: Account, overlap: Overlap) -> tuple[Advice, ...]:
    """Return what to do before the weights are used, most urgent first."""
    return (*_contradicted(found), *_bridge(found.trust, overlap), *_tail(found.trust))


def gains(found: Account, following: Sequence[NextRow]) -> tuple[Advice, ...]:
    """Return what would lower the errors further."""
    return (*_largest_gain(following), *_heaviest(found.sampled))


def nothing_to_do(found: Account) -> str:
    """Return why nothing has to be done, for a fit without advice."""
    tested = "the samples do not contradict their declared biases"
    if not found.check.is_made:
        tested = "nothing here contradicts the declared biases, which were not tested"
    linked = "no link is weak, " if len(found.sampled) > 1 else ""
    return f"Nothing has to be done: {linked}no error rests on a few rows, and {tested}."


def _contradicted(found: Account) -> Iterator[Advice]:
    """Yield what to look into if samples contradict their biases or known values."""
    if found.check.level in ("bad", "doubt"):
        worst = found.check.rows[0].name if found.check.rows else ""
        yield Advice(
            f"How the rows of '{worst}' were really drawn: its declared bias fits worst.",
            found.check.text,
        )
    if found.known_check is not None and found.known_check.contradicted:
        yield Advice("Where the known values come from: the samples contradict them.", found.known_check.verdict)


def _bridge(trust: Trust, overlap: Overlap) -> Iterator[Advice]:
    """Yield what is missing if errors rest on few rows."""
    if overlap.weak:
        text = "Rows that both sides of the weakest cut could draw, or a new sample that lies between them."
        yield Advice(text, trust.messages[0])
    elif trust.df < DOUBTED:
        yield Advice("More rows of the kind that errors rest on.", trust.messages[0])


def _tail(trust: Trust) -> Iterator[Advice]:
    if trust.tail_index > HEAVY:
        yield Advice(
            "A sample that draws the rows of largest weight more often.",
            f"Influence values have tail index {trust.tail_index:.2f}; from 0.5 on no number of rows gives a finite "
            "variance.",
        )


def _largest_gain(following: Sequence[NextRow]) -> Iterator[Advice]:
    votes = [row.sample for row in following]
    for favourite in sorted(dict.fromkeys(votes), key=votes.count, reverse=True)[:1]:
        gains = [1.0 - row.stderr_then / row.stderr for row in following if row.sample == favourite]
        which = "the one variable" if len(votes) == 1 else f"{votes.count(favourite)} of {len(votes)} variables"
        low, high = share(min(gains)), share(max(gains))
        by = low if low == high else f"{low} to {high}"
        more = f"{rows_text(following[0].more)} more would lower the error by {by} or more"
        yield Advice(f"More rows of '{favourite}'.", f"For {which} its rows help most: {more}.")


def _heaviest(sampled: Sequence[SampleFacts]) -> Iterator[Advice]:
    """Name the sample whose rows each stand for the largest part of the population, if it stands out."""
    most = max(sampled, key=lambda sample: sample.weight_share / sample.share)
    if most.weight_share > 2.0 * most.share:
        yield Advice(
            f"Rows such as those of '{most.name}', however they are drawn.",
            f"It has {share(most.share)} of the rows and carries {share(most.weight_share)} of the weight.",
        )
