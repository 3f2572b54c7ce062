"""The table of questions: what a fit answers for every holder of rows, part and dependence, stored as numbers.

A cell is a question, a holder of rows (in memory, distinct, sparse, an engine, ...), a part (known values, parameters,
...) and how rows depend on one another; `holders.py` makes the fits. `questions.json` has an entry for each cell: the
numbers that rows held densely in memory give, with which every other holder is compared, or the start of the text with
which it is refused. A long column, such as weights, is stored as a digest: its length, its extremes and 16 fixed inner
products. Only public names are used, so the table outlives any change inside the package.

    python tests/questions/questions.py           prints the cells whose answer is not the stored one
    python tests/questions/questions.py --write   also stores these answers; other lines of the file stay as they are

Write only what is meant to change; the commit says which cells changed and why.

Answers are equal to 1e-8. Those of models of scikit-learn (learned biases, assisted means) are so with the version that
wrote the file; with another, as in `make minimum`, they may differ by 1e-5, since its solvers may stop elsewhere.
"""

from __future__ import annotations

import argparse
import json
import textwrap
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import sklearn
from holders import DEPENDENCES, HOLDERS, PARTS, Holder, Subject
from sklearn.linear_model import LinearRegression

import vardi

FILE = Path(__file__).with_suffix(".json")
EQUAL = 1e-8
EQUAL_IN_OTHER_VERSIONS = 1e-5  # of scikit-learn, for what its models were fitted to
VERSION = "scikit-learn"  # the key of the version that wrote the file
DIGITS = 12
REASON = 60  # characters of a refusal that are stored at most, in whole words
EVERY = "every question"  # refused, since there is no fit
DRAWN = ("bootstrap", "draws")  # by row or by kind of row, so holders may have their own

Entry = list[float] | str


def numbers(*values: Any) -> np.ndarray:
    """Return all values one after the other."""
    return np.concatenate([np.ravel(np.asarray(value, np.float64)) for value in values])


def digest(column: Any) -> np.ndarray:
    """Return the length of a column, its extremes and 16 fixed inner products."""
    column = numbers(column)
    waves = np.cos(np.arange(1, 17)[:, None] * (np.arange(len(column)) + 0.5))
    return numbers(len(column), column.min(), column.max(), waves @ column / np.sqrt(len(column)))


def of_estimate(estimate: Any) -> np.ndarray:
    return numbers(estimate.value, estimate.stderr, estimate.interval)


def of_estimates(estimates: Any) -> np.ndarray:
    return numbers(*map(of_estimate, estimates))


def of_cdf(cdf: Any, band: Any) -> np.ndarray:
    curves = map(digest, (band.x, band.value, band.low, band.high, cdf.x))
    return numbers(of_estimates(cdf([2.0, 3.0])), of_estimate(cdf.quantile(0.3)), *curves)


def of_covariance(covariance: Any, fit: Any) -> np.ndarray:
    """Return a covariance on the scale of a single row, so that no entry is below the tolerance."""
    return numbers(covariance * sum(fit.sizes.values()))


def column_of(frames: Any, name: str) -> np.ndarray:
    """Return a column in the order of the rows, whatever holds them."""
    if isinstance(frames, dict):
        return np.concatenate([column_of(frame, name) for frame in frames.values()])
    if isinstance(frames, np.ndarray | pl.Series):
        return np.asarray(frames)
    rows = nw.from_native(frames).lazy().collect(backend="pyarrow")
    return rows.sort("x")[name].to_numpy()  # in which the rows of each sample are; engines have no order of their own


def weights(subject: Subject) -> np.ndarray:
    fit = subject.fit
    shares = list(fit.weight_shares().values())
    return numbers(shares, fit.effective_rows(), digest(column_of(fit.weights, "weight")))


def means(subject: Subject) -> np.ndarray:
    estimates = subject.fit.expectations(subject.both)
    return numbers(estimates.values, of_covariance(estimates.covariance, subject.fit))


def among(subject: Subject) -> np.ndarray:
    fit, y, first = subject.fit, subject.y, next(iter(subject.fit.sizes))
    some, mean = fit.among(first), fit.expectation(y, among=[first], **subject.model)
    cdf = fit.cdf(y, among=[first])
    return numbers(
        of_estimate(mean),
        of_estimate(mean - fit.expectation(y, **subject.model)),
        of_estimate(fit.total(y, size=(1000, 50), among=[first], **subject.model)),
        [one.value for one in fit.expectation(y, by=subject.g, among=[first], **subject.model).values()],
        of_estimates(cdf([2.0, 3.0])),
        of_estimate(cdf.quantile(0.3)),
        digest(column_of(some.weights, "weight")),
        some.effective_rows(),
    )


