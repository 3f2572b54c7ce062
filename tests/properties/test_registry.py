"""Every public name has property tests, and every property test that is named exists."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

from properties.registry import TESTS

import vardi

TESTS_FOLDER = Path(__file__).parent.parent
CLASSES = (
    "Band",
    "Bias",
    "BiasCheck",
    "Bootstrap",
    "Bounds",
    "DebiasedCdf",
    "DebiasedEstimator",
    "DebiasedResampler",
    "DebiasedSample",
    "Diagnostics",
    "Domains",
    "Estimate",
    "Estimates",
    "GaussianMixture",
    "KnownCheck",
    "LearnedCheck",
    "Sensitivity",
    "Solution",
    "Verdict",
    "Weigher",
    "Windows",
)


def public_names():
    """Return all public functions, classes, methods and properties, each by one name; errors apart."""
    names = set()
    for name in vardi.__all__:
        thing = getattr(vardi, name)
        if not (isinstance(thing, type) and issubclass(thing, Exception)):
            names.add(name)
    for module in ("biases", "datasets", "learn", "mbar", "report", "study"):
        names |= {f"{module}.{name}" for name in import_module(f"vardi.{module}").__all__ if name not in names}
    plots = import_module("vardi.plots")
    names |= {f"plots.{name}" for name in plots.__all__ if isinstance(getattr(plots, name), type)}
    for name in CLASSES:
        names |= {f"{name}.{own}" for own in dir(getattr(vardi, name)) if own[0] != "_"}
    return names


def test_every_public_name_has_property_tests():
    assert public_names() - set(TESTS) == set(), "public, and without property tests in properties/registry.py"
    assert set(TESTS) - public_names() == set(), "in properties/registry.py, and no public name"
    assert all(TESTS.values())


def test_every_class_with_methods_is_looked_into():
    """A new public class with methods is to stand in CLASSES."""
    kinds = {name for name in vardi.__all__ if isinstance(getattr(vardi, name), type)}
    with_methods = {
        name
        for name in kinds
        if not issubclass(getattr(vardi, name), Exception) and any(own[0] != "_" for own in dir(getattr(vardi, name)))
    }
    assert with_methods == set(CLASSES)


def test_every_property_test_that_is_named_exists():
    named = {test for tests in TESTS.values() for test in tests}
    for file in {test.split("::")[0] for test in named}:
        tree = ast.parse((TESTS_FOLDER / file).read_text(encoding="utf-8"))
        there = {f"{file}::{node.name}" for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert {test for test in named if test.startswith(f"{file}::")} - there == set()


def test_every_property_test_of_this_folder_uses_hypothesis_or_lists_of_cases():
    """A file of properties without a single @given is none."""
    for path in Path(__file__).parent.glob("test_*_properties.py"):
        assert "@given(" in path.read_text(encoding="utf-8"), path.name
