"""The unit files, read just well enough to compare them with the programs."""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path(__file__).parents[2] / "systemd"
PROXY = DIRECTORY / "koord-runtime-proxy.service"
PROXY_SOCKET = DIRECTORY / "koord-runtime-proxy.socket"
DOCKER = DIRECTORY / f"{PROXY.name}.d" / "docker.conf"
KOORDLET = DIRECTORY / "koordlet.service"
DEVICE_DAEMON = DIRECTORY / "koord-device-daemon.service"
CONTROL_PLANE = DIRECTORY / "koord@.service"
ALL = (PROXY, PROXY_SOCKET, KOORDLET, DEVICE_DAEMON, CONTROL_PLANE)

Unit = dict[str, list[str]]
"""Values by "Section.Key", in order."""


def read(path: Path) -> Unit:
    """A unit file without continuation lines; ours have none."""
    unit: Unit = {}
    section = ""
    for line in path.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            unit.setdefault(f"{section}.{key}", []).append(value)
    return unit


def only(unit: Unit, key: str) -> str:
    """The value of a key that is set once."""
    [value] = unit[key]
    return value


def on_the_host(path: str) -> str:
    """A default of a program as units write it: /var/run is /run."""
    return path.replace("/var/run/", "/run/")


def writable(unit: Unit) -> list[str]:
    """The directories a service may write to under ProtectSystem=strict."""
    assert only(unit, "Service.ProtectSystem") == "strict"
    bases = {"StateDirectory": "/var/lib", "RuntimeDirectory": "/run"}
    made = [
        f"{base}/{name}"
        for key, base in bases.items()
        if f"Service.{key}" in unit
        for name in only(unit, f"Service.{key}").split()
    ]
    return made + unit.get("Service.ReadWritePaths", [""])[0].split()
