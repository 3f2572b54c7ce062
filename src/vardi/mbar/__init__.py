"""Free energies of thermodynamic states, by the names that physicists type."""

from vardi.mbar.alchemical import AlchemicalEstimator
from vardi.mbar.fes import FES
from vardi.mbar.multistate import MBAR

__all__ = ["FES", "MBAR", "AlchemicalEstimator"]
