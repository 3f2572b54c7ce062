"""What the table of `questions.py` is asked of: the same rows in every holder, with each part and dependence.

Only public names are used. A holder is forced by the data, or by `max_in_memory=` of `vardi.debias_matrix`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import duckdb
import numpy as np
import polars as pl
from scipy import sparse
from scipy.stats import gamma
from sklearn.linear_model import LinearRegression, LogisticRegression

import vardi

PARTS = ("none", "known values", "parameters", "both", "learned")
DEPENDENCES = ("independent", "clusters", "series")
WITH_PARAMETERS, WITH_KNOWN = ("parameters", "both"), ("known values", "both")

SIZES = (150, 250)
MANY = (12_000, 18_000)  # rows of which equal ones are collapsed: there are more than 50,000 values of biases
SHARE = float(gamma(3).sf(4.0))  # of the population beyond 4


@dataclass(frozen=True)
class Subject:
    """A fit, and what it is asked about.

    Attributes
    ----------
    fit : DebiasedSample
        The fit.
    x, y : str or array
        Two functions.
    new : frame or array
        Rows to weigh that are not in the fit.
    more : dict
        Rows to update it by.
    g : str or array
        Domains.
    model : dict
        The model that assists means, as arguments; empty for none.
    in_engine : bool
        Whether its rows are in an engine, where they stay.
    """

    fit: vardi.DebiasedSample
    x: Any
    y: Any
    new: Any
    more: dict[str, Any]
    g: Any = "g"
    model: dict[str, Any] = field(default_factory=dict)
    in_engine: bool = False

    @property
    def has_columns(self) -> bool:
        """Whether functions are columns."""
        return isinstance(self.x, str)

    @property
    def both(self) -> Any:
        """The two functions together."""
        return [self.x, self.y] if self.has_columns else np.column_stack([self.x, self.y])

    @property
    def columns(self) -> Any:
        """The two functions by name."""
        return ["x", "y"] if self.has_columns else {"x": self.x, "y": self.y}


@cache
def pool(sizes: tuple[int, int] = SIZES) -> pl.DataFrame:
    """Return rows of two samples as one frame."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.gamma(3, size=sizes[0]), rng.gamma(4, size=sizes[1])])
    y = 0.5 * x + rng.normal(size=len(x)) + 1.0
    place = np.arange(len(x))
    clusters, times = place % 37, (place * 7919) % 100_003  # clusters span samples
    columns = {"x": x, "y": y, "s": np.repeat(["plain", "seen"], sizes), "id": place, "c": clusters, "t": times}
    domains = pl.Series(list("bca")).gather(place % 7 % 3)
    return pl.DataFrame(columns).with_columns(g=domains, h=pl.col("id") % 2).sort("s", "x")  # engines have no order


