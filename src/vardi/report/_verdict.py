"""The verdict in plain words, what the data cannot tell, and what to do next."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vardi._estimate.check_results import CAVEAT, KnownCheck
from vardi._estimate.estimates import Estimate
from vardi._estimate.intervals import DOUBTED, HEAVY
from vardi._estimate.reliability import Trust
from vardi._facts.account import Account, SampleFacts
from vardi._facts.biases import Check, Level, Remark
from vardi._facts.columns import ColumnFacts
from vardi._facts.links import Overlap
from vardi._facts.numbers import number, rows_text, share, with_error
from vardi._inputs.pool import Name
from vardi._solve.identify import Verdict
from vardi.errors._texts import count, show


@dataclass(frozen=True)
class Headline(Remark):
    """The verdict in plain words: worst news first."""

    points: tuple[Remark, ...]


@dataclass(frozen=True)
class Advice:
    """One thing to collect, and why."""

    text: str
    reason: str


@dataclass(frozen=True)
class NextRow:
    """What more rows would do for one variable: where they help most, and the error they would leave."""

    name: str
    sample: Name
    more: float
    stderr: float
    stderr_then: float


ORDER: tuple[Level, ...] = ("bad", "doubt", "good", "fact")


def headline(facts: Account) -> Headline:
    """Put the verdict into words, worst news first."""
    check = facts.check
    points = [
        *_doubts(facts.trust),
        *_left_out(facts.samples),
        *_known(facts.known_check),
        *_estimated(facts.parameters),
        _comparison(facts.verdict, facts.trust),
        Remark(check.level, f"{check.text} {check.detail}" if check.level in ("bad", "doubt") else check.text),
        *_changes(facts.variables),
        _worth(facts.rows, facts.effective),
    ]
    points.sort(key=lambda point: ORDER.index(point.level))
    return Headline(facts.conclusion.level, facts.conclusion.text, tuple(points))


def _estimated(parameters: Mapping[Name, Mapping[str, Estimate]]) -> list[Remark]:
    return [
        Remark(
            "fact",
            f"The bias of '{name}' has parameters, estimated with the normalisers: "
            + ", ".join(
                f"{parameter} {with_error(estimate.value, estimate.stderr)}"
                for parameter, estimate in estimates.items()
            )
            + ".",
        )
        for name, estimates in parameters.items()
    ]


def _worth(rows: float, effective: float) -> Remark:
    worth = count(round(effective))
    if rows == 1:
        return Remark("fact", "There is one row, and its weight is 1.")
    if effective < 0.99 * rows:
        one = "one equal one" if worth == "1" else f"{worth} equal ones"
        return Remark("fact", f"The weights are uneven: {rows_text(rows)} are worth about {one}.")
    return Remark("fact", f"The weights are nearly even: {rows_text(rows)} are worth about {worth}.")


def _comparison(verdict: Verdict, trust: Trust) -> Remark:
    if not math.isfinite(trust.bridging) or len(verdict.names) > 2:  # for more than two, the message names the cut
        return Remark("good", verdict.message)
    return Remark("good", f"{verdict.message} About {count(round(trust.bridging, 1))} rows bridge them.")


def _doubts(trust: Trust) -> list[Remark]:
    level: Level = "doubt" if trust.errors_hold else "bad"
    return [Remark(level, message) for message in trust.messages]


def _left_out(samples: Sequence[SampleFacts]) -> Iterator[Remark]:
    names = [sample.name for sample in samples if sample.left_out]
    if names:
        left_out = f"Left out: {show(names)}, which cannot be compared with the others."
        yield Remark("doubt", f"{left_out} The population is the one that the remaining samples reach.")


def _known(known: KnownCheck | None) -> Iterator[Remark]:
    if known is not None:
        yield Remark("bad" if known.contradicted else "fact", f"Known values were used. {known.verdict}")


def _changes(variables: Sequence[ColumnFacts], least: float = 0.1) -> Iterator[Remark]:
    """Name the variable that moved most, if it did by this many standard deviations."""
    most = max(variables, key=lambda variable: abs(variable.shift), default=None)
    if most is None:
        return
    if abs(most.shift) < least:
        yield Remark("fact", f"No mean moves by {least:g} standard deviations or more from pool to population.")
        return
    what = f"The share of {most.label}" if most.is_share else f"The mean of {most.label}"
    after = with_error(most.debiased, most.stderr, percent=most.is_share)
    before = share(most.pooled) if most.is_share else number(most.pooled)
    moves = f"a shift of {abs(most.shift):.2f} standard deviations"
    yield Remark("fact", f"{what} is {after} in the population, while the pooled rows alone give {before} ({moves}).")


def unknowns(check: Check, *, estimated: bool, depends: str) -> tuple[str, ...]:
    """Return what the data cannot tell, also if biases have parameters or rows are declared dependent."""
    untested = [row for row in check.rows if row.untested >= 0.01]
    most = max(untested, key=lambda row: row.untested, default=None)
    unseen = CAVEAT
    if most is not None:
        unseen = f"{most.untested:.0%} of the rows of '{most.name}' no other sample could have drawn. {CAVEAT}"
    return (
        "Units that no sample could have drawn are invisible here. The results represent the part of the population "
        "that the biases cover together, and no test of these data can tell whether that is all of it.",
        unseen,
        f"Rows are taken as {depends}, and as independent beyond that. If they depend on one another in other ways, "
        "the errors are too small."
        if depends
        else "Rows are taken to be drawn independently within each sample. Rows of one household, street or time "
        "series depend on one another, and then the errors are too small: declare that by clusters= or series=.",
        "The biases are taken as known. The errors do not include any doubt about their form."
        if not estimated
        else "The forms of the biases are taken as known. The errors include those of the estimated parameters, and no "
        "doubt about the forms.",
    )


def next_rows(facts: Account, part: float = 0.1, most: int = 20) -> tuple[NextRow, ...]:
    r"""Return for each of the first variables where more rows, a part of those in the pool, help most.

    The variance is a sum over samples, :math:`V = \sum_k V_k` with :math:`V_k \propto 1 / n_k`: with m more rows of
    sample k it is at most :math:`V - V_k m / (n_k + m)`. This does not hold for means from only some samples.
    """
    used, more = facts.sampled, max(round(part * facts.rows), 1)
    following = []
    for variable in facts.variables[:most]:
        if math.isnan(variable.stderr) or not variable.carried or variable.among:
            continue
        saved = [own * more / (sample.rows + more) for own, sample in zip(variable.carried, used, strict=True)]
        best = max(range(len(used)), key=saved.__getitem__)
        then = variable.stderr * math.sqrt(max(1.0 - saved[best], 0.0))
        following.append(NextRow(variable.name, used[best].name, float(more), variable.stderr, then))
    return tuple(following)


def advice(facts: Account, overlap: Overlap) -> tuple[Advice, ...]:
    """Return what to do before the weights are used, most urgent first."""
    return (*_contradicted(facts), *_bridge(facts.trust, overlap), *_tail(facts.trust))


def gains(facts: Account, following: Sequence[NextRow]) -> tuple[Advice, ...]:
    """Return what would lower the errors further."""
    return (*_largest_gain(following), *_heaviest(facts.sampled))


def nothing_to_do(facts: Account) -> str:
    """Return why nothing has to be done, for a fit without advice."""
    tested = "the samples do not contradict their declared biases"
    if not facts.check.is_made:
        tested = "nothing here contradicts the declared biases, which were not tested"
    linked = "no link is weak, " if len(facts.sampled) > 1 else ""
    return f"Nothing has to be done: {linked}no error rests on a few rows, and {tested}."


def _contradicted(facts: Account) -> Iterator[Advice]:
    """Yield what to look into if samples contradict their biases or known values."""
    if facts.check.level in ("bad", "doubt"):
        worst = facts.check.rows[0].name if facts.check.rows else ""
        yield Advice(f"How the rows of '{worst}' were really drawn: its declared bias fits worst.", facts.check.text)
    if facts.known_check is not None and facts.known_check.contradicted:
        yield Advice("Where the known values come from: the samples contradict them.", facts.known_check.verdict)


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
