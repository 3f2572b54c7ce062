"""A version of vardi: its source, and the interpreter of its environment, which runs a case in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import vardi
from benchmarks.process import ROOT
from vardi.errors import StudyError


class TurnError(Exception):
    """A process that failed, with all that it wrote to standard error."""


@dataclass(frozen=True)
class Version:
    """One side of a comparison.

    Attributes
    ----------
    source : Path
        The folder that holds the package.
    """

    name: str
    python: Path
    source: Path

    def run(self, *arguments: object) -> dict[str, Any]:
        """Run the module of the cases in a process of its own, and return the JSON that it prints last."""
        # Cases are those of this clone for either version; an option keeps the working directory out of the path.
        command = [str(self.python), "-P", "-m", "benchmarks.turns.cases", *map(str, arguments)]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPATH"] = os.pathsep.join(map(str, (ROOT, self.source)))
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode:
            raise TurnError(done.stderr.strip() or f"exit code {done.returncode}")
        return dict(json.loads(done.stdout.splitlines()[-1]))

    def packages(self) -> dict[str, str]:
        """Return the versions of its packages, once it is sure that its vardi is the one that it should be."""
        about = self.run()
        if not Path(about["vardi"]).resolve().is_relative_to(self.source.resolve()):
            raise StudyError(
                f"The {self.name} environment imports vardi from {about['vardi']}, not from {self.source}, so it would "
                "time another version. Install vardi in it with `pip install --editable .`."
            )
        return dict(about["versions"])

    def commit(self) -> str:
        """Return the commit of its source; empty if that is no clone."""
        command = ["git", "-C", str(self.source), "describe", "--always", "--dirty", "--exclude", "*"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip()


def old_version(checkout: Path) -> Version:
    """Return the version of another checkout, which has its own environment."""
    python = checkout / ".venv" / "bin" / "python"
    if not python.exists():
        raise StudyError(
            f"There is no .venv/bin/python in {checkout}, so the old version has no environment to run in. Check the "
            "old commit out there with `git worktree add`, and run `make .venv/.test` in it."
        )
    return Version("old", python.absolute(), (checkout / "src").absolute())


def new_version() -> Version:
    """Return the version that runs now."""
    return Version("new", Path(sys.executable), Path(str(vardi.__file__)).parents[1])
