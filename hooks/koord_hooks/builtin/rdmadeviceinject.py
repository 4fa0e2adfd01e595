"""Containers get the RDMA devices that the scheduler gave their pod.

It names them by PCI address: that of a device, or those of its virtual functions.
Which device file that is the node knows (``Kernel.verbs``). With the first comes
the connection manager's file, which all share. The hook protocol carries no
devices; NRI does.
"""

from __future__ import annotations

from koord_model.device_allocated import devices_of, where
from koord_model.excerpt import excerpt
from koord_model.node import NodeView
from koord_model.patch import Device, Patch
from koord_model.pod import Container

from koord_hooks.specs import hookimpl

_FILES = "/dev/infiniband"
_MANAGER = f"{_FILES}/rdma_cm"


@hookimpl
def pre_create_container(container: Container, view: NodeView) -> Patch | None:
    given, ignored = devices_of(container.pod, "rdma")
    addresses = [address for device in given for address in device.addresses]
    verbs = view.kernel.verbs
    unknown = tuple(
        f"{where(container.pod)} rdma: {excerpt(address)} is not an RDMA device of this node; "
        f"there are: {', '.join(sorted(verbs)) or 'none'}"
        for address in addresses
        if address.lower() not in verbs
    )
    found = [(address, verbs[address.lower()]) for address in addresses if address.lower() in verbs]
    if not found:
        return Patch(ignored=ignored + unknown) if ignored or unknown else None
    paths = [_MANAGER, *(f"{_FILES}/{name}" for _, name in found)]
    shown = ", ".join(f"{address} is {name}" for address, name in found)
    return Patch(
        devices={path: Device(path) for path in paths},
        why=f"device-allocated gives RDMA devices: {shown}",
        ignored=ignored + unknown,
    )
