"""Biases that are log-linear in categories: what they equal, on which values, and what is refused."""

import datetime
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vardi
from vardi import study
from vardi.biases import as_bias

EFFECTS = {"N": 0.0, "S": 1.0, "W": -0.5}


def population(rng, n):
    rows = pd.DataFrame(
        {
            "region": rng.choice(list("NSW"), n, p=[0.5, 0.3, 0.2]),
            "sex": rng.choice(["f", "m"], n),
            "zone": rng.integers(1, 4, n),
            "ill": rng.random(n) < 0.3,
        }
    )
    return rows.assign(y=rng.normal(size=n) + 2 * (rows["region"] == "S") + (rows["sex"] == "m") * rows["zone"])


def selected(rng, n):
    rows = population(rng, 20 * n)
    accept = np.exp(rows["region"].map(EFFECTS) - 0.7 * (rows["sex"] == "m") - 1)
    return rows[rng.random(len(rows)) < accept][:n].reset_index(drop=True)


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(4)
    return {"reference": population(rng, 400), "panel": selected(rng, 900)}


def fit_of(samples, bias, **options):
    return vardi.debias(samples, {"reference": 1, "panel": bias}, **options)


def values_of(fit):
    return {name: estimate.value for name, estimate in fit.parameters["panel"].items()}


# --- what it equals


def test_it_is_a_tilt_by_indicators(samples):
    fit = fit_of(samples, vardi.cells("region", "sex"))
    frequent = pd.concat(samples.values())["region"].mode()[0]
    assert frequent == "S"  # in the pool, though not in the population
    tilt = fit_of(samples, vardi.exponential_tilt("region == 'N'", "region == 'W'", "sex == 'm'"))
    assert list(values_of(fit)) == ["region=N", "region=W", "sex=m"]
    np.testing.assert_allclose(list(values_of(fit).values()), list(values_of(tilt).values()), rtol=1e-8)
    np.testing.assert_allclose(fit.weights, tilt.weights, rtol=1e-9)
    for name, other in zip(fit.parameters["panel"], tilt.parameters["panel"], strict=True):
        mine, theirs = fit.parameters["panel"][name], tilt.parameters["panel"][other]
        assert mine.stderr == pytest.approx(theirs.stderr, rel=1e-8)
        assert mine.value == pytest.approx({"region=N": -1, "region=W": -1.5, "sex=m": -0.7}[name], abs=4 * mine.stderr)
    mine, theirs = fit.expectation("y"), tilt.expectation("y")
    assert (mine.value, mine.stderr) == pytest.approx((theirs.value, theirs.stderr), rel=1e-8)
    assert fit.test_no_bias("panel").dof == 3
    spread = fit.bootstrap("y", n=100)
    assert spread.stderr == pytest.approx(mine.stderr, rel=0.3)


def test_main_effects_hold_each_margin_and_crossing_holds_each_cell(samples):
    """A parameter for a cell leaves its share to the reference: post-stratification by it."""
    reference = samples["reference"]
    main, crossed = (fit_of(samples, bias) for bias in (vardi.cells("region", "sex"), vardi.cells(("region", "sex"))))
    for fit in (main, crossed):
        for condition in ("region == 'N'", "region == 'W'", "sex == 'm'"):
            assert fit.expectation(condition).value == pytest.approx(reference.eval(condition).mean(), abs=1e-9)
    cell = "region == 'S' and sex == 'f'"
    assert crossed.expectation(cell).value == pytest.approx(reference.eval(cell).mean(), abs=1e-9)
    assert abs(main.expectation(cell).value - reference.eval(cell).mean()) > 1e-4
    assert len(crossed.parameters["panel"]) == 5
    assert "region=N, sex=f" in crossed.parameters["panel"]
    assert crossed.test_no_bias("panel").statistic >= main.test_no_bias("panel").statistic - 1e-9


def test_one_column_of_two_values_is_steps(samples):
    fit, stepped = fit_of(samples, vardi.cells("zone >= 3")), fit_of(samples, vardi.steps("zone", [3]))
    assert list(values_of(fit)) == ["(zone >= 3)=True"]
    np.testing.assert_allclose(list(values_of(fit).values()), list(values_of(stepped).values()), rtol=1e-8)
    np.testing.assert_allclose(fit.weights, stepped.weights, rtol=1e-9)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), renamed=st.permutations(["a", "b", "c"]))
