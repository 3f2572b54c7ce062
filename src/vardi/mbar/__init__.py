"""Free energies of thermodynamic states, by the names that physicists type."""

from vardi.mbar.multistate import MBAR

__all__ = ["MBAR"]
