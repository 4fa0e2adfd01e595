"""Pods that reservations name are distinguished from their like, whichever way they are named."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.plugins.reservation.named_pods import NamedPod, NamedPods
from koord_scheduler.plugins.reservation.objects import ObjectOwner
from koord_scheduler.plugins.reservation.owners import OwnerMatcher
from koord_scheduler.plugins.reservation.pod_parts import RESERVATION_NEEDS

from tests.support.reservations import ReservationCluster, reservation

NAMES = [
    ("shop", "p0", ""),
    ("", "p1", ""),
    ("", "", "u-p2"),
    ("shop", "p1", "u-p0"),
    ("", "p3", "u-p3"),
]


def names(owner: dict[str, str], name: str) -> bool:
    """The naive rule, for a pod of the namespace shop."""
    pod = {"namespace": "shop", "name": name, "uid": f"u-{name}"}
    return all(not value or pod[key] == value for key, value in owner.items())


@given(st.integers(0, 1 << 32))
def test_waiting_pods_are_classes_of_their_own_while_they_are_named(seed: int) -> None:
    rng, cluster = Random(seed), ReservationCluster()
    owners: dict[str, list[dict[str, str]]] = {}
    for _ in range(20):
        name = f"r{rng.randrange(3)}"
        if owners.pop(name, None) is not None:
            cluster.kinds["Reservation"].remove(name)
        else:
            chosen = rng.sample(NAMES, rng.randrange(1, 3))
            owners[name] = [
                dict(zip(("namespace", "name", "uid"), one, strict=True)) for one in chosen
            ]
            named: list[Any] = [{"object": one} for one in owners[name]]
            cluster.put("Reservation", name, reservation(name, "1", "n1", owners=named))
        if rng.random() < 0.5:
            cluster.pod(f"p{rng.randrange(5)}")
        for pod in cluster.scheduler.queue.pods.values():
            own = pod.key.partition("/")[2]
            is_named = any(names(one, own) for some in owners.values() for one in some)
            needs = pod.waiting.pod_class.of(RESERVATION_NEEDS)
            assert (needs.name, needs.uid) == ((own, pod.uid) if is_named else ("", ""))


@pytest.mark.parametrize("named", [*product(("", "shop"), ("", "p"), ("", "u"))])
def test_a_pod_is_named_by_all_that_is_said_of_it(named: tuple[str, str, str]) -> None:
    one, pod = NamedPod(*named), ("shop", "p", "u")
    assert one.means(*pod)
    for place, value in enumerate(named):
        other = (*pod[:place], "another", *pod[place + 1 :])
        assert one.means(*other) == (not value)
    assert one.key == ("shop/p" if named[:2] == ("shop", "p") else "")


def test_a_name_is_news_with_its_first_reservation_and_its_last() -> None:
    pods, matchers = NamedPods(), [OwnerMatcher(ObjectOwner("p", "shop"))]
    changed = []
    for sign in (1, 1, -1, -1):
        pods.add(matchers, sign)
        changed.append((len(pods.take_changed()), pods.has("shop", "p", "u")))
    assert changed == [(1, True), (0, True), (0, True), (1, False)]
