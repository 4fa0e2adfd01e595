from __future__ import annotations

from dataclasses import replace

import pytest
from koord_host.knobs.layout import Driver, Layout
from koord_model.keys import ANNOTATION_RESCTRL, LABEL_QOS
from koord_model.node import Kernel, NodeView
from koord_model.node_slo import ClassQoS, NodeSLO, ResctrlQoS
from koord_model.pod import Pod
from koord_model.qos import QoSClass
from koord_model.resctrl import CacheWays, ResctrlLimits
from koordlet.qos_manager.core.strategy import CacheClass, Plan, PodView, StrategyView
from koordlet.qos_manager.strategies import resctrl
from koordlet.states_informer.state.pod_inventory import PodRecord

LAYOUT = Layout(2, Driver.CGROUPFS)
THIRD = ClassQoS(resctrl=ResctrlQoS(enable=True, cat_end=30))
WHOLE = ClassQoS(resctrl=ResctrlQoS(enable=True))


class Groups:
    """Every pod has a sandbox and one container."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def now(self, group: str, knob: str) -> None:
        return None

    base = now

    def below(self, group: str, subsystem: str) -> tuple[str, ...]:
        self.asked.append(group)
        return (f"{group}/sandbox", f"{group}/c1")


def pod(name: str, qos: str, handler: str = "", **annotations: str) -> PodView:
    parent = f"/kubepods/burstable/pod{name}"
    labels = {LABEL_QOS: qos}
    given = Pod(name, "ns", name, labels, annotations, parent, handler)
    return PodView(PodRecord(given), parent.strip("/"))


def view(*pods: PodView, cgroups: Groups | None = None, there: bool = True) -> StrategyView:
    node = NodeView(kernel=Kernel(resctrl=there))
    return StrategyView(0.0, 0.0, LAYOUT, pods=pods, node=node, cgroups=cgroups or Groups())


def plan(of: StrategyView, memory: object = None, **classes: ClassQoS) -> Plan:
    slo = NodeSLO(classes={QoSClass(name): one for name, one in classes.items()})
    return resctrl.plan(of, resctrl.settings(slo), memory)


def groups(name: str) -> tuple[str, ...]:
    above = f"kubepods/burstable/pod{name}"
    return (above, f"{above}/sandbox", f"{above}/c1")


def test_nothing_is_wanted_where_no_class_is_enabled() -> None:
    assert plan(view(pod("a", "BE"))) == Plan()


def test_each_enabled_class_has_a_group_with_the_tasks_of_its_pods() -> None:
    pods = [pod("a", "LSE"), pod("b", "LSR"), pod("c", "LS"), pod("d", "BE"), pod("e", "BE")]
    found = plan(view(*pods), LSR=WHOLE, BE=THIRD)
    assert found.caches == (
        CacheClass(ResctrlLimits("LSR", CacheWays(0, 100), 100), groups("a") + groups("b")),
        CacheClass(ResctrlLimits("BE", CacheWays(0, 30), 100), groups("d") + groups("e")),
    )
    assert [one.outcome for one in found.decisions] == [
        "pods of class LSR may use llc 0–100 %, mb 100 %",
        "pods of class BE may use llc 0–30 %, mb 100 %",
    ]


@pytest.mark.parametrize(
    "other",
    [
        pod("own", "BE", **{ANNOTATION_RESCTRL: "{}"}),
        pod("vm", "BE", handler="kata-qemu"),
        pod("system", "SYSTEM"),
    ],
    ids=["a group of its own", "a virtual machine", "a class without a group"],
)
def test_whose_tasks_do_not_belong_there(other: PodView) -> None:
    [found] = plan(view(pod("a", "BE"), other), BE=THIRD).caches
    assert found.groups == groups("a")


def test_a_node_without_resctrl_says_so() -> None:
    found = plan(view(pod("a", "BE"), there=False), BE=THIRD)
    assert found.caches == ()
    assert [one.outcome for one in found.decisions] == [
        "no class has cache ways of its own: this node has no resctrl"
    ]


def test_groups_are_looked_up_once_for_as_long_as_the_pod_is_the_same() -> None:
    cgroups, one = Groups(), pod("a", "BE")
    first = plan(view(one, cgroups=cgroups), BE=THIRD)
    second = plan(view(one, cgroups=cgroups), first.memory, BE=THIRD)
    assert cgroups.asked == [one.group]
    assert second.caches is first.caches
    third = plan(view(replace(one), cgroups=cgroups), second.memory, BE=THIRD)
    assert (len(cgroups.asked), third.caches) == (2, first.caches)
