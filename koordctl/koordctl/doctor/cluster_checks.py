"""Checks of a cluster. No IO."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from koord_kube.definitions.catalogue import DEFINITIONS

from koordctl.cluster_status import leadership
from koordctl.crds import is_same, versions_of
from koordctl.doctor.check_results import CheckResult, Level, some
from koordctl.doctor.cluster_survey import ClusterSurvey
from koordctl.leader_client import LEADERS, MANAGER_LEADER, SCHEDULER_LEADER
from koordctl.render import count

Json = Mapping[str, Any]

_SILENT = datetime.timedelta(minutes=5)
"""Age of a report after which its node is called silent: five of the usual intervals."""
_AHEAD = datetime.timedelta(seconds=30)
_NEEDED = ("nodemetrics.slo.koordinator.sh", "nodeslos.slo.koordinator.sh")
_GPU = "koordinator.sh/gpu-memory"
_BATCH = "kubernetes.io/batch-cpu"
_STALE = "metrics.koordinator.sh/stale-since"
_KUBE_SCHEDULER = ("kube-system", "kube-scheduler")
_DEFAULT = "default-scheduler"
_INSTALL = "koordctl crds install"


def check_cluster(survey: ClusterSurvey, now: datetime.datetime) -> Iterator[CheckResult]:
    """Everything about a cluster; ``now`` is the time here."""
    yield from _unread(survey)
    yield from _definitions(survey)
    yield from _leaders(survey, now)
    yield from _schedulers(survey, now)
    yield from _webhooks(survey)
    yield from _api_services(survey)
    yield from _nodes(survey, now)
    yield from _clock(survey, now)
    yield from _resources(survey)


def _unread(survey: ClusterSurvey) -> Iterator[CheckResult]:
    for kind, error in survey.errors.items():
        if kind not in ("NodeMetric", "Device"):  # their definitions have a line of their own
            yield CheckResult(Level.UNKNOWN, kind, error, "run this as a user who may list them")


def _definitions(survey: ClusterSurvey) -> Iterator[CheckResult]:
    about = "definitions"
    if "CustomResourceDefinition" in survey.errors:
        return
    there = {_name(found): found for found in survey.of("CustomResourceDefinition")}
    ours = {_name(wanted): wanted for wanted in DEFINITIONS}
    missing = ours.keys() - there.keys()
    differ = {name for name in ours.keys() & there.keys() if not is_same(there[name], ours[name])}
    newer = {name for name in differ if versions_of(there[name]) - versions_of(ours[name])}
    if missing:
        level = Level.PROBLEM if missing & {*_NEEDED} else Level.WARNING
        yield CheckResult(level, about, f"not installed: {some(missing)}", _INSTALL)
    if older := differ - newer:
        text = f"other than those of this koordctl: {some(older)}"
        yield CheckResult(Level.WARNING, about, text, f"{_INSTALL} --dry-run, then without it")
    if newer:
        text = f"with versions that this koordctl does not know: {some(newer)}"
        yield CheckResult(Level.NOTE, about, text)
    if not missing and not differ:
        yield CheckResult(Level.OK, about, f"all {len(ours)} as this koordctl has them")


def _leaders(survey: ClusterSurvey, now: datetime.datetime) -> Iterator[CheckResult]:
    if "Lease" in survey.errors:
        return
    for leader in LEADERS:
        spec = _leases(survey).get((survey.namespace, leader.lease))
        state = leadership(spec, f"{survey.namespace}/{leader.lease}", now)
        name = leader.endpoint.name
        if state.leads:
            yield CheckResult(Level.OK, name, state.words)
        elif spec is None:
            way = f"if you installed it: kubectl -n {survey.namespace} get pods"
            yield CheckResult(Level.NOTE, name, state.words, way)
        else:
            way = f"kubectl -n {survey.namespace} get pods, and the log of {name}"
            yield CheckResult(Level.PROBLEM, name, state.words, way)
    for leader, document in (
        (MANAGER_LEADER, survey.manager),
        (SCHEDULER_LEADER, survey.scheduler),
    ):
        for problem in document.get("problems") or ():
            yield CheckResult(Level.PROBLEM, leader.endpoint.name, str(problem))


def _schedulers(survey: ClusterSurvey, now: datetime.datetime) -> Iterator[CheckResult]:
    """Two that bind pods of one name take resources twice."""
    held = [place for place, spec in _leases(survey).items() if leadership(spec, "", now).leads]
    others = [
        f"{namespace}/{name}"
        for namespace, name in held
        if name == SCHEDULER_LEADER.lease and namespace != survey.namespace
    ]
    way = "stop one of the two, or give one of them another schedulerName"
    if others and (survey.namespace, SCHEDULER_LEADER.lease) in held:
        text = f"another koord-scheduler leads by the Lease {some(others)}"
        yield CheckResult(Level.PROBLEM, "schedulers", text, way)
    if _DEFAULT in (survey.scheduler.get("profiles") or ()) and _KUBE_SCHEDULER in held:
        text = f"koord-scheduler and kube-scheduler both schedule pods of {_DEFAULT}"
        yield CheckResult(Level.PROBLEM, "schedulers", text, way)


def _webhooks(survey: ClusterSurvey) -> Iterator[CheckResult]:
    ready = _ready_services(survey)
    found = 0
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for configuration in survey.of(kind):
            for hook in configuration.get("webhooks") or ():
                client = hook.get("clientConfig") or {}
                service = client.get("service") or {}
                if service.get("namespace") != survey.namespace:
                    continue
                found += 1
                yield from _webhook(str(hook.get("name")), client, ready, survey)
    if "failed calling webhook" in survey.probe_error:
        way = "the manager's log; until then failurePolicy says whether pods can be created"
        yield CheckResult(Level.PROBLEM, "webhooks", survey.probe_error, way)
    elif survey.probe_error:
        text = f"a pod could not be tried: {survey.probe_error}"
        yield CheckResult(Level.UNKNOWN, "webhooks", text, "run this as a user who may create pods")
    elif found:
        text = f"{count(found, 'webhook')}; a pod that was tried passed all that select it"
        yield CheckResult(Level.OK, "webhooks", text)


def _webhook(
    name: str, client: Json, ready: Mapping[str, bool], survey: ClusterSurvey
) -> Iterator[CheckResult]:
    service = client["service"].get("name", "")
    if not client.get("caBundle"):
        text = f"{name} has no caBundle: the API server cannot trust it"
        way = "start the manager: its webhook server writes the caBundle"
        yield CheckResult(Level.PROBLEM, "webhooks", text, way)
    elif "EndpointSlice" not in survey.errors and not ready.get(service):
        text = f"{name}: the Service {survey.namespace}/{service} has no ready endpoint"
        way = f"kubectl -n {survey.namespace} get pods"
        yield CheckResult(Level.PROBLEM, "webhooks", text, way)


def _api_services(survey: ClusterSurvey) -> Iterator[CheckResult]:
    for found in survey.of("APIService"):
        service = (found.get("spec") or {}).get("service") or {}
        if service.get("namespace") != survey.namespace:
            continue
        conditions = (found.get("status") or {}).get("conditions") or ()
        available: Json = next((c for c in conditions if c.get("type") == "Available"), {})
        if available.get("status") == "True":
            yield CheckResult(Level.OK, "API services", f"{_name(found)} is available")
        else:
            reason = available.get("message") or "no reason given"
            text = f"{_name(found)} is not available: {reason}"
            yield CheckResult(Level.PROBLEM, "API services", text, "the manager's log")


def _nodes(survey: ClusterSurvey, now: datetime.datetime) -> Iterator[CheckResult]:
    nodes = {_name(node) for node in survey.of("Node")}
    reports = _reports(survey)
    never = nodes - reports.keys()
    old = {name for name in nodes & reports.keys() if now - reports[name] > _SILENT}
    way = "koordctl status and koordctl doctor on the node"
    level = Level.PROBLEM if never | old == nodes else Level.WARNING
    if never:
        text = f"no report from {len(never)} of {count(len(nodes), 'node')}: {some(never)}"
        yield CheckResult(level, "nodes", text, f"is koordlet installed there? {way}")
    if old:
        text = f"silent for over 5 min: {len(old)} of {count(len(nodes), 'node')}: {some(old)}"
        yield CheckResult(level, "nodes", text, way)
    if nodes and not never | old:
        yield CheckResult(Level.OK, "nodes", f"all {len(nodes)} report")


def _clock(survey: ClusterSurvey, now: datetime.datetime) -> Iterator[CheckResult]:
    made = _time((survey.probe.get("metadata") or {}).get("creationTimestamp"))
    if made is not None and abs(made - now) > _AHEAD:
        apart = round(abs(made - now).total_seconds())
        text = f"this machine and the API server differ by {apart} s"
        yield CheckResult(Level.WARNING, "clocks", text, "ages above are by this machine's clock")
        now = made
    ahead = {name for name, at in _reports(survey).items() if at - now > _AHEAD}
    if ahead:
        text = f"ahead of the API server: {some(ahead)}"
        yield CheckResult(Level.WARNING, "clocks", text, "run chrony or systemd-timesyncd there")


def _resources(survey: ClusterSurvey) -> Iterator[CheckResult]:
    """Resources that one program expects and another does not give."""
    gates = survey.manager.get("feature_gates") or {}
    plugins = {
        name for names in (survey.scheduler.get("profiles") or {}).values() for name in names
    }
    with_gpus = {_name(device) for device in survey.of("Device") if _has_gpus(device)}
    offering = {_name(node) for node in survey.of("Node") if _offers(node, _GPU)}
    if without := with_gpus - offering:
        gate = "EnableSyncGPUSharedResource"
        off = " and is off" if gates.get(gate) is False else ""
        text = f"nodes with GPUs do not offer {_GPU}: {some(without)}"
        way = f"the manager's gate {gate} writes it{off}"
        yield CheckResult(Level.PROBLEM, "devices", text, way)
    if offering and survey.scheduler and "DeviceShare" not in plugins:
        text = "nodes offer shared GPUs, and no profile of koord-scheduler has DeviceShare"
        way = "kubectl apply -k deploy/components/device-share"
        yield CheckResult(Level.PROBLEM, "devices", text, way)
    if survey.manager and not any(_offers(node, _BATCH) for node in survey.of("Node")):
        text = f"no node offers {_BATCH}: nothing is overcommitted"
        way = "set enable in colocation-config of the ConfigMap slo-controller-config"
        yield CheckResult(Level.NOTE, "batch", text, way)


def _leases(survey: ClusterSurvey) -> Mapping[tuple[str, str], Json]:
    found = survey.of("Lease")
    return {
        (lease["metadata"]["namespace"], _name(lease)): lease.get("spec") or {} for lease in found
    }


def _ready_services(survey: ClusterSurvey) -> Mapping[str, bool]:
    ready: dict[str, bool] = {}
    for piece in survey.of("EndpointSlice"):
        name = (piece["metadata"].get("labels") or {}).get("kubernetes.io/service-name", "")
        ends: Sequence[Json] = piece.get("endpoints") or ()
        is_ready = any((end.get("conditions") or {}).get("ready") is not False for end in ends)
        ready[name] = ready.get(name, False) or is_ready
    return ready


def _reports(survey: ClusterSurvey) -> Mapping[str, datetime.datetime]:
    """The time of the newest report of each node that is not said to be stale."""
    found: dict[str, datetime.datetime] = {}
    for metric in survey.of("NodeMetric"):
        at = _time((metric.get("status") or {}).get("updateTime"))
        is_stale = _STALE in (metric["metadata"].get("annotations") or {})
        if at is not None and not is_stale:
            found[_name(metric)] = max(at, found.get(_name(metric), at))
    return found


def _has_gpus(device: Json) -> bool:
    parts: Iterable[Json] = (device.get("spec") or {}).get("devices") or ()
    return any(part.get("type") == "gpu" for part in parts)


def _offers(node: Json, resource: str) -> bool:
    amounts = (node.get("status") or {}).get("allocatable") or {}
    return str(amounts.get(resource, "0")) != "0"


def _name(found: Json) -> str:
    return str(found["metadata"]["name"])


def _time(text: object) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(str(text))
    except ValueError:
        return None
