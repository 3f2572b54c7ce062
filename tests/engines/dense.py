"""Problems with parameters and known moments, and their sums written down from the formulas, row by row, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from cases import drawn, labelled, tables_of
from engines import as_lazy_pool

from vardi._inputs.lazy_pool import LazyPool
from vardi._rows.lazy_model import model_of
from vardi._rows.point import KnownMoments, Model
from vardi._rows.queries import Queries


@dataclass(frozen=True)
class Known:
    """Functions whose means are known: an expression with its values, or the position of a bias.

    Attributes
    ----------
    functions : tuple
        Expressions in text, or positions.
    directions, means, root
        As in :class:`~vardi._rows.point.KnownMoments`.
    moving : mapping from int to int
        Which moments are the mean of a bias with parameters.
    """

    functions: tuple[Any, ...] = ()
    directions: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    means: np.ndarray = field(default_factory=lambda: np.empty(0))
    root: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    moving: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Problem:
    """Rows, biases and what is known, for an engine and for NumPy.

    Attributes
    ----------
    tables : dict
        Rows by sample; by None where one frame has a column of labels.
    biases : dict
        By name, for vardi.
    factors : dict
        By name: the known factor of each bias, as a function of the columns.
    families : dict
        By name: "linear" or "logistic", and the features as functions of the columns; steps are not scaled.
    known : Known
        What is known of the population.
    values : tuple
        The functions whose means are known, as functions of the columns; None for a bias.
    options : dict
        ``source`` and ``counts``.
    """

    tables: dict[Any, pa.Table]
    biases: dict[Any, Any]
    factors: dict[Any, Any]
    families: dict[Any, tuple[str, list[Any], bool]] = field(default_factory=dict)
    known: Known = field(default_factory=Known)
    values: tuple[Any, ...] = ()
    options: dict[str, str | None] = field(default_factory=lambda: {"source": None, "counts": None})

    @property
    def names(self) -> list[Any]:
        return list(self.biases)

    def pool(self, engine: Any) -> LazyPool:
        from vardi.biases import where

        samples = engine.frame(self.tables[None]) if None in self.tables else engine.samples(self.tables)
        functions = [one if isinstance(one, int) else where(one) for one in self.known.functions]
        return as_lazy_pool(samples, self.biases, functions=functions, **self.options)

    def model(self, pool: LazyPool) -> tuple[Queries, Model]:
        known = self.known
        names = pool.declared.function_columns
        return model_of(pool, KnownMoments(names, known.directions, known.means, known.root, known.moving))

    @cached_property
    def rows(self) -> dict[str, np.ndarray]:
        """All columns, the samples one after the other, without the rows that count for nothing."""
        tables = []
        for name, table in self.tables.items():
            label = pa.array([name] * table.num_rows) if name is not None else table.column(self.options["source"])
            tables.append(table.append_column("sample", label))
        whole = pa.concat_tables(tables)
        columns = {name: np.asarray(whole.column(name).to_numpy(zero_copy_only=False)) for name in whole.column_names}
        columns["source"] = np.array([self.names.index(name) for name in columns.pop("sample").tolist()])
        count = self.options["counts"]
        columns["count"] = np.ones(len(columns["source"])) if count is None else columns[count].astype(float)
        kept = columns["count"] > 0
        return {name: values[kept] for name, values in columns.items()}

    @cached_property
    def features(self) -> dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Standardised features of each family, with mean and deviation."""
        found = {}
        for name, (_, functions, scaled) in self.families.items():
            raw = np.column_stack([np.asarray(f(self.rows), float) for f in functions])
            c = self.rows["count"]
            mean = (c @ raw) / c.sum() if scaled else np.zeros(raw.shape[1])
            deviation = np.sqrt((c @ (raw - mean) ** 2) / c.sum()) if scaled else np.ones(raw.shape[1])
            found[self.names.index(name)] = ((raw - mean) / deviation, mean, deviation)
        return found

    def dense(self, v: np.ndarray) -> Dense:
        return Dense(self, v)

    def parameters(self) -> int:
        return sum(len(functions) + (kind == "logistic") for kind, functions, _ in self.families.values())

    def size(self) -> int:
        return len(self.names) + self.parameters() + len(self.known.means) + self.known.root.shape[1]


