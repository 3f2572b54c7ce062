"""Free energies of thermodynamic states, by the names that physicists type."""

from vardi.mbar._equilibration import Equilibration, equilibration, inefficiencies, statistical_inefficiency

__all__ = ["Equilibration", "equilibration", "inefficiencies", "statistical_inefficiency"]
