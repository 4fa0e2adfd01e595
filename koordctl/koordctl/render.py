"""Answers to lines of text for people. No IO."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from koordctl.answers import Container, Missed, Pod, Status
from koordctl.columns import table

_HEADER = ("HOOK SERVER", "POLICY", "BREAKER", "STAGES")
# What each breaker state means for the pods that start now.
_BREAKERS = {
    "closed": "closed (is asked)",
    "half_open": "half open (one call is let through)",
    "open": "open (not asked, does not answer)",
}


def status_lines(status: Status, address: str) -> Iterator[str]:
    """What ``koordctl status`` says."""
    yield f"koord-runtime-proxy at {address}: {clean(status.status)}"
    yield ""
    yield f"backend      {clean(status.backend)}"
    yield f"database     {clean(status.database)}"
    yield f"connections  {status.connections}"
    yield f"records      {_records(status)}"
    yield ""
    if not status.hook_servers:
        yield "No hook server is registered: every call passes as it came."
        return
    rows = [
        (
            clean(server.name),
            clean(server.policy),
            _BREAKERS.get(server.breaker, clean(server.breaker)),
            clean(", ".join(server.stages)) or "none",
        )
        for server in status.hook_servers
    ]
    yield from table((_HEADER, *rows))


def pod_lines(
    pods: Sequence[Pod], zone: datetime.tzinfo | None = None, *, only_unmanaged: bool = False
) -> Iterator[str]:
    """What ``koordctl pods`` says; ``zone`` is that of the times, None the machine's."""
    if not pods:
        yield "Every pod got the hooks that were due." if only_unmanaged else "No pods are known."
        return
    rows = [row for pod in pods for row in _pod_rows(pod, zone)]
    yield from table([("POD / CONTAINER", "HOOKS"), *rows])


def _records(status: Status) -> str:
    text = f"{count(status.pods, 'pod')}, {count(status.containers, 'container')}"
    if status.unmanaged:
        text += f"; {status.unmanaged} went without a hook (koordctl pods --unmanaged)"
    if not status.reconciled:
        text += "; not yet compared with the runtime's lists"
    return text


def _pod_rows(pod: Pod, zone: datetime.tzinfo | None) -> Iterator[tuple[str, str]]:
    yield from _rows(clean(pod.name), pod, zone)
    for container in pod.containers:
        yield from _rows(f"  {clean(container.name)}", container, zone)


def _rows(name: str, subject: Container, zone: datetime.tzinfo | None) -> Iterator[tuple[str, str]]:
    if subject.managed:
        yield name, "managed"
        return
    yield name, f"unmanaged: missed {count(len(subject.missed), 'hook')}"
    for missed in subject.missed:
        yield "", _missed(missed, zone)


def _missed(missed: Missed, zone: datetime.tzinfo | None) -> str:
    when = datetime.datetime.fromtimestamp(missed.at, datetime.UTC).astimezone(zone)
    reason = clean(missed.reason) or "no reason known"
    who = f"{clean(missed.stage)} of {clean(missed.server)}"
    return f"  {when:%Y-%m-%d %H:%M:%S}  {who}: {reason}"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def clean(text: str) -> str:
    """One line without control characters: hook servers' words end up on a terminal."""
    line = " ".join(text.split())
    return "".join(letter if letter.isprintable() else "�" for letter in line)
