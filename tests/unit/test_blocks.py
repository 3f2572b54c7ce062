"""Matrices that are read in blocks: memory maps, Zarr, HDF5 and functions, against the same numbers in memory."""

from __future__ import annotations

import pickle
import re
import threading
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vardi
from vardi._estimate import refits
from vardi._rows import stored
from vardi._rows.stored import Blocks
from vardi._solve import refit
from vardi.errors import (
    DroppedSamplesWarning,
    EmptySampleError,
    ImpossibleRowError,
    InvalidBiasError,
    MismatchError,
    NeedsRowsError,
    NotIdentifiableError,
    VardiError,
    WeakOverlapWarning,
)

ROWS, STATES = 6000, 5
debias_matrix = partial(vardi.debias_matrix, max_in_memory=0)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read what would be one block in many, as if it were large."""
    monkeypatch.setattr(stored, "READ", 30_000)
    monkeypatch.setattr(stored, "BLOCK", 2_000)
    monkeypatch.setattr("vardi._machine.BLOCK", 5_000)


def windows(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x, omega with zeros, and labels in no order; the last state was not sampled."""
    rng = np.random.default_rng(seed)
    low, high = np.array([0.0, 0.2, 0.4, 0.5, 0.0]), np.array([0.4, 0.7, 0.9, 1.0, 1.0])
    source = rng.integers(0, STATES - 1, ROWS)
    x = rng.uniform(low[source], high[source])
    inside = (low <= x[:, None]) & (x[:, None] <= high)
    return x, np.where(inside, np.array([2.0, 1.0, 3.0, 1.0, 0.0]) + [0, 0, 0, 0, 1] * x[:, None], 0.0), source


