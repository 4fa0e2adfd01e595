"""Sections of a NodeSLO and pods' own annotations: each field, its bounds, what a bad one costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model import blkio_qos, cpu_burst, memory_qos, system_strategy, used_threshold
from koord_model.blkio_qos import MOST_BLOCKS, BlkIOQoS, BlockQoS, BlockType
from koord_model.cpu_burst import BurstPolicy, CPUBurst
from koord_model.fields import Fields
from koord_model.keys import LABEL_QOS
from koord_model.memory_qos import RECOMMENDED, MemoryQoS
from koord_model.pod import Pod
from koord_model.qos import QoSClass
from koord_model.system_strategy import SystemStrategy
from koord_model.used_threshold import CPUEvictPolicy, SuppressPolicy, UsedThreshold

BE = RECOMMENDED[QoSClass.BE]
MEMORY = MemoryQoS(enable=True, min_limit=10, wmark_ratio=90)
BURST = CPUBurst(BurstPolicy.CPU_BURST, 500, 200, 60, 70)


class Section(NamedTuple):
    """How it is read, a document with every field, what that means, and what nothing means."""

    read: Callable[[Fields], Any]
    everything: Mapping[str, Any]
    found: Any
    usual: Any


def _block(fields: Fields) -> BlockQoS:
    [block] = blkio_qos.read(fields).blocks
    return block


FEATURES = {"ID_EXPELLER_SHARE_CORE": False, "NEXT_BUDDY": True}
SECTIONS = {
    "used": Section(
        lambda fields: used_threshold.read(fields, UsedThreshold()),
        {
            "enable": True,
            "cpuSuppressThresholdPercent": 60, "cpuSuppressMinPercent": 5,
            "cpuSuppressPolicy": "cfsQuota",
            "memoryEvictThresholdPercent": 80, "memoryEvictLowerPercent": 75,
            "memoryAllocatableEvictThresholdPercent": 120,
            "memoryAllocatableEvictLowerPercent": 110,
            "cpuEvictBESatisfactionUpperPercent": 90, "cpuEvictBESatisfactionLowerPercent": 40,
            "cpuEvictBEUsageThresholdPercent": 85, "cpuEvictTimeWindowSeconds": 300,
            "cpuEvictThresholdPercent": 95, "cpuEvictLowerPercent": 88,
            "cpuAllocatableEvictThresholdPercent": 130, "cpuAllocatableEvictLowerPercent": 105,
            "cpuEvictPolicy": "evictByAllocatable",
            "evictEnabledPriorityThreshold": 5999, "allocatableEvictPriorityThreshold": 7999,
        },
        UsedThreshold(
            enable=True,
            cpu_suppress=60, cpu_suppress_min=5, cpu_suppress_policy=SuppressPolicy.CFS_QUOTA,
            memory_evict=80, memory_evict_lower=75,
            memory_allocatable_evict=120, memory_allocatable_evict_lower=110,
            cpu_evict_policy=CPUEvictPolicy.ALLOCATABLE,
            cpu_evict_satisfaction_upper=90, cpu_evict_satisfaction_lower=40,
            cpu_evict_be_usage=85, cpu_evict_window_seconds=300,
            cpu_evict=95, cpu_evict_lower=88,
            cpu_allocatable_evict=130, cpu_allocatable_evict_lower=105,
            evict_priority=5999, allocatable_evict_priority=7999,
        ),
        UsedThreshold(
            enable=False, cpu_suppress=65, memory_evict=70, cpu_evict_be_usage=90,
            cpu_suppress_policy=SuppressPolicy.CPUSET, cpu_evict_policy=CPUEvictPolicy.REAL_LIMIT,
        ),
    ),
    "memory": Section(
        lambda fields: memory_qos.read(fields, BE),
        {
            "enable": True,
            "minLimitPercent": 40, "lowLimitPercent": 60, "throttlingPercent": 80,
            "wmarkRatio": 70, "wmarkScalePermill": 30, "wmarkMinAdj": -10,
            "priorityEnable": 1, "priority": 12, "oomKillGroup": 0,
            "pageCacheEnable": False, "pageCacheLimitPercent": 0, "pageCacheLimitSize": 4096,
            "pageCacheReclaimSync": True,
        },
        MemoryQoS(True, 40, 60, 80, 70, 30, -10, 1, 12, 0, False, 0, 4096, True),
        MemoryQoS(),
    ),
    "burst": Section(
        lambda fields: cpu_burst.read(fields, CPUBurst()),
        {
            "policy": "auto", "cpuBurstPercent": 200, "cfsQuotaBurstPercent": 150,
            "cfsQuotaBurstPeriodSeconds": 30, "sharePoolThresholdPercent": 40,
        },
        CPUBurst(BurstPolicy.AUTO, 200, 150, 30, 40),
        CPUBurst(BurstPolicy.NONE, 1000, 300, -1, 50),
    ),
    "system": Section(
        system_strategy.read,
        {
            "minFreeKbytesFactor": 100, "watermarkScaleFactor": 150, "memcgReapBackGround": 1,
            "schedGroupIdentityEnabled": 0, "schedIdleSaverWmark": 500_000,
            "pageCacheLimitEnabled": 1, "schedFeatures": {**FEATURES, "TTWU_QUEUE": None},
        },
        SystemStrategy(100, 150, 1, 0, 500_000, 1, FEATURES),
        SystemStrategy(),
    ),
    "disk": Section(
        lambda fields: _block(Fields({"enable": True, "blocks": [
            {"name": "a", "ioCfg": dict(fields.entries())}
        ]}, "NodeSLO", fields.ignored, "disk")),
        {
            "readIOPS": 1, "writeIOPS": 2, "readBPS": 3, "writeBPS": 4, "ioWeightPercent": 5,
            "readLatency": 6, "writeLatency": 7, "readLatencyPercent": 8,
            "writeLatencyPercent": 9, "enableUserModel": True,
            "modelReadBPS": 10, "modelWriteBPS": 11,
            "modelReadSeqIOPS": 12, "modelWriteSeqIOPS": 13,
            "modelReadRandIOPS": 14, "modelWriteRandIOPS": 15,
        },
        BlockQoS("a", BlockType.DEVICE, *range(1, 10), True, *range(10, 16)),
        BlockQoS("a"),
    ),
}  # fmt: skip


def taken(section: str, document: object) -> tuple[Any, list[str]]:
    ignored: list[str] = []
    return SECTIONS[section].read(Fields(document, "NodeSLO", ignored, section)), ignored


@pytest.mark.parametrize("section", SECTIONS)
def test_every_field_is_read(section: str) -> None:
    one = SECTIONS[section]
    assert taken(section, one.everything) == (one.found, [])
    usual = {**asdict(one.usual), "name": "", "type": ""}
    assert [name for name, value in asdict(one.found).items() if value == usual[name]] == []


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("document", [None, {}, "every field null"])
def test_what_is_not_said_is_koordinators_default(section: str, document: object) -> None:
    one = SECTIONS[section]
    if document == "every field null":
        document = dict.fromkeys(one.everything)
    if section != "disk" or document is not None:
        assert taken(section, document) == (one.usual, [])


@pytest.mark.parametrize(
    ("section", "name", "bad", "expected"),
    [
        ("used", "cpuSuppressThresholdPercent", 101, "0 to 100 (default 65 kept)"),
        ("used", "cpuSuppressThresholdPercent", "65", "0 to 100 (default 65 kept)"),
        ("used", "cpuSuppressThresholdPercent", 65.5, "0 to 100 (default 65 kept)"),
        ("used", "cpuSuppressMinPercent", -1, "0 to 100 (left unset)"),
        ("used", "cpuEvictTimeWindowSeconds", 0, "1 to 86400 (left unset)"),
        ("used", "memoryAllocatableEvictThresholdPercent", 10**9, "0 to 1000000 (left unset)"),
        ("used", "allocatableEvictPriorityThreshold", 8000, "0 to 7999 (left unset)"),
        ("used", "evictEnabledPriorityThreshold", 1 << 31, "-2147483648 to 2147483647 (left uns"),
        ("used", "enable", 1, "true or false (default false kept)"),
        ("used", "cpuEvictPolicy", "random", "evictByRealLimit or evictByAllocatable (default"),
        ("used", "cpuSuppressPolicy", "nice", "cpuset or cfsQuota (default"),
        ("memory", "enable", "yes", "true or false (default false kept)"),
        ("memory", "minLimitPercent", 101, "0 to 100 (default 0 kept)"),
        ("memory", "lowLimitPercent", -1, "0 to 100 (default 0 kept)"),
        ("memory", "throttlingPercent", "80", "0 to 100 (default 0 kept)"),
        ("memory", "wmarkRatio", 101, "0 to 100 (default 95 kept)"),
        ("memory", "wmarkScalePermill", 0, "1 to 1000 (default 20 kept)"),
        ("memory", "wmarkMinAdj", -26, "-25 to 50 (default 50 kept)"),
        ("memory", "priorityEnable", True, "0 to 1 (left unset)"),
        ("memory", "priority", 13, "0 to 12 (left unset)"),
        ("memory", "oomKillGroup", 2, "0 to 1 (left unset)"),
        ("memory", "pageCacheEnable", 1, "true or false (left unset)"),
        ("memory", "pageCacheLimitPercent", 150, "0 to 100 (left unset)"),
        ("memory", "pageCacheLimitSize", 1 << 63, "0 to 9223372036854775807 (left unset)"),
        ("memory", "pageCacheReclaimSync", "no", "true or false (left unset)"),
        ("burst", "policy", "always", "none or cpuBurstOnly or cfsQuotaBurstOnly or auto (default"),
        ("burst", "cpuBurstPercent", 0, "1 to 10000 (default 1000 kept)"),
        ("burst", "cpuBurstPercent", 10001, "1 to 10000 (default 1000 kept)"),
        ("burst", "cfsQuotaBurstPercent", 99, "100 to 1000000 (default 300 kept)"),
        ("burst", "cfsQuotaBurstPeriodSeconds", -2, "-1 to 1000000000 (default -1 kept)"),
        ("burst", "sharePoolThresholdPercent", 101, "0 to 100 (default 50 kept)"),
        ("system", "minFreeKbytesFactor", 0, "1 to 10000 (left unset)"),
        ("system", "minFreeKbytesFactor", "100", "1 to 10000 (left unset)"),
        ("system", "watermarkScaleFactor", 0, "1 to 2147483647 (left unset)"),
        ("system", "memcgReapBackGround", 2, "0 to 1 (left unset)"),
        ("system", "schedGroupIdentityEnabled", True, "0 to 1 (left unset)"),
        ("system", "schedIdleSaverWmark", -1, "0 to 2147483647 (left unset)"),
        ("system", "pageCacheLimitEnabled", 1.5, "0 to 1 (left unset)"),
        ("system", "schedFeatures", ["NEXT_BUDDY"], "an object (defaults kept)"),
        ("disk", "readIOPS", -1, "0 to 9223372036854775807 (left unset)"),
        ("disk", "writeBPS", "1G", "0 to 9223372036854775807 (left unset)"),
        ("disk", "ioWeightPercent", 0, "1 to 100 (left unset)"),
        ("disk", "ioWeightPercent", 101, "1 to 100 (left unset)"),
        ("disk", "readLatencyPercent", 101, "0 to 100 (left unset)"),
        ("disk", "modelReadBPS", 0, "1 to 9223372036854775807 (left unset)"),
        ("disk", "enableUserModel", 1, "true or false (left unset)"),
    ],
)
def test_a_bad_field_costs_only_itself(section: str, name: str, bad: Any, expected: str) -> None:
    others = {key: one for key, one in SECTIONS[section].everything.items() if key != name}
    without, others_lines = taken(section, others)
    found, lines = taken(section, {**others, name: bad})
    assert found == without
    [line] = [one for one in lines if one not in others_lines]
    path = f"{section}.blocks[0].ioCfg.{name}" if section == "disk" else f"{section}.{name}"
    assert line.startswith(f"NodeSLO {path} is ")
    assert f"; expected {expected}" in line


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("NO_NEXT_BUDDY", True, "is true; expected a feature's name"),
        ("next_buddy", True, "is true; expected a feature's name"),
        ("A\nB", True, "is true; expected a feature's name"),
        ("", True, "is true; expected a feature's name"),
        ("NEXT_BUDDY", 1, "is 1; expected true or false (left unset)"),
    ],
)
def test_a_bad_feature_costs_only_itself(name: str, value: object, line: str) -> None:
    found, [reported] = taken("system", {"schedFeatures": {name: value, "TTWU_QUEUE": False}})
    assert line in reported
    assert "\n" not in reported
    assert found.sched_features == {"TTWU_QUEUE": False}


class TestPairsOfThresholds:
    PAIRS = (
        ("memoryEvictLowerPercent", "memoryEvictThresholdPercent"),
        ("memoryAllocatableEvictLowerPercent", "memoryAllocatableEvictThresholdPercent"),
        ("cpuEvictBESatisfactionLowerPercent", "cpuEvictBESatisfactionUpperPercent"),
        ("cpuEvictLowerPercent", "cpuEvictThresholdPercent"),
        ("cpuAllocatableEvictLowerPercent", "cpuAllocatableEvictThresholdPercent"),
    )
    EVERYTHING = SECTIONS["used"].everything

    @pytest.mark.parametrize(("lower", "upper"), PAIRS)
    @pytest.mark.parametrize("bottom", [60, 90])
    def test_one_that_contradicts_costs_only_itself(
        self, lower: str, upper: str, bottom: int
    ) -> None:
        found, [line] = taken("used", {**self.EVERYTHING, lower: bottom, upper: 60})
        assert f"used.{lower} is {bottom}; expected {lower} below {upper} (defaults unset" in line
        others = {key: one for key, one in self.EVERYTHING.items() if key not in (lower, upper)}
        assert found == taken("used", others)[0]

    def test_a_lower_bound_is_held_against_the_default_too(self) -> None:
        found, [line] = taken("used", {"memoryEvictLowerPercent": 75})
        assert line.endswith("below memoryEvictThresholdPercent (defaults unset and 70 kept)")
        assert found == UsedThreshold()

    def test_a_threshold_alone_or_a_bound_alone_contradicts_nothing(self) -> None:
        alone = {"memoryEvictThresholdPercent": 60, "cpuEvictLowerPercent": 99}
        assert taken("used", alone) == (UsedThreshold(memory_evict=60, cpu_evict_lower=99), [])

    @given(
        st.dictionaries(
            st.sampled_from(sorted(EVERYTHING)),
            st.none() | st.booleans() | st.integers(-5, 130) | st.text(max_size=3),
        )
    )
    def test_whatever_is_given_none_contradicts(self, document: dict[str, Any]) -> None:
        found, _ = taken("used", document)
        for lower, upper in (
            (found.memory_evict_lower, found.memory_evict),
            (found.memory_allocatable_evict_lower, found.memory_allocatable_evict),
            (found.cpu_evict_satisfaction_lower, found.cpu_evict_satisfaction_upper),
            (found.cpu_evict_lower, found.cpu_evict),
            (found.cpu_allocatable_evict_lower, found.cpu_allocatable_evict),
        ):
            assert lower is None or upper is None or lower < upper


class TestBlocks:
    @pytest.mark.parametrize("kind", [{}, {"type": ""}, {"type": "device"}, {"ioCfg": None}])
    def test_what_is_not_said_is_left_alone(self, kind: dict[str, Any]) -> None:
        document = {"enable": True, "blocks": [{"name": "/dev/vda", **kind}]}
        found = blkio_qos.read(Fields(document, "NodeSLO", ignored := []))
        assert (found, ignored) == (BlkIOQoS(True, (BlockQoS("/dev/vda"),)), [])

    @pytest.mark.parametrize("off", [{}, {"enable": False}, {"enable": None}, {"enable": True}])
    def test_nothing_is_wanted_without_enable_or_blocks(self, off: dict[str, Any]) -> None:
        blocks = None if off.get("enable") else [{"name": "/dev/vda"}]
        found = blkio_qos.read(Fields({**off, "blocks": blocks}, "NodeSLO", ignored := []))
        assert (found.blocks, ignored) == ((), [])

    @pytest.mark.parametrize(
        ("bad", "line"),
        [
            ({}, ".name is missing; expected a name"),
            ({"name": ""}, '.name is ""; expected a name'),
            ({"name": 7}, ".name is 7; expected a name"),
            ({"name": "a\nb"}, '.name is "a\\nb"; expected a name'),
            ({"name": "../../x"}, '.name is "../../x"; expected a name'),
            ({"name": "a", "type": "disk"}, '.type is "disk"; expected device or volumegroup'),
            ("/dev/vda", ' is "/dev/vda"; expected an object'),
        ],
    )
    def test_one_whose_device_is_not_certain_is_left_out(self, bad: object, line: str) -> None:
        document = {"enable": True, "blocks": [bad, {"name": "b", "type": "volumegroup"}]}
        found = blkio_qos.read(Fields(document, "NodeSLO", ignored := []))
        [reported] = ignored
        assert reported.startswith(f"NodeSLO blocks[0]{line}")
        assert found.blocks == (BlockQoS("b", BlockType.VOLUME_GROUP),)

    @pytest.mark.parametrize("block", [{}, 7, {"name": 7}])
    def test_only_so_many_are_read(self, block: object) -> None:
        blocks = [{"name": "/dev/vda"}, *[block] * 50_000]
        found, ignored = of_pod("blkioQOS", {"blocks": blocks})
        assert [one.name for one in found.blocks] == ["/dev/vda"]
        assert len(ignored) == MOST_BLOCKS
        assert ignored[0].endswith("blocks is a list; expected 64 or fewer (the rest left out)")


PODS: dict[str, tuple[Callable[[Pod], Any], Any]] = {
    "memoryQOS": (lambda pod: memory_qos.of_pod(pod, MEMORY), MEMORY),
    "cpuBurst": (lambda pod: cpu_burst.of_pod(pod, BURST), BURST),
    "blkioQOS": (blkio_qos.of_pod, BlkIOQoS()),
}
"""Pods' own annotations: their readers, and what holds without one."""


