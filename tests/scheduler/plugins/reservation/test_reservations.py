"""What is left of reservations is counted on their nodes, whatever comes and goes."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.framework.self_check import SelfCheck
from koord_scheduler.objects.requests import PodRequests
from koord_scheduler.plugins.reservation.columns import ReservationColumns
from koord_scheduler.plugins.reservation.pod_parts import RESERVATION
from koord_scheduler.plugins.reservation.reservation import Reservation
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pods import PlacedPods
from koord_scheduler.state.pod_labels import PodLabels
from koord_scheduler.state.pod_usage import PodUsage
from koord_scheduler.state.ports import HostPort

RESOURCES = ("cpu", "memory", "gpu")
NODES = ("n1", "n2")
PORTS = (HostPort("TCP", 80, "0.0.0.0"), HostPort("TCP", 81, "0.0.0.0"))
LABELS = PodLabels("default", ())


def usage(columns: ClusterState, amounts: dict[str, int], *, port: int | None = None) -> PodUsage:
    scored = amounts.get("cpu", 0), amounts.get("memory", 0)
    ports = () if port is None else (PORTS[port],)
    return columns.usage(PodRequests(amounts, *scored), ports, LABELS)


def amounts(rng: Random) -> dict[str, int]:
    return {name: rng.randint(1, 4) for name in RESOURCES if rng.random() < 0.7}


class Life:
    """Reservations and their owners come and go, in any order."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.columns = ClusterState(length=2)
        self.columns.use(ReservationColumns)
        self.reservations: dict[str, tuple[Reservation, PodUsage]] = {}
        self.pods: list[tuple[str, PodUsage]] = []
        self.had: set[tuple[str, str]] = set()  # uids and nodes of those that pods had

    def change(self) -> None:
        rng, columns = self.rng, self.columns
        match rng.choice(["set", "set", "remove", "pod", "pod", "no pod"]):
            case "set":
                name, has = rng.choice("ab"), amounts(rng)
                one = Reservation(
                    name,
                    f"{name}-{rng.randrange(2)}",
                    rng.choice(["Available", "Available", "Waiting", "Succeeded"]),
                    rng.choice(NODES),
                    has,
                    allocate_once=rng.random() < 0.4,
                )
                whole = usage(columns, has, port=rng.choice([None, 0, 1]))
                self.describe(one)
                self.reservations[name] = one, whole
                columns.use(ReservationColumns).set(one, whole)
            case "remove" if self.reservations:
                name = rng.choice(sorted(self.reservations))
                one, _ = self.reservations.pop(name)
                self.had.discard((one.uid, one.node))
                columns.use(ReservationColumns).remove(name)
            case "pod":
                uid = rng.choice(["", "a-0", "a-1", "b-0", "b-1"])
                pod = usage(columns, amounts(rng), port=rng.choice([None, 0]))
                placed = rng.choice(NODES), pod.with_part(RESERVATION, uid)
                self.pods.append(placed)
                columns.add_pod(*placed)
                if rng.random() < 0.5:
                    columns.use(ReservationColumns).bind(placed[0], uid)
                    if any(is_there(one, uid, placed[0]) for one, _ in self.reservations.values()):
                        self.had.add((uid, placed[0]))
            case "no pod" if self.pods:
                node, pod = self.pods.pop(rng.randrange(len(self.pods)))
                columns.remove_pod(node, pod)

    def describe(self, one: Reservation) -> None:
        """What is known of the reservation that has this name from now on."""
        before = self.reservations.get(one.name, (None, None))[0]
        if before is not None and (before.uid, before.node) != (one.uid, one.node):
            self.had.discard((before.uid, before.node))
        was_there = before is not None and before.uid == one.uid and before.holds_room
        owners = [pod for at, pod in self.pods if (at, pod.of(RESERVATION)) == (one.node, one.uid)]
        if owners and one.holds_room and not was_there:
            self.had.add((one.uid, one.node))

    def naive(self, node: str) -> dict[str, int]:
        """What is taken of a node."""
        here = [pod for at, pod in self.pods if at == node]
        total = dict.fromkeys((*RESOURCES, "pods"), 0)

        def add(pod: PodUsage, without: list[PodUsage]) -> None:
            asked = by_name(self.columns, pod)
            used = [by_name(self.columns, one) for one in without]
            for name, amount in asked.items():
                had = 0 if name == "pods" else sum(one.get(name, 0) for one in used)
                total[name] += max(amount - had, 0)

        for pod in here:
            add(pod, [])
        for one, whole in self.reservations.values():
            owners = [pod for pod in here if pod.of(RESERVATION) == one.uid]
            is_over = one.allocate_once and (owners or (one.uid, node) in self.had)
            if is_there(one, one.uid, node) and not is_over:
                add(whole, owners)
        return total


