"""Which pods may use reservations, what they get, and how reservations end, against Koordinator."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from koord_model.demand import amounts
from koord_model.times import from_rfc3339
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord_scheduler.plugins.reservation.class_reservations import ClassReservations
from koord_scheduler.plugins.reservation.columns import ReservationColumns
from koord_scheduler.plugins.reservation.lifecycle import (
    Owners,
    Removal,
    ReservationLife,
    StatusChange,
    next_step,
    reservation_life,
)
from koord_scheduler.plugins.reservation.matching_reservations import MatchingReservations
from koord_scheduler.plugins.reservation.objects import CurrentOwner, read_reservation_object
from koord_scheduler.plugins.reservation.plugin import ReservationPlugin
from koord_scheduler.plugins.reservation.reservation_reader import ReservationReader
from koord_scheduler.plugins.reservation.settings import ReservationSettings
from koord_scheduler.state.cluster_state import ClusterState

from tests.conformance.vectors import Fields, Object, Vector, leaves, replay
from tests.support.reservations import allocated

LATER = 4e9
"""Seconds since the epoch, behind all times of reservations."""
ENDED = ("Succeeded", "Failed")
NOBODY = Owners((), {}, {})
SOMEBODY = Owners((CurrentOwner("shop", "p", "u"),), {}, {})


class NodeWithReservations:
    """A scheduler that knows of one node and what is there, and of one pod that waits."""

    def __init__(self, given: Object, settings: ReservationSettings | None = None) -> None:
        plugin = ReservationPlugin(settings)
        plugins = EnabledPlugin(NodeResourcesFit()), EnabledPlugin(plugin, weight=5000)
        self.scheduler = Scheduler([Profile("default-scheduler", plugins)])
        kinds = (*cluster_kinds(self.scheduler), pod_kind(self.scheduler, lambda: 0.0))
        self._kinds = {one.resource.kind: one for one in kinds}
        self.put("Node", given["Node"])
        for one in given["Reservations"]:
            self.put("Reservation", one)
        for one in (*given["Placed"], *filter(None, [given.get("Pod")])):
            self.put("Pod", one)

    def put(self, kind: str, document: Object) -> None:
        metadata = document["metadata"]
        key = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        self._kinds[kind].put(key, self._kinds[kind].read(json.dumps(document).encode()))


def outcome(given: Object) -> Object:
    """What becomes of the pod, in a cluster of this node alone."""
    scheduler, rows = NodeWithReservations(given).scheduler, np.array([0])
    pod, nodes = scheduler.queue.pods["shop/p"], scheduler.nodes
    pod_class = pod.waiting.pod_class
    matching = MatchingReservations(pod_class, nodes)
    answer = ClassReservations(pod_class, nodes, frozenset()).answer(0)
    rejections = {one.plugin: one.reasons for one in scheduler.scores(pod).reasons(rows)}
    reasons = [one.text for one in rejections["Reservation"] if one.rows[0]]
    found: Object = {
        "matches": {
            one.name: matching.match(one).name.lower()
            for one in nodes.use(ReservationColumns).on("n")
            if one.is_available
        },
        "reasons": "; ".join(sorted(reasons)),
    }
    decision = scheduler.decide(0.0)
    found["fits"] = isinstance(decision, Placement)
    if isinstance(decision, Placement):
        found["nominated"] = allocated(decision)
        if found["nominated"]:
            found |= {"score": answer.score, "order": answer.order}
    return found


def theirs(recorded: Object) -> Object:
    """The same of what was recorded: the plugin's filter, and what NodeResourcesFit lacks."""
    used_up = "unmatchable"
    found: Object = {
        "matches": {name: one for name, one in recorded["matches"].items() if one != used_up},
        "reasons": "; ".join(sorted(recorded["filter"]["reasons"])),
    }
    found["fits"] = not found["reasons"] and not recorded["fit"]
    if found["fits"]:
        found["nominated"] = recorded.get("nominated", "")
        if found["nominated"]:
            found |= {"score": recorded["score"], "order": recorded.get("order", 0)}
    return found


