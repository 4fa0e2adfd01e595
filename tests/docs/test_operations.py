"""docs/operations.md and docs/manager.md say what the programs say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from koord_hooks.runner import HookResult
from koord_hooks.stages import Stage
from koord_host.planning.desired_values import Target
from koord_host.planning.jobs import InlineJobs, Job, JobKey
from koord_host.planning.outcomes import Outcome, Result, Round
from koord_kube.reconcile_loop import ReconcileLoop
from koord_manager.node_metric.metrics import NodeMetricMetrics
from koord_manager.program.metrics import ManagerMetrics, ManagerStatus
from koord_model.patch import Conflict, Patch
from koord_proxy.metrics import Gauges, Metrics
from koord_service.status import metrics_page
from koord_serving.admission.metrics import AdmissionOutcome, WebhookMetrics
from koordlet.http_api.hook_metrics import HookMetrics, JobMetrics, NriMetrics, ReconcileMetrics
from koordlet.http_api.prometheus import SampleMetrics
from koordlet.http_api.strategy_metrics import StrategyMetrics
from koordlet.qos_manager.eviction.metrics import EvictionCounts, EvictionMetrics
from koordlet.qos_manager.eviction.policy.backend import EvictionResult
from koordlet.runtime_hooks.nri.client import NriClient
from koordlet.runtime_hooks.nri.protocol.handler import NriHandler
from koordlet.runtime_hooks.reconciler.reconciler import ReconcileResult
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from tests.support.decided import busy_decisions
from tests.support.observed import full_node
from tools import flag_tables

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text()
MANAGER = (ROOT / "docs" / "manager.md").read_text()


Served = Callable[[], Iterator[tuple[str, str, set[str]]]]


def rows(text: str) -> list[list[str]]:
    """The cells of a table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def between(start: str, end: str, page: str = PAGE) -> str:
    return page.partition(start)[2].partition(end)[0]


def source(*paths: str) -> str:
    return "\n".join((ROOT / path).read_text() for path in paths)


def test_flags_are_those_of_the_programs() -> None:
    pages = [page.read_text() for page in flag_tables.PAGES]
    for page in pages:
        assert flag_tables.with_tables(page) == page, "run: python tools/flag_tables.py"
    for program in flag_tables.PROGRAMS:
        tables = [between(f"<!-- flags: {program} -->", "<!-- end -->", page) for page in pages]
        assert [table.count("\n") > 5 for table in tables if table] == [True]


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
    outcome = HookResult(Patch(), ("batchresource",), (conflict,), (("broken", ValueError("x")),))
    koordlet.count(Stage.PRE_CREATE_CONTAINER, outcome, 0.1)
    result = Result(Target("kubepods", "cpu.shares"), Outcome.WRITTEN)
    ReconcileMetrics(koordlet.registry).count(ReconcileResult(Round((result,))))
    jobs = InlineJobs(lambda: 0.0)
    for _ in range(2):
        jobs.submit(Job(JobKey("traffic"), 1.0, lambda _: None))
    jobs._queue.put(Job(JobKey("traffic"), 1.0, lambda _: None))
    JobMetrics(koordlet.registry, jobs)
    NriMetrics(koordlet.registry, NriClient(NriHandler()))
    observed = full_node().observed()
    koordlet.registry.register(SampleMetrics(observed))
    koordlet.registry.register(StrategyMetrics(observed, busy_decisions().decided()))
    counts = EvictionCounts(Counter(written=1))
    counts.ended(EvictionResult.EVICTED, "MemoryEvict", "batch", "job-1")
    koordlet.registry.register(EvictionMetrics(observed.node, counts, lambda: 0))
    ignored = HookResult(Patch(ignored=("pod a/b: label x",)))
    koordlet.count(Stage.PRE_CREATE_CONTAINER, ignored, 0.1)
    for registry in (proxy.registry, koordlet.registry):
        yield from _families(registry)


async def _never(_key: str) -> None:
    raise AssertionError


