"""The desired state of tasks in cgroups: OOM scores, core scheduling, resctrl groups.

A task that is forked later inherits all three from its parent, so that groups are
checked when their desired state changes and at an interval, not in every round. Cores and resctrl
groups are jobs: they take long on a node with many tasks. Which tasks there are they find out
when they begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from queue import SimpleQueue
from threading import Event

from koord_host.core_sched import CoreSched
from koord_host.kernel_files import processes
from koord_host.kernel_files.interface import FileReader
from koord_host.kernel_files.processes import Process
from koord_host.knobs.layout import Layout
from koord_host.planning.desired_values import DesiredValue, Owner, Target
from koord_host.planning.jobs import CancelToken, InlineJobs, Job, JobKey, Jobs
from koord_host.resctrl import ResctrlGroups, Tenant
from koord_host.resource_executor.executor import Executor
from koord_model.core_sched import CoreSchedGroup
from koord_model.node_slo import NodeSLO
from koord_model.resctrl import ResctrlLimits, class_limits

from koordlet.runtime_hooks.reconciler.desired_state import DesiredState
from koordlet.runtime_hooks.reconciler.resctrl_groups import ResctrlReconciler

CORES_SECONDS = 60.0
CORES = JobKey("core scheduling")


class TaskReconciler:
    """The desired state of every scope, and its tasks.

    ``core_sched`` and ``resctrl`` are ``None`` where they are not to be used. ``jobs`` does
    what takes long; without it, that is done at once.
    """

    def __init__(
        self,
        owner: Owner,
        reader: FileReader,
        layout: Layout,
        monotonic: Callable[[], float],
        refresh_seconds: float,
        core_sched: CoreSched | None = None,
        resctrl: ResctrlGroups | None = None,
        jobs: Jobs | None = None,
    ) -> None:
        self._owner = owner
        self._reader = reader
        self._layout = layout
        self._monotonic = monotonic
        self._refresh_seconds = refresh_seconds
        self._core_sched = core_sched
        self._shares_cores = False
        self._jobs = jobs or InlineJobs(monotonic)
        self._problems: SimpleQueue[str] = SimpleQueue()
        self._mistaken = Event()
        self._caches = None
        if resctrl is not None:
            self._caches = ResctrlReconciler(resctrl, self._jobs, self._problems.put)
        self._held: dict[str, DesiredState] = {}
        self._changed = False
        self._complete = False
        self._looked_at = float("-inf")
        self._shared: Mapping[str, ResctrlLimits] = {}

    @property
    def cache_groups(self) -> frozenset[str]:
        """The resctrl groups that containers may start in; for any thread."""
        return self._caches.made if self._caches is not None else frozenset()

    def hold(self, desired: DesiredState) -> None:
        """Set the desired state of a scope."""
        if desired.tasks or desired.resctrl is not None:
            self._held[desired.scope] = desired
            self._changed = True
        else:
            self.forget(desired.scope)

    def forget(self, scope: str) -> None:
        """A scope wants nothing any more."""
        before = self._held.pop(scope, None)
        self._changed |= before is not None
        if before is not None and before.resctrl is not None and self._caches is not None:
            self._caches.end(before.resctrl.group)

    def forget_left(self) -> None:
        """Nobody wants the shared groups of an earlier run but those who have said so."""
        if self._caches is not None:
            self._changed |= self._caches.forget_left()

    def share(self, slo: NodeSLO) -> None:
        """Set the limits for pods whose class has to share a resctrl group."""
        self._shared = class_limits(slo)
        self._changed = True

    def set_desired(self, executor: Executor, *, complete: bool) -> bool:
        """Have the executor write scores, where something has changed or it is time to look.

        Unless what is held is ``complete``, groups of pods that are not known yet
        are left: after a start they may well be running.

        Returns:
            Whether the rest is due, too, which is to be reconciled after these writes.
        """
        now = self._monotonic()
        # Once all are known, groups of an earlier run can go.
        self._changed |= complete != self._complete
        self._complete = complete
        self._changed |= self._mistaken.is_set()
        if not self._changed and not (
            self._held and now >= self._looked_at + self._refresh_seconds
        ):
            return False
        executor.set_desired(self._owner, "oom scores", tuple(self._all_scores()))
        return True

    def reconcile(self, *, due: bool) -> tuple[str, ...]:
        """Bring cores and resctrl groups in line, if that is due.

        Returns:
            Lines for people about what could not be done, of jobs that have ended since.
        """
        if due:
            self._mistaken.clear()
            self._reconcile_core_sched()
            self._reconcile_resctrl(self._complete)
            self._changed, self._looked_at = False, self._monotonic()
        return tuple(self._problems.get() for _ in range(self._problems.qsize()))

    def _all_scores(self) -> Iterator[DesiredValue]:
        for held in self._held.values():
            for task in held.tasks:
                if task.oom_score_adj is None:
                    continue  # its processes need not be listed
                why = f"tasks of {task.group}"
                for process in self._processes(task.group):
                    target = Target(process.place, "oom_score_adj")
                    yield DesiredValue(target, task.oom_score_adj, why, held.pod)

    def _reconcile_core_sched(self) -> None:
        groups: dict[CoreSchedGroup, tuple[str, ...]] = {}
        for held in self._held.values():
            for task in held.tasks:
                if task.core_sched is not None:
                    groups[task.core_sched] = (*groups.get(task.core_sched, ()), task.group)
        if self._core_sched is not None and (groups or self._shares_cores):
            self._shares_cores = bool(groups)
            work = partial(self._share_cores, self._core_sched, groups)
            self._jobs.submit(Job(CORES, CORES_SECONDS, work))

    def _share_cores(
        self,
        core_sched: CoreSched,
        groups: Mapping[CoreSchedGroup, tuple[str, ...]],
        cancel: CancelToken,
    ) -> None:
        """In the job's thread."""
        tasks = {
            group: tuple(process for member in members for process in self._processes(member))
            for group, members in groups.items()
        }
        report = core_sched.reconcile(tasks, cancel)
        for line in report.errors:
            self._problems.put(line)
        if report.mistaken:
            # They may be another group's, whose turn is over.
            self._mistaken.set()

    def _reconcile_resctrl(self, complete: bool) -> None:
        if self._caches is not None:
            held = self._held.values()
            tenants = (
                self._tenant(state, state.resctrl) for state in held if state.resctrl is not None
            )
            self._caches.submit(tuple(tenants), self._shared, complete=complete)

    def _tenant(self, desired: DesiredState, limits: ResctrlLimits) -> Tenant:
        return Tenant(limits, partial(self._all_threads, desired.groups), desired.pod)

    def _all_threads(self, groups: tuple[str, ...]) -> tuple[int, ...]:
        file = "cgroup.threads" if self._layout.version == 2 else "tasks"
        paths = (f"{self._layout.group_path(group, 'cpu')}/{file}" for group in groups)
        return tuple(thread for path in paths for thread in processes.listed(self._reader, path))

    def _processes(self, group: str) -> tuple[Process, ...]:
        """The processes in a group; none where it is gone."""
        layout = self._layout
        return processes.in_group(self._reader, layout.proc_root, group, layout.list_file(group))
