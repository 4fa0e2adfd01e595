"""Documents of the proxy's pages.

Everything has a default: a proxy of another release may say less, and what it
says beyond this is passed over.
"""

from __future__ import annotations

import argparse
from typing import TypeVar

import msgspec

from koordctl.errors import AskError
from koordctl.status_client import ask

A = TypeVar("A")

ADDRESS = "127.0.0.1:9319"
"""Default address of koord-runtime-proxy's status."""


class HookServerRow(msgspec.Struct, frozen=True):
    """One who is asked; ``breaker`` is closed, half_open or open."""

    name: str
    policy: str = ""
    breaker: str = ""
    stages: list[str] = []


class ProxyStatus(msgspec.Struct, frozen=True):
    """/healthz. ``backend`` and ``database`` are "ok", or what is wrong with them.

    ``registrations`` has what is wrong with those of hook servers, by name.
    """

    status: str
    backend: str = ""
    database: str = ""
    reconciled: bool = False
    connections: int = 0
    pods: int = 0
    containers: int = 0
    unmanaged: int = 0
    hook_servers: list[HookServerRow] = []
    registrations: dict[str, str] = {}
    version: str = ""
    started_at: float | None = None


class MissedHook(msgspec.Struct, frozen=True):
    """A hook that was due and did not happen; ``at`` is seconds since the epoch."""

    stage: str
    server: str
    reason: str = ""
    at: float = 0.0


class ContainerHooks(msgspec.Struct, frozen=True):
    """A container, and the hooks it went without."""

    id: str
    name: str
    managed: bool = True
    missed: list[MissedHook] = []


class PodHooks(ContainerHooks, frozen=True):
    """A pod, one of the list on /pods; its name is "namespace/name"."""

    containers: list[ContainerHooks] = []


def add_address(parser: argparse.ArgumentParser) -> None:
    """Add the option for the proxy's address."""
    parser.add_argument(
        "--address",
        default=ADDRESS,
        help="the proxy's --metrics-address: HOST:PORT or unix:///PATH (default: %(default)s)",
    )


def read(body: bytes, kind: type[A]) -> A:
    """A page as a value.

    Raises:
        ValueError: it holds something else.
    """
    return msgspec.json.decode(body, type=kind)


def ask_proxy(address: str, page: str, kind: type[A]) -> tuple[bytes, A]:
    """A page of the proxy as it came and as a value.

    Raises:
        UsageError: the address is not valid.
        AskError: the proxy does not answer, or another program does.
    """
    body = ask(address, page)
    try:
        return body, read(body, kind)
    except ValueError as error:
        raise AskError(
            f"the answer of {address} is not a status of koord-runtime-proxy: {error}"
        ) from None


def unmanaged(pods: list[PodHooks]) -> list[PodHooks]:
    """Those that went without a hook, themselves or in a container; of each only what did."""
    found = []
    for pod in pods:
        containers = [container for container in pod.containers if not container.managed]
        if containers or not pod.managed:
            found.append(msgspec.structs.replace(pod, containers=containers))
    return found
