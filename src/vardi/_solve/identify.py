"""The directed overlap graph -> verdict: connected or not, the groups, and what would join them."""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy import sparse

from vardi._rows.grouping import widest_tree
from vardi._tables import Note, fragment
from vardi._types import Floats, Integers
from vardi.errors import NotIdentifiableError
from vardi.errors._texts import WIDTH, number_of_rows, show

if TYPE_CHECKING:
    from vardi._rows.base import Rows
    from vardi._rows.lazy_model import LazyRows

    AnyRows: TypeAlias = Rows | LazyRows

Name: TypeAlias = Hashable
Groups: TypeAlias = tuple[tuple[Name, ...], ...]

#: What rows of samples (columns) biases (rows) could have drawn, of shape (K, K).
Links: TypeAlias = Floats | sparse.csr_array


@dataclass(frozen=True)
class Link:
    """Two samples, and how many rows of each the other could have drawn.

    Attributes
    ----------
    first, second : str
        Names of the samples.
    first_in_second : float
        Rows of ``first`` that the bias of ``second`` allows.
    second_in_first : float
        Rows of ``second`` that the bias of ``first`` allows.
    """

    first: Name
    second: Name
    first_in_second: float
    second_in_first: float

    @property
    def rows(self) -> float:
        """How many rows of the pair the two samples share."""
        return self.first_in_second + self.second_in_first

    @property
    def one_way(self) -> bool:
        """Whether only one of the two could have drawn rows of the other."""
        return (self.first_in_second > 0) != (self.second_in_first > 0)

    def __str__(self) -> str:
        there, back = (number_of_rows(rows, grouped=True) for rows in (self.first_in_second, self.second_in_first))
        return (
            f"{there} of '{self.first}' could also have come from '{self.second}', and "
            f"{back} of '{self.second}' from '{self.first}'"
        )


@dataclass(frozen=True)
class Verdict:
    """Whether the samples can be compared with one another, and through which rows.

    Attributes
    ----------
    identified : bool
        Whether the normalisers exist and are unique up to one common factor: every sample can be reached from every
        other in the graph with an edge k -> l wherever the bias of k allows a row of sample l.
    groups : tuple of tuple of str
        Samples that can be compared among themselves; one group where identified.
    names : tuple
        The samples, in the user's order.
    reach : sparse array of shape (K, K)
        Rows of sample l (columns) that the bias of sample k (rows) allows, k and l different.
    weakest : Link or None
        Before a fit, a link with the fewest rows that the comparison hangs on, by what the biases allow. After it, the
        link across the smallest cut of the overlap (``fit.bridge``), in which rows count by how far they could have
        come from either side; None for so many samples that only an approximate cut is known.
    weakest_rows : float
        Any fewer than this many rows can be lost, wherever they lie, and the samples still be compared.
    kappa : float
        The paper's overlap: the largest mass such that the pairs of biases which share at least that mass connect all
        samples. Before a fit the mass is the share of pooled rows, after it the estimated share of the population. A
        lower bound where there are thousands of samples and each row is allowed by hundreds.
    message : str
        The verdict in plain words, with what would help.
    """

    identified: bool
    groups: Groups
    names: tuple[Name, ...] = field(repr=False)
    reach: sparse.csr_array = field(repr=False)
    weakest: Link | None
    weakest_rows: float
    kappa: float
    message: str

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """Every pair that shares rows, each way."""
        edges = self.reach.tocoo()
        rows = dict(zip(zip(edges.row.tolist(), edges.col.tolist(), strict=True), edges.data.tolist(), strict=True))
        pairs = sorted({(min(k, l), max(k, l)) for k, l in rows})
        return tuple(Link(self.names[k], self.names[l], rows.get((l, k), 0.0), rows.get((k, l), 0.0)) for k, l in pairs)

    def link(self, first: Name, second: Name) -> Link:
        """Return one pair without building all of them: thousands of samples have millions."""
        k, l = self.names.index(first), self.names.index(second)
        return Link(first, second, float(self.reach[l, k]), float(self.reach[k, l]))

    def __bool__(self) -> bool:
        return self.identified

    def __str__(self) -> str:
        return textwrap.fill(self.message, WIDTH)

    def _repr_html_(self) -> str:
        mark, colour = ("✓", "#2da44e") if self.identified else ("✗", "#e5534b")  # readable on light and dark
        return fragment([Note(mark, self.message, colour)])

    def require(self) -> Verdict:
        """Return the verdict, or raise if the samples are not identified."""
        if not self.identified:
            raise self.error()
        return self

    def error(self) -> NotIdentifiableError:
        """Return the error that explains what prevents a comparison."""
        return NotIdentifiableError(self.message, groups=self.groups, verdict=self)


