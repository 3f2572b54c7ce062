"""When not to trust the asymptotics: where an error rests on few rows, on the few largest of many, or on a thin bridge.

The weakest link between the samples is the smallest cut of their overlap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vardi._estimate.intervals import DOUBTED, RARE, REFUSED, Law, doubts
from vardi._inputs.pool import Name
from vardi._rows.gram import Gram
from vardi._solve.identify import Verdict
from vardi._types import Floats, Integers
from vardi.errors import WeakOverlapWarning
from vardi.errors._texts import count, show
from vardi.errors._warn import warn


@dataclass(frozen=True)
class Bridge:
    """The smallest cut between samples.

    Attributes
    ----------
    rows : float
        B = sum_i p_iA (1 - p_iA) over the cut A: rows that could equally well have come from the other side. For two
        samples Var(log Omega_1 / Omega_2) = 1/B - 1/n_1 - 1/n_2. Infinite for one sample.
    cut : tuple of two tuples
        The samples on either side of it, in their order.
    link : tuple of two names, or None
        The two samples across it that share most of these rows; None if unknown.
    approximate : bool
        Whether the signs of an eigenvector gave it, because there are too many samples to compute the smallest.
    """

    rows: float
    cut: tuple[tuple[Name, ...], tuple[Name, ...]]
    link: tuple[Name, Name] | None = None
    approximate: bool = False

    def __str__(self) -> str:
        about = "about " if self.approximate else ""
        rows = round(self.rows, 1)
        bridging = "1 row bridges" if rows == 1 else f"{count(rows)} rows bridge"
        return f"{about}{bridging} {self._sides}"

    @property
    def _sides(self) -> str:
        """The samples on either side by name or, if there are many, their number."""
        smaller, larger = sorted(self.cut, key=len)
        if len(larger) == 1:
            return f"{show(self.cut[0])} and {show(self.cut[1])}"
        named = 3
        first = show(smaller) if len(smaller) <= named else f"{len(smaller)} samples ({show(smaller, named)})"
        return f"{first} and {len(larger)} other samples"

    def within(self, verdict: Verdict) -> Verdict:
        """Return the verdict with the link across the cut as the weakest, and the cut in its message."""
        if not all(self.cut) or not verdict.identified or len(verdict.groups) > 1 or len(verdict.names) < 3:
            return verdict
        weakest = None if self.link is None else verdict.link(*sorted(self.link, key=verdict.names.index))
        message = f"All {len(verdict.names)} samples can be compared; the weakest cut: {self}."
        return replace(verdict, weakest=weakest, message=message)


@dataclass(frozen=True)
class Trust:
    """What the standard errors of a fit rest on: the worst over its log normalisers and the means that are shown.

    Attributes
    ----------
    df : float
        The smallest degrees of freedom; below 10 an error is rough, below 3 none is given.
    tail_index : float
        The largest tail index of influence values; above 1/2 their variance is infinite. NaN where none was asked for.
    bridging : float
        Rows that bridge the smallest cut between samples; infinite for one sample.
    cut : tuple of two tuples
        The samples on either side of it.
    messages : tuple of str
        The messages, most severe first; empty where all is well.
    in_time : tuple of float
        For time series, how many independent rows each sample is worth at least.
    """

    df: float
    tail_index: float
    bridging: float
    cut: tuple[tuple[Name, ...], tuple[Name, ...]]
    messages: tuple[str, ...]
    in_time: tuple[float, ...] = ()

    @classmethod
    def of(cls, laws: Mapping[str, Law], bridge: Bridge, names: Sequence[Name]) -> Trust:
        """Judge estimates by their laws, given by the name of each."""
        students = [law.student for law in laws.values() if law.student is not None]
        df = min((student.df for student in students), default=math.inf)
        tail = max((student.tail for student in students if not math.isnan(student.tail)), default=math.nan)
        messages = doubts(names, list(laws), list(laws.values()))
        if messages and df < DOUBTED and all(bridge.cut):
            messages = (*messages, f"The weakest link between the samples: {bridge}.")
        worth = zip(*(student.effective for student in students if student.effective), strict=True)
        return cls(df, tail, bridge.rows, bridge.cut, messages, tuple(map(min, worth)))

    @property
    def errors_hold(self) -> bool:
        """Whether all standard errors are given."""
        return self.df >= REFUSED


def warn_of_few_bridging(bridge: Bridge, what: str) -> None:
    """Warn if samples are compared by so few rows that neither a chi-square nor a normal distribution applies."""
    if bridge.rows < RARE:
        warn(WeakOverlapWarning(f"{what} on few rows: {bridge}. Add rows that both sides could draw."))


def bridge_of(
    gram: Gram, sampled: NDArray[np.bool_], groups: Integers | None, eigenvector: Floats, names: Sequence[Name]
) -> Bridge:
    """Return the smallest cut of samples that have rows.

    Parameters
    ----------
    gram : Gram
        sum_i c_i p_i p_i' of all biases.
    sampled : ndarray of bool
        Which biases have rows.
    groups : ndarray of int or None
        The group of each sample, where overlap does not join all of them; cuts are within groups.
    eigenvector : ndarray of shape (K,)
        Its signs give a cut if there are too many samples.
    names : sequence
        The names of all biases.
    """
    labels = np.zeros(len(sampled), np.int64) if groups is None else groups
    bridges = [
        _smallest(gram, np.flatnonzero(sampled & (labels == label)), eigenvector, names)
        for label in np.unique(labels[sampled]).tolist()
        if (sampled & (labels == label)).sum() > 1
    ]
    return min(bridges, key=lambda bridge: bridge.rows, default=Bridge(np.inf, ((), ())))


def _smallest(gram: Gram, members: Integers, eigenvector: Floats, names: Sequence[Name], most: int = 500) -> Bridge:
    """Return the smallest cut; among more than ``most`` samples, one by the signs of an eigenvector."""
    approximate = not gram.is_formed or len(members) > most
    if approximate:
        side = eigenvector[members] > 0
        inside = np.zeros(len(eigenvector))
        inside[members[side]] = 1.0
        rows = float((gram @ inside)[members[~side]].sum())
    else:
        rows, side = smallest_cut(gram.among(np.isin(np.arange(len(eigenvector)), members)).array())
    first, second = sorted((members[side], members[~side]), key=lambda one: one.tolist())
    pair = gram.strongest(first, second)
    link = None if pair is None else (names[pair[0]], names[pair[1]])
    return Bridge(rows, (tuple(names[k] for k in first), tuple(names[k] for k in second)), link, approximate)


def smallest_cut(links: Floats) -> tuple[float, NDArray[np.bool_]]:
    """Return the smallest cut of a graph with symmetric links, and which of its nodes are on one side.

    Nodes that no cut better than the best so far separates are merged until one is left: those whose link and common
    neighbours, each on one side or the other, tie them at least as strongly (Padberg and Rinaldi 1990); failing these,
    the last two in an order in which each node is the one most strongly tied to those before it (Stoer and Wagner
    1997).
    """
    links = links.copy()
    np.fill_diagonal(links, 0.0)
    merged = np.arange(len(links))  # the merged node that each original node is part of
    best, side = np.inf, np.zeros(len(links), bool)
    while len(links) > 1:
        ties = links.sum(axis=1)
        least = int(ties.argmin())
        if ties[least] < best:
            best, side = float(ties[least]), merged == least
        nearest = links.argmax(axis=1)
        tied = np.flatnonzero(links.max(axis=1) + np.minimum(links, links[nearest]).sum(axis=1) >= best)
        pairs = (tied, nearest[tied]) if len(tied) else _last_two(links)
        graph = sparse.coo_array((np.ones(len(pairs[0])), pairs), shape=links.shape)
        labels = sparse.csgraph.connected_components(graph, directed=False)[1]
        members = sparse.csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))))
        links = np.asarray(members @ (members @ links).T)
        np.fill_diagonal(links, 0.0)
        merged = labels[merged]
    return best, side


def _last_two(links: Floats) -> tuple[list[int], list[int]]:
    """Return the last two nodes of an order in which each is the one most strongly tied to those before it."""
    tied, before, last = np.zeros(len(links)), -1, -1
    for _ in range(len(links)):
        before, last = last, int(tied.argmax())
        tied[last] = -np.inf
        tied += links[last]
    return [before], [last]
