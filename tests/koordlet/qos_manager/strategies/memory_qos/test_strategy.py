"""Named apart from the model's ``test_memory_qos``."""

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
from koordlet.qos_manager.strategies.memory_qos import strategy
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
    assert len(found) == len(made.desired), "one target wished twice"
    for one in made.desired:
        KNOBS[one.target.knob].check(one.value)
    return found


def outcomes(made: Plan) -> list[str]:
    return [one.outcome for one in made.decisions]


def test_the_strategy_is_koordinators() -> None:
    assert (strategy.GATE, strategy.INTERVAL) == (
        "CgroupReconcile",
        "reconcile_interval_seconds",
    )
    assert strategy.settings(NodeSLO()) == Settings(high_for_watermarks=False)


@pytest.mark.parametrize("knobs", [MAINLINE, ANOLIS, frozenset[str]()])
def test_without_anything_enabled_nothing_is_wished(knobs: frozenset[str]) -> None:
    made = plan(seen(ls(), be(), knobs=knobs), Settings(), None)
    assert (made.desired, made.decisions) == ((), ())


class TestProtection:
    @pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
    def test_is_of_pods_containers_and_the_groups_above(self, layout: Layout) -> None:
        pod = ls(layout=layout)
        made = plan(seen(pod, layout=layout, classes={QoSClass.LS: HALF}), Settings(), None)
        groups = [
            layout.kube_qos_group(KubeQoS.GUARANTEED),
            layout.kube_qos_group(KubeQoS.BURSTABLE),
            pod.group,
            pod.containers[0].group,
        ]
        assert values(made) == {
            **{(group, "memory.min"): GIB for group in groups},
            **{(group, "memory.low"): 2 * GIB for group in groups},
        }

    def test_of_the_group_above_all_is_the_sum_of_all(self) -> None:
        pods = (
            ls("a", qos=QoSClass.LSR, request=8 * GIB, limit=8 * GIB),
            ls("b", request=2 * GIB),
            ls("c", request=4 * GIB),
            be("d", request=6 * GIB, limit=0),
        )
        every = {QoSClass.LSR: HALF, QoSClass.LS: HALF, QoSClass.BE: HALF}
        found = values(plan(seen(*pods, classes=every), Settings(), None))
        assert found[ROOT, "memory.min"] == 10 * GIB
        assert found[ROOT, "memory.low"] == 20 * GIB
        assert found[BURSTABLE, "memory.min"] == 3 * GIB
        assert found[BEST_EFFORT, "memory.low"] == 6 * GIB

    def test_of_best_effort_pods_is_of_batch_memory(self) -> None:
        pod = be(request=2 * GIB)
        found = values(plan(seen(pod, classes={QoSClass.BE: HALF}), Settings(), None))
        assert found[pod.group, "memory.min"] == GIB
        assert found[pod.containers[0].group, "memory.low"] == 2 * GIB
        assert (BURSTABLE, "memory.min") not in found

    def test_of_a_container_is_of_its_own_request(self) -> None:
        sizes = {"big": ({MEMORY: 3 * GIB}, {}), "small": ({MEMORY: GIB}, {}), "none": ({}, {})}
        pod = pod_view("web", qos=QoSClass.LS, containers=sizes)
        asked = {QoSClass.LS: MemoryQoS(enable=True, min_limit=100)}
        found = values(plan(seen(pod, classes=asked), Settings(), None))
        big, small, none = (one.group for one in pod.containers)
        assert (found[big, "memory.min"], found[small, "memory.min"]) == (3 * GIB, GIB)
        assert (none, "memory.min") not in found
        assert found[pod.group, "memory.min"] == found[ROOT, "memory.min"] == 4 * GIB

    def test_of_a_pod_is_never_less_than_of_its_containers(self) -> None:
        pod = pod_view(
            "web",
            qos=QoSClass.LS,
            requests={MEMORY: GIB},  # set for the pod as a whole, and too small
            containers={"a": ({MEMORY: 3 * GIB}, {}), "b": ({MEMORY: GIB}, {})},
        )
        asked = {QoSClass.LS: MemoryQoS(enable=True, min_limit=100)}
        assert values(plan(seen(pod, classes=asked), Settings(), None))[
            pod.group, "memory.min"
        ] == (4 * GIB)

    def test_a_disabled_class_or_a_pod_that_wants_none_has_none(self) -> None:
        out = ls("out", annotations=asking(policy="none"))
        found = values(plan(seen(out, be(), classes={QoSClass.LS: HALF}), Settings(), None))
        assert found == {}

    def test_a_pod_may_ask_for_itself(self) -> None:
        pod = ls(annotations=asking(policy="default", minLimitPercent=100))
        found = values(plan(seen(pod, be()), Settings(), None))
        assert found[pod.group, "memory.min"] == found[ROOT, "memory.min"] == 2 * GIB

    def test_its_decision_says_what_of_what(self) -> None:
        made = plan(seen(ls(), classes={QoSClass.LS: HALF}), Settings(), None)
        [pod] = [one for one in made.decisions if one.pod]
        assert pod.outcome == "memory QoS: 1 GiB (if possible 2 GiB) of ns/web protected"
        assert str(pod).endswith("with request 2 GiB, minLimitPercent 50 %, lowLimitPercent 100 %)")
        assert {one.pod for one in made.desired} == {"ns/web", ""}
        assert all(one.why for one in made.desired)

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
        every = dict.fromkeys((QoSClass.LSR, QoSClass.LS, QoSClass.BE), asked)
        found = values(plan(seen(*made, classes=every), Settings(), None))
        inside_of: dict[tuple[str, str], int] = {}
        for (group, knob), value in found.items():
            above = group.rpartition("/")[0]
            if above:
                inside_of[above, knob] = inside_of.get((above, knob), 0) + int(value)
        for key, total in inside_of.items():
            assert int(found[key]) >= total, key


