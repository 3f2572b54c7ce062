"""Dense solves against the peers, log omega or omega given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.bars import BARS
from benchmarks.peers import FASTMBAR_BARE, PEERS, VARDI, Peer, contestants, lbfgs, ours
from benchmarks.problems import Problem, oscillators, residual
from benchmarks.records import Record, Report, Settings, Target, Times, ratio
from benchmarks.timing import Contestant, Timing, race

SIZES = ((200_000, 50), (1_000_000, 10))
SOLVED = 1e-6  # residual up to which a peer counts: far looser than vardi's own limit, in the peers' favour


def dense_log(settings: Settings) -> Report:
    """Time dense solves with log omega given, against every peer."""
    peers = (*PEERS, FASTMBAR_BARE) if settings.full else PEERS
    public = {peer.who for peer in peers if peer.public}
    records: list[Record] = []
    targets: list[Target] = []
    for n, K in SIZES:
        problem = oscillators(settings.rows(n, least=4 * K), K)
        timings = race([ours(problem, log=True), *contestants(peers, problem)], settings)
        found = peer_records(problem.label, timings, peers, problem)
        records += found
        who = fastest(found, public)
        targets.append(
            ratio(
                f"{problem.label}: speed over the fastest peer",
                times_of(found, who),
                times_of(found, VARDI),
                BARS[f"dense-log-{K}"],
                who or "no peer is installed that solved it",
                race=True,
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
        problem = oscillators(settings.rows(n, least=4 * K), K).exp()
        field = [
            ours(problem, log=False),
            Contestant(baseline, lbfgs(problem, exact=False)),
            Contestant(to_the_end, lbfgs(problem, exact=True)),
        ]
        timings = race(field, settings)
        records += [record(problem.label, timing, problem.log()) for timing in timings.values()]
        for who in (baseline, to_the_end):
            bar = BARS["dense-omega"] if who == baseline and K == 10 else None
            what = f"{problem.label}: speed over {who}"
            targets.append(ratio(what, timings[who].times, timings[VARDI].times, bar, race=bar is not None))
    return Report(
        "dense-omega",
        "The same problems with omega given, against L-BFGS on the dual as the paper's package solves it (SciPy "
        "L-BFGS-B with gradient, random start, omega as it stands, two matrix products an evaluation).",
        tuple(records),
        tuple(targets),
        ("SciPy's tolerance of 1e-10 stops on the objective too, long before the equations hold: see the residuals.",),
    )


def peer_records(work: str, timings: Mapping[str, Timing], peers: Sequence[Peer], problem: Problem) -> list[Record]:
    """Return a record for vardi and for each peer, including those that are not installed."""
    records = [record(work, timing, problem) for who, timing in timings.items() if who.startswith(VARDI)]
    for peer in peers:
        if peer.who in timings:
            records.append(record(work, timings[peer.who], problem, peer.note))
        else:
            records.append(Record(work, peer.who, note=peer.missing))
    return records


def record(work: str, timing: Timing, problem: Problem, note: str = "") -> Record:
    """Return the times of one contestant, and how well it solved the problem, which has log omega."""
    if timing.failure:
        return Record(work, timing.who, note="; ".join(filter(None, [timing.failure, note])))
    first = "" if timing.who.startswith(VARDI) else timing.compiled
    accuracy = residual(problem.matrix, problem.sizes, timing.result)
    return Record(work, timing.who, timing.times, accuracy, None, "; ".join(filter(None, [first, note])))


def times_of(records: Sequence[Record], who: str | None) -> Times | None:
    """Return the times of one contestant."""
    return next((record.times for record in records if record.who == who), None)


def fastest(records: Sequence[Record], among: set[str]) -> str | None:
    """Return the fastest contestant that solved the problem."""
    solved = [r for r in records if r.who in among and r.seconds and r.accuracy is not None and r.accuracy <= SOLVED]
    return min(solved, key=lambda r: r.seconds or 0.0).who if solved else None
