"""What is free of devices in arrays is what it is of each node."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.plugins.device_share.candidates import DeviceRejection
from koord_scheduler.plugins.device_share.device_allocation import allocate
from koord_scheduler.plugins.device_share.device_needs import PodDeviceNeeds
from koord_scheduler.plugins.device_share.device_room import DeviceRoom, takes_any
from koord_scheduler.plugins.device_share.device_scores import DeviceScorer
from koord_scheduler.plugins.device_share.node_device_state import NodeDeviceState

from tests.scheduler.plugins.device_share.device_cases import (
    RDMA,
    K,
    needs,
    some_needs,
    some_states,
)

_MANY = 300
SCORERS = st.sampled_from([DeviceScorer(), DeviceScorer(is_packing=True)])


@given(some_needs(), st.lists(st.none() | some_states(), min_size=1, max_size=6), SCORERS)
def test_rows_are_as_their_states(
    pod: PodDeviceNeeds, states: list[NodeDeviceState | None], scorer: DeviceScorer
) -> None:
    room = DeviceRoom(2)
    for row, state in enumerate(reversed(states)):
        room.lengthen(max(2, row + 1))
        room.set(np.array([row]), state)
    for state in states:
        room.set(np.array([row for row, one in enumerate(states) if one == state]), state)
    rows = np.arange(len(states))
    honors = [one is not None and one.partitions[1] for one in states]
    assert room.honors[rows].tolist() == honors
    if not takes_any(pod):
        return
    fits, scores = room.fits(pod, rows).tolist(), room.scores(pod, scorer, rows).tolist()
    # Many rows that follow each other are picked in another way.
    room.lengthen(_MANY)
    for place, state in enumerate(states):
        room.set(np.arange(place, _MANY, len(states)), state)
    assert room.fits(pod, np.arange(_MANY)).tolist() == np.resize(fits, _MANY).tolist()
    many = room.scores(pod, scorer, np.arange(_MANY))
    assert many.tolist() == np.resize(scores, _MANY).tolist()
    for state, has_room, score in zip(states, fits, scores, strict=True):
        if state is None:
            assert not has_room
            continue
        found = allocate(pod, state, scorer)
        if not isinstance(found, DeviceRejection):
            assert has_room
        if has_room and not state.partitions[1]:
            assert not isinstance(found, DeviceRejection)
        expected = sum(
            scorer.of_node(one.amounts, state.devices.get(one.type, {}).values())
            for one in pod.needs
        )
        assert score == expected


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (needs({f"{K}gpu": 100}), True),
        (needs({f"{K}gpu": 50}), True),
        (needs({f"{K}gpu": 100, RDMA: 1}), True),
        (needs({f"{K}gpu": 50}, isolation="HAMi-core"), False),
        (needs({f"{K}gpu": 100}, gpu_partition_spec={}), False),
        (needs({RDMA: 1}, device_allocate_hint={"rdma": {"vfSelector": {}}}), False),
        (
            needs(
                {f"{K}gpu": 100, RDMA: 1},
                device_joint_allocate={"deviceTypes": ["gpu"], "requiredScope": "SamePCIe"},
            ),
            False,
        ),
    ],
)
def test_who_takes_any_devices(pod: PodDeviceNeeds, expected: bool) -> None:
    assert takes_any(pod) == expected
