"""``koordctl why pending`` and ``why scheduled``: why a pod waits, or has its node."""

from __future__ import annotations

import argparse
from typing import Any

from koordctl import leader_client
from koordctl.errors import AskError
from koordctl.leader_client import SCHEDULER_LEADER, ask_leader
from koordctl.output.documents import from_page
from koordctl.output.result import CommandOutput
from koordctl.placement_text import scheduled_lines, waiting_lines
from koordctl.proxy_documents import read
from koordctl.render import clean
from koordctl.scheduler_documents import PlacementDocument

_PAGE = "/v1/why"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for a pod and its scheduler."""
    parser.add_argument("pod", type=_pod, metavar="NAMESPACE/POD", help="the pod")
    leader_client.add_arguments(parser, SCHEDULER_LEADER)


def run_pending(arguments: argparse.Namespace) -> CommandOutput:
    """Explain why a pod waits. Raises AskError."""
    document, found = _ask(arguments)
    return CommandOutput(document, waiting_lines(found))


def run_scheduled(arguments: argparse.Namespace) -> CommandOutput:
    """Explain a pod's node. Raises AskError."""
    document, found = _ask(arguments)
    return CommandOutput(document, scheduled_lines(found))


def _ask(arguments: argparse.Namespace) -> tuple[Any, PlacementDocument]:
    body = ask_leader(arguments, SCHEDULER_LEADER, _PAGE, {"pod": arguments.pod})
    try:
        found = read(body, PlacementDocument)
    except ValueError as error:
        raise AskError(f"koord-scheduler's answer cannot be read: {error}") from None
    if found.state == "unknown":
        raise AskError(clean(found.reason))
    return from_page(body, PlacementDocument), found


def _pod(text: str) -> str:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise argparse.ArgumentTypeError(f'"{text}" is not a pod; expected NAMESPACE/POD')
    return text