def by_sample(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the rows of each sample."""
    return {name: rows.filter(pl.col("s") == name).drop("s") for name in ("plain", "seen")}


def later(samples: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Return some rows of each sample a second time, after all others."""
    return {name: frame[:5].with_columns(pl.col("t") + 1_000_000) for name, frame in samples.items()}


def lazy(samples: dict[str, pl.DataFrame]) -> dict[str, pl.LazyFrame]:
    """Return frames that Polars reads when it is asked."""
    return {name: frame.lazy() for name, frame in samples.items()}


def depending(dependence: str, rows: pl.DataFrame | None = None) -> dict[str, Any]:
    """Return how rows depend on one another, by the name of a column or by its values."""
    name = {"independent": None, "clusters": "c", "series": "t"}[dependence]
    return {} if name is None else {dependence: name if rows is None else rows[name].to_numpy()}


def learned(column: str) -> Any:
    """Return a bias that is learned from a column, by a classifier that is fitted to the last digit."""
    return vardi.learned(column, LogisticRegression(solver="newton-cholesky", tol=1e-12))


def assisting(part: str, column: str) -> dict[str, Any]:
    """Return the model that assists means with learned biases: quicker than the default, and versions agree on it."""
    return {"assisted_by": LinearRegression(), "columns": [column]} if part == "learned" else {}


def of_frames(samples: dict[str, Any], more: dict[str, Any], part: str, dependence: str, *, in_engine: bool) -> Subject:
    """Return the fit of frames whose biases differ in every row."""
    seen: Any = vardi.power("x") if part in WITH_PARAMETERS else learned("x") if part == "learned" else "x"
    known = {"x > 4": SHARE, "y": (2.6, 0.1)} if part in WITH_KNOWN else None
    fit = vardi.debias(samples, {"plain": 1, "seen": seen}, known=known, **depending(dependence))
    new = pl.DataFrame({"x": [0.7, 2.0, 3.1], "y": [1.0, 2.0, 3.0]})
    stay = in_engine and part != "learned"
    return Subject(fit, "x", "y", new, more, model=assisting(part, "x"), in_engine=stay)


def rows_in_memory(part: str, dependence: str) -> Subject:
    samples = by_sample(pool())
    return of_frames(samples, later(samples), part, dependence, in_engine=False)


def in_polars(part: str, dependence: str) -> Subject:
    samples = by_sample(pool())
    return of_frames(lazy(samples), lazy(later(samples)), part, dependence, in_engine=True)


def in_duckdb(part: str, dependence: str) -> Subject:
    connection, samples = duckdb.connect(), by_sample(pool())

    def tables(prefix: str, frames: dict[str, pl.DataFrame]) -> dict[str, Any]:
        found = {}
        for name, frame in frames.items():
            connection.register(f"{prefix}_{name}", frame.to_arrow())
            connection.execute(f"create table {prefix}_{name}_kept as select * from {prefix}_{name}")
            found[name] = connection.table(f"{prefix}_{name}_kept")
        return found

    return of_frames(tables("rows", samples), tables("more", later(samples)), part, dependence, in_engine=True)


def conditions(part: str, dependence: str, *, tilt: float = 0.0, in_engine: bool = False) -> Subject:
    """Return the fit of rows whose biases, families and known values are conditions, so that equal ones are collapsed.

    A tilt, too small to matter, makes each row differ from all others, so that none are.
    """
    samples, level = by_sample(pool(MANY)), f"(1 + {tilt} * x)"
    if part == "learned":
        biases = {"plain": level, "seen": learned("h")}  # the default model of a mean sees x, which a bias reads
    else:
        condition = "steps(x, [2, 4])" if part in WITH_PARAMETERS else "(x > 2) * (1 + (x > 4))"
        biases = {"plain": 1, "seen": f"{condition} * {level}" if tilt else condition}
    if part in ("none", "known values"):
        samples["seen"] = samples["seen"].filter(pl.col("x") > 2)
    known = {"x > 4": 0.25, "x > 3": (0.45, 0.05)} if part in WITH_KNOWN else None
    more = later(samples)
    frames = lazy(samples) if in_engine else samples
    fit = vardi.debias(frames, biases, known=known, **depending(dependence))
    new = pl.DataFrame({"x": [2.5, 3.5], "y": [1.0, 2.0], "h": [0, 1]})
    more = lazy(more) if in_engine else more
    stay = in_engine and part != "learned"
    return Subject(fit, "x", "y", new, more, model=assisting(part, "h"), in_engine=stay)


def without_columns(part: str) -> None:
    """Give a matrix what it does not take: biases that read columns."""
    if part in (*WITH_PARAMETERS, "learned"):
        vardi.debias_matrix(vardi.learned("x") if part == "learned" else vardi.power("x"), [0])


def matrix(part: str, dependence: str, form: Callable[[np.ndarray], Any] = np.asarray, **options: Any) -> Subject:
    """Return the fit of the same rows as a matrix, with a column that no sample was drawn from for a known value."""
    without_columns(part)
    rows = pool()
    x, source = rows["x"].to_numpy(), np.repeat([0, 1], SIZES)
    omega = np.column_stack([np.ones(len(x)), x, (x > 4).astype(float)])
    new = np.array([[1.0, 0.7, 0.0], [1.0, 5.0, 1.0]])
    return _of_matrix(form(omega), rows, source, new, {"plain": form(omega[:5])}, part, dependence, options)


def windows(part: str, dependence: str, form: Callable[[vardi.Windows], Any]) -> Subject:
    """Return the fit of rows that are seen in windows on a line."""
    without_columns(part)
    rows, source = pool(), np.repeat([0, 1], SIZES)
    kept = (source == 0) | (rows["x"].to_numpy() >= 1.0)
    rows, source = rows.filter(pl.Series(kept)), source[kept]
    omega = vardi.Windows(rows["x"].to_numpy(), np.array([-np.inf, 1.0, 4.0]), np.full(3, np.inf))
    omega_of_rows = form(omega)
    more = omega.x[:5] if isinstance(omega_of_rows, vardi.Windows) else omega_of_rows[:5]
    new = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    return _of_matrix(omega_of_rows, rows, source, new, {"plain": more}, part, dependence, {})


def _of_matrix(
    omega: Any,
    rows: pl.DataFrame,
    source: np.ndarray,
    new: np.ndarray,
    more: dict[str, Any],
    part: str,
    dependence: str,
    options: dict[str, Any],
) -> Subject:
    known = {"beyond": SHARE} if part in WITH_KNOWN else None
    names = ["plain", "seen", "beyond"]
    fit = vardi.debias_matrix(omega, source, names=names, known=known, **depending(dependence, rows), **options)
    return Subject(fit, *(rows[name].to_numpy() for name in ("x", "y")), new, more, rows["g"].to_numpy())


def blocks(omega: np.ndarray) -> Callable[[], Iterator[np.ndarray]]:
    """Return a function that yields a matrix in blocks."""
    return lambda: (omega[start : start + 64] for start in range(0, len(omega), 64))


def truncated(part: str, dependence: str) -> Subject:
    """Return the fit of some rows as one sample, each seen from an entry of its own on."""
    rows = pool()[::3].drop("s")  # each row is a sample of its own here
    entry = rows["x"] * pl.Series(np.random.default_rng(1).uniform(0.0, 0.8, len(rows)))
    samples = {"seen": rows.with_columns(entry=entry)}
    bias: Any = vardi.window("x", "entry", None)
    if part in (*WITH_PARAMETERS, "learned"):
        bias = (vardi.power("x") if part in WITH_PARAMETERS else vardi.learned("x")) * bias
    known = {"x": 3.0} if part in WITH_KNOWN else None
    fit = vardi.debias(samples, {"seen": bias}, known=known, **depending(dependence))
    new = pl.DataFrame({"x": [0.7, 2.0, 3.1], "y": [1.0, 2.0, 3.0]})
    return Subject(fit, "x", "y", new, later(samples))


@dataclass(frozen=True)
class Holder:
    """A way to hold rows.

    Attributes
    ----------
    form : str
        What the rows are; holders of one form give the same numbers, which are stored under its name.
    kind : str
        What is refused, and which rows are drawn, together; empty for the holder whose numbers are stored.
    build : callable or None
        From a part and a dependence to a fit with its questions; None for the engines of `tests/engines`.
    """

    form: str
    kind: str = ""
    build: Callable[[str, str], Subject] | None = None

    @property
    def places(self) -> tuple[str, ...]:
        """Where its entries are, the first that there is."""
        return (f"{self.form}, {self.kind}", self.form) if self.kind else (self.form,)


HOLDERS = {
    "rows in memory": Holder("rows", "", rows_in_memory),
    "conditions in memory": Holder("conditions", "", lambda *cell: conditions(*cell, tilt=1e-12)),
    "matrix in memory": Holder("matrix", "", matrix),
    "windows as a matrix": Holder("windows", "", lambda *cell: windows(*cell, lambda w: w.toarray().astype(float))),
    "truncated rows": Holder("truncated", "", truncated),
    "distinct rows": Holder("conditions", "distinct", conditions),
    "sparse": Holder("matrix", "sparse", lambda *cell: matrix(*cell, sparse.csr_array)),
    "blocks": Holder("matrix", "blocks", lambda *cell: matrix(*cell, blocks, max_in_memory=0)),
    "windows": Holder("windows", "windows", lambda *cell: windows(*cell, lambda w: w)),
    "Polars": Holder("rows", "engine", in_polars),
    "Polars, distinct rows": Holder("conditions", "engine", lambda *cell: conditions(*cell, in_engine=True)),
    "DuckDB": Holder("rows", "engine", in_duckdb),
    "Ibis": Holder("rows", "engine"),
    "Dask": Holder("rows", "engine"),
    "Spark": Holder("rows", "engine"),
}
