"""Parts of pods about devices. No IO."""

from __future__ import annotations

from koord_model.device_allocated import NO_DEVICES, PodDevices
from koord_model.keys import (
    ANNOTATION_DEVICE_ALLOCATE_HINT,
    ANNOTATION_DEVICE_ALLOCATED,
    ANNOTATION_DEVICE_JOINT_ALLOCATE,
    ANNOTATION_GPU_PARTITION_SPEC,
)

from koord_scheduler.objects.annotations import read_annotations_of_room
from koord_scheduler.plugins.device_share.device_needs import NO_DEVICE_NEEDS, PodDeviceNeeds
from koord_scheduler.plugins.device_share.reserved_devices import what_is_left
from koord_scheduler.state.pod_parts import PodPart

DEVICE_NEEDS: PodPart[PodDeviceNeeds] = PodPart(
    "device needs", NO_DEVICE_NEEDS, beyond_amounts=True
)
DEVICES: PodPart[PodDevices] = PodPart("devices", NO_DEVICES, what_is_left)

read_annotations_of_room(
    asking=(
        ANNOTATION_DEVICE_ALLOCATE_HINT,
        ANNOTATION_DEVICE_JOINT_ALLOCATE,
        ANNOTATION_GPU_PARTITION_SPEC,
    ),
    granted=(ANNOTATION_DEVICE_ALLOCATED,),
)
