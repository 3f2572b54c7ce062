"""The verdict on a fit in a sentence: the same in the summary, on the command line and in the report."""

from __future__ import annotations

from dataclasses import dataclass

from vardi._estimate.known_check import KnownCheck
from vardi._estimate.reliability import Trust
from vardi._facts.check import Check, Level


@dataclass(frozen=True)
class Conclusion:
    """A sentence, and how serious it is."""

    level: Level
    text: str


def conclude(trust: Trust, check: Check, known: KnownCheck | None, samples: int, left_out: int) -> Conclusion:
    """Return the most serious conclusion about a fit, given how many samples it has and how many were left out.

    It is "good" only if the declared biases were tested.
    """
    if not trust.errors_hold:
        text = "Some estimates rest on too few rows for standard errors, and are rough."
        return Conclusion("bad", text)
    if check.level == "bad":
        text = "The samples contradict their declared biases. Do not use the weights until that is explained."
        return Conclusion("bad", text)
    if known is not None and known.contradicted:
        text = "The samples contradict what is known. Do not use the weights until that is explained."
        return Conclusion("bad", text)
    if trust.messages or check.level == "doubt":
        return Conclusion("doubt", "The debiased sample can be used with care: read the warnings first.")
    speaks = (
        "One sample, weighted by the inverse of its bias, represents the population."
        if samples == 1
        else f"The {samples} samples can be compared, and together they represent the population."
    )
    if left_out:
        return Conclusion("doubt", f"{speaks} {'One was' if left_out == 1 else f'{left_out} were'} left out.")
    return Conclusion("good" if check.is_made else "fact", speaks)
