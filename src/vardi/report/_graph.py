"""The overlap of the samples -> geometry: a graph of a few samples, a heat map of many.

Charts are drawn in pixels of a wide screen; templates write them as SVG, and escape their text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vardi._facts.links import LinkFacts, Overlap
from vardi._facts.numbers import number, rows_text, share
from vardi.errors._texts import count, cut

MOST_NODES = 20
MOST_EDGES = 60
WIDTH = 480.0  # of the graph
ACROSS = 112.0  # radius of the circle of a few samples
SHADES = 5  # of a heat map
LABEL = 22  # letters in a label of the heat map
LABELLED = 4  # samples up to which every link has its number written on it


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


def graph(overlap: Overlap) -> Graph:
    """Lay the samples out on a line or a circle, with the weakest link marked, also as weak if it is."""
    K = len(overlap.names)
    width, radius = WIDTH, 0.0 if K == 1 else 140.0 if K == 2 else ACROSS if K <= 8 else 128.0
    largest = 34.0 if K <= 3 else 24.0 if K <= 8 else 13.0
    turn = math.pi if K == 2 else -math.pi / 2 + (math.pi / K if K > 8 else 0.0)
    angles = [turn + 2 * math.pi * k / K for k in range(K)]
    places = [(width / 2 + radius * math.cos(a), radius * math.sin(a) if K > 2 else 0.0) for a in angles]
    most = max(overlap.sizes)
    discs = [max(largest * math.sqrt(size / most), 4.0) for size in overlap.sizes]
    nodes = [
        _node(name, size, place, disc, angle, K, width)
        for name, size, place, disc, angle in zip(overlap.names, overlap.sizes, places, discs, angles, strict=True)
    ]
    shown = [link for link in overlap.links if link.strength > 0 or link.weakest][:MOST_EDGES]
    scale = max((link.strength for link in shown), default=1.0) or 1.0
    if K == 2:  # the largest possible value: two samples from one distribution
        scale = max(scale, overlap.sizes[0] * overlap.sizes[1] / sum(overlap.sizes))
    ends = {name: places[k] for k, name in enumerate(overlap.names)}
    edges = [_edge(link, ends[str(link.first)], ends[str(link.second)], scale, overlap) for link in reversed(shown)]
    hidden = len(overlap.links) + overlap.more_links - len(shown)
    top = min(min(node.y - node.radius, node.label_y - 16) for node in nodes) - 6
    bottom = max(max(node.y + node.radius, node.label_y + (17 if K <= 8 else 0)) for node in nodes) + 10
    return Graph(width, round(top, 1), round(bottom - top, 1), tuple(nodes), tuple(edges), hidden, K <= 8)


def _node(name: str, size: float, place: tuple[float, float], disc: float, angle: float, K: int, width: float) -> Node:
    x, y = place
    title = f"{name}: {rows_text(size)}"
    if K <= 2:
        return Node(x, y, disc, x, y + disc + 20, "middle", cut(name, 24), rows_text(size), title)
    side = math.cos(angle)
    anchor = "start" if side > 0.25 else "end" if side < -0.25 else "middle"
    label_x = x + (disc + 9) * (side if anchor != "middle" else 0.0)
    below = math.sin(angle) > 0
    middle_y = y + disc + 18 if below else y - disc - (24 if K <= 8 else 8)
    label_y = middle_y if anchor == "middle" else y + (disc + 9) * math.sin(angle) + (0 if K <= 8 else 4)
    room = width - label_x if anchor == "start" else label_x if anchor == "end" else 180.0
    return Node(x, y, disc, label_x, label_y, anchor, cut(name, int(room / 7.6)), rows_text(size), title)


def _edge(
    link: LinkFacts, start: tuple[float, float], end: tuple[float, float], scale: float, overlap: Overlap
) -> Edge:
    K, complete = len(overlap.names), overlap.complete
    marked = link.weakest and (K > 2 or overlap.weak)  # the only link of two samples is trivially the weakest
    width = 1.2 + 7.0 * link.strength / scale
    label = _edge_label(link, K, complete=complete) if K <= LABELLED or link.weakest else ""
    part = 0.5
    if K == LABELLED and math.dist(start, end) > 2 * ACROSS - 1:
        part = 0.36  # diagonals cross in the middle
    x, y = (1 - part) * start[0] + part * end[0], (1 - part) * start[1] + part * end[1]
    if K > 8:  # lines are short, so their numbers stand beside them
        x, y = x + 0.17 * (WIDTH / 2 - x), 0.83 * y
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


def heat_map(overlap: Overlap) -> HeatMap:
    """Lay out the shared rows of many samples."""
    m, group = len(overlap.shares), overlap.group
    last = len(overlap.names) - 1
    names = [
        overlap.names[k * group]
        if group == 1
        else f"{overlap.names[k * group]} to {overlap.names[min((k + 1) * group - 1, last)]}"
        for k in range(m)
    ]
    labels = tuple(cut(name, LABEL) for name in names)
    left = top = 30.0 + 6.0 * max(map(len, labels))
    size = (1000.0 - left - 8.0) / m
    inner = size - min(0.8, 0.1 * size)
    cells = tuple(
        Cell(
            f"M{left + l * size:.1f} {top + k * size:.1f}h{inner:.1f}v{inner:.1f}h-{inner:.1f}z",
            min(int(SHADES * value), SHADES - 1),
            f"{names[k]} allows {share(value)} of the rows of {names[l]}",
        )
        for k, line in enumerate(overlap.shares)
        for l, value in enumerate(line)
        if value > 0
    )
    shades = tuple(f"{100 * k // SHADES}–{100 * (k + 1) // SHADES}%" for k in range(SHADES))
    return HeatMap(1000.0, round(top + m * size + 8.0, 1), size, left, top, cells, labels, group, shades)
