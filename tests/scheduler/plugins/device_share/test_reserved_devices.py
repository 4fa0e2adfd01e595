"""Pods that may use a reservation's devices get these first, and of a restricted one no others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.device_allocated import PodDevice, PodDevices
from koord_scheduler.plugins.device_share.candidates import DeviceRejection
from koord_scheduler.plugins.device_share.device_allocation import allocate
from koord_scheduler.plugins.device_share.device_needs import PodDeviceNeeds
from koord_scheduler.plugins.device_share.device_scores import DeviceScorer
from koord_scheduler.plugins.device_share.node_device_state import NodeDeviceState
from koord_scheduler.plugins.device_share.reserved_devices import (
    ReservedDevices,
    allocate_reserved,
    what_is_left,
    with_devices,
    without_devices,
)

from tests.scheduler.plugins.device_share.device_cases import (
    GPU,
    RDMA,
    has_gpu,
    has_rdma,
    needs,
    some_needs,
    some_states,
    state,
)

SCORER = DeviceScorer()


def minors(found: PodDevices | DeviceRejection, kind: str = "gpu") -> list[int]:
    assert not isinstance(found, DeviceRejection), found
    return [one.minor for one in found if one.type == kind]


def reserved(*devices: PodDevice, restricted: bool = False) -> ReservedDevices:
    return ReservedDevices(devices, restricted)


@pytest.mark.parametrize("restricted", [False, True])
def test_reserved_devices_come_first(*, restricted: bool) -> None:
    keeps = reserved(has_gpu(6), has_gpu(7), restricted=restricted)
    node = state(None, *keeps.devices)
    assert minors(allocate(needs({GPU: 200}), node, SCORER)) == [4, 5]
    assert minors(allocate_reserved(needs({GPU: 200}), node, SCORER, keeps)) == [6, 7]


@pytest.mark.parametrize(("restricted", "expected"), [(False, 3), (True, 0)])
def test_what_is_missing_comes_of_the_node_unless_it_is_restricted(
    *, restricted: bool, expected: int
) -> None:
    keeps = reserved(has_gpu(6), has_gpu(7), restricted=restricted)
    found = allocate_reserved(needs({GPU: 300}), state(None, *keeps.devices), SCORER, keeps)
    assert (0 if isinstance(found, DeviceRejection) else len(found)) == expected


def test_of_types_that_are_not_reserved_any_device_will_do() -> None:
    keeps = reserved(has_gpu(7), restricted=True)
    node = state(None, *keeps.devices)
    found = allocate_reserved(needs({GPU: 100, RDMA: 100}), node, SCORER, keeps)
    assert (minors(found), minors(found, "rdma")) == ([7], [0])


@pytest.mark.parametrize(("restricted", "fits"), [(False, True), (True, False)])
def test_a_part_of_a_card_may_grow_unless_it_is_restricted(*, restricted: bool, fits: bool) -> None:
    keeps = reserved(has_gpu(3, 50), restricted=restricted)
    others = [has_gpu(one) for one in range(8) if one != 3]
    node = state(None, *others, *keeps.devices)
    found = allocate_reserved(needs({GPU: 75}), node, SCORER, keeps)
    assert (not isinstance(found, DeviceRejection)) is fits


def test_a_restricted_reservation_that_is_used_up_gives_nothing() -> None:
    left = what_is_left((has_gpu(3),), [(has_gpu(3),)])
    assert [one.resources for one in left] == [()]
    keeps = ReservedDevices(left, restricted=True)
    found = allocate_reserved(needs({GPU: 100}), state(None, has_gpu(3)), SCORER, keeps)
    assert isinstance(found, DeviceRejection)


def test_owners_take_of_what_is_reserved_and_not_of_more() -> None:
    left = what_is_left((has_gpu(3, 75), has_rdma(0)), [(has_gpu(3, 25),), (has_gpu(4, 25),)])
    assert left == (has_gpu(3, 50), has_rdma(0))


@given(some_states(), st.lists(st.builds(has_gpu, st.integers(0, 5)), max_size=3))
def test_what_was_put_on_a_node_can_be_taken_off(
    node: NodeDeviceState, devices: list[PodDevice]
) -> None:
    given = tuple(devices)
    assert without_devices(with_devices(node, given), given) == node


@given(some_states(), some_needs(), st.data(), st.booleans())
def test_nothing_is_given_twice(
    node: NodeDeviceState, wanted: PodDeviceNeeds, data: st.DataObject, restricted: bool
) -> None:
    """A reservation gets devices, and a pod then gets some with them: together they fit."""
    first = allocate(wanted, node, SCORER)
    if isinstance(first, DeviceRejection):
        return
    keeps = ReservedDevices(tuple(one for one in first if data.draw(st.booleans())), restricted)
    found = allocate_reserved(wanted, with_devices(node, keeps.devices), SCORER, keeps)
    if isinstance(found, DeviceRejection):
        assert restricted
        return
    for device in found:
        free = node.devices[device.type][device.minor]
        assert all(free.free.get(name, 0) >= amount for name, amount in device.resources)
        kept = [one for one in keeps.devices if one.type == device.type]
        if restricted and kept:
            [same] = [one for one in kept if one.minor == device.minor]
            have = dict(same.resources)
            assert all(have.get(name, 0) >= amount for name, amount in device.resources)
