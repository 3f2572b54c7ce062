"""``import vardi`` brings in the core and nothing else, however much is installed beside it."""

import subprocess
import sys

import vardi

CORE = {"numpy", "scipy", "narwhals", "joblib", "threadpoolctl", "cloudpickle", "cython_runtime", "vardi"}
CORE |= {"charset_normalizer", "psutil"}  # numpy.f2py and joblib load these where they are installed


def imported(statement):
    code = f"import sys; {statement}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    known = set(sys.stdlib_module_names) | {"__main__", "__mp_main__"}
    return {name for name in done.stdout.split() if name not in known and not name.startswith("_")}


def test_import_brings_in_the_core_only():
    assert imported("import vardi") <= CORE


def test_a_fit_of_arrays_needs_no_more():
    statement = "import numpy as np, vardi; vardi.debias([np.ones(3), np.ones(4)], [1, 'x'])"
    assert imported(statement) <= CORE


def test_learning_and_drawing_load_when_asked_for():
    assert "sklearn" in imported("import vardi; vardi.learn")
    assert "matplotlib" not in imported("import vardi; vardi.plots")


def test_public_names_are_there():
    for name in vardi.__all__:
        assert getattr(vardi, name) is not None
    assert vardi.__version__.count(".") == 2


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(vardi, "nonsense")
