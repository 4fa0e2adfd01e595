"""An ElasticQuotaProfile, and the quota that it makes of nodes. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from koord_model import label_selector
from koord_model.demand import Amounts, amounts
from koord_model.elastic_quota import annotated_names, parse
from koord_model.excerpt import excerpt
from koord_model.fields import Fields, plain_number
from koord_model.keys import (
    ANNOTATION_RESOURCE_KEYS,
    ANNOTATION_TOTAL_RESOURCE,
    ANNOTATION_UNSCHEDULABLE_RESOURCE,
    CPU,
    LABEL_QUOTA_IS_ROOT,
    LABEL_QUOTA_PROFILE,
    LABEL_QUOTA_TREE,
    MEMORY,
)
from koord_model.label_selector import LabelSelector

from koord_manager.node_objects.core.nodes import ClusterNode
from koord_manager.profiles.core.placing import inside
from koord_manager.quota.core.amounts import encode, quantities, total

Object = dict[str, Any]

_UNBOUNDED = ((1 << 63) - 1) // 2000
"""What the quota may use at most, of each resource, in whole units: Koordinator's number."""

_RESOURCES = (CPU, MEMORY)


@dataclass(frozen=True, slots=True)
class QuotaProfile:
    """Which nodes make which quota; ``tree_id`` is also the quota's."""

    name: str
    namespace: str
    quota: str
    selector: LabelSelector
    labels: Mapping[str, str]
    ratio: float | None
    resources: tuple[str, ...]
    tree_id: str
    has_tree: bool


def read(document: Object, on_warning: Callable[[str], None]) -> QuotaProfile:
    """The profile in an API object; what of it cannot be used has its default, with a line.

    Raises:
        ValueError: it cannot be used at all; one line says why.
    """
    metadata = inside(document, "metadata")
    name, namespace = str(metadata.get("name", "")), str(metadata.get("namespace", ""))
    where = f"ElasticQuotaProfile {excerpt(f'{namespace}/{name}')}"
    spec, ignored = inside(document, "spec"), list[str]()
    quota = spec.get("quotaName")
    if not isinstance(quota, str) or not quota:
        raise ValueError(f"{where} spec.quotaName is missing; expected the name of a quota")
    selector = label_selector.parse(spec.get("nodeSelector"), f"{where} spec.nodeSelector")
    fields = Fields(spec, f"{where} spec", ignored)
    ratio = fields.take("resourceRatio", 1.0, _ratio, "a number above 0, up to 1", "1 is used")
    annotations = Fields(inside(metadata, "annotations"), f"{where} annotation", ignored)
    resources = annotated_names(annotations, ANNOTATION_RESOURCE_KEYS, _RESOURCES)
    tree = inside(metadata, "labels").get(LABEL_QUOTA_TREE)
    for line in ignored:
        on_warning(line)
    return QuotaProfile(
        name,
        namespace,
        quota,
        selector,
        dict(inside(spec, "quotaLabels")),
        ratio if fields.has("resourceRatio") else None,
        resources,
        tree or _fnv(f"{namespace}/{name}"),
        has_tree=bool(tree),
    )


def _ratio(given: object) -> float:
    ratio = plain_number(given)
    if not 0 < ratio <= 1:
        raise ValueError(given)
    return ratio


def _fnv(text: str) -> str:
    """FNV-1a of 64 bits, as Koordinator names trees."""
    found = 0xCBF29CE484222325
    for byte in text.encode():
        found = (found ^ byte) * 0x100000001B3 % (1 << 64)
    return str(found)


@dataclass(frozen=True, slots=True)
class DesiredQuota:
    """The quota as its profile and the nodes have it."""

    min: Amounts
    max: Amounts
    labels: Mapping[str, str]
    total: Amounts
    unschedulable: Amounts


def desired_quota(profile: QuotaProfile, nodes: Iterable[ClusterNode]) -> DesiredQuota:
    """What the profile's nodes make of it."""
    found = [node for node in nodes if profile.selector.matches(node.labels)]
    closed = [node for node in found if not node.takes_pods]
    whole, unschedulable = (
        _part(profile, total(amounts(node.allocatable) for node in some))
        for some in (found, closed)
    )
    own = {
        LABEL_QUOTA_PROFILE: profile.name,
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
        "spec": {"min": quantities(desired.min), "max": quantities(desired.max)},
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
        name: {**dict.fromkeys(before), **quantities(now)}
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
