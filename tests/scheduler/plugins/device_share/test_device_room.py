"""Free devices in arrays equal those of each node."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.device_allocated import PodDevice
from koord_scheduler.plugins.device_share.candidates import DeviceRejection
from koord_scheduler.plugins.device_share.device_allocation import allocate
from koord_scheduler.plugins.device_share.device_needs import PodDeviceNeeds
from koord_scheduler.plugins.device_share.device_object import NodeDevices
from koord_scheduler.plugins.device_share.device_room import DeviceRoom, takes_any
from koord_scheduler.plugins.device_share.device_scores import DeviceScorer
from koord_scheduler.plugins.device_share.node_device_state import NodeDeviceState

from tests.scheduler.plugins.device_share.device_cases import (
    CORE,
    MEMORY,
    RATIO,
    RDMA,
    K,
    gpu,
    needs,
    some_needs,
    some_states,
    state,
)

_MANY = 300
SCORERS = st.sampled_from([DeviceScorer(), DeviceScorer(is_packing=True)])


@given(some_needs(), st.lists(st.none() | some_states(), min_size=1, max_size=6), SCORERS)
def test_rows_are_as_their_states(
    pod: PodDeviceNeeds, states: list[NodeDeviceState | None], scorer: DeviceScorer
) -> None:
    room = DeviceRoom(2)
    for row, one in enumerate(reversed(states)):
        room.lengthen(max(2, row + 1))
        room.set(np.array([row]), one)
    for given_state in states:
        same = [row for row, one in enumerate(states) if one == given_state]
        room.set(np.array(same), given_state)
    rows = np.arange(len(states))
    honors = [one is not None and one.partitions[1] for one in states]
    assert room.honors[rows].tolist() == honors
    if not takes_any(pod):
        return
    fits, scores = room.fits(pod, rows).tolist(), room.scores(pod, scorer, rows).tolist()
    # Many rows that follow each other are picked in another way.
    room.lengthen(_MANY)
    for place, one in enumerate(states):
        room.set(np.arange(place, _MANY, len(states)), one)
    assert room.fits(pod, np.arange(_MANY)).tolist() == np.resize(fits, _MANY).tolist()
    many = room.scores(pod, scorer, np.arange(_MANY))
    assert many.tolist() == np.resize(scores, _MANY).tolist()
    for one, has_room, score in zip(states, fits, scores, strict=True):
        if one is None:
            assert not has_room
            continue
        found = allocate(pod, one, scorer)
        if not isinstance(found, DeviceRejection):
            assert has_room
        if has_room and not one.partitions[1]:
            assert not isinstance(found, DeviceRejection)
        expected = sum(
            scorer.of_node(need.amounts, one.devices.get(need.type, {}).values())
            for need in pod.needs
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


@pytest.mark.parametrize(
    ("request_", "used", "fits"),
    [
        # Half of a card's memory in bytes, though fewer per cent are in use.
        ({CORE: 25, RATIO: 50}, {MEMORY: 800, RATIO: 10}, True),
        ({CORE: 25, RATIO: 50}, {MEMORY: 801, RATIO: 10}, False),
        # A quarter of it in per cent, though fewer bytes are in use.
        ({MEMORY: 400}, {MEMORY: 10, RATIO: 75}, True),
        ({MEMORY: 400}, {MEMORY: 10, RATIO: 76}, False),
        ({MEMORY: 400}, {MEMORY: 1201, RATIO: 10}, False),
    ],
)
def test_memory_is_there_in_bytes_and_in_per_cent(
    request_: dict[str, int], used: dict[str, int], fits: bool
) -> None:
    pod, room = needs(request_), DeviceRoom(2)
    card = PodDevice("gpu", 0, ((CORE, 0), *used.items()))
    one = state(NodeDevices((gpu(0),)), card)
    room.set(np.array([0]), one)
    assert takes_any(pod)
    assert room.fits(pod, np.array([0, 1])).tolist() == [fits, False]
    assert isinstance(allocate(pod, one, DeviceScorer()), DeviceRejection) != fits
