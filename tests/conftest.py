"""What every test file may import, with assertions of the oracle explained when they fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
sys.path[:0] = [str(TESTS), str(TESTS / "questions"), str(TESTS / "engines")]
pytest.register_assert_rewrite("oracle")

settings.register_profile(
    "vardi", max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("vardi")


def pytest_collection_modifyitems(items):
    """Mark the tests of slow engines, and begin with those of Spark: a process that has grown cannot start it."""
    items.sort(key=lambda item: not _needs_spark(item.nodeid))
    for item in items:
        in_engine = item.nodeid.startswith("tests/engines/")
        if _needs_spark(item.nodeid) or (in_engine and ("ibis" in item.nodeid or "dask" in item.nodeid)):
            item.add_marker(pytest.mark.spark)


@pytest.hookimpl(optionalhook=True)  # there with pytest-xdist
def pytest_xdist_make_scheduler(config, log):
    """Keep the tests of a file in one process, and those that share a Spark cluster; the others go on meanwhile."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return "spark" if _needs_spark(nodeid) else nodeid.partition("::")[0]

    return ByFile(config, log)


def _needs_spark(nodeid):
    return nodeid.startswith("tests/engines/") and "spark" in nodeid
