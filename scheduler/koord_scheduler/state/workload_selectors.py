"""Pods that belong together: the selectors of Services and of controllers. No IO.

As Kubernetes' ``DefaultSelector``: by them PodTopologySpread spreads pods that say nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from koord_model.label_selector import LabelSelector, Requirement

from koord_scheduler.state.pod_labels import PodLabels
from koord_scheduler.state.selected_labels import Select, nobody

SERVICE = "Service"
REPLICATION_CONTROLLER = "ReplicationController"
REPLICA_SET = "ReplicaSet"
STATEFUL_SET = "StatefulSet"


class WorkloadReference(NamedTuple):
    """A Service or a controller; ``key`` is namespace/name."""

    kind: str
    key: str


_Label = tuple[str, str, str]
"""A namespace, and a label with its value."""


class WorkloadSelectors:
    """Selectors of workloads; ``version`` changes with each of them."""

    def __init__(self, select: Select = nobody) -> None:
        """``select`` hears by which labels workloads select pods."""
        self.version = 0
        self._select = select
        self._selectors: dict[WorkloadReference, LabelSelector] = {}
        # Services by one of the labels that they select: a pod has few labels, a namespace may
        # have thousands of Services.
        self._services: dict[_Label, set[WorkloadReference]] = {}

    def set(self, kind: str, key: str, selector: LabelSelector) -> None:
        """The selector of a workload, in place of the one it had."""
        workload = WorkloadReference(kind, key)
        before = self._selectors.get(workload)
        if before == selector:
            return
        if before is not None:
            self.remove(kind, key)
        self._selectors[workload] = selector
        self._select([selector])
        self.version += 1
        if (label := _first_label(workload, selector)) is not None:
            self._services.setdefault(label, set()).add(workload)

    def remove(self, kind: str, key: str) -> None:
        """Forget a workload."""
        workload = WorkloadReference(kind, key)
        label = _first_label(workload, self._selectors.pop(workload))
        self.version += 1
        if label is not None:
            self._services[label].remove(workload)
            if not self._services[label]:
                del self._services[label]

    def selector(self, pod: PodLabels, controller: WorkloadReference | None) -> LabelSelector:
        """The pods that belong with one; without requirements where nothing says which.

        They are those that its Services and its controller all mean.
        """
        requirements = self._of_services(pod)
        if controller is None or controller not in self._selectors:
            return LabelSelector(requirements)
        more = self._selectors[controller].requirements
        if controller.kind == REPLICATION_CONTROLLER:  # Kubernetes lets its values win
            keys = {one.key for one in more}
            requirements = tuple(
                requirement for requirement in requirements if requirement.key not in keys
            )
        return LabelSelector(tuple(dict.fromkeys((*requirements, *more))))

    def _of_services(self, pod: PodLabels) -> tuple[Requirement, ...]:
        labels, found = dict(pod.labels), set[Requirement]()
        for key, value in pod.labels:
            for service in self._services.get((pod.namespace, key, value), ()):
                selector = self._selectors[service]
                if selector.matches(labels):
                    found.update(selector.requirements)
        return tuple(sorted(found, key=lambda one: one.key))


def _first_label(workload: WorkloadReference, selector: LabelSelector) -> _Label | None:
    """Of a Service, a label that its pods have; ``None`` if it selects none."""
    if workload.kind != SERVICE or not selector.requirements:
        return None
    first = selector.requirements[0]
    return workload.key.partition("/")[0], first.key, next(iter(first.values))
