"""``koordctl defrag``: moves that would make room for what waits, and their price."""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from koord_service.programs import needs_extra

from koordctl import cluster_client, manifests, schedule
from koordctl.errors import AskError
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block, table
from koordctl.render import clean, count

DESCRIPTION = (
    "--plan shows the moves of pods that would make room for pods and gangs that wait, each node "
    "before and after, and the price; nothing is changed. The cluster is the one that the "
    "kubeconfig names, or a snapshot: what `kubectl get nodes,pods,namespaces,services,pdb -A "
    "-o json` prints. Limits of the descheduler's own configuration do not count here."
)
_MODULE = "koord_descheduler.program.defrag_plan"
_UNITS = {"cpu": (1000, ""), "memory": (1 << 30, "Gi"), "ephemeral-storage": (1 << 30, "Gi")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the cluster and the goal."""
    parser.add_argument(
        "--plan", action="store_true", required=True, help="show a plan; changes nothing"
    )
    parser.add_argument(
        "--moves", type=int, default=10, metavar="N", help="most pods that move (default: 10)"
    )
    parser.add_argument(
        "--empty-nodes", action="store_true", help="empty nodes in place of making room"
    )
    parser.add_argument(
        "--snapshot", default="", metavar="FILE", help="the cluster (default: the live one)"
    )
    parser.add_argument(
        "--config", default="", metavar="FILE", help="KubeSchedulerConfiguration (v1)"
    )
    cluster_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> CommandOutput:
    """Show the plan. Raises AskError."""
    config = (
        manifests.read_text(arguments.config).decode(errors="replace") if arguments.config else ""
    )
    target = "EmptyNodes" if arguments.empty_nodes else "WaitingPods"
    args = {"targets": [target], "maxMoves": arguments.moves, "waiting": {"minSeconds": 0}}
    with needs_extra("koordctl", "descheduler"):
        # By its name: the components of pykoord do not depend on each other.
        planner: Any = importlib.import_module(_MODULE)
    try:
        if arguments.snapshot:
            cluster = schedule.snapshot_objects(manifests.read_file(arguments.snapshot))
        else:
            ask = partial(schedule.live_objects, planner.kinds(config))
            cluster = cluster_client.ask_cluster(arguments, ask)
        found = planner.defrag_plan(cluster, time.time(), args, config)
    except ValueError as error:
        raise AskError(str(error)) from None
    return CommandOutput(found, lines(found))


def lines(found: Mapping[str, Any]) -> Iterator[Block]:
    """The result for each job, the moves with their costs, and nodes before and after."""
    for job, note in found["notes"].items():
        yield _result(job, note)
    if not found["notes"]:
        yield "Nothing waits that moves could help."
    moves = found["moves"]
    if moves:
        yield ""
        rows = [
            (clean(move["pod"]), clean(move["from"]), clean(move["to"]), clean(move["reason"]))
            for move in moves
        ]
        yield table([("POD", "FROM", "TO", "REASON"), *rows], words=range(4))
        yield ""
        yield table([("NODE", "FREE BEFORE", "AFTER"), *map(_node, found["nodes"])])
        yield ""
    steps = {(move["group"], move["arithmetic"]["gained"]): move["arithmetic"] for move in moves}
    price = sum(numbers["cost"] for numbers in steps.values())
    yield f"Price: {count(len(moves), 'pod')} moved, cost {price:g}. Nothing was changed."


def _result(job: str, note: Mapping[str, Any]) -> str:
    stays = note.get("stays") or {}
    kept = ", ".join(f"{clean(rule)} {number}" for rule, number in stays.items())
    kept = f" (pods that stay: {kept})" if kept else ""
    if job == "emptied":
        return f"Emptied: {clean(', '.join(note['nodes'])) or 'no node'}{kept}"
    if "why" in note:
        return f"{clean(job)}: {clean(note['why'])}{kept}"
    nodes = ", ".join(f"{pod} on {node}" for pod, node in note["nodes"].items())
    return f"{clean(job)} can start: {clean(nodes)}"


def _node(node: Mapping[str, Any]) -> tuple[str, str, str]:
    before, after = node.get("free", {}), node.get("freeAfter", {})
    return clean(node["node"]), _amounts(before), _amounts(after)


def _amounts(amounts: Mapping[str, int]) -> str:
    return " ".join(f"{clean(name)}={_amount(name, value)}" for name, value in amounts.items())


def _amount(name: str, value: int) -> str:
    size, unit = _UNITS.get(name, (1, ""))
    return f"{round(value / size, 2):g}{unit}"
