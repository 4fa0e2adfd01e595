"""Of a quota that uses too much the least important pods go, and no more of them than have to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from koord_model.elastic_quota import SYSTEM_QUOTA
from koord_model.keys import LABEL_PREEMPTIBLE, LABEL_QUOTA_NAME
from koord_scheduler.plugins.elastic_quota.overuse import OveruseClock
from koord_scheduler.plugins.elastic_quota.overused_quotas import overused_quotas, pods_over_quota
from koord_scheduler.plugins.elastic_quota.revocation import pods_to_revoke

from tests.support.quota_cluster import QuotaCluster

AMOUNTS = st.fixed_dictionaries(
    {}, optional={name: st.integers(0, 5) for name in ("cpu", "memory", "unlimited")}
)
LIMIT = st.fixed_dictionaries({"cpu": st.integers(0, 20), "memory": st.integers(0, 20)})


@given(st.lists(AMOUNTS, max_size=8), AMOUNTS, LIMIT)
@example([{"cpu": 1}, {"cpu": 4}, {"cpu": 1}], {}, {"cpu": 2, "memory": 20})
@example([{"cpu": 1}, {"cpu": 4}, {"cpu": 1, "unlimited": 1}], {}, {"cpu": 3, "memory": 20})
def test_none_goes_in_vain_and_all_go_that_help(
    pods: list[dict[str, int]], others: dict[str, int], limit: dict[str, int]
) -> None:
    used = Counter(others)
    for amounts in pods:
        used.update(amounts)
    revoked = pods_to_revoke(used, limit, list(enumerate(pods)))
    assert revoked == sorted(set(revoked)), "the most important first"
    left = Counter(used)
    for place in revoked:
        left.subtract(pods[place])
    kept = [amounts for place, amounts in enumerate(pods) if place not in revoked]
    for name, most in limit.items():
        assert left[name] <= most or not any(amounts.get(name) for amounts in kept)
    for place in revoked:
        amounts = {name: amount for name, amount in pods[place].items() if amount}
        assert any(left[name] + amounts[name] > limit[name] for name in limit.keys() & amounts)
        alike = (later for later in range(place, len(pods)) if pods[later] == pods[place])
        assert set(alike) <= set(revoked), "one as large that is less important goes first"


def pod(name: str, **more: Any) -> Mapping[str, Any]:
    """A pod of the quota "team" with a CPU, on a node."""
    labels = {LABEL_QUOTA_NAME: more.pop("quota", "team"), **more.pop("labels", {})}
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "nodeName": "n1", "priority": more.pop("priority", 0)}
    status = {"phase": "Running", "startTime": more.pop("started", None)}
    metadata = {"name": name, "namespace": "shop", "uid": f"u-{name}", "labels": labels, **more}
    return {"metadata": metadata, "spec": spec, "status": status}


def test_the_most_important_stay_and_of_equal_ones_those_that_started_first() -> None:
    cluster = QuotaCluster("n1")
    cluster.quota("team", 4)
    cluster.quota("other", 9)
    ends = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    for one in (
        pod("new", started="2026-01-03T00:00:00Z"),
        pod("old", started="2026-01-02T00:00:00Z"),
        pod("not yet started"),
        pod("important", priority=9),
        pod("stays", labels={LABEL_PREEMPTIBLE: "false"}),
        pod("ends", **ends),
        pod("of another", quota="other"),
    ):
        cluster.put("Pod", f"shop/{one['metadata']['name']}", one)
    [team] = overused_quotas(cluster.quotas)
    assert team.name == "team"

    def go(limit: int) -> list[str]:
        cluster.quota("team", limit)
        found = cluster.quotas.trees.find("team")
        assert found is not None
        pods = pods_over_quota(cluster.quotas, cluster.scheduler.placed, found)
        return [one.key.removeprefix("shop/") for one in pods]

    order = ["important", "old", "new", "not yet started"]
    for limit in range(7):
        assert go(limit) == order[max(0, limit - 2) :], "two of six may not go"
    assert overused_quotas(cluster.quotas) == []


def test_nobody_looks_at_the_system_quota() -> None:
    cluster = QuotaCluster("n1")
    cluster.quota(SYSTEM_QUOTA, 0)
    system = pod("a", quota=SYSTEM_QUOTA)
    cluster.put("Pod", "shop/a", system)
    assert cluster.used(SYSTEM_QUOTA) == 1000
    assert overused_quotas(cluster.quotas) == []


def test_pods_go_after_more_than_the_delay_without_a_break() -> None:
    clock = OveruseClock(60.0)
    assert clock.due(["a", "b"], 0.0) == []
    assert clock.due(["a"], 50.0) == []
    assert clock.due(["a", "b"], 60.0) == []
    assert clock.due(["a", "b"], 60.5) == ["a"]
    assert clock.due(["a", "b"], 120.5) == ["b"]
    assert clock.due(["a"], 121.0) == ["a"]
