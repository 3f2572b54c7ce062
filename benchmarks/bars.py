"""The numbers to reach, in the order of the design's table; then those of earlier versions that still hold."""

from __future__ import annotations

from benchmarks.records import Bar

_ALL = (
    Bar("dense-log-50", "dense-log", 25, 50, higher_is_better=True, race=True),
    Bar("dense-log-10", "dense-log", 40, 80, higher_is_better=True, race=True),
    Bar("dense-omega", "dense-omega", 9, 20, higher_is_better=True, race=True),
    Bar("gram", "gram", 1, 0.4),
    Bar("indicator-read", "indicator", 4, 2),
    Bar("indicator-peer", "indicator", 200, 400, higher_is_better=True, race=True),
    Bar("memory", "memory", 0.25, 0.05),
    Bar("conditions-polars", "parquet", 1.1, 0.8),
    Bar("conditions-duckdb", "parquet", 1.6, 1.2),
    Bar("numbers-polars", "parquet", 8, 5),
    Bar("numbers-duckdb", "parquet", 8, 5),
    Bar("numbers-engines", "parquet", 1.5),
    Bar("bootstrap", "bootstrap", 80, 40),
    Bar("identify", "identify", 0.05),
    Bar("report", "report", 5, 2),
    Bar("errors", "errors", 0.4),
    Bar("import", "import", 1.6),
    Bar("growth-rows", "growth", 1.05, 1.0),
    Bar("growth-samples", "growth", 1.3),
    # Kept from earlier tables
    Bar("read-10", "read", 6, 4),
    Bar("read-100", "read", 20, 10),
    Bar("engine-bootstrap", "parquet", 10, 1),
    Bar("passes-conditions", "lazy", 1),
    Bar("passes-numbers", "lazy", 6),
    Bar("blocks", "blocks", 1.05, 1.0),
    Bar("small-matrix", "small", 1),
    Bar("small-pandas", "small", 5),
    Bar("physics-pymbar", "physics", 10, higher_is_better=True),
    Bar("physics-fastest", "physics", 1, higher_is_better=True, race=True),
)
BARS = {bar.name: bar for bar in _ALL}
