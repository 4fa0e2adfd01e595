"""Builds the input of strategies: one frozen view a round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from koord_host.kernel_files.interface import FileReader
from koord_host.knobs.forms import Value
from koord_host.knobs.layout import Layout
from koord_host.knobs.table import KNOBS
from koord_host.planning.desired_values import Target
from koord_kube.protocol.api import Object
from koord_model.demand import Amounts, amounts
from koord_model.keys import CPU
from koord_model.node import NodeView

from koordlet.metric_cache.core.interface import Aggregation, MetricCache, TimeWindow
from koordlet.metrics_advisor.collector_runner import LatestStore
from koordlet.metrics_advisor.contract.cgroup_reading import PerPodCache
from koordlet.qos_manager.core.strategy import (
    ContainerView,
    EmptyHistory,
    MetricHistory,
    PodView,
    StrategySignal,
    StrategyView,
    WindowStats,
)
from koordlet.states_informer.state.cgroup_paths import container_group
from koordlet.states_informer.state.pod_inventory import PodRecord
from koordlet.states_informer.state.share_pools import ReservedCPUs

_AVG, _LAST, _MAX = Aggregation.AVG, Aggregation.LAST, Aggregation.MAX

_PUT_BACK_SECONDS = 5.0
_DOUBT_SECONDS = 60.0
"""Time for which windows may hold older measurements after the wall clock was set back."""

BaseValue = Callable[[Target], Value | None]
"""Function of a target's value without strategies; ``None``: its present one."""


@dataclass(frozen=True, slots=True)
class ViewSources:
    """The sources of a view; each round reads all of them again.

    ``node`` is the Node's object, ``None`` without a cluster.
    """

    layout: Layout
    reader: FileReader
    pods: Callable[[], tuple[PodRecord, ...]]
    pods_known: Callable[[], bool]
    view: Callable[[], NodeView]
    newest: LatestStore
    cache: MetricCache
    base: BaseValue = lambda _: None
    node: Callable[[], Object | None] = lambda: None
    set_aside: Callable[[], ReservedCPUs | None] = ReservedCPUs
    evicting: Callable[[], frozenset[str]] = frozenset
    pods_fresh: Callable[[], bool] = lambda: True


class StrategyViewBuilder:
    """Builds one view per round; unchanged parts are the same objects."""

    def __init__(self, seen: ViewSources) -> None:
        self._seen = seen
        self._pods = PerPodCache(self._pod)
        self._off = float("-inf")
        self._doubted_until = float("-inf")
        self._node: Object | None = None
        self._amounts: tuple[Amounts, float] = ({}, 0.0)

    def build(
        self, at: float, steady: float, signals: Mapping[str, tuple[StrategySignal, ...]]
    ) -> StrategyView:
        """The view of this moment: the wall clock and the steady one, in seconds."""
        seen = self._seen
        allocatable, kept_back = self._of_node(seen.node())
        aside = seen.set_aside() or ReservedCPUs()  # not known: nor are the owners of CPUs
        return StrategyView(
            at,
            steady,
            seen.layout,
            pods=tuple(self._pods.of(seen.pods())),
            pods_known=seen.pods_known(),
            pods_fresh=seen.pods_fresh(),
            node=seen.view(),
            latest=seen.newest.frozen(),
            history=self._history(at, steady),
            cgroups=RoundCgroupReader(seen.reader, seen.layout, seen.base),
            allocatable=allocatable,
            reserved_cpu=max(kept_back, float(len(aside.idle))),
            set_aside=aside,
            signals=signals,
            evicting=seen.evicting(),
        )

    def _history(self, at: float, steady: float) -> MetricHistory:
        """The measurements; empty for a while after the wall clock was set back.

        The cache takes some rounds to accept the new time, and until then a window may contain
        older measurements, which must not cause evictions.
        """
        if at - steady < self._off - _PUT_BACK_SECONDS:
            self._doubted_until = steady + _DOUBT_SECONDS
        self._off = at - steady
        return (
            EmptyHistory() if steady < self._doubted_until else CacheHistory(self._seen.cache, at)
        )

    def _pod(self, record: PodRecord) -> PodView:
        layout = self._seen.layout
        containers = tuple(
            ContainerView(container, container_group(record, container, layout))
            for container in record.containers.values()
        )
        return PodView(record, layout.group_of_parent(record.pod.cgroup_parent), containers)

    def _of_node(self, node: Object | None) -> tuple[Amounts, float]:
        """The Node's allocatable resources, and the cores its kubelet reserves."""
        if node is not self._node:
            self._node = node
            status = (node or {}).get("status") or {}
            allocatable = amounts(status.get("allocatable"))
            capacity = amounts(status.get("capacity"))
            kept_back = capacity.get(CPU, 0) - allocatable.get(CPU, 0)
            # An amplified node has more allocatable CPU than capacity.
            self._amounts = allocatable, max(kept_back, 0) / 1000
        return self._amounts


