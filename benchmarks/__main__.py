"""The command line: arguments -> benchmarks -> Markdown."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks._records import Report, Settings
from benchmarks._render import render
from benchmarks.dense import dense_log, dense_omega
from benchmarks.growth import growth
from benchmarks.indicator import indicator
from benchmarks.memory import memory
from benchmarks.read import read
from benchmarks.small import small

BENCHMARKS: dict[str, Callable[[Settings], Report]] = {
    "dense-log": dense_log,
    "dense-omega": dense_omega,
    "memory": memory,
    "read": read,
    "indicator": indicator,
    "small": small,
    "growth": growth,
}
RESULTS = Path(__file__).resolve().parent / "RESULTS.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks; return 1 where one of them failed."""
    parser = _parser()
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    names = [name for name in BENCHMARKS if name in options.names] if options.names else list(BENCHMARKS)
    shrink = options.shrink or (20 if options.quick else 1)
    settings = Settings(shrink, options.repeats or (3 if shrink == 1 else 2), options.full)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    reports = [_run(name, settings) for name in names]
    page = render(reports, settings, _command(options), load)
    complete = len(names) == len(BENCHMARKS) and shrink == 1
    output = options.output or (RESULTS if complete else None)
    if output is None:
        print(page)
    else:
        write(page, output)
        print(f"Wrote {output}.", file=sys.stderr)
    return int(any(report.about.startswith("FAILED") for report in reports))


def write(text: str, path: Path) -> None:
    """Write a file that is never there by half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def _run(name: str, settings: Settings) -> Report:
    print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
    started = time.perf_counter()
    try:
        report = BENCHMARKS[name](settings)
    except Exception as error:  # one that fails should not cost the others their hour
        report = Report(name, f"FAILED: {type(error).__name__}: {error}")
    print(f"{time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
    return report


def _command(options: argparse.Namespace) -> str:
    """What was asked for, without where it was written."""
    flags = [f"--{flag}" for flag in ("quick", "full") if getattr(options, flag)]
    numbers = [f"--{flag} {getattr(options, flag)}" for flag in ("shrink", "repeats") if getattr(options, flag)]
    return " ".join(["python -m benchmarks", *options.names, *flags, *numbers])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="vardi beside its peers, in one run on one machine. "
        "A complete run at full size goes to benchmarks/RESULTS.md; any other is printed unless --output is given.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones: {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="20 times fewer rows: a smoke test")
    parser.add_argument("--shrink", type=_positive, metavar="N", help="N times fewer rows")
    parser.add_argument("--repeats", type=_positive, metavar="R", help="timed calls of each contestant")
    parser.add_argument("--full", action="store_true", help="run the peers on the largest matrix too: slow")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where the tables go")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("give 1 or more")
    return value


if __name__ == "__main__":
    sys.exit(main())
