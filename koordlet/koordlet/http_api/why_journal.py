"""The journal's part of the answer why: decisions and hook answers no longer in memory."""

from __future__ import annotations

from collections.abc import Iterable

from koord_host.resource_executor.journal import DecisionEntry, Event, HookAnswerEntry
from koord_model.times import from_rfc3339

from koordlet.http_api.documents.node import Document
from koordlet.http_api.documents.why import WhyQuery
from koordlet.http_api.journal import EventSearch, encoded
from koordlet.qos_manager import journal_line
from koordlet.qos_manager.core.decision_log import DecisionList, DecisionRecord
from koordlet.runtime_hooks.hook_answers import AnswerRecord

_DECISION, _ANSWER = b'"strategy":', b'"hook":'
"""Texts that only lines of a kind hold."""


def decisions(asked: WhyQuery) -> EventSearch:
    """The journal search for the requested decisions."""
    return EventSearch(_texts(asked), journal_line.decisions(asked.wanted()), _DECISION)


def answers(asked: WhyQuery) -> EventSearch:
    """The journal search for the answers to hook calls about the requested pod."""

    def wanted(event: Event) -> bool:
        return isinstance(event, HookAnswerEntry) and asked.named(event.pod)

    return EventSearch(_of_pod(asked.pod), wanted, _ANSWER)


def _texts(asked: WhyQuery) -> tuple[bytes, ...]:
    """Texts that the lines of the requested decisions contain."""
    if asked.group:
        above = [asked.group.rsplit("/", n)[0] for n in range(asked.group.count("/") + 1)]
        below = b'"group":%b/' % encoded(asked.group)[:-1]
        return (*(b'"group":%b,' % encoded(group) for group in above), below)
    name = asked.pod or asked.evicted
    if name:
        return _of_pod(name)
    if asked.evicted is not None:
        return (b'"aspect":"evict',)
    return tuple(b'"strategy":%b,' % encoded(strategy) for strategy in asked.strategies)


def older_decisions(events: Iterable[Event], found: DecisionList) -> list[DecisionRecord]:
    """The decisions among events that are not ``found`` already."""
    known = {journal_line.identity(decision) for decision in found.history}
    lines = (event for event in events if isinstance(event, DecisionEntry))
    entries = (entry for line in lines if (entry := journal_line.entry(line)) is not None)
    return [entry for entry in entries if journal_line.identity(entry) not in known]


def older_answers(events: Iterable[Event]) -> list[AnswerRecord]:
    """The newest answers of each kind among events, which are the newest first."""
    newest: dict[tuple[str, ...], AnswerRecord] = {}
    for event in events:
        at = _seconds(event.time)
        if isinstance(event, HookAnswerEntry) and at is not None:
            key = (event.pod, event.hook, event.container, event.transport)
            newest.setdefault(key, AnswerRecord(event, at, at))
    return sorted(newest.values(), key=lambda kept: kept.at)


def answer_document(kept: AnswerRecord) -> Document:
    """An answer to hook calls; times are seconds since the epoch."""
    answer = kept.answer
    return {
        "at": kept.at,
        "since": kept.since,
        "times": kept.times,
        "hook": answer.hook,
        "transport": answer.transport,
        "pod": answer.pod,
        "container": answer.container,
        "plugins": [
            {
                "plugin": plugin,
                "why": why,
                "fields": [
                    {"field": field, "requested": requested, "answered": answered}
                    for field, requested, answered in fields
                ],
            }
            for plugin, why, fields in answer.plugins
        ],
        "notes": list(answer.notes),
    }


def _of_pod(name: str) -> tuple[bytes, ...]:
    """Return the texts that lines about a pod hold, with its namespace or in any."""
    quoted = encoded(name)
    whole = b'"pod":%b,' % quoted
    return (whole,) if "/" in name else (whole, b"/%b," % quoted[1:])


def _seconds(time: str) -> float | None:
    try:
        return from_rfc3339(time)
    except (ValueError, OverflowError):
        return None
