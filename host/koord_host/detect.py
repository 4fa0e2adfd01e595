"""What this node has: cgroup version, driver, knobs.

Only reads. Each finding has a setting that overrides it; an error names it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable

import yaml

from koord_host.kernel_files.interface import FileReader
from koord_host.knobs.layout import Driver, Layout
from koord_host.knobs.table import KNOBS, Knob, PlaceKind

CGROUP2_SUPER_MAGIC = 0x63677270  # statfs(2)
_SYSTEMD_GROUP, _CGROUPFS_GROUP = "kubepods.slice", "kubepods"
_KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"
_DRIVER_FLAG, _CONFIG_FLAG = "--cgroup-driver", "--config"
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


def cgroup_driver(files: FileReader, root: str, version: int, proc_root: str = "/proc") -> Driver:
    """How the kubelet names groups.

    By the groups it has made; before it has, by its command line or its configuration;
    systemd where nothing says otherwise.
    """
    middle = "" if version == 2 else "/cpu"
    if files.exists(f"{root}{middle}/{_SYSTEMD_GROUP}"):
        return Driver.SYSTEMD
    if files.exists(f"{root}{middle}/{_CGROUPFS_GROUP}"):
        return Driver.CGROUPFS
    words = _kubelet_words(files, proc_root)
    named = _flag(words, _DRIVER_FLAG) or _configured(
        files, _flag(words, _CONFIG_FLAG) or _KUBELET_CONFIG
    )
    return Driver.CGROUPFS if named == Driver.CGROUPFS.value else Driver.SYSTEMD


def layout(
    files: FileReader,
    *,
    cgroup_root: str = "/sys/fs/cgroup",
    resctrl_root: str = "/sys/fs/resctrl",
    proc_root: str = "/proc",
    version: int | None = None,
    driver: Driver | None = None,
    magic: Callable[[str], int] = file_system,
) -> Layout:
    """The node's layout; what is given is not detected.

    Raises:
        DetectError: the machine has no cgroups.
    """
    root = cgroup_root.rstrip("/") or "/"
    if version is None:
        version = cgroup_version(files, root, magic)
    if driver is None:
        driver = cgroup_driver(files, root, version, proc_root)
    return Layout(version, driver, root, resctrl_root, proc_root)


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
    """What names this boot of the machine; "" where the kernel does not say."""
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
    own = _SYSTEMD_GROUP if layout.driver is Driver.SYSTEMD else _CGROUPFS_GROUP
    if files.exists(layout.group_path(own, subsystem)):
        return [own]
    try:
        names = files.entries(layout.group_path("", subsystem))
    except OSError:
        return []
    return [*names[:8], ""]


def _kubelet_words(files: FileReader, proc_root: str) -> list[str]:
    """The command line of the running kubelet, empty without one."""
    try:
        names = files.entries(proc_root)
    except OSError:
        return []
    for name in names:
        if name.isdigit():
            try:
                words = files.read(f"{proc_root}/{name}/cmdline").split("\0")
            except OSError:
                continue
            if words[0].rpartition("/")[2] == "kubelet":
                return words
    return []


def _flag(words: list[str], flag: str) -> str:
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == flag:
            following = words[place + 1] if place + 1 < len(words) else ""
            return value if equals else following
    return ""


def _configured(files: FileReader, path: str) -> str:
    try:
        config = yaml.safe_load(files.read(path))
    except (OSError, yaml.YAMLError):
        return ""
    return str(config.get("cgroupDriver", "")) if isinstance(config, dict) else ""
