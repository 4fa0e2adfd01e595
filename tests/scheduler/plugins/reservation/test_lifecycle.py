"""How reservations end, and what their status says of who has them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.times import rfc3339
from koord_scheduler.plugins.reservation.lifecycle import (
    Owners,
    Removal,
    ReservationLife,
    StatusChange,
    next_step,
    reservation_life,
)
from koord_scheduler.plugins.reservation.objects import CurrentOwner, read_reservation_object

from tests.support.reservations import reservation

MADE, DAY = 1_800_000_000.0, 86_400.0
WEB = CurrentOwner("shop", "web", "u-web")
SOME = Owners((WEB,), {"cpu": 2000, "memory": 0}, {"cpu": "2", "memory": "0"})
NONE = Owners((), {"cpu": 0}, {"cpu": "0"})


def life(status: dict[str, Any] | None = None, **spec: Any) -> ReservationLife:
    document = reservation("r", "4", owners=[{}])
    document["metadata"]["creationTimestamp"] = rfc3339(MADE)
    del document["spec"]["ttl"]
    document["spec"] |= spec
    document["status"] |= status or {}
    return reservation_life(read_reservation_object(json.dumps(document).encode()))


def step(phase: str, given: ReservationLife, owners: Owners = NONE, **more: Any) -> Any:
    given_state = {"node_is_gone": False, "is_for_one": False, "now": MADE, "keep_seconds": DAY}
    return next_step(phase, given, owners, **{**given_state, **more})


def condition(reason: str, at: float, kind: str = "Ready") -> dict[str, Any]:
    times = {"lastProbeTime": rfc3339(at), "lastTransitionTime": rfc3339(at)}
    return {"type": kind, "status": "False", "reason": reason, **times}


@pytest.mark.parametrize(
    ("spec", "expires"),
    [
        ({}, None),
        ({"ttl": "0"}, None),
        ({"ttl": "0s", "expires": rfc3339(MADE + 5)}, None),
        ({"ttl": "1h30m"}, MADE + 5400),
        ({"ttl": "24h", "expires": rfc3339(MADE + 2 * DAY)}, MADE + 2 * DAY),
        ({"expires": rfc3339(MADE + 5)}, MADE + 5),
    ],
)
def test_when_it_ends(spec: dict[str, str], expires: float | None) -> None:
    assert life(**spec).expires == expires


@pytest.mark.parametrize("spec", [{"ttl": "soon"}, {"expires": "soon"}])
def test_bad_times_are_named(spec: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="soon"):
        life(**spec)


@pytest.mark.parametrize("phase", ["", "Pending", "Available", "Waiting"])
@pytest.mark.parametrize(
    ("late", "node_is_gone"), [(True, False), (False, True), (True, True), (False, False)]
)
def test_it_fails_when_its_time_is_over_or_its_node_is_gone(
    phase: str, *, late: bool, node_is_gone: bool
) -> None:
    given = life({"conditions": [condition("Scheduled", MADE, "Scheduled")]}, ttl="1m")
    now = MADE + (61 if late else 59)
    found = step(phase, given, now=now, node_is_gone=node_is_gone)
    if not late and not node_is_gone:
        assert found is None
        return
    assert isinstance(found, StatusChange)
    assert found.status["phase"] == "Failed"
    scheduled, ready = found.status["conditions"]
    assert scheduled["type"] == "Scheduled"
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "False", "Expired")
    assert ready["lastTransitionTime"] == rfc3339(now)


@pytest.mark.parametrize("is_for_one", [True, False])
def test_owners_are_written_once(*, is_for_one: bool) -> None:
    found = step("Available", life(), SOME, is_for_one=is_for_one)
    assert isinstance(found, StatusChange)
    assert found.status["allocated"] == {"cpu": "2", "memory": "0"}
    assert [one["uid"] for one in found.status["currentOwners"]] == ["u-web"]
    assert found.status.get("phase") == ("Succeeded" if is_for_one else None)
    written = json.loads(json.dumps(found.status))
    assert step(written.pop("phase", "Available"), life(written), SOME) is None


def test_owners_that_left_are_taken_out() -> None:
    there = {"currentOwners": [{"namespace": "shop", "name": "web", "uid": "u-web"}]}
    found = step("Available", life({**there, "allocated": {"cpu": "2"}}), NONE)
    assert found == StatusChange({"currentOwners": [], "allocated": {"cpu": "0"}})


@pytest.mark.parametrize(("is_for_one", "phase"), [(True, "Succeeded"), (False, None)])
def test_one_for_one_pod_ends_though_that_pod_is_gone(
    *, is_for_one: bool, phase: str | None
) -> None:
    found = step("Available", life(), NONE, is_for_one=is_for_one, was_bound=True)
    assert (found.status["phase"] if found is not None else None) == phase


@pytest.mark.parametrize(("phase", "reason"), [("Failed", "Expired"), ("Succeeded", "Succeeded")])
@given(age=st.floats(0, 3 * DAY), keep=st.sampled_from([None, DAY]), node_is_gone=st.booleans())
def test_what_ended_long_ago_is_removed(
    phase: str, reason: str, *, age: float, keep: float | None, node_is_gone: bool
) -> None:
    given = life({"conditions": [condition(reason, MADE)]}, ttl="1m")
    found = step(phase, given, SOME, now=MADE + age, keep_seconds=keep, node_is_gone=node_is_gone)
    is_due = keep is not None and (age > keep or node_is_gone)
    assert found == (Removal() if is_due else None)


def test_what_somebody_else_let_fail_stays() -> None:
    given = life({"conditions": [condition("Broken", MADE)]})
    assert step("Failed", given, now=MADE + 9 * DAY, node_is_gone=True) is None
