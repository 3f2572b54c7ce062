"""Truncated rows of a frame: one sample to the user, whose weights are those of the nonparametric likelihood."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from textbook import origins, read

import vardi

WINDOW = {"seen": vardi.window("x", "u", "v")}
LEFT = {"seen": vardi.window("x", "u", None)}


def double(n=120, seed=0):
    design = vardi.datasets.truncation(n=n, seed=seed)
    windows = design.truth["windows"]
    z = design.rows + np.random.default_rng(seed).normal(size=n)
    return pd.DataFrame({"x": design.rows, "u": windows[:, 0], "v": windows[:, 1], "z": z})


def left(n=150, seed=0):
    rng = np.random.default_rng(seed)
    x, u = rng.gamma(3.0, 1.0, 10 * n), rng.uniform(-1.0, 3.0, 10 * n)
    seen = np.flatnonzero(x >= u)[:n]
    return pd.DataFrame({"x": x[seen], "u": u[seen]})


def debias(frame, biases=WINDOW, **options):
    return vardi.debias({"seen": frame}, biases, **options)


def product_limit(x, u):
    """Return the masses of Lynden-Bell's estimate, for values without ties."""
    order = np.argsort(x)
    at_risk = np.array([((u <= value) & (x >= value)).sum() for value in x[order]])
    survival = np.cumprod(1.0 - 1.0 / at_risk)
    mass = np.empty(len(x))
    mass[order] = np.concatenate([[1.0], survival[:-1]]) / at_risk
    return mass


def self_consistent(x, low, high, steps=20_000):
    """Return Efron and Petrosian's masses by their equation f_i = 1 / sum_j 1{x_i in window j} / F_j, iterated."""
    seen = (low <= x[:, None]) & (x[:, None] <= high)
    f = np.full(len(x), 1.0 / len(x))
    for _ in range(steps):
        new = 1.0 / (seen @ (1.0 / (f @ seen)))
        new /= new.sum()
        if np.abs(new / f - 1.0).max() < 1e-12:
            break
        f = new
    return f, f @ seen


def test_it_is_one_sample_with_the_weights_of_its_windows():
    frame = double()
    fit = debias(frame)
    matrix = vardi.debias_matrix(vardi.Windows(frame.x, frame.u, frame.v), np.arange(len(frame)))
    np.testing.assert_allclose(fit.weights, matrix.weights, rtol=1e-12)
    assert (fit.names, fit.sizes) == (("seen",), {"seen": len(frame)})
    through = np.array(list(matrix.omegas.values()))
    assert fit.omegas["seen"] == pytest.approx(len(frame) / (1.0 / through).sum())
    assert fit.expectation("x").value == pytest.approx(matrix.expectation(frame.x.to_numpy()).value)
    assert fit.expectation("x").stderr == pytest.approx(  # which has no n / (n - 1)
        matrix.expectation(frame.x.to_numpy()).stderr * np.sqrt(len(frame) / (len(frame) - 1))
    )
    assert fit.expectation("z").value == pytest.approx(np.average(frame.z, weights=fit.weights))
    assert fit.numeric_columns == ("x", "z")
    pd.testing.assert_series_equal(fit.weigh(frame), fit.weights, rtol=1e-9)


def test_left_truncation_is_the_product_limit_estimate():
    frame = left()
    fit = debias(frame, LEFT)
    np.testing.assert_allclose(fit.probabilities, product_limit(frame.x.to_numpy(), frame.u.to_numpy()), rtol=1e-8)
    right = pd.DataFrame({"x": -frame.x, "v": -frame.u})
    mirrored = debias(right, {"seen": vardi.window("x", None, "v")})
    np.testing.assert_allclose(mirrored.weights, fit.weights, rtol=1e-8)
    assert mirrored.normalisers()["seen"].stderr == pytest.approx(fit.normalisers()["seen"].stderr)


