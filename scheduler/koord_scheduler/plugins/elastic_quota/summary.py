"""A quota as plain data, as Koordinator's services show it. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from koord_model.demand import Amounts
from koord_model.quantity import quantity_texts

from koord_scheduler.plugins.elastic_quota.quota_trees import QuotaTrees, TreeQuota


class QuotaPod(NamedTuple):
    """Requests of a pod of a quota, and if it has a node."""

    amounts: Amounts
    has_node: bool


def quota_summary(
    trees: QuotaTrees, tree_quota: TreeQuota, pods: Mapping[str, QuotaPod] | None = None
) -> dict[str, Any]:
    """A quota and what its pods ask for and use; with its ``pods``, if they are given."""
    node, quota = tree_quota.node, tree_quota.node.quota
    amounts: Mapping[str, Amounts] = {
        "max": quota.max,
        "min": quota.min,
        "autoScaleMin": trees.scaled_min(tree_quota),
        "used": node.used,
        "nonPreemptibleUsed": node.non_preemptible_used,
        "request": node.requests(),
        "nonPreemptibleRequest": node.non_preemptible_request,
        "sharedWeight": quota.shared_weight,
        "runtime": trees.runtime(tree_quota),
        "childRequest": node.child_request,
        "allocated": node.allocated,
        "guaranteed": node.guaranteed,
        "selfUsed": node.own_used,
        "selfNonPreemptibleUsed": node.own_non_preemptible_used,
        "selfRequest": node.own_request,
        "selfNonPreemptibleRequest": node.own_non_preemptible_request,
    }
    document: dict[str, Any] = {
        "name": quota.name,
        "parentName": quota.parent,
        "isParent": quota.is_parent,
        "runtimeVersion": tree_quota.tree.version,
        "allowLentResource": node.lends,
        "tree": trees.tree_name(tree_quota),
        **{name: quantity_texts(listed) for name, listed in amounts.items()},
    }
    if pods is not None:
        document["podCache"] = {
            key: {"isAssigned": pod.has_node, "resource": quantity_texts(pod.amounts)}
            for key, pod in sorted(pods.items())
        }
    return document
