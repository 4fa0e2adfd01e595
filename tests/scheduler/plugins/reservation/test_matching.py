"""Which pods may use a reservation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_model.keys import (
    ANNOTATION_EXACT_MATCH_RESERVATION,
    ANNOTATION_RESERVATION_AFFINITY,
    ANNOTATION_RESERVATION_ALLOCATED,
    LABEL_RESERVATION_IGNORED,
)
from koord_scheduler.plugins.reservation.matching import Match, match
from koord_scheduler.plugins.reservation.objects import read_reservation_object
from koord_scheduler.plugins.reservation.owners import OwnedPod, PodOwner
from koord_scheduler.plugins.reservation.pod_needs import (
    allocated_reservation,
    allocation_annotation,
    reservation_needs,
)
from koord_scheduler.plugins.reservation.reservation import Reservation, reservation_of

ANYBODY: dict[str, Any] = {}
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}
OF_JOB = PodOwner("batch/v1", "Job", "j", "j-uid", True)


def reservation(
    *owners: dict[str, Any], labels: dict[str, str] | None = None, **spec: Any
) -> Reservation:
    container = {"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
    document = {
        "metadata": {"name": "r", "uid": "r-uid", "labels": labels or {}},
        "spec": {"template": {"spec": {"containers": [container]}}, "owners": owners, **spec},
        "status": {
            "phase": "Available",
            "nodeName": "n1",
            "allocatable": {"cpu": "2", "memory": "1Gi"},
        },
    }
    return reservation_of(read_reservation_object(json.dumps(document).encode()))


def matched(
    one: Reservation,
    *,
    labels: dict[str, str] | None = None,
    affinity: Any = None,
    exact: list[str] | None = None,
    owners: tuple[PodOwner, ...] = (),
    namespace: str = "default",
    name: str = "",
    uid: str = "",
    requests: dict[str, int] | None = None,
) -> Match:
    annotations = {}
    if affinity is not None:
        annotations[ANNOTATION_RESERVATION_AFFINITY] = json.dumps(affinity)
    if exact is not None:
        annotations[ANNOTATION_EXACT_MATCH_RESERVATION] = json.dumps({"resourceNames": exact})
    needs = reservation_needs(annotations, labels or {}, owners)
    assert not needs.problem
    pod = OwnedPod(namespace, labels or {}, owners, name, uid)
    return match(one, needs, pod, requests or {"cpu": 1000}, {"zone": "a"})


@pytest.mark.parametrize(
    ("owners", "pod", "expected"),
    [
        ([], {}, False),
        ([ANYBODY], {}, True),
        ([WEB], {"labels": {"app": "web"}}, True),
        ([WEB], {"labels": {"app": "db"}}, False),
        ([WEB, ANYBODY], {"labels": {"app": "db"}}, True),  # one of them is enough
        ([{**WEB, "object": {"namespace": "prod"}}], {"labels": {"app": "web"}}, False),
        (
            [{**WEB, "object": {"namespace": "prod"}}],
            {"labels": {"app": "web"}, "namespace": "prod"},
            True,
        ),
        ([{"object": {"name": "a"}}], {}, False),  # unknown who it is
        ([{"object": {"name": "a"}}], {"name": "a", "uid": "1"}, True),
        ([{"object": {"name": "a", "uid": "2"}}], {"name": "a", "uid": "1"}, False),
        ([{"object": {"apiVersion": "v1", "kind": "Pod", "name": "a"}}], {"name": "a"}, True),
        ([{"object": {"apiVersion": "v2"}}], {}, False),
        ([{"controller": {"kind": "Job"}}], {}, False),
        ([{"controller": {"kind": "Job"}}], {"owners": (OF_JOB,)}, True),
        ([{"controller": {"name": "j", "uid": "j-uid"}}], {"owners": (OF_JOB,)}, True),
        ([{"controller": {"name": "k"}}], {"owners": (OF_JOB,)}, False),
        ([{"controller": {"controller": False}}], {"owners": (OF_JOB,)}, False),
        ([{"controller": {"apiVersion": "batch/v2"}}], {"owners": (OF_JOB,)}, False),
        ([{"controller": {"namespace": "prod"}}], {"owners": (OF_JOB,)}, False),
    ],
)
def test_owners(owners: list[dict[str, Any]], pod: dict[str, Any], expected: bool) -> None:
    found = matched(reservation(*owners), **pod)
    assert found is (Match.MATCHED if expected else Match.OWNER)


TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}
SOFT = {"key": "k", "effect": "PreferNoSchedule"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
BY_ZONE = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "reservationSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["r"]}]},
        ]
    }
}
NOWHERE = {"requiredDuringSchedulingIgnoredDuringExecution": {"reservationSelectorTerms": [{}]}}


@pytest.mark.parametrize(
    ("spec", "pod", "expected"),
    [
        ({}, {"affinity": {"name": "r"}}, Match.MATCHED),
        ({}, {"affinity": {"name": "other"}}, Match.NAME),
        ({}, {"affinity": {}}, Match.MATCHED),
        ({}, {"affinity": {"reservationSelector": {"zone": "a"}}}, Match.MATCHED),  # its node's
        ({"labels": {"zone": "b"}}, {"affinity": BY_ZONE}, Match.MATCHED),
        (
            {"labels": {"zone": "b"}},
            {"affinity": {"reservationSelector": {"zone": "a"}}},
            Match.AFFINITY,
        ),
        ({}, {"affinity": BY_ZONE}, Match.MATCHED),  # by its name
        ({}, {"affinity": NOWHERE}, Match.AFFINITY),
        ({"unschedulable": True}, {}, Match.UNSCHEDULABLE),
        ({"unschedulable": True}, {"affinity": {"name": "r"}}, Match.MATCHED),
        ({"unschedulable": True}, {"affinity": {"tolerations": [CORDON]}}, Match.MATCHED),
        ({"taints": [TAINT]}, {}, Match.MATCHED),  # of pods without the annotation none is asked
        ({"taints": [TAINT]}, {"affinity": {}}, Match.TAINT),
        ({"taints": [SOFT]}, {"affinity": {}}, Match.MATCHED),
        ({"taints": [TAINT]}, {"affinity": {"name": "r"}}, Match.MATCHED),
        (
            {"taints": [TAINT]},
            {"affinity": {"tolerations": [{"key": "k", "operator": "Exists"}]}},
            Match.MATCHED,
        ),
        ({}, {"exact": ["cpu"]}, Match.EXACT),
        ({}, {"exact": ["cpu"], "requests": {"cpu": 2000}}, Match.MATCHED),
        ({}, {"exact": ["cpu", "memory"], "requests": {"cpu": 2000}}, Match.EXACT),
        ({}, {"exact": ["gpu", "cpu"]}, Match.MATCHED),  # what neither has ends it
        ({}, {"affinity": {"name": "r"}, "exact": ["cpu"]}, Match.EXACT),
        (
            {"unschedulable": True},
            {"labels": {LABEL_RESERVATION_IGNORED: "true"}, "affinity": {"name": "x"}},
            Match.MATCHED,
        ),
    ],
)
def test_pods_choose_reservations(
    spec: dict[str, Any], pod: dict[str, Any], expected: Match
) -> None:
    assert matched(reservation(ANYBODY, **spec), **pod) is expected


def test_a_selector_that_is_none_means_nobody() -> None:
    broken = reservation({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}})
    assert matched(broken) is Match.OWNER
    assert "spec.owners[0].labelSelector" in broken.problem
    assert broken.holds_room


@pytest.mark.parametrize("text", ["[", '{"name": 1}', "[]"])
def test_an_annotation_that_cannot_be_read_is_a_problem(text: str) -> None:
    needs = reservation_needs({ANNOTATION_RESERVATION_AFFINITY: text}, {}, ())
    assert ANNOTATION_RESERVATION_AFFINITY in needs.problem
    assert allocated_reservation({ANNOTATION_RESERVATION_ALLOCATED: text}) == ""


def test_what_was_allocated_is_read_as_it_is_written() -> None:
    written = {ANNOTATION_RESERVATION_ALLOCATED: allocation_annotation("r", "r-uid")}
    assert json.loads(written[ANNOTATION_RESERVATION_ALLOCATED]) == {"name": "r", "uid": "r-uid"}
    assert allocated_reservation(written) == "r-uid"
    assert reservation_needs(written, {}, ()).has_allocation


@pytest.mark.parametrize(
    ("phase", "node", "available", "holds", "pending"),
    [
        ("", "", False, False, True),
        ("Pending", "", False, False, True),
        ("Available", "n1", True, True, False),
        ("Available", "", False, False, False),
        ("Waiting", "n1", False, True, False),
        ("Succeeded", "n1", False, False, False),
        ("Failed", "n1", False, False, False),
        ("Failed", "", False, False, False),
    ],
)
def test_phases(phase: str, node: str, available: bool, holds: bool, pending: bool) -> None:
    one = Reservation("r", "u", phase, node)
    assert (one.is_available, one.holds_room, one.is_pending) == (available, holds, pending)


def test_what_a_reservation_says() -> None:
    document = {
        "metadata": {
            "name": "r",
            "uid": "u",
            "labels": {
                "scheduling.koordinator.sh/reservation-order": "3",
                "koordinator.sh/priority": "77",
                "app": "r",
            },
            "annotations": {
                "scheduling.koordinator.sh/reservation-restricted-options": '{"resources":["cpu"]}'
            },
        },
        "spec": {
            "allocatePolicy": "Restricted",
            "allocateOnce": False,
            "template": {
                "metadata": {"namespace": "prod", "labels": {"app": "t", "tier": "t"}},
                "spec": {
                    "nodeName": "n7",
                    "containers": [
                        {"resources": {"requests": {"cpu": "1500m", "memory": "1Ki"}}},
                    ],
                },
            },
        },
    }
    one = reservation_of(read_reservation_object(json.dumps(document).encode()))
    assert dict(one.allocatable) == {"cpu": 1500, "memory": 1024}
    assert (one.order, one.resources, one.allocate_once) == (3, frozenset({"cpu"}), False)
    pod = one.pod
    assert (pod.spec.node_name, pod.spec.priority) == ("", 77)
    assert pod.metadata.namespace == "prod"
    assert pod.metadata.labels is not None
    assert (pod.metadata.labels["app"], pod.metadata.labels["tier"]) == ("r", "t")


def test_a_reservation_without_a_template_is_refused() -> None:
    with pytest.raises(ValueError, match="missing"):
        reservation_of(read_reservation_object(b'{"metadata": {"name": "r"}}'))
