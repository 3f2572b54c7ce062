"""What studies read and what the command line says, part by part."""

from __future__ import annotations

import json
import sys
import threading
import tomllib
import warnings

import duckdb
import narwhals as nw
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties.common import examples
from shell import (
    AGENCY,
    NATIONAL,
    Terminal,
    completed,
    problems,
    write_demo,
    write_gammas,
    write_houses,
    write_small,
    written,
)
from shell import invoke as run

import vardi
from vardi.cli._command import complete_study
from vardi.cli._console import progress, warnings_as_lines
from vardi.cli._summary import links_table
from vardi.study import Data, parse, read
from vardi.study import _data as study_data
from vardi.study import _engines as study_engines
from vardi.study._engines import _database, _relation, in_memory, left_in_place, require_rows
from vardi.study._toml import key_lines, line_of, quoted, quoted_key


@pytest.fixture
def folder(tmp_path):
    return write_houses(tmp_path)


# --- what a study says


def test_auto_reads_small_files_into_memory_and_leaves_large_ones(folder, monkeypatch):
    text = AGENCY + NATIONAL
    assert read(written(folder, text)).engine == "memory"
    size = sum((folder / f"{name}.csv").stat().st_size for name in ("agency", "national"))
    monkeypatch.setattr(study_data, "available_memory", lambda: 8 * size)
    assert read(written(folder, text)).engine == "memory"
    monkeypatch.setattr(study_data, "available_memory", lambda: 8 * size - 1)
    assert read(written(folder, text)).engine == "polars"


# --- what a study cannot do


def test_duckdb_is_closed_to_all_but_the_named_files(folder, tmp_path):
    (other,) = [folder / "national.csv"]
    data = read(written(folder, 'engine = "duckdb"\n' + AGENCY)).data[0]
    relation = _relation(data)
    assert relation.count("*").fetchone() == (200,)
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS x")
        connection.execute(f"CREATE VIEW v AS SELECT * FROM read_csv('{other}')")
    text = '[sources.a]\ndata = "d.duckdb"\ntable = "t"\nbias = 1\n'
    database = _database(read(written(folder, text)).data[0])
    for statement in (
        f"SELECT * FROM read_csv('{other}')",
        "CREATE TABLE u AS SELECT 2 AS y",
        f"COPY t TO '{tmp_path / 'out.csv'}'",
        "SET enable_external_access = true",
    ):
        with pytest.raises(duckdb.Error):
            database.execute(statement)
    (found,) = problems(folder, text.replace('"t"', '"v"'))
    assert "cannot be read as duckdb" in found
    assert not (tmp_path / "out.csv").exists()


# --- what a CSV is, in every engine

ENGINES = ("memory", "polars", "duckdb")
PAIR = '[sources.a]\ndata = "a.csv"\nbias = "x"\n[sources.b]\ndata = "b.csv"\nbias = 1\n'


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1 << 20])
@pytest.mark.parametrize(
    ("content", "blank"),
    [
        (b"x,k\n1,2\n", False),
        (b"x,k\n1,2\n\n", True),
        (b"\nx,k\n1,2\n", True),
        (b"x,k\r\n1,2\r\n\r\n3,4", True),
        (b'x,k\n1,"a\n\nb"\n2,"""\n\n"""\n', False),
        (b'x,k\n1,"a\n\nb"\n\n2,c\n', True),
    ],
)
def test_blank_lines_are_found_outside_quotes(tmp_path, size, content, blank):
    (tmp_path / "a.csv").write_bytes(content)
    assert study_engines._has_blank_line(tmp_path / "a.csv", size) is blank


# --- columns that a study does not use, or uses twice


