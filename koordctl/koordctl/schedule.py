"""``koordctl schedule``: where pods would go in a cluster, or where they went and why."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from koord_service.programs import needs_extra

from koordctl import cluster_client, manifests, replay, workloads
from koordctl.errors import AskError, UsageError
from koordctl.manifests import Manifest
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block, plain, table
from koordctl.placement_text import placement_lines
from koordctl.render import clean, count
from koordctl.scheduler_documents import PlacementDocument, WhatIfDocument

if TYPE_CHECKING:
    from koord_kube.client import Client
    from koord_kube.protocol.resources import Resource
    from koord_kube.protocol.selectors import ApiSelector

DESCRIPTION = (
    "--what-if shows which nodes the pods of a file would get, one after the other, and changes "
    "nothing; Deployments, ReplicaSets, StatefulSets, Jobs and CronJobs stand for their pods. The "
    "cluster is the one that the kubeconfig names, or a snapshot: what `kubectl get "
    "nodes,pods,namespaces,services -A -o json` prints. Pods that wait there are left out. Without "
    "--config every scheduler name has Kubernetes' default profile. --replay decides again what "
    "`koord-scheduler --record-to` recorded, and shows what is different; without --config the "
    "profiles are the recorded ones."
)
_MODULE = "koord_scheduler.program.what_if"
_POD = "\0"
T = TypeVar("T")


ClusterObjects = Mapping[str, Sequence[bytes]]
"""The objects of a cluster, as JSON, by their kind."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose pods and cluster."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--what-if", action="store_true", help="show where pods would be placed")
    what.add_argument(
        "--replay", default="", metavar="FILE", help="repeat the decisions of a recording"
    )
    parser.add_argument(
        "-f", "--filename", default="", metavar="FILE", help='file with Pods; "-": stdin'
    )
    parser.add_argument(
        "--why", default="", metavar="NAMESPACE/POD", help="explain a pod's decisions of a replay"
    )
    parser.add_argument(
        "--snapshot", default="", metavar="FILE", help="the cluster (default: the live one)"
    )
    parser.add_argument(
        "--config",
        default="",
        metavar="FILE",
        help="KubeSchedulerConfiguration (v1) with the profiles",
    )
    cluster_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> CommandOutput:
    """Show the placement of pods. Raises AskError, UsageError."""
    config = (
        manifests.read_text(arguments.config).decode(errors="replace") if arguments.config else ""
    )
    if arguments.replay:
        if arguments.filename or arguments.snapshot:
            raise UsageError("--replay goes with --why and --config, not with -f and --snapshot")
        return replay.run(arguments.replay, config, arguments.why)
    if not arguments.filename or arguments.why:
        raise UsageError("--what-if needs -f, and --why goes with --replay")
    objects = manifests.read_file(arguments.filename)
    try:
        pods, skipped = workloads.expand(objects)
    except ValueError as error:
        raise AskError(f"{arguments.filename}: {error}") from None
    with needs_extra("koordctl", "scheduler"):
        # By its name: the components of pykoord do not depend on each other.
        scheduler: Any = importlib.import_module(_MODULE)
    try:
        if arguments.snapshot:
            cluster = snapshot_objects(manifests.read_file(arguments.snapshot))
        else:
            ask = partial(live_objects, scheduler.kinds(config))
            cluster = cluster_client.ask_cluster(arguments, ask)
        found = {**scheduler.what_if(cluster, pods, config), "skipped": skipped}
    except ValueError as error:
        raise AskError(str(error)) from None
    return CommandOutput(found, lines(msgspec.convert(found, WhatIfDocument)))


def lines(found: WhatIfDocument) -> Iterator[Block]:
    """All pods with their nodes, then each with its reasons, then what was left out."""
    if found.pods:
        rows = [(clean(pod.pod), (clean(pod.node) or "none", _verdict(pod))) for pod in found.pods]
        alike = [(_together(pods), *row) for row, pods in _runs(rows)]
        yield table([("POD", "NODE", ""), *alike])
    explained = [pod for pod in found.pods if not pod.reason]
    for block, pods in _runs([(clean(pod.pod), _block(pod)) for pod in explained]):
        yield ""
        yield from (line.replace(_POD, pods[0]) for line in block)
        if len(pods) > 1:
            yield f"The same holds for {_together(pods[1:])}."
    if found.pods:
        yield ""
    placed = sum(pod.state == "placed" for pod in found.pods)
    yield f"{placed} of {count(len(found.pods), 'pod')} would get a node. Nothing was changed."
    if found.pending:
        yield f"Left out: {count(found.pending, 'pod')} of the cluster that had no node yet."
    if found.skipped:
        yield f"Left out, as they are no pods: {', '.join(map(clean, found.skipped))}."


def _runs(rows: Iterable[tuple[str, T]]) -> Iterator[tuple[T, list[str]]]:
    """Group neighbouring pods by their common value."""
    for key, run in groupby(rows, key=itemgetter(1)):
        yield key, [pod for pod, _ in run]


def _together(pods: Sequence[str]) -> str:
    if len(pods) < 3:
        return ", ".join(pods)
    return f"{pods[0]} … {pods[-1]} ({len(pods)} pods)"


def _block(pod: PlacementDocument) -> tuple[str, ...]:
    """Lines about a pod, with ``_POD`` for its name."""
    name = clean(pod.pod)
    return tuple(line.replace(name, _POD) for line in plain(placement_lines(pod)))


def _verdict(pod: PlacementDocument) -> str:
    if pod.reason:
        return clean(pod.reason)
    if pod.best and pod.state == "placed":
        return f"score {pod.best[0].total}, fits on {pod.feasible} of {count(pod.nodes, 'node')}"
    if pod.diagnosis is not None:
        return clean(pod.diagnosis.message)
    return clean(f"{pod.state}: {', '.join(pod.gates)}")


def snapshot_objects(objects: Iterable[Manifest]) -> ClusterObjects:
    """The objects of a snapshot, by their kind. Raises AskError."""
    by_kind: dict[str, list[bytes]] = {}
    for manifest in objects:
        by_kind.setdefault(manifest["kind"], []).append(msgspec.json.encode(manifest))
    if "Node" not in by_kind:
        raise AskError("the snapshot has no Node")
    return by_kind


async def live_objects(kinds: Iterable[tuple[Resource, str, str]], api: Client) -> ClusterObjects:
    """The objects of these kinds, and pods that have not ended, of the live cluster."""
    from koord_kube.protocol.resources import PODS
    from koord_kube.protocol.selectors import EVERYTHING, all_of, field_is_not, named

    running = (field_is_not("status.phase", phase) for phase in ("Succeeded", "Failed"))
    pods = await _list(api, PODS, all_of(*running))
    found = {PODS.kind: pods}
    for resource, namespace, name in kinds:
        selector = named(name) if name else EVERYTHING
        found[resource.kind] = await _list(api, resource, selector, namespace)
    return found


async def _list(
    api: Client, resource: Resource, selector: ApiSelector, namespace: str = ""
) -> list[bytes]:
    """None where the API server does not have the kind: its definition is not installed."""
    from koord_kube.protocol.api import NotFoundError

    found: list[bytes] = []
    try:
        async for page in api.pages(resource, namespace=namespace, field_selector=selector):
            found = [*([] if page.first else found), *page.items]
    except NotFoundError:
        return []
    return found
