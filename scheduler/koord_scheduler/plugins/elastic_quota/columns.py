"""Requests and usage of each quota's pods, as pods, nodes and quotas come and go. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from koord_kube.protocol.resources import ELASTIC_QUOTAS
from koord_model.demand import Amounts
from koord_model.elastic_quota import ElasticQuota
from koord_model.excerpt import excerpt
from koord_model.keys import LABEL_PREEMPTIBLE, LABEL_QUOTA_NAME

from koord_scheduler.objects.node import Node
from koord_scheduler.plugins.elastic_quota.quota_object import (
    ElasticQuotaObject,
    ReadQuota,
    read_elastic_quota,
)
from koord_scheduler.plugins.elastic_quota.quota_trees import (
    QuotaClaim,
    QuotaGates,
    QuotaRules,
    QuotaTrees,
    TreeQuota,
)
from koord_scheduler.plugins.elastic_quota.summary import QuotaPod
from koord_scheduler.state.cluster_kind import ClusterKind
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.feature_state import FeatureState
from koord_scheduler.state.pod_labels import PodLabels
from koord_scheduler.state.pod_reader import ClusterPod
from koord_scheduler.state.pod_usage import PlacedPod, PodUsage
from koord_scheduler.state.resources import PODS, Request


@dataclass
class _Sums:
    """Sums of the pods with one claim; ``pods`` counts them, twice with a node."""

    pods: int = 0
    request: Counter[str] = field(default_factory=Counter)
    used: Counter[str] = field(default_factory=Counter)


class QuotaColumns(FeatureState):
    """Quotas by key, and sums over pods.

    Sums are kept by what pods say of their quota. So another quota, or other ones, cost a
    computation of the trees, and no look at pods.
    """

    def __init__(self, nodes: ClusterState) -> None:
        super().__init__(nodes)
        nodes.selected_labels.add_keys((LABEL_PREEMPTIBLE, LABEL_QUOTA_NAME))
        self.gates = QuotaGates.of(nodes.gates)
        self._rules: QuotaRules | None = None
        self._quotas: dict[str, ReadQuota] = {}
        self._pods: dict[str, PodUsage] = {}
        self._with_node: set[str] = set()
        self._sums: dict[QuotaClaim, _Sums] = {}
        self._trees: QuotaTrees | None = None
        self._is_total_stale = True
        self._missing: set[str] = set()

    def follow(self, rules: QuotaRules) -> None:
        """Share by these rules, unless another profile has its own already."""
        self._rules = self._rules or rules

    @property
    def rules(self) -> QuotaRules:
        """The rules by which quotas are shared."""
        return self._rules or QuotaRules()

    def kinds(self, now: Callable[[], float]) -> Iterable[ClusterKind]:
        yield ClusterKind(
            ELASTIC_QUOTAS,
            ElasticQuotaObject,
            read_elastic_quota,
            self.set_quota,
            self.remove_quota,
            is_optional=True,
        )

    @property
    def objects(self) -> Mapping[str, ReadQuota]:
        """The quotas of the API, by namespace/name."""
        return self._quotas

    @property
    def trees(self) -> QuotaTrees:
        """All quotas with what their pods ask for and use."""
        if self._trees is None:
            self._trees = self._make_trees()
        if self._is_total_stale:
            self._is_total_stale = False
            self._trees.set_cluster_total(self._total())
        return self._trees

    def set_quota(self, key: str, read: ReadQuota) -> None:
        """A quota is there, or has changed."""
        before = self._quotas.get(key)
        self._quotas[key] = read
        if before is None or _shape(before.quota) != _shape(read.quota):
            self._trees = None
        if before is None or before.ignored != read.ignored:
            for line in read.ignored:
                self.warn(line)

    def remove_quota(self, key: str) -> None:
        """A quota is gone."""
        del self._quotas[key]
        self._trees = None

    def set_node(self, row: int, node: Node | None, *, is_moved: bool) -> bool:
        self._is_total_stale = True
        return False

    def set_pod(self, pod: ClusterPod) -> None:
        key, usage = pod.key, pod.usage
        before = self._pods.get(key)
        if before is usage:
            return
        if before is not None:
            self._ask(before, -1)
        self._pods[key] = usage
        self._ask(usage, 1)

    def remove_pod(self, key: str) -> None:
        """A pod is gone, and not counted on a node any more."""
        before = self._pods.pop(key, None)
        if before is not None:
            self._ask(before, -1)

    def placed(self, row: int, pod: PlacedPod) -> None:
        self._add_used(pod.key, pod.usage, 1)

    def unplaced(self, row: int, pod: PlacedPod) -> None:
        self._add_used(pod.key, pod.usage, -1)

    def _add_used(self, key: str, usage: PodUsage, sign: int) -> None:
        if key not in self._pods:
            return  # it is no pod
        (self._with_node.add if sign > 0 else self._with_node.discard)(key)
        claim, amounts = claim_of(usage.labels), self.amounts(usage.request)
        sums = self._sums_of(claim, sign)
        for name, amount in amounts.items():
            sums.used[name] += sign * amount
        if self._trees is not None:
            self._trees.add_used(claim, amounts, sign)

    def of(self, labels: PodLabels) -> TreeQuota | None:
        """The quota of pods with these labels; ``None``: they have none."""
        return self.trees.of(claim_of(labels)) if self._quotas else None

    def amounts(self, request: Request) -> dict[str, int]:
        """Return a pod's requests that count, by name."""
        return {name: int(amount) for name, amount in request if name != PODS}

    def pods_of(self, tree_quota: TreeQuota) -> dict[str, QuotaPod]:
        """The pods of a quota by key; all pods are looked at."""
        return {
            key: QuotaPod(self.amounts(usage.request), key in self._with_node)
            for key, usage in self._pods.items()
            if self.trees.of(claim_of(usage.labels)) is tree_quota
        }

    def take_warnings(self) -> list[str]:
        """Lines about quotas that cannot be used as they are, or that are not there, each once."""
        self._warn_of_missing()
        return super().take_warnings()

    def _warn_of_missing(self) -> None:
        named = {one.name: one for one in self._sums if one.name} if self._quotas else {}
        missing = {name for name in named if self.trees.find(name) is None}
        for name in sorted(missing - self._missing):
            claim = named[name]
            quota = self.trees.of(claim)
            instead = f"they count as {quota.name}'s" if quota else "they have no quota"
            where = f"pods of namespace {claim.namespace} name the ElasticQuota {excerpt(name)}"
            self.warn(f"{where}, which is not there: {instead}")
        self._missing = missing

    def _ask(self, usage: PodUsage, sign: int) -> None:
        claim, amounts = claim_of(usage.labels), self.amounts(usage.request)
        sums = self._sums_of(claim, sign)
        for name, amount in amounts.items():
            sums.request[name] += sign * amount
        if self._trees is not None:
            self._trees.add_request(claim, amounts, sign)

    def _sums_of(self, claim: QuotaClaim, sign: int) -> _Sums:
        """The sums of a claim, which are forgotten with its last pod."""
        found = self._sums.get(claim)
        if found is None:
            found = self._sums[claim] = _Sums()
        found.pods += sign
        if not found.pods:
            del self._sums[claim]
        return found

    def _make_trees(self) -> QuotaTrees:
        by_name: dict[str, ElasticQuota] = {}
        for key in sorted(self._quotas):
            one = self._quotas[key].quota
            first = by_name.setdefault(one.name, one)
            if first is not one:
                self._warn(one, f"{first.namespace} has a quota of the same name; rename one")
        made = QuotaTrees(by_name.values(), self.rules, self.gates)
        for orphan in made.orphans():
            self._warn(
                orphan, f'its parent "{orphan.parent}" is not there; the root is taken as parent'
            )
        for claim, sums in self._sums.items():
            made.add_request(claim, sums.request)
            made.add_used(claim, sums.used)
        self._is_total_stale = True
        return made

    def _warn(self, quota: ElasticQuota, what: str) -> None:
        self.warn(f"ElasticQuota {quota.namespace}/{quota.name}: {what}")

    def _total(self) -> Amounts:
        """By resource; there are 0 of those that no node has, and none at all without nodes."""
        is_node, names = self._nodes.is_node, self._nodes.resources.names
        if not is_node.any():
            return {}
        totals = self._nodes.resources.allocatable[: len(names), is_node].sum(axis=1)
        return {name: int(one) for name, one in zip(names, totals, strict=True) if name}


def claim_of(labels: PodLabels) -> QuotaClaim:
    """Return the quota claim of pods with these labels."""
    name, non_preemptible = "", False
    for key, value in labels.labels:
        if key == LABEL_QUOTA_NAME:
            name = value
        elif key == LABEL_PREEMPTIBLE:
            non_preemptible = value == "false"
    return QuotaClaim(name, labels.namespace, non_preemptible)


def _shape(quota: ElasticQuota) -> tuple[object, ...]:
    """All of a quota that decides, and not what schedulers write into it."""
    return (
        quota.name,
        quota.uid,
        quota.max,
        quota.min,
        quota.shared_weight,
        quota.parent,
        quota.is_parent,
        quota.tree_id,
        quota.is_tree_root,
        quota.ignores_default_tree,
        quota.allows_lent_resource,
        quota.is_terminating,
        quota.namespaces,
        quota.total_resource,
    )
