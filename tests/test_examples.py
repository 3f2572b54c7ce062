"""Every page of the gallery runs, draws, and keeps its promise: debiased is nearer to the truth than pooled."""

import importlib
import re
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import sklearn.cluster  # noqa: F401, loads what threadpoolctl limits
from threadpoolctl import threadpool_limits

mpl.use("Agg")

EXAMPLES = Path(__file__).parents[1] / "examples"
GALLERY = Path(__file__).parents[1] / "docs" / "gallery.md"
PAGES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "house_prices")
SEEDS = (0, 1, 2)


@pytest.fixture(autouse=True)
def one_thread():
    with threadpool_limits(1):
        yield


@pytest.fixture
def run(monkeypatch):
    """Return what runs the main of an example."""
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    yield lambda name, *args, **options: importlib.import_module(name).main(*args, **options)
    for name in PAGES:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", PAGES)
def test_prints_and_draws(run, name, tmp_path, capsys):
    run(name, tmp_path)
    assert "debiased" in capsys.readouterr().out
    picture = tmp_path / f"{name}.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 60_000


def test_gallery_shows_every_page():
    text = GALLERY.read_text(encoding="utf-8")
    assert sorted(set(re.findall(r"\.\./examples/(\w+)\.py", text))) == PAGES
    images = set(re.findall(r"\]\((images/\w+\.png)\)", text))
    assert images == {f"images/{name}.png" for name in PAGES}
    assert all((GALLERY.parent / image).stat().st_size < 60_000 for image in images)


@pytest.mark.parametrize("name", PAGES)
def test_gallery_says_what_the_page_prints(run, name, capsys):
    run(name)
    printed = " ".join(capsys.readouterr().out.split())
    text = GALLERY.read_text(encoding="utf-8")
    section = next(part for part in text.split("\n## ") if f"examples/{name}.py" in part)
    numbers = re.findall(r"\*\*([^*]+)\*\*", section)
    assert len(numbers) >= 2
    for number in numbers:
        assert number in printed


@pytest.mark.parametrize("seed", SEEDS)
def test_stratified_classification(run, seed):
    error = run("stratified_classification", seed=seed)
    assert error["debiased"] < error["pooled"] - 0.02
    assert error["debiased"] < error["best"] + 0.02


@pytest.mark.parametrize("seed", SEEDS)
def test_right_cut_durations(run, seed):
    found = run("right_cut_durations", seed=seed)
    assert found["debiased risk"] - found["least risk"] < 0.2 * (found["pooled risk"] - found["least risk"])
    assert abs(found["debiased slope"] - found["slope"]) < abs(found["pooled slope"] - found["slope"])


@pytest.mark.parametrize("seed", [1, 2, 3])  # in draw 0 the strips have no row in common
def test_clustering(run, seed):
    off = run("clustering", seed=seed)
    assert off["unbiased rows, debiased EM"] == off["unbiased rows, plain EM"] < 0.3
    assert off["biased rows, debiased EM"] < 0.5 * off["biased rows, plain EM"]


@pytest.mark.parametrize("seed", SEEDS)
def test_length_bias_in_several_dimensions(run, seed):
    found = run("length_bias_in_several_dimensions", seed=seed)
    assert (np.abs(found["debiased"] - found["truth"]) < np.abs(found["pooled"] - found["truth"])).all()
    assert (found["debiased stderr"] < 0.6 * found["unbiased stderr"]).all()
    assert (found["off"] < 1e-12).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_label_shift(run, seed):
    found = run("label_shift", seed=seed)
    assert found["off"] < 1e-10
    assert found["debiased"] < found["best"] + 0.02
    assert found["pooled"] > found["best"] + 0.1


@pytest.mark.parametrize("seed", SEEDS)
def test_weighted_pca_and_kde(run, seed):
    found = run("weighted_pca_and_kde", seed=seed)
    assert abs(found["debiased angle"] - found["truth angle"]) < 5 < abs(found["pooled angle"] - found["truth angle"])
    assert found["debiased area"] < 0.3 * found["pooled area"]


@pytest.mark.parametrize("seed", SEEDS)
def test_debiased_kmeans(run, seed):
    cost = run("debiased_kmeans", seed=seed)
    assert cost["best"] <= cost["debiased"] < 1.1 * cost["best"]
    assert cost["pooled"] > 1.3 * cost["best"]
