"""The programs of a cluster as ``koordctl status`` shows them: their Leases, pods and pages."""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from koord_model.times import from_rfc3339

from koordctl import cluster_client
from koordctl.errors import AskError
from koordctl.leader_client import LEADERS, ElectedProgram, read_leader
from koordctl.program_state import ProgramHealth, ProgramProblem, ProgramState
from koordctl.render import clean, span

if TYPE_CHECKING:
    from koord_kube.client import Client

Json = Mapping[str, Any]

_PLACE = "cluster"
_LABEL = "koord-app"
_DAEMONS = ("koordlet", "koord-device-daemon")


@dataclass(frozen=True, slots=True)
class ClusterPrograms:
    """Specs of Leases and documents of leaders by program, and pods of the control plane.

    A Lease that does not exist is ``None``. ``errors`` says what could not be read, and why.
    """

    leases: Mapping[str, Json | None]
    documents: Mapping[str, Json] = field(default_factory=dict)
    pods: Sequence[Json] = ()
    errors: Sequence[str] = ()


def ask_programs(arguments: argparse.Namespace) -> ClusterPrograms:
    """Read Leases, pods and the leaders' pages. Raises AskError."""
    return cluster_client.ask_cluster(arguments, lambda api: _read(api, arguments.namespace))


async def _read(api: Client, namespace: str) -> ClusterPrograms:
    from koord_kube.protocol.api import ApiError, NotFoundError
    from koord_kube.protocol.resources import LEASES, PODS

    leases: dict[str, Json | None] = {}
    documents: dict[str, Json] = {}
    errors: list[str] = []
    for leader in LEADERS:
        name = leader.endpoint.name
        try:
            leases[name] = (await api.get(LEASES, leader.lease, namespace)).get("spec") or {}
        except NotFoundError:
            leases[name] = None
            continue
        try:
            place = namespace, leader.lease
            documents[name] = json.loads(await read_leader(api, leader, place, "/v1/status", {}))
        except (AskError, ApiError, ValueError) as error:
            errors.append(f"page of {name}: {error}")
    pods: list[Json] = []
    try:
        pods = await cluster_client.objects(api, PODS, namespace)
    except ApiError as error:
        errors.append(f"pods of {namespace}: {error}")
    return ClusterPrograms(leases, documents, pods, errors)


@dataclass(frozen=True, slots=True)
class LeadershipState:
    """True ``leads`` if a replica leads, and that in words."""

    leads: bool
    words: str


def cluster_states(
    found: ClusterPrograms, namespace: str, now: datetime.datetime
) -> list[ProgramState]:
    """Manager, scheduler and descheduler, then the programs of nodes by their pods."""
    elected = [_elected(found, leader, namespace, now) for leader in LEADERS]
    return [*elected, *_daemons(found, namespace)]


def _elected(
    found: ClusterPrograms, leader: ElectedProgram, namespace: str, now: datetime.datetime
) -> ProgramState:
    name, lease = leader.endpoint.name, f"{namespace}/{leader.lease}"
    spec, document = found.leases.get(name), found.documents.get(name, {})
    state = leadership(spec, lease, now)
    pods = _pods_of(found, name)
    if spec is None:
        words = [ProgramProblem(state.words)] if pods else []
        health = ProgramHealth.DOWN if pods else ProgramHealth.ABSENT
        return ProgramState(name, _PLACE, health, ready=_ready(pods), problems=words)
    problems = [ProgramProblem(str(each)) for each in document.get("problems") or ()]
    problems += _pod_problems(pods, namespace)
    health = ProgramHealth.DEGRADED if problems else ProgramHealth.OK
    if not state.leads:
        way = f"kubectl -n {namespace} logs -l {_LABEL}={name}"
        problems.insert(0, ProgramProblem(state.words, way))
        health = ProgramHealth.DOWN
    return ProgramState(
        *(name, _PLACE, health),
        str(document.get("version") or _versions(pods)),
        _time(spec.get("acquireTime")),
        str(spec.get("holderIdentity") or ""),
        _ready(pods),
        f"{lease} renewed {spec.get('renewTime')}",
        problems=problems,
    )


def _daemons(found: ClusterPrograms, namespace: str) -> Iterator[ProgramState]:
    for name in _DAEMONS:
        if pods := _pods_of(found, name):
            problems = _pod_problems(pods, namespace)
            health = ProgramHealth.DEGRADED if problems else ProgramHealth.OK
            started = [_time((pod.get("status") or {}).get("startTime")) for pod in pods]
            since = min((at for at in started if at is not None), default=None)
            version, ready = _versions(pods), _ready(pods)
            yield ProgramState(name, _PLACE, health, version, since, ready=ready, problems=problems)


def leadership(spec: Json | None, lease: str, now: datetime.datetime) -> LeadershipState:
    """Read the spec of a Lease, ``None`` for one that does not exist."""
    if spec is None:
        words = f"not installed, or never ran: there is no Lease {lease}"
        return LeadershipState(False, words)
    holder = clean(str(spec.get("holderIdentity") or ""))
    if not holder:
        return LeadershipState(False, f"no replica leads: the Lease {lease} has no holder")
    try:
        at = datetime.datetime.fromisoformat(str(spec.get("renewTime")))
        age = (now - at).total_seconds()
        expired = age > float(spec.get("leaseDurationSeconds") or 0)
    except (TypeError, ValueError):
        return LeadershipState(False, f"{holder} leads, its Lease has no valid renewTime")
    words = f"{holder} leads, its Lease was renewed {span(age)} ago"
    return LeadershipState(not expired, f"{words} and has expired" if expired else words)


def _pods_of(found: ClusterPrograms, name: str) -> list[Json]:
    return [pod for pod in found.pods if (pod["metadata"].get("labels") or {}).get(_LABEL) == name]


def _containers(pod: Json) -> Sequence[Json]:
    return (pod.get("status") or {}).get("containerStatuses") or ()


def _is_ready(pod: Json) -> bool:
    containers = _containers(pod)
    return bool(containers) and all(container.get("ready") for container in containers)


def _ready(pods: Sequence[Json]) -> str:
    return f"{sum(map(_is_ready, pods))} of {len(pods)}" if pods else ""


def _versions(pods: Sequence[Json]) -> str:
    """The tags of the pods' images."""
    tags = {
        str(container.get("image", "")).partition("@")[0].rpartition("/")[2].partition(":")[2]
        for pod in pods
        for container in ((pod.get("spec") or {}).get("containers") or ())[:1]
    }
    return ", ".join(sorted(filter(None, tags)))


def _pod_problems(pods: Sequence[Json], namespace: str) -> list[ProgramProblem]:
    """The first pod that is not ready stands for all."""
    absent = [pod for pod in pods if not _is_ready(pod)]
    if not absent:
        return []
    pod = absent[0]
    name, node = str(pod["metadata"]["name"]), str((pod.get("spec") or {}).get("nodeName") or "")
    waits = [
        str(((container.get("state") or {}).get("waiting") or {}).get("reason") or "")
        for container in _containers(pod)
    ]
    reason = ", ".join(filter(None, waits)) or str((pod.get("status") or {}).get("phase") or "")
    more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
    where = f" on {node}" if node else ""
    text = f"pod {name}{where} is not ready ({reason or 'no state known'}){more}"
    return [ProgramProblem(text, f"kubectl -n {namespace} describe pod {name}")]


def _time(text: object) -> float | None:
    try:
        return from_rfc3339(str(text))
    except ValueError:
        return None