def test_ends_are_columns_expressions_or_numbers():
    frame = left()
    assert debias(frame.assign(v=20.0), WINDOW).omegas == pytest.approx(debias(frame, LEFT).omegas)
    shifted = frame.assign(end=frame.x + 5.0, entry=frame.u + 5.0, birth=5.0)
    fit = debias(shifted, {"seen": "window(end - birth, entry - birth, None)"})
    np.testing.assert_allclose(fit.weights, debias(frame, LEFT).weights, rtol=1e-8)
    assert fit.check_biases().columns == ("end - birth",)
    assert fit.check_biases().pvalue == pytest.approx(debias(frame, LEFT).check_biases().pvalue)


@pytest.mark.parametrize("origin", origins("quasars", "aids"))
@pytest.mark.parametrize(("name", "x", "u", "v"), [("quasars", "y", "u", "v"), ("aids", "X", "U", "V")])
def test_double_truncation_has_efron_and_petrosians_estimate(origin, name, x, u, v):
    frame = read(origin, name)
    fit = debias(frame, {"seen": vardi.window(x, u, v)})
    masses, through = self_consistent(*(frame[name].to_numpy(float) for name in (x, u, v)))
    np.testing.assert_allclose(fit.probabilities, masses, rtol=1e-5)
    assert fit.omegas["seen"] == pytest.approx(len(frame) / (1.0 / through).sum(), rel=1e-6)


@pytest.mark.parametrize("origin", origins("channing"))
def test_a_house_of_old_people_is_censored_and_said_to_be(origin):
    frame = read(origin, "channing").query("exit > entry")
    censored = int((frame["cens"] == 0).sum())
    assert (censored, len(frame)) == (282, 457) or origin == "made"
    said = rf"{censored} of 457 rows of 'seen' are censored .* such as lifelines"
    with pytest.raises(vardi.InvalidBiasError, match=said):
        debias(frame, {"seen": vardi.window("exit", "entry", None, status="cens")})


@pytest.mark.long
def test_the_normaliser_is_the_chance_to_be_seen_in_the_population():
    rng = np.random.default_rng(5)
    x, b = rng.uniform(size=6000), rng.beta(1, 2, 6000)
    seen = np.abs(x - b) <= 0.25
    fit = debias(pd.DataFrame({"x": x, "u": b - 0.25, "v": b + 0.25})[seen])
    found = fit.normalisers()["seen"]
    assert abs(found.value - seen.mean()) < 3 * np.hypot(found.stderr, np.sqrt(0.25 / 6000))
    assert found.stderr < 0.02


def test_the_band_of_a_domain_has_the_errors_of_its_points():
    frame = double(200)
    frame["g"] = np.where(np.arange(200) % 3 == 0, "some", "others")
    cdf = debias(frame).cdf("z", by="g")["some"]
    grid, value = cdf._grid()
    assert len(grid) < 200  # fewer points than windows
    covariance = cdf._covariance(grid, value)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), [one.stderr for one in cdf(grid)], rtol=1e-8)


def test_counts_are_copies():
    frame, counts = double(), np.where(np.arange(120) < 10, 3, 1)
    counted, copied = debias(frame, counts=counts), debias(frame.loc[frame.index.repeat(counts)])
    np.testing.assert_allclose(counted.weights, copied.weights[~copied.weights.index.duplicated()], rtol=1e-9)
    for ask in (lambda fit: fit.expectation("z"), lambda fit: fit.cdf("x")(0.4), lambda fit: fit.normalisers()["seen"]):
        assert (ask(counted).value, ask(counted).stderr) == pytest.approx((ask(copied).value, ask(copied).stderr))
    assert counted.check_biases().pvalue == pytest.approx(copied.check_biases().pvalue)
    without = debias(frame, counts=np.where(np.arange(120) < 5, 0, 1))
    np.testing.assert_allclose(without.weights[5:], debias(frame[5:]).weights, rtol=1e-9)


@pytest.mark.parametrize("library", [pl.from_pandas, lambda frame: frame.to_records(index=False)])
def test_any_frame_in_memory_will_do(library):
    fit = debias(library(double()))
    np.testing.assert_allclose(fit.weights, debias(double()).weights)
    assert len(fit.sample(7, seed=0)) == 7


