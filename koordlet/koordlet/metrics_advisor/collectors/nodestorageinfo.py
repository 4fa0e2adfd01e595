"""Disks, what lies on them, and where that is mounted.

Info ``LocalStorage``; no samples. Source files: /sys/class/block (dev, partition, slaves,
dm/name, dm/uuid) and /proc/1/mountinfo, which are the host's mounts in a container too
as long as it shares the host's processes; /proc/self/mountinfo where that one cannot be
read. No file system is asked anything: one of a server that is away would not answer.
Of LVM's volume groups only those are known that have an active volume.
"""

from __future__ import annotations

from collections.abc import Mapping

from koord_host.kernel_files import block_devices
from koord_host.kernel_files.block_devices import BlockDevice
from koord_model.node_info import LocalStorage

from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    Samples,
    UnavailableError,
)

INTERVAL = "collect_node_storage_info_interval"
ENABLED_BY: tuple[str, ...] = ("BlkIOReconcile",)


class Collector:
    """Reads what the kernel knows of disks."""

    def __init__(self, sources: CollectorSources) -> None:
        self._sources = sources

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        try:
            devices = block_devices.read(self._sources.tree, self._sources.sys_root)
            mounted = self._mountinfo()
        except OSError as error:
            raise UnavailableError(f"the machine's disks: {error}") from None
        below = {name: block_devices.disks(devices, name) for name in devices}
        groups, partial = _volume_groups(devices, below)
        storage = LocalStorage(
            numbers={device.path: device.number for device in devices.values()},
            parents=_parents(devices, below),
            volume_groups=groups,
            mounts=block_devices.mounts(mounted, devices),
        )
        return Samples(infos=(storage,), partial=partial)

    def _mountinfo(self) -> str:
        root = self._sources.layout.proc_root
        try:
            return self._sources.tree.read(f"{root}/1/mountinfo")
        except OSError:
            return self._sources.tree.read(f"{root}/self/mountinfo")


def _parents(
    devices: Mapping[str, BlockDevice], below: Mapping[str, frozenset[str]]
) -> dict[str, str]:
    """The disk of each device that lies on just one, by path."""
    found = {}
    for name, device in devices.items():
        if device.below and len(below[name]) == 1:
            (disk,) = below[name]
            if disk in devices:
                found[device.path] = devices[disk].path
    return found


def _volume_groups(
    devices: Mapping[str, BlockDevice], below: Mapping[str, frozenset[str]]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The disk of each volume group, and lines about groups that are on several."""
    disks: dict[str, set[str]] = {}
    for name, device in devices.items():
        if device.volume_group:
            known = (devices[disk].path for disk in below[name] if disk in devices)
            disks.setdefault(device.volume_group, set()).update(known)
    lines = [
        f"volume group {group} lies on {len(on)} disks ({', '.join(sorted(on))}): "
        "its volumes have no disk of their own"
        for group, on in sorted(disks.items())
        if len(on) > 1
    ]
    return {group: next(iter(on)) for group, on in disks.items() if len(on) == 1}, tuple(lines)
