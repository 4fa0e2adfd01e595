"""Pods that may move: each function returns why one may not, in a line, "" if it may. No IO.

The plugin asks before it chooses a move, the arbitrator before it lets a job begin. What does not
pass ``lasting_obstacle`` never will; ``passing_obstacle`` may be gone later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from koord_scheduler.objects.annotations import read_annotations

from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.planner.protection import protection
from koord_descheduler.planner.workloads import Replicas
from koord_descheduler.plugins.migration_controller.args import (
    EvictionGate,
    MigrationControllerArgs,
    MigrationMode,
)
from koord_descheduler.plugins.migration_controller.limits import limit_of

ANNOTATION_EVICT = "descheduler.alpha.kubernetes.io/evict"
"""With any value: the pod may move, whatever the rules here say."""

read_annotations(ANNOTATION_EVICT)


class MovementRules:
    """The arguments, prepared; ``threshold`` is the priority that a named class has."""

    def __init__(self, args: MigrationControllerArgs) -> None:
        self.args = args
        self.selector = args.selector
        priority = args.priority_threshold
        if args.skips(EvictionGate.PRIORITY_THRESHOLD):
            priority = None
        self.threshold = priority.value if priority is not None else None
        self.threshold_name = priority.name if priority is not None else ""

    def may_bypass(self, pod: ObservedPod) -> bool:
        """True if the pod itself says that it may move."""
        return ANNOTATION_EVICT in pod.annotations


class WorkloadState(NamedTuple):
    """The workload of a pod: its desired replicas, and its pods."""

    replicas: Replicas
    pods: tuple[ObservedPod, ...]

    @property
    def size(self) -> int:
        """The desired replicas; where these cannot be known the number of running pods."""
        desired = self.replicas.desired
        return sum(not pod.has_ended for pod in self.pods) if desired is None else desired


def workload_state(pod: ObservedPod, cluster: ClusterModel) -> WorkloadState | None:
    """The workload of a pod; ``None`` if it has none."""
    workload = pod.template.workload
    if workload is None:
        return None
    pods = tuple(known.view for known in cluster.copies(workload))
    return WorkloadState(cluster.workloads.replicas(workload), pods)


def scheduler_obstacle(pod: ObservedPod, args: MigrationControllerArgs) -> str:
    """Return why no Reservation can be made for a pod."""
    name = pod.template.scheduler_name
    if args.default_job_mode is not MigrationMode.RESERVATION_FIRST or name in args.scheduler_names:
        return ""
    names = ", ".join(args.scheduler_names)
    return f"its scheduler is {name}; Reservations are for pods of {names} (schedulerNames)"


def lasting_obstacle(pod: ObservedPod, rules: MovementRules, workload: WorkloadState | None) -> str:
    """Return why a pod may never move."""
    if why := protection(pod):
        return why
    if rules.may_bypass(pod):
        return ""
    return (
        _bare(pod, rules.args)
        or _priority(pod, rules)
        or _storage(pod, rules.args)
        or _selection(pod, rules)
        or _expected_replicas(pod, rules.args, workload)
    )


def passing_obstacle(
    pod: ObservedPod,
    rules: MovementRules,
    moving: Iterable[ObservedPod],
    workload: WorkloadState | None,
    fellows: Collection[str] = (),
) -> str:
    """Return why a pod may not move now, while pods that are ``moving`` do.

    ``fellows`` are keys of pods that move with it or not at all: limits of a workload, which are
    to keep it at work, do not count them.
    """
    if rules.may_bypass(pod):
        return ""
    others = list({other.uid: other for other in moving if other.uid != pod.uid}.values())
    if why := _migrating(pod, rules.args, others):
        return why
    if workload is not None and fellows:
        others = [other for other in others if other.key not in fellows]
        rest = tuple(copy for copy in workload.pods if copy.key not in fellows)
        workload = workload._replace(pods=rest)
    return _of_workload(pod, rules.args, others, workload)


def _bare(pod: ObservedPod, args: MigrationControllerArgs) -> str:
    if pod.template.owners or args.evict_all_bare_pods or args.skips(EvictionGate.BARE_PODS):
        return ""
    if not args.evict_failed_bare_pods:
        return "it has no owner that would make it anew (evictAllBarePods)"
    return "" if pod.phase == "Failed" else "it has no owner, and has not failed"


def _priority(pod: ObservedPod, rules: MovementRules) -> str:
    priority = pod.template.priority
    if rules.threshold is None:
        name = rules.threshold_name
        return f"PriorityClass {name} of priorityThreshold is not known" if name else ""
    if priority is not None and priority >= rules.threshold:
        return f"its priority {priority} is not below priorityThreshold {rules.threshold}"
    return ""


def _storage(pod: ObservedPod, args: MigrationControllerArgs) -> str:
    may_be_local = args.evict_local_storage_pods or args.skips(EvictionGate.LOCAL_STORAGE)
    if pod.template.is_local and not may_be_local:
        return "it has local storage (evictLocalStoragePods)"
    if pod.template.claims and args.ignore_pvc_pods and not args.skips(EvictionGate.PVC):
        return "it has a PersistentVolumeClaim (ignorePvcPods)"
    return ""


def _selection(pod: ObservedPod, rules: MovementRules) -> str:
    if rules.selector is not None and not rules.selector.matches(pod.labels):
        return "labelSelector does not select it"
    if rules.args.skips(EvictionGate.NAMESPACES):
        return ""
    return rules.args.namespaces.refusal(pod.namespace)


def _expected_replicas(
    pod: ObservedPod, args: MigrationControllerArgs, workload: WorkloadState | None
) -> str:
    if workload is None or args.skips_replicas or workload.replicas.is_pending:
        return ""
    owner, replicas = pod.template.workload, workload.replicas.desired
    if replicas is None:
        return f"the replicas of {owner} cannot be known: {workload.replicas.problem}"
    if replicas == 1:
        return f"{owner} has one replica (ExpectedReplicas)"
    for name, limit in (
        ("maxMigratingPerWorkload", args.max_migrating_per_workload),
        ("maxUnavailablePerWorkload", args.max_unavailable_per_workload),
    ):
        if limit_of(replicas, limit) == replicas:
            return f"{owner} has {replicas} replicas, as many as {name} (ExpectedReplicas)"
    return ""


def _migrating(pod: ObservedPod, args: MigrationControllerArgs, others: list[ObservedPod]) -> str:
    on_node = sum(other.node == pod.node for other in others) if pod.node else 0
    in_namespace = sum(other.namespace == pod.namespace for other in others)
    for name, number, most, gate in (
        (
            "maxMigratingGlobally",
            len(others),
            args.max_migrating_globally,
            EvictionGate.MAX_MIGRATING_GLOBALLY,
        ),
        (
            "maxMigratingPerNode",
            on_node,
            args.max_migrating_per_node,
            EvictionGate.MAX_MIGRATING_PER_NODE,
        ),
        (
            "maxMigratingPerNamespace",
            in_namespace,
            args.max_migrating_per_namespace,
            EvictionGate.MAX_MIGRATING_PER_NAMESPACE,
        ),
    ):
        if most and number >= most and not args.skips(gate):
            return f"{name} is {most}, and {number} pods move already"
    return ""


def _of_workload(
    pod: ObservedPod,
    args: MigrationControllerArgs,
    others: list[ObservedPod],
    workload: WorkloadState | None,
) -> str:
    if workload is None:
        return ""
    owner = pod.template.workload
    skips_migrating = args.skips(EvictionGate.MAX_MIGRATING_PER_WORKLOAD)
    skips_unavailable = args.skips(EvictionGate.MAX_UNAVAILABLE_PER_WORKLOAD)
    if skips_migrating and skips_unavailable and args.skips_replicas:
        return ""
    if workload.replicas.is_pending:
        return f"the replicas of {owner} are not known yet"
    moving = {other.key for other in others if other.template.workload == owner}
    most = limit_of(workload.size, args.max_migrating_per_workload)
    if moving and len(moving) >= most and not skips_migrating:
        return f"{len(moving)} pods of {owner} move already, maxMigratingPerWorkload is {most}"
    away = _unavailable(workload.pods) | (moving & {copy.key for copy in workload.pods})
    most = limit_of(workload.size, args.max_unavailable_per_workload)
    if len(away) >= most and not skips_unavailable:
        return f"{len(away)} pods of {owner} are away, maxUnavailablePerWorkload is {most}"
    return ""


def _unavailable(pods: Iterable[ObservedPod]) -> set[str]:
    """Pods that ended are none of the workload's any more: others run in their place."""
    return {
        pod.key
        for pod in pods
        if not pod.has_ended and (pod.deleted is not None or not pod.is_ready)
    }
