"""Real data for offline use, and simulated designs whose truth is known.

The tables are ``boston`` and ``adult``; ``house_prices`` makes two biased samples of the first. Every other function
simulates: it draws exactly from its biased distributions and gives the true values of the debiased answers.
"""

from vardi.datasets._real import adult, boston, house_prices
from vardi.datasets._simulated import (
    Design,
    MatrixDesign,
    exponential_tilts,
    gaussian_scenario,
    harmonic_oscillators,
    length_bias,
    multivariate_length_bias,
    strata,
    tilts,
    truncation,
    two_gaussians,
)

__all__ = [
    "Design",
    "MatrixDesign",
    "adult",
    "boston",
    "exponential_tilts",
    "gaussian_scenario",
    "harmonic_oscillators",
    "house_prices",
    "length_bias",
    "multivariate_length_bias",
    "strata",
    "tilts",
    "truncation",
    "two_gaussians",
]
