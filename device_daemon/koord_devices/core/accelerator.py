"""Accelerators as vendors describe them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from koord_model.node_info import SchedulableDevice


@dataclass(frozen=True, slots=True)
class DeviceLink:
    """Accelerators, by minor, that are all linked with this one and each other, and how."""

    peers: tuple[int, ...]
    type: str


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One accelerator, and what only its vendor knows of it.

    Its tool may list one that it cannot ask (``device.id`` is "" then); ``details`` are for people.
    """

    device: SchedulableDevice
    vendor: str
    model: str = ""
    driver: str = ""
    links: tuple[DeviceLink, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def unhealthy(self, reason: str, message: str) -> Accelerator:
        """The same, out of order."""
        device = replace(self.device, healthy=False, reason=reason, message=message)
        return replace(self, device=device)
