"""CPUs and NUMA nodes of a reservation are for its owners, and for nobody else."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model import cpuset
from koord_model.keys import ANNOTATION_RESOURCE_SPEC, ANNOTATION_RESOURCE_STATUS
from koord_scheduler.framework.decisions import Placement, PreemptionPlan, Refusal
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.io.placement_annotations import placement_annotations
from koord_scheduler.plugins.node_numa_resource.columns import NUMAColumns
from koord_scheduler.plugins.node_numa_resource.plugin import NodeNUMAResource

from tests.scheduler.plugins.node_numa_resource.test_node_numa_resource import (
    LABEL_POLICY,
    LSR,
    topology,
)
from tests.support.keeping_cluster import KeepingCluster, Written
from tests.support.reservations import allocated

FULL_CORES = {ANNOTATION_RESOURCE_SPEC: json.dumps({"requiredCPUBindPolicy": "FullPCPUs"})}


class CPUCluster(KeepingCluster):
    """Nodes of two NUMA nodes with two cores of two CPUs each."""

    labels = LSR

    def __init__(self, *nodes: str, policy: str = "") -> None:
        self._node_labels = {LABEL_POLICY: policy} if policy else {}
        super().__init__(*nodes, more=(EnabledPlugin(NodeNUMAResource(), weight=100),))

    def node(self, name: str, **labels: str) -> None:
        amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        metadata = {"name": name, "labels": self._node_labels}
        self.put("Node", name, {"metadata": metadata, "status": {"allocatable": amounts}})
        self.put("NodeResourceTopology", name, topology(name))

    def requests(self, amount: int) -> dict[str, str]:
        return {"cpu": str(amount)}


def own_cpus(written: Written | None) -> str:
    text = (written or {}).get(ANNOTATION_RESOURCE_STATUS) or "{}"
    return str(json.loads(text).get("cpuset", ""))


def status_of(cpus: str) -> Written:
    """What is written for these CPUs."""
    return {ANNOTATION_RESOURCE_STATUS: json.dumps({"cpuset": cpus})}


@pytest.mark.parametrize("policy", ["", "Aligned", "Restricted"])
def test_owners_get_the_cpus_of_their_reservation_and_others_do_not(policy: str) -> None:
    cluster = CPUCluster("n1")
    assert own_cpus(cluster.reserved("r", 4, allocatePolicy=policy)) == "0-3"
    assert own_cpus(cluster.give("other", 2, app="db")) == "4-5"
    assert own_cpus(cluster.give("a", 2)) == "0-1"
    assert own_cpus(cluster.give("b", 2)) == "2-3"
    assert cluster.give("c", 4) is None
    assert own_cpus(cluster.give("d", 2)) == "6-7"


@pytest.mark.parametrize(("policy", "expected"), [("Aligned", "0-3,6-7"), ("Restricted", "")])
def test_a_pod_that_needs_more_gets_the_rest_of_the_node_unless_it_is_restricted(
    policy: str, expected: str
) -> None:
    cluster = CPUCluster("n1")
    cluster.reserved("r", 4, allocatePolicy=policy)
    cluster.give("other", 2, app="db")
    assert own_cpus(cluster.give("a", 6)) == expected


def test_cpus_are_not_taken_over_with_pods() -> None:
    cluster = CPUCluster("n1")
    cluster.reserve("r", 4, preAllocation=True, allocatePolicy="Restricted")
    decision = cluster.decide()
    assert isinstance(decision, Refusal)
    assert "CPUs, NUMA nodes or devices of its own" in cluster.message(decision)


@pytest.mark.parametrize("policy", ["", "BestEffort", "Restricted", "SingleNUMANode"])
def test_a_reservation_takes_pods_over_on_a_full_node_and_has_no_numa_node(policy: str) -> None:
    cluster = CPUCluster("n1", policy=policy)
    for name in "ab":
        cluster.ask(name, 4, "n1", cluster.give(name, 4))
    cluster.reservation("r", "4", preAllocation=True, allocatePolicy="Restricted")
    decision = cluster.decide()
    assert isinstance(decision, Placement)
    assert ANNOTATION_RESOURCE_STATUS not in placement_annotations(decision)


def test_cpus_of_a_reservation_for_one_pod_are_free_once_it_has_some() -> None:
    cluster = CPUCluster("n1")
    cluster.reserved("r", 6, allocateOnce=True)
    assert own_cpus(cluster.give("a", 2)) == "0-1"
    assert own_cpus(cluster.give("other", 6, app="db")) == "2-7"


@pytest.mark.parametrize(("app", "expected"), [("web", "4-5"), ("db", "")])
def test_cpus_of_a_victim_go_back_to_its_reservation(app: str, expected: str) -> None:
    cluster = CPUCluster("n1")
    cluster.reserved("r", 6, allocatePolicy="Restricted")
    for name, amount in (("a", 4), ("b", 2)):
        written = cluster.give(name, amount)
        cluster.ask(name, amount, "n1", written, reserved="r")
    cluster.give("rest", 2, app="db", priority=9700)
    cluster.ask("x", 2, app=app, priority=9600)
    decision = cluster.decide()
    victims = decision.preemption.victims if isinstance(decision, PreemptionPlan) else ()
    assert [one.key for one in victims] == (["shop/b"] if expected else [])
    if not expected:
        return
    cluster.kinds["Pod"].remove("shop/b")
    cluster.scheduler.wake(1.0)
    again = cluster.decide()
    assert isinstance(again, Placement)
    assert own_cpus(placement_annotations(again)) == expected


def test_pods_that_ignore_reservations_get_any_cpus() -> None:
    cluster = CPUCluster("n1")
    cluster.reserved("r", 6)
    assert own_cpus(cluster.give("a", 8, ignores=True)) == "0-7"


def test_numa_nodes_are_kept_too() -> None:
    cluster = CPUCluster("n1", policy="SingleNUMANode")
    assert own_cpus(cluster.reserved("r", 4)) == "0-3"
    assert own_cpus(cluster.give("other", 2, app="db")) == "4-5"
    assert own_cpus(cluster.give("a", 4)) == "0-3"
    assert cluster.give("b", 4) is None
    assert own_cpus(cluster.give("c", 2)) == "6-7"


def test_reserved_cpus_come_first() -> None:
    cluster = CPUCluster("n1")
    cluster.reserve("r", 4, "n1", status_of("4-7"))
    assert own_cpus(cluster.give("a", 2)) == "4-5"


@pytest.mark.parametrize(
    ("policy", "expected"), [("Aligned", ("0,2", "r")), ("Restricted", ("2-3", ""))]
)
def test_cpus_that_a_numa_node_adds_to_the_reserved_ones(
    policy: str, expected: tuple[str, str]
) -> None:
    cluster = CPUCluster("n1", policy="SingleNUMANode")
    cluster.reserve("r", 2, "n1", status_of("0,4"), allocatePolicy=policy)
    cluster.ask("a", 2)
    decision = cluster.decide()
    assert isinstance(decision, Placement)
    assert (own_cpus(placement_annotations(decision)), allocated(decision)) == expected


def test_cpus_of_a_core_that_two_reservations_have_are_no_full_core() -> None:
    cluster = CPUCluster("n1")
    cluster.ask("busy", 3, "n1", status_of("3,5,7"), app="db")
    cluster.reserve("r", 1, "n1", status_of("0"))
    cluster.reserve("s", 1, "n1", status_of("1"))
    assert cluster.give("a", 2, written=FULL_CORES) is None
    assert "not enough cpus" in cluster.why("a")
    cluster.pod("any", "100m", "n1", app="db")  # the node is asked about anew, by an explanation
    assert "not enough cpus" in cluster.why("a")
    assert own_cpus(cluster.give("b", 2, written=FULL_CORES, ignores=True)) == "0-1"


@given(st.integers(0, 1 << 32), st.sampled_from(["", "BestEffort", "SingleNUMANode"]))
def test_no_cpu_is_promised_twice(seed: int, policy: str) -> None:
    cluster = CPUCluster("n1", "n2", policy=policy)
    nodes = cluster.scheduler.nodes
    for placed in cluster.live(Random(seed), [1, 2, 2, 4], [{}, {}, FULL_CORES]):
        for node in ("n1", "n2"):
            row = nodes.row(node)
            assert row is not None
            taken = nodes.use(NUMAColumns).allocation(row).taken_cpus()
            own = [cpuset.parse(own_cpus(one)) for at, one in placed.values() if at == node]
            assert sum(map(len, own)) == len(frozenset().union(*own))
            assert frozenset().union(*own) <= taken.keys()
            assert all(one.pods == 1 for one in taken.values())