def assisted_means(subject: Subject) -> np.ndarray:
    fit, first = subject.fit, next(iter(subject.fit.sizes))
    model = {"assisted_by": LinearRegression(), "columns": ["x"], "among": [first]}
    mean = fit.expectation(subject.y, **model)
    assert mean.plain is not None
    return of_estimates((mean, mean.plain, fit.total(subject.y, size=10, **model)))


def means_of_arrays(subject: Subject) -> np.ndarray:
    values = np.arange(len(subject.fit), dtype=float)
    return of_estimate(subject.fit.expectation(values, **subject.model))


def arithmetic(subject: Subject) -> np.ndarray:
    fit = subject.fit
    x, y = (fit.expectation(function, **subject.model) for function in (subject.x, subject.y))
    both = fit.expectations(subject.both)
    return of_estimates((x - y, x / y, x * y, both[0] - both[1], both[0] / both[1]))


def totals(subject: Subject) -> np.ndarray:
    fit, x, y, model = subject.fit, subject.x, subject.y, subject.model
    estimates = [
        fit.total(y, size=1000, **model),
        fit.total(y, size=(1000, 50), **model),
        fit.total(y, size=fit.expectation(x, **model) * 1000, **model),
        fit.total(y, relative_to=(x, 3000), **model),
        fit.total(y, relative_to=(x, (3000, 100)), **model),
    ]
    return of_estimates([*estimates, estimates[1] - estimates[4]])


def domains(subject: Subject) -> np.ndarray:
    fit, x, y, g, model = subject.fit, subject.x, subject.y, subject.g, subject.model
    share = "x > 3" if subject.has_columns else (x > 3).astype(float)
    tables = [
        fit.expectation(y, by=g, **model),
        fit.expectation(share, by=g, **model),
        fit.proportions(g),
        fit.total(y, size=1000, by=g, **model),
        fit.total(share, size=1000, by=g, **model),
        fit.total(y, size=(1000, 50), by=g, **model),
        fit.total(y, relative_to=(x, 3000), by=g, **model),
    ]
    if subject.has_columns:
        tables += [fit.expectation(y, by=["g", "h"], **model), fit.proportions(g, by="h")]
    assert all(list(table) == sorted(table) for table in tables)
    estimates, first, cdf = [of_estimates(table.values()) for table in tables], tables[0], fit.cdf(y, by=g)["c"]
    joint = of_covariance(first.joint.covariance, fit)
    return numbers(*estimates, of_estimate(first["a"] - first["c"]), joint, of_cdf(cdf, cdf.band(draws=200)))


def normalisers(subject: Subject) -> np.ndarray:
    fit = subject.fit
    logs = of_estimates(fit.log_normalisers().values())
    plain = of_estimates(fit.normalisers().values())
    ratio = of_estimate(fit.log_ratio(fit.names[-1], fit.names[0]))
    covariance = of_covariance(fit.log_omega_covariance(), fit)
    return numbers(list(fit.omegas.values()), list(fit.paper_normalisers().values()), logs, plain, ratio, covariance)


def distribution(subject: Subject) -> np.ndarray:
    cdf = subject.fit.cdf(subject.x)
    return of_cdf(cdf, cdf.band())


def parameters(subject: Subject) -> np.ndarray:
    estimates = [one for by_name in subject.fit.parameters.values() for one in by_name.values()]
    areas = [check.area for check in subject.fit.learned.values()]
    return numbers(len(estimates), *map(of_estimate, estimates), areas)


def known(subject: Subject) -> np.ndarray:
    check = subject.fit.known
    if check is None:
        return numbers(0.0)
    lines = [(line.known, line.known_stderr, line.estimated, line.stderr) for line in check.lines]
    return numbers(lines, check.statistic, check.df, check.pvalue)


def ratio_tests(subject: Subject) -> np.ndarray:
    no_bias = subject.fit.test_no_bias("seen")
    name = next(iter(subject.fit.parameters["seen"]))
    at_half = subject.fit.test_parameters("seen", {name: 0.5})
    return numbers(no_bias.statistic, no_bias.pvalue, at_half.statistic, at_half.pvalue)


def score_test(subject: Subject) -> np.ndarray:
    check = subject.fit.check_biases(subject.columns)
    cells = subject.fit.check_biases(subject.columns, features="cells")
    return numbers(check.pvalue, check.statistic, list(check.by_sample.values()), cells.pvalue, cells.statistic)


def sensitivity(subject: Subject) -> np.ndarray:
    ranges = subject.fit.sensitivity(subject.y)
    return numbers(ranges.linear_lower, ranges.linear_upper, ranges.one_stderr_gamma)


