"""Accelerators and RDMA devices as a table for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from koord_model.keys import GPU_MEMORY
from koord_model.node_info import RDMADevices, SchedulableDevice

from koord_devices.core.accelerator import Accelerator

_HEADER = (
    "VENDOR",
    "MINOR",
    "MODEL",
    "MEMORY",
    "HEALTHY",
    "NUMA",
    "PCIE",
    "SWITCH",
    "BUS",
    "LINKS",
)
_NOTHING = "-"


def table(
    accelerators: Iterable[Accelerator], rdma: RDMADevices, switches: Mapping[str, str]
) -> str:
    """A line for each device; ``switches`` are those of RDMA devices, by address."""
    rows = [
        _HEADER,
        *map(_accelerator, accelerators),
        *(_rdma(device, switches.get(device.bus, "")) for device in rdma.devices),
    ]
    if len(rows) == 1:
        return "No accelerator and no RDMA device found.\n"
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        + "\n"
        for row in rows
    )


def _accelerator(accelerator: Accelerator) -> tuple[str, ...]:
    size = accelerator.device.resources.get(GPU_MEMORY, 0)
    return _row(
        accelerator.device,
        accelerator.vendor,
        accelerator.model,
        f"{size / (1 << 30):.0f} GiB" if size else _NOTHING,
        " ".join(_links(accelerator)),
        str(accelerator.details.get("pcieSwitch", "")),
    )


def _rdma(device: SchedulableDevice, switch: str) -> tuple[str, ...]:
    functions = sum(len(group.addresses) for group in device.virtual_functions)
    model = f"{functions} virtual functions" if functions else _NOTHING
    return _row(device, device.type, model, _NOTHING, _NOTHING, switch)


def _row(
    device: SchedulableDevice, vendor: str, model: str, size: str, links: str, switch: str
) -> tuple[str, ...]:
    wrong = ": ".join(filter(None, (device.reason, device.message)))
    return (
        vendor,
        str(device.minor),
        model or _NOTHING,
        size,
        "yes" if device.healthy else f"no ({wrong})",
        str(device.numa_node) if device.numa_node >= 0 else _NOTHING,
        device.pcie or _NOTHING,
        switch or _NOTHING,
        device.bus or _NOTHING,
        links or _NOTHING,
    )


def _links(accelerator: Accelerator) -> Iterator[str]:
    for link in accelerator.links:
        yield f"{link.type}:{','.join(map(str, link.peers))}"
