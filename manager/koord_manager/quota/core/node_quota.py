"""The quota that a profile makes of its nodes. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from koord_model.demand import Amounts, amounts
from koord_model.elastic_quota import parse
from koord_model.json_objects import Object, inside
from koord_model.keys import (
    ANNOTATION_TOTAL_RESOURCE,
    ANNOTATION_UNSCHEDULABLE_RESOURCE,
    CPU,
    LABEL_QUOTA_IS_ROOT,
    LABEL_QUOTA_PROFILE,
    LABEL_QUOTA_TREE,
)
from koord_model.names import is_label_value
from koord_model.quantity import quantity_texts

from koord_manager.node_objects.core.nodes import ClusterNode
from koord_manager.quota.core.amounts import encode, total
from koord_manager.quota.core.profile import QuotaProfile

_UNBOUNDED = ((1 << 63) - 1) // 2000
"""Upper bound of a quota's every resource, in whole units: Koordinator's number."""


@dataclass(frozen=True, slots=True)
class DesiredQuota:
    """The quota as its profile and the nodes have it."""

    min: Amounts
    max: Amounts
    labels: Mapping[str, str]
    total: Amounts
    unschedulable: Amounts


def desired_quota(profile: QuotaProfile, nodes: Iterable[ClusterNode]) -> DesiredQuota:
    """Return the quota that the profile makes of its nodes."""
    found = [node for node in nodes if profile.selector.matches(node.labels)]
    closed = [node for node in found if not node.takes_pods]
    whole, unschedulable = (
        _part(profile, total(amounts(node.allocatable) for node in some))
        for some in (found, closed)
    )
    own = {
        # A longer name is no label's value, and the quota could not be written with it.
        **({LABEL_QUOTA_PROFILE: profile.name} if is_label_value(profile.name) else {}),
        **profile.labels,
        LABEL_QUOTA_TREE: profile.tree_id,
        LABEL_QUOTA_IS_ROOT: "true",
    }
    return DesiredQuota(
        {name: whole.get(name, 0) for name in profile.resources},
        {name: _UNBOUNDED * (1000 if name == CPU else 1) for name in profile.resources},
        own,
        whole,
        unschedulable,
    )


def _part(profile: QuotaProfile, amounts_of_nodes: Amounts) -> Amounts:
    ratio = profile.ratio
    if ratio is None:
        return amounts_of_nodes
    return {name: int(float(amount) * ratio) for name, amount in amounts_of_nodes.items()}


def new_quota(profile: QuotaProfile, desired: DesiredQuota) -> Object:
    """The quota as it is to be created."""
    return {
        "metadata": {
            "name": profile.quota,
            "namespace": profile.namespace,
            "labels": dict(desired.labels),
            "annotations": _annotations(desired),
        },
        "spec": {"min": quantity_texts(desired.min), "max": quantity_texts(desired.max)},
    }


def quota_patch(desired: DesiredQuota, existing: Object) -> Object:
    """The merge patch that makes the quota as desired; empty where it is."""
    quota, _ = parse(existing)
    labels = inside(existing, "metadata", "labels")
    metadata: Object = {}
    if any(labels.get(name) != value for name, value in desired.labels.items()):
        metadata["labels"] = dict(desired.labels)
    noted = quota.total_resource, quota.unschedulable_resource
    if noted != (desired.total, desired.unschedulable):
        metadata["annotations"] = _annotations(desired)
    found: Object = {"metadata": metadata} if metadata else {}
    spec = {
        name: {**dict.fromkeys(before), **quantity_texts(now)}
        for name, before, now in (
            ("min", quota.min, desired.min),
            ("max", quota.max, desired.max),
        )
        if before != now
    }
    return found | ({"spec": spec} if spec else {})


def _annotations(desired: DesiredQuota) -> dict[str, str]:
    return {
        ANNOTATION_TOTAL_RESOURCE: encode(desired.total),
        ANNOTATION_UNSCHEDULABLE_RESOURCE: encode(desired.unschedulable),
    }
