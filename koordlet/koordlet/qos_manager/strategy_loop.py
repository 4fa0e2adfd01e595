"""The loop that runs strategies and passes their plans on.

Strategies run in their own thread, so that hook calls, evictions and the writer, which a
kernel file may block for long, do not wait for them. A round is that thread's alone until it
has ended; the event loop's thread takes its results, and is the only one to change what is
kept between rounds. Threads of pages read that: states, signals and the log of decisions.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Protocol

from koord_service.error_text import describe_error
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.logs import get_log

from koordlet.qos_manager import journal_line
from koordlet.qos_manager.core.decision_log import DecisionLog
from koordlet.qos_manager.core.strategy import (
    Decision,
    EvictionClaim,
    PodNotice,
    StrategyMode,
    StrategySignal,
    StrategyView,
)
from koordlet.qos_manager.core.strategy_round import AbandonedError, StrategyRound
from koordlet.qos_manager.core.strategy_runner import RoundPlans, StrategyRunner, StrategyState
from koordlet.qos_manager.plan_queue import NodePlan
from koordlet.qos_manager.strategy_table import DisabledStrategy
from koordlet.states_informer.state.share_pools import ReservedCPUs

_log = get_log("koordlet.decider")

_SILENT_SECONDS = 10.0
"""Time after which a strategy counts as hanging."""
_PAUSE_SECONDS = 1.0
_SETTLE_SECONDS = 10.0
"""After the start: strategies may lack measurements before."""
_LONGEST_SECONDS = 300.0
"""Time to wait for a list of pods: there may never be one."""

BuildView = Callable[[float, float, Mapping[str, tuple[StrategySignal, ...]]], StrategyView]
"""Builds the view of a moment: the wall clock, the steady one, the last round's signals."""


class ClaimConsumer(Protocol):
    """Evicts pods (``eviction.evictor``)."""

    def consider(
        self,
        view: StrategyView,
        claims: Sequence[tuple[str, StrategyMode, EvictionClaim]],
        notices: Sequence[tuple[str, StrategyMode, PodNotice]],
    ) -> Sequence[tuple[str, StrategyMode, Decision]]:
        """Take a round's claims; return the decisions about them."""
        ...


