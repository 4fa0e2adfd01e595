"""ElasticQuota: pods use no more than their quota has at present. No IO.

How much that is, ``quota_tree`` computes from the requests of the pods of all quotas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from koord_model.demand import Amounts
from koord_model.elastic_quota import DEFAULT_QUOTA, ROOT_QUOTA
from prometheus_client.registry import Collector

from koord_scheduler.extension_points.api_services import ApiServices, Controller
from koord_scheduler.plugin import Limit, LookUp, Plugin, PreFilterResult, Service, VictimRules
from koord_scheduler.plugins.elastic_quota.admission import (
    AdmissionRules,
    QuotaRefusal,
    limit_of,
    refusal,
)
from koord_scheduler.plugins.elastic_quota.columns import QuotaColumns, claim_of
from koord_scheduler.plugins.elastic_quota.controller import (
    DEFAULT_DUTIES,
    QuotaDuties,
    quota_controllers,
)
from koord_scheduler.plugins.elastic_quota.quota_metrics import QuotaMetrics, quota_figures
from koord_scheduler.plugins.elastic_quota.quota_trees import QuotaRules, TreeQuota
from koord_scheduler.plugins.elastic_quota.refusal_document import refusal_document
from koord_scheduler.plugins.elastic_quota.summary import quota_summary
from koord_scheduler.state.arrays import Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_usage import PodUsage


@dataclass(frozen=True)
class ElasticQuotaSettings:
    """Sharing and admission of quotas, and the pods that may be preempted.

    With ``spares_default`` pods of the default quota do not.
    """

    rules: QuotaRules = field(default_factory=QuotaRules)
    admission: AdmissionRules = field(default_factory=AdmissionRules)
    spares_default: bool = True
    duties: QuotaDuties = DEFAULT_DUTIES


LARGER_QUOTA = "a quota with a larger max"


class ElasticQuotaPlugin(Plugin):
    """Koordinator's plugin ElasticQuota."""

    name: ClassVar[str] = "ElasticQuota"
    helped_by: ClassVar[str] = "pods of its quota that end, or a quota that may use more"
    reads_labels: ClassVar[bool] = False

    def __init__(self, settings: ElasticQuotaSettings | None = None) -> None:
        self._settings = settings or ElasticQuotaSettings()
        self._observe: Callable[[float], None] = lambda seconds: None

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(QuotaColumns).follow(self._settings.rules)

    def controllers(self, api: ApiServices) -> Iterable[Controller]:
        return quota_controllers(api, self._settings.duties, self._observe)

    def collectors(self, nodes: ClusterState, look_up: LookUp) -> Iterable[Collector]:
        quotas = nodes.use(QuotaColumns)
        metrics = QuotaMetrics(lambda: look_up(lambda: quota_figures(quotas)))
        self._observe = metrics.report_seconds.observe
        yield metrics

    def admit(self, pods: Sequence[PodClass], nodes: ClusterState) -> str:
        found = self.refusal(pods, nodes)
        return "" if found is None else found.text()

    def pre_filter(self, pod: PodClass, nodes: ClusterState) -> PreFilterResult:
        found = self.refusal((pod,), nodes)
        if found is None:
            return PreFilterResult(resolvable=True)
        cure = (
            LARGER_QUOTA
            if _is_beyond(nodes.use(QuotaColumns).of(pod.labels), dict(pod.amounts))
            else ""
        )
        return PreFilterResult(found.text(), resolvable=True, cure=cure)

    def refusal(self, pods: Sequence[PodClass], nodes: ClusterState) -> QuotaRefusal | None:
        """Return a quota's refusal of its pods of these classes; ``None`` if all are admitted.

        Pods of several quotas are not added up in what these have above them.
        """
        trees, rules = nodes.use(QuotaColumns).trees, self._settings.admission
        requests = _requests(pods, nodes)
        found = (
            refusal(trees, request.quota, request.amounts, rules, request.fixed)
            for request in requests
        )
        return next((refused for refused in found if refused is not None), None)

    def explain(self, pod: PodClass, nodes: ClusterState) -> dict[str, Any] | None:
        found = self.refusal((pod,), nodes)
        quota = nodes.use(QuotaColumns).trees.find(found.quota) if found is not None else None
        if found is None or quota is None:
            return None
        pods = {
            key: pod for key, pod in nodes.use(QuotaColumns).pods_of(quota).items() if pod.has_node
        }
        return refusal_document(found, quota, pods)

    def victims(self, pod: PodClass, nodes: ClusterState) -> VictimRules | None:
        """Pods of the same quota; that must have room for the pod in the end."""
        columns = nodes.use(QuotaColumns)
        quota = columns.of(pod.labels)
        if quota is None or (self._settings.spares_default and quota.name == DEFAULT_QUOTA):
            return None

        def is_member(usage: PodUsage) -> bool:
            return columns.of(usage.labels) is quota

        def may_be(usage: PodUsage) -> bool:
            return not claim_of(usage.labels).non_preemptible and is_member(usage)

        def limits(rows: Rows) -> Sequence[Limit]:
            return [
                Limit(_counting(nodes, is_member, name), np.full(len(rows), room))
                for name, room in self._room(pod, nodes, quota).items()
            ]

        return VictimRules(may_be, limits)

    def _room(
        self, pod: PodClass, nodes: ClusterState, tree_quota: TreeQuota
    ) -> Mapping[str, float]:
        """By resource, how much the quota would have left with one more pod of a class."""
        rules, trees, node = (
            self._settings.admission,
            nodes.use(QuotaColumns).trees,
            tree_quota.node,
        )
        request = node.mask(dict(pod.amounts))
        room = {
            name: float(most - node.used[name] - request.get(name, 0))
            for name, most in limit_of(trees, tree_quota, rules).items()
        }
        for parent in node.ancestors() if rules.checks_parents else ():
            limit = limit_of(trees, TreeQuota(tree_quota.tree, parent), rules)
            for name, amount in request.items():
                left = float(limit.get(name, np.inf) - parent.used[name] - amount)
                room[name] = min(room.get(name, np.inf), left)
        if claim_of(pod.labels).non_preemptible:
            for name, least in node.quota.min.items():
                if node.non_preemptible_used[name] + request.get(name, 0) > least:
                    room[name] = -np.inf  # no victim is one that may not be preempted
        return room

    def services(self, nodes: ClusterState) -> Mapping[str, Service]:
        """``/quotas`` (of a ``tree``) and ``/quotas/:name``; ``includePods`` adds their pods."""

        def all_quotas(given: Mapping[str, str]) -> dict[str, Any]:
            trees, tree = nodes.use(QuotaColumns).trees, given.get("tree", "")
            return {
                quota.name: _summary(nodes, quota, given)
                for quota in trees
                if quota.name != ROOT_QUOTA and trees.tree_name(quota) == tree
            }

        def one_quota(given: Mapping[str, str]) -> dict[str, Any]:
            quota = nodes.use(QuotaColumns).trees.find(given["name"])
            if quota is None:
                raise LookupError(f"cannot find quota {given['name']}")
            return _summary(nodes, quota, given)

        return {"/quotas": all_quotas, "/quotas/:name": one_quota}


