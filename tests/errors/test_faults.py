"""Faults: what is killed, interrupted, forked, crowded or repeated leaves nothing half done and nothing behind."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pools import solved
from shell import STUDY, invoke, write_demo

import vardi

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.fixture
def study(tmp_path):
    return write_demo(tmp_path)


def command(folder, *arguments, before="", **options):
    """Run the command line in a process of its own, after some lines that make it fail."""
    code = f"{textwrap.dedent(before)}\nimport sys\nfrom vardi.cli import main\nsys.argv[0] = 'vardi'\nsys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, capture_output=True, text=True, **options
    )


def names(folder):
    return {path.name for path in folder.rglob("*") if path.is_file()}


OUTPUTS = {
    "fit": ("fit", "study.toml", "--output", "out.csv"),
    "sample": ("sample", "study.toml", "-n", "500", "--seed", "0", "--output", "out.csv"),
    "report": ("report", "study.toml", "--output", "out.html"),
}


def outputs(*few):
    """Parametrise by commands: all that write by `make slow`, a few in each run where one function serves them all."""
    chosen = OUTPUTS if "VARDI_EVERY_PAIR" in os.environ else few
    return pytest.mark.parametrize("arguments", [OUTPUTS[name] for name in chosen], ids=chosen)


class TestFilesAreWholeOrNotThere:
    @outputs("fit", "report")
    def test_killed_in_the_middle_of_writing(self, study, arguments, monkeypatch):
        before = names(study)
        killed = command(study, *arguments, before="import os\nos.fsync = lambda file: os.kill(os.getpid(), 9)")
        assert killed.returncode == -signal.SIGKILL
        left = names(study) - before
        assert left
        assert all(name.startswith(".") and ".part" in name for name in left)  # hidden, and not the output
        monkeypatch.chdir(study)
        assert invoke(*arguments).exit_code == 0
        assert arguments[-1] in names(study)

    @outputs("fit")
    def test_what_was_there_survives(self, study, arguments):
        target = study / arguments[-1]
        target.write_text("before")
        killed = command(
            study, *arguments, "--force", before="import os\nos.fsync = lambda file: os.kill(os.getpid(), 9)"
        )
        assert killed.returncode == -signal.SIGKILL
        assert target.read_text() == "before"

    @outputs("sample", "report")
    def test_no_room_left(self, study, arguments):
        """A limit on the size of files fails a write half way, as a full disk does."""
        before = names(study)
        limited = """
            import resource, signal
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        """
        failed = command(study, *arguments, before=limited, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        assert failed.returncode in (1, 3)
        assert "was not written" in failed.stderr
        assert "Traceback" not in failed.stderr
        assert names(study) == before

    @outputs("sample")
    def test_interrupted(self, study, arguments):
        before = names(study)
        stopped = command(study, *arguments, before="import os\nos.fsync = lambda file: os.kill(os.getpid(), 2)")
        assert stopped.returncode == 130
        assert "Traceback" not in stopped.stderr
        assert "nterrupted" in stopped.stderr
        assert names(study) == before


@pytest.fixture
def open_study(study, monkeypatch):
    """The study in a folder that is open to all, as the current one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        for path in study.iterdir():
            Path(shutil.copy(path, folder)).chmod(0o644)
        monkeypatch.chdir(folder)
        yield folder


def invoke_as_a_mere_user(*arguments):
    """Run the command line in this process, without the rights of root where it has them."""
    user = os.geteuid()
    if user == 0:
        invoke(*arguments)  # loads every module that it needs: root's own may not be read later
        invoke("fit", "no such study.toml")
        for path in (Path(arguments[-1]), Path(arguments[-1]).with_suffix(".fit.json")):
            path.unlink()
        os.seteuid(65534)
    try:
        return invoke(*arguments)
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("engine", ["memory", "polars", "duckdb"])
def test_a_file_that_may_not_be_read(open_study, engine):
    (open_study / "study.toml").write_text(f'engine = "{engine}"\n{STUDY}')
    (open_study / "agency.csv").chmod(0)
    refused = invoke_as_a_mere_user("fit", "study.toml", "--output", "out.csv")
    assert refused.exit_code == 2
    assert "agency.csv cannot be read: permission denied. Change its permissions." in " ".join(refused.stderr.split())
    assert not (open_study / "out.csv").exists()


def test_a_folder_of_data_that_may_not_be_entered(open_study):
    closed = open_study / "closed"
    closed.mkdir()
    shutil.move(open_study / "agency.csv", closed)
    (open_study / "study.toml").write_text(STUDY.replace("agency.csv", "closed/agency.csv"))
    closed.chmod(0)
    refused = invoke_as_a_mere_user("fit", "study.toml", "--output", "out.csv")
    closed.chmod(0o755)
    assert refused.exit_code == 2
    said = " ".join(refused.stderr.split())
    assert "closed/agency.csv cannot be read: permission denied. Change its permissions." in said


