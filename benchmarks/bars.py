"""The numbers to reach, in the order of the design's table. What else is measured has no bar."""

from __future__ import annotations

from benchmarks.records import Bar

PARTS = ("debias", "expectation")
_ALL = (
    Bar("dense-log-50", "dense-log", 25, higher_is_better=True),
    Bar("dense-log-10", "dense-log", 40, higher_is_better=True),
    Bar("dense-omega", "dense-omega", 6, higher_is_better=True),
    Bar("gram", "gram", 1),
    Bar("indicator-read", "indicator", 4),
    Bar("memory", "memory", 0.25),
    Bar("conditions-polars", "parquet", 1.2),
    Bar("conditions-duckdb", "parquet", 2),
    Bar("bootstrap-draw", "bootstrap", 0.2),
    Bar("report", "report", 5),
    Bar("import", "import", 1.6),
    Bar("growth-rows", "growth", 1.05),
    Bar("growth-samples", "growth", 1.3),
    Bar("median", "median", 10),
)
BARS = {bar.name: bar for bar in _ALL}

DELETED = 1.6  # the most that a case may take where a mechanism is gone
_TURNS = (
    *(Bar(f"numbers-{engine}: debias", "turns", 1.1) for engine in ("polars", "duckdb")),
    *(Bar(f"numbers-{engine}: expectation", "turns", 0.8) for engine in ("polars", "duckdb")),
    *(Bar(f"thirty-{engine}: {part}", "turns", 0.5) for engine in ("polars", "duckdb") for part in PARTS),
    *(Bar(f"spark: {part}", "turns", 1.2) for part in PARTS),
    Bar("bootstrap: 64 draws", "turns", DELETED),
    Bar("dense-2m: debias", "turns", DELETED),
    Bar("overlap-200: debias", "turns", DELETED),
    Bar("overlap-500: debias", "turns", DELETED),
    Bar("chain-500: debias", "turns", DELETED),
    Bar("indicators-60: debias", "turns", DELETED),
    Bar("covariance-500: log_omega_covariance", "turns", DELETED),
    Bar("known-1500: debias", "turns", DELETED),
)
TURNS = {bar.name: bar for bar in _TURNS}
"""Time, or memory, of this version over that of an older one, by case and part."""
