"""NodeQuarantine: nodes that rejected most of their last pods get no more of them. No IO."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import partial
from typing import ClassVar

import numpy as np
from prometheus_client.registry import Collector

from koord_scheduler.extension_points.api_services import ApiServices, Controller
from koord_scheduler.plugin import Filter, LookUp, Plugin, Reason, RowFilter, first_reasons
from koord_scheduler.plugins.node_quarantine.columns import QuarantineColumns
from koord_scheduler.plugins.node_quarantine.controller import QuarantineEvents
from koord_scheduler.plugins.node_quarantine.quarantine_metrics import QuarantineMetrics
from koord_scheduler.plugins.node_quarantine.settings import QuarantineSettings
from koord_scheduler.plugins.node_quarantine.verdict import extended_resources
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass


class NodeQuarantine(Plugin):
    """Keeps pods off nodes in quarantine, for any pods or for those that request a resource."""

    name: ClassVar[str] = "NodeQuarantine"
    helped_by: ClassVar[str] = "nodes whose next try is due"
    reads_labels: ClassVar[bool] = False
    resolvable: ClassVar[bool] = False

    def __init__(self, settings: QuarantineSettings | None = None) -> None:
        self._settings = settings or QuarantineSettings()

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(QuarantineColumns).follow(self._settings)

    def sign(self, pod: PodClass) -> Hashable:
        return _kinds(pod)

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        columns, kinds = nodes.use(QuarantineColumns), _kinds(pod)

        def can_run(rows: Rows) -> Mask:
            found = np.ones(len(rows), np.bool_)
            for kind in kinds if columns.blocked else ():
                blocked = columns.blocked.get(kind)
                if blocked is not None:
                    found &= ~blocked[rows]
            return found

        return can_run

    def filter_row(self, pod: PodClass, nodes: ClusterState) -> RowFilter | None:
        columns, kinds = nodes.use(QuarantineColumns), _kinds(pod)

        def can_run(row: int) -> bool:
            blocked = columns.blocked
            return not blocked or not any(kind in blocked and blocked[kind][row] for kind in kinds)

        return can_run

    def reasons(self, pod: PodClass, nodes: ClusterState, rows: Rows) -> list[Reason]:
        columns = nodes.use(QuarantineColumns)
        found = []
        for kind in _kinds(pod):
            blocked = columns.blocked.get(kind)
            if blocked is not None:
                text = f"node(s) rejected their last pods with {kind}" if kind else _ANY
                note = partial(_note, columns, nodes, rows, kind)
                found.append(Reason(text, blocked[rows], resolvable=False, note=note))
        return first_reasons(found)

    def controllers(self, api: ApiServices) -> Iterable[Controller]:
        yield QuarantineEvents(api.scheduler.nodes.use(QuarantineColumns), api.write)

    def collectors(self, nodes: ClusterState, look_up: LookUp) -> Iterable[Collector]:
        quarantine = nodes.use(QuarantineColumns).quarantine
        yield QuarantineMetrics(
            lambda: look_up(lambda: (list(quarantine.wards), quarantine.rejected))
        )


_ANY = "node(s) rejected their last pods"


def _kinds(pod: PodClass) -> tuple[str, ...]:
    return ("", *extended_resources(name for name, amount in pod.amounts if amount))


def _note(
    columns: QuarantineColumns, nodes: ClusterState, rows: Rows, kind: str, place: int
) -> str:
    return columns.quarantine.note_on(nodes.name(int(rows[place])), kind)