def _served_by_the_manager() -> Iterator[tuple[str, str, set[str]]]:
    """The same of a manager."""
    registry = CollectorRegistry()
    queues = (("noderesource", ReconcileLoop("noderesource", _never)),)
    ManagerMetrics(registry, lambda: ManagerStatus(leads=True, problems=0, queues=queues))
    webhooks = WebhookMetrics(registry)
    webhooks.requests.labels("/mutate-pod", "CREATE", AdmissionOutcome.CHANGED).inc()
    webhooks.seconds.labels("/mutate-pod").observe(0.001)
    NodeMetricMetrics(registry).answered(None)
    yield from _families(registry)


def _families(registry: CollectorRegistry) -> Iterator[tuple[str, str, set[str]]]:
    page = metrics_page(registry).body.decode()
    for family in text_string_to_metric_families(page):
        # When a counter began is a series of its own in this format.
        if not family.name.endswith("_created"):
            labels = {name for sample in family.samples for name in sample.labels}
            yield family.name, family.type, labels - {"le"}


@pytest.mark.parametrize(
    ("page", "served"),
    [(PAGE, _served), (MANAGER, _served_by_the_manager)],
    ids=["node", "manager"],
)
def test_metrics_are_those_served(page: str, served: Served) -> None:
    written = [
        (name.strip("`"), kind, {one.strip("` ") for one in labels.split(",")} - {"–"})
        for name, kind, labels, _ in rows(between("<!-- metrics -->", "<!-- end -->", page))
    ]
    assert sorted(written, key=str) == sorted(served(), key=str)


def test_outcomes_are_those_counted() -> None:
    code = source("proxy/koord_proxy/dispatcher.py", "proxy/koord_proxy/hook_targets.py")
    counted = set(re.findall(r'HookError\(\s*"(\w+)"', code))
    counted |= set(re.findall(r'_count\(target, stage, "(\w+)"', code))
    counted |= {"applied", "unchanged"}
    contract = rows(between("## The failure contract", "- **Deadline**"))
    written = {name for row in contract for name in re.findall(r"`(\w+)`", row[1])}
    assert written == counted


def test_results_are_those_counted() -> None:
    code = source("proxy/koord_proxy/interceptor.py")
    counted = set(re.findall(r'_count\(\S+, "(\w+)"\)', code))
    counted |= set(re.findall(r'Decision\(\s*"(\w+)"', code)) | {"missed", "hooked"}
    written = {row[0].strip("`") for row in rows(between("the rest as `other`.", "Worth an alert"))}
    assert written == counted


def _code(components: tuple[str, ...]) -> str:
    code = source(*(str(path) for one in components for path in (ROOT / one).rglob("*.py")))
    if "manager" in components:
        frame = source("kube/koord_kube/program.py")
        code += frame.replace('f"', '"').replace("{self.name}", "manager")
    return code


def _log_lines(code: str) -> set[str]:
    return set(re.findall(r'\b(?:_?log\.(?:info|warning|error)|say)\(\s*"([^"]+)"', code))


@pytest.mark.parametrize(
    ("components", "page", "heading"),
    [
        (("proxy",), PAGE, "Lines of the proxy:"),
        (("koordlet",), PAGE, "Lines of koordlet:"),
        (("manager", "serving"), MANAGER, "Lines of the manager:"),
    ],
    ids=["proxy", "koordlet", "manager"],
)
def test_log_lines_are_those_written(components: tuple[str, ...], page: str, heading: str) -> None:
    lines = rows(page.partition(heading)[2].partition("\n\n")[2].partition("\n\n")[0])
    written = {name for row in lines for name in re.findall(r"`([^`]+)`", row[0])}
    written.discard("NAME.json: …")
    code = _code(components)
    missing = _log_lines(code) - written
    assert not missing, f"say in the docs what these mean: {missing}"
    shared = code + _code(("service",))
    gone = {line for line in written if f'"{line}"' not in shared}
    assert not gone, f"the docs have lines that nobody writes: {gone}"


def test_stages_are_those_there_are() -> None:
    text = between("Stages: ", "\n\n")
    assert re.findall(r"`(\w+)`", text) == list(Stage)
