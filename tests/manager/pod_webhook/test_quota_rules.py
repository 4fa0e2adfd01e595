from __future__ import annotations

import pytest
from koord_manager.pod_webhook import document
from koord_manager.pod_webhook.document import PodDocument
from koord_manager.pod_webhook.quota_rules import changed, problems
from koord_manager.webhooks.cluster_view import ClusterView
from koord_serving.admission.core.admission import Object

PREFIX = "quota.scheduling.koordinator.sh"


def quota(name: str, is_parent: str) -> Object:
    return {"metadata": {"name": name, "labels": {f"{PREFIX}/is-parent": is_parent}}}


QUOTAS = {
    "x/org": quota("org", "true"),
    "x/team": quota("team", "false"),
    "x/koordinator-default-quota": quota("koordinator-default-quota", "true"),
}


def pod(**labels: str) -> PodDocument:
    named = {f"{PREFIX}/{name}": value for name, value in labels.items()}
    return document.read({"metadata": {"labels": named}, "spec": {"containers": []}})


@pytest.mark.parametrize(
    ("name", "namespace", "gate", "line"),
    [
        ("team", "org", False, ""),
        ("koordinator-default-quota", "org", False, ""),
        ("", "elsewhere", False, ""),
        (
            "org",
            "elsewhere",
            False,
            f'its ElasticQuota is "org" (by label {PREFIX}/name), a parent; expected one of',
        ),
        ("", "org", False, 'its ElasticQuota is "org" (by its namespace)'),
        ("org", "elsewhere", True, ""),
    ],
)
def test_no_pods_in_parents(name: str, namespace: str, gate: bool, line: str) -> None:
    view = ClusterView(quotas=QUOTAS, gates={"SupportParentQuotaSubmitPod": gate})
    found = problems(pod(name=name) if name else pod(), namespace, view)
    assert [one[: len(line)] for one in found] == ([line] if line else [])


def test_preemptible_stays() -> None:
    assert changed(pod(preemptible="false"), pod(preemptible="false")) == []
    (line,) = changed(pod(preemptible="true"), pod())
    assert line == (
        f'label {PREFIX}/preemptible is "true" and was "", which cannot change; create another pod'
    )
