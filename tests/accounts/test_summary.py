"""What a person sees first: one screen of 80 columns, and a fragment of HTML in which data are escaped."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import vardi


@pytest.fixture
def fit():
    design = vardi.datasets.house_prices(seed=0)
    return vardi.debias(design.samples, {**design.biases, "river": "CHAS == 1"})


def test_text(fit):
    text = fit.summary()
    assert text == str(fit)
    assert max(map(len, text.splitlines())) <= 80
    assert text.splitlines()[0] == "300 rows of 2 samples represent the population"
    for line in (
        "agency     200  MEDV <= 22  0.590 ± 0.049        45.6%",
        "national   100  everywhere              1        54.4%",
        "river        0  CHAS == 1   0.082 ± 0.023  not sampled",
        "effective rows  184 of 300",
        "MEDV          19.063       23.22 ± 0.97",
        "... and 6 more",
    ):
        assert line in text


def test_columns_that_biases_read_come_first(fit):
    assert fit.numeric_columns[:2] == ("CHAS", "MEDV")


@pytest.mark.filterwarnings("ignore::vardi.SharedUnitsWarning")
def test_html_escapes_what_comes_from_data():
    frame = pd.DataFrame({"<b>x</b>": np.arange(40.0)})
    fit = vardi.debias({"<script>": frame, "b": frame}, {"<script>": "`<b>x</b>` >= 0", "b": 1})
    html = fit._repr_html_()
    assert "<script>" not in html
    assert "<b>x</b>" not in html
    assert "&lt;script&gt;" in html
    assert "<script>" not in fit.identify()._repr_html_()


def test_doubts_are_said():
    rng = np.random.default_rng(0)
    samples = {"low": rng.uniform(0, 0.53, 40), "high": rng.uniform(0.5, 1, 40)}
    fit = vardi.debias(samples, {"low": "x <= 0.53", "high": "x >= 0.5"})
    assert "rests on few rows" in fit.summary()
    assert "1 row bridges 'low' and 'high'" in " ".join(fit.summary().split())
    assert "row bridges" in fit._repr_html_()


def test_many_samples_and_long_names():
    rng = np.random.default_rng(0)
    samples = {f"a sample with a rather long name, number {k}": rng.uniform(size=5) for k in range(40)}
    fit = vardi.debias(samples, dict.fromkeys(samples, "x ** 0.5 * (x <= 2) * (x >= 0) + 0.125"))
    text = fit.summary()
    assert max(map(len, text.splitlines())) <= 80
    assert "... and 20 more" in text


@pytest.mark.parametrize("make", [vardi.datasets.house_prices, vardi.datasets.length_bias], ids=["cells", "densities"])
def test_lazy_frames_have_a_summary(make):
    design = make(seed=0)
    frames = {
        name: pl.from_pandas(rows) if isinstance(rows, pd.DataFrame) else pl.DataFrame({"x": rows})
        for name, rows in design.samples.items()
    }
    eager = vardi.debias(frames, design.biases)
    lazy = vardi.debias({name: frame.lazy() for name, frame in frames.items()}, design.biases)
    assert lazy.effective_rows() == pytest.approx(eager.effective_rows())
    assert lazy.weight_shares() == pytest.approx(eager.weight_shares())
    table = [line for line in eager.summary().splitlines() if "±" in line][:1]
    assert table[0] in lazy.summary()


def test_columns_with_missing_values_are_named():
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": [1.0, None, 2.0, 3.0], "z": [1.0, 2.0, 3.0, 5.0]})
    fit = vardi.debias({"a": frame}, {"a": "x"})
    assert "Left out because of missing or infinite values: y (1)." in fit.summary()
    assert "Left out because of missing or infinite values: y (1)." in fit._repr_html_()
    with pytest.raises(vardi.MissingValuesError, match="1 of the values of 'y' are missing or infinite") as caught:
        fit.expectation("y")
    assert caught.value.columns == {"y": 1}


def test_long_names_that_end_differently_stay_apart():
    names = [f"regional_household_survey_of_2023_{side}" for side in ("north", "south")]
    rng = np.random.default_rng(0)
    fit = vardi.debias({name: rng.random(40) for name in names}, {names[0]: "x + 1", names[1]: 1})
    for text in (fit.summary(), str(fit.diagnostics()), str(fit.check_biases())):
        first = "".join(line.split()[0] for line in text.splitlines() if line)  # where they go on in the next line
        assert all(name in first for name in names)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_columns_that_hold_nothing_are_named_too(make):
    empty = [None] * 4
    columns = {"e": pl.Series(empty, dtype=pl.String) if make is pl.DataFrame else empty, "t": ["a", None, "b", "c"]}
    columns["list"] = [[1.0, 2.0], [3.0], [], None]
    frame = make({**columns, "x": [1.0, 2.0, 3.0, 4.0], "y": [1.0, np.inf, -np.inf, 3.0]})
    fit = vardi.debias({"a": frame}, {"a": "x"})
    assert "Left out because of missing or infinite values: e (4), y (2)." in fit.summary()


def test_one_row_is_one_row():
    fit = vardi.debias({"a": np.array([2.0])}, {"a": 1})
    assert fit.summary().startswith("1 row of 1 sample")
    assert "<p>1 row of 1 sample" in fit._repr_html_()


def test_samples_after_the_first_are_folded_in_notebooks():
    rng = np.random.default_rng(0)
    samples = {f"site {k}": rng.normal(size=40) for k in range(23)}
    html = vardi.debias(samples, dict.fromkeys(samples, 1))._repr_html_()
    shown, folded = html.split("<details><summary>3 more samples</summary>")
    assert ">site 19</th>" in shown
    assert ">site 20</th>" not in shown
    assert ">site 22</th>" in folded.split("</details>")[0]
    few = dict(list(samples.items())[:20])
    assert "<details>" not in vardi.debias(few, dict.fromkeys(few, 1))._repr_html_()


def test_a_report_is_no_pdf(fit, tmp_path):
    with pytest.raises(
        vardi.OutputError, match=r"A report is an HTML file, and .*x\.pdf has another suffix\. Name it \.html"
    ):
        fit.report(tmp_path / "x.pdf")
    assert not list(tmp_path.iterdir())
