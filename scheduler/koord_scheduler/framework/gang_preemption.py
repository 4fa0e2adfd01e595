"""A gang that does not fit takes the place of less important pods if all fits then. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from koord_scheduler.extenders.preemption import Preemption
from koord_scheduler.framework.decisions import Placement, PreemptionPlan
from koord_scheduler.framework.gang_planner import GangCandidate
from koord_scheduler.framework.gang_trial import MemberPlacer
from koord_scheduler.framework.nominations import Nomination, Nominations
from koord_scheduler.framework.preemption import Candidates, least_harmful
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pods import PlacedPods

RETRY_SECONDS = 10.0
"""After so long victims are looked for again if those of the last time have not begun to end."""


class PreemptionHost(MemberPlacer, Protocol):
    """The scheduler, as far as victims are concerned."""

    nodes: ClusterState
    placed: PlacedPods
    nominations: Nominations

    def find_victims(self, pod: QueuedPod) -> Candidates | str:
        """Return the nodes where preemption helps a pod; or why it does nowhere."""
        ...


class PreemptingPlacer:
    """Places pods of a gang; where one does not fit, victims leave the columns for it.

    They come back with ``restored``.
    """

    def __init__(self, host: PreemptionHost) -> None:
        self._host = host
        self.preemptions: dict[str, Preemption] = {}

    def choose(self, pod: QueuedPod, candidate: GangCandidate) -> int | None:
        """The best row for a pod, if need be one where others make room."""
        row = self._host.choose(pod, candidate)
        if row is not None:
            return row
        best = self._least_harmful(pod, candidate)
        if best is None:
            return None
        self.preemptions[pod.key] = best
        for victim in best.victims:
            self._host.placed.remove(victim.key)
        return self._host.nodes.row(best.node)

    def place(self, pod: QueuedPod, row: int) -> Placement:
        """A pod takes its room on a row's node."""
        return self._host.place(pod, row)

    def take_back(self, pod: QueuedPod) -> None:
        """It gives it back."""
        self._host.take_back(pod)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """At the end all victims are back where they were."""
        with self._host.nodes.trial():
            try:
                yield
            finally:
                for preemption in self.preemptions.values():
                    for victim in preemption.victims:
                        self._host.placed.set(victim)

    def _least_harmful(self, pod: QueuedPod, candidate: GangCandidate) -> Preemption | None:
        found, nodes = self._host.find_victims(pod), self._host.nodes
        if isinstance(found, str):
            return None
        allowed = candidate.allowed(pod.key)
        if allowed is None:
            return found.best()
        ties = nodes.tie_break
        rows = {one.node: nodes.row(one.node) for one in found}
        within = (one for one in found if rows[one.node] in allowed)
        return least_harmful(within, lambda node: float(ties[rows[node]]))


def preemption_plans(
    host: PreemptionHost, placements: Sequence[Placement], preemptions: dict[str, Preemption]
) -> list[PreemptionPlan]:
    """Keep the room that a gang is to have, and say who has to make some of it."""
    plans = []
    for placement in placements:
        pod = placement.pod
        displaced = host.nominations.displace(placement.node, pod.priority)
        host.nominations.set(Nomination(pod.key, placement.node, pod.priority, pod.waiting.usage))
        if pod.key in preemptions:
            plans.append(PreemptionPlan(pod, preemptions[pod.key], displaced))
    return plans


def waits_for_victims(placed: PlacedPods, victims: Sequence[str], at: float, now: float) -> bool:
    """True if the victims of a gang's last preemption, ``at`` then, are still about to leave."""
    there = [placed.by_key[key] for key in victims if key in placed.by_key]
    return any(one.is_preempted for one in there) or bool(there and now - at < RETRY_SECONDS)
