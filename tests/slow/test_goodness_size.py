"""check_biases keeps its size and has power, and the certificate holds: by simulation, a seed for each repeat."""

from __future__ import annotations

import numpy as np
import pytest

import vardi
from vardi.datasets import length_bias, strata, tilts

DESIGNS = {"strata": (strata, "x0"), "length": (length_bias, "x"), "tilt": (tilts, "x")}


def column(samples: dict[str, np.ndarray]) -> np.ndarray:
    pool = np.concatenate(list(samples.values()))
    return pool if pool.ndim == 1 else pool[:, 0]


def pvalue(samples, biases, name: str, **options) -> float:
    fit = vardi.debias(samples, biases)
    return fit.check_biases({name: column(samples)}, **options).pvalue


@pytest.mark.parametrize("options", [{}, {"features": "cells"}], ids=str)
@pytest.mark.parametrize("design", DESIGNS)
def test_size_at_five_per_cent(design, options):
    draw, name = DESIGNS[design]
    drawn = (draw(seed=seed) for seed in range(500))
    rejected = np.mean([pvalue(d.samples, d.biases, name, **options) < 0.05 for d in drawn])
    print(f"\nsize {design} {options}: {rejected:.3f}")
    assert 0.025 <= rejected <= 0.08


def binary(share: float, factor: float):
    """Two samples of 50 rows: 0 or 1, which the second draws with a bias of 1 and of a factor."""

    def draw(rng):
        tilted = share * factor / (share * factor + 1 - share)
        return (rng.random(50) < share).astype(float), (rng.random(50) < tilted).astype(float), f"1 + {factor - 1} * x"

    return draw


COLUMNS = {
    "binary": binary(0.5, 1.0),
    "rare binary": binary(0.15, 0.1),
    "rare binary, enriched": binary(0.02, 10.0),
    "counts": lambda rng: (rng.poisson(1.0, 50) * 1.0, rng.poisson(2.0, 50) * 1.0, "2 ** x"),
    "continuous": lambda rng: (rng.normal(size=50), rng.normal(1.0, size=50), "exp(x)"),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_size_of_all_kinds_of_columns(kind):
    pvalues = []
    for seed in range(500):
        plain, biased, bias = COLUMNS[kind](np.random.default_rng([0, seed]))
        pvalues.append(pvalue({"plain": plain, "biased": biased}, {"plain": 1, "biased": bias}, "x"))
    rejected = np.mean(np.array(pvalues) <= 0.05)
    print(f"\nsize {kind}: {rejected:.3f}")
    assert 0.025 <= rejected <= 0.08


def test_a_logistic_selection_declared_as_none_is_rejected():
    def samples(seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        z = rng.normal(size=4000)
        chosen = z[rng.random(4000) < 1 / (1 + np.exp(0.5 - 2 * z))]
        return {"panel": chosen[:600], "survey": rng.normal(size=200)}

    rejected = np.mean([pvalue(samples(seed), {"panel": 1, "survey": 1}, "x") < 0.05 for seed in range(200)])
    print(f"\npower, logistic declared as none: {rejected:.3f}")
    assert rejected > 0.9


def test_an_error_of_one_power_of_the_length_is_rejected():
    wrong = {"plain": "1", "length": "x", "square": "x"}
    rejected = np.mean([pvalue(length_bias(seed=seed).samples, wrong, "x") < 0.05 for seed in range(200)])
    print(f"\npower, square declared as length: {rejected:.3f}")
    assert rejected > 0.9


@pytest.mark.parametrize(
    ("draw", "sizes"),
    [(strata, (10500, 3600, 3900)), (length_bias, (800, 2500, 1700)), (tilts, (2000, 1500, 2000))],
    ids=list(DESIGNS),
)
def test_the_certificate_holds(draw, sizes):
    held, radii, actual = [], [], []
    for seed in range(200):
        d = draw(sizes=sizes, seed=seed)
        fit = vardi.debias(d.samples, d.biases)
        u_true = np.log(sizes) - np.log([d.truth[f"Omega of {name}"] for name in fit.names])
        r = fit.bounds(delta=0.05).r
        radii.append(r)
        actual.append(np.ptp(fit.solution.u - u_true))
        held.append(actual[-1] <= r)
    print(
        f"\ncertificate {draw.__name__}: held {np.mean(held):.3f}, r {np.median(radii):.3f}, "
        f"95% of errors below {np.quantile(actual, 0.95):.3f}"
    )
    assert np.isfinite(radii).all()
    assert np.mean(held) >= 0.95
