"""``koordctl events``: changes and decisions by koordlet on this node, with reasons."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterator, Sequence
from typing import Any

from koord_model.times import from_rfc3339
from koord_service.http_targets import with_query

from koordctl.amounts import UNKNOWN
from koordctl.koordlet_client import ask_koordlet
from koordctl.koordlet_documents import EventRow, EventsDocument
from koordctl.output.documents import from_page
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block, table
from koordctl.render import clean

_PAGE = 2048
"""The most that koordlet gives at once."""
_LONGEST = 40
_ID = 12
"""Letters of a container's id; crictl and docker show as many."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``koordctl events``."""
    parser.add_argument(
        "-n",
        type=_number,
        default=20,
        metavar="COUNT",
        help="how many at most (default: %(default)s)",
    )
    parser.add_argument(
        "--pod", type=_pod, metavar="NAMESPACE/NAME", help="show only events of this pod"
    )


def run(arguments: argparse.Namespace) -> CommandOutput:
    """The newest changes and decisions, the newest first.

    Raises:
        AskError: koordlet does not answer, or keeps no journal.
    """
    pod = arguments.pod or ""
    pages = list(_ask(arguments.address, arguments.n, pod))
    document = _merged([from_page(body, EventsDocument) for body, _ in pages])
    return CommandOutput(
        document, event_lines([event for _, page in pages for event in page.events], pod)
    )


def event_lines(
    events: Sequence[EventRow], pod: str = "", zone: datetime.tzinfo | None = None
) -> Iterator[Block]:
    """A line a change, decision or answer; ``zone`` is that of the times, None the machine's."""
    if not events:
        yield f"No events{f' of {clean(pod)}' if pod else ''}."
        return
    rows = [(_time(event.created_at, zone), _who(event), *_what(event)) for event in events]
    yield table([("TIME", "OBJECT", "WHAT", "CHANGE", "REASON"), *rows], name=1)


def _ask(address: str, count: int, pod: str) -> Iterator[tuple[bytes, EventsDocument]]:
    """Page after page, as it came and as a value, until there are enough events."""
    token, more = "", True
    while more:
        asked = {"size": str(min(count, _PAGE)), "pageToken": token, "pod": pod}
        page = with_query("/events", {name: value for name, value in asked.items() if value})
        body, found = ask_koordlet(address, page, EventsDocument)
        yield body, found
        count -= len(found.events)
        token = found.next_page_token
        more = bool(token) and count > 0


def _merged(pages: Sequence[dict[str, Any]]) -> Any:
    """Pages as one, with the token of the last."""
    events = [event for page in pages for event in page["events"]]
    return {**pages[-1], "events": events}


def _who(event: EventRow) -> str:
    """The pod, and the container if it is one's; else the group, or the node."""
    if event.namespace:
        who = f"{event.namespace}/{event.name}"
        return clean(f"{who} {event.container[:_ID]}" if event.container else who)
    return clean(event.name or event.type) or UNKNOWN


def _what(event: EventRow) -> tuple[str, str, str]:
    """The knob, what became of it, and why; of a decision its strategy and its arithmetic.

    Of an answer to a hook call the hook, how the call came, and what was changed in it.
    """
    if event.hook:
        return clean(event.hook), f"answered ({clean(event.transport)})", clean(event.message)
    if not event.outcome:
        return clean(event.knob), f"{_value(event.old)} → {_value(event.new)}", clean(event.why)
    aspect = f" ({event.aspect})" if event.aspect else ""
    return clean(f"{event.owner}{aspect}"), "decided", clean(event.message)


def _value(value: int | str | None) -> str:
    if value is None:
        return UNKNOWN
    text = clean(str(value)) or '""'
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _time(text: str, zone: datetime.tzinfo | None) -> str:
    try:
        when = datetime.datetime.fromtimestamp(from_rfc3339(text), zone)
    except (ValueError, OverflowError, OSError):
        return clean(text) or UNKNOWN
    return f"{when:%Y-%m-%d %H:%M:%S}"


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise argparse.ArgumentTypeError(f'"{text}" is not a number of events; expected 1 or more')
    return int(text)


def _pod(text: str) -> str:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise argparse.ArgumentTypeError(f'"{text}" is not a pod; expected NAMESPACE/NAME')
    return text
