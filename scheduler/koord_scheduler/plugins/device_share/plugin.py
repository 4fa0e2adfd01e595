"""DeviceShare: pods get GPUs, or parts of them, RDMA cards and FPGAs. No IO.

Which devices of one node a pod gets is decided in ``koord_scheduler.plugins.device_share``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from koord_kube.protocol.resources import NODES, PODS
from koord_model.device_allocated import PodDevices

from koord_scheduler.extension_points.api_services import ApiServices, PreBinding
from koord_scheduler.extension_points.kept_room import NO_ROOM, KeptRoom, Lacks
from koord_scheduler.extension_points.topology_hints import Mask as NUMAMask
from koord_scheduler.extension_points.topology_hints import TopologyHintProvider
from koord_scheduler.plugin import (
    ANOTHER_POD,
    CannotReserve,
    Dependence,
    Filter,
    Limit,
    Plugin,
    PreFilterResult,
    Reason,
    Score,
    Service,
    filter_by_reasons,
    normalized,
)
from koord_scheduler.plugins.device_share.assumed_devices import (
    AssumedDevices,
    device_reservation,
)
from koord_scheduler.plugins.device_share.binder import DevicePluginAdapter
from koord_scheduler.plugins.device_share.candidates import DeviceRejection
from koord_scheduler.plugins.device_share.columns import DeviceColumns
from koord_scheduler.plugins.device_share.device_allocation import MISSING_DEVICE, allocate
from koord_scheduler.plugins.device_share.device_needs import PodDeviceNeeds
from koord_scheduler.plugins.device_share.device_node_scores import MANY, DeviceNodeScores
from koord_scheduler.plugins.device_share.device_object import GPUModel
from koord_scheduler.plugins.device_share.device_plugins import refusal
from koord_scheduler.plugins.device_share.device_room import takes_any
from koord_scheduler.plugins.device_share.device_scores import DeviceScorer
from koord_scheduler.plugins.device_share.device_summary import device_summary
from koord_scheduler.plugins.device_share.gpu_templates import DEFAULT_SOURCE, TemplatesSource
from koord_scheduler.plugins.device_share.learned_workload import GPUScores
from koord_scheduler.plugins.device_share.node_device_state import NodeDeviceState
from koord_scheduler.plugins.device_share.node_locker import NodeLocker
from koord_scheduler.plugins.device_share.numa_devices import NUMADevices, kept_devices
from koord_scheduler.plugins.device_share.pod_parts import DEVICE_NEEDS, DEVICES
from koord_scheduler.plugins.device_share.reserved_devices import allocate_reserved, with_devices
from koord_scheduler.state.arrays import Amounts, Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_usage import PodUsage


@dataclass(frozen=True)
class DeviceShareSettings:
    """Scoring of devices and nodes; GPUs of ``unshared`` vendors and models are given whole.

    If it ``is_aligned``, devices are near the NUMA nodes that provide CPU and memory. Some parts of
    cards are those of ``templates`` alone.
    """

    scorer: DeviceScorer = field(default_factory=DeviceScorer)
    unshared: frozenset[tuple[str, str]] = frozenset()
    gpu_scores: GPUScores = GPUScores.PLAIN
    is_aligned: bool = True
    templates: TemplatesSource = DEFAULT_SOURCE


class DeviceShare(Plugin):
    """Koordinator's plugin of that name."""

    name: ClassVar[str] = "DeviceShare"
    helped_by: ClassVar[str] = "pods that end and free its devices, or nodes with more of them"
    helped_by_nodes: ClassVar[str] = "nodes with the devices that it needs"
    reads_labels: ClassVar[bool] = False
    normalizes: ClassVar[bool] = True
    serves_stand_ins: ClassVar[bool] = True

    def __init__(self, settings: DeviceShareSettings | None = None) -> None:
        self._settings = settings or DeviceShareSettings()
        self._scores = DeviceNodeScores(self._settings.scorer, self._settings.gpu_scores)
        self._aligning: list[Plugin] = []
        self._keeping: list[Plugin] = []

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(DeviceColumns).source = self._settings.templates

    def pre_binding(self, nodes: ClusterState, api: ApiServices) -> PreBinding | None:
        if not nodes.use(DeviceColumns).adapts:
            return None
        locker = NodeLocker(
            api.bind_write, api.reader(NODES), api.reader(PODS), on_warning=api.on_warning
        )
        return DevicePluginAdapter(locker, on_warning=api.on_warning)

    def join(self, plugins: Sequence[Plugin]) -> None:
        self._aligning = [
            plugin
            for plugin in plugins
            if type(plugin).topology_affinity is not Plugin.topology_affinity
        ]
        self._keeping = [
            plugin for plugin in plugins if type(plugin).kept_room is not Plugin.kept_room
        ]

    def pre_filter(self, pod: PodClass, nodes: ClusterState) -> PreFilterResult:
        return PreFilterResult(pod.of(DEVICE_NEEDS).problem, cure=ANOTHER_POD)

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        if not pod.of(DEVICE_NEEDS):
            return None
        exact = filter_by_reasons(self, pod, nodes)
        needs = pod.of(DEVICE_NEEDS)
        depends_on_model = bool(self._settings.unshared) or nodes.use(DeviceColumns).uses_templates(
            needs
        )
        is_special = nodes.use(DeviceColumns).adapts or (needs.shares_gpus and depends_on_model)
        if needs.problem or not takes_any(needs) or is_special:
            return exact

        def can_run(rows: Rows) -> Mask:
            if len(rows) < MANY:
                return exact(rows)
            room = nodes.use(DeviceColumns).room()
            found = nodes.use(DeviceColumns).are_known[rows] & room.fits(needs, rows)
            if room.honors[rows].any():
                (places,) = (found & room.honors[rows]).nonzero()
                found[places] = exact(rows[places])
            return found

        return can_run

    def reasons(self, pod: PodClass, nodes: ClusterState, rows: Rows) -> list[Reason]:
        needs = pod.of(DEVICE_NEEDS)
        if not needs:
            return []
        if needs.problem:
            return [Reason(needs.problem, np.ones(len(rows), np.bool_), resolvable=False)]
        found: dict[tuple[str, bool], dict[int, str]] = {}
        for state, places in _alike(nodes, rows).items():
            rejection = self._rejection(needs, state, adapts=nodes.use(DeviceColumns).adapts)
            if rejection is not None:
                notes = found.setdefault((rejection.text, rejection.resolvable), {})
                notes.update(dict.fromkeys(places, rejection.note))
        return [
            _reason(text, notes, len(rows), resolvable=resolvable)
            for (text, resolvable), notes in sorted(found.items())
        ]

    def limits(
        self, pod: PodClass, nodes: ClusterState, rows: Rows, nominated: Sequence[PodUsage] = ()
    ) -> Sequence[Limit] | None:
        return None if pod.of(DEVICE_NEEDS).needs else ()

    def score(self, pod: PodClass, nodes: ClusterState) -> Score | None:
        if not pod.of(DEVICE_NEEDS).needs:
            return None

        def score(rows: Rows) -> Amounts:
            return self._scores.of(pod, nodes, rows)

        return score

    def normalize(self, scores: Amounts) -> Amounts:
        whole = self._scores.workload.whole_scores(scores)
        return normalized(scores) if whole is None else whole

    def depends_on(self, pod: PodClass, nodes: ClusterState) -> Dependence | None:
        return (lambda: self._scores.workload.version) if pod.of(DEVICE_NEEDS) else None

    def reserve(self, pod: PodClass, nodes: ClusterState, row: int) -> AssumedDevices | None:
        self._scores.count(pod, nodes, row)
        if not pod.of(DEVICE_NEEDS):
            return None
        found = self._devices(pod, nodes, row)
        if isinstance(found, DeviceRejection):
            raise CannotReserve(found.text)
        devices = nodes.use(DeviceColumns)
        model, isolation = devices.gpu_model(row), pod.of(DEVICE_NEEDS).isolation
        return device_reservation(found, devices.ids(row), model, isolation)

    def topology_hints(self, pod: PodClass, nodes: ClusterState) -> TopologyHintProvider | None:
        if not pod.of(DEVICE_NEEDS).needs or not self._settings.is_aligned:
            return None
        return NUMADevices(pod.of(DEVICE_NEEDS), nodes, self._settings.scorer)

    def kept_room_check(
        self, pod: PodClass, nodes: ClusterState, row: int, kept: Sequence[KeptRoom]
    ) -> Lacks | None:
        needs, held_by = pod.of(DEVICE_NEEDS), [usage for room in kept for usage in room.kept]
        if not needs.needs or not any(usage.of(DEVICES) for usage in held_by):
            return None
        state, scorer = nodes.use(DeviceColumns).state(row), self._settings.scorer
        if state is None:
            return None
        if nodes.lacks_pods(row):
            for usage in held_by:
                state = with_devices(state, usage.of(DEVICES))
        held = state

        def lacks(room: KeptRoom | None) -> str:
            found = allocate_reserved(needs, held, scorer, kept_devices(room or NO_ROOM))
            return found.text if isinstance(found, DeviceRejection) else ""

        return lacks

    def usage(self, reservation: AssumedDevices, pod: PodUsage) -> PodUsage:
        return pod.with_part(DEVICES, reservation.devices)

    def services(self, nodes: ClusterState) -> Mapping[str, Service]:
        """``/nodeDeviceSummaries``: what nodes have of devices, and what pods have of them."""

        def of_all(given: Mapping[str, str]) -> dict[str, object]:
            rows = np.flatnonzero(nodes.use(DeviceColumns).are_known).tolist()
            return {nodes.name(row): _summary(nodes, row) for row in rows}

        def of_one(given: Mapping[str, str]) -> dict[str, object]:
            row = nodes.row(given["name"])
            if row is None or not nodes.use(DeviceColumns).are_known[row]:
                raise LookupError(f"cannot find node {given['name']}")
            return _summary(nodes, row)

        return {"/nodeDeviceSummaries": of_all, "/nodeDeviceSummaries/:name": of_one}

    def _devices(
        self, pod: PodClass, nodes: ClusterState, row: int
    ) -> PodDevices | DeviceRejection:
        """Return a pod's devices on a row's node."""
        needs, state = pod.of(DEVICE_NEEDS), nodes.use(DeviceColumns).state(row)
        mask, scorer = self._affinity(pod, nodes, row), self._settings.scorer
        for plugin in self._keeping:
            kept = kept_devices(plugin.kept_room(pod, nodes, row))
            if state is not None and kept.devices:
                return allocate_reserved(needs, state, scorer, kept, mask)
        rejection = self._rejection(needs, state, adapts=nodes.use(DeviceColumns).adapts)
        if state is None or rejection is not None:
            return rejection or MISSING_DEVICE
        card = self._scores.best_card(pod, nodes, row)
        if card is not None:
            on_card = allocate(needs, state, scorer, mask, card)
            if not isinstance(on_card, DeviceRejection):
                return on_card
        return allocate(needs, state, scorer, mask)

    def _affinity(self, pod: PodClass, nodes: ClusterState, row: int) -> NUMAMask | None:
        """The NUMA nodes that the pod's devices have to be near to; ``None``: any."""
        if not self._settings.is_aligned:
            return None
        found = (plugin.topology_affinity(pod, nodes, row) for plugin in self._aligning)
        return next((mask for mask in found if mask is not None), None)

    def _rejection(
        self, needs: PodDeviceNeeds, state: NodeDeviceState | None, *, adapts: bool
    ) -> DeviceRejection | None:
        if state is None:
            return MISSING_DEVICE
        vendor, model = state.labels.vendor, state.labels.model
        if (vendor, model) in self._settings.unshared and needs.shares_gpus:
            text = f'model "{model}" of vendor "{vendor}" does not support GPU Share'
            return DeviceRejection(text, resolvable=False)
        found = allocate(needs, state, self._settings.scorer)
        if isinstance(found, DeviceRejection):
            return found
        reason = refusal(found, GPUModel(vendor, model)) if adapts else ""
        return DeviceRejection(reason, resolvable=False) if reason else None


def _alike(nodes: ClusterState, rows: Rows) -> dict[NodeDeviceState | None, list[int]]:
    """The places of rows by the states of their devices; ``None``: without a Device."""
    found: dict[NodeDeviceState | None, list[int]] = {}
    state = nodes.use(DeviceColumns).state
    for place, row in enumerate(rows.tolist()):
        found.setdefault(state(row), []).append(place)
    return found


def _reason(text: str, notes: Mapping[int, str], length: int, *, resolvable: bool) -> Reason:
    rows = np.zeros(length, np.bool_)
    rows[list(notes)] = True
    note = (lambda place: notes[place]) if any(notes.values()) else None
    return Reason(text, rows, resolvable, note=note)


def _summary(nodes: ClusterState, row: int) -> dict[str, object]:
    devices = nodes.use(DeviceColumns)
    state = devices.state(row) or NodeDeviceState()
    return device_summary(state, devices.pods_on(row), devices.ignored(row))
