"""Reports -> Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benchmarks.machine import NONE, facts, version
from benchmarks.records import Record, Report, Settings, Target
from benchmarks.standing import WAYS, Missed, Standing

RACED = ("pymbar", "jax", "fastmbar", "torch", "bayesmbar", "scipy")


def render(
    reports: Sequence[Report],
    settings: Settings,
    command: str,
    load: float | None,
    took: Mapping[str, float],
    standing: Standing,
    picture: str | None = None,
) -> str:
    """Return the whole page, with a picture beside it if there is one."""
    judged = settings.shrink == 1  # the bars are for the sizes of the design
    parts = [
        "# Benchmarks",
        "Written by the command below from one run on one machine; do not edit. Contestants are called by turns. "
        "*Time* is the median of a contestant's calls by the clock, with the quartiles beside it, and *processor* the "
        "median of the time of all cores; compilation is left out by a first call. Ratios are of medians; *between* is "
        "what the quartiles allow. *Residual* is max |Gamma_k - 1|, the relative error of Vardi's system, computed for "
        "every solver by the same NumPy function.",
        *(_standing(standing) if judged else []),
        _facts(settings, command, load, took),
        *([f"![Time against size, and every target over its bar]({picture})"] if picture else []),
        *(_section(report, judged=judged) for report in reports),
    ]
    return "\n\n".join(parts) + "\n"


def _standing(standing: Standing) -> list[str]:
    parts = []
    if standing.judged:
        parts.append(
            f"**Bars**: {len(standing.judged) - len(standing.missed)} of {len(standing.judged)} reached, and "
            f"{standing.goals} goals."
        )
    if standing.missed:
        parts.append("## Missed\n\n" + "\n".join(map(_missed, standing.missed)))
    if standing.unmeasured:
        names = ", ".join(bar.name for bar in standing.unmeasured)
        parts.append(f"**Not measured**: {names}. What ran says why below.")
    if standing.races:
        parts.append(_fastest(standing.races))
    return parts


def _missed(missed: Missed) -> str:
    unit, bar = missed.target.unit, missed.bar
    line = (
        f"- **{bar.benchmark}** (`{bar.name}`), {missed.target.what}: {_level(missed.target.measured, unit)}, bar "
        f"{_level(bar.level, unit)}, {missed.by}."
    )
    ways = [f"  - Tried: {way}" for way in missed.tried]
    if len(ways) < WAYS:
        ways.append(f"  - {len(ways)} of {WAYS} ways noted in `tried.toml`.")
    return "\n".join([line, *ways])


def _fastest(races: Sequence[Target]) -> str:
    raced = ", ".join(f"{name} {version(name)}" for name in RACED if version(name))
    absent = [name for name in RACED if not version(name)]
    ratios = [target.measured for target in races if target.measured is not None]
    if min(ratios) > 1:
        between = f"{_level(min(ratios), 'x')} to {_level(max(ratios), 'x')}"
        text = f"**Fastest on PyPI, with these versions**: {raced}. The next one takes {between} vardi's time."
    else:
        slower = "; ".join(f"{t.what}: {_level(t.measured, 'x')}" for t in races if t.measured and t.measured <= 1)
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
            _time(r.seconds),
            _quartiles(r),
            _time(r.times.processor_median if r.times else None),
            str(r.times.calls) if r.times else NONE,
            NONE if r.accuracy is None else f"{r.accuracy:.1e}",
            NONE if r.extra_memory is None else f"{r.extra_memory:.3g}x",
            r.note,
        )
        for r in records
    ]
    return table(head, rows, numbers=range(2, 8))


def _targets(targets: Sequence[Target], *, judged: bool) -> str:
    head = ("target", "measured", "between", "in processor time", "bar", "goal", "verdict", "note")
    rows = [
        (
            t.what,
            _level(t.measured, t.unit),
            NONE if t.between is None else " to ".join(_level(end, t.unit) for end in t.between),
            _level(t.processor, t.unit),
            _level(t.bar.level if t.bar else None, t.unit),
            _level(t.bar.goal if t.bar else None, t.unit),
            t.verdict if judged or t.measured is None else "not judged",
            t.note,
        )
        for t in targets
    ]
    return table(head, rows, numbers=range(1, 6))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int]) -> str:
    """Return a table, with the columns that hold numbers aligned to the right."""
    rule = ["---:" if column in numbers else "---" for column in range(len(head))]
    lines = [head, rule, *([cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _quartiles(record: Record) -> str:
    if record.times is None or record.times.calls < 2:
        return NONE
    return " to ".join(map(_time, record.times.quartiles))


def _time(seconds: float | None) -> str:
    if seconds is None:
        return NONE
    return f"{1e3 * seconds:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def _level(value: float | None, unit: str) -> str:
    if value is None:
        return NONE
    number = f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
    return number + (unit if unit == "x" else f" {unit}").rstrip()


def _facts(settings: Settings, command: str, load: float | None, took: Mapping[str, float]) -> str:
    each = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in took.items())
    rows = {
        "command": f"`{command}`",
        "sizes": "as named in the design" if settings.shrink == 1 else f"{settings.shrink} times smaller: a smoke test",
        **facts(load),
        "took": f"{sum(took.values()) / 60:.1f} minutes: {each}",
    }
    return table(("", ""), list(rows.items()), numbers=())
