"""Detection of this node's cgroup version, driver and knobs.

Only reads. Each finding has a setting that overrides it; an error names it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable

from koord_model.qos import KubeQoS

from koord_host import kubelet_cgroups
from koord_host.kernel_files.interface import FileReader
from koord_host.knobs.layout import Driver, Layout
from koord_host.knobs.table import KNOBS, Knob, PlaceKind

CGROUP2_SUPER_MAGIC = 0x63677270  # statfs(2)
_V1_SUBSYSTEMS = ("cpu", "cpuset", "memory")


class DetectError(Exception):
    """The node is none that can be worked on; the message is one line with the way out."""


def file_system(path: str) -> int:
    """The magic number of the file system at a path, by statfs(2).

    Raises:
        OSError: the path does not exist.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    # struct statfs begins with its type, a long; 256 bytes hold it everywhere.
    buffer = ctypes.create_string_buffer(256)
    if libc.statfs(os.fsencode(path), buffer) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return ctypes.c_long.from_buffer(buffer).value & 0xFFFFFFFF


def cgroup_version(files: FileReader, root: str, magic: Callable[[str], int] = file_system) -> int:
    """1 or 2, by the file system at the cgroup root; a hybrid node counts as 1.

    Raises:
        DetectError: the machine has no cgroups.
    """
    try:
        if magic(root) == CGROUP2_SUPER_MAGIC:
            return 2
    except OSError as error:
        raise DetectError(
            f"{root}: {error.strerror}; name the mounted cgroups with --cgroup-root-dir"
        ) from None
    missing = [name for name in _V1_SUBSYSTEMS if not files.exists(f"{root}/{name}")]
    if missing:
        raise DetectError(
            f"{root} has neither cgroup v2 nor v1's {', '.join(missing)}; "
            "name the mounted cgroups with --cgroup-root-dir"
        )
    return 1


def layout(
    files: FileReader,
    *,
    cgroup_root: str = "/sys/fs/cgroup",
    resctrl_root: str = "/sys/fs/resctrl",
    proc_root: str = "/proc",
    version: int | None = None,
    driver: Driver | None = None,
    kubelet_dir: str = kubelet_cgroups.KUBELET_DIR,
    magic: Callable[[str], int] = file_system,
) -> Layout:
    """The node's layout; what is given is not detected.

    Raises:
        DetectError: the machine has no cgroups, or the kubelet makes none for pods.
    """
    root = cgroup_root.rstrip("/") or "/"
    if version is None:
        version = cgroup_version(files, root, magic)
    here = Layout(version, Driver.SYSTEMD, root, resctrl_root, proc_root)
    found = kubelet_cgroups.find(files, here, driver, kubelet_dir)
    if not found.per_qos:
        raise DetectError(
            "the kubelet makes no cgroups for pods; remove cgroupsPerQOS: false from its "
            "configuration, or --cgroups-per-qos=false from its flags"
        )
    return here.of_kubelet(found.driver, found.root)


def knobs(files: FileReader, layout: Layout) -> frozenset[str]:
    """The names of the knobs whose files are there: ``koord_model.node.Kernel.knobs``.

    Detected from the groups that the kubelet has made, or before that in any group: the
    root lacks most files, but for those that only it has.
    """
    found = set()
    probes: dict[str, list[str]] = {}
    for knob in KNOBS.values():
        if knob.where is PlaceKind.CGROUP:
            places = probes.get(knob.subsystem)
            if places is None:
                places = probes[knob.subsystem] = _probes(files, layout, knob.subsystem)
            there = _anywhere(files, layout, knob, ("",) if knob.root else places)
        else:
            there = _elsewhere(files, layout, knob)
        if there:
            found.add(knob.name)
    return frozenset(found)


def boot(files: FileReader, proc_root: str = "/proc") -> str:
    """Return the id of this boot of the machine; "" where the kernel does not report one."""
    try:
        return files.read(f"{proc_root}/sys/kernel/random/boot_id").strip()
    except OSError:
        return ""


def _anywhere(files: FileReader, layout: Layout, knob: Knob, places: Iterable[str]) -> bool:
    paths = (layout.path(knob, place) for place in places)
    return any(path and files.exists(path) for path in paths)


def _elsewhere(files: FileReader, layout: Layout, knob: Knob) -> bool:
    if knob.where is PlaceKind.PROCESS:
        return files.exists(layout.path(knob, "self"))
    return True


def _probes(files: FileReader, layout: Layout, subsystem: str) -> list[str]:
    """Groups to search, the kubelet's first."""
    own = layout.kube_qos_group(KubeQoS.GUARANTEED)
    if files.exists(layout.group_path(own, subsystem)):
        return [own]
    try:
        names = files.entries(layout.group_path("", subsystem))
    except OSError:
        return []
    return [*names[:8], ""]
