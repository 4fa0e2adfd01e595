"""``koordctl drain``: empty a node: plan it, see where each pod goes, confirm or abort it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from koordctl import cluster_client
from koordctl.amounts import UNKNOWN
from koordctl.errors import AskError, UsageError
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block, table
from koordctl.render import clean, count

if TYPE_CHECKING:
    from koord_kube.client import Client

Json = Mapping[str, Any]

DESCRIPTION = (
    "Empties a node by a DrainNode, which koord-descheduler carries out. --plan cordons the node "
    "and finds a place for each pod, without moving any; --confirm lets them move; --abort undoes "
    "all of it, and leaves a node cordoned that was so before. Without these it shows how the "
    "drain of the node stands. For example: `koordctl drain node-7 --plan --reason kernel`, then "
    "`koordctl drain node-7 --confirm`. Exit code 1: there is no such drain, or no plan."
)
_HEADER = ("POD", "STATE", "WAVE", "TARGET", "WHY")
_OVER = ("Aborted",)
_UNPLANNED = ("Pending", "Planning", "")
_PAUSE = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the node, and what is to be done with it."""
    parser.add_argument("node", metavar="NODE", help="the node")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--plan", action="store_true", help="cordon it, and plan places for its pods")
    what.add_argument("--confirm", action="store_true", help="let the pods of a plan move")
    what.add_argument("--abort", action="store_true", help="undo all of it")
    parser.add_argument(
        "--dry-run", action="store_true", help="with --plan: cordon and reserve nothing"
    )
    parser.add_argument(
        "--evict-directly",
        action="store_true",
        help="with --plan: prove places by a simulation; for clusters without koord-scheduler",
    )
    parser.add_argument("--reason", default="", metavar="TEXT", help="with --plan: why, for people")
    parser.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="with --plan: wait so long for it (default: %(default)g)",
    )
    cluster_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> CommandOutput:
    """The drain of a node, as asked. Raises AskError."""
    if (arguments.dry_run or arguments.reason or arguments.evict_directly) and not arguments.plan:
        raise UsageError("--dry-run, --evict-directly and --reason are for --plan")
    found = cluster_client.ask_cluster(arguments, lambda api: _ask(api, arguments))
    phase, problem = _status(found).get("phase", ""), None
    if arguments.plan and phase in (*_UNPLANNED, "Blocked"):
        why = clean(str(_status(found).get("message") or "koord-descheduler has not seen it"))
        problem = f"there is no plan for node {arguments.node}: {why}"
    return CommandOutput(found, lines(found), problem)


async def _ask(api: Client, arguments: argparse.Namespace) -> Json:
    from koord_kube.protocol.resources import DRAIN_NODES

    every = await cluster_client.objects(api, DRAIN_NODES)
    found = drain_of(every, arguments.node)
    if arguments.plan:
        return await _plan(api, arguments, found)
    if found is None:
        raise AskError(f"nothing drains node {arguments.node}; --plan does")
    if arguments.confirm or arguments.abort:
        state = "Confirmed" if arguments.confirm else "Aborted"
        if arguments.confirm:
            _check_plan(found)
        meta = found["metadata"]
        change = {"spec": {"confirmState": state}}
        version = meta["resourceVersion"]
        return await api.patch(DRAIN_NODES, meta["name"], change, version=version)
    return found


def drain_of(every: Iterable[Json], node: str) -> Json | None:
    """The newest DrainNode of a node; one that was aborted only if there is no other."""
    own = [each for each in every if (each.get("spec") or {}).get("nodeName") == node]
    ordered = sorted(own, key=lambda each: (_is_live(each), _created(each)))
    return ordered[-1] if ordered else None


def _check_plan(found: Json) -> None:
    """Refuse to confirm a plan that nobody has proved. Raises AskError."""
    phase, spec = _status(found).get("phase", "Pending"), found.get("spec") or {}
    if spec.get("dryRun"):
        raise AskError("the plan is a dry run: plan without --dry-run first")
    if phase != "Waiting":
        why = clean(str(_status(found).get("message", "")))
        raise AskError(f"only a plan that is Waiting can be confirmed; it is {phase}: {why}")


async def _plan(api: Client, arguments: argparse.Namespace, found: Json | None) -> Json:
    import anyio
    from koord_kube.protocol.resources import DRAIN_NODES

    if found is None or not _is_live(found):
        found = await api.create(DRAIN_NODES, _document(arguments))
    elif (found.get("spec") or {}).get("dryRun") and not arguments.dry_run:
        change = {"spec": {"dryRun": False}}
        found = await api.patch(DRAIN_NODES, found["metadata"]["name"], change)
    name = found["metadata"]["name"]
    with anyio.move_on_after(arguments.timeout):
        while _status(found).get("phase", "") in _UNPLANNED:
            await anyio.sleep(_PAUSE)
            found = await api.get(DRAIN_NODES, name)
    return found


def _document(arguments: argparse.Namespace) -> dict[str, Any]:
    spec: dict[str, Any] = {"nodeName": arguments.node, "confirmState": "WaitForConfirm"}
    user = os.environ.get("USER", "")
    more: dict[str, Any] = {"reason": arguments.reason, "requestedBy": user}
    more |= {"dryRun": arguments.dry_run}
    if arguments.evict_directly:
        more["migrationPolicy"] = {"jobMode": "EvictDirectly"}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "DrainNode",
        "metadata": {"generateName": f"{arguments.node}-"},
        "spec": spec | {name: value for name, value in more.items() if value},
    }


def lines(found: Json) -> Iterator[Block]:
    """The state of a drain, and a line for each pod that is left."""
    spec, status = found.get("spec") or {}, _status(found)
    name, phase = found["metadata"]["name"], status.get("phase", "Pending")
    message = clean(str(status.get("message", "")))
    about = f"Node {spec.get('nodeName')} (DrainNode {name}): {phase}, {spec.get('confirmState')}"
    yield clean(about) + (f": {message}" if message else "")
    for label, key in (("reason", "reason"), ("requested by", "requestedBy")):
        if spec.get(key):
            yield f"  {label}: {clean(str(spec[key]))}"
    counts: Mapping[str, int] = status.get("counts") or {}
    if counts:
        words = ("ready", "migrating", "waiting", "blocked")
        parts = ", ".join(f"{counts.get(word, 0)} {word}" for word in words)
        total, drained = counts.get("total", 0), counts.get("drained", 0)
        yield f"  {count(total, 'pod')} left: {parts}; {drained} moved"
    pods: Sequence[Json] = status.get("pods") or ()
    if pods:
        yield ""
        yield table([_HEADER, *map(_row, pods)], words=range(5))
    if unlisted := status.get("unlistedPods"):
        yield f"… and {unlisted} more"


def _row(pod: Json) -> tuple[str, ...]:
    key = f"{pod.get('namespace', '')}/{pod.get('name', '')}"
    fields = (pod.get("state"), pod.get("wave"), pod.get("targetNode"), pod.get("why"))
    return clean(key), *(UNKNOWN if each is None else clean(str(each)) for each in fields)


def _is_live(found: Json) -> bool:
    ends = (found["metadata"] or {}).get("deletionTimestamp")
    return not ends and _status(found).get("phase") not in _OVER


def _created(found: Json) -> tuple[str, str]:
    meta = found["metadata"]
    return str(meta.get("creationTimestamp", "")), str(meta.get("name", ""))


def _status(found: Json) -> Json:
    status: Json = found.get("status") or {}
    return status
