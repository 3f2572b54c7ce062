"""Columns that frames of an engine have at a point, by name: for queries that are not yet questions of columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np

from vardi._inputs.engine.part import OMEGA, PREFIX, Part
from vardi._rows.engine.model import EngineModel
from vardi._rows.expressions import Expressions, Term, total
from vardi._rows.point import KnownMoments, Point, PointAmong, RowsAt
from vardi._rows.queries import QueryBlock
from vardi._types import Floats, Integers

WEIGHT, X = f"{PREFIX}r", f"{PREFIX}x_{{}}"


class EnginePoint:
    """The columns that rows have at a point.

    Parameters
    ----------
    model : EngineModel
        The rows.
    point : Point or PointAmong
        The point.

    Attributes
    ----------
    active : ndarray of int
        The coordinates of x that are columns: those of sampled biases, of parameters and of known moments. Those of
        epsilon are -R'mu times the column of weights.
    """

    def __init__(self, model: EngineModel, point: Point | PointAmong) -> None:
        self.model, self.point = model, point
        whole = point if isinstance(point, Point) else point.whole
        self.v, at = whole.v, model.coordinates
        self.u, self.theta, self.mu = self.v[at.u], self.v[at.theta], self.v[at.mu]
        self.sampled: Integers = np.flatnonzero(np.isfinite(self.u))
        self.block = QueryBlock(model.parts[0], at.samples, {})
        self.rows: RowsAt = whole.at(self.block)
        self.weight_of_epsilon: Floats = self.rows.weight_of_epsilon
        columns: dict[int, Term] = {k: self.rows.p.column(k).terms[0] for k in self.sampled.tolist()}  # type: ignore
        if at.parameters or at.known:
            columns |= {at.samples + j: one for j, one in enumerate(_terms(self.rows.others))}
        self.active: Integers = np.array(sorted(columns))
        weight = self.rows.weight
        if isinstance(point, PointAmong):
            among = point.at(self.block)
            mine = [k for k in self.sampled.tolist() if k in point.states]
            moved = [at.theta.start + j for k, place in model.places.items() if k in mine for j in _range(place)]
            self.active = np.array([*mine, *moved])
            columns = {j: (Expressions([columns[j]]) / among.share).terms[0] for j in self.active.tolist()}
            weight, self.weight_of_epsilon = among.weight_of_all, np.zeros(at.uncertain)
        self._named = {WEIGHT: _expression(_terms(weight)[0])}
        self._named |= {X.format(j): _expression(columns[j]) for j in self.active.tolist()}

    def __call__(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add the columns to a frame."""
        for change in self.block.changes:
            frame = frame if change is None else change(frame)
        return frame.with_columns(**self._named)

    @property
    def weight(self) -> nw.Expr:
        """1 / S."""
        return nw.col(WEIGHT)

    def x(self, coordinate: int) -> nw.Expr:
        """Return one active coordinate of x."""
        return nw.col(X.format(coordinate))

    def users_bias(self, k: int) -> nw.Expr:
        """Return omega_k at theta, on the user's scale."""
        return _expression(_terms(self.rows.users_bias(k))[0])

    def gradient(self, k: int) -> list[nw.Expr]:
        """Return t_k = grad log omega_k, for each parameter of bias k."""
        return [_expression(term) for term in _terms(self.rows.families[k].gradient)]

    def own(self, part: Part, b: Floats) -> nw.Expr | None:
        """Return t_{i, s_i}'b on the rows of a part, for b of the coordinates; None if it is zero."""
        found: list[nw.Expr] = []
        for k, place in self.model.places.items():
            slopes = b[self.model.coordinates.theta][place]
            mine = part.only(k, _expression(total([t * float(x) for t, x in zip(self.gradient(k), slopes, strict=True)])))
            found += [] if mine is None or not slopes.any() else [mine]
        return _expression(total(found)) if found else None


def _range(place: slice) -> range:
    return range(place.start, place.stop)


def _terms(columns: Any) -> tuple[Term, ...]:
    terms: tuple[Term, ...] = columns.terms
    return terms


def _expression(term: Term) -> nw.Expr:
    return nw.lit(term) if isinstance(term, float) else term


def parts_at(model: EngineModel, theta: Floats) -> tuple[Part, ...]:
    """Return frames whose biases have their parameters fixed, on the user's scale: known biases like any others."""
    if not model.families:
        return model.parts
    alone = replace(model, known=KnownMoments.none())
    rows = Point(alone.model, np.concatenate([np.zeros(len(model.sizes)), theta])).at(
        block := QueryBlock(model.parts[0], len(model.sizes), {})
    )
    fixed = {OMEGA.format(k): _expression(_terms(rows.users_bias(k))[0]) for k in model.families}
    stages = list(block.changes)

    def change(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        for stage in stages:
            frame = frame if stage is None else stage(frame)
        return frame.with_columns(**fixed)

    return tuple(part.map(change) for part in model.parts)
