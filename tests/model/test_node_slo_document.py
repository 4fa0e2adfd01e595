import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.blkio_qos import BlkIOQoS, BlockQoS
from koord_model.cpu_burst import BurstPolicy, CPUBurst
from koord_model.memory_qos import MemoryQoS
from koord_model.node_slo import (
    Bandwidth,
    ClassQoS,
    CPUPolicy,
    CPUQoS,
    HostApplication,
    NetPolicy,
    NetworkQoS,
    NodeSLO,
    ResctrlQoS,
)
from koord_model.node_slo_document import parse
from koord_model.qos import QoSClass
from koord_model.system_strategy import SystemStrategy
from koord_model.used_threshold import SuppressPolicy, UsedThreshold

ON = {"enable": True}


def slo(**spec: Any) -> NodeSLO:
    read, ignored = parse(spec)
    assert ignored == ()
    return read


def of_class(name: str = "beClass", **strategies: Any) -> dict[str, Any]:
    return {"resourceQOSStrategy": {name: strategies}}


def reported(**spec: Any) -> tuple[NodeSLO, str]:
    read, [line] = parse(spec)
    assert line.startswith("NodeSLO ")
    return read, line.removeprefix("NodeSLO ")


@pytest.mark.parametrize(
    "document", [{}, {"kind": "NodeSLO"}, {"spec": None}, {"kind": "NodeSLO", "spec": {}}, "{}"]
)
def test_an_empty_one_is_koordinators_defaults(document: Any) -> None:
    assert parse(document) == (NodeSLO(), ())


def test_the_whole_object_its_spec_and_their_text_are_the_same() -> None:
    spec = of_class(cpuQOS=ON)
    whole = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "spec": spec}
    assert parse(whole) == parse(spec) == parse(json.dumps(whole)) == parse(json.dumps(spec))
    assert parse(json.dumps(whole).encode()) == parse(whole)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("{", "NodeSLO: "),
        ("[]", "NodeSLO is a list; expected an object"),
        (b"\xff", "invalid start byte"),
        ({"kind": "Node"}, 'kind is "Node"; expected NodeSLO'),
    ],
)
def test_what_is_no_node_slo_is_refused(document: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)) as caught:
        parse(document)
    assert "\n" not in str(caught.value)


class TestClasses:
    @pytest.mark.parametrize(
        ("name", "qos", "identity", "expeller"),
        [
            ("lsrClass", QoSClass.LSR, 2, True),
            ("lsrClass", QoSClass.LSE, 2, True),
            ("lsClass", QoSClass.LS, 2, True),
            ("beClass", QoSClass.BE, -1, False),
            ("systemClass", QoSClass.SYSTEM, 0, False),
        ],
    )
    def test_enabled_ones_have_recommended_values(
        self, name: str, qos: QoSClass, identity: int, expeller: bool
    ) -> None:
        strategy = slo(**of_class(name, cpuQOS=ON)).of(qos).cpu
        assert strategy == CPUQoS(
            enable=True, group_identity=identity, sched_idle=0, core_expeller=expeller
        )

    @pytest.mark.parametrize(
        ("strategy", "said", "found"),
        [
            (
                "cpuQOS",
                {"groupIdentity": 1, "schedIdle": 1, "coreExpeller": True},
                ClassQoS(cpu=CPUQoS(True, group_identity=1, sched_idle=1, core_expeller=True)),
            ),
            ("resctrlQOS", {}, ClassQoS(resctrl=ResctrlQoS(True, cat_end=30))),
            (
                "resctrlQOS",
                {"catRangeStartPercent": 20, "catRangeEndPercent": 60},
                ClassQoS(resctrl=ResctrlQoS(True, cat_start=20, cat_end=60)),
            ),
            (  # percent or bits
                "networkQOS",
                {"egressLimit": 40, "egressRequest": "50M", "ingressLimit": "7"},
                ClassQoS(network=NetworkQoS(
                    True, egress_limit=Bandwidth(percent=40),
                    egress_request=Bandwidth(bits=50_000_000), ingress_limit=Bandwidth(bits=7),
                )),
            ),
        ],
    )  # fmt: skip
    def test_what_is_said_counts(
        self, strategy: str, said: dict[str, Any], found: ClassQoS
    ) -> None:
        spec = of_class(**{strategy: {**ON, **said}})
        spec["resourceQOSStrategy"]["goldClass"] = {"cpuQOS": ON}  # passed over
        assert slo(**spec).of(QoSClass.BE) == found

    @pytest.mark.parametrize("off", [{}, {"enable": False}, {"enable": None}])
    def test_what_is_not_enabled_is_neutral(self, off: dict[str, Any]) -> None:
        read = slo(
            **of_class(
                cpuQOS={"groupIdentity": -1, "schedIdle": 1, "coreExpeller": True, **off},
                resctrlQOS={"catRangeEndPercent": 30, "mbaPercent": 10, **off},
                networkQOS={"egressLimit": 10, **off},
            )
        )
        assert read.of(QoSClass.BE) == ClassQoS()


