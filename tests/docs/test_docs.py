"""The documentation: every code block runs, every link leads somewhere, every public name is in the reference."""

import re
import sys
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import pytest

import vardi

mpl.use("Agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BUILT = {"_build", "_generated", "gallery", "generated"}
PAGES = [ROOT / "README.md", *(page for page in sorted(DOCS.rglob("*.md")) if not BUILT & set(page.parts))]
NOT_CODE = {"diff", "text", "console", "toml", "sh", "bash", "sql", "json", "html", "csv"}
FENCE = re.compile(r"^(`{3,}|:{3,})(\S*)[^\n]*\n(.*?)^\1\s*$", re.MULTILINE | re.DOTALL)
page = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def blocks(text):
    """Return the language and the body of each fenced block, those within directives included."""
    found = []
    for _, language, body in FENCE.findall(text):
        found.append((language, body))
        if language.startswith("{"):
            found.extend(blocks(body))
    return found


@page
def test_python_blocks_are_doctests(page):
    """Pytest runs every line that begins with a prompt; a block without prompts would never run."""
    for language, body in blocks(page.read_text(encoding="utf-8")):
        if language == "python":
            assert body.startswith(">>> ")
            assert body.endswith("\n\n"), "a doctest block ends with an empty line, or its fence is taken for output"
        else:
            assert language.startswith("{") or language in NOT_CODE, f"a block in {language!r} is not run by anything"
            assert language.startswith("{") or ">>> " not in body


def test_blocks_within_directives_are_seen():
    text = ":::{grid}\n```{card}\nx\n```\n```python\n1 + 1\n```\n:::\n"
    assert [language for language, _ in blocks(text)] == ["{grid}", "{card}", "python"]


def anchors(path):
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@page
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if path.is_relative_to(DOCS / "gallery"):  # made by the build from the script of the same place
            script = ROOT / "examples" / path.relative_to(DOCS / "gallery").with_suffix(".py")
            path = script.with_name("README.rst") if script.stem == "index" else script
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path), target


@page
def test_tests_that_are_named_are_there(page):
    for name in re.findall(r"\btests/[\w/]+\.py\b", page.read_text(encoding="utf-8")):
        assert (ROOT / name).is_file(), name


def listed(page):
    """Return the full names that the autosummaries of a page of the reference list."""
    found, module, inside = set(), "", False
    for line in page.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\.\. currentmodule:: (\S+)", line):
            module, inside = match[1], False
        elif line.startswith(".. autosummary::"):
            inside = True
        elif inside and (match := re.match(r"   ([A-Za-z_][\w.]*)$", line)):
            found.add(f"{module}.{match[1]}")
        elif line and not line.startswith("   "):
            inside = False
    return found


def public_names():
    """Return every public object under each name by which it may be listed; modules are pages of their own."""
    modules = (vardi, vardi.biases, vardi.errors, vardi.datasets, vardi.plots, vardi.learn, vardi.mbar)
    for module in modules:
        names = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and isinstance(value, type) and value.__module__ == module.__name__
        ]
        for name in names:
            if not hasattr(getattr(module, name), "__path__") and f"vardi.{name}" not in sys.modules:
                yield module.__name__, name


def test_every_public_name_is_in_the_reference():
    there = set().union(*(listed(page) for page in (DOCS / "reference").glob("*.md")))
    missing = {
        f"{module}.{name}"
        for module, name in public_names()
        if f"{module}.{name}" not in there and not (hasattr(vardi, name) and f"vardi.{name}" in there)
    }
    assert not missing, "list these in a page of docs/reference"


def test_the_reference_lists_nothing_that_is_not_there():
    for page in (DOCS / "reference").glob("*.md"):
        for name in listed(page):
            module, _, attribute = name.rpartition(".")
            assert getattr(import_module(module), attribute).__doc__


def test_public_names_are_found():
    found = set(public_names())
    assert {("vardi", "debias"), ("vardi.errors", "MismatchError"), ("vardi.plots", "CdfDisplay")} <= found
    assert ("vardi", "datasets") not in found


def test_every_page_is_in_a_table_of_contents():
    entries = set()
    for page in PAGES[1:]:
        for language, body in blocks(page.read_text(encoding="utf-8")):
            if language == "{toctree}":
                names = [line for line in body.splitlines() if line and not line.startswith(":")]
                entries |= {(page.parent / f"{name}.md").resolve() for name in names}
    assert {page for page in PAGES[1:] if page != DOCS / "index.md"} <= entries


@pytest.fixture
def docs_modules(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS), str(DOCS / "_extensions"), *sys.path])
    yield
    for name in ("drawings", "mathml", "reference", "sessions"):
        sys.modules.pop(name, None)
    plt.close("all")


