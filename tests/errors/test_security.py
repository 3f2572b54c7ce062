"""Expressions and study files run no code, read no file but their data, and reach no network; reports escape."""

from __future__ import annotations

import ast
import html.parser
import json
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from shell import invoke

import vardi
from vardi.study import read

SOURCE = Path(vardi.__file__).parent
CHROMIUM = shutil.which("chromium")

# --- what the source may not do --------------------------------------------------------------------------------------

FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "breakpoint"}
FORBIDDEN_MODULES = {
    "pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "yaml",
    "subprocess",
    "pty",
    "socket",
    "ssl",
    "http",
    "urllib",
    "ftplib",
    "smtplib",
    "telnetlib",
    "xmlrpc",
    "requests",
    "httpx",
    "aiohttp",
    "ctypes",
    "code",
    "codeop",
    "webbrowser",
}


@cache
def modules():
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def test_the_source_imports_nothing_that_runs_code_or_reaches_out():
    found = {(Path(name).as_posix(), module) for name, tree in modules().items() for module in imported(tree)}
    # A browser prints a page that was written here, and nothing else is run.
    assert {pair for pair in found if pair[1] in FORBIDDEN_MODULES} == {("cli/_outputs.py", "subprocess")}


def test_the_source_calls_nothing_that_runs_text():
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.id if isinstance(node.func, ast.Name) else ""
            assert called not in FORBIDDEN_CALLS, f"{name}:{node.lineno} calls {called}"
            attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            owner = node.func.value.id if isinstance(getattr(node.func, "value", None), ast.Name) else ""
            assert (owner, attribute) not in {("os", "system"), ("os", "popen"), ("ast", "literal_eval")}, name
            assert attribute not in {"map_elements", "load_module", "run_path"}, (
                f"{name}:{node.lineno} calls {attribute}"
            )
            for keyword in node.keywords:
                shell = keyword.arg == "shell" and getattr(keyword.value, "value", False)
                pickled = keyword.arg == "allow_pickle" and getattr(keyword.value, "value", True)
                assert not shell, name
                assert not pickled, name


# --- what happens while hostile texts are read: every event that Python tells of ----------------------------

