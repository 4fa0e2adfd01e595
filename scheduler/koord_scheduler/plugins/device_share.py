"""DeviceShare: pods get GPUs, or parts of them, RDMA cards and FPGAs. No IO.

Which devices of one node a pod gets is decided in ``koord_scheduler.devices``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Amounts, Mask, Rows
from koord_scheduler.columns.device_room import takes_any
from koord_scheduler.columns.free_gpus import free_gpus
from koord_scheduler.columns.nodes import NodeColumns, PodUsage
from koord_scheduler.columns.numa_devices import NUMADevices
from koord_scheduler.devices.candidates import DeviceRejection, candidates
from koord_scheduler.devices.device_allocation import MISSING_DEVICE, allocate
from koord_scheduler.devices.device_needs import PodDeviceNeeds
from koord_scheduler.devices.device_object import GPU_TYPE
from koord_scheduler.devices.device_reservation import DeviceReservation, device_reservation
from koord_scheduler.devices.device_scores import DeviceScorer
from koord_scheduler.devices.device_summary import device_summary
from koord_scheduler.devices.gpu_nodes import GpuRequest
from koord_scheduler.devices.learned_workload import (
    GPUScores,
    LearnedWorkload,
    accepted_models,
    gpu_request,
)
from koord_scheduler.devices.node_device_state import NodeDeviceState
from koord_scheduler.devices.pod_devices import PodDevices
from koord_scheduler.framework.plugin import (
    Filter,
    Limit,
    NUMAProvider,
    Plugin,
    PreFilterResult,
    Reason,
    Score,
    filter_by_reasons,
    normalized,
)
from koord_scheduler.numa.topology_hints import Mask as NUMAMask

_MANY = 64
"""Rows; fewer are asked one by one."""


@dataclass(frozen=True)
class DeviceShareSettings:
    """How devices and nodes are scored; GPUs of ``unshared`` vendors and models are given whole.

    If it ``is_aligned``, devices are near the NUMA nodes that provide CPU and memory.
    """

    scorer: DeviceScorer = field(default_factory=DeviceScorer)
    unshared: frozenset[tuple[str, str]] = frozenset()
    gpu_scores: GPUScores = GPUScores.PLAIN
    is_aligned: bool = True


class DeviceShare(Plugin):
    """Koordinator's plugin of that name."""

    name: ClassVar[str] = "DeviceShare"
    normalizes: ClassVar[bool] = True

    def __init__(self, settings: DeviceShareSettings | None = None) -> None:
        self._settings = settings or DeviceShareSettings()
        self._workload = LearnedWorkload(self._settings.gpu_scores)
        self._aligning: list[Plugin] = []

    def prepare(self, nodes: NodeColumns) -> None:
        nodes.node_devices.is_used = True

    def join(self, plugins: Sequence[Plugin]) -> None:
        self._aligning = [
            one for one in plugins if type(one).numa_affinity is not Plugin.numa_affinity
        ]

    def pre_filter(self, pod: PodClass, nodes: NodeColumns) -> PreFilterResult:
        return PreFilterResult(pod.devices.problem)

    def filter(self, pod: PodClass, nodes: NodeColumns) -> Filter | None:
        if not pod.devices:
            return None
        exact = filter_by_reasons(self, pod, nodes)
        needs = pod.devices
        if needs.problem or not takes_any(needs) or (needs.shares_gpus and self._settings.unshared):
            return exact

        def can_run(rows: Rows) -> Mask:
            if len(rows) < _MANY:
                return exact(rows)
            room = nodes.node_devices.room()
            found = nodes.node_devices.are_known[rows] & room.fits(needs, rows)
            if room.honors[rows].any():
                (places,) = (found & room.honors[rows]).nonzero()
                found[places] = exact(rows[places])
            return found

        return can_run

    def reasons(self, pod: PodClass, nodes: NodeColumns, rows: Rows) -> list[Reason]:
        needs = pod.devices
        if not needs:
            return []
        if needs.problem:
            return [Reason(needs.problem, np.ones(len(rows), np.bool_), resolvable=False)]
        found: dict[tuple[str, bool], dict[int, str]] = {}
        for state, places in _alike(nodes, rows).items():
            rejection = self._rejection(needs, state)
            if rejection is not None:
                notes = found.setdefault((rejection.text, rejection.resolvable), {})
                notes.update(dict.fromkeys(places, rejection.note))
        return [
            _reason(text, notes, len(rows), resolvable=resolvable)
            for (text, resolvable), notes in sorted(found.items())
        ]

    def limits(
        self, pod: PodClass, nodes: NodeColumns, rows: Rows, nominated: Sequence[PodUsage] = ()
    ) -> Sequence[Limit] | None:
        return None if pod.devices.needs else ()

    def score(self, pod: PodClass, nodes: NodeColumns) -> Score | None:
        needs, scorer, workload = pod.devices, self._settings.scorer, self._workload
        if not needs.needs:
            return None
        request = self._request(pod)

        def score(rows: Rows) -> Amounts:
            if request is not None and request.cards and workload.policy is not None:
                raw = workload.raw_scores(request, free_gpus(nodes, rows, workload.model_code))
                if raw is not None:
                    return raw
            if len(rows) >= _MANY and takes_any(needs):
                room = nodes.node_devices.room()
                return workload.plain_scores(room.scores(needs, scorer, rows))
            found = np.zeros(len(rows))
            for state, places in _alike(nodes, rows).items():
                found[places] = 0 if state is None else _node_score(needs, state, scorer)
            return workload.plain_scores(found)

        return score

    def normalize(self, scores: Amounts) -> Amounts:
        whole = self._workload.whole_scores(scores)
        return normalized(scores) if whole is None else whole

    def depends_on(self, pod: PodClass, nodes: NodeColumns) -> Hashable:
        return self._workload.version if pod.devices else None

    def reserve(self, pod: PodClass, nodes: NodeColumns, row: int) -> DeviceReservation | None:
        request, state = self._request(pod), nodes.node_devices.state(row)
        if request is not None:
            model = "" if state is None else state.labels.model
            self._workload.count(request, model, accepted_models(pod.required))
        if not pod.devices:
            return None
        devices = nodes.node_devices
        rejection = self._rejection(pod.devices, state)
        if state is None or rejection is not None:
            reason = rejection.text if rejection is not None else ""
            raise ValueError(f"{nodes.name(row)}: {reason}")
        mask = self._affinity(pod, nodes, row)
        found = self._on_best_card(pod.devices, request, nodes, row, mask) or allocate(
            pod.devices, state, self._settings.scorer, mask
        )
        if isinstance(found, DeviceRejection):
            raise ValueError(f"{nodes.name(row)}: {found.text}")  # noqa: TRY004 - an outcome
        return device_reservation(found, devices.ids(row))

    def numa_provider(self, pod: PodClass, nodes: NodeColumns) -> NUMAProvider | None:
        if not pod.devices.needs or not self._settings.is_aligned:
            return None
        return NUMADevices(pod.devices, nodes, self._settings.scorer)

    def usage(self, reservation: DeviceReservation, pod: PodUsage) -> PodUsage:
        return pod._replace(devices=reservation.devices)

    def services(
        self, nodes: NodeColumns
    ) -> Mapping[str, Callable[[Mapping[str, str]], dict[str, object]]]:
        """``/nodeDeviceSummaries``: what nodes have of devices, and what pods have of them."""

        def of_all(given: Mapping[str, str]) -> dict[str, object]:
            rows = np.flatnonzero(nodes.node_devices.are_known).tolist()
            return {nodes.name(row): _summary(nodes, row) for row in rows}

        def of_one(given: Mapping[str, str]) -> dict[str, object]:
            row = nodes.row(given["name"])
            if row is None or not nodes.node_devices.are_known[row]:
                raise LookupError(f"cannot find node {given['name']}")
            return _summary(nodes, row)

        return {"/nodeDeviceSummaries": of_all, "/nodeDeviceSummaries/:name": of_one}

    def _request(self, pod: PodClass) -> GpuRequest | None:
        """What the typical workload is made of; nothing where there is none."""
        if not self._workload.scores:
            return None
        return gpu_request(dict(pod.amounts), pod.devices)

    def _on_best_card(
        self,
        needs: PodDeviceNeeds,
        request: GpuRequest | None,
        nodes: NodeColumns,
        row: int,
        mask: NUMAMask | None,
    ) -> PodDevices | None:
        """Devices with the card that is best for a part of one; ``None``: any will do."""
        state = nodes.node_devices.state(row)
        if request is None or state is None:
            return None
        here = free_gpus(nodes, np.array([row]), self._workload.model_code)
        place = self._workload.card(request, here)
        if place is None:
            return None
        card = list(state.devices[GPU_TYPE])[place]
        found = allocate(needs, state, self._settings.scorer, mask, card)
        return None if isinstance(found, DeviceRejection) else found

    def _affinity(self, pod: PodClass, nodes: NodeColumns, row: int) -> NUMAMask | None:
        """The NUMA nodes that the pod's devices have to be near to; ``None``: any."""
        if not self._settings.is_aligned:
            return None
        found = (one.numa_affinity(pod, nodes, row) for one in self._aligning)
        return next((mask for mask in found if mask is not None), None)

    def _rejection(
        self, needs: PodDeviceNeeds, state: NodeDeviceState | None
    ) -> DeviceRejection | None:
        if state is None:
            return MISSING_DEVICE
        vendor, model = state.labels.vendor, state.labels.model
        if (vendor, model) in self._settings.unshared and needs.shares_gpus:
            text = f'model "{model}" of vendor "{vendor}" does not support GPU Share'
            return DeviceRejection(text, resolvable=False)
        found = allocate(needs, state, self._settings.scorer)
        return found if isinstance(found, DeviceRejection) else None


@lru_cache(maxsize=1 << 13)
def _node_score(needs: PodDeviceNeeds, state: NodeDeviceState, scorer: DeviceScorer) -> int:
    """The sum over the types that a pod needs."""
    return sum(
        scorer.of_node(need.amounts, candidates(need, state).values()) for need in needs.needs
    )


def _alike(nodes: NodeColumns, rows: Rows) -> dict[NodeDeviceState | None, list[int]]:
    """The places of rows by the states of their devices; ``None``: without a Device."""
    found: dict[NodeDeviceState | None, list[int]] = {}
    state = nodes.node_devices.state
    for place, row in enumerate(rows.tolist()):
        found.setdefault(state(row), []).append(place)
    return found


def _reason(text: str, notes: Mapping[int, str], length: int, *, resolvable: bool) -> Reason:
    rows = np.zeros(length, np.bool_)
    rows[list(notes)] = True
    note = (lambda place: notes[place]) if any(notes.values()) else None
    return Reason(text, rows, resolvable, note=note)


def _summary(nodes: NodeColumns, row: int) -> dict[str, object]:
    devices = nodes.node_devices
    state = devices.state(row) or NodeDeviceState()
    return device_summary(state, devices.pods_on(row), devices.ignored(row))
