"""What is wished of the tasks in cgroups: OOM scores, shared cores, resctrl groups.

A task that is forked later inherits all three from its parent, so that groups are
looked into when their wishes change and at an interval, not in every round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from koord_host.core_sched import CoreSched
from koord_host.executor import Executor
from koord_host.files import Reader
from koord_host.layout import Layout
from koord_host.resctrl import ResctrlGroups, Tenant
from koord_host.wishes import Owner, Target, Wish
from koord_model.node_slo import NodeSLO
from koord_model.resctrl import ResctrlWish, class_wishes

from koordlet.levelling import Levelled, TaskWishes


class Tasks:
    """The wishes of every scope, and the tasks they are about.

    ``core_sched`` and ``resctrl`` are ``None`` where they are not to be used.
    """

    def __init__(
        self,
        owner: Owner,
        reader: Reader,
        layout: Layout,
        monotonic: Callable[[], float],
        refresh_seconds: float,
        core_sched: CoreSched | None = None,
        resctrl: ResctrlGroups | None = None,
    ) -> None:
        self._owner = owner
        self._reader = reader
        self._layout = layout
        self._monotonic = monotonic
        self._refresh_seconds = refresh_seconds
        self._core_sched = core_sched
        self._resctrl = resctrl
        self._held: dict[str, Levelled] = {}
        self._changed = False
        self._complete = False
        self._looked_at = float("-inf")
        self._ended: set[str] = set()
        self._left = resctrl.shared if resctrl is not None else frozenset()
        self._shared: Mapping[str, ResctrlWish] = {}
        self._placed: Mapping[str, str] = {}
        self.cache_groups: frozenset[str] = frozenset()

    def hold(self, levelled: Levelled) -> None:
        """What a scope wants from now on."""
        if levelled.tasks or levelled.resctrl is not None:
            self._held[levelled.scope] = levelled
            self._changed = True
        else:
            self.forget(levelled.scope)

    def forget(self, scope: str) -> None:
        """A scope wants nothing any more."""
        before = self._held.pop(scope, None)
        self._changed |= before is not None
        if before is not None and before.resctrl is not None:
            self._ended.add(before.resctrl.group)
            self._left -= {before.resctrl.group}

    def forget_left(self) -> None:
        """Nobody wants the shared groups of an earlier run but those who have said so."""
        self._changed |= bool(self._left)
        self._left = frozenset()

    def share(self, slo: NodeSLO) -> None:
        """What pods get whose class has to share a resctrl group."""
        self._shared = class_wishes(slo)
        self._changed = True

    def level(self, executor: Executor, *, complete: bool) -> tuple[str, ...]:
        """Bring the tasks in line, where something has changed or it is time to look.

        Unless what is held is ``complete``, groups of pods that nobody has told of yet
        are left: after a start they may well be running.

        Returns:
            Lines about what could not be done, for people.
        """
        now = self._monotonic()
        # Once all are known, groups of an earlier run can go.
        self._changed |= complete != self._complete
        self._complete = complete
        if not self._changed and (not self._held or now < self._looked_at + self._refresh_seconds):
            return ()
        self._changed, self._looked_at = False, now
        scores: list[Wish] = []
        cookies: dict[str, tuple[int, ...]] = {}
        for held in self._held.values():
            for one in held.tasks:
                pids = self._listed(one.group, "cgroup.procs")
                scores += _scores(one, pids, held.pod)
                if one.core_sched is not None:
                    cookies[one.core_sched] = cookies.get(one.core_sched, ()) + pids
        executor.wish(self._owner, "oom scores", tuple(scores))
        return (*self._level_cores(cookies), *self._level_caches(complete))

    def _level_cores(self, cookies: Mapping[str, tuple[int, ...]]) -> tuple[str, ...]:
        return tuple(self._core_sched.level(cookies).errors) if self._core_sched else ()

    def _level_caches(self, complete: bool) -> tuple[str, ...]:
        if self._resctrl is None or not self._resctrl.available():
            # The plugin says so of each pod that asks for it.
            self.cache_groups = frozenset()
            return ()
        held = self._held.values()
        tenants = [self._tenant(one, one.resctrl) for one in held if one.resctrl is not None]
        wished = [tenant.wish.group for tenant in tenants]
        # One that got no group of its own lives in its class's.
        live = {*wished, *(self._placed.get(group, group) for group in wished)}
        live |= self._left
        if not complete:
            live |= {*self._resctrl.groups()} - self._ended
        stay = self._resctrl.collect(live)
        self._ended.clear()
        report = self._resctrl.level(tenants, self._shared)
        self._placed = report.placed
        self.cache_groups = frozenset(name for name in report.placed.values() if name)
        return stay + report.refused

    def _tenant(self, levelled: Levelled, wish: ResctrlWish) -> Tenant:
        return Tenant(wish, partial(self._all_threads, levelled.groups), levelled.pod)

    def _all_threads(self, groups: tuple[str, ...]) -> tuple[int, ...]:
        file = "cgroup.threads" if self._layout.version == 2 else "tasks"
        return tuple(thread for group in groups for thread in self._listed(group, file))

    def _listed(self, group: str, file: str) -> tuple[int, ...]:
        """The tasks in a group; none where it is gone."""
        path = f"{self._layout.group_path(group, 'cpu')}/{file}"
        try:
            return tuple(int(word) for word in self._reader.read(path).split())
        except (OSError, ValueError):
            return ()


def _scores(wished: TaskWishes, pids: Iterable[int], pod: str) -> Iterator[Wish]:
    if wished.oom_score_adj is not None:
        why = f"tasks of {wished.group}"
        for pid in pids:
            yield Wish(Target(str(pid), "oom_score_adj"), wished.oom_score_adj, why, pod)