WATCH = """
import json, sys, warnings
warnings.simplefilter("ignore")
import vardi, vardi.study, numpy as np
texts, studies, engines = json.load(open(sys.argv[1]))
vardi.debias({"a": np.ones(3), "b": np.ones(3)}, {"a": 1, "b": "x > 0 and exp(x) < 9 or x in (1, 2)"}).summary()
for warm in engines:  # what an engine loads the first time it is used is no doing of the study
    vardi.study.read(warm).fit()
events, watching = [], True
NAMES = ("open", "exec", "compile", "import", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
         "subprocess.Popen", "ctypes.dlopen", "os.remove", "os.rename", "os.mkdir", "os.chmod", "os.symlink",
         "shutil.rmtree", "pty.spawn", "urllib.Request", "code.__new__", "marshal.loads", "pickle.find_class")
def hook(event, arguments):
    if watching and (event in NAMES or event.startswith(("socket.", "http.", "ftplib.", "smtplib."))):
        if event == "compile":  # the parser of expressions makes a tree and no code: its source is bytes or text
            arguments = (str(arguments[0])[:80], str(arguments[1]))
        events.append([event, [str(argument)[:200] for argument in arguments]])
sys.addaudithook(hook)
outcomes = []
def attempt(call):
    try:
        call(); outcomes.append("read")
    except vardi.VardiError as error:
        outcomes.append("refused")
for text in texts:
    def one(text=text):
        fit = vardi.debias({"a": np.ones(3), "b": np.ones(3)}, {"a": 1, "b": text})
        fit.expectation(text)
    attempt(one)
after_texts = len(events)
for path in studies:
    attempt(lambda: vardi.study.read(path).open().fit())
watching = False
print(json.dumps([outcomes, events[:after_texts], events[after_texts:]]))
"""
EXPRESSIONS = [
    "__import__('os').system('touch /tmp/owned')",
    "().__class__.__bases__[0].__subclasses__()",
    "x.__class__",
    "x if open('/etc/passwd') else 1",
    "[y for y in open('/etc/passwd')]",
    "(lambda: 1)()",
    "f'{open(1)}' == x",
    "x == f'{x}'",
    "exec('import os')",
    "eval('1')",
    "abs.__self__",
    "abs(__import__('socket'))",
    "x[open('/etc/passwd')]",
    "`x`.__class__",
    "'%s' % x",
    "'{0.__class__}'.format(x)",
    "print(x)",
    "x := open('/etc/passwd')",
    "globals()['x']",
    "x is missing; import os",
    "x > 0\nimport os",
    "x # import os",
    "logistic(open('/etc/passwd'))",
    "steps(x, [__import__('os')])",
    "x in open('/etc/passwd')",
    "await x",
    "9 ** 9 ** 9 ** 9",
    "x > 0 and 'a' == \"'; DROP TABLE x; --\"",
    "`x'; DROP TABLE x; --` > 0",
    "`read_csv('/etc/passwd')` > 0",
    "x > 0",
]
DATA = (
    "/etc/passwd", "../../etc/passwd", "link.csv", "https://example.org/a.csv", "s3://bucket/a.csv", "file:///etc/passwd",
    "hf://datasets/a.csv", "|touch owned.csv", "$(touch owned).csv", "a.csv'); ATTACH 'other.db'; --.csv", "/dev/zero",
    "/proc/self/environ", "\\\\\\\\host\\\\share\\\\a.csv",
)  # fmt: skip


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """What the audit hook saw while hostile expressions and studies were read in a process of their own."""
    folder = tmp_path_factory.mktemp("hostile")
    for name in ("a", "b"):
        (folder / f"{name}.csv").write_text("x,y\n1,2\n2,3\n3,5\n")
    (folder / "secret.csv").write_text("x,y\n9,9\n")
    (folder / "link.csv").symlink_to("/etc/passwd")
    for name in ("a", "b"):
        pl.read_csv(folder / f"{name}.csv").write_parquet(folder / f"{name}.parquet")
    studies, engines = [], []

    def study(text):
        path = folder / f"study{len(studies)}.toml"
        path.write_text(text, encoding="utf-8")
        studies.append(str(path))
        return str(path)

    plain = '[sources.a]\ndata = "a.csv"\nbias = 1\n'
    for engine in ("memory", "polars", "duckdb"):
        engines += [
            study(f'engine = "{engine}"\n{plain}[sources.b]\ndata = "{file}"\nbias = "x"\n')
            for file in ("b.csv", "b.parquet")
        ]
    for data in DATA:
        study(f'{plain}[sources.b]\ndata = "{data}"\nbias = "x"\n')
        study(f'engine = "duckdb"\n{plain}[sources.b]\ndata = "{data}"\nbias = "x"\n')
    stored = plain.replace("csv", "parquet")  # which DuckDB opens sooner
    for text in EXPRESSIONS:
        bias = json.dumps(text)
        study(f'engine = "duckdb"\n{stored}[sources.b]\ndata = "b.parquet"\nbias = {bias}\n')
        study(f'variables = [{bias}]\n{plain}[sources.b]\ndata = "b.csv"\nbias = 1\n[known]\n{bias} = 0.5\n')
    study(f'{plain}[sources."__import__(\'os\').system(\'true\')"]\ndata = "b.csv"\nbias = "x"\n')
    study(f'import = "os"\npython = "open(1)"\n{plain}')
    given = folder / "given.json"
    given.write_text(json.dumps([EXPRESSIONS, studies, engines]))
    script = folder / "watch.py"
    script.write_text(WATCH)
    done = subprocess.run([sys.executable, str(script), str(given)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes, of_texts, of_studies = json.loads(done.stdout.splitlines()[-1])
    return folder, outcomes, of_texts, of_studies


def test_hostile_expressions_are_refused(watched):
    _, outcomes, _, _ = watched
    read_ones = [text for text, outcome in zip(EXPRESSIONS, outcomes, strict=False) if outcome == "read"]
    assert read_ones == ["x > 0"]


def test_expressions_open_import_and_run_nothing(watched):
    _, _, events, _ = watched
    assert {name for name, _ in events} <= {"compile"}  # Python's parser, which makes a tree
    for _, (source, filename) in events:
        assert filename == "<unknown>", source  # what ast.parse calls its text; code to run has the name of a file


def test_studies_open_their_own_file_and_their_data_only(watched):
    folder, _, _, events = watched
    for name, arguments in events:
        if name != "open":
            continue
        path = arguments[0].strip("'")
        ours = path.startswith(str(folder)) and not path.endswith(("secret.csv", "link.csv"))
        memory = path == "/proc/meminfo" or path.startswith("/sys/fs/cgroup/")  # how much there is of it
        system = memory or path.endswith((".py", ".pyc", ".so", "METADATA"))
        assert ours or system, (name, arguments)
        assert "w" not in arguments[1], arguments
        assert "a" not in arguments[1].strip("'") or arguments[1] == "None", arguments
    seen = {name for name, _ in events}
    assert seen <= {"open", "compile", "import", "exec", "ctypes.dlopen", "marshal.loads", "code.__new__"}, seen
    for name, arguments in events:
        assert name != "import" or arguments[0].split(".")[0] not in FORBIDDEN_MODULES - {"ctypes"}, arguments


def test_hostile_studies_leave_no_trace(watched):
    folder, _, _, _ = watched
    names = {path.name for path in folder.iterdir()}
    assert not {name for name in names if "owned" in name or name.endswith((".db", ".duckdb", ".wal", ".tmp"))}
    assert not Path("/tmp/owned").exists()


# --- what a study may read: promised in docs/reliability --------------------------------------------------------------


def test_a_study_reads_the_files_of_its_user_wherever_they_are(tmp_path):
    """A path may be absolute or lead upwards: a study is the user's own, as a script would be. What is not data is not
    read: neither a file of another kind nor a link that leads to one."""
    (tmp_path / "up.csv").write_text("x\n1\n2\n")
    (tmp_path / "below").mkdir()
    path = tmp_path / "below" / "study.toml"
    path.write_text(
        f'[sources.a]\ndata = "../up.csv"\nbias = 1\n[sources.b]\ndata = "{tmp_path}/up2.csv"\nbias = "x"\n'
    )
    (tmp_path / "up2.csv").write_text("x\n1\n2\n")
    assert read(path).fit().sizes == {"a": 2, "b": 2}
    (tmp_path / "passwd").write_text("x\n1\n")
    (tmp_path / "below" / "link.csv").symlink_to(tmp_path / "passwd")
    for data in ("link.csv", "../passwd"):
        path.write_text(f'[sources.a]\ndata = "{data}"\nbias = 1\n')
        with pytest.raises(vardi.StudyError, match="is not a kind of file that vardi reads"):
            read(path)


FORMULA = "=cmd|' /C calc'!A0"


def test_values_are_written_to_a_csv_as_they_are(tmp_path):
    """A file of weights is data: an id that begins with = is written as it was read, so that it joins back. A program
    that runs such cells when it opens a file is asked for by the user, who knows the ids."""
    ids = {"a": [FORMULA, "@SUM(1)"], "b": ["+1", "-1"]}
    for name, own in ids.items():
        pl.DataFrame({"x": [1.0, 2.0], "id": own}).write_csv(tmp_path / f"{name}.csv")
    (tmp_path / "study.toml").write_text(
        f'[sources."{FORMULA}"]\ndata = "a.csv"\nid = "id"\nbias = 1\n'
        '[sources.b]\ndata = "b.csv"\nid = "id"\nbias = "x"\n'
    )
    assert invoke("fit", tmp_path / "study.toml", "-o", tmp_path / "weights.csv").exit_code == 0
    written = pl.read_csv(tmp_path / "weights.csv", schema_overrides={"id": pl.String})
    assert written["source"].to_list() == [FORMULA, FORMULA, "b", "b"]
    assert written["id"].to_list() == ids["a"] + ids["b"]


# --- reports escape ---------------------------------------------------------------------------------------------------

HOSTILE = [
    "<script>document.title='owned'</script>",
    "</style><script>document.title='owned'</script>",
    "</script><script>document.title='owned'</script>",
    "</title><img src=x onerror=\"document.title='owned'\">",
    '"><svg onload="document.title=\'owned\'">',
    "' onmouseover='document.title=1' x='",
    "javascript:document.title='owned'",
    "{{ 7 * 7 }}{% raw %}",
    "<!-- --><b>bold</b>",
    "&lt;b&gt;",
]


def hostile_report(tmp_path, text):
    rng = np.random.default_rng(0)
    frames = [
        pd.DataFrame({text: rng.gamma(3.0, size=40) + 0.1, "kind": rng.choice([text, "plain"], 40)}) for _ in range(2)
    ]
    tick = "`" + text.replace("`", "``") + "`"
    fit = vardi.debias(dict(zip((text, "b"), frames, strict=True)), {text: 1, "b": f"{tick} > 0"})
    path = fit.report(tmp_path / "a.html", title=text, variables=[text, f"kind == {text!r}"], date=text)
    return fit, path


class Page(html.parser.HTMLParser):
    """What a browser would find: elements, attributes, and the texts of scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.elements, self.attributes, self.texts, self.inside = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attributes]
        self.inside.append(tag)

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if self.inside and self.inside[-1] in ("script", "style"):
            self.texts.append((self.inside[-1], data))


def page_of(text):
    page = Page()
    page.feed(text)
    page.close()
    return page


@pytest.mark.filterwarnings("ignore::vardi.VardiWarning")
@pytest.mark.parametrize("text", HOSTILE)
def test_a_report_has_the_elements_of_a_harmless_one(tmp_path, text):
    fit, path = hostile_report(tmp_path, text)
    (tmp_path / "plain").mkdir()
    _, harmless = hostile_report(tmp_path / "plain", "harmless")
    page, plain = page_of(path.read_text(encoding="utf-8")), page_of(harmless.read_text(encoding="utf-8"))
    assert page.elements.count("script") == plain.elements.count("script")
    assert page.elements.count("style") == plain.elements.count("style")
    assert set(page.elements) == set(plain.elements)
    assert page.texts == plain.texts
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    links = {value for _, name, value in page.attributes if name in ("href", "src")}
    assert links == {value for _, name, value in plain.attributes if name in ("href", "src")}
    assert {link for link in links if not link.startswith("#")} == {"data:,"}  # an icon that no browser then asks for
    short = page_of(fit._repr_html_())
    assert set(short.elements) <= {"div", "table", "tr", "th", "td", "code", "p", "b", "br", "thead", "tbody"}
    assert not [name for _, name, _ in short.attributes if name.startswith("on")]


@pytest.mark.filterwarnings("ignore::vardi.VardiWarning")
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path: apt install chromium")
def test_no_script_of_a_name_runs_in_a_browser(tmp_path):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    paths = []
    for place, text in enumerate(HOSTILE[:6]):
        (tmp_path / str(place)).mkdir()
        paths.append((text, hostile_report(tmp_path / str(place), text)[1]))
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            for text, path in paths:
                page, asked = browser.new_page(), []
                page.on("request", lambda request, asked=asked: asked.append(request.url))
                page.goto(path.as_uri(), wait_until="load")
                assert page.title() == text.strip()
                assert asked == [path.as_uri()]
                page.close()
        finally:
            browser.close()


def test_a_title_of_a_study_cannot_move_the_cursor(tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n2\n")
    (tmp_path / "study.toml").write_text('title = "\\u001b[2J\\u202eevil"\n[sources.a]\ndata = "a.csv"\nbias = 1\n')
    study = read(tmp_path / "study.toml")
    assert study.title == r"\x1b[2J\u202eevil"
    assert tomllib.loads((tmp_path / "study.toml").read_text())["title"] != study.title
