"""Leading replicas of the control-plane programs, from their Leases."""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from koordctl import cluster_client
from koordctl.leader_client import LEADERS
from koordctl.render import clean, span

if TYPE_CHECKING:
    from koord_kube.client import Client

Leases = Mapping[str, Mapping[str, Any] | None]
"""The spec of each program's Lease by the program's name; ``None`` if there is no Lease."""


def ask_leases(arguments: argparse.Namespace) -> tuple[bytes, Leases]:
    """Read the Leases, as JSON and as a value. Raises AskError."""

    async def question(api: Client) -> Leases:
        from koord_kube.protocol.api import NotFoundError
        from koord_kube.protocol.resources import LEASES

        found: dict[str, Mapping[str, Any] | None] = {}
        for leader in LEADERS:
            try:
                lease = await api.get(LEASES, leader.lease, arguments.namespace)
            except NotFoundError:
                found[leader.endpoint.name] = None
            else:
                found[leader.endpoint.name] = lease.get("spec") or {}
        return found

    found = cluster_client.ask_cluster(arguments, question)
    return json.dumps(found).encode(), found


@dataclass(frozen=True, slots=True)
class LeadershipState:
    """True ``leads`` if a replica leads, and that in words."""

    leads: bool
    words: str


def lines(leases: Leases, namespace: str, now: datetime.datetime | None = None) -> Iterator[str]:
    """A line for each program."""
    now = now or datetime.datetime.now(datetime.UTC)
    for leader in LEADERS:
        name = leader.endpoint.name
        state = leadership(leases.get(name), f"{namespace}/{leader.lease}", now)
        yield f"{name}: {state.words}"


def leadership(
    spec: Mapping[str, Any] | None, lease: str, now: datetime.datetime
) -> LeadershipState:
    """Read the spec of a Lease, ``None`` for one that does not exist."""
    if spec is None:
        words = f"not installed, or never ran: there is no Lease {lease}"
        return LeadershipState(False, words)
    holder = clean(str(spec.get("holderIdentity") or ""))
    if not holder:
        return LeadershipState(False, f"no replica leads: the Lease {lease} has no holder")
    try:
        at = datetime.datetime.fromisoformat(str(spec.get("renewTime")))
        age = (now - at).total_seconds()
        expired = age > float(spec.get("leaseDurationSeconds") or 0)
    except (TypeError, ValueError):
        return LeadershipState(False, f"{holder} leads, its Lease has no valid renewTime")
    words = f"{holder} leads, its Lease was renewed {span(age)} ago"
    return LeadershipState(not expired, f"{words} and has expired" if expired else words)
