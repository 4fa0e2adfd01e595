"""``koordctl migrations``: pods that leave their nodes by PodMigrationJobs, and why some do not."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from koord_model.duration import written
from koord_model.times import from_rfc3339

from koordctl import cluster_client
from koordctl.amounts import UNKNOWN
from koordctl.errors import AskError
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block, table
from koordctl.render import clean
from koordctl.suggestions import near

Json = Mapping[str, Any]

_HEADER = ("NAME", "PHASE", "POD", "NODE", "NEW POD", "AGE", "BY", "WHY")
_OVER = ("Succeeded", "Failed", "Aborted")
_TRIGGER = "koordinator.sh/evict-trigger"
_REASON = "koordinator.sh/evict-reason"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is chosen of them."""
    parser.add_argument(
        "pod", nargs="?", default="", metavar="NAMESPACE/NAME", help="only those of this pod"
    )
    parser.add_argument("--under-way", action="store_true", help="only those that are not over")
    parser.set_defaults(clock=time.time)
    cluster_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> CommandOutput:
    """The jobs, the newest first. Raises AskError."""
    from koord_kube.protocol.resources import POD_MIGRATION_JOBS

    found = cluster_client.ask_cluster(
        arguments, lambda api: cluster_client.objects(api, POD_MIGRATION_JOBS)
    )
    chosen = [job for job in found if _is_chosen(job, arguments)]
    chosen.sort(key=lambda job: (_created(job), str(_meta(job).get("name"))), reverse=True)
    pods = {pod for job in found for pod in _pods(job)}
    if arguments.pod and arguments.pod not in pods:
        hint = near(arguments.pod, pods)
        raise AskError(f"there is no migration of {clean(arguments.pod)}{hint}")
    return CommandOutput(chosen, lines(chosen, arguments.clock))


def lines(jobs: Sequence[Json], clock: Callable[[], float]) -> Iterator[Block]:
    """A line for each."""
    if not jobs:
        yield "No migration found."
        return
    yield table([_HEADER, *(_row(job, clock()) for job in jobs)])


def _is_chosen(job: Json, arguments: argparse.Namespace) -> bool:
    is_over = _status(job).get("phase") in _OVER
    return (not arguments.pod or arguments.pod in _pods(job)) and not (
        arguments.under_way and is_over
    )


def _row(job: Json, now: float) -> tuple[str, ...]:
    status, annotations = _status(job), _meta(job).get("annotations") or {}
    age = written(max(0.0, float(int(now - _created(job)))))
    state = ": ".join(filter(None, (status.get("reason"), status.get("message"))))
    cells = (
        _meta(job).get("name"),
        status.get("phase") or "Pending",
        _pod(_spec(job).get("podRef")),
        status.get("nodeName"),
        _pod(status.get("podRef")),
        age,
        annotations.get(_TRIGGER),
        state or annotations.get(_REASON),
    )
    return tuple(clean(str(cell or UNKNOWN)) for cell in cells)


def _created(job: Json) -> float:
    try:
        return from_rfc3339(str(_meta(job).get("creationTimestamp")))
    except ValueError:
        return 0.0


def _pods(job: Json) -> set[str]:
    """The pod that leaves, and the new one."""
    return {_pod(part.get("podRef")) for part in (_spec(job), _status(job))} - {""}


def _pod(reference: Any) -> str:
    if not isinstance(reference, Mapping):
        return ""
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}"


def _meta(job: Json) -> Json:
    return job.get("metadata") or {}


def _spec(job: Json) -> Json:
    return job.get("spec") or {}


def _status(job: Json) -> Json:
    return job.get("status") or {}