def strong_groups(reach: Links) -> Integers:
    """Return the number of each sample's strongly connected group; ``reach[k, l] > 0`` is the edge k -> l."""
    if isinstance(reach, np.ndarray) and (reach > 0).all():
        return np.zeros(len(reach), np.int64)
    graph = sparse.csr_array(reach)
    graph.eliminate_zeros()
    return np.asarray(sparse.csgraph.connected_components(graph, directed=True, connection="strong")[1], np.int64)


def connected(reach: Links, sizes: Floats) -> bool:
    """Return whether the samples that have rows form one strongly connected group."""
    sampled = np.flatnonzero(sizes > 0)
    return bool(strong_groups(_of(reach, sampled)).max() == 0)


def weak_groups(rows: AnyRows, verdict: Verdict) -> Integers:
    """Return the group of each bias within which samples can be compared by overlap; -1 for biases without rows.

    Samples that overlap in one direction only are refused: their relative weight has a bound but no value.
    """
    sampled = np.flatnonzero(rows.sizes > 0)
    reach = sparse.csr_array(rows.reach[sampled][:, sampled])
    _, weak = sparse.csgraph.connected_components(reach, directed=True, connection="weak")
    if weak.max() < strong_groups(reach).max():
        raise verdict.error()
    order = list(dict.fromkeys(weak.tolist()))  # in the order of their first sample, as in the verdict
    groups = np.full(len(rows.sizes), -1)
    groups[sampled] = [order.index(label) for label in weak.tolist()]
    return groups


def judge(rows: AnyRows, names: Sequence[Name], overlap: Links | None = None) -> Verdict:
    """Judge the graph of the samples that have rows.

    Parameters
    ----------
    rows : Rows
        The pool.
    names : sequence
        A name for each bias.
    overlap : array of shape (K, K), optional
        The masses of the rows that both of two biases could have drawn; by default their shares of the pool.
    """
    overlap = rows.overlap(rows.masses()) if overlap is None else overlap
    sampled = np.flatnonzero(rows.sizes > 0)
    names = [names[k] for k in sampled.tolist()]
    overlap, reach = _of(overlap, sampled), _of(rows.reach, sampled)
    graph = sparse.csr_array(reach)
    graph.setdiag(0)
    graph.eliminate_zeros()
    labels = strong_groups(graph)
    groups, weakest, weakest_rows = _named_groups(labels, names), None, 0.0
    if len(groups) > 1:
        message = _disagreement(graph, names, labels, groups)
    else:
        weakest_rows = _bottleneck(graph)
        weakest = _weakest(graph, weakest_rows, names) if len(names) > 1 else None
        message = _agreement(names, weakest, weakest_rows)
    return Verdict(len(groups) == 1, groups, tuple(names), graph, weakest, weakest_rows, _kappa(overlap), message)


def _of(table: Links, sampled: Integers) -> Links:
    """Return the part of a K x K table that is about some samples."""
    return table if len(sampled) == table.shape[0] else table[sampled][:, sampled]


def cut_verdict(before: Verdict, side: Floats, gap: float) -> Verdict:
    """Judge a graph that is connected formally but not to rounding; the signs of ``side`` give the cut."""
    groups = _named_groups((side > 0).astype(np.int64), before.names)
    between = " and ".join(show(group) for group in groups)
    message = (
        f"{between} overlap so little that their relative weight is lost in rounding (spectral gap {gap:.1e}). The "
        "biases allow rows on both sides, but the rows that were drawn lie too far apart to compare. Add a sample that "
        "lies between them, or debias each group alone."
    )
    return replace(before, identified=False, groups=groups, message=message)


@dataclass(frozen=True)
class Joining:
    """How known values join groups of samples that overlap does not connect.

    Attributes
    ----------
    exact : bool
        Whether functions that are constant within each group determine all masses, as shares of groups do; otherwise
        the masses are estimated from means that differ between the groups.
    condition : float
        The condition number of (1, means of the known functions in each group): how much it amplifies their errors.
    """

    exact: bool
    condition: float


