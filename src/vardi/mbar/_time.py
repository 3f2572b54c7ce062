r"""Frames in time: how many are worth an independent one, from which on they are in equilibrium, and convergence.

.. math:: g = 1 + 2 \sum_{t \ge 1} \rho_t

is the statistical inefficiency of a series, summed up to the first pair of autocorrelations that is not positive (Geyer
1992). A simulation that is in equilibrium from frame t on leaves N - t frames, worth (N - t) / g(t) independent ones;
the best start to keep is the one that leaves most of these (Chodera 2016). A free energy has converged if its estimates
from more and more of the frames agree, forward and backward in time (Yang et al. 2004).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vardi._estimate.estimates import Estimate
from vardi._estimate.tangent import Influence
from vardi._fit.debias import fitted
from vardi._fit.sample import DebiasedSample
from vardi._inputs.dependence import places_in_time
from vardi._inputs.pool import Name
from vardi._rows.units import Autocorrelation, rows_a_value
from vardi._tables import Part, Shown, Table
from vardi._types import Floats, Integers
from vardi.biases._values import as_array
from vardi.errors import MismatchError
from vardi.mbar._arguments import as_series
from vardi.mbar.multistate import MBAR


def statistical_inefficiency(values: ArrayLike) -> float:
    r"""Return how many successive frames are worth an independent one, for the mean of a series.

    Parameters
    ----------
    values : array of shape (N,)
        What was recorded, one number for each frame, in time order.

    Returns
    -------
    float
        :math:`g \ge 1`; 1 for a series that is constant, or of independent frames.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.signal import lfilter
    >>> from vardi.mbar import statistical_inefficiency
    >>> memory = 0.9  # g is (1 + memory) / (1 - memory) = 19
    >>> x = lfilter([1], [1, -memory], np.random.default_rng(0).normal(size=100_000))
    >>> round(statistical_inefficiency(x), 1)
    20.8
    """
    return _inefficiency(as_series(values))


def inefficiencies(fit: DebiasedSample) -> dict[Name, float]:
    r"""Return the statistical inefficiency of each state's frames, as it enters the errors of the free energies.

    It is that of the influence values: what a frame adds to a free energy, not what was recorded of it. Each free
    energy, taken from the mean of all, has its own for each state; the largest is given, so that
    :math:`n_k / g_k` frames of state k are effective for all of them.

    Parameters
    ----------
    fit : DebiasedSample
        A fit with ``series=``.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.signal import lfilter
    >>> import vardi
    >>> noise = np.random.default_rng(0).normal(size=(2, 3000)) * np.sqrt(1 - 0.9**2)
    >>> runs = lfilter([1], [1, -0.9], noise, axis=1) + [[-0.5], [0.5]]
    >>> fit = vardi.debias({"left": runs[0], "right": runs[1]}, {"left": "exp(-x/2)", "right": "exp(x/2)"}, series=True)
    >>> {name: round(g, 1) for name, g in vardi.mbar.inefficiencies(fit).items()}
    {'left': 19.8, 'right': 19.8}
    """
    worth = _differences(fit).spread(joint=False).effective_in_time
    if not worth[0]:
        raise MismatchError(
            "The fit was made without series=, so its errors treat frames as independent, and there is no "
            "statistical inefficiency. Give series=True if frames are in time order."
        )
    fewest = dict(zip(fit.names, np.min(worth, axis=0).tolist(), strict=True))
    return {name: rows / fewest[name] for name, rows in fit.sizes.items() if rows}


def _differences(fit: DebiasedSample) -> Influence:
    """Return the influence on each free energy minus the mean of all, which a distant population does not disturb."""
    solved = fit.solved
    sampled = solved.rows.sizes > 0
    centred = (np.eye(len(sampled)) - sampled[:, None] / sampled.sum())[:, sampled]
    directions = np.zeros((len(solved.tangent.measure.coordinates), int(sampled.sum())))
    directions[solved.tangent.measure.coordinates.u] = centred * sampled[:, None]
    influence: Influence = solved.tangent.of_coordinates(directions)
    return influence


@dataclass(frozen=True, eq=False)
class Equilibration(Shown):
    """From which frame on each simulation has settled.

    Attributes
    ----------
    states : tuple
        What the simulations are called.
    frames : ndarray of int
        How many frames each has.
    start : ndarray of int
        The first frame to keep of each.
    inefficiency : ndarray
        Statistical inefficiency of the frames from there on.
    effective : ndarray
        How many independent frames these are worth.
    all_effective : ndarray
        How many all frames are worth; if that is hardly less, there is no sign that the simulation had not settled.
    kept : ndarray of bool
        For each frame that was given, whether it is from the start of its simulation on.
    """

    states: tuple[Name, ...]
    frames: Integers
    start: Integers
    inefficiency: Floats
    effective: Floats
    all_effective: Floats
    kept: NDArray[np.bool_]

    def _parts(self) -> list[Part]:
        heading = ("state", "frames", "keep from", "inefficiency", "worth", "all worth")
        numbers = (self.frames, self.start, self.inefficiency, self.effective, self.all_effective)
        rows = [
            (str(name), f"{frames:,}", f"{start:,}", f"{g:.1f}", f"{worth:,.0f}", f"{all_worth:,.0f}")
            for name, frames, start, g, worth, all_worth in zip(self.states, *numbers, strict=True)
        ]
        return [Table(heading, rows, of="states")]


def equilibration(values: ArrayLike, source: ArrayLike | None = None) -> Equilibration:
    r"""Return the start of each simulation that leaves most effective frames.

    The start t maximises :math:`(N - t) / g(t)`, with g the statistical inefficiency of the frames from t on. A hundred
    starts are tried, evenly spaced, so it is accurate to one per cent of a simulation; the number of effective frames
    is not known better than that. So a simulation that was settled all along may get a late start, which leaves about
    as many effective frames as all frames are worth: the table has both numbers.

    Parameters
    ----------
    values : array of shape (N,)
        What was recorded, in time order within each simulation: the reduced potential of the state that was
        simulated, dH/dlambda, or the coordinate of an umbrella.
    source : array of shape (N,), optional
        The simulation of each frame; one by default.

    Returns
    -------
    Equilibration
        A table by simulation; ``kept`` marks the frames to fit.

    Examples
    --------
    A simulation that starts far off:

    >>> import numpy as np
    >>> import vardi
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000) + 8 * np.exp(-np.arange(2000) / 50)
    >>> found = vardi.mbar.equilibration(x)
    >>> print(found)
    state  frames  keep from  inefficiency  worth  all worth
    0       2,000        140           1.0  1,860         46
    >>> x[found.kept].mean().round(2) < x.mean().round(2)
    np.True_
    """
    x = as_series(values)
    labels = np.zeros(len(x), np.int64) if source is None else as_array(source, "source")
    if labels.shape != x.shape:
        raise MismatchError(
            f"source has shape {labels.shape}, but there are {len(x)} frames. Give the simulation of each frame."
        )
    states, codes = np.unique(labels, return_inverse=True)
    kept = np.zeros(len(x), bool)
    found = []
    for k in range(len(states)):
        frames = np.flatnonzero(codes == k)
        (start, g), g_of_all = _settled(x[frames]), _inefficiency(x[frames])
        kept[frames[start:]] = True
        found.append((len(frames), start, g, (len(frames) - start) / g, len(frames) / g_of_all))
    lengths, starts, numbers, worth, all_worth = map(np.array, zip(*found, strict=True))
    return Equilibration(tuple(states.tolist()), lengths, starts, numbers, worth, all_worth, kept)


def _settled(x: Floats, tries: int = 100) -> tuple[int, float]:
    """Return which of some starts, evenly spaced, leaves most effective frames, and the inefficiency from there on."""
    starts = range(0, len(x), max(math.ceil(len(x) / tries), 1))
    tried = [(start, _inefficiency(x[start:])) for start in starts]
    return max(tried, key=lambda pair: (len(x) - pair[0]) / pair[1])


def _inefficiency(x: Floats) -> float:
    """Return g; for a long series, from means over a few successive frames."""
    deviations = x - x.mean()
    squares = float(deviations @ deviations)
    if not squares > (8.0 * np.finfo(float).eps) ** 2 * float(x @ x):  # constant up to rounding
        return 1.0
    length = rows_a_value(len(x))
    sums = np.add.reduceat(deviations, np.arange(0, len(x), length))
    g = len(sums) / float(Autocorrelation(sums[:, None]).effective[0])
    return max(g * float(sums @ sums) / squares, 1.0)


FRACTIONS = tuple(k / 10 for k in range(1, 11))


@dataclass(frozen=True, eq=False)
class Convergence(Shown):
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

    _apart = "\n"

    def _parts(self) -> list[Part]:
        k, l = self.states
        rows = [
            (f"{fraction:.0%}", *(cell for one in both for cell in (f"{one.value:.3f}", f"{one.stderr:.3f}")))
            for fraction, *both in zip(self.fractions.tolist(), self.forward, self.backward, strict=True)
        ]
        return [f"f({l}) - f({k}), in kT", Table(("frames", "forward", "±", "backward", "±"), rows)]


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
    fit.solved.require_rows("Convergence in time")
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