@pytest.fixture
def mathml(docs_modules):
    pytest.importorskip("sphinx", reason="sphinx is not installed")
    from mathml import mathml

    return mathml


def test_pictures_are_drawn(docs_modules, tmp_path):
    import drawings

    drawings.draw_all(tmp_path)
    shown = {
        name for page in PAGES for name in re.findall(r"_generated/([\w-]+\.svg)", page.read_text(encoding="utf-8"))
    }
    drawn = list(tmp_path.glob("*.svg"))
    assert {path.name for path in drawn} == shown
    for path in drawn:
        assert ElementTree.parse(path).getroot().tag.endswith("svg")


def test_the_picture_of_the_readme_is_the_one_that_is_drawn(docs_modules, tmp_path):
    import drawings
    from PIL import Image

    drawings.house_prices(tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").stat().st_size < 60_000
    with Image.open(tmp_path / "drawn.png") as drawn, Image.open(DOCS / "images" / "house_prices.png") as kept:
        assert drawn.size == kept.size


@pytest.mark.parametrize(
    ("tex", "expected"),
    [
        (r"\hat P_k", "<msub><moveraccent='true'><mi>P</mi><mostretchy='false'>ˆ</mo></mover><mi>k</mi></msub>"),
        (r"\bar P", "<moveraccent='true'><mi>P</mi><mostretchy='false'>¯</mo></mover>"),
        (r"a \Big/ b", "<mi>a</mi><mostretchy='false'>/</mo><mi>b</mi>"),
        (r"\Big(a\Big)", "<mrow><mo>(</mo><mi>a</mi><mo>)</mo></mrow>"),
        (r"\frac12\kappa", "<mfrac><mn>1</mn><mn>2</mn></mfrac><mi>κ</mi>"),
        (r"a\;b", "<mi>a</mi><mspacewidth='0.2778em'/><mi>b</mi>"),
    ],
)
def test_formulas(mathml, tex, expected):
    found = re.sub(r"\s", "", mathml(tex, block=False)).replace('"', "'")
    assert found.removeprefix("<mathxmlns='http://www.w3.org/1998/Math/MathML'>").removesuffix("</math>") == expected


def test_columns_of_formulas_are_aligned(mathml):
    assert mathml(r"a &= b \\ c &= d", block=True).count("<mtr>") == 2


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (">>> fit.omegas['agency']\n0.59...\n\n", ">>> fit.omegas['agency']\n0.59…"),
        (">>> for k in range(2):\n...     print(k)\n0\n1\n", ">>> for k in range(2):\n...     print(k)\n0\n1"),
        ("$ vardi demo\nsolved  ...\n", "$ vardi demo\nsolved  …"),
        (">>> print(fit)\nAGE  75.596\n... and 6 more\n", ">>> print(fit)\nAGE  75.596\n... and 6 more"),
        (
            f">>> f()\nTraceback (most recent call last):\n...\nvardi.VardiError: {'word ' * 30}...\n>>> 1\n1",
            f">>> f()\nvardi.VardiError: {' '.join(['word'] * 15)}\n{' '.join(['word'] * 15)} …\n>>> 1\n1",
        ),
    ],
)
def test_sessions_are_shown_without_what_only_tests_need(docs_modules, source, shown):
    pytest.importorskip("sphinx", reason="sphinx is not installed")
    from sessions import as_printed

    assert as_printed(source) == shown


def test_every_name_of_a_fit_has_one_task(docs_modules):
    pytest.importorskip("sphinx", reason="sphinx is not installed")
    from reference import HIDDEN, TASKS_OF_A_FIT

    listed = sorted(name for names in TASKS_OF_A_FIT.values() for name in names)
    public = {name for name in dir(vardi.DebiasedSample) if not name.startswith("_")}
    former = {name for name in public if (getattr(vardi.DebiasedSample, name).__doc__ or "").startswith("The former")}
    assert listed == sorted(public - former - HIDDEN)


@pytest.mark.parametrize(
    ("what", "before", "after"),
    [
        ("property", ["Weights: they sum to 1."], ["Weights\\", ": they sum to 1."]),
        ("property", ["The log, :math:`x`.", "", "a: b"], ["The log, :math:`x`.", "", "a: b"]),
        ("method", ["Return: this."], ["Return: this."]),
    ],
)
def test_the_summary_of_an_attribute_is_not_taken_for_its_type(docs_modules, what, before, after):
    pytest.importorskip("sphinx", reason="sphinx is not installed")
    from reference import keep_summary

    lines = list(before)
    keep_summary(None, what, "name", None, None, lines)
    assert lines == after
