"""Usage of nodes: reports, and pods that these do not show. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from koord_kube.protocol.resources import NODE_METRICS

from koord_scheduler.objects.node import Node
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.requests import PodRequests
from koord_scheduler.plugins.load_aware.load_node import LoadNode, load_node
from koord_scheduler.plugins.load_aware.load_table import LoadTable
from koord_scheduler.plugins.load_aware.node_metric import (
    NodeMetricView,
    NodeReport,
    read_node_metric,
)
from koord_scheduler.plugins.load_aware.pod_load import LOAD, NO_LOAD, has_daemon_owner, pod_load
from koord_scheduler.plugins.load_aware.row_load import AssignedPod, row_load
from koord_scheduler.plugins.load_aware.settings import LoadSettings
from koord_scheduler.state.cluster_kind import ClusterKind
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.feature_state import FeatureState, Parts
from koord_scheduler.state.pod_parts import PodParts
from koord_scheduler.state.pod_usage import PlacedPod, PodUsage


class NodeLoads(FeatureState):
    """Keeps a ``LoadTable`` for each profile that asks for one, before there are nodes or pods."""

    most_warnings: ClassVar[float] = 1000

    def __init__(self, nodes: ClusterState) -> None:
        super().__init__(nodes)
        self.tables: dict[LoadSettings, LoadTable] = {}
        self.reports: dict[str, NodeReport] = {}
        self.nodes: dict[int, LoadNode] = {}
        self.epoch = 0.0
        self._row_of: dict[str, int] = {}

    def kinds(self, now: Callable[[], float]) -> Iterable[ClusterKind]:
        yield ClusterKind(
            NODE_METRICS,
            NodeMetricView,
            read_node_metric,
            self.set_report,
            self.remove_report,
            is_optional=True,
        )

    def signature(self, pod: PodInfo) -> object:
        return pod.metadata.annotations, pod.spec.priority, has_daemon_owner(pod)

    def class_parts(self, pod: PodInfo, requests: PodRequests) -> Parts:
        yield LOAD, pod_load(pod, requests)

    def usage_parts(self, pod: PodInfo, known: PodParts) -> Parts:
        load = known.of(LOAD)
        yield LOAD, pod_load(pod) if load is NO_LOAD else load

    def table(self, settings: LoadSettings) -> LoadTable:
        """The table of a profile."""
        found = self.tables.get(settings)
        if found is None:
            found = self.tables[settings] = LoadTable(settings, len(self._nodes))
            for row in self.nodes:
                self._set(row, (found,))
        return found

    def lengthen(self, length: int) -> None:
        """Make room for more rows."""
        for table in self.tables.values():
            table.lengthen(length)

    def set_node(self, row: int, node: Node | None, *, is_moved: bool) -> bool:
        if node is None:
            self._remove_node(row)
            return False
        found, warnings = load_node(node)
        for line in warnings:
            self.warn(line)
        if self.nodes.get(row) != found:
            self.nodes[row], self._row_of[found.name] = found, row
            self._set(row, self.tables.values())
        return False

    def set_report(self, name: str, report: NodeReport) -> None:
        """There is a report of a node, or a newer one."""
        self.reports[name] = report
        self._reported(name)

    def remove_report(self, name: str) -> None:
        """There is none any more."""
        if self.reports.pop(name, None) is not None:
            self._reported(name)

    def placed(self, row: int, pod: PlacedPod) -> None:
        self._count(row, pod, 1)

    def unplaced(self, row: int, pod: PlacedPod) -> None:
        self._count(row, pod, -1)

    def replaced(self, row: int, before: PlacedPod, pod: PlacedPod) -> None:
        if before.times == pod.times:
            return
        sums = [table.sums[:, row].tolist() for table in self.tables.values()]
        self._count(row, before, -1)
        self._count(row, pod, 1)
        if sums != [table.sums[:, row].tolist() for table in self.tables.values()]:
            self._nodes.journal.add(row)

    def set_epoch(self, epoch: float) -> None:
        """Let reports become too old."""
        is_earlier, self.epoch = epoch < self.epoch, epoch
        for table in self.tables.values():
            rows = table.expired(epoch, is_earlier=is_earlier)
            for row in rows.tolist() if rows is not None else ():
                self._set(row, (table,))
                self._nodes.journal.add(row)

    def newest_report(self) -> float:
        """Return when the newest report was made, in seconds since the epoch; 0 without any."""
        return max((report.updated for report in self.reports.values()), default=0.0)

    def repair(self, row: int, usages: Iterable[PodUsage]) -> bool:
        node = self.nodes.get(row)
        if node is None:
            return False
        report = self.reports.get(node.name)
        pods = self.assigned_on(row)
        wrong = [
            table
            for table in self.tables.values()
            if table.differs(row, row_load(table.estimator, node, report, pods, self.epoch))
        ]
        self._set(row, wrong)
        if wrong:
            self._nodes.journal.add(row)
        return bool(wrong)

    def _remove_node(self, row: int) -> None:
        node = self.nodes.pop(row, None)
        if node is not None:
            del self._row_of[node.name]
            for table in self.tables.values():
                table.clear(row)

    def _reported(self, name: str) -> None:
        row = self._row_of.get(name)
        if row is not None:
            self._set(row, self.tables.values())
            self._nodes.journal.add(row)

    def _set(self, row: int, tables: Iterable[LoadTable]) -> None:
        node = self.nodes[row]
        report, pods = self.reports.get(node.name), self.assigned_on(row)
        for table in tables:
            table.set(row, node, report, pods, self.epoch)

    def assigned_on(self, row: int) -> list[AssignedPod]:
        """The pods of a row's node."""
        return list(map(assigned, self._nodes.pods_on(row)))

    def _count(self, row: int, pod: PlacedPod, sign: int) -> None:
        node = self.nodes.get(row)
        report = self.reports.get(node.name) if node is not None else None
        if report is not None:
            for table in self.tables.values():
                table.count(row, report, assigned(pod), sign)


def assigned(pod: PlacedPod) -> AssignedPod:
    """The fields of a pod that decide how much it is expected to use."""
    return AssignedPod(pod.key, pod.usage.of(LOAD), pod.times)
