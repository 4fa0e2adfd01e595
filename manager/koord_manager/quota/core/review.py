"""Whether a quota may be created, changed or deleted. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from koord_model.elastic_quota import RESERVED_QUOTAS, ROOT_QUOTA, SYSTEM_QUOTA, ElasticQuota
from koord_model.excerpt import excerpt
from koord_model.keys import (
    ANNOTATION_QUOTA_NAMESPACES,
    LABEL_QUOTA_IS_PARENT,
    LABEL_QUOTA_NAME,
    LABEL_QUOTA_TREE,
)
from koord_model.label_syntax import is_label_value, is_namespace

from koord_manager.quota.core import spec_rules, tree_rules
from koord_manager.quota.core.topology import QuotaTopology

Gates = Mapping[str, bool]
_DIFFERING_RESOURCES = "ElasticQuotaEnableUpdateResourceKey"
_GUARANTEED_USAGE = "ElasticQuotaGuaranteeUsage"


@dataclass(frozen=True, slots=True)
class PodQuery:
    """Pods that must not be: with this label, or in these namespaces; ``problem`` if there are.

    ``label`` is "" where no pod can have it.
    """

    label: str
    namespaces: tuple[str, ...]
    problem: str


@dataclass(frozen=True, slots=True)
class QuotaReview:
    """What is wrong with a change; without problems, ``pods`` still must not be.

    It is ``unchanged`` if nothing changes that a rule is about.
    """

    problems: tuple[str, ...] = ()
    pods: PodQuery | None = None
    unchanged: bool = False


def review_creation(
    quota: ElasticQuota, annotations: Mapping[str, object], topology: QuotaTopology, gates: Gates
) -> QuotaReview:
    """Of a quota that is to be created."""
    same = [one for one in topology.all_of(quota.name) if one.namespace != quota.namespace]
    found = [
        f"namespace {excerpt(one.namespace)} has a quota of this name; expected another name"
        for one in same
    ]
    found += _namespaces(quota, topology)
    found += spec_rules.problems(quota, annotations, spec_rules.ANNOTATIONS)
    return QuotaReview(tuple(found + _place(quota, topology, gates)))


def review_update(
    old: ElasticQuota,
    new: ElasticQuota,
    annotations: Mapping[str, object],
    topology: QuotaTopology,
    gates: Gates,
    annotations_before: Mapping[str, object],
) -> QuotaReview:
    """Of a quota that is to be changed; what no rule is about may always change."""
    changed = {
        name
        for name in spec_rules.ANNOTATIONS
        if annotations.get(name) != annotations_before.get(name)
    }
    if not is_change(old, new):
        written = {name: annotations[name] for name in changed if name in annotations}
        found = spec_rules.annotation_problems(new, written, changed)
        return QuotaReview(tuple(found), unchanged=not changed)
    if new.name in (ROOT_QUOTA, SYSTEM_QUOTA):
        return QuotaReview(("it is reserved; expected no change",))
    found = [*_namespaces(new, topology), *spec_rules.problems(new, annotations, changed)]
    if old.tree_id != new.tree_id:
        values = f"{excerpt(new.tree_id)} and was {excerpt(old.tree_id)}"
        found.append(f"label {LABEL_QUOTA_TREE} is {values}, which cannot change")
    label = f"label {LABEL_QUOTA_IS_PARENT}"
    if old.is_parent and not new.is_parent and topology.children(new.name):
        found.append(f'{label} is not "true"; expected "true" while it has children')
    found += _place(new, topology, gates)
    if found or old.is_parent or not new.is_parent:
        return QuotaReview(tuple(found))
    problem = f'{label} is "true"; expected "false" while pods belong to it'
    namespaces = tuple(filter(is_namespace, (new.name, *old.namespaces)))
    return QuotaReview(pods=PodQuery(_of(new), namespaces, problem))


def review_deletion(quota: ElasticQuota, topology: QuotaTopology) -> QuotaReview:
    """Of a quota that is to be deleted."""
    if quota.name in RESERVED_QUOTAS:
        return QuotaReview(("it is reserved, and cannot be deleted",))
    children = sorted(one.name for one in topology.children(quota.name) if one.name != quota.name)
    if children:
        return QuotaReview((f"it has children ({', '.join(children[:3])}); delete those first",))
    return QuotaReview(pods=PodQuery(_of(quota), (), "pods belong to it; delete those first"))


def _place(quota: ElasticQuota, topology: QuotaTopology, gates: Gates) -> list[str]:
    return tree_rules.problems(
        quota,
        topology,
        differing_resources=gates.get(_DIFFERING_RESOURCES, False),
        guaranteed_usage=gates.get(_GUARANTEED_USAGE, False),
    )


def _namespaces(quota: ElasticQuota, topology: QuotaTopology) -> Iterator[str]:
    for namespace in quota.namespaces:
        for one in topology.listing(namespace):
            if one.name != quota.name:
                yield (
                    f"annotation {ANNOTATION_QUOTA_NAMESPACES} lists {excerpt(namespace)}, which "
                    f"belongs to quota {excerpt(one.name)}; expected one quota for a namespace"
                )


def is_change(old: ElasticQuota, new: ElasticQuota) -> bool:
    """Whether a rule is about anything that changes."""
    return _ruled(old) != _ruled(new)


def _ruled(quota: ElasticQuota) -> tuple[object, ...]:
    return (
        *(quota.max, quota.min, quota.parent, quota.is_parent, quota.tree_id),
        quota.namespaces,
    )


def _of(quota: ElasticQuota) -> str:
    """The label of its pods; names are longer than any label of a pod may be."""
    return f"{LABEL_QUOTA_NAME}={quota.name}" if is_label_value(quota.name) else ""
