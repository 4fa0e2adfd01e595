"""Arguments of upstream's DefaultEvictor, with its defaults and what is allowed. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Literal

import msgspec
from koord_model import duration, label_selector
from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.fields import NotNegative, Strict
from koord_scheduler.arguments.problems import problem

from koord_descheduler.framework.pod_selection import PriorityThreshold


class PodProtection(StrEnum):
    """A rule that keeps pods where they are."""

    LOCAL_STORAGE = "PodsWithLocalStorage"
    SYSTEM_CRITICAL = "SystemCriticalPods"
    FAILED_BARE = "FailedBarePods"
    DAEMON_SET = "DaemonSetPods"
    PVC = "PodsWithPVC"
    WITHOUT_PDB = "PodsWithoutPDB"
    RESOURCE_CLAIMS = "PodsWithResourceClaims"


_DEFAULT = frozenset(
    {
        PodProtection.LOCAL_STORAGE,
        PodProtection.SYSTEM_CRITICAL,
        PodProtection.FAILED_BARE,
        PodProtection.DAEMON_SET,
    }
)
_FIRM = frozenset({PodProtection.SYSTEM_CRITICAL, PodProtection.DAEMON_SET})
"""Of pods that nothing evicts."""
_OF_FIRM = ("evictDaemonSetPods", "evictSystemCriticalPods")


class ClaimProtection(Strict, frozen=True):
    """Storage classes whose claims keep pods where they are."""

    protected_storage_classes: tuple[dict[str, str], ...] = ()


class ProtectionSettings(Strict, frozen=True):
    """Settings of protections."""

    claims: ClaimProtection = msgspec.field(default=ClaimProtection(), name="PodsWithPVC")


class PodProtections(Strict, frozen=True):
    """Protections that hold by default and shall not, and others that shall."""

    default_disabled: tuple[PodProtection, ...] = ()
    extra_enabled: tuple[PodProtection, ...] = ()
    config: ProtectionSettings = ProtectionSettings()

    def problems(self, path: str) -> Iterator[str]:
        """Return errors of lists, and of what is asked for and nothing does."""
        for field, given, allowed in (
            ("defaultDisabled", self.default_disabled, _DEFAULT - _FIRM),
            ("extraEnabled", self.extra_enabled, frozenset(PodProtection) - _DEFAULT),
        ):
            for protection in sorted({*given} - allowed):
                yield problem(f"{path}.{field}", protection.value, " or ".join(sorted(allowed)))
            if len({*given}) < len(given):
                yield problem(f"{path}.{field}", ", ".join(given), "each protection once")
        if self.config.claims.protected_storage_classes:
            at = f"{path}.config.PodsWithPVC.protectedStorageClasses"
            expected = "nothing: PodsWithPVC holds for claims of all classes"
            yield problem(at, self.config.claims.protected_storage_classes[0], expected)


class DefaultEvictorArgs(PluginArgs, frozen=True):
    """Arguments of DefaultEvictor.

    ``nodeSelector`` chooses the nodes that count for ``nodeFit``. Without both a pod that moves
    has a place, too: rounds find it.
    """

    node_fit: bool = False
    node_selector: str = ""
    label_selector: dict[str, Any] | None = None
    namespace_label_selector: dict[str, Any] | None = None
    priority_threshold: PriorityThreshold | None = None
    min_replicas: NotNegative = 0
    min_pod_age: str | None = None
    no_eviction_policy: Literal["", "Preferred", "Mandatory"] = "Preferred"
    pod_protections: PodProtections = PodProtections()
    evict_local_storage_pods: bool = False
    evict_daemon_set_pods: bool = False
    evict_system_critical_pods: bool = False
    evict_failed_bare_pods: bool = False
    ignore_pvc_pods: bool = False
    ignore_pods_without_pdb: bool = msgspec.field(default=False, name="ignorePodsWithoutPDB")

    @property
    def min_age(self) -> float:
        """Seconds that a pod stays at least."""
        return duration.seconds(self.min_pod_age) if self.min_pod_age else 0.0

    def protections(self) -> frozenset[PodProtection]:
        """The rules that hold."""
        found = set(_DEFAULT - {*self.pod_protections.default_disabled})
        found |= {*self.pod_protections.extra_enabled}
        for is_off, protection in (
            (self.evict_local_storage_pods, PodProtection.LOCAL_STORAGE),
            (self.evict_failed_bare_pods, PodProtection.FAILED_BARE),
        ):
            if is_off:
                found.discard(protection)
        for is_on, protection in (
            (self.ignore_pvc_pods, PodProtection.PVC),
            (self.ignore_pods_without_pdb, PodProtection.WITHOUT_PDB),
        ):
            if is_on:
                found.add(protection)
        return frozenset(found)

    def problems(self, path: str) -> Iterator[str]:
        for field, selector in (
            ("labelSelector", self.label_selector),
            ("namespaceLabelSelector", self.namespace_label_selector),
        ):
            try:
                label_selector.parse(selector or {}, f"{path}.{field}")
            except ValueError as error:
                yield str(error)
        try:
            label_selector.parse_text(self.node_selector, f"{path}.nodeSelector")
        except ValueError as error:
            yield str(error)
        try:
            _ = self.min_age
        except ValueError:
            yield problem(f"{path}.minPodAge", self.min_pod_age, "a duration like 5m or 1h")
        yield from self._firm_problems(path)
        threshold = self.priority_threshold
        if threshold is not None and threshold.name:
            expected = "nothing; give the value of the PriorityClass, as priorityThreshold.value"
            yield problem(f"{path}.priorityThreshold.name", threshold.name, expected)

    def _firm_problems(self, path: str) -> Iterator[str]:
        """Return errors of what is asked for, and nothing does."""
        protections = self.pod_protections
        yield from protections.problems(f"{path}.podProtections")
        is_mixed = protections.default_disabled or protections.extra_enabled
        for field, is_on in (
            ("evictDaemonSetPods", self.evict_daemon_set_pods),
            ("evictSystemCriticalPods", self.evict_system_critical_pods),
            ("evictLocalStoragePods", self.evict_local_storage_pods),
            ("evictFailedBarePods", self.evict_failed_bare_pods),
            ("ignorePvcPods", self.ignore_pvc_pods),
            ("ignorePodsWithoutPDB", self.ignore_pods_without_pdb),
        ):
            if is_on and field in _OF_FIRM:
                yield problem(f"{path}.{field}", True, "false: nothing evicts such pods")
            elif is_on and is_mixed:
                yield problem(f"{path}.{field}", True, "podProtections alone to say it")