def is_there(one: Reservation, uid: str, node: str) -> bool:
    return (one.uid, one.node) == (uid, node) and one.phase in ("Available", "Waiting")


def by_name(columns: ClusterState, pod: PodUsage) -> dict[str, int]:
    return {name: int(amount) for name, amount in pod.request}


@given(st.integers(0, 1 << 32))
def test_columns_are_what_is_there(seed: int) -> None:
    life = Life(Random(seed))
    columns = life.columns
    for _ in range(30):
        life.change()
        for node in NODES:
            row, expected = columns.row(node), life.naive(node)
            if row is None:
                assert not any(expected.values())
                continue
            found = {name: columns.resources.asked_of(name, row) for name in expected}
            assert found == expected
    for name in list(life.reservations):
        columns.use(ReservationColumns).remove(name)
    for node, pod in life.pods:
        columns.remove_pod(node, pod)
    assert not columns.resources.requested.any()
    assert not columns.resources._elsewhere
    assert not columns.resources.scored.any()
    assert [columns.row(node) for node in NODES] == [None, None]


def test_a_port_goes_from_the_reservation_to_its_owner() -> None:
    columns = ClusterState()
    whole = usage(columns, {"cpu": 4}, port=0)
    columns.use(ReservationColumns).set(
        Reservation("r", "u", "Available", "n1", allocate_once=False), whole
    )
    assert held_ports(columns) == (PORTS[0],)
    owner = usage(columns, {"cpu": 1}, port=0).with_part(RESERVATION, "u")
    columns.add_pod("n1", owner)
    assert held_ports(columns) == ()
    columns.remove_pod("n1", owner)
    assert held_ports(columns) == (PORTS[0],)


def held_ports(columns: ClusterState) -> tuple[HostPort, ...]:
    held = columns.use(ReservationColumns).held("r")
    assert held is not None
    return held.ports


def test_an_offer() -> None:
    columns = ClusterState()
    one = Reservation("r", "u", "Available", "n1", {"cpu": 4, "gpu": 1}, allocate_once=False)
    columns.use(ReservationColumns).set(one, usage(columns, {"cpu": 4, "gpu": 1}))
    columns.add_pod("n1", usage(columns, {"cpu": 3, "memory": 2}).with_part(RESERVATION, "u"))
    columns.add_pod("n2", usage(columns, {"cpu": 1}).with_part(RESERVATION, "u"))  # of no effect
    offer = columns.use(ReservationColumns).offer("r")
    assert (offer.reservation, offer.owners) == (one, 1)
    assert offer.allocated == {"cpu": 3, "memory": 2, "pods": 1}
    assert offer.remainder == {"cpu": 1, "gpu": 1, "pods": 1}
    assert columns.use(ReservationColumns).owns_held("n1", "u")
    assert not columns.use(ReservationColumns).owns_held("n2", "u")


def test_changes_are_in_the_journal() -> None:
    columns = ClusterState()
    columns.use(ReservationColumns)
    columns.add_pod("n1", usage(columns, {"cpu": 1}))
    whole = usage(columns, {"cpu": 4})
    for phase in ("Pending", "Available", "Waiting", "Succeeded"):
        before, node = columns.journal.position, "" if phase == "Pending" else "n1"
        columns.use(ReservationColumns).set(Reservation("r", "u", phase, node), whole)
        changed = columns.journal.changed_since(before)
        assert changed is not None
        assert changed.tolist() == ([] if phase == "Pending" else [columns.row("n1")])


def test_to_look_without_pods_changes_nothing() -> None:
    columns = ClusterState()
    pods = [("n1", usage(columns, {"cpu": 1}, port=0)), ("n2", usage(columns, {"gpu": 2}))]
    for node, pod in pods:
        columns.add_pod(node, pod)
    before, position = columns.resources.requested.copy(), columns.journal.position
    with columns.without(pods):
        assert not columns.resources.requested.any()
        assert not columns.resources._elsewhere
    assert np.array_equal(columns.resources.requested, before)
    assert columns.journal.position == position


def test_a_reservation_is_no_defect() -> None:
    columns = ClusterState()
    placed = PlacedPods(columns)
    columns.use(ReservationColumns).set(
        Reservation("r", "u", "Available", "n1"), usage(columns, {"cpu": 4})
    )
    check = SelfCheck(columns, placed)
    for _ in range(300):
        assert check.check_some() == []


def test_what_cannot_be_used_is_said_once() -> None:
    columns = ClusterState()
    whole = usage(columns, {"cpu": 4})
    broken = Reservation("r", "u", "Available", "n1", problem="spec.owners[0] is wrong")
    columns.use(ReservationColumns).set(broken, whole)
    columns.use(ReservationColumns).set(broken, whole)
    assert columns.use(ReservationColumns).take_warnings() == [
        "reservation r: spec.owners[0] is wrong"
    ]
    assert columns.use(ReservationColumns).take_warnings() == []
