"""``import vardi`` brings in the core and nothing else, however much is installed beside it."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import vardi

CORE = {"numpy", "scipy", "narwhals", "joblib", "threadpoolctl", "cloudpickle", "cython_runtime", "vardi"}
CORE |= {"charset_normalizer", "psutil"}  # numpy.f2py and joblib load these where they are installed


#: What a first fit of numbers has no use for: each takes as long to load as all modules of the fit, or longer.
UNUSED = {"narwhals", "joblib", "sklearn", "pandas", "scipy.special", "scipy.stats", "scipy.sparse.csgraph"}
#: Our own modules that answer rarer questions, or hold rarer rows.
RARE = {
    "_fit.truncation",
    "_fit.learned",
    "_fit.parameters",
    "_fit.rows_in_engine",
    "_fit.assisted",
    "_fit.weigher",
    "_fit.saved",
    "_fit.sql",
    "report",
}
RARE |= {"_estimate.sensitivity.question", "_estimate.bootstrap", "_estimate.bias_test", "_estimate.domains"}
RARE |= {"_estimate.likelihood_ratio", "_rows.queries", "_inputs.engines", "_facts"}

STATEMENTS = (
    "import vardi",
    "import numpy as np, vardi; vardi.debias([np.ones(3), np.ones(4)], [1, 'x'])",
    "vardi.plots",
    "vardi.learn",
)


@pytest.fixture(scope="module")
def imported():
    """Return what is loaded after each of the statements, which run in this order in a process of their own."""
    look = "print(*sorted({name.split('.')[0] for name in sys.modules.keys() - before}))"
    start = "import sys; before = set(sys.modules)"  # with what a system loads into every Python, as sitecustomize
    code = "\n".join([start, *(f"{statement}\n{look}" for statement in STATEMENTS)])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    known = set(sys.stdlib_module_names) | {"__main__", "__mp_main__"}
    return [
        {name for name in line.split() if name not in known and not name.startswith("_")}
        for line in done.stdout.splitlines()
    ]


def test_import_brings_in_the_core_only(imported):
    assert imported[0] <= CORE


def test_a_fit_of_arrays_needs_no_more(imported):
    assert imported[1] <= CORE


@pytest.mark.parametrize(
    "fit",
    [
        "",
        "vardi.debias([np.ones(3), np.ones(4)], [1, 'x'])",
        "vardi.debias_matrix(np.random.default_rng(0).random((300, 2)) + 0.1, np.repeat([0, 1], 150))",
    ],
    ids=["import", "arrays", "matrix"],
)
def test_neither_import_nor_a_first_fit_loads_what_it_does_not_use(fit):
    code = f"import sys, numpy as np, vardi; from vardi import debias; {fit}"
    unused = UNUSED | {f"vardi.{name}" for name in RARE}
    look = f"print(*({unused!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{look}"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_rare_modules_exist():
    for name in RARE:
        importlib.import_module(f"vardi.{name}")


def test_importing_and_asking_for_help_load_no_numbers():
    code = "import sys, vardi; sys.argv = ['vardi', '--help']; from vardi.cli import main; code = main()"
    look = "assert code == 0; print(*({'numpy', 'vardi._solve'} & sys.modules.keys()), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", f"{code}; {look}"], capture_output=True, text=True, check=True)
    assert "debias" in done.stdout
    assert done.stderr.split() == []


def test_names_are_loaded_once_and_listed():
    assert vardi.debias is vardi.__dict__["debias"]
    assert {"debias", "DebiasedEstimator", "__version__"} <= set(dir(vardi))


def test_learning_and_drawing_load_when_asked_for(imported):
    assert "matplotlib" not in imported[2]
    assert "sklearn" in imported[3]


def test_public_names_are_there():
    for name in vardi.__all__:
        assert getattr(vardi, name) is not None
    assert vardi.__version__.count(".") == 2


def test_the_stub_has_the_same_names_from_the_same_modules():
    stub = ast.parse(Path(vardi.__file__).with_suffix(".pyi").read_text())
    imports = [
        (node.module, alias.name) for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    assert sorted(name for _, name in imports) == vardi.__all__
    for module, name in imports:
        assert getattr(importlib.import_module(module), name) is getattr(vardi, name)


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(vardi, "nonsense")
