"""Memory and threads: what the machine has, and what is done where it gives none."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

import vardi
from vardi import _machine as _memory
from vardi import _machine as threads
from vardi._rows.stored import Blocks


class TestTooLittleMemory:
    """More than there is, is refused before any of it is taken, with the size that it needs."""

    def test_values_of_biases(self, monkeypatch):
        monkeypatch.setattr(_memory, "available_memory", lambda: 10**6)
        monkeypatch.setattr(_memory, "ALWAYS", 10**6)
        x = np.linspace(0.0, 1.0, 50_000)
        biases = {"all": 1, "long": "x + 1", "low": "x <= 0.5"}
        with pytest.raises(vardi.TooLargeError) as refusal:
            vardi.debias({"all": x, "long": x, "low": x[x <= 0.5]}, biases)
        assert refusal.value.bytes == 125_000 * (1 + 16 + 16)
        assert str(refusal.value) == (
            "The values of 3 biases on 125,000 rows need 3.9 MB of memory, but 1.0 MB is available. Give lazy frames "
            "(Polars, DuckDB, Spark), which are asked only for sums; or give vardi.debias_matrix a function that "
            "yields omega in blocks."
        )

    def test_a_container_may_have_less_than_the_machine(self, monkeypatch, tmp_path):
        monkeypatch.setattr(_memory, "CGROUP", tmp_path)
        assert _memory.available_memory() > 2**20
        (tmp_path / "memory.max").write_text("1000000\n")
        (tmp_path / "memory.current").write_text("400000\n")
        assert _memory.available_memory() == 600_000
        (tmp_path / "memory.max").write_text("max\n")
        assert _memory.available_memory() > 2**20

    def test_a_system_that_does_not_tell(self, monkeypatch):
        def refuse(*_, **__):
            raise OSError

        monkeypatch.setattr("builtins.open", refuse)
        assert _memory._of_machine() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


STATES = 3


@pytest.fixture
def two_processors(monkeypatch):
    """Work in two threads whatever the machine has."""
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "2")
    monkeypatch.setattr("joblib.cpu_count", lambda: 2)


@pytest.fixture
def forbidden(monkeypatch):
    """Return a function that forbids threads from then on, and the list of those that were asked for."""
    asked = []

    def refuse(thread):
        asked.append(thread)
        raise RuntimeError("can't start new thread")

    def forbid():
        monkeypatch.setattr(threading.Thread, "start", refuse)
        return asked

    return forbid


def tilts(rows):
    """Return x, log omega of tilts of a normal population, and labels."""
    source = np.arange(rows) % STATES
    x = np.random.default_rng(0).normal(source / 2.0)
    return x, x[:, None] * np.arange(STATES) / 2.0, source


def test_a_browser_has_no_threads(forbidden):
    assert threads.can_start()
    assert type(threads.executor(2)).__name__ == "ThreadPoolExecutor"
    asked = forbidden()
    assert not threads.can_start()
    with threads.executor(2) as pool:
        assert list(pool.map(abs, [-1, 2, -3])) == [1, 2, 3]
        failed = pool.submit(int, "one")
    assert type(failed.exception()) is ValueError
    assert len(asked) == 2


@pytest.mark.usefixtures("two_processors")
def test_a_fit_of_a_million_numbers_is_the_same_without_threads(forbidden):
    x, log_omega, source = tilts(threads.THREADED // STATES + 1)
    expected = vardi.debias_matrix(log_omega, source, log=True)
    mean = expected.expectation(x)
    asked = forbidden()
    fit = vardi.debias_matrix(log_omega, source, log=True)
    assert asked  # it is large enough for threads
    np.testing.assert_array_equal(fit.weights, expected.weights)
    assert fit.expectation(x).interval == mean.interval


@pytest.mark.usefixtures("two_processors")
def test_rows_in_blocks_are_the_same_without_threads(forbidden):
    x, log_omega, source = tilts(9_000)

    def blocks():
        yield from np.array_split(log_omega, 7)

    expected = vardi.debias_matrix(blocks, source, log=True, max_in_memory=0)
    assert isinstance(expected.solved.rows, Blocks)
    asked = forbidden()
    fit = vardi.debias_matrix(blocks, source, log=True, max_in_memory=0)
    assert asked
    np.testing.assert_array_equal(fit.weights, expected.weights)
    assert fit.expectation(x).stderr == expected.expectation(x).stderr


@pytest.mark.usefixtures("two_processors")
@pytest.mark.parametrize("jobs", [None, 2])
def test_a_bootstrap_is_the_same_without_threads(jobs, forbidden):
    x, log_omega, source = tilts(600)
    fit = vardi.debias_matrix(log_omega, source, log=True)
    expected = fit.bootstrap(x, n=20, jobs=jobs)
    asked, done = forbidden(), []
    found = fit.bootstrap(x, n=20, jobs=jobs, progress=lambda *progress: done.append(progress))
    assert asked
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.log_omegas, expected.log_omegas)
    assert done[-1] == (20, 20)


@pytest.mark.parametrize("width", [1, 3000])
def test_sums_are_the_same_for_any_number_of_cores_and_tasks_follow_these(width, monkeypatch):
    monkeypatch.setattr(threads, "BLOCK", 64)
    monkeypatch.setattr(threads, "THREADED", 0)
    numbers, found, asked = np.random.default_rng(0).normal(size=100_000), [], []

    class Watched(threads._InThisThread):
        def map(self, function, tasks):
            asked.append(len(tasks))
            return map(function, tasks)

    monkeypatch.setattr(threads, "executor", lambda workers: Watched())
    for cores in (1, 2, 64):
        monkeypatch.setattr("joblib.cpu_count", lambda cores=cores: cores)
        found.append(threads.sum_blocks(lambda rows: numbers[rows].sum(), len(numbers), width))
        starts = list(threads.map_blocks(lambda rows: rows.start, len(numbers), width))
        assert starts == [rows.start for rows in threads.blocks(len(numbers), width)]
    assert found[0] == found[1] == found[2] == pytest.approx(numbers.sum())
    few, many = asked[0], asked[-1]
    assert few <= 2 * 8
    assert many <= few if width == 3000 else many > 3 * 64  # the sums of wide rows take memory, of few runs at a time


@pytest.mark.parametrize(("cores", "expected"), [(2, 1), (8, 2)])
def test_tasks_at_once_start_threads_of_their_own_only_while_cores_are_free(monkeypatch, cores, expected):
    monkeypatch.setattr(threads, "cores", lambda: cores)
    values = np.random.default_rng(0).random(3_000_000)

    def task(_):
        seen = set()

        def block(part):
            seen.add(threading.get_ident())
            time.sleep(0.01)
            return values[part].sum()

        return threads.sum_blocks(block, len(values), 1), min(len(seen), 2)

    found = threads.at_once(task, [0, 1], len(values))
    assert [count for _, count in found] == [expected] * 2
    assert found[0][0] == found[1][0] == threads.sum_blocks(lambda part: values[part].sum(), len(values), 1)
