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
    """Keep the tests of a file in one process, and those that share a Spark cluster, which come first.

    A process that has grown cannot always start Spark; and while one process waits for it, the others go on.
    """
    items.sort(key=lambda item: not _needs_spark(item))
    for item in items:
        item.add_marker(pytest.mark.xdist_group("spark" if _needs_spark(item) else str(item.path)))


def _needs_spark(item):
    return item.path.parent.name == "engines" and "spark" in item.nodeid
