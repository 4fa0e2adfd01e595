"""A node's offer of accelerators: the sums over the healthy ones of its Device. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from koord_model.fields import Fields, quantity
from koord_model.keys import (
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    LABEL_GPU_DRIVER_VERSION,
    LABEL_GPU_MODEL,
    LABEL_GPU_VENDOR,
    NPU_CORE,
    NPU_CPU,
    NPU_DVPP,
)
from koord_model.quantity import whole

from koord_manager.noderesource.core import devices
from koord_manager.noderesource.core.desired_node import DesiredNode

GATE_SHARED = "EnableSyncGPUSharedResource"

OF_ONE = 100
"""Shares of one card (``koordinator.sh/gpu.shared``)."""

_SUMMED = (GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NPU_CORE, NPU_CPU, NPU_DVPP)
_NAMES = (GPU, GPU_SHARED, *_SUMMED)
_LABELS = (LABEL_GPU_VENDOR, LABEL_GPU_MODEL, LABEL_GPU_DRIVER_VERSION)
_WHOLE_CARDS = ("", "nvidia")
"""Vendors whose cards pods can request as ``koordinator.sh/gpu``."""

_FORMULAS = {
    GPU: "sum of gpu-core",
    GPU_SHARED: f"{OF_ONE} for each healthy device",
    **dict.fromkeys(_SUMMED, "sum over healthy devices"),
}


def gpu(device: Mapping[str, Any] | None, gates: Mapping[str, bool]) -> DesiredNode:
    """The accelerators of a Node; without any healthy one, none of their resources.

    A resource that no healthy one has is taken off. Labels are those of the Device; one that
    it does not have is left as the Node has it.
    """
    ignored: list[str] = []
    found = devices.healthy(device or {}, "gpu", ignored)
    if not found:
        return devices.without_devices(_NAMES, "gpu", ignored)
    given = Fields(device, "Device", ignored).of("metadata").of("labels")
    labels = {name: given.text(name) for name in _LABELS if given.has(name)}
    resources: dict[str, int | None] = {name: _sum(found, name) for name in _SUMMED}
    if labels.get(LABEL_GPU_VENDOR, "") in _WHOLE_CARDS:
        resources[GPU] = resources[GPU_CORE]
    if gates.get(GATE_SHARED, False):
        resources[GPU_SHARED] = OF_ONE * len(found)
    every = {name: resources.get(name) for name in sorted(_NAMES)}
    return DesiredNode(
        resources=every,
        labels=labels,
        decisions=devices.offered(every, _FORMULAS, len(found), ignored),
    )


def _sum(found: Iterable[Fields], name: str) -> int | None:
    """The sum over the devices; ``None`` if none has an amount."""
    sums = [
        device.of("resources").take(name, None, _amount, "a quantity from 0", "left out")
        for device in found
    ]
    amounts = [amount for amount in sums if amount is not None]
    return sum(amounts) if amounts else None


def _amount(given: object) -> int:
    amount = whole(quantity(given))
    if amount < 0:
        raise ValueError(given)
    return amount
