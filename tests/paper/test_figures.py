"""The figures of ``python -m paper``: what they show, that they leave nothing behind, that their bytes repeat."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

import vardi
from paper.figures import FIGURES, save
from paper.figures.adult import AGE_GROUPS
from paper.figures.style import POOL, in_this_look
from paper.lengths import DIMENSIONS, METHODS, cell, truths
from paper.rates import EXCESS, EXPONENTS, KAPPAS, OMEGA, POOLED, SIZES, SUP, UNBIASED
from paper.rates import cell as rates_cell

STEMS = (
    "clusters",
    "overlap-control",
    "boston-prices",
    "adult-education",
    "scenarios-norm",
    "scenarios-component",
    "adult-age",
    "adult-education-by-age",
    "lengths",
    "rates",
)


def scores_of_lengths():
    rng = np.random.default_rng(0)
    scores = {}
    for dimensions in DIMENSIONS:
        for model in truths(dimensions):
            for method, coverage in zip(METHODS, (0.0, 0.5, 1.0), strict=True):
                scores[cell(dimensions, model, f"error, {method}")] = rng.normal(size=40)
                scores[cell(dimensions, model, f"coverage, {method}")] = np.full(40, coverage)
    return scores


def scores_of_rates():
    scores = {}
    for quantity in (EXCESS, SUP, OMEGA):
        for n in SIZES:
            for kappa in KAPPAS:
                level = (1.0 + 1.0 / kappa) * float(n) ** EXPONENTS[quantity]
                scores[rates_cell(f"kappa={kappa}", n, quantity)] = np.array([level, level])
            if quantity != OMEGA:
                scores[rates_cell(UNBIASED, n, quantity)] = np.full(2, float(n) ** EXPONENTS[quantity])
                scores[rates_cell(POOLED, n, quantity)] = np.ones(2)
    scores[rates_cell("kappa=0.02", SIZES[0], SUP)] = np.array([0.1, np.nan])
    return scores


SCORES = {"lengths": scores_of_lengths, "rates": scores_of_rates}


def drawn(stem):
    illustration = FIGURES[stem]
    return illustration.draw(SCORES[illustration.needs]()) if illustration.needs else illustration.draw()


@pytest.fixture(scope="module")
def figures():
    return {stem: drawn(stem) for stem in FIGURES}


def texts(ax):
    return [text.get_text() for text in ax.texts]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def line(ax, label):
    return next(found for found in ax.lines if found.get_label() == label)


def test_order_and_needs():
    assert tuple(FIGURES) == STEMS
    assert {stem: figure.needs for stem, figure in FIGURES.items() if figure.needs} == {
        "lengths": "lengths",
        "rates": "rates",
    }


@pytest.mark.parametrize("stem", STEMS)
def test_draws_labelled_axes_at_page_width(figures, stem):
    figure = figures[stem]
    assert isinstance(figure, Figure)
    assert figure.get_figwidth() == 7.2
    lowest = [ax for ax in figure.axes if ax.get_subplotspec().is_last_row()]
    first = [ax for ax in figure.axes if ax.get_subplotspec().is_first_col()]
    assert all(ax.get_xlabel() for ax in lowest)
    assert all(ax.get_ylabel() or len(ax.get_yticklabels()) for ax in first)
    title, caption, *_ = FIGURES[stem]
    assert title
    assert caption.endswith(".")


@pytest.mark.parametrize("stem", STEMS[::4])
def test_same_bytes_each_time_and_no_date(figures, stem, tmp_path):
    folders = (tmp_path / "first", tmp_path / "again")
    for folder, figure in zip(folders, (figures[stem], drawn(stem)), strict=True):
        folder.mkdir()
        paths = save(figure, folder, stem)
        assert paths == (folder / f"{stem}.svg", folder / f"{stem}.png")
    for suffix in ("svg", "png"):
        first, again = ((folder / f"{stem}.{suffix}").read_bytes() for folder in folders)
        assert first == again
    svg = (folders[0] / f"{stem}.svg").read_text()
    assert "<dc:date>" not in svg
    assert int.from_bytes((folders[0] / f"{stem}.png").read_bytes()[16:20]) == 1080
    assert sorted(path.name for path in folders[0].iterdir()) == [f"{stem}.png", f"{stem}.svg"]


def test_leaves_settings_and_windows_alone(tmp_path):
    with mpl.rc_context({"font.size": 31.0, "axes.grid": True, "svg.hashsalt": "mine"}):
        before, windows = dict(mpl.rcParams), plt.get_fignums()
        figure = drawn("overlap-control")
        save(figure, tmp_path, "overlap")
        assert dict(mpl.rcParams) == before
        with_these = (tmp_path / "overlap.svg").read_bytes()
    assert plt.get_fignums() == windows
    save(drawn("overlap-control"), tmp_path, "overlap")
    assert (tmp_path / "overlap.svg").read_bytes() == with_these


def test_settings_come_back_after_an_error():
    @in_this_look
    def fails():
        raise RuntimeError

    before = dict(mpl.rcParams)
    with pytest.raises(RuntimeError):
        fails()
    assert dict(mpl.rcParams) == before


def test_save_replaces_whole_files_and_names_a_missing_folder(figures, tmp_path):
    (tmp_path / "x.svg").write_text("old")
    save(figures["overlap-control"], tmp_path, "x")
    assert (tmp_path / "x.svg").read_text().startswith("<?xml")
    with pytest.raises(vardi.OutputError, match=r"absent.x\.svg cannot be written: No such file"):
        save(figures["overlap-control"], tmp_path / "absent", "x")


def test_clusters_show_three_mixtures(figures):
    left, right = figures["clusters"].axes
    assert [sum(isinstance(patch, Ellipse) for patch in ax.patches) for ax in (left, right)] == [2, 4]
    off = {
        name: float(text.rsplit(" ", 1)[1])
        for ax, prefix in ((left, "unbiased "), (right, ""))
        for text in legend(ax)
        if "off by" in text
        for name in [prefix + text.split(":")[0]]
    }
    assert off.keys() == {"unbiased EM", "EM", "debiased EM"}
    assert off["debiased EM"] < off["EM"] / 2
    assert texts(right) == ["30 rows", "300 rows", "30 rows"]


def test_ellipses_are_two_standard_deviations(figures):
    """A quarter of width^2 and height^2 are four times the variances along the axes: check against the covariance."""
    design = vardi.datasets.two_gaussians(seed=2)
    model = vardi.GaussianMixture(2, n_init=3, random_state=0).fit(design.test)
    shapes = [patch for patch in figures["clusters"].axes[0].patches if isinstance(patch, Ellipse)]
    for ellipse, covariance in zip(shapes, model.covariances_, strict=True):
        angle = np.radians(ellipse.angle)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        rebuilt = turn @ np.diag([(ellipse.width / 4) ** 2, (ellipse.height / 4) ** 2]) @ turn.T
        np.testing.assert_allclose(rebuilt, covariance, atol=1e-12)


def test_overlap_control_marks_kappa_and_epsilon(figures):
    (ax,) = figures["overlap-control"].axes
    assert {"mass κ", "both positive", "density of P", "$\\omega_1$", "$\\omega_2$"} <= set(texts(ax))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "ε", "1"]
    biases = [found.get_ydata() for found in ax.lines if found.get_linewidth() == 2.2]
    assert len(biases) == 2
    for values in biases:
        assert np.nanmin(values) == pytest.approx(0.18, abs=1e-4)
        assert np.nanmax(values) == pytest.approx(1.0, abs=1e-4)
    together = np.isfinite(biases[0]) & np.isfinite(biases[1])
    assert 0 < together.sum() < len(together)


def test_boston_bars_count_every_tract_and_mark_the_cheap_ones(figures):
    bars, cdf = figures["boston-prices"].axes
    prices = vardi.datasets.boston("numpy")["MEDV"]
    heights = np.array([bar.get_height() for bar in bars.patches])
    marked = np.array([mpl.colors.to_hex(bar.get_facecolor()) == POOL for bar in bars.patches])
    assert heights.sum() == len(prices)
    assert heights[marked].sum() == np.count_nonzero(prices <= 22)
    assert "at most 22: 56% of tracts" in texts(bars)
    assert legend(cdf) == ["pooled: mean 19.1", "debiased: mean 23.2", "all 506 tracts: mean 22.5"]


@pytest.mark.parametrize("stem", ["adult-education", "adult-age"])
def test_adult_bars_hold_everyone(figures, stem):
    (ax,) = figures[stem].axes
    bars = ax.containers[0]
    assert sum(bar.get_height() for bar in bars) == pytest.approx(100)


def test_adult_line_is_the_proportion_of_each_level(figures):
    people = vardi.datasets.adult("numpy")
    rich = people["income"] == ">50K"
    (ax,) = figures["adult-education"].axes
    shown = ax.lines[0].get_ydata()
    expected = [100 * rich[people["education-num"] == level].mean() for level in range(1, 17)]
    np.testing.assert_allclose(shown, expected)
    (ax,) = figures["adult-age"].axes
    ages = people["age"]
    assert ax.lines[0].get_ydata()[6] == pytest.approx(100 * rich[(ages >= 45) & (ages < 50)].mean())


def test_groups_of_age_are_labelled_apart(figures):
    (ax,) = figures["adult-education-by-age"].axes
    assert {text.removesuffix(" years old") for text in texts(ax)} == set(AGE_GROUPS)
    assert len(ax.lines) == len(AGE_GROUPS)
    heights = sorted(text.get_position()[1] for text in ax.texts)
    assert min(np.diff(heights)) >= 5.0
    people = vardi.datasets.adult("numpy")
    bachelors = (people["education-num"] == 13) & (people["age"] >= 40) & (people["age"] <= 60)
    shown = line(ax, "40 to 60 years old")
    value = shown.get_ydata()[list(shown.get_xdata()).index(13)]
    assert value == pytest.approx(100 * (people["income"][bachelors] == ">50K").mean())


@pytest.mark.parametrize(("stem", "letters"), [("scenarios-norm", "abcdef"), ("scenarios-component", "ghijkl")])
def test_scenarios_name_their_samples_and_their_pool_has_mass_one(figures, stem, letters):
    axes = figures[stem].axes
    assert [ax.get_title(loc="left") for ax in axes] == [f"{letter})" for letter in letters]
    for ax, letter in zip(axes, letters, strict=True):
        design = vardi.datasets.gaussian_scenario(letter)
        shown = legend(ax)
        assert [text.split(":")[0] for text in shown[:-1]] == [str(len(rows)) for rows in design.samples.values()]
        assert shown[-1] == "population"
        pool, population = (np.trapezoid(found.get_ydata(), found.get_xdata()) for found in ax.lines)
        assert population == pytest.approx(1.0, abs=2e-3)
        # the limits cut off a part of the tail, which has most weight in scenario i
        assert pool == pytest.approx(1.0, abs=5e-3)


def test_lengths_show_each_quantity_with_its_coverage(figures):
    two, three = figures["lengths"].axes
    assert [label.get_text() for label in three.get_yticklabels()] == list(truths(3))
    assert legend(two) == list(METHODS)
    assert texts(two) == ["0%", "50%", "100%"] * 3 + ["covered"]
    assert texts(three) == ["0%", "50%", "100%"] * 4 + ["covered"]


def test_rates_show_slopes_and_leave_out_what_was_not_identifiable(figures):
    excess, sup, omega, *below = figures["rates"].axes
    assert [ax.get_title(loc="left") for ax in (excess, sup, omega)] == [
        "Excess risk",
        "Sup distance of the cdf",
        "Error of log Ω",
    ]
    assert all(ax.get_xscale() == ax.get_yscale() == "log" for ax in figures["rates"].axes)
    assert legend(excess)[:2] == ["unbiased rows  −0.54", "κ = 0.4  −0.54"]
    assert legend(sup)[-1] == "κ = 0.1, no weights  0.00"
    assert legend(omega) == [f"κ = {kappa}  −0.50" for kappa in KAPPAS]
    assert line(sup, "κ = 0.02  −0.50").get_xdata().tolist() == list(SIZES[1:])
    assert line(sup, "κ = 0.05  −0.50").get_xdata().tolist() == list(SIZES)
    factors = below[1].lines[0].get_ydata()
    np.testing.assert_allclose(factors, [1.0 + 1.0 / kappa for kappa in KAPPAS])