def of_pod(name: str, annotation: object, qos: str = "") -> tuple[Any, tuple[str, ...]]:
    text = annotation if isinstance(annotation, str) else json.dumps(annotation)
    annotations = {} if annotation is None else {f"koordinator.sh/{name}": text}
    labels = {LABEL_QOS: qos} if qos else {}
    return PODS[name][0](Pod("web", "shop", "1", labels, annotations, "kubepods/besteffort/pod1"))


@pytest.mark.parametrize("name", PODS)
@pytest.mark.parametrize("text", [None, "", "null", "{", "[]", "7", '"auto"', "{\n}}"])
def test_a_pod_without_a_usable_annotation(name: str, text: str | None) -> None:
    found, lines = of_pod(name, text)
    assert found == PODS[name][1]
    assert len(lines) == (text not in (None, "", "null"))
    for line in lines:
        assert line.startswith(f"pod shop/web: annotation koordinator.sh/{name}: ")
        assert line.endswith(" (ignored)")
        assert "\n" not in line


RECOMMENDS = MemoryQoS(True, low_limit=80, wmark_ratio=95, wmark_scale_permill=20)
DATA = {"name": "data", "type": "podvolume", "ioCfg": {"readBPS": 1024}}


@pytest.mark.parametrize(
    ("name", "annotation", "qos", "found", "line"),
    [
        ("memoryQOS", {}, "", MEMORY, None),
        ("memoryQOS", {"policy": ""}, "", MEMORY, None),
        ("memoryQOS", {"policy": "default"}, "", MEMORY, None),
        ("memoryQOS", {"policy": "none", "minLimitPercent": 100}, "", MemoryQoS(), None),
        ("memoryQOS", {"policy": "auto", "lowLimitPercent": 80}, "",
         replace(RECOMMENDS, wmark_min_adj=50), None),
        ("memoryQOS", {"policy": "auto", "lowLimitPercent": 80}, "LS",
         replace(RECOMMENDS, wmark_min_adj=-25), None),
        ("memoryQOS", {"policy": "auto", "lowLimitPercent": 80}, "LSE",
         replace(RECOMMENDS, wmark_min_adj=-25), None),
        ("memoryQOS", {"policy": "auto"}, "SYSTEM", MemoryQoS(enable=True), None),
        ("memoryQOS", {"minLimitPercent": 50, "priority": 3}, "",
         replace(MEMORY, min_limit=50, priority=3), None),
        ("memoryQOS", {"minLimitPercent": 500, "lowLimitPercent": 20}, "",
         replace(MEMORY, low_limit=20), "minLimitPercent is 500; expected 0 to 100 (default 10 "),
        ("memoryQOS", {"policy": "best"}, "", MEMORY,
         'policy is "best"; expected default or none or auto'),
        ("cpuBurst", {"policy": "auto", "cfsQuotaBurstPercent": 400}, "",
         CPUBurst(BurstPolicy.AUTO, 500, 400, 60, 70), None),
        ("cpuBurst", {"sharePoolThresholdPercent": 99}, "", BURST, None),  # the node's alone
        ("cpuBurst", {"policy": "auto", "cpuBurstPercent": -3}, "",
         CPUBurst(BurstPolicy.AUTO, 500, 200, 60, 70),
         "cpuBurstPercent is -3; expected 1 to 10000 (default 500 kept)"),
        ("blkioQOS", {"blocks": [DATA]}, "",
         BlkIOQoS(True, (BlockQoS("data", BlockType.POD_VOLUME, read_bps=1024),)), None),
        ("blkioQOS", {"blocks": {"name": "a"}}, "", BlkIOQoS(enable=True),
         "blocks is an object; expected a list (left out)"),
    ],
)  # fmt: skip
def test_a_pod_s_own(name: str, annotation: object, qos: str, found: Any, line: str | None) -> None:
    assert of_pod(name, annotation, qos)[0] == found
    begins = [f"pod shop/web: annotation koordinator.sh/{name}: {line}"] if line else []
    lines = of_pod(name, annotation, qos)[1]
    assert [one[: len(begin)] for one, begin in zip(lines, begins, strict=True)] == begins


def test_a_pod_gets_what_it_wants_where_its_class_is_not_enabled() -> None:
    pod = Pod("p", "n", "1", annotations={"koordinator.sh/memoryQOS": '{"minLimitPercent": 50}'})
    assert memory_qos.of_pod(pod, MemoryQoS())[0] == MemoryQoS(enable=True, min_limit=50)
    plain = Pod("p", "n", "1", annotations={"koordinator.sh/memoryQOS": "{}"})
    assert memory_qos.of_pod(plain, MemoryQoS()) == (MemoryQoS(), ())
