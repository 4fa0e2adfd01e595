"""Where pods would go in a cluster that is a list of objects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.objects.pod_defaults import with_defaults
from koord_scheduler.program.explanation import Document
from koord_scheduler.program.what_if import what_if

from tests.conformance.test_scheduler_reasons import class_scores
from tests.support.clusters import random_cluster
from tests.support.gangs import gang_annotations
from tests.support.reservations import reservation

Manifest = dict[str, Any]


def node(name: str, cpu: str = "4") -> Manifest:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name}
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": amounts}}


def pod(name: str, cpu: str = "1", *, phase: str = "Pending", **spec: Any) -> Manifest:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "shop", "labels": {"app": name}}
    return {
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
        "status": {"phase": phase},
    }


def place(
    nodes: Sequence[Manifest],
    asked: Sequence[Manifest],
    pods: Sequence[Manifest] = (),
    **others: Sequence[Manifest],
) -> Document:
    by_kind = {"Node": nodes, "Pod": pods, **others}
    return what_if(
        {kind: [json.dumps(one).encode() for one in listed] for kind, listed in by_kind.items()},
        asked,
    )


def nodes_of(found: Document) -> dict[str, str]:
    return {one["pod"].removeprefix("shop/"): one.get("node", "") for one in found["pods"]}


def test_each_pod_takes_room_from_the_next() -> None:
    found = place([node("n1", "3"), node("n2", "4.5")], [pod(name, "2") for name in "abcd"])
    assert nodes_of(found) == {"a": "n2", "b": "n1", "c": "n2", "d": ""}
    first, *_, last = found["pods"]
    assert (first["state"], first["nodes"], first["feasible"]) == ("placed", 2, 2)
    assert [(one["rank"], one["node"]) for one in first["best"]] == [(1, "n2"), (2, "n1")]
    assert last["state"] == "unschedulable"
    assert last["diagnosis"]["reasons"] == {"Insufficient cpu": 2}
    json.dumps(found)


@given(st.integers(0, 1 << 32))
def test_a_pod_goes_where_the_scheduler_puts_it(seed: int) -> None:
    cluster = random_cluster(Random(seed))
    cluster.pop("args", None)
    cluster["pod"]["spec"].pop("nodeName", None)
    namespaces = [
        {"metadata": {"name": one["name"], "labels": one["labels"]}}
        for one in cluster["namespaces"]
    ]
    [found] = place(cluster["nodes"], [cluster["pod"]], cluster["pods"], Namespace=namespaces)[
        "pods"
    ]
    scores = class_scores({**cluster, "pod": with_defaults(cluster["pod"])})
    best = scores.best(scores.feasible())
    assert found.get("node") == (None if best is None else scores.nodes.name(best))
    assert found["best"][:1] == (
        [] if best is None else [{**found["best"][0], "node": found["node"]}]
    )
    json.dumps(found)


def test_the_more_important_pod_comes_first_and_is_shown_in_its_place() -> None:
    found = place([node("n1", "2")], [pod("low", "2"), pod("high", "2", priority=5)])
    assert nodes_of(found) == {"low": "", "high": "n1"}


def test_of_the_cluster_pods_count_that_run() -> None:
    pods = [
        pod("runs", "2", phase="Running", nodeName="n1"),
        pod("over", "2", phase="Succeeded", nodeName="n2"),
        pod("failed", "2", phase="Failed", nodeName="n2"),
        pod("waits", "2"),
        pod("web", "2"),
    ]
    found = place([node("n1", "2"), node("n2", "2")], [pod("web", "2")], pods)
    assert nodes_of(found) == {"web": "n2"}
    assert found["pending"] == 1


def test_a_pod_of_the_cluster_with_the_same_name_gives_its_room_back() -> None:
    runs = pod("web", "2", phase="Running", nodeName="n1")
    assert nodes_of(place([node("n1", "3")], [pod("web", "3")], [runs])) == {"web": "n1"}


def test_namespaces_are_known_by_their_labels() -> None:
    namespaces = [
        {"metadata": {"name": name, "labels": {"team": name}}} for name in ("shop", "bank")
    ]
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {},
        "namespaceSelector": {"matchLabels": {"team": "bank"}},
    }
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    runs = pod("db", phase="Running", nodeName="n2")
    runs["metadata"]["namespace"] = "bank"
    two = [node("n1", "2"), node("n2", "8")]
    found = place(two, [pod("web", affinity=apart)], [runs], Namespace=namespaces)
    assert nodes_of(found) == {"web": "n1"}


def test_pods_of_a_service_are_spread() -> None:
    runs = [pod(f"web-{n}", "0", phase="Running", nodeName="n1") for n in range(3)]
    for one in runs:
        one["metadata"]["labels"] = {"app": "web"}
    service = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"app": "web"}},
    }
    two = [node("n1", "100"), node("n2", "8")]
    assert nodes_of(place(two, [pod("web", "1")], runs)) == {"web": "n1"}
    assert nodes_of(place(two, [pod("web", "1")], runs, Service=[service])) == {"web": "n2"}


def test_a_pod_that_would_preempt_others_names_the_node_and_waits() -> None:
    runs = pod("runs", "2", phase="Running", nodeName="n1", priority=0)
    [found] = place([node("n1", "2")], [pod("web", "2", priority=9)], [runs])["pods"]
    assert (found["state"], found["nominated_node"]) == ("unschedulable", "n1")


def test_a_pod_goes_where_its_volume_is() -> None:
    where = [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]
    volume = {
        "metadata": {"name": "pv"},
        "spec": {
            "claimRef": {"namespace": "shop", "name": "data", "uid": "u"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": where}]}},
        },
    }
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    claim = {
        "metadata": {"name": "data", "namespace": "shop", "uid": "u", "annotations": bound},
        "spec": {"volumeName": "pv"},
        "status": {"phase": "Bound"},
    }
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    asked, two = [pod("web", volumes=volumes)], [node("n1", "8"), node("n2", "2")]
    assert nodes_of(place(two, asked)) == {"web": ""}
    storage = {"PersistentVolume": [volume], "PersistentVolumeClaim": [claim]}
    assert nodes_of(place(two, asked, **storage)) == {"web": "n2"}


def test_pods_of_all_schedulers_are_placed_but_not_those_that_wait_for_themselves() -> None:
    gated = pod("gated", schedulingGates=[{"name": "a/b"}])
    asked = [pod("other", schedulerName="other"), gated, pod("named", nodeName="n9")]
    found = place([node("n1")], asked)
    assert [one["state"] for one in found["pods"]] == ["placed", "gated", "bound"]
    assert nodes_of(found) == {"other": "n1", "gated": "", "named": "n9"}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([pod("a"), pod("a")], "shop/a"),
        ([pod("a"), pod("b", "much")], "number 2"),
        ([pod("a"), {"spec": {"containers": [3]}}], "number 2 is not a valid Pod"),
    ],
)
def test_what_is_no_pod_is_named(asked: list[Manifest], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        place([node("n1")], asked)


def test_what_is_no_node_is_named() -> None:
    with pytest.raises(ValueError, match="Node number 1 is not a valid Node"):
        place([{"status": {"allocatable": []}}], [])


@pytest.mark.parametrize(
    ("limits", "requests", "expected"),
    [
        ({"cpu": "2"}, None, {"cpu": "2"}),
        ({"cpu": "2", "memory": "1Gi"}, {"cpu": "1"}, {"cpu": "1", "memory": "1Gi"}),
        (None, {"cpu": "1"}, {"cpu": "1"}),
        (None, None, {}),
    ],
)
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_what_is_limited_is_requested(
    kind: str,
    limits: Mapping[str, str] | None,
    requests: Mapping[str, str] | None,
    expected: Mapping[str, str],
) -> None:
    resources = {"limits": limits, "requests": requests}
    made = with_defaults({"spec": {kind: [{"name": "c", "resources": resources}]}})
    assert made["spec"][kind][0]["resources"]["requests"] == expected


def test_names_and_ports_are_those_that_a_created_pod_has() -> None:
    ports = [{"containerPort": 80}]
    spec = {"containers": [{"name": "c", "ports": ports}]}
    made = with_defaults({"metadata": {"generateName": "web-"}, "spec": spec}, 7)
    assert made["metadata"]["namespace"] == "default"
    assert made["metadata"]["name"] == "web-7"
    assert made["spec"]["containers"][0]["ports"] == ports
    made = with_defaults({"metadata": {"name": "web"}, "spec": {**spec, "hostNetwork": True}})
    assert made["metadata"]["name"] == "web"
    assert made["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 80}]


WITH_RESERVATIONS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Reservation, weight: 5000}]}}}]
"""


