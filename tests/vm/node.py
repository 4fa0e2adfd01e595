"""What an administrator asks and tells the node: units, the proxy's pages, programs."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from tests.vm import recipe

PROXY, KOORDLET = "koord-runtime-proxy.service", "koordlet.service"
PROXY_SOCKET = "koord-runtime-proxy.socket"
SOCKET = "/run/koord-runtimeproxy/runtimeproxy.sock"
CONTAINERD = "/run/containerd/containerd.sock"

_PAGES = "http://127.0.0.1:9319"
_DEADLINE = 360.0


def run(command: str) -> dict[str, Any]:
    """Type a command, in the checkout; what became of it."""
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=recipe.CHECKOUT,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return {"command": command, "exit": done.returncode, "output": done.stdout.strip()}


def unit(name: str) -> dict[str, str]:
    """A unit's state, in systemd's words."""
    properties = "ActiveState,SubState,UnitFileState,NRestarts,MainPID,Result"
    said = run(f"systemctl show --property={properties} {name}")["output"]
    return dict(line.split("=", 1) for line in said.splitlines())


def page(name: str) -> Any:
    """One of the proxy's pages."""
    with urllib.request.urlopen(f"{_PAGES}/{name}", timeout=30) as answer:
        return json.load(answer)


def pods() -> dict[str, Any]:
    """The proxy's records, by the pods' ids."""
    return {pod["id"]: pod for pod in page("pods")}


def container(container_id: str) -> dict[str, Any]:
    """The proxy's record of one container."""
    for pod in page("pods"):
        for one in pod["containers"]:
            if one["id"] == container_id:
                return {**one, "pod_managed": pod["managed"], "pod_missed": pod.get("missed", [])}
    return {}


def koordlet_is_asked() -> bool:
    """Whether the proxy knows koordlet and would ask it now (half_open: for one call at first)."""
    return breakers().get("koordlet") in ("closed", "half_open")


def breakers() -> dict[str, str]:
    """What keeps the proxy from asking each hook server."""
    return {server["name"]: server["breaker"] for server in page("healthz")["hook_servers"]}


def proxy_is_up() -> bool:
    return unit(PROXY)["ActiveState"] == "active" and page("healthz")["reconciled"]


def testimony() -> str:
    """What the node has to say as a step fails: a log of CI is all that stays of it."""
    commands = (
        "cat /proc/loadavg /proc/pressure/cpu",
        f"journalctl --output=short-precise --unit={PROXY} --unit={KOORDLET} --lines=15",
        "/opt/pykoord/bin/koordctl why strategies",
        "/opt/pykoord/bin/koordctl top --once",
    )
    said = (run(f"timeout 60 {command}") for command in commands)
    return "".join(f"$ {one['command']}\n{one['output']}\n" for one in said)


def until(what: str, ready: Callable[[], bool], most: float = _DEADLINE) -> float:
    """Wait ``most`` seconds at most, and say how many it took.

    Raises:
        TimeoutError: it did not come to pass.
    """
    begin = time.monotonic()
    while time.monotonic() < begin + most:
        try:
            if ready():
                return round(time.monotonic() - begin, 1)
        except OSError:
            pass  # the page is away while the proxy is
        time.sleep(0.5)
    raise TimeoutError(f"waited {most:.0f} s for: {what}")
