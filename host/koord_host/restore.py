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

from koord_host import attempt, places
from koord_host.files import KernelFiles, Reader
from koord_host.forms import Value
from koord_host.journal import Change as Line
from koord_host.journal import Journal, rfc3339
from koord_host.knobs import KNOBS
from koord_host.layout import Layout
from koord_host.ordering import IDLE, SHARES, Change, Present, order
from koord_host.originals import Original, Originals
from koord_host.wishes import Target

OWNER = "restore"
"""Whose changes these are in the journal."""
_WHY = "as it was before the first change"


class Fate(StrEnum):
    """What becomes of one target."""

    RESTORED = "restored"  # or would be, in a dry run
    UNCHANGED = "unchanged"  # it is as it was found
    GONE = "gone"  # the group has ended; another may have its name
    SKIPPED = "skipped"  # somebody else has changed it, or we made the file
    REFUSED = "refused"  # the kernel said no


class Restored(NamedTuple):
    """One target: what it had, what was put back, and why not if not."""

    target: Target
    fate: Fate
    old: Value | None = None
    new: Value | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be put back, and the fate of what is not."""

    changes: tuple[Change, ...]
    others: tuple[Restored, ...]


def plan(files: Reader, layout: Layout, originals: Originals, *, force: bool = False) -> Plan:
    """Compare what was found with what is."""
    changes, others = [], []
    known = originals.all()
    asleep = _asleep(files, layout, known)
    for original in known:
        sleeps = original.target.place in asleep
        found = _compare(files, layout, original, asleep=sleeps, force=force)
        if isinstance(found, Change):
            changes.append(found)
        else:
            others.append(found)
    return Plan(tuple(changes), tuple(others))


def _asleep(files: Reader, layout: Layout, originals: list[Original]) -> set[str]:
    """The groups that are idle because we made them so."""
    asleep = set()
    for original in originals:
        if original.target.knob == IDLE and original.ours is not None:
            with contextlib.suppress(OSError, ValueError):
                if int(original.ours) == _now(files, layout, original.target) == 1:
                    asleep.add(original.target.place)
    return asleep


def restore(
    files: KernelFiles,
    layout: Layout,
    originals: Originals,
    journal: Journal,
    clock: Callable[[], float],
    *,
    force: bool = False,
) -> list[Restored]:
    """Put back what was found, in an order the kernel accepts; the fate of each target.

    What is put back, gone or unchanged is forgotten; what is skipped or refused is kept.
    ``clock`` is seconds since the epoch, for the journal.
    """
    todo = plan(files, layout, originals, force=force)
    done = _carry_out(files, layout, todo)
    for one in done:
        if one.fate is Fate.RESTORED:
            place, knob = one.target
            line = Line(rfc3339(clock()), OWNER, place, "", knob, one.old, one.new, _WHY)
            journal.add(line)
    journal.flush()
    report = sorted([*done, *todo.others])
    kept = (Fate.SKIPPED, Fate.REFUSED)
    originals.forget_many([one.target for one in report if one.fate not in kept])
    return report


def foresee(
    files: Reader, layout: Layout, originals: Originals, *, force: bool = False
) -> list[Restored]:
    """What ``restore`` would do, as far as can be told without doing it."""
    todo = plan(files, layout, originals, force=force)
    done = [Restored(target, Fate.RESTORED, old, new) for target, old, new in todo.changes]
    return sorted([*done, *todo.others])


def _compare(
    files: Reader, layout: Layout, original: Original, *, asleep: bool, force: bool
) -> Change | Restored:
    """What is to change, or why nothing is; ``asleep``: the group is idle by our wish."""
    target = original.target
    if not places.is_same(files, layout, original):
        return Restored(target, Fate.GONE)
    try:
        text = files.read(layout.path(KNOBS[target.knob], target.place))
    except FileNotFoundError:
        return Restored(target, Fate.GONE)
    except OSError as error:
        return Restored(target, Fate.REFUSED, reason=str(error))
    # An idle group shows other shares, and forgets its own when it wakes.
    waking = asleep and target.knob == SHARES
    return compare(original, text, layout.version, waking=waking, force=force)


def compare(
    original: Original, text: str, version: int, *, waking: bool = False, force: bool = False
) -> Change | Restored:
    """What is to change for a file to be as it was found, or why nothing is.

    ``text`` is what it holds now. ``waking``: it shows what the group has only while it is
    idle. ``force`` puts back what others have changed, too.
    """
    target, form = original.target, KNOBS[original.target.knob].form(version)
    try:
        now = form.decode(text)
        found = None if original.text is None else form.decode(original.text)
        written = [one for one in (original.ours, *original.meant) if one is not None]
        ours = [form.decode(one) for one in written]
        broken_off = bool(original.meant) and form.made_of(text, [found or "", *ours])
    except ValueError as error:
        return Restored(target, Fate.REFUSED, reason=str(error))
    if found is None:
        return Restored(target, Fate.SKIPPED, now, None, "there was no such file; remove it")
    if form.same(now, found) and not waking:
        return Restored(target, Fate.UNCHANGED, now, now)
    is_ours = broken_off or any(form.same(one, now) for one in ours)
    if not force and not waking and not is_ours:
        return Restored(target, Fate.SKIPPED, now, found, "changed by somebody else since")
    return Change(target, now, form.complete(found, now))


def _now(files: Reader, layout: Layout, target: Target) -> Value:
    knob = KNOBS[target.knob]
    return knob.form(layout.version).decode(files.read(layout.path(knob, target.place)))


def _carry_out(files: KernelFiles, layout: Layout, todo: Plan) -> list[Restored]:
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
    return [_fate(change, present, errors, dropped, layout.version) for change in changes]


def _fate(
    change: Change,
    present: Present,
    errors: Mapping[Target, str],
    dropped: Mapping[Target, str],
    version: int,
) -> Restored:
    target, old, wanted = change
    if target in dropped:
        # An idle group's shares: the kernel keeps them itself.
        return Restored(target, Fate.UNCHANGED, old, old, dropped[target])
    if target in errors:
        return Restored(target, Fate.REFUSED, old, wanted, errors[target])
    now = present(target)
    if now is None or not KNOBS[target.knob].form(version).same(now, wanted):
        return Restored(target, Fate.REFUSED, old, wanted, f"the kernel keeps {now}")
    return Restored(target, Fate.RESTORED, old, now)
