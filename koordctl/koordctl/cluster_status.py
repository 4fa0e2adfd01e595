"""Leading replicas of the control-plane programs, from their Leases."""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from koordctl import cluster_client
from koordctl.leader_client import MANAGER_LEADER, SCHEDULER_LEADER
from koordctl.render import clean, span

if TYPE_CHECKING:
    from koord_kube.client import Client

_LEADERS = (MANAGER_LEADER, SCHEDULER_LEADER)

Leases = Mapping[str, Mapping[str, Any] | None]
"""The spec of each program's Lease by the program's name; ``None`` if there is no Lease."""


def ask_leases(arguments: argparse.Namespace) -> tuple[bytes, Leases]:
    """Read the Leases, as JSON and as a value. Raises AskError."""

    async def question(api: Client) -> Leases:
        from koord_kube.protocol.api import NotFoundError
        from koord_kube.protocol.resources import LEASES

        found: dict[str, Mapping[str, Any] | None] = {}
        for leader in _LEADERS:
            try:
                lease = await api.get(LEASES, leader.lease, arguments.namespace)
            except NotFoundError:
                found[leader.endpoint.name] = None
            else:
                found[leader.endpoint.name] = lease.get("spec") or {}
        return found

    found = cluster_client.ask_cluster(arguments, question)
    return json.dumps(found).encode(), found


def lines(leases: Leases, namespace: str, now: datetime.datetime | None = None) -> Iterator[str]:
    """A line for each program."""
    now = now or datetime.datetime.now(datetime.UTC)
    for leader in _LEADERS:
        name, lease = leader.endpoint.name, f"{namespace}/{leader.lease}"
        spec = leases.get(name)
        if spec is None:
            yield f"{name}: not installed, or never ran: there is no Lease {lease}"
        elif holder := clean(str(spec.get("holderIdentity") or "")):
            yield f"{name}: {holder} leads, {_renewed(spec, now)}"
        else:
            yield f"{name}: no replica leads: the Lease {lease} has no holder"


def _renewed(spec: Mapping[str, Any], now: datetime.datetime) -> str:
    try:
        at = datetime.datetime.fromisoformat(str(spec.get("renewTime")))
        age = (now - at).total_seconds()
        expired = age > float(spec.get("leaseDurationSeconds") or 0)
    except (TypeError, ValueError):
        return "its Lease has no valid renewTime"
    words = f"its Lease was renewed {span(age)} ago"
    return f"{words} and has expired" if expired else words
