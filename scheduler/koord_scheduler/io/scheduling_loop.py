"""Decides in small slices, between which the API is heard and answered."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import anyio
from koord_service.logs import get_log

from koord_scheduler.framework.decisions import (
    Decision,
    ExtenderQuestion,
    Placement,
    PreemptionPlan,
    Refusal,
)
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.io.binder import Binder
from koord_scheduler.io.extender_client import ExtenderClient
from koord_scheduler.io.pre_binder import PreBinder
from koord_scheduler.io.victim_evictor import VictimEvictor
from koord_scheduler.io.wake_allowance import WakeAllowance

SLICE_SECONDS = 0.004
WAKE_SECONDS = 0.05
"""Interval of looks at parked classes, after changes."""
IDLE_SECONDS = 0.008
"""The same while nothing else is to be decided, and more of them may fit."""
MOST_UNSENT = 4000
"""Bindings and what is written before them; with so many on their way nothing is decided."""
_CALM_SECONDS = 1.0

log = get_log("scheduler")


class DecisionListener(Protocol):
    """Listener for decisions."""

    def decided(self, decision: Decision, seconds: float) -> None:
        """A decision, and how long it took."""
        ...

    def bound(self, placement: Placement) -> None:
        """A pod has its node."""
        ...

    def not_bound(self, pod: QueuedPod, reason: str) -> None:
        """A binding failed; the pod's turn comes again."""
        ...


class SchedulingLoop:
    """Has the decisions of ``scheduler`` carried out.

    ``silence`` returns why nothing may be decided at present, "" if it may.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        silence: Callable[[], str],
        listener: DecisionListener,
        monotonic: Callable[[], float] = time.monotonic,
        epoch: Callable[[], float] = time.time,
    ) -> None:
        self._scheduler = scheduler
        self._silence = silence
        self._listener = listener
        self._monotonic = monotonic
        self._epoch = epoch
        self._changed = anyio.Event()
        self._has_changed = True
        self._woken_at = float("-inf")
        self._allowance = WakeAllowance(monotonic)
        self._is_idle = False
        self.paused = ""
        """Reason why nothing is decided at present, in a line; "" while it is."""

    def notice_change(self) -> None:
        """Something changed by which a pod may fit."""
        self._has_changed = True
        self._changed.set()

    async def run(
        self,
        binder: Binder,
        pre_binder: PreBinder,
        evictor: VictimEvictor,
        extenders: ExtenderClient,
        unsent: Callable[[], int],
    ) -> None:
        """Decide until cancelled; ``unsent`` says how many writes for pods are not done."""
        async with anyio.create_task_group() as group:

            async def write_first(placement: Placement) -> None:
                if failure := await pre_binder.run(placement):
                    self.not_bound(placement.pod, failure)
                else:
                    binder.bind(placement)

            def carry_out(decision: Decision) -> None:
                match decision:
                    case Placement(reserved=()):
                        binder.bind(decision)
                    case Placement():
                        group.start_soon(write_first, decision)
                    case Refusal() if decision.remedy is not None:
                        group.start_soon(pre_binder.help, decision.remedy)
                    case Refusal(lost_nomination=True):
                        evictor.withdraw(decision.pod)
                    case PreemptionPlan():
                        evictor.evict(decision)

            await self._run(extenders, carry_out, unsent)

    async def _run(
        self,
        extenders: ExtenderClient,
        carry_out: Callable[[Decision], None],
        unsent: Callable[[], int],
    ) -> None:
        while True:
            self._changed = anyio.Event()
            self._pause_if(self._silence())
            if self.paused or unsent() >= MOST_UNSENT:
                await anyio.sleep(WAKE_SECONDS)
            elif await self._decide(extenders, carry_out, unsent):
                await anyio.lowlevel.checkpoint()
            else:
                with anyio.move_on_after(self._patience()):
                    await self._changed.wait()

    # ---- outcomes of bindings

    def bound(self, placement: Placement) -> None:
        """The pod has its node; the API will say so, too."""
        self._listener.bound(placement)

    def not_bound(self, pod: QueuedPod, reason: str) -> None:
        """Undo what was assumed of the pod."""
        self._scheduler.forget(pod, self._monotonic())
        self._listener.not_bound(pod, reason)
        self.notice_change()

    async def _decide(
        self,
        extenders: ExtenderClient,
        carry_out: Callable[[Decision], None],
        unsent: Callable[[], int],
    ) -> bool:
        """One slice; whether there may be more to decide at once."""
        now = began = self._monotonic()
        self._scheduler.tick(now, self._epoch())
        self._wake(now)
        while (decision := self._scheduler.decide(now)) is not None:
            if isinstance(decision, ExtenderQuestion):
                answered = await self._consult(decision, extenders)
                if answered is None:
                    return True
                decision = answered
            after = self._monotonic()
            if self._scheduler.was_in_vain(decision):
                self._allowance.spend(after - now)
            self._listener.decided(decision, after - now)
            carry_out(decision)
            now = after
            if now - began > SLICE_SECONDS or unsent() >= MOST_UNSENT:
                self._is_idle = False
                return True
        self._is_idle = True
        return False

    async def _consult(
        self, question: ExtenderQuestion, extenders: ExtenderClient
    ) -> Decision | None:
        """Return the result of a question; the cluster is followed meanwhile."""
        decision: Decision | ExtenderQuestion | None = question
        while isinstance(decision, ExtenderQuestion):
            answers = await extenders.ask(decision.calls)
            decision = self._scheduler.answer(decision, answers, self._monotonic())
        return decision

    def _wake(self, now: float) -> None:
        if now - self._woken_at >= self._wake_after():
            self._has_changed = False
            self._allowance.begin(least=SLICE_SECONDS if self._is_idle else 0.0)
            self._scheduler.wake(now, self._allowance)
            self._allowance.end()
            self._woken_at = now

    def _wake_after(self) -> float:
        """Return the seconds from the last look at parked classes to the next."""
        if self._is_idle and self._scheduler.is_waking:
            return IDLE_SECONDS
        return WAKE_SECONDS if self._has_changed or self._scheduler.is_waking else _CALM_SECONDS

    def _patience(self) -> float:
        """Return the seconds in which nothing can happen by itself."""
        now = self._monotonic()
        wake = self._woken_at + self._wake_after() - now
        due = self._scheduler.tick(now, self._epoch())
        return max(0.0, wake if due is None else min(wake, due - now))

    def _pause_if(self, reason: str) -> None:
        if bool(reason) != bool(self.paused):
            if reason:
                log.warning("no decisions", reason=reason)
            else:
                log.info("decisions go on")
        self.paused = reason
