"""GPUs of a reservation are for its owners, and for nobody else."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.keys import (
    ANNOTATION_DEVICE_ALLOCATED,
    ANNOTATION_RESERVATION_ALLOCATED,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    LABEL_RESERVATION_IGNORED,
)
from koord_scheduler.devices.pod_devices import PodDevices, read_pod_devices
from koord_scheduler.framework.decisions import Placement, Refusal
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.framework.self_check import ROUND_SECONDS, SelfCheck
from koord_scheduler.placement_annotations import placement_annotations
from koord_scheduler.plugins.device_share import DeviceShare

from tests.support.reservations import OF_WEB, ReservationCluster, allocated, reservation

AMOUNTS = {"cpu": "96", "memory": "960Gi", "pods": "110", GPU: "400"}
CARD = {GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_MEMORY: "16Gi"}


class GPUCluster(ReservationCluster):
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

    def reserve(
        self,
        name: str,
        per_cent: int,
        node: str = "",
        *,
        devices: str = "",
        phase: str = "",
        policy: str = "Aligned",
        once: bool = False,
    ) -> None:
        """A Reservation of so much of GPUs; with a ``node`` it has got these ``devices``."""
        document = reservation(
            name,
            "9",
            node,
            owners=[OF_WEB],
            phase=phase,
            allocatePolicy=policy,
            allocateOnce=once,
        )
        [container] = document["spec"]["template"]["spec"]["containers"]
        container["resources"]["requests"][GPU] = str(per_cent)
        if node:
            document["status"]["allocatable"][GPU] = str(per_cent)
        if devices:
            document["metadata"]["annotations"] = {ANNOTATION_DEVICE_ALLOCATED: devices}
        self.put("Reservation", name, document)

    def reserved(self, name: str, per_cent: int, **more: Any) -> PodDevices:
        """What a reservation gets, once the API says that it has it."""
        self.reserve(name, per_cent, **more)
        decision = self.decide()
        assert isinstance(decision, Placement)
        text = given_devices(decision)
        self.reserve(name, per_cent, decision.node, devices=text, **more)
        return read_pod_devices(text)

    def gpu_pod(
        self,
        name: str,
        per_cent: int,
        node: str = "",
        *,
        app: str = "web",
        devices: str = "",
        reservation: str = "",
        ignores: bool = False,
    ) -> None:
        annotations = {ANNOTATION_DEVICE_ALLOCATED: devices} if devices else {}
        if reservation:
            written = {"name": reservation, "uid": f"u-{reservation}"}
            annotations[ANNOTATION_RESERVATION_ALLOCATED] = json.dumps(written)
        labels = {"app": app} | ({LABEL_RESERVATION_IGNORED: "true"} if ignores else {})
        metadata = {"name": name, "namespace": "shop", "uid": f"u-{name}", "labels": labels}
        requests = {"cpu": "1", GPU: str(per_cent)}
        container = {"name": "c", "resources": {"requests": requests}}
        spec = {"containers": [container], "nodeName": node, "preemptionPolicy": "Never"}
        document = {"metadata": {**metadata, "annotations": annotations}, "spec": spec}
        self.put("Pod", f"shop/{name}", document)

    def give(self, name: str, per_cent: int, **more: Any) -> list[int]:
        """The GPUs that a pod gets; none if it waits."""
        self.gpu_pod(name, per_cent, **more)
        decision = self.decide()
        if not isinstance(decision, Placement):
            return []
        return [one.minor for one in read_pod_devices(given_devices(decision))]

    def why(self, name: str) -> str:
        pod = self.scheduler.queue.pods[f"shop/{name}"]
        return self.message(Refusal(pod, ""))


def given_devices(placement: Placement) -> str:
    return placement_annotations(placement)[ANNOTATION_DEVICE_ALLOCATED] or ""


def minors(devices: PodDevices) -> list[int]:
    return [one.minor for one in devices]


@pytest.mark.parametrize("policy", ["", "Aligned", "Restricted"])
def test_owners_get_the_gpus_of_their_reservation_and_others_do_not(policy: str) -> None:
    cluster = GPUCluster("n1")
    assert minors(cluster.reserved("r", 200, policy=policy)) == [0, 1]
    assert cluster.give("other", 100, app="db") == [2]
    assert cluster.give("a", 100) == [0]
    assert cluster.give("b", 100) == [1]
    assert cluster.give("c", 200) == []
    assert cluster.give("d", 100) == [3]


@pytest.mark.parametrize(("policy", "expected"), [("Aligned", [0, 1, 2]), ("Restricted", [])])
def test_a_pod_that_needs_more_gets_the_rest_of_the_node_unless_it_is_restricted(
    policy: str, expected: list[int]
) -> None:
    cluster = GPUCluster("n1")
    cluster.reserved("r", 200, policy=policy)
    assert cluster.give("a", 300) == expected


def test_gpus_of_a_reservation_for_one_pod_are_free_once_it_has_some() -> None:
    cluster = GPUCluster("n1")
    cluster.reserved("r", 300, once=True)
    assert cluster.give("a", 100) == [0]
    assert cluster.give("other", 300, app="db") == [1, 2, 3]


def test_parts_of_reserved_cards_that_do_not_add_up_are_no_whole_card() -> None:
    cluster = GPUCluster("n1")
    for one in range(4):
        text = json.dumps({"gpu": [{"minor": one, "resources": parts(50)}]})
        cluster.gpu_pod(f"busy{one}", 50, "n1", app="db", devices=text)
    half = {"gpu": [{"minor": one, "resources": parts(50)} for one in range(2)]}
    cluster.reserve("r", 100, "n1", devices=json.dumps(half))
    assert cluster.give("a", 100) == []
    assert "Insufficient" in cluster.why("a")
    assert cluster.give("b", 50) == [0]


def test_halves_of_a_card_that_two_reservations_have_are_no_whole_card() -> None:
    cluster = GPUCluster("n1")
    for one in range(1, 4):
        text = json.dumps({"gpu": [{"minor": one, "resources": parts(50)}]})
        cluster.gpu_pod(f"busy{one}", 50, "n1", app="db", devices=text)
    half = json.dumps({"gpu": [{"minor": 0, "resources": parts(50)}]})
    cluster.reserve("r", 50, "n1", devices=half)
    cluster.reserve("s", 50, "n1", devices=half)
    assert cluster.give("a", 100) == []
    assert "1 Insufficient gpu devices" in cluster.why("a")
    cluster.pod("any", "1", "n1", app="db")  # the node is asked about anew, by an explanation
    assert "1 Insufficient gpu devices" in cluster.why("a")
    assert cluster.give("b", 100, ignores=True) == [0]


def parts(per_cent: int) -> dict[str, str]:
    amounts = {GPU_CORE: str(per_cent), GPU_MEMORY_RATIO: str(per_cent)}
    return {**amounts, GPU_MEMORY: str((16 << 30) * per_cent // 100)}


def test_pods_that_ignore_reservations_get_any_gpu() -> None:
    cluster = GPUCluster("n1")
    cluster.reserved("r", 300)
    assert cluster.give("a", 400, ignores=True) == [0, 1, 2, 3]


def test_without_its_binding_a_reservation_has_no_gpus() -> None:
    cluster = GPUCluster("n1")
    cluster.reserve("r", 400)
    decision = cluster.decide()
    assert isinstance(decision, Placement)
    cluster.scheduler.forget(decision.pod, 0.0)
    cluster.kinds["Reservation"].remove("r")
    assert cluster.give("a", 400, app="db") == [0, 1, 2, 3]


@given(st.integers(0, 1 << 32))
def test_no_gpu_is_promised_twice(seed: int) -> None:
    rng, cluster = Random(seed), GPUCluster("n1", "n2")
    scheduler, nodes = cluster.scheduler, cluster.scheduler.nodes
    check = SelfCheck(nodes, scheduler.placed)
    placed: dict[str, tuple[str, PodDevices]] = {}
    specs: dict[str, tuple[int, str, bool]] = {}

    def put(name: str, node: str = "", devices: str = "", phase: str = "") -> None:
        per_cent, policy, once = specs[name]
        cluster.reserve(
            name, per_cent, node, devices=devices, phase=phase, policy=policy, once=once
        )

    for turn in range(25):
        match rng.choice(["pod", "pod", "pod", "end", "reservation", "gone"]):
            case "pod":
                app = rng.choice(["web", "web", "db"])
                cluster.gpu_pod(f"p{turn}", rng.choice([25, 50, 100, 200, 300]), app=app)
            case "end" if placed:
                name = rng.choice(sorted(placed))
                del placed[name]
                cluster.kinds["Pod"].remove(f"shop/{name}")
            case "reservation" if len(specs) < 3:
                name = f"r{turn}"
                specs[name] = (
                    rng.choice([50, 100, 200, 300]),
                    rng.choice(["Aligned", "Restricted"]),
                    rng.random() < 0.4,
                )
                put(name)
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
            devices = given_devices(decision)
            if rng.random() < 0.2:
                scheduler.forget(decision.pod, 0.0)
            elif namespace == "Reservation":
                put(name, decision.node, devices)
            else:
                placed[name] = decision.node, read_pod_devices(devices)
                app = decision.pod.waiting.pod_class.labels.labels
                cluster.gpu_pod(
                    name,
                    dict(decision.pod.waiting.pod_class.amounts)[GPU],
                    decision.node,
                    app=dict(app)["app"],
                    devices=devices,
                    reservation=(used := allocated(decision)),
                )
                if used and specs[used][2]:  # as the controller says
                    put(used, decision.node, phase="Succeeded")
                    del specs[used]
        scheduler.tick(1e9)
        scheduler.wake(1e9)
        for node in ("n1", "n2"):
            row = nodes.row(node)
            assert row is not None
            state = nodes.node_devices.state(row)
            assert state is not None
            cores: Counter[int] = Counter()
            for at, devices_of in placed.values():
                for one in devices_of if at == node else ():
                    cores[one.minor] += dict(one.resources)[GPU_CORE]
            for one in state.used:
                assert cores[one.minor] <= dict(one.resources)[GPU_CORE] <= 100
            assert all(minor in {one.minor for one in state.used} for minor in cores)
        for _ in range(ROUND_SECONDS // 60):
            assert check.check_some() == []