class TestThrottling:
    def asked(self, **more: Any) -> dict[QoSClass, MemoryQoS]:
        return {QoSClass.LS: MemoryQoS(enable=True, throttling=50, **more)}

    def test_is_between_request_and_limit_of_containers(self) -> None:
        pod = ls(request=2 * GIB, limit=4 * GIB)
        found = values(plan(seen(pod, classes=self.asked()), Settings(), None))
        assert found == {(pod.containers[0].group, "memory.high"): 3 * GIB}

    @pytest.mark.parametrize(("memory", "expected"), [(None, 33), (34, 18), (128, 33)])
    def test_without_a_limit_the_nodes_memory_counts_as_one(
        self, memory: int | None, expected: int
    ) -> None:
        """What an amplified Node says it has, but no more than there is."""
        latest = FakeLatest({}, *([memory_info(memory * GIB)] if memory else []))
        pod = ls(request=2 * GIB, limit=0)
        found = values(plan(seen(pod, classes=self.asked(), latest=latest), Settings(), None))
        assert found == {(pod.containers[0].group, "memory.high"): expected * GIB}

    def test_nothing_is_held_back_while_that_is_not_known(self) -> None:
        pod = ls(limit=0)
        made = plan(seen(pod, classes=self.asked(), allocatable=None), Settings(), None)
        assert values(made) == {}
        assert "memory QoS: main held back nowhere: the Node is not known yet" in outcomes(made)

    def test_its_decision_is_about_the_container(self) -> None:
        pod = ls()
        made = plan(seen(pod, classes=self.asked()), Settings(), None)
        [decided] = [one for one in made.decisions if one.aspect == "memory.high"]
        assert (decided.pod, decided.group) == ("ns/web", pod.containers[0].group)
        assert decided.outcome == "memory QoS: main held back at 3 GiB"

    def test_a_kernel_without_it_is_not_asked(self) -> None:
        made = plan(seen(ls(), classes=self.asked(), knobs={"memory.min"}), Settings(), None)
        assert values(made) == {}
        assert not any("held back" in one for one in outcomes(made))


def test_a_kernel_that_cannot_protect_is_told_of() -> None:
    pod = ls()
    made = plan(seen(pod, classes={QoSClass.LS: HALF}, knobs=()), Settings(), None)
    assert values(made) == {}
    assert outcomes(made)[0] == (
        "memory QoS: nothing of ns/web protected: "
        "there is no memory.min nor memory.low (cgroup v1 has none)"
    )


MARKED = {QoSClass.LS: MemoryQoS(enable=True, wmark_ratio=95, wmark_scale_permill=20)}


class TestWatermarks:
    def test_are_of_pods_and_containers_where_the_kernel_has_them(self) -> None:
        pod = ls()
        made = plan(seen(pod, classes=MARKED, knobs=ANOLIS), Settings(True), None)
        mark = {
            "memory.wmark_ratio": 95,
            "memory.wmark_scale_factor": 20,
            "memory.wmark_min_adj": 0,
        }
        groups = (pod.group, pod.containers[0].group)
        assert values(made) == {(group, knob): mark[knob] for group in groups for knob in mark}
        assert not any("no memory watermarks" in one for one in outcomes(made))

    def test_nothing_stands_in_for_them_unasked(self) -> None:
        made = plan(seen(ls(), classes=MARKED), Settings(), None)
        assert values(made) == {}
        assert outcomes(made)[-1] == (
            "this kernel has no memory watermarks: nothing is reclaimed in the background"
        )

    def test_memory_high_may_stand_in_for_them(self) -> None:
        pod, free = ls(limit=4 * GIB), ls("free", limit=0)
        made = plan(seen(pod, free, classes=MARKED), Settings(True), None)
        expected = 4 * GIB * 95 // 100 // 4096 * 4096
        assert values(made) == {(pod.containers[0].group, "memory.high"): expected}
        assert outcomes(made)[-1].endswith("containers are held back there instead")


