"""How many bins of a profile from files of umbrella windows lie within two errors of the truth: 40 repeats."""

from __future__ import annotations

import numpy as np
import pytest
from umbrellas import CENTRES, FRAMES, KCAL, SPRINGS, deviations, double_well, simulated, torsion

from vardi.mbar import Umbrella, kT

REPEATS = 40
THERMAL = kT("kJ/mol", 310)


def scaled(x):
    return THERMAL * torsion(x)


def grossfield(seed):
    runs = simulated(double_well, CENTRES, SPRINGS, 1 / KCAL, seed=seed)
    return runs, CENTRES, 12, 300, "kcal/mol", {}, (40, [(-1.8, 1.8)]), (double_well, KCAL)


def plumed(seed):
    centres = np.linspace(-np.pi, np.pi, 12, endpoint=False)[:, None]
    runs = simulated(scaled, centres, np.full((12, 1), 30.0), 1 / THERMAL, seed=seed, period=2 * np.pi)
    return runs, centres, 30, 310, "kJ/mol", {"periods": [2 * np.pi]}, (36,), (scaled, THERMAL)


@pytest.mark.parametrize("made", [grossfield, plumed])
def test_two_errors_hold_95_percent_of_the_bins(tmp_path, made):
    within = []
    for seed in range(REPEATS):
        runs, centres, spring, temperature, unit, options, bins, known = made(seed)
        for k, run in enumerate(runs):
            np.savetxt(tmp_path / f"w{k}", np.column_stack([np.arange(FRAMES), run]))
        lines = [f"w{k} {centre:.9f} {spring}\n" for k, centre in enumerate(centres[:, 0])]
        (tmp_path / "metadata.dat").write_text("".join(lines))
        windows = Umbrella.read(tmp_path / "metadata.dat", unit, temperature, **options)
        within.append(np.mean(np.abs(deviations(windows.profile(windows.fit(), *bins), *known)) < 2))
    print(np.mean(within), np.std(within) / np.sqrt(REPEATS))
    assert np.mean(within) > 0.95 - 2 * np.std(within) / np.sqrt(REPEATS)
