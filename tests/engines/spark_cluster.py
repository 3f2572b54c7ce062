"""A Spark cluster of its own on loopback: one master, two workers, ended by process id."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

LOOPBACK = "127.0.0.1"
PATIENCE = 300.0  # seconds; starting takes about five
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"  # small frames: starting costs more than computing
# Runs a command until its standard input is closed: by us, or by the system if the tests are killed.
KEPT = '"$@" < /dev/null & child=$!; read -r _; kill "$child"; wait "$child"'
DAEMONS = {"master": "org.apache.spark.deploy.master.Master", "worker": "org.apache.spark.deploy.worker.Worker"}


def require_spark() -> None:
    """Skip where Spark cannot run, and say why."""
    pytest.importorskip("pyspark", reason="Spark's tests need pyspark: pip install 'vardi[spark]'")
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=None if home is None else f"{home}/bin") is None:
        pytest.skip("Spark's tests need Java 17 or later, and there is no java to start")


class SparkCluster:
    """A standalone master and its workers, each a process of its own; all files are under one folder."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self._launched = 0
        self._session: Any = None
        try:
            log = self._start("master", "master", "--host", LOOPBACK, "--port", "0", "--webui-port", "0")
            self.url = _wait_for(log, r"Starting Spark master at (spark://\S+)")[0]
            self._master_log = log
            for number in range(workers):
                self.start_worker(wait=number == workers - 1)
        except BaseException:
            self.stop()
            raise

    def session(self) -> Any:
        """Return the session, a new one where the last was stopped."""
        if self._session is None or self._session.sparkContext._jsc is None:
            self._session = self._new_session()
        return self._session

    def start_worker(self, *, wait: bool = True) -> None:
        """Start one more worker, and wait until the master knows as many as were started."""
        self._launched += 1
        name = f"worker-{self._launched}"
        size = ("--cores", "1", "--memory", "600m", "--webui-port", "0", "--work-dir", str(self.folder / name))
        self._start(name, "worker", "--host", LOOPBACK, "--port", "0", *size, self.url)
        self.workers.append(self._started[-1])
        if wait:
            _wait_for(self._master_log, r"Registering worker", times=self._launched)

    def kill_worker(self) -> set[int]:
        """Kill a worker and its executor at once, as when a machine is gone; return the ids of what was killed."""
        worker = self.workers.pop()
        lost = {worker.pid, *descendants(worker.pid)}
        for process in lost:
            _kill(process)
        worker.wait(PATIENCE)
        worker.stdin.close()
        self._started.remove(worker)  # its id may soon be that of another process
        return lost

    def stop(self) -> None:
        """End the session and every process that was started here."""
        try:
            if self._session is not None:
                self._session.stop()
        finally:
            for process in reversed(self._started):
                below = descendants(process.pid)
                process.stdin.close()
                try:
                    process.wait(10.0)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait(10.0)
                for child in below:
                    _kill(child)

    def _start(self, name: str, kind: str, *arguments: str) -> Path:
        import pyspark

        home = Path(pyspark.__file__).parent
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-c", KEPT, name, str(home / "bin" / "spark-class"), DAEMONS[kind], *arguments],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.PIPE,
                cwd=self.folder,
                env={**_environment(home), "SPARK_LOCAL_DIRS": str(self.folder / "local")},
            )
        self._started.append(process)
        return log

    def _new_session(self) -> Any:
        from pyspark.sql import SparkSession

        os.environ.update({"SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": sys.executable})
        settings = {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": QUICK,
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": QUICK,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "OFF",
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.local.dir": str(self.folder / "driver"),
        }
        builder = SparkSession.builder.master(self.url).appName("vardi")
        for key, value in settings.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()


def descendants(process: int) -> list[int]:
    """Return the ids of all processes below one."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], check=True, capture_output=True, text=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
    found, known = [], {process}
    while new := [pid for pid, parent in pairs if parent in known and pid not in known]:
        found += new
        known.update(new)
    return found


def _environment(home: Path) -> dict[str, str]:
    ours = {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"{QUICK} -Dspark.master.rest.enabled=false",  # it has a fixed port
        "PYSPARK_PYTHON": sys.executable,
    }
    return {**{key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}, **ours}


def _wait_for(log: Path, pattern: str, times: int = 1) -> list[str]:
    """Return what a log says, once it says it so many times."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        text = log.read_text(errors="replace")
        if len(found := re.findall(pattern, text)) >= times:
            return found
        time.sleep(0.1)
    raise TimeoutError(f"{log.name} does not say {pattern!r}:\n{log.read_text(errors='replace')[-2000:]}")


def _kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
