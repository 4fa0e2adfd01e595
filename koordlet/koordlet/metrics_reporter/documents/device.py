"""The node's devices in the form of the scheduler's Device object. No IO.

If several sources report accelerators, files of device plugins (``XPUs``) win over NVML
(``GPUs``), as in Koordinator; of a GPU that both report, NVML's word is the later one. Of a type
that was not collected yet the object keeps its devices: an agent that has just started takes no
device away.

If none is found of a type, or not all of its sources can be read, the devices that the
object lists stay, and are not healthy: pods may hold them, and a file that is empty takes none
out of a machine. Where there is none and never was one, there is no object.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from koord_model.keys import (
    ANNOTATION_GPU_PARTITIONS,
    LABEL_GPU_DRIVER_VERSION,
    LABEL_GPU_MODEL,
    LABEL_GPU_PARTITION_POLICY,
    LABEL_GPU_VENDOR,
)
from koord_model.node_info import GPUs, RDMADevices, SchedulableDevice, XPUs
from koord_model.quantity import milli, quantity_texts
from koord_model.times import rfc3339

Object = dict[str, Any]

_LABELS = (
    LABEL_GPU_DRIVER_VERSION,
    LABEL_GPU_MODEL,
    LABEL_GPU_PARTITION_POLICY,
    LABEL_GPU_VENDOR,
)
_NO_LABEL = re.compile(r"[^A-Za-z0-9._-]+")
_REASON = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]{0,1022}[A-Za-z0-9_])?")
_LONGEST_MESSAGE = 1024


def device(
    node_name: str,
    node_uid: str,
    gpus: GPUs | None,
    xpus: XPUs | None,
    rdma: RDMADevices | None,
    at: float,
    known: Mapping[str, Any] | None = None,
) -> Object | None:
    """The Device object of a node, to create, or to replace ``known`` (the API's) with.

    ``None`` as an argument: not collected yet; as the result: there is nothing to report.
    ``at`` is the wall clock, seconds since the epoch: the time of conditions that
    change. What others wrote into ``known`` (labels, annotations, status, resource version)
    stays. Nothing given is changed.
    """
    accelerators, listed = _accelerators(gpus, xpus), _listed(known)
    infos = [*_infos("gpu", accelerators, listed, at), *_infos("rdma", rdma, listed, at)]
    infos += [item for item in listed if item.get("type") not in ("gpu", "rdma")]
    if not infos:
        return None
    found: Object = copy.deepcopy(dict(known)) if known else {}
    found |= {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device"}
    metadata = found.setdefault("metadata", {})
    metadata["name"] = node_name
    metadata["ownerReferences"] = [_owner(node_name, node_uid)]
    if accelerators is not None and accelerators.devices:
        _put(metadata, "labels", _LABELS, _labels(accelerators))
        partitions = {ANNOTATION_GPU_PARTITIONS: accelerators.partitions}
        _put(metadata, "annotations", tuple(partitions), partitions)
    found["spec"] = {**(found.get("spec") or {}), "devices": sorted(infos, key=_order)}
    return found


def differs(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """True if the scheduler would read anything else: times and spelling do not count."""
    return _essence(old) != _essence(new)


def change(old: Mapping[str, Any], new: Mapping[str, Any]) -> Object | None:
    """The merge patch that brings what is ours in line; ``None`` where nothing differs."""
    if not differs(old, new):
        return None
    had, wanted = old.get("metadata") or {}, new["metadata"]
    metadata: Object = {"ownerReferences": wanted["ownerReferences"]}
    for kind, names in (("labels", _LABELS), ("annotations", (ANNOTATION_GPU_PARTITIONS,))):
        before, after = had.get(kind) or {}, wanted.get(kind) or {}
        ours = {name: after.get(name) for name in names if before.get(name) != after.get(name)}
        if ours:
            metadata[kind] = ours
    return {"metadata": metadata, "spec": new["spec"]}


def _accelerators(gpus: GPUs | None, xpus: XPUs | None) -> GPUs | None:
    if xpus is None or gpus is None or not xpus.devices:
        return xpus if gpus is None else gpus
    asked = {device.id: device for device in gpus.devices}
    devices = tuple(asked.get(device.id, device) for device in xpus.devices)
    driver = gpus.driver if any(device.id in asked for device in xpus.devices) else xpus.driver
    return replace(xpus, devices=devices, driver=driver)


def _owner(node_name: str, node_uid: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "name": node_name,
        "uid": node_uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _listed(known: Mapping[str, Any] | None) -> list[Object]:
    """The devices that an object lists."""
    devices = ((known or {}).get("spec") or {}).get("devices") or []
    return [copy.deepcopy(item) for item in devices if isinstance(item, dict)]


def _infos(
    kind: str, inventory: GPUs | RDMADevices | None, listed: Iterable[Object], at: float
) -> list[Object]:
    """The entries of one type."""
    before = [item for item in listed if item.get("type") == kind]
    if inventory is None:
        return before
    infos = [_info(device, before, at) for device in inventory.devices]
    if not inventory.devices or not inventory.whole:
        there = {device.id for device in inventory.devices}
        infos += [_missed(item, at) for item in before if item.get("id") not in there]
    return infos


def _missed(info: Object, at: float) -> Object:
    """A device that was there and is not reported any more."""
    words = "nothing reports this device any longer"
    condition = _condition(False, "NotFound", words, info, at)
    return {**info, "health": False, "conditions": [condition]}


def _info(
    schedulable_device: SchedulableDevice, listed: Iterable[Mapping[str, Any]], at: float
) -> Object:
    """One entry of ``spec.devices``, in the fields of DeviceInfo."""
    info: Object = {
        "type": schedulable_device.type,
        "id": schedulable_device.id,
        "minor": schedulable_device.minor,
        "health": schedulable_device.healthy,
        "resources": quantity_texts(schedulable_device.resources),
    }
    if schedulable_device.labels:
        info["labels"] = dict(sorted(schedulable_device.labels.items()))
    if schedulable_device.pcie or schedulable_device.bus:
        info["topology"] = {
            "socketID": schedulable_device.socket,
            "nodeID": schedulable_device.numa_node,
            "pcieID": schedulable_device.pcie,
            **({"busID": schedulable_device.bus} if schedulable_device.bus else {}),
        }
    if schedulable_device.virtual_functions:
        info["vfGroups"] = [
            {
                **({"labels": dict(sorted(group.labels.items()))} if group.labels else {}),
                "vfs": [{"minor": -1, "busID": bus} for bus in sorted(group.addresses)],
            }
            for group in schedulable_device.virtual_functions
        ]
    before = next((old for old in listed if _same(old, schedulable_device)), {})
    info["conditions"] = [
        _condition(
            schedulable_device.healthy,
            schedulable_device.reason,
            schedulable_device.message,
            before,
            at,
        )
    ]
    return info


def _same(old: Mapping[str, Any], schedulable_device: SchedulableDevice) -> bool:
    return old.get("type") == schedulable_device.type and old.get("id") == schedulable_device.id


def _condition(
    healthy: bool, cause: str, said: str, before: Mapping[str, Any], at: float
) -> Object:
    """The condition Healthy; its time stays while its status does."""
    status = "True" if healthy else "False"
    reason, message = "DeviceHealthy", "device is healthy"
    if not healthy:
        named = _REASON.fullmatch(cause)
        reason = cause if named else "Unknown"
        message = said or ("" if named else cause) or "device is unhealthy"
    since = rfc3339(at)
    for old in before.get("conditions") or ():
        if isinstance(old, Mapping) and (old.get("type"), old.get("status")) == ("Healthy", status):
            since = old.get("lastTransitionTime") or since
    return {
        "type": "Healthy",
        "status": status,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message[:_LONGEST_MESSAGE],
    }


def _labels(inventory: GPUs) -> dict[str, str]:
    model = _label(inventory.model.removeprefix("NVIDIA "))
    return {
        LABEL_GPU_VENDOR: _label(inventory.vendor),
        LABEL_GPU_MODEL: model,
        LABEL_GPU_DRIVER_VERSION: _label(inventory.driver),
        LABEL_GPU_PARTITION_POLICY: _label(inventory.partition_policy),
    }


def _label(text: str) -> str:
    """Text as a label's value: "A100 SXM4 80GB" is "A100-SXM4-80GB"."""
    return _NO_LABEL.sub("-", text)[:63].strip("-._")


def _put(metadata: Object, kind: str, ours: Iterable[str], given: Mapping[str, str]) -> None:
    """Labels or annotations: ours as they are now, empty ones gone, those of others kept."""
    others = {name: value for name, value in (metadata.get(kind) or {}).items() if name not in ours}
    merged = others | {name: value for name, value in given.items() if value}
    metadata.pop(kind, None)
    if merged:
        metadata[kind] = dict(sorted(merged.items()))


def _order(info: Mapping[str, Any]) -> tuple[str, int, str]:
    return (str(info.get("type")), int(info.get("minor") or 0), str(info.get("id")))


def _essence(given: Mapping[str, Any]) -> object:
    """Return the parts of an object that count."""
    metadata = given.get("metadata") or {}
    return (
        _ours(metadata.get("labels"), _LABELS),
        _ours(metadata.get("annotations"), (ANNOTATION_GPU_PARTITIONS,)),
        metadata.get("ownerReferences"),
        sorted((_order(item), _plain(item)) for item in _listed(given)),
    )


def _ours(given: Mapping[str, str] | None, names: Iterable[str]) -> list[str | None]:
    return [(given or {}).get(name) for name in names]


def _plain(info: Mapping[str, Any]) -> str:
    """A device without times, and with quantities as numbers; equal text means equal."""
    resources = {name: _number(value) for name, value in (info.get("resources") or {}).items()}
    conditions = [
        {name: value for name, value in condition.items() if name != "lastTransitionTime"}
        for condition in info.get("conditions") or ()
        if isinstance(condition, Mapping)
    ]
    plain = {**info, "resources": resources, "conditions": conditions}
    return repr(_sorted({name: value for name, value in plain.items() if value not in (None, {})}))


def _sorted(given: object) -> object:
    if isinstance(given, Mapping):
        return sorted((str(name), _sorted(value)) for name, value in given.items())
    return [_sorted(item) for item in given] if isinstance(given, list) else given


def _number(quantity: object) -> object:
    """Thousandths; "1Ki" and 1024 are the same. What is not a quantity stays as it is."""
    try:
        return milli(quantity) if isinstance(quantity, str | int | float) else quantity
    except ValueError:
        return quantity
