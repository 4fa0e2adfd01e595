from __future__ import annotations

import copy
from typing import Any

import pytest
from koord_manager.profiles.webhook.reservation import mutate_reservation
from koord_manager.webhooks.cluster_view import ClusterView
from koord_serving.admission.core.admission import (
    ADMITTED,
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
)

Object = dict[str, Any]

PROFILE = {
    "spec": {
        "namespaceSelector": {"matchLabels": {"not": "looked-at"}},
        "selector": {"matchLabels": {"app": "web"}},
        "schedulerName": "koord-scheduler",
        "priorityClassName": "koord-batch",
        "qosClass": "BE",
    }
}
VIEW = ClusterView(profiles={"p": PROFILE}, priority_classes={"koord-batch": {"value": 5500}})
RESERVATION: Object = {
    "metadata": {"name": "r", "labels": {"app": "web"}},
    "spec": {
        "template": {
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
        }
    },
}


def asked(given: Object, view: ClusterView = VIEW, **more: Any) -> AdmissionResponse:
    question: dict[str, Any] = {
        "operation": AdmissionOperation.CREATE,
        "resource": "reservations",
        "group": "scheduling.koordinator.sh",
    }
    return mutate_reservation(AdmissionRequest("1", object=given, **(question | more)), view)


def test_profiles_by_its_labels_in_its_template_and_no_renaming() -> None:
    kept = copy.deepcopy(RESERVATION)
    verdict = asked(RESERVATION)
    assert kept == RESERVATION
    after = verdict.object
    assert after is not None
    assert after["metadata"]["labels"] == {"app": "web", "koordinator.sh/qosClass": "BE"}
    spec = after["spec"]["template"]["spec"]
    assert spec == {
        "schedulerName": "koord-scheduler",
        "priorityClassName": "koord-batch",
        "priority": 5500,
        "containers": RESERVATION["spec"]["template"]["spec"]["containers"],
    }
    assert asked(after) == ADMITTED


@pytest.mark.parametrize(
    ("given", "more"),
    [
        ({"metadata": {"labels": {"app": "db"}}}, {}),
        (RESERVATION, {"operation": AdmissionOperation.UPDATE}),
        (RESERVATION, {"group": "example.com"}),
        (RESERVATION, {"subresource": "status"}),
    ],
)
def test_otherwise_it_is_admitted_as_it_is(given: Object, more: dict[str, Any]) -> None:
    assert asked(given, **more) == ADMITTED


def test_a_profile_without_its_chance_does_nothing() -> None:
    profile = {"spec": {**PROFILE["spec"], "probability": "50%"}}
    view = ClusterView(profiles={"p": profile}, chance=lambda: 0.5)
    assert asked(RESERVATION, view) == ADMITTED


@pytest.mark.parametrize(
    ("given", "view", "code", "refusal"),
    [
        ({"spec": {"template": []}}, VIEW, 400, "no Reservation: Expected `object | null`, got `a"),
        # A profile that cannot be applied.
        (
            RESERVATION,
            ClusterView(profiles={"p": PROFILE}),
            500,
            'Reservation "r": ClusterColocationProfile "p" spec.prior',
        ),
    ],
)
def test_what_is_refused(given: Object, view: ClusterView, code: int, refusal: str) -> None:
    verdict = asked(given, view)
    assert (verdict.code, verdict.refusal[: len(refusal)]) == (code, refusal)


def test_what_cannot_be_used_is_reported() -> None:
    view = ClusterView(
        profiles={"a": {"spec": {"selector": 1}}, "b": {"spec": {"labels": {"x": 1, "y": "1"}}}}
    )
    verdict = asked(RESERVATION, view)
    assert len(verdict.warnings) == 2
    assert verdict.object is not None
    assert verdict.object["metadata"]["labels"] == {"app": "web", "y": "1"}
