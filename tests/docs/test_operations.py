"""docs/operations, docs/manager and docs/scheduler say what the programs say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from koord_hooks.runner import HookResult
from koord_hooks.stages import Stage
from koord_host.knobs.table import KNOBS
from koord_host.planning.desired_values import Target
from koord_host.planning.jobs import InlineJobs, Job, JobKey
from koord_host.planning.outcomes import Outcome, Result, Round
from koord_kube.core.evictions import EvictionResult
from koord_kube.reconcile_loop import ReconcileLoop
from koord_manager.node_backstop.controller import BackstopFigures
from koord_manager.node_metric.metrics import NodeMetricMetrics
from koord_manager.program.metrics import ManagerMetrics, ManagerStatus
from koord_model.patch import Conflict, Patch
from koord_proxy.metrics import Gauges, Metrics
from koord_service.program_metrics import program_metrics
from koord_serving.admission.metrics import AdmissionOutcome, WebhookMetrics
from koordlet.agent.resource_plugins import ResourcePluginMetrics
from koordlet.http_api.prometheus import SampleMetrics
from koordlet.http_api.strategy_metrics import StrategyMetrics
from koordlet.qos_manager.eviction.metrics import EvictionCounts, EvictionMetrics
from koordlet.resource_plugins.allocation_store import AllocationStore
from koordlet.resource_plugins.plugins import ResourcePlugins
from koordlet.runtime_hooks.hook_metrics import (
    HookMetrics,
    JobMetrics,
    NriMetrics,
    ReconcileMetrics,
)
from koordlet.runtime_hooks.nri.client import NriClient
from koordlet.runtime_hooks.nri.protocol.handler import NriHandler
from koordlet.runtime_hooks.reconciler.reconciler import ReconcileResult
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.docs.words import (
    all_rows,
    between,
    code,
    constants,
    marked,
    metric_rows,
    page,
    rows,
    sources,
    texts,
)
from tests.support.decided import busy_decisions
from tests.support.descheduler_metrics import full_descheduler_registry
from tests.support.observed import full_node
from tests.support.scheduler_metrics import full_registry
from tools import flag_tables

HOOK_SERVERS, KOORDLET = page("operations/hook-servers.md"), page("operations/koordlet.md")
MONITORING, LOGS = page("operations/monitoring.md"), page("operations/logs.md")
MANAGER, SCHEDULER = page("manager/monitoring.md"), page("scheduler/monitoring.md")
DESCHEDULER = page("descheduler/monitoring.md")

Served = Callable[[], Iterator[tuple[str, str, set[str]]]]


def test_files_that_the_kubelet_writes_are_those_of_the_knob_table() -> None:
    named = code(between(KOORDLET, "<!-- kubelet -->", "<!-- end -->"))
    assert named == [knob.name for knob in KNOBS.values() if knob.kubelet]


def test_flags_are_those_of_the_programs() -> None:
    pages = [path.read_text() for path in flag_tables.PAGES]
    for text in pages:
        assert flag_tables.with_tables(text) == text, "run: python tools/flag_tables.py"
    for program in flag_tables.PROGRAMS:
        tables = [marked(text, f"flags: {program}") for text in pages]
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
    plugins = ResourcePlugins("/none")
    plugins.calls["cpu", "Allocate", "answered"] = 1
    koordlet.registry.register(ResourcePluginMetrics(plugins, AllocationStore("/none")))
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
    yield from _families_of(program_metrics("koordlet"))


async def _never(_key: str) -> None:
    raise AssertionError


def _served_by_the_manager() -> Iterator[tuple[str, str, set[str]]]:
    """The same of a manager."""
    registry = CollectorRegistry()
    queues = (("noderesource", ReconcileLoop("noderesource", _never)),)
    backstop = BackstopFigures(1, is_stopped=False, evictions={"evicted": 1})
    resizes = {"resizes": {"undo": 1}, "resize_states": {"wait": 1}}
    status = ManagerStatus(True, 0, queues=queues, backstop=backstop, **resizes)
    ManagerMetrics(registry, lambda: status)
    webhooks = WebhookMetrics(registry)
    webhooks.requests.labels("/mutate-pod", "CREATE", AdmissionOutcome.CHANGED).inc()
    webhooks.seconds.labels("/mutate-pod").observe(0.001)
    NodeMetricMetrics(registry).answered(None)
    yield from _families(registry)


def _served_by_the_scheduler() -> Iterator[tuple[str, str, set[str]]]:
    """The same of a scheduler."""
    yield from _families(full_registry())


def _served_by_the_descheduler() -> Iterator[tuple[str, str, set[str]]]:
    """The same of a descheduler."""
    yield from _families(full_descheduler_registry())


def _families(registry: CollectorRegistry) -> Iterator[tuple[str, str, set[str]]]:
    yield from _families_of(generate_latest(registry).decode())


def _families_of(page: str) -> Iterator[tuple[str, str, set[str]]]:
    for family in text_string_to_metric_families(page):
        # When a counter began is a series of its own in this format.
        if not family.name.endswith("_created"):
            labels = {name for sample in family.samples for name in sample.labels}
            yield family.name, family.type, labels - {"le"}


@pytest.mark.parametrize(
    ("text", "served"),
    [
        (MONITORING, _served),
        (MANAGER, _served_by_the_manager),
        (SCHEDULER, _served_by_the_scheduler),
        (DESCHEDULER, _served_by_the_descheduler),
    ],
    ids=["node", "manager", "scheduler", "descheduler"],
)
def test_metrics_are_those_served(text: str, served: Served) -> None:
    assert sorted(metric_rows(text), key=str) == sorted(served(), key=str)


def _counted(module: str, counter: int) -> set[str]:
    """What a module of the proxy counts: outcomes by ``_count``, errors and decisions."""
    path = sources(f"proxy/koord_proxy/{module}.py")
    named = texts(path, lambda name: name.endswith(("HookError", "Decision")))
    return named | texts(path, lambda name: name == "self._count", counter)


def test_outcomes_are_those_counted() -> None:
    contract = rows(between(HOOK_SERVERS, "## The failure contract", "- **Unreachable**"))
    written = {name for row in contract for name in code(row[1])}
    assert written == _counted("dispatcher", 2) | _counted("hook_targets", 2)


def test_results_are_those_counted() -> None:
    written = rows(between(MONITORING, "Results of intercepted calls:", "## Metrics of koordlet"))
    counted = _counted("interceptor", 1) | {"missed", "hooked"}
    assert {name for row in written for name in code(row[0])} == counted


PROGRAM_END = "service/koord_service/program_end.py"


def _is_log(name: str) -> bool:
    log, _, method = name.rpartition(".")
    return method == "say" or (log.endswith("log") and method in ("info", "warning", "error"))


@pytest.mark.parametrize(
    ("places", "text", "heading"),
    [
        (("proxy", PROGRAM_END), LOGS, "## Lines of the proxy"),
        (("koordlet", PROGRAM_END), LOGS, "## Lines of koordlet"),
        (
            (
                "manager",
                "serving",
                "kube/koord_kube/program.py",
                PROGRAM_END,
            ),
            MANAGER,
            "### Lines of the manager",
        ),
        (
            (
                "scheduler",
                "kube/koord_kube/program.py",
                PROGRAM_END,
            ),
            SCHEDULER,
            "### Lines of the scheduler",
        ),
    ],
    ids=["proxy", "koordlet", "manager", "scheduler"],
)
def test_log_lines_are_those_written(places: tuple[str, ...], text: str, heading: str) -> None:
    table = all_rows(between(text, heading, f"\n{heading.split()[0]} "))
    written = {name for row in table for name in code(row[0])} - {"NAME.json: …"}
    logged = texts(sources(*places), _is_log, names={"self.name": heading.split()[-1]})
    missing = logged - written
    assert not missing, f"say in the docs what these mean: {missing}"
    gone = written - logged - constants(sources(*places, "service"))
    assert not gone, f"the docs have lines that nobody writes: {gone}"


def test_stages_are_those_there_are() -> None:
    assert code(between(HOOK_SERVERS, "Stages: ", "\n\n")) == list(Stage)
