"""What every test may ask for, and which of them are of the whole."""

import gc
from collections.abc import Generator
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from koord_service.log_limits import flush_limiters

from tests.support import databases, kube_apiserver
from tests.support.processes import let_programs_hear_interrupts

# One component's extra and ``test`` do not have these, and its tests need no runtime.
if find_spec("docker") and find_spec("koord_demo"):
    from tests.support.containerd import containerd
    from tests.support.dockerd import dockerd

    __all__ = ["containerd", "dockerd"]

# Nothing is judged by how long it takes: what else the machine does is nobody's to say.
hypothesis_settings.register_profile(
    "searching", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=300
)
# The same few examples each time: a change is not judged by luck. Many, and fresh ones, are for
# ``make fuzz``; so a test says how many it has only where an example is dear.
hypothesis_settings.register_profile(
    "repeating",
    hypothesis_settings.get_profile("searching"),
    derandomize=True,
    max_examples=20,
)
hypothesis_settings.load_profile("repeating")

# Reports and what tests keep by the thousand are passed over seldom: little of it is ever garbage.
gc.set_threshold(20_000, 20, 50)
let_programs_hear_interrupts()
databases.record_connections()

_INTEGRATION = "tests/integration/"
_REAL_APISERVER = "tests/apiserver/"
_WITH_SOME_OF_THE_WHOLE = (
    *(_REAL_APISERVER, _INTEGRATION),
    *("tests/demo/", "tests/release/", "tests/support_selftest/", "tests/vm/"),
)
"""Folders that the Makefile's WHOLE has: to read all tests takes each of its workers a while."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(_INTEGRATION):
            item.add_marker("integration")
        elif item.get_closest_marker("quiet"):
            raise pytest.UsageError(
                f"{item.nodeid}: what measures the machine belongs in {_INTEGRATION}"
            )
        elif not item.nodeid.startswith(_WITH_SOME_OF_THE_WHOLE) and _is_of_the_whole(item):
            raise pytest.UsageError(f"{item.nodeid}: the Makefile's WHOLE has not this folder")


def _is_of_the_whole(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("integration", "containerd"))


def pytest_collection_finish() -> None:
    """Have the collector leave modules and tests out: with them it took a sixth of all time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None]:
    yield
    flush_limiters()  # what is left would be in the output of the next test's program
    assert not databases.take_unclosed(), "this test did not close a database"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line which API server was asked, instead of one for each test without it."""
    stats = terminalreporter.stats
    real = [one for one in stats.get("passed", []) if one.nodeid.startswith(_REAL_APISERVER)]
    skipped = [one for one in stats.get("skipped", []) if one.nodeid.startswith(_REAL_APISERVER)]
    if real:
        terminalreporter.write_line(f"API server: a real one in {len(real)} tests, and the double")
    elif skipped:
        stats["skipped"] = [one for one in stats["skipped"] if one not in skipped]
        line = f"API server: the double alone; {len(skipped)} tests of a real one skipped"
        terminalreporter.write_line(f"{line} ({kube_apiserver.why_not()})")
