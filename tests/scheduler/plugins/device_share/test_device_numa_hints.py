"""Sets of NUMA nodes that can give a pod its devices."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from koord_model.device_allocated import PodDevice
from koord_scheduler.extension_points.topology_hints import NUMAHint
from koord_scheduler.plugins.device_share.candidates import DeviceRejection
from koord_scheduler.plugins.device_share.device_allocation import allocate
from koord_scheduler.plugins.device_share.device_needs import PodDeviceNeeds
from koord_scheduler.plugins.device_share.device_numa_hints import TOO_FEW_NEAR, device_numa_hints
from koord_scheduler.plugins.device_share.device_object import NodeDevices
from koord_scheduler.plugins.device_share.device_scores import DeviceScorer
from koord_scheduler.plugins.device_share.node_device_state import NodeDeviceState

from tests.scheduler.plugins.device_share.device_cases import (
    RDMA,
    K,
    gpu,
    has_gpu,
    needs,
    some_needs,
    some_states,
    state,
)

SCORER = DeviceScorer()


def hints(pod: PodDeviceNeeds, node: NodeDeviceState) -> Mapping[str, list[NUMAHint]]:
    found = device_numa_hints(pod, node, SCORER)
    assert not isinstance(found, DeviceRejection)
    return {kind: list(one) for kind, one in found.items()}


def test_one_card_is_near_either_node() -> None:
    found = hints(needs({f"{K}gpu": 100}), state())
    assert found == {
        "gpu": [
            NUMAHint(0b01, preferred=True, score=500),
            NUMAHint(0b10, preferred=True),
            NUMAHint(0b11, score=500),
        ]
    }


@pytest.mark.parametrize(
    ("count", "used", "expected"),
    [
        (4, [], {0b01: True, 0b10: True, 0b11: False}),
        (4, [has_gpu(0)], {0b10: True, 0b11: False}),
        (5, [], {0b11: True}),
        (4, [has_gpu(0), has_gpu(7)], {0b11: True}),
    ],
)
def test_the_smallest_sets_are_preferred(
    count: int, used: list[PodDevice], expected: dict[int, bool]
) -> None:
    found = hints(needs({f"{K}gpu": 100 * count}), state(None, *used))
    assert {one.mask: one.preferred for one in found["gpu"]} == expected


def test_all_types_have_the_same_hints() -> None:
    found = hints(needs({f"{K}gpu": 100, RDMA: 1}), state(None, *map(has_gpu, range(4))))
    assert set(found) == {"gpu", "rdma"}
    assert found["gpu"] == found["rdma"]
    assert [one.mask for one in found["gpu"]] == [0b10, 0b11]


def test_without_places_there_are_no_hints() -> None:
    assert hints(needs({f"{K}gpu": 100}), state(NodeDevices((gpu(0),)))) == {}


def test_too_few_devices_are_named() -> None:
    found = device_numa_hints(needs({f"{K}gpu": 900}), state(), SCORER)
    assert isinstance(found, DeviceRejection)
    assert found.text == TOO_FEW_NEAR


@given(some_needs(), some_states())
def test_each_hint_can_give_the_devices(pod: PodDeviceNeeds, node: NodeDeviceState) -> None:
    found = device_numa_hints(pod, node, SCORER)
    if isinstance(found, DeviceRejection):
        return
    for of_type in found.values():
        assert any(one.preferred for one in of_type)
        for hint in of_type:
            devices = allocate(pod, node, SCORER, hint.mask)
            assert not isinstance(devices, DeviceRejection)
            assert hint.mask is not None
            for one in devices:
                topology = node.has.by_type[one.type][one.minor].topology
                assert topology is not None
                assert topology.numa_node < 0 or hint.mask >> topology.numa_node & 1
