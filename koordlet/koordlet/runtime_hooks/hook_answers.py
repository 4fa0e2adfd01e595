"""Answers to hook calls for people: the newest of each kind, and lines for the journal.

A kubelet may update a container each few seconds: the same answer as before is counted, and not
journalled again. Memory is bounded, and pods that have ended are not forgotten for it: who asks
why a pod had these limits often asks when it is over. What is older is in the journal, where one
is kept.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from enum import StrEnum
from itertools import islice
from threading import Lock
from typing import NamedTuple

from koord_hooks.runner import HookResult
from koord_hooks.stages import Stage
from koord_host.knobs.forms import Value
from koord_host.resource_executor.journal import HookAnswerEntry, PluginAnswerEntry
from koord_model.patch import Device, Mount, Patch, claims, field_name
from koord_model.pod import Container, Pod
from koord_model.resctrl import ResctrlLimits
from koord_model.times import rfc3339_milli
from koord_service.error_text import describe_error

MOST_PODS = 512
"""More than run on a node at once; the one that was answered longest ago goes first."""
MOST_OF_POD = 24
"""Hooks of the pod and of its containers."""
MOST_BYTES = 1 << 20
"""Of all answers together, about."""
MOST_FIELDS = 64
"""Of one answer: its line is shorter than the longest that is read."""
LONGEST = 200
"""Letters of a text."""

_ANSWER_BYTES, _FIELD_BYTES = 1200, 300
"""Measured: an answer without its fields, and each field."""

_LIMITS = ("resources", "hugepage_limits", "unified")


class Transport(StrEnum):
    """Transport of hook calls."""

    HOOK_PROTOCOL = "hook protocol"  # from a CRI proxy
    NRI = "NRI"  # from the runtime itself


_CARRIED: dict[Transport, dict[Stage, frozenset[str]]] = {
    Transport.HOOK_PROTOCOL: {
        Stage.PRE_RUN_POD_SANDBOX: frozenset({*_LIMITS, "labels", "annotations", "cgroup_parent"}),
        Stage.PRE_CREATE_CONTAINER: frozenset({*_LIMITS, "annotations", "env"}),
        Stage.PRE_UPDATE_CONTAINER_RESOURCES: frozenset({*_LIMITS, "annotations"}),
    },
    Transport.NRI: {
        Stage.PRE_CREATE_CONTAINER: frozenset(
            {*_LIMITS, "annotations", "env", "mounts", "devices", "resctrl"}
        ),
        Stage.PRE_UPDATE_CONTAINER_RESOURCES: frozenset(_LIMITS),
    },
}
"""Fields that answers can change. The reconciler writes all else that plugins want."""


class AnswerRecord(NamedTuple):
    """An answer, and how often it was given: ``times`` since then, the last time at ``at``.

    Times are seconds since the epoch.
    """

    answer: HookAnswerEntry
    since: float
    at: float
    times: int = 1


_Key = tuple[str, str, str]
"""A hook, a container's name, and a transport."""


