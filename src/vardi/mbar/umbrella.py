r"""Umbrella windows from the files that simulations write, and the free energy profile along their coordinates.

The restraint of window k is :math:`V_k(x) = \frac12 \sum_d k_{kd} (x_d - c_{kd})^2`, with the nearest image of a
periodic coordinate, so relative to the state without restraint at :math:`1 / \beta` the window has the bias

.. math:: \log \omega_k(x) = -\beta_k V_k(x) - (\beta_k - \beta) U(x).

Energies U matter only where windows differ in temperature.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vardi._fit.debias import debias_matrix
from vardi._fit.sample import DebiasedSample
from vardi._types import Floats, Integers
from vardi.errors import NotIdentifiableError, StudyError, suggest
from vardi.mbar._surfaces import Histogram
from vardi.mbar._units import Unit, kT
from vardi.mbar.fes import FES


@dataclass(frozen=True, eq=False)
class Profile:
    """A free energy profile, or a surface of two coordinates, in bins.

    Attributes
    ----------
    coordinates : tuple of str
        What the coordinates are called.
    edges : tuple of ndarray
        The edges of the bins of each.
    middles : ndarray of shape (m, D)
        The middle of each bin, the last coordinate changing fastest.
    f, df : ndarray of shape (m,)
        Free energies from the lowest on, and their standard errors.
    frames : ndarray of int
        How many frames are in each bin.
    unit : str
        Of the free energies.
    """

    coordinates: tuple[str, ...]
    edges: tuple[Floats, ...]
    middles: Floats
    f: Floats
    df: Floats
    frames: Integers
    unit: Unit


@dataclass(frozen=True, eq=False)
class Umbrella:
    r"""Frames of umbrella windows.

    Attributes
    ----------
    names : tuple of str
        The file of each window, as the metadata names it.
    centres, springs : ndarray of shape (K, D)
        Of the restraints.
    temperatures : ndarray of shape (K,)
        Of the windows, in kelvin.
    temperature : float
        Of the profile.
    coordinates : tuple of str
        What the coordinates are called.
    periods : ndarray of shape (D,)
        Their periods, infinite where there is none.
    x : ndarray of shape (n, D)
        The coordinates of each frame.
    energies : ndarray of shape (n,)
        Its energy without restraint; 0 if none was read.
    source : ndarray of int
        Its window.
    superseded : ndarray of int
        How many frames of each window are left out, because a restart ran them again.
    unit : str
        Of energies.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> import vardi
    >>> rng = np.random.default_rng(0)
    >>> with TemporaryDirectory() as folder:
    ...     for name, centre in (("left", -0.5), ("right", 0.5)):  # of a flat profile
    ...         np.savetxt(Path(folder, name), np.column_stack([np.arange(1000), rng.normal(centre, 0.5, 1000)]))
    ...     _ = Path(folder, "metadata.dat").write_text("left -0.5 4\nright 0.5 4\n")
    ...     umbrella = vardi.mbar.Umbrella.read(Path(folder, "metadata.dat"), unit="kT", temperature=300)
    >>> profile = umbrella.profile(umbrella.fit(), bins=4, ranges=[(-1, 1)])
    >>> profile.f.round(2) + 0.0, profile.df.round(2)
    (array([0.  , 0.1 , 0.17, 0.16]), array([0.  , 0.07, 0.09, 0.1 ]))
    """

    names: tuple[str, ...]
    centres: Floats
    springs: Floats
    temperatures: Floats
    temperature: float
    coordinates: tuple[str, ...]
    periods: Floats
    x: Floats
    energies: Floats
    source: Integers
    superseded: Integers
    unit: Unit

    @classmethod
    def read(
        cls,
        metadata: str | Path,
        unit: Unit,
        temperature: float | None = None,
        columns: Sequence[str] = ("2",),
        energy: str | None = None,
        periods: Sequence[float] = (),
        per_radian: bool = False,
    ) -> Umbrella:
        """Read the windows that a metadata file lists, in the format of Grossfield's WHAM.

        A line is ``path centre... spring... [correlation time] [temperature]``, with a centre and a spring constant
        for each coordinate, and paths from the folder of the metadata. Files of frames have a column of times first;
        those of PLUMED name their columns, ``#! FIELDS``. Where times go back a run was restarted, and frames that it
        ran again are left out. Correlation times are not used: errors measure the correlation of frames.

        Parameters
        ----------
        metadata : path
            The file.
        unit : {"kT", "kJ/mol", "kcal/mol"}
            Of energies, in spring constants and in the profile.
        temperature : float, optional
            In kelvin, of the profile and of windows whose line gives none; that of all windows by default.
        columns : sequence of str
            The column of each coordinate, by name or by number from 1.
        energy : str, optional
            The column of energies without restraint, needed where windows differ in temperature.
        periods : sequence of float
            The period of each coordinate, ``inf`` for none; that of PLUMED's ``min_`` and ``max_`` by default.
        per_radian : bool
            Whether spring constants are per square radian though coordinates are in degrees, as in GROMACS.
        """
        path = Path(metadata)
        dims, chosen = len(columns), [*columns, *([] if energy is None else [energy])]
        problems: list[str] = []
        names, numbers, runs = [], [], []
        for number, line in enumerate(_text(path).splitlines(), 1):
            name, *fields = line.split("#")[0].split() or [""]
            if not name:
                continue
            try:
                values = [float(field) for field in fields]
                if not 2 * dims <= len(values) <= 2 * dims + 2:
                    each = f"{dims} centre{'s' * (dims > 1)} and {dims} spring constant{'s' * (dims > 1)}"
                    optional = "a correlation time and a temperature may follow"
                    raise StudyError(f"It has {len(values)} numbers, but {each} are needed; {optional}.")
                runs.append(_frames(path.parent / name, chosen))
            except ValueError as error:
                problems.append(f"line {number}: {error}")
                continue
            names.append(name if name not in names else f"{name} (line {number})")
            own = values[2 * dims + 1] if len(values) == 2 * dims + 2 else temperature
            numbers.append([*values[: 2 * dims], math.nan if own is None else own])
        if not names and not problems:
            problems.append("it lists no window.")
        kelvin = np.array([row[-1] for row in numbers])
        if np.isnan(kelvin).any():
            problems.append("some windows have no temperature. Give one for them all: --temperature 300")
        elif len(set(kelvin.tolist())) > 1 and (energy is None or temperature is None):
            problems.append(
                f"the windows are at {kelvin.min():g} to {kelvin.max():g} K. Give the column of energies without "
                "restraint, --energy, and the --temperature of the profile."
            )
        if problems:
            listed = "".join(f"\n  {one}" for one in problems)
            raise StudyError(f"{path} cannot be run:{listed}", problems=problems)
        table, (frames, labels, found, superseded) = np.array(numbers), zip(*runs, strict=True)
        x = np.concatenate(frames)
        return cls(
            tuple(names),
            table[:, :dims],
            table[:, dims : 2 * dims] * (math.radians(1.0) ** 2 if per_radian else 1.0),
            kelvin,
            float(kelvin[0]) if temperature is None else temperature,
            labels[0][:dims],
            np.array(periods or found[0][:dims]),
            x[:, :dims],
            np.zeros(len(x)) if energy is None else x[:, dims],
            np.repeat(np.arange(len(names)), [len(one) for one in frames]),
            np.array(superseded),
            unit,
        )

    def fit(self, least: float = 1.0) -> DebiasedSample:
        """Solve for the free energies of the windows, whose frames are in time.

        Parameters
        ----------
        least : float
            How many frames must bridge any two sides. With 1 the free energy between them is uncertain by about a kT.

        Raises
        ------
        NotIdentifiableError
            If windows do not overlap, with where one would help.
        """
        beta = 1.0 / np.array([kT(self.unit, one) for one in self.temperatures.tolist()])
        base = 1.0 / kT(self.unit, self.temperature)
        log_omega = np.empty((len(self.x), len(self.names)))
        for k, centre in enumerate(self.centres):
            restraint = 0.5 * self._way(centre, self.x) ** 2 @ self.springs[k]
            log_omega[:, k] = -beta[k] * restraint - (beta[k] - base) * self.energies
        try:
            fit = debias_matrix(log_omega, self.source, log=True, series=True, names=self.names)
            groups: Sequence[Sequence[object]] = fit.bridge.cut
            rows = fit.bridge.rows
        except NotIdentifiableError as error:
            groups, rows = error.groups, 0.0
        if rows < least:
            shared = f"only {rows:.1g} frames bridge" if rows else "no frame bridges"
            raise NotIdentifiableError(
                f"The windows do not overlap: {shared} {_side(groups[0])} and {_side(groups[1])}, so the free energy "
                f"between them is unknown. {self.between(groups[0])}",
                groups=groups,
            )
        return fit

    def _way(self, start: Floats, end: Floats) -> Floats:
        """Return the way from one place to others, to their nearest image."""
        way = end - start
        return np.asarray(way - np.rint(way / self.periods) * np.where(np.isinf(self.periods), 0.0, self.periods))

    def between(self, side: Sequence[object]) -> str:
        """Return where a window would best join some windows to the others: between the two nearest.

        Parameters
        ----------
        side : sequence
            Their names.
        """
        inside = np.isin(self.names, [str(name) for name in side])
        ways = [self._way(centre, self.x[self.source == k]) for k, centre in enumerate(self.centres)]
        places = self.centres + [way.mean(axis=0) for way in ways]
        width = np.mean([way.std(axis=0) for way in ways], axis=0) + np.finfo(float).tiny
        pairs = [(a, b) for a in np.flatnonzero(inside) for b in np.flatnonzero(~inside)]
        far = [np.linalg.norm(self._way(places[a], places[b]) / width) for a, b in pairs]
        a, b = pairs[int(np.argmin(far))]
        middle = places[a] + 0.5 * self._way(places[a], places[b])
        return (
            f"The nearest are {self.names[a]}, with frames around {point(places[a])}, and {self.names[b]}, around "
            f"{point(places[b])}. Run a window around {point(middle)}."
        )

    def profile(self, fit: DebiasedSample, bins: int = 50, ranges: Sequence[tuple[float, float]] = ()) -> Profile:
        """Return the free energy in bins of the coordinates, without restraint, with errors.

        Parameters
        ----------
        fit : DebiasedSample
            What :meth:`fit` returned.
        bins : int
            How many bins each coordinate has.
        ranges : sequence of pairs
            Where the bins of each coordinate begin and end; by default with the frames or, of a coordinate with a
            period, half a period on either side of 0.
        """
        half = 0.5 * self.periods
        low = np.where(np.isinf(half), self.x.min(axis=0), -half)
        high = np.where(np.isinf(half), np.nextafter(self.x.max(axis=0), np.inf), half)
        ends = ranges or list(zip(low.tolist(), high.tolist(), strict=True))
        edges = tuple(np.linspace(first, last, bins + 1) for first, last in ends)
        periods = [None if math.isinf(period) else period for period in self.periods.tolist()]
        options = {"bin_edges": edges, "period": periods}
        grid = np.meshgrid(*[(one[1:] + one[:-1]) / 2 for one in edges], indexing="ij")
        middles = np.column_stack([one.ravel() for one in grid])
        bin_of = Histogram.of(options).places(self.x)
        fes = FES.of_fit(fit)
        fes.generate_fes(None, self.x, histogram_parameters=options)
        found = fes.get_fes(middles, uncertainty_method="analytical")
        scale = kT(self.unit, self.temperature)
        frames = np.bincount(bin_of[bin_of >= 0], minlength=len(middles))
        f, df = found["f_i"] * scale, found["df_i"] * scale
        return Profile(self.coordinates, edges, middles, f, df, frames, self.unit)


def _frames(path: Path, columns: Sequence[str]) -> tuple[Floats, tuple[str, ...], list[float], int]:
    """Return the frames of a file, the names and periods of their columns, and how many frames were run again."""
    lines = _text(path).splitlines()
    marked = [line.split()[1:] for line in lines if line.startswith("#!")]
    headers = {tuple(fields) for what, *fields in marked if what == "FIELDS"}
    if len(headers) > 1:
        raise StudyError(f"{path.name} changes its columns at a restart. Give a file for each part.")
    names = next(iter(headers), ())
    set_to = {fields[0]: fields[1] for what, *fields in marked if what == "SET"}
    rows = [line for line in lines if line.strip() and line[0] not in "#@"]
    if not rows:
        raise StudyError(f"{path.name} has no frames.")
    try:
        table = np.loadtxt(rows, ndmin=2)
    except ValueError as error:
        raise StudyError(f"{path.name} is not a table of numbers: {str(error).rstrip('.')}.") from error
    if names and len(names) != table.shape[1]:
        raise StudyError(f"{path.name} names {len(names)} columns and has {table.shape[1]}.")
    places = [_column(column, names, table.shape[1], path.name) for column in columns]
    values, time = table[:, places], table[:, 0]
    if not (np.isfinite(values).all() and np.isfinite(time).all()):
        raise StudyError(f"{path.name} has a time or a value that is not a number.")
    later = np.append(np.minimum.accumulate(time[::-1])[::-1][1:], np.inf)
    kept = time < later  # or a restart ran this frame again
    labels = tuple(names[place] if names else f"column {place + 1}" for place in places)
    periods = [_bound(set_to.get(f"max_{one}")) - _bound(set_to.get(f"min_{one}"), -1.0) for one in labels]
    return values[kept], labels, periods, int((~kept).sum())


def _column(column: str, names: Sequence[str], width: int, file: str) -> int:
    """Return the place of a column that is named, or numbered from 1."""
    if column in names:
        return names.index(column)
    if column.isdigit() and 1 <= int(column) <= width:
        return int(column) - 1
    there = f"Its columns are {', '.join(names)}.{suggest(column, names)}" if names else f"It has {width} columns."
    raise StudyError(f"{file} has no column {column}. {there}")


def _bound(text: str | None, sign: float = 1.0) -> float:
    """Return an end of a period in PLUMED's words, infinite if there is none."""
    return {None: sign * math.inf, "pi": math.pi, "-pi": -math.pi}.get(text) or float(text or 0.0)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise StudyError(f"{path} cannot be read: {reason}.") from error


def _side(names: Sequence[object]) -> str:
    return str(names[0]) if len(names) == 1 else f"{names[0]} to {names[-1]} ({len(names)} windows)"


def point(place: Floats) -> str:
    """Return a place as text."""
    return ", ".join(f"{one:.4g}" for one in place)
