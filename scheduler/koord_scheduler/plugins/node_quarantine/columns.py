"""Nodes in quarantine, by row. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np
from koord_kube.protocol.resources import PODS
from koord_kube.protocol.selectors import field_is

from koord_scheduler.objects.node import Node
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.plugins.node_quarantine.quarantine import Quarantine
from koord_scheduler.plugins.node_quarantine.settings import QuarantineSettings
from koord_scheduler.plugins.node_quarantine.verdict import (
    FailedPod,
    Verdict,
    accepted,
    extended_resources,
    read_failed_pod,
)
from koord_scheduler.state.arrays import Mask, lengthened
from koord_scheduler.state.cluster_kind import ClusterKind
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.feature_state import FeatureState, Parts
from koord_scheduler.state.pod_parts import PodPart
from koord_scheduler.state.pod_reader import ClusterPod
from koord_scheduler.state.pod_usage import PlacedPod

_RUNS: PodPart[tuple[str, tuple[str, ...]] | None] = PodPart("runs", None)


class QuarantineColumns(FeatureState):
    """Of each kind, the rows whose nodes get no pods that request it; "" is of all pods.

    ``news`` are lines about nodes that nobody wrote yet, the last of each, and whether it is bad.
    """

    def __init__(self, nodes: ClusterState) -> None:
        super().__init__(nodes)
        self.blocked: dict[str, Mask] = {}
        self.news: dict[str, tuple[str, bool]] = {}
        self._in_trial = False
        self.follow(QuarantineSettings())

    def follow(self, settings: QuarantineSettings) -> None:
        """Decide by these settings, before there are nodes."""
        self.quarantine = Quarantine(settings, self._changed, self._say, self.warn)

    def kinds(self, now: Callable[[], float]) -> Iterable[ClusterKind]:
        yield ClusterKind(
            PODS,
            FailedPod,
            read_failed_pod,
            lambda _, verdicts: self._note(verdicts),
            lambda _: None,
            field_selector=field_is("status.phase", "Failed"),
        )

    def _note(self, verdicts: Iterable[Verdict]) -> None:
        for verdict in verdicts:
            self.quarantine.note(verdict)

    # ---- rows

    def lengthen(self, length: int) -> None:
        self.blocked = {
            kind: lengthened(mask, length, False) for kind, mask in self.blocked.items()
        }

    def set_row(self, row: int, name: str) -> None:
        for kind, mask in self.blocked.items():
            mask[row] = self.quarantine.blocks(name, kind)

    def set_node(self, row: int, node: Node | None, *, is_moved: bool) -> bool:
        if not is_moved:
            return False
        if node is not None:
            self.quarantine.known(node.name)
            return False
        self.quarantine.forget(self._nodes.name(row))
        for mask in self.blocked.values():
            mask[row] = False
        return True

    def _changed(self, node: str, kind: str) -> None:
        row = self._nodes.row(node)
        if row is None:
            return
        is_blocked = self.quarantine.blocks(node, kind)
        mask = self.blocked.get(kind)
        if mask is None:
            mask = self.blocked[kind] = np.zeros(len(self._nodes), np.bool_)
        if mask[row] != is_blocked:
            mask[row] = is_blocked
            self._nodes.journal.add(row)
            self._nodes.node_journal.add(row)
        if not mask.any():
            del self.blocked[kind]

    def _say(self, node: str, line: str, is_bad: bool) -> None:
        self.news[node] = line, is_bad
        if is_bad:
            self.warn(f"node {node} {line}")

    # ---- pods

    def pod_parts(self, pod: PodInfo) -> Parts:
        yield _RUNS, accepted(pod)

    def set_pod(self, pod: ClusterPod) -> None:
        runs = pod.parts.of(_RUNS)
        if runs is not None and pod.started is not None:
            owner, kinds = runs
            self.quarantine.note(Verdict(pod.uid, pod.node, pod.started, owner, kinds, False))

    def placed(self, row: int, pod: PlacedPod) -> None:
        if self.quarantine.wards and not self._in_trial:
            self.quarantine.placed(pod.node, pod.uid, _kinds_of(pod))

    def unplaced(self, row: int, pod: PlacedPod) -> None:
        if self.quarantine.wards and not self._in_trial:
            self.quarantine.unplaced(pod.node, pod.uid, _kinds_of(pod))

    @contextmanager
    def trial(self) -> Iterator[None]:
        before, self._in_trial = self._in_trial, True
        try:
            yield
        finally:
            self._in_trial = before

    # ---- time

    def set_epoch(self, epoch: float) -> None:
        if epoch:
            nodes = self._nodes
            self.quarantine.tick(epoch, lambda: int(nodes.is_node.sum()), self._is_node)

    def _is_node(self, name: str) -> bool:
        row = self._nodes.row(name)
        return row is not None and bool(self._nodes.is_node[row])


def _kinds_of(pod: PlacedPod) -> tuple[str, ...]:
    return extended_resources(name for name, amount in pod.usage.request if amount)
