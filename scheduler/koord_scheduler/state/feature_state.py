"""The contract between the state of the cluster and what features keep beside it. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from koord_scheduler.objects.node import Node
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.requests import PodRequests
from koord_scheduler.state.arrays import Mask
from koord_scheduler.state.cluster_kind import ClusterKind
from koord_scheduler.state.pod_parts import PodPart, PodParts
from koord_scheduler.state.pod_usage import PlacedPod, PodUsage

if TYPE_CHECKING:
    from koord_scheduler.state.cluster_state import ClusterState
    from koord_scheduler.state.placed_pods import PlacedPods, PodsByRow
    from koord_scheduler.state.pod_class import PodClass
    from koord_scheduler.state.pod_reader import ClusterPod

Parts = Iterable[tuple[PodPart[Any], Any]]
MayUse = Callable[[str, str], bool]
"""Return True if a pod may use what a holder, by its uid, holds of a node, by its name."""


class HasUid(Protocol):
    """A pod that waits."""

    uid: str


class FeatureState:
    """State that a feature keeps beside that of nodes; a method does nothing unless overridden.

    ``ClusterState.use`` makes it for the first plugin that asks for it, before there are nodes or
    pods. ``version`` changes with whatever decides where pods may run, and is of no row.
    """

    version: int = 0
    most_warnings: ClassVar[float] = inf
    """Warnings that wait to be taken; more are dropped."""

    def __init__(self, nodes: ClusterState) -> None:
        self._nodes = nodes
        self._warnings: dict[str, None] = {}

    # ---- what it takes of the API

    def kinds(self, now: Callable[[], float]) -> Iterable[ClusterKind]:
        """The kinds of objects that it follows; ``now`` is in monotonic seconds."""
        return ()

    def signature(self, pod: PodInfo) -> object:
        """Fields that decide about its parts of a pod, beside those that decide about all."""
        return ()

    def class_parts(self, pod: PodInfo, requests: PodRequests) -> Parts:
        """Parts of a waiting pod that count for its class.

        Raises:
            ValueError: something of the pod is not what it has to be.
        """
        return ()

    def usage_parts(self, pod: PodInfo, known: PodParts) -> Parts:
        """Parts of what a pod takes of its node; ``known`` are those of its class, if it waits."""
        return ()

    def pod_parts(self, pod: PodInfo) -> Parts:
        """Parts of one pod that count for no other."""
        return ()

    def class_of(self, made: PodClass, key: str, uid: str) -> PodClass:
        """The class of one pod among those that are otherwise of one."""
        return made

    def reclassified(self, waiting: Mapping[str, HasUid]) -> Iterable[str]:
        """Keys of waiting pods whose ``class_of`` may be another one since the last call."""
        return ()

    # ---- rows

    def lengthen(self, length: int) -> None:
        """Make room for more rows."""

    def set_row(self, row: int, name: str) -> None:
        """A row is that of a node from now on, which need not be known yet."""

    def set_node(self, row: int, node: Node | None, *, is_moved: bool) -> bool:
        """A row's node is there, has changed, or (``None``) is gone.

        ``is_moved``: it came, went, or has other labels or taints. Returns True if answers change
        that look at nodes alone.
        """
        return False

    def count(self, row: int, usage: PodUsage) -> None:
        """Count a pod on a row's node."""

    def uncount(self, row: int, usage: PodUsage) -> None:
        """Count it there no more."""

    def repair(self, row: int, usages: Iterable[PodUsage]) -> bool:
        """Recount a row; returns True if it was wrong, which is a defect."""
        return False

    def held_on(self, node: str) -> Iterable[PodUsage]:
        """Room of a node that counts as taken and is no pod's, though some pods may use it."""
        return ()

    def usable_on(self, node: str) -> Iterable[PodUsage]:
        """Room of a node that counts as taken, though some pods may use it; pods' own included."""
        return ()

    def holds_room(self) -> bool:
        """Return True if there is such room anywhere."""
        return False

    # ---- pods with nodes

    def arrived(self, node: str, usage: PodUsage) -> None:
        """A pod is on a node, after it is counted."""

    def left(self, node: str, usage: PodUsage) -> None:
        """A pod is on a node no more, before that is counted."""

    def placed(self, row: int, pod: PlacedPod) -> None:
        """A pod has a node."""

    def unplaced(self, row: int, pod: PlacedPod) -> None:
        """It has it no more."""

    def replaced(self, row: int, before: PlacedPod, pod: PlacedPod) -> None:
        """Something of a pod has changed that does not change what it takes."""

    def trial(self) -> AbstractContextManager[None]:
        """A time in which pods leave their nodes and come back, as if they had not."""
        return nullcontext()

    def kept_pods(
        self, placed: PlacedPods, pods: PodsByRow, may_use: MayUse | None = None
    ) -> Mask | None:
        """Return True for each of some pods that is no victim of preemption; ``None``: none is."""
        return None

    # ---- pods of the API

    def set_pod(self, pod: ClusterPod) -> None:
        """A pod is there, with a node or without, or has changed."""

    def bound(self, pod: ClusterPod) -> None:
        """A pod has a node by what the API says, and is placed there."""

    def remove_pod(self, key: str) -> None:
        """A pod is gone."""

    def gave_up(self, key: str) -> None:
        """A pod lost its node, or did not get it."""

    # ---- time, and warnings

    def set_epoch(self, epoch: float) -> None:
        """It is this late, in seconds since the epoch."""

    def warn(self, line: str) -> None:
        """Have a line logged about something that cannot be used."""
        if len(self._warnings) < self.most_warnings:
            self._warnings[line] = None

    def take_warnings(self) -> list[str]:
        """Lines about what cannot be used, each once."""
        found = list(self._warnings)
        self._warnings.clear()
        return found
