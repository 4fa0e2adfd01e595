"""``koordctl why batch-cpu NODE`` and the like: what a node offers, and by what arithmetic."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

import msgspec

from koordctl import leader_client
from koordctl.koordlet_documents import WhyDocument
from koordctl.leader_client import MANAGER_LEADER, ask_leader
from koordctl.proxy_documents import read
from koordctl.render import clean
from koordctl.status_client import AskError
from koordctl.why import add_history, why_lines

RESOURCES = ("batch-cpu", "batch-memory", "mid-cpu", "mid-memory")
"""Possible questions; "node" is all of them, and what else is calculated for a node."""

_PAGE = "/v1/why"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for a node and its manager."""
    parser.add_argument("node", metavar="NODE", help="name of the node")
    leader_client.add_arguments(parser, MANAGER_LEADER)
    add_history(parser)


def run(arguments: argparse.Namespace) -> Iterable[str]:
    """Explain present and past amounts, of one resource or of all. Raises AskError."""
    body = ask_leader(arguments, MANAGER_LEADER, _PAGE, {"node": arguments.node})
    if arguments.json:
        return [body.decode().rstrip("\n")]
    try:
        found = read(body, WhyDocument)
    except ValueError as error:
        raise AskError(f"koord-manager's answer cannot be read: {error}") from None
    return lines(found, arguments.resource, arguments.history)


def lines(found: WhyDocument, resource: str, history: int) -> Iterator[str]:
    """A block for each resource; "node" are all."""
    wanted = [decision for decision in found.decisions if resource in ("node", decision.aspect)]
    before = [decision for decision in found.history if resource in ("node", decision.aspect)]
    about = f"{clean(found.node)} offers no {resource}, and the manager does not calculate any."
    shown = msgspec.structs.replace(found, decisions=wanted, history=before[:history])
    return why_lines(shown, [about])
