"""Study files of any content: a study or one StudyError with the file and its lines, soon, and nothing is written."""

# ruff: noqa: PT017  (a fuzz passes by a result as well as by an error, and looks at either)

from __future__ import annotations

import os
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties.common import examples
from shell import write_gammas

import vardi
from vardi.study import Data, OpenStudy, Study, parse, read

pytestmark = pytest.mark.filterwarnings("ignore::vardi.VardiWarning")

VALID = """title = "T"
variables = ["x", "y > 3"]
engine = "memory"
[sources.a]
data = "a.csv"
bias = 1
[sources.b]
data = ["b.csv"]
bias = "x"
counts = "y"
id = "s"
[states.big]
bias = "x > 2"
[known]
"x > 1" = 0.7
s = {a = 0.5, b = 0.5}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_gammas(tmp_path_factory.mktemp("study"))


def listing(folder):
    return sorted((path.name, path.lstat().st_size, path.lstat().st_mtime_ns) for path in folder.rglob("*"))


def attempted(text, folder):
    """Read a study and fit it: the fit, or None for an error of ours that names the file; nothing is written."""
    path = folder / "study.toml"
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    path.write_bytes(data)
    before = listing(folder)
    try:
        try:
            study = read(path)
        except vardi.StudyError as error:
            assert "study.toml" in str(error)
            assert all(letter.isprintable() or letter == "\n" for letter in str(error))
            assert all(
                problem.startswith(("line ", "It ")) or "end of the file" in problem for problem in error.problems
            )
            return None
        assert isinstance(study, Study)
        try:
            opened = study.open()
            assert isinstance(opened, OpenStudy)
            opened.verdict()
            return opened.fit()
        except vardi.VardiError as error:
            assert str(error)
            return None
    finally:
        assert listing(folder) == before


def test_the_study_that_is_mutated_is_one(folder):
    assert attempted(VALID, folder) is not None
    study = read(folder / "study.toml")
    assert parse(VALID, folder / "study.toml") == study
    assert all(isinstance(data, Data) for data in study.data)


PIECES = [
    "[",
    "]",
    "[[",
    "]]",
    "=",
    '"',
    "'",
    "\n",
    "#",
    ".",
    "{",
    "}",
    ",",
    "\\",
    "data",
    "bias",
    "sources",
    "a.csv",
    "b.csv",
    "*",
    "x",
    "1",
    "true",
    "\x00",
    "�",
    "\x1b[2J",
    "é",
    "[sources.c]\n",
    "[pool]\n",
    "[biases]\n",
    "engine='polars'\n",
    "[[sources]]\n",
    "title=1\n",
    "'''",
    '"""',
    "../",
    "/",
    "~",
    "https://x/a.csv",
]


@st.composite
def mutated(draw):
    lines = VALID.split("\n")
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(lines) - 1))
        action = draw(st.sampled_from(["drop", "copy", "change", "change", "change"]))
        if action == "drop" and len(lines) > 1:
            del lines[place]
        elif action == "copy":
            lines.insert(draw(st.integers(0, len(lines))), lines[place])
        else:
            at = draw(st.integers(0, len(lines[place])))
            piece = draw(st.sampled_from(PIECES))
            lines[place] = lines[place][:at] + piece + lines[place][at + draw(st.integers(0, 3)) :]
    return "\n".join(lines)


