"""Asking the leader of a control-plane program, through the API server or at an address."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord_service.http_targets import with_query

from koordctl import cluster_client
from koordctl.errors import AskError
from koordctl.status_client import (
    DESCHEDULER,
    MANAGER,
    SCHEDULER,
    StatusEndpoint,
    ask,
)

if TYPE_CHECKING:
    from koord_kube.client import Client


@dataclass(frozen=True, slots=True)
class ElectedProgram:
    """A program of which one replica leads: the name of its Lease, and its pods' port."""

    noun: str
    lease: str
    port: int
    endpoint: StatusEndpoint


MANAGER_LEADER = ElectedProgram("manager", "koordinator-manager", 8080, MANAGER)
SCHEDULER_LEADER = ElectedProgram("scheduler", "koord-scheduler", 10251, SCHEDULER)
DESCHEDULER_LEADER = ElectedProgram("descheduler", "koord-descheduler", 10251, DESCHEDULER)
LEADERS = (MANAGER_LEADER, SCHEDULER_LEADER, DESCHEDULER_LEADER)


def add_arguments(parser: argparse.ArgumentParser, leader: ElectedProgram) -> None:
    """Add the options for the program's address."""
    parser.add_argument(
        "--address",
        default="",
        metavar="HOST:PORT",
        help=f"{leader.endpoint.setting} of the leading {leader.noun} (default: the holder of its "
        "Lease, through the API server)",
    )
    cluster_client.add_namespace(parser, f"namespace of the {leader.noun} and its Lease")
    parser.add_argument(
        "--lease",
        default=leader.lease,
        metavar="NAME",
        help=f"Lease of the {leader.noun} (default: %(default)s)",
    )
    cluster_client.add_arguments(parser)


def ask_leader(
    arguments: argparse.Namespace, leader: ElectedProgram, page: str, query: Mapping[str, str]
) -> bytes:
    """The body of a page of the leader.

    Raises:
        UsageError: the address is not valid.
        AskError: nobody leads, or there is no answer.
    """
    if arguments.address:
        return ask(arguments.address, with_query(page, query), leader.endpoint)

    async def question(api: Client) -> bytes:
        place = arguments.namespace, arguments.lease
        return await read_leader(api, leader, place, page, query)

    return cluster_client.ask_cluster(arguments, question)


async def read_leader(
    api: Client,
    leader: ElectedProgram,
    place: tuple[str, str],
    page: str,
    query: Mapping[str, str],
) -> bytes:
    """The body of a page of the leader, whose Lease is at a namespace and a name.

    Raises:
        AskError: nobody leads, or the leader is not a pod with this page.
        ApiError: there is no answer.
    """
    from koord_kube.protocol.api import NotFoundError
    from koord_kube.protocol.resources import LEASES, PODS

    namespace, name = place
    try:
        lease = await api.get(LEASES, name, namespace)
    except NotFoundError:
        about = f"there is no Lease {namespace}/{name}"
        hint = f"is {leader.endpoint.name} installed, and are these its --namespace and --lease"
        raise AskError(f"no {leader.noun} leads: {about}; {hint}?") from None
    holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
    if not holder:
        raise AskError(f"no {leader.noun} leads: the Lease {namespace}/{name} has no holder")
    # Its identity is its pod's name, and what makes this run of it the only one.
    pod = f"http:{holder.rpartition('_')[0]}:{leader.port}"
    try:
        return await api.read(PODS, pod, namespace, f"proxy{page}", query)
    except NotFoundError:
        raise AskError(_outside(leader, holder, namespace)) from None


def _outside(leader: ElectedProgram, holder: str, namespace: str) -> str:
    return (
        f"the leading {leader.noun} is {holder}, which is no pod of the namespace {namespace} with "
        "this page: if it runs outside the cluster, give commands that ask it alone its address, "
        f"--address=HOST:{leader.port}"
    )
