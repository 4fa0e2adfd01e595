"""Arguments of Koordinator's Reservation, with its defaults. No IO."""

from __future__ import annotations

from collections.abc import Iterator

from koord_scheduler.config.base_args import PluginArgs
from koord_scheduler.config.component_config import Int64, NotNegative, PerCent, Strict
from koord_scheduler.config.problems import problem

_PRE_ALLOCATION = "none: reservations do not take over pods that run here"
_OF_MANAGER = "none: the manager ends reservations and removes them, not the scheduler"


class PreAllocationConfig(Strict, frozen=True):
    """Which pods that run already a reservation may take over; without them it says nothing."""

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
    """Arguments of Reservation; of how many nodes the best victims are taken makes no difference.

    Here all nodes are looked at.
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
        yield from self._of_others(path)
        for place, name in enumerate(self.ignored_resources):
            if not _is_extended(name):
                expected = "an extended resource, such as example.com/gpu"
                yield problem(f"{path}.ignoredResources[{place}]", name, expected)
        for place, group in enumerate(self.ignored_resource_groups):
            if "/" in group or not _is_extended(f"{group}/x"):
                expected = "what extended resources begin with, such as example.com"
                yield problem(f"{path}.ignoredResourceGroups[{place}]", group, expected)

    def _of_others(self, path: str) -> Iterator[str]:
        """What something else does here, or nothing yet."""
        ending = {
            "gcDurationSeconds": self.gc_duration_seconds,
            "gcIntervalSeconds": self.gc_interval_seconds,
            "disableGarbageCollection": self.disable_garbage_collection,
            "resyncIntervalSeconds": self.resync_interval_seconds,
        }
        for name, value in ending.items():
            if value:
                yield problem(f"{path}.{name}", value, _OF_MANAGER)
        config = self.pre_allocation_config
        if config is not None and config.enable_cluster_mode:
            at = f"{path}.preAllocationConfig.enableClusterMode"
            yield problem(at, config.enable_cluster_mode, _PRE_ALLOCATION)


def _is_extended(name: str) -> bool:
    group, slash, rest = name.partition("/")
    is_native = group == "kubernetes.io" or group.endswith(".kubernetes.io")
    return bool(group and slash and rest) and "/" not in rest and not is_native
