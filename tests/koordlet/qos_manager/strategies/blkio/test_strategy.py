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
from koord_model.node_slo import ClassQoS, NodeSLO
from koord_model.qos import QoSClass
from koordlet.qos_manager.core.strategy import NOTHING, Plan, PodView, StrategyView, owner
from koordlet.qos_manager.strategies.blkio import strategy
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
    facts = () if storage is None else (storage,)
    return view(
        pods=pods,
        node=NodeView(kernel=Kernel(knobs=knobs)),
        latest=FakeLatest({}, *facts),
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


def test_the_strategy_is_koordinators() -> None:
    assert (strategy.GATE, strategy.INTERVAL) == ("BlkIOReconcile", "reconcile_interval_seconds")


def test_its_settings_are_those_of_the_node_slo() -> None:
    classes = {
        one: ClassQoS(blkio=qos(BlockQoS(one.value)))
        for one in (QoSClass.BE, QoSClass.LS, QoSClass.LSR)
    }
    slo = NodeSLO(classes=classes, root_blkio=qos(BlockQoS("root")))
    found = strategy.settings(slo)
    names = [part.blocks[0].name for part in (found.be, found.ls, found.lsr, found.root)]
    assert names == ["BE", "LS", "LSR", "root"]
    assert strategy.settings(NodeSLO()) == Settings()


def test_nothing_is_asked() -> None:
    assert values(plan(node(pod_view("job", qos=QoSClass.BE)), Settings(), None)) == {}
    assert plan(node(storage=None), Settings(), None) == NOTHING


def test_best_effort_pods_together() -> None:
    made = plan(node(), Settings(be=qos(SSD)), None)
    assert values(made) == {(BE, RBPS): "254:0 1048576", (BE, WIOPS): "254:0 100"}
    assert outcomes(made) == ["/dev/vda (254:0): reads 1 MiB/s, write operations 100/s"]
    assert made.decisions[0].group == BE
    assert {one.why for one in made.desired} == set(outcomes(made))


def test_several_disks_are_lines_of_one_value() -> None:
    pool = BlockQoS("pool", BlockType.VOLUME_GROUP, read_bps=7, write_bps=0)
    made = plan(node(), Settings(be=qos(pool, SSD)), None)
    assert values(made)[BE, RBPS] == "254:0 1048576\n254:16 7"
    assert values(made)[BE, WBPS] == "254:16 0"
    assert "writes without limit" in outcomes(made)[0]


@pytest.mark.parametrize(
    ("one", "other", "stricter"), [(5, 7, 5), (7, 5, 5), (0, 5, 5), (5, 0, 5), (0, 0, 0)]
)
def test_of_two_blocks_on_one_disk_the_stricter_counts(one: int, other: int, stricter: int) -> None:
    blocks = (
        BlockQoS("/dev/vdb", read_bps=one),
        BlockQoS("pool", BlockType.VOLUME_GROUP, read_bps=other),
    )
    assert values(plan(node(), Settings(be=qos(*blocks)), None)) == {
        (BE, RBPS): f"254:16 {stricter}"
    }


@pytest.mark.parametrize("layout", [V1, V2], ids=["v1", "v2"])
def test_a_pod_says_it_itself(layout: Any) -> None:
    block = {"name": "data", "type": "podvolume", "ioCfg": {"readIOPS": 9}}
    job = annotated("job", block, qos=QoSClass.BE, layout=layout)
    made = plan(node(job, layout=layout, knobs=THROTTLES), Settings(), None)
    assert values(made) == {(job.group, RIOPS): "254:16 9"}
    assert made.desired[0].pod == made.decisions[0].pod == "ns/job"


def test_latency_sensitive_pods_one_by_one_unless_they_say_it_themselves() -> None:
    web, bound = pod_view("web", qos=QoSClass.LS), pod_view("bound", qos=QoSClass.LSE)
    own = annotated("own", {"name": "/dev/vdb", "ioCfg": {"readBPS": 9}}, qos=QoSClass.LS)
    free = annotated("free", qos=QoSClass.LS)
    asked = Settings(
        ls=qos(BlockQoS("/dev/vda", read_bps=5)), lsr=qos(BlockQoS("/dev/vda", read_bps=6))
    )
    made = plan(node(web, bound, own, free, pod_view("job", qos=QoSClass.BE)), asked, None)
    assert values(made) == {
        (web.group, RBPS): "254:0 5",
        (bound.group, RBPS): "254:0 6",
        (own.group, RBPS): "254:16 9",
    }


def test_what_cannot_be_read_of_an_annotation_is_said() -> None:
    pod = pod_view("job", qos=QoSClass.BE, annotations={ANNOTATION_BLKIO_QOS: "{"})
    made = plan(node(pod), Settings(), None)
    assert made.desired == ()
    assert ANNOTATION_BLKIO_QOS in outcomes(made)[0]


def test_a_disk_that_is_not_there_stops_no_other() -> None:
    absent = BlockQoS("/dev/vdz", read_bps=5)
    made = plan(node(), Settings(be=qos(absent, SSD), root=qos(absent)), None)
    assert values(made)[BE, RBPS] == "254:0 1048576"
    assert outcomes(made)[0] == "/dev/vdz left alone: no such device here"
    assert outcomes(made)[1].startswith("/dev/vdz left alone: no such device here; /dev/vda")


def test_a_disk_that_goes_takes_its_lines_along() -> None:
    asked = Settings(be=qos(SSD, BlockQoS("/dev/vdb", read_bps=5)))
    before = plan(node(), asked, None)
    without = replace(DISKS, numbers={"/dev/vda": "254:0"})
    after = plan(node(storage=without), asked, before.memory)
    assert (values(before)[BE, RBPS], values(after)[BE, RBPS]) == (
        "254:0 1048576\n254:16 5",
        "254:0 1048576",
    )


# ---- io.cost and io.latency


def test_weights_where_the_disks_cost_is_reckoned() -> None:
    blocks = (BlockQoS("/dev/vda", weight=50), BlockQoS("/dev/vdb", weight=20))
    made = plan(node(costs="254:0 enable=1 ctrl=auto"), Settings(be=qos(*blocks)), None)
    assert values(made) == {(BE, WEIGHT): "254:0 50"}
    assert "/dev/vda (254:0): weight 50" in outcomes(made)[0]
    assert "/dev/vdb (254:16): weight left alone (io.cost is off for the disk" in outcomes(made)[0]


def test_weights_where_it_is_switched_on_in_the_same_round() -> None:
    asked = Settings(
        be=qos(BlockQoS("/dev/vdb1", weight=20)), root=qos(BlockQoS("pool", BlockType.VOLUME_GROUP))
    )
    made = plan(node(), asked, None)
    assert values(made) == {
        ("", QOS): "254:16 enable=1 ctrl=user rpct=95 rlat=3000 wpct=95 wlat=3000",
        (BE, WEIGHT): "254:16 20",
    }


@pytest.mark.parametrize(
    ("block", "model"),
    [
        ({}, None),
        ({"user_model": False, "model_read_bps": 7}, "254:0 ctrl=auto"),
        ({"user_model": True}, "254:0 ctrl=user"),
        (
            {"user_model": True, "model_read_bps": 7, "model_write_rand_iops": 9},
            "254:0 ctrl=user rbps=7 wrandiops=9",
        ),
    ],
)
def test_the_model_of_a_disk(block: dict[str, Any], model: str | None) -> None:
    made = plan(node(), Settings(root=qos(BlockQoS("/dev/vda", **block))), None)
    assert values(made).get(("", MODEL)) == model


def test_latencies_of_a_disk() -> None:
    block = BlockQoS(
        "/dev/vda",
        read_latency=500,
        write_latency=700,
        read_latency_percent=90,
        write_latency_percent=0,
    )
    second = BlockQoS("/dev/vda", read_latency=1)
    made = plan(node(), Settings(root=qos(block, second)), None)
    assert values(made) == {
        ("", QOS): "254:0 enable=1 ctrl=user rpct=90 rlat=500 wpct=0 wlat=700",
    }


@pytest.mark.parametrize(
    ("read", "write", "target", "words"),
    [
        (500, 700, 500, "latency 500 µs"),
        (None, 700, 700, "latency 700 µs"),
        (0, 700, 700, "latency 700 µs"),
        (0, None, 0, "latency without target"),
    ],
)
def test_latency_targets_of_a_class(
    read: int | None, write: int | None, target: int, words: str
) -> None:
    block = BlockQoS("/dev/vda", read_latency=read, write_latency=write)
    made = plan(node(), Settings(be=qos(block)), None)
    assert values(made) == {(BE, LATENCY): f"254:0 {target}"}
    assert words in outcomes(made)[0]


def test_what_the_kernel_has_not_is_left_alone_and_said() -> None:
    block = BlockQoS("/dev/vda", read_bps=5, weight=50, read_latency=7)
    asked = Settings(be=qos(block, BlockQoS("/dev/vdb")), root=qos(block))
    made = plan(node(layout=V1, knobs=frozenset()), asked, None)
    assert made.desired == ()
    assert outcomes(made) == [
        "/dev/vda left alone: this kernel has no io.cost",
        (
            f"/dev/vda (254:0): reads left alone (this kernel has no {RBPS}), "
            "weight left alone (this kernel has no io.cost), "
            "latency left alone (this kernel has no io.latency); "
            "/dev/vdb (254:16): nothing asked"
        ),
    ]


# ---- rounds


def test_the_same_view_gives_the_same_wishes_at_no_cost() -> None:
    job = pod_view("job", qos=QoSClass.BE)
    asked = Settings(be=qos(SSD), ls=qos(SSD))
    first = plan(node(job), asked, None)
    again = plan(node(job), asked, first.memory)
    assert again.desired is first.desired
    assert again.decisions is first.decisions


def test_what_stays_the_same_stays_the_same_object() -> None:
    asked = Settings(be=qos(SSD), ls=qos(SSD))
    first = plan(node(), asked, None)
    more = plan(node(pod_view("web", qos=QoSClass.LS)), asked, first.memory)
    assert more.desired[0] is first.desired[0]
    assert len(more.desired) == 2 * len(first.desired)


def test_disks_that_are_not_known() -> None:
    asked = Settings(be=qos(SSD))
    made = plan(node(storage=None), asked, None)
    assert (made.desired, outcomes(made)) == (
        (),
        ["nothing is done: the node's disks are not known yet"],
    )
    before = plan(node(), asked, None)
    assert plan(node(storage=None), asked, before.memory).desired == before.desired


def test_its_values_can_be_weighed_against_others() -> None:
    blocks = (SSD, BlockQoS("/dev/vdb", weight=3, read_latency=7))
    made = plan(node(costs="254:16 enable=1"), Settings(be=qos(*blocks), root=qos(SSD)), None)
    for one in made.desired:
        both = [(owner("blkio"), one), (owner("another"), replace(one, value=str(one.value)))]
        assert arbitrate(KNOBS[one.target.knob], both).value == one.value


def test_what_is_asked_no_more_goes_whether_disks_are_known_or_not() -> None:
    web = pod_view("web", qos=QoSClass.LS)
    asked = Settings(be=qos(SSD), ls=qos(SSD))
    before = plan(node(web), asked, None)
    assert plan(node(web, storage=None), Settings(), before.memory).desired == ()
    held = plan(node(web, storage=None), Settings(be=qos(SSD)), before.memory)
    assert {one.target.place for one in held.desired} == {node().be_group}
    assert len(held.decisions) == 1
    # Known again, all that is asked then is reckoned anew.
    assert plan(node(web), asked, held.memory).desired == before.desired
