"""Putting back what was found before the first change.

Only in groups that are still the ones that were changed, and only where the value is
what we last wrote: what somebody has set since is theirs, and stays unless forced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from koord_model.times import rfc3339_milli

from koord_host.kernel_files.interface import FileReader, KernelFiles
from koord_host.knobs.forms import Value
from koord_host.knobs.layout import Layout
from koord_host.knobs.table import KNOBS
from koord_host.planning import validity
from koord_host.planning.desired_values import Target
from koord_host.planning.ordering import IDLE, SHARES, CurrentValue, ValueChange, order
from koord_host.resource_executor import attempt, place_identity
from koord_host.resource_executor.baselines import BaselineStore, BaselineValue
from koord_host.resource_executor.journal import ChangeEntry as Line
from koord_host.resource_executor.journal import Journal

OWNER = "restore"
"""Owner of these changes in the journal."""
_WHY = "as it was before the first change"


class RestoreOutcome(StrEnum):
    """Outcome for one target."""

    RESTORED = "restored"  # or would be, in a dry run
    UNCHANGED = "unchanged"  # it is as it was found
    GONE = "gone"  # the group has ended; another may have its name
    SKIPPED = "skipped"  # somebody else has changed it, or we made the file
    REFUSED = "refused"  # the kernel said no


class RestoreResult(NamedTuple):
    """One target: what it had, what was put back, and why not if not."""

    target: Target
    outcome: RestoreOutcome
    old: Value | None = None
    new: Value | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """Changes to restore, and the outcomes of targets without one."""

    changes: tuple[ValueChange, ...]
    others: tuple[RestoreResult, ...]


def plan(
    files: FileReader, layout: Layout, baselines: BaselineStore, *, force: bool = False
) -> RestorePlan:
    """Compare what was found with what is."""
    changes, others = [], []
    known = baselines.all()
    asleep = _asleep(files, layout, known)
    for baseline in known:
        sleeps = baseline.target.place in asleep
        found = _compare(files, layout, baseline, asleep=sleeps, force=force)
        if isinstance(found, ValueChange):
            changes.append(found)
        else:
            others.append(found)
    return RestorePlan(tuple(changes), tuple(others))


def _asleep(files: FileReader, layout: Layout, baselines: list[BaselineValue]) -> set[str]:
    """The groups that are idle because we made them so."""
    asleep = set()
    for baseline in baselines:
        if baseline.target.knob == IDLE and baseline.ours is not None:
            with contextlib.suppress(OSError, ValueError):
                if int(baseline.ours) == _now(files, layout, baseline.target) == 1:
                    asleep.add(baseline.target.place)
    return asleep


def restore(
    files: KernelFiles,
    layout: Layout,
    baselines: BaselineStore,
    journal: Journal,
    clock: Callable[[], float],
    *,
    force: bool = False,
) -> list[RestoreResult]:
    """Put back what was found, in an order the kernel accepts; the fate of each target.

    What is put back, gone or unchanged is forgotten; what is skipped or refused is kept.
    ``clock`` is seconds since the epoch, for the journal.
    """
    todo = plan(files, layout, baselines, force=force)
    done = _carry_out(files, layout, todo)
    for change in done:
        if change.outcome is RestoreOutcome.RESTORED:
            place, knob = change.target
            line = Line(
                rfc3339_milli(clock()), OWNER, place, "", knob, change.old, change.new, _WHY
            )
            journal.add(line)
    journal.flush()
    report = sorted([*done, *todo.others])
    kept = (RestoreOutcome.SKIPPED, RestoreOutcome.REFUSED)
    baselines.forget([result.target for result in report if result.outcome not in kept])
    return report


def foresee(
    files: FileReader, layout: Layout, baselines: BaselineStore, *, force: bool = False
) -> list[RestoreResult]:
    """Predict the results of ``restore``, as far as a dry run can."""
    todo = plan(files, layout, baselines, force=force)
    done = [
        RestoreResult(target, RestoreOutcome.RESTORED, old, new)
        for target, old, new in todo.changes
    ]
    return sorted([*done, *todo.others])


def _compare(
    files: FileReader, layout: Layout, baseline: BaselineValue, *, asleep: bool, force: bool
) -> ValueChange | RestoreResult:
    """Return a target's change, or the outcome without one; ``asleep``: idle by our setting."""
    target = baseline.target
    if validity.leads_out(target.place):
        # Nothing of ours: the executor refuses such places. Somebody else wrote the database.
        return RestoreResult(target, RestoreOutcome.REFUSED, reason="is outside of its root")
    if not place_identity.is_same(files, layout, baseline):
        return RestoreResult(target, RestoreOutcome.GONE)
    try:
        text = files.read(layout.path(KNOBS[target.knob], target.place))
    except FileNotFoundError:
        return RestoreResult(target, RestoreOutcome.GONE)
    except OSError as error:
        return RestoreResult(target, RestoreOutcome.REFUSED, reason=str(error))
    # An idle group shows other shares, and forgets its own when it wakes.
    waking = asleep and target.knob == SHARES
    return compare(baseline, text, layout, waking=waking, force=force)


