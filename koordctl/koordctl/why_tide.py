"""``koordctl why tide NODE``: on which side of its TideNodePool a node is, and why it stays."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from koordctl import cluster_client
from koordctl.output.result import CommandOutput
from koordctl.render import clean

if TYPE_CHECKING:
    from koord_kube.client import Client

Json = Mapping[str, Any]

_POOL = "tide.katalyst.kubewharf.io/node-pool"
_RESERVE = "tide.katalyst.kubewharf.io/reserve"
_LAST_MOVE = "tide.koordinator.sh/last-move"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the node, and the cluster."""
    parser.add_argument("node", metavar="NODE", help="name of the node")
    cluster_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> CommandOutput:
    """Explain where a node is. Raises AskError."""
    node, pool = cluster_client.ask_cluster(arguments, lambda api: _ask(api, arguments.node))
    problem = None if pool else ""
    return CommandOutput({"node": node, "pool": pool}, lines(node, pool), problem)


async def _ask(api: Client, name: str) -> tuple[Json, Json | None]:
    from koord_kube.protocol.api import NotFoundError
    from koord_kube.protocol.resources import NODES, TIDE_NODE_POOLS

    node = await cluster_client.get(api, NODES, name)
    pool = (node["metadata"].get("labels") or {}).get(_POOL)
    try:
        return node, await api.get(TIDE_NODE_POOLS, pool) if pool else None
    except NotFoundError:
        return node, None


def lines(node: Json, pool: Json | None) -> Iterator[str]:
    """The node's side and last move, and what its pool says of it and of all."""
    meta = node["metadata"]
    name, labels = clean(meta["name"]), meta.get("labels") or {}
    if pool is None:
        where = labels.get(_POOL)
        yield f"{name} is in no TideNodePool" + (f": {clean(where)} is gone" if where else ".")
        return
    status = pool.get("status") or {}
    reserve = ", as a reserve: it does not move" if labels.get(_RESERVE) == "true" else ""
    where = clean(pool["metadata"]["name"])
    yield f"{name} is {_side(labels, pool)} in TideNodePool {where}{reserve}."
    yield from _last_move((meta.get("annotations") or {}).get(_LAST_MOVE))
    for each in status.get("nodes") or ():
        if each.get("name") == meta["name"]:
            yield f"{clean(str(each.get('state')))}: {clean(str(each.get('why')))}"
    yield f"The pool: {clean(str(status.get('message') or 'koord-descheduler has not seen it'))}"


def _side(labels: Json, pool: Json) -> str:
    configs = (pool.get("spec") or {}).get("nodeConfigs") or {}
    usual = {"key": "tide.katalyst.kubewharf.io/node-type", "value": "offline"}
    offline = configs.get("offlineLabel") or usual
    return "offline" if labels.get(str(offline.get("key"))) == offline.get("value") else "online"


def _last_move(text: str | None) -> Iterator[str]:
    if text is None:
        return
    try:
        move = json.loads(text)
        result = "was done" if move["result"] == "Done" else f"was given up: {move['why']}"
        yield clean(f"Its last move, to {move['to']}, {result} ({move['at']}).")
    except (ValueError, TypeError, KeyError):
        yield f"Its annotation {_LAST_MOVE} is not valid: {clean(text)}"