class Dense:
    """S of every row with its first and second derivatives in all coordinates, and those of log omega of its own."""

    def __init__(self, problem: Problem, v: np.ndarray) -> None:
        rows, known, names = problem.rows, problem.known, problem.names
        self.source, self.c = rows["source"], rows["count"]
        n, d, K, p, m = len(self.c), problem.size(), len(names), problem.parameters(), len(known.means)
        u, theta, mu, epsilon = v[:K], v[K : K + p], v[K + p : K + p + m], v[K + p + m :]
        omega = np.column_stack([np.asarray(problem.factors[name](rows), float) * np.ones(n) for name in names])
        self.log_own, t, second, users, start = np.zeros(n), {}, {}, {}, K
        for k, (z, mean, deviation) in problem.features.items():
            curved = problem.families[names[k]][0] == "logistic"
            q = z.shape[1] + curved
            place, here = slice(start, start + q), theta[start - K : start - K + q]
            if curved:
                zeta = np.column_stack([np.ones(n), z])
                curve = 1.0 / (1.0 + np.exp(-zeta @ here))
                log, t_k = np.log(curve), (1.0 - curve)[:, None] * zeta
                second_k = -(curve * (1.0 - curve))[:, None, None] * zeta[:, :, None] * zeta[:, None, :]
                slope, offset = np.zeros(q), 0.0
            else:
                log, t_k, second_k = z @ here, z, np.zeros((n, q, q))
                slope = mean / deviation
                offset = float(here @ slope)
            omega[:, k] *= np.exp(log)
            self.log_own[self.source == k] = log[self.source == k]
            t[k], second[k], users[k], start = (place, t_k), second_k, (offset, slope), start + q
        given = zip(known.functions, problem.values, strict=True)
        H = [omega[:, h] if isinstance(h, int) else np.asarray(f(rows), float) for h, f in given]
        g = (np.column_stack(H) @ known.directions if m else np.empty((n, 0))) - known.means
        for j, k in known.moving.items():
            g[:, j] = omega[:, k] * np.exp(users[k][0]) - known.means[j]
        g = g - known.root @ epsilon if len(epsilon) else g
        e = np.exp(u)
        self.omega = omega
        self.S = omega @ e + g @ mu
        D, D2, scored = np.zeros((n, d)), np.zeros((n, d, d)), np.zeros((n, d, d))
        self.own, self.own2 = np.zeros((n, d)), np.zeros((n, d, d))
        D[:, :K] = omega * e
        D2[:, range(K), range(K)] = scored[:, range(K), range(K)] = omega * e
        for k, (place, t_k) in t.items():
            outer = t_k[:, :, None] * t_k[:, None, :]
            mass = (omega[:, k] * e[k])[:, None]
            D[:, place] += mass * t_k
            for into in (D2, scored):
                into[:, k, place] = into[:, place, k] = mass * t_k
                into[:, place, place] += mass[:, :, None] * outer
            D2[:, place, place] += mass[:, :, None] * second[k]
            mine = self.source == k
            self.own[mine, place] = t_k[mine]
            self.own2[mine, place, place] = second[k][mine]
        first = K + p
        D[:, first : first + m] = g
        for j, k in known.moving.items():
            place, t_k = t[k]
            offset, slope = users[k]
            tilted, h = t_k + slope, (omega[:, k] * np.exp(offset))[:, None]
            D[:, place] += mu[j] * h * tilted
            for into in (D2, scored):
                into[:, first + j, place] = into[:, place, first + j] = h * tilted
            outer = tilted[:, :, None] * tilted[:, None, :]
            D2[:, place, place] += mu[j] * h[:, :, None] * (outer + second[k])
        if len(epsilon):
            D[:, first + m :] = -known.root.T @ mu
            for into in (D2, scored):
                into[:, first : first + m, first + m :] = -known.root
                into[:, first + m :, first : first + m] = -known.root.T
        self.x = D / self.S[:, None]
        self.q = self.x - self.own
        self._curvature = D2 / self.S[:, None, None] - self.own2
        self._information = scored / self.S[:, None, None]

    def sums(self) -> dict[str, Any]:
        """Return every field of JointSums."""
        c = self.c
        return {
            "inverse": (c / self.S).sum(),
            "log_mass": (c * (np.log(self.S) - self.log_own)).sum(),
            "x": c @ self.x,
            "gram": (self.x * c[:, None]).T @ self.x,
            "own": c @ self.own,
            "curvature": np.einsum("i,ijk->jk", c, self._curvature),
            "information": np.einsum("i,ijk->jk", c, self._information),
            "positive": bool((self.S > 0).all()),
        }


def population(rng: np.random.Generator, n: int = 5000) -> dict[str, np.ndarray]:
    x = rng.gamma(3.0, 1.0, n)
    return {"x": x, "y": 100.0 + 5.0 * rng.normal(size=n) + x, "k": rng.integers(1, 5, n)}


