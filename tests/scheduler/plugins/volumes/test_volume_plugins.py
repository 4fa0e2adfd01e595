"""What is kept of the volume plugins' answers is what asking about all nodes again would give."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.plugins.volumes.node_volume_limits import NodeVolumeLimits
from koord_scheduler.plugins.volumes.volume_binding import VolumeBinding
from koord_scheduler.plugins.volumes.volume_restrictions import VolumeRestrictions
from koord_scheduler.plugins.volumes.volume_zone import VolumeZone

from tests.support.storage_life import StorageLife

BINDING = VolumeBinding()
PLUGINS = [
    EnabledPlugin(plugin, True, 0)
    for plugin in (VolumeRestrictions(), NodeVolumeLimits(), BINDING, VolumeZone())
]


@given(st.integers(0, 1 << 32))
def test_kept_answers_are_fresh_ones(seed: int) -> None:
    life = StorageLife(Random(seed))
    life.settle()
    all_kept = [ClassScores(one, life.columns, PLUGINS) for one in life.waiting]
    reserved = []
    for number in range(25):
        for kept, waiting in zip(all_kept, life.waiting, strict=True):
            rows = ClassScores(waiting, life.columns, PLUGINS).feasible()
            assert kept.feasible().tolist() == rows.tolist()
            if number % 5 == 0 and len(rows):
                reservation = BINDING.reserve(waiting, life.columns, rows[0])
                reserved += [reservation] if reservation is not None else []
        for _ in range(3):
            life.change()
        if reserved and number % 7 == 0:
            BINDING.unreserve(reserved.pop(0), life.columns)
