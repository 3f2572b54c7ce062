"""The verdict in plain words, what the data cannot tell, and what to do next."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

from vardi._estimate.check_results import AGREEMENT, CAVEAT
from vardi._estimate.intervals import DOUBTED, HEAVY
from vardi._facts.account import Account
from vardi._facts.biases import LEVELS, Level, Remark
from vardi._facts.links import Overlap
from vardi._facts.numbers import number, rows_text, share, with_error
from vardi._inputs.pool import Name
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


@dataclass(frozen=True)
class Findings(Account):
    """An account, the overlap of its samples, and what follows from them in words."""

    overlap: Overlap

    @cached_property
    def headline(self) -> Headline:
        """The verdict in words, worst news first."""
        levels = get_args(Level)
        points = sorted(self._points(), key=lambda point: levels.index(point.level))
        return Headline(self.conclusion.level, self.conclusion.text, tuple(points))

    def _points(self) -> Iterator[Remark]:
        level: Level = "doubt" if self.trust.errors_hold else "bad"
        yield from (Remark(level, message) for message in self.trust.messages)
        left_out = [sample.name for sample in self.samples if sample.left_out]
        if left_out:
            apart = f"Left out: {show(left_out)}, which cannot be compared with the others."
            yield Remark("doubt", f"{apart} The population is the one that the remaining samples reach.")
        if self.known_check is not None:
            met = LEVELS[self.known_check.outcome]
            yield Remark("fact" if met == "good" else met, f"Known values were used. {self.known_check.verdict}")
        for name, estimates in self.parameters.items():
            values = ", ".join(f"{one} {with_error(own.value, own.stderr)}" for one, own in estimates.items())
            yield Remark("fact", f"The bias of '{name}' has parameters, estimated with the normalisers: {values}.")
        bridged = ""
        if math.isfinite(self.trust.bridging) and len(self.verdict.names) <= 2:  # for more, the message names the cut
            bridged = f" About {count(round(self.trust.bridging, 1))} rows bridge them."
        yield Remark("good", f"{self.verdict.message}{bridged}")
        detail = f" {self.check.detail}" if self.check.level in ("bad", "doubt") else ""
        yield Remark(self.check.level, f"{self.check.text}{detail}")
        yield from (Remark("fact", text) for text in (self._largest_change(), self._worth) if text)

    def _largest_change(self, least: float = 0.1) -> str:
        """Name the variable that moved most, if it did by this many standard deviations; empty without variables."""
        most = max(self.variables, key=lambda variable: abs(variable.shift), default=None)
        if most is None:
            return ""
        if abs(most.shift) < least:
            return f"No mean moves by {least:g} standard deviations or more from pool to population."
        what = f"The {'share' if most.is_share else 'mean'} of {most.label}"
        after = with_error(most.debiased, most.stderr, percent=most.is_share)
        before = share(most.pooled) if most.is_share else number(most.pooled)
        moves = f"a shift of {abs(most.shift):.2f} standard deviations"
        return f"{what} is {after} in the population, while the pooled rows alone give {before} ({moves})."

    @property
    def _worth(self) -> str:
        worth, rows = count(round(self.effective)), rows_text(self.rows)
        if self.rows == 1:
            return "There is one row, and its weight is 1."
        if self.effective < 0.99 * self.rows:
            one = "one equal one" if worth == "1" else f"{worth} equal ones"
            return f"The weights are uneven: {rows} are worth about {one}."
        return f"The weights are nearly even: {rows} are worth about {worth}."

    @cached_property
    def unknowns(self) -> tuple[str, ...]:
        """What the data cannot tell."""
        untested = [row for row in self.check.rows if row.untested >= 0.01]
        most = max(untested, key=lambda row: row.untested, default=None)
        unseen = ""
        if most is not None:
            unseen = f"{most.untested:.0%} of the rows of '{most.name}' no other sample could have drawn. "
        return (
            "Units that no sample could have drawn are invisible here. The results represent the part of the "
            "population that the biases cover together, and no test of these data can tell whether that is all of it.",
            f"{unseen}{CAVEAT}",
            f"Rows are taken as {self.depends}, and as independent beyond that. If they depend on one another in other "
            "ways, the errors are too small."
            if self.depends
            else "Rows are taken to be drawn independently within each sample. Rows of one household, street or time "
            "series depend on one another, and then the errors are too small: declare that by clusters= or series=.",
            "The forms of the biases are taken as known. The errors include those of the estimated parameters, and no "
            "doubt about the forms."
            if self.parameters
            else "The biases are taken as known. The errors do not include any doubt about their form.",
        )

    @cached_property
    def next_rows(self) -> tuple[NextRow, ...]:
        r"""Where more rows, a tenth of those in the pool, help each of the first 20 variables most.

        The variance is a sum over samples, :math:`V = \sum_k V_k` with :math:`V_k \propto 1 / n_k`: with m more rows of
        sample k it is at most :math:`V - V_k m / (n_k + m)`. This does not hold for means from only some samples.
        """
        more = max(round(0.1 * self.rows), 1)
        following = []
        for variable in self.variables[:20]:
            if math.isnan(variable.stderr) or not variable.carried or variable.among:
                continue
            carried = zip(variable.carried, self.sampled, strict=True)
            saved = [(own * more / (sample.rows + more), sample.name) for own, sample in carried]
            most, name = max(saved, key=lambda one: one[0])
            then = variable.stderr * math.sqrt(max(1.0 - most, 0.0))
            following.append(NextRow(variable.name, name, float(more), variable.stderr, then))
        return tuple(following)

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        """What to do before the weights are used, most urgent first."""
        return tuple(self._urgent())

    def _urgent(self) -> Iterator[Advice]:
        trust, known = self.trust, self.known_check
        if self.check.level in ("bad", "doubt"):
            worst = self.check.rows[0].name if self.check.rows else ""
            yield Advice(f"How the rows of '{worst}' were really drawn: its declared bias fits worst.", self.check.text)
        if known is not None and known.outcome != "not contradicted":
            yield Advice(
                f"Where the known values come from: the samples {AGREEMENT[known.outcome]} them.", known.verdict
            )
        if self.overlap.weak:
            text = "Rows that both sides of the weakest cut could draw, or a new sample that lies between them."
            yield Advice(text, trust.messages[0])
        elif trust.df < DOUBTED:
            yield Advice("More rows of the kind that errors rest on.", trust.messages[0])
        if trust.tail_index > HEAVY:
            yield Advice(
                "A sample that draws the rows of largest weight more often.",
                f"Influence values have tail index {trust.tail_index:.2f}; from 0.5 on no number of rows gives a "
                "finite variance.",
            )

    @cached_property
    def gains(self) -> tuple[Advice, ...]:
        """What would lower the errors further."""
        return tuple(self._gains())

    def _gains(self) -> Iterator[Advice]:
        votes = [row.sample for row in self.next_rows]
        if votes:
            favourite = max(dict.fromkeys(votes), key=votes.count)
            gains = [1.0 - row.stderr_then / row.stderr for row in self.next_rows if row.sample == favourite]
            which = "the one variable" if len(votes) == 1 else f"{len(gains)} of {len(votes)} variables"
            low, high = share(min(gains)), share(max(gains))
            by = low if low == high else f"{low} to {high}"
            more = f"{rows_text(self.next_rows[0].more)} more would lower the error by {by} or more"
            yield Advice(f"More rows of '{favourite}'.", f"For {which} its rows help most: {more}.")
        heaviest = max(self.sampled, key=lambda sample: sample.weight_share / sample.share)
        if heaviest.weight_share > 2.0 * heaviest.share:
            yield Advice(
                f"Rows such as those of '{heaviest.name}', however they are drawn.",
                f"It has {share(heaviest.share)} of the rows and carries {share(heaviest.weight_share)} of the weight.",
            )

    @property
    def nothing_to_do(self) -> str:
        """Why nothing has to be done, for a fit without advice."""
        tested = "the samples do not contradict their declared biases"
        if not self.check.is_made:
            tested = "nothing here contradicts the declared biases, which were not tested"
        linked = "no link is weak, " if len(self.sampled) > 1 else ""
        return f"Nothing has to be done: {linked}no error rests on a few rows, and {tested}."
