"""Free energies of thermodynamic states, by the names that physicists type."""