def test_the_order_of_rows_and_the_names_of_values_do_not_matter(samples, seed, renamed):
    rng = np.random.default_rng(seed)
    names = dict(zip("NSW", renamed, strict=True))
    order = {key: rng.permutation(len(rows)) for key, rows in samples.items()}
    moved = {
        key: rows.assign(region=rows["region"].map(names)).iloc[order[key]].reset_index(drop=True)
        for key, rows in samples.items()
    }
    before, after = fit_of(samples, vardi.cells("region", "sex")), fit_of(moved, vardi.cells("region", "sex"))
    expected = np.concatenate(
        [np.asarray(before.weights)[:400][order["reference"]], before.weights[400:][order["panel"]]]
    )
    np.testing.assert_allclose(after.weights, expected, rtol=1e-8)
    for old, new in names.items():
        if old != "S":
            assert values_of(after)[f"region={new}"] == pytest.approx(values_of(before)[f"region={old}"], rel=1e-7)


# --- which values


@pytest.mark.parametrize("library", ["pandas", "categorical", "nullable", "Polars", "PyArrow"])
def test_every_library_reads_the_same_categories(samples, library):
    change = {
        "pandas": lambda rows: rows,
        "categorical": lambda rows: rows.astype({"region": "category"}),
        "nullable": lambda rows: rows.convert_dtypes(),
        "Polars": lambda rows: pl.DataFrame(rows.to_dict("list")).with_columns(pl.col("sex").cast(pl.Categorical)),
        "PyArrow": lambda rows: pa.table(rows.to_dict("list")),
    }[library]
    given_rows = {key: change(rows) for key, rows in samples.items()}
    fit = fit_of(given_rows, vardi.cells(("region", "sex"), "zone", "ill"))
    expected = fit_of(samples, vardi.cells(("region", "sex"), "zone", "ill"))
    assert list(values_of(fit)) == list(values_of(expected))
    assert list(values_of(fit))[-1] == "ill=True"
    np.testing.assert_allclose(np.asarray(fit.weights), expected.weights, rtol=1e-9)
    np.testing.assert_allclose(np.asarray(fit.weigh(given_rows["panel"])), expected.weights[400:], rtol=1e-9)


def test_whole_numbers_are_one_category_however_they_are_stored(samples):
    mixed = {"reference": samples["reference"].astype({"zone": float}), "panel": samples["panel"]}
    assert values_of(fit_of(mixed, vardi.cells("zone"))) == values_of(fit_of(samples, vardi.cells("zone")))
    ids = {key: rows.assign(zone=rows["zone"] + 2**53) for key, rows in samples.items()}  # no floats
    assert set(values_of(fit_of(ids, vardi.cells("zone")))) < {f"zone={2**53 + zone}" for zone in (1, 2, 3)}
    halves = {key: rows.assign(zone=rows["zone"] / 2) for key, rows in samples.items()}
    assert set(values_of(fit_of(halves, vardi.cells("zone")))) < {"zone=0.5", "zone=1", "zone=1.5"}


def test_arrays_have_categories_too():
    rng = np.random.default_rng(0)
    rows = {"reference": rng.integers(0, 3, 200), "panel": rng.integers(0, 2, 300) + rng.integers(0, 2, 300)}
    fit = fit_of(rows, vardi.cells("x"))
    assert list(values_of(fit)) == ["x=0", "x=2"]
    shares = [np.mean(rows["reference"] == value) for value in (0, 2)]
    assert [fit.expectation(f"x == {value}").value for value in (0, 2)] == pytest.approx(shares, abs=1e-9)


def test_counts_choose_the_reference(samples):
    counts = {key: np.where(rows["region"] == "W", 30, 1) for key, rows in samples.items()}
    assert set(values_of(fit_of(samples, vardi.cells("region"), counts=counts))) == {"region=N", "region=S"}
    without = {key: np.where(rows["region"] == "W", 0, 1) for key, rows in samples.items()}
    fit = fit_of(samples, vardi.cells("region"), counts=without)
    assert set(values_of(fit)) == {"region=N"}
    with pytest.raises(vardi.ImpossibleRowError, match="region=W"):
        fit.weigh(samples["panel"])


