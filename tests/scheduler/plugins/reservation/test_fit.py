"""Whether a pod fits reservations and their node, and which of them it gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.plugins.reservation.fit import (
    NO_AFFINITY,
    Offer,
    ReservationDemand,
    allocation_score,
    reservation_answer,
)
from koord_scheduler.plugins.reservation.reservation import Reservation

FULL = {"pods": 10.0}


def offer(
    name: str = "r",
    allocatable: dict[str, int] | None = None,
    allocated: dict[str, int] | None = None,
    policy: str = "",
    owners: int = 0,
    order: int = 0,
    resources: frozenset[str] | None = None,
) -> Offer:
    has, used = allocatable or {"cpu": 4000}, allocated or {}
    names = frozenset(has) if resources is None else resources
    one = Reservation(name, name, "Available", "n", has, names, policy, order=order)
    left = {key: max(amount - used.get(key, 0), 0) for key, amount in has.items()}
    return Offer(one, used, owners, left)


def name_of(one: Offer | None) -> str:
    return one.reservation.name if one is not None else ""


@pytest.mark.parametrize("policy", ["", "Aligned"])
def test_an_aligned_reservation_is_filled_up_by_its_node(policy: str) -> None:
    free = {**FULL, "cpu": 2000.0}
    pod = ReservationDemand({"cpu": 6000})
    assert name_of(reservation_answer(pod, free, [offer(policy=policy)]).nominated) == "r"
    too_much = reservation_answer(ReservationDemand({"cpu": 6001}), free, [offer(policy=policy)])
    assert (too_much.fits, too_much.reasons) == (False, ("Insufficient cpu by node",))


def test_a_restricted_reservation_is_not() -> None:
    free = {**FULL, "cpu": 2000.0, "memory": 50.0}
    restricted = offer(policy="Restricted", allocated={"cpu": 1000})
    assert (
        name_of(reservation_answer(ReservationDemand({"cpu": 3000}), free, [restricted]).nominated)
        == "r"
    )
    required = reservation_answer(ReservationDemand({"cpu": 3001}, True), free, [restricted])
    assert (required.fits, required.reasons) == (False, ("Reservation(s) Insufficient cpu",))
    named = reservation_answer(ReservationDemand({"cpu": 3001}, True, "r"), free, [restricted])
    assert "requested: 3001, used: 1000, capacity: 4000" in named.reasons[0]
    # What it does not reserve comes from the node.
    other = reservation_answer(ReservationDemand({"cpu": 3000, "memory": 50}), free, [restricted])
    assert name_of(other.nominated) == "r"
    assert not reservation_answer(
        ReservationDemand({"cpu": 3000, "memory": 51}), free, [restricted]
    ).fits


def test_without_a_fitting_reservation_the_node_alone_may_do() -> None:
    restricted = offer(allocatable={"cpu": 1000}, policy="Restricted")
    found = reservation_answer(
        ReservationDemand({"cpu": 1500}), {**FULL, "cpu": 1500.0}, [restricted]
    )
    assert (found.fits, found.nominated, found.score) == (True, None, 0)


def test_only_some_resources_may_be_restricted() -> None:
    has, free = {"cpu": 1000, "memory": 100}, {**FULL, "cpu": 0.0, "memory": 100.0}
    pod = ReservationDemand({"cpu": 1000, "memory": 200}, requires=True)
    assert not reservation_answer(pod, free, [offer(allocatable=has, policy="Restricted")]).fits
    some = offer(allocatable=has, policy="Restricted", resources=frozenset({"cpu"}))
    assert reservation_answer(pod, free, [some]).fits


def test_the_number_of_pods_may_be_reserved() -> None:
    has = {"cpu": 4000, "pods": 2}
    pod = ReservationDemand({"cpu": 1}, requires=True)
    free = {"cpu": 9.0, "pods": 9.0}
    assert reservation_answer(
        pod, free, [offer(allocatable=has, policy="Restricted", owners=1)]
    ).fits
    full = reservation_answer(pod, free, [offer(allocatable=has, policy="Restricted", owners=2)])
    assert full.reasons == ("Reservation(s) Too many pods",)


def test_who_needs_nothing_that_is_reserved_does_not_use_it() -> None:
    free = {**FULL, "gpu": 1.0}
    assert reservation_answer(ReservationDemand({"gpu": 1}), free, [offer()]).nominated is None
    assert (
        name_of(reservation_answer(ReservationDemand({"gpu": 1}, True), free, [offer()]).nominated)
        == "r"
    )
    assert reservation_answer(ReservationDemand({}, True), FULL, []).reasons == (NO_AFFINITY,)


@pytest.mark.parametrize(
    ("offers", "expected"),
    [
        ([offer("a"), offer("b", allocated={"cpu": 1000})], "b"),  # fuller
        ([offer("b"), offer("a")], "a"),
        ([offer("a"), offer("b", order=9)], "b"),
        ([offer("a", order=2), offer("b", order=-1), offer("c", order=1)], "b"),
        ([offer("a", {"cpu": 500}), offer("b", {"cpu": 2000})], "b"),  # too small counts 0
    ],
)
def test_the_one_that_is_taken(offers: list[Offer], expected: str) -> None:
    found = reservation_answer(ReservationDemand({"cpu": 1000}), {**FULL, "cpu": 8000.0}, offers)
    assert name_of(found.nominated) == expected
    assert found.order == min((one.reservation.order for one in offers), key=lambda o: (not o, o))


def test_score() -> None:
    one = offer(allocatable={"cpu": 3000, "memory": 10, "gpu": 0}, allocated={"cpu": 1000})
    assert allocation_score({"cpu": 1000, "memory": 11}, one) == 33  # ⌊66 / 2⌋
    assert allocation_score({"cpu": 1000}, offer(allocatable={"gpu": 0})) == 0


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), st.integers(0, 4), min_size=1)


@given(
    st.lists(st.tuples(amounts, amounts, st.sampled_from(["", "Aligned", "Restricted"]))),
    amounts,
    amounts,
    st.booleans(),
)
def test_what_a_pod_gets_is_there(
    given: list[tuple[dict[str, int], dict[str, int], str]],
    requests: dict[str, int],
    free: dict[str, int],
    requires: bool,
) -> None:
    offers = [offer(f"r{at}", *one) for at, one in enumerate(given)]
    room = {"pods": 1.0, **{key: float(amount) for key, amount in free.items()}}
    found = reservation_answer(ReservationDemand(requests, requires), room, offers)
    alone = all(amount <= free.get(key, 0) for key, amount in requests.items())
    if found.nominated is not None:
        left = found.nominated.remainder
        for key, amount in requests.items():
            assert amount <= free.get(key, 0) + left.get(key, 0)
            if found.nominated.reservation.policy == "Restricted" and key in left:
                assert amount <= left[key]
    elif found.fits:
        assert alone
        assert not requires
    assert found.fits is not bool(found.reasons)
    if alone and not requires:
        assert found.fits  # a reservation never keeps a pod off room of the node
