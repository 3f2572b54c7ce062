"""Count the modules of vardi that a fit of two frames, and the mean of a column, enter: ``python tools/entered.py``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd

import vardi


def entered(call: Callable[[], Any]) -> tuple[Any, list[str]]:
    """Return what a call returns, and the modules of vardi in which it runs a function once all are loaded."""
    call()
    names: set[str] = set()

    def trace(frame: FrameType, event: str, arg: object) -> None:
        names.add(frame.f_globals.get("__name__", "") if frame.f_code.co_name != "<module>" else "")

    sys.settrace(trace)
    try:
        answer = call()
    finally:
        sys.settrace(None)
    return answer, sorted(name for name in names if name.startswith("vardi"))


def main() -> None:
    """Print both lists."""
    national, homes = (pd.DataFrame({"price": np.random.default_rng(k).gamma(4.0, 5.0, 300)}) for k in (0, 1))
    samples = {"agency": homes[homes["price"] <= 22], "national": national}
    fit, debias = entered(lambda: vardi.debias(samples, {"agency": "price <= 22", "national": 1}))
    _, expectation = entered(lambda: fit.expectation("price"))
    for what, modules in (("debias", debias), ("expectation", expectation)):
        print(f"{what}: {len(modules)} modules", *modules, sep="\n  ")


if __name__ == "__main__":
    main()