@dataclass(slots=True)
class CacheHistory:
    """``MetricHistory`` over the metric cache; windows end at ``at``, seconds since the epoch."""

    cache: MetricCache
    at: float
    _windows: dict[tuple[str, float], Mapping[tuple[str, ...], WindowStats]] = field(
        default_factory=dict
    )

    def windows(self, kind: str, seconds: float) -> Mapping[tuple[str, ...], WindowStats]:
        """Every series of a kind with points in the last ``seconds``."""
        known = self._windows.get((kind, seconds))
        if known is None:
            known = self._windows[kind, seconds] = self._read(kind, seconds)
        return known

    def _read(self, kind: str, seconds: float) -> Mapping[tuple[str, ...], WindowStats]:
        window = TimeWindow(self.at - seconds, self.at)
        found = self.cache.aggregate(kind, window, (_AVG, _LAST, _MAX))
        rows = zip(
            found.series,
            found.values[_AVG].tolist(),
            found.values[_LAST].tolist(),
            found.values[_MAX].tolist(),
            found.count.tolist(),
            found.first.tolist(),
            found.last.tolist(),
            strict=True,
        )
        return {series.labels: WindowStats(*numbers) for series, *numbers in rows}


class RoundCgroupReader:
    """``Cgroups`` of the real node, for one round."""

    def __init__(self, reader: FileReader, layout: Layout, base: BaseValue) -> None:
        self._reader = reader
        self._layout = layout
        self._base = base
        self._texts: dict[str, str | None] = {}
        self._below: dict[tuple[str, str], tuple[str, ...]] = {}

    def now(self, group: str, knob: str) -> Value | None:
        """Return the value in the kernel's file."""
        row = KNOBS[knob]
        path = self._layout.path(row, group)
        text = self._read(path) if path else None
        if text is None:
            return None
        try:
            return self._layout.form(row, group).decode(text)
        except ValueError:
            return None

    def base(self, group: str, knob: str) -> Value | None:
        """Return the value without strategies."""
        found = self._base(Target(group, knob))
        return self.now(group, knob) if found is None else found

    def below(self, group: str, subsystem: str) -> tuple[str, ...]:
        """Every group below, parents before children."""
        key = group, subsystem
        if key not in self._below:
            self._below[key] = tuple(self._walk(group, subsystem))
        return self._below[key]

    def _walk(self, group: str, subsystem: str) -> list[str]:
        found: list[str] = []
        level = [group]
        while level:
            level = [
                f"{above}/{name}" for above in level for name in self._entries(above, subsystem)
            ]
            found += level
        return found

    def _entries(self, group: str, subsystem: str) -> list[str]:
        try:
            return self._reader.entries(self._layout.group_path(group, subsystem))
        except OSError:
            # The group is gone, or there is none yet.
            return []

    def _read(self, path: str) -> str | None:
        if path not in self._texts:
            try:
                self._texts[path] = self._reader.read(path)
            except OSError:
                self._texts[path] = None
        return self._texts[path]
