"""Koordlet's HTTP pages: paths, their parameters, the web page's files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from koord_host.resource_executor.journal import Event
from koord_service.status import MakePage, Query, QueryError, StatusPage, json_page
from koord_service.web_pages import web_pages

from koordlet.http_api import web, why_journal
from koordlet.http_api.documents.curves import kinds_document, query_document, usage_document
from koordlet.http_api.documents.node import (
    Document,
    DocumentSources,
    health_document,
    node_document,
    ready_document,
)
from koordlet.http_api.documents.predictions import prediction_document
from koordlet.http_api.documents.top import top_document
from koordlet.http_api.documents.why import DecisionSources, WhyQuery, why_document, with_older
from koordlet.http_api.event import event_document
from koordlet.http_api.journal import BusyError, EventSearch, JournalPages, TokenError, of_pod
from koordlet.metric_cache.core.interface import Aggregation
from koordlet.metric_cache.core.metric_kinds import KINDS
from koordlet.qos_manager.core.decision_log import DecisionList
from koordlet.runtime_hooks.hook_answers import MOST_OF_POD, HookAnswers

LONGEST_WINDOW = 12 * 3600.0
"""Seconds; the metric cache remembers no longer."""

_WINDOW = 300.0
_CURVES = 120
"""Points in a curve by default."""
_EVENTS, _MOST_EVENTS = 256, 2048
"""On a page; the second is the default of Koordinator's ``audit-max-events-limit``."""
_HISTORY, _MOST_HISTORY = 20, 500
"""Decisions that no longer stand, in one answer."""
_STRATEGY, _POD, _GROUP, _EVICTED = "strategy", "pod", "group", "evicted"
_AGGREGATIONS = "avg,p95,max,last"
_NO_LABELS = {"kind", "window", "aggregation", "points", "step"}


def pages(
    observed: DocumentSources,
    decided: DecisionSources | None = None,
    journal: JournalPages | None = None,
    hooks: HookAnswers | None = None,
) -> Mapping[str, MakePage]:
    """All pages of what is observed and ``decided``, by path.

    ``decided`` is ``None`` where nothing is, ``journal`` where none is kept. ``hooks`` are the
    answers to hook calls.
    """
    return {
        **web_pages(web),
        "/healthz": partial(_checked, health_document, observed),
        "/readyz": partial(_checked, ready_document, observed),
        "/v1/node": lambda _: json_page(node_document(observed)),
        "/v1/top": lambda _: json_page(top_document(observed)),
        "/v1/predictions": lambda _: json_page(prediction_document(observed)),
        "/v1/usage": partial(_usage, observed),
        "/v1/metrics/kinds": lambda _: json_page(kinds_document()),
        "/v1/metrics/query": partial(_query, observed),
        "/v1/why": partial(_why, observed, decided, journal, hooks or HookAnswers()),
    }


def events_page(journal: JournalPages | None) -> MakePage:
    """``/events``: what was changed and decided here, newest first, as Koordinator serves it.

    ``journal`` is ``None`` where none is kept.
    """
    return partial(_events, journal)


def _checked(
    check: Callable[[DocumentSources], tuple[Document, bool]], observed: DocumentSources, _: Query
) -> StatusPage:
    document, well = check(observed)
    return json_page(document, 200 if well else 503)


def _usage(observed: DocumentSources, query: Query) -> StatusPage:
    resource = query.choice("resource", ("cpu", "memory"), "cpu")
    window, step = _times(query)
    return json_page(usage_document(observed, resource, window, step))


def _query(observed: DocumentSources, query: Query) -> StatusPage:
    kind = query.values.get("kind", "")
    if kind not in KINDS:
        given = f'parameter "kind" is "{kind}"' if kind else 'parameter "kind" is missing'
        raise QueryError(f"{given}; /v1/metrics/kinds lists what there is")
    labels = {name: value for name, value in query.values.items() if name not in _NO_LABELS}
    for name in labels:
        if name not in KINDS[kind].labels:
            known = ", ".join(KINDS[kind].labels) or "none"
            raise QueryError(f'{kind} has no label "{name}"; its labels: {known}')
    window, step = _times(query)
    curves = query.choice("points", ("0", "1"), "0") == "1"
    document = query_document(
        observed, kind, window, _aggregations(query), labels or None, step if curves else None
    )
    return json_page(document)


