"""The queue of plans: any thread adds to it, the writer's thread applies it.

Plans follow the load second by second, so the writer applies them before all else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue

from koord_host.knobs.forms import Value
from koord_host.planning.arbiter import ArbitratedValue
from koord_host.planning.desired_values import DesiredValue, Target
from koord_host.planning.outcomes import Round
from koord_host.resource_executor.executor import Executor
from koord_host.resource_executor.journal import Event, Journal

from koordlet.qos_manager.core.strategy import CacheClass, owner
from koordlet.runtime_hooks.reconciler.desired_state import DesiredState
from koordlet.runtime_hooks.reconciler.reconciler import AppliedPlans
from koordlet.runtime_hooks.reconciler.tasks import TaskReconciler

_SCOPE = "strategy"


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One round's plan for the node.

    ``desired`` holds the values of every enabled strategy and replaces the previous ones; so
    do ``caches``. ``one_shot`` are done once, ``lines`` are for the journal. ``complete`` is
    whether every strategy has run with all pods known: the executor may then restore what an
    earlier run left behind and nobody wants now.
    """

    desired: Mapping[str, tuple[DesiredValue, ...]] = field(default_factory=dict)
    caches: tuple[CacheClass, ...] = ()
    one_shot: tuple[tuple[str, tuple[DesiredValue, ...]], ...] = ()
    lines: tuple[Event, ...] = ()
    complete: bool = False

    def differs(self, before: NodePlan) -> bool:
        """True if there is anything to do after ``before`` was done."""
        same = self.desired.keys() == before.desired.keys() and all(
            desired is before.desired[name] for name, desired in self.desired.items()
        )
        news = self.one_shot or self.lines or self.complete != before.complete
        return not same or self.caches != before.caches or bool(news)


class PlanQueue:
    """Passes queued plans to the executor and the task reconciler."""

    def __init__(
        self,
        executor: Executor,
        tasks: TaskReconciler,
        journal: Journal,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._executor = executor
        self._tasks = tasks
        self._journal = journal
        self._monotonic = monotonic
        self._plans: SimpleQueue[tuple[float, NodePlan]] = SimpleQueue()
        self._rounds: list[Round] = []
        self._seconds: list[float] = []
        self._notes: SimpleQueue[Event] = SimpleQueue()
        self._named: frozenset[str] = frozenset()
        self._classes: frozenset[str] = frozenset()
        self._complete = False

    def base(self, target: Target) -> Value | None:
        """Return a target's value without strategies; from any thread."""
        return self._executor.base(target)

    def standing(self, place: str) -> list[tuple[str, ArbitratedValue]]:
        """The arbitrated values of a place's knobs, by name, with owners; from any thread."""
        return self._executor.arbitrated_values(place)

    def put(self, plan: NodePlan) -> None:
        """Queue a plan; from any thread."""
        self._plans.put((self._monotonic(), plan))

    def note(self, event: Event) -> None:
        """Queue a journal event; from any thread, without waiting for the disk."""
        self._notes.put(event)

    def write_notes(self) -> None:
        """Write queued events to the journal; in the writer's thread."""
        while not self._notes.empty():
            self._journal.add(self._notes.get())

    def apply_queued(self) -> None:
        """Apply queued plans, if there are any; in the writer's thread."""
        if self._plans.empty():
            return
        since, one_shot = self._take()
        self._rounds.append(self._executor.apply_urgent())
        now = self._monotonic()
        self._seconds += [now - at for at in since]
        # Last: nothing about these is to be in the way of what has a state.
        for name, values in one_shot:
            self._executor.run_once(owner(name), values)

    def take_applied(self) -> AppliedPlans:
        """The plans applied since the last call, once a round; in the writer's thread."""
        self.write_notes()
        # With the lines of jobs that have ended since.
        self._journal.flush()
        applied = AppliedPlans(tuple(self._rounds), tuple(self._seconds))
        self._rounds, self._seconds = [], []
        return applied

    def _take(self) -> tuple[list[float], list[tuple[str, tuple[DesiredValue, ...]]]]:
        """Take the queued plans; return when each was queued, and what they want done once."""
        plan, since = None, []
        one_shot: list[tuple[str, tuple[DesiredValue, ...]]] = []
        while not self._plans.empty():
            at, plan = self._plans.get()
            since.append(at)
            for line in plan.lines:
                self._journal.add(line)
            one_shot += plan.one_shot
        if plan is not None:
            self._set_desired(plan)
            self._hold(plan.caches)
        return since, one_shot

    def _set_desired(self, plan: NodePlan) -> None:
        for name in self._named - plan.desired.keys():
            self._executor.forget(owner(name), _SCOPE)
        self._named = frozenset(plan.desired)
        for name, desired in plan.desired.items():
            self._executor.set_desired(owner(name), _SCOPE, desired)
        if plan.complete and not self._complete:
            self._complete = True
            self._executor.roll_back_undesired()
            self._tasks.forget_left()

    def _hold(self, caches: tuple[CacheClass, ...]) -> None:
        held = {f"class {cache.limits.group}": cache for cache in caches}
        for scope in self._classes - held.keys():
            self._tasks.forget(scope)
        self._classes = frozenset(held)
        for scope, desired in held.items():
            self._tasks.hold(DesiredState(scope, resctrl=desired.limits, groups=desired.groups))
