r"""The kernel's messages about devices, from its netlink socket: "add@PATH\0KEY=VALUE…"."""

from __future__ import annotations

_SUBSYSTEMS = ("pci", "drm", "accel", "infiniband")
_ACTIONS = ("add", "remove", "bind", "unbind")
_DISPLAY_OR_ACCELERATOR = ("3", "12", "2")


def concerns_devices(message: bytes) -> str:
    """Describe the event of a possible accelerator or network card; "" for any other device.

    Of PCI functions the class is known: "30200", without a leading zero.
    """
    head, *parts = message.decode(errors="replace").split("\0")
    if "@" not in head:
        return ""  # udevd's own messages have another form
    words = dict(part.partition("=")[::2] for part in parts if "=" in part)
    action, subsystem = words.get("ACTION", ""), words.get("SUBSYSTEM", "")
    if action not in _ACTIONS or subsystem not in _SUBSYSTEMS:
        return ""
    of_class = words.get("PCI_CLASS", "")
    if of_class and not of_class.startswith(_DISPLAY_OR_ACCELERATOR):
        return ""
    name = words.get("PCI_SLOT_NAME") or words.get("DEVPATH", "").rpartition("/")[2]
    return f"{subsystem} {name} {action}"
