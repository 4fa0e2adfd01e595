"""All quotas of a cluster: their trees, the default and the system quota, and whose pods are whose.

No IO.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from koord_model.demand import Amounts
from koord_model.elastic_quota import (
    DEFAULT_QUOTA,
    RESERVED_QUOTAS,
    ROOT_QUOTA,
    SYSTEM_QUOTA,
    ElasticQuota,
    quota_of_pod,
    quotas_by_namespace,
)
from koord_model.keys import CPU, LABEL_QUOTA_NAME, MEMORY

from koord_scheduler.plugins.elastic_quota.quota_tree import QuotaNode, QuotaTree

MAIN_TREE = ""
"""The tree of quotas that name none."""
UNLIMITED: Amounts = dict.fromkeys((CPU, MEMORY), (2**63 - 1) // 5)


MULTI_TREE = "MultiQuotaTree"
GUARANTEE = "ElasticQuotaGuaranteeUsage"
NO_DEFAULT = "DisableDefaultQuota"


class QuotaGates(NamedTuple):
    """Koordinator's feature gates MultiQuotaTree, ElasticQuotaGuaranteeUsage, DisableDefaultQuota.

    Quotas may be in several trees; what pods use is theirs for certain; pods have no quota but
    that of their label.
    """

    multi_tree: bool = False
    guarantees_usage: bool = False
    disables_default: bool = False

    @classmethod
    def of(cls, gates: Mapping[str, bool]) -> QuotaGates:
        """Those of all feature gates."""
        return cls(*(gates.get(name, False) for name in (MULTI_TREE, GUARANTEE, NO_DEFAULT)))


@dataclass(frozen=True)
class QuotaRules:
    """Rules of sharing: with ``scales_min`` mins shrink if there is less than their sum."""

    scales_min: bool = True
    default_max: Amounts = field(default_factory=lambda: UNLIMITED)
    system_max: Amounts = field(default_factory=lambda: UNLIMITED)


class QuotaClaim(NamedTuple):
    """A pod's claim to a quota: its label ``name``, its namespace, and how it counts."""

    name: str
    namespace: str
    non_preemptible: bool = False


class TreeQuota(NamedTuple):
    """A quota and the tree that it is in; the default and the system quota have no parent."""

    tree: QuotaTree
    node: QuotaNode

    @property
    def name(self) -> str:
        """Its name, of which there is one in a cluster."""
        return self.node.quota.name

    @property
    def limits_itself(self) -> bool:
        """True if it shares nothing with others: only its max counts."""
        return self.name in (DEFAULT_QUOTA, SYSTEM_QUOTA)


