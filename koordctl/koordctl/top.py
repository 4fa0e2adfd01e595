"""``koordctl top``: resource usage and contention, live."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from koordctl.amounts import UNKNOWN, bar, cores, memory, percent, share
from koordctl.errors import AskError
from koordctl.koordlet_client import ask_koordlet
from koordctl.koordlet_documents import ContentionRow, PodRow, TopDocument
from koordctl.output.documents import from_page
from koordctl.output.result import CommandOutput, OutputFormat
from koordctl.output.tables import Block, Canvas, lines_of, table
from koordctl.render import clean
from koordctl.screen import screen

REFRESH_SECONDS = 2.0

_BAR = 24
_CLASS_HEADER = ("CLASS", "PODS", "CPU", "REQUEST", "%", "MEMORY", "REQUEST", "%")
_POD_HEADER = (
    *("POD", "CLASS", "CPU", "REQUEST", "%", "MEMORY", "REQUEST", "%"),
    *("THROTTLED", "PSI CPU", "MEM", "IO"),
)
_DELAYS: Sequence[tuple[str, Callable[[PodRow], float | None], str]] = (
    ("WAIT CPU", lambda pod: pod.sched_wait, "ms/s"),
    ("WAIT MEM", lambda pod: pod.memory_delay, "ms/s"),
    ("WAIT DISK", lambda pod: pod.disk_wait, "ms"),
    ("RTT", lambda pod: pod.tcp_rtt, "ms"),
    ("RESENT", lambda pod: None if pod.tcp_retransmits is None else 100 * pod.tcp_retransmits, "%"),
)
"""Columns of what is shown where it is measured: header, value, unit."""

_SORTS: Mapping[str, Callable[[PodRow], float | None]] = {
    "cpu": lambda pod: pod.cpu,
    "memory": lambda pod: pod.memory,
    "throttled": lambda pod: pod.throttled,
    "wait": lambda pod: pod.sched_wait,
    "psi": lambda pod: max(
        (
            pressure
            for pressure in (pod.psi_cpu, pod.psi_memory, pod.psi_io)
            if pressure is not None
        ),
        default=None,
    ),
}
_KEYS = {name[0]: name for name in _SORTS}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``koordctl top``."""
    parser.add_argument(
        "--sort", choices=_SORTS, default="cpu", help="order of the pods (default: %(default)s)"
    )
    parser.add_argument(
        "--class",
        dest="qos",
        default="",
        metavar="CLASS",
        help="show only pods of a class, such as BE",
    )
    parser.add_argument(
        "-n", dest="count", type=pod_count, metavar="COUNT", help="show at most COUNT pods"
    )
    parser.add_argument(
        "--once", action="store_true", help="print once; the default if stdout is not a terminal"
    )


def run(arguments: argparse.Namespace) -> CommandOutput:
    """Print once, or keep drawing until q or Ctrl-C.

    Raises:
        AskError: koordlet does not answer, or with something else.
    """
    body, top = ask_koordlet(arguments.address, "/v1/top", TopDocument)
    pods = chosen(top, arguments.sort, arguments.qos, arguments.count)
    document = document_of(body, TopDocument, (pod.uid for pod in pods))
    if arguments.once or arguments.output != OutputFormat.TABLE or not sys.stdout.isatty():
        return CommandOutput(document, [*head_lines(top), "", *pod_lines(pods)])
    _keep_drawing(arguments, top)
    return CommandOutput(document, [])


def chosen(top: TopDocument, sort: str, qos: str = "", count: int | None = None) -> list[PodRow]:
    """The pods to show, those with the greatest value first, unknown ones last."""
    value = _SORTS[sort]

    def order(pod: PodRow) -> tuple[float, str, str]:
        known = value(pod)
        return (float("inf") if known is None else -known, pod.namespace, pod.name)

    pods = [pod for pod in top.pods if not qos or pod.qos.lower() == qos.lower()]
    return sorted(pods, key=order)[:count]


def head_lines(top: TopDocument, zone: datetime.tzinfo | None = None) -> Iterator[Block]:
    """The node and its classes."""
    node, whole = top.node, top.node.capacity
    when = datetime.datetime.fromtimestamp(top.at, datetime.UTC).astimezone(zone)
    pods = "1 pod" if len(top.pods) == 1 else f"{len(top.pods)} pods"
    yield f"{clean(node.name) or 'this node'}  {when:%H:%M:%S}  {pods}"
    asked_cpu = _known_sum(row.cpu_request for row in top.classes)
    asked_memory = _known_sum(row.memory_request for row in top.classes)
    yield (
        f"CPU     {bar(node.cpu, whole.cpu, _BAR)}  {share(node.cpu, whole.cpu):>5}  "
        f"{cores(node.cpu)} of {cores(whole.cpu)} cores, "
        f"requested {share(asked_cpu, whole.cpu)}{_peaks(top, 'cpu', cores)}"
    )
    yield (
        f"Memory  {bar(node.memory, whole.memory, _BAR)}  {share(node.memory, whole.memory):>5}  "
        f"{memory(node.memory)} of {memory(whole.memory)}, "
        f"requested {share(asked_memory, whole.memory)}{_peaks(top, 'memory', memory)}"
    )
    yield f"PSI     {psi_words(node.psi)}"
    yield ""
    yield table([_CLASS_HEADER, *_class_rows(top)], words=(0,))


