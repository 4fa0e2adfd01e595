"""docs/manager.md says what the manager does: gates, webhooks, keys, Events, the worked example."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from koord_manager.noderesource.core.fleet import Fleet
from koord_manager.noderesource.core.node_state import read_node_state
from koord_manager.noderesource.core.pods import read_pod_summary
from koord_manager.noderesource.core.why import why_document
from koord_manager.program.config import CALCULATIONS, CONTROLLERS
from koord_manager.program.gates import DEFAULTS
from koord_manager.slo_config.core.colocation import ColocationStrategy
from koord_manager.slo_config.core.config import KEYS, read_key, unknown_in
from koord_manager.webhooks.table import TABLE
from koord_model.keys import ANNOTATION_BATCH_WHY
from koord_serving.admission.metrics import AdmissionOutcome
from koordctl.koordlet_documents import WhyDocument
from koordctl.proxy_documents import read

from koordctl import why_node

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "manager.md").read_text()
GIB = 1 << 30


def cells(text: str) -> list[list[str]]:
    """Of a table, without its head and without quotes of code."""
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def marked(name: str) -> str:
    """What is between a mark and the next end."""
    return PAGE.partition(f"<!-- {name} -->\n")[2].partition("<!-- end -->")[0]


def block(name: str) -> str:
    """The quoted text right after a mark."""
    return PAGE.partition(f"<!-- {name} -->\n")[2].split("```")[1].partition("\n")[2]


def test_gates_are_those_there_are() -> None:
    written = {name: default == "on" for name, default, _ in cells(marked("gates"))}
    assert written == DEFAULTS


def test_webhooks_are_those_of_the_table() -> None:
    written = [
        (name, path, gate, policy.split()[0].strip("`,"))
        for name, path, _, gate, policy, _ in cells(marked("webhooks"))
    ]
    # Of pods it is a setting.
    policies = {"pods": ("--webhook-configuration-failure-policy-pods", "the")}
    there = []
    for row in TABLE:
        named = policies.get(row.resource, ("Fail" if row.fails else "Ignore",))
        there.append((row.name, row.path, row.gate, named))
    assert [one[:3] for one in written] == [one[:3] for one in there]
    for (*_, policy), (*_, allowed) in zip(written, there, strict=True):
        assert policy in allowed


def test_keys_are_those_of_the_config_map() -> None:
    assert {row[0] for row in cells(marked("keys"))} == KEYS


def test_the_example_of_the_config_map_is_good() -> None:
    data = yaml.safe_load(block("slo-controller-config"))["data"]
    assert {key: read_key(key, text)[1] for key, text in data.items()} == dict.fromkeys(data, ())
    assert list(unknown_in(data)) == []


def test_controllers_and_calculations_are_those_there_are() -> None:
    section = PAGE.partition("## Controllers")[2].partition("\n## ")[0]
    first = {row[0] for row in cells(section.partition("`noderesource` has")[0])}
    second = {row[0] for row in cells(section.partition("`noderesource` has")[2])}
    assert (first, second) == (set(CONTROLLERS), set(CALCULATIONS))


def _code() -> str:
    return "\n".join(path.read_text() for path in (ROOT / "manager").rglob("*.py"))


def test_events_are_those_told() -> None:
    told = re.findall(r'(?:\.record\(\s*[\w.()]+,|\._say\()\s*"(\w+)"', _code())
    assert {row[0] for row in cells(marked("events"))} == set(told)


def test_outcomes_of_webhooks_are_those_counted() -> None:
    table = PAGE.partition("| outcome of a webhook request")[2].partition("\n\n")[0]
    names = re.findall(r"^\| (.*?) \|", table, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(names))) == {str(one) for one in AdmissionOutcome}


def test_conditions_of_recommendations_are_those_written() -> None:
    said = set(re.findall(r'_says\("\w+", "(\w+)"', _code())) - {"Recommended"}
    line = next(line for line in PAGE.splitlines() if "`RecommendationProvided`" in line)
    assert set(re.findall(r"`(\w+)`", line)) - {"RecommendationProvided", "True", "False"} == said


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
    return re.sub(r"since .*", "since …", text.rstrip("\n"))


def test_the_example_is_what_koordctl_shows(fleet: Fleet) -> None:
    answer = json.dumps(why_document(fleet, "node-7", 1795312553.0, {})).encode()
    shown = "\n".join(why_node.lines(read(answer, WhyDocument), "batch-cpu", 10))
    assert _without_times(block("why")) == _without_times(shown)


def test_the_example_is_what_the_node_says(fleet: Fleet) -> None:
    desired = fleet.desired("node-7")
    assert block("annotation").rstrip("\n") == desired.annotations[ANNOTATION_BATCH_WHY]
    assert f"`batch-cpu: {desired.resources['kubernetes.io/batch-cpu']}`" in PAGE
