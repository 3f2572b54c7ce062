"""The sums of one likelihood at v = (u, theta, mu, epsilon), queried from an engine: one query for each part."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from vardi._inputs.engine.aggregates import Aggregate
from vardi._inputs.engine.part import Change, Part, with_columns
from vardi._rows.contract import Coordinates, JointSums
from vardi._rows.dense import Dense
from vardi._rows.engine.lazy_rows import LazyRows
from vardi._rows.engine.model import EngineFamily, EngineKnown, EngineModel
from vardi._rows.engine.point import FITTED, REFUSED, REST, EnginePoint, parts_at
from vardi._rows.joint import Joint
from vardi._types import Floats, Integers

Terms: TypeAlias = dict[Hashable, nw.Expr]
COUNTED = "__vardi_counted_{}"
GROUP = "__vardi_group_{}"
SAME = 1e-12  # relative error up to which two points count as equal up to a change of gauge


@dataclass(frozen=True)
class Last:
    """The sums at the last point, and from them those at points that differ only in the gauge.

    Along (1, 0, mu) every S is multiplied by the same number, so no new query is needed.
    """

    v: Floats
    sums: JointSums
    n: float

    def at(self, v: Floats, coordinates: Coordinates, *, objective: bool) -> JointSums | None:
        """Return the sums at v; None if it is another point, or the objective is unknown."""
        if objective and not np.isfinite(self.sums.log_mass):
            return None
        with np.errstate(invalid="ignore"):
            moved = (v - self.v)[coordinates.u]
        finite = np.isfinite(v[coordinates.u])
        if not np.array_equal(finite, np.isfinite(self.v[coordinates.u])) or np.ptp(moved[finite]) > SAME:
            return None
        shift = float(moved[finite].mean())
        there = self.v.copy()
        there[coordinates.mu] *= np.exp(shift)
        rest = slice(coordinates.samples, None)
        if not np.allclose(v[rest], there[rest], rtol=SAME, atol=0.0):
            return None
        return self._shifted(shift, coordinates)

    def _shifted(self, shift: float, coordinates: Coordinates) -> JointSums:
        if not shift:
            return self.sums
        factor = np.ones(len(coordinates))
        factor[coordinates.mu] = np.exp(-shift)
        square, sums = factor[:, None] * factor, self.sums
        return JointSums(
            sums.inverse * float(np.exp(-shift)),
            sums.log_mass + self.n * shift,
            sums.x * factor,
            sums.gram * square,
            sums.own,
            sums.curvature * square,
            sums.information * square,
            sums.positive,
        )


class EngineRows:
    """Rows in an engine with parameters and known moments, with the interface that Newton's method needs.

    Parameters
    ----------
    model : EngineModel
        The frames, the families and what is known.
    few : callable
        Returns a small part of the rows in memory, for a start.
    reach : ndarray of shape (K, K), optional
        Counts of rows of sample l (columns) that bias k (rows) could have drawn.
    """

    reading_dominates = True

    def __init__(self, model: EngineModel, few: Callable[[], Joint], reach: Floats | None = None) -> None:
        self.model, self._few, self._reach = model, few, reach
        self.sizes = model.sizes
        self._last: Last | None = None

    def __len__(self) -> int:
        return int(self.sizes.sum())

    @property
    def coordinates(self) -> Coordinates:
        """The layout of a point."""
        return self.model.coordinates

    @property
    def families(self) -> Mapping[int, EngineFamily]:
        """The family of each bias that has one."""
        return self.model.families

    @property
    def places(self) -> Mapping[int, slice]:
        """The place of each bias's parameters among all."""
        return self.model.places

    @property
    def means(self) -> Floats:
        """The known values."""
        return self.model.known.means

    @property
    def root(self) -> Floats:
        """R, with R R' their covariance."""
        return self.model.known.root

    @property
    def scaled(self) -> NDArray[np.bool_]:
        """Which parameters belong to columns of standard deviation 1."""
        families = self.families.values()
        return np.repeat([family.scaled for family in families], [len(family.names) for family in families]).astype(
            bool
        )

    @cached_property
    def few(self) -> Joint:
        """A small part of the rows, in memory, with counts that make it stand for all."""
        return self._few()

    def without_known(self) -> EngineRows:
        """Return the same rows without known values."""
        return EngineRows(replace(self.model, known=EngineKnown.none()), lambda: self.few.without_known(), self._reach)

    def masses_of(self, groups: Integers, v: Floats) -> Floats:
        """Return the share of the weight that each group of samples carries at a point, with a query for each part."""
        point, masses = EnginePoint(self.model, v), np.zeros(int(groups.max()) + 1)
        for part in self.model.parts:
            for code, row in part.by_sample({"mass": Aggregate(part.times_count(point.weight))}, point):
                masses[groups[code]] += row["mass"]
        return masses / masses.sum()

    def with_masses_of(self, groups: Integers, masses: Floats) -> EngineRows:
        """Return the same rows with only the masses of groups of samples known."""
        names = tuple(GROUP.format(label) for label in range(1, len(masses)))
        known = EngineKnown(names, np.eye(len(names)), masses[1:], np.empty((len(names), 0)), {})
        parts = tuple(_with_members(part, groups, names) for part in self.model.parts)
        few = self.few.with_masses_of(groups, masses)
        return EngineRows(replace(self.model, parts=parts, known=known), lambda: few, self._reach)

    def with_tilts(self, states: Collection[int]) -> EngineRows:
        """Return the same rows with the families of some biases replaced by the tilts that they resemble."""
        families = {k: family.tilt if k in states else family for k, family in self.families.items()}
        model = replace(self.model, families=families)
        return EngineRows(model, lambda: self.few.with_tilts(states), self._reach)

    def with_values(self, means: Floats) -> EngineRows:
        """Return the same rows with other known values."""
        model = replace(self.model, known=replace(self.model.known, means=means))
        rows = EngineRows(model, lambda: self.few.with_values(means), self._reach)
        if "_own_features" in self.__dict__:
            rows.__dict__["_own_features"] = self._own_features
        return rows

    def shift(self, theta: Floats) -> Floats:
        """Return the offset of log omega on the user's scale, for each bias."""
        return self.model.shift(theta)

    def rows_at(self, theta: Floats) -> LazyRows:
        """Return the rows with all biases at theta, on the user's scale."""
        assert self._reach is not None
        parts = parts_at(self.model, theta)
        few = self.few.rows_at(theta)
        assert isinstance(few, Dense)
        return LazyRows(parts, self.coordinates.samples, self.sizes, self._reach, few, few.start)

    def weights(self, v: Floats) -> tuple[Floats, float]:
        """Return no weights, which stay in the engine, and the log of the scale at which they have mean 1."""
        return np.empty(0), float(np.log(self.joint_sums(v, objective=False).inverse / self.model.n))

    def rescaled(self, v: Floats, shift: float) -> Floats:
        """Return the same point in the gauge in which every S is multiplied by e^shift."""
        v = v.copy()
        v[self.coordinates.u] += shift
        v[self.coordinates.mu] *= np.exp(shift)
        return v

    def joint_sums(self, v: Floats, *, objective: bool = True) -> JointSums:
        """Return all sums at v: a query for each part, unless the last point differs only in the gauge.

        ``log_mass`` is NaN unless the objective is asked for. It leaves out the known factors of own biases, which no
        coordinate moves, as in memory.
        """
        known = None if self._last is None else self._last.at(v, self.coordinates, objective=objective)
        if known is not None:
            return known
        sums = self._asked(EnginePoint(self.model, v), objective=objective)
        if sums.positive:
            self._last = Last(v.copy(), sums, self.model.n)
        return sums

    def _asked(self, point: EnginePoint, *, objective: bool) -> JointSums:
        total: dict[Hashable, float] = {}
        for part in self.model.parts:
            terms, counted = self.terms(point, part, objective=objective)
            for key, value in zip(terms, part.sums(list(terms.values()), point, counted), strict=True):
                total[key] = total.get(key, 0.0) + float(value)
        return self.placed(point, total, objective=objective)

    def placed(self, point: EnginePoint, total: Mapping[Hashable, float], *, objective: bool) -> JointSums:
        """Return the totals of the terms as sums, each in its place; linear in the totals."""
        return _Found(self, point, total).sums(objective=objective)

    def terms(
        self, point: EnginePoint, part: Part, *, objective: bool, own: bool = False
    ) -> tuple[Terms, Change | None]:
        """Return the terms to sum over a part, and the columns that they need besides those of the point.

        Sums over the own rows of a family that is linear in its parameters are queried once, unless ``own``.
        """
        asked = point.active[point.active != largest(self.sizes)].tolist()
        x = {i: point.x(i) for i in asked}
        counted = {i: nw.col(COUNTED.format(i)) for i in asked} if part.counted else x
        columns = {COUNTED.format(i): part.times_count(x[i]) for i in asked} if part.counted else {}
        terms: Terms = {"inverse": part.times_count(point.weight)}
        terms |= {("x", i): counted[i] for i in asked}
        terms |= {("gram", i, j): counted[i] * x[j] for i in asked for j in asked if i <= j}
        if self.coordinates.uncertain:
            terms["squares"] = part.times_count(point.weight * point.weight)
            terms |= {("inverse", i): counted[i] * point.weight for i in asked}
        if self.coordinates.known:
            terms["refused"] = nw.col(REFUSED)
        if objective:
            terms["log_mass"] = part.times_count(point.mass.log())
        for k in self.families:
            terms |= self._terms_of_family(point, part, k, objective=objective)
            if own and not self.families[k].curved:
                mine = {("own", k, j): part.only(k, part.times_count(z)) for j, z in enumerate(point.gradient(k))}
                terms |= {key: term for key, term in mine.items() if term is not None}
        return terms, with_columns(columns)

    def _terms_of_family(self, point: EnginePoint, part: Part, k: int, *, objective: bool) -> Terms:
        r"""Return the sums of :math:`\omega_k/S` times t, tt' and t', and those of t and t' over own rows."""
        family, ratio = self.families[k], part.times_count(point.ratio(k))
        t, z = point.gradient(k), [nw.col(name) for name in family.columns]
        terms: Terms = {}
        if k in self.model.known.moving.values():
            terms |= {("t", k, a): ratio * one for a, one in enumerate(t)}
        if not family.curved:
            return terms | {("tt", k, a, b): ratio * z[a] * z[b] for a in range(len(z)) for b in range(a, len(z))}
        rest, fitted = nw.col(REST.format(k)), nw.col(FITTED.format(k))
        terms |= {("tt", k, a, b): ratio * t[a] * t[b] for a in range(len(t)) for b in range(a, len(t))}
        one = [nw.lit(1.0), *z]
        bent = {(a, b): rest * fitted * one[a] * one[b] for a in range(len(one)) for b in range(a, len(one))}
        terms |= {("bend", k, a, b): ratio * term for (a, b), term in bent.items()}
        own: Terms = {("own", k, a): part.times_count(term) for a, term in enumerate(t)}
        own |= {("own bend", k, a, b): part.times_count(term) for (a, b), term in bent.items()}
        if objective:
            own[("own log", k)] = part.times_count(fitted.log())
        mine = {key: part.only(k, term) for key, term in own.items()}
        return terms | {key: term for key, term in mine.items() if term is not None}

    @cached_property
    def _own_features(self) -> dict[int, Floats]:
        """The sum of the features of each family over the rows of its own sample: t, where log omega is linear."""
        linear = {k: family for k, family in self.families.items() if not family.curved}
        found = {k: np.zeros(len(family.columns)) for k, family in linear.items()}
        for part in self.model.parts:
            mine = {
                (k, j): part.only(k, part.times_count(nw.col(name)))
                for k, family in linear.items()
                for j, name in enumerate(family.columns)
            }
            asked = {place: term for place, term in mine.items() if term is not None}
            for (k, j), value in zip(asked, part.sums(list(asked.values())), strict=True):
                found[k][j] += value
        return found


