"""Desired values of tasks, whichever there are in a group at the time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from koord_host.core_sched import CoreSched
from koord_host.kernel_files.processes import held
from koord_host.planning.jobs import Jobs
from koord_host.planning.outcomes import Outcome
from koord_host.resctrl import ResctrlGroups
from koord_model.core_sched import NO_GROUP, CoreSchedGroup, GroupKind
from koord_model.node_slo import ClassQoS, NodeSLO, ResctrlQoS
from koord_model.qos import QoSClass
from koord_model.resctrl import CacheWays, ResctrlLimits
from koordlet.runtime_hooks.reconciler.desired_state import DesiredState, DesiredTasks
from koordlet.runtime_hooks.reconciler.reconciler import HOOKS
from koordlet.runtime_hooks.reconciler.tasks import TaskReconciler

from tests.support.held_jobs import HeldJobs
from tests.support.node import NodeFixture

POD, OTHER = "kubepods/podu1", "kubepods/podu2/c2"
MAIN = f"{POD}/c1"
SHOP = CoreSchedGroup(GroupKind.LABEL, "shop")
CACHE = ResctrlLimits("koordlet-u1", llc=CacheWays(0, 50), fallback=QoSClass.BE)
OF_BE, OF_LS = (ResctrlLimits(name, llc=CacheWays(0, 30)) for name in ("BE", "LS"))


class Bench(NodeFixture):
    """Two containers; tasks are reconciled by the test's clock."""

    def __init__(
        self, version: int = 2, *others: str, left: tuple[str, ...] = (), jobs: Jobs | None = None
    ) -> None:
        super().__init__(version=version)
        for name in (*others, *left):
            self.files.make_directory(f"/sys/fs/resctrl/{name}")
        for group in (MAIN, OTHER):
            self.files.cgroups.make_group(group)
        self.apply = self.executor()
        record: Any = lambda *_: None  # noqa: E731
        self.tasks = TaskReconciler(
            HOOKS,
            self.files,
            self.layout,
            lambda: self.steady,
            60.0,
            CoreSched(record, partial(held, self.files, "/proc"), self.files.prctl),
            ResctrlGroups(self.files, record=record, made=left),
            jobs,
        )

    def want(
        self, *tasks: DesiredTasks, scope: str = "pod u1", resctrl: ResctrlLimits | None = None
    ) -> None:
        groups = (POD, MAIN) if resctrl else ()
        wanted = DesiredState(scope, "shop/web-1", tasks=tasks, resctrl=resctrl, groups=groups)
        self.tasks.hold(wanted)

    def reconcile(self, after: float = 0.0, *, complete: bool = True) -> tuple[str, ...]:
        """Reconcile after some seconds; what could not be done."""
        self.steady += after
        due = self.tasks.set_desired(self.apply, complete=complete)
        self.apply.apply()
        return self.tasks.reconcile(due=due)

    def scores(self, *pids: int) -> list[int]:
        return [int(self.files.read(f"/proc/{pid}/oom_score_adj")) for pid in pids]

    def in_group(self, name: str) -> set[int]:
        return {int(one) for one in self.files.read(f"/sys/fs/resctrl/{name}/tasks").split()}

    def caches(self) -> set[str]:
        """The resctrl groups that are there."""
        names = self.files.entries("/sys/fs/resctrl")
        return {*names} - {"info", "mon_data", "mon_groups"}


@pytest.fixture(params=[1, 2])
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(request.param)


class TestScores:
    WANTED = DesiredTasks(MAIN, oom_score_adj=500)

    def test_the_tasks_of_a_group_get_the_score_and_no_others_do(self, bench):
        pids = [bench.files.start_process(MAIN) for _ in range(2)]
        pids.append(bench.files.start_process(OTHER, -998))
        bench.want(self.WANTED)
        assert bench.reconcile() == ()
        assert bench.scores(*pids) == [500, 500, -998]

    def test_what_starts_later_is_found_at_the_interval(self, bench):
        bench.want(self.WANTED)
        bench.reconcile()
        late = bench.files.start_process(MAIN)
        for after, score in ((59, 0), (2, 500)):
            bench.reconcile(after)
            assert bench.scores(late) == [score]

    def test_a_task_or_a_group_that_has_ended_is_no_problem(self, bench):
        pid = bench.files.start_process(MAIN)
        bench.want(self.WANTED)
        bench.reconcile()
        bench.files.end_process(pid)
        assert bench.reconcile(61) == ()
        bench.files.remove_group(POD)
        assert bench.reconcile(61) == ()

    @pytest.mark.parametrize(("there", "score"), [(OTHER, -998), (MAIN, 500)])
    def test_a_reused_pid_is_left_until_the_next_listing(self, bench, there, score):
        early, late = (bench.files.start_process(MAIN) for _ in range(2))
        bench.want(self.WANTED)
        bench.tasks.set_desired(bench.apply, complete=True)
        bench.files.reuse_pid(early, there, -998)
        outcomes = Counter(one.outcome for one in bench.apply.apply().results)
        assert outcomes == {Outcome.GONE: 1, Outcome.WRITTEN: 1}
        bench.files.reuse_pid(late, there, -998)
        bench.steady += 61
        bench.apply.apply()
        assert bench.scores(early, late) == [-998, -998]
        bench.reconcile()
        assert bench.scores(early, late) == [score, score]

    def test_nothing_is_looked_for_where_nothing_is_wanted(self, bench):
        bench.reconcile()
        bench.want(self.WANTED)
        bench.want()
        pid = bench.files.start_process(MAIN)
        bench.reconcile(61)
        assert bench.scores(pid) == [0]