def _events(journal: JournalPages | None, query: Query) -> StatusPage:
    if journal is None:
        raise QueryError(
            "koordlet changes nothing on this node and keeps no journal; "
            "it runs with --read-only, or its log says why it cannot",
            404,
        )
    size = query.number("size", _EVENTS, 1, _MOST_EVENTS)
    try:
        token, pod = query.values.get("pageToken", ""), query.values.get("pod", "")
        page = journal.read(size, token, of_pod(pod) if pod else None)
    except TokenError as error:
        raise QueryError(str(error), 409) from None
    except BusyError as error:
        raise QueryError(str(error), 503) from None
    events = [event_document(event) for event in page.events]
    if query.accepts("application/json"):
        return json_page({"NextPageToken": page.next_token, "Events": events})
    lines = "".join(f"{json.dumps(event, ensure_ascii=False)}\n" for event in events)
    headers = {"Next-Page-Token": page.next_token} if page.next_token else {}
    return StatusPage(lines.encode(), headers=headers)


def _why(
    observed: DocumentSources,
    decided: DecisionSources | None,
    journal: JournalPages | None,
    hooks: HookAnswers,
    query: Query,
) -> StatusPage:
    asked = _asked(query)
    most = query.number("history", _HISTORY, 0, _MOST_HISTORY)
    older = query.choice("journal", ("0", "1"), "1") == "1"
    found = DecisionList()
    if decided is not None:
        found = decided.decisions.find(asked.wanted(), most)
        if older and asked != WhyQuery() and len(found.history) < most:
            events = _events_of(journal, why_journal.decisions(asked), most)
            found = with_older(found, why_journal.older_decisions(events, found), most)
    answers = hooks.find(asked.named)
    if asked.pod and older and not answers:
        # It was answered by an earlier run, or long ago.
        events = _events_of(journal, why_journal.answers(asked), MOST_OF_POD)
        answers = why_journal.older_answers(events)
    answered = [why_journal.answer_document(answer) for answer in answers]
    return json_page(why_document(observed, decided, asked, found, answered))


def _asked(query: Query) -> WhyQuery:
    """Parse the parameters into a question."""
    given = [name for name in (_STRATEGY, _POD, _GROUP, _EVICTED) if name in query.values]
    if len(given) > 1:
        raise QueryError(f'parameters "{given[0]}" and "{given[1]}" cannot be given together')
    for name in given:
        if name != _EVICTED and not query.values[name].strip("/,"):
            raise QueryError(f'parameter "{name}" is empty')
    return WhyQuery(
        tuple(name for name in query.values.get(_STRATEGY, "").split(",") if name),
        query.values.get(_POD, ""),
        query.values.get(_GROUP, "").strip("/"),
        query.values.get(_EVICTED),
    )


def _events_of(journal: JournalPages | None, search: EventSearch, most: int) -> Sequence[Event]:
    """Return the journal's events, the newest first."""
    if journal is None:
        return ()
    try:
        return journal.read(most, search=search).events
    except BusyError as error:
        raise QueryError(str(error), 503) from None
    except (OSError, TokenError):
        return ()  # what is in memory is worth showing all the same


def _times(query: Query) -> tuple[float, float]:
    """The window and the step of curves, in seconds."""
    window = query.seconds("window", _WINDOW, 1, LONGEST_WINDOW)
    return window, query.seconds("step", max(window / _CURVES, 1.0), 1, LONGEST_WINDOW)


def _aggregations(query: Query) -> tuple[Aggregation, ...]:
    words = query.values.get("aggregation", _AGGREGATIONS).split(",")
    for word in words:
        if word not in list(Aggregation):
            known = ", ".join(Aggregation)
            raise QueryError(f'parameter "aggregation" is "{word}"; expected some of {known}')
    return tuple(dict.fromkeys(Aggregation(word) for word in words))
