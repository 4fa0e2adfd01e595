"""Each pod of a drained node gets a place of its own, or blocks with a reason."""

from __future__ import annotations

import re
from typing import Any

import pytest
from koord_descheduler.drain.drain_spec import DrainSpec, read_drain_spec
from koord_descheduler.drain.drained_pods import drained_pods
from koord_descheduler.drain.place_plan import PlannedPlace, plan_places
from koord_scheduler.config.scheduler_config import read_scheduler_config

from tests.descheduler.clusters import NOW, TestCluster, node, pod
from tests.descheduler.framework.test_round import GANG_PLUGINS, gang_pod

_CLAIM = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
THEN = "2026-01-01T00:00:00Z"
_LOCAL = {"volumes": [{"name": "v", "emptyDir": {}}]}
_DAEMON = [
    {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
]


def spec(**more: Any) -> DrainSpec:
    return read_drain_spec({"nodeName": "a", **more})


@pytest.fixture
def cluster() -> TestCluster:
    found = TestCluster()
    found.put(node("a"), node("b", cpu="4"), node("c", cpu="4"), pod("elsewhere", "c", cpu="1"))
    return found


def places(cluster: TestCluster, drained: tuple[str, ...] = ("a",), **more: Any) -> dict[str, str]:
    pods = drained_pods(cluster.cluster, spec())
    found = plan_places(cluster.cluster, pods, drained=drained, now=NOW, **({"settled": {}} | more))
    return {key.partition("/")[2]: place.node for key, place in found.items()}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, "it is the only replica of its workload"),
        ({"owner": "app"}, ""),
        ({"owner": None}, "it is bare: nothing makes it anew"),
        ({"owner": "app", "spec": _CLAIM}, "it has PersistentVolumeClaims: data"),
        ({"owner": "app", "spec": _LOCAL}, "it has data on the node: an emptyDir or a hostPath"),
        (
            {"owner": "app", "namespace": "kube-system"},
            "it is in kube-system without koordinator.sh/eviction-enabled=true",
        ),
        ({"owner": "app", "deletionTimestamp": THEN}, ""),
    ],
)
def test_pods_block_visibly_unless_a_rule_says_otherwise(
    cluster: TestCluster, more: dict[str, Any], expected: str
) -> None:
    cluster.put(pod("p", "a", **({"owner": "alone"} | more)))
    (found,) = drained_pods(cluster.cluster, spec())
    assert found.obstacle == expected
    (found,) = drained_pods(cluster.cluster, spec(podRules=[{"behavior": "Drain"}]))
    assert found.obstacle == ""


def test_rules_of_migrations_block_a_pod_that_no_rule_of_the_drain_lets_go(
    cluster: TestCluster,
) -> None:
    cluster.put(pod("p", "a"))
    (found,) = drained_pods(cluster.cluster, spec(), lambda pod: f"{pod.name} may not")
    assert found.obstacle == "p may not"
    rules = [{"behavior": "Drain"}]
    (found,) = drained_pods(cluster.cluster, spec(podRules=rules), lambda pod: "may not")
    assert (found.obstacle, found.is_ordered) == ("", True)


@pytest.mark.parametrize(
    ("status", "deleted", "blocks"),
    [({}, {}, False), ({"phase": "Failed"}, {}, True), ({}, {"deletionTimestamp": THEN}, True)],
)
def test_replicas_that_end_are_none(
    cluster: TestCluster, status: dict[str, Any], deleted: dict[str, Any], blocks: bool
) -> None:
    cluster.put(pod("p", "a", owner="two"), pod("q", "b", owner="two", status=status, **deleted))
    (found,) = drained_pods(cluster.cluster, spec())
    assert bool(found.obstacle) is blocks


@pytest.mark.parametrize(
    "more",
    [
        {"ownerReferences": _DAEMON},
        {"annotations": {"kubernetes.io/config.mirror": "x"}},
        {"status": {"phase": "Succeeded"}},
    ],
)
def test_pods_that_no_drain_ends_are_not_its_business(
    cluster: TestCluster, more: dict[str, Any]
) -> None:
    cluster.put(pod("p", "a", **more))
    assert drained_pods(cluster.cluster, spec(podRules=[{"behavior": "Drain"}])) == []


