"""Decisions of the scheduler on pods. No IO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from koord_scheduler.extenders.preemption import Preemption
from koord_scheduler.extenders.refusal import ExtenderRefusal
from koord_scheduler.extenders.steps import Calls, Steps
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.gangs.member import Release


class Placement(NamedTuple):
    """A pod is to be bound to a node; ``reserved`` is what plugins took for it.

    With a ``release``, it is bound together with others of its gang.
    """

    pod: QueuedPod
    node: str
    reserved: tuple[object, ...] = ()
    release: Release | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The pods of a class fit nowhere; ``unreported`` pods are due for an Event.

    ``preemption`` says why none takes the place of others. With a ``defect``, a plugin failed, and
    it is not known where they fit. With ``extenders`` it is the pod alone that fits nowhere.
    ``remedy`` is what a plugin wants to be written for the pod. ``gang`` says why it is a gang that
    does not fit, or cannot be tried; ``not_admitted`` why they get no node at present, whatever
    nodes there are. With ``lost_nomination``, the pod is not nominated for a node any more.
    """

    pod: QueuedPod
    unreported: tuple[QueuedPod, ...]
    preemption: str = ""
    defect: str = ""
    extenders: ExtenderRefusal | None = None
    remedy: object = None
    gang: str = ""
    not_admitted: str = ""
    lost_nomination: bool = False


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    """Victims are to be evicted, and a pod waits for their room.

    ``displaced`` are the keys of less important pods that were nominated for the same node.
    """

    pod: QueuedPod
    preemption: Preemption
    displaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExtenderFailure:
    """It is not known where a pod fits, since an extender failed; its turn comes again."""

    pod: QueuedPod
    failure: str


Decision = Placement | Refusal | PreemptionPlan | ExtenderFailure


@dataclass(frozen=True, slots=True)
class ExtenderQuestion:
    """No decision yet: ``calls`` have to be answered first, with ``Scheduler.answer``.

    ``steps`` is what goes on then.
    """

    pod: QueuedPod
    calls: Calls
    steps: Steps[Any]
