"""Annotations for vendors' device plugins, so that a pod gets the chosen devices. No IO.

Koordinator's ``deviceshare/device_plugin_adapter.go``. A device plugin hears from the kubelet that
a pod wants some of its devices, not which pod it is: it finds the pod by annotations, of which the
time is one, or by a lock of the node, which has one pod of the vendor start after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from koord_model.device_allocated import PodDevice, PodDevices
from koord_model.keys import (
    ANNOTATION_BIND_TIMESTAMP,
    ANNOTATION_GPU_MINORS,
    GPU_CORE,
    GPU_MEMORY,
    LABEL_HAMI_NODE,
)
from koord_model.names import is_label_value

from koord_scheduler.plugins.device_share.device_object import GPU_TYPE, GPUModel

HAMI_CORE = "HAMi-core"
_ONLY_310P = "Ascend-310P3-300I-DUO"
"""The model whose device plugin has an annotation of its own."""
_CAMBRICON_UNIT = 256 << 20
"""Bytes: ``min-dsmlu-unit`` of the device plugin."""
_METAX_UNIT = 1 << 20


class Adaption(NamedTuple):
    """A pod's annotations and labels, and ``lock``, the annotation that locks the node, if any."""

    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    lock: str = ""


NO_ADAPTION = Adaption({}, {})


def adaption(
    devices: PodDevices, model: GPUModel, isolation: str, node: str, nanoseconds: int
) -> Adaption:
    """Return the annotations for devices on a node, to write before a binding at that time.

    ``isolation`` is what keeps the pod apart from others on its card.

    Raises:
        ValueError: the vendor's device plugin cannot give these.
    """
    annotations = {ANNOTATION_BIND_TIMESTAMP: str(nanoseconds)}
    gpus = [device for device in devices if device.type == GPU_TYPE]
    if not gpus:
        return Adaption(annotations, {})
    annotations[ANNOTATION_GPU_MINORS] = _minors(gpus)
    named = isolation == HAMI_CORE and is_label_value(node)  # else the pod could not be bound
    labels = {LABEL_HAMI_NODE: node} if named else {}
    vendor = _VENDORS.get(model.vendor)
    if vendor is None:
        return Adaption(annotations, labels)
    return Adaption(annotations | vendor.write(gpus, model, nanoseconds), labels, vendor.lock)


def refusal(devices: PodDevices, model: GPUModel) -> str:
    """Return why a vendor's device plugin cannot give a pod these; "" if it can."""
    try:
        adaption(devices, model, "", "", 0)
    except ValueError as error:
        return str(error)
    return ""


def lock_of(devices: PodDevices, model: GPUModel) -> str:
    """The annotation that locks a node while a pod with these devices starts; "" if none does."""
    vendor = _VENDORS.get(model.vendor)
    has_gpus = any(device.type == GPU_TYPE for device in devices)
    return vendor.lock if vendor is not None and has_gpus else ""


def _huawei(gpus: Sequence[PodDevice], model: GPUModel, nanoseconds: int) -> dict[str, str]:
    first = gpus[0]
    found = {"predicate-time": str(nanoseconds)}
    if model.model == _ONLY_310P:
        return found | {"huawei.com/Ascend310P": _minors(gpus, "Ascend310P-")}
    what = f"{first.minor}-{first.template}" if first.template else _minors(gpus)
    return found | {"huawei.com/npu-core": what}


def _cambricon(gpus: Sequence[PodDevice], model: GPUModel, nanoseconds: int) -> dict[str, str]:
    if len(gpus) > 1:
        raise ValueError(f"{len(gpus)} cards; the device plugin of cambricon gives one to a pod")
    core, memory = _parts(gpus[0], _CAMBRICON_UNIT)
    profile = f"{gpus[0].minor}_{core}_{memory}"
    # The device plugin spells it so.
    return {"CAMBRICON_DSMLU_ASSIGHED": "false", "CAMBRICON_DSMLU_PROFILE": profile}


def _metax(gpus: Sequence[PodDevice], model: GPUModel, nanoseconds: int) -> dict[str, str]:
    parts = [(one, *_parts(one, _METAX_UNIT)) for one in gpus]
    cards = [{"uuid": one.id, "compute": core, "vRam": memory} for one, core, memory in parts]
    return {"metax-tech.com/gpu-devices-allocated": msgspec.json.encode([cards]).decode()}


def _parts(pod_device: PodDevice, unit: int) -> tuple[int, int]:
    """Per cent of a card's cores, and units of its memory."""
    amounts = dict(pod_device.resources)
    if GPU_CORE not in amounts:
        raise ValueError(f"{GPU_CORE} is not requested; the device plugin needs it")
    memory = amounts.get(GPU_MEMORY, 0)
    if memory < unit:
        raise ValueError(f"{GPU_MEMORY} {memory}; the device plugin gives {unit} or more")
    return amounts[GPU_CORE], memory // unit


def _minors(gpus: Sequence[PodDevice], prefix: str = "") -> str:
    return ",".join(f"{prefix}{one.minor}" for one in gpus)


class _Vendor(NamedTuple):
    write: Callable[[Sequence[PodDevice], GPUModel, int], dict[str, str]]
    lock: str = ""


_VENDORS: Mapping[str, _Vendor] = {
    "huawei": _Vendor(_huawei),
    "cambricon": _Vendor(_cambricon, "cambricon.com/dsmlu.lock"),
    "metax": _Vendor(_metax, "hami.io/mutex.lock"),
}
