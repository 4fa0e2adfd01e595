from koord_host.knobs.layout import Driver, Layout
from koord_host.planning.desired_values import DesiredValue, Owner, Priority, Target
from koord_host.resource_executor.baselines import BaselineStore
from koord_host.resource_executor.executor import Executor
from koord_host.resource_executor.journal import Journal

from tests.support.node import FakeKernel as FakeNode

BE = "kubepods/besteffort"
HOOKS, STRATEGY = Owner("hooks", Priority.HOOKS), Owner("cpu_suppress", Priority.STRATEGY)


def test_what_stands_of_a_place_and_who_wants_what() -> None:
    node = FakeNode(2)
    node.cgroups.make_group(f"{BE}/pod1")
    executor = Executor(
        node,
        Layout(2, Driver.CGROUPFS),
        Journal("", print),
        BaselineStore("", print),
        clock=lambda: 0.0,
        monotonic=lambda: 0.0,
    )
    executor.set_desired(
        HOOKS, "node", (DesiredValue(Target(BE, "cpu.cfs_quota_us"), 80_000, "hooked"),)
    )
    executor.set_desired(
        STRATEGY, "strategy", (DesiredValue(Target(BE, "cpu.cfs_quota_us"), 50_000, "less"),)
    )
    executor.set_desired(
        HOOKS, "pod", (DesiredValue(Target(f"{BE}/pod1", "cpu.shares"), 512, "batch"),)
    )
    assert executor.arbitrated_values(BE) == []
    executor.apply()
    [(knob, decision)] = executor.arbitrated_values(BE)
    assert (knob, decision.value, decision.owner) == ("cpu.cfs_quota_us", 50_000, "cpu_suppress")
    assert "hooks wants 80000" in str(decision.conflict)
    [(knob, decision)] = executor.arbitrated_values(f"{BE}/pod1")
    assert (knob, decision.why) == ("cpu.shares", "batch")
    assert executor.arbitrated_values("kubepods") == []
