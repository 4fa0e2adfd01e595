"""``koordctl status``: which programs run on this node, and whether hooks are called.

A node has the proxy or NRI, and may lack koordlet: each part is shown by itself, and one that does
not answer is a line.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from koordctl import cluster_client, cluster_status, koordlet_client, render
from koordctl.koordlet_client import ask_koordlet
from koordctl.koordlet_documents import KoordletStatus
from koordctl.proxy_documents import ProxyStatus, ask_proxy
from koordctl.status_client import AskError

T = TypeVar("T")

NO_HOOKS = (
    "no hooks are called on this node: the proxy does not answer, and koordlet is not connected "
    "to NRI"
)


@dataclass(slots=True)
class Parts:
    """The answers by program, as they came, and of those that did not answer the reason."""

    documents: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def ask(self, name: str, question: Callable[[], tuple[bytes, T]]) -> T | None:
        """Ask one program."""
        try:
            body, found = question()
        except AskError as error:
            self.errors[name] = str(error)
            return None
        self.documents[name] = json.loads(body)
        return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``koordctl status`` beside the proxy's address."""
    koordlet_client.add_arguments(parser)
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="also show which replicas of manager, scheduler and descheduler lead",
    )
    cluster_client.add_namespace(parser, "with --cluster: namespace of their Leases")
    cluster_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> Iterator[str]:
    """Show what answers.

    Raises:
        AddressError: an address is not valid.
        AskError: no hooks are called here, or the cluster was asked for and does not answer.
    """
    parts = Parts()
    proxy = parts.ask("proxy", lambda: ask_proxy(arguments.address, "/healthz", ProxyStatus))
    where = arguments.koordlet_address
    koordlet = parts.ask("koordlet", lambda: ask_koordlet(where, "/v1/status", KoordletStatus))
    if not arguments.json:
        yield from _proxy_lines(proxy, koordlet, arguments.address, parts.errors)
        yield ""
        yield from _koordlet_lines(koordlet, where, parts.errors)
    if arguments.cluster:
        leases = parts.ask("cluster", lambda: cluster_status.ask_leases(arguments))
        if not arguments.json:
            yield ""
            yield from _cluster_lines(leases, arguments.namespace, parts.errors)
    if arguments.json:
        yield _as_json(parts)
    if proxy is None and not (koordlet and koordlet.hooks.nri.connected):
        raise AskError(NO_HOOKS)
    if "cluster" in parts.errors:
        raise AskError("the cluster does not answer")


def _proxy_lines(
    proxy: ProxyStatus | None,
    koordlet: KoordletStatus | None,
    address: str,
    errors: dict[str, str],
) -> Iterator[str]:
    if proxy is not None:
        yield from render.status_lines(proxy, address)
    elif koordlet and koordlet.hooks.nri.connected:
        yield f"koord-runtime-proxy: none at {address}; not needed, since koordlet uses NRI"
    else:
        yield f"koord-runtime-proxy: {render.clean(errors['proxy'])}"


def _koordlet_lines(
    koordlet: KoordletStatus | None, address: str, errors: dict[str, str]
) -> Iterator[str]:
    if koordlet is None:
        yield f"koordlet: {render.clean(errors['koordlet'])}"
    else:
        yield from render.koordlet_lines(koordlet, address)


def _cluster_lines(
    leases: cluster_status.Leases | None, namespace: str, errors: dict[str, str]
) -> Iterator[str]:
    if leases is None:
        yield f"cluster: {render.clean(errors['cluster'])}"
    else:
        yield from cluster_status.lines(leases, namespace)


def _as_json(parts: Parts) -> str:
    found = {**parts.documents, "errors": parts.errors}
    return json.dumps(found, indent=2, ensure_ascii=False)
