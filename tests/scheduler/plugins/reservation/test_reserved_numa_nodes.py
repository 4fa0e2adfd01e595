"""Owners get CPUs, memory and GPUs where their reservation has them, and leave nothing locked."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model import cpuset
from koord_model.keys import (
    ANNOTATION_DEVICE_ALLOCATED,
    ANNOTATION_RESOURCE_STATUS,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
)
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.io.placement_annotations import placement_annotations
from koord_scheduler.plugins.device_share.plugin import DeviceShare
from koord_scheduler.plugins.node_numa_resource.plugin import NodeNUMAResource

from tests.scheduler.plugins.node_numa_resource.test_node_numa_resource import LABEL_POLICY, LSR
from tests.scheduler.plugins.node_numa_resource.test_numa_alignment import CARDS, card, topology
from tests.support.reservations import ReservationCluster, allocated, reservation

POLICIES = ["Restricted", "Aligned"]
NUMA_POLICIES = ["SingleNUMANode", "Restricted", "BestEffort"]
Found = tuple[str, list[int], str]
"""The CPUs, the GPUs and the reservation that a pod gets."""


def written(cpus: str = "", zone: int | None = None, *gpus: int) -> dict[str, str]:
    """The annotations of CPUs, of as much of a NUMA node, and of GPUs."""
    parts = {GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_MEMORY: "80Gi"}
    status: dict[str, object] = {"cpuset": cpus} if cpus else {}
    if zone is not None:
        amount = str(len(cpuset.parse(cpus)) if cpus else 2)
        status["numaNodeResources"] = [{"node": zone, "resources": {"cpu": amount}}]
    devices = {"gpu": [{"minor": one, "resources": parts} for one in gpus]}
    found = {ANNOTATION_RESOURCE_STATUS: json.dumps(status)} if status else {}
    return found | ({ANNOTATION_DEVICE_ALLOCATED: json.dumps(devices)} if gpus else {})


class NUMACluster(ReservationCluster):
    """Nodes of two NUMA nodes with four CPUs and two GPUs each."""

    def __init__(self, *nodes: str, policy: str) -> None:
        self._labels = {LABEL_POLICY: policy} if policy else {}
        more = EnabledPlugin(NodeNUMAResource()), EnabledPlugin(DeviceShare())
        super().__init__(*nodes, more=more)

    def node(self, name: str, **labels: str) -> None:
        amounts = {"cpu": "8", "memory": "16Gi", "pods": "110", GPU: "400"}
        amounts |= {GPU_CORE: "400", GPU_MEMORY_RATIO: "400", GPU_MEMORY: "320Gi"}
        metadata = {"name": name, "labels": self._labels}
        self.put("Node", name, {"metadata": metadata, "status": {"allocatable": amounts}})
        self.put("NodeResourceTopology", name, topology(name))
        cards = [card(minor, zone) for zone, minors in CARDS.items() for minor in minors]
        self.put("Device", name, {"metadata": {"name": name}, "spec": {"devices": cards}})

    def keep(
        self, name: str, requests: Mapping[str, str], has: Mapping[str, str], policy: str
    ) -> None:
        """A reservation has this of n1."""
        more = {"allocatePolicy": policy, "allocateOnce": False}
        document = reservation(name, "8", "n1", owners=[OWNERS], pod_labels=LSR, **more)
        [container] = document["spec"]["template"]["spec"]["containers"]
        container["resources"]["requests"] = document["status"]["allocatable"] = dict(requests)
        document["metadata"]["annotations"] = dict(has)
        self.put("Reservation", name, document)

    def taken(self, name: str, has: Mapping[str, str], requests: Mapping[str, str]) -> None:
        self._ask(name, requests, has, app="db", node="n1")

    def give(self, requests: Mapping[str, str], *, affinity: str = "", app: str = "web") -> Found:
        """What a pod gets; why not, if it gets nothing."""
        text = {RESERVATION_AFFINITY: json.dumps({"name": affinity})} if affinity else {}
        self._ask("web", requests, text, app=app)
        decision = self.decide()
        if not isinstance(decision, Placement):
            return self.message(decision), [], ""
        annotations = placement_annotations(decision)
        status = json.loads(annotations.get(ANNOTATION_RESOURCE_STATUS) or "{}")
        devices = json.loads(annotations.get(ANNOTATION_DEVICE_ALLOCATED) or "{}")
        minors = [one["minor"] for one in devices.get("gpu", [])]
        return status.get("cpuset", ""), minors, allocated(decision)

    def _ask(
        self,
        name: str,
        requests: Mapping[str, str],
        annotations: Mapping[str, str],
        *,
        app: str,
        node: str = "",
    ) -> None:
        labels = {"app": app, **LSR}
        metadata = {"name": name, "namespace": "shop", "uid": name, "labels": labels}
        container = {"name": "c", "resources": {"requests": dict(requests)}}
        spec = {"containers": [container], "priority": 9500, "preemptionPolicy": "Never"}
        document = {
            "metadata": {**metadata, "annotations": dict(annotations)},
            "spec": {**spec, "nodeName": node},
        }
        self.put("Pod", f"shop/{name}", document)


RESERVATION_AFFINITY = "scheduling.koordinator.sh/reservation-affinity"
OWNERS = {"labelSelector": {"matchLabels": {"app": "web"}}}
TWO = {"cpu": "2"}
WITH_GPU = {"cpu": "2", GPU: "100"}


@pytest.mark.parametrize("numa", NUMA_POLICIES)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("affinity", ["r", ""])
@pytest.mark.parametrize("zone", [0, 1])
def test_owners_get_the_cpus_of_the_reserved_numa_node(
    numa: str, policy: str, affinity: str, zone: int
) -> None:
    cluster, cpus = NUMACluster("n1", policy=numa), f"{4 * zone}-{4 * zone + 1}"
    cluster.keep("r", TWO, written(cpus, zone), policy)
    assert cluster.give(TWO, affinity=affinity) == (cpus, [], "r")


@pytest.mark.parametrize("numa", [*NUMA_POLICIES, ""])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("is_full", [False, True])
def test_owners_get_the_reserved_gpu_with_cpus_near_it(
    *, numa: str, policy: str, is_full: bool
) -> None:
    cluster = NUMACluster("n1", policy=numa)
    has = written("6-7", 1, 3) if numa else written("6-7", None, 3)
    cluster.keep("r", WITH_GPU, has, policy)
    if is_full:
        cluster.taken("busy", written("", None, 0, 1, 2), {GPU: "300"})
    assert cluster.give(WITH_GPU) == ("6-7", [3], "r")


@pytest.mark.parametrize("numa", NUMA_POLICIES)
def test_a_gpu_alone_that_is_reserved_decides_where_the_cpus_are(numa: str) -> None:
    cluster = NUMACluster("n1", policy=numa)
    cluster.keep("r", {GPU: "100"}, written("", None, 3), "Restricted")
    cluster.taken("busy", written("", None, 0, 1, 2), {GPU: "300"})
    assert cluster.give(WITH_GPU) == ("4-5", [3], "r")


@pytest.mark.parametrize("numa", NUMA_POLICIES)
@pytest.mark.parametrize(("named", "minor"), [("r", 0), ("s", 3)])
def test_of_several_reservations_the_named_one_decides(numa: str, named: str, minor: int) -> None:
    cluster = NUMACluster("n1", policy=numa)
    for name, card_of in (("r", 0), ("s", 3)):
        cluster.keep(name, {GPU: "100"}, written("", None, card_of), "Restricted")
    assert cluster.give(WITH_GPU, affinity=named)[1:] == ([minor], named)


def test_an_owner_that_needs_more_cpus_gets_the_rest_from_the_same_numa_node() -> None:
    cluster = NUMACluster("n1", policy="SingleNUMANode")
    cluster.keep("r", TWO, written("6-7", 1), "Aligned")
    assert cluster.give({"cpu": "3"}) == ("4,6-7", [], "r")


def test_an_owner_that_fits_nowhere_near_gets_what_there_is() -> None:
    cluster = NUMACluster("n1", policy="SingleNUMANode")
    cluster.taken("busy", written("4-5", 1), TWO)
    cluster.keep("r", TWO, written("6-7", 1), "Aligned")
    assert cluster.give({"cpu": "3"}) == ("0-2", [], "r")


@pytest.mark.parametrize(("taken", "expected"), [((), {2, 3}), ((2,), {0, 3}), ((0, 2), {1, 3})])
def test_an_owner_that_needs_more_gpus_gets_the_reserved_one_too(
    taken: tuple[int, ...], expected: set[int]
) -> None:
    cluster = NUMACluster("n1", policy="")
    if taken:
        cluster.taken("busy", written("", None, *taken), {GPU: str(100 * len(taken))})
    cluster.keep("r", {GPU: "100"}, written("", None, 3), "Aligned")
    _, minors, used = cluster.give({"cpu": "2", GPU: "200"})
    assert (set(minors), used) == (expected, "r")


@given(st.data())
def test_an_owner_of_the_same_size_always_fits(data: st.DataObject) -> None:
    """Wherever the scheduler puts a reservation, and whatever comes and goes beside it."""
    numa = data.draw(st.sampled_from([*NUMA_POLICIES, ""]))
    cpus, gpus = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 2))
    requests = {"cpu": str(cpus), **({GPU: str(100 * gpus)} if gpus else {})}
    busy = data.draw(st.lists(st.integers(0, 1), max_size=2, unique=True))
    cluster = NUMACluster("n1", policy=numa)
    for zone in busy:
        has = written(f"{4 * zone}", zone, CARDS[zone][0])
        cluster.taken(f"busy{zone}", has, {"cpu": "1", GPU: "100"})
    policy = data.draw(st.sampled_from(POLICIES))
    document = reservation("r", "8", owners=[OWNERS], pod_labels=LSR, allocatePolicy=policy)
    [container] = document["spec"]["template"]["spec"]["containers"]
    container["resources"]["requests"] = requests
    cluster.put("Reservation", "r", document)
    decision = cluster.decide()
    if not isinstance(decision, Placement):
        return
    has = {key: one for key, one in placement_annotations(decision).items() if one is not None}
    cluster.keep("r", requests, has, policy)
    for zone in busy:
        if data.draw(st.booleans()):
            cluster.kinds["Pod"].remove(f"shop/busy{zone}")
    own, minors, used = cluster.give(requests, affinity="r")
    reserved_cpus = json.loads(has.get(ANNOTATION_RESOURCE_STATUS, "{}")).get("cpuset", "")
    reserved = json.loads(has.get(ANNOTATION_DEVICE_ALLOCATED, "{}")).get("gpu", [])
    assert (own, minors, used) == (reserved_cpus, [one["minor"] for one in reserved], "r")
