"""Memory QoS of pods, containers and the groups above them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.knobs.forms import Value
from koord_host.knobs.layout import Layout
from koord_host.knobs.table import KNOBS
from koord_model.keys import ANNOTATION_MEMORY_QOS, BATCH_MEMORY, MEMORY
from koord_model.memory_qos import MemoryQoS
from koord_model.node import Kernel, NodeView
from koord_model.node_slo import ClassQoS, NodeSLO
from koord_model.qos import KubeQoS, QoSClass
from koordlet.qos_manager.core.strategy import Plan, PodView, StrategyView
from koordlet.qos_manager.strategies.memory_qos.strategy import Settings, plan

from tests.support.views import (
    GIB,
    LAYOUT_IDS,
    LAYOUTS,
    V2,
    FakeCgroups,
    FakeLatest,
    memory_info,
    pod_view,
    view,
)

MAINLINE = frozenset({"memory.min", "memory.low", "memory.high", "memory.oom.group"})
ANOLIS = MAINLINE | {name for name in KNOBS if name.startswith("memory.")}
HALF = MemoryQoS(enable=True, min_limit=50, low_limit=100)
ROOT = V2.kube_qos_group(KubeQoS.GUARANTEED)
BURSTABLE = V2.kube_qos_group(KubeQoS.BURSTABLE)
BEST_EFFORT = V2.kube_qos_group(KubeQoS.BEST_EFFORT)


def seen(
    *pods: PodView,
    knobs: Iterable[str] = MAINLINE,
    allocatable: int | None = 64 * GIB,
    classes: Mapping[QoSClass, MemoryQoS] | None = None,
    **others: Any,
) -> StrategyView:
    of = {qos: ClassQoS(memory=one) for qos, one in (classes or {}).items()}
    node = NodeView(slo=NodeSLO(classes=of), kernel=Kernel(frozenset(knobs)))
    amounts = {} if allocatable is None else {MEMORY: allocatable}
    return view(pods=pods, node=node, allocatable=amounts, **others)


def ls(name: str = "web", request: int = 2 * GIB, limit: int = 4 * GIB, **more: Any) -> PodView:
    more = {"qos": QoSClass.LS} | more
    limits = {MEMORY: limit} if limit else {}
    return pod_view(name, requests={MEMORY: request}, limits=limits, **more)


def be(name: str = "job", request: int = GIB, limit: int = 2 * GIB, **more: Any) -> PodView:
    amounts = {BATCH_MEMORY: request}, {BATCH_MEMORY: limit} if limit else {}
    return pod_view(name, qos=QoSClass.BE, requests=amounts[0], limits=amounts[1], **more)


def asking(**own: Any) -> dict[str, str]:
    return {ANNOTATION_MEMORY_QOS: json.dumps(own)}


def values(made: Plan) -> dict[tuple[str, str], Value]:
    found = {(one.target.place, one.target.knob): one.value for one in made.desired}
    assert len(found) == len(made.desired), "two values for one target"
    for one in made.desired:
        KNOBS[one.target.knob].check(one.value)
    return found


def outcomes(made: Plan) -> list[str]:
    return [one.outcome for one in made.decisions]


def planned(*pods: PodView, memory: object = None, high: bool = False, **node: Any) -> Plan:
    return plan(seen(*pods, **node), Settings(high), memory)


LS_HALF = {QoSClass.LS: HALF}


@pytest.mark.parametrize("knobs", [MAINLINE, ANOLIS, frozenset[str]()])
def test_without_anything_enabled_nothing_is_desired(knobs: frozenset[str]) -> None:
    made = planned(ls(), be(), knobs=knobs)
    assert (made.desired, made.decisions) == ((), ())


class TestProtection:
    @pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
    def test_is_of_pods_containers_and_the_groups_above(self, layout: Layout) -> None:
        pod = ls(layout=layout)
        found = values(planned(pod, layout=layout, classes=LS_HALF))
        above = [layout.kube_qos_group(one) for one in (KubeQoS.GUARANTEED, KubeQoS.BURSTABLE)]
        expected = {"memory.min": GIB, "memory.low": 2 * GIB}
        groups = (*above, pod.group, pod.containers[0].group)
        assert found == {(group, knob): expected[knob] for group in groups for knob in expected}

    def test_of_the_group_above_all_is_the_sum_of_all(self) -> None:
        pods = (
            ls("a", qos=QoSClass.LSR, request=8 * GIB, limit=8 * GIB),
            ls("b", request=2 * GIB),
            ls("c", request=4 * GIB),
            be("d", request=6 * GIB, limit=0),
        )
        found = values(planned(*pods, classes=dict.fromkeys(QoSClass, HALF)))
        assert [found[group, "memory.min"] for group in (ROOT, BURSTABLE, pods[3].group)] == [
            10 * GIB,
            3 * GIB,
            3 * GIB,
        ]
        low = [found[group, "memory.low"] for group in (ROOT, BEST_EFFORT)]
        assert low == [20 * GIB, 6 * GIB]

    def test_of_a_pod_is_never_less_than_of_its_containers(self) -> None:
        sizes = {"big": ({MEMORY: 3 * GIB}, {}), "small": ({MEMORY: GIB}, {}), "none": ({}, {})}
        # Set for the pod as a whole, and too small.
        pod = pod_view("web", qos=QoSClass.LS, containers=sizes, requests={MEMORY: GIB})
        found = values(planned(pod, classes={QoSClass.LS: MemoryQoS(enable=True, min_limit=100)}))
        big, small, none = (one.group for one in pod.containers)
        assert (found[big, "memory.min"], found[small, "memory.min"]) == (3 * GIB, GIB)
        assert (none, "memory.min") not in found
        assert found[pod.group, "memory.min"] == found[ROOT, "memory.min"] == 4 * GIB

    def test_a_pod_may_ask_for_itself_or_for_none(self) -> None:
        own = ls("own", annotations=asking(policy="default", minLimitPercent=100))
        found = values(planned(own, be()))
        assert found[own.group, "memory.min"] == found[ROOT, "memory.min"] == 2 * GIB
        out = ls("out", annotations=asking(policy="none"))
        assert values(planned(out, be(), classes=LS_HALF)) == {}

    def test_its_decision_says_what_of_what_or_why_not(self) -> None:
        made = planned(ls(), classes=LS_HALF)
        [pod] = [one for one in made.decisions if one.pod]
        assert pod.outcome == "memory QoS: 1 GiB (if possible 2 GiB) of ns/web protected"
        numbers = "request 2 GiB, minLimitPercent 50 %, lowLimitPercent 100 %, min 1 GiB, low 2 GiB"
        assert str(pod).endswith(f"with {numbers})")
        assert {one.pod for one in made.desired} == {"ns/web", ""}
        without = planned(ls(), classes=LS_HALF, knobs=())
        assert values(without) == {}
        assert "there is no memory.min nor memory.low" in outcomes(without)[0]

    @given(
        st.lists(
            st.tuples(
                st.sampled_from([QoSClass.LSR, QoSClass.LS, QoSClass.BE, QoSClass.NONE]),
                st.lists(st.integers(0, 1 << 40), min_size=1, max_size=3),
            ),
            max_size=6,
        ),
        st.integers(0, 100),
        st.integers(0, 100),
    )
    def test_a_group_always_has_room_for_what_is_in_it(
        self, pods: list[tuple[QoSClass, list[int]]], least: int, low: int
    ) -> None:
        made = []
        for index, (qos, sizes) in enumerate(pods):
            name = BATCH_MEMORY if qos is QoSClass.BE else MEMORY
            inside = {f"c{number}": ({name: size}, {}) for number, size in enumerate(sizes)}
            made.append(pod_view(f"p{index}", qos=qos, containers=inside))
        asked = MemoryQoS(enable=True, min_limit=least, low_limit=low)
        found = values(planned(*made, classes=dict.fromkeys(QoSClass, asked)))
        inside_of: dict[tuple[str, str], int] = {}
        for (group, knob), value in found.items():
            above = group.rpartition("/")[0]
            if above:
                inside_of[above, knob] = inside_of.get((above, knob), 0) + int(value)
        for key, total in inside_of.items():
            assert int(found[key]) >= total, key


HELD = {QoSClass.LS: MemoryQoS(enable=True, throttling=50)}


class TestThrottling:
    @pytest.mark.parametrize(
        ("limit", "memory", "expected"), [(4, None, 3), (0, None, 33), (0, 34, 18), (0, 128, 33)]
    )
    def test_is_between_request_and_limit_or_the_memory_of_the_node(
        self, limit: int, memory: int | None, expected: int
    ) -> None:
        """An amplified Node says it has more than there is."""
        latest = FakeLatest({}, *([memory_info(memory * GIB)] if memory else []))
        pod = ls(request=2 * GIB, limit=limit * GIB)
        made = planned(pod, classes=HELD, latest=latest)
        assert values(made) == {(pod.containers[0].group, "memory.high"): expected * GIB}
        [decision] = [one for one in made.decisions if one.aspect == "memory.high"]
        assert (decision.pod, decision.group) == ("ns/web", pod.containers[0].group)
        assert decision.outcome == f"memory QoS: main held back at {expected} GiB"

    def test_is_not_there_while_that_is_not_known_or_the_kernel_has_none(self) -> None:
        made = planned(ls(limit=0), classes=HELD, allocatable=None)
        assert values(made) == {}
        assert "memory QoS: main held back nowhere: the Node is not known yet" in outcomes(made)
        made = planned(ls(), classes=HELD, knobs={"memory.min"})
        assert values(made) == {}
        assert not any("held back" in one for one in outcomes(made))


MARKED = {QoSClass.LS: MemoryQoS(enable=True, wmark_ratio=95, wmark_scale_permill=20)}


class TestWatermarks:
    def test_are_of_pods_and_containers_where_the_kernel_has_them(self) -> None:
        pod = ls()
        made = planned(pod, high=True, classes=MARKED, knobs=ANOLIS)
        mark = {"wmark_ratio": 95, "wmark_scale_factor": 20, "wmark_min_adj": 0}
        groups = (pod.group, pod.containers[0].group)
        expected = {(group, f"memory.{knob}"): mark[knob] for group in groups for knob in mark}
        assert values(made) == expected
        assert not any("no memory watermarks" in one for one in outcomes(made))

    def test_memory_high_stands_in_for_them_if_asked(self) -> None:
        pod, free = ls(limit=4 * GIB), ls("free", limit=0)
        made = planned(pod, free, classes=MARKED)
        assert values(made) == {}
        assert outcomes(made)[-1].endswith("only memory_watermark reclaims there")
        made = planned(pod, free, high=True, classes=MARKED)
        expected = 4 * GIB * 95 // 100 // 4096 * 4096
        assert values(made) == {(pod.containers[0].group, "memory.high"): expected}
        assert outcomes(made)[-1].endswith("containers are held back there instead")


ALL = MemoryQoS(True, 50, 100, 50, 95, 20, -25, 1, 1, 1, True, 50, None, True)


class TestOtherKnobs:
    def test_priorities_are_of_the_groups_above_too_but_not_of_the_one_above_all(self) -> None:
        asked = MemoryQoS(enable=True, priority_enable=1, priority=7, oom_kill_group=1)
        every = {QoSClass.LSR: asked, QoSClass.LS: asked, QoSClass.BE: replace(asked, priority=0)}
        pod = be()
        found = values(planned(pod, classes=every, knobs=ANOLIS))
        own = {(group, knob) for group, knob in found if group.startswith(pod.group)}
        assert {key: value for key, value in found.items() if key not in own} == {
            (ROOT, "memory.use_priority_oom"): 1,
            (BURSTABLE, "memory.use_priority_oom"): 1,
            (BURSTABLE, "memory.priority"): 7,
            (BEST_EFFORT, "memory.use_priority_oom"): 1,
            (BEST_EFFORT, "memory.priority"): 0,
        }
        for group in (pod.group, pod.containers[0].group):
            assert (found[group, "memory.priority"], found[group, "memory.oom.group"]) == (0, 1)

    @pytest.mark.parametrize("asked", [None, 0, 1])
    def test_what_the_kubelet_does_on_oom_stays_unless_asked(self, asked: int | None) -> None:
        pod = ls()
        classes = {QoSClass.LS: MemoryQoS(enable=True, oom_kill_group=asked)}
        assert values(planned(pod, classes=classes)).get((pod.group, "memory.oom.group")) == asked

    def test_page_cache_is_limited_of_pods(self) -> None:
        pod, job = ls(limit=4 * GIB), be(limit=2 * GIB)
        asked = MemoryQoS(enable=True, page_cache_limit_percent=25, page_cache_reclaim_sync=True)
        classes = {QoSClass.LS: asked, QoSClass.BE: replace(asked, page_cache_limit_size=GIB)}
        found = values(planned(pod, job, classes=classes, knobs=ANOLIS))
        assert {key: value for key, value in found.items() if "pagecache" in key[1]} == {
            (group, f"memory.pagecache_limit.{name}"): value
            for group in (pod.group, job.group)
            for name, value in {"enable": 1, "size": GIB, "sync": 1}.items()
        }

    def test_only_what_the_kernel_has_is_desired(self) -> None:
        made = planned(ls(), classes={QoSClass.LS: ALL}, knobs={"memory.low"})
        assert {one.target.knob for one in made.desired} == {"memory.low"}


def test_a_pod_in_a_virtual_machine_is_protected_as_a_whole_and_that_is_all() -> None:
    pod = ls(runtime_handler="kata")
    made = planned(pod, high=True, classes={QoSClass.LS: ALL}, knobs=ANOLIS)
    of_pod = {key: value for key, value in values(made).items() if key[0].startswith(pod.group)}
    assert of_pod == {(pod.group, "memory.min"): GIB, (pod.group, "memory.low"): 2 * GIB}
    assert values(made)[ROOT, "memory.min"] == GIB
    assert any("it runs in a virtual machine" in one for one in outcomes(made))


class TestWhatIsNotKnown:
    def test_a_pod_whose_requests_are_not_known_waits(self) -> None:
        made = planned(ls(listed=False), classes=LS_HALF)
        assert made.desired == ()
        assert outcomes(made) == ["memory QoS waits: what the pod requests is not known yet"]

    def test_a_bad_annotation_costs_only_itself(self) -> None:
        pod = ls(annotations=asking(minLimitPercent=500, lowLimitPercent=10, wmarkRatio="x"))
        made = planned(pod, classes=LS_HALF)
        assert values(made)[pod.group, "memory.min"] == GIB
        aspects = [one.aspect for one in made.decisions if one.aspect.startswith("annotation")]
        assert aspects == ["annotation 0", "annotation 1"]

    def test_while_not_all_pods_are_known_groups_keep_what_they_have(self) -> None:
        one, other = ls("one"), ls("other")
        before = planned(one, other, classes=LS_HALF)
        during = planned(one, memory=before.memory, classes=LS_HALF, pods_known=False)
        assert values(during) == values(before)
        assert any("not all pods are known yet" in line for line in outcomes(during))
        after = planned(one, memory=during.memory, classes=LS_HALF)
        assert values(after)[ROOT, "memory.min"] == GIB
        assert (other.group, "memory.min") not in values(after)
        cgroups = FakeCgroups({(ROOT, "memory.min"): 9 * GIB, (ROOT, "memory.low"): "x"})
        start = values(planned(one, classes=LS_HALF, pods_known=False, cgroups=cgroups))
        assert (start[ROOT, "memory.min"], start[ROOT, "memory.low"]) == (9 * GIB, 2 * GIB)
        assert start[BURSTABLE, "memory.min"] == GIB
        reads = cgroups.reads
        assert planned(one, pods_known=False, cgroups=cgroups).desired == ()
        assert cgroups.reads == reads


CLASSES = {QoSClass.LS: replace(HALF, throttling=50), QoSClass.BE: HALF}


class TestSteadiness:
    def test_nothing_is_computed_anew_while_nothing_changes(self) -> None:
        pods = (ls("a"), be("b"))
        first = planned(*pods, classes=CLASSES)
        second = planned(*pods, classes=CLASSES, steady=10_500.0, memory=first.memory)
        assert (second.memory is first.memory, second.desired is first.desired) == (True, True)
        assert planned(*pods, classes=CLASSES, memory="another strategy's") == first

    def test_a_pod_that_changes_costs_only_itself(self) -> None:
        stays, goes, changed = ls("a"), ls("b"), ls("b", request=4 * GIB)
        first = planned(stays, goes, classes=CLASSES)
        second = planned(stays, changed, classes=CLASSES, memory=first.memory)
        kept = {id(one) for one in first.desired if one.pod == "ns/a"}
        assert {id(one) for one in second.desired if one.pod == "ns/a"} == kept
        assert values(second)[changed.group, "memory.min"] == 2 * GIB
        assert values(second)[ROOT, "memory.min"] == 3 * GIB
        assert planned(classes=CLASSES, memory=second.memory).desired == ()

    @pytest.mark.parametrize(
        "change",
        [
            {"classes": {QoSClass.LS: replace(HALF, min_limit=10)}},
            {"knobs": {"memory.min"}},
            {"allocatable": 32 * GIB},
        ],
    )
    def test_what_all_depend_on_changes_all(self, change: dict[str, Any]) -> None:
        pod = ls(limit=0)
        first = planned(pod, classes=CLASSES)
        now = {"classes": CLASSES, **change}
        second = planned(pod, **now, memory=first.memory)
        assert second == planned(pod, **now)
        assert values(second) != values(first)
