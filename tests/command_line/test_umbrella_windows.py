"""``vardi umbrella``: windows simulated over a known profile, in the files that programs write, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from shell import invoke as run
from textbook import PUBLISHED, read
from umbrellas import CENTRES, FRAMES, KCAL, SPRINGS, deviations, double_well, simulated, torsion, valley

import vardi
from vardi.errors import NotIdentifiableError, StudyError
from vardi.mbar import Umbrella, kT


def require_truth(profile, potential, thermal):
    """Require that no bin is far from the truth; their errors share that of the reference, and tests/slow counts."""
    assert np.abs(deviations(profile, potential, thermal)).max() < 3.5


@pytest.fixture
def grossfield(tmp_path, monkeypatch):
    """Windows over a double well, in Grossfield's format: with a correlation time and a temperature."""
    monkeypatch.chdir(tmp_path)
    runs = simulated(double_well, CENTRES, SPRINGS, 1 / KCAL)
    lines = ["# path centre spring correlation temperature", ""]
    for k, (run_, centre) in enumerate(zip(runs, CENTRES[:, 0], strict=True)):
        np.savetxt(f"window{k}.dat", np.column_stack([np.arange(FRAMES), run_]), header="time x")
        lines.append(f"window{k}.dat {centre:g} 12 5 300")
    Path("metadata.dat").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_windows_in_grossfields_format_give_the_known_profile(grossfield):
    windows = Umbrella.read("metadata.dat", "kcal/mol")
    profile = windows.profile(windows.fit(), 40, [(-1.8, 1.8)])
    require_truth(profile, double_well, KCAL)
    options = ["--unit", "kcal/mol", "--bins", 40, "--range", "-1.8:1.8", "--picture", "profile.png"]
    done = run("umbrella", "metadata.dat", *options)
    assert done.exit_code == 0
    table = pl.read_csv("profile.csv")
    assert table.columns == ["column 2", "free_energy_kcal/mol", "error_kcal/mol", "frames"]
    np.testing.assert_allclose(table["free_energy_kcal/mol"].to_numpy(), profile.f, atol=1e-12)
    np.testing.assert_allclose(table["error_kcal/mol"].to_numpy(), profile.df, atol=1e-12)
    assert table["frames"].sum() == ((windows.x >= -1.8) & (windows.x < 1.8)).sum()
    assert Path("profile.png").read_bytes().startswith(b"\x89PNG")
    assert done.stdout.startswith("metadata.dat: 9 windows, 27,000 frames, 300 K\n")
    assert "Lowest at column 2 = " in done.stdout
    assert run("umbrella", "metadata.dat", *options).exit_code == 3  # not overwritten
    told = json.loads(run("umbrella", "metadata.dat", *options, "--force", "--json").stdout)
    assert [one["window"] for one in told["windows"]] == [f"window{k}.dat" for k in range(9)]
    assert all(1 < one["worth one"] < 50 for one in told["windows"])
    assert told["doubt"] == ""


