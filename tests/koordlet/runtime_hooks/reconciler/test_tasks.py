"""Wishes about tasks, whichever there are in a group at the time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
from koord_host.core_sched import CoreSched
from koord_host.kernel_files.processes import held
from koord_host.knobs.layout import Driver, Layout
from koord_host.planning.jobs import Jobs
from koord_host.planning.outcomes import Outcome
from koord_host.resctrl import ResctrlGroups
from koord_host.resource_executor.baselines import BaselineStore
from koord_host.resource_executor.executor import Executor
from koord_host.resource_executor.journal import Journal
from koord_model.core_sched import NO_GROUP, CoreSchedGroup, GroupKind
from koord_model.node_slo import ClassQoS, NodeSLO, ResctrlQoS
from koord_model.qos import QoSClass
from koord_model.resctrl import CacheWays, ResctrlLimits
from koordlet.runtime_hooks.reconciler.desired_state import DesiredState, DesiredTasks
from koordlet.runtime_hooks.reconciler.reconciler import HOOKS
from koordlet.runtime_hooks.reconciler.tasks import TaskReconciler

from tests.support.fake_node import FakeNode
from tests.support.held_jobs import HeldJobs

POD, OTHER = "kubepods/podu1", "kubepods/podu2"
MAIN = f"{POD}/c1"
SHOP = CoreSchedGroup(GroupKind.LABEL, "shop")
CACHE = ResctrlLimits("koordlet-u1", llc=CacheWays(0, 50), fallback=QoSClass.BE)


def wished(
    *tasks: DesiredTasks, scope: str = "pod u1", resctrl: ResctrlLimits | None = None
) -> DesiredState:
    groups = (POD, MAIN) if resctrl else ()
    return DesiredState(scope, "shop/web-1", tasks=tasks, resctrl=resctrl, groups=groups)


class Bench:
    """Tasks on a node in memory, all of it to be had, and a clock that the test turns."""

    def __init__(
        self, version: int = 2, left: tuple[str, ...] = (), jobs: Jobs | None = None
    ) -> None:
        self.node = FakeNode(version)
        for name in left:
            self.node.make_directory(f"/sys/fs/resctrl/{name}")
        for group in (MAIN, f"{OTHER}/c2"):
            self.node.cgroups.make_group(group)
        self.now = 0.0
        layout = Layout(version, Driver.CGROUPFS)
        self.lines: list[tuple[str, ...]] = []

        def record(*line: str) -> None:
            self.lines.append(line)

        self.executor = Executor(
            self.node,
            layout,
            Journal("", print),
            BaselineStore("", print),
            clock=lambda: self.now,
            monotonic=lambda: self.now,
        )
        self.tasks = TaskReconciler(
            HOOKS,
            self.node,
            layout,
            lambda: self.now,
            60.0,
            CoreSched(record, partial(held, self.node, "/proc"), self.node.prctl),
            ResctrlGroups(self.node, record=record, made=left),
            jobs,
        )

    def level(self, *, complete: bool = True) -> tuple[str, ...]:
        troubles = self.tasks.reconcile(self.executor, complete=complete)
        self.executor.apply()
        return troubles

    def score(self, pid: int) -> str:
        return self.node.read(f"/proc/{pid}/oom_score_adj").strip()

    def in_group(self, name: str) -> set[int]:
        return {int(one) for one in self.node.read(f"/sys/fs/resctrl/{name}/tasks").split()}


@pytest.fixture(params=[1, 2])
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(request.param)


class TestScores:
    def test_the_tasks_of_a_group_get_the_score_and_no_others_do(self, bench: Bench) -> None:
        one, two = bench.node.start_process(MAIN), bench.node.start_process(MAIN)
        sandbox = bench.node.start_process(f"{OTHER}/c2", -998)
        bench.tasks.hold(wished(DesiredTasks(MAIN, oom_score_adj=500)))
        assert bench.level() == ()
        assert [bench.score(pid) for pid in (one, two, sandbox)] == ["500", "500", "-998"]

    def test_what_starts_later_is_found_at_the_interval(self, bench: Bench) -> None:
        bench.tasks.hold(wished(DesiredTasks(MAIN, oom_score_adj=500)))
        bench.level()
        late = bench.node.start_process(MAIN)
        bench.now += 59
        bench.level()
        assert bench.score(late) == "0"
        bench.now += 2
        bench.level()
        assert bench.score(late) == "500"

    def test_a_task_or_a_group_that_has_ended_is_no_trouble(self, bench: Bench) -> None:
        pid = bench.node.start_process(MAIN)
        bench.tasks.hold(wished(DesiredTasks(MAIN, oom_score_adj=500)))
        bench.level()
        bench.node.end_process(pid)
        bench.now += 61
        assert bench.level() == ()
        bench.node.remove_group(POD)
        bench.now += 61
        assert bench.level() == ()

    @pytest.mark.parametrize("there", [OTHER + "/c2", MAIN])
    def test_a_pid_that_is_used_again_is_nobody_of_the_group(
        self, bench: Bench, there: str
    ) -> None:
        """Also where it has gone to the group's own: the next listing names that process."""
        early, late = (bench.node.start_process(MAIN) for _ in range(2))
        bench.tasks.hold(wished(DesiredTasks(MAIN, oom_score_adj=500)))
        bench.tasks.reconcile(bench.executor, complete=True)
        bench.node.reuse_pid(early, there, -998)
        assert Counter(one.outcome for one in bench.executor.apply().results) == {
            Outcome.GONE: 1,
            Outcome.WRITTEN: 1,
        }
        bench.node.reuse_pid(late, there, -998)
        bench.now += 61
        bench.executor.apply()
        assert [bench.score(pid) for pid in (early, late)] == ["-998", "-998"]
        bench.level()
        expected = "500" if there == MAIN else "-998"
        assert [bench.score(pid) for pid in (early, late)] == [expected, expected]

    def test_nothing_is_looked_for_where_nothing_is_held(self, bench: Bench) -> None:
        bench.level()
        bench.tasks.hold(wished(DesiredTasks(MAIN, oom_score_adj=500)))
        bench.tasks.hold(wished())
        pid = bench.node.start_process(MAIN)
        bench.now += 61
        bench.level()
        assert bench.score(pid) == "0"


