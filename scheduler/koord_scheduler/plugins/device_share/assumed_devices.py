"""The devices that a pod gets of its node, and what is written of them. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from koord_model.device_allocated import PodDevices, write_pod_devices
from koord_model.keys import ANNOTATION_DEVICE_ALLOCATED

from koord_scheduler.plugins.device_share.device_object import NO_MODEL, GPUModel


class AssumedDevices(NamedTuple):
    """Devices, and the pod's ``annotations`` that name them.

    ``gpu_model`` and ``isolation`` are what device plugins of vendors need to know.
    Where the pod does not get the node, the annotation that was written stays until it gets
    another one: of a pod without a node it means nothing.
    """

    devices: PodDevices
    annotations: tuple[tuple[str, str | None], ...]
    gpu_model: GPUModel = NO_MODEL
    isolation: str = ""


def device_reservation(
    devices: PodDevices,
    ids: Mapping[tuple[str, int], str],
    gpu_model: GPUModel = NO_MODEL,
    isolation: str = "",
) -> AssumedDevices:
    """Return the annotations for devices whose names are ``ids``, by type and minor."""
    named = tuple(
        device._replace(id=ids.get((device.type, device.minor), "")) for device in devices
    )
    annotation = write_pod_devices(named)
    annotations = ((ANNOTATION_DEVICE_ALLOCATED, annotation),)
    return AssumedDevices(named, annotations, gpu_model, isolation)
