"""What is recomputed from the API is found where it is wrong, each rule broken once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.chaos_scheduler.audit import at_rest
from tests.chaos_scheduler.cluster_state import ClusterState, Object
from tests.chaos_scheduler.waiting_pods import forgotten

GPU = "koordinator.sh/gpu"
SHARES = ("koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio")


def node(name: str) -> Object:
    amounts = {"cpu": "8", "memory": "1Gi", "pods": "5", GPU: "200"}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"metadata": meta, "status": {"allocatable": amounts}}


def device(name: str) -> Object:
    cards = [
        {"type": "gpu", "minor": minor, "health": True, "resources": dict.fromkeys(SHARES, "100")}
        for minor in range(2)
    ]
    return {"metadata": {"name": name}, "spec": {"devices": cards}}


def topology(name: str) -> Object:
    said = json.dumps({"detail": [{"id": cpu} for cpu in range(8)]})
    return {"metadata": {"name": name, "annotations": {"node.koordinator.sh/cpu-topology": said}}}


def pod(name: str, on: str = "n1", cpu: str = "1", gpu: str = "0", **labels: str) -> Object:
    amounts = {"cpu": cpu, "memory": "64Mi", GPU: gpu}
    spec = {"nodeName": on, "containers": [{"resources": {"requests": amounts}}]}
    meta = {"name": name, "uid": name, "labels": labels, "annotations": {}}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running"}}


def noted(one: Object, key: str, value: Any) -> Object:
    one["metadata"]["annotations"][f"scheduling.koordinator.sh/{key}"] = json.dumps(value)
    return one


def with_card(one: Object, share: int, minor: int = 0) -> Object:
    card = {"minor": minor, "resources": dict.fromkeys(SHARES, str(share))}
    return noted(one, "device-allocated", {"gpu": [card]})


def with_cpus(one: Object, cpus: str) -> Object:
    one["metadata"]["labels"]["koordinator.sh/qosClass"] = "LSR"
    return noted(one, "resource-status", {"cpuset": cpus})


def of_quota(name: str, cpu: str) -> Object:
    return pod(name, cpu=cpu) | {
        "metadata": {
            "name": name,
            "uid": name,
            "labels": {"quota.scheduling.koordinator.sh/name": "child"},
        }
    }


def member(name: str, on: str = "n1") -> Object:
    one = pod(name, on)
    one["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io"] = "gang"
    return one


def distant(name: str, on: str) -> Object:
    """One that keeps away from its like."""
    one = pod(name, on, app="alone")
    selector = {"matchLabels": {"app": "alone"}}
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    one["spec"]["affinity"] = {"podAntiAffinity": rules}
    return one


def owner(name: str, on: str = "n1", app: str = "web", cpu: str = "1", gpu: str = "0") -> Object:
    return noted(pod(name, on, cpu, gpu, app=app), "reservation-allocated", {"uid": "r"})


def reservation(cpu: str = "0", gpu: str = "0", said: str = "0", **owners: str) -> Object:
    template = {"metadata": {"labels": {}}, **pod("", "", cpu, gpu)}
    template["spec"]["containers"][0]["resources"]["requests"].pop("memory")
    rules = [{"labelSelector": {"matchLabels": {"app": "web"}}}]
    status = {
        "phase": "Available",
        "nodeName": "n1",
        "allocated": {"cpu": said, GPU: gpu if owners else "0"},
        "currentOwners": [{"uid": one} for one in owners],
    }
    meta = {"name": "r", "uid": "r", "annotations": {}}
    spec = {"template": template, "owners": rules, "allocatePolicy": "Restricted"}
    return {"metadata": meta, "spec": spec, "status": status}


def lsr_reservation(cpus: str) -> Object:
    one = reservation("2", said="0")
    one["spec"]["template"]["metadata"]["labels"]["koordinator.sh/qosClass"] = "LSR"
    return noted(one, "resource-status", {"cpuset": cpus})


def quota(name: str, said: str, **labels: str) -> Object:
    meta = {"name": name, "labels": labels}
    return {"metadata": meta, "spec": {"max": {"cpu": "4"}}, "status": {"used": {"cpu": said}}}


def state(pods: list[Object], **more: list[Object]) -> ClusterState:
    names = ("n1", "n2")
    return ClusterState(
        pods,
        nodes=[node(one) for one in names],
        devices=[device("n1")],
        topologies=[topology("n1")],
        **more,
    )


def quotas(said: str) -> list[Object]:
    parent = {"quota.scheduling.koordinator.sh/parent": "parent"}
    return [
        quota("parent", said),
        quota("child", said) | {"metadata": {"name": "child", "labels": parent}},
    ]


def gang(least: int) -> list[Object]:
    return [{"metadata": {"name": "gang"}, "spec": {"minMember": least}}]


def ended(one: Object) -> Object:
    return {**one, "status": {"phase": "Succeeded"}}


RIGHT: dict[str, Callable[[], ClusterState]] = {
    "room": lambda: state([pod("a", cpu="4"), pod("b", cpu="4000m"), ended(pod("c"))]),
    "reserved": lambda: state(
        [pod("a", cpu="6"), owner("b")], reservations=[reservation("2", said="1", b="")]
    ),
    "cards": lambda: state([with_card(pod("a", gpu="50"), 50), with_card(pod("b", gpu="50"), 50)]),
    "a reserved card": lambda: state(
        [with_card(owner("b", gpu="100"), 100)],
        reservations=[with_card(reservation("1", "100", "1", b=""), 100)],
    ),
    "CPUs": lambda: state(
        [with_cpus(pod("a", cpu="3"), "0-1,4"), with_cpus(pod("b", cpu="2"), "2-3")]
    ),
    "reserved CPUs": lambda: state(
        [with_cpus(pod("a", cpu="2"), "2-3")], reservations=[lsr_reservation("0-1")]
    ),
    "apart": lambda: state([distant("a", "n1"), distant("b", "n2"), pod("c", app="web")]),
    "quota": lambda: state([of_quota("a", "4")], quotas=quotas("4")),
    "gang": lambda: state([member("a"), member("b")], groups=gang(2)),
    "a gang waits": lambda: state([member("a", ""), member("b", "")], groups=gang(2)),
}

WRONG: dict[str, tuple[Callable[[], ClusterState], str]] = {
    "CPU": (lambda: state([pod("a", cpu="8"), pod("b", cpu="1m")]), "node n1: 8.001 of 8 cpu"),
    "pods": (lambda: state([pod(f"p{one}") for one in range(6)]), "node n1: 6 of 5 pods"),
    "memory": (
        lambda: ClusterState(
            [pod("a")], [node("n1") | {"status": {"allocatable": {"cpu": "8", "pods": "5"}}}]
        ),
        f"node n1: {64 << 20:g} of 0 memory",
    ),
    "what is reserved": (
        lambda: state(
            [pod("a", cpu="7"), owner("b")], reservations=[reservation("2", said="1", b="")]
        ),
        "node n1: 9 of 8 cpu",
    ),
    "a card of more than 100": (
        lambda: state([with_card(pod("a", gpu="50"), 50), with_card(pod("b", gpu="51"), 51)]),
        f"card 0 of n1 gives 101 of 100 {SHARES[0]}",
    ),
    "a card there is not": (
        lambda: state([with_card(pod("a", gpu="50"), 50, minor=7)]),
        f"card 7 of n1 gives 50 of 0 {SHARES[0]}",
    ),
    "a reserved card of another": (
        lambda: state(
            [with_card(pod("a", gpu="50"), 50)],
            reservations=[with_card(reservation("1", "100"), 100)],
        ),
        f"card 0 of n1 gives 150 of 100 {SHARES[0]}",
    ),
    "no card": (
        lambda: state([pod("a", gpu="50")]),
        f"pod a has 0 of {SHARES[0]}, and asks for 50",
    ),
    "a CPU of two": (
        lambda: state([with_cpus(pod("a", cpu="3"), "0-2"), with_cpus(pod("b", cpu="2"), "2-3")]),
        "CPU 2 of n1 is of pod a and of pod b",
    ),
    "a reserved CPU of another": (
        lambda: state([with_cpus(pod("a", cpu="2"), "1-2")], reservations=[lsr_reservation("0-1")]),
        "CPU 1 of n1 is of pod a and of reservation r",
    ),
    "a CPU there is not": (
        lambda: state([with_cpus(pod("a"), "8")]),
        "n1 has no CPU 8, which pod a has",
    ),
    "too few CPUs": (lambda: state([with_cpus(pod("a", cpu="2"), "0")]), "pod a has 1 CPUs for 2"),
    "together": (
        lambda: state([distant("a", "n1"), pod("b", app="alone")]),
        "pod a on n1 keeps away from b",
    ),
    "a quota's max": (
        lambda: state([of_quota("a", "5")], quotas=quotas("5")),
        "quota child: 5 of 4 cpu",
    ),
    "its parent's": (
        lambda: state([of_quota("a", "3"), of_quota("b", "3")], quotas=quotas("6")),
        "quota parent: 6 of 4 cpu",
    ),
    "a quota's report": (
        lambda: state([of_quota("a", "3")], quotas=quotas("2")),
        "quota child says 2 of 3 cpu",
    ),
    "a gang in part": (
        lambda: state([member("a"), member("b", "")], groups=gang(2)),
        "gang gang: 1 of 2 run",
    ),
    "another node's reservation": (
        lambda: state([owner("a", "n2")], reservations=[reservation("2", said="1", a="")]),
        "pod a uses reservation r of another node",
    ),
    "another one's": (
        lambda: state([owner("a", app="db")], reservations=[reservation("2", said="1", a="")]),
        "pod a uses reservation r, which is not for it",
    ),
    "more than is reserved": (
        lambda: state([owner("a", cpu="3")], reservations=[reservation("2", said="3", a="")]),
        "reservation r: owners have 3 of 2 cpu",
    ),
    "what a reservation says is taken": (
        lambda: state([owner("a")], reservations=[reservation("2", said="2", a="")]),
        "reservation r says 2 of 1 cpu",
    ),
    "whom it names": (
        lambda: state([owner("a")], reservations=[reservation("2", said="1")]),
        "reservation r names 0 owners of 1",
    ),
}


@pytest.mark.parametrize("what", RIGHT)
def test_what_may_be_is_not_found(what: str) -> None:
    assert at_rest(RIGHT[what]()) == []


@pytest.mark.parametrize("what", WRONG)
def test_what_must_not_be_is_found(what: str) -> None:
    made, line = WRONG[what]
    assert line in at_rest(made())


def waiting_gang(cpu: str) -> list[Object]:
    pods = [of_quota(name, cpu) for name in ("a", "b")]
    for one in pods:
        one["spec"]["nodeName"] = ""
        one["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io"] = "gang"
    return pods


@pytest.mark.parametrize(
    ("made", "found"),
    [
        (lambda: state([pod("a", ""), pod("b"), ended(pod("c", ""))]), ["a"]),
        (lambda: state(waiting_gang("2"), quotas=quotas("0")), ["gang"]),
        (lambda: state(waiting_gang("3"), quotas=quotas("0")), []),
        (lambda: state([*waiting_gang("2"), of_quota("c", "1")], quotas=quotas("1")), []),
        (lambda: state([], reservations=[reservation("1") | {"status": {}}]), ["r"]),
        (lambda: state([], reservations=[reservation("1")]), []),
    ],
)
def test_pods_that_wait_for_nothing(made: Callable[[], ClusterState], found: list[str]) -> None:
    assert list(forgotten(made())) == found
