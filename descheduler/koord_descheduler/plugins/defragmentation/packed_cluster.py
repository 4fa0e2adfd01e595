"""The virtual cluster as a packing: what of nodes is free, and the cost of moving pods. No IO."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
from koord_model.device_allocated import PodDevices
from koord_model.keys import CPU, GPU_CORE, GPU_MEMORY_RATIO, MEMORY
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.objects.disruption_budget import DisruptionBudget
from koord_scheduler.plugins.device_share.columns import DeviceColumns
from koord_scheduler.plugins.device_share.device_object import GPU_TYPE
from koord_scheduler.plugins.device_share.device_requests import DEVICE_RESOURCES
from koord_scheduler.plugins.device_share.gpu_nodes import WHOLE
from koord_scheduler.plugins.device_share.pod_parts import DEVICE_NEEDS, DEVICES
from koord_scheduler.state.arrays import Amounts, Mask
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_labels import pod_labels
from koord_scheduler.state.pod_usage import PodUsage

from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.planner.cluster import KnownPod
from koord_descheduler.planner.gang_group import gang_group
from koord_descheduler.plugins.defragmentation.args import MoveCosts
from koord_descheduler.plugins.defragmentation.move_cost import move_cost
from koord_descheduler.plugins.defragmentation.packing import PackedNeeds, PackedPod, Packing

_DAEMONS = "DaemonSet"


class PackedCluster:
    """Nodes of a profile, by number as in ``names``, and their pods, as in ``pods``.

    ``stays`` counts pods that may not move, by the rule that says so. Pods of DaemonSets are part
    of their nodes. Pods that wait may only have the rows of ``among`` (``None``: all). ``rows`` are
    the scheduler's rows of the nodes, ``resources`` the names of those of all amounts.
    """

    def __init__(self, cluster: ProfileRound, costs: MoveCosts, among: Mask | None = None) -> None:
        self._cluster, self._costs, self._among = cluster, costs, among
        self.names = [
            name for name in cluster.nodes if cluster.cluster.scheduler.nodes.row(name) is not None
        ]
        self.rows = cluster.virtual.rows_of(self.names)
        state = cluster.cluster.scheduler.nodes
        self._devices = state.find(DeviceColumns)
        has_devices = self._devices is not None and bool(self._devices.are_known.any())
        modelled = DEVICE_RESOURCES if has_devices else frozenset[str]()
        others = (name for name in state.resources.names if name and name not in modelled)
        self.resources = [CPU, MEMORY, *sorted(set(others) - {CPU, MEMORY})]
        self._masks: list[Mask] = [np.ones(len(self.names), np.bool_)]
        self._codes: dict[object, int] = {}
        self._budgets: dict[str, int] = {}
        self._allowed: list[int] = []
        self.pods: list[KnownPod] = []
        self.stays: Counter[str] = Counter()
        self.packing = self._packing()

    def name(self, node: int) -> str:
        """The name of a node."""
        return self.names[node]

    def needs_of(self, pod: QueuedPod) -> PackedNeeds:
        """The needs of a pod that waits."""
        usage, pod_class = pod.waiting.usage, pod.waiting.pod_class
        needs = pod_class.of(DEVICE_NEEDS).needs
        gpu = next((need for need in needs if need.type == GPU_TYPE), None)
        cards, share = (gpu.count, _share(dict(gpu.each))) if gpu is not None else (0, 0)
        return self._needs(usage, cards, share, self._place_code(pod_class, pod))

    def _needs(self, usage: PodUsage, cards: int, share: int, places: int) -> PackedNeeds:
        asked = dict(usage.request)
        amounts = tuple(float(asked.get(name, 0.0)) for name in self.resources)
        return PackedNeeds(amounts, cards, share if cards else 0, places)

    def _packing(self) -> Packing:
        on_nodes = [self._cluster.pods_on(name) for name in self.names]
        placed = [
            (node, pod)
            for node, pods in enumerate(on_nodes)
            for pod in sorted(pods, key=lambda pod: pod.view.key)
            if not pod.view.has_ended and not _is_daemon(pod)
        ]
        amounts, (cards, numbers) = self._free(), self._free_cards()
        places = []
        for node, pod in placed:
            held = _cards_of(pod.placed.usage.of(DEVICES), numbers[node])
            share = max(held.values(), default=0)
            places_code = self._place_code_of(pod)
            needs = self._needs(pod.placed.usage, len(held), share, places_code)
            amounts[:, node] += needs.amounts
            for card in held:
                cards[node, card] += share
            places.append((node, pod, needs, tuple(held)))
        packed = [(self._packed(pod, needs), node, cards) for node, pod, needs, cards in places]
        found = Packing(amounts, cards, self._masks, self._allowed, max(len(packed), 1))
        found.places = self._masks  # those of pods that wait follow
        for number, place in enumerate(packed):
            found.add(number, *place)
        self.pods = [pod for _, pod, _, _ in places]
        return found

    def _packed(self, pod: KnownPod, needs: PackedNeeds) -> PackedPod:
        rule, _ = self._cluster.obstacle(pod.view)
        if not rule and gang_group(self._cluster.cluster, pod.view.key).group_id:
            rule = "Gang"
        budgets = self._budgets_of(pod)
        if len(budgets) > 1:
            rule = rule or "DisruptionBudget"
        if rule:
            self.stays[rule] += 1
            return PackedPod(needs, math.inf)
        code = self._budget_code(budgets[0]) if budgets else -1
        return PackedPod(needs, move_cost(pod.view, self._costs, self._cluster.now), code)

    def _budgets_of(self, pod: KnownPod) -> list[DisruptionBudget]:
        view = pod.view
        labels = pod_labels(view.namespace, view.template.labels)
        return self._cluster.cluster.scheduler.budgets.about(labels)

    def _budget_code(self, budget: DisruptionBudget) -> int:
        if budget.key not in self._budgets:
            self._budgets[budget.key] = len(self._allowed)
            self._allowed.append(budget.allowed)
        return self._budgets[budget.key]

    def _free(self) -> Amounts:
        resources = self._cluster.cluster.scheduler.nodes.resources
        columns = [resources.column(name) for name in self.resources]
        found: Amounts = resources.allocatable[columns][:, self.rows].astype(np.float64)
        found -= resources.requested[columns][:, self.rows]
        return found

    def _free_cards(self) -> tuple[Amounts, list[dict[int, int]]]:
        """Free thousandths by node and card, and the column of each card by its minor number."""
        states = [
            self._devices.state(row) if self._devices is not None else None
            for row in self.rows.tolist()
        ]
        free = [state.free_cards if state is not None else () for state in states]
        numbers = [
            {minor: place for place, minor in enumerate(state.devices.get(GPU_TYPE, ()))}
            if state is not None
            else {}
            for state in states
        ]
        found = np.zeros((len(free), max(map(len, free), default=0)))
        for node, cards in enumerate(free):
            found[node, : len(cards)] = cards
        return found, numbers

    # ---- the nodes that may have a pod

    def _place_code_of(self, pod: KnownPod) -> int:
        waiting = pod.replacement.waiting
        return self._place_code(waiting.pod_class, pod) if waiting is not None else 0

    def _place_code(self, pod_class: PodClass, pod: KnownPod | QueuedPod) -> int:
        waits = isinstance(pod, QueuedPod)
        key = (pod_class.required, pod_class.tolerations, pod_class.node_name, waits)
        if key not in self._codes:
            self._codes[key] = len(self._masks)
            rows = self._cluster.virtual.eligible(pod)
            if waits and self._among is not None:
                rows = rows & self._among
            self._masks.append(rows[self.rows])
        return self._codes[key]


def _is_daemon(pod: KnownPod) -> bool:
    controller = pod.view.template.controller
    return controller is not None and controller.kind == _DAEMONS


def _cards_of(devices: PodDevices, numbers: Mapping[int, int]) -> dict[int, int]:
    """Thousandths of the cards that a pod has, by their columns."""
    return {
        numbers[device.minor]: _share(dict(device.resources))
        for device in devices
        if device.type == GPU_TYPE and device.minor in numbers
    }


def _share(amounts: Mapping[str, int]) -> int:
    parts: Iterable[int] = (amounts.get(name, 0) for name in (GPU_CORE, GPU_MEMORY_RATIO))
    return min(10 * max(parts), WHOLE) or WHOLE