def potentials(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x, log omega far from any moderate number, and labels."""
    design = vardi.datasets.harmonic_oscillators(states=STATES, rows_per_state=ROWS // STATES, seed=seed)
    return design.rows, design.omega - 300.0 * np.cos(design.rows)[:, None], design.source


def ragged(matrix: np.ndarray, seed: int = 3) -> Callable[[], Iterator[np.ndarray]]:
    """Return a function that yields the rows in blocks of 0 to 700 rows, all in the same memory."""

    def function() -> Iterator[np.ndarray]:
        rng, low = np.random.default_rng(seed), 0
        memory = np.empty((700, matrix.shape[1]), matrix.dtype)
        while low < len(matrix):
            high = min(low + int(rng.integers(0, 701)), len(matrix))
            block = memory[: high - low]
            block[:] = matrix[low:high]
            yield block
            low = high

    return function


def in_file(matrix: np.ndarray, folder: Path) -> np.ndarray:
    np.save(folder / "rows.npy", matrix)
    return np.load(folder / "rows.npy", mmap_mode="r")


def in_columns(matrix: np.ndarray, folder: Path) -> np.ndarray:
    np.save(folder / "columns.npy", np.ascontiguousarray(matrix.T))
    return np.load(folder / "columns.npy", mmap_mode="r").T


def in_zarr(matrix: np.ndarray, folder: Path) -> Any:
    zarr = pytest.importorskip("zarr", reason="zarr is not installed, so its arrays cannot be tried")
    return zarr.create_array(str(folder / "rows.zarr"), data=matrix, chunks=(501, 2))


def in_hdf5(matrix: np.ndarray, folder: Path) -> Any:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed, so its data sets cannot be tried")
    return h5py.File(folder / "rows.h5", "w").create_dataset("omega", data=matrix, chunks=(499, matrix.shape[1]))


def in_hdf5_whole(matrix: np.ndarray, folder: Path) -> Any:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed, so its data sets cannot be tried")
    return h5py.File(folder / "rows.h5", "w").create_dataset("omega", data=matrix)


def in_blocks(matrix: np.ndarray, folder: Path) -> Any:
    return ragged(matrix)


KINDS = [in_file, in_columns, in_zarr, in_hdf5, in_hdf5_whole, in_blocks]


def both(given: Any, matrix: np.ndarray, source: np.ndarray, **options: Any) -> tuple[Any, Any]:
    """Return the fit of what is read in blocks, and that of the same numbers in memory."""
    fit = debias_matrix(given, source, **options)
    assert isinstance(fit.solved.rows, Blocks)
    return fit, debias_matrix(matrix, source, **options)


def assert_same(fit: Any, expected: Any, x: np.ndarray) -> None:
    np.testing.assert_allclose(fit.weights, expected.weights, rtol=1e-10)
    np.testing.assert_allclose(list(fit.log_omegas.values()), list(expected.log_omegas.values()), rtol=0, atol=1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakOverlapWarning)
        mine, other = fit.expectation(x), expected.expectation(x)
        assert (mine.value, mine.stderr) == pytest.approx((other.value, other.stderr), rel=1e-10)
        for name, one in expected.log_normalisers().items():
            assert fit.log_normalisers()[name].stderr == pytest.approx(one.stderr, rel=1e-9)
        covariance = expected.log_omega_covariance()
        rounding = 1e-14 * covariance.max()  # what is known exactly has an error of rounding only
        np.testing.assert_allclose(fit.log_omega_covariance(), covariance, rtol=1e-8, atol=rounding)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", KINDS)
def test_omega_with_zeros(kind: Any, dtype: Any, tmp_path: Path) -> None:
    x, omega, source = windows()
    omega = omega.astype(dtype)
    assert_same(*both(kind(omega, tmp_path), omega.astype(np.float64), source), x)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", KINDS)
def test_potentials(kind: Any, dtype: Any, tmp_path: Path) -> None:
    x, log_omega, source = potentials()
    log_omega = log_omega.astype(dtype)
    assert_same(*both(kind(log_omega, tmp_path), log_omega.astype(np.float64), source, log=True), x)


@pytest.mark.parametrize("dtype", [np.int8, bool, ">f8", np.float16])
def test_other_types(dtype: Any, tmp_path: Path) -> None:
    x, omega, source = windows()
    omega = omega[:, :-1].astype(dtype)
    assert_same(*both(in_file(omega, tmp_path), omega.astype(np.float64), source), x)
    assert_same(*both(ragged(omega), omega.astype(np.float64), source), x)


@pytest.mark.parametrize("kind", [in_file, in_blocks])
def test_counts_some_of_them_zero(kind: Any, tmp_path: Path) -> None:
    x, omega, source = windows()
    counts = np.random.default_rng(1).integers(0, 3, ROWS)
    assert_same(*both(kind(omega, tmp_path), omega, source, counts=counts), x)


def test_rows_to_start_from_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    x, omega, source = windows()
    monkeypatch.setattr(stored, "GATHERED", 1000)
    fit, expected = both(ragged(omega), omega, source)
    start = fit.solved.rows.subsample(1.0, least=10**6)
    assert len(start) <= 1000 / STATES
    np.testing.assert_allclose(start.sizes, fit.solved.rows.sizes)
    assert_same(fit, expected, x)


def test_rows_of_some_samples_are_gathered_where_they_are_not_kept() -> None:
    _, omega, source = windows()
    rows = debias_matrix(ragged(omega), source).solved.rows
    missing = np.setdiff1d(np.flatnonzero(source == 1), rows._kept.rows)  # rows of one sample, none of which was kept
    part = rows.subset(np.sort(np.append(missing, np.flatnonzero(source == 2))))
    np.testing.assert_allclose(part.subsample(0.0, least=1).sizes, part.sizes)
    assert part.log_omega().shape == (len(part), STATES)


@pytest.mark.parametrize("kind", [in_file, in_blocks])
def test_shares_join_groups_that_are_solved_apart(kind: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 1, 3000)
    half = (x > 0.5).astype(int)
    source = 2 * half + rng.integers(0, 2, len(x))
    omega = np.zeros((len(x), 4))
    for k in range(4):
        omega[:, k] = (half == k // 2) * (1.0 if k % 2 else 1.0 + x)
    given = kind(omega, tmp_path)
    with pytest.raises(NotIdentifiableError) as memory:
        debias_matrix(omega, source)
    with pytest.raises(NotIdentifiableError) as read:
        debias_matrix(given, source)
    assert str(read.value) == str(memory.value)
    kept = (source % 2 == 1) | (rng.random(len(x)) < (1.0 + x) / 2)  # drawn as the biases say
    fit, expected = both(kind(omega[kept], tmp_path), omega[kept], source[kept], known={"1": 0.3, "3": 0.7})
    np.testing.assert_allclose(fit.weights, expected.weights, rtol=1e-10)


@pytest.mark.parametrize("kind", [in_file, in_blocks])
def test_largest_group(kind: Any, tmp_path: Path) -> None:
    x, omega, source = windows()
    omega, source = np.column_stack([omega, np.zeros(ROWS)]), source.copy()
    omega[:50], source[:50] = [0, 0, 0, 0, 0, 1.0], 5
    with pytest.warns(DroppedSamplesWarning, match="Left out '5' with 50 rows"):
        fit = debias_matrix(kind(omega, tmp_path), source, on_unidentified="largest")
    with pytest.warns(DroppedSamplesWarning):
        expected = debias_matrix(omega, source, on_unidentified="largest")
    assert isinstance(fit.solved.rows, Blocks)
    np.testing.assert_allclose(fit.weights, expected.weights, rtol=1e-10)
    assert fit.expectation(x).stderr == pytest.approx(expected.expectation(x).stderr, rel=1e-10)


def test_a_fit_of_a_file_can_be_pickled(tmp_path: Path) -> None:
    x, omega, source = windows()
    fit = debias_matrix(in_file(omega, tmp_path), source)
    again = pickle.loads(pickle.dumps(fit))
    assert again.expectation(x).stderr == pytest.approx(fit.expectation(x).stderr, rel=1e-12)


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("known", [{"0": 0.84}, {"0": (0.83, 0.01), "4": 0.49}])
def test_what_is_known_is_no_reason_to_hold_all_biases(
    known: Any, counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, omega, source = windows()
    counts = np.random.default_rng(2).integers(1, 4, ROWS) if counted else None
    expected = debias_matrix(omega, source, known=known, counts=counts)
    monkeypatch.setattr(stored, "ANSWER", 2 * ROWS)
    fit = debias_matrix(ragged(omega), source, known=known, counts=counts)
    # except for what rounding leaves, and where it breaks lines
    one, other = (re.sub(r"\d+e[-+]\d+", "", " ".join(str(each).split())) for each in (fit, expected))
    assert one == other
    assert "nan" not in one
    assert str(fit.known) == str(expected.known)
    assert_same(fit, expected, x)
    mine, other = (names["4"] - names["2"] for names in (fit.log_normalisers(), expected.log_normalisers()))
    assert (mine.value, mine.stderr) == pytest.approx((other.value, other.stderr), rel=1e-8)


def test_errors_of_normalisers_by_sums_with_a_sample_of_one_row() -> None:
    _, omega, source = windows()
    source = np.where((source == 3) & (np.cumsum(source == 3) > 1), 2, source)
    kept = omega[np.arange(ROWS), source] > 0
    omega, source = omega[kept], source[kept]
    fit, expected = both(ragged(omega), omega, source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakOverlapWarning)
        mine, other = (list(one.log_normalisers().values()) for one in (fit, expected))
    assert fit.sizes["3"] == 1
    np.testing.assert_allclose([one.stderr for one in mine], [one.stderr for one in other], rtol=1e-9)
    np.testing.assert_allclose([one.df for one in mine], [one.df for one in other], rtol=1e-7)


def test_answers_of_many_numbers_for_each_row_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x, omega, source = windows()
    fit = debias_matrix(ragged(omega), source)
    monkeypatch.setattr(stored, "ANSWER", 2 * ROWS)
    text = (
        r"This needs \d numbers for each of 6000 rows, 0.0 GB at once, but omega is read in blocks because it may "
        r"not fit in memory. Ask for fewer states at once, or fit a part of the rows that does fit."
    )
    with pytest.raises(NeedsRowsError, match=text):
        fit.solved.rows.log_omega()
    assert fit.expectation(x).stderr > 0
    assert 0.0 <= fit.check_biases({"x": x}).pvalue <= 1.0


def passes_of(action: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often all rows are read."""
    read, passes = stored.Reader.blocks, [0]

    def counted(self: Any) -> Any:
        passes[0] += 1
        return read(self)

    with monkeypatch.context() as patched:
        patched.setattr(stored.Reader, "blocks", counted)
        action()
    return passes[0]


@pytest.mark.parametrize("problem", [windows, potentials])
@pytest.mark.parametrize("kind", [in_file, in_blocks])
def test_data_are_read_a_few_times(kind: Any, problem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, omega, source = problem()
    log, given = problem is potentials, kind(omega, tmp_path)
    fits: list[Any] = []
    assert passes_of(lambda: fits.append(debias_matrix(given, source, log=log)), monkeypatch) <= 5
    assert passes_of(lambda: fits[0].weights, monkeypatch) == 0
    assert passes_of(lambda: fits[0].solved.rows.reach, monkeypatch) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakOverlapWarning)
        # one for the overlaps, one for the effect through normalisers, one for the error; one more for a heavy tail
        assert passes_of(lambda: fits[0].expectation(x), monkeypatch) == (4 if log else 3)
        assert passes_of(lambda: fits[0].expectations(np.column_stack([x, x**2])), monkeypatch) == (3 if log else 2)
        # one for the effect through normalisers, one for the errors; one for heavy tails, or a state without a sample
        assert passes_of(lambda: fits[0].log_normalisers(), monkeypatch) == 3
        assert passes_of(lambda: fits[0].log_omega_covariance(), monkeypatch) <= 1


@pytest.mark.filterwarnings("ignore:The standard error of mean rests on few rows")
@pytest.mark.parametrize("kept", [0, 10**9])
def test_draws_of_a_bootstrap_share_passes(kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a batch read the rows together, in the thread of the user, and are what each would be alone."""
    monkeypatch.setattr(refit, "KEPT_NUMBERS", kept)
    monkeypatch.setattr(refits, "THREADED", 0)
    monkeypatch.setattr(refits, "_batch_size", lambda *sizes, has_threads: 6)
    x, logs, source = potentials()
    order = np.random.default_rng(1).permutation(ROWS)
    threads, told = set(), []

    def function() -> Iterator[np.ndarray]:
        threads.add(threading.current_thread())
        yield from ragged(logs[order])()

    fit = debias_matrix(function, source[order], log=True)
    _ = fit.solved.tangent.hessian.laplacian
    found: list[Any] = []
    passes = passes_of(
        lambda: found.append(fit.bootstrap(x[order], n=10, progress=lambda *done: told.append(done))), monkeypatch
    )
    assert told == [(6, 10), (10, 10)]
    assert threads == {threading.main_thread()}
    monkeypatch.setattr(refit, "SHARED_PASSES", 0)
    solved_alone = passes_of(lambda: found.append(fit.bootstrap(x[order], n=10)), monkeypatch)
    assert passes <= 5 if kept else 2 * passes < solved_alone  # kept, they are read once more than for the estimate
    shared, alone = found
    np.testing.assert_allclose(shared.values, alone.values, rtol=1e-6)
    np.testing.assert_allclose(shared.log_omegas, alone.log_omegas, rtol=0, atol=1e-6)
    assert threads == {threading.main_thread()}


def test_a_function_is_called_for_each_pass_and_once_for_its_first_block(monkeypatch: pytest.MonkeyPatch) -> None:
    _, omega, source = windows()
    calls, function = [], ragged(omega)

    def counted() -> Iterator[np.ndarray]:
        calls.append(0)
        for block in function():
            calls[-1] += len(block)
            yield block

    passes = passes_of(lambda: debias_matrix(counted, source), monkeypatch)
    assert len(calls) == passes + 1
    assert calls[0] < 700
    assert calls[1:] == [ROWS] * passes


class Watched(np.memmap):
    """A memory map that refuses to be read in large parts."""

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        assert np.ndim(part) < 2 or len(part) <= 0.2 * ROWS
        return part


def test_memory_map_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    K, n = 8, 400_000
    monkeypatch.setattr("vardi._machine.BLOCK", 240_000)
    monkeypatch.setattr(stored, "READ", 2**20)
    source = np.repeat(np.arange(K), n // K)
    x = rng.normal(source, 1.0)
    given = np.lib.format.open_memmap(tmp_path / "rows.npy", mode="w+", dtype=np.float64, shape=(n, K))
    for low in range(0, n, 10_000):
        given[low : low + 10_000] = -0.5 * (x[low : low + 10_000, None] - np.arange(K)) ** 2
    monkeypatch.setattr(stored, "FRACTION", 1 / 64)
    tracemalloc.start()
    try:
        fit = debias_matrix(given, source, log=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(fit.solved.rows, Blocks)
    assert peak < given.nbytes  # of which it is half: arrays of n numbers, the rows to start from, a few blocks


def test_memory_map_is_read_in_parts(tmp_path: Path) -> None:
    x, omega, source = windows()
    np.save(tmp_path / "rows.npy", omega)
    plain = np.load(tmp_path / "rows.npy", mmap_mode="r")
    watched = plain.view(Watched)
    fit = debias_matrix(watched, source)
    fit.expectation(x)
    with pytest.raises(AssertionError):
        watched[:]


def test_small_matrices_are_read_whole(tmp_path: Path) -> None:
    x, omega, source = windows()
    for kind in (in_file, in_columns, in_blocks):
        fit = debias_matrix(kind(omega, tmp_path), source, max_in_memory=ROWS * STATES)
        assert not isinstance(fit.solved.rows, Blocks)
        assert_same(fit, debias_matrix(omega, source), x)
        assert fit.update({"0": omega[source == 0][:3]}).sizes["0"] == fit.sizes["0"] + 3
        larger = debias_matrix(kind(omega, tmp_path), source, max_in_memory=ROWS * STATES - 1)
        assert isinstance(larger.solved.rows, Blocks)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0, -np.inf])
def test_values_that_no_bias_can_have(kind: Any, log: bool, bad: float, tmp_path: Path) -> None:
    _, omega, source = windows()
    with np.errstate(divide="ignore"):
        omega = np.log(omega) if log else omega
    omega[[17, 4000, 5999], [4, 4, 4]] = bad
    omega[[3000, 5000], [0, 0]] = bad
    omega[source == 0, 0] = np.where(omega[source == 0, 0] == bad, 1.0, omega[source == 0, 0])
    given = kind(omega, tmp_path)
    if log and bad < 0:  # a log may be anything below infinity
        debias_matrix(given, source, log=True)
        return
    with pytest.raises(InvalidBiasError) as memory:
        debias_matrix(omega, source, log=log)
    with pytest.raises(InvalidBiasError) as read:
        debias_matrix(given, source, log=log)
    assert str(read.value) == str(memory.value)
    assert (read.value.sample, read.value.rows) == (memory.value.sample, memory.value.rows)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_their_own_bias_forbids(kind: Any, tmp_path: Path) -> None:
    _, omega, source = windows()
    counts = np.arange(ROWS) % 3  # the rows that are left out are numbered all the same
    bad = np.flatnonzero((source == 2) & (counts > 0))[[5, 900]]
    omega[bad, 2] = 0.0
    with pytest.raises(ImpossibleRowError) as memory:
        debias_matrix(omega, source, counts=counts)
    with pytest.raises(ImpossibleRowError) as read:
        debias_matrix(kind(omega, tmp_path), source, counts=counts)
    assert str(read.value) == str(memory.value)
    assert read.value.rows == tuple(bad)


@pytest.mark.parametrize(("rows", "said"), [(ROWS - 1, "5999"), (ROWS + 1, "at least 6001"), (0, "0")])
def test_blocks_of_another_number_of_rows(rows: int, said: str) -> None:
    _, omega, source = windows()
    more = np.vstack([omega, omega[:1]])[:rows]
    with pytest.raises(MismatchError) as refused:
        debias_matrix(lambda: iter([more[:2000], more[2000:]]), source)
    assert str(refused.value) == (
        f"The blocks of omega hold {said} rows, but source has 6000 labels. The function is called for each pass over "
        "the rows: let it yield all of them, starting from the first, each time it is called."
    )


def test_no_blocks_at_all() -> None:
    with pytest.raises(EmptySampleError, match=r"omega has shape \(3, 0\)"):
        debias_matrix(lambda: iter([]), [0, 0, 1])


def test_a_function_that_gives_fewer_rows_the_second_time() -> None:
    _, omega, source = windows()
    iterator = iter([omega[:1000], omega[1000:]])  # of which the width of the first block takes the first
    with pytest.raises(MismatchError, match="The blocks of omega hold 5000 rows, but source has 6000 labels"):
        debias_matrix(lambda: iterator, source)
    calls = []

    def shorter() -> Iterator[np.ndarray]:
        calls.append(0)
        yield omega if len(calls) < 3 else omega[:-1]

    with pytest.raises(MismatchError, match="The blocks of omega hold 5999 rows, but source has 6000 labels"):
        debias_matrix(shorter, source)


def test_a_function_that_gives_other_rows_the_second_time() -> None:
    x, _, _ = windows()
    source = np.tile([0, 1], ROWS // 2)
    rng = np.random.default_rng(0)

    def shuffled() -> Iterator[np.ndarray]:
        yield np.column_stack([np.ones(ROWS), rng.permutation(x)])

    with pytest.raises(MismatchError) as refused:
        debias_matrix(shuffled, source)
    assert str(refused.value) == (
        "Row 0 of omega differs from the first pass over the rows. They are read several times, and must be the "
        "same each time: fix the seed of whatever generates them and keep their order, or write them to a file "
        "first."
    )


def test_a_file_that_changes_after_the_fit(tmp_path: Path) -> None:
    x, omega, source = windows()
    np.save(tmp_path / "rows.npy", omega)
    given = np.load(tmp_path / "rows.npy", mmap_mode="r+")
    fit = debias_matrix(given, source)
    given[:] = given[::-1].copy()
    with pytest.raises(MismatchError, match="Row 0 of omega differs from the first pass"):
        fit.expectation(x)
    fit = debias_matrix(given, source[::-1], counts=np.arange(ROWS) >= 7)  # rows keep their numbers
    given[:] = given[::-1].copy()
    with pytest.raises(MismatchError, match="Row 7 of omega differs from the first pass"):
        fit.expectation(x)


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (np.ones(3), "The block of omega from row 2000 on has shape (3,) and holds float64. Give every block as a "),
        (np.array([["a"]]), "The block of omega from row 2000 on has shape (1, 1) and holds <U1. Give every block as "),
        (np.ones((2, 3)), "The block of omega from row 2000 on has 3 columns, but the first block has 5. Give every "),
    ],
)
def test_blocks_that_are_none(block: np.ndarray, said: str) -> None:
    _, omega, source = windows()
    with pytest.raises(MismatchError) as refused:
        debias_matrix(lambda: iter([omega[:2000], block, omega[2000:]]), source)
    assert str(refused.value).startswith(said)


def test_functions_that_give_no_blocks() -> None:
    with pytest.raises(MismatchError) as refused:
        debias_matrix(lambda: 3.0, [0, 1])
    assert str(refused.value) == (
        "The function that was given as omega returned float, which is not a series of blocks. Let it yield arrays of "
        "successive rows, starting from the first row each time it is called."
    )


def test_a_generator_in_place_of_its_function() -> None:
    _, omega, source = windows()
    with pytest.raises(MismatchError) as refused:
        debias_matrix(ragged(omega)(), source)
    assert str(refused.value) == (
        "omega is a generator, which can be iterated only once, but the rows are read several times. Give the function "
        "that makes it, without calling it."
    )


def test_errors_of_the_user_pass_with_a_note() -> None:
    _, omega, source = windows()
    calls = []

    def breaks() -> Iterator[np.ndarray]:
        calls.append(0)
        yield omega[:2000]
        if len(calls) == 3:
            raise OSError("the disk is gone")
        yield omega[2000:]

    with pytest.raises(OSError, match="the disk is gone") as raised:
        debias_matrix(breaks, source)
    assert raised.value.__notes__ == ["This was raised while vardi was reading omega from row 2000 on."]
    assert not isinstance(raised.value, VardiError)

    def interrupted() -> Iterator[np.ndarray]:
        yield omega[:2000]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        debias_matrix(interrupted, source)


def test_functions_are_called_in_the_thread_of_the_user() -> None:
    _, omega, source = windows()
    threads = set()

    def function() -> Iterator[np.ndarray]:
        for block in ragged(omega)():
            threads.add(threading.current_thread())
            yield block

    debias_matrix(function, source)
    assert threads == {threading.main_thread()}


def test_stored_arrays_of_other_shapes_and_types(tmp_path: Path) -> None:
    np.save(tmp_path / "line.npy", np.ones(4))
    with pytest.raises(EmptySampleError, match=r"omega has shape \(4,\)"):
        debias_matrix(np.load(tmp_path / "line.npy", mmap_mode="r"), [0] * 4)
    np.save(tmp_path / "complex.npy", np.ones((4, 2), complex))
    with pytest.raises(MismatchError, match="omega holds complex128, but biases are numbers"):
        debias_matrix(np.load(tmp_path / "complex.npy", mmap_mode="r"), [0] * 4)
    np.save(tmp_path / "short.npy", np.ones((4, 2)))
    with pytest.raises(MismatchError, match=r"source has shape \(3,\), but the pool has 4 rows"):
        debias_matrix(np.load(tmp_path / "short.npy", mmap_mode="r"), [0, 1, 1])


class Shape:
    """What ``rows_at_once`` looks at."""

    def __init__(self, shape: tuple[int, int], chunks: Any = None, strides: Any = None) -> None:
        self.shape, self.chunks, self.strides, self.dtype = shape, chunks, strides, np.dtype(np.float64)


@pytest.mark.parametrize(
    ("array", "rows"),
    [
        (Shape((10**7, 100)), 2**25 // 800),  # 32 MB
        (Shape((1000, 100)), 1000),
        (Shape((10**7, 100), chunks=(10_000, 10)), 40_000),  # whole chunks
        (Shape((10**7, 100), chunks=((10_000, 10_000), (100,))), 40_000),  # as Dask tells them
        (Shape((10**7, 100), chunks=(200_000, 100)), 200_000),  # a chunk of 160 MB is read once, not in five parts
        (Shape((10**7, 100), chunks=(10**7, 1)), 2**25 // 800),  # a chunk of everything cannot be
        (Shape((10**7, 20_000), strides=(8, 8 * 10**7)), 2048),  # 16 kB of a column
        (Shape((10**7, 100), strides=(8, 8 * 10**7)), 2**25 // 800),
    ],
)
def test_rows_that_are_read_together(array: Shape, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "READ", 2**25)
    assert stored.rows_at_once(array) == rows
