"""CPUs and NUMA nodes of a reservation are for its owners, and for nobody else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model import cpuset
from koord_model.keys import (
    ANNOTATION_RESERVATION_ALLOCATED,
    ANNOTATION_RESOURCE_SPEC,
    ANNOTATION_RESOURCE_STATUS,
    LABEL_RESERVATION_IGNORED,
)
from koord_scheduler.framework.decisions import Placement, Refusal
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.framework.self_check import ROUND_SECONDS, SelfCheck
from koord_scheduler.placement_annotations import placement_annotations
from koord_scheduler.plugins.node_numa_resource import NodeNUMAResource

from tests.scheduler.plugins.test_node_numa_resource import LABEL_POLICY, LSR, topology
from tests.support.reservations import OF_WEB, ReservationCluster, allocated, reservation

REQUIRED = json.dumps({"requiredCPUBindPolicy": "FullPCPUs"})


class CPUCluster(ReservationCluster):
    """Nodes of two NUMA nodes with two cores of two CPUs each."""

    def __init__(self, *nodes: str, **labels: str) -> None:
        self._labels = {LABEL_POLICY: labels["policy"]} if labels else {}
        super().__init__(*nodes, more=(EnabledPlugin(NodeNUMAResource(), weight=100),))

    def node(self, name: str, **labels: str) -> None:
        amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        metadata = {"name": name, "labels": self._labels}
        self.put("Node", name, {"metadata": metadata, "status": {"allocatable": amounts}})
        self.put("NodeResourceTopology", name, topology(name))

    def reserve(
        self,
        name: str,
        cpus: int,
        node: str = "",
        written: Mapping[str, str | None] | None = None,
        **spec: Any,
    ) -> None:
        """A Reservation of CPUs of its own; with a ``node`` it was ``written`` which."""
        spec = {"allocateOnce": False, **spec}
        document = reservation(name, str(cpus), node, owners=[OF_WEB], pod_labels=LSR, **spec)
        document["metadata"]["annotations"] = dict(written or {})
        self.put("Reservation", name, document)

    def reserved(self, name: str, cpus: int, **spec: Any) -> str:
        """The CPUs that a reservation gets, once the API says that it has them."""
        self.reserve(name, cpus, **spec)
        decision = self.decide()
        assert isinstance(decision, Placement)
        written = placement_annotations(decision)
        self.reserve(name, cpus, decision.node, written, **spec)
        return own_cpus(written)

    def cpu_pod(
        self,
        name: str,
        cpus: int,
        node: str = "",
        written: Mapping[str, str | None] | None = None,
        *,
        app: str = "web",
        reserved: str = "",
        ignores: bool = False,
        spec: str = "",
    ) -> None:
        annotations = {key: one for key, one in (written or {}).items() if one is not None}
        if spec:
            annotations[ANNOTATION_RESOURCE_SPEC] = spec
        if reserved:
            text = json.dumps({"name": reserved, "uid": f"u-{reserved}"})
            annotations[ANNOTATION_RESERVATION_ALLOCATED] = text
        labels = {"app": app, **LSR, **({LABEL_RESERVATION_IGNORED: "true"} if ignores else {})}
        metadata = {"name": name, "namespace": "shop", "uid": f"u-{name}", "labels": labels}
        container = {"name": "c", "resources": {"requests": {"cpu": str(cpus)}}}
        pod_spec = {
            "containers": [container],
            "nodeName": node,
            "priority": 9500,
            "preemptionPolicy": "Never",
        }
        document = {"metadata": {**metadata, "annotations": annotations}, "spec": pod_spec}
        self.put("Pod", f"shop/{name}", document)

    def give(self, name: str, cpus: int, **more: Any) -> str:
        """The CPUs that a pod gets; none if it waits."""
        self.cpu_pod(name, cpus, **more)
        decision = self.decide()
        return own_cpus(placement_annotations(decision)) if isinstance(decision, Placement) else ""


def own_cpus(written: Mapping[str, str | None]) -> str:
    return str(json.loads(written[ANNOTATION_RESOURCE_STATUS] or "{}")["cpuset"])


@pytest.mark.parametrize("policy", ["", "Aligned", "Restricted"])
def test_owners_get_the_cpus_of_their_reservation_and_others_do_not(policy: str) -> None:
    cluster = CPUCluster("n1")
    assert cluster.reserved("r", 4, allocatePolicy=policy) == "0-3"
    assert cluster.give("other", 2, app="db") == "4-5"
    assert cluster.give("a", 2) == "0-1"
    assert cluster.give("b", 2) == "2-3"
    assert cluster.give("c", 4) == ""
    assert cluster.give("d", 2) == "6-7"


@pytest.mark.parametrize(("policy", "expected"), [("Aligned", "0-3,6-7"), ("Restricted", "")])
def test_a_pod_that_needs_more_gets_the_rest_of_the_node_unless_it_is_restricted(
    policy: str, expected: str
) -> None:
    cluster = CPUCluster("n1")
    cluster.reserved("r", 4, allocatePolicy=policy)
    cluster.give("other", 2, app="db")
    assert cluster.give("a", 6) == expected


def test_cpus_of_a_reservation_for_one_pod_are_free_once_it_has_some() -> None:
    cluster = CPUCluster("n1")
    cluster.reserved("r", 6, allocateOnce=True)
    assert cluster.give("a", 2) == "0-1"
    assert cluster.give("other", 6, app="db") == "2-7"


def test_pods_that_ignore_reservations_get_any_cpus() -> None:
    cluster = CPUCluster("n1")
    cluster.reserved("r", 6)
    assert cluster.give("a", 8, ignores=True) == "0-7"


def test_numa_nodes_are_kept_too() -> None:
    cluster = CPUCluster("n1", policy="SingleNUMANode")
    assert cluster.reserved("r", 4) == "0-3"
    assert cluster.give("other", 2, app="db") == "4-5"
    assert cluster.give("a", 4) == "0-3"
    assert cluster.give("b", 4) == ""
    assert cluster.give("c", 2) == "6-7"


def test_reserved_cpus_come_first() -> None:
    cluster = CPUCluster("n1")
    cluster.reserve("r", 4, "n1", status_of("4-7"))
    assert cluster.give("a", 2) == "4-5"


@pytest.mark.parametrize(
    ("policy", "expected"), [("Aligned", ("0,2", "r")), ("Restricted", ("2-3", ""))]
)
def test_cpus_that_a_numa_node_adds_to_the_reserved_ones(
    policy: str, expected: tuple[str, str]
) -> None:
    cluster = CPUCluster("n1", policy="SingleNUMANode")
    cluster.reserve("r", 2, "n1", status_of("0,4"), allocatePolicy=policy)
    cluster.cpu_pod("a", 2)
    decision = cluster.decide()
    assert isinstance(decision, Placement)
    assert (own_cpus(placement_annotations(decision)), allocated(decision)) == expected


def test_cpus_of_a_core_that_two_reservations_have_are_no_full_core() -> None:
    cluster = CPUCluster("n1")
    cluster.cpu_pod("busy", 3, "n1", status_of("3,5,7"), app="db")
    cluster.reserve("r", 1, "n1", status_of("0"))
    cluster.reserve("s", 1, "n1", status_of("1"))
    assert cluster.give("a", 2, spec=REQUIRED) == ""
    waits = Refusal(cluster.scheduler.queue.pods["shop/a"], "")
    assert "not enough cpus" in cluster.message(waits)
    cluster.pod("any", "100m", "n1", app="db")  # the node is asked about anew, by an explanation
    assert "not enough cpus" in cluster.message(waits)
    assert cluster.give("b", 2, spec=REQUIRED, ignores=True) == "0-1"


def status_of(cpus: str) -> dict[str, str | None]:
    return {ANNOTATION_RESOURCE_STATUS: json.dumps({"cpuset": cpus})}


@given(st.integers(0, 1 << 32), st.sampled_from(["", "BestEffort", "SingleNUMANode"]))
def test_no_cpu_is_promised_twice(seed: int, policy: str) -> None:
    rng = Random(seed)
    cluster = CPUCluster("n1", "n2", **({"policy": policy} if policy else {}))
    scheduler, nodes = cluster.scheduler, cluster.scheduler.nodes
    check = SelfCheck(nodes, scheduler.placed)
    placed: dict[str, tuple[str, frozenset[int]]] = {}
    specs: dict[str, tuple[int, dict[str, Any]]] = {}
    for turn in range(25):
        match rng.choice(["pod", "pod", "pod", "end", "reservation", "gone"]):
            case "pod":
                spec = rng.choice(["", "", REQUIRED])
                app = rng.choice(["web", "web", "db"])
                cluster.cpu_pod(f"p{turn}", rng.choice([1, 2, 2, 4]), app=app, spec=spec)
            case "end" if placed:
                name = rng.choice(sorted(placed))
                del placed[name]
                cluster.kinds["Pod"].remove(f"shop/{name}")
            case "reservation" if len(specs) < 3:
                name = f"r{turn}"
                allocation = rng.choice(["Aligned", "Restricted"])
                more = {"allocatePolicy": allocation, "allocateOnce": rng.random() < 0.4}
                specs[name] = rng.choice([1, 2, 4]), more
                cluster.reserve(name, specs[name][0], **more)
            case "gone" if specs:
                name = rng.choice(sorted(specs))
                del specs[name]
                cluster.kinds["Reservation"].remove(name)
        while (decision := scheduler.decide(0.0)) is not None:
            if isinstance(decision, Refusal):
                assert not decision.defect
                continue
            assert isinstance(decision, Placement)
            namespace, _, name = decision.pod.key.partition("/")
            written = placement_annotations(decision)
            if rng.random() < 0.2:
                scheduler.forget(decision.pod, 0.0)
            elif namespace == "Reservation":
                cpus, more = specs[name]
                cluster.reserve(name, cpus, decision.node, written, **more)
            else:
                pod_class = decision.pod.waiting.pod_class
                placed[name] = decision.node, cpuset.parse(own_cpus(written))
                cluster.cpu_pod(
                    name,
                    dict(pod_class.amounts)["cpu"] // 1000,
                    decision.node,
                    written,
                    app=dict(pod_class.labels.labels)["app"],
                    reserved=(used := allocated(decision)),
                )
                if used and specs[used][1]["allocateOnce"]:  # as the controller says
                    cpus, more = specs.pop(used)
                    cluster.reserve(used, cpus, decision.node, phase="Succeeded", **more)
        scheduler.tick(1e9)
        scheduler.wake(1e9)
        for node in ("n1", "n2"):
            row = nodes.row(node)
            assert row is not None
            taken = nodes.numa.allocation(row).taken_cpus()
            own = [cpus for at, cpus in placed.values() if at == node]
            assert sum(map(len, own)) == len(frozenset().union(*own))
            assert frozenset().union(*own) <= taken.keys()
            assert all(one.pods == 1 for one in taken.values())
        for _ in range(ROUND_SECONDS // 60):
            assert check.check_some() == []
