"""Review of a quota's creation, change or deletion. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from koord_kube.protocol.selectors import EVERYTHING, ApiSelector, label_is
from koord_model.elastic_quota import RESERVED_QUOTAS, ROOT_QUOTA, SYSTEM_QUOTA, ElasticQuota
from koord_model.excerpt import excerpt
from koord_model.keys import (
    ANNOTATION_QUOTA_NAMESPACES,
    LABEL_QUOTA_IS_PARENT,
    LABEL_QUOTA_NAME,
    LABEL_QUOTA_TREE,
)
from koord_model.names import is_label_value, is_namespace

from koord_manager.quota.core import spec_rules, tree_rules
from koord_manager.quota.core.topology import QuotaTopology, key_of
from koord_manager.quota.core.visible_names import called

Gates = Mapping[str, bool]
_DIFFERING_RESOURCES = "ElasticQuotaEnableUpdateResourceKey"
_GUARANTEED_USAGE = "ElasticQuotaGuaranteeUsage"


@dataclass(frozen=True, slots=True)
class PodQuery:
    """Pods that must not be: with this label, or in these namespaces; ``problem`` if there are.

    ``label`` is "" where no pod can have it.
    """

    label: ApiSelector
    namespaces: tuple[str, ...]
    problem: str


@dataclass(frozen=True, slots=True)
class QuotaReview:
    """Errors of a change; without any, there still must not be ``pods``.

    It is ``unchanged`` if nothing changes that a rule is about.
    """

    problems: tuple[str, ...] = ()
    pods: PodQuery | None = None
    unchanged: bool = False


def review_creation(
    quota: ElasticQuota, annotations: Mapping[str, object], topology: QuotaTopology, gates: Gates
) -> QuotaReview:
    """Of a quota that is to be created."""
    same = [other for other in topology.all_of(quota.name) if other.namespace != quota.namespace]
    found = ["another namespace has a quota of this name; expected another name"] if same else []
    found += spec_rules.namespace_problems(annotations)
    found += _namespaces(quota, topology)
    found += spec_rules.problems(quota, annotations, spec_rules.ANNOTATIONS)
    return QuotaReview(tuple(found + _place(quota, topology, gates)))


def review_update(
    old: ElasticQuota,
    new: ElasticQuota,
    annotations: Mapping[str, object],
    old_annotations: Mapping[str, object],
    topology: QuotaTopology,
    gates: Gates,
) -> QuotaReview:
    """Of a quota that is to be changed; what no rule is about may always change."""
    listed = spec_rules.namespace_problems(annotations)
    if listed and listed != spec_rules.namespace_problems(old_annotations):
        return QuotaReview(tuple(listed))
    changed = {
        name
        for name in spec_rules.ANNOTATIONS
        if annotations.get(name) != old_annotations.get(name)
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
    return _without_pods(
        new, topology, f'{label} is "true"; expected "false" while pods belong to it'
    )


def review_deletion(quota: ElasticQuota, topology: QuotaTopology) -> QuotaReview:
    """Of a quota that is to be deleted."""
    if quota.name in RESERVED_QUOTAS:
        return QuotaReview(("it is reserved, and cannot be deleted",))
    children = [child for child in topology.children(quota.name) if child.name != quota.name]
    if children:
        some = ", ".join(sorted({called(child, quota) for child in children})[:3])
        return QuotaReview((f"it has children ({some}); delete those first",))
    return _without_pods(quota, topology, "pods belong to it; delete those first", by_label=True)


def _without_pods(
    quota: ElasticQuota, topology: QuotaTopology, problem: str, *, by_label: bool = False
) -> QuotaReview:
    """Allow it if no pods belong to it by label or, unless ``by_label`` alone, by namespace.

    Who asks cannot be trusted to say what is looked for: what counts is the quota as it is known.
    """
    known = topology.current(key_of(quota))
    if known is None:
        return QuotaReview(("it is not known here yet; try again in a moment",))
    names = () if by_label else (known.name, *known.namespaces)
    namespaces = tuple(name for name in names if is_namespace(name))
    # Of a longer name there can be no label, and so no pod.
    label = label_is(LABEL_QUOTA_NAME, known.name) if is_label_value(known.name) else EVERYTHING
    return QuotaReview(pods=PodQuery(label, namespaces, problem))


def _place(quota: ElasticQuota, topology: QuotaTopology, gates: Gates) -> list[str]:
    return tree_rules.problems(
        quota,
        topology,
        differing_resources=gates.get(_DIFFERING_RESOURCES, False),
        guaranteed_usage=gates.get(_GUARANTEED_USAGE, False),
    )


def _namespaces(quota: ElasticQuota, topology: QuotaTopology) -> Iterator[str]:
    for namespace in quota.namespaces:
        for other in topology.listing(namespace):
            if other.name != quota.name:
                yield (
                    f"annotation {ANNOTATION_QUOTA_NAMESPACES} lists {excerpt(namespace)}, which "
                    f"belongs to {called(other, quota)}; expected one quota for a namespace"
                )


def is_change(old: ElasticQuota, new: ElasticQuota) -> bool:
    """True if a rule is about anything that changes."""
    return _ruled(old) != _ruled(new)


def _ruled(quota: ElasticQuota) -> tuple[object, ...]:
    return (
        *(quota.max, quota.min, quota.parent, quota.is_parent, quota.tree_id),
        quota.namespaces,
    )
