"""Weights as a column of the user's frames, and what is asked about them, against rows in memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from engines import QUICK_TO_ASK, collected
from numpy.testing import assert_allclose

import vardi

LOCAL = pytest.mark.parametrize("engine", QUICK_TO_ASK, indirect=True)
FORMS = pytest.mark.parametrize(("labels", "counts"), [(False, None), (True, None), (True, "c"), (False, "c")])
BIASES = {"a": "x <= 2", "b": "1", "c": "exp(-0.3 * x)"}


def tables():
    rng, made = np.random.default_rng(7), {}
    for name, size in (("a", 60), ("b", 50), ("c", 40)):
        x = rng.gamma(2.0, size=4 * size)
        x = x[x <= 2.0][:size] if name == "a" else x[:size]
        made[name] = {"x": x, "c": rng.integers(0, 3, len(x)), "s": np.full(len(x), name)}
    whole = {column: np.concatenate([table[column] for table in made.values()]) for column in ("x", "c", "s")}
    whole["id"] = np.arange(len(whole["x"]))
    return pa.table(whole)


def fitted(engine, whole, labels, counts):
    """Return the fit of rows in memory, and that of the same rows in an engine."""
    if labels:
        options = {"source": "s", "counts": counts}
        return vardi.debias(whole, BIASES, **options), vardi.debias(engine.frame(whole), BIASES, **options)
    frames = {name: whole.filter(pc.equal(whole["s"], name)) for name in BIASES}
    lazy = {name: engine.frame(frame) for name, frame in frames.items()}
    return vardi.debias(frames, BIASES, counts=counts), vardi.debias(lazy, BIASES, counts=counts)


def by_id(frames, name):
    """Return a column in the order of the rows, and check that no other was added."""
    every = frames.values() if isinstance(frames, dict) else [frames]
    rows = [collected(frame) for frame in every]
    assert all(set(one) == {"x", "c", "s", "id", name} for one in rows)
    pairs = sorted((i, value) for one in rows for i, value in zip(one["id"], one[name], strict=True))
    return [value for _, value in pairs]


@LOCAL
@FORMS
def test_the_weights_of_some_samples_are_zero_for_others(engine, labels, counts):
    memory, lazy = (fit.among(["a", "b"]) for fit in fitted(engine, tables(), labels, counts))
    probabilities = by_id(lazy.probabilities, "probability")
    assert_allclose(probabilities, np.asarray(memory.probabilities), rtol=1e-9, atol=1e-15)
    assert not any(probabilities[110:])
