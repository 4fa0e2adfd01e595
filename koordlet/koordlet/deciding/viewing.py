"""Putting together what strategies are given: one frozen view a round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from koord_host.files import Reader
from koord_host.forms import Value
from koord_host.knobs import KNOBS
from koord_host.layout import Layout
from koord_host.wishes import Target
from koord_kube.api import Object
from koord_model.demand import Amounts, amounts
from koord_model.keys import CPU
from koord_model.node import NodeView

from koordlet.cache.protocol import Aggregation, MetricCache, Window
from koordlet.collecting.looking import PerPod
from koordlet.collecting.observer import Newest
from koordlet.deciding.contract import (
    ContainerView,
    History,
    NoHistory,
    PodView,
    Signal,
    Stats,
    View,
)
from koordlet.levelling import container_group
from koordlet.states.inventory import PodRecord
from koordlet.states.share_pools import SetAside

_AVG, _LAST, _MAX = Aggregation.AVG, Aggregation.LAST, Aggregation.MAX

_PUT_BACK_SECONDS = 5.0
_DOUBT_SECONDS = 60.0
"""Once the wall clock was put back: so long what was measured at that time before is in windows."""

Base = Callable[[Target], Value | None]
"""What a target would have without strategies; ``None``: what it has."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Where a view comes from; everything is asked for anew in each round.

    ``node`` is the Node's object, ``None`` without a cluster.
    """

    layout: Layout
    reader: Reader
    pods: Callable[[], tuple[PodRecord, ...]]
    pods_known: Callable[[], bool]
    view: Callable[[], NodeView]
    newest: Newest
    cache: MetricCache
    base: Base = lambda _: None
    node: Callable[[], Object | None] = lambda: None
    set_aside: Callable[[], SetAside] = SetAside
    evicting: Callable[[], frozenset[str]] = frozenset
    pods_fresh: Callable[[], bool] = lambda: True


class Views:
    """Builds one view after the other; what has not changed is the same object again."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._pods = PerPod(self._pod)
        self._off = float("-inf")
        self._doubted_until = float("-inf")
        self._node: Object | None = None
        self._amounts: tuple[Amounts, float] = ({}, 0.0)

    def build(self, at: float, steady: float, signals: Mapping[str, tuple[Signal, ...]]) -> View:
        """The view of this moment: the wall clock and the steady one, in seconds."""
        seen = self._seen
        allocatable, kept_back = self._of_node(seen.node())
        aside = seen.set_aside()
        return View(
            at,
            steady,
            seen.layout,
            pods=tuple(self._pods.of(seen.pods())),
            pods_known=seen.pods_known(),
            pods_fresh=seen.pods_fresh(),
            node=seen.view(),
            latest=seen.newest.frozen(),
            history=self._history(at, steady),
            cgroups=NodeCgroups(seen.reader, seen.layout, seen.base),
            allocatable=allocatable,
            reserved_cpu=max(kept_back, float(len(aside.cpus))),
            set_aside=aside,
            signals=signals,
            evicting=seen.evicting(),
        )

    def _history(self, at: float, steady: float) -> History:
        """What was measured; nothing for a while after the wall clock was put back.

        The cache takes some rounds to believe it, and windows at a time that was before hold
        what was measured then: by that nobody is to be evicted.
        """
        if at - steady < self._off - _PUT_BACK_SECONDS:
            self._doubted_until = steady + _DOUBT_SECONDS
        self._off = at - steady
        return NoHistory() if steady < self._doubted_until else CacheHistory(self._seen.cache, at)

    def _pod(self, record: PodRecord) -> PodView:
        layout = self._seen.layout
        containers = tuple(
            ContainerView(one, container_group(record, one, layout))
            for one in record.containers.values()
        )
        return PodView(record, layout.group_of_parent(record.pod.cgroup_parent), containers)

    def _of_node(self, node: Object | None) -> tuple[Amounts, float]:
        """What the Node has for pods, and the cores its kubelet keeps back."""
        if node is not self._node:
            self._node = node
            status = (node or {}).get("status") or {}
            allocatable = amounts(status.get("allocatable"))
            capacity = amounts(status.get("capacity"))
            kept_back = capacity.get(CPU, 0) - allocatable.get(CPU, 0)
            # An amplified node has more to allocate than it has.
            self._amounts = allocatable, max(kept_back, 0) / 1000
        return self._amounts


@dataclass(slots=True)
class CacheHistory:
    """``History`` over the metric cache; windows end at ``at``, seconds since the epoch."""

    cache: MetricCache
    at: float
    _asked: dict[tuple[str, float], Mapping[tuple[str, ...], Stats]] = field(default_factory=dict)

    def windows(self, kind: str, seconds: float) -> Mapping[tuple[str, ...], Stats]:
        """Every series of a kind with points in the last ``seconds``."""
        known = self._asked.get((kind, seconds))
        if known is None:
            known = self._asked[kind, seconds] = self._read(kind, seconds)
        return known

    def _read(self, kind: str, seconds: float) -> Mapping[tuple[str, ...], Stats]:
        window = Window(self.at - seconds, self.at)
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
        return {series.labels: Stats(*numbers) for series, *numbers in rows}


class NodeCgroups:
    """``Cgroups`` of the real node, for one round."""

    def __init__(self, reader: Reader, layout: Layout, base: Base) -> None:
        self._reader = reader
        self._layout = layout
        self._base = base
        self._texts: dict[str, str | None] = {}
        self._below: dict[tuple[str, str], tuple[str, ...]] = {}

    def now(self, group: str, knob: str) -> Value | None:
        """What the kernel's file says."""
        row = KNOBS[knob]
        path = self._layout.path(row, group)
        text = self._read(path) if path else None
        if text is None:
            return None
        try:
            return row.form(self._layout.version).decode(text)
        except ValueError:
            return None

    def base(self, group: str, knob: str) -> Value | None:
        """What it would say without strategies."""
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
