"""The loop of rounds: one is planned every so often, and its moves are carried out in order."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol

import anyio
from koord_kube.core.evictions import EvictionOutcome, EvictionResult
from koord_kube.protocol.api import ApiError

from koord_descheduler.planner.move import DesiredAnnotations, Move, RoundPlan
from koord_descheduler.planner.move_memory import PastMove
from koord_descheduler.program.history import RoundHistory
from koord_descheduler.program.round_planner import RoundPlanner

DRY_RUN = EvictionOutcome(EvictionResult.EVICTED, "dry run: nothing was done")


Annotate = Callable[[DesiredAnnotations], Awaitable[None]]
"""Write annotations of a pod."""


class MoveExecutor(Protocol):
    """The way in which a profile's moves are carried out.

    One that ``keeps_track`` knows itself which moves are under way, and reports on them.
    """

    @property
    def keeps_track(self) -> bool: ...

    async def execute(self, move: Move) -> EvictionOutcome:
        """Begin a move.

        Raises:
            ApiError: it was refused, or this program may not write.
        """
        ...


class RoundObserver(Protocol):
    """Hears of rounds and moves, for metrics, Events and logs."""

    def planned(self, plan: RoundPlan, seconds: float) -> None:
        """A round was planned in so many seconds."""
        ...

    def not_planned(self, reason: str) -> None:
        """A round was not planned."""
        ...

    def executed(self, move: Move, outcome: EvictionOutcome) -> None:
        """A move was begun, or could not be."""
        ...


class RoundLoop:
    """Plans a round every ``interval`` seconds (0: one alone) and executes it.

    ``silence`` says why nothing may be decided at present; ``jobs`` are migrations under way,
    ``past`` those that are over, which the planner may not know of after a restart.
    A round starts earlier once ``trigger`` is called, ``settle`` seconds after the last call.
    """

    def __init__(
        self,
        planner: RoundPlanner,
        history: RoundHistory,
        observer: RoundObserver,
        *,
        interval: float,
        silence: Callable[[], str],
        jobs: Callable[[], Iterable[Move]] = tuple,
        past: Callable[[], Iterable[PastMove]] = tuple,
        dry_run: bool = False,
        settle: float = 5.0,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._planner = planner
        self._history = history
        self._observer = observer
        self._interval = interval
        self._silence = silence
        self._jobs = jobs
        self._past = past
        self.is_dry_run = dry_run
        self._settle = settle
        self._wall = wall
        self._monotonic = monotonic
        self._triggered = anyio.Event()

    def trigger(self) -> None:
        """Have a round planned soon."""
        self._triggered.set()

    def plan(self) -> RoundPlan:
        """Plan the next round, and do nothing of it."""
        return self._planner.plan(self._wall(), self._jobs(), is_trial=True)

    async def run(self, executors: Mapping[str, MoveExecutor], annotate: Annotate) -> None:
        """Until cancelled, or after one round where there is no interval."""
        self._planner.start(self._wall())
        while True:
            await self._round(executors, annotate)
            if not self._interval:
                return
            with anyio.move_on_after(self._interval):
                await self._triggered.wait()
                await anyio.sleep(self._settle)
            self._triggered = anyio.Event()

    async def _round(self, executors: Mapping[str, MoveExecutor], annotate: Annotate) -> None:
        if reason := self._silence() or self._planner.obstacle():
            self._observer.not_planned(reason)
            return
        self._planner.remember(self._past())
        began = self._monotonic()
        plan = self._planner.plan(self._wall(), self._jobs())
        seconds = self._monotonic() - began
        self._history.planned(plan, seconds)
        self._observer.planned(plan, seconds)
        failed: dict[str, str] = {}
        for move in plan.moves:
            if move.group and move.group in failed:
                why = f"{failed[move.group]} of its group cannot move"
                self._history.executed(move, "not tried", why, self._wall())
                continue
            executor = executors[move.profile]
            outcome = DRY_RUN if self.is_dry_run else await self._execute(executor, move)
            if outcome.pod_stays and move.group:
                failed[move.group] = move.pod.key
            if not outcome.pod_stays:
                is_tracked = executor.keeps_track and not self.is_dry_run
                self._planner.begin(move, self._wall(), is_tracked=is_tracked)
            self._history.executed(move, outcome.end.value, outcome.reason, self._wall())
            self._observer.executed(move, outcome)
        for desired in () if self.is_dry_run else plan.annotations:
            await annotate(desired)

    async def _execute(self, executor: MoveExecutor, move: Move) -> EvictionOutcome:
        try:
            return await executor.execute(move)
        except ApiError as error:  # another one leads by now, it may be: then this ends soon
            return EvictionOutcome(EvictionResult.FAILED, str(error))