def bounds(subject: Subject) -> np.ndarray:
    theory = subject.fit.bounds()
    return numbers(theory.r, theory.sigma2, theory.kappa)


def bootstrap(subject: Subject) -> np.ndarray:
    row = "id" if subject.in_engine else None
    mean, logs = subject.fit.bootstrap(subject.y, n=20, seed=1, id=row), subject.fit.bootstrap(n=2, id=row)
    assert mean.failed == 0
    return numbers(mean.value, logs.value, mean.stderr, logs.stderr)


def bootstrap_of_functions(subject: Subject) -> np.ndarray:
    return numbers(subject.fit.bootstrap(lambda weights: weights.max(), n=3).value)


def replicate_weights(subject: Subject) -> np.ndarray:
    row = "id" if subject.has_columns else None
    names = [f"replicate_{r + 1}" for r in range(4)]
    digests = []
    for kind in ("bayesian", "rows", "jackknife"):
        table = subject.fit.replicate_weights(4, 2, kind=kind, id=row)
        in_memory = isinstance(table, pl.DataFrame | np.ndarray)
        digests.append(digest(np.asarray(table).T if in_memory else [column_of(table, name) for name in names]))
    return numbers(*digests)


def draws(subject: Subject) -> np.ndarray:
    drawn = subject.fit.sample(30, seed=3, replace=False, id="id" if subject.in_engine else None)
    values = of_drawn(drawn, subject)
    assert len(np.unique(values)) == 30
    return numbers(np.sort(values))


def draws_with_replacement(subject: Subject) -> np.ndarray:
    return numbers(np.sort(of_drawn(subject.fit.sample(30, seed=3, replace=True), subject)))


def of_drawn(drawn: Any, subject: Subject) -> np.ndarray:
    """Return the values x of rows that were drawn."""
    return column_of(drawn, "x") if subject.has_columns else subject.x[drawn]


def new_rows(subject: Subject) -> np.ndarray:
    return numbers(np.asarray(subject.fit.weigh(subject.new)))


def formula(subject: Subject) -> np.ndarray:
    weight = subject.fit.expression()
    by_expression = nw.from_native(subject.new).select(weight=weight).get_column("weight").to_numpy()
    rows = nw.from_native(subject.new).lazy("polars").to_native()
    by_file = subject.fit.weigher().weigh(rows).collect()["weight"].to_numpy()
    np.testing.assert_allclose(by_expression, by_file, rtol=1e-12)
    return numbers(by_expression, subject.fit.uncovered(rows))


def update(subject: Subject) -> np.ndarray:
    return numbers(list(subject.fit.update(subject.more).log_omegas.values()))


def verdict(subject: Subject) -> np.ndarray:
    overlap, trust = subject.fit.identify(), subject.fit.trust
    return numbers(overlap.identified, overlap.kappa, overlap.weakest_rows, trust.bridging, trust.tail_index)


def account(subject: Subject) -> np.ndarray:
    fit = subject.fit
    diagnostics = fit.diagnostics(["x", "y"]) if subject.has_columns else fit.diagnostics()
    columns = [(c.pooled, c.debiased, c.stderr, c.shift, c.worth) for c in diagnostics.columns]
    assert str(fit)
    assert "<table" in fit._repr_html_()
    return numbers(diagnostics.effective, diagnostics.second_eigenvalue, columns)


QUESTIONS: dict[str, Callable[[Subject], np.ndarray]] = {
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
    "sensitivity": sensitivity,
    "bounds": bounds,
    "bootstrap": bootstrap,
    "bootstrap of functions": bootstrap_of_functions,
    "replicate weights": replicate_weights,
    "draws": draws,
    "draws with replacement": draws_with_replacement,
    "new rows": new_rows,
    "weights as a formula": formula,
    "update": update,
    "verdict": verdict,
    "account": account,
}


@cache
def stored() -> dict[str, Entry]:
    """Return the stored entries, by their keys."""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def key(place: str, part: str, dependence: str, question: str) -> str:
    """Return the key of an entry."""
    return " | ".join((place, part, dependence, question))


def lookup(table: dict[str, Entry], holder: Holder, part: str, dependence: str, question: str) -> Entry | None:
    """Return the entry of a cell: the holder's own if there is one, otherwise that of its form."""
    keys = (key(place, part, dependence, one) for place in holder.places for one in (EVERY, question))
    return next((table[one] for one in keys if one in table), None)


def reason(error: vardi.VardiError) -> str:
    """Return the start of a refusal."""
    return textwrap.wrap(str(error), REASON)[0]


