"""Pictures of a fit, each drawn on the axes it is given.

Overlap, weights, distribution, balance, sensitivity; free energies of states and along coordinates, and their
convergence in time. Needs
matplotlib: ``pip install 'vardi[plot]'``.
"""

from vardi.plots._axes import AFTER as AFTER
from vardi.plots._axes import BEFORE as BEFORE
from vardi.plots._free_energies import ConvergenceDisplay, ProfileDisplay, StatesDisplay
from vardi.plots._overlap import OverlapDisplay
from vardi.plots._pool import CdfDisplay, LoveDisplay, SensitivityDisplay, WeightsDisplay

__all__ = [
    "CdfDisplay",
    "ConvergenceDisplay",
    "LoveDisplay",
    "OverlapDisplay",
    "ProfileDisplay",
    "SensitivityDisplay",
    "StatesDisplay",
    "WeightsDisplay",
]