class TestCores:
    def test_groups_of_the_same_name_share_whichever_scope_wants_them(self, bench):
        one, two, three = map(bench.files.start_process, (MAIN, OTHER, MAIN))
        cookies = bench.files.cookies
        bench.want(DesiredTasks(MAIN, core_sched=SHOP))
        bench.want(DesiredTasks(OTHER, core_sched=SHOP), scope="pod u2")
        assert bench.reconcile() == ()
        assert cookies[one] == cookies[two] != 0
        bench.want(DesiredTasks(OTHER, core_sched=NO_GROUP), scope="pod u2")
        bench.reconcile()
        assert cookies[two] == 0
        assert cookies[three] == cookies[one] != 0

    def test_a_node_without_core_scheduling(self):
        bench = Bench()
        bench.tasks._core_sched = None
        pid = bench.files.start_process(MAIN)
        bench.want(DesiredTasks(MAIN, core_sched=SHOP))
        assert bench.reconcile() == ()
        assert bench.files.cookies[pid] == 0


class TestCaches:
    def test_the_tasks_of_a_pod_are_in_its_group_while_it_lives(self, bench):
        pid = bench.files.start_process(MAIN)
        bench.want(resctrl=CACHE)
        assert bench.reconcile() == ()
        assert bench.in_group("koordlet-u1") == {pid}
        assert bench.tasks.cache_groups == {"koordlet-u1"}
        bench.tasks.forget("pod u1")
        bench.reconcile(complete=False)
        assert bench.caches() == set()
        assert bench.tasks.cache_groups == frozenset()

    def test_groups_of_pods_that_may_not_be_known_yet_are_left(self):
        bench = Bench(2, "koordlet-u9")
        bench.want(resctrl=CACHE)
        bench.reconcile(complete=False)
        assert bench.caches() == {"koordlet-u1", "koordlet-u9"}
        bench.reconcile(61, complete=True)
        assert bench.caches() == {"koordlet-u1"}

    def test_without_a_free_group_a_pod_shares_its_class_s_by_the_node_s_rules(self):
        bench = Bench(2, *"abcd")
        pid = bench.files.start_process(MAIN)
        enabled = ClassQoS(resctrl=ResctrlQoS(enable=True, cat_end=30))
        bench.tasks.share(NodeSLO(classes={QoSClass.BE: enabled}))
        bench.want(resctrl=CACHE)
        [line] = bench.reconcile()
        assert line.startswith("pod shop/web-1: llc 0–50 % not applied: no resctrl group of its")
        assert bench.in_group("BE") == {pid}
        assert "L3:0=0003f" in bench.files.read("/sys/fs/resctrl/BE/schemata").replace(" ", "")

    def test_a_class_s_group_is_there_as_long_as_a_scope_wants_it(self, bench):
        bench.files.resctrl.add_task(7)
        bench.want(scope="class BE", resctrl=OF_BE)
        assert bench.reconcile() == ()
        assert bench.tasks.cache_groups == {"BE"}
        bench.tasks.forget("class BE")
        assert bench.reconcile() == ()
        assert bench.caches() == set()

    def test_a_class_s_group_stays_for_a_pod_without_a_group_of_its_own(self):
        bench = Bench()
        bench.want(scope="class BE", resctrl=OF_BE)
        bench.reconcile()
        bench.files.resctrl.closids = 2
        bench.want(resctrl=CACHE)
        bench.reconcile()
        assert bench.tasks.cache_groups == {"BE"}
        bench.tasks.forget("class BE")
        bench.reconcile()
        assert bench.caches() == {"BE"}

    def test_resctrl_that_is_unmounted_is_no_defect(self):
        bench = Bench()
        bench.want(resctrl=CACHE)
        bench.reconcile()
        bench.files._has_resctrl = False
        bench.want(resctrl=replace(CACHE, mb=10))
        assert bench.reconcile(complete=False) == ()
        assert bench.tasks.cache_groups == frozenset()

    def test_groups_of_an_earlier_run_stay_until_it_is_known_who_wants_them(self):
        bench = Bench(left=("BE", "LS"))
        bench.reconcile()
        assert bench.caches() == {"BE", "LS"}
        bench.want(scope="class LS", resctrl=OF_LS)
        bench.tasks.forget_left()
        bench.reconcile()
        assert bench.caches() == {"LS"}

    def test_of_an_earlier_run_one_that_was_wanted_and_is_not_any_more_goes_at_once(self):
        bench = Bench(left=("BE", "LS"))
        bench.want(scope="class LS", resctrl=OF_LS)
        bench.reconcile()
        bench.tasks.forget("class LS")
        bench.reconcile()
        assert bench.caches() == {"BE"}


