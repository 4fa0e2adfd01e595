"""What koordlet serves over HTTP: paths, their parameters, the web page's files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import resources

from koord_host.journal import Decided as DecidedLine
from koord_service.status import MakePage, Page, Query, QueryError, json_page

from koordlet.cache.protocol import Aggregation
from koordlet.collecting.kinds import KINDS
from koordlet.deciding import journal_line
from koordlet.deciding.decisions import Entry, Found
from koordlet.pages import web
from koordlet.pages.curves import kinds_document, query_document, usage_document
from koordlet.pages.event import event_document
from koordlet.pages.journal import TokenError, of_pod, read_page
from koordlet.pages.node import (
    Document,
    Observed,
    health_document,
    node_document,
    ready_document,
)
from koordlet.pages.predictions import prediction_document
from koordlet.pages.top import top_document
from koordlet.pages.why import Asked, Decided, why_document, with_older

LONGEST_WINDOW = 12 * 3600.0
"""Seconds; the metric cache remembers no longer."""

_WINDOW = 300.0
_CURVES = 120
"""Points in a curve unless asked otherwise."""
_EVENTS, _MOST_EVENTS = 256, 2048
"""On a page; the second is the default of Koordinator's ``audit-max-events-limit``."""
_HISTORY, _MOST_HISTORY = 20, 500
"""Decisions that no longer stand, in one answer."""
_STRATEGY, _POD, _GROUP, _EVICTED = "strategy", "pod", "group", "evicted"
_AGGREGATIONS = "avg,p95,max,last"
_NO_LABELS = {"kind", "window", "aggregation", "points", "step"}
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/charts.js": ("charts.js", "text/javascript; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
}
_HEADERS = {
    # Whatever a pod is called, nothing of it runs: scripts are our files alone.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def pages(
    observed: Observed, decided: Decided | None = None, journal: str = ""
) -> Mapping[str, MakePage]:
    """All pages of what is observed and ``decided``, by path.

    ``decided`` is ``None`` where nothing is. ``journal`` is the path of the journal, "" for none.
    """
    return {
        **{path: partial(_file, *file) for path, file in _FILES.items()},
        "/healthz": partial(_checked, health_document, observed),
        "/readyz": partial(_checked, ready_document, observed),
        "/v1/node": lambda _: json_page(node_document(observed)),
        "/v1/top": lambda _: json_page(top_document(observed)),
        "/v1/predictions": lambda _: json_page(prediction_document(observed)),
        "/v1/usage": partial(_usage, observed),
        "/v1/metrics/kinds": lambda _: json_page(kinds_document()),
        "/v1/metrics/query": partial(_query, observed),
        "/v1/why": partial(_why, observed, decided, journal),
    }


def events_page(journal: str) -> MakePage:
    """``/events``: what was changed and decided here, newest first, as Koordinator serves it.

    ``journal`` is the path of the journal; "": none is kept.
    """
    return partial(_events, journal)


def _file(name: str, content_type: str, _: Query) -> Page:
    body = resources.files(web).joinpath(name).read_bytes()
    return Page(body, content_type, headers=_HEADERS)


def _checked(
    check: Callable[[Observed], tuple[Document, bool]], observed: Observed, _: Query
) -> Page:
    document, well = check(observed)
    return json_page(document, 200 if well else 503)


def _usage(observed: Observed, query: Query) -> Page:
    resource = query.choice("resource", ("cpu", "memory"), "cpu")
    window, step = _times(query)
    return json_page(usage_document(observed, resource, window, step))


def _query(observed: Observed, query: Query) -> Page:
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


def _events(journal: str, query: Query) -> Page:
    if not journal:
        raise QueryError(
            "koordlet changes nothing on this node and keeps no journal; "
            "it is told not to (--node-writes=false), or its log says why it cannot",
            404,
        )
    size = query.number("size", _EVENTS, 1, _MOST_EVENTS)
    try:
        token, pod = query.values.get("pageToken", ""), query.values.get("pod", "")
        page = read_page(journal, size, token, of_pod(pod) if pod else None)
    except TokenError as error:
        raise QueryError(str(error), 409) from None
    events = [event_document(one) for one in page.events]
    if query.accepts("application/json"):
        return json_page({"NextPageToken": page.next_token, "Events": events})
    lines = "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in events)
    headers = {"Next-Page-Token": page.next_token} if page.next_token else {}
    return Page(lines.encode(), headers=headers)


def _why(observed: Observed, decided: Decided | None, journal: str, query: Query) -> Page:
    asked = _asked(query)
    most = query.number("history", _HISTORY, 0, _MOST_HISTORY)
    older = query.choice("journal", ("0", "1"), "1") == "1"
    found = Found()
    if decided is not None:
        wanted = asked.wanted()
        found = decided.decisions.find(wanted, most)
        if older and asked != Asked() and len(found.history) < most:
            found = with_older(found, _older(journal, asked, found, most), most)
    return json_page(why_document(observed, decided, asked, found))


def _asked(query: Query) -> Asked:
    """What the parameters ask for."""
    given = [name for name in (_STRATEGY, _POD, _GROUP, _EVICTED) if name in query.values]
    if len(given) > 1:
        raise QueryError(f'parameters "{given[0]}" and "{given[1]}" cannot be given together')
    for name in given:
        if name != _EVICTED and not query.values[name].strip("/,"):
            raise QueryError(f'parameter "{name}" is empty')
    return Asked(
        tuple(one for one in query.values.get(_STRATEGY, "").split(",") if one),
        query.values.get(_POD, ""),
        query.values.get(_GROUP, "").strip("/"),
        query.values.get(_EVICTED),
    )


def _older(journal: str, asked: Asked, found: Found, most: int) -> Iterator[Entry]:
    """What the journal has of decisions, and memory has not."""
    known = {journal_line.identity(one) for one in found.history}
    wanted = journal_line.decisions(asked.wanted())
    token, left = "", most
    while journal and left > 0:
        try:
            page = read_page(journal, left, token, wanted)
        except (OSError, TokenError):
            return  # what is in memory is worth showing all the same
        for event in page.events:
            if isinstance(event, DecidedLine):
                entry = journal_line.entry(event)
                if entry is not None and journal_line.identity(entry) not in known:
                    yield entry
        token, left = page.next_token, left - len(page.events)
        if not token:
            return


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