class TestPolicies:
    def test_are_read(self) -> None:
        policies = {"cpuPolicy": "coreSched", "netQOSPolicy": "terway-qos"}
        read = slo(resourceQOSStrategy={"policies": policies})
        assert (read.cpu_policy, read.net_policy) == (CPUPolicy.CORE_SCHED, NetPolicy.TERWAY)

    def test_traffic_is_shaped_by_tc_where_anything_is_said_of_it(self) -> None:
        assert slo().net_policy is NetPolicy.NONE
        assert slo(**of_class(networkQOS=ON)).net_policy is NetPolicy.TC
        assert slo(systemStrategy={"totalNetworkBandwidth": "10G"}).net_policy is NetPolicy.TC


SAID = {
    "memoryEvictThresholdPercent": 80, "memoryEvictLowerPercent": 60,
    "cpuSuppressPolicy": "cfsQuota", "enable": True,
}  # fmt: skip
IO = {"enable": True, "blocks": [{"name": "/dev/vda", "ioCfg": {"readBPS": 5}}]}
DISKS = BlkIOQoS(True, (BlockQoS("/dev/vda", read_bps=5),))
SHADOW = {"cpu_suppress": {"mode": "shadow", "x": 1}, "threshold": {}}
LS_MEMORY = MemoryQoS(enable=True, wmark_ratio=95, wmark_scale_permill=20, wmark_min_adj=-25)


def ours(strategies: object) -> dict[str, Any]:
    return {"extensions": {"pykoord": {"strategies": strategies}, "others": {"a": 1}}}


class TestSections:
    """How each is read: ``test_slo_sections``; here that it is read at all."""

    @pytest.mark.parametrize(
        ("spec", "found"),
        [
            (
                {"resourceUsedThresholdWithBE": SAID},
                {"threshold": UsedThreshold(
                    True, cpu_suppress_policy=SuppressPolicy.CFS_QUOTA,
                    memory_evict=80, memory_evict_lower=60,
                )},
            ),
            ({"cpuBurstStrategy": {"policy": "auto"}}, {"burst": CPUBurst(BurstPolicy.AUTO)}),
            (
                {"systemStrategy": {"minFreeKbytesFactor": 100, "totalNetworkBandwidth": "1G"}},
                {"system": SystemStrategy(100), "total_network_bandwidth": 10**9,
                 "net_policy": NetPolicy.TC},
            ),
            (of_class("cgroupRoot", blkioQOS=IO), {"root_blkio": DISKS}),
            (of_class("cgroupRoot", blkioQOS={**IO, "enable": False}), {}),
            (ours({**SHADOW, "none": None}), {"strategies": SHADOW}),
        ],
    )  # fmt: skip
    def test_of_the_node(self, spec: dict[str, Any], found: dict[str, Any]) -> None:
        assert slo(**spec) == replace(NodeSLO(), **found)

    @pytest.mark.parametrize(
        ("name", "qos", "adj"),
        [
            ("lsrClass", QoSClass.LSR, -25),
            ("lsrClass", QoSClass.LSE, -25),
            ("lsClass", QoSClass.LS, -25),
            ("beClass", QoSClass.BE, 50),
        ],
    )
    def test_of_a_class(self, name: str, qos: QoSClass, adj: int) -> None:
        read = slo(**of_class(name, memoryQOS=ON, blkioQOS=IO)).of(qos)
        assert read == ClassQoS(memory=replace(LS_MEMORY, wmark_min_adj=adj), blkio=DISKS)
        assert slo(**of_class(name, memoryQOS={"wmarkRatio": 10})).of(qos) == ClassQoS()

    @pytest.mark.parametrize(
        ("spec", "line"),
        [
            (ours({"a": "off"}), '.a is "off"; expected an object (left out)'),
            (ours({"a": [1]}), ".a is a list; expected an object (left out)"),
            (ours({"a\nb": 1}), '."a\\nb" is 1; expected an object (left out)'),
            (ours("on"), ' is "on"; expected an object (defaults kept)'),
        ],
    )
    def test_of_our_own_strategies_only_objects(self, spec: dict[str, Any], line: str) -> None:
        assert reported(**spec) == (NodeSLO(), f"extensions.pykoord.strategies{line}")


BE = "resourceQOSStrategy.beClass"


