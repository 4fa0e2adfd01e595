"""A cluster with quotas, as the scheduler's API has it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from koord_model.keys import LABEL_PREEMPTIBLE, LABEL_QUOTA_NAME, LABEL_QUOTA_PARENT
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.decisions import Placement, PreemptionPlan, Refusal
from koord_scheduler.framework.diagnosis import diagnose
from koord_scheduler.framework.fit_error import fit_error_message
from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.plugin import Plugin
from koord_scheduler.plugins.elastic_quota.columns import QuotaColumns
from koord_scheduler.plugins.elastic_quota.plugin import ElasticQuotaPlugin, ElasticQuotaSettings
from koord_scheduler.plugins.node_resources_fit import NodeResourcesFit


class QuotaCluster:
    """Nodes with 8 CPUs each; pods and quotas are of CPUs alone."""

    def __init__(
        self,
        *nodes: str,
        settings: ElasticQuotaSettings | None = None,
        more: Sequence[Plugin] = (),
    ) -> None:
        self.plugin = ElasticQuotaPlugin(settings)
        plugins = (NodeResourcesFit(), self.plugin, *more)
        enabled = tuple(EnabledPlugin(one) for one in plugins)
        profile = Profile("default-scheduler", enabled, preempting=(self.plugin,))
        self.scheduler = Scheduler([profile])
        self.quotas = self.scheduler.nodes.use(QuotaColumns)
        kinds = (*cluster_kinds(self.scheduler), pod_kind(self.scheduler, lambda: 0.0))
        self._kinds = {one.resource.kind: one for one in kinds}
        for name in nodes:
            self.node(name)

    def put(self, kind: str, key: str, document: Mapping[str, Any]) -> None:
        self._kinds[kind].put(key, self._kinds[kind].read(json.dumps(document).encode()))

    def remove(self, kind: str, key: str) -> None:
        self._kinds[kind].remove(key)

    def node(self, name: str, cpus: str = "8") -> None:
        amounts = {"cpu": cpus, "pods": "110"}
        self.put("Node", name, {"metadata": {"name": name}, "status": {"allocatable": amounts}})

    def quota(self, name: str, most: int, least: int = 0, parent: str = "", **labels: str) -> None:
        document = quota_object(name, {"cpu": most}, {"cpu": least}, parent, **labels)
        self.put("ElasticQuota", f"q/{name}", document)

    def pod(
        self,
        name: str,
        quota: str = "",
        cpus: int = 1,
        node: str = "",
        *,
        priority: int = 0,
        preemptible: str = "",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        own = {LABEL_QUOTA_NAME: quota, LABEL_PREEMPTIBLE: preemptible}
        metadata = {
            "name": name,
            "namespace": "shop",
            "uid": f"u-{name}",
            "labels": {**{key: one for key, one in own.items() if one}, **(labels or {})},
            "annotations": dict(annotations or {}),
        }
        container = {"name": "c", "resources": {"requests": {"cpu": str(cpus)}}}
        spec = {"containers": [container], "nodeName": node, "priority": priority, **spec}
        self.put("Pod", f"shop/{name}", {"metadata": metadata, "spec": spec})

    def decide(self) -> Placement | Refusal | PreemptionPlan:
        decision = self.scheduler.decide(0.0)
        assert isinstance(decision, Placement | Refusal | PreemptionPlan)
        return decision

    def message(self, decision: Refusal | PreemptionPlan) -> str:
        return fit_error_message(diagnose(self.scheduler.scores(decision.pod)))

    def used(self, name: str) -> int:
        """Millicores that pods of a quota, and of those below it, have."""
        one = self.quotas.trees.find(name)
        assert one is not None
        return one.node.used["cpu"]


def quota_object(
    name: str,
    most: Mapping[str, Any],
    least: Mapping[str, Any],
    parent: str = "",
    **labels: str,
) -> dict[str, Any]:
    """An ElasticQuota; ``labels`` are without their prefix, with "_" for "-"."""
    prefix = LABEL_QUOTA_NAME.removesuffix("name")
    given = {prefix + key.replace("_", "-"): one for key, one in labels.items()}
    if parent:
        given[LABEL_QUOTA_PARENT] = parent
    metadata = {"name": name, "namespace": "q", "uid": f"u-{name}", "labels": given}
    return {"metadata": metadata, "spec": {"max": most, "min": least}}
