"""Which devices of a node a pod gets."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.device_allocated import PodDevice, PodDevices
from koord_scheduler.plugins.device_share.candidates import DeviceRejection
from koord_scheduler.plugins.device_share.device_allocation import NO_ISOLATION, NOT_JOINT, allocate
from koord_scheduler.plugins.device_share.device_needs import PodDeviceNeeds
from koord_scheduler.plugins.device_share.device_object import NodeDevices
from koord_scheduler.plugins.device_share.device_scores import DeviceScorer
from koord_scheduler.plugins.device_share.gpu_allocation import (
    NO_FREE_PARTITION,
    NO_PARTITION_TABLE,
    NO_SUCH_PARTITION,
    NO_TOPOLOGY,
    NOT_NEAR_ENOUGH,
    SEVERAL_SHARED,
    TOO_FEW,
)
from koord_scheduler.plugins.device_share.gpu_partitions import HOPPER_PARTITIONS
from koord_scheduler.plugins.device_share.node_device_state import (
    GPULabels,
    NodeDeviceState,
    used_devices,
)

from tests.scheduler.plugins.device_share.device_cases import (
    CORE,
    MEMORY,
    RATIO,
    RDMA,
    SHARED,
    K,
    gpu,
    has_gpu,
    has_rdma,
    machine,
    needs,
    place,
    rdma,
    some_needs,
    some_states,
    state,
)

SPREAD, PACK = DeviceScorer(), DeviceScorer(is_packing=True)
CARDS = NodeDevices(tuple(gpu(minor) for minor in range(3)))
NVLINK = machine(HOPPER_PARTITIONS)


def gets(
    pod: PodDeviceNeeds,
    node: NodeDeviceState,
    scorer: DeviceScorer = SPREAD,
    mask: int | None = None,
) -> PodDevices:
    found = allocate(pod, node, scorer, mask)
    assert not isinstance(found, DeviceRejection), found
    return found


def minors(devices: PodDevices, kind: str = "gpu") -> list[int]:
    return [one.minor for one in devices if one.type == kind]


def refusal(pod: PodDeviceNeeds, node: NodeDeviceState, mask: int | None = None) -> DeviceRejection:
    found = allocate(pod, node, SPREAD, mask)
    assert isinstance(found, DeviceRejection), found
    return found


def test_a_part_of_a_card_is_counted_in_core_bytes_and_per_cent() -> None:
    (half,) = gets(needs({f"{K}gpu": 50}), state())
    assert dict(half.resources) == {CORE: 50, MEMORY: 800, RATIO: 50}
    (bytes_,) = gets(needs({MEMORY: 401}), state())
    assert dict(bytes_.resources) == {MEMORY: 401, RATIO: 25}


def test_memory_has_to_be_free_in_bytes_and_in_per_cent() -> None:
    one = PodDevice("gpu", 0, ((MEMORY, 1), (RATIO, 0)))
    node = NodeDevices((gpu(0),))
    assert refusal(needs({f"{K}gpu": 100}), state(node, one)).resolvable
    assert minors(gets(needs({RATIO: 99}), state(node, one))) == [0]
    assert refusal(needs({MEMORY: 801}), state(node, has_gpu(0, 50))).resolvable


@pytest.mark.parametrize(("scorer", "minor"), [(SPREAD, 1), (PACK, 0)])
def test_parts_of_cards_are_spread_or_packed(scorer: DeviceScorer, minor: int) -> None:
    for has in (CARDS, NodeDevices(tuple(gpu(one, place(0, 0)) for one in range(3)))):
        found = gets(needs({f"{K}gpu": 25}), state(has, has_gpu(0, 50)), scorer)
        assert minors(found) == [minor]


@pytest.mark.parametrize(
    ("count", "used", "expected"),
    [
        (1, [], [0]),
        (1, [2], [3]),  # beside a card that is used already
        (2, [0], [2, 3]),  # under one switch, of the NUMA node that is begun
        (2, [0, 2], [4, 5]),
        (3, [0], [1, 2, 3]),
        (4, [0], [4, 5, 6, 7]),
        (5, [0], [1, 2, 3, 4, 5]),
    ],
)
def test_several_cards_are_near_each_other(
    count: int, used: list[int], expected: list[int]
) -> None:
    found = gets(needs({f"{K}gpu": 100 * count}), state(None, *map(has_gpu, used)))
    assert minors(found) == expected


@pytest.mark.parametrize(
    ("scope", "count", "used", "expected"),
    [
        ("PCIe", 2, [0, 2, 4], [6, 7]),
        ("PCIe", 2, [0, 2, 4, 6], NOT_NEAR_ENOUGH),
        ("PCIe", 3, [], NOT_NEAR_ENOUGH),
        ("NUMANode", 3, [0, 4], [1, 2, 3]),
        ("NUMANode", 4, [0, 4], NOT_NEAR_ENOUGH),
        ("Node", 6, [0, 4], [1, 2, 3, 5, 6, 7]),
        ("Device", 1, [0], [1]),
        ("Device", 2, [], NOT_NEAR_ENOUGH),
        ("", 7, [0, 4], TOO_FEW),
    ],
)
def test_how_near_they_have_to_be(
    scope: str, count: int, used: list[int], expected: list[int] | str
) -> None:
    hint = {"gpu": {"requiredTopologyScope": scope}}
    pod = needs({f"{K}gpu": 100 * count}, device_allocate_hint=hint)
    found = allocate(pod, state(None, *map(has_gpu, used)), SPREAD)
    if isinstance(expected, str):
        assert isinstance(found, DeviceRejection)
        assert (found.text, found.resolvable) == (expected, True)
    else:
        assert not isinstance(found, DeviceRejection)
        assert minors(found) == expected


def test_places_that_are_not_known_count_only_where_they_are_required() -> None:
    hint = {"gpu": {"requiredTopologyScope": "Node"}}
    pod = needs({f"{K}gpu": 200}, device_allocate_hint=hint)
    assert refusal(pod, state(CARDS)).text == NO_TOPOLOGY
    assert minors(gets(needs({f"{K}gpu": 200}), state(CARDS, has_gpu(0)))) == [1, 2]
    shared = {SHARED: 2, RATIO: 100}
    assert refusal(needs(shared, device_allocate_hint=hint), state()).text == SEVERAL_SHARED
    assert minors(gets(needs(shared), state(None, has_gpu(0)))) == [1, 2]


@pytest.mark.parametrize(
    ("count", "used", "expected"),
    [(2, [0], [2, 3]), (2, [0, 2, 4, 6], NO_FREE_PARTITION), (3, [], NO_SUCH_PARTITION)],
)
def test_a_pod_that_wants_a_partition_gets_a_whole_one(
    count: int, used: list[int], expected: list[int] | str
) -> None:
    for has, spec in ((NVLINK, {"gpu_partition_spec": {}}), (machine(HOPPER_PARTITIONS, True), {})):
        pod = needs({f"{K}gpu": 100 * count}, **spec)
        found = allocate(pod, state(has, *map(has_gpu, used)), SPREAD)
        if isinstance(expected, str):
            assert isinstance(found, DeviceRejection)
            assert found.text == expected
        else:
            assert not isinstance(found, DeviceRejection)
            assert minors(found) == expected


def test_partitions_of_some_models_are_known() -> None:
    hopper = GPULabels("nvidia", "H100", honors=True)
    pod = needs({f"{K}gpu": 300})
    assert refusal(pod, state(labels=hopper)).text == NO_SUCH_PARTITION
    assert refusal(needs({f"{K}gpu": 200}, gpu_partition_spec={}), state()).text == (
        NO_PARTITION_TABLE
    )
    assert minors(gets(pod, state(labels=hopper._replace(honors=False)))) == [0, 1, 2]


def joint(scope: str = "SamePCIe") -> dict[str, Any]:
    given = {"deviceTypes": ["gpu", "rdma"], "requiredScope": scope}
    return {"device_joint_allocate": given}


def test_cards_and_rdma_are_under_the_same_switches() -> None:
    pod = needs({f"{K}gpu": 200, RDMA: 1}, **joint())
    found = gets(pod, state(None, has_gpu(0)))
    assert (minors(found), minors(found, "rdma")) == ([2, 3], [1])
    four = gets(needs({f"{K}gpu": 400, RDMA: 1}, **joint()), state())
    assert (minors(four), minors(four, "rdma")) == ([0, 1, 2, 3], [0, 1])


def test_other_cards_do_where_the_nearest_have_no_rdma_left() -> None:
    pod = needs({f"{K}gpu": 100, RDMA: 100}, **joint())
    found = gets(pod, state(None, has_rdma(0)))
    assert (minors(found), minors(found, "rdma")) == ([2], [1])
    taken = [has_rdma(minor) for minor in (0, 1)]
    full = state(None, *taken, has_gpu(4), has_gpu(5), has_gpu(6), has_gpu(7))
    assert refusal(pod, full).text == NOT_JOINT


def test_without_a_scope_rdma_is_near_if_it_can_be() -> None:
    pod = needs({f"{K}gpu": 100, RDMA: 100}, **joint(""))
    assert minors(gets(pod, state(None, has_gpu(0), has_gpu(1))), "rdma") == [1]
    assert minors(gets(pod, state(None, has_rdma(0))), "rdma") == [1]


def test_all_devices_are_counted_by_the_selector() -> None:
    devices = (rdma(0), rdma(1)._replace(labels=(("net", "fast"),)), rdma(2))
    hint: dict[str, Any] = {"allocateStrategy": "ApplyForAll"}
    pod = needs({RDMA: 1}, device_allocate_hint={"rdma": hint})
    assert minors(gets(pod, state(NodeDevices(devices))), "rdma") == [0, 1, 2]
    hint["selector"] = {"matchLabels": {"net": "fast"}}
    selected = needs({RDMA: 1}, device_allocate_hint={"rdma": hint})
    assert minors(gets(selected, state(NodeDevices(devices))), "rdma") == [1]
    assert not refusal(selected, state(NodeDevices((rdma(0),)))).resolvable


def test_a_virtual_function_is_given_to_one_pod() -> None:
    hint = {"rdma": {"vfSelector": {"matchLabels": {"kind": "fast"}}}}
    pod = needs({RDMA: 1}, device_allocate_hint=hint)
    has = NodeDevices((rdma(0, functions=2),))
    (first,) = gets(pod, state(has))
    (second,) = gets(pod, state(has, first))
    assert [one.functions[0].bus for one in (first, second)] == ["0000:00:00.0", "0000:00:00.1"]
    assert refusal(pod, state(has, first, second)).resolvable
    none = refusal(pod, state(NodeDevices((rdma(0),))))
    assert (none.text, none.resolvable) == ("Insufficient rdma VirtualFunctions", False)


def test_a_pod_may_want_a_switch_for_itself() -> None:
    hint = {"gpu": {"exclusivePolicy": "PCIeLevel"}}
    pod = needs({f"{K}gpu": 100}, device_allocate_hint=hint)
    assert minors(gets(pod, state(None, has_gpu(0, 10)))) == [2]
    assert refusal(pod, state(None, *(has_gpu(one, 10) for one in (0, 2, 4, 6)))).resolvable


def test_numa_nodes() -> None:
    pod = needs({f"{K}gpu": 100})
    assert minors(gets(pod, state(), mask=0b10)) == [4]
    assert refusal(pod, state(None, *(has_gpu(one) for one in range(4))), mask=0b01).resolvable
    assert refusal(pod, state(CARDS), mask=0b01).resolvable


def test_what_keeps_a_pod_off_whatever_is_free() -> None:
    assert not refusal(needs({RDMA: 1}), state(CARDS)).resolvable
    isolated = needs({f"{K}gpu": 50}, isolation="HAMi-core")
    assert refusal(isolated, state()).text == NO_ISOLATION
    assert gets(isolated, state(labels=GPULabels(isolation="HAMi-core")))
    assert gets(needs({f"{K}gpu": 100}, isolation="HAMi-core"), state())


def test_the_nearest_miss_is_named() -> None:
    used = [has_gpu(0, 90), has_gpu(1, 60), has_gpu(2, 100)]
    note = refusal(needs({CORE: 50, RATIO: 30}), state(CARDS, *used)).note
    assert "gpu 1 has 40 of 50 koordinator.sh/gpu-core" in note
    assert "0 of 1 needed gpu devices" in note


@given(some_needs(), some_states(), st.sampled_from([SPREAD, PACK]))
def test_what_is_given_is_there_and_free(
    pod: PodDeviceNeeds, node: NodeDeviceState, scorer: DeviceScorer
) -> None:
    found = allocate(pod, node, scorer)
    if isinstance(found, DeviceRejection):
        assert found.text
        return
    before = {(one.type, one.minor): dict(one.resources) for one in node.used}
    after = {
        (one.type, one.minor): dict(one.resources) for one in used_devices([found, *_as_pods(node)])
    }
    assert len({(one.type, one.minor) for one in found}) == len(found)
    counts = Counter(one.type for one in found)
    for need in pod.needs:
        assert counts[need.type] >= need.count
    for one in found:
        device = node.has.by_type[one.type][one.minor]
        total = dict(device.resources)
        used = before.get((one.type, one.minor), {})
        assert dict(one.resources).items() >= dict(pod.by_type[one.type].each).items()
        for name, amount in one.resources:
            assert after[one.type, one.minor][name] == used.get(name, 0) + amount <= total[name]
        free_functions = {vf.bus for group in device.groups for vf in group.functions}
        assert {vf.bus for vf in one.functions} <= free_functions
    if pod.joint is not None and pod.joint.is_same_pcie and len(pod.joint.types) > 1:
        places = {
            kind: {_pcie(node, one) for one in found if one.type == kind}
            for kind in pod.joint.types
        }
        assert places["gpu"] == places["rdma"]


@given(some_needs(), some_states())
def test_plain_requests_are_refused_only_if_too_few_devices_have_room(
    pod: PodDeviceNeeds, node: NodeDeviceState
) -> None:
    if pod.joint is not None or pod.partitions is not None or node.has.honors:
        return
    enough = True
    for need in pod.needs:
        if need.hint.scope or need.hint.keeps_pcie or need.hint.functions is not None:
            return
        devices = node.devices.get(need.type, {})
        rooms = sum(one.has_room(need.amounts) for one in devices.values())
        enough &= bool(devices) and rooms >= (need.count or len(devices))
    assert isinstance(allocate(pod, node, SPREAD), DeviceRejection) != enough


def _as_pods(node: NodeDeviceState) -> list[PodDevices]:
    return [(PodDevice(one.type, one.minor, one.resources),) for one in node.used]


def _pcie(node: NodeDeviceState, one: PodDevice) -> str:
    topology = node.has.by_type[one.type][one.minor].topology
    return "" if topology is None else topology.pcie
