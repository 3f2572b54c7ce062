"""Displays draw what they say on the axes they are given."""

from itertools import combinations

import matplotlib as mpl
import numpy as np
import pytest
from pools import without_matplotlib

import vardi
from vardi.plots import (
    CdfDisplay,
    ConvergenceDisplay,
    LoveDisplay,
    OverlapDisplay,
    StatesDisplay,
    WeightsDisplay,
)

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb


@pytest.fixture
def fit():
    design = vardi.datasets.gaussian_scenario("l", seed=0)
    return vardi.debias(design.samples, design.biases)


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_heatmap(fit, ax):
    display = OverlapDisplay.from_fit(fit, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert [label.get_text() for label in ax.get_xticklabels()] == ["left", "slab", "right", "unbiased"]
    assert len(texts(ax)) == 16
    np.testing.assert_allclose(ax.images[0].get_array(), fit.diagnostics(()).overlap)


def test_graph_names_samples_and_shared_rows(fit, ax):
    OverlapDisplay.from_fit(fit, "graph", ax=ax)
    shown = texts(ax)
    assert "slab\n500 rows" in shown
    link = next(link for link in fit.identify().links if (link.first, link.second) == ("left", "right"))
    assert f"{link.rows:,.0f}" in shown


def test_graph_draws_one_way_links_dashed(ax):
    display = OverlapDisplay(("a", "b"), np.eye(2), np.array([[0.0, 3.0], [0.0, 0.0]]), np.array([10.0, 5.0]))
    display.plot("graph", ax=ax)
    lines = [drawn for drawn in ax.collections if isinstance(drawn, LineCollection)]
    assert [offset is not None for line in lines for _, offset in line.get_linestyle()] == [True]
    plain = OverlapDisplay(("a", "b"), np.eye(2), np.ones((2, 2)), np.array([10.0, 5.0])).plot("graph")
    lines = [drawn for drawn in plain.ax_.collections if isinstance(drawn, LineCollection)]
    assert [offset is not None for line in lines for _, offset in line.get_linestyle()] == [False]
    plt.close(plain.figure_)


def test_unknown_kind(fit, ax):
    with pytest.raises(ValueError, match="'pie'. Give 'heatmap' or 'graph'."):
        OverlapDisplay.from_fit(fit, "pie", ax=ax)


def test_weights(fit, ax):
    WeightsDisplay.from_fit(fit, ax=ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["left", "slab", "right", "unbiased"]
    assert sum(patch.get_height() for patch in ax.patches) == pytest.approx(1000)


def test_cdf_has_pool_population_and_band(fit, ax):
    display = CdfDisplay.from_fit(fit, "x0", ax=ax)
    pool, population, *ends = ax.lines
    for line in (pool, population):  # from 0 to 1, over the whole axis
        assert line.get_ydata()[[0, -1]].tolist() == [0.0, 1.0]
        assert tuple(line.get_xdata()[[0, -1]]) == pytest.approx(ax.get_xlim())
    np.testing.assert_allclose([end.get_xdata()[0] for end in ends], display.band.x[[0, -1]])
    told = f"from {display.band.x[0]:.4g} to {display.band.x[-1]:.4g}"
    assert told in ax.get_legend().get_texts()[2].get_text()
    assert len(ax.collections) == 1
    assert ax.get_xlabel() == "x0"
    band = display.band
    corners = ax.collections[0].get_paths()[0].vertices
    for k in (0, 50, 100):  # from one point up to the next, the lower end of the one and the upper end of the other
        middle = (band.x[k] + band.x[k + 1]) / 2
        across = (np.minimum(corners[:-1, 0], corners[1:, 0]) < middle) & (
            middle < np.maximum(corners[:-1, 0], corners[1:, 0])
        )
        np.testing.assert_allclose(sorted(corners[:-1, 1][across]), [band.low[k], band.high[k + 1]])


def test_love_plot_is_sorted_by_shift(fit, ax):
    LoveDisplay.from_fit(fit, ax=ax)
    by_name = {column.name: abs(column.difference) for column in fit.diagnostics().columns}
    shown = [label.get_text() for label in ax.get_yticklabels()]
    assert shown == sorted(by_name, key=by_name.get)


def test_makes_its_own_axes(fit):
    display = WeightsDisplay.from_fit(fit)
    assert display.figure_ is display.ax_.figure
    plt.close(display.figure_)


def test_without_matplotlib_it_names_the_extra(fit, monkeypatch):
    without_matplotlib(monkeypatch)
    with pytest.raises(ImportError, match=r"pip install 'vardi\[plot\]'"):
        WeightsDisplay.from_fit(fit)


@pytest.fixture(scope="module")
def states():
    """Return fits of 5, 20 and 60 states on a line, and no warning of what is thin."""
    rng = np.random.default_rng(0)

    def fitted(K):
        centres, source = np.linspace(0.0, 1.2 * K, K), np.repeat(np.arange(K), 40)
        x = rng.normal(centres[source], 1.0)
        names = [f"{v:.2f}" for v in np.linspace(0, 1, K)]
        return vardi.debias_matrix(-0.5 * (x[:, None] - centres) ** 2, source, log=True, names=names)

    return {K: fitted(K) for K in (5, 20, 60)}


def overprinted(labels, renderer):
    """Return the pairs of texts of which one stands upon the other."""
    boxes = [(label.get_text(), label.get_window_extent(renderer)) for label in labels]
    return [(a, b) for (a, first), (b, second) in combinations(boxes, 2) if first.overlaps(second)]


@pytest.mark.parametrize("kind", ["heatmap", "graph"])
def test_pictures_of_many_samples_write_no_name_upon_another(kind, states):
    display = OverlapDisplay.from_fit(states[60], kind)
    display.figure_.canvas.draw()
    renderer, ax = display.figure_.canvas.get_renderer(), display.ax_
    if kind == "heatmap":
        assert not overprinted(ax.get_yticklabels(), renderer)
        assert ax.images[0].get_clim()[1] == pytest.approx(display.overlap.max())  # or small numbers would look like 0
    else:
        assert len(ax.texts) == 60
        upright = [text for text in ax.texts if abs(text.get_rotation() % 180) < 25]  # a box is a text's only if it is
        assert len(upright) >= 8
        assert not overprinted(upright, renderer)
        frame = display.figure_.bbox
        assert all(
            frame.x0 <= end <= frame.x1 for text in ax.texts for end in text.get_window_extent(renderer).intervalx
        )
    plt.close(display.figure_)


def test_graph_of_many_that_allow_every_row_shows_which_overlap(states):
    display = OverlapDisplay.from_fit(states[60], "graph")
    lines = [drawn for drawn in display.ax_.collections if isinstance(drawn, LineCollection)]
    drawn = sum(len(line.get_segments()) for line in lines)
    assert 59 <= drawn < 300  # of 1,770 pairs: those along the line of states
    assert display.ax_.get_title().startswith("Every sample could have drawn every row\n")
    plt.close(display.figure_)


def test_numbers_of_a_heatmap_stay_in_their_squares(states):
    fit = states[20]
    names = [f"window number {k}" for k in range(12)]
    few = OverlapDisplay(names, fit.diagnostics(()).overlap[:12, :12], np.ones((12, 12)), np.ones(12)).plot()
    few.figure_.canvas.draw()
    renderer = few.figure_.canvas.get_renderer()
    side = few.ax_.get_window_extent(renderer).width / 12
    assert any(text.get_text() for text in few.ax_.texts)
    assert all(text.get_window_extent(renderer).width < side for text in few.ax_.texts)
    plt.close(few.figure_)


def test_weights_of_many_samples_name_the_largest(states, ax):
    display = WeightsDisplay.from_fit(states[60], ax=ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()][-1] == "51 others"
    assert len(ax.get_legend().get_texts()) == 10
    assert sum(patch.get_height() for patch in ax.patches) == pytest.approx(sum(part.sum() for part in display.counts))


def test_what_is_drawn_can_be_seen_on_a_dark_background(fit):
    with plt.style.context("dark_background"):
        shown = [
            OverlapDisplay.from_fit(fit, "graph"),
            OverlapDisplay.from_fit(fit),
            CdfDisplay.from_fit(fit, "x0"),
            LoveDisplay.from_fit(fit),
            WeightsDisplay.from_fit(fit),
        ]
        for display in shown:
            colours = [to_rgb(line.get_color()) for line in display.ax_.lines]
            assert all(max(colour) > 0.5 for colour in colours)
            for text in display.ax_.texts:
                box = text.get_bbox_patch()
                assert box is None or to_rgb(box.get_facecolor()[:3]) == (0.0, 0.0, 0.0)
        plt.close("all")


@pytest.mark.parametrize("K", [5, 20, 60])
def test_heatmap_of_many_states_stays_legible(K, states, ax):
    OverlapDisplay.from_fit(states[K], ax=ax)
    written = [text for text in texts(ax) if text]
    assert len(ax.get_xticks()) <= 30
    assert len(written) == (25 if K == 5 else 0 if K == 60 else (states[K].diagnostics(()).overlap >= 0.005).sum())


@pytest.mark.parametrize("K", [5, 20, 60])
def test_steps_between_states(K, states, ax):
    fit = states[K]
    display = StatesDisplay.from_fit(fit, kT=2.5, unit="kJ/mol", ax=ax)
    heights = [bar.get_height() for bar in ax.patches]
    logs = np.array(list(fit.log_omegas.values()))
    np.testing.assert_allclose(heights, 2.5 * -np.diff(logs), atol=1e-9)
    assert ax.get_ylabel() == "free energy of a step (kJ/mol)"
    assert len(ax.get_xticks()) <= 30
    assert len(display.steps) == K - 1


def test_convergence_is_drawn_in_both_directions(states, ax):
    found = vardi.mbar.convergence(states[5], fractions=[0.5, 1])
    ConvergenceDisplay(found).plot(ax=ax, kT=2.0, unit="kJ/mol")
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["all frames, 95%", "forward, 95%", "backward, 95%"]
    forward = ax.containers[0].lines[0].get_ydata().astype(float)
    np.testing.assert_allclose(forward, [2.0 * one.value for one in found.forward])