def entry_of(answer: Callable[[], np.ndarray]) -> Entry:
    """Return what is stored of an answer: numbers, or the start of the reason why there is none."""
    try:
        return [float(f"{value:.{DIGITS}g}") for value in answer()]
    except vardi.VardiError as error:
        return reason(error)


def entries(build: Callable[[], Subject]) -> Iterator[tuple[str, Entry]]:
    """Yield the entry of each question, or a single one for all of them if there is no fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small samples: errors are doubtful, and the same everywhere
        try:
            subject = build()
        except vardi.VardiError as error:
            yield EVERY, reason(error)
            return
        for question, answer in QUESTIONS.items():
            yield question, entry_of(partial(answer, subject))


def tolerance(part: str, question: str) -> float:
    """Return how far an answer may be from the stored one, relatively and absolutely."""
    by_a_model = part == "learned" or question == "assisted means"
    other_version = stored().get(VERSION) != sklearn.__version__
    return EQUAL_IN_OTHER_VERSIONS if by_a_model and other_version else EQUAL


def difference(entry: Entry, expected: Entry | None, tolerance: float = EQUAL) -> str:
    """Return how an entry differs from the one that is expected; nothing if it does not."""
    if isinstance(entry, str) or isinstance(expected, str) or expected is None:
        return "" if entry == expected else f"{_shown(entry)} in place of {_shown(expected)}"
    if len(entry) != len(expected):
        return f"{len(entry)} numbers in place of {len(expected)}"
    new, old = np.array(entry), np.array(expected)
    differs = ~np.isclose(new, old, rtol=tolerance, atol=tolerance, equal_nan=True)
    if not differs.any():
        return ""
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.where(differs, np.nan_to_num(np.abs(new - old) / np.abs(old), nan=np.inf), 0.0)
    worst = int(change.argmax())
    return f"{differs.sum()} of {len(new)} numbers, at most by {change[worst]:.1g}: {new[worst]} for {old[worst]}"


def differences(name: str, part: str, dependence: str, build: Callable[[], Subject] | None = None) -> list[str]:
    """Return which answers of a holder are not the stored ones, as text; ``build`` is given for engines."""
    holder, lines = HOLDERS[name], []
    for question, entry in entries(build or partial(holder.build, part, dependence)):
        expected = lookup(stored(), holder, part, dependence, question)
        if text := difference(entry, expected, tolerance(part, question)):
            lines.append(f"{question} of {name} with {part}, {dependence}: {text}")
    return lines


def _shown(entry: Entry | None) -> str:
    return "nothing" if entry is None else repr(entry) if isinstance(entry, str) else f"{len(entry)} numbers"


def answered() -> tuple[dict[str, Entry], list[str]]:
    """Return the table as it is now, with entries that did not change as they are stored, and where holders disagree.

    What a holder alone refuses, and what it draws in its own way, are entries of its own.
    """
    table: dict[str, Entry] = {}
    disagreements = []
    local = (holder for holder in HOLDERS.values() if holder.build is not None)
    for holder, part, dependence in product(local, PARTS, DEPENDENCES):
        for question, entry in entries(partial(holder.build, part, dependence)):
            own = key(holder.places[0], part, dependence, question)
            there = lookup(table, holder, part, dependence, question)
            text = difference(entry, there)
            if not text:
                continue
            if there is not None and (own in table or not (isinstance(entry, str) or question in DRAWN)):
                disagreements.append(f"{own}: {text}")
                continue
            old = stored().get(own)
            table[own] = old if old is not None and not difference(entry, old) else entry
    return table, disagreements


def main() -> None:
    """Compare the table with the file, and write it."""
    arguments = argparse.ArgumentParser(description="Compare the answers of all fits with those that are stored.")
    arguments.add_argument("--write", action="store_true", help=f"store what changed in {FILE.name}")
    write = arguments.parse_args().write
    table, disagreements = answered()
    for line in disagreements:
        print(f"disagrees  {line}")
    for name in sorted({*table, *stored()} - {VERSION}):
        if name not in table:
            print(f"gone  {name}")
        elif name not in stored():
            print(f"new  {name}")
        elif text := difference(table[name], stored()[name]):
            print(f"changed  {name}: {text}")
    if write:
        lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(table.items())]
        version = f"{json.dumps(VERSION)}: {json.dumps(sklearn.__version__)}"
        FILE.write_text("{\n" + ",\n".join([version, *lines]) + "\n}\n", encoding="utf-8")
    if disagreements:
        raise SystemExit("Holders of the same rows disagree: see above.")


if __name__ == "__main__":
    main()