@pytest.mark.parametrize(("app", "expected"), [("web", "n2"), ("db", "n1")])
def test_pods_go_to_their_reservations_and_those_that_wait_do_not_count(
    app: str, expected: str
) -> None:
    owner = {"labelSelector": {"matchLabels": {"app": "web"}}}
    reservations = [
        reservation("waits", "4", owners=[owner]),
        reservation("placed", "3", "n2", owners=[owner]),
    ]
    objects = {"Node": [node("n1"), node("n2")], "Reservation": reservations}
    raw = {kind: [json.dumps(one).encode() for one in some] for kind, some in objects.items()}
    found = what_if(raw, [pod(app, "3")], WITH_RESERVATIONS)
    assert nodes_of(found) == {app: expected}


def test_all_pods_of_a_gang_are_placed_or_none() -> None:
    plugins = {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = json.dumps({**kind, "profiles": [{"plugins": plugins}]})
    pods = []
    for gang, size in (("g", 3), ("large", 4)):
        annotations = gang_annotations(gang, size)
        for number in range(size):
            one = pod(f"{gang}-{number}", "1")
            pods.append({**one, "metadata": {**one["metadata"], "annotations": annotations}})
    nodes = [json.dumps(node("n1")).encode()]
    found = what_if({"Node": nodes}, pods, config)
    assert nodes_of(found) == {
        **{f"g-{number}": "n1" for number in range(3)},
        **{f"large-{number}": "" for number in range(4)},
    }
    assert {one["state"] for one in found["pods"]} == {"placed", "unschedulable"}
