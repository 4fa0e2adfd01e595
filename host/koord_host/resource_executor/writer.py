"""The writing half of a round: what differs is written, in order, and read back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from functools import partial

from koord_model.times import rfc3339_milli

from koord_host.kernel_files.interface import KernelFiles
from koord_host.knobs.forms import Value
from koord_host.knobs.layout import Layout
from koord_host.knobs.table import KNOBS, PlaceKind
from koord_host.planning.arbiter import ArbitratedValue
from koord_host.planning.desired_values import Target
from koord_host.planning.ordering import (
    BOUND_TOGETHER,
    IDLE,
    PERIOD,
    QUOTA,
    SHARES,
    WriteStep,
    order,
)
from koord_host.planning.outcomes import Outcome, Result, Retry, retry
from koord_host.planning.target_states import PinnedTargets, RoundState, TargetState, TargetStates
from koord_host.resource_executor import attempt, place_identity
from koord_host.resource_executor.attempt import explain
from koord_host.resource_executor.baselines import BaselineStore, BaselineValue
from koord_host.resource_executor.journal import ChangeEntry as Line
from koord_host.resource_executor.journal import Journal

_LONGEST = 500


class Writer:
    """Carries out a round's changes; one refused write stops no other."""

    def __init__(
        self,
        files: KernelFiles,
        layout: Layout,
        journal: Journal,
        baselines: BaselineStore,
        states: TargetStates,
        clock: Callable[[], float],
    ) -> None:
        self._files = files
        self._layout = layout
        self._journal = journal
        self._baselines = baselines
        self._states = states
        self._clock = clock
        self._unsupported: set[str] = set()
        self._time = ""

    def carry_out(self, running: RoundState) -> None:
        """Write the round's changes, read them back, journal them."""
        self._time = rfc3339_milli(self._clock())
        plan = order(
            running.changes.values(),
            partial(self.before, running=running),
            PinnedTargets(self._states),
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
                self._override(self._states[target], reasons[target], running)
            else:
                self._finish(self._states[target], running)
        for target in aside:
            self._finish_aside(target, running)
        self._baselines.record_writes(running.written)
        self._journal.flush()

    def _aside(self, steps: Iterable[WriteStep], running: RoundState) -> list[Target]:
        """Return the targets that change without a desired value; they are read before that."""
        aside = [step.target for step in steps if step.implied]
        for step in steps:
            # A group that begins to idle, or ends, forgets its shares.
            shares = Target(step.target.place, SHARES)
            if step.target.knob == IDLE and not any(other.target == shares for other in steps):
                aside.append(shares)
        for target in aside:
            with contextlib.suppress(OSError):
                self._text(self._path(target), running)
        return aside

    def _path(self, target: Target) -> str:
        state = self._states.get(target)
        if state is not None:
            return state.path
        return self._layout.path(KNOBS[target.knob], target.place)

    def _text(self, path: str, running: RoundState) -> str:
        """A file as it was before the round's first write."""
        text = running.texts.get(path)
        if text is None:
            text = running.texts[path] = self._files.read(path)
        return text

    def before(self, target: Target, running: RoundState) -> Value | None:
        """Return a knob's value before the round's writes; ``None`` where it has no file."""
        path = self._path(target)
        try:
            return decoded(self._layout, target, self._text(path, running)) if path else None
        except OSError:
            return None

    def _remember(
        self, steps: Iterable[WriteStep], aside: list[Target], running: RoundState
    ) -> None:
        """Keep what was found and what will be written, in one transaction, before it is."""
        found, owners = [], []
        for target in dict.fromkeys((*(step.target for step in steps), *aside)):
            try:
                identity = self._identity(target, running)
                if self._baselines.needs(target, identity):
                    found.append(
                        BaselineValue(target, identity, self._found(target), self._clock())
                    )
            except OSError as error:
                running.errors[target] = error
                running.lost.add(target)
                continue
            if (state := self._states.get(target)) is not None:
                state.identity = identity
            if strategy := self._strategy(target):
                # Of the value before this one it may still be true: never taken back here.
                owners.append((target, strategy))
        pending = [self._pending_writes(step, running) for step in steps]
        self._baselines.remember(found, pending, owners)

    def _strategy(self, target: Target) -> str:
        """Return the strategy for which a target is written, "" for none; implied ones included."""
        state = self._states.get(target)
        if state is not None:
            return state.strategy
        return self._states[_needed_by(target)].strategy

    def _identity(self, target: Target, running: RoundState) -> int:
        """Looked up once a directory; what a place has is the same for all files in it."""
        directory = self._path(target).rpartition("/")[0]
        identity = running.identities.get(directory)
        if identity is None:
            knob = KNOBS[target.knob]
            identity = place_identity.identity(self._files, self._layout, knob, target.place)
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
            if KNOBS[target.knob].where is not PlaceKind.FILE:
                raise
            return None

    def _pending_writes(self, step: WriteStep, running: RoundState) -> tuple[Target, str]:
        form = self._layout.form(KNOBS[step.target.knob], step.target.place)
        current = running.texts.get(self._path(step.target), "")
        return step.target, form.encode(step.value, current)

    def _do(self, step: WriteStep, running: RoundState) -> None:
        try:
            self._put(step.target, step.value, running)
        except OSError as error:
            running.errors[step.target] = error
        else:
            running.errors.pop(step.target, None)

    def _put(self, target: Target, value: Value, running: RoundState) -> None:
        for name in BOUND_TOGETHER.get(target.knob, ()):
            running.after.pop(Target(target.place, name), None)
        running.after.pop(target, None)
        state = self._states.get(target)
        if state is None or not state.returning:
            running.after[target] = attempt.write(
                self._files, self._layout, target, value, reclaims=False
            )
            return
        text, taken = attempt.put_back(self._files, self._layout, target, value, reclaims=False)
        running.after[target] = text
        if taken != value:
            state.decision = state.decision._replace(value=taken)

    def _step_back(self, target: Target, running: RoundState) -> None:
        """Restore the old value where the last of several writes was refused.

        A quota that passed through -1 for its period's sake must not stay so.
        """
        change = running.changes.get(target)
        if change is None or target in running.lost:
            return
        try:
            text = self._files.read(self._path(target))
        except OSError:
            return
        if decoded(self._layout, target, text) in (change.current, None):
            return
        period = running.changes.get(Target(target.place, PERIOD))
        for before in (period, change) if target.knob == QUOTA else (change,):
            if before is not None:
                with contextlib.suppress(OSError):
                    self._put(before.target, before.current, running)
                running.errors.setdefault(before.target, running.errors[target])

    def _finish(self, state: TargetState, running: RoundState) -> None:
        """Read a target back, and report the result."""
        target, value = state.target, state.decision.value
        old = running.changes[target].current
        error = running.errors.get(target)
        try:
            text = running.after.get(target)
            if text is None:
                text = self._files.read(state.path)
        except OSError as gone:
            self.missed(state, gone if error is None else error, running)
            return
        new = decoded(self._layout, target, text)
        if new != old:
            self._record(target, state.decision, old, new)
            running.written.append((target, text))
        if error is None and self._layout.holds(state.knob, target.place, value, text):
            state.text = text
            running.owners[target] = state.strategy
            words, alert = running.notes.get(target, ("", False))
            self._states.settle(
                state, Outcome.WRITTEN, running, old, new, reason=words, alert=alert
            )
            return
        state.text = None
        if error is None:
            error = OSError(0, f"the kernel keeps {new}")
        self.refused(state, error, old, running)

    def _finish_aside(self, target: Target, running: RoundState) -> None:
        """Report and journal a dependent write under the owner that needed it."""
        needs = _needed_by(target)
        decision = self._states[needs].decision
        path = self._path(target)
        try:
            text = self._files.read(path)
        except OSError:
            return
        old = decoded(self._layout, target, running.texts.get(path, ""))
        new = decoded(self._layout, target, text)
        error = running.errors.get(target)
        if new != old:
            self._record(target, decision, old, new)
            running.written.append((target, text))
            running.owners.setdefault(target, self._strategy(target))
        if target in running.changes or (error is None and new == old):
            return
        reason, code, outcome = f"goes with {needs.knob}", 0, Outcome.WRITTEN
        if error is not None:
            words = explain(self._files, self._layout, target, decision.value, error)
            reason, code, outcome = f"{reason}: {words}", error.errno or 0, Outcome.REFUSED
        reported = (decision.owner, decision.why, decision.pod, reason, code)
        running.results.append(Result(target, outcome, old, new, *reported))

    def _override(self, state: TargetState, reason: str, running: RoundState) -> None:
        state.text = None
        old = running.changes[state.target].current
        self._states.settle(state, Outcome.OVERRIDDEN, running, old, old, reason=reason)

    def refused(
        self, state: TargetState, error: OSError, old: Value | None, running: RoundState
    ) -> None:
        """Report a value that the kernel refuses, with the reason if there is one."""
        code = error.errno or 0
        value = state.decision.value
        if retry(code) is Retry.NEVER and not self._there(state):
            state.begin_anew()
            self._states.settle(state, Outcome.GONE, running, old)
            return
        reason = error.strerror or str(error)
        if code:
            reason = explain(self._files, self._layout, state.target, value, error)
        self._states.settle(
            state, Outcome.REFUSED, running, old, value, reason=reason, code=code, alert=True
        )

    def _record(
        self, target: Target, decision: ArbitratedValue, old: Value | None, new: Value | None
    ) -> None:
        place, knob = target
        owner, why, pod = decision.owner, decision.why, decision.pod
        line = Line(self._time, owner, place, pod, knob, _short(old), _short(new), why)
        self._journal.add(line)

    def missed(self, state: TargetState, error: OSError, running: RoundState) -> None:
        """A file that cannot be read: the place is gone, or the knob is, or we may not."""
        if retry(error.errno or 0) is not Retry.NEVER:
            self.refused(state, error, None, running)
        elif not self._there(state):
            state.begin_anew()
            self._states.settle(state, Outcome.GONE, running)
        else:
            reported = state.knob.name in self._unsupported
            self._unsupported.add(state.knob.name)
            reason = f"this kernel has no {state.path or state.knob.name}"
            self._states.settle(
                state, Outcome.UNSUPPORTED, running, reason=reason, reported=reported
            )

    def _there(self, state: TargetState) -> bool:
        return place_identity.is_there(self._files, self._layout, state.knob, state.target.place)


def _needed_by(target: Target) -> Target:
    """The knob along with which one changes that no owner wants."""
    return next(Target(target.place, name) for name in BOUND_TOGETHER[target.knob])


def _short(value: Value | None) -> Value | None:
    """An agent's whole file is too much for a line."""
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"{value[:_LONGEST]}…"
    return value


def decoded(layout: Layout, target: Target, text: str) -> Value | None:
    """A file's value; ``None`` for text that no kernel gives."""
    try:
        return layout.form(KNOBS[target.knob], target.place).decode(text)
    except ValueError:
        return None