def toml(value):
    """Write a value in TOML, tables inline."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(key)} = {toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(letter):08X}" for letter in value) + '"'
    return repr(value)


# --- lines of keys

NAMES = st.text(alphabet="ab. \"'#=[]é\\", min_size=1, max_size=5)
LEAVES = st.one_of(
    st.integers(), st.sampled_from(['"x # y"', "'''\nz = 1\n'''", '"""\n[a]\n"""', "[\n 1,\n 2, # ]\n]"])
)


@given(st.dictionaries(NAMES, st.dictionaries(NAMES, LEAVES, min_size=1, max_size=4), min_size=1, max_size=4))
def test_lines_are_those_where_keys_are_written(document):
    text, expected, line = "", {}, 1
    for table, keys in document.items():
        text += f"# a comment\n[{toml(table)}]\n"
        line += 1
        expected[(table,)] = line
        line += 1
        for key, value in keys.items():
            text += f"{toml(key)} = {value}\n"
            expected[(table, key)] = line
            line += str(value).count("\n") + 1
    tomllib.loads(text)
    found = key_lines(text)
    assert {key: found[key] for key in expected} == expected
    assert line_of(found, (*next(iter(expected)), "inside", "it")) == next(iter(expected.values()))
    assert line_of(found, ("nowhere to be found",)) is None


EVERYWHERE = PAIR.replace('"x"', "1")


def write_codes(folder, stray="n/a"):
    """Two files with codes, missing values as R writes them, and a column that is text for one cell of one file."""
    rng = np.random.default_rng(0)
    for name, zeros in (("a", "0"), ("b", "")):
        rows = [
            f"{zeros}96194560{i:04d},{x:.4f},{'NA' if i == 3 else i},{stray if i == 5 and zeros else i}"
            for i, x in enumerate(rng.normal(size=100))
        ]
        (folder / f"{name}.csv").write_text("\n".join(["cds,x,y,z", *rows, ""]))


@pytest.mark.parametrize("engine", ENGINES)
def test_what_r_writes_for_missing_is_missing_and_a_stray_text_is_named(tmp_path, engine):
    write_codes(tmp_path)
    text = f'engine = "{engine}"\n{EVERYWHERE}'
    study = read(written(tmp_path, text))
    schema = study_engines.schema(study.data[0], study.engine)
    assert schema["y"].is_integer()
    assert study.notes == (
        "The column 'z' of a.csv is read as text, since it holds 'n/a', which is not a number. Correct it; a missing "
        "value is an empty cell or NA.",
    )
    (problem,) = problems(tmp_path, f'variables = ["z"]\n{text}')
    assert "The variable 'z' holds text." in problem
    assert problem.endswith(study.notes[0])
    with pytest.raises(vardi.MissingValuesError):
        read(written(tmp_path, text.replace("bias = 1", "bias = 'y >= 0'"))).fit()


@pytest.fixture(scope="module")
def fuzzed_folder(tmp_path_factory):
    return write_gammas(tmp_path_factory.mktemp("study"))


def test_hundreds_of_samples_are_checked_by_their_kinds_of_columns(fuzzed_folder, monkeypatch):
    """Each bias was compiled for each file: 2,000 samples took hours."""
    from vardi.study import _columns

    calls = []
    compiled = _columns.compile_node
    monkeypatch.setattr(_columns, "compile_node", lambda *given: calls.append(1) or compiled(*given))
    text = "".join(f"[sources.a{k}]\ndata = 'a.csv'\nbias = 'x > {k}'\n" for k in range(60))
    with pytest.raises(vardi.StudyError, match="count twice"):
        parse(text, fuzzed_folder / "study.toml")
    assert len(calls) <= 2 * 60


# --- files -----------------------------------------------------------------------------------------------------------


CELLS = ["1", "2", "3.5", "", '""', "a", '"a"', "#1", "'a'", "1;2", '"a,b"', '"a\n\nb"', 'a"b', '"a""b"', '"', "\t"]

LINES = st.lists(
    st.lists(st.sampled_from(["1", "2", "3.5"]) | st.sampled_from(CELLS), min_size=2, max_size=2)
    | st.lists(st.sampled_from(CELLS), max_size=3),
    max_size=5,
)


def cells(path, engine):
    """Read the rows of a CSV as an engine does: numbers and texts, None where it refuses the file."""
    data = Data("a", (path,), "csv")
    try:
        require_rows(data, engine)
        if engine == "memory":
            return [tuple(row) for row in in_memory(data, None).rows()]
        frame = nw.from_native(left_in_place(data, engine, None, apart=False, counted=False)).lazy().collect()
        return [tuple(row) for row in frame.sort("__row__").select("x", "k").rows()]
    except vardi.StudyError:
        return None


@given(LINES, st.sampled_from(["", "\n", "\n\n"]))
@settings(examples(40), suppress_health_check=list(HealthCheck))
def test_engines_read_the_same_of_a_csv_or_refuse_it(fuzzed_folder, lines, end):
    path = fuzzed_folder / "any.csv"
    path.write_text("x,k\n" + "\n".join(",".join(line) for line in lines) + end)
    found = [cells(path, engine) for engine in ("memory", "polars", "duckdb")]
    read_by = [rows for rows in found if rows is not None]
    assert all(rows == read_by[0] for rows in read_by), found


@pytest.fixture(autouse=True)
def no_width(monkeypatch):
    """What starts the tests may have set a width of lines."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def console_folder(tmp_path, monkeypatch):
    """A folder with the study of the demo, in which commands are run."""
    monkeypatch.chdir(tmp_path)
    return write_demo(tmp_path)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A folder with two small samples that overlap."""
    monkeypatch.chdir(tmp_path)
    return write_small(tmp_path)


# --- sample, check, report


@pytest.mark.parametrize(("reason", "shown"), [("", ""), ("8 GiB for an array", " (8 GiB for an array)")])
def test_memory_that_is_used_up_is_one_line(small, monkeypatch, reason, shown):
    def fail(*arguments, **options):
        raise MemoryError(reason)

    monkeypatch.setattr("vardi.study._study.debias", fail)
    result = run("fit", "study.toml", "-o", "weights.csv", "--json")
    message = f"There is too little memory{shown}. Use fewer rows, or a machine with more."
    assert (result.exit_code, result.stderr) == (1, f"error: {message}\n")
    assert json.loads(result.stdout)["message"] == message
    assert not (small / "weights.csv").exists()


# --- demo and init


def test_texts_in_toml():
    import tomllib

    for text in ('a"b\\c\n\t\x7f\x1b', "é😀", "", "a b", "a-b_1"):
        assert tomllib.loads(f"x = {quoted(text)}") == {"x": text}
        if text:
            assert tomllib.loads(f"{quoted_key(text)} = 1") == {text: 1}


# --- the program


def test_studies_complete(console_folder):
    (console_folder / "studies").mkdir()
    assert complete_study("stu") == ["studies/", "study.toml"]
    assert complete_study("nowhere/") == []
    assert completed("vardi fit stud") == ["studies/", "study.toml"]


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("takes_long", [False, True])
def test_progress_is_shown_once_the_work_takes_long(monkeypatch, takes_long, hidden):
    class Timer(threading.Timer):
        """A clock by which the delay is over at once, or never."""

        def start(self):
            assert self.interval == 1.0
            if takes_long:
                self.function()

        def join(self):
            pass

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress(hidden=hidden, timer=Timer) as stage:
        stage("solving", 1, 2)
    shown = sys.stderr.getvalue()
    assert ("solving" in shown) == (takes_long and not hidden)
    if hidden:
        assert shown == ""


def test_an_interrupted_engine_is_an_interruption(console_folder, monkeypatch):
    def query(*arguments, **options):
        raise RuntimeError("Query interrupted") from KeyboardInterrupt()  # as DuckDB does

    monkeypatch.setattr("vardi.study._study.debias", query)
    result = run("fit", "study.toml", "-o", "weights.csv")
    assert (result.exit_code, result.stderr) == (130, "interrupted: no file was written.\n")


# --- the pages


def test_of_many_links_those_of_the_fewest_rows_are_listed():
    rng = np.random.default_rng(0)
    samples = {f"s{k:02d}": rng.uniform(k, k + 8, 40) for k in range(12)}
    verdict = vardi.identify(samples, {name: f"{k} <= x <= {k + 8}" for k, name in enumerate(samples)})
    shared = [float(there) + float(back) for _, _, there, back in links_table(verdict, None).rows(30)]
    assert len(verdict.links) > len(shared) == 20
    assert shared[1:] == sorted(link.rows for link in verdict.links if link != verdict.weakest)[:19]


def test_warnings_are_printed_once_also_before_an_error(capfd):
    def fail():
        for kind in (vardi.WeakOverlapWarning, vardi.WeakOverlapWarning, vardi.ContradictedKnownWarning):
            warnings.warn(kind.__name__, kind, stacklevel=1)
        raise ZeroDivisionError

    with warnings_as_lines(reported=(vardi.ContradictedKnownWarning,)) as messages, pytest.raises(ZeroDivisionError):
        fail()
    with pytest.raises(ZeroDivisionError), warnings_as_lines():
        fail()
    assert [message["message"] for message in messages] == ["WeakOverlapWarning", "ContradictedKnownWarning"]
    printed = capfd.readouterr().err.splitlines()
    assert printed == ["warning: WeakOverlapWarning"] * 2 + ["warning: ContradictedKnownWarning"]