@pytest.mark.parametrize(
    ("strategy", "name", "value", "line"),
    [
        ("cpuQOS", "groupIdentity", 7, " is 7; expected -1 to 2 (default -1 kept)"),
        ("cpuQOS", "schedIdle", True, " is true; expected 0 to 1"),
        ("cpuQOS", "coreExpeller", "yes", ' is "yes"; expected true'),
        ("resctrlQOS", "mbaPercent", 101, " is 101; expected 0 to"),
        ("resctrlQOS", "catRangeStartPercent", 30, " is 30; expected catRangeStartPercent below"),
        ("resctrlQOS", "catRangeEndPercent", 0, " is 0; expected catRangeStartPercent below"),
        ("networkQOS", "egressLimit", 101, " is 101; expected a"),
        ("networkQOS", "egressLimit", "5%", ' is "5%"; expected'),
        ("networkQOS", "egressLimit", "-5", ' is "-5"; expected'),
        ("networkQOS", "ingressLimit", True, " is true; expected"),
    ],
)
def test_a_field_that_cannot_be_used_costs_only_itself(
    strategy: str, name: str, value: object, line: str
) -> None:
    spec = of_class(**{strategy: {**ON, name: value}})
    spec["resourceQOSStrategy"]["lsClass"] = {"cpuQOS": ON}
    read, shown = reported(**spec)
    assert shown.startswith(f"{BE}.{strategy}.{name}{line}")
    assert read.of(QoSClass.LS).cpu.group_identity == 2
    assert read.of(QoSClass.BE).cpu.group_identity == (-1 if strategy == "cpuQOS" else 0)


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (
            {"resourceQOSStrategy": {"policies": {"cpuPolicy": "best"}}},
            'resourceQOSStrategy.policies.cpuPolicy is "best"; expected groupIdentity or core',
        ),
        (
            {"systemStrategy": {"totalNetworkBandwidth": "-1"}},
            'systemStrategy.totalNetworkBandwidth is "-1"; expected bits a second like "10G"',
        ),
        ({"systemStrategy": 7}, "systemStrategy is 7; expected an object (defaults kept)"),
        (of_class(cpuQOS=[ON]), f"{BE}.cpuQOS is a list; expected an object (defaults kept)"),
        ({"hostApplications": {}}, "hostApplications is an object; expected a list (left out)"),
    ],
)
def test_the_rest_is_tolerant_too(spec: dict[str, Any], line: str) -> None:
    read, shown = reported(**spec)
    assert shown.startswith(line)
    assert read == NodeSLO()


class TestHostApplications:
    def test_are_read(self) -> None:
        place = {"base": "KubepodsBesteffort", "parentDir": "batch/", "relativePath": "etl"}
        applications = [
            {"name": "nginx", "qos": "LS", "priority": "koord-prod"},
            {"name": "etl", "qos": "BE", "cgroupPath": place},
            {"name": "plain", "cgroupPath": {"relativePath": "plain"}},
        ]
        assert slo(hostApplications=applications).host_applications == (
            HostApplication("nginx", QoSClass.LS, "koord-prod"),
            HostApplication("etl", QoSClass.BE, "", "KubepodsBesteffort", "batch/", "etl"),
            HostApplication("plain", base="CgroupRoot", relative_path="plain"),
        )

    @pytest.mark.parametrize(
        ("bad", "line"),
        [
            ({}, "name is missing; expected a name without slashes"),
            ({"name": "a/b"}, 'name is "a/b"; expected a name'),
            ({"name": ".."}, 'name is ".."; expected a name'),
            ({"name": 3}, "name is 3; expected a name"),
            ({"name": "a", "cgroupPath": {"base": "Root"}}, 'cgroupPath.base is "Root"; expected'),
            (
                {"name": "a", "cgroupPath": {"parentDir": "a/../../b"}},
                'cgroupPath.parentDir is "a/../../b"; expected a path without ".."',
            ),
            (
                {"name": "a", "cgroupPath": {"base": "Kubepods", "parentDir": "/"}},
                "cgroupPath.relativePath is missing; expected a group below its base",
            ),
            ({"name": "a", "cgroupPath": "x"}, 'cgroupPath is "x"; expected an object'),
        ],
    )
    def test_one_whose_group_is_not_certain_is_left_out(
        self, bad: dict[str, Any], line: str
    ) -> None:
        read, shown = reported(hostApplications=[bad, {"name": "good"}])
        assert shown.startswith(f"hostApplications[0].{line}")
        assert read.host_applications == (HostApplication("good"),)

    def test_an_unknown_class_counts_as_none(self) -> None:
        read, shown = reported(hostApplications=[{"name": "a", "qos": "GOLD"}])
        assert shown.startswith('hostApplications[0].qos is "GOLD"; expected LSE or LSR or LS or')
        assert read.host_applications == (HostApplication("a"),)


_WORDS = """
    spec kind resourceQOSStrategy policies beClass lsClass cpuQOS resctrlQOS networkQOS enable
    groupIdentity catRangeStartPercent egressLimit hostApplications name cgroupPath base
    systemStrategy totalNetworkBandwidth resourceUsedThresholdWithBE cpuSuppressPolicy policy
    cpuBurstStrategy memoryQOS priority blkioQOS cgroupRoot blocks ioCfg schedFeatures extensions
    pykoord strategies
"""
_KEYS = st.sampled_from(_WORDS.split())
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(_KEYS, _ANYTHING, max_size=5))
def test_any_object_is_a_node_slo_or_a_clear_error(document: dict[str, Any]) -> None:
    try:
        _, ignored = parse(document)
    except ValueError as error:
        ignored = (str(error),)
    assert all("\n" not in line and len(line) < 400 for line in ignored)