def ours(vector: Vector) -> Fields:
    """If it is one of the outcomes there, the first of them; otherwise what it is here."""
    mine, outcomes = outcome(vector.given), vector.recorded["outcomes"]
    return leaves(theirs(outcomes[0]) if mine in map(theirs, outcomes) else mine)


def first(recorded: Object) -> Fields:
    return leaves(theirs(recorded["outcomes"][0]))


def used_up_counts_once(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """There a reservation for one pod that has it keeps its room until its status says so."""
    found = vector.recorded["outcomes"][0]["matches"]
    phases = {
        one["metadata"]["name"]: one["status"]["phase"] for one in vector.given["Reservations"]
    }
    return any(
        one == "unmatchable" and phases[name] in ("Available", "Waiting")
        for name, one in found.items()
    )


def pods_count_once(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """There matching reservations are taken off the number of pods twice."""
    return int(vector.given["Node"]["status"]["allocatable"]["pods"]) < 10


def ignoring_wins(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Over an affinity; there such a pod needs a reservation on the node that it ignores."""
    labels = vector.given["Pod"]["metadata"]["labels"]
    return "scheduling.koordinator.sh/reservation-ignored" in labels


def test_pods_get_the_reservations_that_koordinator_gives_them() -> None:
    replay("reservations", ours, first, (used_up_counts_once, pods_count_once, ignoring_wins))


def life(vector: Vector) -> Fields:
    given = vector.given
    (document,) = given["Reservations"]
    one = read_reservation_object(json.dumps(document).encode())
    what, phase, now = reservation_life(one), one.status.phase, from_rfc3339(given["Now"])
    given_state: dict[str, Any] = {"node_is_gone": False, "keep_seconds": given["GCSeconds"]}
    step = next_step(phase, what, NOBODY, is_for_one=False, now=now, **given_state)
    found: Object = {
        "expires": isinstance(step, StatusChange) and step.status.get("phase") == "Failed",
        "cleanup": isinstance(step, Removal),
    }
    if phase not in ENDED:
        found["expired"] = ended(phase, what._replace(expires=0.0), NOBODY)
        found["succeeded"] = ended(phase, what._replace(expires=None), SOMEBODY)
    if phase in ("", "Pending"):
        found["available"] = available(document)
    return leaves(found)


def available(document: Object) -> Object:
    """What is written once it has a node."""
    nodes = ClusterState()
    reader = ReservationReader(nodes, nodes.use(ReservationColumns))
    waiting = reader.read(json.dumps(document).encode()).pod.waiting
    assert waiting is not None
    assert waiting.stands_for is not None
    body = waiting.stands_for.bound("n", LATER).body
    assert body is not None
    status = body["status"]
    return {**as_reported(status), "allocatable": amounts(status["allocatable"])}


def ended(phase: str, what: ReservationLife, owners: Owners) -> Object:
    given_state: dict[str, Any] = {"node_is_gone": False, "keep_seconds": None}
    step = next_step(phase, what, owners, is_for_one=True, now=LATER, **given_state)
    assert isinstance(step, StatusChange)
    return as_reported(step.status)


def as_reported(status: Any) -> Object:
    """The phase, and conditions by type."""
    found = {one["type"]: f"{one['status']} {one['reason']}" for one in status["conditions"]}
    return {"phase": status["phase"], **found}


def lived(recorded: Object) -> Fields:
    one = recorded["r"]
    found: Object = {name: one[name] for name in ("expires", "cleanup")}
    if one["unschedulable"]["phase"] not in ENDED:  # which keeps the phase
        found |= {name: as_reported(one[name]) for name in ("expired", "succeeded")}
    if one["unschedulable"]["phase"] in ("", "Pending"):
        given = one["available"]
        found["available"] = {**as_reported(given), "allocatable": given["allocatable"]}
    return leaves(found)


def expires_before_ttl(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """What a user wrote counts, and not what the CRD sets."""
    spec = vector.given["Reservations"][0]["spec"]
    return "expires" in spec and "ttl" in spec and field == "expires"


def test_reservations_end_as_in_koordinator() -> None:
    replay("reservation_life", life, lived, (expires_before_ttl,))
