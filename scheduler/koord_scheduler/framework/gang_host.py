"""Gangs' view of the scheduler, and the report on one that waits. No IO."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple, Protocol

from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.diagnosis import Diagnosis
from koord_scheduler.framework.gang_preemption import PreemptionHost
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod, SchedulingQueue
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.state.arrays import Rows
from koord_scheduler.state.resources import Request


class GangHost(PreemptionHost, Protocol):
    """The scheduler, as far as gangs are concerned."""

    queue: SchedulingQueue

    @property
    def gangs(self) -> Gangs:
        """All gangs."""
        ...

    def confirm(self, pod: QueuedPod) -> None:
        """A pod that was placed is to be bound."""
        ...

    def not_admitted(self, *pods: QueuedPod) -> str:
        """Return why pods may not get nodes together at present; "" if they may where they fit."""
        ...

    def regroup(self, pod: QueuedPod) -> None:
        """Let those of a pod's gang group that still wait do so together, or by themselves."""
        ...

    def fitting_rows(self, pod: QueuedPod) -> Rows:
        """The rows where a pod fits now."""
        ...

    def least_room(self, pod: QueuedPod) -> Request:
        """Amounts that a node has to have free for a waiting pod."""
        ...

    def remedy(self, pod: QueuedPod) -> object | None:
        """Return the remedy to be written for a pod that fits nowhere; ``None``: nothing."""
        ...

    def scores(self, pod: QueuedPod) -> ClassScores:
        """Return the plugins' answers about a pod's class."""
        ...

    def diagnosis(self, pod: QueuedPod) -> Diagnosis:
        """Reasons for which nodes reject a pod."""
        ...

    def objects_state(self, pods: Iterable[QueuedPod]) -> Hashable:
        """A value that changes with the objects beside nodes on which it depends where pods fit."""
        ...

    def obstacle(self, pods: Iterable[QueuedPod]) -> str:
        """Return why pods cannot be placed together at all; "" if nothing speaks against it."""
        ...


class GangReport(NamedTuple):
    """State of a waiting gang group: of its ``waiting`` pods ``needed`` have to start together.

    ``reason`` says in a line why it cannot be tried; else ``fitted`` of them fit at present, and
    ``failed`` is the first that does not, for what ``diagnosis`` says.
    """

    group_id: str
    waiting: int
    needed: int
    reason: str = ""
    fitted: int = 0
    failed: str = ""
    diagnosis: Diagnosis | None = None
