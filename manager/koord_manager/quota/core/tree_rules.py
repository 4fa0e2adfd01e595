"""The rules that a quota and its neighbours in the tree follow. No IO.

Each gives lines on what is wrong: the thing, its value, and what was expected.
"""

from __future__ import annotations

from collections.abc import Iterator

from koord_model.demand import Amounts
from koord_model.elastic_quota import ROOT_QUOTA, ElasticQuota
from koord_model.excerpt import excerpt
from koord_model.keys import LABEL_QUOTA_IS_PARENT, LABEL_QUOTA_PARENT, LABEL_QUOTA_TREE

from koord_manager.quota.core.amounts import excess, largest, total
from koord_manager.quota.core.topology import QuotaTopology
from koord_manager.quota.core.visible_names import called


def problems(
    quota: ElasticQuota,
    topology: QuotaTopology,
    *,
    differing_resources: bool = False,
    guaranteed_usage: bool = False,
) -> list[str]:
    """Return the errors of a quota at its place.

    With ``differing_resources`` a quota may bound fewer resources than its parent does (gate
    ElasticQuotaEnableUpdateResourceKey); with ``guaranteed_usage`` its ``min`` has to be
    guaranteed by those above it (gate ElasticQuotaGuaranteeUsage).
    """
    if quota.name == ROOT_QUOTA:
        return []
    found = list(_tree(quota, topology))
    if quota.parent == ROOT_QUOTA and not quota.is_parent:
        return found
    parent = topology.named(quota.parent) if quota.parent != ROOT_QUOTA else None
    found += _parent(quota, parent, topology)
    if found:
        return found
    children = _others(topology, quota)
    for above, below in [*([(parent, quota)] if parent else []), *((quota, c) for c in children)]:
        pair = f"{called(below, quota)} below {called(above, quota)}"
        found += _resources(pair, above, below, differing=differing_resources)
    found += _sums(quota, parent, topology)
    if guaranteed_usage and not found:
        found += _guarantee(quota, topology)
    return found


def _tree(quota: ElasticQuota, topology: QuotaTopology) -> Iterator[str]:
    parent = topology.named(quota.parent) if quota.parent != ROOT_QUOTA else None
    neighbours = [("parent", parent)] if parent else []
    for role, other in [*neighbours, *(("child", other) for other in _others(topology, quota))]:
        if other.tree_id != quota.tree_id:
            yield (
                f"label {LABEL_QUOTA_TREE} is {excerpt(quota.tree_id)}; expected "
                f"{excerpt(other.tree_id)} as its {role}, {called(other, quota)}, has it"
            )


def _parent(
    quota: ElasticQuota, parent: ElasticQuota | None, topology: QuotaTopology
) -> Iterator[str]:
    if quota.parent == ROOT_QUOTA:
        return
    says = f"label {LABEL_QUOTA_PARENT} is {excerpt(quota.parent)}"
    if parent is None:
        yield f"{says}, which is not there; create that quota first"
    elif quota.name in _above(quota, topology):
        yield f"{says}, which is this quota or below it; expected one that is not"
    elif not parent.is_parent:
        yield f'{says}; expected a quota with label {LABEL_QUOTA_IS_PARENT} "true"'


def _above(quota: ElasticQuota, topology: QuotaTopology) -> set[str]:
    """The names of all quotas above it; with its own if that is a loop."""
    found: set[str] = set()
    ancestor: ElasticQuota | None = quota
    while ancestor is not None and ancestor.parent not in found:
        found.add(ancestor.parent)
        ancestor = None if ancestor.parent == quota.name else topology.named(ancestor.parent)
    return found


def _resources(
    pair: str, above: ElasticQuota, below: ElasticQuota, *, differing: bool
) -> Iterator[str]:
    more = below.max.keys() - above.max.keys()
    less = set() if differing else above.max.keys() - below.max.keys()
    if more or less:
        expected = "only its" if differing else "just its"
        yield f"{pair}: max names {_names(below.max)}; expected {expected} {_names(above.max)}"
    if below.min.keys() - above.min.keys():
        yield f"{pair}: min names {_names(below.min)}; expected only its {_names(above.min)}"


def _names(amounts: Amounts) -> str:
    return ", ".join(sorted(amounts)) or "nothing"


def _sums(
    quota: ElasticQuota, parent: ElasticQuota | None, topology: QuotaTopology
) -> Iterator[str]:
    """Children's guaranteed amounts fit into their parent's."""
    if quota.allows_force_update or quota.is_tree_root:
        return
    if parent is not None:
        siblings = [
            child.min for child in topology.children(parent.name) if child.name != quota.name
        ]
        for line in excess(total([*siblings, quota.min]), parent.min):
            yield f"min of all children of its parent {excerpt(parent.name)}: {line}, its own min"
    children = [child.min for child in _others(topology, quota)]
    for line in excess(total(children), quota.min):
        yield f"min of all its children: {line}, its own min"


def _guarantee(quota: ElasticQuota, topology: QuotaTopology) -> Iterator[str]:
    """Somebody above already has what it would be guaranteed, or its tree's root would not."""
    if quota.allows_force_update or quota.is_tree_root or not quota.tree_id:
        return
    if not any(excess(quota.min, quota.guaranteed)):
        return
    needed, below = largest(quota.min, quota.guaranteed), quota
    passed: set[str] = set()
    while below.parent != ROOT_QUOTA and below.parent not in passed:
        passed.add(below.parent)
        parent = topology.named(below.parent)
        if parent is None:
            yield f"the parent of {called(below, quota)} is not there"
            return
        siblings = (child for child in topology.children(parent.name) if child.name != below.name)
        needed = largest(parent.min, total([needed, *(child.guaranteed for child in siblings)]))
        if not any(excess(needed, parent.guaranteed)):
            return
        below = parent
    for line in excess(needed, below.guaranteed):
        root = called(below, quota)
        yield f"min is more than its tree can guarantee: {line}, guaranteed to {root}"


def _others(topology: QuotaTopology, quota: ElasticQuota) -> list[ElasticQuota]:
    return [child for child in topology.children(quota.name) if child.name != quota.name]
