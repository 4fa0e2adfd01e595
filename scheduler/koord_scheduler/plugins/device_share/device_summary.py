"""The devices of a node as plain data for people, in the shape of Koordinator's service. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from koord_model.demand import Amounts
from koord_model.device_allocated import PodDevices
from koord_model.quantity import quantity_text

from koord_scheduler.plugins.device_share.node_device_state import NodeDeviceState

_ByDevice = Mapping[str, Mapping[int, Amounts]]


def device_summary(
    state: NodeDeviceState, pods: Iterable[tuple[str, PodDevices]], ignored: Iterable[str] = ()
) -> dict[str, object]:
    """Sums by resource, amounts by type and minor, and ``pods`` by namespace/name."""
    total = {
        kind: {minor: device.total for minor, device in devices.items()}
        for kind, devices in state.devices.items()
    }
    free = {
        kind: {minor: device.free for minor, device in devices.items()}
        for kind, devices in state.devices.items()
    }
    used: dict[str, dict[int, Amounts]] = {}
    for one in state.used:
        used.setdefault(one.type, {})[one.minor] = dict(one.resources)
    found: dict[str, object] = {}
    for name, amounts in (("Total", total), ("Free", free), ("Used", used)):
        found[f"device{name}"] = _texts(_sums(amounts))
        found[f"device{name}Detail"] = {
            kind: {str(minor): _texts(has) for minor, has in devices.items()}
            for kind, devices in amounts.items()
        }
    return {**found, "allocateSet": _by_type(pods), "ignored": list(ignored)}


def _sums(amounts: _ByDevice) -> Amounts:
    sums: Counter[str] = Counter()
    for devices in amounts.values():
        for has in devices.values():
            sums.update(has)
    return sums


def _by_type(pods: Iterable[tuple[str, PodDevices]]) -> dict[str, object]:
    found: dict[str, dict[str, dict[str, object]]] = {}
    for pod, devices in pods:
        for device in devices:
            has = _texts(dict(device.resources))
            found.setdefault(device.type, {}).setdefault(pod, {})[str(device.minor)] = has
    return dict(found)


def _texts(amounts: Amounts) -> dict[str, str]:
    return {name: quantity_text(name, amount) for name, amount in sorted(amounts.items())}
