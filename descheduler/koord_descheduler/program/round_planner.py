"""Plans the rounds of one configuration, one after the other. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from koord_kube.core.token_bucket import TokenBucket

from koord_descheduler.framework.round import (
    DeschedulerProfile,
    DeschedulingRound,
    RoundSettings,
    run_round,
)
from koord_descheduler.planner.budgets import Budgets, MoveLimit, of_all
from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.planner.move import Move, RoundPlan
from koord_descheduler.planner.move_memory import MoveMemory, PastMove

_UNTIL_SEEN = 10.0
"""Seconds until whoever keeps track of a move knows of it."""
FEWEST_NODES = 2
"""With fewer ready nodes no pod can go elsewhere."""


class RoundPlanner:
    """Plans; times are in seconds since the epoch.

    Moves that were begun count until their pods are gone, or for ``settings.memory`` seconds: where
    they are pretended, they are deducted so. ``pace`` has the turns of moves.
    """

    def __init__(
        self,
        cluster: ClusterModel,
        profiles: Sequence[DeschedulerProfile],
        limits: Sequence[MoveLimit],
        settings: RoundSettings,
        pace: TokenBucket | None = None,
    ) -> None:
        self.cluster = cluster
        self._profiles = profiles
        self._limits = limits
        self._settings = settings
        self._pace = pace
        self._memory = MoveMemory(settings.memory)
        self._begun: dict[str, tuple[float, Move]] = {}

    def obstacle(self) -> str:
        """Return why no round can be planned now, in a line; "" if one can."""
        ready = sum(node.is_ready for node in self.cluster.nodes.values())
        if ready < FEWEST_NODES:
            return f"{ready} nodes are ready; a round needs {FEWEST_NODES}"
        return ""

    def plan(self, now: float, jobs: Iterable[Move] = (), *, is_trial: bool = False) -> RoundPlan:
        """Plan a round, with moves of migration ``jobs`` under way; a trial is to be shown only."""
        found = {move.pod.uid: move for move in (*self.under_way(now), *jobs)}
        under_way = list(found.values())
        shared = DeschedulingRound(
            self.cluster,
            Budgets(list(self._limits_at(now))),
            self._memory,
            now,
            self._settings,
            under_way,
            is_trial,
        )
        return run_round(shared, self._profiles)

    def _limits_at(self, now: float) -> Iterator[MoveLimit]:
        yield from (limit for limit in self._limits if limit.holds_at(now))
        if self._pace is not None:
            name = f"the number of turns by evictQPS {self._pace.qps:g}"
            yield MoveLimit(name, self._pace.turns(now), of_all)

    def start(self, now: float) -> None:
        """Plan from now on: no turn is left of what another replica may have spent."""
        if self._pace is not None:
            self._pace.empty(now)

    def begin(self, move: Move, now: float, *, is_tracked: bool = False) -> None:
        """A move is carried out, or pretended; one that ``is_tracked`` is among jobs soon."""
        until = now + (_UNTIL_SEEN if is_tracked else self._settings.memory)
        self._begun[move.pod.uid] = until, move
        if self._pace is not None:
            self._pace.take(now)
        self._memory.add(move, now)

    def remember(self, past: Iterable[PastMove]) -> None:
        """Remember moves, those that are known too."""
        for left in past:
            self._memory.remember(left)

    def under_way(self, now: float) -> list[Move]:
        """The moves that were begun and have not ended."""
        pods = self.cluster.pods
        for uid, (until, move) in list(self._begun.items()):
            pod = pods.get(move.pod.key)
            if pod is None or pod.view.uid != uid or now > until:
                del self._begun[uid]
        return [move for _, move in self._begun.values()]
