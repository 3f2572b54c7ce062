"""How often rows are passed, and from where a solve begins: starts, subsamples and what a pass leaves behind."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracle import (
    KINDS,
    certify,
    design,
    far_logs,
    log_of,
)

import vardi
from vardi._rows.base import Rows
from vardi._rows.dense import Dense
from vardi._rows.stored import Blocks, Stored
from vardi._solve.newton import _start, newton


def oscillators(states, rows, seed=0):
    design = vardi.datasets.harmonic_oscillators(states=states, rows_per_state=rows, seed=seed)
    return design.omega, design.source


@pytest.fixture
def passes(monkeypatch):
    """Record rows and gram of each pass for sums."""
    made = []
    sums = Dense.sums

    def counted(self, u, *, gram=True, **options):
        made.append((len(self), gram))
        return sums(self, u, gram=gram, **options)

    monkeypatch.setattr(Dense, "sums", counted)
    return made


@pytest.mark.parametrize("log", [False, True])
def test_few_passes_over_all_rows(passes, log):
    logs, source = oscillators(10, 20_000)
    fit = vardi.debias_matrix(logs if log else np.exp(logs), source, log=log)
    whole = [gram for rows, gram in passes if rows == len(source)]
    assert len(whole) <= 5
    assert sum(whole) == 1  # the first step takes the Hessian of the subsample, later ones reuse that of all rows
    assert fit.solution.residual < 1e-10


def test_what_a_pass_leaves_behind_serves_the_weights_only_where_it_was_taken():
    logs, source = oscillators(4, 5000)
    rows = Dense(np.exp(logs), source, moderate=True)
    u = np.log(rows.sizes)
    rows.sums(u)
    elsewhere, _ = rows.weights(u + np.array([0.0, 1.0, 0.0, 0.0]))
    fresh, _ = Dense(np.exp(logs), source, moderate=True).weights(u + np.array([0.0, 1.0, 0.0, 0.0]))
    assert_allclose(elsewhere, fresh, rtol=1e-13)
    rows.sums(u)
    there, _ = rows.weights(u)
    again, _ = rows.weights(u)  # the first took the array
    assert_allclose(there, again, rtol=1e-13)


def log_omegas(fit: vardi.DebiasedSample) -> np.ndarray:
    return np.array([fit.log_omegas[name] for name in fit.names])


# ---------------------------------------------------------------- large n, large K


@pytest.mark.parametrize("kind", ["tilt", "power"])
def test_the_subsample_start_leaves_no_trace(kind, monkeypatch):
    d = design(kind, 8, 60_000, 0)
    warm = vardi.debias_matrix(d.omega, d.source)
    monkeypatch.setattr("vardi._solve.newton.MAX_DIRECT_NUMBERS", 10**12)
    cold = vardi.debias_matrix(d.omega, d.source)
    certify(warm, d.omega, d.source)
    np.testing.assert_allclose(warm.weights, cold.weights, rtol=1e-12)
    np.testing.assert_allclose(log_omegas(warm), log_omegas(cold), rtol=0, atol=1e-12)


# ---------------------------------------------------------------- what a solution says of itself


def test_large_logs_lose_as_much_in_blocks():
    logs, source, truth = far_logs(0)
    rows = Blocks(Stored(logs), source, log=True)
    solution = newton(rows, truth.u)
    assert truth.off(solution.u) <= solution.certificate <= 1e-8


def test_ordinary_logs_add_next_to_nothing_to_the_certificate(monkeypatch):
    """Of a design with logs of a few units: what they lose is far below what the sums do."""
    for kind in KINDS[1:]:
        d = design(kind, 5, 600, 1)
        counted = vardi.debias_matrix(log_of(d.omega), d.source, log=True).solution.certificate
        with monkeypatch.context() as without:
            without.setattr(Rows, "exponents", lambda rows, u: 0.0)
            assert counted <= 1.1 * vardi.debias_matrix(log_of(d.omega), d.source, log=True).solution.certificate


# ---------------------------------------------------------------- the input is left as it was


def count_passes(monkeypatch):
    from vardi._rows.dense import Dense

    passes = []
    kept = Dense.sums

    def sums(self, *arguments, **options):
        passes.append(len(self))
        return kept(self, *arguments, **options)

    monkeypatch.setattr(Dense, "sums", sums)
    return passes


def test_it_starts_from_the_solution(monkeypatch):
    design = vardi.datasets.harmonic_oscillators(states=10, rows_per_state=4000, seed=0)
    fit = vardi.debias_matrix(design.omega, design.source, log=True)
    passes = count_passes(monkeypatch)
    fit.update({"3": design.omega[:50]})
    warm = len(passes)
    assert min(passes) > len(design.source)  # no subsample was solved first
    passes.clear()
    joined = np.concatenate([design.omega, design.omega[:50]])
    vardi.debias_matrix(joined, np.append(design.source, np.full(50, 3)), log=True)
    assert warm < len(passes)
    assert warm <= 5


@pytest.mark.parametrize("log", [True, False])
def test_a_new_sample_starts_as_the_others_weigh_their_rows(log):
    design = vardi.datasets.harmonic_oscillators(states=5, rows_per_state=2000, seed=0)
    omega = design.omega if log else np.exp(design.omega)
    fit = vardi.debias_matrix(omega, design.source, log=log)
    told = {name: value for name, value in zip(fit.names, fit.solved.log_omegas, strict=True) if name != "2"}
    found = _start(fit.solved.rows, fit.names, told)
    assert np.ptp(found - fit.solution.u) < 0.2  # a few standard errors of what four samples say of the fifth
