"""Arguments of MigrationController, with Koordinator's defaults and what is allowed. No IO."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec
from koord_model import duration, label_selector
from koord_model.label_selector import LabelSelector
from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.fields import Int32, Strict
from koord_scheduler.arguments.problems import problem

from koord_descheduler.framework.pod_selection import EvictableNamespaces, PriorityThreshold
from koord_descheduler.planner.budgets import per_second
from koord_descheduler.plugins.migration_controller.limits import percent_of

IntOrPercent = int | str
_PERCENT = re.compile(r"[0-9]{1,9}%")


class EvictionGate(StrEnum):
    """A rule that ``skipEvictionGates`` can turn off."""

    MAX_UNAVAILABLE_PER_WORKLOAD = "MaxUnavailablePerWorkload"
    MAX_MIGRATING_PER_WORKLOAD = "MaxMigratingPerWorkload"
    MAX_MIGRATING_PER_NODE = "MaxMigratingPerNode"
    MAX_MIGRATING_PER_NAMESPACE = "MaxMigratingPerNamespace"
    MAX_MIGRATING_GLOBALLY = "MaxMigratingGlobally"
    EXPECTED_REPLICAS = "ExpectedReplicas"
    PVC = "PVC"
    BARE_PODS = "BarePods"
    LOCAL_STORAGE = "LocalStorage"
    SYSTEM_CRITICAL = "SystemCritical"
    PRIORITY_THRESHOLD = "PriorityThreshold"
    LABEL_SELECTOR = "LabelSelector"
    NAMESPACES = "Namespaces"
    NODE_FIT = "NodeFit"


class MigrationMode(StrEnum):
    """The way in which a job moves its pod."""

    RESERVATION_FIRST = "ReservationFirst"
    EVICT_DIRECTLY = "EvictDirectly"


class EvictionPolicy(StrEnum):
    """The way in which a pod is ended."""

    EVICTION = "Eviction"
    DELETE = "Delete"
    SOFT_EVICTION = "SoftEviction"


class ObjectLimiter(Strict, frozen=True):
    """At most ``maxMigrating`` evictions in ``duration``, after a burst.

    Without ``maxMigrating`` it is maxMigratingPerWorkload.
    """

    duration: str = "0s"
    max_migrating: IntOrPercent | None = None
    burst: Int32 = 1

    @property
    def seconds(self) -> float:
        """The duration; 0: no limit."""
        return duration.seconds(self.duration)

    def problems(self, path: str, name: str) -> Iterator[str]:
        """Return errors of the limiter of ``name``."""
        yield from _duration_problems(f"{path}.duration", self.duration)
        yield from _limit_problems(f"{path}.maxMigrating", self.max_migrating)
        if name == "namespace" and isinstance(self.max_migrating, str):
            yield problem(f"{path}.maxMigrating", self.max_migrating, "a number: of a namespace")
        if self.burst < 0:
            yield problem(f"{path}.burst", self.burst, "0 or more")


class ArbitrationArgs(Strict, frozen=True):
    """``enabled`` is not looked at, as in Koordinator: arbitration is never left out."""

    enabled: bool = True
    interval: str = "500ms"


class DefaultDeleteOptions(Strict, frozen=True):
    """Options of evictions for jobs that have none; the pod's UID is always a precondition."""

    api_version: str = ""
    kind: str = ""
    grace_period_seconds: int | None = None
    propagation_policy: str = ""
    orphan_dependents: bool | None = None

    def document(self) -> dict[str, Any]:
        """The options as a job has them."""
        found = msgspec.to_builtins(self)
        return {name: value for name, value in found.items() if value not in ("", None)}


_LIMITERS = {"workload": ObjectLimiter("5m")}


