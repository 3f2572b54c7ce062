"""Clémençon and Laforgue's *Statistical Learning from Biased Training Samples*, reproduced by one command.

``vardi paper`` runs :func:`reproduce`. Each experiment is a function of a seed that returns the scores of one run
(``_boston`` and its neighbours), ``_runs`` repeats it and keeps what is finished, ``_comparison`` sets the means beside
the printed cells, ``_layout`` and ``_page`` show them.
"""

from vardi.paper._comparison import Agreement, Obtained, agreement, compare, printed
from vardi.paper._experiment import Cell, Experiment
from vardi.paper._layout import Entry, Table
from vardi.paper._reproduce import EXPERIMENTS, NAMES, Reproduction, reproduce

__all__ = [
    "EXPERIMENTS",
    "NAMES",
    "Agreement",
    "Cell",
    "Entry",
    "Experiment",
    "Obtained",
    "Reproduction",
    "Table",
    "agreement",
    "compare",
    "printed",
    "reproduce",
]
