"""A run -> Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benchmarks.machine import NONE, PACKAGES
from benchmarks.records import Record, Report, Run, Target
from benchmarks.standing import WAYS, Missed, Standing, standing

RACED = ("pymbar", "jax", "fastmbar", "torch", "bayesmbar", "scipy")


def render(run: Run, tried: Mapping[str, Sequence[str]], picture: str | None = None) -> str:
    """Return the whole page, with a picture beside it if there is one.

    Parameters
    ----------
    run : Run
        The results.
    tried : mapping from str to sequence of str
        What was tried to reach bars, by their names.
    picture : str, optional
        File beside the page that :func:`benchmarks.draw.draw` draws.
    """
    parts = [
        "# Benchmarks",
        "Written by the command below from one run on one machine; do not edit. Contestants are called by turns. "
        "*Time* is the median of a contestant's calls by the clock, with the quartiles beside it, and *processor* the "
        "median of the time of all cores; compilation is left out by a first call. Ratios are of medians; *between* is "
        "what the quartiles allow. *Residual* is max |Gamma_k - 1|, the relative error of Vardi's system, computed for "
        "every solver by the same NumPy function.",
        *(_standing(standing(run.reports, tried), run.versions) if run.judged else []),
        _facts(run),
        *([f"![Time against size, and every target over its bar]({picture})"] if picture else []),
        *(_section(report, judged=run.judged) for report in run.reports),
    ]
    return "\n\n".join(parts) + "\n"


def _standing(found: Standing, versions: Mapping[str, str]) -> list[str]:
    parts = []
    if found.judged:
        reached = len(found.judged) - len(found.missed)
        parts.append(f"**Bars**: {reached} of {len(found.judged)} reached.")
    if found.missed:
        parts.append("**Missed**:\n\n" + "\n".join(map(_missed, found.missed)))
    if found.unmeasured:
        parts.append(f"**Not measured**: {'; '.join(found.unmeasured)}. The sections say why.")
    if found.races:
        parts.append(_fastest(found.races, versions))
    return parts


def _missed(missed: Missed) -> str:
    unit, bar = missed.target.unit, missed.bar
    line = (
        f"- **{bar.benchmark}** (`{bar.name}`), {missed.target.what}: {level(missed.target.measured, unit)}, bar "
        f"{level(bar.level, unit)}, {missed.by}."
    )
    ways = [f"  - Tried: {way}" for way in missed.tried]
    if len(ways) < WAYS:
        ways.append(f"  - {len(ways)} of {WAYS} ways noted in `tried.toml`.")
    return "\n".join([line, *ways])


def _fastest(races: Sequence[Target], versions: Mapping[str, str]) -> str:
    raced = ", ".join(f"{name} {versions[name]}" for name in RACED if name in versions)
    absent = [name for name in RACED if name not in versions]
    ratios = [target.measured for target in races if target.measured is not None]
    if min(ratios) > 1:
        between = f"{level(min(ratios), 'x')} to {level(max(ratios), 'x')}"
        text = f"**Fastest on PyPI, with these versions**: {raced}. The next one takes {between} vardi's time."
    else:
        slower = "; ".join(f"{t.what}: {level(t.measured, 'x')}" for t in races if t.measured and t.measured <= 1)
        text = f"**NOT the fastest on PyPI, with these versions**: {raced}. {slower}."
    return text + (f" Not installed, so not raced: {', '.join(absent)}." if absent else "")


def _section(report: Report, *, judged: bool) -> str:
    parts = [f"## {report.name}", report.about]
    if report.records:
        parts.append(_records(report.records))
    if report.targets:
        parts.append(_targets(report.targets, judged=judged))
    return "\n\n".join([*parts, *report.remarks])


def _records(records: Sequence[Record]) -> str:
    head = ("work", "who", "time", "quartiles", "processor", "calls", "residual", "extra memory", "note")
    rows = [
        (
            r.work,
            r.who,
            duration(r.seconds),
            _quartiles(r),
            duration(r.times.processor_median if r.times else None),
            str(r.times.calls) if r.times else NONE,
            NONE if r.accuracy is None else f"{r.accuracy:.1e}",
            NONE if r.extra_memory is None else f"{r.extra_memory:.3g}x",
            r.note,
        )
        for r in records
    ]
    return table(head, rows, numbers=range(2, 8))


def _targets(targets: Sequence[Target], *, judged: bool) -> str:
    head = ("target", "measured", "between", "in processor time", "bar", "verdict", "note")
    rows = [
        (
            t.what,
            level(t.measured, t.unit),
            NONE if t.between is None else " to ".join(level(end, t.unit) for end in t.between),
            level(t.processor, t.unit),
            level(t.bar.level if t.bar else None, t.unit),
            t.verdict if judged or t.measured is None else "not judged",
            t.note,
        )
        for t in targets
    ]
    return table(head, rows, numbers=range(1, 5))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int]) -> str:
    """Return a table, with the columns that hold numbers aligned to the right."""
    rule = ["---:" if column in numbers else "---" for column in range(len(head))]
    lines = [head, rule, *([cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _quartiles(record: Record) -> str:
    if record.times is None or record.times.calls < 2:
        return NONE
    return " to ".join(map(duration, record.times.quartiles))


def duration(seconds: float | None) -> str:
    """Return seconds as text, in milliseconds if they are few."""
    if seconds is None:
        return NONE
    return f"{1e3 * seconds:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def level(value: float | None, unit: str) -> str:
    """Return a number as it is shown and compared, with its unit."""
    if value is None:
        return NONE
    number = f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
    return number + (unit if unit == "x" else f" {unit}").rstrip()


def _facts(run: Run) -> str:
    shrink, took = run.settings.shrink, run.took
    rows = {
        "command": f"`{run.command}`",
        "sizes": "as named in the design" if shrink == 1 else f"{shrink} times smaller: a smoke test",
        **run.facts,
        "versions": ", ".join(f"{name} {run.versions.get(name, 'not installed')}" for name in PACKAGES),
        "took": f"{sum(took.values()) / 60:.1f} minutes: "
        + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in took.items()),
    }
    return table(("", ""), list(rows.items()), numbers=())
