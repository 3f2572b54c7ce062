"""Peers in environments of their own, made once: rows go there as CSV, and answers come back as CSV."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pandas as pd

from benchmarks.accuracy.designs import Design

HERE = Path(__file__).parent
ENVIRONMENTS = HERE / ".environments"


@dataclass(frozen=True)
class Elsewhere:
    """A package that runs apart.

    Attributes
    ----------
    name : str
        As the registry has it, and of the script in `benchmarks/accuracy` that calls it.
    notes : dict
        What the page says of each of the contestants that the script answers for.
    """

    name: str
    notes: dict[str, str]

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        return ENVIRONMENTS / self.name / ("Scripts" if sys.platform == "win32" else "bin") / "python"

    def missing(self) -> str:
        """Make the environment where there is none, and say why it cannot run; empty where it can."""
        if self._runs():
            return ""
        venv.create(ENVIRONMENTS / self.name, with_pip=True)
        command = [str(self.python), "-m", "pip", "install", "--quiet", self.name, "pandas"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not self._runs():
            said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            return f"{self.name} could not be installed in an environment of its own: {said[:200]}"
        return ""

    def _runs(self) -> bool:
        if not self.python.is_file():
            return False
        command = [str(self.python), "-c", f"import {self.name}"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def versions(self) -> str:
        """Return what is installed there of the packages that matter."""
        code = (
            "from importlib.metadata import version\n"
            f"print(', '.join(f'{{n}} {{version(n)}}' for n in ({self.name!r}, 'numpy', 'scikit-learn', 'pandas')))"
        )
        done = subprocess.run([str(self.python), "-c", code], capture_output=True, text=True, check=False)
        return f"{done.stdout.strip()} (apart)"

    def answers(self, design: Design, draws: Sequence[tuple[pd.DataFrame, pd.DataFrame]]) -> pd.DataFrame:
        """Return draw, who, value, low and high of each of its contestants; the same rows are asked once."""
        script = HERE / f"{self.name}_script.py"
        rows = pd.concat(_labelled(draws), ignore_index=True).to_csv(index=False)
        asked = sha256("\n".join([rows, script.read_text(encoding="utf-8"), self.versions()]).encode()).hexdigest()
        found = ENVIRONMENTS / f"{self.name}-{asked[:16]}.csv"
        if not found.is_file():
            with tempfile.TemporaryDirectory() as folder:
                given, made = Path(folder) / "rows.csv", Path(folder) / "answers.csv"
                given.write_text(rows, encoding="utf-8")
                command = [str(self.python), str(script), str(given), str(made), *design.columns]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise RuntimeError(f"{self.name}: {(done.stderr.strip().splitlines() or ['failed'])[-1][:300]}")
                shutil.move(made, found)
        return pd.read_csv(found)


def _labelled(draws: Sequence[tuple[pd.DataFrame, pd.DataFrame]]) -> Iterator[pd.DataFrame]:
    for draw, (panel, survey) in enumerate(draws):
        yield panel.assign(draw=draw, sample="panel")
        yield survey.assign(draw=draw, sample="survey")


BALANCE = Elsewhere(
    "balance",
    {
        "balance, ipw": "as by default, but 25 values of the penalty for 250; weights taken as fixed",
        "balance, cbps": "as by default; weights taken as fixed",
        "balance, aipw": "its outcome model as by default, on the weights of ipw; it gives no interval",
    },
)
SKADA = Elsewhere(
    "skada",
    {
        "skada, DensityReweight": "standardised columns; it gives no interval",
        "skada, DiscriminatorReweight": "standardised columns; it gives no interval",
    },
)
PEERS = (BALANCE, SKADA)
