from koord_host.executor import Executor
from koord_host.journal import Journal
from koord_host.layout import Driver, Layout
from koord_host.originals import Originals
from koord_host.wishes import Owner, Priority, Target, Wish

from tests.support.fake_node import FakeNode

BE = "kubepods/besteffort"
HOOKS, STRATEGY = Owner("hooks", Priority.HOOKS), Owner("cpu_suppress", Priority.STRATEGY)


def test_what_stands_of_a_place_and_who_wants_what() -> None:
    node = FakeNode(2)
    node.cgroups.make_group(f"{BE}/pod1")
    executor = Executor(
        node,
        Layout(2, Driver.CGROUPFS),
        Journal("", print),
        Originals("", print),
        clock=lambda: 0.0,
        monotonic=lambda: 0.0,
    )
    executor.wish(HOOKS, "node", (Wish(Target(BE, "cpu.cfs_quota_us"), 80_000, "hooked"),))
    executor.wish(STRATEGY, "strategy", (Wish(Target(BE, "cpu.cfs_quota_us"), 50_000, "less"),))
    executor.wish(HOOKS, "pod", (Wish(Target(f"{BE}/pod1", "cpu.shares"), 512, "batch"),))
    assert executor.standing(BE) == []
    executor.apply()
    [(knob, decision)] = executor.standing(BE)
    assert (knob, decision.value, decision.owner) == ("cpu.cfs_quota_us", 50_000, "cpu_suppress")
    assert "hooks wants 80000" in str(decision.conflict)
    [(knob, decision)] = executor.standing(f"{BE}/pod1")
    assert (knob, decision.why) == ("cpu.shares", "batch")
    assert executor.standing("kubepods") == []