def pod_lines(pods: Sequence[PodRow]) -> Iterator[Block]:
    """The pods, one a line."""
    if not pods:
        yield "No pods to show."
        return
    measured = [
        (header, value, unit)
        for header, value, unit in _DELAYS
        if any(value(pod) is not None for pod in pods)
    ]
    header = (*_POD_HEADER, *(header for header, _, _ in measured))
    rows = (
        (*_pod_row(pod), *(_delay(value(pod), unit) for _, value, unit in measured)) for pod in pods
    )
    yield table([header, *rows], words=(0, 1))


def psi_words(psi: Mapping[str, Mapping[str, float]]) -> str:
    """Pressure by resource: some, and full where the kernel has it."""
    words = []
    for key, name in (("cpu", "CPU"), ("memory", "memory"), ("io", "IO")):
        degrees = psi.get(key, {})
        full = f" (all tasks {percent(degrees['full'])})" if "full" in degrees else ""
        words.append(f"{name} {percent(degrees.get('some'))}{full}")
    return ", ".join(words)


def _keep_drawing(arguments: argparse.Namespace, top: TopDocument) -> None:
    sort, problem = arguments.sort, ""
    try:
        with screen() as terminal:
            while True:
                pods = chosen(top, sort, arguments.qos, arguments.count)
                _draw(terminal.show, terminal.size, top, pods, sort, problem)
                key = terminal.key(REFRESH_SECONDS)
                if key == "q":
                    return
                sort = _KEYS.get(key, sort)
                try:
                    _, top = ask_koordlet(arguments.address, "/v1/top", TopDocument)
                    problem = ""
                except AskError as error:
                    # It may be restarting: what was seen last stays.
                    problem = str(error)
    except KeyboardInterrupt:
        return


def _draw(
    show: Callable[[Sequence[str], Sequence[int]], None],
    size: tuple[int, int],
    top: TopDocument,
    pods: Sequence[PodRow],
    sort: str,
    problem: str,
) -> None:
    width, height = size
    canvas = Canvas(width)
    head = [*lines_of(head_lines(top), canvas), ""]
    body = list(lines_of(pod_lines(pods), canvas))
    # The pods' header, and the last line of all.
    room = max(height - len(head) - 1, 1)
    more = f"{len(body) - room} more below; " if len(body) > room else ""
    last = problem or f"{more}sorted by {sort} (c m t w p), q quits"
    show([*head, *body[:room], last], (0, 5, len(head)))


def _class_rows(top: TopDocument) -> Iterator[tuple[str, ...]]:
    for used in top.classes:
        yield (clean(used.qos), str(used.pods), *_used(used))
    rest = [
        ("system", top.system),
        *((f"  {application.name}", application) for application in top.host_applications),
    ]
    for name, usage in rest:
        row = ContentionRow(cpu=usage.cpu, memory=usage.memory)
        yield (f" {clean(name)}" if name.startswith(" ") else name, "", *_used(row))


def _pod_row(pod: PodRow) -> tuple[str, ...]:
    return (
        f"{clean(pod.namespace)}/{clean(pod.name)}",
        clean(pod.qos),
        *_used(pod),
        percent(None if pod.throttled is None else 100 * pod.throttled),
        percent(pod.psi_cpu),
        percent(pod.psi_memory),
        percent(pod.psi_io),
    )


def _delay(value: float | None, unit: str) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def _used(row: ContentionRow) -> tuple[str, ...]:
    return (
        cores(row.cpu),
        cores(row.cpu_request) if row.cpu_request else UNKNOWN,
        share(row.cpu, row.cpu_request),
        memory(row.memory),
        memory(row.memory_request) if row.memory_request else UNKNOWN,
        share(row.memory, row.memory_request),
    )


def _known_sum(amounts: Iterable[float | None]) -> float | None:
    """The sum of what is known, ``None`` if nothing is: some pods' requests are not known."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def _peaks(top: TopDocument, resource: str, shown: Callable[[float | None], str]) -> str:
    peaks = {name: row[resource] for name, row in (top.node.peaks or {}).items() if resource in row}
    if not peaks:
        return ""
    words = [f"{clean(name)} {shown(peak)}" for name, peak in peaks.items()]
    return f", predicted peak {', '.join(words)}"


def document_of(body: bytes, kind: type, uids: Iterable[str]) -> Any:
    """Return koordlet's document with the selected pods alone."""
    document = from_page(body, kind)
    by_uid = {pod["uid"]: pod for pod in document["pods"]}
    return {**document, "pods": [by_uid[uid] for uid in uids]}


def pod_count(text: str) -> int:
    """The argument of ``-n``."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f'"{text}" is not a number of pods')
    return int(text)
