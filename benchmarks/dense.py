"""Dense solves against the peers, log omega or omega given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.peers import PEERS, VARDI, Peer, contestants, lbfgs, ours
from benchmarks.problems import Problem, oscillators, residual
from benchmarks.records import Record, Report, Settings, Target
from benchmarks.timing import Contestant, Timing, race

SIZES = ((200_000, 50), (1_000_000, 10))
SOLVED = 1e-6  # residual up to which a peer counts: far looser than what vardi is held to, in the peers' favour


def dense_log(settings: Settings) -> Report:
    """Time dense solves with log omega given, against every peer."""
    records: list[Record] = []
    targets: list[Target] = []
    for n, K in SIZES:
        problem = oscillators(settings.rows(n, least=4 * K), K)
        field = [ours(problem, log=True), *contestants(PEERS, problem)]
        timings = race(field, settings.repeats, settings.patience)
        found = peer_records(problem.label, timings, PEERS, problem)
        records += found
        public = {peer.who for peer in PEERS if peer.public}
        targets.append(_against_fastest(problem.label, found, public, "the fastest peer", bar=10, goal=25))
        targets.append(
            _against_fastest(
                problem.label, found, {peer.who for peer in PEERS}, "the fastest, private steps included", None, None
            )
        )
    return Report(
        "dense-log",
        "Harmonic oscillators, log omega given. vardi is the whole call (validation, identifiability, solve, "
        "certificate, weights); the peers get their K x n reduced potentials ready made.",
        tuple(records),
        tuple(targets),
        (
            f"Ratios are to the fastest peer whose residual is {SOLVED:.0e} or less. vardi is held to 1e-10, so a peer "
            "that stops earlier is favoured by the ratio, never vardi.",
        ),
    )


def dense_omega(settings: Settings) -> Report:
    """Time dense solves with omega given, against L-BFGS on the dual."""
    records: list[Record] = []
    targets: list[Target] = []
    baseline, to_the_end = "L-BFGS, tolerance 1e-10", "L-BFGS, until the gradient settles"
    for n, K in SIZES:
        log_problem = oscillators(settings.rows(n, least=4 * K), K)
        problem = log_problem.exp()
        field = [
            ours(problem, log=False),
            Contestant(baseline, lbfgs(problem, exact=False)),
            Contestant(to_the_end, lbfgs(problem, exact=True)),
        ]
        timings = race(field, settings.repeats, settings.patience)
        found = [record(problem.label, timing, problem.log()) for timing in timings.values()]
        records += found
        for who, bar, goal in ((baseline, 8, 20), (to_the_end, None, None)):
            ratio = speedup(found, who)
            targets.append(Target(f"{problem.label}: speed over {who}", ratio, bar, goal, higher_is_better=True))
    return Report(
        "dense-omega",
        "The same problems with omega given, against L-BFGS on the dual as the paper's package solves it (SciPy "
        "L-BFGS-B with gradient, random start, omega as it stands, two matrix products an evaluation).",
        tuple(records),
        tuple(targets),
        ("SciPy's tolerance of 1e-10 stops on the objective too, long before the equations hold: see the residuals.",),
    )


def peer_records(
    work: str, timings: Mapping[str, Timing], peers: Sequence[Peer], problem: Problem, note: str = ""
) -> list[Record]:
    """One record for vardi and each peer, those that are not installed included."""
    records = [record(work, timings[VARDI], problem)]
    for peer in peers:
        if peer.who in timings:
            records.append(record(work, timings[peer.who], problem, "; ".join(filter(None, [peer.note, note]))))
        else:
            records.append(Record(work, peer.who, note=peer.missing))
    return records


def record(work: str, timing: Timing, problem: Problem, note: str = "") -> Record:
    """Return the time of one contestant, and how well it solved the problem."""
    if timing.failure:
        return Record(work, timing.who, note="; ".join(filter(None, [timing.failure, note])))
    took = f"best of {timing.calls}"
    if timing.who != VARDI and timing.warm_up > max(0.2 * (timing.best or 0.0), 0.1):
        took += f"; first call (compilation) {timing.warm_up:.2g} s more"
    accuracy = residual(problem.matrix, problem.sizes, timing.result)
    return Record(work, timing.who, timing.best, accuracy, None, "; ".join(filter(None, [took, note])))


def speedup(records: Sequence[Record], who: str) -> float | None:
    """How many times as long as vardi the other took."""
    seconds = {record.who: record.seconds for record in records}
    mine, other = seconds.get(VARDI), seconds.get(who)
    return other / mine if mine and other else None


def fastest(records: Sequence[Record], among: set[str]) -> str | None:
    """Return the fastest that solved the problem."""
    solved = [r for r in records if r.who in among and r.seconds and r.accuracy is not None and r.accuracy <= SOLVED]
    return min(solved, key=lambda r: r.seconds or 0.0).who if solved else None


def _against_fastest(
    work: str, records: Sequence[Record], among: set[str], what: str, bar: float | None, goal: float | None
) -> Target:
    who = fastest(records, among)
    ratio = speedup(records, who) if who else None
    return Target(
        f"{work}: speed over {what}",
        ratio,
        bar,
        goal,
        higher_is_better=True,
        note=who or "no peer is installed that solved it",
    )
