"""Many samples: those that stand out, and all of them in groups of neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterator

from vardi._facts.account import Account, SampleFacts
from vardi._facts.links import Overlap
from vardi._facts.numbers import number, pvalue, share
from vardi.errors._texts import count
from vardi.report._content import Group, SampleLine, Standout

FEW = 20  # samples up to which one table lists them all
GROUP = 12  # at most, samples in a group


def standouts(found: Account) -> tuple[Standout, ...]:
    """Return the samples that differ from the others, if there are too many to look at one by one."""
    if len(found.samples) <= FEW:
        return ()
    by_sample: dict[SampleFacts, list[str]] = {}
    for sample, why in _standouts(found):
        by_sample.setdefault(sample, []).append(why)
    return tuple(Standout(sample, "; ".join(reasons)) for sample, reasons in by_sample.items())


def _standouts(found: Account) -> Iterator[tuple[SampleFacts, str]]:
    named = {str(sample.name): sample for sample in found.samples}
    for row in found.check.rows:
        if row.outcome == "contradicted" and row.name in named:
            yield (named[row.name], f"its declared bias is contradicted, p {pvalue(row.pvalue)}")
    sampled = found.sampled
    least = min(sampled, key=lambda sample: sample.rows)
    if least.rows < max(sample.rows for sample in sampled):
        yield (least, f"fewest rows: {count(least.rows)}")
    uneven = min(sampled, key=lambda sample: sample.effective / sample.rows)
    worth = share(uneven.effective / uneven.rows)
    yield (uneven, f"most uneven weights: its rows are worth {worth} of as many equal ones")
    heavy = max(sampled, key=lambda sample: sample.weight_share / sample.share)
    each = number(heavy.weight_share / heavy.share)
    yield (heavy, f"heaviest rows: each stands for {each} rows of the pool on average")
    largest = max(sampled, key=lambda sample: sample.largest_weight)
    yield (largest, f"largest single weight: {number(largest.largest_weight)}")


def groups(found: Account, overlap: Overlap) -> tuple[Group, ...]:
    """Return all samples in groups of neighbours; those without rows come last."""
    if len(found.samples) <= FEW:
        return ()
    named = {str(sample.name): sample for sample in found.samples}
    tests = {row.name: row.pvalue for row in found.check.rows}
    strongest: dict[str, str] = {}
    for link in sorted(overlap.links, key=lambda link: -link.strength):
        for one, other in ((link.first, link.second), (link.second, link.first)):
            strongest.setdefault(str(one), str(other))
    others = [name for name in named if name not in set(overlap.names)]
    return tuple(
        Group(tuple(_line(named[name], tests, strongest) for name in names[start : start + _size(len(names))]))
        for names in (overlap.names, others)
        for start in range(0, len(names), _size(len(names)))
    )


def _line(sample: SampleFacts, tests: dict[str, float], strongest: dict[str, str]) -> SampleLine:
    name = str(sample.name)
    return SampleLine(sample, tests.get(name, math.nan), strongest.get(name, ""))


def _size(samples: int) -> int:
    """Return how many samples a group has, so that all groups have about the same size."""
    return math.ceil(samples / max(math.ceil(samples / GROUP), 1)) or 1
