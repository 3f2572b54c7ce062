"""Runs of other packages' own test suites, read from where they are installed, with vardi in their place."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import vardi

HERE = Path(__file__).parent


def failures(plugin: str, *modules: str, options: tuple[str, ...] = ()) -> tuple[set[str], int]:
    """Run tests of installed modules with a plugin that puts vardi in place; return what fails, and how many ran."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-p", plugin, "-p", "no:cacheprovider", "-c", os.devnull]
        command += [f"--junitxml={results}", f"--rootdir={folder}", *options, "--pyargs", *modules]
        path = os.pathsep.join([str(HERE), str(Path(vardi.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            command, cwd=folder, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
        )
        assert results.exists(), done.stdout + done.stderr
        cases = list(ElementTree.parse(results).iter("testcase"))
    bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    print(done.stdout[-4000:])
    return {f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}" for case in bad}, len(cases)