class TestCores:
    def test_groups_of_the_same_name_share_whoever_wished_them(self, bench: Bench) -> None:
        one, two = bench.node.start_process(MAIN), bench.node.start_process(f"{OTHER}/c2")
        alone = bench.node.start_process(POD + "/c1")
        bench.tasks.hold(wished(DesiredTasks(MAIN, core_sched=SHOP)))
        bench.tasks.hold(wished(DesiredTasks(f"{OTHER}/c2", core_sched=SHOP), scope="pod u2"))
        assert bench.level() == ()
        assert bench.node.cookies[one] == bench.node.cookies[two] != 0
        bench.tasks.hold(wished(DesiredTasks(f"{OTHER}/c2", core_sched=NO_GROUP), scope="pod u2"))
        bench.level()
        assert bench.node.cookies[two] == 0
        assert bench.node.cookies[alone] == bench.node.cookies[one] != 0

    def test_a_node_without_is_left_alone(self) -> None:
        bench = Bench()
        bench.tasks._core_sched = None
        pid = bench.node.start_process(MAIN)
        bench.tasks.hold(wished(DesiredTasks(MAIN, core_sched=SHOP)))
        assert bench.level() == ()
        assert bench.node.cookies[pid] == 0


class TestCaches:
    def test_the_tasks_of_a_pod_are_in_its_group_while_it_lives(self, bench: Bench) -> None:
        pid = bench.node.start_process(MAIN)
        bench.tasks.hold(wished(resctrl=CACHE))
        assert bench.level() == ()
        assert bench.in_group("koordlet-u1") == {pid}
        assert bench.tasks.cache_groups == {"koordlet-u1"}
        bench.tasks.forget("pod u1")
        bench.level(complete=False)
        assert not bench.node.exists("/sys/fs/resctrl/koordlet-u1")
        assert bench.tasks.cache_groups == frozenset()

    def test_groups_of_pods_not_told_of_yet_are_left(self, bench: Bench) -> None:
        bench.node.make_directory("/sys/fs/resctrl/koordlet-u9")
        bench.tasks.hold(wished(resctrl=CACHE))
        bench.level(complete=False)
        assert bench.node.exists("/sys/fs/resctrl/koordlet-u9")
        bench.now += 61
        bench.level(complete=True)
        assert not bench.node.exists("/sys/fs/resctrl/koordlet-u9")
        assert bench.node.exists("/sys/fs/resctrl/koordlet-u1")

    def test_where_none_is_left_the_class_shares_one_with_the_node_s_rules(self) -> None:
        bench = Bench()
        for name in range(4):
            bench.node.make_directory(f"/sys/fs/resctrl/somebody-s-{name}")
        pid = bench.node.start_process(MAIN)
        enabled = ClassQoS(resctrl=ResctrlQoS(enable=True, cat_end=30))
        bench.tasks.share(NodeSLO(classes={QoSClass.BE: enabled}))
        bench.tasks.hold(wished(resctrl=CACHE))
        [line] = bench.level()
        assert line.startswith(
            "pod shop/web-1: llc 0–50 % not applied: no resctrl group of its own"
        )
        assert bench.in_group("BE") == {pid}
        assert "L3:0=0003f" in bench.node.read("/sys/fs/resctrl/BE/schemata").replace(" ", "")

    def test_a_class_s_group_is_there_as_long_as_a_scope_wishes_it(self, bench: Bench) -> None:
        of_class = wished(scope="class BE", resctrl=ResctrlLimits("BE", llc=CacheWays(0, 30)))
        bench.node.resctrl.add_task(7)
        bench.tasks.hold(of_class)
        assert bench.level() == ()
        assert bench.tasks.cache_groups == {"BE"}
        bench.tasks.forget("class BE")
        assert bench.level() == ()
        assert not bench.node.exists("/sys/fs/resctrl/BE")

    def test_a_class_s_group_stays_for_a_pod_that_got_none_of_its_own(self) -> None:
        bench = Bench()
        bench.tasks.hold(
            wished(scope="class BE", resctrl=ResctrlLimits("BE", llc=CacheWays(0, 30)))
        )
        bench.level()
        bench.node.resctrl.closids = 2
        bench.tasks.hold(wished(resctrl=CACHE))
        bench.level()
        assert bench.tasks.cache_groups == {"BE"}
        bench.tasks.forget("class BE")
        bench.level()
        assert bench.node.exists("/sys/fs/resctrl/BE")

    def test_resctrl_that_is_taken_away_is_no_defect(self) -> None:
        bench = Bench()
        bench.tasks.hold(wished(resctrl=CACHE))
        bench.level()
        bench.node._has_resctrl = False
        bench.tasks.hold(wished(resctrl=replace(CACHE, mb=10)))
        assert bench.level(complete=False) == ()
        assert bench.tasks.cache_groups == frozenset()


