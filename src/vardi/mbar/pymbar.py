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
AttributeError: vardi.mbar.pymbar has no 'confidenceintervals'. It stands in for FES, MBAR, ParameterError, bar, ...
"""

from __future__ import annotations

import sys
from types import ModuleType

from vardi.errors import VardiError as ParameterError
from vardi.mbar import timeseries
from vardi.mbar._work import bar, bar_zero, exp
from vardi.mbar.fes import FES
from vardi.mbar.multistate import MBAR

__all__ = ["FES", "MBAR", "ParameterError", "bar", "bar_zero", "exp", "timeseries"]

__version__ = "4.0.3"
"""The version of pymbar whose names these are."""

mbar = fes = other_estimators = utils = sys.modules[__name__]
MODULES: dict[str, ModuleType] = {
    **{f"pymbar{part}": mbar for part in ("", ".mbar", ".fes", ".other_estimators", ".utils")},
    "pymbar.timeseries": timeseries,
}
"""What to put into ``sys.modules``."""


def __getattr__(name: str) -> object:
    raise AttributeError(
        f"vardi.mbar.pymbar has no {name!r}. It stands in for {', '.join(__all__)}; import pymbar itself for the rest.",
        name=name,
    )
