"""Desired resctrl groups and their tasks: decided here, done as a job.

Moving the threads of a large pod, one write each, takes its time; no round waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue

from koord_host.planning.jobs import CancelToken, Job, JobKey, Jobs
from koord_host.resctrl import ResctrlGroups, Tenant
from koord_model.resctrl import ResctrlLimits

SECONDS = 60.0
KEY = JobKey("resctrl")


@dataclass(frozen=True, slots=True)
class _DesiredGroups:
    """Groups and tasks that a job is to bring about.

    ``left`` are groups of an earlier run that stay. ``ended`` are groups that nobody
    wants any more, each with the number of its end; unless all pods are known
    (``complete``), others that nobody wants stay too.
    """

    tenants: tuple[Tenant, ...]
    shared: Mapping[str, ResctrlLimits]
    left: frozenset[str]
    ended: Mapping[str, int]
    complete: bool


class ResctrlReconciler:
    """The resctrl groups; ``log`` is called in the job's thread with lines about problems."""

    def __init__(self, groups: ResctrlGroups, jobs: Jobs, log: Callable[[str], None]) -> None:
        self.made: frozenset[str] = frozenset()
        """Groups that containers may start in; for any thread."""
        self._groups = groups
        self._jobs = jobs
        self._log = log
        self._left = groups.shared
        self._ended: dict[str, int] = {}
        self._ends = 0
        self._collected: SimpleQueue[Mapping[str, int]] = SimpleQueue()
        # The job's own: one runs at a time.
        self._placed: Mapping[str, str] = {}

    def end(self, group: str) -> None:
        """End a group that nobody wants any more."""
        self._ends += 1
        self._ended[group] = self._ends
        self._left -= {group}

    def forget_left(self) -> bool:
        """Nobody wants the shared groups of an earlier run; whether there were any."""
        left, self._left = self._left, frozenset()
        return bool(left)

    def submit(
        self, tenants: tuple[Tenant, ...], shared: Mapping[str, ResctrlLimits], *, complete: bool
    ) -> None:
        """Have the groups be as these tenants want them."""
        while not self._collected.empty():
            for group, number in self._collected.get().items():
                # It may have begun and ended once more since.
                if self._ended.get(group) == number:
                    del self._ended[group]
        desired = _DesiredGroups(tenants, shared, self._left, dict(self._ended), complete)
        self._jobs.submit(Job(KEY, SECONDS, partial(self._reconcile, desired)))

    def _reconcile(self, desired: _DesiredGroups, cancel: CancelToken) -> None:
        if not self._groups.available():
            # The plugin says so of each pod that asks for it.
            self.made = frozenset()
            return
        wanted = [tenant.limits.group for tenant in desired.tenants]
        live = self._live(desired, wanted)
        # Before their removal: no container may start in a group that is about to go.
        self.made &= live
        stay = self._groups.collect(live, cancel)
        report = self._groups.reconcile(desired.tenants, desired.shared, cancel)
        before = {group: self._placed[group] for group in wanted if group in self._placed}
        self._placed = {**before, **report.placed}
        self.made = frozenset(name for name in self._placed.values() if name)
        for line in (*stay, *report.refused):
            self._log(line)
        if not cancel.reason:
            self._collected.put(desired.ended)

    def _live(self, desired: _DesiredGroups, wanted: list[str]) -> frozenset[str]:
        """The groups that stay."""
        # One that got no group of its own lives in its class's.
        live = {*wanted, *(self._placed.get(group, group) for group in wanted), *desired.left}
        if not desired.complete:
            live |= {*self._groups.groups()} - desired.ended.keys()
        return frozenset(live)
