"""The stamp of claims changes with what is behind them, and with nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_scheduler.framework.cluster_kinds import cluster_kinds
from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.plugins.volumes.objects import (
    BIND_COMPLETED,
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
    read_storage_object,
)
from koord_scheduler.plugins.volumes.volume_binding import VolumeBinding
from koord_scheduler.plugins.volumes.volume_objects import VolumeObjects


def made(kind: type[StorageObject], name: str, **fields: Any) -> StorageObject:
    document = {"metadata": {"name": name}, **fields}
    return read_storage_object(kind, json.dumps(document).encode())


WAITING = made(PersistentVolumeClaim, "waiting", spec={"storageClassName": "late"})
BOUND = read_storage_object(
    PersistentVolumeClaim,
    json.dumps(
        {
            "metadata": {"name": "bound", "annotations": {BIND_COMPLETED: "yes"}},
            "spec": {"storageClassName": "late", "volumeName": "its"},
        }
    ).encode(),
)
LATE = made(StorageClass, "late", provisioner="csi", volumeBindingMode="WaitForFirstConsumer")
ITS = made(PersistentVolume, "its", spec={"storageClassName": "late"})
FREE = made(PersistentVolume, "free", spec={"storageClassName": "late"})
CAPACITY = made(CSIStorageCapacity, "c", storageClassName="late", capacity="1Gi", nodeTopology={})
EMPTY = made(CSIStorageCapacity, "empty", storageClassName="late")
ELSEWHERE = made(PersistentVolume, "other", spec={"storageClassName": "other"})
DRIVER = made(CSIDriver, "csi", spec={"storageCapacity": True})
NO_DRIVER = made(CSIDriver, "another")


@pytest.mark.parametrize(
    ("one", "concerned"),
    [
        (WAITING, {"waiting"}),
        (BOUND, {"bound"}),
        (LATE, {"waiting"}),
        (ITS, {"waiting", "bound"}),
        (FREE, {"waiting"}),
        (CAPACITY, {"waiting"}),
        (EMPTY, {"waiting"}),
        (DRIVER, {"waiting"}),
        (NO_DRIVER, set()),
        (ELSEWHERE, set()),
    ],
)
def test_a_stamp_changes_with_what_is_behind_a_claim(
    one: StorageObject, concerned: set[str]
) -> None:
    objects = VolumeObjects()
    for there in (WAITING, BOUND, LATE, ITS, FREE):
        objects.set(there)

    def changed(before: dict[str, object]) -> set[str]:
        return {key for key in before if objects.stamps([key]) != before[key]}

    def stamps() -> dict[str, object]:
        return {key: objects.stamps([key]) for key in ("waiting", "bound")}

    before = stamps()
    objects.set(one)
    assert changed(before) == concerned
    before = stamps()
    objects.remove(type(one), one.key)
    assert changed(before) == concerned


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        (PersistentVolume, {"spec": {"capacity": {"storage": "much"}}}),
        (PersistentVolumeClaim, {"spec": {"resources": {"requests": {"storage": "much"}}}}),
        (CSIStorageCapacity, {"storageClassName": "late", "capacity": "much", "nodeTopology": {}}),
    ],
)
def test_what_has_no_amounts_is_not_read(kind: type[StorageObject], document: Any) -> None:
    text = json.dumps({"metadata": {"name": "c", "namespace": "a"}, **document})
    known = {
        one.resource.kind: one
        for one in cluster_kinds(Scheduler([Profile("s", (EnabledPlugin(VolumeBinding()),))]))
    }
    with pytest.raises(ValueError, match="much"):
        known[kind.__name__].read(text.encode())
