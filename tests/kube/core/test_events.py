"""Events about any object."""

from __future__ import annotations

import pytest
from koord_kube.core.events import EventAggregator, EventSource, event, reference
from koord_kube.protocol.resources import CONFIG_MAPS, LEASES, NODES

AT = 1_800_000_000.5
MANAGER = EventSource("koord-manager", "manager-1")
CONFIG = reference(CONFIG_MAPS, "slo-controller-config", "koordinator-system", "u-1")


def test_the_object() -> None:
    assert event(CONFIG, "BadKey", "it is bad", MANAGER, AT, warning=True, count=3) == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"slo-controller-config.{1_800_000_000_500_000_000:x}",
            "namespace": "koordinator-system",
        },
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "slo-controller-config",
            "namespace": "koordinator-system",
            "uid": "u-1",
        },
        "reason": "BadKey",
        "message": "it is bad",
        "type": "Warning",
        "source": {"component": "koord-manager", "host": "manager-1"},
        "reportingComponent": "koord-manager",
        "reportingInstance": "manager-1",
        "firstTimestamp": "2027-01-15T08:00:00Z",
        "lastTimestamp": "2027-01-15T08:00:00Z",
        "count": 3,
    }


def test_events_of_cluster_scoped_objects_are_in_default() -> None:
    found = event(reference(NODES, "n1"), "R", "m", MANAGER, AT, warning=False)
    assert found["metadata"]["namespace"] == "default"
    assert found["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    assert found["type"] == "Normal"
    assert reference(LEASES, "l", "ns")["apiVersion"] == "coordination.k8s.io/v1"


@pytest.mark.parametrize("name", ["p" * 253, "p" * 235 + "." * 18])
def test_long_names_and_messages_are_cut(name: str) -> None:
    found = event(reference(NODES, name), "R", "é" * 2000, MANAGER, AT, warning=False)
    assert len(found["metadata"]["name"]) <= 253
    assert ".." not in found["metadata"]["name"]
    assert len(found["message"].encode()) <= 1024
    assert found["message"].endswith("é…")


def test_a_message_has_all_the_bytes_that_it_may() -> None:
    for size, text in ((1024, "x" * 1024), (1025, "x" * 1021 + "…"), (9999, "x" * 1021 + "…")):
        found = event(CONFIG, "R", "x" * size, MANAGER, AT, warning=False)
        assert found["message"] == text


@pytest.mark.parametrize("message", ["two\n lines", " two  lines "])
def test_a_message_is_one_line(message: str) -> None:
    assert event(CONFIG, "R", message, MANAGER, AT, warning=False)["message"] == "two lines"


def test_the_same_is_reported_again_only_after_a_while() -> None:
    aggregator = EventAggregator()
    counts = [("a", 0, 1), ("a", 1, 0), ("b", 1, 1), ("a", 299, 0), ("a", 300, 3), ("a", 601, 1)]
    found = [aggregator.add("about", message, at) for message, at, _ in counts]
    assert found == [(count, False) for *_, count in counts]


def test_ever_new_messages_are_combined_until_ten_minutes_pass_without_any() -> None:
    aggregator = EventAggregator()
    found = [aggregator.add("about", f"m {number}", 599.0 * number) for number in range(11)]
    assert found == [(1, False)] * 9 + [(1, True)] * 2
    assert aggregator.add("other", "m", 6000.0) == (1, False)
    assert aggregator.add("about", "m", 7000.0) == (1, False)