class TestOtherKnobs:
    def test_priorities_are_of_the_groups_above_too_but_not_of_the_one_above_all(self) -> None:
        asked = MemoryQoS(enable=True, priority_enable=1, priority=7, oom_kill_group=1)
        every = {QoSClass.LSR: asked, QoSClass.LS: asked, QoSClass.BE: replace(asked, priority=0)}
        found = values(plan(seen(be(), classes=every, knobs=ANOLIS), Settings(), None))
        above = {
            key: value for key, value in found.items() if key[0] in (ROOT, BURSTABLE, BEST_EFFORT)
        }
        assert above == {
            (ROOT, "memory.use_priority_oom"): 1,
            (BURSTABLE, "memory.use_priority_oom"): 1,
            (BURSTABLE, "memory.priority"): 7,
            (BEST_EFFORT, "memory.use_priority_oom"): 1,
            (BEST_EFFORT, "memory.priority"): 0,
        }
        pod = be()
        for group in (pod.group, pod.containers[0].group):
            assert found[group, "memory.priority"] == 0
            assert found[group, "memory.oom.group"] == 1

    @pytest.mark.parametrize(("asked", "expected"), [(None, None), (0, 0), (1, 1)])
    def test_what_the_kubelet_does_on_oom_stays_unless_asked(
        self, asked: int | None, expected: int | None
    ) -> None:
        pod = ls()
        classes = {QoSClass.LS: MemoryQoS(enable=True, oom_kill_group=asked)}
        found = values(plan(seen(pod, classes=classes), Settings(), None))
        assert found.get((pod.group, "memory.oom.group")) == expected

    def test_page_cache_is_limited_of_pods(self) -> None:
        pod, job = ls(limit=4 * GIB), be(limit=2 * GIB)
        asked = MemoryQoS(enable=True, page_cache_limit_percent=25, page_cache_reclaim_sync=True)
        classes = {QoSClass.LS: asked, QoSClass.BE: replace(asked, page_cache_limit_size=GIB)}
        found = values(plan(seen(pod, job, classes=classes, knobs=ANOLIS), Settings(), None))
        limits = {key: value for key, value in found.items() if "pagecache" in key[1]}
        assert limits == {
            (group, f"memory.pagecache_limit.{name}"): value
            for group in (pod.group, job.group)
            for name, value in {"enable": 1, "size": GIB, "sync": 1}.items()
        }

    def test_only_what_the_kernel_has_is_wished(self) -> None:
        asked = MemoryQoS(True, 10, 20, 30, 95, 20, -25, 1, 1, 1, True, 50, None, True)
        made = plan(
            seen(ls(), classes={QoSClass.LS: asked}, knobs={"memory.low"}), Settings(), None
        )
        assert {one.target.knob for one in made.desired} == {"memory.low"}


def test_a_pod_in_a_virtual_machine_is_protected_as_a_whole_and_that_is_all() -> None:
    asked = MemoryQoS(True, 50, 100, 50, 95, 20, -25, 1, 1, 1, True, 50, None, True)
    pod = ls(runtime_handler="kata")
    made = plan(seen(pod, classes={QoSClass.LS: asked}, knobs=ANOLIS), Settings(True), None)
    of_pod = {key: value for key, value in values(made).items() if key[0].startswith(pod.group)}
    assert of_pod == {(pod.group, "memory.min"): GIB, (pod.group, "memory.low"): 2 * GIB}
    assert values(made)[ROOT, "memory.min"] == GIB
    assert any("it runs in a virtual machine" in one for one in outcomes(made))