def joined_verdict(before: Verdict, joining: Joining | None, masses: Floats | None = None) -> Verdict:
    """Return the verdict on samples whose groups are joined by known values, with the groups' masses if solved."""
    if before.identified or joining is None:
        return before
    how = "exactly" if joining.exact else f"by estimate, with condition number {joining.condition:.3g}"
    shown = zip(before.groups[:6], [] if masses is None else masses, strict=False)
    shares = "; ".join(f"{show(group)} {mass:.1%}" for group, mass in shown)
    more = "; ..." if shares and len(before.groups) > 6 else ""
    message = (
        f"The samples fall into {len(before.groups)} groups that overlap does not connect; known values join them "
        f"{how}{f': {shares}{more}' if shares else ''}."
    )
    return replace(before, identified=True, message=message)


def group_text(names: Sequence[Name]) -> str:
    """Return the names of a group in readable form."""
    return show(names) if len(names) == 1 else f"({show(names)})"


def _named_groups(labels: Integers, names: Sequence[Name]) -> Groups:
    members: dict[int, list[Name]] = {}  # groups in the order of their first sample
    for label, name in zip(labels.tolist(), names, strict=True):
        members.setdefault(label, []).append(name)
    return tuple(map(tuple, members.values()))


def _bottleneck(graph: sparse.csr_array) -> float:
    """Return the largest t such that the edges with at least t rows still connect all samples strongly."""
    values = np.unique(graph.data)
    low, high = 0, len(values) - 1
    while low < high:  # connected at values[low]; find the last such
        middle = (low + high + 1) // 2
        if strong_groups(graph.multiply(graph >= values[middle])).max() == 0:
            low = middle
        else:
            high = middle - 1
    return float(values[low]) if len(values) else np.inf


def _weakest(graph: sparse.csr_array, rows: float, names: Sequence[Name]) -> Link:
    """Return a link across the groups that would remain without the edges of the bottleneck."""
    labels = strong_groups(graph.multiply(graph > rows))
    edges = graph.tocoo()
    across = (edges.data == rows) & (labels[edges.row] != labels[edges.col])
    k, l = sorted((int(edges.row[across][0]), int(edges.col[across][0])))
    return Link(names[k], names[l], float(graph[l, k]), float(graph[k, l]))


def _kappa(overlap: Links) -> float:
    """Return the bottleneck of the maximum spanning tree of the overlap."""
    K = overlap.shape[0]
    if K == 1:
        return float(overlap[0, 0])
    if isinstance(overlap, np.ndarray) and (overlap == overlap[0, 0]).all():  # biases that allow every row
        return float(overlap[0, 0])
    shared = sparse.csr_array(overlap, copy=True)
    shared.setdiag(0)
    shared.eliminate_zeros()
    tree = widest_tree(shared)
    return float(tree.data.min()) if tree.nnz == K - 1 else 0.0


def _agreement(names: Sequence[Name], weakest: Link | None, rows: float) -> str:
    if weakest is None:
        return f"'{names[0]}' stands alone: its rows are weighted by the inverse of its bias."
    if len(names) == 2:
        return f"'{names[0]}' and '{names[1]}' can be compared: {weakest}."
    return (
        f"All {len(names)} samples can be compared. Counting rows that both biases allow, the weakest link is "
        f"{number_of_rows(rows)}: {weakest}. A fit weights these rows, and names the weakest cut."
    )


def _disagreement(graph: sparse.csr_array, names: Sequence[Name], labels: Integers, groups: Groups) -> str:
    edges = graph.tocoo()
    across = np.flatnonzero(labels[edges.row] != labels[edges.col])
    if len(across):
        nearest = across[np.argmax(edges.data[across])]
        outer, inner = names[int(edges.row[nearest])], names[int(edges.col[nearest])]
        shared = number_of_rows(float(edges.data[nearest]))
        return (
            f"{_groups_text(groups)}: they overlap in one direction only. {shared} of '{inner}' could also have come "
            f"from '{outer}', but nothing that '{outer}' drew leads back, so the relative weight of the two has a "
            f"bound but no value. Add rows of '{outer}' that '{inner}' could have drawn too, or a sample that overlaps "
            f"both, or debias each group alone. If the share of what '{inner}' could have drawn is known, exclude "
            f"it from the bias of '{outer}', which drew nothing there, and give the share."
        )
    return (
        f"{_groups_text(groups)}: they share no rows that both could have drawn, so their relative weight is "
        "undetermined. Add a sample that overlaps both, give known values, or debias each group alone."
    )


def _groups_text(groups: Groups) -> str:
    listed = "; ".join(show(group) for group in groups[:6]) + ("; ..." if len(groups) > 6 else "")
    return f"The samples fall into {len(groups)} groups that cannot be compared ({listed})"
