"""``koordctl why batch-cpu NODE`` and the like: what a node offers, and by what arithmetic."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec

from koordctl import cluster_client
from koordctl.koordlet_documents import WhyDocument
from koordctl.proxy_documents import read
from koordctl.render import clean
from koordctl.status_client import MANAGER, AskError, ask
from koordctl.why import add_history, why_lines

if TYPE_CHECKING:
    from koord_kube.client import Client

RESOURCES = ("batch-cpu", "batch-memory", "mid-cpu", "mid-memory")
"""What can be asked about; "node" is all of it, and what else is calculated for a node."""

_PAGE = "/v1/why"
_LEASE, _PORT = "koordinator-manager", 8080


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which node, and where its manager is."""
    parser.add_argument("node", metavar="NODE", help="name of the node")
    parser.add_argument(
        "--address",
        default="",
        metavar="HOST:PORT",
        help="--metrics-addr of the leading manager (default: the holder of its Lease, through "
        "the API server)",
    )
    parser.add_argument(
        "--namespace",
        default="koordinator-system",
        metavar="NAMESPACE",
        help="namespace of the manager (default: %(default)s)",
    )
    cluster_client.add_arguments(parser)
    add_history(parser)


def run(arguments: argparse.Namespace) -> Iterable[str]:
    """What stands and what was before, of one resource or of all. Raises AskError."""
    body = _asked(arguments)
    if arguments.json:
        return [body.decode().rstrip("\n")]
    try:
        found = read(body, WhyDocument)
    except ValueError as error:
        raise AskError(f"koord-manager's answer cannot be read: {error}") from None
    return lines(found, arguments.resource, arguments.history)


def lines(found: WhyDocument, resource: str, history: int) -> Iterator[str]:
    """A block for each resource; "node" are all."""
    wanted = [one for one in found.decisions if resource in ("node", one.aspect)]
    before = [one for one in found.history if resource in ("node", one.aspect)]
    about = f"{clean(found.node)} offers no {resource}, and the manager does not calculate any."
    shown = msgspec.structs.replace(found, decisions=wanted, history=before[:history])
    return why_lines(shown, [about])


def _asked(arguments: argparse.Namespace) -> bytes:
    if arguments.address:
        return ask(arguments.address, f"{_PAGE}?{urlencode({'node': arguments.node})}", MANAGER)
    namespace, node = arguments.namespace, arguments.node

    async def question(api: Client) -> bytes:
        from koord_kube.protocol.resources import LEASES, PODS

        lease = await api.get(LEASES, _LEASE, namespace)
        holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
        if not holder:
            raise AskError(f"no manager leads: the Lease {namespace}/{_LEASE} has no holder")
        # Its identity is its pod's name, and what makes this run of it the only one.
        pod = f"http:{holder.rpartition('_')[0]}:{_PORT}"
        return await api.read(PODS, pod, namespace, f"proxy{_PAGE}", {"node": node})

    return cluster_client.ask_cluster(arguments.kubeconfig, question)
