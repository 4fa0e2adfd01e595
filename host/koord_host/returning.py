"""Putting back what strategies changed and nobody wishes any more.

Strategies come and go with load and settings. Of a target whose last wish was one, or
that was last written for one, the value found before the first change is put back by the
rounds that follow: as any other value is, with the same order and the same retries. A
stranger's value in place of ours stays. Then the target is forgotten, with its original.
"""

from __future__ import annotations

from koord_host import places
from koord_host.arbiter import Decision
from koord_host.files import Reader
from koord_host.forms import Value
from koord_host.knobs import KNOBS, Knob
from koord_host.layout import Layout
from koord_host.ledger import Ledger
from koord_host.ordering import BOUND_TOGETHER, IDLE, Change
from koord_host.originals import Original, Originals
from koord_host.outcomes import Outcome, Result
from koord_host.restore import Fate, compare
from koord_host.standing import Running, Standing, Standings
from koord_host.wishes import Owner, Priority, Target
from koord_host.writer import decoded

WHY = "no longer wanted: as it was found"
_DONE = frozenset(
    {Outcome.WRITTEN, Outcome.UNCHANGED, Outcome.GONE, Outcome.UNSUPPORTED, Outcome.YIELDED}
)


class Returns:
    """Which targets return to what was found; the executor asks, round by round."""

    def __init__(
        self,
        files: Reader,
        layout: Layout,
        originals: Originals,
        standings: Standings,
        ledger: Ledger,
    ) -> None:
        self._files = files
        self._layout = layout
        self._originals = originals
        self._standings = standings
        self._ledger = ledger

    def begin(self, target: Target, standing: Standing | None, again: dict[Target, None]) -> bool:
        """Nobody wishes a target: whether it is to be looked at, to be put back.

        ``again`` gets what returns along with it.
        """
        if standing is not None and standing.returning:
            return True
        original, knob = self._originals.get(target), KNOBS.get(target.knob)
        strategy = standing.strategy if standing is not None else ""
        if original is not None:
            strategy = strategy or original.strategy
        if original is None or knob is None or not strategy:
            self._standings.pop(target, None)
            return False
        found = self._decoded(knob, original.text)
        pod = standing.decision.pod if standing is not None else ""
        decision = Decision(found, (Owner(strategy, Priority.STRATEGY),), WHY, pod)
        path = self._layout.path(knob, target.place)
        self._standings[target] = Standing(target, knob, path, decision, returning=True)
        for name in BOUND_TOGETHER.get(target.knob, ()):
            self._along(Target(target.place, name), again)
        return True

    def _along(self, target: Target, again: dict[Target, None]) -> None:
        """What changed only because it had to go along returns along."""
        original = self._originals.get(target)
        wished = target in self._standings or self._ledger.of(target)
        if original is not None and original.strategy and not wished:
            self.begin(target, None, again)
            again[target] = None

    def original(self, standing: Standing) -> Original | None:
        """What was found, where the target is still the one that was changed then."""
        original = self._originals.get(standing.target)
        if original is None or not places.is_same(self._files, self._layout, original):
            return None
        return original

    def look(
        self, standing: Standing, original: Original, text: str, running: Running, *, waking: bool
    ) -> None:
        """Note a change where a target holds ours still; ``text`` is what it holds.

        ``waking``: it shows what the group has only while it is idle.
        """
        found = compare(original, text, self._layout.version, waking=waking)
        if isinstance(found, Change):
            standing.decision = standing.decision._replace(value=found.wanted)
            running.changes[standing.target] = found
        elif found.fate is Fate.UNCHANGED:
            self._standings.settle(standing, Outcome.UNCHANGED, running, found.old)
        else:
            reason = found.reason
            self._standings.settle(standing, Outcome.YIELDED, running, found.old, reason=reason)

    def forget_done(self, running: Running) -> None:
        """Forget what was put back, or cannot be any more; what was refused is tried again."""
        done = []
        for result in running.results:
            standing = self._standings.get(result.target)
            if standing is None or not standing.returning:
                continue
            if result.outcome in _DONE or self._is_asleep(result):
                done.append(result.target)
        for target in done:
            del self._standings[target]
        self._originals.forget_many(done)

    def _is_asleep(self, result: Result) -> bool:
        """Whether it is the shares of a group that idles and is not to wake: it keeps none.

        While somebody wishes that it idles, they wait for the day on which nobody does.
        """
        if result.outcome is not Outcome.OVERRIDDEN:
            return False
        idle = self._standings.get(Target(result.target.place, IDLE))
        return idle is None or idle.returning

    def completed(self, target: Target, decision: Decision, before: Decision | None) -> Decision:
        """Devices that are named no longer get what was found of them."""
        knob, original = KNOBS[target.knob], self._originals.get(target)
        found = self._decoded(knob, original.text if original else None)
        gone = before.value if before else self._decoded(knob, original.ours if original else None)
        form = knob.form(self._layout.version)
        return decision._replace(value=form.complete(decision.value, gone, found))

    def _decoded(self, knob: Knob, text: str | None) -> Value:
        value = None if text is None else decoded(knob, text, self._layout.version)
        return "" if value is None else value
