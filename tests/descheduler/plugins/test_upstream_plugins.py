"""Upstream's simple plugins: which pods they move, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from koord_descheduler.config.plugin_catalogue import own_plugins
from koord_descheduler.plugin import DeschedulerPlugin
from koord_model.times import rfc3339

from tests.descheduler.clusters import NOW, Document, TestCluster, node, pod

ZONE = "topology.kubernetes.io/zone"


def plugin(name: str, **args: Any) -> DeschedulerPlugin:
    found = own_plugins()[name]
    converted = msgspec.convert(args, found.Args)
    assert list(converted.problems("args")) == []
    return found(converted)


def moved(documents: list[Document], name: str, **args: Any) -> dict[str, str]:
    """The nodes that pods are to go to, by their names."""
    cluster = TestCluster()
    cluster.put(*documents)
    plan = cluster.round(plugin(name, **args))
    assert not any(key.endswith("/defect") for key in plan.notes), plan.notes
    return {move.pod.name: move.target for move in plan.moves}


NODES = [node("a"), node("b")]


def state(**given: Any) -> Document:
    return {"containerStatuses": [{"name": "c", **given}]}


def failed(code: int = 1, reason: str = "Error") -> Document:
    ended = {"terminated": {"exitCode": code, "reason": reason}}
    return {"phase": "Failed", **state(state=ended)}


@pytest.mark.parametrize(
    ("args", "status", "expected"),
    [
        ({}, failed(), {"p": ""}),
        ({}, {"phase": "Running"}, {}),
        ({"minPodLifetimeSeconds": 3601}, failed(), {}),
        ({"reasons": ["OOMKilled"]}, failed(), {}),
        ({"reasons": ["OOMKilled"]}, failed(reason="OOMKilled"), {"p": ""}),
        ({"reasons": ["Evicted"]}, failed() | {"reason": "Evicted"}, {"p": ""}),
        ({"exitCodes": [2]}, failed(), {}),
        ({"exitCodes": [1]}, failed(), {"p": ""}),
        ({"excludeOwnerKinds": ["ReplicaSet"]}, failed(), {}),
        ({"namespaces": {"exclude": ["default"]}}, failed(), {}),
        ({"labelSelector": {"matchLabels": {"app": "other"}}}, failed(), {}),
    ],
)
def test_failed_pods(args: Any, status: Document, expected: Mapping[str, str]) -> None:
    found = moved([*NODES, pod("p", "a", status=status)], "RemoveFailedPods", **args)
    assert found == expected


@pytest.mark.parametrize(
    ("args", "restarts", "waits", "expected"),
    [
        ({"podRestartThreshold": 3}, 3, "", True),
        ({"podRestartThreshold": 3}, 2, "", False),
        ({"podRestartThreshold": 3, "states": ["CrashLoopBackOff"]}, 3, "", False),
        ({"podRestartThreshold": 3, "states": ["CrashLoopBackOff"]}, 3, "CrashLoopBackOff", True),
        ({"podRestartThreshold": 3, "states": ["Running"]}, 3, "", True),
    ],
)
def test_restarts(args: Any, restarts: int, waits: str, expected: bool) -> None:
    waiting = {"state": {"waiting": {"reason": waits}}} if waits else {}
    status = state(restartCount=restarts, **waiting)
    found = moved([*NODES, pod("p", "a", status=status)], "RemovePodsHavingTooManyRestarts", **args)
    assert bool(found) is expected


def test_restarts_of_init_containers_count_where_that_is_said() -> None:
    status = {"initContainerStatuses": [{"name": "i", "restartCount": 5}]}
    given = [*NODES, pod("p", "a", status=status)]
    name, most = "RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 5}
    assert moved(given, name, **most) == {}
    assert moved(given, name, **most, includingInitContainers=True).keys() == {"p"}


def test_pods_that_restart_most_go_first() -> None:
    cluster = TestCluster()
    cluster.put(*NODES, *(pod(f"p{n}", "a", status=state(restartCount=n)) for n in (3, 5, 4)))
    plan = cluster.round(plugin("RemovePodsHavingTooManyRestarts", podRestartThreshold=3))
    assert [move.pod.name for move in plan.moves] == ["p5", "p4", "p3"]


OLD = {"type": "Ready", "status": "False", "reason": "Probe"}


@pytest.mark.parametrize(
    ("args", "status", "expected"),
    [
        ({"maxPodLifeTimeSeconds": 3599}, {}, True),
        ({"maxPodLifeTimeSeconds": 3600}, {}, False),
        ({"maxPodLifeTimeSeconds": 1, "states": ["Pending"]}, {}, False),
        ({"maxPodLifeTimeSeconds": 1, "states": ["Running"]}, {}, True),
        (
            {"maxPodLifeTimeSeconds": 1, "states": ["ImagePullBackOff"]},
            state(state={"waiting": {"reason": "ImagePullBackOff"}}),
            True,
        ),
        ({"maxPodLifeTimeSeconds": 1, "ownerKinds": {"exclude": ["ReplicaSet"]}}, {}, False),
        ({"maxPodLifeTimeSeconds": 1, "ownerKinds": {"include": ["ReplicaSet"]}}, {}, True),
        (
            {"maxPodLifeTimeSeconds": 1, "exitCodes": [137]},
            state(state={"terminated": {"exitCode": 137}}),
            True,
        ),
        ({"maxPodLifeTimeSeconds": 1, "exitCodes": [137]}, {}, False),
        ({"exitCodes": [1]}, failed(), True),
        ({"states": ["Failed"]}, failed(), True),
        ({"conditions": [{"type": "Ready"}]}, {"conditions": [{"type": "Ready"}]}, True),
        (
            {"conditions": [{"type": "Ready", "minTimeSinceLastTransitionSeconds": 0}]},
            {"conditions": [{"type": "Ready"}]},
            False,
        ),
        (
            {"conditions": [{"type": "Ready", "status": "False"}]},
            {"conditions": [{**OLD, "lastTransitionTime": rfc3339(NOW - 10)}]},
            True,
        ),
        (
            {"conditions": [{"reason": "Probe", "minTimeSinceLastTransitionSeconds": 60}]},
            {"conditions": [{**OLD, "lastTransitionTime": rfc3339(NOW - 10)}]},
            False,
        ),
    ],
)
def test_life_time(args: Any, status: Document, expected: bool) -> None:
    found = moved([*NODES, pod("p", "a", status=status)], "PodLifeTime", **args)
    assert bool(found) is expected


def test_the_oldest_pods_go_first() -> None:
    cluster = TestCluster()
    made = {"p0": NOW - 7200, "p1": NOW - 9000}
    pods = (pod(name, "a", creationTimestamp=rfc3339(at)) for name, at in made.items())
    cluster.put(*NODES, *pods)
    plan = cluster.round(plugin("PodLifeTime", maxPodLifeTimeSeconds=3600))
    assert [move.pod.name for move in plan.moves] == ["p1", "p0"]


TAINT = {"key": "gone", "value": "soon", "effect": "NoSchedule"}
PREFER = {"key": "gone", "effect": "PreferNoSchedule"}
TOLERATES = {"tolerations": [{"key": "gone", "operator": "Exists"}]}


@pytest.mark.parametrize(
    ("taint", "args", "spec", "expected"),
    [
        (TAINT, {}, {}, {"p": "b"}),
        (TAINT, {}, TOLERATES, {}),
        (TAINT, {"excludedTaints": ["gone"]}, {}, {}),
        (TAINT, {"excludedTaints": ["gone=soon"]}, {}, {}),
        (TAINT, {"excludedTaints": ["other"]}, {}, {"p": "b"}),
        (TAINT, {"includedTaints": ["other"]}, {}, {}),
        (TAINT, {"includedTaints": ["gone=soon"]}, {}, {"p": "b"}),
        (PREFER, {}, {}, {}),
        (PREFER, {"includePreferNoSchedule": True}, {}, {"p": "b"}),
    ],
)
def test_taints(taint: Any, args: Any, spec: Any, expected: Mapping[str, str]) -> None:
    documents = [node("a", taints=[taint]), node("b"), pod("p", "a", spec=spec)]
    assert moved(documents, "RemovePodsViolatingNodeTaints", **args) == expected


def affinity(kind: str) -> Document:
    """It requires, or prefers, nodes of the pool x."""
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["x"]}]}
    required: Any = {"nodeSelectorTerms": [term]}
    if kind.startswith("preferred"):
        required = [{"weight": 5, "preference": term}]
    return {"affinity": {"nodeAffinity": {kind: required}}}


@pytest.mark.parametrize("kind", ["required", "preferred"])
def test_node_affinity(kind: str) -> None:
    name = f"{kind}DuringSchedulingIgnoredDuringExecution"
    in_pool = node("b", labels={"pool": "x"})
    documents = [node("a"), in_pool, pod("p", "a", spec=affinity(name)), pod("q", "b")]
    args = {"nodeAffinityType": [name]}
    assert moved(documents, "RemovePodsViolatingNodeAffinity", **args) == {"p": "b"}
    at_home = [node("a"), in_pool, pod("p", "b", spec=affinity(name))]
    assert moved(at_home, "RemovePodsViolatingNodeAffinity", **args) == {}


def test_anti_affinity() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    spec = {"affinity": apart}
    documents = [
        *NODES,
        pod("low", "a", owner="x", spec=spec),
        pod("high", "a", owner="x", spec={**spec, "priority": 10}),
        pod("other", "a"),
    ]
    assert moved(documents, "RemovePodsViolatingInterPodAntiAffinity") == {"low": "b"}


@pytest.mark.parametrize(
    ("more", "args", "expected"),
    [
        (list, {}, 1),
        (list, {"excludeOwnerKinds": ["ReplicaSet"]}, 0),
        (list, {"namespaces": {"include": ["other"]}}, 0),
        (lambda: [node("b", taints=[TAINT])], {}, 0),
        (lambda: [node("c")], {}, 2),
    ],
)
def test_duplicates(more: Callable[[], list[Document]], args: Any, expected: int) -> None:
    pods = [pod(f"p{number}", "a") for number in range(3)]
    found = moved([*NODES, *pods, *more()], "RemoveDuplicates", **args)
    assert len(found) == expected
    assert "a" not in found.values()
    assert len(set(found.values())) == len(found)


def test_pods_with_other_images_are_no_copies() -> None:
    other = pod("q", "a")
    other["spec"]["containers"][0]["image"] = "other"
    assert moved([*NODES, pod("p", "a"), other], "RemoveDuplicates") == {}


def spread(policy: str = "DoNotSchedule", skew: int = 1) -> Document:
    constraint = {
        "topologyKey": ZONE,
        "maxSkew": skew,
        "whenUnsatisfiable": policy,
        "labelSelector": {"matchLabels": {"app": "app"}},
    }
    return {"topologySpreadConstraints": [constraint]}


@pytest.mark.parametrize(
    ("spec", "args", "expected"),
    [
        (spread(), {}, 2),
        (spread(skew=3), {}, 1),
        (spread(skew=5), {}, 0),
        (spread("ScheduleAnyway"), {}, 0),
        (spread("ScheduleAnyway"), {"constraints": ["ScheduleAnyway"]}, 2),
        (spread(), {"labelSelector": {"matchLabels": {"app": "x"}}}, 0),
        (spread(), {"namespaces": {"exclude": ["default"]}}, 0),
    ],
)
def test_topology_spread(spec: Document, args: Any, expected: int) -> None:
    zones = [node(name, labels={ZONE: f"zone-{name}"}) for name in ("a", "b")]
    pods = [pod(f"p{number}", "a", spec=spec) for number in range(5)]
    name = "RemovePodsViolatingTopologySpreadConstraint"
    found = moved([*zones, *pods], name, **args)
    assert len(found) == expected
    assert set(found.values()) <= {"b"}


def test_pods_of_one_constraint_are_spread_over_their_own_nodes_each() -> None:
    pools = {"a": "y", "b": "x", "c": "x"}
    nodes = [node(name, labels={ZONE: name, "pool": pool}) for name, pool in pools.items()]
    own = {pool: {**spread(), "nodeSelector": {"pool": pool}} for pool in "xy"}
    pods = [pod(f"p{number}", "b", spec=own["x"]) for number in range(2)]
    other = pod("other", "a", spec=own["y"])
    found = moved([*nodes, other, *pods], "RemovePodsViolatingTopologySpreadConstraint")
    assert list(found.values()) == ["c"]


def test_copies_may_have_other_nodes() -> None:
    nodes = [node("a"), node("b", taints=[TAINT]), node("c", taints=[TAINT])]
    old, new = pod("p0", "a"), pod("p1", "a", spec=TOLERATES)
    assert moved([*nodes, old, new], "RemoveDuplicates").keys() == {"p1"}


@pytest.mark.parametrize(
    ("name", "args", "line"),
    [
        ("PodLifeTime", {}, "args.maxPodLifeTimeSeconds is missing; expected a number of seconds"),
        ("PodLifeTime", {"conditions": [{}]}, "args.conditions[0] is an object; expected a type"),
        (
            "RemovePodsHavingTooManyRestarts",
            {},
            "args.podRestartThreshold is 0; expected 1 or more",
        ),
        ("RemovePodsViolatingNodeAffinity", {}, "args.nodeAffinityType is missing; expected"),
        (
            "RemovePodsViolatingNodeTaints",
            {"includedTaints": ["a"], "excludedTaints": ["b"]},
            'args.includedTaints is "beside excludedTaints"; expected one of the two',
        ),
        (
            "RemoveDuplicates",
            {"namespaces": {"include": ["a"], "exclude": ["b"]}},
            "args.namespaces",
        ),
        ("RemoveFailedPods", {"labelSelector": {"matchLabels": 1}}, "args.labelSelector"),
    ],
)
def test_errors(name: str, args: Any, line: str) -> None:
    [found] = msgspec.convert(args, own_plugins()[name].Args).problems("args")
    assert found.startswith(line)
