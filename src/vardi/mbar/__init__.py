"""Free energies of thermodynamic states, under the names that physicists use."""

from vardi.mbar import timeseries as timeseries
from vardi.mbar._arguments import ParameterError
from vardi.mbar._time import (
    Convergence,
    Equilibration,
    convergence,
    equilibration,
    inefficiencies,
    statistical_inefficiency,
)
from vardi.mbar._units import kT
from vardi.mbar._work import bar, exp
from vardi.mbar.alchemical import AlchemicalEstimator
from vardi.mbar.fes import FES
from vardi.mbar.multistate import MBAR
from vardi.mbar.umbrella import Profile, Umbrella

__all__ = [
    "FES",
    "MBAR",
    "AlchemicalEstimator",
    "Convergence",
    "Equilibration",
    "ParameterError",
    "Profile",
    "Umbrella",
    "bar",
    "convergence",
    "equilibration",
    "exp",
    "inefficiencies",
    "kT",
    "statistical_inefficiency",
]
