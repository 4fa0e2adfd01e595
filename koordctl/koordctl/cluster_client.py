"""Asking a cluster: by a kubeconfig, or as the pod that this runs in."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from koordctl.errors import AskError
from koordctl.suggestions import did_you_mean

if TYPE_CHECKING:
    from koord_kube.client import Client
    from koord_kube.protocol.resources import Resource
    from koord_kube.protocol.selectors import ApiSelector

T = TypeVar("T")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the cluster."""
    parser.add_argument(
        "--kubeconfig",
        default="",
        metavar="FILE",
        help="kubeconfig file (default: $KUBECONFIG, ~/.kube/config, or the pod's service account)",
    )
    parser.add_argument(
        "--context",
        default="",
        metavar="NAME",
        help="context of the kubeconfig (default: its current one)",
    )


def add_namespace(parser: argparse.ArgumentParser, words: str) -> None:
    """Add the option for the namespace of the control plane; ``words`` say of what in it."""
    parser.add_argument(
        "--namespace",
        default="koordinator-system",
        metavar="NAMESPACE",
        help=f"{words} (default: %(default)s)",
    )


def ask_cluster(arguments: argparse.Namespace, question: Callable[[Client], Awaitable[T]]) -> T:
    """The answer to a question.

    Raises:
        AskError: there is no cluster, or it does not answer so.
    """
    # Imported late: no other command needs an HTTP client, which costs a tenth of a second.
    import asyncio

    from koord_kube.connect import ConnectError, connect
    from koord_kube.protocol.api import ApiError

    async def run() -> T:
        async with await connect(
            arguments.kubeconfig or _usual(), context=arguments.context
        ) as api:
            return await question(api)

    try:
        return asyncio.run(run())
    except (ApiError, ConnectError) as error:
        raise AskError(str(error)) from None


async def objects(
    api: Client, resource: Resource, namespace: str = "", selector: ApiSelector | None = None
) -> list[Any]:
    """All objects of a kind, of one namespace or of all; only those that a selector means."""
    from koord_kube.protocol.selectors import EVERYTHING

    found: list[Any] = []
    async for page in api.pages(resource, namespace, selector or EVERYTHING):
        found = [*([] if page.first else found), *map(json.loads, page.items)]
    return found


async def get(api: Client, resource: Resource, name: str, namespace: str = "") -> Any:
    """An object by its name. Raises AskError, which suggests names that may be meant."""
    from koord_kube.protocol.api import ApiError, NotFoundError

    try:
        return await api.get(resource, name, namespace)
    except NotFoundError as error:
        try:
            every = await objects(api, resource, namespace)
        except ApiError:
            every = []  # its definition is not installed, or it may not be listed
        hint = did_you_mean(name, (str(each["metadata"]["name"]) for each in every))
        raise AskError(f"{error}{hint}") from None


def is_configured(arguments: argparse.Namespace) -> bool:
    """True if a kubeconfig was given or is where kubectl looks, or this runs in a pod."""
    return bool(arguments.kubeconfig or _usual() or "KUBERNETES_SERVICE_HOST" in os.environ)


def _usual() -> str:
    """The kubeconfig files that kubectl would take; "" where there are none."""
    # Of a user without a home Path.expanduser would not speak.
    usual = os.path.expanduser("~/.kube/config")  # noqa: PTH111
    return os.environ.get("KUBECONFIG", "") or (usual if Path(usual).is_file() else "")
