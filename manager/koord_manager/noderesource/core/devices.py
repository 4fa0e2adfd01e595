"""The devices that a Device object lists, as far as they are healthy. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from koord_model.decision import Decision, Term
from koord_model.fields import Fields

from koord_manager.noderesource.core.desired_node import DesiredNode


def healthy(device: Mapping[str, Any], kind: str, ignored: list[str]) -> tuple[Fields, ...]:
    """Those of one type ("gpu"); lines about what cannot be read go to ``ignored``."""
    name = Fields(device, "Device", ignored).of("metadata").text("name")
    listed = Fields(device, f"Device {name}", ignored).of("spec").objects("devices")
    return tuple(
        device
        for device in listed
        if device.text("type") == kind and device.flag("health", default=False)
    )


def without_devices(names: Iterable[str], what: str, ignored: Iterable[str]) -> DesiredNode:
    """No device is left: all their resources are taken off the Node."""
    decision = Decision(f"no {what} resources: the node's Device lists no healthy one")
    lines = tuple(Decision(line) for line in ignored)
    return DesiredNode(resources=dict.fromkeys(names), decisions=(decision, *lines))


def offered(
    resources: Mapping[str, int | None],
    formulas: Mapping[str, str],
    devices: int,
    ignored: Iterable[str],
) -> tuple[Decision, ...]:
    """One decision for each resource that there is, and one for each line."""
    given = (Term("healthy", devices),)
    amounts = (
        Decision(f"{name} {value}", formulas[name], given, aspect=name)
        for name, value in resources.items()
        if value is not None
    )
    return (*amounts, *(Decision(line) for line in ignored))
