"""Shares of a reservation that pods of its node have. No IO."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord_model.device_allocated import PodDevices

from koord_scheduler.plugins.device_share.reserved_devices import what_is_left as devices_left
from koord_scheduler.plugins.node_numa_resource.node_allocation import NUMAAllocation
from koord_scheduler.plugins.node_numa_resource.reserved_cpus import what_is_left as numa_left
from koord_scheduler.state.ports import HostPort
from koord_scheduler.state.resources import PODS

if TYPE_CHECKING:
    from koord_scheduler.state.cluster_state import PodUsage


@dataclass
class AllocatedRoom:
    """What ``owners`` pods have together."""

    owners: int = 0
    request: Counter[str] = field(default_factory=Counter)
    scored: list[float] = field(default_factory=lambda: [0.0, 0.0])
    ports: Counter[HostPort] = field(default_factory=Counter)
    devices: list[PodDevices] = field(default_factory=list)
    numa: list[NUMAAllocation] = field(default_factory=list)

    def add(self, pod: PodUsage, sign: int) -> None:
        """A pod has something of it, or with -1 not any more."""
        self.owners += sign
        for name, amount in pod.request:
            self.request[name] += sign * int(amount)
        self.scored[0] += sign * pod.scored[0]
        self.scored[1] += sign * pod.scored[1]
        for port in pod.ports:
            self.ports[port] += sign
        if pod.devices:
            (self.devices.append if sign > 0 else self.devices.remove)(pod.devices)
        if pod.numa:
            (self.numa.append if sign > 0 else self.numa.remove)(pod.numa)

    def what_is_left(self, whole: PodUsage) -> PodUsage:
        """What a reservation takes of its node beside them."""
        left = (
            (name, amount if name == PODS else max(amount - self.request[name], 0.0))
            for name, amount in whole.request
        )
        scored = [max(a - b, 0.0) for a, b in zip(whole.scored, self.scored, strict=True)]
        return whole._replace(
            request=tuple((name, amount) for name, amount in left if amount),
            scored=(scored[0], scored[1]),
            ports=tuple(one for one in whole.ports if not self.ports[one]),
            devices=devices_left(whole.devices, self.devices),
            numa=numa_left(whole.numa, self.numa),
        )
