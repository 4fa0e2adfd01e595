"""Columns say of volumes what pods and storage objects say, whatever came first."""

from __future__ import annotations

import json
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.classes.placed_pod import placed_usage
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import PodInfo, read_pod
from koord_scheduler.volumes.csi_migration import CSIVolume
from koord_scheduler.volumes.objects import CSINode
from koord_scheduler.volumes.usage import UsedDisk, VolumeUsage, volume_usage

from tests.support.clusters.storage import random_storage_cluster
from tests.support.storage_kinds import storage_objects

NAMES = [f"n{number}" for number in range(1, 7)]
DISKS = [UsedDisk("gce", "disk1"), UsedDisk("gce", "disk1", True), UsedDisk("aws", "vol-disk1")]


class Storage:
    """Pods, nodes and storage objects that come and go."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.columns = NodeColumns(length=1)
        clusters = [random_storage_cluster(rng) for _ in range(2)]
        self.pods = [read_pod(json.dumps(one).encode()) for of in clusters for one in of["pods"]]
        self.nodes = [read_node(json.dumps(one).encode()) for of in clusters for one in of["nodes"]]
        self.objects = [one for of in clusters for one in storage_objects(of)]
        self.placed: list[PodInfo] = []

    def change(self) -> None:
        columns, rng = self.columns, self.rng
        match rng.choice(["object"] * 6 + ["no object", "pod", "pod", "no pod", "node", "no node"]):
            case "object":
                columns.volumes.set(rng.choice(self.objects))
            case "no object":
                one = rng.choice(self.objects)
                if columns.volumes.get(type(one), one.key) is not None:
                    columns.volumes.remove(type(one), one.key)
            case "pod" if self.pods:
                pod = rng.choice(self.pods)
                self.placed.append(pod)
                columns.add_pod(pod.spec.node_name, placed_usage(pod, columns))
            case "no pod" if self.placed:
                pod = self.placed.pop(rng.randrange(len(self.placed)))
                columns.remove_pod(pod.spec.node_name, placed_usage(pod, columns))
            case "node":
                columns.set(rng.choice(self.nodes))
            case "no node":
                row = columns.row(name := rng.choice(NAMES))
                if row is not None and columns.is_node[row]:
                    columns.remove(name)

    def usage_on(self, name: str) -> list[VolumeUsage]:
        return [volume_usage(one) for one in self.placed if one.spec.node_name == name]

    def check(self, name: str, row: int) -> None:
        """A node's row is as counting anew makes it."""
        columns, objects = self.columns.pod_volumes, self.columns.volumes
        used = self.usage_on(name)
        by_claims = {objects.attached_by(one.key) for usage in used for one in usage.claims}
        by_pods: set[CSIVolume | None] = by_claims | {
            one for usage in used for one in usage.attached
        }
        for volume in by_pods - {None}:
            assert volume is not None
            assert row in columns.rows_with(volume)
        attached = (by_pods | objects.attached_to(name)) - {None}
        for driver, counts in columns.attached.items():
            assert counts[row] == sum(one is not None and one.driver == driver for one in attached)
        assert {one.driver for one in attached if one} <= columns.attached.keys()
        csi_node = objects.get(CSINode, name)
        drivers = (csi_node.spec.drivers if csi_node else None) or ()
        limits = {one.name: one.allocatable.count for one in drivers if one.allocatable}
        for driver, of_rows in columns.limits.items():
            limit = limits.get(driver)
            assert of_rows[row] == (np.inf if limit is None else limit)
        for key in {one.key for usage in used for one in usage.claims}:
            assert row in columns.rows_using(key)
        for disk in DISKS:
            here = (one for usage in used for one in usage.disks if one[:2] == disk[:2])
            shared = any(not (one.is_read_only and disk.is_read_only) for one in here)
            assert (row in columns.rows_in_conflict(disk)) == shared


@given(st.integers(0, 1 << 32))
def test_what_is_counted_is_what_counting_anew_gives(seed: int) -> None:
    storage = Storage(Random(seed))
    for _ in range(60):
        before = storage.columns.journal.position
        kept = {name: storage.columns.row(name) for name in NAMES}
        counts = {name: one.copy() for name, one in storage.columns.pod_volumes.attached.items()}
        storage.change()
        changed = storage.columns.journal.changed_since(before)
        for name in NAMES:
            row = storage.columns.row(name)
            if row is None:
                continue
            storage.check(name, row)
            if row == kept[name] and changed is not None and row not in changed:
                now = storage.columns.pod_volumes.attached
                assert all(now[driver][row] == one[row] for driver, one in counts.items())
    while storage.placed:
        pod = storage.placed.pop()
        storage.columns.remove_pod(pod.spec.node_name, placed_usage(pod, storage.columns))
    columns = storage.columns.pod_volumes
    assert columns.rows_using("default/claim0") == ()
    assert not any(columns.rows_in_conflict(disk) for disk in DISKS)