def test_files_of_plumed_are_read_with_their_names_periods_and_restarts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    centres = np.linspace(-np.pi, np.pi, 12, endpoint=False)[:, None]
    thermal = kT("kJ/mol", 310)

    def scaled(x):
        return thermal * torsion(x)

    runs = simulated(scaled, centres, np.full((12, 1), 30.0), 1 / thermal, seed=1, period=2 * np.pi)
    header = "#! FIELDS time psi phi restraint.bias\n#! SET min_phi -pi\n#! SET max_phi pi\n"
    lines = []
    for k, (run_, centre) in enumerate(zip(runs, centres[:, 0], strict=True)):
        phi = (run_[:, 0] + np.pi) % (2 * np.pi) - np.pi
        rows = [f"{0.2 * t:.1f} {-t} {x:.8f} {t % 7}\n" for t, x in enumerate(phi)]
        stray = [f"{0.2 * t:.1f} 0 {-3 + t % 6} 0\n" for t in range(1500, 1600)]  # run again after a restart
        Path(f"run{k}").mkdir()
        Path(f"run{k}/COLVAR").write_text("".join([header, *rows[:1500], *stray, header, *rows[1500:]]))
        lines.append(f"run{k}/COLVAR {centre:.6f} 30\n")
    Path("metadata.dat").write_text("".join(lines))
    windows = Umbrella.read("metadata.dat", "kJ/mol", 310, ["phi"])
    assert windows.superseded.tolist() == [100] * 12
    assert windows.periods == pytest.approx([2 * np.pi])
    profile = windows.profile(windows.fit(), 36)
    require_truth(profile, scaled, thermal)
    done = run("umbrella", "metadata.dat", "--unit", "kJ/mol", "--temperature", 310, "--column", "phi", "--bins", 36)
    assert done.exit_code == 0
    assert pl.read_csv("profile.csv").columns[0] == "phi"
    first = next(line.split() for line in done.stdout.splitlines() if line.startswith("run0"))
    assert first[:4] == ["run0/COLVAR", "-3.142", "3000", "100"]


