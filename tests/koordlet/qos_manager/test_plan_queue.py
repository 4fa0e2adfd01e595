from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from koord_host.knobs.layout import Driver, Layout
from koord_host.planning.desired_values import DesiredValue, Owner, Priority, Target
from koord_host.resctrl import ResctrlGroups
from koord_host.resource_executor.baselines import BaselineStore
from koord_host.resource_executor.executor import Executor
from koord_host.resource_executor.journal import DecisionEntry, HookAnswerEntry, Journal
from koord_model.resctrl import CacheWays, ResctrlLimits
from koordlet.qos_manager.core.strategy import CacheClass
from koordlet.qos_manager.plan_queue import NodePlan, PlanQueue
from koordlet.runtime_hooks.reconciler.reconciler import HOOKS, AppliedPlans
from koordlet.runtime_hooks.reconciler.tasks import TaskReconciler

from tests.support.journals import read_events
from tests.support.node import FakeKernel

BE = "kubepods/besteffort"
QUOTA = Target(BE, "cpu.cfs_quota_us")
LAYOUT = Layout(2, Driver.CGROUPFS)


class Bench:
    """A plan queue on a node in memory."""

    def __init__(self, directory: str = "") -> None:
        self.node = FakeKernel(2)
        self.node.cgroups.make_group(f"{BE}/pod1")
        self.begin(directory)

    def begin(self, directory: str = "") -> None:
        """Koordlet starts, with a directory for its journal and baselines."""
        path = f"{directory}/journal" if directory else ""
        self.journal = Journal(path, print)
        self.originals = BaselineStore(f"{directory}/originals" if directory else "")
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

    def round(self, *plans: NodePlan) -> None:
        for one in plans:
            self.plan_queue.put(one)
        self.plan_queue.apply_queued()
        due = self.tasks.set_desired(self.executor, complete=True)
        self.executor.apply()
        self.tasks.reconcile(due=due)
        self.applied = self.plan_queue.take_applied()

    @property
    def quota(self) -> str:
        return self.node.read(f"/sys/fs/cgroup/{BE}/cpu.max").strip()

    def kill(self) -> None:
        """Nothing is rolled back, and the files are closed."""
        self.journal.close()
        self.originals.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """One with a directory."""
    made = Bench(str(tmp_path))
    yield made
    made.kill()


def plan(*values: int, **more: Any) -> NodePlan:
    desired = tuple(DesiredValue(QUOTA, value, "suppressed") for value in values)
    return NodePlan({"cpu_suppress": desired}, **more)


ACTION = DesiredValue(Target(BE, "memory.reclaim"), 1 << 20, "pressure is low")


def test_values_are_written_and_rolled_back_to_those_of_hooks() -> None:
    bench = Bench()
    bench.round(plan(50_000))
    bench.round()
    assert bench.quota == "50000 100000"
    bench.round(NodePlan())
    assert bench.quota == "max 100000"
    hooks = (DesiredValue(QUOTA, 80_000, "hooks"),)
    bench.executor.set_desired(Owner("hooks", Priority.HOOKS), "node", hooks)
    bench.round(plan(50_000))
    assert bench.plan_queue.base(QUOTA) == 80_000
    bench.round(NodePlan())
    assert bench.quota == "80000 100000"


def test_of_several_rounds_the_last_counts_and_each_is_reported_once() -> None:
    bench = Bench()
    bench.round(plan(50_000, one_shot=(("memory_offload", (ACTION,)),)), plan(40_000))
    assert (bench.quota, bench.plan_queue.base(QUOTA)) == ("40000 100000", -1)
    [done] = bench.applied.rounds
    assert (QUOTA, 40_000) in [(one.target, one.new) for one in done.results]
    assert bench.applied.seconds == (2.0, 2.0)
    bench.round()
    assert bench.applied == AppliedPlans()


def test_where_no_job_can_begin_values_are_written_all_the_same() -> None:
    bench = Bench()

    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    bench.executor._actions._jobs.submit = no_thread  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        bench.round(plan(50_000, one_shot=(("memory_offload", (ACTION,)),)))
    assert bench.quota == "50000 100000"


def test_decisions_and_notes_are_in_the_journal_in_order(bench: Bench, tmp_path: Path) -> None:
    line = DecisionEntry("2026-01-31T12:00:00.000Z", "cpu_suppress", "on", "5 CPUs")
    notes = [HookAnswerEntry("t", "PreCreateContainer", "NRI", f"a/{n}", "main") for n in range(3)]
    bench.plan_queue.note(notes[0])
    bench.plan_queue.note(notes[1])
    bench.round(NodePlan(lines=(line,)))
    assert list(read_events(f"{tmp_path}/journal")) == [line, *notes[:2]]
    bench.plan_queue.note(notes[2])
    bench.plan_queue.write_notes()
    bench.kill()
    assert list(read_events(f"{tmp_path}/journal")) == [line, *notes]


@pytest.mark.parametrize(
    ("wanted", "expected"), [(NodePlan(), "max"), (plan(50_000), "50000")], ids=["nothing", "again"]
)
def test_what_an_earlier_run_left_is_rolled_back_once_all_is_known(
    bench: Bench, tmp_path: Path, wanted: NodePlan, expected: str
) -> None:
    bench.round(plan(50_000))
    bench.kill()
    bench.begin(str(tmp_path))
    bench.round(wanted)
    assert bench.quota == "50000 100000"
    bench.round(replace(wanted, complete=True))
    assert bench.quota == f"{expected} 100000"


def test_classes_have_their_tasks_in_their_groups_until_they_are_not_wanted() -> None:
    bench = Bench()
    pid = bench.node.start_process(f"{BE}/pod1")
    of_class = CacheClass(ResctrlLimits("BE", CacheWays(0, 30)), (f"{BE}/pod1",))
    bench.round(NodePlan(caches=(of_class,)))
    assert str(pid) in bench.node.read("/sys/fs/resctrl/BE/tasks").split()
    bench.round(NodePlan())
    assert not bench.node.exists("/sys/fs/resctrl/BE")


def test_whether_there_is_anything_to_do() -> None:
    one, of_class = plan(5000), CacheClass(ResctrlLimits("BE", CacheWays(0, 30)), ())
    assert not one.differs(one)
    assert not NodePlan(one.desired).differs(one)
    for other in (
        NodePlan(),
        replace(one, one_shot=(("a", (ACTION,)),)),
        replace(one, lines=(DecisionEntry("t", "s", "on", "o"),)),
        replace(one, caches=(of_class,)),
        replace(one, complete=True),
    ):
        assert other.differs(one)
