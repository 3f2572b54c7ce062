"""The cost of a call with hardly anything to compute."""

from __future__ import annotations

from importlib import import_module

import numpy as np

import vardi
from benchmarks.peers import installed
from benchmarks.records import Record, Report, Settings, Target
from benchmarks.timing import many_calls

CALLS = 1000
BIASES: dict[str, str | int] = {"agency": "price <= 22", "national": 1}


def small(settings: Settings) -> Report:
    """Time calls on 300 rows."""
    rng = np.random.default_rng(85)
    price = rng.gamma(5.0, 4.5, 1000)
    agency, national = price[price <= 22][:200], rng.gamma(5.0, 4.5, 100)
    pool = np.concatenate([agency, national])
    omega = np.column_stack([pool <= 22, np.ones(len(pool))]).astype(np.float64)
    source = np.repeat([0, 1], [len(agency), len(national)])
    calls = max(CALLS // settings.shrink, 20)
    work = f"{len(pool)} rows, 2 samples"

    matrix = many_calls(lambda: vardi.debias_matrix(omega, source).weights, calls)
    records = [Record(work, "vardi.debias_matrix", matrix)]
    targets = [Target(f"{work}: debias_matrix", 1e3 * matrix.median, unit="ms")]
    through_pandas = None
    if installed("pandas"):
        pd = import_module("pandas")

        samples = {"agency": pd.DataFrame({"price": agency}), "national": pd.DataFrame({"price": national})}
        through_pandas = many_calls(lambda: vardi.debias(samples, BIASES).weights, calls)
        note = ""
    else:
        note = "not installed: pandas (pip install 'vardi[bench]')"
    records.append(Record(work, "vardi.debias, pandas", through_pandas, note=note))
    milliseconds = None if through_pandas is None else 1e3 * through_pandas.median
    targets.append(Target(f"{work}: debias through pandas", milliseconds, unit="ms"))
    about = (
        "An agency's cheap houses and a national survey; each call makes the weights. Import and first calls are out."
    )
    return Report("small", about, tuple(records), tuple(targets))
