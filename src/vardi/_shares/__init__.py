"""Known shares of the population as anchors: cells with a share -> weights that meet them, errors that know it."""

from vardi._shares.anchor import Anchor, Refit, anchored_rows, find_groups
from vardi._shares.cells import Cell, members_of
from vardi._shares.check import check_shares
from vardi._shares.influence import AnchoredInfluence

__all__ = [
    "Anchor",
    "AnchoredInfluence",
    "Cell",
    "Refit",
    "anchored_rows",
    "check_shares",
    "find_groups",
    "members_of",
]
