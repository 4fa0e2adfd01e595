"""Answers to lines of text for people. No IO."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from koordctl.amounts import UNKNOWN
from koordctl.koordlet_documents import KoordletStatus, NriRow
from koordctl.output.tables import Block, table, warning
from koordctl.proxy_documents import ContainerHooks, MissedHook, PodHooks, ProxyStatus

_HEADER = ("HOOK SERVER", "POLICY", "BREAKER", "STAGES")
_MODES = {
    "dry run": "decides all, and writes and reports nothing; koordctl why shows what it would do",
    "read-only": "observes alone: changes nothing, answers no hook calls, reports nothing",
}
# What each breaker state means for the pods that start now.
BREAKERS = {
    "closed": "closed (calls are made)",
    "half_open": "half open (one trial call)",
    "open": "open (no calls: server does not answer)",
}


def status_lines(status: ProxyStatus, address: str) -> Iterator[Block]:
    """Describe the proxy for ``koordctl status``."""
    yield f"koord-runtime-proxy at {address}: {clean(status.status)}"
    yield ""
    yield f"backend      {clean(status.backend)}"
    yield f"database     {clean(status.database)}"
    yield f"connections  {status.connections}"
    yield f"records      {_records(status)}"
    yield ""
    for name, problem in sorted(status.registrations.items()):
        yield f"{clean(name)}.json {clean(problem)}"
    if status.registrations:
        yield ""
    if not status.hook_servers:
        yield "No hook server is registered: all calls pass unchanged."
        return
    rows = [
        (
            clean(server.name),
            clean(server.policy),
            BREAKERS.get(server.breaker, clean(server.breaker)),
            clean(", ".join(server.stages)) or "none",
        )
        for server in status.hook_servers
    ]
    yield table((_HEADER, *rows))


def koordlet_lines(koordlet: KoordletStatus, address: str) -> Iterator[Block]:
    """Describe koordlet for ``koordctl status``."""
    hooks = koordlet.hooks
    yield f"koordlet {clean(koordlet.version)} at {address}: {clean(koordlet.health.status)}"
    if koordlet.mode:
        yield warning(
            f"{clean(koordlet.mode).upper()}: {_MODES.get(koordlet.mode, '')}".rstrip(": ")
        )
    yield ""
    for reason in koordlet.health.reasons:
        yield f"problem      {clean(reason)}"
    yield f"plugins      {clean(', '.join(hooks.plugins)) or 'none'}"
    registered = f"registered in {clean(hooks.registration)}" if hooks.registration else ""
    yield f"hook server  {clean(hooks.socket)}, {registered or 'not registered with the proxy'}"
    yield f"NRI          {_nri(hooks.nri)}"


def _nri(nri: NriRow) -> str:
    if nri.connected:
        return f"connected to {clean(nri.socket)}, {count(nri.calls, 'call')}"
    return f"not connected: {clean(nri.reason) or 'no reason known'}"


def pod_lines(
    pods: Sequence[PodHooks], zone: datetime.tzinfo | None = None, *, only_unmanaged: bool = False
) -> Iterator[Block]:
    """Output of ``koordctl pods``; ``zone`` is that of the times, None the machine's."""
    if not pods:
        yield "No pod missed a hook." if only_unmanaged else "No pods are known."
        return
    rows = [row for pod in pods for row in _pod_rows(pod, zone)]
    yield table([("POD / CONTAINER", "HOOKS"), *rows])


def _records(status: ProxyStatus) -> str:
    text = f"{count(status.pods, 'pod')}, {count(status.containers, 'container')}"
    if status.unmanaged:
        text += f"; {status.unmanaged} missed a hook (koordctl pods --unmanaged)"
    if not status.reconciled:
        text += "; not yet compared with the runtime"
    return text


def _pod_rows(pod: PodHooks, zone: datetime.tzinfo | None) -> Iterator[tuple[str, str]]:
    yield from _rows(clean(pod.name), pod, zone)
    for container in pod.containers:
        yield from _rows(f"  {clean(container.name)}", container, zone)


def _rows(
    name: str, subject: ContainerHooks, zone: datetime.tzinfo | None
) -> Iterator[tuple[str, str]]:
    if subject.managed:
        yield name, "managed"
        return
    yield name, f"unmanaged: missed {count(len(subject.missed), 'hook')}"
    for missed in subject.missed:
        yield "", _missed(missed, zone)


def _missed(missed: MissedHook, zone: datetime.tzinfo | None) -> str:
    when = datetime.datetime.fromtimestamp(missed.at, datetime.UTC).astimezone(zone)
    reason = clean(missed.reason) or "reason unknown"
    who = f"{clean(missed.stage)} of {clean(missed.server)}"
    return f"  {when:%Y-%m-%d %H:%M:%S}  {who}: {reason}"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def clean(text: str) -> str:
    """One line without control characters: hook servers' words end up on a terminal."""
    line = " ".join(text.split())
    return "".join(letter if letter.isprintable() else "�" for letter in line)


def time_text(seconds: float, zone: datetime.tzinfo | None) -> str:
    """A moment to the second; ``zone`` is that of the text, None the machine's."""
    try:
        when = datetime.datetime.fromtimestamp(seconds, datetime.UTC).astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return UNKNOWN
    return f"{when:%Y-%m-%d %H:%M:%S}"


def span(seconds: float) -> str:
    """Format a duration in its two greatest units."""
    rest = max(round(seconds), 0)
    words = []
    for name, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        number, rest = divmod(rest, size)
        if number:
            words.append(f"{number} {name}")
    return " ".join(words[:2]) or "0 s"
