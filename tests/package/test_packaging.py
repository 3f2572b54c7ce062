"""Wheel and sdist: what is in them, what they say of themselves, and that the core runs on the core alone."""

import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import vardi

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = ("pandas", "polars", "pyarrow", "duckdb", "matplotlib", "jinja2", "typer", "rich", "torch", "PIL")
CACHES = ("__pycache__", ".pyc", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".coverage", "_build")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the folder with the wheel and the sdist of this tree."""
    for module in ("build", "hatchling"):
        pytest.importorskip(module, reason="the tests of packaging need it: pip install 'vardi[test]'")
    folder = tmp_path_factory.mktemp("dist")
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--sdist",
        "--wheel",
        "--outdir",
        str(folder),
        str(ROOT),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


@pytest.fixture(scope="module")
def metadata(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def test_wheel_holds_the_package_and_nothing_else(wheel):
    package = {name for name in wheel.namelist() if ".dist-info/" not in name}
    source = {
        path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "vardi").rglob("*") if path.is_file()
    }
    assert package == {name for name in source if not any(cache in name for cache in CACHES)}
    assert not [name for name in wheel.namelist() if "paper" in name]
    assert {"vardi/py.typed", "vardi/datasets/data/boston.csv", "vardi/datasets/data/SOURCES.md"} <= package
    assert any(re.match(r"vardi/report/templates/.+\.\w+$", name) for name in package)


def test_sdist_can_be_tested(built):
    """The sdist holds what the tests read, and no caches."""
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    there = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "LICENSE", "pyproject.toml", "Makefile")
    there += ("SECURITY.md", "RELEASING.md", "tools/banned_phrases.py")
    there += ("src/vardi/py.typed", "tests/conftest.py", "examples/house_prices.py", "docs/conf.py", "docs/index.md")
    there += ("benchmarks/__main__.py", "benchmarks/RESULTS.md")
    there += ("paper/__main__.py", "paper/figures/style.py", "paper/page.html", "paper/printed.csv", "paper/SOURCES.md")
    assert not set(there) - names
    assert not [name for name in names if any(cache in name for cache in CACHES)]


def test_metadata(metadata, wheel):
    assert metadata["Name"] == "vardi"
    assert metadata["Version"] == PROJECT["version"] == vardi.__version__
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().startswith("# vardi")
    assert "Typing :: Typed" in metadata.get_all("Classifier")
    assert any(name.endswith("/licenses/LICENSE") for name in wheel.namelist())
    assert set(metadata.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])


def test_core_is_small(metadata):
    core = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    names = {re.match(r"[\w-]+", line)[0] for line in core}
    assert names == {"numpy", "scipy", "scikit-learn", "narwhals", "joblib", "threadpoolctl"}


def test_command(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "vardi = vardi.cli:main" in wheel.read(name).decode()


CORE_ONLY = f"""
import sys
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

class CoreOnly(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {OPTIONAL} else super().find_spec(name, path, target)

sys.meta_path[:] = [BuiltinImporter, FrozenImporter, CoreOnly]
sys.path.insert(0, UNPACKED)
import numpy as np
import vardi

assert vardi.__file__.startswith(UNPACKED), vardi.__file__
"""


@pytest.fixture(scope="module")
def core_only(wheel, tmp_path_factory):
    """Return what runs code on the unpacked wheel, with no optional package to be found."""
    folder = tmp_path_factory.mktemp("unpacked")
    wheel.extractall(folder)

    def run(code):
        program = f"UNPACKED = {str(folder)!r}\n{CORE_ONLY}\n{code}"
        return subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True)

    return run


def test_the_core_runs_on_the_core_alone(core_only):
    done = core_only("""
from sklearn.linear_model import Ridge
design = vardi.datasets.length_bias(seed=0)
fit = vardi.debias(design.samples, design.biases)
print(fit.expectation("x"))
print(fit.bootstrap("x", n=20).failed, fit.check_biases().pvalue > 0.05, len(str(fit)) > 100)
pool = np.concatenate(list(design.samples.values()))
source = np.repeat(list(design.samples), [len(rows) for rows in design.samples.values()])
model = vardi.DebiasedEstimator(Ridge(), biases=design.biases, target="x").fit(pool[:, None], pool, source=source)
print(model.predict([[2.0]]).round(1))
print(vardi.__version__)
""")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "2.986 ± 0.083 (95%: 2.821 to 3.151)",
        "0 True True",
        "[2.]",
        PROJECT["version"],
    ]


def test_optional_packages_are_out_of_reach(core_only):
    """Or the tests above and below would say nothing."""
    done = core_only(f"""
from importlib.util import find_spec
print([name for name in {OPTIONAL} if find_spec(name)], bool(find_spec("sklearn")))
""")
    assert done.stdout == "[] True\n", done.stderr


ABSENT = {
    "vardi.plots.WeightsDisplay.from_fit(vardi.debias([np.ones(3)], [1]))": "pip install 'vardi[plot]'",
    "vardi.report.to_html(vardi.report.compute(vardi.debias([np.ones(3)], [1])))": "pip install 'vardi[report]'",
    "from vardi.cli import main; sys.exit(main())": "pip install 'vardi[cli]'",
    "vardi.debias([np.ones(3)], [1]).torch_weights()": "pip install 'vardi[torch]'",
    "vardi.datasets.boston()": "pip install pandas",
}


@pytest.fixture(scope="module")
def answers(core_only):
    """Return how each of these ends, and what it says."""
    done = core_only(f"""
import contextlib, io, json
ends = {{}}
for code in {[*ABSENT]!r}:
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            exec(code)
        except BaseException as error:
            ends[code] = type(error).__name__, f"{{error}} {{said.getvalue()}}"
print(json.dumps(ends))
""")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("code", "command"), ABSENT.items())
def test_what_is_absent_is_named_with_the_command_that_brings_it(answers, code, command):
    error, said = answers[code]
    assert error == ("SystemExit" if "exit" in code else "ImportError")
    assert not said.startswith("0 ")  # the code with which a command ends
    assert command in said


def test_the_version_stands_in_one_place():
    for path in [*(ROOT / "src").rglob("*.py"), ROOT / "docs" / "conf.py"]:
        assert PROJECT["version"] not in path.read_text(encoding="utf-8"), path
    assert "\nversion:" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


class TestCitation:
    """CITATION.cff has what version 1.2.0 of the format requires."""

    @pytest.fixture
    def citation(self):
        yaml = pytest.importorskip("yaml", reason="the test of CITATION.cff needs PyYAML: pip install 'vardi[docs]'")
        return yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))

    def test_required_keys(self, citation):
        assert {"cff-version", "message", "title", "authors"} <= set(citation)
        assert citation["cff-version"] == "1.2.0"
        assert citation["type"] == "software"
        assert citation["license"] == PROJECT["license"]

    def test_works(self, citation):
        for work in [citation["preferred-citation"], *citation["references"]]:
            assert {"type", "title", "authors"} <= set(work)
            assert all({"family-names", "given-names"} == set(author) for author in work["authors"])
            assert isinstance(work["year"], int)
            assert work["start"] < work["end"]
        assert re.fullmatch(r"10\.\d{4,}/\S+", citation["preferred-citation"]["doi"])
