"""The overlap of the samples -> geometry: a graph of a few samples, a heat map of many.

Charts are drawn in pixels of a wide screen; templates write them as SVG, and escape their text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vardi._facts.links import LinkFacts, Overlap
from vardi._facts.numbers import number, rows_text, share
from vardi.errors._texts import count, cut

FEW = 8  # samples up to which their labels have a second line


@dataclass(frozen=True)
class Node:
    """A sample of the graph: a disc whose area grows with its rows, and its label."""

    x: float
    y: float
    radius: float
    label_x: float
    label_y: float
    anchor: str
    label: str
    rows: str
    title: str


@dataclass(frozen=True)
class Edge:
    """A link of the graph, with a label or without."""

    x1: float
    y1: float
    x2: float
    y2: float
    width: float
    weakest: bool
    one_way: bool
    label: str
    label_x: float
    label_y: float
    title: str


@dataclass(frozen=True)
class Graph:
    """The samples as discs and their links as lines; ``hidden`` links are in the table only."""

    width: float
    top: float
    height: float
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    hidden: int
    two_lines: bool


def drawn(overlap: Overlap, most_nodes: int = 20) -> tuple[Graph | None, HeatMap | None]:
    """Return the graph of a few samples, or the heat map of many; neither of many that share all rows."""
    if len(overlap.names) <= most_nodes:
        return graph(overlap), None
    return None, None if overlap.complete else heat_map(overlap)


def graph(overlap: Overlap, most_edges: int = 60, width: float = 480.0) -> Graph:
    """Lay the samples out on a line or a circle, with the weakest link marked, also as weak if it is."""
    K = len(overlap.names)
    radius = 0.0 if K == 1 else 140.0 if K == 2 else 112.0 if K <= FEW else 128.0 if K <= 12 else 140.0
    largest = 34.0 if K <= 3 else 24.0 if K <= FEW else 13.0
    turn = math.pi if K == 2 else -math.pi / 2 + (math.pi / K if K > FEW else 0.0)
    angles = [turn + 2 * math.pi * k / K for k in range(K)]
    places = [(width / 2 + radius * math.cos(a), radius * math.sin(a) if K > 2 else 0.0) for a in angles]
    most = max(overlap.sizes)
    discs = [max(largest * math.sqrt(size / most), 4.0) for size in overlap.sizes]
    nodes = [
        _node(name, size, place, disc, angle, K, width)
        for name, size, place, disc, angle in zip(overlap.names, overlap.sizes, places, discs, angles, strict=True)
    ]
    shown = [link for link in overlap.links if link.strength > 0 or link.weakest][:most_edges]
    scale = max((link.strength for link in shown), default=1.0) or 1.0
    if K == 2:  # the largest possible value: two samples from one distribution
        scale = max(scale, overlap.sizes[0] * overlap.sizes[1] / sum(overlap.sizes))
    ends = {name: places[k] for k, name in enumerate(overlap.names)}
    edges = [
        _edge(link, ends[str(link.first)], ends[str(link.second)], scale, overlap, radius, width / 2)
        for link in reversed(shown)
    ]
    hidden = len(overlap.links) + overlap.more_links - len(shown)
    top = min(min(node.y - node.radius, node.label_y - 16) for node in nodes) - 6
    bottom = max(max(node.y + node.radius, node.label_y + (17 if K <= FEW else 0)) for node in nodes) + 10
    return Graph(width, round(top, 1), round(bottom - top, 1), tuple(nodes), tuple(edges), hidden, K <= FEW)


def _node(name: str, size: float, place: tuple[float, float], disc: float, angle: float, K: int, width: float) -> Node:
    x, y = place
    title = f"{name}: {rows_text(size)}"
    if K <= 2:
        return Node(x, y, disc, x, y + disc + 20, "middle", cut(name, 24), rows_text(size), title)
    side = math.cos(angle)
    upright = 0.25 if K <= FEW else 1e-9  # above one another the labels of many would overlap
    anchor = "start" if side > upright else "end" if side < -upright else "middle"
    label_x = x + (disc + 9) * (side if anchor != "middle" else 0.0)
    below = math.sin(angle) > 0
    middle_y = y + disc + (18 if K <= FEW else 24) if below else y - disc - (24 if K <= FEW else 8)
    apart = 8.0 if K > 12 and abs(math.sin(angle)) > 0.96 else 0.0  # from the label of the next, which starts below it
    beside_y = y + (disc + 9 + apart) * math.sin(angle) + (0 if K <= FEW else 4)
    label_y = middle_y if anchor == "middle" else beside_y
    room = width - label_x if anchor == "start" else label_x if anchor == "end" else 180.0
    # a letter is 8.6 wide
    return Node(x, y, disc, label_x, label_y, anchor, cut(name, int(room / 8.6)), rows_text(size), title)


def _edge(
    link: LinkFacts,
    start: tuple[float, float],
    end: tuple[float, float],
    scale: float,
    overlap: Overlap,
    radius: float,
    middle: float,
) -> Edge:
    """Return a link; of up to four samples every one has its number written on it."""
    K, complete = len(overlap.names), overlap.complete
    marked = link.weakest and (K > 2 or overlap.weak)  # the only link of two samples is trivially the weakest
    width = 1.2 + 7.0 * link.strength / scale
    label = _edge_label(link, K, complete=complete) if K <= 4 or link.weakest else ""
    part = 0.5
    if K == 4 and math.dist(start, end) > 2 * radius - 1:
        part = 0.36  # diagonals cross in the middle
    x, y = (1 - part) * start[0] + part * end[0], (1 - part) * start[1] + part * end[1]
    if K > FEW:  # lines are short, so their numbers stand beside them
        x, y = x + 0.17 * (middle - x), 0.83 * y
    return Edge(
        *start,
        *end,
        max(width, 3.0 if K > 2 else 0.0) if marked else width,
        marked,
        link.one_way,
        label,
        x,
        y,
        link_title(link),
    )


def _edge_label(link: LinkFacts, K: int, *, complete: bool) -> str:
    if complete and not math.isnan(link.bridging):
        return number(float(f"{link.bridging:.2g}")) + (" bridging rows" if K <= 2 else "")
    return count(link.rows) + (" shared rows" if K <= 2 else "")


def link_title(link: LinkFacts) -> str:
    """Return a link in words."""
    bridging = "" if math.isnan(link.bridging) else f"; {number(round(link.bridging, 1))} bridging rows"
    weakest = " (weakest link)" if link.weakest else ""
    return (
        f"{link.first} and {link.second}{weakest}: {rows_text(link.first_in_second)} of {link.first} and "
        f"{rows_text(link.second_in_first)} of {link.second} could be in both{bridging}"
    )


@dataclass(frozen=True)
class Cell:
    """A cell of the heat map: a square, one of a few shades, and its tooltip."""

    path: str
    shade: int
    title: str


@dataclass(frozen=True)
class HeatMap:
    """The share of the rows of one sample (columns) that the bias of another (lines) allows."""

    width: float
    height: float
    size: float
    left: float
    top: float
    cells: tuple[Cell, ...]
    labels: tuple[str, ...]
    group: int
    shades: tuple[str, ...]


def heat_map(overlap: Overlap, shades: int = 5, letters: int = 22) -> HeatMap:
    """Lay out the shared rows of many samples, with so many letters in a label."""
    m, group = len(overlap.shares), overlap.group
    last = len(overlap.names) - 1
    names = [
        overlap.names[k * group]
        if group == 1
        else f"{overlap.names[k * group]} to {overlap.names[min((k + 1) * group - 1, last)]}"
        for k in range(m)
    ]
    labels = tuple(cut(name, letters) for name in names)
    left = top = 30.0 + 6.0 * max(map(len, labels))
    size = (1000.0 - left - 8.0) / m
    inner = size - min(0.8, 0.1 * size)
    cells = tuple(
        Cell(
            f"M{left + l * size:.1f} {top + k * size:.1f}h{inner:.1f}v{inner:.1f}h-{inner:.1f}z",
            min(int(shades * value), shades - 1),
            f"{names[k]} allows {share(value)} of the rows of {names[l]}",
        )
        for k, line in enumerate(overlap.shares)
        for l, value in enumerate(line)
        if value > 0
    )
    steps = tuple(f"{100 * k // shades}–{100 * (k + 1) // shades}%" for k in range(shades))
    return HeatMap(1000.0, round(top + m * size + 8.0, 1), size, left, top, cells, labels, group, steps)
