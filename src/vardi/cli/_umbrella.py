"""``vardi umbrella``: umbrella windows in, a free energy profile with errors out."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import typer
from rich.text import Text

from vardi._estimate.intervals import RARE
from vardi._facts.summary import DOUBT
from vardi._files import whole_file
from vardi._tables import Note, Part, Table
from vardi.cli._command import Force, Json, Quiet, guarded
from vardi.cli._console import progress, show, show_files, show_json, show_parts, warnings_as_lines
from vardi.cli._outputs import require_free, writing
from vardi.errors import OutputError, StudyError

if TYPE_CHECKING:
    from vardi.mbar import Profile

COLUMN_HELP = "The column of the coordinate, by name or by number from 1; give it twice for two coordinates."
METADATA_HELP = "Lines of: path, centre(s), spring constant(s), optional correlation time and temperature."
Unit = Literal["kT", "kJ/mol", "kcal/mol"]


@guarded
def umbrella(
    metadata: Annotated[Path, typer.Argument(metavar="METADATA", help=METADATA_HELP)],
    unit: Annotated[Unit, typer.Option(metavar="UNIT", help="Of energies: kT, kJ/mol or kcal/mol.")],
    temperature: Annotated[float | None, typer.Option(min=1e-9, metavar="K", help="In kelvin.")] = None,
    column: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help=COLUMN_HELP)] = None,
    energy: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Energies without restraint, for several temperatures.")
    ] = None,
    period: Annotated[
        list[float] | None, typer.Option(metavar="P", help="The period of each coordinate, inf for none.")
    ] = None,
    per_radian: Annotated[
        bool, typer.Option("--per-radian", help="Spring constants are per square radian, coordinates in degrees.")
    ] = False,
    bins: Annotated[int, typer.Option(min=1, metavar="N", help="How many bins each coordinate has.")] = 50,
    ranges: Annotated[
        list[str] | None, typer.Option("--range", metavar="LOW:HIGH", help="The bins of each coordinate.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The profile: .csv, .parquet or .jsonl.")
    ] = Path("profile.csv"),
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="A picture of it: .png, .pdf or .svg.")] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Combine umbrella windows into a free energy profile, with errors that allow for correlation in time."""
    from vardi.mbar import Umbrella, inefficiencies

    targets = {"profile": output, **({} if picture is None else {"picture": picture})}
    _require(targets, force=force)
    columns, ends = column or ["2"], [_ends(text) for text in ranges or ()]
    for option, given in (("--period", period), ("--range", ranges)):
        if given and len(given) != len(columns):
            raise StudyError(f"{option} is given {len(given)} times for {len(columns)} coordinates. Give it for each.")
    with warnings_as_lines() as messages, progress(hidden=as_json or quiet) as stage:
        stage("Reading the windows")
        windows = Umbrella.read(metadata, unit, temperature, columns, energy, period or (), per_radian)
        stage("Solving")
        fit = windows.fit()
        stage("Estimating errors")
        profile = windows.profile(fit, bins, ends)
        with ExitStack() as stack:  # all are moved into place when all are written
            places = [stack.enter_context(whole_file(path, overwrite=force)) for path in targets.values()]
            for (what, target), place in zip(targets.items(), places, strict=True):
                with writing(target, place):
                    (_write if what == "profile" else _draw)(profile, place)
    worth = inefficiencies(fit)
    doubts = [f"Errors rest on few frames: {fit.bridge}. {windows.between(fit.bridge.cut[0])}"]
    doubts = doubts if fit.bridge.rows < RARE else []
    rows = [
        (name, _point(windows.centres[k]), int(size), int(windows.superseded[k]), worth[name])
        for k, (name, size) in enumerate(fit.sizes.items())
    ]
    heading = ("window", "centre", "frames", "run again", "worth one")
    if as_json:
        listed = [dict(zip(heading, row, strict=True)) for row in rows]
        facts = {"metadata": metadata, "unit": unit, "temperature": windows.temperature, "windows": listed}
        bridge = {"rows": fit.bridge.rows, "sides": fit.bridge.cut}
        show_json({**facts, "bridge": bridge, "doubts": doubts, "files": targets, "warnings": messages})
    elif not quiet:
        cells = [(row[0], row[1], f"{row[2]:,}", f"{row[3]:,}", f"{row[4]:.1f}") for row in rows]
        parts: list[Part] = [Note(DOUBT, doubt) for doubt in doubts]
        show(Text(f"{metadata.name}: {len(rows)} windows, {len(fit):,} frames, {windows.temperature:g} K", "bold"), "")
        show_parts([*parts, Table(heading, cells, of="windows"), *_extremes(profile)])
        show_files(targets)


def _require(targets: dict[str, Path], *, force: bool) -> None:
    """Refuse outputs that could not be written, before any work."""
    from vardi.study._outputs import require_suffix

    for what, path in targets.items():
        require_free(path, force=force)
        if what == "profile":
            require_suffix(path)
        elif path.suffix.lower() not in (".png", ".pdf", ".svg"):
            raise OutputError(f"{path} is no picture. End its name in .png, .pdf or .svg.", path=str(path))


def _ends(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        raise StudyError(f"--range {text!r} is not of the form LOW:HIGH. Give it as in: --range -180:180") from None
    return low, high


def _write(profile: Profile, path: Path) -> None:
    """Write a line for each bin; free energies and errors are empty where no frame is."""
    import polars

    from vardi.study._outputs import write_frame

    numbers = {f"free_energy_{profile.unit}": profile.f, f"error_{profile.unit}": profile.df}
    known = {name: polars.Series(np.where(np.isfinite(x), x, np.nan)).fill_nan(None) for name, x in numbers.items()}
    coordinates = dict(zip(profile.coordinates, profile.middles.T, strict=True))
    write_frame(polars.DataFrame({**coordinates, **known, "frames": profile.frames}), path)


def _draw(profile: Profile, path: Path) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Pictures need matplotlib: pip install 'vardi[plot]'") from error
    from vardi.plots import ProfileDisplay

    figure = Figure(layout="constrained")
    ProfileDisplay(profile).plot(ax=figure.subplots())
    figure.savefig(path)


def _extremes(profile: Profile) -> list[Part]:
    """Return where the profile is lowest and highest, and how many bins have no frame."""
    there = np.flatnonzero(np.isfinite(profile.f))
    low, high = there[[profile.f[there].argmin(), profile.f[there].argmax()]]
    text = f"Lowest at {' and '.join(profile.coordinates)} = {_point(profile.middles[low])}; highest at "
    text += f"{_point(profile.middles[high])}, by {profile.f[high]:.3g} ± {profile.df[high]:.2g} {profile.unit}."
    empty = len(profile.f) - len(there)
    return [text, *([f"{empty:,} of {len(profile.f):,} bins have no frame."] if empty else [])]


def _point(place: np.ndarray) -> str:
    return ", ".join(f"{one:.4g}" for one in place.tolist())