class QuotaTrees:
    """The quotas, as long as none of them changes; requests and uses of pods come and go."""

    def __init__(
        self, quotas: Iterable[ElasticQuota], rules: QuotaRules, gates: QuotaGates
    ) -> None:
        self._disables_default = gates.disables_default
        present = {one.name: one for one in quotas if not one.is_terminating}
        self._by_namespace = quotas_by_namespace(present.values())
        self._in_trees = defaultdict[str, list[ElasticQuota]](list)
        for one in present.values():
            if one.name not in RESERVED_QUOTAS:
                self._in_trees[one.tree_id if gates.multi_tree else MAIN_TREE].append(one)
        self.trees = {
            name: QuotaTree(
                self._in_trees[name],
                scales_min=rules.scales_min,
                guarantees_usage=gates.guarantees_usage,
            )
            for name in sorted({*self._in_trees, MAIN_TREE})
        }
        self._quotas: dict[str, TreeQuota] = {}
        main = self.trees[MAIN_TREE]
        for name, most in ((DEFAULT_QUOTA, rules.default_max), (SYSTEM_QUOTA, rules.system_max)):
            quota = present.get(name) or ElasticQuota(name, max=most)
            self._quotas[name] = TreeQuota(main, QuotaNode(quota, None))
        if ROOT_QUOTA in present:
            self._quotas[ROOT_QUOTA] = TreeQuota(main, main.root)
        for tree in self.trees.values():
            for name, node in tree.nodes.items():
                self._quotas[name] = TreeQuota(tree, node)
        self._members: dict[QuotaClaim, TreeQuota | None] = {}
        self._reserved_for_trees = self._set_tree_totals()
        self._cluster_total: Amounts = {}
        self._is_total_stale = True

    def __iter__(self) -> Iterator[TreeQuota]:
        return iter(self._quotas.values())

    def find(self, name: str) -> TreeQuota | None:
        """A quota by its name."""
        return self._quotas.get(name)

    def orphans(self) -> list[ElasticQuota]:
        """Quotas whose parent is not in their tree."""
        return [orphan for tree in self.trees.values() for orphan in tree.orphans]

    def of(self, claim: QuotaClaim) -> TreeQuota | None:
        """The quota of a pod; ``None``: it has none."""
        if claim not in self._members:
            labels = {LABEL_QUOTA_NAME: claim.name} if claim.name else {}
            name = quota_of_pod(
                labels,
                claim.namespace,
                self._by_namespace,
                self._quotas,
                default_quota=not self._disables_default,
            )
            self._members[claim] = self._quotas.get(name)
        return self._members[claim]

    def tree_name(self, tree_quota: TreeQuota) -> str:
        """The name of the tree that a quota is in."""
        return next(name for name, tree in self.trees.items() if tree is tree_quota.tree)

    def set_cluster_total(self, total: Amounts) -> None:
        """Set the total of all nodes."""
        self._cluster_total = total
        self._is_total_stale = True

    def add_request(self, claim: QuotaClaim, amounts: Amounts, sign: int = 1) -> None:
        """A pod is there, or with -1 for ``sign`` not any more."""
        one = self.of(claim)
        if one is None:
            return
        one.tree.add_request(one.node, amounts, sign, non_preemptible=claim.non_preemptible)
        if one.limits_itself:
            _add(one.tree.root.child_request, one.node.mask(amounts), sign)

    def add_used(self, claim: QuotaClaim, amounts: Amounts, sign: int = 1) -> None:
        """A pod has a node, or with -1 for ``sign`` not any more."""
        one = self.of(claim)
        if one is None:
            return
        one.tree.add_used(one.node, amounts, sign, non_preemptible=claim.non_preemptible)
        if one.limits_itself:
            _add(one.tree.root.used, one.node.mask(amounts), sign)
            self._is_total_stale = True

    def runtime(self, tree_quota: TreeQuota) -> Mapping[str, int]:
        """Return a quota's present runtime; resources that are not in it are not limited."""
        if tree_quota.limits_itself:
            return tree_quota.node.quota.max
        if self._is_total_stale:
            self._set_main_total()
        return tree_quota.tree.runtime(tree_quota.node)

    def scaled_min(self, tree_quota: TreeQuota) -> Mapping[str, int]:
        """Its min as it counts at present."""
        if tree_quota.limits_itself:
            return tree_quota.node.quota.min
        if self._is_total_stale:
            self._set_main_total()
        return tree_quota.tree.scaled_min(tree_quota.node)

    def _set_tree_totals(self) -> Amounts:
        """Trees have what their root says; returns what the main tree lacks for that."""
        lacking: Counter[str] = Counter()
        for name, tree in self.trees.items():
            roots = [in_tree for in_tree in self._in_trees[name] if in_tree.is_tree_root]
            totals = [root for root in roots if root.total_resource is not None]
            if name == MAIN_TREE or not totals:
                continue
            first = min(totals, key=lambda one: one.name)
            tree.set_total(first.total_resource or {})
            if not first.ignores_default_tree:
                _add(lacking, tree.total)
        return lacking

    def _set_main_total(self) -> None:
        """The main tree has what nodes have, less what other trees and quotas without one have."""
        self._is_total_stale = False
        left = Counter(self._cluster_total)
        _add(left, self._reserved_for_trees, -1)
        for name in (DEFAULT_QUOTA, SYSTEM_QUOTA):
            _add(left, self._quotas[name].node.used, -1)
        self.trees[MAIN_TREE].set_total(left)


def _add(amounts: Counter[str], changes: Amounts, sign: int = 1) -> None:
    for name, amount in changes.items():
        amounts[name] += sign * amount
