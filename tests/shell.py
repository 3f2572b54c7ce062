"""The command line and studies, run in this process, and the folders that they are run in."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

import vardi
from vardi.cli import main
from vardi.cli._app import app
from vardi.cli._demo import FILES, STUDY
from vardi.study import Study, read
from vardi.study._outputs import draw, write_weights

__all__ = ["FILES", "STUDY", "draw", "invoke", "write_weights"]

AGENCY = '[sources.agency]\ndata = "agency.csv"\nbias = "MEDV <= 22"\n'
NATIONAL = '[sources.national]\ndata = "national.csv"\nbias = 1\n'
LOW = '[sources.low]\ndata = "low.csv"\nbias = "x <= 5"\n'
HIGH = '[sources.high]\ndata = "high.csv"\nbias = "1"\n'


def invoke(*arguments: Any, **options: Any) -> Result:
    """Run ``vardi`` with these arguments, as texts."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], **options)


def program(*arguments: str, stream: type[io.StringIO] = io.StringIO, **environment: str) -> tuple[int, str]:
    """Run the program in this process: its exit code, and what appears, errors included."""
    shown = stream()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["vardi", *arguments])
        patch.setattr(sys, "stdout", shown)
        patch.setattr(sys, "stderr", shown)
        patch.setattr("vardi.cli._console.DELAY", 1e6)  # or a busy machine would show how far the work is
        return main(), shown.getvalue()


def completed(words: str) -> list[str]:
    """Return what the shell is offered after some words."""
    request = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    return program(_VARDI_COMPLETE="complete_bash", **request)[1].split()


def write_houses(folder: Path) -> Path:
    """Write the samples of house prices, and return the folder."""
    for name, rows in vardi.datasets.house_prices(seed=0, backend="polars").samples.items():
        rows.write_csv(folder / f"{name}.csv")
    return folder


def write_demo(folder: Path) -> Path:
    """Write the study of the demo with its data, and return the folder."""
    (write_houses(folder) / "study.toml").write_text(STUDY)
    return folder


def write_small(folder: Path) -> Path:
    """Write a study of two small samples that overlap, and return the folder."""
    (folder / "low.csv").write_text("x,region\n1,N\n2,N\n4,W\n")
    (folder / "high.csv").write_text("x,region\n2,N\n5,W\n8,W\n")
    (folder / "study.toml").write_text(LOW + HIGH)
    return folder


def written(folder: Path, text: str) -> Path:
    """Write a study, and return its path."""
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


def problems(folder: Path, text: str) -> Any:
    """Return what is wrong with a study of this text."""
    with pytest.raises(vardi.StudyError) as caught:
        read(written(folder, text))
    return caught.value.problems


def write_gammas(folder: Path) -> Path:
    """Write two files of 30 rows, with a number, a count and a text, and return the folder."""
    for seed, name in enumerate("ab"):
        x = np.random.default_rng(seed).gamma(3.0, size=30) + 0.1
        lines = (f"{v:.3f},{1 + i % 4},{'ab'[i % 2]}\n" for i, v in enumerate(x))
        (folder / f"{name}.csv").write_text("x,y,s\n" + "".join(lines))
    return folder


def weights_of(study: Study, folder: Path, suffix: str = ".parquet", **options: Any) -> pl.DataFrame:
    """Fit a study, write its weights, and return what the file holds."""
    opened = study.open()
    path = folder / f"weights{suffix}"
    write_weights(opened, opened.fit(), path, **options)
    readers = {".parquet": pl.read_parquet, ".csv": pl.read_csv, ".jsonl": pl.read_ndjson}
    return readers[suffix](path)


class Terminal(io.StringIO):
    """A stream that says that somebody looks at it."""

    def isatty(self) -> bool:
        return True
