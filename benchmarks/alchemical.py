"""Reduced potentials of real simulations: what alchemtest ships, read by alchemlyb's parsers."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.problems import Problem

NEEDS = ("alchemtest", "alchemlyb")
SYSTEMS = (  # package, loader, temperature in kelvin
    ("gmx", "benzene", 300.0),
    ("gmx", "ethanol", 300.0),
    ("gmx", "ABFE", 300.0),
    ("gmx", "expanded_ensemble_case_1", 300.0),
    ("gmx", "expanded_ensemble_case_2", 300.0),
    ("gmx", "expanded_ensemble_case_3", 300.0),
    ("gmx", "water_particle_with_total_energy", 300.0),
    ("amber", "bace_example", 298.0),
    ("amber", "bace_improper", 298.0),
    ("amber", "simplesolvated", 298.0),
    ("amber", "tyk2_example", 300.0),
    ("gomc", "benzene", 298.0),
)


def systems(least: int = 0) -> Iterator[tuple[str, Problem]]:
    """Yield each system that has every potential of every frame, with its name: one for each leg of a calculation.

    Parameters
    ----------
    least : int
        Number of systems to stop after; 0 for all.
    """
    logging.getLogger("alchemlyb").setLevel(logging.CRITICAL)
    import_module("loguru").logger.disable("alchemlyb")
    given = 0
    for package, name, temperature in SYSTEMS:
        loaded = getattr(import_module(f"alchemtest.{package}"), f"load_{name}")()
        parse = import_module(f"alchemlyb.parsing.{package}").extract_u_nk
        for leg, files in _legs(loaded["data"]):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                problem = _problem(files, partial(parse, T=temperature))
            if problem is not None:
                yield f"{package} {name}{f', {leg}' if leg else ''}".replace("_", " "), problem
                given += 1
                if given == least:
                    return


def _legs(data: Any) -> Iterator[tuple[str, list[Any]]]:
    if not isinstance(data, dict):
        yield "", list(data)
        return
    for leg, files in data.items():
        if isinstance(files, dict):
            for part, own in files.items():
                yield f"{leg} {part}", list(own)
        else:
            yield ("" if leg == "AllStates" else str(leg)), list(files)


def _problem(files: list[Any], parse: Callable[[Any], Any]) -> Problem | None:
    """Return log omega of the frames, by state; None if some potentials are missing, so that MBAR does not apply."""
    frames = [frame for frame in (parse(file) for file in files) if frame is not None]
    if not frames:
        return None
    u_nk = import_module("pandas").concat(frames)
    if u_nk.isna().any().any():
        return None
    states = list(u_nk.columns)
    labels = u_nk.index.droplevel(0)
    place = {state: k for k, state in enumerate(states)}
    source = np.array([place[state] for state in labels.to_list()], np.int64)
    order = np.argsort(source, kind="stable")  # pymbar takes frames state by state
    return Problem(np.ascontiguousarray(-u_nk.to_numpy(np.float64)[order]), source[order])