class TestCachesOfAnEarlierRun:
    def there(self, bench: Bench) -> set[str]:
        return {"BE", "LS"} & {*bench.node.entries("/sys/fs/resctrl")}

    def test_they_stay_until_it_is_known_who_wants_them(self) -> None:
        bench = Bench(left=("BE", "LS"))
        bench.level()
        assert self.there(bench) == {"BE", "LS"}
        ls = ResctrlLimits("LS", llc=CacheWays(0, 50))
        bench.tasks.hold(wished(scope="class LS", resctrl=ls))
        bench.tasks.forget_left()
        bench.level()
        assert self.there(bench) == {"LS"}

    def test_one_that_was_wanted_and_is_no_more_goes_at_once(self) -> None:
        bench = Bench(left=("BE", "LS"))
        bench.tasks.hold(
            wished(scope="class LS", resctrl=ResctrlLimits("LS", llc=CacheWays(0, 50)))
        )
        bench.level()
        bench.tasks.forget("class LS")
        bench.level()
        assert self.there(bench) == {"BE"}


class TestAsJobs:
    """Cores and resctrl groups are done aside, and tell in a later round."""

    def bench(self) -> tuple[Bench, HeldJobs]:
        jobs = HeldJobs()
        return Bench(jobs=jobs), jobs

    def test_tasks_are_those_there_are_when_it_begins(self) -> None:
        bench, jobs = self.bench()
        ended = bench.node.start_process(MAIN)
        bench.tasks.hold(wished(DesiredTasks(MAIN, core_sched="shop"), resctrl=CACHE))
        bench.level()
        bench.node.end_process(ended)
        late = bench.node.start_process(MAIN)
        jobs.run()
        assert bench.in_group("koordlet-u1") == {late}
        assert bench.node.cookies[late] != 0

    def test_troubles_are_told_in_the_round_after_it(self) -> None:
        bench, jobs = self.bench()
        for name in range(4):
            bench.node.make_directory(f"/sys/fs/resctrl/somebody-s-{name}")
        bench.tasks.hold(wished(resctrl=CACHE))
        assert bench.level() == ()
        jobs.run()
        [line] = bench.level()
        assert line.startswith("pod shop/web-1: llc 0–50 % not applied")
        assert bench.level() == ()

    def test_what_no_group_of_cores_is_wanted_for_is_asked_for_once_more(self) -> None:
        bench, jobs = self.bench()
        pid = bench.node.start_process(MAIN)
        bench.tasks.hold(wished(DesiredTasks(MAIN, core_sched="shop")))
        bench.level()
        bench.tasks.forget("pod u1")
        bench.level()
        jobs.run()
        assert bench.node.cookies[pid] == 0, "what was wanted before is not done late"

    def test_no_container_is_told_to_start_in_a_group_that_goes(self) -> None:
        bench, jobs = self.bench()
        bench.tasks.hold(wished(resctrl=CACHE))
        bench.level()
        assert bench.tasks.cache_groups == frozenset(), "nor in one that is yet to be made"
        jobs.run()
        assert bench.tasks.cache_groups == {"koordlet-u1"}
        bench.tasks.forget("pod u1")
        bench.level()
        seen: list[frozenset[str]] = []
        remove = bench.node.remove_directory

        def removed(path: str) -> None:
            seen.append(bench.tasks.cache_groups)
            remove(path)

        bench.node.remove_directory = removed  # type: ignore[method-assign]
        jobs.run()
        assert seen == [frozenset()]

    def test_a_group_that_ended_goes_though_the_job_that_was_to_do_it_was_replaced(self) -> None:
        bench, jobs = self.bench()
        bench.node.make_directory("/sys/fs/resctrl/koordlet-u9")
        bench.tasks.hold(wished(resctrl=CACHE))
        bench.level(complete=False)
        jobs.run()
        bench.tasks.forget("pod u1")
        bench.level(complete=False)
        bench.tasks.hold(wished(DesiredTasks(MAIN, core_sched="shop")))
        bench.level(complete=False)
        jobs.run()
        assert not bench.node.exists("/sys/fs/resctrl/koordlet-u1")
        assert bench.node.exists("/sys/fs/resctrl/koordlet-u9"), "it may be a pod's"

    def test_a_group_that_begins_again_meanwhile_and_ends_again_goes_too(self) -> None:
        bench, jobs = self.bench()
        bench.tasks.hold(wished(resctrl=CACHE))
        bench.level(complete=False)
        bench.tasks.forget("pod u1")
        bench.level(complete=False)
        running = jobs.queue.begin("resctrl")
        assert running is not None
        bench.tasks.hold(wished(resctrl=CACHE))
        bench.tasks.forget("pod u1")
        running.job.work(running.token)
        jobs.queue.end(running)
        bench.node.make_directory("/sys/fs/resctrl/koordlet-u1")
        bench.level(complete=False)
        jobs.run()
        assert not bench.node.exists("/sys/fs/resctrl/koordlet-u1")

    def test_one_that_was_stopped_leaves_what_it_did_not_come_to_as_it_was(self) -> None:
        bench, jobs = self.bench()
        other = replace(CACHE, group="koordlet-u2")
        bench.tasks.hold(wished(resctrl=CACHE))
        bench.tasks.hold(wished(scope="pod u2", resctrl=other))
        bench.level()
        jobs.run()
        bench.now += 61
        bench.level()
        running = jobs.queue.begin("resctrl")
        assert running is not None
        running.token.cancel()
        running.job.work(running.token)
        jobs.queue.end(running)
        assert bench.tasks.cache_groups == {"koordlet-u1", "koordlet-u2"}
        [line] = bench.level()
        assert line == "resctrl: it was cancelled (the next look goes on)"