@pytest.mark.long
def test_a_bootstrap_draws_rows_with_their_windows():
    fit = debias(double(n=300))
    found = fit.bootstrap("x", n=60, kind="rows")
    assert found.failed == 0
    assert 0.6 < found.stderr / fit.expectation("x").stderr < 1.6  # 60 draws know it to 9%
    assert fit.bootstrap(n=2).names == ("log Omega of seen",)
    counts = np.random.default_rng(0).multinomial(300, np.full(300, 1 / 300)).astype(float)
    refit = fit.solved.refit(counts, tol=1e-10, may_part=False)
    again = debias(double(n=300), counts=counts)
    kept = counts > 0
    np.testing.assert_allclose(refit.weights[kept], again.weights[kept], rtol=1e-7)
    assert refit.log_omegas[0] == pytest.approx(again.log_omegas["seen"])


def test_a_draw_that_falls_apart_says_it_of_risk_sets():
    fit = debias(left(n=12), LEFT)
    with pytest.warns(
        vardi.WeakOverlapWarning, match="draws have no fit: too few of their rows are at risk together. St"
    ):
        found = fit.bootstrap("x", n=60, kind="rows")
    assert 0 < found.failed <= 6


def test_all_that_a_fit_says_knows_the_columns(tmp_path):
    fit = pickle.loads(pickle.dumps(debias(double())))
    text = str(fit)
    assert "window(x, u, v)" in text
    assert "(quasi-independence) is not contradicted" in text
    assert "the risk sets at its values join" in " ".join(text.split())
    assert "'seen' is weighted by the windows of its rows" in fit.identify().message
    report = fit.report(tmp_path / "report.html").read_text()
    assert "window(x, u, v)" in report
    band = fit.cdf("x").band()
    assert (band.low <= band.high).all()
    assert fit.sensitivity("x", gammas=[1.5]).upper[0] > fit.expectation("x").value


def test_an_error_of_the_chance_moves_a_mean_as_the_weights_say():
    fit = debias(double())
    found = fit.sensitivity("x", gammas=[1.0001])
    x = fit.solved.memory.values("x")
    slope = (fit.probabilities * np.abs(x - fit.expectation("x").value)).sum()
    assert (found.upper[0] - found.lower[0]) / 2 == pytest.approx(np.log(1.0001) * slope, rel=1e-3)
    assert found.linear_upper[0] - fit.expectation("x").value == pytest.approx(np.log(1.0001) * slope)


GAP = pd.DataFrame({"x": [1, 2, 3.2, 3.9, 5, 6], "u": [0, 0.5, 1, 3.5, 3.6, 4], "v": [2.5, 3.3, 3.4, 5.5, 6, 7]})
LATE = pd.DataFrame({"x": [1, 2, 3.2, 5, 6, 5.5], "u": [0, 0, 0.5, 3.5, 4, 3.9]})


@pytest.mark.parametrize(
    ("frame", "biases", "message"),
    [
        (
            GAP,
            WINDOW,
            r"Between 3.2 and 3.9 the values fall apart: no row seen from 3.9 on was at risk at 3.2 or below",
        ),
        (
            LATE,
            LEFT,
            r"At 3.2 the row seen there is the only one at risk, and no window of 3 rows seen from 5 to 6 holds",
        ),
    ],
)
def test_what_cannot_be_weighed_is_said_of_risk_sets(frame, biases, message):
    with pytest.raises(vardi.NotIdentifiableError, match=message) as caught:
        debias(frame, biases)
    assert "sample" not in str(caught.value)
    verdict = vardi.identify({"seen": frame}, biases)
    assert not verdict
    assert str(caught.value) == verdict.message
    with pytest.warns(vardi.DroppedSamplesWarning, match="Left out 'row 3', 'row 4', 'row 5' with 3 rows"):
        kept = debias(frame, biases, on_unidentified="largest")
    assert kept.sizes == {"seen": 3}
    assert (kept.weights[3:] == 0).all()
    assert kept.identify().identified


def test_what_can_be_weighed_is_said_before_any_fit():
    verdict = vardi.identify({"seen": double()}, WINDOW)
    assert verdict.identified
    assert verdict.groups == (("seen",),)
    assert verdict.message.startswith("'seen' is weighted by the windows of its rows: the risk sets")


