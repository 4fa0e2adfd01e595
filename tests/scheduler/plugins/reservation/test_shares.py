"""Shares of a reservation: what its owners have together, what is left, and what others see to."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.plugins.reservation.allocations import AllocatedRoom
from koord_scheduler.plugins.reservation.pod_parts import RESERVATION
from koord_scheduler.plugins.reservation.pre_allocated_pods import PreAllocatedPods
from koord_scheduler.plugins.reservation.settings import ReservationSettings
from koord_scheduler.state.pod_class import pod_class
from koord_scheduler.state.pod_labels import PodLabels
from koord_scheduler.state.pod_usage import PodUsage
from koord_scheduler.state.ports import HostPort
from koord_scheduler.state.resources import PODS

PORTS = [HostPort("TCP", number, "0.0.0.0") for number in range(3)]
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", PODS]), st.integers(1, 9))


def usage(amounts: dict[str, int], ports: list[HostPort]) -> PodUsage:
    scored = float(amounts.get("cpu", 0)), float(amounts.get("memory", 0))
    return PodUsage(tuple(sorted(amounts.items())), scored, tuple(ports), PodLabels("shop", ()))


USAGES = st.builds(usage, AMOUNTS, st.lists(st.sampled_from(PORTS), max_size=2, unique=True))


@given(st.lists(st.tuples(USAGES, st.booleans()), max_size=6), USAGES)
def test_a_reservation_takes_what_its_owners_have_not(
    pods: list[tuple[PodUsage, bool]], whole: PodUsage
) -> None:
    room = AllocatedRoom()
    for pod, _ in pods:
        room.add(pod, 1)
    for pod, leaves in pods:
        if leaves:
            room.add(pod, -1)
    owners = [pod for pod, leaves in pods if not leaves]
    taken = Counter[str]()
    for pod in owners:
        taken.update(dict(pod.request))
    assert room.owners == len(owners)
    left = room.what_is_left(whole)
    amounts = dict(whole.request)
    assert dict(left.request) == {
        name: beside
        for name, amount in amounts.items()
        if (beside := amount if name == PODS else max(0, amount - taken[name]))
    }
    assert left.scored == tuple(
        max(0, amounts.get(name, 0) - taken[name]) for name in ("cpu", "memory")
    )
    used = {port for pod in owners for port in pod.ports}
    assert left.ports == tuple(port for port in whole.ports if port not in used)


def test_pods_that_are_taken_over_count_as_owners_until_they_leave() -> None:
    pods, owner = PreAllocatedPods(), usage({"cpu": 1}, []).with_part(RESERVATION, "r")
    for node in ("n1", "n1", "n2"):
        pods.add(node, owner)
    assert pods.pop("n1", usage({"cpu": 2}, [])) is None
    assert pods.pop("n1", usage({"cpu": 1}, [])) is owner
    assert pods.pop("n3", usage({"cpu": 1}, [])) is None
    assert pods.pop_all("n1", "another") == []
    assert pods.pop_all("n1", "r") == [owner]
    assert pods.pop_all("n1", "r") == []
    assert pods.pop("n2", owner) is owner


def test_extended_resources_that_others_see_to_are_ignored() -> None:
    resources = frozenset({"a.com/one", "memory"})
    settings = ReservationSettings(
        ignored_resources=resources, ignored_groups=frozenset({"b.com", "cpu"})
    )
    asked = ("cpu", "memory", "a.com/one", "a.com/two", "b.com/one", "b.com/two", "c.com/one")
    requests = dict.fromkeys(asked, "1")
    spec = {"containers": [{"name": "c", "resources": {"requests": requests, "limits": requests}}]}
    document = {"metadata": {"name": "p", "namespace": "shop", "uid": "u"}, "spec": spec}
    pod = pod_class(read_pod(json.dumps(document).encode()))
    assert settings.ignored(pod) == {"a.com/one", "b.com/one", "b.com/two"}
