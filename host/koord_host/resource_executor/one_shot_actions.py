"""One-shot actions: writes that are done once and leave no state, ``memory.reclaim``.

Each is a job, since the kernel takes its time. It is done in pieces, and between two of them it
can be stopped. Nothing is put back or done again; the journal has one line for
what was freed, whichever way it ended.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import NamedTuple

from koord_model.times import rfc3339_milli

from koord_host.kernel_files.interface import KernelFiles
from koord_host.knobs.layout import Layout
from koord_host.knobs.table import KNOBS
from koord_host.planning.desired_values import DesiredValue, Owner, Target
from koord_host.planning.jobs import CancelToken, Job, JobKey, Jobs
from koord_host.planning.outcomes import Outcome, Result, Retry, retry
from koord_host.resource_executor import attempt, place_identity
from koord_host.resource_executor.journal import ChangeEntry as Line
from koord_host.resource_executor.journal import Journal

PIECE_BYTES = 16 << 20
SECONDS = 30.0
"""An action may take so long, and wait so long: what it goes by is not true for ever."""

NO_MORE = "the kernel found no more"
_MOST_REPORTED = 4096


class _Action(NamedTuple):
    owner: Owner
    desired: DesiredValue


class _ActionResult(NamedTuple):
    """Result of an action; ``new`` is the number of freed bytes."""

    action: _Action
    outcome: Outcome
    reason: str = ""
    code: int = 0
    new: int | None = None


class OneShotActions:
    """Has actions done as ``jobs``; ``put`` and ``take_results`` are for the writer's thread."""

    def __init__(
        self,
        files: KernelFiles,
        layout: Layout,
        journal: Journal,
        clock: Callable[[], float],
        jobs: Jobs,
    ) -> None:
        self._files = files
        self._layout = layout
        self._journal = journal
        self._clock = clock
        self._jobs = jobs
        self._ended: SimpleQueue[_ActionResult] = SimpleQueue()
        self._reported: dict[Target, tuple[Outcome, int]] = {}

    def __bool__(self) -> bool:
        """True if there are results to be taken."""
        return not self._ended.empty()

    def put(self, owner: Owner, desired: DesiredValue, problem: str = "") -> None:
        """Have one done, instead of what its owner has waiting there.

        ``problem`` says why it cannot be, "" if it can.
        """
        action, target = _Action(owner, desired), desired.target
        if problem:
            self._ended.put(_ActionResult(action, Outcome.INVALID, problem))
        elif not self._layout.path(KNOBS[target.knob], target.place):
            reason = f"this kernel has no {target.knob}"
            self._ended.put(_ActionResult(action, Outcome.UNSUPPORTED, reason))
        else:
            key = JobKey(target.knob, target.place, owner.name)
            self._jobs.submit(Job(key, SECONDS, partial(self._do, action), SECONDS))

    def take_results(self) -> list[Result]:
        """The results of actions since the last call."""
        results = []
        while True:
            try:
                results.append(self._result(self._ended.get_nowait()))
            except Empty:
                return results

    # ---- in the job's thread

    def _do(self, action: _Action, cancel: CancelToken) -> None:
        desired = action.desired
        freed, error = self._reclaim(desired.target, int(desired.value), cancel)
        code, cause = 0, cancel.reason
        if error is not None:
            code, cause = error.errno or 0, error.strerror or str(error)
            if code == errno.EAGAIN:
                cause = NO_MORE
            elif not freed:
                self._ended.put(self._failed(action, code, cause))
                return
        if not freed and cancel.reason:
            return  # nothing was done: the job's end reports it
        reason = f"{freed} of {desired.value} bytes: {cause}" if cause else ""
        why = "; ".join(filter(None, (desired.why, reason)))
        who, (place, knob) = action.owner.name, desired.target
        line = Line(rfc3339_milli(self._clock()), who, place, desired.pod, knob, None, freed, why)
        self._journal.add(line)
        self._journal.flush()
        self._ended.put(_ActionResult(action, Outcome.WRITTEN, reason, code, freed))

    def _reclaim(
        self, target: Target, size: int, cancel: CancelToken
    ) -> tuple[int, OSError | None]:
        """Bytes that were freed, and what the kernel said where that is less than ``size``."""
        freed = 0
        while freed < size and not cancel.cancelled():
            piece, before = min(PIECE_BYTES, size - freed), self._usage(target)
            try:
                attempt.once(self._files, self._layout, target, piece)
            except OSError as error:
                if error.errno == errno.EAGAIN:
                    # It does not say how much less it was.
                    freed += min(max(before - self._usage(target), 0), piece)
                return freed, error
            freed += piece
        return freed, None

    def _usage(self, target: Target) -> int:
        return attempt.usage(self._files, self._layout, target)

    def _failed(self, action: _Action, code: int, reason: str) -> _ActionResult:
        if retry(code) is not Retry.NEVER:
            return _ActionResult(action, Outcome.REFUSED, reason, code)
        target = action.desired.target
        knob = KNOBS[target.knob]
        if place_identity.is_there(self._files, self._layout, knob, target.place):
            path = self._layout.path(knob, target.place)
            return _ActionResult(action, Outcome.UNSUPPORTED, f"this kernel has no {path}", code)
        return _ActionResult(action, Outcome.GONE, "", code)

    # ---- in the writer's

    def _result(self, ended: _ActionResult) -> Result:
        """Report a failure; the same failure of the same target only once."""
        (owner, desired), outcome, reason, code, new = ended
        news = outcome is Outcome.WRITTEN
        if outcome in (Outcome.WRITTEN, Outcome.GONE):
            self._reported.pop(desired.target, None)
        else:
            news = self._reported.get(desired.target) != (outcome, code)
            if len(self._reported) >= _MOST_REPORTED:
                # Of groups that have gone since.
                self._reported.clear()
            self._reported[desired.target] = outcome, code
        alert = outcome in (Outcome.REFUSED, Outcome.INVALID)
        said = (owner.name, desired.why, desired.pod, reason, code, news, alert)
        value = desired.value if new is None else new
        return Result(desired.target, outcome, None, value, *said)
