"""Addresses of servers, as text and listened on, and those of their clients."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from typing import Any


def host_port(host: str, port: int) -> str:
    """An address as people and URLs write it: that of IPv6 is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_local(address: str) -> bool:
    """Return whether only this machine can reach it; raises ValueError as ``StatusServer``."""
    target = parse_target(address, network=True)
    return isinstance(target, str) or is_loopback(target[0])


def parse_target(address: str, network: bool) -> str | tuple[str, int]:
    """A unix socket's path, or a host and port, a loopback one unless ``network``."""
    path = address.removeprefix("unix://")
    if path.startswith("/"):
        return path
    host, colon, port = address.rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and int(port) < 2**16):
        raise ValueError(f'status address is "{address}"; expected 127.0.0.1:PORT or unix:///PATH')
    if network:
        return host.strip("[]"), int(port)
    if not is_loopback(host):
        raise ValueError(f'status address is "{address}"; only loopback and unix:// are served')
    return "127.0.0.1" if host == "localhost" else host.strip("[]"), int(port)


def peer_host(client_address: Any) -> str:
    """The address of the other end; "" over a unix socket."""
    return client_address[0] if isinstance(client_address, tuple) else ""


def is_loopback(host: str) -> bool:
    """Return whether a host of a URL is this machine, by number or as "localhost"."""
    try:
        number = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host.lower() == "localhost"
    # A socket for both families has IPv4 peers as ::ffff:127.0.0.1.
    return (getattr(number, "ipv4_mapped", None) or number).is_loopback


def listen_tcp(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        if not host:
            return _listen_everywhere(port)
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise OSError(error.errno, f"cannot listen: {error.strerror}", f"{host}:{port}") from None


def _listen_everywhere(port: int) -> socket.socket:
    """On all addresses, those of IPv6 too where the machine has such."""
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(
                ("", port), family=socket.AF_INET6, backlog=128, dualstack_ipv6=True
            )
    return socket.create_server(("", port), backlog=128)
