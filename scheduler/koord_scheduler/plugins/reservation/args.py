"""Arguments of Koordinator's Reservation, with its defaults. No IO."""

from __future__ import annotations

from collections.abc import Iterator

from koord_model.keys import ANNOTATION_PRE_ALLOCATABLE_PRIORITY, LABEL_PRE_ALLOCATABLE

from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.fields import Int64, NotNegative, PerCent, Strict
from koord_scheduler.arguments.problems import problem
from koord_scheduler.plugins.reservation.columns import DEFAULT_CANDIDATES, CandidateCount
from koord_scheduler.plugins.reservation.settings import ReservationSettings

_KEEP_SECONDS = 24 * 3600.0


class PreAllocationConfig(Strict, frozen=True):
    """Running pods that all reservations of the mode Cluster may take over."""

    enable_cluster_mode: bool = False
    cluster_label_key: str = ""
    cluster_priority_annotation_key: str = ""
    prefer_no_pre_allocated_pods: bool = False


class ReservationSelectorIndexArgs(Strict, frozen=True):
    """An index that only saves Koordinator time."""

    enabled: bool = False
    key_prefixes: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


class ReservationArgs(PluginArgs, frozen=True):
    """Arguments of Reservation.

    How many nodes are enough candidates counts of those whose reservations a pod may use; all
    others are looked at. How often reservations are looked at makes no difference: it is every
    three seconds.
    """

    enable_preemption: bool | None = None
    min_candidate_nodes_percentage: PerCent | None = None
    min_candidate_nodes_absolute: NotNegative | None = None
    controller_workers: NotNegative | None = None
    gc_duration_seconds: Int64 = 0
    gc_interval_seconds: Int64 = 0
    disable_garbage_collection: bool = False
    resync_interval_seconds: Int64 = 0
    pre_allocation_config: PreAllocationConfig | None = None
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    reservation_selector_index: ReservationSelectorIndexArgs | None = None

    def problems(self, path: str) -> Iterator[str]:
        config = self.pre_allocation_config
        key = config.cluster_priority_annotation_key if config is not None else ""
        if key not in ("", ANNOTATION_PRE_ALLOCATABLE_PRIORITY):
            at = f"{path}.preAllocationConfig.clusterPriorityAnnotationKey"
            yield problem(at, key, f"{ANNOTATION_PRE_ALLOCATABLE_PRIORITY}, or none")
        for place, name in enumerate(self.ignored_resources):
            if not _is_extended(name):
                expected = "an extended resource, such as example.com/gpu"
                yield problem(f"{path}.ignoredResources[{place}]", name, expected)
        for place, group in enumerate(self.ignored_resource_groups):
            if "/" in group or not _is_extended(f"{group}/x"):
                expected = "what extended resources begin with, such as example.com"
                yield problem(f"{path}.ignoredResourceGroups[{place}]", group, expected)

    def settings(self) -> ReservationSettings:
        """Return what the plugin is built from."""
        pre_allocation = self.pre_allocation_config or PreAllocationConfig()
        return ReservationSettings(
            bool(self.enable_preemption),
            frozenset(self.ignored_resources),
            frozenset(self.ignored_resource_groups),
            pre_allocation.enable_cluster_mode,
            pre_allocation.cluster_label_key or LABEL_PRE_ALLOCATABLE,
            pre_allocation.prefer_no_pre_allocated_pods,
            self._candidates(),
            self.keep_seconds,
        )

    def _candidates(self) -> CandidateCount:
        given = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        both = zip(given, DEFAULT_CANDIDATES, strict=True)
        return CandidateCount(*(one if one is not None else other for one, other in both))

    @property
    def keep_seconds(self) -> float | None:
        """Time for which ended reservations are kept; ``None``: for ever."""
        if self.disable_garbage_collection:
            return None
        return float(self.gc_duration_seconds) if self.gc_duration_seconds > 0 else _KEEP_SECONDS


def _is_extended(name: str) -> bool:
    group, slash, rest = name.partition("/")
    is_native = group == "kubernetes.io" or group.endswith(".kubernetes.io")
    return bool(group and slash and rest) and "/" not in rest and not is_native
