"""What is asked of disks, and what becomes of it on nodes that have less."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from koord_host.knobs.table import KNOBS
from koord_host.planning.arbiter import arbitrate
from koord_model.blkio_qos import BlkIOQoS, BlockQoS, BlockType
from koord_model.keys import ANNOTATION_BLKIO_QOS
from koord_model.node import Kernel, NodeView
from koord_model.node_info import LocalStorage
from koord_model.qos import QoSClass
from koordlet.qos_manager.core.strategy import NOTHING, Plan, PodView, StrategyView, owner
from koordlet.qos_manager.strategies.blkio.strategy import Settings, plan

from tests.support.views import V1, V2, FakeCgroups, FakeLatest, pod_view, view

RBPS, WBPS = "blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"
RIOPS, WIOPS = "blkio.throttle.read_iops_device", "blkio.throttle.write_iops_device"
WEIGHT, LATENCY = "blkio.cost.weight", "io.latency"
QOS, MODEL = "blkio.cost.qos", "blkio.cost.model"
THROTTLES = frozenset({RBPS, WBPS, RIOPS, WIOPS})
ALL = THROTTLES | {WEIGHT, LATENCY, QOS, MODEL}
BE = "kubepods.slice/kubepods-besteffort.slice"
DISKS = LocalStorage(
    numbers={"/dev/vda": "254:0", "/dev/vdb": "254:16", "/dev/vdb1": "254:17"},
    parents={"/dev/vdb1": "/dev/vdb"},
    volume_groups={"pool": "/dev/vdb"},
    mounts={"/var/lib/kubelet/pods/job/volumes/kubernetes.io~csi/data/mount": "254:17"},
)
SSD = BlockQoS("/dev/vda", read_bps=1 << 20, write_iops=100)


def qos(*blocks: BlockQoS) -> BlkIOQoS:
    return BlkIOQoS(enable=True, blocks=blocks)


def node(
    *pods: PodView,
    storage: LocalStorage | None = DISKS,
    knobs: frozenset[str] = ALL,
    costs: str | None = None,
    **others: Any,
) -> StrategyView:
    infos = () if storage is None else (storage,)
    return view(
        pods=pods,
        node=NodeView(kernel=Kernel(knobs=knobs)),
        latest=FakeLatest({}, *infos),
        cgroups=FakeCgroups({} if costs is None else {("", QOS): costs}),
        **others,
    )


def values(made: Plan) -> dict[tuple[str, str], object]:
    for one in made.desired:
        KNOBS[one.target.knob].check(one.value)
    return {tuple(one.target): one.value for one in made.desired}


def outcomes(made: Plan) -> list[str]:
    return [one.outcome for one in made.decisions]


def annotated(name: str, *blocks: dict[str, Any], **others: Any) -> PodView:
    text = json.dumps({"blocks": blocks})
    return pod_view(name, annotations={ANNOTATION_BLKIO_QOS: text}, **others)


def planned(seen: StrategyView, memory: object = None, **asked: Any) -> Plan:
    """``asked`` are blocks of classes and disks, one or several."""
    of = {name: qos(*([one] if isinstance(one, BlockQoS) else one)) for name, one in asked.items()}
    return plan(seen, Settings(**of), memory)


POOL = BlockQoS("pool", BlockType.VOLUME_GROUP)
VDA = BlockQoS("/dev/vda")
BOTH_COSTS = "254:0 enable=1 ctrl=auto\n254:16 enable=1"


@pytest.mark.parametrize(
    ("block", "expected", "words"),
    [
        (SSD, {RBPS: "1048576", WIOPS: "100"}, "reads 1 MiB/s, write operations 100/s"),
        (
            replace(VDA, write_bps=0, read_iops=9),
            {WBPS: "0", RIOPS: "9"},
            "writes without limit, read operations 9/s",
        ),
        (replace(VDA, weight=50), {WEIGHT: "50"}, "weight 50"),
        (replace(VDA, read_latency=500, write_latency=700), {LATENCY: "500"}, "latency 500 µs"),
        (replace(VDA, write_latency=700), {LATENCY: "700"}, "latency 700 µs"),
        (replace(VDA, read_latency=0, write_latency=700), {LATENCY: "700"}, "latency 700 µs"),
        (replace(VDA, read_latency=0), {LATENCY: "0"}, "latency without target"),
        (VDA, {}, "nothing asked"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_block_of_best_effort_pods(block: BlockQoS, expected: dict[str, str], words: str) -> None:
    made = planned(node(costs=BOTH_COSTS), be=block)
    assert values(made) == {(BE, knob): f"254:0 {value}" for knob, value in expected.items()}
    assert outcomes(made) == [f"/dev/vda (254:0): {words}"]
    assert made.decisions[0].group == BE
    assert {one.why for one in made.desired} <= set(outcomes(made))
    for one in made.desired:  # the arbiter can compare its values with those of others
        both = [(owner("blkio"), one), (owner("another"), replace(one, value=str(one.value)))]
        assert arbitrate(KNOBS[one.target.knob], both).value == one.value


@pytest.mark.parametrize(
    ("one", "other", "stricter"), [(5, 7, 5), (7, 5, 5), (0, 5, 5), (5, 0, 5), (0, 0, 0)]
)
def test_of_two_blocks_on_one_disk_the_stricter_counts(one: int, other: int, stricter: int) -> None:
    blocks = BlockQoS("/dev/vdb", read_bps=one), replace(POOL, read_bps=other)
    assert values(planned(node(), be=blocks)) == {(BE, RBPS): f"254:16 {stricter}"}


@pytest.mark.parametrize("layout", [V1, V2], ids=["v1", "v2"])
def test_an_annotation_replaces_the_class(layout: Any) -> None:
    block = {"name": "data", "type": "podvolume", "ioCfg": {"readIOPS": 9}}
    job = annotated("job", block, qos=QoSClass.BE, layout=layout)
    made = planned(node(job, layout=layout, knobs=THROTTLES))
    assert values(made) == {(job.group, RIOPS): "254:16 9"}
    assert made.desired[0].pod == made.decisions[0].pod == "ns/job"
    broken = pod_view("job", qos=QoSClass.BE, annotations={ANNOTATION_BLKIO_QOS: "{"})
    made = planned(node(broken))
    assert made.desired == ()
    assert ANNOTATION_BLKIO_QOS in outcomes(made)[0]


def test_latency_sensitive_pods_one_by_one_unless_they_have_the_annotation() -> None:
    web, bound = pod_view("web", qos=QoSClass.LS), pod_view("bound", qos=QoSClass.LSE)
    own = annotated("own", {"name": "/dev/vdb", "ioCfg": {"readBPS": 9}}, qos=QoSClass.LS)
    pods = web, bound, own, annotated("free", qos=QoSClass.LS), pod_view("job", qos=QoSClass.BE)
    made = planned(node(*pods), ls=replace(VDA, read_bps=5), lsr=replace(VDA, read_bps=6))
    assert values(made) == {
        (web.group, RBPS): "254:0 5",
        (bound.group, RBPS): "254:0 6",
        (own.group, RBPS): "254:16 9",
    }


def test_a_disk_that_is_not_there_stops_no_other_and_one_that_goes_takes_its_lines_along() -> None:
    absent = BlockQoS("/dev/vdz", read_bps=5)
    made = planned(node(), be=(absent, SSD), root=absent)
    assert values(made)[BE, RBPS] == "254:0 1048576"
    assert outcomes(made)[0] == "/dev/vdz left alone: no such device here"
    assert outcomes(made)[1].startswith("/dev/vdz left alone: no such device here; /dev/vda")
    asked = SSD, BlockQoS("/dev/vdb", read_bps=5)
    before = planned(node(), be=asked)
    assert values(before)[BE, RBPS] == "254:0 1048576\n254:16 5"
    without = node(storage=replace(DISKS, numbers={"/dev/vda": "254:0"}))
    assert values(planned(without, before.memory, be=asked))[BE, RBPS] == "254:0 1048576"


# ---- io.cost


def test_weights_where_io_cost_is_on() -> None:
    blocks = replace(VDA, weight=50), BlockQoS("/dev/vdb1", weight=20)
    made = planned(node(costs="254:0 enable=1 ctrl=auto"), be=blocks)
    assert values(made) == {(BE, WEIGHT): "254:0 50"}
    assert "/dev/vdb1 (254:16): weight left alone (io.cost is off for the disk" in outcomes(made)[0]
    # It may be switched on in the same round.
    assert values(planned(node(), be=blocks, root=POOL)) == {
        ("", QOS): "254:16 enable=1 ctrl=user rpct=95 rlat=3000 wpct=95 wlat=3000",
        (BE, WEIGHT): "254:16 20",
    }


@pytest.mark.parametrize(
    ("block", "model"),
    [
        ({}, None),
        ({"user_model": False, "model_read_bps": 7}, "ctrl=auto"),
        ({"user_model": True}, "ctrl=user"),
        (
            {"user_model": True, "model_read_bps": 7, "model_write_rand_iops": 9},
            "ctrl=user rbps=7 wrandiops=9",
        ),
    ],
)
def test_the_model_of_a_disk(block: dict[str, Any], model: str | None) -> None:
    made = planned(node(), root=replace(VDA, **block))
    assert values(made).get(("", MODEL)) == (model and f"254:0 {model}")


def test_latencies_of_a_disk() -> None:
    block = replace(VDA, read_latency=500, write_latency=700, read_latency_percent=90)
    made = planned(node(), root=(replace(block, write_latency_percent=0), VDA))
    expected = "254:0 enable=1 ctrl=user rpct=90 rlat=500 wpct=0 wlat=700"
    assert values(made) == {("", QOS): expected}


def test_what_the_kernel_does_not_have_is_left_alone() -> None:
    block = replace(VDA, read_bps=5, weight=50, read_latency=7)
    made = planned(node(layout=V1, knobs=frozenset()), be=block, root=block)
    assert made.desired == ()
    of_disk, of_class = outcomes(made)
    assert of_disk == "/dev/vda left alone: this kernel has no io.cost"
    assert of_class == (
        f"/dev/vda (254:0): reads left alone (this kernel has no {RBPS}), "
        "weight left alone (this kernel has no io.cost), "
        "latency left alone (this kernel has no io.latency)"
    )


# ---- rounds


def test_what_stays_the_same_stays_the_same_object() -> None:
    first = planned(node(), be=SSD, ls=SSD)
    again = planned(node(), first.memory, be=SSD, ls=SSD)
    assert (again.desired is first.desired, again.decisions is first.decisions) == (True, True)
    more = planned(node(pod_view("web", qos=QoSClass.LS)), first.memory, be=SSD, ls=SSD)
    assert more.desired[0] is first.desired[0]
    assert len(more.desired) == 2 * len(first.desired)


def test_while_disks_are_not_known_desired_values_stay() -> None:
    web = pod_view("web", qos=QoSClass.LS)
    unknown = node(web, storage=None)
    made = planned(unknown, be=SSD)
    assert made.desired == ()
    assert outcomes(made) == ["nothing is done: the node's disks are not known yet"]
    before = planned(node(web), be=SSD, ls=SSD)
    assert planned(unknown, before.memory, be=SSD, ls=SSD).desired == before.desired
    # What is not asked any more goes all the same.
    assert planned(unknown, before.memory).desired == ()
    held = planned(unknown, before.memory, be=SSD)
    assert {one.target.place for one in held.desired} == {BE}
    assert len(held.decisions) == 1
    assert planned(node(web), held.memory, be=SSD, ls=SSD).desired == before.desired


def test_without_blocks_nothing_is_desired() -> None:
    assert values(planned(node(pod_view("job", qos=QoSClass.BE)))) == {}
    assert planned(node(storage=None)) == NOTHING
