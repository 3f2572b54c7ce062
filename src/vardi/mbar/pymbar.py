"""A module that stands in for ``import pymbar``: what pymbar 4 has, by vardi.

``import vardi.mbar.pymbar as pymbar`` in a script of yours; for packages that import pymbar themselves, before they do:

>>> import sys
>>> import vardi.mbar.pymbar
>>> with_pymbar = dict(sys.modules)  # to put back at the end of this example
>>> sys.modules.update(vardi.mbar.pymbar.MODULES)
>>> from pymbar.timeseries import subsample_correlated_data
>>> from pymbar import MBAR
>>> MBAR.__module__
'vardi.mbar.multistate'
>>> for name in vardi.mbar.pymbar.MODULES:
...     if name in with_pymbar:
...         sys.modules[name] = with_pymbar[name]
...     else:
...         del sys.modules[name]

Whatever is refused is a ``ParameterError`` then. What is not here says so by name:

>>> vardi.mbar.pymbar.confidenceintervals
Traceback (most recent call last):
    ...
AttributeError: vardi.mbar.pymbar has no 'confidenceintervals': it tests errors over repeated simulations, which ...
"""

from __future__ import annotations

import sys
from types import ModuleType

from vardi.errors import VardiError as ParameterError
from vardi.mbar import timeseries
from vardi.mbar._work import bar, bar_overlap, bar_zero, exp, exp_gauss
from vardi.mbar.fes import FES
from vardi.mbar.multistate import MBAR

__all__ = ["FES", "MBAR", "ParameterError", "bar", "bar_overlap", "bar_zero", "exp", "exp_gauss", "timeseries"]

__version__ = "4.0.3"
"""The version of pymbar whose names these are."""

mbar = fes = other_estimators = utils = sys.modules[__name__]
MODULES: dict[str, ModuleType] = {
    **{f"pymbar{part}": mbar for part in ("", ".mbar", ".fes", ".other_estimators", ".utils")},
    "pymbar.timeseries": timeseries,
}
"""What to put into ``sys.modules``."""

LACKS = {
    "confidenceintervals": "it tests errors over repeated simulations, which is done with pymbar itself",
    "mbar_solvers": "there is one solver, behind MBAR",
    "testsystems": "vardi.datasets.harmonic_oscillators makes such data",
    **dict.fromkeys(("kln_to_kn", "kn_to_n"), "MBAR accepts rows padded by sample"),
    **dict.fromkeys(
        ("TypeCastPerformanceWarning", "check_w_normalized", "ensure_type", "logsumexp"),
        "it is a tool of pymbar's own code",
    ),
    **dict.fromkeys(("BoundsError", "ConvergenceError", "DataError"), "all that is refused is a ParameterError"),
}


def __getattr__(name: str) -> object:
    reason = f": {LACKS[name]}" if name in LACKS else ""
    raise AttributeError(f"vardi.mbar.pymbar has no {name!r}{reason}.", name=name)
