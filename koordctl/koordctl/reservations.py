"""``koordctl reservations``: which room is kept on nodes, and who has it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from koord_model import duration
from koord_model.times import from_rfc3339, rfc3339

from koordctl import cluster_client
from koordctl.amounts import UNKNOWN
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block, table
from koordctl.render import clean

if TYPE_CHECKING:
    from koord_kube.client import Client

Json = Mapping[str, Any]

_HEADER = ("NAME", "PHASE", "NODE", "RESERVED", "ALLOCATED", "PODS", "ENDS")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``koordctl reservations``."""
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="only this Reservation")
    cluster_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> CommandOutput:
    """The reservations of the cluster. Raises AskError."""
    from koord_kube.protocol.resources import RESERVATIONS

    async def question(api: Client) -> list[Any]:
        if arguments.name:
            return [await cluster_client.get(api, RESERVATIONS, arguments.name)]
        return await cluster_client.objects(api, RESERVATIONS)

    found = cluster_client.ask_cluster(arguments, question)
    return CommandOutput(found, lines(found))


def lines(found: Sequence[Json]) -> Iterator[Block]:
    """A line for each, and below why one has no node."""
    if not found:
        yield "No Reservation found."
        return
    ordered = sorted(found, key=_name)
    yield table([_HEADER, *map(_row, ordered)])
    for reservation in ordered:
        message = _unscheduled(reservation)
        if message:
            yield f"{_name(reservation)}: {message}"


def _row(reservation: Json) -> tuple[str, ...]:
    status = reservation.get("status") or {}
    owners = status.get("currentOwners") or ()
    pods = (clean(f"{each.get('namespace', '')}/{each.get('name', '')}") for each in owners)
    return (
        _name(reservation),
        clean(str(status.get("phase") or "Pending")),
        clean(str(status.get("nodeName") or UNKNOWN)),
        quantities(status.get("allocatable")),
        quantities(status.get("allocated")),
        ", ".join(pods) or UNKNOWN,
        _ends(reservation),
    )


def quantities(given: Json | None) -> str:
    """Amounts by resource, in one cell."""
    listed = (f"{name} {amount}" for name, amount in sorted((given or {}).items()))
    return clean(", ".join(listed)) or UNKNOWN


def _ends(reservation: Json) -> str:
    """Describe its end in the scheduler's reading; an invalid time means never."""
    spec, created = (
        reservation.get("spec") or {},
        (reservation.get("metadata") or {}).get("creationTimestamp"),
    )
    ttl, expires = spec.get("ttl"), spec.get("expires")
    try:
        seconds = None if ttl is None else duration.seconds_or_number(str(ttl))
        if seconds == 0:
            return "never"
        if expires is not None:
            return rfc3339(from_rfc3339(str(expires)))
        return "never" if seconds is None else rfc3339(from_rfc3339(str(created)) + seconds)
    except ValueError:
        return UNKNOWN


def _unscheduled(reservation: Json) -> str:
    conditions = (reservation.get("status") or {}).get("conditions") or ()
    for each in conditions:
        if each.get("type") == "Scheduled" and each.get("status") == "False":
            return clean(str(each.get("message", "")))
    return ""


def _name(reservation: Json) -> str:
    return clean(str((reservation.get("metadata") or {}).get("name", "")))
