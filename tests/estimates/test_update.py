"""Rows added to a fit: equal to the fit of all rows, from the solution on."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import vardi

EQUAL = 1e-10


def lengths(seed=0, n=(60, 90)):
    rng = np.random.default_rng(seed)
    return {"plain": rng.gamma(3, size=n[0]), "seen": rng.gamma(4, size=n[1])}


BIASES = {"plain": 1, "seen": "x"}


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    K=st.integers(2, 5),
    first=st.integers(5, 40),
    more=st.integers(1, 60),
    touched=st.integers(1, 5),
    log=st.booleans(),
)
def test_update_is_the_fit_of_all_rows(seed, K, first, more, touched, log):
    """Of a matrix: rows of some samples come later, in any number."""
    rng = np.random.default_rng(seed)
    centres = np.linspace(-1.0, 1.0, K)

    def rows(source):
        x = rng.normal(centres[source] * 0.5, np.sqrt(0.5))  # N(0, 1) by e^{-(x - c)^2 / 2}
        values = -0.5 * (x[:, None] - centres) ** 2
        return values if log else np.exp(values)

    old = np.repeat(np.arange(K), first)
    later = np.repeat(np.arange(min(touched, K)), more)
    omega, added = rows(old), rows(later)
    fit = vardi.debias_matrix(omega, old, log=log)
    updated = fit.update({str(k): added[later == k] for k in range(min(touched, K))})
    scratch = vardi.debias_matrix(np.concatenate([omega, added]), np.concatenate([old, later]), log=log)
    np.testing.assert_allclose(updated.weights, scratch.weights, rtol=EQUAL)
    np.testing.assert_allclose(updated.solved.log_omegas, scratch.solved.log_omegas, atol=EQUAL)
    assert updated.solution.converged
    assert updated.solution.certificate < 1e-9
    assert len(fit.weights) == len(old)  # which stays what it was


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(2, 50))
def test_a_new_sample_is_the_fit_of_all_samples(seed, size):
    samples = lengths(seed)
    short = np.random.default_rng(seed + 1).uniform(0.1, 2.0, size)
    fit = vardi.debias(samples, BIASES).update({"short": short, "seen": short[:1]}, biases={"short": "x <= 2"})
    all_rows = {"plain": samples["plain"], "seen": np.append(samples["seen"], short[:1]), "short": short}
    scratch = vardi.debias(all_rows, {**BIASES, "short": "x <= 2"})
    np.testing.assert_allclose(fit.weights, scratch.weights, rtol=EQUAL)
    assert fit.names == ("plain", "seen", "short")


@pytest.mark.parametrize("form", ["pandas", "polars", "labelled", "labelled, by sample", "array of labels"])
def test_every_form_of_rows(form):
    samples, more = lengths(), {"seen": np.array([1.0, 2.5]), "plain": np.array([0.3])}
    scratch = vardi.debias({name: np.append(rows, more[name]) for name, rows in samples.items()}, BIASES)
    library = pl if form == "polars" else pd
    frames = {name: library.DataFrame({"x": rows}) for name, rows in samples.items()}
    new = {name: library.DataFrame({"x": rows}) for name, rows in more.items()}
    if form in ("pandas", "polars"):
        fit = vardi.debias(frames, BIASES).update(new)
        np.testing.assert_allclose(fit.weights, scratch.weights, rtol=EQUAL)
        return
    frame = pd.concat([own.assign(s=name) for name, own in frames.items()], ignore_index=True)
    labelled = pd.concat([own.assign(s=name) for name, own in new.items()], ignore_index=True)
    source = frame["s"].to_numpy() if form == "array of labels" else "s"
    fit = vardi.debias(frame, BIASES, source=source).update(labelled if form == "labelled" else new)
    np.testing.assert_allclose(list(fit.log_omegas.values()), list(scratch.log_omegas.values()), atol=EQUAL)
    both = np.concatenate([frame["x"], *more.values()])
    if form == "labelled":
        both = np.concatenate([frame["x"], labelled["x"]])
    assert fit.expectation("x").value == pytest.approx(np.average(both, weights=fit.weights), rel=1e-12)


def test_matrices_of_every_kind_in_memory():
    samples = lengths()
    x, source = np.concatenate(list(samples.values())), np.repeat([0, 1], [60, 90])
    omega = np.column_stack([np.ones(len(x)), x])
    more = np.array([[1.0, 2.0], [1.0, 7.0]])
    column = np.append(x, [2.0, 7.0]) > 1.5
    new = omega[x > 1.5][:4]
    scratch = vardi.debias_matrix(
        np.column_stack([np.concatenate([omega, more, new]), np.concatenate([column, np.ones(4)])]),
        np.concatenate([source, [1, 1], np.full(4, 2)]),
        names=["0", "1", "long"],
    )
    for form in (np.asarray, sparse.csr_array):
        fit = vardi.debias_matrix(form(omega), source)
        found = fit.update({"1": form(more), "long": form(new)}, biases={"long": np.append(column, np.ones(4))})
        np.testing.assert_allclose(found.weights, scratch.weights, rtol=EQUAL)
    inside = x <= 3
    windows = vardi.Windows(x[inside], [0.0, 0.5], [3.0, np.inf])
    own = np.where(x[inside] >= 0.5, np.arange(inside.sum()) % 2, 0)
    fit = vardi.debias_matrix(windows, own).update({"0": [1.0, 2.0], "low": [0.2]}, biases={"low": (0.0, 1.0)})
    assert fit.sizes == {"0": (own == 0).sum() + 2, "1": (own == 1).sum(), "low": 1}


def test_parts_are_kept():
    """Known values, parameters, series and counted rows are those of the fit."""
    samples = {name: pd.DataFrame({"x": rows, "n": 1 + np.arange(len(rows)) % 2}) for name, rows in lengths().items()}
    more = {"seen": pd.DataFrame({"x": [2.0, 3.0], "n": [2, 1]})}
    for biases, options in (
        (BIASES, {"known": {"x > 4": 0.2}}),
        ({"plain": 1, "seen": vardi.power("x")}, {}),
        (BIASES, {"counts": "n"}),
        (BIASES, {"series": True}),
    ):
        fit = vardi.debias(samples, biases, **options).update(more)
        joined = {**samples, "seen": pd.concat([samples["seen"], more["seen"]])}
        scratch = vardi.debias(joined, biases, **options)
        ours, theirs = fit.expectation("x"), scratch.expectation("x")
        assert ours.value == pytest.approx(theirs.value, rel=1e-9)
        assert ours.stderr == pytest.approx(theirs.stderr, rel=1e-7)


def test_truncated_rows_take_more():
    rng = np.random.default_rng(0)
    x = rng.gamma(3, size=80)
    frame = pd.DataFrame({"x": x, "entry": x * rng.uniform(0, 0.8, 80)})
    biases = {"seen": vardi.window("x", "entry", None)}
    fit = vardi.debias({"seen": frame[:70]}, biases).update({"seen": frame[70:]})
    scratch = vardi.debias({"seen": frame}, biases)
    np.testing.assert_allclose(fit.weights, scratch.weights, rtol=EQUAL)


@pytest.mark.parametrize(
    ("samples", "biases", "message"),
    [
        ({"sean": [1.0]}, None, "The fit has no sample 'sean': its samples are 'plain', 'seen'. Did you mean 'seen'"),
        ({}, None, "update() was given no rows. Give new rows by the name of their sample."),
        (
            {"seen": [1.0]},
            {"seen": 1},
            "The fit already has a bias for 'seen', and update() adds rows without changing",
        ),
    ],
)
def test_what_does_not_fit_is_refused(samples, biases, message):
    fit = vardi.debias(lengths(), BIASES)
    with pytest.raises(vardi.VardiError) as caught:
        fit.update({name: np.array(rows) for name, rows in samples.items()}, biases)
    assert message in str(caught.value)


def test_what_new_rows_do_not_bring_is_refused():
    samples = lengths()
    n = sum(map(len, samples.values()))
    more = {"seen": np.array([1.0])}
    fit = vardi.debias(samples, BIASES, counts=np.ones(n))
    with pytest.raises(vardi.MismatchError) as caught:
        fit.update(more)
    assert str(caught.value) == (
        "counts= was given as an array for the rows of the fit, so it is unknown for new rows. Name a column of the "
        "frames instead, which new rows have too."
    )
    fit = vardi.debias(samples, {"plain": np.ones(n), "seen": "x"})
    with pytest.raises(vardi.MismatchError) as caught:
        fit.update(more)
    assert str(caught.value) == (
        "The bias of 'plain' was given by its values on the rows of the fit, so it is unknown on new rows. Give "
        "it as an expression or a function of the rows, or debias all rows together."
    )


def test_rows_of_a_matrix_fit_it():
    fit = vardi.debias_matrix(np.ones((4, 2)), [0, 0, 1, 1])
    with pytest.raises(vardi.MismatchError) as caught:
        fit.update({"1": np.ones((2, 3))})
    assert str(caught.value) == (
        "The new rows of '1' have shape (2, 3). Give an array of shape (m, 2), a column for each bias of the fit."
    )
    with pytest.raises(vardi.MismatchError) as caught:
        fit.update({"new": np.ones((2, 2))}, biases={"new": np.ones(4)})
    assert str(caught.value) == (
        "The bias of 'new' has shape (4,), but there are 6 rows with the new ones. Give its value on each row of the "
        "fit, then on each new row."
    )
    windows = vardi.debias_matrix(vardi.Windows([1.0, 2.0], [0.0], [3.0]), [0, 0])
    with pytest.raises(vardi.MismatchError, match="The window of 'b' has 1 ends. Give its lower and its upper end."):
        windows.update({"b": [1.0]}, biases={"b": 1.0})


def test_an_unlinked_sample_is_refused_as_ever():
    fit = vardi.debias({"low": np.array([1.0, 2.0, 3.0])}, {"low": "x <= 5"})
    with pytest.raises(vardi.NotIdentifiableError):
        fit.update({"high": np.array([7.0, 8.0])}, biases={"high": "x >= 6"})


class TestLazyFrames:
    """Rows that stay in their engine."""

    @staticmethod
    def labelled(samples):
        parts = [pl.DataFrame({"x": x}).with_columns(s=pl.lit(name)) for name, x in samples.items()]
        return pl.concat(parts).lazy()

    def test_by_sample_with_a_new_one(self):
        """The same fit as in memory, with columns in another order and one that only the new rows have."""
        first, later = lengths(), lengths(1, n=(20, 30))
        lazy = {name: pl.LazyFrame({"x": x, "y": x + 1}) for name, x in first.items()}
        more = {name: pl.LazyFrame({"y": x + 1, "x": x}) for name, x in later.items()}
        more["long"] = pl.LazyFrame({"x": [4.0, 6.0, 9.0], "y": [5.0, 7.0, 10.0], "z": [1, 2, 3]})
        fit = vardi.debias(lazy, BIASES)
        updated = fit.update(more, biases={"long": "x >= 3"})
        scratch = vardi.debias(first, BIASES).update(later | {"long": np.array([4.0, 6.0, 9.0])}, {"long": "x >= 3"})
        np.testing.assert_allclose(list(updated.log_omegas.values()), list(scratch.log_omegas.values()), atol=EQUAL)
        assert updated.sizes == {"plain": 80, "seen": 120, "long": 3}
        assert fit.sizes == {"plain": 60, "seen": 90}
        assert updated.expectation("y").value == pytest.approx(1 + scratch.expectation("x").value, abs=1e-8)

    def test_one_labelled_frame(self):
        first, later = lengths(), lengths(1, n=(20, 30))
        fit = vardi.debias(self.labelled(first), BIASES, source="s").update(self.labelled(later))
        scratch = vardi.debias({name: np.append(first[name], later[name]) for name in first}, BIASES)
        np.testing.assert_allclose(list(fit.log_omegas.values()), list(scratch.log_omegas.values()), atol=EQUAL)

    def test_what_cannot_be_joined(self):
        first = lengths()
        fit = vardi.debias({name: pl.LazyFrame({"x": x}) for name, x in first.items()}, BIASES)
        with pytest.raises(
            vardi.MismatchError,
            match="The rows of the fit are in polars, and the new ones are in memory, so they cannot be put into one "
            "frame. Give the new ones as a lazy frame of the same engine.",
        ):
            fit.update({"seen": np.array([1.0])})
        fit = vardi.debias(self.labelled(first), BIASES, source="s")
        with pytest.raises(
            vardi.MismatchError,
            match="The samples of the fit are one lazy frame, with their names in 's', but the new rows were given by "
            "sample. Give them as one such frame.",
        ):
            fit.update({"seen": pl.LazyFrame({"x": [1.0]})})
