from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from koord_manager.pod_webhook.validating import validate_pod
from koord_manager.quota.core.topology import QuotaTopology
from koord_manager.webhooks.cluster_view import ClusterView
from koord_model.elastic_quota import ElasticQuota
from koord_serving.admission.core.admission import ADMITTED, AdmissionOperation, AdmissionRequest

from tests.support.admissions import creation, update

Object = dict[str, Any]
QOS = "koordinator.sh/qosClass"
QUOTA = "quota.scheduling.koordinator.sh/name"
PREEMPTIBLE = "quota.scheduling.koordinator.sh/preemptible"


def pod(node: str = "", **labels: str) -> Object:
    named = {QOS if name == "qos" else name: value for name, value in labels.items()}
    spec = {"containers": [{"name": "c"}], "nodeName": node, "priority": 9500}
    return {"metadata": {"name": "p", "labels": named}, "spec": spec}


def test_a_good_pod_is_admitted() -> None:
    assert validate_pod(creation(pod()), ClusterView()) == ADMITTED
    assert validate_pod(update(pod("n"), pod("n")), ClusterView()) == ADMITTED


def test_all_that_is_wrong_is_in_one_line() -> None:
    view = ClusterView(
        quotas=QuotaTopology([ElasticQuota("batch", "batch", is_parent=True)]),
        enhanced_validation={
            "enable": "true",
            "rules": '[{"name": "teams", "requiredLabels": ["team"]}]',
        },
        gates={"ValidatePodDeviceResource": True, "EnablePodEnhancedValidator": True},
    )
    given = pod(qos="BE")
    given["spec"]["containers"][0]["resources"] = {"requests": {"koordinator.sh/gpu": "150"}}
    verdict = validate_pod(creation(given), view)
    assert verdict.refusal == (
        'pod "batch/p": the priority class is "koord-prod" (spec.priority 9500); expected '
        "koord-mid or koord-batch or koord-free with label koordinator.sh/qosClass BE; "
        'its ElasticQuota is "batch" (by its namespace), a parent; '
        "expected one of its children; "
        'container "c" requests koordinator.sh/gpu 150; '
        "expected 1 to 100, or a multiple of 100; "
        'label "team" is missing; expected by rule "teams"'
    )
    assert verdict.code == 403


def test_an_update_is_refused_for_what_it_makes_wrong_alone() -> None:
    old = pod("n", qos="BE")
    assert validate_pod(creation(old), ClusterView()).refusal
    new = copy.deepcopy(old)
    new["metadata"]["labels"]["app"] = "web"
    assert validate_pod(update(new, old), ClusterView()) == ADMITTED
    new["metadata"]["labels"][PREEMPTIBLE] = "false"
    refusal = validate_pod(update(new, old), ClusterView()).refusal
    assert refusal.startswith(f'pod "batch/p": label {PREEMPTIBLE} is "false" and was ""')


def test_an_unknown_class_is_a_warning() -> None:
    (line,) = validate_pod(creation(pod(qos="be")), ClusterView()).warnings
    assert line.startswith(f'label {QOS} is "be"; expected one of LSE')


@pytest.mark.parametrize(
    "admission",
    [
        creation(pod(qos="BE"), "kube-system"),
        AdmissionRequest("1", AdmissionOperation.DELETE, "pods", old=pod(qos="BE")),
        AdmissionRequest(
            "1", AdmissionOperation.UPDATE, "pods", subresource="status", object=pod(qos="BE")
        ),
    ],
)
def test_what_is_not_asked_about_is_admitted(admission: AdmissionRequest) -> None:
    assert validate_pod(admission, ClusterView()) == ADMITTED


@pytest.mark.parametrize(
    "admission", [creation({"spec": 1}), update(pod(), {"spec": 1}), update({"spec": 1}, pod())]
)
def test_what_is_no_pod_is_a_bad_request(admission: AdmissionRequest) -> None:
    verdict = validate_pod(admission, ClusterView())
    assert verdict.code == 400
    assert verdict.refusal.startswith("no pod: ")


@pytest.mark.parametrize(("cpu", "admitted"), [("3", True), ("2500m", False)])
def test_a_pod_that_is_resized_keeps_whole_cores(cpu: str, admitted: bool) -> None:
    old = pod("n", qos="LSR")
    old["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    new = copy.deepcopy(old)
    new["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    asked = replace(update(new, old), subresource="resize")
    assert (validate_pod(asked, ClusterView()).refusal == "") is admitted


def test_a_quota_that_is_not_there_is_warned_of() -> None:
    view = ClusterView(quotas=QuotaTopology([ElasticQuota("team-a", "batch")]))
    given = pod(**{QUOTA: "team-b"})
    (line,) = validate_pod(creation(given), view).warnings
    assert '"team-b"' in line
    assert not validate_pod(update(given, given), view).warnings
    assert not validate_pod(creation(pod(**{QUOTA: "team-a"})), view).warnings
