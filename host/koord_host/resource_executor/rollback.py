"""Rolling back what strategies changed and no owner wants any more.

Strategies come and go with load and settings. If a strategy was the last to want a target, or the
last for which it was written, later rounds restore the value found before the first change, in
the same order and with the same retries as any other write. A value that somebody else has set
meanwhile stays. The target and its baseline are then forgotten.
"""

from __future__ import annotations

from koord_host.kernel_files.interface import FileReader
from koord_host.knobs.forms import Value
from koord_host.knobs.layout import Layout
from koord_host.knobs.table import KNOBS
from koord_host.planning.arbiter import ArbitratedValue
from koord_host.planning.desired_values import Owner, Priority, Target
from koord_host.planning.ledger import Ledger
from koord_host.planning.ordering import BOUND_TOGETHER, IDLE, ValueChange
from koord_host.planning.outcomes import Outcome, Result
from koord_host.planning.target_states import RoundState, TargetState, TargetStates
from koord_host.resource_executor import place_identity
from koord_host.resource_executor.baselines import BaselineStore, BaselineValue
from koord_host.resource_executor.kubelet_limits import KubeletLimits
from koord_host.resource_executor.restore import RestoreOutcome, compare
from koord_host.resource_executor.writer import decoded

WHY = "no longer wanted: as it was found"
_DONE = frozenset(
    {Outcome.WRITTEN, Outcome.UNCHANGED, Outcome.GONE, Outcome.UNSUPPORTED, Outcome.YIELDED}
)


class Rollback:
    """Targets on their way back to their baselines; the executor asks round by round."""

    def __init__(
        self,
        files: FileReader,
        layout: Layout,
        baselines: BaselineStore,
        states: TargetStates,
        ledger: Ledger,
        words: KubeletLimits,
    ) -> None:
        self._files = files
        self._layout = layout
        self._baselines = baselines
        self._states = states
        self._ledger = ledger
        self._words = words

    def begin(self, target: Target, state: TargetState | None) -> bool:
        """No owner wants a target: return whether it is to be read, to be put back.

        What is bound to it returns along with it.
        """
        if state is not None and state.returning:
            return True
        baseline, knob = self._baselines.get(target), KNOBS.get(target.knob)
        strategy = state.strategy if state is not None else ""
        if baseline is not None:
            strategy = strategy or baseline.strategy
        if baseline is None or knob is None or not strategy:
            self._states.pop(target, None)
            return False
        found = self._decoded(target, baseline.text)
        pod = state.decision.pod if state is not None else ""
        decision = ArbitratedValue(found, (Owner(strategy, Priority.STRATEGY),), WHY, pod)
        path = self._layout.path(knob, target.place)
        self._states[target] = TargetState(target, knob, path, decision, returning=True)
        for name in BOUND_TOGETHER.get(target.knob, ()):
            self._along(Target(target.place, name))
        return True

    def _along(self, target: Target) -> None:
        """Roll back a target that changed only along with others."""
        baseline = self._baselines.get(target)
        desired = target in self._states or self._ledger.of(target)
        if baseline is not None and baseline.strategy and not desired:
            self.begin(target, None)

    def baseline(self, state: TargetState) -> BaselineValue | None:
        """Return the baseline, if the target is still the one that was changed then."""
        baseline = self._baselines.get(state.target)
        if baseline is None or not place_identity.is_same(self._files, self._layout, baseline):
            return None
        return baseline

    def look(
        self,
        state: TargetState,
        baseline: BaselineValue,
        text: str,
        running: RoundState,
        *,
        waking: bool,
    ) -> None:
        """Note a change where a target holds ours still; ``text`` is what it holds.

        ``waking``: it shows what the group has only while it is idle.
        """
        found = compare(baseline, text, self._layout, waking=waking)
        if isinstance(found, ValueChange):
            state.decision = state.decision._replace(value=found.wanted)
            running.changes[state.target] = found
        elif found.outcome is RestoreOutcome.UNCHANGED:
            self._states.settle(state, Outcome.UNCHANGED, running, found.old)
        else:
            reason = found.reason
            self._states.settle(state, Outcome.YIELDED, running, found.old, reason=reason)

    def forget_done(self, running: RoundState) -> None:
        """Forget what was put back, or cannot be any more; what was refused is tried again."""
        done, put_back = [], []
        for result in running.results:
            state = self._states.get(result.target)
            if state is None or not state.returning:
                continue
            if result.outcome in _DONE or self._is_asleep(result):
                done.append(result.target)
                if result.outcome in (Outcome.WRITTEN, Outcome.UNCHANGED):
                    put_back.append(self._baselines.get(result.target))
        for target in done:
            del self._states[target]
        self._words.note_put_back(baseline for baseline in put_back if baseline is not None)
        self._baselines.forget(done)

    def _is_asleep(self, result: Result) -> bool:
        """True if it is the shares of a group that idles and is not to wake: it keeps none.

        While some owner wants it to idle, they wait for the day on which nobody does.
        """
        if result.outcome is not Outcome.OVERRIDDEN:
            return False
        idle = self._states.get(Target(result.target.place, IDLE))
        return idle is None or idle.returning

    def completed(
        self, target: Target, decision: ArbitratedValue, before: ArbitratedValue | None
    ) -> ArbitratedValue:
        """Devices that are named no longer get what was found of them."""
        knob, baseline = KNOBS[target.knob], self._baselines.get(target)
        found = self._decoded(target, baseline.text if baseline else None)
        ours = baseline.ours if baseline else None
        gone = before.value if before else self._decoded(target, ours)
        form = self._layout.form(knob, target.place)
        return decision._replace(value=form.complete(decision.value, gone, found))

    def _decoded(self, target: Target, text: str | None) -> Value:
        value = None if text is None else decoded(self._layout, target, text)
        return "" if value is None else value
