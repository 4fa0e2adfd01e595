"""Webhooks of pods and reservations, asked anything: they answer, and what they answer is good."""

from __future__ import annotations

import copy
import random
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.pod_webhook.mutating import mutate_pod
from koord_manager.pod_webhook.validating import validate_pod
from koord_manager.profiles.webhook.reservation import mutate_reservation
from koord_manager.webhooks.cluster_view import ClusterView
from koord_serving.admission.core.admission import (
    ADMITTED,
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
)
from koord_serving.admission.core.json_patch import patch

from tests.support import pod_rules
from tests.support.admissions import NAMESPACES, creation, json_trees, pods, profiles, views
from tests.support.mutilation import mutilated

Object = dict[str, Any]

# A patch that takes a pod's only container away, and one that adds a container twice, are the
# API server's to refuse.
_ITS_OWN = ("should be non-empty", "non-unique")


def answers(admission: AdmissionRequest, view: ClusterView) -> list[AdmissionResponse]:
    """All webhooks' answers, whose form is held against what the server relies on."""
    before = copy.deepcopy((admission.object, admission.old))
    found = []
    for webhook in (mutate_pod, validate_pod, mutate_reservation):
        verdict = webhook(admission, view)
        assert "\n" not in verdict.refusal
        assert all(isinstance(line, str) and "\n" not in line for line in verdict.warnings)
        assert not (verdict.refusal and verdict.object)
        if verdict.object is not None:
            changes = patch(admission.object, verdict.object)
            assert changes
            assert jsonpatch.apply_patch(admission.object, changes) == verdict.object
        found.append(verdict)
    assert (admission.object, admission.old) == before
    return found


admissions = st.builds(
    AdmissionRequest,
    uid=st.just("1"),
    operation=st.sampled_from(AdmissionOperation),
    resource=st.sampled_from(("pods", "pods", "reservations", "nodes")),
    group=st.sampled_from(("", "", "scheduling.koordinator.sh")),
    subresource=st.sampled_from(("", "", "status")),
    namespace=st.sampled_from((*NAMESPACES, "")),
    object=st.one_of(st.dictionaries(st.sampled_from(("metadata", "spec")), json_trees), pods()),
    old=st.one_of(st.dictionaries(st.sampled_from(("metadata", "spec")), json_trees), pods()),
)
documents = st.dictionaries(st.sampled_from(("metadata", "spec")), json_trees)


@given(admissions, views(of=documents | profiles()))
def test_answers_whatever_it_is_asked(admission: AdmissionRequest, view: ClusterView) -> None:
    answers(admission, view)


@given(
    pods(),
    profiles(),
    st.lists(json_trees, max_size=4),
    st.lists(json_trees, max_size=3),
    st.randoms(use_true_random=False),
    views(),
)
def test_answers_what_is_nearly_right(
    pod: Object,
    profile: Object,
    parts: list[Any],
    others: list[Any],
    source: random.Random,
    view: ClusterView,
) -> None:
    broken = mutilated(profile, source, others)
    view = ClusterView(
        profiles={**view.profiles, "broken": broken},
        namespaces=view.namespaces,
        priority_classes=view.priority_classes,
        gates=view.gates,
        chance=view.chance,
    )
    given_pod = mutilated(pod, source, parts)
    answers(creation(given_pod), view)
    answers(
        AdmissionRequest("1", AdmissionOperation.UPDATE, "pods", object=given_pod, old=pod), view
    )
    template = {"metadata": pod["metadata"], "spec": {"template": given_pod}}
    group = "scheduling.koordinator.sh"
    answers(
        AdmissionRequest(
            "1", AdmissionOperation.CREATE, "reservations", group=group, object=template
        ),
        view,
    )


@given(pods(), st.sampled_from(NAMESPACES), views())
def test_a_mutated_pod_is_one_that_the_api_takes(
    pod: Object, namespace: str, view: ClusterView
) -> None:
    assert pod_rules.problems(pod) == []
    verdict, *_ = answers(creation(pod, namespace), view)
    assert not verdict.refusal
    found = [] if verdict.object is None else pod_rules.problems(verdict.object)
    assert [one for one in found if not any(own in one for own in _ITS_OWN)] == []


@given(pods(), st.sampled_from(NAMESPACES), views())
def test_a_mutated_pod_is_not_mutated_again(pod: Object, namespace: str, view: ClusterView) -> None:
    once = mutate_pod(creation(pod, namespace), view).object or pod
    assert mutate_pod(creation(once, namespace), view).object is None


@given(pods(), views())
def test_pods_of_kube_system_are_let_be(pod: Object, view: ClusterView) -> None:
    assert answers(creation(pod, "kube-system"), view)[:2] == [ADMITTED, ADMITTED]


@pytest.mark.parametrize("where", ["metadata", "spec", "volumes", "terms"])
def test_an_endlessly_deep_object_is_answered(where: str) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    pod: Object = {
        "metadata": {"labels": {"koordinator.sh/qosClass": "BE"}},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]},
    }
    if where == "volumes":
        pod["spec"]["volumes"] = deep
    elif where == "terms":
        terms = {"nodeSelectorTerms": [{"matchExpressions": deep}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        pod["spec"]["affinity"] = {"nodeAffinity": required}
    else:
        pod[where]["more"] = deep
    view = ClusterView(profiles={"p": {"spec": {"labels": {"a": "b"}}}})
    verdict = mutate_pod(creation(pod), view)
    assert verdict.object is not None
    assert patch(pod, verdict.object)
    assert not validate_pod(creation(pod), view).warnings
    reservation = {"metadata": {}, "spec": {"template": pod}}
    group = "scheduling.koordinator.sh"
    asked = AdmissionRequest(
        "1", AdmissionOperation.CREATE, "reservations", group=group, object=reservation
    )
    assert mutate_reservation(asked, view).object is not None
