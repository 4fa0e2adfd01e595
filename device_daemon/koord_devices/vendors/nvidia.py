"""NVIDIA: NVML, which also says which GPUs NVLink connects, and what MIG made of them.

MIG's parts are details of their GPU: Koordinator's scheduler shares whole GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from koord_host.devices.gpu import DriverUnavailableError, GPUDetails, GPUHealth, GPUReading
from koord_host.devices.pci import PCIFunction
from koord_model.keys import GPU_CORE, GPU_MEMORY
from koord_model.node_info import SchedulableDevice

from koord_devices.contract import NodeAccess, ToolError
from koord_devices.core.accelerator import Accelerator
from koord_devices.core.linked_groups import Pair, links
from koord_devices.placement import placed

_VENDOR, _DISPLAY = "10de", "03"


class Vendor:
    """Asks NVML, and remembers each GPU's errors."""

    def __init__(self) -> None:
        self._health: dict[str, GPUHealth] = {}

    def owns(self, function: PCIFunction) -> bool:
        """True if it is a GPU: their bridges and sound cards are NVIDIA's, too."""
        return function.vendor == _VENDOR and function.pci_class.startswith(_DISPLAY)

    def probe(self, node: NodeAccess, functions: Sequence[PCIFunction]) -> list[Accelerator]:
        """All GPUs that the driver lists."""
        try:
            readings = node.gpus.read(node.wall)
        except DriverUnavailableError as error:
            raise ToolError("DriverUnavailable", str(error)) from error
        return list(self._accelerators(node, readings))

    def _accelerators(
        self, node: NodeAccess, readings: Sequence[GPUReading]
    ) -> Iterator[Accelerator]:
        details = node.gpus.details()
        linked = links(_pairs(readings, details))
        for reading in readings:
            detail = details.get(reading.uuid, GPUDetails(reading.uuid))
            health = self._health.setdefault(reading.uuid, GPUHealth())
            reason, message = health.judge(reading, node.steady)
            if not reason and detail.row_failure:
                reason, message = "RowRemapFailure", "a failed row of memory cannot be remapped"
            device, more = placed(_device(reading, reason, message), node)
            yield Accelerator(
                device,
                "nvidia",
                reading.model,
                node.gpus.driver,
                linked.get(reading.minor, ()),
                more | _details(detail),
            )


def _device(reading: GPUReading, reason: str, message: str) -> SchedulableDevice:
    device = SchedulableDevice(
        type="gpu",
        id=reading.uuid,
        minor=reading.minor,
        resources={GPU_CORE: 100, GPU_MEMORY: reading.memory},
        bus=reading.bus,
    )
    return device if not reason else replace(device, healthy=False, reason=reason, message=message)


def _pairs(readings: Sequence[GPUReading], details: Mapping[str, GPUDetails]) -> dict[Pair, str]:
    minors = {reading.uuid: reading.minor for reading in readings}
    return {
        frozenset((minors[uuid], minors[other])): "NVLink"
        for uuid, detail in details.items()
        for other in detail.linked
        if uuid in minors and other in minors
    }


def _details(detail: GPUDetails) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if detail.uncorrected is not None:
        found["eccUncorrected"] = detail.uncorrected
    if detail.instances:
        found["migInstances"] = [
            {"uuid": instance.uuid, "profile": instance.profile, "memory": instance.memory}
            for instance in detail.instances
        ]
    return found