@given(mutated() | st.binary(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
@settings(examples(120), suppress_health_check=list(HealthCheck))
def test_any_text_is_a_study_or_an_error_of_ours(folder, text):
    attempted(text, folder)


WRONG = [
    "1",
    "-1",
    "1.5",
    "nan",
    "inf",
    "true",
    '""',
    '"x"',
    "[]",
    "[1]",
    '["x"]',
    "[[]]",
    "{}",
    "{a=1}",
    "2024-01-01",
    "12:00:00",
    '"*"',
    "0x10",
    "1e400",
    '"\\u0000"',
    '"\\u202e"',
    '"<script>"',
    '"../a.csv"',
    '"("',
    '"nope"',
    '"s"',
    "-0.0",
    "99999999999999999999999999",
]
KEYS = [
    *[
        "title",
        "variables",
        "engine",
        "sources",
        "sources.a",
        "sources.a.data",
        "sources.a.bias",
        "sources.a.counts",
        "sources.a.id",
        "nope",
    ],
    *[
        "sources.a.table",
        "states",
        "states.z",
        "states.z.bias",
        "states.a.bias",
        "known",
        "known.x",
        "known.s",
        "known.s.a",
    ],
    *["shares", "shares.x", "known_shares", "pool", "pool.data", "pool.source", "biases", "biases.a"],
    'known."x > 1"',
    'sources.""',
    'sources."a b"',
    '""',
]
SOURCES = {
    "variables": '["x"]',
    "sources.a.data": '"a.csv"',
    "sources.a.bias": "1",
    "sources.b.data": '"b.csv"',
    "sources.b.bias": '"x"',
}
POOL = {"pool.data": '"a.csv"', "pool.source": '"s"', "biases.a": "1", "biases.b": '"x"'}


@pytest.mark.parametrize("key", KEYS)
def test_a_wrong_kind_of_value_at_any_place_is_refused_with_its_line(folder, key):
    for value in WRONG[KEYS.index(key) % 2 :: 2]:
        whole = POOL if key.startswith(("pool", "biases")) else SOURCES
        lines = {own: given for own, given in whole.items() if not own.startswith(f"{key}.")} | {key: value}
        attempted("".join(f"{own} = {given}\n" for own, given in lines.items()), folder)


HUGE = {
    "arrays in arrays": "a = " + "[" * 100_000,
    "tables in tables": "a = " + "{a=" * 5_000 + "1" + "}" * 5_000,
    "a key of 100,000 parts": ".".join("a" * 100_000) + " = 1",
    "a table of 50,000 parts": "[" + ".".join(["a"] * 50_000) + "]",
    "a key of quoted parts": '"a".' * 50_000 + "a = 1",
    "a key with spaces": "a . " * 100_000 + "b = 1",
    "a number of 900,000 digits": "x = " + "9" * 900_000,
    "a title of 900,000 letters": "title = '" + "a" * 900_000 + "'",
    "a bias of 400,000 parentheses": "[sources.a]\ndata='a.csv'\nbias='" + "(" * 400_000 + "'",
    "quotes": '"' * 900_000,
    "comments": "#\n" * 400_000,
    "two million bytes": "#" * 2_000_000,
}


@pytest.mark.parametrize("what", HUGE)
def test_huge_and_deep_studies_end_soon(folder, what):
    start = time.process_time()
    assert attempted(HUGE[what], folder) is None
    assert time.process_time() - start < 20.0  # against minutes: Python's parser is quadratic in the parts of a key


def test_a_long_key_is_refused_with_its_line(folder):
    text = "title = 'a'\n" + ".".join(["a"] * 201) + " = 1\n"
    with pytest.raises(vardi.StudyError, match="line 2: A key has more than [0-9]+ parts"):
        parse(text, folder / "study.toml")
    dots = "title = '" + "0.5 a.b, " * 500 + "'\n" + VALID.split("\n", 1)[1]
    assert parse(dots, folder / "study.toml").title.startswith("0.5 a.b")


def test_a_number_that_python_refuses_is_an_error_of_the_study(folder):
    with pytest.raises(vardi.StudyError, match="It is not valid TOML"):
        parse("x = " + "9" * 5_000, folder / "study.toml")


# --- files -----------------------------------------------------------------------------------------------------------

FILES = {
    "empty.csv": b"",
    "header.csv": b"x,y,s\n",
    "bom.csv": b"\xef\xbb\xbfx,y,s\n1,2,a\n2,3,b\n",
    "utf16.csv": "x,y,s\n1,2,a\n".encode("utf-16"),
    "latin.csv": "x,y,s\n1,2,é\n2,3,b\n".encode("latin-1"),
    "ragged.csv": b"x,y,s\n1,2\n2,3,b,4\n5\n",
    "nul.csv": b"x,y,s\n1,\x00,a\n",
    "bytes.csv": bytes(range(256)) * 10,
    "quote.csv": b'x,y,s\n1,2,"a\n2,3,b\n',
    "twice.csv": b"x,x,s\n1,2,a\n",
    "no name.csv": b"x,,s\n1,2,a\n",
    "crlf.csv": b"x,y,s\r\n1,2,a\r\n2,3,b\r\n",
    "great.csv": b"x,y,s\n1,99999999999999999999,a\n2,3,b\n",
    "inf.csv": b"x,y,s\ninf,1,a\n-1,2,b\n",
    "gaps.csv": b"x,y,s\nnan,1,a\n,2,b\n",
    "text.parquet": b"x,y",
    "magic.parquet": b"PAR1garbagePAR1",
    "broken.jsonl": b'{"x":1\n{',
    "nested.jsonl": b'{"x":{"a":1},"y":[1],"s":null}\n',
    "deep.jsonl": b'{"x":' * 2_000 + b"1" + b"}" * 2_000,
    "it's.csv": b"x,y,s\n1,2,a\n2,3,b\n",
    "st*r.csv": b"x,y,s\n1,2,a\n2,3,b\n",
    "pattern.csv": b"*,x,y,s\n1,1,2,a\n2,2,3,b\n",
    "regular.csv": b"^x$,x,y,s\n1,1,2,a\n2,2,3,b\n",
    "dotted.csv": b"a.b,x,y,s\n1,1,2,a\n2,2,3,b\n",
    "ours.csv": b"__row__,x,y,s\n1,1,2,a\n",
}
PATHS = [
    "/etc/passwd", "../nothing.csv", "*.tsv", "", "  ", ".", "/", "~/a.csv", "file:///etc/passwd", "http://x/a.csv",
    "s3://a/b.csv", "a.csv\\u0000b", "/dev/stdin", "/dev/zero", "[", "a" * 5_000 + ".csv", "a.csv/", "link.csv",
    "loop.csv", "dangling.csv", "pipe.csv", "zero.csv", "folder.csv", "folder.csv/*",
]  # fmt: skip


@pytest.fixture(scope="module")
def strange(folder):
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    (folder / "folder.csv").mkdir()
    (folder / "link.csv").symlink_to("/etc/passwd")
    (folder / "loop.csv").symlink_to("loop.csv")
    (folder / "dangling.csv").symlink_to("nowhere.csv")
    (folder / "zero.csv").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe.csv")
    return folder


def with_file(path, engine):
    return f'engine = "{engine}"\n[sources.a]\ndata = "a.csv"\nbias = 1\n[sources.b]\ndata = "{path}"\nbias = "x"\n'


@pytest.mark.parametrize("engine", ["memory", "polars", "duckdb"])
def test_any_file_is_data_or_an_error_of_ours(strange, engine):
    for name in FILES:
        attempted(with_file(name, engine), strange)


@pytest.mark.parametrize("path", PATHS, ids=[path[:20] for path in PATHS])
def test_paths_that_lead_to_no_data_are_refused(strange, path):
    for engine in ("memory", "duckdb"):
        assert attempted(with_file(path, engine), strange) is None


@pytest.mark.parametrize("name", ["bom.csv", "crlf.csv", "it's.csv"])
@pytest.mark.parametrize("engine", ["memory", "polars", "duckdb"])
def test_marks_line_ends_and_quotes_in_names_do_no_harm(strange, name, engine):
    assert attempted(with_file(name, engine), strange).sizes == {"a": 30, "b": 2}


@pytest.mark.parametrize(
    ("name", "engine", "words"),
    [
        ("pattern.csv", "memory", r"line 6: The column '\*' of pattern.csv .* pattern or a path. Rename it.$"),
        ("regular.csv", "polars", r"line 6: The column '\^x\$' of regular.csv .* Rename it.$"),
        ("dotted.csv", "duckdb", r"line 6: The column 'a.b' of dotted.csv .* Rename it, or write engine = \"memory\"."),
        ("deep.jsonl", "duckdb", "line 6: deep.jsonl is nested too deeply"),
        ("latin.csv", "memory", "latin.csv cannot be read as csv"),
    ],
)
def test_files_that_an_engine_would_misread_are_refused(strange, name, engine, words):
    (strange / "study.toml").write_text(with_file(name, engine))
    with pytest.raises(vardi.StudyError, match=words):
        read(strange / "study.toml").fit()
    if name == "dotted.csv":
        assert attempted(with_file(name, "memory"), strange) is not None
