"""The writing half of a round: what differs is written, in order, and read back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from functools import partial

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
from koord_host.standing import Held, Running, Standing, Standings
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
        plan = order(
            running.changes.values(), partial(self.before, running=running), Held(self._standings)
        )
        reasons = dict(plan.dropped)
        aside = self._aside(plan.steps, running)
        self._remember(plan.steps, aside, running)
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
            with contextlib.suppress(OSError):
                self._text(self._path(target), running)
        return aside

    def _path(self, target: Target) -> str:
        standing = self._standings.get(target)
        if standing is not None:
            return standing.path
        return self._layout.path(KNOBS[target.knob], target.place)

    def _text(self, path: str, running: Running) -> str:
        """A file as it was before the round's first write."""
        text = running.texts.get(path)
        if text is None:
            text = running.texts[path] = self._files.read(path)
        return text

    def before(self, target: Target, running: Running) -> Value | None:
        """What a knob had before the round's writes; ``None`` where it has no file."""
        knob, path = KNOBS[target.knob], self._path(target)
        try:
            return decoded(knob, self._text(path, running), self._layout.version) if path else None
        except OSError:
            return None

    def _remember(self, steps: Iterable[Step], aside: list[Target], running: Running) -> None:
        """Keep what was found and what will be written, in one transaction, before it is."""
        found, owed = [], []
        for target in dict.fromkeys((*(step.target for step in steps), *aside)):
            try:
                identity = self._identity(target, running)
                if self._originals.needs(target, identity):
                    found.append(Original(target, identity, self._found(target), self._clock()))
            except OSError as error:
                running.errors[target] = error
                running.lost.add(target)
                continue
            if (standing := self._standings.get(target)) is not None:
                standing.identity = identity
            if strategy := self._strategy(target):
                # Of the value before this one it may still be true: never taken back here.
                owed.append((target, strategy))
        meant = [self._meant(step, running) for step in steps]
        self._originals.remember_many(found, meant, owed)

    def _strategy(self, target: Target) -> str:
        """For which strategy a target is written, "" for none; what goes along, for whom."""
        standing = self._standings.get(target)
        if standing is not None:
            return standing.strategy
        return self._standings[_needed_by(target)].strategy

    def _identity(self, target: Target, running: Running) -> int:
        """Looked up once a directory; what a place has is the same for all files in it."""
        directory = self._path(target).rpartition("/")[0]
        identity = running.identities.get(directory)
        if identity is None:
            knob = KNOBS[target.knob]
            identity = places.identity(self._files, self._layout, knob, target.place)
            running.identities[directory] = identity
        return identity

    def _found(self, target: Target) -> str | None:
        """The text of a target's file; ``None`` where it is yet to be made.

        Read after its identity: of a group made anew in between, the text then belongs to
        an identity that is gone, and is never put back. The other way round it would be.
        """
        try:
            return self._files.read(self._path(target))
        except FileNotFoundError:
            if KNOBS[target.knob].where is not Where.FILE:
                raise
            return None

    def _meant(self, step: Step, running: Running) -> tuple[Target, str]:
        form = KNOBS[step.target.knob].form(self._layout.version)
        current = running.texts.get(self._path(step.target), "")
        return step.target, form.encode(step.value, current)

    def _do(self, step: Step, running: Running) -> None:
        try:
            self._put(step.target, step.value, running)
        except OSError as error:
            running.errors[step.target] = error
        else:
            running.errors.pop(step.target, None)

    def _put(self, target: Target, value: Value, running: Running) -> None:
        for name in BOUND_TOGETHER.get(target.knob, ()):
            running.after.pop(Target(target.place, name), None)
        running.after.pop(target, None)
        standing = self._standings.get(target)
        if standing is None or not standing.returning:
            running.after[target] = attempt.write(self._files, self._layout, target, value)
            return
        text, taken = attempt.put_back(self._files, self._layout, target, value)
        running.after[target] = text
        if taken != value:
            standing.decision = standing.decision._replace(value=taken)

    def _step_back(self, target: Target, running: Running) -> None:
        """Where the last of several writes was refused, put back what was there before.

        A quota that passed through -1 for its period's sake must not stay so.
        """
        change = running.changes.get(target)
        if change is None or target in running.lost:
            return
        try:
            text = self._files.read(self._path(target))
        except OSError:
            return
        if decoded(KNOBS[target.knob], text, self._layout.version) in (change.current, None):
            return
        period = running.changes.get(Target(target.place, PERIOD))
        for before in (period, change) if target.knob == QUOTA else (change,):
            if before is not None:
                with contextlib.suppress(OSError):
                    self._put(before.target, before.current, running)
                running.errors.setdefault(before.target, running.errors[target])

    def _finish(self, standing: Standing, running: Running) -> None:
        """Read a target back, and tell what became of it."""
        target, value, version = standing.target, standing.decision.value, self._layout.version
        old = running.changes[target].current
        error = running.errors.get(target)
        try:
            text = running.after.get(target)
            if text is None:
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
            running.owed[target] = standing.strategy
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
        needs = _needed_by(target)
        decision = self._standings[needs].decision
        knob, version = KNOBS[target.knob], self._layout.version
        path = self._path(target)
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
            running.owed.setdefault(target, self._strategy(target))
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
            standing.begin_anew()
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
            standing.begin_anew()
            self._standings.settle(standing, Outcome.GONE, running)
        else:
            told = standing.knob.name in self._unsupported
            self._unsupported.add(standing.knob.name)
            reason = f"this kernel has no {standing.path or standing.knob.name}"
            self._standings.settle(standing, Outcome.UNSUPPORTED, running, reason=reason, told=told)

    def _there(self, standing: Standing) -> bool:
        return places.is_there(self._files, self._layout, standing.knob, standing.target.place)


def _needed_by(target: Target) -> Target:
    """The knob with which one goes along that nobody wishes."""
    return next(Target(target.place, name) for name in BOUND_TOGETHER[target.knob])


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
