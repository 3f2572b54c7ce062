"""Whether a free energy has converged: its estimates from more and more of the frames, forward and backward in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vardi._estimate.estimates import Estimate
from vardi._estimate.resampling import require_rows
from vardi._fit.debias import fitted
from vardi._fit.sample import DebiasedSample
from vardi._inputs.dependence import places_in_time
from vardi._inputs.pool import Name
from vardi._types import Floats
from vardi.errors import MismatchError
from vardi.errors._texts import aligned
from vardi.mbar.multistate import MBAR

FRACTIONS = tuple(k / 10 for k in range(1, 11))


@dataclass(frozen=True, eq=False)
class Convergence:
    r"""Free energy differences from parts of the frames.

    Attributes
    ----------
    states : tuple of two names
        The difference is :math:`f_l - f_k` of these two, in kT.
    fractions : ndarray of shape (m,)
        The part of each state's frames.
    forward, backward : tuple of Estimate
        From the first frames of every state on, and from the last ones backward.
    """

    states: tuple[Name, Name]
    fractions: Floats
    forward: tuple[Estimate, ...]
    backward: tuple[Estimate, ...]

    @property
    def settled(self) -> float:
        """The smallest fraction from which on both directions agree with all frames, within their intervals."""
        last, settled = self.forward[-1].value, 1.0
        pairs = list(zip(self.fractions.tolist(), self.forward, self.backward, strict=True))
        for fraction, *both in reversed(pairs):
            if not all(one.interval[0] <= last <= one.interval[1] for one in both):
                break
            settled = fraction
        return settled

    def __str__(self) -> str:
        k, l = self.states
        lines = [
            (f"{fraction:.0%}", *(cell for one in both for cell in (f"{one.value:.3f}", f"{one.stderr:.3f}")))
            for fraction, *both in zip(self.fractions.tolist(), self.forward, self.backward, strict=True)
        ]
        table = aligned(("frames", "forward", "±", "backward", "±"), lines)
        return f"f({l}) - f({k}), in kT\n{table}"


def convergence(
    fit: DebiasedSample | MBAR,
    states: Sequence[Name] | None = None,
    fractions: Sequence[float] = FRACTIONS,
    *,
    level: float = 0.95,
) -> Convergence:
    r"""Estimate a difference of free energies from more and more of the frames, forward and backward in time.

    Each part is solved starting from the solution for all frames, and checked like any other fit. Where a simulation
    had not equilibrated at first, the forward estimates drift towards the backward ones (Yang et al. 2004).

    Parameters
    ----------
    fit : DebiasedSample or MBAR
        A fit whose rows are in memory. Frames are in time order within each state: by ``series=`` where that
        was given, and otherwise as they are.
    states : two names, optional
        k and l of :math:`f_l - f_k`; the first and the last state that has frames by default.
    fractions : increasing sequence of float
        Parts of each state's frames, up to 1.
    level : float
        Of the intervals.

    Returns
    -------
    Convergence
        A table, which prints; :class:`vardi.plots.ConvergenceDisplay` draws it.

    Examples
    --------
    >>> import vardi
    >>> design = vardi.datasets.harmonic_oscillators(states=3, rows_per_state=1000, seed=0)
    >>> fit = vardi.debias_matrix(design.omega, design.source, log=True)
    >>> print(vardi.mbar.convergence(fit, fractions=[0.25, 0.5, 1]))
    f(2) - f(0), in kT
    frames  forward      ±  backward      ±
    25%       0.339  0.089     0.577  0.093
    50%       0.332  0.063     0.522  0.065
    100%      0.426  0.045     0.426  0.045
    """
    fit = fit.fit if isinstance(fit, MBAR) else fit
    require_rows(fit.solved, "Convergence in time")
    parts = _fractions(fractions)
    k, l = _states(fit, states)
    source, order = fit.solved.pool.source, fit.solved.pool.dependence.order
    place = places_in_time(source, np.arange(len(source)) if order is None else order)
    frames = np.bincount(source)[source]
    places = fit.place_of(k), fit.place_of(l)
    near, inputs = fit.solved.near, fit._inputs

    def estimate(rows: NDArray[np.bool_]) -> Estimate:
        part = fit if rows.all() else fitted(inputs, near=near, among=rows)
        return part.solved.log_ratio(*places, level)  # without a warning: it is plain that early parts are rough

    # Rounded first, so that rounding error adds no frame.
    kept = [np.ceil(np.round(part * frames, 6)) for part in parts]
    forward = tuple(estimate(place < most) for most in kept)
    backward = tuple(estimate(place >= frames - most) for most in kept)
    return Convergence((k, l), np.array(parts), forward, backward)


def _fractions(fractions: Sequence[float]) -> list[float]:
    parts = np.ravel(np.asarray(fractions, np.float64)).tolist()
    if not parts or sorted(set(parts)) != parts or not 0.0 < parts[0] <= parts[-1] <= 1.0:
        raise MismatchError(
            f"The fractions are {parts}, but they must increase from above 0 to 1. Give increasing numbers, such "
            "as [0.25, 0.5, 0.75, 1]."
        )
    return parts


def _states(fit: DebiasedSample, states: Sequence[Name] | None) -> tuple[Name, Name]:
    if states is None:
        there = [name for name, rows in fit.sizes.items() if rows]
        states = (there[0], there[-1])
    if isinstance(states, str) or len(states) != 2 or states[0] == states[1]:
        raise MismatchError(
            f"states= is {states!r}, but a difference is between two states. Give two names out of {fit.names}."
        )
    return states[0], states[1]
