"""Nodes that services need back. No IO.

They are tried on a virtual cluster: the node is uncordoned, its taint is off, its batch jobs are
gone, and pods of services that wait get their places by the scheduler's own rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from koord_model.times import rfc3339

from koord_descheduler.drain.drained_pods import protection_of
from koord_descheduler.drain.free_nodes import most_free_first
from koord_descheduler.planner.cluster import KnownPod
from koord_descheduler.planner.protection import belongs_to_node
from koord_descheduler.planner.virtual_cluster import VirtualCluster
from koord_descheduler.tide.core.node_marks import Side, marked
from koord_descheduler.tide.core.pod_sides import is_online
from koord_descheduler.tide.core.pool_state import MOST_TRIALS, PoolState, TideMove
from koord_descheduler.tide.core.side_requests import SideRequests


class ReturnPlan(NamedTuple):
    """Nodes that come back; ``lack`` is why services want more than may come now, in a line."""

    moves: list[TideMove]
    lack: str = ""


def plan_returns(state: PoolState, requests: SideRequests) -> ReturnPlan:
    """The nodes that services need back now; ``requests`` are of the online side."""
    trial = _ReturnTrial(state, requests.copy())
    try:
        trial.let_coming_in()
        trial.fill_reserve()
        trial.go_below_high()
        trial.place_waiting()
    finally:
        trial.virtual.undo()
    return ReturnPlan(trial.moves, trial.lack)


class _ReturnTrial:
    """``spare`` are offline nodes that may come now, ``later`` those that rest."""

    def __init__(self, state: PoolState, requests: SideRequests) -> None:
        self._state = state
        self._requests = requests
        self.virtual = VirtualCluster(state.cluster, state.now)
        self.moves: list[TideMove] = []
        self.lack = ""
        self._online = [node.name for node in state.on(Side.ONLINE)]
        offline = [node.name for node in state.on(Side.OFFLINE) if not self._keeps(node.name)]
        self._resting = resting = state.resting()
        free = most_free_first(state.cluster, offline)
        self._ready = [name for name in free if name not in resting]
        self._later = [name for name in free if name in resting]
        self._spare = len(offline) - state.reserve(Side.OFFLINE)

    def let_coming_in(self) -> None:
        """Nodes on their way count: none is called twice for the same pods."""
        for name in self._state.moving(Side.ONLINE):
            if name in self._state.cluster.nodes:
                self._flip(name)
                self._take(name)
        self._let_in()

    def fill_reserve(self) -> None:
        """The reserve of services goes before that of batch jobs."""
        reserve = self._state.reserve(Side.ONLINE)
        while len(self._online) < reserve:
            why = f"services have {len(self._online)} nodes of their reserve of {reserve}"
            if not self._take_next(why, is_reserve=True):
                return

    def go_below_high(self) -> None:
        """Requests above the watermark call nodes back."""
        high = self._state.pool.high
        while (percent := self._requests.percent) > high:
            why = f"services request {percent:.0f} % of the online side, above {high}"
            if not self._take_next(why):
                return

    def place_waiting(self) -> None:
        """Pods that fit nowhere call back nodes on which they would."""
        for name in [*self._ready, *self._later][:MOST_TRIALS]:
            if not self._waiting():
                return
            mark = self.virtual.mark()
            self._flip(name)
            placed = [key for key, node in self._try_in().items() if node == name]
            why = f"{len(placed)} pods of services fit nowhere else: {', '.join(placed[:3])}"
            if not placed or not self._may_come(name, why):
                self.virtual.undo(mark)

    def _take_next(self, why: str, *, is_reserve: bool = False) -> bool:
        name = next(iter([*self._ready, *self._later]), "")
        if not name:
            self.lack = self.lack or f"{why}, and no other node is offline"
            return False
        if not self._may_come(name, why, is_reserve=is_reserve):
            return False
        self._flip(name)
        self._let_in()
        return True

    def _may_come(self, name: str, why: str, *, is_reserve: bool = False) -> bool:
        """True if a node comes back; otherwise what is lacking is noted."""
        if self._spare <= 0 and not is_reserve:
            self.lack = self.lack or f"{why}; all offline nodes are a reserve"
            return False
        if name not in self._ready:
            until = rfc3339(self._resting[name])
            self.lack = self.lack or f"{why}; {name} stays where it is until {until}"
            return False
        self._ready.remove(name)
        self._spare -= 1
        self._take(name)
        self.moves.append(TideMove(name, Side.ONLINE, why))
        return True

    def _take(self, name: str) -> None:
        self._online.append(name)
        self._requests.add_node(name)

    def _flip(self, name: str) -> None:
        node = self._state.cluster.nodes[name].node
        labels, taints = marked(
            node.labels, node.spec.taints or [], self._state.pool, Side.ONLINE, reserved=False
        )
        self.virtual.change(
            msgspec.structs.replace(
                node,
                metadata=msgspec.structs.replace(node.metadata, labels=labels),
                spec=msgspec.structs.replace(node.spec, taints=taints, unschedulable=False),
            )
        )
        for pod in list(self._batch_on(name)):
            self.virtual.take(pod)

    def _batch_on(self, name: str) -> Iterator[KnownPod]:
        """The pods that leave a node that comes back."""
        for pod in self.virtual.pods_on(name):
            view = pod.view
            if not (view.has_ended or belongs_to_node(view) or is_online(view.labels)):
                yield pod

    def _keeps(self, name: str) -> bool:
        """True if a node has a batch job that nothing may evict."""
        return any(protection_of(pod.view) for pod in self._batch_on(name))

    def _let_in(self) -> None:
        """Pods that wait get their places, and count where these are on the online side."""
        for key, node in self._try_in().items():
            if node in self._online:
                self._requests.add_pod(self._state.cluster.pods[key])

    def _try_in(self) -> dict[str, str]:
        return self.virtual.let_pending_in(self._is_service)

    def _waiting(self) -> bool:
        """True if a pod of a service waits; not those of gangs, which are placed as a whole."""
        return any(not pod.gang and self._is_service(pod.key) for pod in self.virtual.waiting())

    def _is_service(self, key: str) -> bool:
        pod = self._state.cluster.pods.get(key)
        is_gated = self._state.cluster.scheduler.queue.is_gated(key)
        return pod is not None and not is_gated and is_online(pod.view.labels)
