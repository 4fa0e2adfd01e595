"""Content of reporter plugins that counts, and how it is merged with ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_proto.reporter_plugin_pb2 import GetReportContentResponse
from koordlet.metrics_reporter.plugins.core.contents import ReportedFields, parse
from koordlet.metrics_reporter.plugins.core.merging import merged

from tests.support.reporter_plugins import content


def read(part: str, name: str, value: Any) -> ReportedFields:
    return parse(content((part, name, value)))


def gpu(cpu: str = "4", **more: Any) -> dict[str, Any]:
    resources = {"allocatable": {"example.com/gpu": cpu}}
    return {"type": "GPU", "name": "0", "resources": resources, **more}


def test_fields_go_by_their_names_in_json() -> None:
    zone = {"type": "Socket", "name": "0", "children": [gpu(unknown=1)]}
    found = parse(
        content(
            ("Status", "TopologyZone", [zone]),
            ("Metadata", "Labels", {"a": "b"}),
            ("Spec", "NodeResourceProperties", [{"propertyName": "p", "propertyQuantity": "1Gi"}]),
            ("Spec", "Taints", [{"key": "k", "effect": "NoSchedule", "qosLevel": "shared_cores"}]),
        )
    )
    assert found.problems == ()
    # What the object's type does not have is dropped; resources are required of a zone.
    assert found.fields == {
        "status": {"topologyZone": [{**zone, "resources": {}, "children": [gpu()]}]},
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "nodeResourceProperties": [{"propertyName": "p", "propertyQuantity": "1Gi"}],
            "taints": [{"key": "k", "effect": "NoSchedule", "qosLevel": "shared_cores"}],
        },
    }


@pytest.mark.parametrize(
    ("part", "name", "value", "problem"),
    [
        ("Status", "TopologyPolicy", "None", "status.TopologyPolicy is koordlet's own"),
        ("Status", "NodeMetricStatus", {}, "status.NodeMetricStatus is koordlet's own"),
        ("Metadata", "OwnerReferences", [], 'field "metadata.OwnerReferences" is not exported'),
        (7, "Labels", {}, 'field "7/Labels" is not exported'),
        ("Status", "TopologyZone", {"type": "x"}, "status.TopologyZone: "),
        ("Status", "TopologyZone", [{"type": "GPU"}], "missing required field `name`"),
        ("Status", "TopologyZone", [gpu("many")], "example.com/gpu"),
        ("Status", "Resources", {"capacity": {"cpu": None}}, "status.Resources: "),
        (
            "Spec",
            "Taints",
            [{"key": "k", "effect": "NoExecute", "qosLevel": "shared_cores"}],
            "expected one of NoSchedule, PreferNoSchedule",
        ),
        ("Status", "Conditions", [{"type": "AgentReady", "status": "True"}], "koordlet's own"),
        ("Metadata", "Labels", b"\xff{", "metadata.Labels: "),
        ("Status", "TopologyZone", b"[" * 100_000, "status.TopologyZone: "),
    ],
)
def test_a_bad_field_costs_itself_alone(part: Any, name: str, value: Any, problem: str) -> None:
    found = parse(content((part, name, value), ("Metadata", "Annotations", {"a": "b"})))
    assert found.fields == {"metadata": {"annotations": {"a": "b"}}}
    assert len(found.problems) == 1
    assert problem in found.problems[0]
    assert len(found.problems[0]) < 400


def test_other_kinds_are_not_exported() -> None:
    said = content(("Metadata", "Labels", {"a": "b"}))
    said.content[0].groupVersionKind.kind = "Node"
    assert parse(said).fields == {}
    assert "v1alpha1 Node" in parse(said).problems[0]
    assert parse(GetReportContentResponse()) == ReportedFields()


def test_the_first_owner_keeps_a_value_and_the_second_hears_of_it() -> None:
    ours = {
        "status": {
            "topologyZone": [{"type": "Numa", "name": "0", "resources": {"capacity": {"cpu": "2"}}}]
        }
    }
    numa = {"type": "Numa", "name": "0", "resources": {"capacity": {"cpu": "3", "gpu": "1"}}}
    theirs = {"status": {"topologyZone": [{**numa, "children": [gpu()]}, gpu()]}}
    found, conflicts = merged(ours, theirs)
    assert found["status"]["topologyZone"] == [
        {**numa, "resources": {"capacity": {"cpu": "2", "gpu": "1"}}, "children": [gpu()]},
        gpu(),
    ]
    assert conflicts == ["status.topologyZone[Numa/0].resources.capacity.cpu"]
    assert merged(found, theirs) == (found, conflicts)


VALUES: Any = st.recursive(
    st.integers(0, 2) | st.text(max_size=2),
    lambda below: st.dictionaries(st.sampled_from("abc"), below, max_size=3),
    max_leaves=6,
)
TREES = st.dictionaries(st.sampled_from("abc"), VALUES)


@given(TREES, TREES)
def test_nothing_of_the_first_is_lost_and_nothing_is_changed(first: Any, second: Any) -> None:
    before = json.dumps([first, second])
    found, conflicts = merged(first, second)
    assert json.dumps([first, second]) == before
    assert merged(found, first) == (found, [])
    assert bool(conflicts) == bool(merged(found, second)[1])
