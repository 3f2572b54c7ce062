"""Batches for deep learners: rows drawn by weight, and weights for batches drawn evenly."""

from __future__ import annotations

import inspect
import pickle
import textwrap

import numpy as np
import pytest

import vardi

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'vardi[torch]'")


@pytest.fixture(scope="module")
def fit():
    design = vardi.datasets.length_bias(seed=0)
    return vardi.debias(design.samples, design.biases)


def test_the_sampler_draws_by_weight(fit):
    sampler = fit.torch_sampler(200_000, seed=0)
    assert isinstance(sampler, torch.utils.data.Sampler)
    drawn = np.array(list(sampler))
    assert len(sampler) == len(drawn) == 200_000
    counts = np.bincount(drawn, minlength=len(fit))
    p = np.asarray(fit.probabilities)
    assert (np.abs(counts - 200_000 * p) <= 5 * np.sqrt(200_000 * p * (1 - p))).all()


def test_systematic_passes_come_in_random_order(fit):
    sampler = fit.torch_sampler(seed=0, method="systematic")
    drawn = np.array(list(sampler))
    expected = len(fit) * np.asarray(fit.probabilities)
    counts = np.bincount(drawn, minlength=len(fit))
    assert (np.abs(counts - expected) < 1).all()
    assert (np.diff(drawn) < 0).any()


@pytest.mark.parametrize("method", ["multinomial", "systematic"])
def test_draws_can_be_had_again(fit, method):
    sampler, again = (fit.torch_sampler(50, seed=3, method=method) for _ in range(2))
    first, second = list(sampler), list(sampler)
    assert first != second
    assert [list(again), list(again)] == [first, second]
    again.set_epoch(1)
    assert list(again) == second
    restored = pickle.loads(pickle.dumps(fit.torch_sampler(50, seed=3, method=method)))
    assert list(restored) == first
    assert all(type(position) is int for position in first)
    fresh = fit.torch_sampler(50, method=method)
    assert list(fit.torch_sampler(50, seed=fresh.seed, method=method)) == list(fresh)


def test_len_is_rows_or_a_share(fit):
    assert len(fit.torch_sampler()) == len(fit)
    assert len(fit.torch_sampler(0.5)) == round(len(fit) / 2)
    assert repr(fit.torch_sampler(7, seed=1)) == f"DebiasedSampler(7 of {len(fit)} rows, seed=1)"
    with pytest.raises(vardi.MismatchError, match="size is 0, which is not a number of rows"):
        fit.torch_sampler(0)
    with pytest.raises(vardi.MismatchError, match="The method is 'other'"):
        fit.torch_sampler(method="other")


def test_weights_are_those_of_the_fit(fit):
    weights = fit.torch_weights()
    assert weights.dtype == torch.get_default_dtype()
    np.testing.assert_allclose(weights.numpy(), np.asarray(fit.weights), rtol=1e-6)
    assert fit.torch_weights(torch.float64).mean().item() == pytest.approx(1.0)
    counts = np.arange(1, 4)
    counted = vardi.debias({"all": np.array([1.0, 2.0, 3.0])}, {"all": 1}, counts=counts)
    np.testing.assert_allclose(counted.torch_weights().numpy(), counts / 2)


def test_lazy_rows_are_refused():
    pl = pytest.importorskip("polars", reason="lazy frames need Polars")
    lazy = vardi.debias({"all": pl.LazyFrame({"x": [1.0, 2.0]})}, {"all": 1})
    for asked in (lazy.torch_sampler, lazy.torch_weights):
        with pytest.raises(vardi.NeedsRowsError, match="needs rows in memory"):
            asked()


def test_a_loader_speaks_for_the_population(fit):
    """The mean over many passes of both kinds of batch is the debiased mean."""
    from torch.utils.data import DataLoader, TensorDataset

    design = vardi.datasets.length_bias(seed=0)
    x = np.concatenate(list(design.samples.values()))
    data = TensorDataset(torch.as_tensor(x), fit.torch_weights(torch.float64))
    mean = fit.expectation("x").value
    loader = DataLoader(data, batch_size=32, sampler=fit.torch_sampler(40_000, seed=0))
    drawn = torch.cat([batch for batch, _ in loader])
    assert abs(drawn.mean().item() - mean) < 5 * drawn.std().item() / 200
    weighted = torch.cat([batch * weight for batch, weight in DataLoader(data, batch_size=32, shuffle=True)])
    assert weighted.mean().item() == pytest.approx(mean)
    assert abs(x.mean() - mean) > 0.5


@pytest.mark.parametrize("function", [vardi.DebiasedSample.torch_sampler, vardi.DebiasedSample.torch_weights])
def test_the_examples_run(fit, function):
    """The code of the docstrings, which cannot be doctests: PyTorch may be absent."""
    text = inspect.getdoc(function).split(".. code-block:: python\n")[1]
    code = textwrap.dedent("\n".join(line for line in text.splitlines() if line.startswith("    ") or not line))
    design = vardi.datasets.length_bias(seed=0)
    X = np.concatenate(list(design.samples.values()))

    names = {"torch": torch, "fit": fit, "X": X, "y": 2 * X, "model": lambda features: 1.5 * features}
    exec(code, names)
    assert 0 < names["loss"].item() < np.inf
