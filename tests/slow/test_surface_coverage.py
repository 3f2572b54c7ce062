"""Errors of surfaces cover: umbrella windows of independent rows over a harmonic landscape, whose surface is known.

500 seeded repeats, fixed before the first run; run it with ``pytest -s tests/slow/test_surface_coverage.py``.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from vardi.mbar import FES

REPEATS = 500
CENTRES = np.linspace(-2, 2, 9)
EDGES = np.linspace(-2, 2, 9)
MIDDLES = (EDGES[1:] + EDGES[:-1]) / 2
WIDTH = 0.2


def windows(seed):
    """A hundred rows of each window of stiffness 4 over the landscape x^2 / 2."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0.8 * np.repeat(CENTRES, 100), 1 / np.sqrt(5))
    landscape = 0.5 * x**2
    return x, landscape, landscape + 2 * (x - CENTRES[:, None]) ** 2


def truth(kind):
    """Probabilities of bins, or the density that kernels of this width have in the mean."""
    if kind == "histogram":
        return -np.log(np.diff(norm.cdf(EDGES)))
    return -norm.logpdf(MIDDLES, scale=np.sqrt(1 + WIDTH**2))


@pytest.mark.parametrize("reference", ["from-specified", "from-normalization"])
@pytest.mark.parametrize("kind", ["histogram", "kde"])
def test_errors_of_surfaces_cover(kind, reference):
    expected = truth(kind)
    if reference == "from-specified":
        expected = expected - expected[3]
    elif kind == "histogram":
        expected = expected + np.log(np.exp(-expected).sum())
    asked = np.arange(8) != 3 if reference == "from-specified" else np.ones(8, bool)
    covered = []
    for seed in np.random.SeedSequence(0).spawn(REPEATS):
        x, u_n, u_kn = windows(seed)
        fes = FES(u_kn, np.full(9, 100))
        fes.generate_fes(u_n, x, kind, {"bin_edges": EDGES}, {"bandwidth": WIDTH})
        found = fes.get_fes(MIDDLES, reference, MIDDLES[3], "analytical")
        covered.append(np.abs(found["f_i"] - expected)[asked] < 1.96 * found["df_i"][asked])
    shares = np.mean(covered, axis=0)
    print(f"{kind}, {reference}: coverage of 95% by point {np.round(shares, 3)}, in all {shares.mean():.3f}")
    slack = 2 * np.sqrt(shares * (1 - shares) / REPEATS)
    assert ((0.93 - slack <= shares) & (shares <= 0.97 + slack)).all()
