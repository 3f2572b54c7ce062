"""The graph of the samples: who shares rows with whom, and where it is weakest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from vardi._identify import Name, Verdict, widest_tree
from vardi._sums import Floats, Integers
from vardi.report._content import LinkRow, Overlap

if TYPE_CHECKING:
    from vardi._sample import DebiasedSample

MOST_CELLS = 40  # of a heat map, each way
MOST_LINKS = 200
KEPT_ORDER = 3  # samples up to which they stand in the user's order


def overlap_of(fit: DebiasedSample, verdict: Verdict) -> Overlap:
    """Compute the overlap of the samples that have rows."""
    sampled = np.flatnonzero(fit._rows.sizes > 0)
    sizes: Floats = fit._rows.sizes[sampled]
    order = np.arange(len(sampled))
    if len(sampled) > KEPT_ORDER:
        order = np.argsort(fit.solution.cut[sampled], kind="stable")  # neighbours have similar signs of the cut
    names = tuple(str(verdict.names[k]) for k in order.tolist())
    reach = sparse.csr_array(verdict.reach)[order][:, order]
    bridging = _bridging(fit, sampled[order])
    links = _links(reach, names, bridging, _weakest(reach, sizes[order], bridging, verdict, order))
    shown = sorted(links, key=lambda link: (not link.weakest, -_strength(link)))[:MOST_LINKS]
    trust = fit.trust
    cells, group = _cells(reach, sizes[order])
    return Overlap(
        names=names,
        sizes=tuple(sizes[order].tolist()),
        links=tuple(shown),
        more_links=len(links) - len(shown),
        shares=cells,
        group=group,
        complete=_is_complete(reach, sizes[order]),
        kappa=verdict.kappa,
        bridging=trust.bridging if np.isfinite(trust.bridging) and all(trust.cut) else None,
        cut=(_in_order(trust.cut[0], names), _in_order(trust.cut[1], names)),
    )


def _bridging(fit: DebiasedSample, sampled: Integers) -> Floats | None:
    """Return sum_i p_ik p_il of every pair; None where the pairs are too many to have been computed."""
    gram: Any = fit._influence.sums.gram
    if gram is None or callable(gram):
        return None
    return np.asarray(gram if isinstance(gram, np.ndarray) else gram.toarray())[np.ix_(sampled, sampled)]


def _weakest(
    reach: Any, sizes: Floats, bridging: Floats | None, verdict: Verdict, order: Integers
) -> tuple[int, int] | None:
    """Return the link that the comparison hangs on, as positions.

    Where every bias allows every row, shared rows say nothing, and the link with the fewest bridging rows is taken on
    the tree that joins the samples best.
    """
    if verdict.weakest is None:
        return None
    if _is_complete(reach, sizes) and bridging is not None:
        tree = widest_tree(sparse.csr_array(bridging - np.diag(np.diag(bridging))))
        edge = int(tree.data.argmin())
        return int(min(tree.row[edge], tree.col[edge])), int(max(tree.row[edge], tree.col[edge]))
    position = {verdict.names[k]: place for place, k in enumerate(order.tolist())}
    first, second = position[verdict.weakest.first], position[verdict.weakest.second]
    return min(first, second), max(first, second)


def _is_complete(reach: Any, sizes: Floats) -> bool:
    """Tell whether every bias allows every row."""
    return len(sizes) > 1 and bool((np.asarray(reach.sum(axis=0)) == sizes * (len(sizes) - 1)).all())


def _links(
    reach: Any, names: tuple[str, ...], bridging: Floats | None, weakest: tuple[int, int] | None
) -> list[LinkRow]:
    edges = sparse.coo_array(reach)
    rows = dict(zip(zip(edges.row.tolist(), edges.col.tolist(), strict=True), edges.data.tolist(), strict=True))
    return [
        LinkRow(
            names[k],
            names[l],
            rows.get((l, k), 0.0),
            rows.get((k, l), 0.0),
            None if bridging is None else float(bridging[k, l]),
            (k, l) == weakest,
        )
        for k, l in sorted({(min(k, l), max(k, l)) for k, l in rows})
    ]


def _in_order(side: Sequence[Name], names: Sequence[str]) -> tuple[str, ...]:
    members = {str(name) for name in side}
    return tuple(name for name in names if name in members)


def _strength(link: LinkRow) -> float:
    return link.first_in_second + link.second_in_first if link.bridging is None else link.bridging


def _cells(reach: Any, sizes: Floats) -> tuple[tuple[tuple[float, ...], ...], int]:
    """Return the share of the rows of l (inner) that bias k (outer) allows; neighbours in one cell where many."""
    K = len(sizes)
    group = -(-K // MOST_CELLS)
    cell = np.arange(K) // group
    members = sparse.csr_array((np.ones(K), (cell, np.arange(K))))
    own = sparse.diags_array(sizes)
    allowed = np.asarray((members @ (reach + own) @ members.T).toarray())
    possible = np.outer(np.bincount(cell), members @ sizes)
    return tuple(tuple(row) for row in (allowed / possible).tolist()), group