def compare(
    baseline: BaselineValue, text: str, layout: Layout, *, waking: bool = False, force: bool = False
) -> ValueChange | RestoreResult:
    """Return the change that restores a file's baseline, or the outcome without one.

    ``text`` is what it holds now. ``waking``: it shows what the group has only while it is
    idle. ``force`` puts back what others have changed, too.
    """
    target = baseline.target
    form = layout.form(KNOBS[target.knob], target.place)
    try:
        now = form.decode(text)
        found = None if baseline.text is None else form.decode(baseline.text)
        ours = _is_written(baseline, text, layout)
    except ValueError as error:
        return RestoreResult(target, RestoreOutcome.REFUSED, reason=str(error))
    if found is None:
        return RestoreResult(
            target, RestoreOutcome.SKIPPED, now, None, "there was no such file; remove it"
        )
    if form.same(now, found) and not waking:
        return RestoreResult(target, RestoreOutcome.UNCHANGED, now, now)
    if not force and not waking and not ours:
        return RestoreResult(
            target, RestoreOutcome.SKIPPED, now, found, "changed by somebody else since"
        )
    return ValueChange(target, now, form.complete(found, now))


def is_ours(baseline: BaselineValue, text: str, layout: Layout) -> bool:
    """True if a file has its baseline, or a value written here.

    Raises:
        ValueError: no kernel gives this text.
    """
    form = layout.form(KNOBS[baseline.target.knob], baseline.target.place)
    if baseline.text is not None and form.same(form.decode(baseline.text), form.decode(text)):
        return True
    return _is_written(baseline, text, layout)


def _is_written(baseline: BaselineValue, text: str, layout: Layout) -> bool:
    """True if a file has a value written here, or part of one about to be written."""
    form = layout.form(KNOBS[baseline.target.knob], baseline.target.place)
    now = form.decode(text)
    written = [text for text in (baseline.ours, *baseline.pending) if text is not None]
    ours = [form.decode(text) for text in written]
    if any(form.same(value, now) for value in ours):
        return True
    found = "" if baseline.text is None else form.decode(baseline.text)
    return bool(baseline.pending) and form.made_of(text, [found, *ours])


def _now(files: FileReader, layout: Layout, target: Target) -> Value:
    knob = KNOBS[target.knob]
    return layout.form(knob, target.place).decode(files.read(layout.path(knob, target.place)))


def _carry_out(files: KernelFiles, layout: Layout, todo: RestorePlan) -> list[RestoreResult]:
    def present(target: Target) -> Value | None:
        if not layout.path(KNOBS[target.knob], target.place):
            return None
        try:
            return _now(files, layout, target)
        except (OSError, ValueError):
            return None

    ordered = order(todo.changes, present)
    errors: dict[Target, str] = {}
    instead: dict[Target, Value] = {}
    for step in ordered.steps:
        try:
            _, written = attempt.put_back(files, layout, step.target, step.value)
            if written != step.value:
                instead[step.target] = written
            errors.pop(step.target, None)
        except OSError as error:
            reason = attempt.explain(files, layout, step.target, step.value, error)
            errors[step.target] = reason
    dropped = dict(ordered.dropped)
    changes = [
        change._replace(wanted=instead.get(change.target, change.wanted)) for change in todo.changes
    ]
    return [_fate(change, present, errors, dropped, layout) for change in changes]


def _fate(
    change: ValueChange,
    present: CurrentValue,
    errors: Mapping[Target, str],
    dropped: Mapping[Target, str],
    layout: Layout,
) -> RestoreResult:
    target, old, wanted = change
    if target in dropped:
        # An idle group's shares: the kernel keeps them itself.
        return RestoreResult(target, RestoreOutcome.UNCHANGED, old, old, dropped[target])
    if target in errors:
        return RestoreResult(target, RestoreOutcome.REFUSED, old, wanted, errors[target])
    now, form = present(target), layout.form(KNOBS[target.knob], target.place)
    if now is None or not form.same(now, wanted):
        return RestoreResult(target, RestoreOutcome.REFUSED, old, wanted, f"the kernel keeps {now}")
    return RestoreResult(target, RestoreOutcome.RESTORED, old, now)
