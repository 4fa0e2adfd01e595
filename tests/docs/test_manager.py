"""docs/manager says what the manager does: gates, webhooks, keys, Events, the worked example."""

from __future__ import annotations

import json

import pytest
import yaml
from koord_manager.noderesource.core.calculation_names import CALCULATIONS
from koord_manager.noderesource.core.fleet import Fleet
from koord_manager.noderesource.core.node_state import read_node_state
from koord_manager.noderesource.core.pods import read_pod_summary
from koord_manager.noderesource.core.why import why_document
from koord_manager.program.config import CONTROLLERS
from koord_manager.program.gates import DEFAULTS
from koord_manager.resize.core.sources import read_recommendation
from koord_manager.slo_config.core.colocation import ColocationStrategy
from koord_manager.slo_config.core.config import KEYS, NODE_BACKSTOP, read_key, unknown_in
from koord_manager.webhooks.table import TABLE
from koord_model.keys import ANNOTATION_BATCH_WHY
from koord_serving.admission.metrics import AdmissionOutcome
from koordctl.koordlet_documents import WhyDocument
from koordctl.output.tables import plain
from koordctl.proxy_documents import read

from koordctl import why_node
from tests.docs.words import between, block, code, marked, pages, rows, sources, texts

PAGE = pages("manager")
MANAGER = sources("manager")
GIB = 1 << 30


def test_gates_are_those_there_are() -> None:
    written = {name.strip("`"): on == "on" for name, on, _ in rows(marked(PAGE, "gates"))}
    assert written == DEFAULTS


def test_webhooks_are_those_of_the_table() -> None:
    written = [
        (*(cell.strip("`") for cell in (name, path, gate)), policy.split()[0].strip("`,"))
        for name, path, _, gate, policy, _ in rows(marked(PAGE, "webhooks"))
    ]
    # Of pods it is a setting.
    policies = {"pods": ("--webhook-configuration-failure-policy-pods", "the")}
    assert [one[:3] for one in written] == [(row.name, row.path, row.gate) for row in TABLE]
    for (*_, policy), row in zip(written, TABLE, strict=True):
        assert policy in policies.get(row.resource, ("Fail" if row.fails else "Ignore",))


def test_keys_are_those_of_the_config_map() -> None:
    assert {row[0].strip("`") for row in rows(marked(PAGE, "keys"))} == KEYS


def test_the_example_of_the_config_map_is_good() -> None:
    data = yaml.safe_load(block(PAGE, "slo-controller-config"))["data"]
    data[NODE_BACKSTOP] = block(PAGE, NODE_BACKSTOP)
    assert {key: read_key(key, text)[1] for key, text in data.items()} == dict.fromkeys(data, ())
    assert list(unknown_in(data)) == []


def test_the_example_of_resizes_is_good() -> None:
    source = read_recommendation(json.dumps(yaml.safe_load(block(PAGE, "resize"))).encode())
    assert source is not None
    assert source.problem == ""
    assert not source.policy.of("log").resources


def test_controllers_and_calculations_are_those_there_are() -> None:
    section = between(PAGE, "## Controllers", "\n## ").partition("`noderesource` has")
    first, second = ({row[0].strip("`") for row in rows(part)} for part in section[::2])
    assert (first, second) == (set(CONTROLLERS), set(CALCULATIONS))


def test_events_are_those_recorded() -> None:
    recorded = texts(MANAGER, lambda name: name.endswith(".record"), 1)
    recorded |= texts(MANAGER, lambda name: name.endswith("._say"))
    recorded |= texts(MANAGER, lambda name: name == "self._report", 1)
    assert {row[0].strip("`") for row in rows(marked(PAGE, "events"))} == recorded


def test_outcomes_of_webhooks_are_those_counted() -> None:
    head = "| outcome of a webhook request"
    table = rows(head + between(PAGE, head, "\n\n"))
    assert {name for row in table for name in code(row[0])} == {
        str(one) for one in AdmissionOutcome
    }


def test_conditions_of_recommendations_are_those_written() -> None:
    said = texts(MANAGER, lambda name: name == "_says", 1) - {"Recommended"}
    text = between(PAGE, "Condition `RecommendationProvided`", "\n- ")
    assert set(code(text)) - {"True", "False"} == said


def _pod(name: str, cpu: str, memory: str) -> bytes:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    return json.dumps(
        {
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {
                "nodeName": "node-7",
                "priority": 9500,
                "containers": [{"name": "app", "resources": resources}],
            },
            "status": {"phase": "Running"},
        }
    ).encode()


@pytest.fixture
def fleet() -> Fleet:
    """node-7 of the example, as reported just now."""
    now = 1795312553.0
    fleet = Fleet()
    status = {
        "capacity": {"cpu": "32", "memory": "128Gi"},
        "allocatable": {"cpu": "31", "memory": "126Gi"},
    }
    node = {"metadata": {"name": "node-7"}, "status": status}
    used = []
    for place, (cpu, memory, cores, gibibytes) in enumerate(
        [("8", "24Gi", "3100m", 18), ("6", "20Gi", "2400m", 15), ("4", "16Gi", "900m", 6)]
    ):
        name = f"shop-{place}"
        fleet.pod(f"shop/{name}", None, read_pod_summary(_pod(name, cpu, memory)))
        usage = {"resources": {"cpu": cores, "memory": str(gibibytes * GIB)}}
        used.append({"name": name, "namespace": "shop", "podUsage": usage})
    system = {"resources": {"cpu": "1600m", "memory": str(5 * GIB)}}
    report = {"nodeMetric": {"systemUsage": system}, "podsMetric": used}
    fleet.node("node-7", read_node_state(node), ColocationStrategy(enable=True), now)
    fleet.metric("node-7", json.dumps(report).encode(), now)
    fleet.calculate(now)
    return fleet


def _without_times(text: str) -> str:
    return "\n".join(line.partition("since ")[0] for line in text.rstrip("\n").split("\n"))


def test_the_example_is_what_koordctl_shows(fleet: Fleet) -> None:
    answer = json.dumps(why_document(fleet, "node-7", 1795312553.0, {})).encode()
    shown = "\n".join(plain(why_node.lines(read(answer, WhyDocument), "batch-cpu", 10)))
    assert _without_times(block(PAGE, "why")) == _without_times(shown)


def test_the_example_is_what_the_node_says(fleet: Fleet) -> None:
    desired = fleet.desired("node-7")
    assert block(PAGE, "annotation").rstrip("\n") == desired.annotations[ANNOTATION_BATCH_WHY]
    assert f"`batch-cpu: {desired.resources['kubernetes.io/batch-cpu']}`" in PAGE
