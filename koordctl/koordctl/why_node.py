"""``koordctl why batch-cpu NODE`` and the like: what a node offers, and by what arithmetic.

``koordctl why resize NAME`` too: what the manager does with the pods of a Recommendation.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import msgspec

from koordctl import leader_client
from koordctl.errors import AskError
from koordctl.koordlet_documents import WhyDocument
from koordctl.leader_client import MANAGER_LEADER, ask_leader
from koordctl.output.documents import from_page
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block
from koordctl.proxy_documents import read
from koordctl.render import clean
from koordctl.why import add_history, why_lines

RESOURCES = ("batch-cpu", "batch-memory", "mid-cpu", "mid-memory")
"""Possible questions; "node" is all of them, and what else is calculated for a node."""

_PAGE = "/v1/why"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for a node and its manager."""
    parser.add_argument("node", metavar="NODE", help="name of the node")
    leader_client.add_arguments(parser, MANAGER_LEADER)
    add_history(parser)


def add_resize_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for a Recommendation, or a VPA, and its manager."""
    words = "the Recommendation or VerticalPodAutoscaler: NAMESPACE/NAME"
    parser.add_argument("name", metavar="NAME", help=words)
    leader_client.add_arguments(parser, MANAGER_LEADER)


def run_resize(arguments: argparse.Namespace) -> CommandOutput:
    """Explain why pods are resized, or not. Raises AskError."""
    body = ask_leader(arguments, MANAGER_LEADER, _PAGE, {"resize": arguments.name})
    found = _read(body)
    name = clean(arguments.name)
    nothing = f"{name} has no pods that could be resized."
    lines = [f"{name}: {clean(found.reason)}"] if found.decides and found.reason else []
    shown = [*lines, *why_lines(found, [] if lines else [nothing])]
    return CommandOutput(from_page(body, WhyDocument), shown, None if found.decides else "")


def run(arguments: argparse.Namespace) -> CommandOutput:
    """Explain present and past amounts, of one resource or of all. Raises AskError."""
    body = ask_leader(arguments, MANAGER_LEADER, _PAGE, {"node": arguments.node})
    found = _read(body)
    shown = lines(found, arguments.resource, arguments.history)
    return CommandOutput(from_page(body, WhyDocument), shown, None if found.decides else "")


def _read(body: bytes) -> WhyDocument:
    try:
        return read(body, WhyDocument)
    except ValueError as error:
        raise AskError(f"koord-manager's answer cannot be read: {error}") from None


def lines(found: WhyDocument, resource: str, history: int) -> Iterator[Block]:
    """A block for each resource; "node" are all."""
    wanted = [decision for decision in found.decisions if resource in ("node", decision.aspect)]
    before = [decision for decision in found.history if resource in ("node", decision.aspect)]
    about = f"{clean(found.node)} offers no {resource}, and the manager does not calculate any."
    shown = msgspec.structs.replace(found, decisions=wanted, history=before[:history])
    return why_lines(shown, [about])
