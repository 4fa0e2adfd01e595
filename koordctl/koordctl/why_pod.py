"""What ``koordctl why pod`` says of a pod besides decisions: hook answers and cgroups. No IO."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from koordctl.amounts import UNKNOWN
from koordctl.columns import table
from koordctl.koordlet_documents import (
    CgroupRow,
    HookAnswerRow,
    KnobRow,
    PluginAnswerRow,
    WhyDocument,
)
from koordctl.render import clean, count, span, time_text

_LONGEST = 60


def hook_lines(found: WhyDocument, zone: datetime.tzinfo | None = None) -> Iterator[str]:
    """What hooks changed, pod by pod; a pod that runs is named without any, too."""
    pods = dict.fromkeys([*found.pods, *(one.pod for one in found.hooks)])
    for number, pod in enumerate(pods):
        if number:
            yield ""
        answers = [one for one in found.hooks if one.pod == pod]
        if not answers:
            yield f"No hook call about {clean(pod)} is recorded."
            continue
        yield f"Changes by hooks for {clean(pod)}"
        for one in answers:
            yield from _answer(one, found.at, zone)


def cgroup_lines(groups: Sequence[CgroupRow]) -> Iterator[str]:
    """What cgroups hold now, one after the other."""
    for number, group in enumerate(groups):
        if number:
            yield ""
        whose = f"container {clean(group.container)}" if group.container else clean(group.pod)
        if not group.knobs:
            yield f"Cgroup of {whose} does not exist: {clean(group.group)}"
            continue
        yield f"Cgroup of {whose} now: {clean(group.group)}"
        rows = [("KNOB", "VALUE", "DESIRED", "OWNER", "REASON"), *map(_knob, group.knobs)]
        yield from (f"  {line}" for line in table(rows, words=(0, 3, 4)))


def _answer(one: HookAnswerRow, now: float, zone: datetime.tzinfo | None) -> Iterator[str]:
    subject = f" of {clean(one.container)}" if one.container else ""
    when = f"{time_text(one.at, zone)} ({span(now - one.at)} ago)"
    yield f"  {when}  {clean(one.hook)}{subject} ({clean(one.transport)}){_times(one, zone)}"
    for plugin in one.plugins:
        yield from _plugin(plugin)
    if not one.plugins:
        yield "    no changes"
    yield from (f"    {clean(note)}" for note in one.notes)


def _times(one: HookAnswerRow, zone: datetime.tzinfo | None) -> str:
    if one.times == 1:
        return ""
    return f", {count(one.times, 'time')} the same since {time_text(one.since, zone)}"


def _plugin(one: PluginAnswerRow) -> Iterator[str]:
    yield f"    {clean(one.plugin)}: {clean(one.why)}" if one.why else f"    {clean(one.plugin)}"
    rows = [
        (clean(field.field), _value(field.requested), "→", _value(field.answered))
        for field in one.fields
    ]
    if rows:
        yield from (f"      {line}" for line in table(rows, words=(0, 2, 3)))


def _knob(one: KnobRow) -> tuple[str, ...]:
    conflict = f"; conflict: {clean(one.conflict)}" if one.conflict else ""
    now = f"({clean(one.problem)})" if one.problem else _value(one.value)
    why = f"{clean(one.why)}{conflict}"
    return clean(one.knob), now, _value(one.desired), clean(one.owner) or UNKNOWN, why


def _value(value: int | str | None) -> str:
    if value is None:
        return UNKNOWN
    text = clean(str(value)) or '""'
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
