"""GPUs of a reservation are for its owners, and for nobody else."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.device_allocated import PodDevices, read_pod_devices
from koord_model.keys import (
    ANNOTATION_DEVICE_ALLOCATED,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
)
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.plugins.device_share.columns import DeviceColumns
from koord_scheduler.plugins.device_share.plugin import DeviceShare

from tests.support.keeping_cluster import KeepingCluster, Written

AMOUNTS = {"cpu": "96", "memory": "960Gi", "pods": "110", GPU: "400"}
CARD = {GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_MEMORY: "16Gi"}


class GPUCluster(KeepingCluster):
    """Nodes with four GPUs each."""

    def __init__(self, *nodes: str) -> None:
        super().__init__(*nodes, more=(EnabledPlugin(DeviceShare(), weight=100),))

    def node(self, name: str, **labels: str) -> None:
        metadata = {"name": name, "labels": labels}
        self.put("Node", name, {"metadata": metadata, "status": {"allocatable": AMOUNTS}})
        cards = [
            {"type": "gpu", "minor": one, "health": True, "resources": CARD} for one in range(4)
        ]
        self.put("Device", name, {"metadata": {"name": name}, "spec": {"devices": cards}})

    def requests(self, amount: int) -> dict[str, str]:
        return {GPU: str(amount)}


def devices(written: Written | None) -> PodDevices:
    return read_pod_devices((written or {}).get(ANNOTATION_DEVICE_ALLOCATED) or "{}")


def minors(written: Written | None) -> list[int]:
    return [one.minor for one in devices(written)]


def parts_of(*cards: int, per_cent: int = 50) -> dict[str, str | None]:
    """What is written for so much of each of these."""
    amounts = {GPU_CORE: str(per_cent), GPU_MEMORY_RATIO: str(per_cent)}
    resources = {**amounts, GPU_MEMORY: str((16 << 30) * per_cent // 100)}
    found = [{"minor": one, "resources": resources} for one in cards]
    return {ANNOTATION_DEVICE_ALLOCATED: json.dumps({"gpu": found})}


@pytest.mark.parametrize("policy", ["", "Aligned", "Restricted"])
def test_owners_get_the_gpus_of_their_reservation_and_others_do_not(policy: str) -> None:
    cluster = GPUCluster("n1")
    assert minors(cluster.reserved("r", 200, allocatePolicy=policy)) == [0, 1]
    assert minors(cluster.give("other", 100, app="db")) == [2]
    assert minors(cluster.give("a", 100)) == [0]
    assert minors(cluster.give("b", 100)) == [1]
    assert cluster.give("c", 200) is None
    assert minors(cluster.give("d", 100)) == [3]


@pytest.mark.parametrize(("policy", "expected"), [("Aligned", [0, 1, 2]), ("Restricted", [])])
def test_a_pod_that_needs_more_gets_the_rest_of_the_node_unless_it_is_restricted(
    policy: str, expected: list[int]
) -> None:
    cluster = GPUCluster("n1")
    cluster.reserved("r", 200, allocatePolicy=policy)
    assert minors(cluster.give("a", 300)) == expected


def test_gpus_of_a_reservation_for_one_pod_are_free_once_it_has_some() -> None:
    cluster = GPUCluster("n1")
    cluster.reserved("r", 300, allocateOnce=True)
    assert minors(cluster.give("a", 100)) == [0]
    assert minors(cluster.give("other", 300, app="db")) == [1, 2, 3]


def test_parts_of_reserved_cards_that_do_not_add_up_are_no_whole_card() -> None:
    cluster = GPUCluster("n1")
    for one in range(4):
        cluster.ask(f"busy{one}", 50, "n1", parts_of(one), app="db")
    cluster.reserve("r", 100, "n1", parts_of(0, 1))
    assert cluster.give("a", 100) is None
    assert "Insufficient" in cluster.why("a")
    assert minors(cluster.give("b", 50)) == [0]


def test_halves_of_a_card_that_two_reservations_have_are_no_whole_card() -> None:
    cluster = GPUCluster("n1")
    for one in range(1, 4):
        cluster.ask(f"busy{one}", 50, "n1", parts_of(one), app="db")
    cluster.reserve("r", 50, "n1", parts_of(0))
    cluster.reserve("s", 50, "n1", parts_of(0))
    assert cluster.give("a", 100) is None
    assert "1 Insufficient gpu devices" in cluster.why("a")
    cluster.pod("any", "1", "n1", app="db")  # the node is asked about anew, by an explanation
    assert "1 Insufficient gpu devices" in cluster.why("a")
    assert minors(cluster.give("b", 100, ignores=True)) == [0]


def test_pods_that_ignore_reservations_get_any_gpu() -> None:
    cluster = GPUCluster("n1")
    cluster.reserved("r", 300)
    assert minors(cluster.give("a", 400, ignores=True)) == [0, 1, 2, 3]


def test_without_its_binding_a_reservation_has_no_gpus() -> None:
    cluster = GPUCluster("n1")
    cluster.reserve("r", 400)
    decision = cluster.decide()
    assert isinstance(decision, Placement)
    cluster.scheduler.forget(decision.pod, 0.0)
    cluster.kinds["Reservation"].remove("r")
    assert minors(cluster.give("a", 400, app="db")) == [0, 1, 2, 3]


@given(st.integers(0, 1 << 32))
def test_no_gpu_is_promised_twice(seed: int) -> None:
    cluster = GPUCluster("n1", "n2")
    nodes = cluster.scheduler.nodes
    for placed in cluster.live(Random(seed), [25, 50, 100, 200, 300]):
        for node in ("n1", "n2"):
            row = nodes.row(node)
            assert row is not None
            state = nodes.use(DeviceColumns).state(row)
            assert state is not None
            cores: Counter[int] = Counter()
            for at, written in placed.values():
                for one in devices(written) if at == node else ():
                    cores[one.minor] += dict(one.resources)[GPU_CORE]
            counted = {one.minor: dict(one.resources)[GPU_CORE] for one in state.used}
            assert cores.keys() <= counted.keys()
            assert all(cores[minor] <= amount <= 100 for minor, amount in counted.items())
