"""The plugin DefaultEvictor: a filter of pods; its moves are evictions. No IO."""

from __future__ import annotations

from typing import ClassVar

from koord_model import label_selector
from koord_model.label_selector import LabelSelector
from koord_scheduler.objects.annotations import read_annotations
from koord_scheduler.state.pod_labels import pod_labels

from koord_descheduler.framework.node_fit import node_fit_obstacle
from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.plugin import DeschedulerPlugin
from koord_descheduler.plugins.default_evictor.args import (
    DefaultEvictorArgs,
    PodProtection,
)

ANNOTATION_EVICT = "descheduler.alpha.kubernetes.io/evict"
"""With any value: the pod may move, whatever the rules here say."""
ANNOTATION_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
"""With any value: the pod would rather stay, or has to where ``noEvictionPolicy`` says so."""

read_annotations(ANNOTATION_EVICT, ANNOTATION_NO_EVICTION)


class DefaultEvictor(DeschedulerPlugin):
    """Upstream's plugin of that name."""

    name: ClassVar[str] = "DefaultEvictor"
    Args: ClassVar[type[DefaultEvictorArgs]] = DefaultEvictorArgs
    evicts: ClassVar[bool] = True

    def __init__(self, args: DefaultEvictorArgs) -> None:
        self._args = args
        self._protections = args.protections()
        self._labels = _selector(args.label_selector)
        self._namespaces = _selector(args.namespace_label_selector)
        threshold = args.priority_threshold
        self._threshold = threshold.value if threshold is not None else None
        self._nodes = label_selector.parse_text(args.node_selector, "nodeSelector")

    def filter(self, pod: ObservedPod, cluster: ProfileRound) -> str:
        if ANNOTATION_EVICT in pod.annotations:
            return ""
        return (
            self._bare(pod)
            or self._storage(pod)
            or self._wishes(pod)
            or self._selection(pod)
            or self._budget(pod, cluster)
            or self._age(pod, cluster)
            or self._replicas(pod, cluster)
        )

    def pre_eviction_filter(self, pod: ObservedPod, cluster: ProfileRound) -> str:
        if why := self._namespace(pod, cluster):
            return why
        return node_fit_obstacle(pod, cluster, self._nodes) if self._args.node_fit else ""

    def _bare(self, pod: ObservedPod) -> str:
        if pod.template.owners:
            return ""
        if pod.phase != "Failed":
            return "it has no owner that would make it anew"
        protected = PodProtection.FAILED_BARE in self._protections
        return "it failed and has no owner (FailedBarePods)" if protected else ""

    def _storage(self, pod: ObservedPod) -> str:
        for protection, has, what in (
            (PodProtection.LOCAL_STORAGE, pod.template.is_local, "local storage"),
            (PodProtection.PVC, bool(pod.template.claims), "a PersistentVolumeClaim"),
            (PodProtection.RESOURCE_CLAIMS, pod.template.has_resource_claims, "a ResourceClaim"),
        ):
            if has and protection in self._protections:
                return f"it has {what} ({protection})"
        return ""

    def _wishes(self, pod: ObservedPod) -> str:
        mandatory = self._args.no_eviction_policy == "Mandatory"
        if mandatory and ANNOTATION_NO_EVICTION in pod.annotations:
            return f"it has the annotation {ANNOTATION_NO_EVICTION}"
        priority, most = pod.template.priority, self._threshold
        if priority is not None and most is not None and priority >= most:
            return f"its priority {priority} is not below priorityThreshold {most}"
        return ""

    def _selection(self, pod: ObservedPod) -> str:
        is_meant = self._labels is None or self._labels.matches(pod.template.labels)
        return "" if is_meant else "labelSelector does not select it"

    def _namespace(self, pod: ObservedPod, cluster: ProfileRound) -> str:
        labels = cluster.cluster.scheduler.nodes.namespaces.labels(pod.namespace)
        if self._namespaces is None or self._namespaces.matches(dict(labels)):
            return ""
        return f"namespaceLabelSelector does not select its namespace {pod.namespace}"

    def _budget(self, pod: ObservedPod, cluster: ProfileRound) -> str:
        if PodProtection.WITHOUT_PDB not in self._protections:
            return ""
        budgets = cluster.cluster.scheduler.budgets
        has = budgets.about(pod_labels(pod.namespace, pod.template.labels))
        return "" if has else "no PodDisruptionBudget selects it (PodsWithoutPDB)"

    def _age(self, pod: ObservedPod, cluster: ProfileRound) -> str:
        least = self._args.min_age
        if not least or (pod.started is not None and cluster.now - pod.started >= least):
            return ""
        age = "not started" if pod.started is None else f"{cluster.now - pod.started:.0f} s old"
        return f"it is {age}, minPodAge is {least:g} s"

    def _replicas(self, pod: ObservedPod, cluster: ProfileRound) -> str:
        least, workload = self._args.min_replicas, pod.template.workload
        if least <= 1 or workload is None:
            return ""
        copies = sum(not known.view.has_ended for known in cluster.cluster.copies(workload))
        return f"{workload} has {copies} pods, minReplicas is {least}" if copies < least else ""


def _selector(given: dict[str, object] | None) -> LabelSelector | None:
    return label_selector.parse(given, "selector") if given is not None else None
