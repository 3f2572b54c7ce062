"""A fit that was saved, and loaded elsewhere: the same weights and normalisers, or a clear refusal."""

from __future__ import annotations

import json
import pickle
import random
import time
from dataclasses import replace
from pathlib import Path

import fits
import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

import vardi
from vardi._fit.saved import hash_of

GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(fits.FITS)


def numbers_of(estimates):
    """Return values, errors, degrees of freedom and ends of intervals."""
    return [(one.value, one.stderr, one.df, *one.interval) for one in estimates.values()]


@pytest.fixture
def saved(tmp_path):
    """Return the file of a fit, and its text."""
    path = fits.fit_of("both").save(tmp_path / "fit.json")
    return path, path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_a_loaded_fit_weighs_the_same(name, tmp_path):
    fit = fits.fit_of(name)
    loaded, rows = vardi.load(fit.save(tmp_path / "fit.json")), pl.from_arrow(fits.new_rows())
    expected = fit.weigh(rows)
    assert_allclose(loaded.weigh(rows), expected, rtol=1e-12)
    assert_allclose(loaded.weigh(rows.lazy()).collect()["weight"], expected, rtol=1e-12)
    assert_allclose(pickle.loads(pickle.dumps(fit.weigher())).weigh(rows), expected, rtol=1e-12)
    assert loaded.to_sql("people") == fit.to_sql("people") == fit.weigher().to_sql("people")
    assert loaded.uncovered(rows.lazy()) == 0
    assert len(loaded) == len(fit)


@pytest.mark.parametrize("name", NAMES)
def test_a_loaded_fit_has_its_normalisers_with_errors(name, tmp_path):
    fit = fits.fit_of(name)
    loaded = vardi.load(fit.save(tmp_path / "fit.json"))
    for level in (0.95, 0.5):
        assert_allclose(numbers_of(loaded.normalisers(level)), numbers_of(fit.normalisers(level)), rtol=1e-12)
    assert_allclose(loaded.log_omega_covariance(), fit.log_omega_covariance(), rtol=1e-12)
    assert f"{loaded.normalisers()['panel']}" in str(loaded)
    assert str(loaded) == str(fit.weigher())


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_files_of_earlier_versions_are_read(path):
    """Files that were written once and stay: `python tests/travel/test_saved_fits.py` writes those of a new format."""
    loaded, expected = vardi.load(path), json.loads(path.with_suffix(".weights").read_text())
    assert_allclose(loaded.weigh(pl.from_arrow(fits.new_rows(20))), expected, rtol=1e-9)


def test_there_are_golden_files_of_this_format():
    assert {path.stem.partition(".")[0] for path in GOLDEN.glob("*.1.json")} == {one.replace(" ", "_") for one in NAMES}


def test_a_file_says_what_it_is_and_runs_no_code(saved):
    _, text = saved
    document = json.loads(text)
    assert (document["format"], document["vardi"]) == (1, vardi.__version__)
    assert document["samples"][1]["bias"] == "logistic(age)"
    assert list(document["samples"][1]["parameters"]) == ["intercept", "age"]
    assert document["columns"] == {"age": "Float64", "income": "Float64", "region": "String"}
    assert document["data"].startswith("sha256:")
    assert "vardi._" not in text
    assert len(text.splitlines()) < 40


def test_a_changed_file_is_refused(saved):
    path, text = saved
    path.write_text(text.replace("logistic(age)", "logistic(income)"), encoding="utf-8")
    with pytest.raises(vardi.SavedFitError, match="was changed after it was saved: its content does not have the hash"):
        vardi.load(path)
    path.write_text(text.replace('"format"', ' \t"format"'), encoding="utf-8")  # spaces say nothing
    assert vardi.load(path).names == ("survey", "panel")


def test_a_newer_format_is_refused(saved):
    path, text = saved
    newer = json.loads(text) | {"format": 2, "vardi": "9.9"}
    path.write_text(json.dumps(newer), encoding="utf-8")
    with pytest.raises(vardi.SavedFitError, match=r"has format 2, written by vardi 9\.9, .* Install a newer vardi"):
        vardi.load(path)


def test_what_is_no_fit_is_refused(tmp_path):
    path = tmp_path / "no.json"
    with pytest.raises(vardi.SavedFitError, match="cannot be read: No such file"):
        vardi.load(path)
    for content in ("", "[1, 2]", "{}", '{"format": true, "hash": ""}', "[" * 100_000, "\x00", '{"format": NaN}'):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(vardi.SavedFitError, match="is not a saved fit"):
            vardi.load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(vardi.SavedFitError, match="is not a saved fit: it is not JSON"):
        vardi.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one.pop("samples"),
        lambda one: one.update(samples=[]),
        lambda one: one["samples"][0].update(bias="__import__('os').system('true')"),
        lambda one: one["samples"][1].update(bias="<function f>"),
        lambda one: one["samples"][1].update(parameters=[1, 2]),
        lambda one: one.update(columns={"age": "os.system"}),
        lambda one: one.update(covariance=[[1.0, 2.0], [3.0]]),
        lambda one: one["known"][0].update(of={"bias": 1}),
    ],
)
def test_nonsense_with_a_valid_hash_is_refused(saved, change):
    path, text = saved
    document = json.loads(text)
    document.pop("hash")
    change(document)
    path.write_text(json.dumps({"hash": hash_of(document), **document}), encoding="utf-8")
    with pytest.raises(vardi.SavedFitError, match="its content makes no sense"):
        vardi.load(path)


