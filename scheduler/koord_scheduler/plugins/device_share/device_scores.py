"""Scores of a pod's use of a device, or of the devices of a node. No IO.

Koordinator's ``deviceshare/scoring.go``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from koord_model.demand import Amounts
from koord_model.keys import FPGA, GPU_MEMORY, GPU_MEMORY_RATIO, RDMA

from koord_scheduler.plugins.device_share.node_device_state import FreeDevice
from koord_scheduler.state.resource_scores import least_taken, most_taken

DEFAULT_WEIGHTS = tuple((name, 1) for name in (GPU_MEMORY_RATIO, GPU_MEMORY, RDMA, FPGA))


@dataclass(frozen=True)
class DeviceScorer:
    """The mean over resources by their ``weights`` of what is left; if it ``is_packing``, taken.

    In per cent, rounded down. Resources that there are none of do not count.
    """

    weights: tuple[tuple[str, int], ...] = DEFAULT_WEIGHTS
    is_packing: bool = False

    def of_device(self, each: Amounts, device: FreeDevice) -> int:
        """Of a device, for a pod that takes ``each`` of it."""
        return self._score(each, device.total, device.free)

    def of_node(self, each: Amounts, devices: Iterable[FreeDevice]) -> int:
        """Of all devices of a type; as in Koordinator, for a pod that takes one of them."""
        total: dict[str, int] = {}
        free: dict[str, int] = {}
        for device in devices:
            for sums, amounts in ((total, device.total), (free, device.free)):
                for name, amount in amounts.items():
                    sums[name] = sums.get(name, 0) + amount
        return self._score(each, total, free)

    def _score(self, each: Amounts, total: Amounts, free: Amounts) -> int:
        strategy = most_taken if self.is_packing else least_taken
        scores = weights = 0
        for name, weight in self.weights:
            has = total.get(name, 0)
            if has:
                taken = has - free.get(name, 0) + each.get(name, 0)
                scores += weight * strategy(taken, has)
                weights += weight
        return scores // weights if weights else 0