class TestAsJobs:
    """Cores and resctrl groups are jobs, and report in a later round."""

    @pytest.fixture
    def jobs(self) -> HeldJobs:
        return HeldJobs()

    @pytest.fixture
    def bench(self, jobs: HeldJobs) -> Bench:
        return Bench(jobs=jobs)

    def test_tasks_are_those_there_are_when_the_job_begins(self, bench, jobs):
        ended = bench.files.start_process(MAIN)
        bench.want(DesiredTasks(MAIN, core_sched=SHOP), resctrl=CACHE)
        bench.reconcile()
        bench.files.end_process(ended)
        late = bench.files.start_process(MAIN)
        jobs.run()
        assert bench.in_group("koordlet-u1") == {late}
        assert bench.files.cookies[late] != 0

    def test_problems_are_reported_once_in_the_round_after_it(self, jobs):
        bench = Bench(2, *"abcd", jobs=jobs)
        bench.want(resctrl=CACHE)
        assert bench.reconcile() == ()
        jobs.run()
        [line] = bench.reconcile()
        assert line.startswith("pod shop/web-1: llc 0–50 % not applied")
        assert bench.reconcile() == ()

    def test_cores_that_are_not_wanted_any_more_are_not_shared_late(self, bench, jobs):
        pid = bench.files.start_process(MAIN)
        bench.want(DesiredTasks(MAIN, core_sched=SHOP))
        bench.reconcile()
        bench.tasks.forget("pod u1")
        bench.reconcile()
        jobs.run()
        assert bench.files.cookies[pid] == 0

    def test_containers_may_start_in_a_group_from_its_making_to_just_before_its_removal(
        self, bench, jobs, monkeypatch
    ):
        bench.want(resctrl=CACHE)
        bench.reconcile()
        assert bench.tasks.cache_groups == frozenset()
        jobs.run()
        assert bench.tasks.cache_groups == {"koordlet-u1"}
        bench.tasks.forget("pod u1")
        bench.reconcile()
        seen: list[frozenset[str]] = []
        removed = lambda _: seen.append(bench.tasks.cache_groups)  # noqa: E731
        monkeypatch.setattr(bench.files, "remove_directory", removed)
        jobs.run()
        assert seen == [frozenset()]

    def test_a_group_that_ended_goes_though_its_job_was_replaced(self, bench, jobs):
        bench.files.make_directory("/sys/fs/resctrl/koordlet-u9")
        bench.want(resctrl=CACHE)
        bench.reconcile(complete=False)
        jobs.run()
        bench.tasks.forget("pod u1")
        bench.reconcile(complete=False)
        bench.want(DesiredTasks(MAIN, core_sched=SHOP))
        bench.reconcile(complete=False)
        jobs.run()
        assert bench.caches() == {"koordlet-u9"}, "it may be a pod's"

    def test_a_group_that_begins_and_ends_again_meanwhile_goes_too(self, bench, jobs):
        bench.want(resctrl=CACHE)
        bench.reconcile(complete=False)
        bench.tasks.forget("pod u1")
        bench.reconcile(complete=False)
        running = jobs.queue.begin("resctrl")
        assert running is not None
        bench.want(resctrl=CACHE)
        bench.tasks.forget("pod u1")
        running.job.work(running.token)
        jobs.queue.end(running)
        bench.files.make_directory("/sys/fs/resctrl/koordlet-u1")
        bench.reconcile(complete=False)
        jobs.run()
        assert bench.caches() == set()

    def test_a_cancelled_job_leaves_what_it_did_not_come_to_as_it_was(self, bench, jobs):
        bench.want(resctrl=CACHE)
        bench.want(scope="pod u2", resctrl=replace(CACHE, group="koordlet-u2"))
        bench.reconcile()
        jobs.run()
        bench.reconcile(61)
        running = jobs.queue.begin("resctrl")
        assert running is not None
        running.token.cancel()
        running.job.work(running.token)
        jobs.queue.end(running)
        assert bench.tasks.cache_groups == {"koordlet-u1", "koordlet-u2"}
        assert bench.reconcile() == ("resctrl: it was cancelled (the next look goes on)",)
