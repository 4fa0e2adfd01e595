"""Places for the pods of a node, all on one virtual cluster. No IO."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from koord_scheduler.state.arrays import Mask

from koord_descheduler.drain.drained_pods import DrainedPod
from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.planner.virtual_cluster import NoTarget, VirtualCluster


class PlannedPlace(NamedTuple):
    """The node for a pod, or "" and why there is none."""

    node: str
    why: str = ""


def plan_places(
    cluster: ClusterModel,
    pods: Iterable[DrainedPod],
    *,
    drained: Collection[str],
    reluctant: Collection[str] = (),
    settled: Mapping[str, str],
    now: float,
) -> dict[str, PlannedPlace]:
    """A place by the scheduler's rules for each pod, by namespace/name.

    ``drained`` are the nodes that get none, ``reluctant`` those that do where no other fits.
    ``settled`` are nodes that pods of this and other drains have already, by namespace/name: they
    take their room first. So do the pods that wait. ``now`` is in seconds since the epoch.
    """
    with place_trial(cluster, settled, now) as trial:
        return trial.place(pods, drained=drained, reluctant=reluctant)


@contextmanager
def place_trial(
    cluster: ClusterModel, settled: Mapping[str, str], now: float
) -> Iterator[PlaceTrial]:
    """A virtual cluster in which pods get places, one group after the other; all is undone."""
    virtual = VirtualCluster(cluster, now)
    try:
        _settle(virtual, settled)
        virtual.let_pending_in()
        yield PlaceTrial(virtual, settled)
    finally:
        virtual.undo()


class PlaceTrial:
    """Places of pods that leave their nodes; those that it gave count for the next ones."""

    def __init__(self, virtual: VirtualCluster, settled: Mapping[str, str]) -> None:
        self._virtual = virtual
        self._settled = settled

    def place(
        self,
        pods: Iterable[DrainedPod],
        *,
        drained: Collection[str],
        reluctant: Collection[str] = (),
    ) -> dict[str, PlannedPlace]:
        """A place for each of these pods; the same words as ``plan_places``."""
        virtual = self._virtual
        never = ~virtual.rows(drained)
        first = never & ~virtual.rows(reluctant)
        moving = [pod for pod in pods if pod.view.key not in self._settled]
        for pod in moving:
            virtual.take(pod.known)
        return {
            pod.view.key: _place(virtual, pod, first, never)
            for pod in sorted(moving, key=_biggest_first)
        }

    def place_all(
        self, pods: Iterable[DrainedPod], *, drained: Collection[str], reluctant: Collection[str]
    ) -> dict[str, PlannedPlace]:
        """Places for all of these pods, or for none of them."""
        mark = self._virtual.mark()
        places = self.place(pods, drained=drained, reluctant=reluctant)
        if any(not place.node for place in places.values()):
            self._virtual.undo(mark)
        return places


def _settle(virtual: VirtualCluster, settled: Mapping[str, str]) -> None:
    for key, node in settled.items():
        pod = virtual.cluster.pods.get(key)
        if pod is not None and pod.view.node not in ("", node) and not pod.view.has_ended:
            virtual.take(pod)
            virtual.put(pod, node)


def _biggest_first(pod: DrainedPod) -> tuple[int, float, str]:
    """Small ones fit in the gaps that big ones leave."""
    requests = dict(pod.known.replacement.usage.request)
    return pod.wave, -requests.get("cpu", 0.0), pod.view.key


def _place(virtual: VirtualCluster, pod: DrainedPod, first: Mask, then: Mask) -> PlannedPlace:
    # Its own node is none of these; "may stay" also because the scheduler's preference for it
    # is no reason to leave a pod on a node that is to be empty.
    place = virtual.place(pod.known, among=first, may_stay=True)
    if isinstance(place, NoTarget):
        place = virtual.place(pod.known, among=then, may_stay=True)
    if isinstance(place, NoTarget):
        return PlannedPlace("", place.why)
    return PlannedPlace(place.node)