def test_a_folder_that_may_not_be_written_to(open_study):
    closed = open_study / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    refused = invoke_as_a_mere_user("fit", "study.toml", "--output", "closed/out.csv")
    assert refused.exit_code == 3
    said = " ".join(refused.stderr.split())
    assert "closed/out.csv cannot be written: the folder closed is read-only." in said
    assert not any(closed.iterdir())


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # forking it is the test
def test_fits_in_processes_started_after_threads_were_used(method):
    u, weight = solved()
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} on this system")
    with multiprocessing.get_context(method).Pool(1) as pool:
        for there, its_weight in pool.map_async(solved, range(2)).get():
            assert_array_equal(there, u)
            assert its_weight == weight


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_fits_in_joblib(backend):
    u, _ = solved()
    found = joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(solved)() for _ in range(3))
    for there, _ in found:
        assert_array_equal(there, u)


def test_many_threads_share_one_fit():
    x = np.random.default_rng(0).random(200_000)
    omega, source = np.column_stack([np.ones(len(x)), 1.0 + x, 2.0 - x, 0.5 + x**2, np.exp(x)]), np.arange(len(x)) % 5
    fit = vardi.debias_matrix(omega, source)
    fresh = vardi.debias_matrix(omega, source).expectation(x)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: fit.expectation(x), range(24)))
    for estimate in found:
        assert_allclose((estimate.value, estimate.stderr), (fresh.value, fresh.stderr), rtol=1e-12)


def test_threads_that_fit_at_once():
    u, _ = solved()
    with ThreadPoolExecutor(6) as pool:
        for there, _ in pool.map(solved, range(12)):
            assert_array_equal(there, u)


def test_the_number_of_threads_changes_nothing():
    code = """
        import numpy as np, vardi
        design = vardi.datasets.harmonic_oscillators(states=6, rows_per_state=40_000, seed=0)
        fit = vardi.debias_matrix(design.omega, design.source, log=True)
        boot = fit.bootstrap(np.arange(len(design.source)) / 1e5, n=20, jobs=JOBS)
        print(*(float(number).hex() for number in [*fit.solution.u, *fit.weights[::10_000], *boot.values.ravel()]))
    """
    answers = {}
    for threads in (1, 5):
        environment = {**os.environ, "LOKY_MAX_CPU_COUNT": str(threads), "OMP_NUM_THREADS": str(threads)}
        program = textwrap.dedent(code).replace("JOBS", str(threads))
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        answers[threads] = np.array([float.fromhex(number) for number in done.stdout.split()])
    assert_allclose(answers[5], answers[1], rtol=1e-12, atol=1e-12)


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@LINUX
def test_many_fits_leave_nothing_behind():
    """Memory after 500 fits is that after 100: what a fit keeps is gone with it."""
    rng = np.random.default_rng(0)
    x = rng.random(4000)
    omega = np.column_stack([np.ones(len(x)), x])
    source = np.repeat([0, 1], 2000)
    after = []
    for repeat in range(500):
        fit = vardi.debias_matrix(omega, source)
        fit.expectation(x)
        fit.identify()
        if repeat % 100 == 99:
            after.append(resident())
    fit_bytes = omega.nbytes + 10 * x.nbytes  # what one fit that is kept would hold
    assert after[-1] - after[0] < 20 * fit_bytes  # of 400 fits


def test_an_interrupt_reaches_a_solve_in_python():
    """Ctrl-C during a long solve ends it at once, and the next solve is as if nothing had been."""
    code = """
        import os, signal, threading
        import numpy as np
        import vardi
        design = vardi.datasets.harmonic_oscillators(states=20, rows_per_state=40_000, seed=0)
        vardi.debias_matrix(design.omega[:1000], design.source[:1000], log=True)
        interrupt = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
        try:
            interrupt.start()
            while True:
                vardi.debias_matrix(design.omega, design.source, log=True)
        except KeyboardInterrupt:
            fit = vardi.debias_matrix(design.omega, design.source, log=True)
            print("solved", fit.solution.converged)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("solved True\n", 0), done.stderr


def test_links_devices_and_pipes_as_outputs(tmp_path):
    houses = vardi.datasets.house_prices(seed=0)
    fit = vardi.debias(houses.samples, houses.biases)
    there, link, dangling = tmp_path / "there.html", tmp_path / "link.html", tmp_path / "dangling.html"
    there.write_text("before")
    link.symlink_to(there)
    dangling.symlink_to(tmp_path / "nowhere.html")
    for taken in (link, dangling):
        with pytest.raises(vardi.OutputError, match="already exists, and is not overwritten"):
            fit.report(taken)
    assert there.read_text() == "before"
    fit.report(link, overwrite=True)
    assert link.is_symlink()
    assert there.read_text().startswith("<!DOCTYPE html>")
    pipe = tmp_path / "pipe.html"
    os.mkfifo(pipe)
    for special in (pipe, "/dev/null"):
        with pytest.raises(vardi.OutputError, match="is a device or a pipe, not a file. Give the name of a file."):
            fit.report(special, overwrite=True)
