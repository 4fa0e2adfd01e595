"""The loop that has strategies decide, and hands on what they decided.

Strategies are asked in a thread of their own: neither hook calls nor the writer, which a
kernel file may block for long, nor evictions wait for them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from koord_service.logs import get_log

from koordlet.deciding import journal_line
from koordlet.deciding.carrying import Wanted
from koordlet.deciding.contract import Claim, Decision, Mode, Notice, Signal, View
from koordlet.deciding.decisions import Decisions
from koordlet.deciding.round import Round, Rounds, StrategyState
from koordlet.deciding.table import Off
from koordlet.telling import Told, reason_of

_log = get_log("koordlet.decider")

_SILENT_SECONDS = 10.0
"""After which a strategy counts as hanging."""
_PAUSE_SECONDS = 1.0
_SETTLE_SECONDS = 10.0
"""After the start: before, strategies may not have measured yet what they go by."""
_LONGEST_SECONDS = 300.0
"""After which nobody waits for a list of pods any more: there may never be one."""

Look = Callable[[float, float, Mapping[str, tuple[Signal, ...]]], View]
"""Builds the view of a moment: the wall clock, the steady one, the last round's signals."""


class Evicts(Protocol):
    """Who evicts pods (``evicting.evictor``)."""

    def consider(
        self,
        view: View,
        claims: Sequence[tuple[str, Mode, Claim]],
        notices: Sequence[tuple[str, Mode, Notice]],
    ) -> Sequence[tuple[str, Mode, Decision]]:
        """Take a round's claims; what was decided about them."""
        ...


class Decider:
    """Decides until cancelled.

    ``carry`` hands on what is wanted of the node; ``None`` where nothing is written: then all
    strategies are shadows.
    """

    def __init__(
        self,
        rounds: Rounds,
        off: Sequence[Off],
        look: Look,
        decisions: Decisions,
        evictor: Evicts,
        carry: Callable[[Wanted], None] | None,
    ) -> None:
        self._rounds = rounds
        self._off = tuple(_state(one) for one in off)
        self._look = look
        self._decisions = decisions
        self._evictor = evictor
        self._carry = carry
        self._wanted = Wanted()
        self._told = Told()
        self._started: float | None = None
        self._began: float | None = None
        self.signals: Mapping[str, tuple[Signal, ...]] = {}
        """Of all strategies, shadows too: for ``/metrics``."""

    def states(self) -> tuple[StrategyState, ...]:
        """How each strategy fares, those switched off too, by name."""
        return tuple(sorted((*self._rounds.states(), *self._off), key=lambda one: one.name))

    async def run(self) -> None:
        """Decide each time a strategy is due."""
        while True:
            await self.decide()
            await asyncio.sleep(max(self._rounds.next_due - time.monotonic(), 0.01))

    async def decide(self) -> None:
        """One round, now."""
        try:
            found = await self._asked()
        except Exception as error:
            # A defect of ours: what was wanted stands, and the next round may be well.
            if self._told.first_time("round", reason_of(error)):
                _log.error("round of strategies failed", reason=reason_of(error))
            await asyncio.sleep(_PAUSE_SECONDS)
            return
        if found is None:
            return
        for line in found[1].problems:
            _log.warning("strategy", reason=line)
        self._hand_on(*found)

    async def _asked(self) -> tuple[View, Round] | None:
        """A round of the thread; ``None`` where a strategy in it was given up."""
        work = _aside(self._round)
        while not work.done():
            await asyncio.wait((work,), timeout=_SILENT_SECONDS)
            if not work.done() and self._left_behind():
                # It may come back yet; what it then says is nobody's business any more.
                work.add_done_callback(_heard)
                return None
        return work.result()

    def _left_behind(self) -> bool:
        """Go on without it, if it is a strategy that does not come back."""
        name = self._rounds.running
        if not name:
            if self._told.first_time("view"):
                reason = "a kernel file does not answer; nothing is decided until it does"
                _log.error("round of strategies hangs", reason=reason)
            return False
        reason = f"has not come back for {_SILENT_SECONDS:g} s; it is not asked until it does"
        if not self._rounds.give_up(name, reason):
            return False
        _log.error("strategy", reason=f"{name} {reason}")
        return True

    def _round(self) -> tuple[View, Round]:
        view = self._look(time.time(), time.monotonic(), self._rounds.signals)
        return view, self._rounds.decide(view)

    def _hand_on(self, view: View, found: Round) -> None:
        self.signals = found.signals
        about_pods = self._about_pods(view, found)
        news = self._decisions.keep(view.at, [*found.decisions, *about_pods])
        if self._carry is None:
            return
        wanted = Wanted(
            wishes={name: plan.wishes for name, plan in found.done() if plan.wishes},
            caches=tuple(one for _, plan in found.done() for one in plan.caches),
            deeds=tuple(found.deeds),
            lines=tuple(journal_line.line(entry) for entry in news),
            complete=self._settled(view),
        )
        if wanted.differs(self._wanted):
            self._wanted = wanted
            self._carry(wanted)

    def _about_pods(self, view: View, found: Round) -> Sequence[tuple[str, Mode, Decision]]:
        """What is decided of claims; a claim that makes no sense costs evictions, not wishes."""
        try:
            return self._evictor.consider(view, found.claims, found.notices)
        except Exception as error:
            if self._told.first_time("claims", reason_of(error)):
                _log.error("claims of strategies failed", reason=reason_of(error))
            return ()

    def _settled(self, view: View) -> bool:
        """Whether strategies have known the pods, or will not, and had time to measure."""
        if self._started is None:
            self._started = view.steady
        waited = view.steady >= self._started + _LONGEST_SECONDS
        if self._began is None and (view.pods_known or waited):
            self._began = view.steady
        return self._began is not None and view.steady >= self._began + _SETTLE_SECONDS


def _aside(work: Callable[[], tuple[View, Round]]) -> asyncio.Future[tuple[View, Round]]:
    """Have it done in a thread for which nobody waits at the end: it may never come to one."""
    done: Future[tuple[View, Round]] = Future()
    done.set_running_or_notify_cancel()  # from now on cancelling ours leaves it alone

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="decider", daemon=True).start()
    return asyncio.wrap_future(done)


def _heard(work: asyncio.Future[tuple[View, Round]]) -> None:
    if not work.cancelled():
        work.exception()


def _state(off: Off) -> StrategyState:
    return StrategyState(off.name, off.gate, Mode.OFF, enabled=False, reason=off.reason)