def test_a_known_factor_leaves_values_out(samples):
    """Values on rows that the sample could not draw have no parameter, in the fit and in new rows."""
    inside = {"reference": samples["reference"], "panel": samples["panel"].query("region != 'W'")}
    bias = vardi.isin("region", ["N", "S"]) * vardi.cells("region", "sex")
    assert bias.known == vardi.isin("region", ["N", "S"])
    fit = fit_of(inside, bias)
    assert list(values_of(fit)) == ["region=N", "sex=m"]
    outside = samples["reference"].query("region == 'W'")
    weights = fit.weigh(outside)
    np.testing.assert_allclose(weights, np.asarray(fit.weights)[: len(samples["reference"])][outside.index], rtol=1e-9)
    core = fit_of(inside, fit.estimated_biases["panel"])
    np.testing.assert_allclose(core.weights, fit.weights, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::vardi.SharedUnitsWarning")  # what is asked here is which values there are
def test_several_samples_have_values_of_their_own(samples):
    both = {"reference": samples["reference"], "panel": samples["panel"], "north": samples["panel"].query("zone < 3")}
    biases = {"reference": 1, "panel": vardi.cells("region"), "north": vardi.where("zone < 3") * vardi.cells("zone")}
    fit = vardi.debias(both, biases)
    assert {name: list(found) for name, found in fit.parameters.items()} == {
        "panel": ["region=N", "region=W"],
        "north": [f"zone={3 - _frequent(both)}"],
    }
    labelled = pd.concat([rows.assign(source=name) for name, rows in both.items()], ignore_index=True)
    again = vardi.debias(labelled, biases, source="source")
    np.testing.assert_allclose(again.weights, fit.weights, rtol=1e-9)


def _frequent(samples):
    zones = pd.concat(samples.values())["zone"]
    return zones[zones < 3].mode()[0]  # of the zones that 'north' could draw


# --- refusals


def test_a_value_that_no_row_of_the_fit_has_is_refused(samples):
    fit = fit_of(samples, vardi.cells("region", ("sex", "ill")))
    strange = samples["panel"].head(20).copy()
    strange.loc[[3, 7], "region"] = "X"
    said = r"region=X at row 3 .* \(2 rows in all\) is in no row of the fit.* fit has region=S, region=N, region=W\."
    with pytest.raises(vardi.ImpossibleRowError, match=said) as caught:
        fit.weigh(strange)
    assert (caught.value.sample, caught.value.rows) == (None, (3, 7))
    few = {key: rows.query("not (sex == 'f' and ill)") for key, rows in samples.items()}
    with pytest.raises(vardi.ImpossibleRowError, match="sex=f, ill=True at row 0"):
        fit_of(few, vardi.cells(("sex", "ill"))).weigh(samples["panel"].query("sex == 'f' and ill"))


def test_missing_values_are_refused(samples):
    gaps = {key: rows.assign(region=rows["region"].where(rows["y"] > 0)) for key, rows in samples.items()}
    count = int(gaps["reference"]["region"].isna().sum())
    with pytest.raises(vardi.MissingValuesError, match=rf"unknown on {count} rows, since .* in 'region'") as caught:
        fit_of(gaps, vardi.cells("sex", "region"))
    assert caught.value.columns == {"region": count}
    polars = {key: pl.DataFrame(rows.to_dict("list")).with_columns(zone=None) for key, rows in samples.items()}
    with pytest.raises(vardi.MissingValuesError, match="'zone'"):
        fit_of(polars, vardi.cells("zone"))
    numbers = {key: rows.assign(y=rows["y"].where(rows["y"] > 0)) for key, rows in samples.items()}
    with pytest.raises(vardi.MissingValuesError, match="'y'"):
        fit_of(numbers, vardi.cells("y > 1"))
    with pytest.raises(vardi.MissingValuesError, match="'region'"):
        fit_of(samples, vardi.cells("region")).weigh(gaps["panel"])


def test_one_value_is_refused(samples):
    constant = {key: rows.assign(land="a") for key, rows in samples.items()}
    with pytest.raises(vardi.UnidentifiedParametersError, match="'panel' has only one value .*land=a") as caught:
        fit_of(constant, vardi.cells("region", "land"))
    assert caught.value.sample == "panel"


def test_measurements_are_refused(samples):
    with pytest.raises(vardi.InvalidBiasError, match=r"'y' has 1,300 different values.*vardi.steps\('y', \[...\]\)"):
        fit_of(samples, vardi.cells("region", "y"))
    for count in (200, 201):
        many = {key: rows.assign(id=np.arange(len(rows)) % count) for key, rows in samples.items()}
        if count == 200:
            assert vardi.identify(many, {"reference": 1, "panel": vardi.cells("id", "sex")})
        else:
            with pytest.raises(vardi.InvalidBiasError, match="'id' has 201 different values"):
                vardi.identify(many, {"reference": 1, "panel": vardi.cells("id", "sex")})


def test_a_value_that_the_sample_lacks_is_refused(samples):
    inside = {"reference": samples["reference"], "panel": samples["panel"].query("region != 'W'")}
    with pytest.raises(
        vardi.UnidentifiedParametersError, match="No row of 'panel' has region=W.*with a cond"
    ) as caught:
        fit_of(inside, vardi.cells("region"))
    assert caught.value.parameters == ("region=W",)
    with pytest.raises(vardi.UnidentifiedParametersError, match="do not determine 'region=W' of 'panel'"):
        fit_of({"reference": samples["reference"].query("region != 'W'"), "panel": samples["panel"]}, "cells(region)")


def test_what_is_no_category_is_refused(samples):
    dated = {key: rows.assign(day=datetime.datetime(2024, 1, 1)) for key, rows in samples.items()}
    with pytest.raises(vardi.MismatchError, match="Column 'day' holds times .* reads categories"):
        fit_of(dated, vardi.cells("day"))
    mixed = {"reference": samples["reference"].assign(zone="1"), "panel": samples["panel"]}
    with pytest.raises(vardi.MismatchError, match="'zone' .* is text in some rows and a number in others"):
        fit_of(mixed, vardi.cells("zone"))
    with pytest.raises(vardi.InvalidBiasError, match=r"'1 / \(zone - 1\)' .* is inf"):
        fit_of(samples, vardi.cells("1 / (zone - 1)"))
    with pytest.raises(vardi.MismatchError, match="no column 'regon'.*Did you mean 'region'"):
        fit_of(samples, vardi.cells("regon"))


# --- values and texts


@pytest.mark.parametrize(
    ("bias", "text", "columns"),
    [
        (vardi.cells("region"), "cells(region)", ("region",)),
        (vardi.cells("region", "`household size`"), "cells(region, `household size`)", ("region", "household size")),
        (vardi.cells(("region", "sex")), "cells((region, sex))", ("region", "sex")),
        (vardi.cells(["region", "sex"], "age > 60"), "cells((region, sex), age > 60)", ("region", "sex", "age")),
        (vardi.cells(("region",)), "cells(region)", ("region",)),
        (vardi.where("age > 20") * vardi.cells("sex") * 2, "((age > 20) * 2) * cells(sex)", ("age", "sex")),
    ],
)
def test_text_form_reads_back(bias, text, columns):
    assert str(bias) == text
    assert as_bias(text) == bias
    assert hash(as_bias(text)) == hash(bias)
    assert bias.columns == columns
    assert bias.names == ()  # of values that no row has shown yet
    assert pickle.loads(pickle.dumps(bias)) == bias


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cells()", "cells has no column"),
        ("cells(())", "cells has no column"),
        ("cells(a, a)", "A column appears twice in cells"),
        ("cells(a, (a, b))", "crossed columns already have parameters for each of them alone"),
        ("cells(3)", "reads no column"),
        ("cells('a')", "is used where a number is needed"),
        ("cells(a) * power(b)", "this is a second"),
        ("1 + cells(a)", "can only stand alone or be a factor"),
        ("cell(a)", "There is no function cell. .* Did you mean 'cells'"),
    ],
)
def test_texts_that_are_no_cells_are_refused(text, said):
    with pytest.raises(vardi.ExpressionError, match=said):
        as_bias(text)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: vardi.cells(), vardi.InvalidBiasError, "cells has no column"),
        (lambda: vardi.cells(3), vardi.InvalidBiasError, "cells reads columns, named by strings, not"),
        (lambda: vardi.cells(("a", 3)), vardi.InvalidBiasError, "cells reads columns, named by strings, not 3"),
        (lambda: vardi.cells("a").at([0.5]), vardi.MismatchError, "belong to values that only the rows determine"),
        (lambda: vardi.cells("a").at({"a=1": 0.5}), vardi.MismatchError, r"\{'a': \{...\}\}.*fit.estimated_biases"),
        (lambda: vardi.cells("a").at({"a": {}}), vardi.MismatchError, "'a' has no values"),
        (lambda: vardi.cells("a").at({"a": {("b", "c"): 1}}), vardi.MismatchError, "is not a value of a"),
        (lambda: vardi.cells("a").at({"a": {"b": 0, "c": np.inf}}), vardi.InvalidBiasError, "are not all finite"),
        (lambda: vardi.cells("a").at({"a": {"b": 0, "c": 1e3}}), vardi.InvalidBiasError, "overflows floating point"),
        (lambda: vardi.steps("a", [1]).at([1e3]), vardi.InvalidBiasError, "overflows floating point"),
        (lambda: vardi.cells("a") & vardi.where("b > 1"), vardi.InvalidBiasError, "& joins conditions"),
    ],
)
def test_values_that_are_no_cells_are_refused(make, error, said):
    with pytest.raises(error, match=said):
        make()