class TestWhatIsNotKnown:
    def test_a_pod_whose_requests_are_not_known_waits(self) -> None:
        made = plan(seen(ls(listed=False), classes={QoSClass.LS: HALF}), Settings(), None)
        assert made.desired == ()
        assert outcomes(made) == ["memory QoS waits: what the pod requests is not known yet"]

    def test_a_bad_annotation_is_told_of_and_costs_only_itself(self) -> None:
        pod = ls(annotations=asking(minLimitPercent=500, lowLimitPercent=10, wmarkRatio="x"))
        made = plan(seen(pod, classes={QoSClass.LS: HALF}), Settings(), None)
        assert values(made)[pod.group, "memory.min"] == GIB
        told = [one for one in made.decisions if one.aspect.startswith("annotation")]
        assert [one.aspect for one in told] == ["annotation 0", "annotation 1"]
        assert told[0].outcome.startswith(
            "pod ns/web: annotation koordinator.sh/memoryQOS: minLimitPercent is 500; expected"
        )
        broken = ls(annotations={ANNOTATION_MEMORY_QOS: "{"})
        assert len(outcomes(plan(seen(broken), Settings(), None))) == 1

    def test_pods_that_are_only_not_listed_yet_keep_what_they_have(self) -> None:
        classes = {QoSClass.LS: HALF}
        one, other = ls("one"), ls("other")
        before = plan(seen(one, other, classes=classes), Settings(), None)
        during = plan(seen(one, classes=classes, pods_known=False), Settings(), before.memory)
        assert values(during) == values(before)
        assert any("not all pods are known yet" in line for line in outcomes(during))
        after = plan(seen(one, classes=classes), Settings(), during.memory)
        assert values(after)[ROOT, "memory.min"] == GIB
        assert (other.group, "memory.min") not in values(after)

    def test_groups_above_keep_what_they_have_until_all_pods_are_known(self) -> None:
        cgroups = FakeCgroups({(ROOT, "memory.min"): 9 * GIB, (ROOT, "memory.low"): "x"})
        start = seen(ls(), classes={QoSClass.LS: HALF}, pods_known=False, cgroups=cgroups)
        found = values(plan(start, Settings(), None))
        assert (found[ROOT, "memory.min"], found[ROOT, "memory.low"]) == (9 * GIB, 2 * GIB)
        assert found[BURSTABLE, "memory.min"] == GIB

    def test_and_nobody_keeps_anything_for_those_who_ask_for_nothing(self) -> None:
        cgroups = FakeCgroups({(ROOT, "memory.min"): 9 * GIB})
        made = plan(seen(ls(), pods_known=False, cgroups=cgroups), Settings(), None)
        assert (made.desired, cgroups.reads) == ((), 0)


CLASSES = {QoSClass.LS: replace(HALF, throttling=50), QoSClass.BE: HALF}


class TestSteadiness:
    def test_nothing_is_reckoned_anew_while_nothing_changes(self) -> None:
        pods = (ls("a"), be("b"))
        first = plan(seen(*pods, classes=CLASSES), Settings(), None)
        second = plan(seen(*pods, classes=CLASSES, steady=10_500.0), Settings(), first.memory)
        assert second.memory is first.memory
        assert second.desired is first.desired

    def test_the_same_view_and_memory_give_the_same_plan(self) -> None:
        now = seen(ls("a"), be("b"), classes=CLASSES)
        first = plan(now, Settings(), None)
        assert plan(now, Settings(), None) == first
        assert plan(now, Settings(), first.memory) == first
        assert plan(now, Settings(), "another strategy's") == first

    def test_a_pod_that_changes_costs_only_itself(self) -> None:
        stays, goes = ls("a"), ls("b")
        first = plan(seen(stays, goes, classes=CLASSES), Settings(), None)
        changed = ls("b", request=4 * GIB)
        second = plan(seen(stays, changed, classes=CLASSES), Settings(), first.memory)
        kept = {id(one) for one in first.desired if one.pod == "ns/a"}
        assert {id(one) for one in second.desired if one.pod == "ns/a"} == kept
        assert values(second)[changed.group, "memory.min"] == 2 * GIB
        assert values(second)[ROOT, "memory.min"] == 3 * GIB

    @pytest.mark.parametrize(
        "change",
        [
            {"classes": {QoSClass.LS: replace(HALF, min_limit=10)}},
            {"knobs": {"memory.min"}},
            {"allocatable": 32 * GIB},
        ],
        ids=["classes", "knobs", "allocatable"],
    )
    def test_what_all_depend_on_changes_all(self, change: dict[str, Any]) -> None:
        pod = ls(limit=0)
        first = plan(seen(pod, classes=CLASSES), Settings(), None)
        now = seen(pod, **{"classes": CLASSES, **change})
        second = plan(now, Settings(), first.memory)
        assert second == plan(now, Settings(), None)
        assert values(second) != values(first)

    def test_a_pod_that_is_gone_is_wished_nothing(self) -> None:
        first = plan(seen(ls("a"), be("b"), classes=CLASSES), Settings(), None)
        second = plan(seen(classes=CLASSES), Settings(), first.memory)
        assert second.desired == ()
