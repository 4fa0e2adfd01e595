"""The devices of nodes, and which of them pods have, by row. No IO."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
from koord_model.device_allocated import PodDevices

from koord_scheduler.plugins.device_share.device_needs import PodDeviceNeeds
from koord_scheduler.plugins.device_share.device_object import (
    NO_MODEL,
    DeviceReport,
    GPUModel,
    NodeDevices,
)
from koord_scheduler.plugins.device_share.device_room import DeviceRoom
from koord_scheduler.plugins.device_share.gpu_templates import (
    DEFAULT_SOURCE,
    GPUTemplates,
    ModelTemplates,
)
from koord_scheduler.plugins.device_share.node_device_state import (
    GPULabels,
    NodeDeviceState,
    gpu_labels,
    used_devices,
)
from koord_scheduler.state.arrays import Mask, lengthened

_MOST_KINDS = 1 << 10
_MOST_WARNINGS = 1000


class DeviceColumns:
    """What is known of nodes by their Devices (by name) and Nodes (by row).

    ``are_known`` says of which nodes there is a Device. ``pods_on`` has the devices of a row's pods
    by namespace/name. Unless it ``is_used``, which is decided before there are nodes and pods,
    nothing is kept; ``source`` is decided then, too, and whether device plugins of vendors give
    what is chosen (``adapts``). What pods have is never kept as a sum.
    """

    def __init__(self, length: int) -> None:
        self.is_used = False
        self.adapts = False
        self.source = DEFAULT_SOURCE
        self.are_known: Mask = np.zeros(length, np.bool_)
        self.pods_on: Callable[[int], Iterable[tuple[str, PodDevices]]] = lambda row: ()
        self._reports: dict[str, DeviceReport] = {}
        self._templates: Mapping[str, ModelTemplates] = {}
        self._kinds: dict[NodeDevices, NodeDevices] = {}
        self._nodes: dict[int, tuple[str, GPULabels]] = {}
        self._had: defaultdict[int, list[PodDevices]] = defaultdict(list)
        self._states: dict[int, NodeDeviceState] = {}
        self._warnings: dict[str, None] = {}
        self._room = DeviceRoom(length)
        self._outdated: set[int] = set()

    def lengthen(self, length: int) -> None:
        """Make room for more rows."""
        self.are_known = lengthened(self.are_known, length, fill=False)
        self._room.lengthen(length)

    def report(self, name: str, report: DeviceReport) -> None:
        """A node's Device is there, or has changed; ``describe`` has to follow."""
        if len(self._kinds) > _MOST_KINDS:
            self._kinds.clear()
        # Machines of a kind share what they have: it is compared often.
        self._reports[name] = replace(report, has=self._kinds.setdefault(report.has, report.has))
        self._warn(report.ignored)

    def forget_report(self, name: str) -> None:
        """A node's Device is gone; ``describe`` has to follow."""
        self._reports.pop(name, None)

    def set_templates(self, templates: GPUTemplates) -> Iterable[int]:
        """Parts in which cards are given by now; returns the rows for which this may count."""
        self._templates = templates.of_models(self.source.resources)
        self._warn(templates.ignored)
        rows = list(self._nodes)
        for row in rows:
            self._forget(row)
        return rows

    def uses_templates(self, needs: PodDeviceNeeds) -> bool:
        """Whether a pod needs a part of a card that only a template gives."""
        return any(map(ModelTemplates(self.source.resources).apply_to, needs.needs))

    def describe(self, row: int, name: str, labels: Mapping[str, str]) -> None:
        """The Node in a row, in place of what it was."""
        self._nodes[row] = name, gpu_labels(labels)
        self.are_known[row] = name in self._reports
        self._forget(row)

    def clear(self, row: int) -> None:
        """There is no node in a row."""
        self._nodes.pop(row, None)
        self.are_known[row] = False
        self._forget(row)

    def state(self, row: int) -> NodeDeviceState | None:
        """What decides which devices a pod can get; ``None``: the row's node has no Device."""
        found = self._states.get(row)
        if found is None and self.are_known[row]:
            name, labels = self._nodes[row]
            used = used_devices(self._had.get(row, ()))
            templates = self._templates_of(labels)
            found = NodeDeviceState(self._reports[name].has, labels, used, templates)
            self._states[row] = found
        return found

    def ids(self, row: int) -> Mapping[tuple[str, int], str]:
        """How the devices of a row's node are called, by type and minor."""
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

    def take_warnings(self) -> list[str]:
        """A line about each part of a Device that could not be used, once."""
        found = list(self._warnings)
        self._warnings.clear()
        return found

    def add(self, row: int, devices: PodDevices) -> None:
        """A pod on a row's node has these."""
        if devices:
            self._had[row].append(devices)
            self._forget(row)

    def remove(self, row: int, devices: PodDevices) -> None:
        """A pod on a row's node has these no more."""
        if devices:
            self._had[row].remove(devices)
            self._forget(row)
            if not self._had[row]:
                del self._had[row]

    def repair(self, row: int, pods: Iterable[PodDevices]) -> bool:
        """Recount what the pods of a row have; whether it was wrong, which is a defect."""
        had = sorted(filter(None, pods))
        if sorted(self._had.get(row, ())) == had:
            return False
        self._had.pop(row, None)
        for devices in had:
            self.add(row, devices)
        self._forget(row)
        return True

    def alike(self, rows: Iterable[int]) -> dict[NodeDeviceState | None, list[int]]:
        """Rows by their states; ``None``: those whose nodes have no Device."""
        found: dict[NodeDeviceState | None, list[int]] = {}
        for row in rows:
            found.setdefault(self.state(row), []).append(row)
        return found

    def room(self) -> DeviceRoom:
        """What is free of devices at present."""
        for state, rows in self.alike(self._outdated).items():
            self._room.set(np.array(rows), state)
        self._outdated.clear()
        return self._room

    def _templates_of(self, labels: GPULabels) -> ModelTemplates:
        found = self._templates.get(f"{labels.vendor}-{labels.model}")
        return ModelTemplates(self.source.resources) if found is None else found

    def _warn(self, lines: tuple[str, ...]) -> None:
        for line in lines[: _MOST_WARNINGS - len(self._warnings)]:
            self._warnings[line] = None

    def _forget(self, row: int) -> None:
        self._states.pop(row, None)
        self._outdated.add(row)

    def _report(self, row: int) -> DeviceReport | None:
        return self._reports[self._nodes[row][0]] if self.are_known[row] else None
