"""Free energies from state to state, and from ever more of the frames."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np

from vardi._estimate.estimates import Estimate
from vardi._inputs.pool import Name
from vardi._types import Floats
from vardi.plots._axes import Display, Palette, inches_of, labels, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from vardi._fit.sample import DebiasedSample
    from vardi.mbar import Convergence, Profile

NORMAL = 1.96
"""Standard errors to either end of a 95% interval."""


@dataclass
class StatesDisplay(Display):
    r"""What each step from a state to the next adds to the free energy, with 95% intervals.

    Parameters
    ----------
    names : tuple
        The states that have rows, in their order.
    steps : tuple of Estimate
        :math:`f_{k+1} - f_k`, in units of ``unit``.
    unit : str
        The unit of energy.
    """

    names: tuple[Name, ...]
    steps: tuple[Estimate, ...]
    unit: str = "kT"

    @classmethod
    def from_fit(cls, fit: DebiasedSample, *, kT: float = 1.0, unit: str = "kT", ax: Axes | None = None) -> Self:
        """Compute the steps of a fit and draw them.

        Parameters
        ----------
        fit : DebiasedSample
            A fit of rows in states whose order is meaningful, as along a coupling parameter.
        kT : float
            One kT in the unit, as :func:`vardi.mbar.kT` gives it.
        unit : str
            The unit, for the axis.
        ax : axes, optional
            The axes to draw on.
        """
        names = tuple(name for name, rows in fit.sizes.items() if rows)
        return cls(names, tuple(fit.log_ratio(k, l) * kT for k, l in pairwise(names)), unit).plot(ax=ax)

    @property
    def size(self) -> tuple[float, float] | None:
        return (10.0, 4.8) if len(self.steps) > 30 else None

    def _draw(self, ax: Axes, colours: Palette) -> None:
        places = np.arange(len(self.steps))
        values = np.array([step.value for step in self.steps])
        ax.bar(places, values, color=colours.after, alpha=0.35, width=0.8)
        ax.errorbar(places, values, yerr=_beyond(self.steps), fmt="none", ecolor=colours.after, capsize=3)
        ax.axhline(0.0, color=colours.ink, lw=1)
        margin = max(0.6, 1.5 - 0.3 * len(places))
        ax.set_xlim(-margin, len(places) - 1 + margin)
        self._ticks(ax)
        first, last, total = shortened(self.names[0]), shortened(self.names[-1]), float(values.sum())
        ax.set_ylabel(f"free energy of a step ({self.unit})")
        ax.set_title(f"From {first} to {last}: {total:.3g} {self.unit} in all")

    def _ticks(self, ax: Axes) -> None:
        """Write the two states of each step or, if room is short, the one that it leads to."""
        whole = [f"{k} → {l}" for k, l in pairwise(self.names)]
        if sum(map(len, whole)) <= 60:  # letters, which fit upright
            ax.set_xticks(range(len(whole)), whole)
            return
        ax.set_xticks(*labels(self.names[1:], inches_of(ax)[0]), rotation=90, fontsize=8)
        ax.set_xlabel("to this state, from the one before it")


@dataclass
class ConvergenceDisplay(Display):
    """A free energy difference from ever more of the frames, forward and backward in time.

    Parameters
    ----------
    convergence : Convergence
        The result of :func:`vardi.mbar.convergence`.
    """

    convergence: Convergence

    def plot(self, *, kT: float = 1.0, unit: str = "kT", ax: Axes | None = None) -> Self:
        """Draw on the given axes, or on new ones; energies are multiplied by kT, which is in the unit."""
        self._kT, self._unit = kT, unit
        return super().plot(ax=ax)

    def _draw(self, ax: Axes, colours: Palette) -> None:
        convergence, kT = self.convergence, self._kT
        ax.axhspan(
            *(convergence.forward[-1] * kT).interval, color=colours.link, alpha=0.25, lw=0, label="all frames, 95%"
        )
        for direction, colour, marker, estimates in (
            ("forward", colours.after, "o", convergence.forward),
            ("backward", colours.before, "s", convergence.backward),
        ):
            scaled = tuple(one * kT for one in estimates)
            values, ends, label = [one.value for one in scaled], _beyond(scaled), f"{direction}, 95%"
            ax.errorbar(convergence.fractions, values, yerr=ends, color=colour, marker=marker, capsize=3, label=label)
        k, l = convergence.states
        ax.set(xlabel="part of the frames of each state", ylabel=f"f({l}) - f({k}) ({self._unit})")
        ax.set_title("Forward and backward in time")
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        ax.legend()


@dataclass
class ProfileDisplay(Display):
    """A free energy profile with 95% intervals, or the surface of two coordinates.

    Parameters
    ----------
    profile : Profile
        What :meth:`vardi.mbar.Umbrella.profile` returns.
    """

    profile: Profile

    def _draw(self, ax: Axes, colours: Palette) -> None:
        profile = self.profile
        label = f"free energy ({profile.unit})"
        f = np.where(np.isfinite(profile.f), profile.f, np.nan)
        ax.set_xlabel(profile.coordinates[0])
        if len(profile.edges) == 1:
            x, beyond = profile.middles[:, 0], NORMAL * np.nan_to_num(profile.df)
            ax.fill_between(x, f - beyond, f + beyond, color=colours.after, alpha=0.25, lw=0, label="95%")
            ax.plot(x, f, color=colours.after)
            ax.set_ylabel(label)
            ax.legend()
            return
        surface = ax.pcolormesh(*profile.edges, f.reshape([len(one) - 1 for one in profile.edges]).T)
        ax.set_ylabel(profile.coordinates[1])
        ax.figure.colorbar(surface, ax=ax, label=label)


def _beyond(estimates: tuple[Estimate, ...]) -> Floats:
    """Return how far intervals reach below and above their values, of shape (2, m); 0 if there is none."""
    ends = np.array([(one.value - one.interval[0], one.interval[1] - one.value) for one in estimates]).reshape(-1, 2)
    return np.nan_to_num(ends.T)
