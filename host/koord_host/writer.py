"""The writing half of a round: what differs is written, in order, and read back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from koord_host import attempt, places
from koord_host.arbiter import Decision
from koord_host.attempt import explain
from koord_host.files import KernelFiles
from koord_host.forms import Value
from koord_host.journal import Change as Line
from koord_host.journal import Journal, rfc3339
from koord_host.knobs import KNOBS, Knob, Where
from koord_host.layout import Layout
from koord_host.ordering import BOUND_TOGETHER, IDLE, PERIOD, QUOTA, SHARES, Step, order
from koord_host.originals import Original, Originals
from koord_host.outcomes import Outcome, Result, Retry, retry
from koord_host.standing import Running, Standing, Standings
from koord_host.wishes import Target

_LONGEST = 500


class Writer:
    """Carries out a round's changes; one refused write stops no other."""

    def __init__(
        self,
        files: KernelFiles,
        layout: Layout,
        journal: Journal,
        originals: Originals,
        standings: Standings,
        clock: Callable[[], float],
    ) -> None:
        self._files = files
        self._layout = layout
        self._journal = journal
        self._originals = originals
        self._standings = standings
        self._clock = clock
        self._unsupported: set[str] = set()
        self._time = ""

    def carry_out(self, running: Running) -> None:
        """Write the round's changes, read them back, journal them."""
        self._time = rfc3339(self._clock())
        plan = order(running.changes.values(), self.present, self._standings)
        reasons = dict(plan.dropped)
        aside = self._aside(plan.steps, running)
        self._remember((*(step.target for step in plan.steps), *aside), running)
        for step in plan.steps:
            if step.target not in running.lost:
                self._do(step, running)
        for target in list(running.errors):
            self._step_back(target, running)
        for target in running.changes:
            if target in reasons:
                self._override(self._standings[target], reasons[target], running)
            else:
                self._finish(self._standings[target], running)
        for target in aside:
            self._finish_aside(target, running)
        self._originals.wrote_many(running.written)
        self._journal.flush()

    def _aside(self, steps: Iterable[Step], running: Running) -> list[Target]:
        """What changes though nobody wishes it now; read before it does."""
        aside = [step.target for step in steps if step.implied]
        for step in steps:
            # A group that begins to idle, or ends, forgets its shares.
            shares = Target(step.target.place, SHARES)
            if step.target.knob == IDLE and not any(one.target == shares for one in steps):
                aside.append(shares)
        for target in aside:
            path = self._layout.path(KNOBS[target.knob], target.place)
            with contextlib.suppress(OSError):
                running.texts[path] = self._files.read(path)
        return aside

    def present(self, target: Target) -> Value | None:
        """What a knob has that need not change; ``None`` where it has no file."""
        knob = KNOBS[target.knob]
        path = self._layout.path(knob, target.place)
        try:
            return decoded(knob, self._files.read(path), self._layout.version) if path else None
        except OSError:
            return None

    def _remember(self, targets: Iterable[Target], running: Running) -> None:
        """Keep what was found, in one transaction, before anything is written."""
        found = []
        for target in dict.fromkeys(targets):
            knob = KNOBS[target.knob]
            try:
                identity = places.identity(self._files, self._layout, knob, target.place)
                if self._originals.needs(target, identity):
                    text = self._found(target, knob, running)
                    found.append(Original(target, identity, text, self._clock()))
            except OSError as error:
                running.errors[target] = error
                running.lost.add(target)
        if found:
            self._originals.remember_many(found)

    def _found(self, target: Target, knob: Knob, running: Running) -> str | None:
        """The text of a target's file; ``None`` where it is yet to be made."""
        path = self._layout.path(knob, target.place)
        text = running.texts.get(path)
        if text is None:
            text = running.texts[path] = self._files.read(path)
        missing = knob.where is Where.FILE and not text and not self._files.exists(path)
        return None if missing else text

    def _do(self, step: Step, running: Running) -> None:
        try:
            attempt.write(self._files, self._layout, step.target, step.value)
        except OSError as error:
            running.errors[step.target] = error
        else:
            running.errors.pop(step.target, None)

    def _step_back(self, target: Target, running: Running) -> None:
        """Where the last of several writes was refused, put back what was there before.

        A quota that passed through -1 for its period's sake must not stay so.
        """
        change = running.changes.get(target)
        if change is None or self.present(target) in (change.current, None):
            return
        period = running.changes.get(Target(target.place, PERIOD))
        for before in (period, change) if target.knob == QUOTA else (change,):
            if before is not None:
                with contextlib.suppress(OSError):
                    attempt.write(self._files, self._layout, before.target, before.current)
                running.errors.setdefault(before.target, running.errors[target])

    def _finish(self, standing: Standing, running: Running) -> None:
        """Read a target back, and tell what became of it."""
        target, value, version = standing.target, standing.decision.value, self._layout.version
        old = running.changes[target].current
        error = running.errors.get(target)
        try:
            text = self._files.read(standing.path)
        except OSError as gone:
            self.missed(standing, gone if error is None else error, running)
            return
        new = decoded(standing.knob, text, version)
        if new != old:
            self._record(target, standing.decision, old, new)
            running.written.append((target, text))
        if error is None and standing.knob.holds(value, text, version):
            standing.text = text
            words, alert = running.notes.get(target, ("", False))
            self._standings.settle(
                standing, Outcome.WRITTEN, running, old, new, reason=words, alert=alert
            )
            return
        standing.text = None
        if error is None:
            error = OSError(0, f"the kernel keeps {new}")
        self.refused(standing, error, old, running)

    def _finish_aside(self, target: Target, running: Running) -> None:
        """What nobody wished is told and journalled in the name of who needed it."""
        needs = next(Target(target.place, name) for name in BOUND_TOGETHER[target.knob])
        decision = self._standings[needs].decision
        knob, version = KNOBS[target.knob], self._layout.version
        path = self._layout.path(knob, target.place)
        try:
            text = self._files.read(path)
        except OSError:
            return
        old = decoded(knob, running.texts.get(path, ""), version)
        new = decoded(knob, text, version)
        error = running.errors.get(target)
        if new != old:
            self._record(target, decision, old, new)
            running.written.append((target, text))
        if target in running.changes or (error is None and new == old):
            return
        reason, code, outcome = f"goes with {needs.knob}", 0, Outcome.WRITTEN
        if error is not None:
            words = explain(self._files, self._layout, target, decision.value, error)
            reason, code, outcome = f"{reason}: {words}", error.errno or 0, Outcome.REFUSED
        told = (decision.owner, decision.why, decision.pod, reason, code)
        running.results.append(Result(target, outcome, old, new, *told))

    def _override(self, standing: Standing, reason: str, running: Running) -> None:
        standing.text = None
        old = running.changes[standing.target].current
        self._standings.settle(standing, Outcome.OVERRIDDEN, running, old, old, reason=reason)

    def refused(
        self, standing: Standing, error: OSError, old: Value | None, running: Running
    ) -> None:
        """Tell what the kernel says no to, with whatever explains it."""
        code = error.errno or 0
        value = standing.decision.value
        if retry(code) is Retry.NEVER and not self._there(standing):
            self._standings.settle(standing, Outcome.GONE, running, old)
            return
        reason = error.strerror or str(error)
        if code:
            reason = explain(self._files, self._layout, standing.target, value, error)
        self._standings.settle(
            standing, Outcome.REFUSED, running, old, value, reason=reason, code=code, alert=True
        )

    def _record(
        self, target: Target, decision: Decision, old: Value | None, new: Value | None
    ) -> None:
        place, knob = target
        owner, why, pod = decision.owner, decision.why, decision.pod
        line = Line(self._time, owner, place, pod, knob, _short(old), _short(new), why)
        self._journal.add(line)

    def missed(self, standing: Standing, error: OSError, running: Running) -> None:
        """A file that cannot be read: the place is gone, or the knob is, or we may not."""
        if retry(error.errno or 0) is not Retry.NEVER:
            self.refused(standing, error, None, running)
        elif not self._there(standing):
            self._standings.settle(standing, Outcome.GONE, running)
        else:
            told = standing.knob.name in self._unsupported
            self._unsupported.add(standing.knob.name)
            reason = f"this kernel has no {standing.path or standing.knob.name}"
            self._standings.settle(standing, Outcome.UNSUPPORTED, running, reason=reason, told=told)

    def _there(self, standing: Standing) -> bool:
        return places.is_there(self._files, self._layout, standing.knob, standing.target.place)


def _short(value: Value | None) -> Value | None:
    """An agent's whole file is too much for a line."""
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"{value[:_LONGEST]}…"
    return value


def decoded(knob: Knob, text: str, version: int) -> Value | None:
    """A file's value; ``None`` for text that no kernel gives."""
    try:
        return knob.form(version).decode(text)
    except ValueError:
        return None