def _is_beyond(tree_quota: TreeQuota | None, amounts: Amounts) -> bool:
    """True if a pod asks for more than its quota, or one above it, may ever use."""
    if tree_quota is None:
        return False
    request = tree_quota.node.mask(amounts)
    limits = [node.quota.max for node in (tree_quota.node, *tree_quota.node.ancestors())]
    return any(amount > has.get(name, amount) for has in limits for name, amount in request.items())


class _QuotaRequest(NamedTuple):
    """Requests of a quota's pods together; ``fixed`` of those that may not be preempted."""

    quota: TreeQuota
    amounts: Amounts
    fixed: Amounts | None


def _requests(pods: Sequence[PodClass], nodes: ClusterState) -> list[_QuotaRequest]:
    """Sum the pods' requests by quota; those without a quota are passed over."""
    quotas: dict[str, TreeQuota] = {}
    amounts: dict[str, Counter[str]] = {}
    fixed: dict[str, Counter[str]] = {}
    columns = nodes.use(QuotaColumns)
    for pod in pods:
        quota = columns.of(pod.labels)
        if quota is None:
            continue
        quotas[quota.name] = quota
        asked = dict(pod.amounts)
        amounts.setdefault(quota.name, Counter()).update(asked)
        if claim_of(pod.labels).non_preemptible:
            fixed.setdefault(quota.name, Counter()).update(asked)
    return [_QuotaRequest(quotas[name], amounts[name], fixed.get(name)) for name in quotas]


def _summary(
    nodes: ClusterState, tree_quota: TreeQuota, given: Mapping[str, str]
) -> dict[str, Any]:
    columns = nodes.use(QuotaColumns)
    pods = columns.pods_of(tree_quota) if given.get("includePods") == "true" else None
    return quota_summary(columns.trees, tree_quota, pods)


def _counting(
    nodes: ClusterState, is_member: Callable[[PodUsage], bool], resource: str
) -> Callable[[PodUsage], float]:
    columns = nodes.use(QuotaColumns)

    def amount(usage: PodUsage) -> float:
        return float(columns.amounts(usage.request).get(resource, 0)) * is_member(usage)

    return amount
