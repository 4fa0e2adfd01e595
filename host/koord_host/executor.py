"""The one writer: wishes in, ordered writes out.

A round (``apply``) looks at targets whose wishes have changed, that are due for a
refresh, or that were refused and may be tried again:

1. The wishes for each become one decision (``arbiter``).
2. Each is read. Where it is as decided, nothing is written; where a stranger has
   changed it since, a policy says what to do (``strangers``).
3. What differs is brought into an order the kernel accepts (``ordering``).
4. What was found, and what will be written, is remembered (``originals``) before
   anything is written.
5. The writes are done one by one; one that is refused stops no other
   (``outcomes.RETRIES`` says when it is tried again). Each target is read back.
6. What changed is journalled.
7. Deeds are done: writes that leave no state (``memory.reclaim``).

Where the last wish was a strategy's, what was found is put back when it goes: by the
same steps, until it is done, the place is gone, or a stranger's value is found. It is
then forgotten. What others than strategies wished stays.

Everything runs in the caller's thread and takes as long as the kernel takes; only
``base`` may be called from another.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from koord_host import places
from koord_host.arbiter import Decision, arbitrate
from koord_host.deeds import Deeds
from koord_host.files import KernelFiles
from koord_host.forms import Value
from koord_host.journal import Journal
from koord_host.knobs import KNOBS, Where
from koord_host.layout import Layout
from koord_host.ledger import Ledger
from koord_host.ordering import BOUND_TOGETHER, IDLE, SHARES, Change
from koord_host.originals import Original, Originals
from koord_host.outcomes import EMPTY, Outcome, Round
from koord_host.returning import Returns
from koord_host.standing import Running, Standing, Standings
from koord_host.strangers import Policy, Verdict, by_row
from koord_host.validity import invalid, trouble
from koord_host.wishes import Owner, Priority, Target, Wish
from koord_host.writer import Writer, decoded

REFRESH_SECONDS = 60.0
PRUNE_SECONDS = 600.0


class Executor:
    """Owns every knob. ``clock`` is seconds since the epoch, for people to read.

    ``policy`` says what is done about strangers' values, target by target: by default
    what the knob's row says.
    """

    def __init__(
        self,
        files: KernelFiles,
        layout: Layout,
        journal: Journal,
        originals: Originals,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        refresh_seconds: float = REFRESH_SECONDS,
        policy: Policy = by_row,
    ) -> None:
        self._files = files
        self._layout = layout
        self._originals = originals
        self._monotonic = monotonic
        self._policy = policy
        self._ledger = Ledger()
        self._again: dict[Target, None] = {}
        self._standings = Standings(refresh_seconds)
        self._returns = Returns(files, layout, originals, self._standings, self._ledger)
        self._writer = Writer(files, layout, journal, originals, self._standings, clock)
        self._deeds = Deeds(files, layout, journal, clock)
        self._invalid: dict[Target, set[tuple[Owner, Wish]]] = {}
        self._prune_at = 0.0

    # ---- wishes

    def wish(self, owner: Owner, scope: str, wishes: tuple[Wish, ...]) -> None:
        """What an owner wants in a scope ("pod <uid>", "node"); replaces what it wanted there.

        A value out of range counts as no wish, and is told in the next round.
        """
        self._ledger.put(owner, scope, wishes)

    def forget(self, owner: Owner, scope: str) -> None:
        """An owner wants nothing more in a scope.

        What other owners want then decides. Without any, what a strategy wished is put
        back, and other values stay as they are.
        """
        self._ledger.put(owner, scope, ())

    def look_again(self, owner: Owner, scope: str) -> None:
        """Read a scope's targets in the next round, and write ours where it is not there.

        For when something is known to have set them: systemd does so with all slices
        above a scope that it makes. Whoever did it is then no stranger.
        """
        self._again.update(dict.fromkeys(self._ledger.targets(owner, scope)))

    def look_again_at(self, concerned: Callable[[str], bool]) -> None:
        """The same for all targets of the places that are concerned, whoever wishes them.

        In the writer's thread.
        """
        found = (target for target in self._standings if concerned(target.place))
        self._again.update(dict.fromkeys(found))

    def do(self, owner: Owner, wishes: tuple[Wish, ...]) -> None:
        """Have something done once, in the next round: knobs whose row says ``deed``."""
        for wish in wishes:
            self._deeds.put(owner, wish, trouble(wish, deed=True))

    def put_back_unwished(self) -> None:
        """Have put back, from the next round on, what was last written for a strategy.

        What nobody wishes now, that is: an earlier run left it. To be called once, when
        every strategy has said what it wants.
        """
        left = (one.target for one in self._originals.all() if one.strategy)
        self._ledger.put_back({one: None for one in left if not self._ledger.of(one)})

    def base(self, target: Target) -> Value | None:
        """What a target would have without strategies; for any thread.

        What others wish of it, else what was found before its first change; ``None``
        where neither is known: it has what it has. A group made anew under its old name
        may for some minutes be given what was found in the one before it.
        """
        wishes = [
            (owner, wish)
            for owner, wish in self._ledger.of(target)
            if owner.priority < Priority.STRATEGY and not trouble(wish)
        ]
        if wishes:
            return arbitrate(KNOBS[target.knob], wishes).value
        original = self._originals.get(target)
        if original is None or original.text is None or target.knob not in KNOBS:
            return None
        return decoded(KNOBS[target.knob], original.text, self._layout.version)

    def standing(self, place: str) -> list[tuple[str, Decision]]:
        """What stands of a place's knobs, by name; for any thread."""
        # A copy: the writer's thread adds to it meanwhile.
        found = list(self._standings.items())
        return sorted(
            ((target.knob, one.decision) for target, one in found if target.place == place),
            key=lambda pair: pair[0],
        )

    # ---- a round

    def apply(self) -> Round:
        """Write what is due. Raises nothing for what the kernel refuses."""
        now = self._monotonic()
        if not (self._ledger.changed or self._again or self._standings.is_due(now) or self._deeds):
            return EMPTY
        self._prune(now)
        changed = self._ledger.take_changed()
        due: dict[Target, None] = {}
        try:
            return self._round(changed, due, Running(now))
        except Exception:
            # A defect loses no wish: all of this is due in the next round again.
            self._ledger.put_back(changed)
            self._again.update(due)
            raise

    def _round(
        self, changed: dict[Target, None], due: dict[Target, None], running: Running
    ) -> Round:
        for target in changed:
            if self._decide(target, running):
                due[target] = None
        self._take_again(due)
        self._take_due(due, running.now)
        for target in due:
            standing = self._standings[target]
            if standing.returning:
                self._look_back(standing, running)
            else:
                self._look(standing, running)
        if running.changes:
            self._writer.carry_out(running)
        self._originals.owe_many(running.owed.items())
        self._returns.forget_done(running)
        running.results += self._deeds.carry_out()
        return Round(tuple(running.results), tuple(running.conflicts))

    def _decide(self, target: Target, running: Running) -> bool:
        """Arbitrate anew; whether the target is to be looked at."""
        wishes = self._valid(target, running)
        standing = self._standings.get(target)
        if not wishes:
            return self._returns.begin(target, standing, self._again)
        knob = KNOBS[target.knob]
        decision = arbitrate(knob, wishes)
        before = standing.decision if standing else None
        if decision.conflict and not _same_conflict(before, decision):
            running.conflicts.append(decision.conflict)
        if knob.form(self._layout.version).lines is not None:
            decision = self._returns.completed(target, decision, before)
        if standing is None:
            path = self._layout.path(knob, target.place)
            self._standings[target] = Standing(target, knob, path, decision)
            return True
        standing.decision = decision
        if before is not None and before.value == decision.value and not standing.returning:
            return False
        standing.text = standing.left = None
        standing.returning = False
        standing.backoff, standing.told = 0.0, ()
        return True

    def _valid(self, target: Target, running: Running) -> list[tuple[Owner, Wish]]:
        """The wishes that can be written; of the others each is told once."""
        valid, told = [], self._invalid.pop(target, set())
        for owner, wish in self._ledger.of(target):
            reason = trouble(wish)
            if not reason:
                valid.append((owner, wish))
                continue
            self._invalid.setdefault(target, set()).add((owner, wish))
            if (owner, wish) not in told:
                running.results.append(invalid(owner, wish, reason))
        return valid

    def _take_again(self, due: dict[Target, None]) -> None:
        again, self._again = self._again, {}
        for target in again:
            standing = self._standings.get(target)
            if standing is not None:
                due[target] = None
                if standing.left is None:
                    standing.text = None

    def _take_due(self, due: dict[Target, None], now: float) -> None:
        """Add what is due by time, and what is bound to it."""
        due.update(dict.fromkeys(self._standings.take_due(now)))
        for target in list(due):
            for name in BOUND_TOGETHER.get(target.knob, ()):
                other = Target(target.place, name)
                if other in self._standings:
                    due[other] = None

    # ---- looking

    def _look(self, standing: Standing, running: Running) -> None:
        """Read a target; note a change where it is not as decided."""
        standing.due = 0.0
        try:
            text = self._read(standing, running)
        except OSError as error:
            self._writer.missed(standing, error, running)
            return
        value, knob, version = standing.decision.value, standing.knob, self._layout.version
        bound = self._bound_by_idle(standing.target, running)
        if not bound and (text == standing.text or knob.holds(value, text, version)):
            standing.text, standing.left = text, None
            if standing.identity is None:
                standing.identity = self._identity(standing)
            running.owed[standing.target] = standing.strategy
            self._standings.settle(standing, Outcome.UNCHANGED, running, value)
            return
        current = decoded(knob, text, version)
        if self._is_another(standing):
            standing.begin_anew()
        if standing.left is not None and not bound:
            standing.left = text
            self._standings.settle(standing, Outcome.YIELDED, running, current, reason=_THEIRS)
        elif bound or standing.text is None or not self._leave(standing, text, current, running):
            # What cannot be understood is written over as if it were ours.
            now = value if current is None else current
            running.changes[standing.target] = Change(standing.target, now, value)

    def _look_back(self, standing: Standing, running: Running) -> None:
        """Read a target that is to be put back; note a change where it is ours still."""
        standing.due = 0.0
        original = self._returns.original(standing)
        if original is None:
            self._standings.settle(standing, Outcome.GONE, running)
            return
        try:
            text = self._read(standing, running)
        except OSError as error:
            self._writer.missed(standing, error, running)
            return
        waking = self._bound_by_idle(standing.target, running)
        self._returns.look(standing, original, text, running, waking=waking)

    def _read(self, standing: Standing, running: Running) -> str:
        if not standing.path:
            raise FileNotFoundError(errno.ENOENT, "no such knob in this version of cgroups")
        text = running.texts.get(standing.path)
        if text is None:
            try:
                text = self._files.read(standing.path)
            except FileNotFoundError:
                if standing.knob.where is not Where.FILE:
                    raise
                # An agent's file is made where there is none.
                text = ""
            running.texts[standing.path] = text
        return text

    def _identity(self, standing: Standing) -> int | None:
        try:
            return places.identity(self._files, self._layout, standing.knob, standing.target.place)
        except OSError:
            return None

    def _is_another(self, standing: Standing) -> bool:
        """Whether the place was made anew since it was looked at: no stranger's work."""
        if standing.identity is None or (standing.text is None and standing.left is None):
            return False
        return self._identity(standing) != standing.identity

    def _bound_by_idle(self, target: Target, running: Running) -> bool:
        """Whether it is the shares of a group that is, or was, idle by a wish.

        It has others than it shows, or shall not have any: ``ordering`` knows.
        """
        idle = self._standings.get(Target(target.place, IDLE)) if target.knob == SHARES else None
        if idle is None:
            return False
        return idle.decision.value == 1 or self._writer.before(idle.target, running) == 1

    def _leave(
        self, standing: Standing, text: str, current: Value | None, running: Running
    ) -> bool:
        """A stranger's value was found: whether it stays."""
        policy = self._policy(standing.target, standing.knob)
        verdict = standing.strikes.judge(policy, running.now)
        alert = verdict in (Verdict.LEAVE_AND_ALERT, Verdict.WRITE_AND_ALERT)
        if verdict in (Verdict.WRITE, Verdict.WRITE_AND_ALERT):
            words = "changed by somebody else; ours is written again"
            if alert:
                words = (
                    f"changed by somebody else over and over ({len(standing.strikes.times)} times)"
                )
            running.notes[standing.target] = words, alert
            return False
        standing.left = text
        self._standings.settle(
            standing, Outcome.YIELDED, running, current, reason=_THEIRS, alert=alert
        )
        return True

    def _prune(self, now: float) -> None:
        """Now and then forget the originals of places that are gone."""
        if now >= self._prune_at:
            self._prune_at = now + PRUNE_SECONDS
            self._originals.forget_gone(self._is_there_still)

    def _is_there_still(self, original: Original) -> bool:
        return places.is_same(self._files, self._layout, original)


_THEIRS = "changed by somebody else; theirs stays until another value is wished"


def _same_conflict(before: Decision | None, now: Decision) -> bool:
    if before is None or before.conflict is None or now.conflict is None:
        return False
    return before.conflict.parties == now.conflict.parties