@pytest.mark.long
def test_two_coordinates_give_a_surface(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    centres = np.array([(x, y) for x in (-1.5, -0.5, 0.5, 1.5) for y in (-1.5, -0.5, 0.5, 1.5)])
    springs = np.tile([3.0, 4.0], (16, 1))
    lines = []
    for k, run_ in enumerate(simulated(valley, centres, springs, 1.0, seed=2)):
        np.savetxt(f"window{k}.dat", np.column_stack([np.arange(FRAMES), run_]))
        lines.append(f"window{k}.dat {centres[k, 0]} {centres[k, 1]} 3 4\n")
    Path("metadata.dat").write_text("".join(lines))
    both = ["--column", 2, "--column", 3, "--range", "-1.6:1.6", "--range", "-1.6:1.6"]
    done = run(
        "umbrella", "metadata.dat", "--unit", "kT", "--temperature", 300, *both, "--bins", 8, "--picture", "a.svg"
    )
    assert done.exit_code == 0
    windows = Umbrella.read("metadata.dat", "kT", 300, ["2", "3"])
    profile = windows.profile(windows.fit(), 8, [(-1.6, 1.6)] * 2)
    require_truth(profile, valley, 1.0)
    table = pl.read_csv("profile.csv")
    assert table.columns[:2] == ["column 2", "column 3"]
    np.testing.assert_allclose(table["free_energy_kT"].to_numpy(), profile.f, atol=1e-12)


def test_windows_at_several_temperatures_need_energies_and_give_the_profile_at_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kelvin = np.where(np.arange(9) % 2, 300.0, 400.0)
    thermal = np.array([kT("kcal/mol", one) for one in kelvin])
    lines = []
    for k, run_ in enumerate(simulated(double_well, CENTRES, SPRINGS, 1 / thermal, seed=3)):
        np.savetxt(f"window{k}.dat", np.column_stack([np.arange(FRAMES), run_, double_well(run_)]))
        lines.append(f"window{k}.dat {CENTRES[k, 0]:g} 12 1 {kelvin[k]:g}\n")
    Path("metadata.dat").write_text("".join(lines))
    with pytest.raises(StudyError, match="the windows are at 300 to 400 K. Give the column of energies"):
        Umbrella.read("metadata.dat", "kcal/mol", 300)
    windows = Umbrella.read("metadata.dat", "kcal/mol", 300, energy="3")
    profile = windows.profile(windows.fit(), 30, [(-1.8, 1.8)])
    require_truth(profile, double_well, KCAL)


@pytest.mark.skipif(not (PUBLISHED / "umbrella_pmf_reference.csv").exists(), reason="the published profile is not here")
def test_the_published_profile_comes_out(tmp_path, monkeypatch):
    """Spring constants per square radian, coordinates in degrees."""
    monkeypatch.chdir(tmp_path)
    frames, windows = read("published", "umbrella frames"), read("published", "umbrella windows")
    lines = []
    for name, own in frames.groupby("window"):
        own[["time_ps", "chi_deg"]].to_csv(f"prod{name}.dat", sep=" ", header=False, index=False)
        window = windows[windows["window"] == name].iloc[0]
        lines.append(f"prod{name}.dat {window['center_deg']} {window['k_kJ_mol_rad2']}\n")
    Path("metadata.dat").write_text("".join(lines))
    options = ["--unit", "kJ/mol", "--temperature", 300, "--per-radian", "--period", 360, "--bins", 36]
    assert run("umbrella", "metadata.dat", *options).exit_code == 0
    table, expected = (
        pl.read_csv("profile.csv").to_numpy(),
        pl.read_csv(PUBLISHED / "umbrella_pmf_reference.csv").to_numpy(),
    )
    np.testing.assert_allclose(table[:, 0], expected[:, 0])
    apart, error = (
        table[:, 1] / kT("kJ/mol", 300) - expected[:, 1],
        np.hypot(table[:, 2] / kT("kJ/mol", 300), expected[:, 2]),
    )
    z = apart[error > 0] / error[error > 0]
    assert len(z) == 35
    assert np.abs(z).max() < 2.0
    assert np.sqrt(np.mean(z**2)) < 1.0


# ---------------------------------------------------------------- what is refused

GOOD = "".join(f"{t} {np.sin(t):.3f} {t % 5}\n" for t in range(200))
REFUSED = [
    ("missing.dat 0 1\n", {}, "line 1: missing.dat cannot be read: No such file or directory."),
    ("a.dat 0\n", {}, "line 1: It has 1 numbers, but 1 centre and 1 spring constant are needed; a correlation time"),
    ("a.dat 0 one\n", {}, "line 1: could not convert string to float: 'one'"),
    ("\n# nothing\n", {}, "it lists no window."),
    ("a.dat 0 1\n", {"temperature": None}, "some windows have no temperature. Give one for them all"),
    ("a.dat 0 1\n", {"columns": ["4"]}, "line 1: a.dat has no column 4. It has 3 columns."),
    ("named.dat 0 1\n", {"columns": ["phj"]}, "has no column phj. Its columns are time, phi, psi. Did you mean 'phi'?"),
    ("torn.dat 0 1\n", {}, "line 1: torn.dat is not a table of numbers: "),
    ("empty.dat 0 1\n", {}, "line 1: empty.dat has no frames."),
    ("nan.dat 0 1\n", {}, "line 1: nan.dat has a time or a value that is not a number."),
    ("wide.dat 0 1\n", {}, "line 1: wide.dat names 4 columns and has 3."),
    ("twice.dat 0 1\n", {}, "line 1: twice.dat changes its columns at a restart."),
]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (
        ("a.dat", GOOD),
        ("named.dat", "#! FIELDS time phi psi\n" + GOOD),
        ("torn.dat", GOOD + "200 0."),
        ("empty.dat", "# time x\n"),
        ("nan.dat", GOOD + "200 nan 0\n"),
        ("wide.dat", "#! FIELDS time phi psi more\n" + GOOD),
        ("twice.dat", "#! FIELDS time phi psi\n" + GOOD + "#! FIELDS time psi phi\n" + GOOD),
    ):
        Path(name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(("metadata", "options", "message"), REFUSED)
def test_what_is_wrong_is_said_with_its_line(files, metadata, options, message):
    Path("metadata.dat").write_text(metadata)
    with pytest.raises(StudyError) as caught:
        Umbrella.read("metadata.dat", **{"unit": "kT", "temperature": 300, **options})
    assert message in str(caught.value)
    assert len(caught.value.problems) >= 1


def test_all_that_is_wrong_is_said_at_once_and_nothing_is_written(files):
    Path("metadata.dat").write_text("missing.dat 0 1\na.dat 0 1\na.dat 1\n")
    done = run("umbrella", "metadata.dat", "--unit", "kT", "--temperature", 300)
    assert done.exit_code == 2
    assert "line 1: missing.dat cannot be read" in done.stderr.replace("\n    ", " ")
    assert "line 3: It has 1 numbers" in done.stderr
    assert not Path("profile.csv").exists()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--range", "0-1"], 2, "--range '0-1' is not of the form LOW:HIGH."),
        (["--period", "6", "--period", "6"], 2, "--period is given 2 times for 1 coordinates."),
        (["--picture", "a.txt"], 3, "a.txt is no picture. End its name in .png, .pdf, .svg."),
        (["-o", "a.txt"], 3, "a.txt has no suffix that names a kind of file."),
    ],
)
def test_options_that_cannot_be_used(files, options, code, message):
    Path("metadata.dat").write_text("a.dat 0 1\n")
    done = run("umbrella", "metadata.dat", "--unit", "kT", "--temperature", 300, *options)
    assert (done.exit_code, message in done.stderr) == (code, True)


