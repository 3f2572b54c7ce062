"""Umbrella windows over a torsion whose law is known, and those of pymbar's example, with its published profile."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from textbook import KT, PERSISTENCE, PUBLISHED, SLOW, origins, read, torsion

import vardi

BINS = np.linspace(-180.0, 180.0, 37)


@pytest.fixture(scope="module", params=origins("umbrella frames", "umbrella windows"))
def origin(request):
    return request.param


@pytest.fixture(scope="module")
def surface(origin):
    """Return a function of the surface of all frames, with their dependence or as if they had none."""
    frames, windows = read(origin, "umbrella frames"), read(origin, "umbrella windows")
    chi, source = frames["chi_deg"].to_numpy(), frames["window"].to_numpy()
    apart = (chi - windows["center_deg"].to_numpy()[:, None] + 180.0) % 360.0 - 180.0
    u_kn = 0.5 / KT * windows["k_kJ_mol_rad2"].to_numpy()[:, None] * np.radians(apart) ** 2

    def made(series):
        fes = vardi.mbar.FES(u_kn, np.bincount(source), mbar_options={"x_kindices": source, "series": series})
        within = (chi + 180.0) % 360.0 - 180.0
        fes.generate_fes(np.zeros(len(chi)), within, histogram_parameters={"bin_edges": BINS})
        return fes

    return made


@pytest.fixture(scope="module")
def fes(surface):
    return surface(True)


@pytest.fixture(scope="module")
def known(origin):
    """Return the profile in bins of 10 degrees, from the lowest, with its errors: published, or the true one."""
    if origin == "published":
        return pd.read_csv(PUBLISHED / "umbrella_pmf_reference.csv")
    x = np.linspace(BINS[:-1], BINS[1:], 201)
    f = -np.log(np.exp(-torsion(x)).mean(axis=0))
    return pd.DataFrame({"chi_deg": (BINS[:-1] + BINS[1:]) / 2, "f_kT": f - f.min(), "df_kT": 0.0})


def profile(fes, known):
    lowest = known["chi_deg"][known["f_kT"].idxmin()]
    return fes.get_fes(known["chi_deg"].to_numpy(), "from-specified", lowest, uncertainty_method="analytical")


def test_the_profile_is_met_within_its_errors(fes, known, origin):
    found = profile(fes, known)
    apart, error = found["f_i"] - known["f_kT"].to_numpy(), np.hypot(found["df_i"], known["df_kT"])
    others = error > 0
    assert others.sum() == 35  # all but the reference
    z = apart[others] / error[others]
    # The published profile is of some of these frames, so that it is nearer than the truth would be.
    most, typical = (2.0, 1.0) if origin == "published" else (3.5, 1.3)
    assert np.abs(z).max() < most
    assert np.sqrt(np.mean(z**2)) < typical


def test_series_errors_are_like_those_of_independent_frames(surface, fes, known, origin):
    """Published ones are of a subsample; those made are worth 1 in (1 + rho) / (1 - rho) frames."""
    errors = profile(fes, known)["df_i"]
    if origin == "published":
        expected = known["df_kT"].to_numpy()
    else:
        rho = min(PERSISTENCE.values())
        expected = np.sqrt((1 + rho) / (1 - rho)) * profile(surface(False), known)["df_i"]
    ratio = np.median(errors[errors > 0] / expected[errors > 0])
    assert 0.8 < ratio < 1.25


def test_the_slowest_window_is_told(fes):
    worth = vardi.mbar.inefficiencies(fes.fit)
    assert all(g >= 1.0 for g in worth.values())
    assert max(worth, key=worth.get) == str(SLOW)
    assert 8.0 < worth[str(SLOW)] < 15.0
