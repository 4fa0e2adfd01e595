from __future__ import annotations

from typing import Any

import pytest
from koord_manager.pod_webhook.profiled import mutated
from koord_manager.webhooks.cluster_view import ClusterView

Object = dict[str, Any]

BATCH = {"qosClass": "BE", "priorityClassName": "koord-batch"}
SKIPS = {"annotations": {"config.koordinator.sh/skip-update-resources": ""}}


def pod(**labels: str) -> Object:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": {"name": "p", "labels": labels}, "spec": {"containers": [container]}}


def view(chance: float = 0.0, gates: dict[str, bool] | None = None, **docs: Object) -> ClusterView:
    return ClusterView(
        profiles=docs,
        namespaces={"ns": {}},
        priority_classes={"koord-batch": {"value": 5500}},
        gates=gates or {},
        chance=lambda: chance,
    )


def applied(cluster: ClusterView, given: Object | None = None) -> tuple[Object, list[str]]:
    warnings: list[str] = []
    return mutated(given or pod(), "ns", cluster, warnings), warnings


def requested(given: Object) -> Object:
    found: Object = given["spec"]["containers"][0]["resources"]["requests"]
    return found


RENAMED = {"kubernetes.io/batch-cpu": "1k"}


@pytest.mark.parametrize(
    ("chance", "renames"), [(0.0, True), (0.299, True), (0.3, False), (0.9, False)]
)
def test_a_profile_without_its_chance_does_nothing(chance: float, renames: bool) -> None:
    given = pod(**{"koordinator.sh/qosClass": "BE"})
    after, _ = applied(view(chance, p={"spec": {"probability": 30, "labels": {"a": "1"}}}), given)
    assert (requested(after) == RENAMED) is renames
    assert ("a" in after["metadata"]["labels"]) is renames


KEEPS = {"ColocationProfileSkipMutatingResources": True}


@pytest.mark.parametrize(
    ("cluster", "requests"),
    [
        (view(p={"spec": BATCH}), RENAMED),
        (view(p={"spec": BATCH}, q={"metadata": SKIPS}), {"cpu": "1"}),
        # But not one that is not applied.
        (view(0.9, p={"spec": BATCH}, q={"metadata": SKIPS, "spec": {"probability": 10}}), RENAMED),
        (view(gates=KEEPS, p={"spec": BATCH}), {"cpu": "1"}),
    ],
)
def test_a_profile_or_a_gate_may_keep_resources_as_they_are(
    cluster: ClusterView, requests: Object
) -> None:
    after, _ = applied(cluster)
    assert (requested(after), after["spec"]["priority"]) == (requests, 5500)


def test_what_of_a_profile_cannot_be_used_is_reported() -> None:
    after, warnings = applied(view(p={"spec": {"labels": {"a": 1, "b": "2"}}}))
    assert after["metadata"]["labels"] == {"b": "2"}
    assert warnings == ['ClusterColocationProfile "p" spec.labels.a is 1; expected text (left out)']


def test_a_patch_that_makes_it_no_pod_is_said() -> None:
    broken = {"spec": {"patch": {"spec": {"priority": "high"}}}}
    with pytest.raises(ValueError, match="the patches of profiles p make it no pod: Expected"):
        applied(view(p=broken))
