"""Parts of ``koordctl why pod`` besides decisions: hook answers and cgroups. No IO."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from koordctl.amounts import UNKNOWN
from koordctl.koordlet_documents import (
    CgroupRow,
    HookAnswerRow,
    KnobRow,
    PluginAnswerRow,
    WhyDocument,
)
from koordctl.output.tables import Block, table
from koordctl.render import clean, count, span, time_text

_LONGEST = 60


def hook_lines(found: WhyDocument, zone: datetime.tzinfo | None = None) -> Iterator[Block]:
    """Describe hooks' changes by pod; a running pod is named even if it has none."""
    pods = dict.fromkeys([*found.pods, *(hook.pod for hook in found.hooks)])
    for number, pod in enumerate(pods):
        if number:
            yield ""
        answers = [hook for hook in found.hooks if hook.pod == pod]
        if not answers:
            yield f"No hook call about {clean(pod)} is recorded."
            continue
        yield f"Changes by hooks for {clean(pod)}"
        for answer in answers:
            yield from _answer(answer, found.at, zone)


def ignored_lines(found: WhyDocument) -> Iterator[Block]:
    """Describe what pods say in Katalyst's words without any effect."""
    pod = ""
    for row in found.ignored:
        if row.pod != pod:
            pod = row.pod
            yield f"Katalyst's words of {clean(pod)} that have no effect"
        yield f"  {clean(row.line)}"


def cgroup_lines(groups: Sequence[CgroupRow]) -> Iterator[Block]:
    """Describe the values of cgroups, one after the other."""
    for number, group in enumerate(groups):
        if number:
            yield ""
        whose = f"container {clean(group.container)}" if group.container else clean(group.pod)
        if not group.knobs:
            yield f"Cgroup of {whose} does not exist: {clean(group.group)}"
            continue
        yield f"Cgroup of {whose} now: {clean(group.group)}"
        rows = [("KNOB", "VALUE", "DESIRED", "OWNER", "REASON"), *map(_knob, group.knobs)]
        yield table(rows, words=(0, 3, 4), indent=2)


def _answer(answer: HookAnswerRow, now: float, zone: datetime.tzinfo | None) -> Iterator[Block]:
    subject = f" of {clean(answer.container)}" if answer.container else ""
    when = f"{time_text(answer.at, zone)} ({span(now - answer.at)} ago)"
    hook = f"{clean(answer.hook)}{subject} ({clean(answer.transport)})"
    yield f"  {when}  {hook}{_times(answer, zone)}"
    for plugin in answer.plugins:
        yield from _plugin(plugin)
    if not answer.plugins:
        yield "    no changes"
    yield from (f"    {clean(note)}" for note in answer.notes)


def _times(answer: HookAnswerRow, zone: datetime.tzinfo | None) -> str:
    if answer.times == 1:
        return ""
    return f", {count(answer.times, 'time')} the same since {time_text(answer.since, zone)}"


def _plugin(plugin: PluginAnswerRow) -> Iterator[Block]:
    yield (
        f"    {clean(plugin.plugin)}: {clean(plugin.why)}"
        if plugin.why
        else f"    {clean(plugin.plugin)}"
    )
    rows = [
        (clean(field.field), _value(field.requested), "→", _value(field.answered))
        for field in plugin.fields
    ]
    if rows:
        yield table(rows, words=(0, 2, 3), indent=6)


def _knob(knob: KnobRow) -> tuple[str, ...]:
    conflict = f"; conflict: {clean(knob.conflict)}" if knob.conflict else ""
    now = f"({clean(knob.problem)})" if knob.problem else _value(knob.value)
    why = f"{clean(knob.why)}{conflict}"
    return clean(knob.knob), now, _value(knob.desired), clean(knob.owner) or UNKNOWN, why


def _value(value: int | str | None) -> str:
    if value is None:
        return UNKNOWN
    text = clean(str(value)) or '""'
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
