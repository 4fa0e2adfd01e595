"""Survey of this node: its kernel, systemd and our programs. Decides nothing."""

from __future__ import annotations

import ctypes
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

from koord_host import detect, kubelet_settings
from koord_host.kernel_files.interface import FileReader

from koordctl.errors import AskError
from koordctl.koordlet_client import ask_koordlet
from koordctl.koordlet_documents import KoordletStatus, NodeDocument
from koordctl.proxy_documents import ProxyStatus, ask_proxy

UNITS = ("koordlet.service", "koord-runtime-proxy.service", "koord-device-daemon.service")
_UNIT_SETTINGS = ("LoadState", "ActiveState", "SubState", "Result", "NRestarts")
_DEFAULT_ENDPOINT = "unix:///run/containerd/containerd.sock"
_FEATURES = {
    "psi": "/proc/pressure/cpu",
    "delayacct": "/proc/sys/kernel/task_delayacct",
    "resctrl": "/sys/fs/resctrl/schemata",
}
_STA_UNSYNC = 0x40
_TIMEX_BYTES = 256
_TIMEX_STATUS = 40
"""Offset of ``status`` in the kernel's struct timex on 64-bit machines, adjtimex(2)."""
_CONNECT_SECONDS = 2.0


@dataclass(frozen=True)
class NodeSurvey:
    """All that was found; a "" or ``None`` is a thing that could not be learned.

    ``units`` has systemd's settings by unit, and ``endpoint_error`` why the kubelet's runtime
    endpoint takes no connections. ``koordlet_error`` and ``proxy_error`` say why no document came.
    """

    cgroup_version: int = 0
    cgroup_error: str = ""
    features: frozenset[str] = frozenset()
    cpu_flags: frozenset[str] = frozenset()
    units: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    is_kubelet_running: bool = False
    endpoint: str = _DEFAULT_ENDPOINT
    endpoint_error: str = ""
    is_clock_synchronized: bool | None = None
    koordlet: KoordletStatus | None = None
    node: NodeDocument | None = None
    koordlet_error: str = ""
    proxy: ProxyStatus | None = None
    proxy_error: str = ""


def read_node(files: FileReader, proxy_address: str, koordlet_address: str) -> NodeSurvey:
    """Read all of it; nothing that fails here is an error."""
    version, cgroup_error = _cgroups(files)
    settings = kubelet_settings.read(files, "/proc")
    given = settings.value("--container-runtime-endpoint", "containerRuntimeEndpoint")
    endpoint = str(given or _DEFAULT_ENDPOINT)
    koordlet, node, koordlet_error = _koordlet(koordlet_address)
    proxy, proxy_error = _proxy(proxy_address)
    return NodeSurvey(
        cgroup_version=version,
        cgroup_error=cgroup_error,
        features=frozenset(name for name, path in _FEATURES.items() if _readable(files, path)),
        cpu_flags=_cpu_flags(files),
        units=_units(),
        is_kubelet_running=bool(settings.words),
        endpoint=endpoint,
        endpoint_error=_connect_error(endpoint),
        is_clock_synchronized=_clock(),
        koordlet=koordlet,
        node=node,
        koordlet_error=koordlet_error,
        proxy=proxy,
        proxy_error=proxy_error,
    )


def _cgroups(files: FileReader) -> tuple[int, str]:
    try:
        return detect.layout(files).version, ""
    except detect.DetectError as error:
        return 0, str(error)


def _readable(files: FileReader, path: str) -> bool:
    """True if the kernel gives it, and not as a switch that is off."""
    try:
        return files.read(path).strip() != "0"
    except OSError:
        return False


def _cpu_flags(files: FileReader) -> frozenset[str]:
    try:
        text = files.read("/proc/cpuinfo")
    except OSError:
        return frozenset()
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())


def _units() -> Mapping[str, Mapping[str, str]]:
    """Settings of the units that are installed; none without systemd."""
    command = ["systemctl", "show", "-p", ",".join(("Id", *_UNIT_SETTINGS)), *UNITS]
    try:
        done = subprocess.run(  # noqa: S603 - words are ours, not a shell's
            command, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return units_of(done.stdout)


def units_of(text: str) -> Mapping[str, Mapping[str, str]]:
    """Settings by unit of ``systemctl show``: blocks of NAME=VALUE, an empty line between two."""
    found = {}
    for block in text.split("\n\n"):
        settings = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if settings.get("LoadState") == "loaded":
            found[settings.get("Id", "")] = settings
    return found


def _connect_error(endpoint: str) -> str:
    path = endpoint.removeprefix("unix://")
    if not path.startswith("/"):
        return ""  # npipe or tcp: not ours to judge
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_CONNECT_SECONDS)
            connection.connect(path)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _clock() -> bool | None:
    """True if the kernel holds its clock to be synchronized; ``None`` if it does not say."""
    buffer = ctypes.create_string_buffer(_TIMEX_BYTES)  # modes = 0: only read
    if ctypes.sizeof(ctypes.c_long) != 8 or ctypes.CDLL(None).adjtimex(buffer) < 0:
        return None
    return not ctypes.c_int.from_buffer(buffer, _TIMEX_STATUS).value & _STA_UNSYNC


def _koordlet(address: str) -> tuple[KoordletStatus | None, NodeDocument | None, str]:
    try:
        _, status = ask_koordlet(address, "/v1/status", KoordletStatus)
    except AskError as error:
        return None, None, str(error)
    try:
        return status, ask_koordlet(address, "/v1/node", NodeDocument)[1], ""
    except AskError:
        return status, None, ""  # it observes nothing, and its status says so


def _proxy(address: str) -> tuple[ProxyStatus | None, str]:
    try:
        return ask_proxy(address, "/healthz", ProxyStatus)[1], ""
    except AskError as error:
        return None, str(error)


def is_node(files: FileReader) -> bool:
    """True if a kubelet or one of our units is here."""
    return bool(kubelet_settings.read(files, "/proc").words) or any(
        files.exists(f"/etc/systemd/system/{unit}") for unit in UNITS
    )
