"""The RDMA devices of this node, as sysfs shows them."""

from __future__ import annotations

from pathlib import Path

VERBS = "class/infiniband_verbs"


def verbs(sys_root: str) -> dict[str, str]:
    """Verbs devices by PCI address: "0000:3b:00.2" → "uverbs0".

    Raises:
        OSError: they cannot be listed.
    """
    found = {}
    for device in Path(sys_root, VERBS).glob("uverbs*"):
        try:
            found[(device / "device").resolve(strict=True).name] = device.name
        except OSError:
            continue  # it is just being taken away
    return found