def problem(parts: str, form: str = "frames", seed: int = 0) -> Problem:
    """Return a problem with some of: known moments, logistic curves, tilts, steps; in frames or one, with counts.

    ``parts`` has words: known, state (the mean of a bias with parameters), logistic, tilt, steps.
    """
    rng, words = np.random.default_rng(seed), parts.split()
    people = population(rng)
    x, y = people["x"], people["y"]
    samples = {
        "plain": drawn(people, np.ones(len(x)), 70, rng),
        "seen": drawn(people, x, 90, rng),
        "panel": drawn(people, 1.0 / (1.0 + np.exp(-(y - 103.0) / 4.0)), 110, rng),
    }
    biases: dict[Any, Any] = {"plain": 1, "seen": "x", "panel": "exp((y - 103) / 8)", "none": "sqrt(x)"}
    factors: dict[Any, Any] = {
        "plain": lambda r: 1.0,
        "seen": lambda r: r["x"],
        "panel": lambda r: np.exp((r["y"] - 103.0) / 8.0),
        "none": lambda r: np.sqrt(r["x"]),
    }
    families: dict[Any, tuple[str, list[Any], bool]] = {}
    if "logistic" in words:
        biases["panel"] = "(k < 5) * logistic(y, x)"
        factors["panel"] = lambda r: r["k"] < 5
        families["panel"] = ("logistic", [lambda r: r["y"], lambda r: r["x"]], True)
    if "steps" in words:
        biases["web"], factors["web"] = "steps(k, [2, 4])", lambda r: 1.0
        families["web"] = ("linear", [lambda r: (r["k"] >= 2) & (r["k"] < 4), lambda r: r["k"] >= 4], False)
        samples["web"] = drawn(people, np.where(people["k"] >= 4, 2.0, 1.0), 60, rng)
    if "tilt" in words:
        biases["tilted"] = "exponential_tilt(y, k)"
        factors["tilted"] = lambda r: 1.0
        families["tilted"] = ("linear", [lambda r: r["y"], lambda r: r["k"]], True)
        samples["tilted"] = drawn(people, np.exp((y - 103.0) / 20.0), 50, rng)
    order = [*samples, "none"]
    biases, factors = {name: biases[name] for name in order}, {name: factors[name] for name in order}
    families = {name: families[name] for name in order if name in families}
    known = Known()
    values: tuple[Any, ...] = ()
    if "known" in words:
        # x > 2 is exact; y, and a sum of two functions, have errors that go together.
        functions = ("x > 2", "y", "k")
        values = (lambda r: r["x"] > 2, lambda r: r["y"], lambda r: r["k"])
        directions = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]])
        means, root = np.array([0.6, 103.0, 54.0]), np.array([[0.0, 0.0], [0.4, 0.0], [0.1, 0.2]])
        known = Known(functions, directions, means, root)
    if "state" in words:
        k = order.index("panel")
        m = len(known.means)
        directions = np.zeros((len(known.functions) + 2, m + 2))
        directions[: len(known.functions), :m] = known.directions
        directions[-2, m] = directions[-1, m + 1] = 1.0
        known = Known(
            (*known.functions, order.index("seen"), k),
            directions,
            np.append(known.means, [3.1, 0.45]),
            np.vstack([known.root, np.zeros((2, known.root.shape[1]))]),
            {m + 1: k},
        )
        values = (*values, None, None)
    options: dict[str, str | None] = {"source": None, "counts": None}
    if "counts" in form:
        samples = {name: {**rows, "n rows": rng.integers(0, 4, len(rows["x"]))} for name, rows in samples.items()}
        options["counts"] = "n rows"
    tables = tables_of(samples)
    if "labels" in form:
        tables, options["source"] = labelled(tables, "origin"), "origin"
    return Problem(tables, biases, factors, families, known, values, options)


def point(given: Problem, seed: int = 0) -> np.ndarray:
    """Return a point at which every S is above zero."""
    rng = np.random.default_rng(seed)
    K, p, m = len(given.names), given.parameters(), len(given.known.means)
    u = rng.normal(-1.0, 0.3, K)
    u[given.names.index("none")] = -np.inf
    theta = rng.normal(0.0, 0.4, p)
    mu = rng.normal(0.0, 0.01, m) / np.maximum(np.abs(given.known.means), 1.0)
    epsilon = rng.normal(0.0, 1.0, given.known.root.shape[1])
    return np.concatenate([u, theta, mu, epsilon])
