from __future__ import annotations

from dataclasses import replace

from koord_host.knobs.layout import Driver, Layout
from koord_host.planning.desired_values import DesiredValue, Owner, Priority, Target
from koord_host.resctrl import ResctrlGroups
from koord_host.resource_executor.baselines import BaselineStore
from koord_host.resource_executor.executor import Executor
from koord_host.resource_executor.journal import (
    DecisionEntry,
    HookAnswerEntry,
    Journal,
    read_events,
)
from koord_model.resctrl import CacheWays, ResctrlLimits
from koordlet.qos_manager.core.strategy import CacheClass
from koordlet.qos_manager.plan_queue import AppliedPlans, NodePlan, PlanQueue
from koordlet.runtime_hooks.reconciler.reconciler import HOOKS
from koordlet.runtime_hooks.reconciler.tasks import TaskReconciler

from tests.support.node import FakeKernel as FakeNode

BE = "kubepods/besteffort"
QUOTA = Target(BE, "cpu.cfs_quota_us")
LAYOUT = Layout(2, Driver.CGROUPFS)


class Bench:
    """A carrier on a node in memory."""

    def __init__(self, directory: str = "") -> None:
        self.node = FakeNode(2)
        self.node.cgroups.make_group(f"{BE}/pod1")
        self.begin(directory)

    def begin(self, directory: str = "") -> None:
        """Koordlet starts, with what is kept in a directory."""
        path = f"{directory}/journal" if directory else ""
        self.journal = Journal(path, print)
        self.originals = BaselineStore(f"{directory}/originals" if directory else "", print)
        self.executor = Executor(
            self.node,
            LAYOUT,
            self.journal,
            self.originals,
            clock=lambda: 0.0,
            monotonic=lambda: 0.0,
        )
        resctrl = ResctrlGroups(self.node, record=lambda *_: None)
        self.tasks = TaskReconciler(HOOKS, self.node, LAYOUT, lambda: 0.0, 60.0, None, resctrl)
        self.plan_queue = PlanQueue(self.executor, self.tasks, self.journal, self.clock)

    def clock(self) -> float:
        """Two seconds later, where something was handed over."""
        return 0.0 if not self.executor._states else 2.0

    def round(self, *handed: NodePlan) -> None:
        for wanted in handed:
            self.plan_queue.put(wanted)
        self.plan_queue.apply_queued()
        self.tasks.reconcile(self.executor, complete=True)
        self.executor.apply()
        self.applied = self.plan_queue.take_applied()

    def read(self, file: str, group: str = BE) -> str:
        return self.node.read(f"/sys/fs/cgroup/{group}/{file}").strip()

    def kill(self) -> None:
        """Nothing is put back, and the files are let go of."""
        self.journal.close()
        self.originals.close()


def quota(value: int) -> DesiredValue:
    return DesiredValue(QUOTA, value, "suppressed")


def wanted(*desired: DesiredValue) -> NodePlan:
    return NodePlan({"cpu_suppress": desired})


def test_wishes_are_written_and_put_back_when_the_strategy_wants_nothing_more() -> None:
    bench = Bench()
    bench.round(wanted(quota(50_000)))
    assert bench.read("cpu.max") == "50000 100000"
    bench.round()
    assert bench.read("cpu.max") == "50000 100000"
    bench.round(NodePlan())
    assert bench.read("cpu.max") == "max 100000"


def test_what_hooks_want_decides_again() -> None:
    bench = Bench()
    bench.executor.set_desired(Owner("hooks", Priority.HOOKS), "node", (quota(80_000),))
    bench.round(wanted(quota(50_000)))
    assert bench.plan_queue.base(QUOTA) == 80_000
    bench.round(NodePlan())
    assert bench.read("cpu.max") == "80000 100000"


def test_of_several_rounds_the_last_counts_and_no_deed_is_lost() -> None:
    bench = Bench()
    deed = DesiredValue(Target(BE, "memory.reclaim"), 1 << 20, "pressure is low")
    first = replace(wanted(quota(50_000)), deeds=(("memory_offload", (deed,)),))
    before = bench.read("memory.current")
    bench.round(first, wanted(quota(40_000)))
    assert bench.read("cpu.max") == "40000 100000"
    assert bench.plan_queue.base(QUOTA) == -1
    assert before == "0"


def test_what_was_done_and_how_long_it_took_is_told_once() -> None:
    bench = Bench()
    bench.round(wanted(quota(50_000)), wanted(quota(40_000)))
    [done] = bench.applied.rounds
    assert [(one.target, one.new) for one in done.results] == [(QUOTA, 40_000)]
    assert bench.applied.seconds == (2.0, 2.0)
    bench.round()
    assert bench.applied == AppliedPlans()


def test_decisions_are_in_the_journal(tmp_path: object) -> None:
    bench = Bench(str(tmp_path))
    line = DecisionEntry("2026-01-31T12:00:00.000Z", "cpu_suppress", "on", "5 CPUs")
    bench.round(NodePlan(lines=(line,)))
    assert list(read_events(f"{tmp_path}/journal")) == [line]


def test_notes_are_in_the_journal_in_order_with_a_round_or_without(tmp_path: object) -> None:
    bench = Bench(str(tmp_path))
    notes = [HookAnswerEntry("t", "PreCreateContainer", "NRI", f"a/{n}", "main") for n in range(3)]
    bench.plan_queue.note(notes[0])
    bench.plan_queue.note(notes[1])
    bench.round(NodePlan())
    assert list(read_events(f"{tmp_path}/journal")) == notes[:2]
    bench.plan_queue.note(notes[2])
    bench.plan_queue.write_notes()
    bench.kill()
    assert list(read_events(f"{tmp_path}/journal")) == notes


def test_what_an_earlier_run_left_is_put_back_once_all_is_known(tmp_path: object) -> None:
    bench = Bench(str(tmp_path))
    bench.round(wanted(quota(50_000)))
    bench.kill()
    bench.begin(str(tmp_path))
    bench.round(NodePlan())
    assert bench.read("cpu.max") == "50000 100000"
    bench.round(NodePlan(complete=True))
    assert bench.read("cpu.max") == "max 100000"


def test_what_is_wanted_again_after_a_restart_stays(tmp_path: object) -> None:
    bench = Bench(str(tmp_path))
    bench.round(wanted(quota(50_000)))
    bench.kill()
    bench.begin(str(tmp_path))
    bench.round(replace(wanted(quota(50_000)), complete=True))
    assert bench.read("cpu.max") == "50000 100000"


def test_classes_have_their_tasks_in_their_groups_until_nobody_wants_it() -> None:
    bench = Bench()
    pid = bench.node.start_process(f"{BE}/pod1")
    of_class = CacheClass(ResctrlLimits("BE", CacheWays(0, 30)), (f"{BE}/pod1",))
    bench.round(NodePlan(caches=(of_class,)))
    assert str(pid) in bench.node.read("/sys/fs/resctrl/BE/tasks").split()
    bench.round(NodePlan())
    assert not bench.node.exists("/sys/fs/resctrl/BE")


class TestWhetherThereIsAnythingToDo:
    def test_the_same_again_is_nothing(self) -> None:
        one = wanted(quota(5000))
        assert one.differs(NodePlan())
        assert not one.differs(one)
        assert not NodePlan(one.desired).differs(one)

    def test_deeds_and_lines_are_done_each_time(self) -> None:
        one = replace(wanted(quota(5000)), deeds=(("a", (quota(1),)),))
        assert one.differs(one)

    def test_a_strategy_that_went_is_something(self) -> None:
        assert NodePlan().differs(wanted(quota(5000)))
