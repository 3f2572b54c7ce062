"""Free energies from state to state, and from ever more of the frames."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np

from vardi._estimate.estimates import Estimate
from vardi._inputs.pool import Name
from vardi._types import Floats
from vardi.plots._axes import axes_of, inches_of, labels, palette_of, shortened, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from vardi._fit.sample import DebiasedSample
    from vardi.mbar import Convergence


@dataclass
class StatesDisplay:
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

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw on the given axes, or on new ones."""
        self.ax_, self.figure_ = axes_of(ax, (10.0, 4.8) if len(self.steps) > 30 else None)
        colours = palette_of(self.ax_)
        places = np.arange(len(self.steps))
        values = np.array([step.value for step in self.steps])
        self.ax_.bar(places, values, color=colours.after, alpha=0.35, width=0.8)
        self.ax_.errorbar(places, values, yerr=_beyond(self.steps), fmt="none", ecolor=colours.after, capsize=3)
        self.ax_.axhline(0.0, color=colours.ink, lw=1)
        self.ax_.set_xlim(-max(0.6, 1.5 - 0.3 * len(places)), len(places) - 1 + max(0.6, 1.5 - 0.3 * len(places)))
        self._ticks()
        first, last, total = shortened(self.names[0]), shortened(self.names[-1]), float(values.sum())
        self.ax_.set(ylabel=f"free energy of a step ({self.unit})")
        self.ax_.set_title(f"From {first} to {last}: {total:.3g} {self.unit} in all")
        return self

    def _ticks(self) -> None:
        """Write the two states of each step or, if room is short, the one that it leads to."""
        whole = [f"{k} → {l}" for k, l in pairwise(self.names)]
        if sum(map(len, whole)) <= 60:  # letters, which fit upright
            self.ax_.set_xticks(range(len(whole)), whole)
            return
        shown = spread(len(whole), inches_of(self.ax_)[0])
        self.ax_.set_xticks(shown, labels(self.names[1:], shown), rotation=90, fontsize=8)
        self.ax_.set_xlabel("to this state, from the one before it")


@dataclass
class ConvergenceDisplay:
    """A free energy difference from ever more of the frames, forward and backward in time.

    Parameters
    ----------
    convergence : Convergence
        The result of :func:`vardi.mbar.convergence`.
    """

    convergence: Convergence

    def plot(self, *, kT: float = 1.0, unit: str = "kT", ax: Axes | None = None) -> Self:
        """Draw on the given axes, or on new ones; energies are multiplied by kT, which is in the unit."""
        self.ax_, self.figure_ = axes_of(ax)
        found, colours = self.convergence, palette_of(self.ax_)
        last = found.forward[-1] * kT
        self.ax_.axhspan(*last.interval, color=colours.link, alpha=0.25, lw=0, label="all frames, 95%")
        for label, colour, marker, given in (
            ("forward", colours.after, "o", found.forward),
            ("backward", colours.before, "s", found.backward),
        ):
            estimates = tuple(one * kT for one in given)
            values, ends, said = [one.value for one in estimates], _beyond(estimates), f"{label}, 95%"
            self.ax_.errorbar(found.fractions, values, yerr=ends, color=colour, marker=marker, capsize=3, label=said)
        k, l = found.states
        self.ax_.set(xlabel="part of the frames of each state", ylabel=f"f({l}) - f({k}) ({unit})")
        self.ax_.set_title("Forward and backward in time")
        self.ax_.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        self.ax_.legend()
        return self


def _beyond(estimates: tuple[Estimate, ...]) -> Floats:
    """Return how far intervals reach below and above their values, of shape (2, m); 0 if there is none."""
    ends = np.array([(one.value - one.interval[0], one.interval[1] - one.value) for one in estimates]).reshape(-1, 2)
    return np.nan_to_num(ends.T)
