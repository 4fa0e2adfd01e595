"""``koordctl gangs``: the gangs of the scheduler, and how far their pods are."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any

from koordctl import leader_client
from koordctl.amounts import UNKNOWN
from koordctl.errors import AskError
from koordctl.leader_client import SCHEDULER_LEADER, ask_leader
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block, table
from koordctl.render import clean
from koordctl.suggestions import near

Json = Mapping[str, Any]

_SUFFIX = ".scheduling.k8s.io"
"""Ends the names of Kubernetes' own groups; without it they are found, too."""
_PAGE = "/v1/gangs"
_HEADER = ("NAME", "MIN", "MEMBERS", "WAITING", "BOUND", "PHASE", "POLICY", "WHY")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for a gang and its scheduler."""
    words = "only this gang"
    parser.add_argument("gang", nargs="?", default="", metavar="NAMESPACE/NAME", help=words)
    leader_client.add_arguments(parser, SCHEDULER_LEADER)


def run(arguments: argparse.Namespace) -> CommandOutput:
    """The gangs that the leading scheduler knows. Raises AskError."""
    body = ask_leader(arguments, SCHEDULER_LEADER, _PAGE, {})
    try:
        found = json.loads(body)
    except ValueError as error:
        raise AskError(f"koord-scheduler's answer cannot be read: {error}") from None
    named = (arguments.gang, f"{arguments.gang}{_SUFFIX}")
    chosen = [gang for gang in found["gangs"] if not arguments.gang or gang["name"] in named]
    if arguments.gang and not chosen:
        names = [str(gang["name"]) for gang in found["gangs"]]
        raise AskError(f"there is no gang {clean(arguments.gang)}{near(arguments.gang, names)}")
    return CommandOutput(chosen, lines(chosen))


def lines(found: list[Json]) -> Iterator[Block]:
    """A line for each."""
    if not found:
        yield "No gang found."
        return
    yield table([_HEADER, *map(_row, found)], words=(0, 5, 6, 7))


def _row(gang: Json) -> tuple[str, ...]:
    numbers = (str(gang.get(name, UNKNOWN)) for name in ("min", "members", "waiting", "bound"))
    words = (clean(str(gang.get(name) or UNKNOWN)) for name in ("phase", "policy", "why"))
    return (clean(str(gang.get("name", ""))), *numbers, *words)
