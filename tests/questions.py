"""Every question that a fit can be asked, as a function of a fit that returns numbers to compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import narwhals as nw
import numpy as np
import polars as pl
import pytest
from scipy import sparse
from scipy.stats import gamma
from sklearn.linear_model import LinearRegression, LogisticRegression

import vardi
from vardi._fit.prepare import Prepared
from vardi._fit.truncation import TruncatedRows
from vardi._rows import blocks, choose
from vardi._rows.dense import Dense
from vardi._rows.readers import Reader

EQUAL = 1e-8
KNOWN = {"x > 4": float(gamma(3).sf(4.0)), "y": (2.6, 0.1)}
N = (150, 250)


@dataclass(frozen=True)
class Asked:
    """A fit, what stands for its functions x and y and its domains g, and how its rows are asked for."""

    fit: vardi.DebiasedSample
    x: Any
    y: Any
    new: Any
    g: Any = "g"


def rows(rng):
    x = np.concatenate([rng.gamma(3, size=N[0]), rng.gamma(4, size=N[1])])
    return x, 0.5 * x + rng.normal(size=len(x)) + 1.0


def data():
    """Return rows of two samples as one frame."""
    x, y = rows(np.random.default_rng(0))
    place = np.arange(len(x))
    found = pl.DataFrame({"x": x, "y": y, "s": np.repeat(["plain", "seen"], N), "id": place})
    found = found.with_columns(g=pl.Series(list("bca")).gather(found["id"] % 7 % 3), h=pl.col("id") % 2)
    found = found.with_columns(c=pl.Series(place % 37), t=pl.Series((place * 7919) % 10007))  # clusters span samples
    return found.sort("s", "x")  # DuckDB has no order of its own


def frames(data):
    return {name: data.filter(pl.col("s") == name).drop("s") for name in ("plain", "seen")}


def declared(part):
    seen = vardi.power("x") if part in ("parameters", "both") else "x"
    seen = vardi.learned("x", LogisticRegression()) if part == "learned" else seen
    return {"plain": 1, "seen": seen}, KNOWN if part in ("known values", "both") else None


def depending(depends, data=None):
    """Return how rows depend on one another, by names of columns or by what these hold."""
    name = {"independent": None, "clusters": "c", "series": "t"}[depends]
    return {} if name is None else {depends: name if data is None else data[name].to_numpy()}


def of_frames(samples, part, depends="independent"):
    biases, known = declared(part)
    new = {"x": np.array([0.7, 2.0, 3.1]), "y": np.array([1.0, 2.0, 3.0])}
    return Asked(vardi.debias(samples, biases, known=known, **depending(depends)), "x", "y", pl.DataFrame(new))


def in_memory(data, part, depends="independent"):
    return of_frames(frames(data), part, depends)


def lazy_polars(data, part, depends):
    return of_frames({name: frame.lazy() for name, frame in frames(data).items()}, part, depends)


def lazy_duckdb(data, part, depends):
    held = frames(data)
    connection = duckdb.connect()
    tables = {}
    for name, frame in held.items():
        connection.register(f"rows_{name}", frame.to_arrow())
        connection.execute(f"create table {name} as select * from rows_{name}")
        tables[name] = connection.table(name)
    return of_frames(tables, part, depends)


def conditions(data, part, depends, monkeypatch=None):
    """Rows whose biases, families and known values are conditions, so that equal ones are collapsed."""
    if monkeypatch is not None:
        monkeypatch.setattr(choose, "MAX_UNCOLLAPSED_NUMBERS", 0)
    seen = vardi.steps("x", [2, 4]) if part in ("parameters", "both") else "x > 2"
    seen = vardi.learned("h", LogisticRegression()) if part == "learned" else seen
    samples = frames(data)
    if part not in ("parameters", "both", "learned"):
        samples["seen"] = samples["seen"].filter(pl.col("x") > 2)
    known = {"x > 4": 0.25, "x > 3": (0.45, 0.05)} if part in ("known values", "both") else None
    fit = vardi.debias(samples, {"plain": 1, "seen": seen}, known=known, **depending(depends))
    return Asked(fit, "x", "y", pl.DataFrame({"x": [2.5, 3.5], "y": [1.0, 2.0], "h": [0, 1]}))


def matrix(data, part, form):
    """The same rows as a matrix of biases, with a column that no sample was drawn from for a known value."""
    x, y = data["x"].to_numpy(), data["y"].to_numpy()
    source = np.repeat([0, 1], N)
    omega = np.column_stack([np.ones(len(x)), x, (x > 4).astype(float)])
    if form == "windows":
        low, high = np.array([-np.inf, 1.0, 4.0]), np.array([np.inf, np.inf, np.inf])
        kept = (source == 0) | (x >= 1.0)
        x, y, source, data = x[kept], y[kept], source[kept], data.filter(pl.Series(kept))
        omega = vardi.Windows(x, low, high)
    known = {"beyond": (KNOWN["x > 4"])} if part == "known values" else None
    given = {
        "dense": lambda: omega,
        "sparse": lambda: sparse.csr_array(omega),
        "windows": lambda: omega,
        "windows, dense": lambda: omega.toarray().astype(float),
        "blocks": lambda: lambda: (omega[start : start + 64] for start in range(0, len(omega), 64)),
    }
    return given, data, source, known, x, y


def of_matrix(data, part, form, depends, monkeypatch=None):
    base = "windows" if form.startswith("windows") else form
    given, data, source, known, x, y = matrix(data, part, base)
    g = data["g"].to_numpy()
    if form == "blocks" and monkeypatch is not None:
        monkeypatch.setattr(blocks, "MAX_NUMBERS_IN_MEMORY", 0)
        monkeypatch.setattr(choose, "MAX_NUMBERS_IN_MEMORY", 0)
    options = {"names": ["plain", "seen", "beyond"], "known": known, **depending(depends, data)}
    fit = vardi.debias_matrix(given[form](), source, **options)
    new = np.array([[1.0, 0.7, 0.0], [1.0, 5.0, 1.0]]) if base != "windows" else np.array([[1.0, 1, 0], [1.0, 1, 1]])
    return Asked(fit, x, y, new, g)


def truncated(data, depends):
    """All rows as one sample, each seen from an entry of its own on."""
    rng = np.random.default_rng(1)
    data = data[::3]  # each row is a sample of its own here
    frame = data.drop("s").with_columns((pl.col("x") * pl.Series(rng.uniform(0.0, 0.8, len(data)))).alias("entry"))
    fit = vardi.debias({"seen": frame}, {"seen": vardi.window("x", "entry", None)}, **depending(depends))
    return Asked(fit, "x", "y", pl.DataFrame({"x": [0.7, 2.0, 3.1], "y": [1.0, 2.0, 3.0]}))


def densely_truncated(data, depends):
    """The same with the matrix of windows written out."""

    def prepare(opened):
        matrix = opened.inside.toarray().astype(float)
        return Prepared.plain(Dense(matrix, np.arange(len(matrix)), opened.counts, moderate=True))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TruncatedRows, "prepare", prepare)
        return truncated(data, depends)


def dense_form(holder):
    """Return how the rows of a holder are held densely in memory: a form that several holders share."""
    if holder in ("rows in memory", "engine: Polars", "engine: DuckDB"):
        return "rows"
    apart = {
        "truncated rows": "truncated",
        "distinct rows": "conditions",
        "engine: distinct": "conditions",
        "windows": "windows, dense",
    }
    return apart.get(holder, "dense")


def densely(form, data, part, depends="independent"):
    """Return what is asked, held densely in memory."""
    if form == "truncated":
        return densely_truncated(data, depends)
    if form == "rows":
        return in_memory(data, part, depends)
    if form == "conditions":
        return conditions(data, part, depends)
    return of_matrix(data, part, form, depends)


def build(holder, data, part, monkeypatch, depends, dense):
    """Return what is asked, from the data and what was held densely."""
    if holder == "truncated rows":
        return truncated(data, depends)
    if holder == "rows in memory":
        return in_memory(data, part, depends)
    if holder == "distinct rows":
        return conditions(data, part, depends, monkeypatch)
    if holder in ("engine: Polars", "engine: DuckDB"):
        lazy = lazy_polars if holder.endswith("Polars") else lazy_duckdb
        return lazy(data, part, depends)
    if holder == "engine: distinct":
        biases, known = dense.fit.held.pool.biases, None
        given = frames(data)
        if part not in ("parameters", "both"):
            given["seen"] = given["seen"].filter(pl.col("x") > 2)
        if part in ("known values", "both"):
            known = {"x > 4": 0.25, "x > 3": (0.45, 0.05)}
        lazy = {name: frame.lazy() for name, frame in given.items()}
        fit = vardi.debias(lazy, dict(zip(("plain", "seen"), biases, strict=True)), known=known, **depending(depends))
        return Asked(fit, "x", "y", dense.new)
    return of_matrix(data, part, holder, depends, monkeypatch)


class DenseAnswers:
    """The answers of rows held densely in memory, each computed once for all holders that are compared with it."""

    def __init__(self, data):
        self.data = data
        self._asked, self._answers = {}, {}

    def asked(self, *cell):
        """Return the fit of a form, a part and a kind of dependence."""
        if cell not in self._asked:
            form, part, depends = cell
            self._asked[cell] = densely(form, self.data, part, depends)
        return self._asked[cell]

    def answer(self, question, *cell):
        """Return what that fit answers."""
        if (question, cell) not in self._answers:
            self._answers[question, cell] = ANSWERS[question](self.asked(*cell))
        return self._answers[question, cell]


def numbers(*values):
    return np.concatenate([np.ravel(np.asarray(value, np.float64)) for value in values])


def of_estimate(estimate):
    return numbers(estimate.value, estimate.stderr, estimate.interval)


def of_estimates(found):
    return numbers(*(of_estimate(one) for one in found))


def weights(asked):
    shares = list(asked.fit.weight_shares().values())
    return numbers(shares, asked.fit.effective_rows(), _column(asked.fit.weights, "weight"))


def _column(found, name):
    """Return weights in the order of the rows, whatever holds them."""
    if isinstance(found, dict):
        return np.concatenate([_column(part, name) for part in found.values()])
    if isinstance(found, np.ndarray | pl.Series):
        return np.asarray(found)
    rows = nw.from_native(found).lazy().collect(backend="pyarrow")
    return rows.sort("x")[name].to_numpy()  # in which the rows of each sample are; engines have no order of their own


def means(asked):
    found = asked.fit.expectations(
        [asked.x, asked.y] if isinstance(asked.x, str) else np.column_stack([asked.x, asked.y])
    )
    return numbers(found.values, found.covariance)


def among(asked):
    fit, first = asked.fit, next(iter(asked.fit.sizes))
    some = fit.among(first)
    cdf = fit.cdf(asked.y, among=[first])
    return numbers(
        of_estimate(fit.expectation(asked.y, among=[first])),
        of_estimate(fit.expectation(asked.y, among=[first]) - fit.expectation(asked.y)),
        of_estimate(fit.total(asked.y, size=(1000, 50), among=[first])),
        [one.value for one in fit.expectation(asked.y, by=asked.g, among=[first]).values()],
        of_estimates(cdf([2.0, 3.0])),
        of_estimate(cdf.quantile(0.3)),
        _column(some.weights, "weight"),
        some.effective_rows(),
    )


def assisted_means(asked):
    model = {"assisted_by": LinearRegression(), "columns": ["x"]}
    first = next(iter(asked.fit.sizes))
    mean = asked.fit.expectation(asked.y, among=[first], **model)
    assert mean.plain is not None
    return numbers(*map(of_estimate, (mean, mean.plain, asked.fit.total(asked.y, size=10, among=[first], **model))))


def means_of_arrays(asked):
    values = np.arange(len(asked.fit), dtype=float)
    return of_estimate(asked.fit.expectation(values))


def arithmetic(asked):
    x, y = asked.fit.expectation(asked.x), asked.fit.expectation(asked.y)
    both = asked.fit.expectations(
        [asked.x, asked.y] if isinstance(asked.x, str) else np.column_stack([asked.x, asked.y])
    )
    return numbers(*map(of_estimate, (x - y, x / y, x * y, both[0] - both[1], both[0] / both[1])))


def totals(asked):
    fit, x, y = asked.fit, asked.x, asked.y
    found = [
        fit.total(y, size=1000),
        fit.total(y, size=(1000, 50)),
        fit.total(y, size=fit.expectation(x) * 1000),
        fit.total(y, relative_to=(x, 3000)),
        fit.total(y, relative_to=(x, (3000, 100))),
    ]
    return numbers(*map(of_estimate, found), of_estimate(found[1] - found[4]))


def domains(asked):
    fit, x, y, g = asked.fit, asked.x, asked.y, asked.g
    share = "x > 3" if isinstance(x, str) else (x > 3).astype(float)
    tables = [
        fit.expectation(y, by=g),
        fit.expectation(share, by=g),
        fit.proportions(g),
        fit.total(y, size=1000, by=g),
        fit.total(share, size=1000, by=g),
        fit.total(y, size=(1000, 50), by=g),
        fit.total(y, relative_to=(x, 3000), by=g),
    ]
    if isinstance(g, str):
        tables += [fit.expectation(y, by=["g", "h"]), fit.proportions(g, by="h")]
    found = [of_estimates(table.values()) for table in tables]
    assert all(list(table) == sorted(table) for table in tables)
    cdf = fit.cdf(y, by=g)["c"]
    band = cdf.band(draws=200)
    curve = [
        of_estimates(cdf([2.0, 3.0])),
        of_estimate(cdf.quantile(0.3)),
        band.x,
        band.value,
        band.low,
        band.high,
        cdf.x,
    ]
    return numbers(*found, of_estimate(tables[0]["a"] - tables[0]["c"]), tables[0].joint.covariance, *curve)


def normalisers(asked):
    fit = asked.fit
    logs = of_estimates(fit.log_normalisers().values())
    plain = of_estimates(fit.normalisers().values())
    ratio = of_estimate(fit.log_ratio(fit.names[-1], fit.names[0]))
    return numbers(list(fit.omegas.values()), list(fit.w.values()), logs, plain, ratio, fit.log_omega_covariance())


def distribution(asked):
    cdf = asked.fit.cdf(asked.x)
    band = cdf.band()
    return numbers(
        of_estimates(cdf([2.0, 3.0])), of_estimate(cdf.quantile(0.3)), band.x, band.value, band.low, band.high, cdf.x
    )


def parameters(asked):
    found = [one for own in asked.fit.parameters.values() for one in own.values()]
    return numbers(0.0, *map(of_estimate, found), [check.area for check in asked.fit.learned.values()])


def known(asked):
    check = asked.fit.known
    if check is None:
        return numbers(0.0)
    lines = [(line.known, line.known_stderr, line.estimated, line.stderr) for line in check.lines]
    return numbers(lines, check.statistic, check.df, check.pvalue)


def ratio_tests(asked):
    found = asked.fit.test_no_bias("seen")
    name = next(iter(asked.fit.parameters["seen"]))
    declared = asked.fit.test_parameters("seen", {name: 0.5})
    return numbers(found.statistic, found.pvalue, declared.statistic, declared.pvalue)


def columns_of(asked):
    return ["x", "y"] if isinstance(asked.x, str) else {"x": asked.x, "y": asked.y}


def score_test(asked):
    check = asked.fit.check_biases(columns_of(asked))
    cells = asked.fit.check_biases(columns_of(asked), features="cells")
    return numbers(check.pvalue, check.statistic, list(check.by_sample.values()), cells.pvalue, cells.statistic)


def ks_tests(asked):
    return numbers(asked.fit.check_biases(columns_of(asked), method="ks", draws=50).pvalue)


def sensitivity(asked):
    found = asked.fit.sensitivity(asked.y)
    return numbers(found.linear_lower, found.linear_upper, found.one_stderr_gamma)


def bounds(asked):
    found = asked.fit.bounds()
    return numbers(found.r, found.sigma2, found.kappa)


def bootstrap(asked):
    engine = not asked.fit.held.in_memory
    found = asked.fit.bootstrap(asked.y, n=20, seed=1, id="id" if engine else None)
    assert found.failed == 0
    assert found.stderr > 0  # which rows a draw favours depends on how they are held
    return numbers(found.value, asked.fit.bootstrap(n=2, id="id" if engine else None).value)


def bootstrap_of_functions(asked):
    return numbers(asked.fit.bootstrap(lambda weights: weights.max(), n=3).value)


def replicate_weights(asked):
    named = "id" if asked.fit.held.pool.frames or not asked.fit.held.in_memory else None
    columns = [f"replicate_{r + 1}" for r in range(4)]
    found = []
    for kind in ("bayesian", "rows", "jackknife"):
        made = asked.fit.replicate_weights(4, 2, kind=kind, id=named)
        if isinstance(made, pl.DataFrame | np.ndarray):
            found.append(np.asarray(made).T)
        else:
            found += [_column(made, name) for name in columns]
    return numbers(*found)


def draws(asked):
    engine = not asked.fit.held.in_memory
    drawn = asked.fit.sample(30, seed=3, replace=False, id="id" if engine else None)
    if isinstance(drawn, dict):
        drawn = np.concatenate([np.asarray(_column(part, "x")) for part in drawn.values()])
        assert len(np.unique(drawn)) == 30  # engines draw by a hash, so not the rows that memory draws
        return numbers(30.0)
    return numbers(float(len(drawn)))


def draws_with_replacement(asked):
    return numbers(float(len(asked.fit.sample(30, seed=3, replace=True))))


def new_rows(asked):
    return numbers(np.asarray(asked.fit.weigh(asked.new)))


def update(asked):
    """Return the normalisers of the fit with some of its rows twice."""
    fit, pool = asked.fit, asked.fit.held.pool
    if fit.held.in_memory and pool.frames:
        later = pl.col("t") + 100_000
        own = zip(pool.names, pool.frames, strict=False)
        found = fit.update({name: frame.native[:5].with_columns(later) for name, frame in own})
    elif not fit.held.in_memory or isinstance(fit._inputs.omega, Reader):
        found = fit.update({})
    else:
        omega, first = fit._inputs.omega, next(iter(fit.names))
        more = {first: omega.x[:5] if isinstance(omega, vardi.Windows) else omega[:5]}
        if fit.held.depends:  # of a matrix rows have labels in arrays, which new rows do not bring
            with pytest.raises(
                vardi.MismatchError, match="as an array for the rows of the fit, so it is unknown for new rows"
            ):
                fit.update(more)
            return numbers(0.0)
        found = fit.update(more)
    return numbers(list(found.log_omegas.values()))


def verdict(asked):
    found, trust = asked.fit.identify(), asked.fit.trust
    return numbers(found.identified, found.kappa, found.weakest_rows, trust.bridging, np.nan_to_num(trust.tail_index))


def account(asked):
    diagnostics = asked.fit.diagnostics(["x", "y"]) if isinstance(asked.x, str) else asked.fit.diagnostics()
    columns = [(c.pooled, c.debiased, c.stderr, c.shift, c.worth) for c in diagnostics.columns]
    assert str(asked.fit)
    assert "<table" in asked.fit._repr_html_()
    return numbers(diagnostics.effective, diagnostics.second_eigenvalue, columns)


ANSWERS = {
    "weights": weights,
    "means": means,
    "among": among,
    "assisted means": assisted_means,
    "means of arrays": means_of_arrays,
    "totals": totals,
    "domains": domains,
    "arithmetic": arithmetic,
    "normalisers": normalisers,
    "distribution": distribution,
    "parameters": parameters,
    "known": known,
    "tests of parameters": ratio_tests,
    "score test": score_test,
    "ks tests": ks_tests,
    "sensitivity": sensitivity,
    "bounds": bounds,
    "bootstrap": bootstrap,
    "bootstrap of functions": bootstrap_of_functions,
    "replicate weights": replicate_weights,
    "draws": draws,
    "draws with replacement": draws_with_replacement,
    "new rows": new_rows,
    "update": update,
    "verdict": verdict,
    "account": account,
}
