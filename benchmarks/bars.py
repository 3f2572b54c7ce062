"""The numbers to reach, in the order of the design's table. What else is measured has no bar."""

from __future__ import annotations

from benchmarks.records import Bar

_ALL = (
    Bar("dense-log-50", "dense-log", 25, higher_is_better=True),
    Bar("dense-log-10", "dense-log", 40, higher_is_better=True),
    Bar("dense-omega", "dense-omega", 6, higher_is_better=True),
    Bar("gram", "gram", 1),
    Bar("indicator-read", "indicator", 4),
    Bar("memory", "memory", 0.25),
    Bar("conditions-polars", "parquet", 1.2),
    Bar("conditions-duckdb", "parquet", 2),
    Bar("bootstrap", "bootstrap", 0.2),
    Bar("report", "report", 5),
    Bar("import", "import", 1.6),
    Bar("growth-rows", "growth", 1.05),
    Bar("growth-samples", "growth", 1.3),
    Bar("median", "median", 10),
)
BARS = {bar.name: bar for bar in _ALL}
