"""Quotas whose pods use more than they may, and which of these pods have to go. No IO."""

from __future__ import annotations

from koord_model.elastic_quota import ROOT_QUOTA, SYSTEM_QUOTA

from koord_scheduler.plugins.elastic_quota.columns import QuotaColumns, claim_of
from koord_scheduler.plugins.elastic_quota.quota_trees import TreeQuota
from koord_scheduler.plugins.elastic_quota.revocation import pods_to_revoke
from koord_scheduler.state.placed_pods import PlacedPods
from koord_scheduler.state.pod_usage import PlacedPod


def overused_quotas(quotas: QuotaColumns) -> list[TreeQuota]:
    """Those that use more than they may at present; nobody looks at the system quota."""
    trees = quotas.trees
    return [
        tree
        for tree in trees
        if tree.name not in (ROOT_QUOTA, SYSTEM_QUOTA)
        and any(tree.node.used[name] > most for name, most in trees.runtime(tree).items())
    ]


def pods_over_quota(
    quotas: QuotaColumns, placed: PlacedPods, tree_quota: TreeQuota
) -> list[PlacedPod]:
    """The pods to evict, so that a quota uses what it may; the least important that helps."""
    pods = [pod for pod in placed.by_key.values() if _may_go(quotas, pod, tree_quota)]
    pods.sort(key=lambda pod: (-pod.priority, pod.started is None, pod.started or 0.0))
    amounts = [(pod, tree_quota.node.mask(quotas.amounts(pod.usage.request))) for pod in pods]
    return pods_to_revoke(tree_quota.node.used, quotas.trees.runtime(tree_quota), amounts)


def _may_go(quotas: QuotaColumns, pod: PlacedPod, tree_quota: TreeQuota) -> bool:
    labels = pod.usage.labels
    is_leaving = labels.is_leaving
    return (
        not is_leaving and not claim_of(labels).non_preemptible and quotas.of(labels) is tree_quota
    )
