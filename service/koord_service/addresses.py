"""TCP addresses as text."""

from __future__ import annotations


def host_port(host: str, port: int) -> str:
    """An address as people and URLs write it: that of IPv6 is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