def chains(folder, places, n=400):
    """Write windows of spring constant 100 kT around some places, over a flat profile."""
    rng = np.random.default_rng(0)
    for k, place in enumerate(places):
        np.savetxt(folder / f"w{k}.dat", np.column_stack([np.arange(n), rng.normal(place, 0.1, n)]))
    text = "".join(f"w{k}.dat {place} 100\n" for k, place in enumerate(places))
    (folder / "metadata.dat").write_text(text)


@pytest.mark.parametrize("gap", [1.2, 8.0])
def test_windows_that_do_not_overlap_are_refused_with_where_one_would_help(tmp_path, monkeypatch, gap):
    monkeypatch.chdir(tmp_path)
    chains(tmp_path, [0.0, 0.2, 0.2 + gap, 0.4 + gap])
    windows = Umbrella.read("metadata.dat", "kT", 300)
    with pytest.raises(NotIdentifiableError, match="The windows do not overlap: ") as caught:
        windows.fit()
    text = str(caught.value)
    assert "w0.dat to w1.dat (2 windows) and w2.dat to w3.dat (2 windows)" in text
    assert "The nearest are w1.dat, with frames around 0.19" in text or "around 0.2" in text
    assert float(text.split("Run a window around ")[1].rstrip(".")) == pytest.approx(0.2 + gap / 2, abs=0.02)
    done = run("umbrella", "metadata.dat", "--unit", "kT", "--temperature", 300)
    assert (done.exit_code, "Run a window around" in " ".join(done.stderr.split())) == (1, True)


def test_thin_overlap_is_a_doubt_that_says_where_a_window_would_help(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    chains(tmp_path, [0.0, 0.55])
    done = run("umbrella", "metadata.dat", "--unit", "kT", "--temperature", 300)
    assert done.exit_code == 0
    said = " ".join(done.stdout.split())
    assert "doubt: Errors rest on few frames: " in said
    assert "Run a window around 0.27" in said


def test_a_profile_has_a_unit_and_no_number_where_no_frame_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    chains(tmp_path, [0.0, 0.2])
    options = ["--unit", "kT", "--temperature", 300, "--range", "-1:1", "--bins", 10]
    done = run("umbrella", "metadata.dat", *options)
    table = pl.read_csv("profile.csv")
    empty = table["frames"] == 0
    assert empty.any()
    assert (
        table.filter(empty)["free_energy_kT"].null_count()
        == table.filter(empty)["error_kT"].null_count()
        == empty.sum()
    )
    assert "highest at 0.5, by 2.8 ± " in done.stdout  # not where there is no frame


def test_a_picture_has_the_unit_and_the_names_of_coordinates(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    chains(tmp_path, [0.0, 0.2])
    windows = Umbrella.read("metadata.dat", "kT", 300)
    drawn = vardi.plots.ProfileDisplay(windows.profile(windows.fit(), 5)).plot()
    assert (drawn.ax_.get_xlabel(), drawn.ax_.get_ylabel()) == ("column 2", "free energy (kT)")
