"""Free energies of thermodynamic states, by the names that physicists type."""

from vardi.mbar.fes import FES
from vardi.mbar.multistate import MBAR

__all__ = ["FES", "MBAR"]
