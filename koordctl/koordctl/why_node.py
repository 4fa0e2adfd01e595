"""``koordctl why batch-cpu NODE`` and the like: what a node offers, and by what arithmetic."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec

from koordctl import cluster
from koordctl.answers import read
from koordctl.client import MANAGER, AskError, ask
from koordctl.observed import Why
from koordctl.render import clean
from koordctl.why import add_history, why_lines

if TYPE_CHECKING:
    from koord_kube.client import Client

RESOURCES = ("batch-cpu", "batch-memory", "mid-cpu", "mid-memory")
"""What can be asked about; "node" is all of it, and what else is reckoned of a node."""

_PAGE = "/v1/why"
_LEASE, _PORT = "koordinator-manager", 8080


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which node, and where its manager is."""
    parser.add_argument("node", metavar="NODE", help="the node's name")
    parser.add_argument(
        "--address",
        default="",
        metavar="HOST:PORT",
        help="the leading manager's --metrics-addr (default: found by its Lease, and asked "
        "through the API server)",
    )
    parser.add_argument(
        "--namespace",
        default="koordinator-system",
        metavar="NAMESPACE",
        help="the manager's (default: %(default)s)",
    )
    cluster.add_arguments(parser)
    add_history(parser)


def run(arguments: argparse.Namespace) -> Iterable[str]:
    """What stands and what was before, of one resource or of all. Raises AskError."""
    body = _asked(arguments)
    if arguments.json:
        return [body.decode().rstrip("\n")]
    try:
        found = read(body, Why)
    except ValueError as error:
        raise AskError(f"this is no answer of koord-manager: {error}") from None
    return lines(found, arguments.resource, arguments.history)


def lines(found: Why, resource: str, history: int) -> Iterator[str]:
    """A block for each resource; "node" are all."""
    wanted = [one for one in found.decisions if resource in ("node", one.aspect)]
    before = [one for one in found.history if resource in ("node", one.aspect)]
    about = f"{clean(found.node)} offers no {resource}, and the manager does not reckon any."
    shown = msgspec.structs.replace(found, decisions=wanted, history=before[:history])
    return why_lines(shown, [about])


def _asked(arguments: argparse.Namespace) -> bytes:
    if arguments.address:
        return ask(arguments.address, f"{_PAGE}?{urlencode({'node': arguments.node})}", MANAGER)
    namespace, node = arguments.namespace, arguments.node

    async def question(api: Client) -> bytes:
        from koord_kube.resources import LEASES, PODS

        lease = await api.get(LEASES, _LEASE, namespace)
        holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
        if not holder:
            raise AskError(f"nobody leads: the Lease {namespace}/{_LEASE} has no holder")
        # Its identity is its pod's name, and what makes this run of it the only one.
        pod = f"http:{holder.rpartition('_')[0]}:{_PORT}"
        return await api.read(PODS, pod, namespace, f"proxy{_PAGE}", {"node": node})

    return cluster.ask_cluster(arguments.kubeconfig, question)
