from __future__ import annotations

import pytest
from koord_manager.quota.core.topology import QuotaTopology
from koord_manager.quota.core.view import QuotaView
from koord_manager.quota.webhook.pod_rules import changed, problems
from koord_model.elastic_quota import DEFAULT_QUOTA, ElasticQuota

PREFIX = "quota.scheduling.koordinator.sh"


QUOTAS = QuotaTopology(
    [
        ElasticQuota("org", "org", is_parent=True),
        ElasticQuota("team", "x"),
        ElasticQuota(DEFAULT_QUOTA, "x", is_parent=True),
    ]
)


def quota_labels(**labels: str) -> dict[str, str]:
    return {f"{PREFIX}/{name}": value for name, value in labels.items()}


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
    view = QuotaView(quotas=QUOTAS, gates={"SupportParentQuotaSubmitPod": gate})
    found = problems(quota_labels(name=name) if name else quota_labels(), namespace, view)
    assert [one[: len(line)] for one in found] == ([line] if line else [])


def test_preemptible_stays() -> None:
    assert changed(quota_labels(preemptible="false"), quota_labels(preemptible="false")) == []
    (line,) = changed(quota_labels(preemptible="true"), quota_labels())
    assert line == (
        f'label {PREFIX}/preemptible is "true" and was "", which cannot change; create another pod'
    )
