"""Every example runs, draws, and keeps its promise: debiased is nearer to the truth than pooled."""

import ast
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import sklearn.cluster  # noqa: F401, loads what threadpoolctl limits
from threadpoolctl import threadpool_limits

mpl.use("Agg")
from matplotlib import pyplot as plt

EXAMPLES = Path(__file__).parents[2] / "examples"
PATHS = {path.stem: path for path in sorted(EXAMPLES.rglob("*.py"))}
NAMES = list(PATHS)
CAPTION = 95  # letters, of which the gallery cuts longer ones
SEEDS = (1, 2)  # 0 is the seed of what is printed and drawn
ANOTHER = (1,)  # of examples that take a second or more


@pytest.fixture(autouse=True)
def one_thread():
    with threadpool_limits(1):
        yield


class Reseeded(ast.NodeTransformer):
    """The script with another seed: its line ``SEED = 0`` is the one thing that changes."""

    def __init__(self, seed):
        self.seed, self.places = seed, 0

    def visit_Assign(self, node):
        if [ast.unparse(target) for target in node.targets] == ["SEED"]:
            self.places += 1
            node.value = ast.copy_location(ast.Constant(self.seed), node.value)
        return node


@pytest.fixture
def run(monkeypatch):
    """Return what runs an example, as a script or with another seed, and gives its variables back."""
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.close("all")  # what other tests in this process have left open

    def run(name, seed=None):
        tree = ast.parse(PATHS[name].read_text(encoding="utf-8"))
        if seed is not None:
            reseeded = Reseeded(seed)
            tree = reseeded.visit(tree)
            assert reseeded.places == 1
        variables = {"__name__": "__main__"}
        exec(compile(tree, f"{name}.py", "exec"), variables)
        return variables

    yield run
    plt.close("all")


def require_print_and_figure(capsys):
    """Refuse an example that prints or draws nothing of debiased rows."""
    assert "debiased" in capsys.readouterr().out
    (number,) = plt.get_fignums()
    axes = plt.figure(number).axes
    assert axes
    assert all(ax.has_data() for ax in axes)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "digits_of_unknown_bias"])
def test_prints_and_draws(run, name, capsys):
    run(name)
    require_print_and_figure(capsys)


@pytest.mark.parametrize("name", NAMES)
def test_begins_as_the_gallery_needs(name):
    """A title that is underlined to its length, a sentence for its caption, then text; cells marked by ``# %%``."""
    source = PATHS[name].read_text(encoding="utf-8")
    title, rule, blank, caption, below, text = ast.get_docstring(ast.parse(source)).splitlines()[:6]
    assert rule == "=" * len(title)
    assert not blank
    assert 0 < len(caption) <= CAPTION
    assert not below
    assert text
    assert source.count("\n# %%\n") >= 2
    assert source.endswith("plt.show()\n")


def test_runs_as_a_plain_script(tmp_path):
    environment = {"MPLBACKEND": "Agg", "MPLCONFIGDIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "house_prices.py")], capture_output=True, text=True, check=True, env=environment
    )
    assert "23.22 ± 0.97" in done.stdout
    assert not done.stderr


@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")
@pytest.mark.parametrize("seed", SEEDS)
def test_house_prices(run, seed):
    found = run("house_prices", seed)
    truth = found["design"].truth["mean"]
    assert abs(found["mean"].value - truth) < abs(found["price"].mean() - truth)
    assert abs(found["mean"].value - truth) < 2 * found["mean"].stderr


@pytest.mark.parametrize("seed", SEEDS)
def test_stratified_classification(run, seed):
    error = run("stratified_classification", seed)["error"]
    assert error["debiased"] < error["pooled"] - 0.02
    assert error["debiased"] < error["best"] + 0.02


@pytest.mark.long
def test_digits_of_unknown_bias(run, capsys):
    """Over 20 draws: learned biases gain on the pool, and known ones are as good as the oracle's."""
    accuracy = run("digits_of_unknown_bias")["accuracy"]
    require_print_and_figure(capsys)
    gain = accuracy["learned"] - accuracy["naive"]
    assert gain.mean() > 2 * gain.std(ddof=1) / len(gain) ** 0.5
    assert accuracy["oracle"].mean() - accuracy["known"].mean() < 0.002


@pytest.mark.parametrize("seed", SEEDS)
def test_right_cut_durations(run, seed):
    found = run("right_cut_durations", seed)
    risk, slope = found["risk"], found["slope"]
    assert risk["debiased"] - risk["least"] < 0.2 * (risk["pooled"] - risk["least"])
    assert abs(found["debiased"].coef_[0] - slope) < abs(found["pooled"].coef_[0] - slope)


