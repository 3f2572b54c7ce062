"""vardi beside its peers, in one run on one machine: what ``vardi bench`` runs.

Peers are optional (``pip install 'vardi[bench]'``): one that is not installed is a line that says so.
"""

from vardi.bench._draw import draw
from vardi.bench._peers import installed
from vardi.bench._records import Settings
from vardi.bench._run import BENCHMARKS, failed, run

__all__ = ["BENCHMARKS", "Settings", "draw", "failed", "installed", "run"]