def _with_members(part: Part, groups: Integers, names: Sequence[str]) -> Part:
    """Return a part with a column for each group except the first: 1 on the rows of its samples, else 0."""
    columns = {}
    for label, name in enumerate(names, 1):
        mine = (part.only(k, nw.lit(1.0)) for k in np.flatnonzero(groups == label).tolist())
        columns[name] = sum((one for one in mine if one is not None), start=nw.lit(0.0))
    return part.map(lambda frame: frame.with_columns(**columns))


def largest(sizes: Floats) -> int:
    """Return the sample whose sums follow from those of the others."""
    return int(np.argmax(sizes))


class _Found:
    r"""The answers of all parts of a pool, assembled into sums.

    By :math:`\sum_l p_{il} + \mu'(g_i - R\varepsilon)/S_i = 1` the sums of the largest sample follow from the others'.
    """

    def __init__(self, rows: EngineRows, point: EnginePoint, total: Mapping[Hashable, float]) -> None:
        self.rows, self.point, self.total = rows, point, total
        self.at, self.K = rows.coordinates, rows.coordinates.samples

    def sums(self, *, objective: bool) -> JointSums:
        """Return all sums."""
        d = len(self.at)
        finite = np.isfinite(list(self.total.values())).all()
        if self.total.get("refused", 0.0) or not finite:
            empty = np.full((d, d), np.nan)
            return JointSums(np.nan, np.nan, empty[0], empty, empty[0], empty, empty, False)
        x, gram, inverse = self._moments()
        information, bend, own = np.zeros((d, d)), np.zeros((d, d)), np.zeros(d)
        information[np.arange(self.K), np.arange(self.K)] = x[: self.K]
        log_own = 0.0
        for k, place in self.rows.places.items():
            where = slice(self.K + place.start, self.K + place.stop)
            own[where], of_own = self._own(k)
            log_own += of_own
            self._of_family(k, where, x, information, bend)
        information[self.at.mu, self.at.epsilon] = -self.rows.model.known.root * inverse
        information[self.at.epsilon, self.at.mu] = information[self.at.mu, self.at.epsilon].T
        log_mass = self.total["log_mass"] - log_own if objective else np.nan
        return JointSums(inverse, log_mass, x, gram, own, information + bend, information, True)

    def _moments(self) -> tuple[Floats, Floats, float]:
        d, total, at, n = len(self.at), self.total, self.at, self.rows.model.n
        asked: Integers = self.point.active[self.point.active != largest(self.rows.sizes)]
        held, mu = largest(self.rows.sizes), self.point.mu
        x, gram, inverse = np.zeros(d), np.zeros((d, d)), float(total["inverse"])
        x[asked] = [total["x", i] for i in asked.tolist()]
        for i in asked.tolist():
            for j in asked[asked >= i].tolist():
                gram[i, j] = gram[j, i] = total["gram", i, j]
        # The others' share of 1: 1'p + mu'y for all samples except the largest.
        rest = np.zeros(d)
        rest[: self.K], rest[at.mu] = 1.0, mu
        rest[held] = 0.0
        x[held] = n - rest @ x
        gram[held] = gram[:, held] = x - gram @ rest
        gram[held, held] = x[held] - rest @ gram[held]
        if at.uncertain:
            over = np.zeros(d)
            over[asked] = [total["inverse", i] for i in asked.tolist()]
            over[held] = inverse - rest @ over
            weight = self.point.weight_of_epsilon
            x[at.epsilon] = weight * inverse
            gram[:, at.epsilon] = np.outer(over, weight)
            gram[at.epsilon] = gram[:, at.epsilon].T
            gram[at.epsilon, at.epsilon] = np.outer(weight, weight) * total["squares"]
        return x, gram, inverse

    def _own(self, k: int) -> tuple[Floats, float]:
        """Return the sums of t_k, and of log omega_k without its known factor, over the rows of sample k."""
        p = len(self.rows.families[k].names)
        asked = ("own", k, 0) in self.total
        own = np.array([self.total["own", k, a] for a in range(p)]) if asked else self.rows._own_features[k]
        if not self.rows.families[k].curved:
            return own, float(own @ self.point.theta[self.rows.places[k]])
        return own, float(self.total.get(("own log", k), 0.0))

    def _of_family(self, k: int, where: slice, x: Floats, information: Floats, bend: Floats) -> None:
        r"""Add the contributions of the parameters of bias k.

        With :math:`w = \omega_k/S`; a moment that is the mean of the bias has :math:`e^o\omega_k`, on the user's scale,
        with gradient :math:`t + o'`.
        """
        model, point = self.rows.model, self.point
        tt, scale = self._square("tt", k), float(np.exp(point.u[k]))
        theta = point.theta[self.rows.places[k]]
        moving = [j for j, state in model.known.moving.items() if state == k]
        p = len(theta)
        t = np.array([self.total["t", k, a] for a in range(p)]) if moving else x[where] / scale
        information[k, where] = information[where, k] = scale * t
        information[where, where] = scale * tt
        curved = self.rows.families[k].curved
        bent = -self._square("bend", k) if curved else np.zeros((p, p))
        bend[where, where] = scale * bent
        if curved:
            bend[where, where] += self._square("own bend", k)
        ratio, slope = float(x[k]) / scale, model.families[k].offset_gradient(theta)
        for j in moving:
            factor = float(np.exp(model.families[k].offset(theta)))
            row, mu = self.at.mu.start + j, float(point.mu[j])
            moved = t + ratio * slope
            information[row, where] = information[where, row] = factor * moved
            outer = tt + np.outer(t, slope) + np.outer(slope, t) + ratio * np.outer(slope, slope)
            bend[where, where] += mu * factor * (outer + bent)

    def _square(self, what: str, k: int) -> Floats:
        p = len(self.rows.families[k].names)
        square = np.zeros((p, p))
        for a in range(p):
            for b in range(a, p):
                square[a, b] = square[b, a] = self.total[what, k, a, b]
        return square
