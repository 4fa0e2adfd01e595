"""What is known of the usage of nodes: reports, and pods that these do not show. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from koord_scheduler.objects.node import Node
from koord_scheduler.plugins.load_aware.load_node import LoadNode, load_node
from koord_scheduler.plugins.load_aware.load_table import LoadTable
from koord_scheduler.plugins.load_aware.node_metric import NodeReport
from koord_scheduler.plugins.load_aware.row_load import AssignedPod, row_load
from koord_scheduler.plugins.load_aware.settings import LoadSettings

_MOST_WARNINGS = 1000


class NodeLoads:
    """Keeps a ``LoadTable`` for each profile that asks for one, before there are nodes or pods.

    Without any, nothing is kept. ``on_change`` is called with rows whose usage has changed by
    something else than pods that come and go. ``pods_on`` has the pods of a row.
    """

    def __init__(self, length: int, on_change: Callable[[int], None]) -> None:
        self.tables: dict[LoadSettings, LoadTable] = {}
        self.reports: dict[str, NodeReport] = {}
        self.nodes: dict[int, LoadNode] = {}
        self.pods_on: Callable[[int], Iterable[AssignedPod]] = lambda row: ()
        self.epoch = 0.0
        self._length = length
        self._on_change = on_change
        self._row_of: dict[str, int] = {}
        self._warnings: dict[str, None] = {}

    @property
    def is_used(self) -> bool:
        """Whether anybody asks."""
        return bool(self.tables)

    def table(self, settings: LoadSettings) -> LoadTable:
        """The table of a profile."""
        found = self.tables.get(settings)
        if found is None:
            found = self.tables[settings] = LoadTable(settings, self._length)
            for row in self.nodes:
                self._set(row, (found,))
        return found

    def lengthen(self, length: int) -> None:
        """Make room for more rows."""
        self._length = length
        for table in self.tables.values():
            table.lengthen(length)

    def set_node(self, row: int, node: Node | None) -> None:
        """The node in a row; ``None``: there is none any more."""
        if not self.tables:
            return
        if node is None:
            self._remove_node(row)
            return
        found, warnings = load_node(node)
        for line in warnings[: _MOST_WARNINGS - len(self._warnings)]:
            self._warnings[line] = None
        if self.nodes.get(row) != found:
            self.nodes[row], self._row_of[found.name] = found, row
            self._set(row, self.tables.values())

    def set_report(self, name: str, report: NodeReport) -> None:
        """There is a report of a node, or a newer one."""
        if self.tables:
            self.reports[name] = report
            self._reported(name)

    def remove_report(self, name: str) -> None:
        """There is none any more."""
        if self.reports.pop(name, None) is not None:
            self._reported(name)

    def add_pod(self, row: int, pod: AssignedPod) -> None:
        """A pod is on a row's node."""
        self._count(row, pod, 1)

    def remove_pod(self, row: int, pod: AssignedPod) -> None:
        """It is not any more."""
        self._count(row, pod, -1)

    def replace_pod(self, row: int, before: AssignedPod, pod: AssignedPod) -> None:
        """Something of a pod has changed that does not change what else it takes."""
        sums = [table.sums[:, row].tolist() for table in self.tables.values()]
        self._count(row, before, -1)
        self._count(row, pod, 1)
        if sums != [table.sums[:, row].tolist() for table in self.tables.values()]:
            self._on_change(row)

    def set_epoch(self, epoch: float) -> None:
        """What time it is, in seconds since the epoch: reports become too old."""
        is_earlier, self.epoch = epoch < self.epoch, epoch
        for table in self.tables.values():
            rows = table.expired(epoch, is_earlier=is_earlier)
            for row in rows.tolist() if rows is not None else ():
                self._set(row, (table,))
                self._on_change(row)

    def newest_report(self) -> float:
        """When the newest report was made, in seconds since the epoch; 0 without any."""
        return max((one.updated for one in self.reports.values()), default=0.0)

    def repair(self, row: int) -> bool:
        """Recompute a row; whether it was wrong, which is a defect."""
        node = self.nodes.get(row)
        if node is None:
            return False
        report = self.reports.get(node.name)
        pods = list(self.pods_on(row))
        wrong = [
            table
            for table in self.tables.values()
            if table.differs(row, row_load(table.estimator, node, report, pods, self.epoch))
        ]
        self._set(row, wrong)
        if wrong:
            self._on_change(row)
        return bool(wrong)

    def take_warnings(self) -> list[str]:
        """A line about each annotation of a node that could not be read, once."""
        found = list(self._warnings)
        self._warnings.clear()
        return found

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
            self._on_change(row)

    def _set(self, row: int, tables: Iterable[LoadTable]) -> None:
        node = self.nodes[row]
        report, pods = self.reports.get(node.name), list(self.pods_on(row))
        for table in tables:
            table.set(row, node, report, pods, self.epoch)

    def _count(self, row: int, pod: AssignedPod, sign: int) -> None:
        node = self.nodes.get(row)
        report = self.reports.get(node.name) if node is not None else None
        if report is not None:
            for table in self.tables.values():
                table.count(row, report, pod, sign)
