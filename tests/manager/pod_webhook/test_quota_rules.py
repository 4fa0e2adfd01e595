from __future__ import annotations

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


def test_no_pods_in_parents() -> None:
    view = ClusterView(quotas=QUOTAS)
    assert problems(pod(name="team"), "org", view) == []
    assert problems(pod(name="koordinator-default-quota"), "org", view) == []
    assert problems(pod(), "elsewhere", view) == []
    assert problems(pod(name="org"), "elsewhere", view) == [
        (
            f'its ElasticQuota is "org" (by label {PREFIX}/name), a parent; '
            "expected one of its children"
        )
    ]
    (line,) = problems(pod(), "org", view)
    assert "(by its namespace)" in line


def test_the_gate_lets_them() -> None:
    view = ClusterView(quotas=QUOTAS, gates={"SupportParentQuotaSubmitPod": True})
    assert problems(pod(name="org"), "elsewhere", view) == []


def test_preemptible_stays() -> None:
    assert changed(pod(preemptible="false"), pod(preemptible="false")) == []
    (line,) = changed(pod(preemptible="true"), pod())
    assert line == (
        f'label {PREFIX}/preemptible is "true" and was "", which cannot change; create another pod'
    )
