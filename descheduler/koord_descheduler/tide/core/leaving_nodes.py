"""Nodes that services can spare. No IO."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from koord_descheduler.drain.drained_pods import DrainedPod, drained_pods
from koord_descheduler.drain.free_nodes import most_free_first
from koord_descheduler.drain.phases import DrainPhase
from koord_descheduler.drain.place_plan import PlaceTrial, place_trial
from koord_descheduler.planner.disruptions import Disruptions
from koord_descheduler.tide.core.node_marks import Side
from koord_descheduler.tide.core.pool_state import MOST_TRIALS, PoolState, TideMove
from koord_descheduler.tide.core.side_requests import SideRequests
from koord_descheduler.tide.core.tide_drain import drain_spec

MOST_PERCENT = 10
"""Of the pool's nodes that leave services at a time; one always may."""


class LeavePlan(NamedTuple):
    """Nodes that go offline; ``stay`` are nodes that were tried, and why they cannot."""

    moves: list[TideMove]
    stay: dict[str, str]


def plan_leaving(state: PoolState, requests: SideRequests) -> LeavePlan:
    """The nodes that services can spare now, those with the fewest requests first.

    ``requests`` are of the online side. None leaves while a move before it has still to prove the
    places of its pods: they would be promised twice.
    """
    plan = LeavePlan([], {})
    most = _most(state)
    if most <= 0 or any(_is_unproved(state)):
        return plan
    bound = state.reserved(Side.ONLINE) | state.resting().keys()
    names = [node.name for node in state.on(Side.ONLINE) if node.name not in bound]
    candidates = most_free_first(state.cluster, names)[:MOST_TRIALS]
    with place_trial(state.cluster, state.others.settled, state.now) as places:
        trial = _LeaveTrial(state, requests, places, candidates)
        for name in candidates:
            if len(plan.moves) >= most:
                break
            about = _reserve_lacks(state) > len(plan.moves)
            limit = state.pool.high if about else state.pool.low
            if why := trial.obstacle(name, limit):
                plan.stay[name] = why
                continue
            why = f"services request {trial.requests.percent:.0f} % of the rest"
            why = f"batch jobs have a reserve; {why}" if about else why
            plan.moves.append(TideMove(name, Side.OFFLINE, why))
    return plan


def _most(state: PoolState) -> int:
    most = max(1, len(state.nodes) * MOST_PERCENT // 100) - len(state.moving(Side.OFFLINE))
    return min(most, len(state.on(Side.ONLINE)) - state.reserve(Side.ONLINE))


def _reserve_lacks(state: PoolState) -> int:
    there = len(state.on(Side.OFFLINE)) + len(state.moving(Side.OFFLINE))
    return state.reserve(Side.OFFLINE) - there


def _is_unproved(state: PoolState) -> Iterable[bool]:
    proved = (DrainPhase.RUNNING, DrainPhase.DRAINED, DrainPhase.ABORTED, DrainPhase.FAILED)
    return (drain.phase not in proved for drain in state.drains if drain.to is Side.OFFLINE)


class _LeaveTrial:
    """Nodes that go, one after the other, with the places of their pods."""

    def __init__(
        self,
        state: PoolState,
        requests: SideRequests,
        places: PlaceTrial,
        candidates: Iterable[str],
    ) -> None:
        self.requests = requests
        self._state = state
        self._places = places
        self._left = set(candidates)
        self._going = {*state.others.nodes}
        self._targets: set[str] = set()
        self._budgets = Disruptions(state.cluster.scheduler.budgets)

    def obstacle(self, name: str, limit: int) -> str:
        """Return why a node cannot go after those that did; "" if it goes."""
        self._left.discard(name)
        rest = self.requests.copy()
        rest.empty_node(name)
        if rest.percent > limit:
            percent = f"{rest.percent:.0f} % of the rest"
            return f"without it services would request {percent}, above {limit}"
        if name in self._targets:
            return "pods of other nodes go there"
        why = self._place(name)
        if not why:
            self.requests = rest
            self._going.add(name)
        return why

    def _place(self, name: str) -> str:
        pods = self._services(name)
        for pod in pods:
            if why := pod.obstacle or self._budgets.refusal(pod.view):
                return f"{pod.view.key}: {why}"
        moving = [pod for pod in pods if pod.view.owner and not (pod.waits or pod.is_leaving)]
        found = self._places.place_all(moving, drained=self._going | {name}, reluctant=self._left)
        for key, place in found.items():
            if not place.node:
                return f"{key}: {place.why}"
        self._targets.update(place.node for place in found.values())
        return ""

    def _services(self, name: str) -> list[DrainedPod]:
        spec = drain_spec(self._state.pool, name, Side.OFFLINE)
        return drained_pods(self._state.cluster, spec, self._state.forbids)