class MigrationControllerArgs(PluginArgs, frozen=True):
    """Arguments of MigrationController."""

    dry_run: bool = False
    max_concurrent_reconciles: Int32 = 1
    evict_failed_bare_pods: bool = False
    evict_all_bare_pods: bool = False
    evict_local_storage_pods: bool = False
    evict_system_critical_pods: bool = False
    ignore_pvc_pods: bool = False
    priority_threshold: PriorityThreshold | None = None
    label_selector: dict[str, Any] | None = None
    namespaces: EvictableNamespaces = EvictableNamespaces()
    node_fit: bool = False
    node_selector: str = ""
    skip_eviction_gates: tuple[EvictionGate, ...] = ()
    max_migrating_globally: Int32 | None = None
    max_migrating_per_node: Int32 | None = 2
    max_migrating_per_namespace: Int32 | None = None
    max_migrating_per_workload: IntOrPercent | None = None
    max_unavailable_per_workload: IntOrPercent | None = None
    skip_check_expected_replicas: bool | None = None
    object_limiters: dict[str, ObjectLimiter] = msgspec.field(default_factory=_LIMITERS.copy)
    default_job_mode: MigrationMode = MigrationMode.RESERVATION_FIRST
    default_job_ttl: str = msgspec.field(default="5m", name="defaultJobTTL")
    scheduler_names: tuple[str, ...] = ("koord-scheduler",)
    evict_qps: float | str = msgspec.field(default=10.0, name="evictQPS")
    evict_burst: Int32 = 1
    eviction_policy: EvictionPolicy = EvictionPolicy.EVICTION
    default_delete_options: DefaultDeleteOptions | None = None
    arbitration_args: ArbitrationArgs = ArbitrationArgs()

    def skips(self, gate: EvictionGate) -> bool:
        """True if a rule is turned off."""
        return gate in self.skip_eviction_gates

    @property
    def skips_replicas(self) -> bool:
        """True if expected replicas are no obstacle."""
        return bool(self.skip_check_expected_replicas) or self.skips(EvictionGate.EXPECTED_REPLICAS)

    @property
    def evictions_per_second(self) -> float:
        """The number of evictions a second."""
        return per_second(self.evict_qps)

    @property
    def ttl(self) -> float:
        """Seconds that jobs have; 0: any number."""
        return duration.seconds(self.default_job_ttl)

    @property
    def arbitration_seconds(self) -> float:
        """Time between two arbitrations."""
        return duration.seconds(self.arbitration_args.interval)

    @property
    def selector(self) -> LabelSelector | None:
        """The labels of pods that may move; ``None``: any."""
        if self.label_selector is None or self.skips(EvictionGate.LABEL_SELECTOR):
            return None
        return label_selector.parse(self.label_selector, "labelSelector")

    @property
    def nodes(self) -> LabelSelector:
        """The nodes among which ``nodeFit`` looks for a place."""
        return label_selector.parse_text(self.node_selector, "nodeSelector")

    def problems(self, path: str) -> Iterator[str]:
        yield from self._number_problems(path)
        yield from self._limit_problems(path)
        yield from _duration_problems(f"{path}.defaultJobTTL", self.default_job_ttl)
        yield from _duration_problems(
            f"{path}.arbitrationArgs.interval", self.arbitration_args.interval
        )
        yield from self.namespaces.problems(f"{path}.namespaces")
        try:
            label_selector.parse(self.label_selector or {}, f"{path}.labelSelector")
            label_selector.parse_text(self.node_selector, f"{path}.nodeSelector")
        except ValueError as error:
            yield str(error)
        threshold = self.priority_threshold
        if threshold is not None and (threshold.value is None) is (not threshold.name):
            given = msgspec.to_builtins(threshold)
            yield problem(f"{path}.priorityThreshold", given, "a value or a name")
        if self.evict_system_critical_pods or self.skips(EvictionGate.SYSTEM_CRITICAL):
            at = f"{path}.evictSystemCriticalPods (or the gate SystemCritical)"
            yield problem(at, True, "false: nothing evicts system-critical pods")
        for place, name in enumerate(self.scheduler_names):
            if not name:
                yield problem(f"{path}.schedulerNames[{place}]", name, "the name of a scheduler")

    def _number_problems(self, path: str) -> Iterator[str]:
        bounds = (
            ("maxConcurrentReconciles", self.max_concurrent_reconciles, 1),
            ("evictBurst", self.evict_burst, 1),
            ("maxMigratingGlobally", self.max_migrating_globally, 0),
            ("maxMigratingPerNode", self.max_migrating_per_node, 0),
            ("maxMigratingPerNamespace", self.max_migrating_per_namespace, 0),
        )
        for name, value, least in bounds:
            if value is not None and value < least:
                yield problem(f"{path}.{name}", value, f"{least} or more")
        if not self.evictions_per_second:
            yield problem(f"{path}.evictQPS", self.evict_qps, "a number above 0")

    def _limit_problems(self, path: str) -> Iterator[str]:
        for name, limit in (
            ("maxMigratingPerWorkload", self.max_migrating_per_workload),
            ("maxUnavailablePerWorkload", self.max_unavailable_per_workload),
        ):
            yield from _limit_problems(f"{path}.{name}", limit)
            if not self.skips_replicas and (percent_of(limit) or 0) >= 100:
                expected = "less than 100 %, or ExpectedReplicas among skipEvictionGates: no pod"
                yield problem(f"{path}.{name}", limit, f"{expected} could ever move")
        for name, limiter in self.object_limiters.items():
            at = f"{path}.objectLimiters.{name}"
            if name not in ("workload", "namespace"):
                yield problem(at, name, "workload or namespace")
            yield from limiter.problems(at, name)


def _duration_problems(path: str, text: str) -> Iterator[str]:
    try:
        duration.seconds(text)
    except ValueError as error:
        yield f"{path}: {error}"


def _limit_problems(path: str, limit: IntOrPercent | None) -> Iterator[str]:
    is_valid = limit >= 0 if isinstance(limit, int) else limit is None or _PERCENT.fullmatch(limit)
    if not is_valid:
        yield problem(path, limit, "a number, or a part such as 10%")