@pytest.mark.long
def test_mutated_files_are_refused_or_equal(saved):
    path, text = saved
    rng, whole, expected = random.Random(0), bytearray(text.encode()), str(vardi.load(path))
    refused = 0
    for _ in range(1000):
        content = bytearray(whole)
        for _ in range(rng.choice([1, 1, 2, 5])):
            place = rng.randrange(len(content))
            match rng.randrange(4):
                case 0:
                    content[place] = rng.randrange(256)
                case 1:
                    del content[place : place + rng.randrange(1, 30)]
                case 2:
                    content[place:place] = content[
                        (start := rng.randrange(len(content))) : start + rng.randrange(1, 30)
                    ]
                case 3:
                    content[place:place] = rng.choice([b" ", b"\n", b"0", b"e9", b"-", b'"', b"{", b"null", b"\\u0000"])
        path.write_bytes(content)
        try:
            assert str(vardi.load(path)) == expected
        except vardi.SavedFitError:
            refused += 1
    assert 900 < refused <= 1000


def test_a_bias_without_a_text_is_refused(tmp_path):
    x = np.linspace(1.0, 2.0, 40)
    fit = vardi.debias({"a": x, "b": x + 0.01}, {"a": 1, "b": np.sqrt})
    with pytest.raises(vardi.InvalidBiasError, match="The bias of 'b', <function sqrt>, has no text, and a file holds"):
        fit.save(tmp_path / "fit.json")
    assert list(tmp_path.iterdir()) == []
    again = pickle.loads(pickle.dumps(fit.weigher()))  # a pickle may hold functions
    assert_allclose(again.weigh(x), fit.weigh(x), rtol=1e-12)
    known = vardi.debias({"a": x}, {"a": "x"}, known={vardi.where("x > 1.5"): 0.5})
    assert known.save(tmp_path / "known.json").exists()


def test_an_existing_file_is_kept_unless_told(saved):
    path, text = saved
    with pytest.raises(vardi.OutputError, match="already exists, and is not overwritten. Give overwrite=True"):
        fits.fit_of("tilt").save(path)
    assert path.read_text() == text
    fits.fit_of("tilt").save(path, overwrite=True)
    assert vardi.load(path).names == ("survey", "panel")


def test_names_of_samples_that_are_no_text_come_back(tmp_path):
    x = np.linspace(1.0, 2.0, 40)
    fit = vardi.debias([x, x + 0.01], [1, "x"])
    assert vardi.load(fit.save(tmp_path / "fit.json")).names == fit.names
    dated = vardi.debias({(1, 2): x}, {(1, 2): "x"})
    with pytest.raises(vardi.MismatchError, match="Name samples by texts or numbers"):
        dated.save(tmp_path / "other.json")


def test_a_thousand_samples_are_a_file_of_megabytes(tmp_path):
    rng, K = np.random.default_rng(0), 1000
    few = vardi.debias({"a": rng.normal(size=40), "b": rng.normal(size=40)}, {"a": 1, "b": "exp(x)"}).weigher()
    factors = rng.normal(size=(K, K))
    errors = replace(few.errors, covariance=factors @ factors.T, declared=np.zeros(K, bool))
    errors = replace(errors, log_omegas=factors[0], stderr=np.abs(factors[1]), df=1e3 * np.abs(factors[2]))
    texts = [f"exp(-2.0 * (x - {centre}) * (x - {centre}))" for centre in np.linspace(0.0, 10.0, K).tolist()]
    names, sizes = tuple(f"s{k}" for k in range(K)), np.full(K, 20.0)
    many = replace(few, names=names, sizes=sizes, biases=tuple(map(vardi.where, texts)), u=factors[3], errors=errors)
    path = many.save(tmp_path / "many.json")
    assert path.stat().st_size < 50e6
    start = time.process_time()
    loaded = vardi.load(path)
    print(f"{path.stat().st_size / 1e6:.1f} MB, loaded in {time.process_time() - start:.2f} s of processor time")
    rows = np.linspace(1.0, 9.0, 100)
    assert_allclose(loaded.weigh(rows), many.weigh(rows), rtol=1e-12)
    assert_allclose(loaded.log_omega_covariance(), many.log_omega_covariance(), rtol=1e-15)
    lazy = pl.LazyFrame({"x": rows})
    assert_allclose(loaded.weigh(lazy).collect()["weight"], many.weigh(rows), rtol=1e-12)


def write_golden_files():
    """Write the golden files of this format."""
    for name in NAMES:
        stem = GOLDEN / f"{name.replace(' ', '_')}.1"
        fit = fits.fit_of(name)
        fit.save(stem.with_name(f"{stem.name}.json"), overwrite=True)
        weights = fit.weigh(pl.from_arrow(fits.new_rows(20))).to_list()
        stem.with_name(f"{stem.name}.weights").write_text(json.dumps(weights) + "\n")


if __name__ == "__main__":
    write_golden_files()
