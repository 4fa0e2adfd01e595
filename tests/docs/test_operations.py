"""docs/operations, docs/manager and docs/scheduler say what the programs say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from koord_hooks.stages import Stage
from koord_host.knobs.table import KNOBS
from koord_service.program_metrics import program_metrics
from koord_service.span_exporter import SpanMetrics, SpanQueue
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
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
from tests.support.metrics_pages import metrics_pages
from tools import flag_tables

HOOK_SERVERS, KOORDLET = page("operations/hook-servers.md"), page("operations/koordlet.md")
MONITORING, LOGS = page("operations/monitoring.md"), page("operations/logs.md")
MANAGER, SCHEDULER = page("manager/monitoring.md"), page("scheduler/monitoring.md")
DESCHEDULER, TRACING = page("descheduler/monitoring.md"), page("operations/tracing.md")


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


@pytest.fixture(scope="module")
def served() -> Mapping[str, str]:
    """The metrics page of each program, and what each adds while it traces."""
    queue, registry = SpanQueue(InMemorySpanExporter()), CollectorRegistry()
    registry.register(SpanMetrics(queue))
    return {**metrics_pages(), "tracing": generate_latest(registry).decode()}


def _families(page: str) -> Iterator[tuple[str, str, set[str]]]:
    """Name, type and labels of each metric of a page."""
    for family in text_string_to_metric_families(page):
        # When a counter began is a series of its own in this format.
        if not family.name.endswith("_created"):
            labels = {name for sample in family.samples for name in sample.labels}
            yield family.name, family.type, labels - {"le"}


@pytest.mark.parametrize(
    ("text", "programs"),
    [
        (MONITORING, ("koord-runtime-proxy", "koordlet")),
        (MANAGER, ("koord-manager",)),
        (SCHEDULER, ("koord-scheduler",)),
        (DESCHEDULER, ("koord-descheduler",)),
        (TRACING, ("tracing",)),
    ],
    ids=["node", "manager", "scheduler", "descheduler", "tracing"],
)
def test_metrics_are_those_served(
    text: str, programs: tuple[str, ...], served: Mapping[str, str]
) -> None:
    pages = [served[program] for program in programs]
    if text is MONITORING:
        pages.append(program_metrics("koordlet"))
    found = [family for page in pages for family in _families(page)]
    assert sorted(metric_rows(text), key=str) == sorted(found, key=str)


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