def test_the_first_rule_that_applies_counts_and_orders_waves(cluster: TestCluster) -> None:
    critical = {"priority": 2_000_000_000}
    cluster.put(pod("p", "a"), pod("q", "a"), pod("r", "a", labels={"x": "1"}))
    cluster.put(pod("s", "a", labels={"x": "2"}), pod("t", "a", spec=critical))
    rules = [
        {"selector": {"matchLabels": {"x": "1"}}, "behavior": "Skip"},
        {"selector": {"matchLabels": {"x": "2"}}, "behavior": "WaitCompleted", "order": 3},
        {"namespaces": ["other"], "behavior": "Skip"},
        {"namespaces": ["default"], "behavior": "Drain"},
    ]
    found = drained_pods(cluster.cluster, spec(podRules=rules))
    assert [(one.view.name, one.wave, one.waits) for one in found] == [
        ("p", 0, False),
        ("q", 0, False),
        ("t", 1, False),
        ("s", 3, True),
    ]


def test_places_are_all_taken_on_one_cluster(cluster: TestCluster) -> None:
    """Of three pods that fit anywhere alone, one is left; the biggest goes first."""
    cluster.put(*(pod(f"p{n}", "a", cpu=cpu) for n, cpu in enumerate(["2", "4", "3"])))
    assert places(cluster) == {"p1": "b", "p2": "c", "p0": ""}
    assert places(cluster) == {"p1": "b", "p2": "c", "p0": ""}, "nothing is left of a plan"


def test_nodes_that_are_drained_too_get_none_and_others_of_a_group_the_rest(
    cluster: TestCluster,
) -> None:
    cluster.put(pod("p", "a", cpu="1"), pod("q", "a", cpu="3"))
    assert places(cluster, ("a", "b")) == {"q": "c", "p": ""}
    assert places(cluster, reluctant=["b"]) == {"q": "c", "p": "b"}


def test_settled_pods_and_pods_that_wait_have_their_room_first(cluster: TestCluster) -> None:
    cluster.put(pod("p", "a", cpu="3"), pod("q", "a", cpu="3"), node("d"), pod("r", "d", cpu="4"))
    drained = ("a", "d")
    assert places(cluster, drained, settled={"default/p": "c"}) == {"q": "b"}
    assert places(cluster, drained, settled={"default/r": "b"}) == {"p": "c", "q": ""}
    cluster.put(pod("waits", cpu="3"))
    assert sorted(places(cluster, drained).values()) in (["", "b"], ["", "c"])


def test_the_preference_of_the_scheduler_for_the_node_keeps_no_pod(cluster: TestCluster) -> None:
    cluster.put(pod("p", "a"))
    found = plan_places(
        cluster.cluster, drained_pods(cluster.cluster, spec()), drained=["a"], settled={}, now=NOW
    )
    assert found == {"default/p": PlannedPlace("b")}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"deadline": {"duration": "soon"}}, '"soon" is not a valid duration'),
        ({"confirmState": "Yes"}, "Invalid enum value 'Yes' - at `$.confirmState`"),
        ({"podRules": [{"behavior": "Drain", "selector": {"app": "x"}}]}, "spec.podRules[0]"),
    ],
)
def test_bad_specs_are_refused_in_a_line(change: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(line)):
        spec(**change)


def test_a_gang_of_which_a_part_is_elsewhere_blocks() -> None:
    cluster = TestCluster(read_scheduler_config(GANG_PLUGINS))
    cluster.put(node("a"), node("b"), gang_pod("p0"), gang_pod("p1"))
    assert [pod.obstacle for pod in drained_pods(cluster.cluster, spec())] == ["", ""]
    elsewhere = gang_pod("p1")
    elsewhere["spec"]["nodeName"] = "b"
    cluster.put(elsewhere)
    (found,) = drained_pods(cluster.cluster, spec())
    assert found.obstacle == "its gang would stop: default/p1 is on another node"