@pytest.mark.parametrize("seed", [1, 2, 3])  # in draw 0 the strips have no row in common
def test_clustering(run, seed):
    off = run("clustering", seed)["off"]
    assert off["unbiased rows, debiased EM"] == off["unbiased rows, plain EM"] < 0.3
    assert off["biased rows, debiased EM"] < 0.5 * off["biased rows, plain EM"]


@pytest.mark.parametrize("seed", SEEDS)
def test_length_bias_in_several_dimensions(run, seed):
    found = run("length_bias_in_several_dimensions", seed)
    truth, debiased = found["truth"], found["debiased"]
    assert (np.abs(debiased.values - truth) < np.abs(found["pooled"] - truth)).all()
    assert (debiased.stderr < 0.6 * found["alone_stderr"]).all()
    assert found["off"] < 1e-12


@pytest.mark.parametrize("seed", SEEDS)
def test_free_energy_profile(run, seed):
    found = run("free_energy_profile", seed)
    assert found["debiased_error"] < 0.1 * found["pooled_error"]
    z = (found["found"]["f_i"] - found["truth"])[found["found"]["df_i"] > 0] / found["found"]["df_i"][
        found["found"]["df_i"] > 0
    ]
    assert np.abs(z).max() < 4.0  # 29 bins
    assert found["barrier"].value == pytest.approx(8.0, abs=3 * found["barrier"].stderr + 0.1)


@pytest.mark.parametrize("seed", SEEDS)
def test_label_shift(run, seed):
    found = run("label_shift", seed)
    error = found["error"]
    assert found["off"] < 1e-10
    assert error["debiased"] < error["best"] + 0.02
    assert error["pooled"] > error["best"] + 0.1


@pytest.mark.parametrize("seed", SEEDS)
def test_weighted_pca_and_kde(run, seed):
    found = run("weighted_pca_and_kde", seed)
    angle, area = found["angle"], found["area"]
    assert abs(angle["debiased"] - angle["truth"]) < 5 < abs(angle["pooled"] - angle["truth"])
    assert area["debiased"] < 0.3 * area["pooled"]


@pytest.mark.parametrize("seed", SEEDS)
def test_debiased_kmeans(run, seed):
    cost = run("debiased_kmeans", seed)["cost"]
    assert cost["best"] <= cost["debiased"] < 1.1 * cost["best"]
    assert cost["pooled"] > 1.3 * cost["best"]


@pytest.mark.parametrize("seed", ANOTHER)
def test_pooled_survey(run, seed):
    found = run("pooled_survey", seed)
    alone, debiased = found["share"].values()
    truth = found["truth"]
    assert abs(debiased.value - truth) < abs(found["pool"]["earns"].mean() - truth)
    assert abs(debiased.value - truth) < 3 * debiased.stderr
    assert debiased.stderr < 0.5 * alone.stderr


@pytest.mark.parametrize("seed", ANOTHER)
def test_length_biased_cohort(run, seed):
    found = run("length_biased_cohort", seed)
    alone, debiased = found["mean"].values()
    truth = found["truth"]
    assert found["many"].mean() == pytest.approx(truth, rel=0.05)
    assert abs(debiased.value - truth) < min(3 * debiased.stderr, abs(found["met"]["duration"].mean() - truth))
    assert debiased.stderr < 0.6 * alone.stderr


@pytest.mark.parametrize("seed", ANOTHER)
def test_case_cohort(run, seed):
    found = run("case_cohort", seed)["rows"]
    assert len(found) == 4
    for title, rows in found.items():
        measured, debiased, whole = rows.values()
        assert abs(debiased.value - whole.value) < 3 * debiased.stderr
        if title != "log odds ratio":  # which sampling by the outcome leaves alone
            assert abs(debiased.value - whole.value) < abs(measured.value - whole.value)


@pytest.mark.long
@pytest.mark.parametrize("seed", ANOTHER)
def test_panel_of_unknown_bias(run, seed):
    found = run("panel_of_unknown_bias", seed)
    truth, mean = found["truth"], found["mean"]
    assert abs(mean.value - truth) < 3 * mean.stderr
    assert abs(mean.value - truth) < 0.5 * abs(found["panel"]["spent"].mean() - truth)
    assert found["sensitivity"].tipping > 1.2
