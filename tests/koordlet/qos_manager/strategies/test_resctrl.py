from __future__ import annotations

from dataclasses import replace

from koord_model.keys import ANNOTATION_RESCTRL
from koord_model.node import Kernel, NodeView
from koord_model.node_slo import ClassQoS, NodeSLO, ResctrlQoS
from koord_model.qos import QoSClass
from koord_model.resctrl import CacheWays, ResctrlLimits
from koordlet.qos_manager.core.strategy import CacheClass, Plan, PodView, StrategyView
from koordlet.qos_manager.strategies.resctrl import strategy as resctrl

from tests.support.views import pod_view
from tests.support.views import view as view_of

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
    return pod_view(name, qos=QoSClass(qos), annotations=annotations, runtime_handler=handler)


def view(*pods: PodView, cgroups: Groups | None = None, there: bool = True) -> StrategyView:
    node = NodeView(kernel=Kernel(resctrl=there))
    return view_of(pods=pods, node=node, cgroups=cgroups or Groups())


def plan(of: StrategyView, memory: object = None, **classes: ClassQoS) -> Plan:
    slo = NodeSLO(classes={QoSClass(name): one for name, one in classes.items()})
    return resctrl.plan(of, resctrl.settings(slo), memory)


def groups(pod: PodView) -> tuple[str, ...]:
    return (pod.group, f"{pod.group}/sandbox", f"{pod.group}/c1")


def test_nothing_is_wanted_where_no_class_is_enabled_or_there_is_no_resctrl() -> None:
    assert plan(view(pod("a", "BE"))) == Plan()
    found = plan(view(pod("a", "BE"), there=False), BE=THIRD)
    assert found.caches == ()
    outcome = "no class has cache ways of its own: this node has no resctrl"
    assert [one.outcome for one in found.decisions] == [outcome]


def test_each_enabled_class_has_a_group_with_the_tasks_of_its_pods() -> None:
    classes = {"a": "LSE", "b": "LSR", "c": "LS", "d": "BE", "e": "BE"}
    a, b, c, d, e = (pod(*one) for one in classes.items())
    found = plan(view(a, b, c, d, e), LSR=WHOLE, BE=THIRD)
    assert found.caches == (
        CacheClass(ResctrlLimits("LSR", CacheWays(0, 100), 100), groups(a) + groups(b)),
        CacheClass(ResctrlLimits("BE", CacheWays(0, 30), 100), groups(d) + groups(e)),
    )
    assert [one.outcome for one in found.decisions] == [
        "pods of class LSR may use llc 0–100 %, mb 100 %",
        "pods of class BE may use llc 0–30 %, mb 100 %",
    ]


def test_tasks_of_pods_with_their_own_group_in_vms_and_of_other_classes_are_left_out() -> None:
    mine, own = pod("a", "BE"), pod("own", "BE", **{ANNOTATION_RESCTRL: "{}"})
    others = own, pod("vm", "BE", handler="kata-qemu"), pod("system", "SYSTEM")
    [found] = plan(view(mine, *others), BE=THIRD).caches
    assert found.groups == groups(mine)


def test_groups_are_looked_up_once_for_as_long_as_the_pod_is_the_same() -> None:
    cgroups, one = Groups(), pod("a", "BE")
    first = plan(view(one, cgroups=cgroups), BE=THIRD)
    second = plan(view(one, cgroups=cgroups), first.memory, BE=THIRD)
    assert cgroups.asked == [one.group]
    assert second.caches is first.caches
    third = plan(view(replace(one), cgroups=cgroups), second.memory, BE=THIRD)
    assert (len(cgroups.asked), third.caches) == (2, first.caches)
