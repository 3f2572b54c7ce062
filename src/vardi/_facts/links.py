"""The graph of the samples: which of them share rows, and where it is weakest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import sparse

from vardi._estimate.intervals import DOUBTED
from vardi._estimate.reliability import Trust
from vardi._inputs.pool import Name
from vardi._rows.gram import Gram
from vardi._solve.identify import Link, Verdict
from vardi._types import Floats

if TYPE_CHECKING:
    from vardi._fit.sample import DebiasedSample


@dataclass(frozen=True)
class LinkFacts(Link):
    """Two samples and what joins them.

    Attributes
    ----------
    bridging : float
        sum_i p_i,first p_i,second: how many rows could equally well have come from the other; NaN if not computed.
    weakest : bool
        Whether it is the strongest link across the smallest cut, on which the comparison of all samples depends.
    """

    bridging: float
    weakest: bool

    @property
    def strength(self) -> float:
        """Bridging rows, or shared rows if these are unknown."""
        return self.rows if math.isnan(self.bridging) else self.bridging


@dataclass(frozen=True)
class Overlap:
    """The graph of the samples that have rows.

    Attributes
    ----------
    names : tuple of str
        The samples, neighbours near one another.
    sizes : tuple of float
        Their rows.
    links : tuple of LinkFacts
        The pairs that share rows, the weakest link first and then the strongest; at most 200 of them.
    more_links : int
        How many pairs were left out of ``links``.
    shares : tuple of tuple of float
        Share of the rows of the second (inner) that the bias of the first (outer) allows; by groups of neighbouring
        samples if there are many.
    group : int
        How many samples a cell of ``shares`` covers, each way.
    complete : bool
        Whether every bias allows every row, so that only bridging rows are informative, not shared ones.
    kappa : float
        The paper's overlap.
    bridging : float
        Rows that bridge the smallest cut; NaN for a single sample.
    cut : tuple of two tuples of str
        The samples on either side of it.
    approximate : bool
        Whether there may be a smaller cut: with very many samples the smallest is not computed.
    weak : bool
        Whether the weakest link is actually weak: some error rests on so few rows that it is rough or withheld.
    """

    names: tuple[str, ...]
    sizes: tuple[float, ...]
    links: tuple[LinkFacts, ...]
    more_links: int
    shares: tuple[tuple[float, ...], ...]
    group: int
    complete: bool
    kappa: float
    bridging: float
    cut: tuple[tuple[str, ...], tuple[str, ...]]
    approximate: bool
    weak: bool


def overlap_of(
    fit: DebiasedSample, verdict: Verdict, trust: Trust, most_links: int = 200, kept_order: int = 3
) -> Overlap:
    """Compute the overlap of the samples that have rows; a few samples keep the user's order."""
    sizes, gram = sampled_gram(fit)
    order = np.arange(len(sizes))
    if len(sizes) > kept_order:
        cut = fit.solution.cut[[size > 0 for size in fit.sizes.values()]]
        order = np.argsort(cut, kind="stable")  # neighbours have similar signs of the cut
        order = order if order[0] < order[-1] else order[::-1]  # the direction is arbitrary
    names = tuple(str(verdict.names[k]) for k in order.tolist())
    reach = sparse.csr_array(verdict.reach)[order][:, order]
    bridge = fit.bridge
    links, pairs = links_of(verdict, gram, most_links, "strongest")
    cells, group = _cells(reach, sizes[order])
    return Overlap(
        names=names,
        sizes=tuple(sizes[order].tolist()),
        links=tuple(links),
        more_links=pairs - len(links),
        shares=cells,
        group=group,
        complete=len(sizes) > 1 and bool((reach.sum(axis=0) == sizes[order] * (len(sizes) - 1)).all()),
        kappa=verdict.kappa,
        bridging=bridge.rows if np.isfinite(bridge.rows) else math.nan,
        cut=(_in_order(bridge.cut[0], names), _in_order(bridge.cut[1], names)),
        approximate=bridge.approximate,
        weak=all(bridge.cut) and trust.df < DOUBTED,
    )


def sampled_gram(fit: DebiasedSample) -> tuple[Floats, Gram]:
    """Return the sizes of the samples that have rows, and the gram of their biases."""
    sizes = np.array(list(fit.sizes.values()), np.float64)
    return sizes[sizes > 0], fit.solved.tangent.hessian.gram.among(sizes > 0)


def links_of(
    verdict: Verdict, gram: Gram | None, most: int, first: Literal["strongest", "weakest"]
) -> tuple[list[LinkFacts], int]:
    """Return the weakest link, then the strongest or the weakest of the others, and how many links there are in all."""
    reach = sparse.csr_array(verdict.reach)
    either = sparse.csr_array(sparse.triu(reach + reach.T, 1))
    either.sort_indices()
    k, l = either.tocoo().coords
    there, back = (np.asarray(reach[ends]).ravel() for ends in ((l, k), (k, l)))
    bridging = np.full(len(k), math.nan) if gram is None else gram.pairs(k, l)
    strength = np.where(np.isnan(bridging), there + back, bridging)
    names, weakest = verdict.names, verdict.weakest
    ends = () if weakest is None else sorted(names.index(name) for name in (weakest.first, weakest.second))
    is_weakest = np.isin(k, ends[:1]) & np.isin(l, ends[1:])
    order = np.lexsort((strength if first == "weakest" else -strength, ~is_weakest))[:most].tolist()
    columns = there, back, bridging, is_weakest
    return [LinkFacts(names[k[j]], names[l[j]], *(column[j].item() for column in columns)) for j in order], len(k)


def _in_order(side: Sequence[Name], names: Sequence[str]) -> tuple[str, ...]:
    members = {str(name) for name in side}
    return tuple(name for name in names if name in members)


def _cells(reach: sparse.csr_array, sizes: Floats, most: int = 60) -> tuple[tuple[tuple[float, ...], ...], int]:
    """Return the share of l's rows (inner) that bias k (outer) allows; more than ``most`` share cells."""
    K = len(sizes)
    group = -(-K // most)
    cell = np.arange(K) // group
    members = sparse.csr_array((np.ones(K), (cell, np.arange(K))))
    diagonal = sparse.diags_array(sizes)
    allowed = np.asarray((members @ (reach + diagonal) @ members.T).toarray())
    possible = np.outer(np.bincount(cell), members @ sizes)
    return tuple(tuple(row) for row in (allowed / possible).tolist()), group
