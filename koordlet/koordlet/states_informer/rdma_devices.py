"""The RDMA devices of this node, as sysfs shows them."""

from __future__ import annotations

from pathlib import Path


def verbs(sys_root: str) -> dict[str, str]:
    """Verbs devices by PCI address: "0000:3b:00.2" → "uverbs0"."""
    found = {}
    for device in Path(sys_root, "class/infiniband_verbs").glob("uverbs*"):
        try:
            found[(device / "device").resolve(strict=True).name] = device.name
        except OSError:
            continue  # it is just being taken away
    return found
