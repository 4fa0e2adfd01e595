"""The devices of nodes, and which of them pods have, by row. No IO."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
from koord_kube.protocol.resources import CONFIG_MAPS
from koord_kube.protocol.resources import DEVICES as DEVICE_OBJECTS
from koord_model.device_allocated import (
    NO_DEVICES,
    PodDevices,
    read_pod_devices,
)
from koord_model.keys import ANNOTATION_DEVICE_ALLOCATED

from koord_scheduler.objects.annotations import NO_ANNOTATIONS
from koord_scheduler.objects.node import Node
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.requests import PodRequests
from koord_scheduler.plugins.device_share.device_needs import (
    PodDeviceNeeds,
    asks_for_devices,
    pod_device_needs,
)
from koord_scheduler.plugins.device_share.device_object import (
    NO_MODEL,
    DeviceObject,
    DeviceReport,
    GPUModel,
    NodeDevices,
    read_device_report,
)
from koord_scheduler.plugins.device_share.device_room import DeviceRoom
from koord_scheduler.plugins.device_share.gpu_templates import (
    DEFAULT_SOURCE,
    GPUTemplates,
    ModelTemplates,
    TemplatesObject,
    read_gpu_templates,
)
from koord_scheduler.plugins.device_share.node_device_state import (
    GPULabels,
    NodeDeviceState,
    gpu_labels,
    used_devices,
)
from koord_scheduler.plugins.device_share.pod_parts import DEVICE_NEEDS, DEVICES
from koord_scheduler.state.arrays import Mask, lengthened
from koord_scheduler.state.cluster_kind import ClusterKind
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.feature_state import FeatureState, Parts
from koord_scheduler.state.pod_parts import PodParts
from koord_scheduler.state.pod_usage import PodUsage

DEVICE_PLUGIN_ADAPTION = "DevicePluginAdaption"
"""The feature gate that lets device plugins of vendors give what is chosen."""
_MOST_KINDS = 1 << 10


class DeviceColumns(FeatureState):
    """State of nodes' devices, by their Devices (by name) and Nodes (by row).

    ``are_known`` says of which nodes there is a Device. ``source`` is decided before there are
    nodes and pods, and whether device plugins of vendors give what is chosen (``adapts``). What
    pods have is never kept as a sum.
    """

    most_warnings: ClassVar[float] = 1000

    def __init__(self, nodes: ClusterState) -> None:
        super().__init__(nodes)
        length = len(nodes)
        self.adapts = nodes.gates.get(DEVICE_PLUGIN_ADAPTION, False)
        self.source = DEFAULT_SOURCE
        self.are_known: Mask = np.zeros(length, np.bool_)
        self._reports: dict[str, DeviceReport] = {}
        self._templates: Mapping[str, ModelTemplates] = {}
        self._kinds: dict[NodeDevices, NodeDevices] = {}
        self._known: dict[int, tuple[str, GPULabels]] = {}
        self._had: defaultdict[int, list[PodDevices]] = defaultdict(list)
        self._states: dict[int, NodeDeviceState] = {}
        self._room = DeviceRoom(length)
        self._outdated: set[int] = set()

    def lengthen(self, length: int) -> None:
        """Make room for more rows."""
        self.are_known = lengthened(self.are_known, length, fill=False)
        self._room.lengthen(length)

    def kinds(self, now: Callable[[], float]) -> Iterable[ClusterKind]:
        yield ClusterKind(
            DEVICE_OBJECTS,
            DeviceObject,
            read_device_report,
            self.set_report,
            lambda name: self.set_report(name, None),
            is_optional=True,
        )
        yield ClusterKind(
            CONFIG_MAPS,
            TemplatesObject,
            read_gpu_templates,
            lambda _, templates: self.set_templates(templates),
            lambda _: self.set_templates(GPUTemplates()),
            namespace=self.source.namespace,
            object_name=self.source.name,
        )

    def signature(self, pod: PodInfo) -> object:
        return pod.metadata.annotations, bool(pod.spec.node_name)

    def class_parts(self, pod: PodInfo, requests: PodRequests) -> Parts:
        if asks_for_devices(requests.amounts):
            annotations = pod.metadata.annotations or NO_ANNOTATIONS
            labels = pod.metadata.labels or {}
            yield DEVICE_NEEDS, pod_device_needs(requests.amounts, annotations, labels)

    def usage_parts(self, pod: PodInfo, known: PodParts) -> Parts:
        if pod.spec.node_name:
            yield DEVICES, pod_devices(pod)

    def pods_on(self, row: int) -> Iterable[tuple[str, PodDevices]]:
        """The devices of a row's pods, by namespace/name."""
        found = ((pod.key, pod.usage.of(DEVICES)) for pod in self._nodes.pods_on(row))
        return [(key, devices) for key, devices in found if devices]

    def set_report(self, name: str, report: DeviceReport | None) -> None:
        """The Device of a node is there, has changed, or (``None``) is gone."""
        if report is None:
            self._reports.pop(name, None)
        else:
            self._take_report(name, report)
        row = self._nodes.row(name)
        if row is not None:
            if self._nodes.is_node[row]:
                self._describe(row)
            self._nodes.journal.add(row)

    def _take_report(self, name: str, report: DeviceReport) -> None:
        if len(self._kinds) > _MOST_KINDS:
            self._kinds.clear()
        # Machines of a kind share what they have: it is compared often.
        self._reports[name] = replace(report, has=self._kinds.setdefault(report.has, report.has))
        for line in report.ignored:
            self.warn(line)

    def set_templates(self, templates: GPUTemplates) -> None:
        """Parts in which cards are given are there, or have changed."""
        self._templates = templates.of_models(self.source.resources)
        for line in templates.ignored:
            self.warn(line)
        for row in self._known:
            self._forget(row)
            self._nodes.journal.add(row)

    def uses_templates(self, needs: PodDeviceNeeds) -> bool:
        """True if a pod needs a part of a card that only a template gives."""
        return any(map(ModelTemplates(self.source.resources).apply_to, needs.needs))

    def set_node(self, row: int, node: Node | None, *, is_moved: bool) -> bool:
        if node is None:
            self.clear(row)
        elif is_moved:
            self._describe(row)
        return False

    def _describe(self, row: int) -> None:
        """Take over the Node in a row, in place of what it was."""
        name, labels = self._nodes.name(row), self._nodes.labels.of(row)
        self._known[row] = name, gpu_labels(labels)
        self.are_known[row] = name in self._reports
        self._forget(row)

    def clear(self, row: int) -> None:
        """There is no node in a row."""
        self._known.pop(row, None)
        self.are_known[row] = False
        self._forget(row)

    def state(self, row: int) -> NodeDeviceState | None:
        """Return the state that decides a pod's devices; ``None``: the row's node has no Device."""
        found = self._states.get(row)
        if found is None and self.are_known[row]:
            name, labels = self._known[row]
            used = used_devices(self._had.get(row, ()))
            templates = self._templates_of(labels)
            found = NodeDeviceState(self._reports[name].has, labels, used, templates)
            self._states[row] = found
        return found

    def ids(self, row: int) -> Mapping[tuple[str, int], str]:
        """Return the ids of the devices of a row's node, by type and minor."""
        report = self._report(row)
        return {} if report is None else report.ids

    def gpu_model(self, row: int) -> GPUModel:
        """Of the GPUs of a row's node, as its Device says."""
        report = self._report(row)
        return NO_MODEL if report is None else report.gpu_model

    def ignored(self, row: int) -> tuple[str, ...]:
        """Lines about what could not be used of its Device."""
        report = self._report(row)
        return () if report is None else report.ignored

    def count(self, row: int, usage: PodUsage) -> None:
        if devices := usage.of(DEVICES):
            self._had[row].append(devices)
            self._forget(row)

    def uncount(self, row: int, usage: PodUsage) -> None:
        if devices := usage.of(DEVICES):
            self._had[row].remove(devices)
            self._forget(row)
            if not self._had[row]:
                del self._had[row]

    def repair(self, row: int, usages: Iterable[PodUsage]) -> bool:
        had = sorted(devices for usage in usages if (devices := usage.of(DEVICES)))
        if sorted(self._had.get(row, ())) == had:
            return False
        self._had.pop(row, None)
        if had:
            self._had[row] = had
        self._forget(row)
        self._nodes.journal.add(row)
        return True

    def alike(self, rows: Iterable[int]) -> dict[NodeDeviceState | None, list[int]]:
        """Rows by their states; ``None``: those whose nodes have no Device."""
        found: dict[NodeDeviceState | None, list[int]] = {}
        for row in rows:
            found.setdefault(self.state(row), []).append(row)
        return found

    def room(self) -> DeviceRoom:
        """Return the present free amounts of devices."""
        for state, rows in self.alike(self._outdated).items():
            self._room.set(np.array(rows), state)
        self._outdated.clear()
        return self._room

    def _templates_of(self, labels: GPULabels) -> ModelTemplates:
        found = self._templates.get(f"{labels.vendor}-{labels.model}")
        return ModelTemplates(self.source.resources) if found is None else found

    def _forget(self, row: int) -> None:
        self._states.pop(row, None)
        self._outdated.add(row)

    def _report(self, row: int) -> DeviceReport | None:
        return self._reports[self._known[row][0]] if self.are_known[row] else None


def pod_devices(pod: PodInfo) -> PodDevices:
    """The devices of a pod with a node; none where the annotation cannot be used.

    koordlet says that it cannot.
    """
    annotations = pod.metadata.annotations
    text = (annotations or NO_ANNOTATIONS).get(ANNOTATION_DEVICE_ALLOCATED)
    if text is None:
        return NO_DEVICES
    try:
        return read_pod_devices(text)
    except ValueError:
        return NO_DEVICES
