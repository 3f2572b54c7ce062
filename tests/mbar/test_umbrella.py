"""Real umbrella windows, which lie beside the repository: the profile that pymbar's example publishes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vardi

DATA = Path(__file__).parents[3] / "shared" / "data"
BETA = 1.0 / (0.00831638 * 300.0)  # the constant and the temperature of the example


@pytest.fixture(scope="module")
def umbrellas():
    """Return the surface of a torsion with all its frames in time, and the published profile."""
    if not (DATA / "umbrella_chi.csv").exists():
        pytest.skip("umbrella_chi.csv is not in ../shared/data")
    frames, windows, published = (
        pd.read_csv(DATA / f"umbrella_{name}.csv") for name in ("chi", "windows", "pmf_reference")
    )
    chi, source = frames["chi_deg"].to_numpy(), frames["window"].to_numpy()
    apart = (chi - windows["center_deg"].to_numpy()[:, None] + 180.0) % 360.0 - 180.0
    u_kn = BETA * 0.5 * windows["k_kJ_mol_rad2"].to_numpy()[:, None] * np.radians(apart) ** 2
    fes = vardi.mbar.FES(u_kn, np.bincount(source), mbar_options={"x_kindices": source, "series": True})
    bins = {"bin_edges": np.linspace(-180.0, 180.0, 37)}
    fes.generate_fes(np.zeros(len(chi)), (chi + 180.0) % 360.0 - 180.0, histogram_parameters=bins)
    return fes, published


def test_the_published_profile_is_met_within_its_errors(umbrellas):
    fes, published = umbrellas
    lowest = published["chi_deg"][published["f_kT"].idxmin()]
    found = fes.get_fes(published["chi_deg"].to_numpy(), "from-specified", lowest, uncertainty_method="analytical")
    apart, error = found["f_i"] - published["f_kT"].to_numpy(), np.hypot(found["df_i"], published["df_kT"])
    others = error > 0
    assert others.sum() == 35  # all but the reference
    assert np.abs(apart[others] / error[others]).max() < 2.0
    assert np.sqrt(np.mean((apart[others] / error[others]) ** 2)) < 1.0


def test_series_errors_of_all_frames_are_like_those_of_the_published_subsample(umbrellas):
    """They are no larger on the whole, and far from those that treat frames as independent."""
    fes, published = umbrellas
    lowest = published["chi_deg"][published["f_kT"].idxmin()]
    points = published["chi_deg"].to_numpy()
    errors = fes.get_fes(points, "from-specified", lowest, uncertainty_method="analytical")["df_i"]
    ratio = np.median(errors[errors > 0] / published["df_kT"].to_numpy()[errors > 0])
    assert 0.8 < ratio < 1.25
    worth = vardi.mbar.inefficiencies(fes.fit)
    assert all(g >= 1.0 for g in worth.values())
    assert max(worth, key=worth.get) == "16"
    assert 8.0 < worth["16"] < 15.0
