"""The overlap of the samples -> geometry: a graph of a few samples, the names along a heat map of many.

Charts are drawn in pixels of a wide screen; templates write them as SVG, and escape their text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vardi._facts.links import LinkFacts, Overlap
from vardi._facts.numbers import number
from vardi.errors._texts import count, cut

Point = tuple[float, float]


@dataclass(frozen=True)
class Node:
    """A sample of the graph: a disc whose area grows with its rows, and the place of its label."""

    name: str
    rows: float
    x: float
    y: float
    radius: float
    label: str
    label_x: float
    label_y: float
    anchor: str


@dataclass(frozen=True)
class Edge:
    """A link of the graph as a line, marked or not, with a label or without."""

    link: LinkFacts
    start: Point
    end: Point
    width: float
    marked: bool
    label: str
    label_at: Point


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


def graph(overlap: Overlap, most_edges: int = 60, width: float = 480.0, few: int = 8) -> Graph:
    """Lay the samples out on a line or a circle, with the weakest link marked, also as weak if it is.

    The labels of a ``few`` samples have a second line.
    """
    K = len(overlap.names)
    two_lines = few >= K
    radius = 0.0 if K == 1 else 140.0 if K == 2 else 112.0 if two_lines else 128.0 if K <= 12 else 140.0
    largest = 34.0 if K <= 3 else 24.0 if two_lines else 13.0
    turn = math.pi if K == 2 else -math.pi / 2 + (0.0 if two_lines else math.pi / K)
    angles = [turn + 2 * math.pi * k / K for k in range(K)]
    places = [(width / 2 + radius * math.cos(a), radius * math.sin(a) if K > 2 else 0.0) for a in angles]
    most = max(overlap.sizes)
    nodes = []
    for name, size, place, angle in zip(overlap.names, overlap.sizes, places, angles, strict=True):
        disc = max(largest * math.sqrt(size / most), 4.0)
        label_x, label_y, anchor, letters = _label(place, disc, angle, K, width, two_lines=two_lines)
        nodes.append(Node(name, size, *place, disc, cut(name, letters), label_x, label_y, anchor))
    shown = [link for link in overlap.links if link.strength > 0 or link.weakest][:most_edges]
    scale = max((link.strength for link in shown), default=1.0) or 1.0
    if K == 2:  # the largest possible value: two samples from one distribution
        scale = max(scale, overlap.sizes[0] * overlap.sizes[1] / sum(overlap.sizes))
    place_of = dict(zip(overlap.names, places, strict=True))
    edges = []
    for link in reversed(shown):
        marked = link.weakest and (K > 2 or overlap.weak)  # the only link of two samples is trivially the weakest
        thick = max(1.2 + 7.0 * link.strength / scale, 3.0 if marked and K > 2 else 0.0)
        label = _edge_label(link, K, complete=overlap.complete) if K <= 4 or link.weakest else ""
        start, end = place_of[str(link.first)], place_of[str(link.second)]
        part = 0.36 if K == 4 and math.dist(start, end) > 2 * radius - 1 else 0.5  # diagonals cross in the middle
        x, y = (1 - part) * start[0] + part * end[0], (1 - part) * start[1] + part * end[1]
        if not two_lines:  # lines are short, so their numbers stand beside them
            x, y = x + 0.17 * (width / 2 - x), 0.83 * y
        edges.append(Edge(link, start, end, thick, marked, label, (x, y)))
    hidden = len(overlap.links) + overlap.more_links - len(shown)
    top = min(min(node.y - node.radius, node.label_y - 16) for node in nodes) - 6
    bottom = max(max(node.y + node.radius, node.label_y + (17 if two_lines else 0)) for node in nodes) + 10
    return Graph(width, round(top, 1), round(bottom - top, 1), tuple(nodes), tuple(edges), hidden, two_lines)


def _label(
    place: Point, disc: float, angle: float, K: int, width: float, *, two_lines: bool
) -> tuple[float, float, str, int]:
    """Return where the label of a disc stands, which end of it is there, and how many letters have room."""
    x, y = place
    if K <= 2:
        return x, y + disc + 20, "middle", 24
    side, height = math.cos(angle), math.sin(angle)
    upright = 0.25 if two_lines else 1e-9  # above one another the labels of many would overlap
    if abs(side) <= upright:
        below = disc + (18 if two_lines else 24)
        return x, y + below if height > 0 else y - disc - (24 if two_lines else 8), "middle", 20
    label_x = x + (disc + 9) * side
    apart = 8.0 if K > 12 and abs(height) > 0.96 else 0.0  # from the label of the next, which starts below it
    label_y = y + (disc + 9 + apart) * height + (0 if two_lines else 4)
    anchor, room = ("start", width - label_x) if side > 0 else ("end", label_x)
    return label_x, label_y, anchor, int(room / 8.6)  # a letter is 8.6 wide


def _edge_label(link: LinkFacts, K: int, *, complete: bool) -> str:
    if complete and not math.isnan(link.bridging):
        return number(float(f"{link.bridging:.2g}")) + (" bridging rows" if K <= 2 else "")
    return count(link.rows) + (" shared rows" if K <= 2 else "")


def cell_names(overlap: Overlap) -> list[str]:
    """Return the names of the cells of a heat map: a sample, or the first and the last of a group."""
    names, group = overlap.names, overlap.group
    if group == 1:
        return list(names)
    return [f"{names[start]} to {names[start : start + group][-1]}" for start in range(0, len(names), group)]
