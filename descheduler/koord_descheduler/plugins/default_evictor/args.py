"""Arguments of upstream's DefaultEvictor, with its defaults and what is allowed. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec
from koord_model import duration, label_selector
from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.fields import Int32, NotNegative, Strict
from koord_scheduler.arguments.problems import problem


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
_FIRM = (PodProtection.SYSTEM_CRITICAL, PodProtection.DAEMON_SET)
"""Of pods that nothing evicts."""


class NoEvictionPolicy(StrEnum):
    """The meaning of the annotation ``…/prefer-no-eviction``: a wish, or a rule."""

    PREFERRED = "Preferred"
    MANDATORY = "Mandatory"


class EvictionPriorityThreshold(Strict, frozen=True):
    """Pods of this priority or a higher one stay."""

    value: Int32 | None = None
    name: str = ""


class PodProtections(Strict, frozen=True):
    """Protections that hold by default and shall not, and others that shall."""

    default_disabled: tuple[PodProtection, ...] = ()
    extra_enabled: tuple[PodProtection, ...] = ()


class DefaultEvictorArgs(PluginArgs, frozen=True):
    """Arguments of DefaultEvictor; ``nodeFit`` holds anyway: rounds find a place for each pod."""

    node_fit: bool = False
    node_selector: str = ""
    label_selector: dict[str, Any] | None = None
    namespace_label_selector: dict[str, Any] | None = None
    priority_threshold: EvictionPriorityThreshold | None = None
    min_replicas: NotNegative = 0
    min_pod_age: str | None = None
    no_eviction_policy: NoEvictionPolicy = NoEvictionPolicy.PREFERRED
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
        for field, is_on in (
            ("evictDaemonSetPods", self.evict_daemon_set_pods),
            ("evictSystemCriticalPods", self.evict_system_critical_pods),
        ):
            if is_on:
                yield problem(f"{path}.{field}", True, "false: nothing evicts such pods")
        for protection in self.pod_protections.default_disabled:
            if protection in _FIRM:
                at = f"{path}.podProtections.defaultDisabled"
                yield problem(at, protection.value, "others: nothing evicts such pods")
