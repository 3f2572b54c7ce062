"""Columns that only some samples recorded: their rows with weights of their own, the normalisers of all samples."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pools import PLACES
from sklearn.linear_model import LinearRegression

import vardi
from vardi.learn import inference

SIZES = {"survey": 150, "panel": 200, "web": 250}
BIASES = {"survey": "exp(-0.5 * x)", "panel": "1 + 0.5 * x * x", "web": "exp(0.5 * x)"}


def drawn(seed, biases=None):
    """Return rows of a normal population, drawn by density-ratio rejection."""
    rng = np.random.default_rng(seed)
    samples = {}
    for name, size in SIZES.items():
        x = rng.uniform(-3.5, 3.5, 60 * size)
        accept = np.exp(-0.5 * x**2) * eval((biases or BIASES)[name], {"exp": np.exp, "x": x})
        x = x[rng.random(len(x)) < accept / accept.max()][:size]
        y = x + 0.5 * x**2 + rng.normal(0.0, 0.5, len(x))
        samples[name] = pd.DataFrame({"x": x, "y": y, "g": np.where(x > 0, "high", "low"), "h": np.arange(len(x)) % 40})
    return samples


def without(samples, *names, column="y"):
    return {name: frame.drop(columns=column) if name in names else frame for name, frame in samples.items()}


@pytest.fixture(scope="module")
def samples():
    return drawn(0)


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.WeakOverlapWarning)
        yield


def by_hand(samples, names):
    """Return the weights 1 / S^A of the rows of some samples, from the normalisers of all."""
    fit = vardi.debias(without(samples, *(set(SIZES) - set(names))), BIASES)
    x = np.concatenate([samples[name]["x"] for name in names])
    n = sum(SIZES.values())
    mass = sum(SIZES[name] / n / fit.omegas[name] * eval(BIASES[name], {"exp": np.exp, "x": x}) for name in names)
    return fit, 1.0 / mass, np.concatenate([samples[name]["y"] for name in names])


@pytest.mark.parametrize("names", [("panel",), ("survey", "web"), ("panel", "web")])
def test_estimates_are_those_of_the_weights_by_hand(samples, names):
    fit, weights, y = by_hand(samples, names)
    found = fit.expectation("y")
    assert found.value == pytest.approx(np.average(y, weights=weights), rel=1e-10)
    assert found.among == names
    assert str(found).endswith(f"; from {', '.join(map(repr, names))})")
    assert fit.expectation("y > 1").value == pytest.approx(np.average(y > 1, weights=weights), rel=1e-10)
    cdf = fit.cdf("y")
    assert cdf(1.0).value == pytest.approx(np.average(y <= 1, weights=weights), rel=1e-10)
    assert set(cdf.x) == set(y)
    assert cdf.quantile(0.5).among == names
    assert cdf.band().x.min() >= y.min()
    x = np.concatenate([samples[name]["x"] for name in names])
    high = fit.expectation("y", by="g")["high"]
    assert high.value == pytest.approx(np.average(y[x > 0], weights=weights[x > 0]), rel=1e-10)
    assert fit.total("y", size=1000).value == pytest.approx(1000 * found.value, rel=1e-12)
    assert fit.total("y", size=1000).among == names
    theirs = fit.among(list(names))
    mine = np.asarray(theirs.weights)
    assert mine.mean() == pytest.approx(1.0, rel=1e-12)
    places = np.isin(np.repeat(list(SIZES), list(SIZES.values())), names)
    np.testing.assert_allclose(mine[places] / weights, mine[places][0] / weights[0], rtol=1e-9)
    assert not mine[~places].any()
    np.testing.assert_allclose(theirs.weigh(pd.DataFrame({"x": x})), mine[places], rtol=1e-9)


def slopes(samples, biases, question, rows, **options):
    """Return how much an estimate moves for each count of a row, by refits, and what the influence values say."""
    names, step = list(samples), 1e-3
    counts = {name: np.full(len(frame), 1000.0) for name, frame in samples.items()}  # counts are whole
    base = question(vardi.debias(samples, biases, counts=counts, **options))
    total = sum(map(len, samples.values()))
    found = []
    for name, row in rows:
        more = {key: value.copy() for key, value in counts.items()}
        more[name][row] += 1000 * step
        moved = question(vardi.debias(samples, biases, counts=more, **options)).value
        place = sum(len(samples[one]) for one in names[: names.index(name)]) + row
        phi, b = base.influence.of_rows()[place, 0], base.influence.b[names.index(name), 0]
        found.append(((moved - base.value) / step * total, phi - b))
    return np.array(found).T


ROWS = [("survey", 3), ("panel", 11), ("web", 40)]


@pytest.mark.parametrize("names", [("survey", "web"), ("panel", "web")])
@pytest.mark.parametrize("part", ["known biases", "parameters"])
def test_influence_values_are_the_derivatives_by_counts(samples, names, part):
    biases = BIASES if part == "known biases" else {**BIASES, "web": vardi.exponential_tilt("x")}
    given = without(samples, *(set(SIZES) - set(names)))
    refitted, said = slopes(given, biases, lambda fit: fit.expectation("y"), ROWS)
    np.testing.assert_allclose(refitted, said, rtol=0.02, atol=1e-6)
    assert np.abs(refitted).min() > 1e-3  # rows of the samples that lack y move the estimate too


def test_estimates_from_different_samples_are_of_one_fit(samples):
    fit = vardi.debias(samples, BIASES)
    one, other, everyone = (
        fit.expectation("y", among=["panel"]),
        fit.expectation("y", among=["survey", "web"]),
        fit.expectation("y"),
    )
    assert (one - other).stderr > 0
    assert (one - one).stderr == 0
    assert everyone.stderr < min(one.stderr, other.stderr)
    assert everyone.among == ()
    assert fit.expectation("y", among=list(SIZES)).stderr == everyone.stderr
    assert fit.expectation("y", among="panel").stderr == one.stderr


def test_forms_of_lacking_a_column_give_the_same(samples):
    expected = vardi.debias(without(samples, "web"), BIASES)
    empty = {**samples, "web": samples["web"].assign(y=np.nan)}
    pool = pd.concat([frame.assign(s=name) for name, frame in empty.items()], ignore_index=True)
    fits = {
        "all missing": vardi.debias(empty, BIASES),
        "labelled": vardi.debias(pool, BIASES, source="s"),
        "shuffled": vardi.debias(pool.sample(frac=1.0, random_state=0), BIASES, source="s"),
    }
    for name, fit in fits.items():
        for asked in ("y", "y > 1"):
            one, other = fit.expectation(asked), expected.expectation(asked)
            assert one.among == ("survey", "panel"), name
            np.testing.assert_allclose([one.value, one.stderr], [other.value, other.stderr], rtol=1e-8)
        one, other = fit.expectation("y", by="g")["low"], expected.expectation("y", by="g")["low"]
        np.testing.assert_allclose([one.value, one.stderr], [other.value, other.stderr], rtol=1e-8)
    array = fits["labelled"].expectation(pool["y"])
    assert array.value == pytest.approx(expected.expectation("y").value, rel=1e-10)
    assert array.among == ("survey", "panel")


def test_single_missing_rows_are_still_refused_and_counted(samples):
    gap = without(samples, "web")
    gap["panel"] = gap["panel"].assign(y=gap["panel"]["y"].where(gap["panel"].index != 7))
    fit = vardi.debias(gap, BIASES)
    with pytest.raises(vardi.MissingValuesError, match="^1 of the values of 'y' are missing") as caught:
        fit.expectation("y")
    assert "(row 7 of 'panel')" in str(caught.value)
    assert caught.value.columns == {"y": 1}
    assert fit.expectation("y", among=["survey"]).among == ("survey",)


def test_domains_that_only_some_samples_tell_apart(samples):
    fit = vardi.debias(without(samples, "web", column="h"), BIASES)
    found = fit.expectation("y", by="h")
    assert list(found) == list(range(40))
    assert found.what == "mean of y by h, from 'survey', 'panel'"
    assert fit.proportions("h").joint.values.sum() == pytest.approx(1.0)


def test_samples_that_do_not_cover_the_pool_are_refused_with_their_rows(samples):
    biases = {**BIASES, "panel": "x < 1"}
    given = {**samples, "panel": samples["panel"].query("x < 1")}
    fit = vardi.debias(without(given, "survey", "web"), biases)
    with pytest.raises(
        vardi.ImpossibleRowError, match="^'panel' could not have drawn all rows of the pool: not row"
    ) as caught:
        fit.expectation("y")
    x = np.concatenate([frame["x"] for frame in given.values()])
    assert all(x[row] >= 1 for row in caught.value.rows)
    assert f"{(x >= 1).sum() - 1} rows more" in str(caught.value)
    assert fit.expectation("x").among == ()


def test_unknown_samples_are_refused(samples):
    fit = vardi.debias(samples, BIASES)
    with pytest.raises(vardi.MismatchError, match="^No sample 'pannel' has rows.*Did you mean 'panel'"):
        fit.expectation("y", among=["pannel"])
    with pytest.raises(vardi.MismatchError, match="^among= names no sample"):
        fit.among([])


def test_known_values_are_those_of_all_samples(samples):
    fit = vardi.debias(without(samples, "web"), BIASES, known={"x": 0.0})
    with pytest.warns(vardi.KnownOfAllWarning, match="'survey', 'panel' alone do not meet the known values"):
        found = fit.expectation("y")
    assert found.among == ("survey", "panel")


def test_groups_that_known_values_alone_join_have_no_weights_of_some_samples():
    rng = np.random.default_rng(0)
    low, high = rng.uniform(0, 1, 100), rng.uniform(1, 2, 100)
    samples = {"low": pd.DataFrame({"x": low, "y": low}), "high": pd.DataFrame({"x": high})}
    fit = vardi.debias(samples, {"low": "x < 1", "high": "x >= 1"}, known={"x < 1": 0.5})
    with pytest.raises(vardi.NotIdentifiableError, match="^Only known values join 'low' and 'high'"):
        fit.expectation("y")


def test_clusters_that_span_samples_are_known_to_the_errors(samples):
    fit = vardi.debias(without(samples, "web"), BIASES, clusters="h")
    plain = vardi.debias(without(samples, "web"), BIASES)
    one, other = fit.expectation("y"), plain.expectation("y")
    assert one.value == other.value
    assert one.stderr != other.stderr
    phi = one.influence.of_rows()[:, 0]
    source, h = np.repeat(np.arange(3), list(SIZES.values())), np.concatenate([s["h"] for s in samples.values()])
    centred = phi - np.array([phi[source == k].mean() for k in range(3)])[source]
    sums = np.bincount(h, centred)
    assert one.stderr == pytest.approx(np.sqrt(40 / 39 * (sums**2).sum()) / len(phi), rel=1e-10)


def test_coefficients_come_from_the_samples_that_recorded_the_outcome(samples):
    given = without(samples, "web")
    fit = vardi.debias(given, BIASES)
    found = inference(fit, LinearRegression(), ["x"], "y")
    _, weights, y = by_hand(samples, ("survey", "panel"))
    x = np.concatenate([given[name]["x"] for name in ("survey", "panel")])
    model = LinearRegression().fit(x[:, None], y, sample_weight=weights)
    np.testing.assert_allclose(found.coefficients, [model.intercept_, *model.coef_], rtol=1e-8)
    assert found.rows_left_out == 0
    assert str(found).endswith("From 'survey', 'panel'.")
    by_formula = inference(fit, LinearRegression(), "y ~ x")
    np.testing.assert_allclose(by_formula.stderr, found.stderr, rtol=1e-8)
    array = np.concatenate([given["survey"]["y"], given["panel"]["y"], np.full(SIZES["web"], np.nan)])
    np.testing.assert_allclose(inference(fit, LinearRegression(), ["x"], array).stderr, found.stderr, rtol=1e-8)
    refitted, said = slopes(given, BIASES, lambda one: inference(one, LinearRegression(), ["x"], "y")["x"], ROWS)
    np.testing.assert_allclose(refitted, said, rtol=0.02, atol=1e-6)


def answers(fit):
    """Return everything that is asked of a column that 'panel' and 'web' recorded, as numbers."""
    cdf = fit.cdf("y")
    found = [
        fit.expectation("y"),
        fit.expectation("y > 1"),
        fit.expectation("y") - fit.expectation("x"),
        fit.expectation("y", among=["web"]) - fit.expectation("y"),
        fit.total("y", size=(1000, 50)),
        fit.total("y", relative_to=("x + 5", 5000)),
        *fit.expectation("y", by="g").values(),
        *fit.total("y", size=1000, by="g").values(),
        *fit.proportions("g", among=["panel", "web"]).values(),
        *cdf([0.0, 2.0]),
        cdf.quantile(0.4),
        fit.cdf("y", by="g")["low"](0.0),
    ]
    few = fit.among(["panel", "web"])
    weights = few.weigh(pd.DataFrame({"x": [-1.0, 0.5]}))
    rest = [few.effective_rows(), *few.weight_shares().values(), *weights]
    return np.array([x for one in found for x in (one.value, one.stderr, *one.interval)] + rest)


@pytest.mark.filterwarnings("ignore::vardi.VardiWarning")
def test_frames_of_an_engine_that_hold_all_samples(samples):
    given = {**samples, "survey": samples["survey"].assign(y=np.nan)}
    pool = pd.concat([frame.assign(s=name) for name, frame in given.items()], ignore_index=True)
    memory, engine = (
        vardi.debias(pool, BIASES, source="s"),
        vardi.debias(pl.from_pandas(pool).lazy(), BIASES, source="s"),
    )
    np.testing.assert_allclose(answers(engine), answers(memory), rtol=1e-8, atol=1e-8)
    weights = engine.among(["panel", "web"]).weights.collect()["weight"]
    np.testing.assert_allclose(weights, memory.among(["panel", "web"]).weights, rtol=1e-8)
    band = engine.cdf("y").band(draws=50)
    grid = memory.cdf("y")(band.x)
    np.testing.assert_allclose(band.value, grid.values, rtol=1e-8)
    assert (band.low < band.value).all()
    assert (band.high > band.value).all()


def test_an_engine_says_how_many_rows_are_not_covered(samples):
    biases = {**BIASES, "panel": "x < 1"}
    given = without({**samples, "panel": samples["panel"].query("x < 1")}, "survey", "web")
    fit = vardi.debias(PLACES["polars"](given), biases)
    beyond = {name: int((samples[name]["x"] >= 1).sum()) for name in ("survey", "web")}
    said = f"not {beyond['survey']} rows of 'survey', {beyond['web']} rows of 'web'"
    with pytest.raises(vardi.ImpossibleRowError, match=said):
        fit.expectation("y")


def test_single_missing_rows_of_an_engine_are_refused(samples):
    gap = without(samples, "web")
    gap["panel"] = gap["panel"].assign(y=gap["panel"]["y"].where(gap["panel"].index != 7))
    fit = vardi.debias(PLACES["polars"](gap), BIASES)
    with pytest.raises(vardi.MissingValuesError) as caught:
        fit.expectation("y")
    assert caught.value.columns == {"y": 1}


@pytest.mark.parametrize("lazy", [False, True])
def test_a_sample_that_was_left_out_may_lack_a_column(samples, lazy):
    far = pd.DataFrame({"x": [20.0, 21.0, 22.0]})
    given, biases = {**samples, "far": far}, {**BIASES, "far": "x > 19"}
    biases |= {name: f"({bias}) * (x < 10)" for name, bias in BIASES.items()}
    frames = {name: pl.from_pandas(frame).lazy() if lazy else frame for name, frame in given.items()}
    with pytest.warns(vardi.DroppedSamplesWarning):
        fit = vardi.debias(frames, biases, on_unidentified="largest")
    alone = vardi.debias(samples, BIASES).expectation("y")
    assert fit.expectation("y").value == pytest.approx(alone.value, rel=1e-8)
    assert fit.expectation("y").stderr == pytest.approx(alone.stderr, rel=1e-8)
