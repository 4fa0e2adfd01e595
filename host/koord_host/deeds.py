"""Writes that are done once and leave no state: ``memory.reclaim``.

Nothing is read back, put back or done again. What was freed is the kernel's affair: EAGAIN
says that it was less than asked for, which is no trouble.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import NamedTuple

from koord_host import attempt, places
from koord_host.files import KernelFiles
from koord_host.journal import Change as Line
from koord_host.journal import Journal, rfc3339
from koord_host.knobs import KNOBS
from koord_host.layout import Layout
from koord_host.outcomes import Outcome, Result, Retry, retry
from koord_host.wishes import Owner, Target, Wish

LESS = "less was freed than asked for"
_MOST_TOLD = 4096


class _Deed(NamedTuple):
    """One write; ``trouble`` says why it cannot be one, "" if it can."""

    owner: Owner
    wish: Wish
    trouble: str


class Deeds:
    """What is to be done in the next round, and the troubles that were told."""

    def __init__(
        self, files: KernelFiles, layout: Layout, journal: Journal, clock: Callable[[], float]
    ) -> None:
        self._files = files
        self._layout = layout
        self._journal = journal
        self._clock = clock
        self._waiting: dict[tuple[Owner, Target], _Deed] = {}
        self._told: dict[Target, tuple[Outcome, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, owner: Owner, wish: Wish, trouble: str = "") -> None:
        """Have one done in the next round, instead of what its owner has waiting there.

        A round that comes late does not do twice what was wished twice meanwhile.
        """
        self._waiting[owner, wish.target] = _Deed(owner, wish, trouble)

    def carry_out(self) -> list[Result]:
        """Do what is waiting, each once whatever becomes of it, and journal it."""
        waiting, self._waiting = self._waiting, {}
        results = [self._do(deed) for deed in waiting.values()]
        if results:
            self._journal.flush()
        return results

    def _do(self, deed: _Deed) -> Result:
        if deed.trouble:
            return self._result(deed, Outcome.INVALID, deed.trouble)
        target, value = deed.wish.target, deed.wish.value
        path = self._layout.path(KNOBS[target.knob], target.place)
        if not path:
            return self._result(deed, Outcome.UNSUPPORTED, f"this kernel has no {target.knob}")
        code, reason = 0, ""
        try:
            attempt.once(self._files, self._layout, target, value)
        except OSError as error:
            code, reason = error.errno or 0, error.strerror or str(error)
            if code != errno.EAGAIN:
                return self._failed(deed, path, code, reason)
            reason = LESS
        why = deed.wish.why
        line = Line(
            rfc3339(self._clock()),
            deed.owner.name,
            target.place,
            deed.wish.pod,
            target.knob,
            None,
            value,
            f"{why}; {reason}" if why and reason else why or reason,
        )
        self._journal.add(line)
        return self._result(deed, Outcome.WRITTEN, reason, code)

    def _failed(self, deed: _Deed, path: str, code: int, reason: str) -> Result:
        if retry(code) is not Retry.NEVER:
            return self._result(deed, Outcome.REFUSED, reason, code)
        target = deed.wish.target
        if places.is_there(self._files, self._layout, KNOBS[target.knob], target.place):
            return self._result(deed, Outcome.UNSUPPORTED, f"this kernel has no {path}", code)
        return self._result(deed, Outcome.GONE, "", code)

    def _result(self, deed: _Deed, outcome: Outcome, reason: str, code: int = 0) -> Result:
        """What became of it; the same trouble of the same target is news once."""
        wish = deed.wish
        news = outcome is Outcome.WRITTEN
        if outcome in (Outcome.WRITTEN, Outcome.GONE):
            self._told.pop(wish.target, None)
        else:
            news = self._told.get(wish.target) != (outcome, code)
            if len(self._told) >= _MOST_TOLD:
                # Of groups that have gone since.
                self._told.clear()
            self._told[wish.target] = outcome, code
        alert = outcome in (Outcome.REFUSED, Outcome.INVALID)
        said = (deed.owner.name, wish.why, wish.pod, reason, code, news, alert)
        return Result(wish.target, outcome, None, wish.value, *said)