def test_fixed_parameters_make_a_known_bias(samples):
    bias = vardi.cells("region", ("sex", "ill"))
    effects = {("f", False): 0.0, ("f", True): 0.2, ("m", False): -0.7, (np.str_("m"), np.bool(True)): -0.4}
    fixed = (2 * bias).at({"region": EFFECTS, ("sex", "ill"): effects})
    assert as_bias(str(fixed)) == fixed
    theirs = fit_of(
        samples,
        lambda z: np.exp(z["region"].map(EFFECTS) + [effects[key] for key in zip(z["sex"], z["ill"], strict=True)]),
    )
    np.testing.assert_allclose(fit_of(samples, fixed).weights, theirs.weights, rtol=1e-12)
    shifted = vardi.cells("region").at({"region": {name: 1 + effect for name, effect in EFFECTS.items()}})
    np.testing.assert_allclose(
        fit_of(samples, shifted).weights, fit_of(samples, vardi.cells("region").at({"region": EFFECTS})).weights
    )


def test_estimates_fix_the_bias_of_the_fit(samples):
    fit = fit_of(samples, "cells(region, ill)")
    fitted = fit.solved.pool.biases[1]
    assert str(fitted) == "cells(region, ill)"
    by_name = fitted.at(values_of(fit))
    assert by_name == fit.estimated_biases["panel"] == fitted.at(list(values_of(fit).values()))
    assert vardi.where(str(by_name)) == by_name


