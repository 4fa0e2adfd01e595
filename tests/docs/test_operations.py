"""docs/operations.md says what the programs say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from koord_hooks.runner import Outcome
from koord_hooks.stages import Stage
from koord_host.outcomes import Outcome as Wrote
from koord_host.outcomes import Result, Round
from koord_host.wishes import Target
from koord_model.patch import Conflict, Patch
from koord_proxy.metrics import Gauges, Metrics
from koord_service.status import metrics_page
from koordlet.evicting.metrics import EvictionCounts, EvictionMetrics
from koordlet.evicting.ways import End
from koordlet.metrics import HookMetrics, NodeMetrics, NriMetrics
from koordlet.nri.client import Client
from koordlet.nri.handler import Handler
from koordlet.pages.prometheus import ObservedMetrics
from koordlet.pages.strategy_metrics import StrategyMetrics
from koordlet.reconciler import Done
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from tests.support.decided import busy_decisions
from tests.support.observed import full_node
from tools import flag_tables

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text()


def rows(text: str) -> list[list[str]]:
    """The cells of a table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def between(start: str, end: str) -> str:
    return PAGE.partition(start)[2].partition(end)[0]


def source(*paths: str) -> str:
    return "\n".join((ROOT / path).read_text() for path in paths)


def test_flags_are_those_of_the_programs() -> None:
    assert flag_tables.with_tables(PAGE) == PAGE, "run: python tools/flag_tables.py"
    for program in flag_tables.PROGRAMS:
        assert between(f"<!-- flags: {program} -->", "<!-- end -->").count("\n") > 5


def _served() -> Iterator[tuple[str, str, set[str]]]:
    """Name, type and labels of what both programs serve once all has happened once."""
    proxy = Metrics()
    proxy.gauges = Gauges(records=lambda: {"pod": 1}, breakers=lambda: {"koordlet": 0})
    proxy.tally("/runtime.v1.RuntimeService/Version").calls += 1
    proxy.hook_seconds.labels("koordlet", "PreCreateContainer").observe(0.1)
    proxy.hook_outcomes.labels("koordlet", "PreCreateContainer", "applied").inc()
    proxy.intercepted.labels("CreateContainer", "hooked").inc()
    koordlet = HookMetrics()
    conflict = Conflict("cpu_shares", (("a", 1), ("b", 2)))
    outcome = Outcome(Patch(), ("batchresource",), (conflict,), (("broken", ValueError("x")),))
    koordlet.count(Stage.PRE_CREATE_CONTAINER, outcome, 0.1)
    result = Result(Target("kubepods", "cpu.shares"), Wrote.WRITTEN)
    NodeMetrics(koordlet.registry).count(Done(Round((result,))))
    NriMetrics(koordlet.registry, Client(Handler()))
    observed = full_node().observed()
    koordlet.registry.register(ObservedMetrics(observed))
    koordlet.registry.register(StrategyMetrics(observed, busy_decisions().decided()))
    counts = EvictionCounts(Counter(written=1))
    counts.ended(End.EVICTED, "MemoryEvict", "batch", "job-1")
    koordlet.registry.register(EvictionMetrics(observed.node, counts, lambda: 0))
    ignored = Outcome(Patch(ignored=("pod a/b: label x",)))
    koordlet.count(Stage.PRE_CREATE_CONTAINER, ignored, 0.1)
    for registry in (proxy.registry, koordlet.registry):
        yield from _families(registry)


def _families(registry: CollectorRegistry) -> Iterator[tuple[str, str, set[str]]]:
    page = metrics_page(registry).body.decode()
    for family in text_string_to_metric_families(page):
        # When a counter began is a series of its own in this format.
        if not family.name.endswith("_created"):
            labels = {name for sample in family.samples for name in sample.labels}
            yield family.name, family.type, labels - {"le"}


def test_metrics_are_those_served() -> None:
    written = [
        (name.strip("`"), kind, {one.strip("` ") for one in labels.split(",")} - {"–"})
        for name, kind, labels, _ in rows(between("<!-- metrics -->", "<!-- end -->"))
    ]
    assert sorted(written, key=str) == sorted(_served(), key=str)


def test_outcomes_are_those_counted() -> None:
    code = source("proxy/koord_proxy/dispatch.py", "proxy/koord_proxy/hook_targets.py")
    counted = set(re.findall(r'HookError\(\s*"(\w+)"', code))
    counted |= set(re.findall(r'_count\(target, stage, "(\w+)"', code))
    counted |= {"applied", "unchanged"}
    contract = rows(between("## The failure contract", "- **Deadline**"))
    written = {name for row in contract for name in re.findall(r"`(\w+)`", row[1])}
    assert written == counted


def test_results_are_those_counted() -> None:
    code = source("proxy/koord_proxy/intercept.py")
    counted = set(re.findall(r'_count\(\S+, "(\w+)"\)', code))
    counted |= set(re.findall(r'Decision\(\s*"(\w+)"', code)) | {"missed", "hooked"}
    written = {row[0].strip("`") for row in rows(between("the rest as `other`.", "Worth an alert"))}
    assert written == counted


def _log_lines(component: str) -> set[str]:
    code = source(*(str(path) for path in (ROOT / component).rglob("*.py")))
    return set(re.findall(r'\b(?:_?log\.(?:info|warning|error)|say)\(\s*"([^"]+)"', code))


@pytest.mark.parametrize(
    ("component", "heading"),
    [("proxy", "Lines of the proxy:"), ("koordlet", "Lines of koordlet:")],
)
def test_log_lines_are_those_written(component: str, heading: str) -> None:
    lines = rows(PAGE.partition(heading)[2].partition("\n\n")[2].partition("\n\n")[0])
    written = {name for row in lines for name in re.findall(r"`([^`]+)`", row[0])}
    written.discard("NAME.json: …")
    missing = _log_lines(component) - written
    assert not missing, f"say in docs/operations.md what these mean: {missing}"
    code = source(*(str(path) for path in (ROOT / component).rglob("*.py")))
    gone = {line for line in written if f'"{line}"' not in code}
    assert not gone, f"docs/operations.md has lines that nobody writes: {gone}"


def test_stages_are_those_there_are() -> None:
    text = between("Stages: ", "\n\n")
    assert re.findall(r"`(\w+)`", text) == list(Stage)
