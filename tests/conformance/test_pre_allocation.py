"""Which pods new reservations take over, against Koordinator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from koord_model.demand import amounts
from koord_model.keys import ANNOTATION_RESERVATION_ALLOCATED
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.plugins.reservation.allocation import PreAllocatedOwners
from koord_scheduler.plugins.reservation.pod_parts import RESERVATION_NEEDS
from koord_scheduler.plugins.reservation.pre_allocatable_pods import PreAllocatablePods
from koord_scheduler.plugins.reservation.settings import ReservationSettings

from tests.conformance.test_reservations import NodeWithReservations
from tests.conformance.vectors import Fields, Object, Vector, leaves, replay

ROWS = np.array([0])


def outcome(given: Object) -> Object:
    """What becomes of the new reservation, in a cluster of this node alone."""
    flags = {"cluster_mode": given["Cluster"], "prefers_free_room": given["PrefersNone"]}
    cluster = NodeWithReservations(given, ReservationSettings(**flags))
    cluster.put("Reservation", given["New"])
    scheduler = cluster.scheduler
    pod = scheduler.queue.pods["Reservation/new"]
    scores = scheduler.scores(pod)
    rejected = bool(dict(scores.pre_filter())["Reservation"].rejection)
    found: Object = {"is_rejected": rejected, "fits": bool(len(scores.feasible()))}
    if not rejected:
        found["pods"] = joined(pre_allocatable(scheduler, pod))
        [reasons] = [one.reasons for one in scores.reasons(ROWS) if one.plugin == "Reservation"]
        found["reasons"] = joined(one.text for one in reasons if one.rows[0])
    if found["fits"]:
        found["score"] = int(scores.scores(ROWS)["Reservation"][0]) // 5000
        decision = scheduler.decide(0.0)
        assert isinstance(decision, Placement)
        owners = [one for one in decision.reserved if isinstance(one, PreAllocatedOwners)]
        found["chosen"] = joined(name(key) for one in owners for key, _ in one.pods)
    return found


def pre_allocatable(scheduler: Scheduler, pod: QueuedPod) -> Iterable[str]:
    reserve = pod.waiting.pod_class.of(RESERVATION_NEEDS).reserve
    assert reserve is not None
    assert reserve.takes_over is not None
    found = PreAllocatablePods(reserve.takes_over, scheduler.nodes)
    return (name(one.key) for one in found.on(0))


def joined(given: Iterable[str]) -> str:
    return "; ".join(sorted({*given}))


def name(key: str) -> str:
    return key.partition("/")[2]


def theirs(recorded: Object) -> Object:
    """The same of what was recorded: the plugin's filter, and what NodeResourcesFit lacks."""
    before = [recorded[one] for one in ("before", "pre_filter") if one in recorded]
    rejected = any(one["code"] != "Success" for one in before)
    found: Object = {"is_rejected": rejected, "fits": "chosen" in recorded}
    if not rejected:
        found["pods"] = joined(recorded["pods"])
        # Where there are no pods, what the node lacks is for NodeResourcesFit to say.
        reasons = recorded["filter"]["reasons"]
        by_node = [one for one in reasons if not recorded["pods"] and one.endswith("by node")]
        found["reasons"] = joined({*reasons} - {*by_node})
    if found["fits"]:
        found |= {"score": recorded["score"], "chosen": joined(recorded["chosen"])}
    return found


def ours(vector: Vector) -> Fields:
    """If it is one of the outcomes there, the first of them; otherwise what it is here."""
    mine, outcomes = outcome(vector.given), vector.recorded["outcomes"]
    return leaves(theirs(outcomes[0]) if mine in map(theirs, outcomes) else mine)


def first(recorded: Object) -> Fields:
    return leaves(theirs(recorded["outcomes"][0]))


def owners_stay_owners(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """In the mode Cluster a pod that has a reservation is taken over once more there."""
    policy = vector.given["New"]["spec"].get("preAllocationPolicy", {})
    return policy.get("mode") == "Cluster" and any(map(written, vector.given["Placed"]))


def used_up_counts_once(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """There a reservation for one pod that has it keeps its room until its status says so."""
    return any(one["spec"].get("allocateOnce", True) for one, _ in owned(vector.given))


def only_what_is_reserved_counts(v: Vector, field: str, here: Fields, there: Fields) -> bool:
    """There all that owners have counts as given back, though it was not reserved."""
    left = {
        one["metadata"]["uid"]: amounts(one["status"]["allocatable"]).get("cpu", 0)
        for one in v.given["Reservations"]
    }
    for one, pod in owned(v.given):
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        left[one["metadata"]["uid"]] -= amounts(requests)["cpu"]
    return any(amount < 0 for amount in left.values())


def owned(given: Object) -> Iterator[tuple[Object, Object]]:
    """Reservations and pods that have something of them."""
    for one in given["Reservations"]:
        for pod in given["Placed"]:
            if one["metadata"]["uid"] in written(pod):
                yield one, pod


def written(pod: Object) -> str:
    return str(pod["metadata"].get("annotations", {}).get(ANNOTATION_RESERVATION_ALLOCATED, ""))


def pods_count_as_they_are(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """There all pods that may be taken over are taken off the number of pods."""
    return int(vector.given["Node"]["status"]["allocatable"]["pods"]) < 10


DIFFERENCES = (
    owners_stay_owners,
    used_up_counts_once,
    only_what_is_reserved_counts,
    pods_count_as_they_are,
)


def test_reservations_take_over_the_pods_that_koordinator_takes() -> None:
    replay("pre_allocation", ours, first, DIFFERENCES)
