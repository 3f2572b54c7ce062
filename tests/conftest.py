"""What every test file may import: tests/oracle.py, with its assertions explained when they fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("oracle")

settings.register_profile(
    "vardi", max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("vardi")


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items):
    """Keep the tests of a file in one process, and those of all engines, which share a Spark cluster."""
    for item in items:
        group = "engines" if item.path.parent.name == "engines" else item.path.name
        item.add_marker(pytest.mark.xdist_group(group))
