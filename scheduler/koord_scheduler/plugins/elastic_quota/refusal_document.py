"""A quota's refusal as plain data: the shortage, and who has the resources. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koord_model.quantity import quantity_text, quantity_texts

from koord_scheduler.plugins.elastic_quota.admission import QuotaRefusal
from koord_scheduler.plugins.elastic_quota.quota_trees import TreeQuota
from koord_scheduler.plugins.elastic_quota.summary import QuotaPod

_MOST_SHOWN = 5


def refusal_document(
    found: QuotaRefusal, tree_quota: TreeQuota, pods: Mapping[str, QuotaPod]
) -> dict[str, Any]:
    """``one`` is the quota that refuses, ``pods`` are its own.

    By resource, ``lacks`` is how much it would have to have more. ``holders`` are its pods that
    have most of the first such resource, ``borrowers`` its siblings that use more than their min.
    """
    over = {
        name: found.used.get(name, 0) + found.request.get(name, 0) - found.limit[name]
        for name in found.exceeded
    }
    first = found.exceeded[0]
    return {
        "quota": found.quota,
        "path": list(found.path),
        "non_preemptible": found.non_preemptible,
        "limit": quantity_texts(found.limit),
        "used": quantity_texts(found.used),
        "lacks": quantity_texts(over),
        "resource": first,
        "holders": _largest({key: pod.amounts.get(first, 0) for key, pod in pods.items()}, first),
        "borrowers": _largest(_borrowed(tree_quota, first), first),
    }


def _borrowed(tree_quota: TreeQuota, resource: str) -> dict[str, int]:
    siblings = tree_quota.node.parent.children if tree_quota.node.parent is not None else ()
    return {
        each.quota.name: each.used[resource] - each.quota.min.get(resource, 0)
        for each in siblings
        if each is not tree_quota.node
    }


def _largest(amounts: Mapping[str, int], resource: str) -> dict[str, str]:
    ordered = sorted(amounts.items(), key=lambda item: (-item[1], item[0]))
    some = [(name, amount) for name, amount in ordered if amount > 0][:_MOST_SHOWN]
    return {name: quantity_text(resource, amount) for name, amount in some}