class HookAnswers:
    """The newest answers of each pod; for any thread.

    ``journal`` is given those that changed something, or in which something was wrong;
    ``clock`` is seconds since the epoch.
    """

    def __init__(
        self,
        journal: Callable[[HookAnswerEntry], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.journal = journal
        self._clock = clock
        self._lock = Lock()
        self._by_pod: OrderedDict[str, OrderedDict[_Key, AnswerRecord]] = OrderedDict()
        self._bytes = 0

    def keep(
        self,
        transport: Transport,
        stage: Stage,
        subject: Pod | Container,
        outcome: HookResult[Patch],
        left_out: Collection[str] = (),
    ) -> None:
        """Remember what a call about a pod or container was answered just now.

        ``left_out`` are fields that the answer leaves as they were all the same. Calls whose
        answers can change nothing are passed over.
        """
        if stage not in _CARRIED[transport]:
            return
        now = self._clock()
        answer = hook_answer(now, transport, stage, subject, outcome, left_out)
        if self._is_new(answer, now) and (answer.plugins or answer.notes):
            self.journal(answer)

    def find(self, wanted: Callable[[str], bool]) -> list[AnswerRecord]:
        """The answers about pods ("namespace/name") that are wanted, in the order of each pod's."""
        with self._lock:
            return [
                answer
                for pod, answers in self._by_pod.items()
                if wanted(pod)
                for answer in answers.values()
            ]

    def _is_new(self, answer: HookAnswerEntry, now: float) -> bool:
        """Remember an answer; whether it is another one than before."""
        key = (answer.hook, answer.container, answer.transport)
        with self._lock:
            answers = self._by_pod.setdefault(answer.pod, OrderedDict())
            self._by_pod.move_to_end(answer.pod)
            before = answers.pop(key, None)
            self._bytes -= _size(before)
            same = before is not None and _content(before.answer) == _content(answer)
            if before is not None and same:
                answers[key] = before._replace(at=now, times=before.times + 1)
            else:
                answers[key] = AnswerRecord(answer, now, now)
            self._bytes += _size(answers[key])
            while len(answers) > MOST_OF_POD:
                self._bytes -= _size(answers.popitem(last=False)[1])
            while len(self._by_pod) > MOST_PODS or self._bytes > MOST_BYTES:
                _, gone = self._by_pod.popitem(last=False)
                self._bytes -= sum(map(_size, gone.values()))
        return not same


def _content(answer: HookAnswerEntry) -> object:
    return answer.plugins, answer.notes


def _size(record: AnswerRecord | None) -> int:
    if record is None:
        return 0
    answer = record.answer
    fields = sum(len(plugin.fields) for plugin in answer.plugins)
    texts = sum(len(plugin.why) for plugin in answer.plugins) + sum(map(len, answer.notes))
    return _ANSWER_BYTES + texts + _FIELD_BYTES * fields


def hook_answer(
    at: float,
    transport: Transport,
    stage: Stage,
    subject: Pod | Container,
    outcome: HookResult[Patch],
    left_out: Collection[str] = (),
) -> HookAnswerEntry:
    """Describe the answer to a call, as far as ``transport`` carries it."""
    pod = subject if isinstance(subject, Pod) else subject.pod
    carried = _CARRIED[transport][stage]
    left = {*left_out, *(conflict.field for conflict in outcome.conflicts)}
    plugins, room = [], MOST_FIELDS
    for name, patch in zip(outcome.contributors, outcome.patches, strict=True):
        fields = tuple(islice(_fields(subject, patch, carried, left), room))
        room -= len(fields)
        if fields:
            plugins.append(PluginAnswerEntry(name, _cut(patch.why), fields))
    notes = [
        *(f"{name} failed: {describe_error(error)}" for name, error in outcome.failures),
        *(f"left alone, plugins disagree: {conflict}" for conflict in outcome.conflicts),
        *(f"ignored: {line}" for line in outcome.patch.ignored),
    ]
    return HookAnswerEntry(
        rfc3339_milli(at),
        stage.value,
        transport.value,
        pod.full_name,
        "" if isinstance(subject, Pod) else subject.name,
        tuple(plugins),
        tuple(_cut(note) for note in notes[:MOST_FIELDS]),
    )


def _fields(
    subject: Pod | Container, patch: Patch, carried: Collection[str], left: Collection[str]
) -> Iterator[tuple[str, Value | None, Value | None]]:
    """Changes by a plugin: the field, the requested value, the answered one."""
    for (group, name), value in claims(patch):
        if group not in carried or field_name(group, name) in left:
            continue
        before, shown = _requested(subject, group, name), _shown(group, value)
        if before != value:
            shown_before = None if before is None else _shown(group, before)
            # Limits are known by their names alone.
            field = name if group == "resources" else field_name(group, name)
            yield _cut(field), shown_before, shown


def _requested(subject: Pod | Container, group: str, name: str) -> object:
    """Return the call's value of a field; ``None``: not set, or not known."""
    if group == "resources":
        return getattr(subject.resources, name)
    if group in _LIMITS:
        return getattr(subject.resources, group).get(name)
    if group == "cgroup_parent":
        return (subject if isinstance(subject, Pod) else subject.pod).cgroup_parent or None
    return getattr(subject, group, {}).get(name)


def _shown(group: str, value: object) -> Value:
    if group == "env":
        return "(not shown)"  # it may hold what is secret
    if isinstance(value, Mount | Device):
        value = value.host_path
    if isinstance(value, ResctrlLimits):
        value = value.group
    return value if isinstance(value, int) else _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