# --- elsewhere


def test_a_report_and_a_study_take_cells(samples, tmp_path):
    html = fit_of(samples, vardi.cells("region", "sex")).report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "&#39;panel&#39;: &#39;cells(region, sex)&#39;" in html
    for name, rows in samples.items():
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    text = """
[sources.reference]
data = "reference.csv"
bias = 1
[sources.panel]
data = "panel.csv"
bias = "cells(region, zone > 1)"
"""
    (tmp_path / "study.toml").write_text(text)
    fit = study.read(tmp_path / "study.toml").fit()
    assert list(fit.parameters["panel"]) == ["region=N", "region=W", "(zone > 1)=False"]
    (tmp_path / "wrong.toml").write_text(text.replace("zone > 1", "zoen > 1"))
    with pytest.raises(vardi.StudyError, match="'zoen'"):
        study.read(tmp_path / "wrong.toml")


def test_learners_take_cells(samples):
    from sklearn.linear_model import LinearRegression

    pool = pd.concat(samples.values(), ignore_index=True)
    source = np.repeat(["reference", "panel"], [400, 900])
    fit = fit_of(samples, vardi.cells("zone"))
    model = vardi.DebiasedEstimator(LinearRegression(), biases={"reference": 1, "panel": vardi.cells("zone")})
    model.fit(pool[["zone", "ill"]], pool["y"], source=source)
    expected = LinearRegression().fit(pool[["zone", "ill"]], pool["y"], sample_weight=np.asarray(fit.weights))
    np.testing.assert_allclose(model.estimator_.coef_, expected.coef_, rtol=1e-8)