class StrategyLoop:
    """Runs rounds until cancelled.

    ``carry`` receives the plan for the node; ``None`` if koordlet writes nothing: then all
    strategies run in shadow mode.
    """

    def __init__(
        self,
        rounds: StrategyRunner,
        off: Sequence[DisabledStrategy],
        build_view: BuildView,
        decisions: DecisionLog,
        evictor: ClaimConsumer,
        carry: Callable[[NodePlan], None] | None,
    ) -> None:
        self._rounds = rounds
        self._off = tuple(_state(strategy) for strategy in off)
        self._build_view = build_view
        self._decisions = decisions
        self._evictor = evictor
        self._pass_on = carry
        self._last_plan = NodePlan()
        self._deduplicator = LogDeduplicator()
        self._started: float | None = None
        self._began: float | None = None
        self.signals: Mapping[str, tuple[StrategySignal, ...]] = {}
        """Of all strategies, shadows too: for ``/metrics``."""
        self.set_aside = ReservedCPUs()
        """CPUs that strategies claim; none where koordlet writes nothing."""

    def states(self) -> tuple[StrategyState, ...]:
        """The state of each strategy by name, disabled ones included."""
        return tuple(sorted((*self._rounds.states(), *self._off), key=lambda state: state.name))

    async def run(self) -> None:
        """Decide each time a strategy is due."""
        while True:
            await self.decide()
            await asyncio.sleep(max(self._rounds.next_due - time.monotonic(), 0.01))

    async def decide(self) -> None:
        """One round, now."""
        try:
            found = await self._run_round()
        except Exception as error:
            # A defect of koordlet: the last plan stays in force, and the next round may succeed.
            if self._deduplicator.is_new("round", describe_error(error)):
                _log.error("strategy round failed", reason=describe_error(error))
            await asyncio.sleep(_PAUSE_SECONDS)
            return
        if found is None:
            return
        for line in found[1].problems:
            _log.warning("strategy problem", reason=line)
        self._publish(*found)

    async def _run_round(self) -> tuple[StrategyView, RoundPlans] | None:
        """Run a round in a thread; ``None`` if a strategy in it was given up."""
        round_ = self._rounds.start()
        work = _run_in_thread(partial(self._round, round_))
        while not work.done():
            await asyncio.wait((work,), timeout=_SILENT_SECONDS)
            if not work.done() and (name := self._give_up_running(round_)):
                # It may still return.
                work.add_done_callback(partial(self._returned, name))
                return None
        try:
            found = work.result()
        except AbandonedError as error:  # it returned just when it was to be given up
            self._rounds.resume(error.name, error.plan)
            return None
        self._rounds.finish(round_)
        return found

    def _give_up_running(self, strategy_round: StrategyRound) -> str:
        """Give up the running strategy, and the round with it; its name, "" if none was."""
        name = strategy_round.running
        if not name:
            if self._deduplicator.is_new("view"):
                reason = "a kernel file does not answer; nothing is decided until it does"
                _log.error("strategy round hangs", reason=reason)
            return ""
        if not strategy_round.give_up(name):
            return ""
        reason = f"has not come back for {_SILENT_SECONDS:g} s; it is not asked until it does"
        self._rounds.suspend(name, reason)
        _log.error("strategy hangs", reason=f"{name} {reason}")
        return name

    def _returned(self, name: str, work: asyncio.Future[tuple[StrategyView, RoundPlans]]) -> None:
        """Ask a strategy again that was given up: the thread of its round has ended."""
        error = None if work.cancelled() else work.exception()
        self._rounds.resume(name, error.plan if isinstance(error, AbandonedError) else None)

    def _round(self, strategy_round: StrategyRound) -> tuple[StrategyView, RoundPlans]:
        view = self._build_view(time.time(), time.monotonic(), self._rounds.signals)
        return view, strategy_round.run(view)

    def _publish(self, view: StrategyView, found: RoundPlans) -> None:
        self.signals = found.signals
        of_evictions = self._decide_evictions(view, found)
        news = self._decisions.keep(view.at, [*found.decisions, *of_evictions])
        if self._pass_on is None:
            return
        self.set_aside = found.set_aside
        node_plan = NodePlan(
            desired={name: plan.desired for name, plan in found.done() if plan.desired},
            caches=tuple(cache for _, plan in found.done() for cache in plan.caches),
            one_shot=tuple(found.one_shot),
            lines=tuple(journal_line.line(entry) for entry in news),
            complete=self._is_complete(view),
        )
        if node_plan.differs(self._last_plan):
            self._pass_on(node_plan)
            self._last_plan = node_plan

    def _decide_evictions(
        self, view: StrategyView, found: RoundPlans
    ) -> Sequence[tuple[str, StrategyMode, Decision]]:
        """Decide on claims; an invalid claim prevents evictions, not the other plans."""
        try:
            return self._evictor.consider(view, found.claims, found.notices)
        except Exception as error:
            if self._deduplicator.is_new("claims", describe_error(error)):
                _log.error("claims of strategies failed", reason=describe_error(error))
            return ()

    def _is_complete(self, view: StrategyView) -> bool:
        """True if pods are known, or not expected any more, and strategies had time to measure."""
        if self._started is None:
            self._started = view.steady
        waited = view.steady >= self._started + _LONGEST_SECONDS
        if self._began is None and (view.pods_known or waited):
            self._began = view.steady
        return self._began is not None and view.steady >= self._began + _SETTLE_SECONDS


def _run_in_thread(
    work: Callable[[], tuple[StrategyView, RoundPlans]],
) -> asyncio.Future[tuple[StrategyView, RoundPlans]]:
    """Run it in a daemon thread: koordlet's exit must not wait for a call that hangs."""
    done: Future[tuple[StrategyView, RoundPlans]] = Future()
    done.set_running_or_notify_cancel()  # from now on cancelling ours leaves it alone

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="decider", daemon=True).start()
    return asyncio.wrap_future(done)


def _state(off: DisabledStrategy) -> StrategyState:
    return StrategyState(off.name, off.gate, StrategyMode.OFF, enabled=False, reason=off.reason)