ROWS = pd.DataFrame({"x": [1.0, 2.0, 3.0], "u": [0.0, 1.0, 2.0], "v": [9.0, 9.0, 9.0], "died": [1, 0, 1]})
STATUS = {"seen": vardi.window("x", "u", "v", status="died")}


@pytest.mark.parametrize(
    ("frame", "biases", "error", "message"),
    [
        (
            ROWS.assign(u=[0, 2.5, 2]),
            WINDOW,
            vardi.ImpossibleRowError,
            r"row 1: x is 2, and its window reaches from 2.5",
        ),
        (
            ROWS.assign(x=[1, np.nan, 3]),
            WINDOW,
            vardi.MissingValuesError,
            r"'x' \(1\). A value that was not seen is cens",
        ),
        (ROWS.assign(v=[9, np.nan, 9]), WINDOW, vardi.MissingValuesError, r"an end that is open is -inf or inf"),
        (ROWS, STATUS, vardi.InvalidBiasError, r"1 of 3 rows of 'seen' are censored \(died is 0, first at row 1\)"),
        (ROWS.assign(died=2), STATUS, vardi.InvalidBiasError, r"write a condition, such as died == 2"),
        (ROWS, {"seen": "window(x, y, v)"}, vardi.MismatchError, "There is no column 'y'"),
        (ROWS.assign(u=["a", "b", "c"]), WINDOW, vardi.MismatchError, "u, of the window of 'seen', is not a number"),
        (ROWS.assign(x=pd.to_datetime("2020-01-01")), WINDOW, vardi.MismatchError, "count dates from a first day"),
    ],
)
def test_rows_that_cannot_be_are_refused(frame, biases, error, message):
    with pytest.raises(error, match=message):
        debias(frame, biases)


def test_rows_that_are_all_observed_are_taken():
    frame = ROWS.assign(died=1)
    np.testing.assert_allclose(debias(frame, STATUS).weights, debias(frame).weights)
    assert debias(frame.assign(died=[2, 2, 2]), {"seen": "window(x, u, v, died == 2)"}).sizes == {"seen": 3}


def test_windows_stand_alone_and_in_memory():
    frame = double()
    with pytest.raises(vardi.MismatchError, match="rows of other samples have none. Debias it alone"):
        vardi.debias({"seen": frame, "all": frame}, {**WINDOW, "all": 1})
    with pytest.raises(vardi.NeedsRowsError, match="The bias of 'seen', window"):
        debias(pl.from_pandas(frame).lazy())
    fit = debias(frame)
    with pytest.raises(vardi.MismatchError, match="'u' belongs to the window of a row"):
        fit.expectation("u - x")
    for outside in (-70, 70):
        with pytest.raises(vardi.ImpossibleRowError, match=f"where x is {outside}"):
            fit.weigh(pd.DataFrame({"x": [0.5, outside]}))
    with pytest.raises(vardi.InvalidBiasError, match="cannot be a factor of another bias"):
        2 * WINDOW["seen"]


@pytest.mark.parametrize("text", ["window(x, u, v)", "window(x, u, None)", "window(x, None, `v 1`, died == 1)"])
def test_text_reads_back(text):
    assert str(vardi.where(text)) == text
    assert vardi.where(text) == vardi.where(str(vardi.where(text)))
    assert repr(vardi.where(text)) == f"where({text!r})"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: vardi.where("window(x, u)"), "window takes the column of the value and the two ends"),
        (lambda: vardi.where("1 + window(x, u, v)"), "can only stand alone or be a factor"),
        (
            lambda: vardi.where("window(x, u, v) * logistic(x)"),
            "one factor such as window.x, u, v., and this is a second",
        ),
        (lambda: vardi.window("x", None, np.inf), "has no end"),
        (lambda: vardi.window("x", 1, 2), "Declare a condition, such as vardi.between"),
        (lambda: vardi.window(3, "u", None), "is named by a string, not by 3"),
        (lambda: vardi.window("3", "u", None), "reads no column"),
        (lambda: vardi.where("window(x, u, True)"), "is a column or a number, not True"),
    ],
)
def test_a_window_that_is_none_is_refused(make, message):
    with pytest.raises(vardi.VardiError, match=message):
        make()
