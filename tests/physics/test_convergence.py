"""Free energies from ever more of the frames: equal to fits of these frames alone."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import vardi
from vardi.mbar import MBAR, convergence, kT


@pytest.fixture(scope="module")
def design():
    return vardi.datasets.harmonic_oscillators(states=3, rows_per_state=60, seed=0)


@pytest.fixture(scope="module")
def fit(design):
    return vardi.debias_matrix(design.omega, design.source, log=True)


def test_each_part_is_the_fit_of_its_frames(design, fit):
    found = convergence(fit, ("0", "2"), [0.25, 0.5, 1])
    place = np.tile(np.arange(60), 3)
    for part, forward, backward in zip(found.fractions, found.forward, found.backward, strict=True):
        for rows, estimate in ((place < 60 * part, forward), (place >= 60 - 60 * part, backward)):
            alone = vardi.debias_matrix(design.omega[rows], design.source[rows], log=True).log_ratio("0", "2")
            assert estimate.value == pytest.approx(alone.value, abs=1e-10)
            assert estimate.stderr == pytest.approx(alone.stderr, rel=1e-8)
    assert found.forward[-1].value == fit.log_ratio("0", "2").value == found.backward[-1].value
    assert found.states == ("0", "2")


def test_time_is_the_order_of_the_series():
    design = vardi.datasets.harmonic_oscillators(states=3, rows_per_state=800, seed=0)
    shuffled = np.random.default_rng(0).permutation(len(design.source))
    time = np.tile(np.arange(800), 3)
    plain = vardi.debias_matrix(design.omega, design.source, log=True, series=True)
    mixed = vardi.debias_matrix(design.omega[shuffled], design.source[shuffled], log=True, series=time[shuffled])
    first, second = (convergence(one, fractions=[0.3, 1]) for one in (plain, mixed))
    assert first.forward[0].value == pytest.approx(second.forward[0].value, abs=1e-10)
    assert first.backward[0].stderr == pytest.approx(second.backward[0].stderr, rel=1e-8)


def test_an_mbar_is_taken_and_the_table_prints(design):
    mbar = MBAR(-design.omega.T, [60, 60, 60])
    found = convergence(mbar)
    assert len(found.forward) == 10
    lines = str(found).splitlines()
    assert lines[0] == "f(2) - f(0), in kT"
    assert lines[1].split() == ["frames", "forward", "±", "backward", "±"]
    assert lines[-1].startswith("100%")
    assert 0.1 <= found.settled <= 1.0


def test_a_drift_shows():
    """A simulation that starts far off: forward estimates drift, backward ones do not."""
    rng = np.random.default_rng(0)
    left, right = rng.normal(-0.5, 1, 2000), rng.normal(0.5, 1, 2000)
    right[:400] += 1.5
    fit = vardi.debias({"left": left, "right": right}, {"left": "exp(-x/2)", "right": "exp(x/2)"})
    found = convergence(fit, fractions=[0.2, 0.5, 1])
    assert abs(found.forward[0].value) > 5 * found.forward[0].stderr
    assert abs(found.backward[0].value) < 3 * found.backward[0].stderr
    assert found.settled == 1.0


def test_what_does_not_fit_is_refused(fit):
    with pytest.raises(vardi.MismatchError, match=r"The fractions are \[0.5, 0.2\], but they must increase from"):
        convergence(fit, fractions=[0.5, 0.2])
    with pytest.raises(vardi.MismatchError, match=r"states= is \('0',\), but a difference is between two states. Give"):
        convergence(fit, states=("0",))
    lazy = vardi.debias({"a": pl.LazyFrame({"x": [1.0, 2.0]}), "b": pl.LazyFrame({"x": [1.0]})}, {"a": 1, "b": 1})
    with pytest.raises(vardi.NeedsRowsError, match="Convergence in time needs rows in memory"):
        convergence(lazy)


def test_units_of_energy():
    assert kT("kT", 300) == 1.0
    assert kT("kJ/mol", 300) == pytest.approx(0.00831446261815324 * 300)
    assert kT("kJ/mol", 298.15) / kT("kcal/mol", 298.15) == pytest.approx(4.184)
    with pytest.raises(vardi.MismatchError, match="There is no unit 'kj/mol'. Did you mean 'kJ/mol'"):
        kT("kj/mol", 300)
    with pytest.raises(vardi.MismatchError, match="The temperature is -1, but it must be positive. Give"):
        kT("kJ/mol", -1)
