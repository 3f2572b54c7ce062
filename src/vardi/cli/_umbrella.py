"""``vardi umbrella``: umbrella windows in, a free energy profile with errors out."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

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
OUTPUT_HELP = "The profile: .csv, .parquet or .jsonl."
RADIAN_HELP = "Spring constants are per square radian, coordinates in degrees."
RANGE_HELP = "Where the bins begin and end; for each coordinate."
PICTURES = (".png", ".pdf", ".svg")
HEADING = ("window", "centre", "frames", "run again", "worth one")
Unit = Literal["kT", "kJ/mol", "kcal/mol"]


@guarded
def umbrella(
    metadata: Annotated[Path, typer.Argument(metavar="METADATA", help=METADATA_HELP)],
    unit: Annotated[Unit, typer.Option(metavar="UNIT", help="Of energies: kT, kJ/mol or kcal/mol.")],
    temperature: Annotated[float | None, typer.Option(min=1e-9, metavar="K", help="In kelvin.")] = None,
    column: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help=COLUMN_HELP)] = None,
    energy: Annotated[str | None, typer.Option(metavar="COLUMN", help="Of energies without restraint.")] = None,
    period: Annotated[list[float] | None, typer.Option(metavar="P", help="Of each coordinate; inf for none.")] = None,
    per_radian: Annotated[bool, typer.Option("--per-radian", help=RADIAN_HELP)] = False,
    bins: Annotated[int, typer.Option(min=1, metavar="N", help="How many bins each coordinate has.")] = 50,
    ranges: Annotated[list[str] | None, typer.Option("--range", metavar="LOW:HIGH", help=RANGE_HELP)] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help=OUTPUT_HELP)] = Path("profile.csv"),
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="A picture: .png, .pdf or .svg.")] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Combine umbrella windows into a free energy profile, with errors that allow for correlation in time."""
    import numpy as np

    from vardi._estimate.intervals import RARE
    from vardi._facts.summary import DOUBT
    from vardi.mbar import Umbrella, inefficiencies
    from vardi.mbar.umbrella import point
    from vardi.plots import ProfileDisplay
    from vardi.study._outputs import require_suffix

    targets = {"profile": output, **({} if picture is None else {"picture": picture})}
    require_suffix(output)
    for path in targets.values():
        require_free(path, force=force)
    if picture is not None and picture.suffix.lower() not in PICTURES:
        raise OutputError(f"{picture} is no picture. End its name in {', '.join(PICTURES)}.", path=str(picture))
    columns, ends = column or ["2"], [_ends(text) for text in ranges or ()]
    for option, given in (("--period", period), ("--range", ranges)):
        if given and len(given) != len(columns):
            raise StudyError(f"{option} is given {len(given)} times for {len(columns)} coordinates. Give it for each.")
    with warnings_as_lines() as messages, progress(hidden=as_json or quiet) as stage:
        stage("Reading the windows")
        windows = Umbrella.read(metadata, unit, temperature, columns, energy, period or (), per_radian)
        stage("Solving")
        fit = windows.fit()
        profile = windows.profile(fit, bins, ends)
        with ExitStack() as stack:  # all are moved into place when all are written
            places = [stack.enter_context(whole_file(path, overwrite=force)) for path in targets.values()]
            for (what, target), place in zip(targets.items(), places, strict=True):
                with writing(target, place):
                    if what == "profile":
                        _write(profile, place)
                    else:
                        ProfileDisplay(profile).plot().figure_.canvas.print_figure(place)
    worth, bridge = inefficiencies(fit), fit.bridge
    few = f"Errors rest on few frames: {bridge}. {windows.between(bridge.cut[0])}" if bridge.rows < RARE else ""
    rows = [
        (name, point(windows.centres[k]), int(size), int(windows.superseded[k]), round(worth[name], 1))
        for k, (name, size) in enumerate(fit.sizes.items())
    ]
    if as_json:
        listed = [dict(zip(HEADING, row, strict=True)) for row in rows]
        facts = {"metadata": metadata, "unit": unit, "temperature": windows.temperature, "windows": listed}
        show_json({**facts, "bridge": bridge.rows, "doubt": few, "files": targets, "warnings": messages})
    elif not quiet:
        show(Text(f"{metadata.name}: {len(rows)} windows, {len(fit):,} frames, {windows.temperature:g} K", "bold"), "")
        doubt: list[Part] = [Note(DOUBT, few)] if few else []
        low, high = np.nanargmin(profile.f), np.where(np.isfinite(profile.f), profile.f, -np.inf).argmax()
        text = (
            f"Lowest at {' and '.join(profile.coordinates)} = {point(profile.middles[low])}; highest at "
            f"{point(profile.middles[high])}, by {profile.f[high]:.3g} ± {profile.df[high]:.2g} {unit}."
        )
        show_parts([*doubt, Table(HEADING, rows, lambda row: [str(cell) for cell in row], "windows"), text])
        show_files(targets)


def _ends(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        raise StudyError(f"--range {text!r} is not of the form LOW:HIGH. Give it as in: --range -180:180") from None
    return low, high


def _write(profile: Profile, path: Path) -> None:
    """Write a line for each bin; free energies and errors are empty where no frame is."""
    import numpy as np
    import polars

    from vardi.study._outputs import write_frame

    numbers = {f"free_energy_{profile.unit}": profile.f, f"error_{profile.unit}": profile.df}
    known = {name: polars.Series(np.where(np.isfinite(x), x, np.nan)).fill_nan(None) for name, x in numbers.items()}
    coordinates = dict(zip(profile.coordinates, profile.middles.T, strict=True))
    write_frame(polars.DataFrame({**coordinates, **known, "frames": profile.frames}), path)
