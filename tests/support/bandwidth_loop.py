"""Collector, strategy and writer of resctrl around a double of it with saturated memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from koord_host.kernel_files.interface import FileTree
from koord_host.knobs.layout import Driver, Layout
from koord_host.resctrl import ResctrlGroups, Tenant
from koord_model.node import Kernel, NodeView
from koord_model.node_info import NodeCPUInfo, Processor
from koord_model.resctrl import ResctrlLimits
from koordlet.metrics_advisor.collectors import resctrl as collector
from koordlet.metrics_advisor.contract.collector import CollectContext, CollectorSources
from koordlet.qos_manager.core.strategy import Plan
from koordlet.qos_manager.strategies.resctrl.strategy import BandwidthLimits, Settings, plan

from tests.support.fake_resctrl import FakeResctrl
from tests.support.fake_resctrl.channel import BandwidthDemand, Key, MemoryChannel
from tests.support.views import FakeLatest, view

GB = 1e9
SECONDS = 10.0
_GROUPS = {name: ResctrlLimits(name) for name in ("LSR", "LS", "BE")}


class BandwidthLoop:
    """One machine: a step is a measurement, a plan, its writes, and ten seconds of traffic.

    ``domains`` are the memory domains by cache. ``settings`` are the strategy's others.
    """

    def __init__(
        self,
        domains: Mapping[int, int],
        capacity: float = 100 * GB,
        mb: str = "intel",
        classes: Mapping[str, ResctrlLimits] = _GROUPS,
        **settings: Any,
    ) -> None:
        self.files = FakeResctrl(l3_domains=tuple(domains), mb=mb)
        self.channel = MemoryChannel(self.files, domains, capacity, capacity, mb)
        settings.setdefault("bandwidth", BandwidthLimits.FEEDBACK)
        settings.setdefault("domain_capacity_gb", capacity / GB)
        self.settings = Settings(classes, **settings)
        self.problems: tuple[str, ...] = ()
        self.written: list[tuple[str, str]] = []
        self.plan = Plan()
        self.steady = 0.0
        self._cpus = NodeCPUInfo(
            tuple(
                Processor(at, at, node, node, l3) for at, (l3, node) in enumerate(domains.items())
            )
        )
        self._groups = ResctrlGroups(self.files, record=self._record)
        self._collector = collector.Collector(
            CollectorSources(cast("FileTree", self.files), Layout(2, Driver.SYSTEMD))
        )
        self._write(tuple(classes.values()))

    def _record(self, group: str, what: str, old: str, new: str, why: str) -> None:
        self.written.append((group, new))

    def step(self, demands: Mapping[Key, BandwidthDemand] | None = None) -> dict[Key, float]:
        """Return what each group got."""
        if demands is not None:
            self.channel.demands = dict(demands)
        got = self.channel.run(SECONDS)
        self.steady += SECONDS
        found = self._collector.collect(CollectContext(self.steady, self.steady))
        values = {(one.series.kind, *one.series.labels): one.value for one in found.samples}
        latest = FakeLatest(values, self._cpus, *found.infos)
        node = NodeView(kernel=Kernel(resctrl=True))
        self.plan = plan(
            view(latest=latest, node=node, steady=self.steady), self.settings, self.plan.memory
        )
        self._write(tuple(cache.limits for cache in self.plan.caches))
        return got

    def _write(self, limits: tuple[ResctrlLimits, ...]) -> None:
        report = self._groups.reconcile([Tenant(one, tuple) for one in limits])
        self.problems += report.refused

    def percents(self, group: str) -> Mapping[int, int]:
        """The limits that the last plan has for a group, by cache."""
        return next(
            one.limits.mb_by_domain for one in self.plan.caches if one.limits.group == group
        )
