"""The one writer: desired values in, ordered writes out.

A round (``apply``) reads targets whose desired values changed, that are due for a
refresh, or that were refused and may be tried again:

1. The values desired for each become one (``arbiter``).
2. Each is read. Where it is as decided, nothing is written; where the kubelet has set it
   since, that is what is put back one day (``kubelet_limits``); where somebody else has
   changed it, a policy says what to do (``drift``).
3. What differs is brought into an order the kernel accepts (``ordering``).
4. What was found, and what will be written, is remembered (``baselines``) before
   anything is written.
5. The writes are done one by one; one that is refused stops no other
   (``outcomes.RETRIES`` says when it is tried again). Each target is read back.
6. What changed is journalled.

What strategies want is written ahead of all else (``apply_urgent``): it follows the load.
What leaves no state and takes long (``memory.reclaim``) is a job (``one_shot``), and no
round waits for it: its result comes with a later one.

When a strategy that was the last to want a value drops it, the executor rolls the value back by
the same steps, until that is done, the cgroup is gone, or somebody else has changed the value.
It then forgets the target. Values of owners other than strategies stay.

Everything but jobs runs in the caller's thread, and takes as long as the kernel takes; only
``base`` and ``state`` may be called from another.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping

from koord_host.kernel_files.interface import KernelFiles
from koord_host.knobs.forms import Value
from koord_host.knobs.layout import Layout
from koord_host.knobs.table import KNOBS, PlaceKind
from koord_host.planning.arbiter import ArbitratedValue, arbitrate
from koord_host.planning.desired_values import DesiredValue, Owner, Priority, Target
from koord_host.planning.drift import DriftPolicyOf, DriftResponse, by_row
from koord_host.planning.jobs import InlineJobs, Jobs
from koord_host.planning.ledger import Ledger
from koord_host.planning.ordering import (
    BOUND_TOGETHER,
    IDLE,
    LIMIT,
    SHARES,
    ValueChange,
    outgrows,
    parts,
)
from koord_host.planning.outcomes import EMPTY, Outcome, Round, joined
from koord_host.planning.target_states import RoundState, TargetState, TargetStates
from koord_host.planning.validity import invalid, problem
from koord_host.resource_executor import attempt, place_identity
from koord_host.resource_executor.baselines import BaselineStore, BaselineValue
from koord_host.resource_executor.journal import Journal
from koord_host.resource_executor.kubelet_limits import WHY, KubeletLimits
from koord_host.resource_executor.one_shot_actions import OneShotActions
from koord_host.resource_executor.rollback import Rollback
from koord_host.resource_executor.writer import Writer, decoded

REFRESH_SECONDS = 60.0
PRUNE_SECONDS = 600.0
_MOST = 128
"""Targets in one part of a round: some milliseconds."""


class Executor:
    """Owns every knob. ``clock`` is seconds since the epoch, for people to read.

    ``policy`` says what to do about values that somebody else set, target by target: by default
    what the knob's row says. ``jobs`` does what takes long; without it, that is done at once.
    """

    def __init__(
        self,
        files: KernelFiles,
        layout: Layout,
        journal: Journal,
        baselines: BaselineStore,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        refresh_seconds: float = REFRESH_SECONDS,
        policy: DriftPolicyOf = by_row,
        jobs: Jobs | None = None,
    ) -> None:
        self._files = files
        self._layout = layout
        self._baselines = baselines
        self._monotonic = monotonic
        self._policy = policy
        self._ledger = Ledger()
        self._again: dict[Target, None] = {}
        self._states = TargetStates(refresh_seconds)
        self._words = words = KubeletLimits(files, layout, baselines)
        self._rollback = Rollback(files, layout, baselines, self._states, self._ledger, words)
        self._writer = Writer(files, layout, journal, baselines, self._states, clock)
        self._actions = OneShotActions(files, layout, journal, clock, jobs or InlineJobs(monotonic))
        self._invalid: dict[Target, set[tuple[Owner, DesiredValue]]] = {}
        self._prune_at = 0.0

    # ---- desired values

    def set_desired(
        self, owner: Owner, scope: str, desired_values: tuple[DesiredValue, ...]
    ) -> None:
        """Replace an owner's desired values of a scope ("pod <uid>", "node").

        A value out of range is ignored, and reported in the next round.
        """
        self._ledger.put(owner, scope, desired_values)

    def forget(self, owner: Owner, scope: str) -> None:
        """An owner wants nothing more in a scope.

        The values of other owners then decide. Without any, a strategy's value is put
        back, and other values stay as they are.
        """
        self._ledger.put(owner, scope, ())

    def set_listed(self, scope: str, limits: Mapping[Target, int]) -> None:
        """Set the limits of a scope in the kubelet's list in place of its former ones.

        Quotas are in terms of ``LISTED_PERIOD``.
        """
        self._words.set_listed(scope, limits, self._monotonic())

    def reread(self, owner: Owner, scope: str) -> None:
        """Read a scope's targets in the next round, and write ours where it is not there.

        For when something is known to have set them: systemd does so with all slices
        above a scope that it makes. That does not count as drift.
        """
        self._again.update(dict.fromkeys(self._ledger.targets(owner, scope)))

    def reread_at(self, concerned: Callable[[str], bool]) -> None:
        """The same for all targets of the places that are concerned, whoever wants them.

        In the writer's thread.
        """
        found = (target for target in self._states if concerned(target.place))
        self._again.update(dict.fromkeys(found))

    def run_once(self, owner: Owner, desired_values: tuple[DesiredValue, ...]) -> None:
        """Have something done once, as a job: knobs whose row says ``one_shot``."""
        for desired in desired_values:
            self._actions.put(owner, desired, problem(desired, one_shot=True))

    def roll_back_undesired(self) -> None:
        """Have put back, from the next round on, what was last written for a strategy.

        Only what no owner wants now: an earlier run left it. To be called once, when
        every strategy has said what it wants.
        """
        left = (target.target for target in self._baselines.all() if target.strategy)
        self._ledger.put_back({target: None for target in left if not self._ledger.of(target)})

    def base(self, target: Target) -> Value | None:
        """Return a target's value without strategies; for any thread.

        What others want of it, else the kubelet's latest word, or what was found before its
        first change; ``None`` where neither is known: it has what it has. A group made anew
        under its old name may for some minutes be given what was found in the one before it.
        """
        desired_values = [
            (owner, desired)
            for owner, desired in self._ledger.of(target)
            if owner.priority < Priority.STRATEGY and not problem(desired)
        ]
        if desired_values:
            return arbitrate(KNOBS[target.knob], desired_values).value
        baseline = self._baselines.get(target)
        if baseline is None or baseline.text is None or target.knob not in KNOBS:
            return None
        return decoded(self._layout, target, baseline.text)

    def is_untouched(self, target: Target) -> bool:
        """True if nothing was ever written to a target, as far as is known; for any thread."""
        return self._baselines.get(target) is None

    def arbitrated_values(self, place: str) -> list[tuple[str, ArbitratedValue]]:
        """Return the arbitrated values of a place's knobs, by name; for any thread."""
        # A copy: the writer's thread adds to it meanwhile.
        found = list(self._states.items())
        return sorted(
            ((target.knob, state.decision) for target, state in found if target.place == place),
            key=lambda pair: pair[0],
        )

    # ---- a round

    def apply(self, between: Callable[[], None] = lambda: None) -> Round:
        """Write what is due. Raises nothing for what the kernel refuses.

        Very much is done in parts, of groups that have nothing to do with each other.
        ``between`` is called between two of them, and may call ``apply_urgent``.
        """
        now = self._monotonic()
        self._ledger.put_back(dict.fromkeys(self._words.settle(now)))
        due_by_time = self._states.is_due(now)
        if not (self._ledger.changed or self._again or due_by_time or self._actions):
            return EMPTY
        self._prune(now)
        changed, (again, self._again) = self._ledger.take_changed(), (self._again, {})
        rereads = again | dict.fromkeys(self._states.take_due(now))
        todo = parts(changed | rereads, _MOST)
        rounds = [Round(tuple(self._actions.take_results()))]
        try:
            while todo:
                part = todo[0]
                rounds.append(self._part(_of(part, changed), _of(part, again), _of(part, rereads)))
                if todo := todo[1:]:
                    between()
        except Exception:
            # A defect loses no value: all that is left is due in the next round again.
            for part in todo:
                self._ledger.put_back(_of(part, changed))
                self._again |= _of(part, rereads)
            raise
        return joined(*rounds)

    def apply_urgent(self) -> Round:
        """Write what strategies, or a person, have changed their minds about, and no more."""
        urgent = self._ledger.take_urgent()
        if not urgent:
            return EMPTY
        try:
            return self._part(urgent, {}, {})
        except Exception:
            self._ledger.put_back(urgent)
            raise

    def _part(
        self, changed: dict[Target, None], again: dict[Target, None], rereads: dict[Target, None]
    ) -> Round:
        """Decide about what has changed, read that and others, and write what differs."""
        due: dict[Target, None] = {}
        running = RoundState(self._monotonic())
        for target in changed:
            if self._decide(target, running):
                due[target] = None
        for target in rereads:
            state = self._states.get(target)
            if state is None:
                continue
            due[target] = None
            if target in again and state.left is None:
                state.text = None
        try:
            return self._carry_out(due, running)
        except Exception:
            self._again |= due
            raise

    def _carry_out(self, due: dict[Target, None], running: RoundState) -> Round:
        self._add_bound(due)
        for target in due:
            state = self._states[target]
            if state.returning:
                self._check_rollback(state, running)
            else:
                self._check(state, running)
        self._words.follow()
        self._wait_together(running)
        if running.changes:
            self._writer.carry_out(running)
            self._make_room(running)
        self._baselines.set_owners(running.owners.items())
        self._rollback.forget_done(running)
        return Round(tuple(running.results), tuple(running.conflicts))

    def _decide(self, target: Target, running: RoundState) -> bool:
        """Arbitrate anew; return whether the target is to be read."""
        desired_values = self._valid(target, running)
        state = self._states.get(target)
        if not desired_values:
            return self._rollback.begin(target, state)
        knob = KNOBS[target.knob]
        decision = arbitrate(knob, desired_values)
        before = state.decision if state else None
        if decision.conflict and not _same_conflict(before, decision):
            running.conflicts.append(decision.conflict)
        if self._layout.form(knob, target.place).lines is not None:
            decision = self._rollback.completed(target, decision, before)
        if state is None:
            path = self._layout.path(knob, target.place)
            self._states[target] = TargetState(target, knob, path, decision)
            return True
        state.decision = decision
        if before is not None and before.value == decision.value and not state.returning:
            return False
        state.text = state.left = None
        state.returning = False
        state.failures, state.reported = 0, ()
        return True

    def _valid(self, target: Target, running: RoundState) -> list[tuple[Owner, DesiredValue]]:
        """The values that can be written; each of the others is reported once."""
        valid, reported = [], self._invalid.pop(target, set())
        for owner, desired in self._ledger.of(target):
            reason = problem(desired)
            if not reason:
                valid.append((owner, desired))
                continue
            self._invalid.setdefault(target, set()).add((owner, desired))
            if (owner, desired) not in reported:
                running.results.append(invalid(owner, desired, reason))
        return valid

    def _add_bound(self, due: dict[Target, None]) -> None:
        """Add what is bound to what is due."""
        for target in list(due):
            for name in BOUND_TOGETHER.get(target.knob, ()):
                other = Target(target.place, name)
                if other in self._states:
                    due[other] = None

    # ---- reading

    def _make_room(self, running: RoundState) -> None:
        """Have freed, as jobs, what is in the way of limits; these are tried again soon."""
        for target, error in running.errors.items():
            if target.knob != LIMIT or error.errno != errno.EBUSY or self._layout.version == 1:
                continue
            decision = self._states[target].decision
            over = attempt.excess(self._files, self._layout, target, decision.value)
            if over > 0:
                action = DesiredValue(
                    Target(target.place, "memory.reclaim"), over, decision.why, decision.pod
                )
                self._actions.put(decision.owners[0], action)

    def _check(self, state: TargetState, running: RoundState) -> None:
        """Read a target; note a change where it is not as decided."""
        state.due = 0.0
        try:
            text = self._read(state, running)
        except OSError as error:
            self._writer.missed(state, error, running)
            return
        value = state.decision.value
        bound = self._bound_by_idle(state.target, running)
        if not bound and text != state.text:
            self._words.look(state.target, text, running.now)
        if not bound and (text == state.text or self._holds(state, text)):
            state.text, state.left = text, None
            if state.identity is None:
                state.identity = self._identity(state)
            running.owners[state.target] = state.strategy
            self._states.settle(state, Outcome.UNCHANGED, running, value)
            return
        current = decoded(self._layout, state.target, text)
        if self._is_another(state):
            state.begin_anew()
        if state.left is not None and not bound:
            state.left = text
            self._states.settle(state, Outcome.YIELDED, running, current, reason=_THEIRS)
        elif state.strategy and (delay := self._words.waits(state.target, running.now)):
            self._wait(state, current, delay, running)
        elif bound or state.text is None or not self._leave(state, text, current, running):
            # What cannot be understood is written over as if it were ours.
            now = value if current is None else current
            running.changes[state.target] = ValueChange(state.target, now, value)

    def _wait(
        self, state: TargetState, current: Value | None, delay: float, running: RoundState
    ) -> None:
        state.text = None
        self._states.settle(state, Outcome.WAITING, running, current, reason=WHY, delay=delay)

    def _wait_together(self, running: RoundState) -> None:
        """Have a change wait that would give a group more than the one above it has, which waits.

        Or a group less than one below it has, which waits.
        """
        for waiting in self._words.waiting(running.now):
            delay = self._words.waits(waiting, running.now)
            value = self._writer.before(waiting, running)
            for change in list(running.changes.values()):
                state = self._states[change.target]
                if value is None or state.returning or not outgrows(change, waiting, value):
                    continue
                del running.changes[change.target]
                self._wait(state, change.current, delay, running)

    def _check_rollback(self, state: TargetState, running: RoundState) -> None:
        """Read a target that is to be put back; note a change where it is ours still."""
        state.due = 0.0
        baseline = self._rollback.baseline(state)
        if baseline is None:
            self._states.settle(state, Outcome.GONE, running)
            return
        try:
            text = self._read(state, running)
        except OSError as error:
            self._writer.missed(state, error, running)
            return
        waking = self._bound_by_idle(state.target, running)
        self._rollback.look(state, baseline, text, running, waking=waking)

    def _holds(self, state: TargetState, text: str) -> bool:
        """True if a target's text means the decided value."""
        value, place = state.decision.value, state.target.place
        return self._layout.holds(state.knob, place, value, text)

    def _read(self, state: TargetState, running: RoundState) -> str:
        if not state.path:
            raise FileNotFoundError(errno.ENOENT, "no such knob in this version of cgroups")
        text = running.texts.get(state.path)
        if text is None:
            try:
                place = state.target.place
                text = place_identity.read(self._files, self._layout, state.knob, place)
            except FileNotFoundError:
                if state.knob.where is not PlaceKind.FILE:
                    raise
                # An agent's file is made where there is none.
                text = ""
            running.texts[state.path] = text
        return text

    def _identity(self, state: TargetState) -> int | None:
        try:
            return place_identity.identity(
                self._files, self._layout, state.knob, state.target.place
            )
        except OSError:
            return None

    def _is_another(self, state: TargetState) -> bool:
        """True if the place was created again since the last check, which is not drift."""
        if state.identity is None or (state.text is None and state.left is None):
            return False
        return self._identity(state) != state.identity

    def _bound_by_idle(self, target: Target, running: RoundState) -> bool:
        """True if it is the shares of a group that an owner has, or had, idle.

        It has others than it shows, or shall not have any: ``ordering`` knows.
        """
        idle = self._states.get(Target(target.place, IDLE)) if target.knob == SHARES else None
        if idle is None:
            return False
        return idle.decision.value == 1 or self._writer.before(idle.target, running) == 1

    def _leave(
        self, state: TargetState, text: str, current: Value | None, running: RoundState
    ) -> bool:
        """Handle drift: return whether the foreign value stays."""
        policy = self._policy(state.target, state.knob)
        verdict = state.drift_counter.judge(policy, running.now)
        alert = verdict in (DriftResponse.LEAVE_AND_ALERT, DriftResponse.WRITE_AND_ALERT)
        if verdict in (DriftResponse.WRITE, DriftResponse.WRITE_AND_ALERT):
            words = "changed by somebody else; ours is written again"
            if alert:
                times = len(state.drift_counter.times)
                words = f"changed by somebody else over and over ({times} times)"
            running.notes[state.target] = words, alert
            return False
        state.left = text
        self._states.settle(state, Outcome.YIELDED, running, current, reason=_THEIRS, alert=alert)
        return True

    def _prune(self, now: float) -> None:
        """Now and then forget the baselines of places that are gone."""
        if now >= self._prune_at:
            self._prune_at = now + PRUNE_SECONDS
            self._baselines.forget_gone(self._is_there_still)
            self._words.forget_gone()

    def _is_there_still(self, baseline: BaselineValue) -> bool:
        return place_identity.is_same(self._files, self._layout, baseline)


_THEIRS = "changed by somebody else; theirs stays until another value is desired"


def _of(part: Iterable[Target], targets: dict[Target, None]) -> dict[Target, None]:
    return {target: None for target in part if target in targets}


def _same_conflict(before: ArbitratedValue | None, now: ArbitratedValue) -> bool:
    if before is None or before.conflict is None or now.conflict is None:
        return False
    return before.conflict.parties == now.conflict.parties
