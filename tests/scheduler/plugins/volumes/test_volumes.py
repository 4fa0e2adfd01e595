"""Columns say of volumes what pods and storage objects say, whatever came first."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.plugins.volumes.columns import VolumeColumns
from koord_scheduler.plugins.volumes.objects import CSINode
from koord_scheduler.plugins.volumes.usage import UsedDisk, volume_usage

from tests.support.storage_life import NAMES, StorageLife

DISKS = [UsedDisk("gce", "disk1"), UsedDisk("gce", "disk1", True), UsedDisk("aws", "vol-disk1")]


def check(life: StorageLife, name: str, row: int) -> None:
    """A node's row is as counting anew makes it."""
    columns, objects = life.columns.use(VolumeColumns), life.columns.use(VolumeColumns).objects
    used = [volume_usage(one) for one in life.placed if one.spec.node_name == name]
    claims = {one.key for usage in used for one in usage.claims}
    by_pods = {objects.attached_by(key) for key in claims}
    by_pods |= {one for usage in used for one in usage.attached}
    assert all(row in columns.rows_with(one) for one in by_pods if one is not None)
    assert all(row in columns.rows_using(key) for key in claims)
    drivers = [one.driver for one in by_pods | objects.attached_to(name) if one is not None]
    assert set(drivers) <= columns.attached.keys()
    for driver, counts in columns.attached.items():
        assert counts[row] == drivers.count(driver)
        assert counts.any()
    csi_node = objects.get(CSINode, name)
    on_node = (csi_node.spec.drivers if csi_node else None) or ()
    limits = {one.name: one.allocatable.count for one in on_node if one.allocatable}
    for driver, of_rows in columns.limits.items():
        limit = limits.get(driver)
        assert of_rows[row] == (np.inf if limit is None else limit)
    plugins = csi_node.migrated_plugins if csi_node else frozenset()
    assert {one for one, of_rows in columns.migrated.items() if of_rows[row]} == plugins
    for disk in DISKS:
        here = (one for usage in used for one in usage.disks if one[:2] == disk[:2])
        conflicts = any(not (one.is_read_only and disk.is_read_only) for one in here)
        assert (row in columns.rows_in_conflict(disk)) == conflicts


@given(st.integers(0, 1 << 32))
def test_what_is_counted_is_what_counting_anew_gives(seed: int) -> None:
    life = StorageLife(Random(seed))
    for _ in range(60):
        life.change()
        for name in NAMES:
            row = life.columns.row(name)
            if row is not None:
                check(life, name, row)
    while life.placed:
        life.remove_pod()
    columns = life.columns.use(VolumeColumns)
    assert columns.rows_using("default/claim0") == ()
    assert not any(columns.rows_in_conflict(disk) for disk in DISKS)
