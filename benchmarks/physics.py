"""Free energies of real simulations and of large synthetic ones, beside every solver of MBAR's equations on PyPI."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module

import numpy as np

import vardi
from benchmarks import alchemical
from benchmarks.dense import SOLVED, fastest, times_of
from benchmarks.peers import BAYESMBAR, FASTMBAR, PYMBAR, VARDI, LogOmegas, Peer, contestants, installed
from benchmarks.problems import Floats, Integers, Problem, oscillators, residual
from benchmarks.records import Record, Report, Settings, Target, ratio
from benchmarks.timing import Contestant, Timing, race

SYNTHETIC = ((50_000, 50), (96_000, 96))
WITH_WEIGHTS = "vardi, with W_nk"
SAME = 1e-6  # kT up to which two answers are the same
LEAST_TIMES = 5  # calls to take the median of, at least
PATIENCE = 240.0  # seconds of timed calls
SMOKE = 2  # real systems in a run that is smaller than the design


def _uwham(u_kn: Floats, sizes: Integers) -> Callable[[], LogOmegas]:
    return import_module("benchmarks.uwham").prepare(u_kn, sizes)


PEERS = (
    PYMBAR,
    FASTMBAR,
    BAYESMBAR,
    Peer("UWHAM by L-BFGS, Numba", ("numba",), _uwham, note="until the gradient settles; written for this race"),
)


def physics(settings: Settings) -> Report:
    """Time the constructor of MBAR, and its equivalents, on reduced potentials."""
    records: list[Record] = []
    targets: list[Target] = []
    for name, problem in _problems(settings):
        work = f"{name} ({problem.label})"
        field = [*_ours(problem), *contestants(PEERS, problem)]
        repeats = max(settings.repeats, LEAST_TIMES) if settings.shrink == 1 else settings.repeats
        timings = race(field, replace(settings, repeats=repeats, calls=1, patience=PATIENCE))
        found = [_record(work, timings[who], problem, timings) for who in (VARDI, WITH_WEIGHTS)]
        for peer in PEERS:
            own = timings.get(peer.who)
            found.append(
                Record(work, peer.who, note=peer.missing)
                if own is None
                else _record(work, own, problem, timings, peer.note)
            )
        records += found
        targets += _targets(work, found)
    missing = [] if _has_systems() else [f"The real systems need {' and '.join(alchemical.NEEDS)}, not installed here."]
    return Report(
        "physics",
        "Reduced potentials given: alchemtest's systems, each leg on its own, and harmonic oscillators. vardi is "
        "`vardi.mbar.MBAR(u_kn, N_k)` and its free energies; the weights of all rows in all states, which "
        "`pymbar.MBAR(u_kn, N_k)` always makes, are a line of their own. Import, parsing and compilation are left out, "
        "and medians count. *Apart* is the largest difference of a free energy from vardi's.",
        tuple(records),
        tuple(targets),
        (
            "Left out are the legs whose files lack potentials of some states (all of NAMD's, which hold neighbours "
            f"only): MBAR needs them. Ratios are to the fastest whose residual is {SOLVED:.0e} or less.",
            *missing,
        ),
    )


def _problems(settings: Settings) -> Iterator[tuple[str, Problem]]:
    if _has_systems():
        yield from alchemical.systems(0 if settings.shrink == 1 else SMOKE)
    for n, K in SYNTHETIC:
        yield "oscillators", oscillators(settings.rows(n, least=4 * K), K)


def _has_systems() -> bool:
    return all(installed(module) for module in alchemical.NEEDS)


def _ours(problem: Problem) -> list[Contestant]:
    u_kn, sizes = np.ascontiguousarray(-problem.matrix.T), problem.sizes

    def with_weights() -> LogOmegas:
        mbar = vardi.mbar.MBAR(u_kn, sizes)
        assert mbar.Log_W_nk.shape == problem.matrix.shape
        return -mbar.f_k

    return [
        Contestant(VARDI, lambda: -vardi.mbar.MBAR(u_kn, sizes).f_k),
        Contestant(WITH_WEIGHTS, with_weights),
    ]


def _record(work: str, timing: Timing, problem: Problem, timings: dict[str, Timing], note: str = "") -> Record:
    if timing.failure:
        return Record(work, timing.who, note=timing.failure)
    said = [] if timing.who in (VARDI, WITH_WEIGHTS) else [timing.compiled]
    sampled = problem.sizes > 0
    accuracy = residual(problem.matrix[:, sampled], problem.sizes[sampled], np.asarray(timing.result)[sampled])
    if timing.who != VARDI and not timings[VARDI].failure:
        apart = np.ptp((np.asarray(timing.result) - timings[VARDI].result)[sampled])
        said.append(f"apart {apart:.1e} kT" + ("" if apart <= SAME else ": NOT the same answer"))
    return Record(work, timing.who, timing.times, accuracy, None, "; ".join(filter(None, [*said, note])))


def _targets(work: str, records: list[Record]) -> list[Target]:
    mine, who = times_of(records, VARDI), fastest(records, {peer.who for peer in PEERS})
    note = who or "no peer is installed that solved it"
    return [
        ratio(f"{work}: speed over pymbar", times_of(records, PYMBAR.who), mine),
        ratio(f"{work}: speed over the fastest", times_of(records, who), mine, note=note, race=True),
    ]
