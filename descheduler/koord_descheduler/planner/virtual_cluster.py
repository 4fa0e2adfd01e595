"""A cluster in which moves are tried: pods leave, find places and come back. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, cast

import numpy as np
from koord_scheduler.framework.fit_error import fit_error_message
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.objects.node import Node
from koord_scheduler.plugin import CannotReserve
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.pod_reader import WaitingPod

from koord_descheduler.planner.cluster import ClusterModel, KnownPod

Accepts = Callable[[str], str]
"""Reason why a node, by its name, is not to have a pod; "": it may."""


def accept_all(_node: str) -> str:
    """Accept every node."""
    return ""


_PREFERENCES = frozenset({"NodeAffinity", "TaintToleration", "InterPodAffinity"})
_SPREAD = "PodTopologySpread"
"""Plugins of the scheduler that score by what pods prefer themselves; the last one does so for pods
with constraints of their own."""


class MoveTarget(NamedTuple):
    """The node that a pod gets, with the scheduler's score for it, and its score at its source.

    ``is_first`` is true where the scheduler would choose this node of all. ``source_score`` is
    ``None`` if the pod would not fit on its source any more.
    """

    node: str
    score: float
    source_score: float | None
    is_first: bool


class NoTarget(NamedTuple):
    """Reason why a pod can go nowhere, in a line, and the name of the rule that says so."""

    rule: str
    why: str


class VirtualCluster:
    """A cluster in which pods move; all that is done to it can be undone, in the opposite order.

    It changes the scheduler's state of ``cluster``, which has to be as the API says before anybody
    else uses it: end with ``undo(0)``. For the scheduler's plugins it is ``now`` from here on, in
    seconds since the epoch: to them reports are too old, and nodes in quarantine, as on the clock.
    """

    def __init__(self, cluster: ClusterModel, now: float) -> None:
        self.cluster = cluster
        cluster.scheduler.nodes.set_epoch(now)
        self._scheduler = cluster.scheduler
        self._undo: list[Callable[[], object]] = []
        self._moved: dict[str, str] = {}

    # ---- undo

    def mark(self) -> int:
        """The state now, for ``undo``."""
        return len(self._undo)

    def undo(self, mark: int = 0) -> None:
        """Take back all that was done since ``mark``."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def on_undo(self, act: Callable[[], object]) -> None:
        """Have this called when what was done until now is taken back."""
        self._undo.append(act)

    # ---- nodes

    def change(self, node: Node) -> None:
        """A node has other labels, taints, or is cordoned or not."""
        nodes, before = self._scheduler.nodes, self.cluster.nodes[node.name].node
        nodes.set(node)
        self.on_undo(lambda: nodes.set(before))

    # ---- pods

    def node_of(self, key: str) -> str:
        """The node of a pod by now; "" if it left."""
        moved = self._moved.get(key)
        return self.cluster.pods[key].view.node if moved is None else moved

    def pods_on(self, node: str) -> list[KnownPod]:
        """The pods that are on a node, and have not left it here."""
        moved = self._moved
        return [pod for key, pod in self.cluster.pods_by_key(node).items() if key not in moved]

    def take(self, pod: KnownPod) -> None:
        """A pod leaves its node."""
        key = pod.view.key
        self._moved[key] = ""
        if pod.view.has_ended:
            self.on_undo(lambda: self._moved.pop(key))
            return
        self._scheduler.remove_pod(key)
        self._scheduler.set_pod(pod.replacement, 0.0)
        self.on_undo(lambda: self._put_back(pod))

    def _put_back(self, pod: KnownPod) -> None:
        del self._moved[pod.view.key]
        self._scheduler.set_pod(pod.placed, 0.0)

    def place(
        self,
        pod: KnownPod,
        *,
        among: Mask | None = None,
        accepts: Accepts = accept_all,
        may_stay: bool = False,
    ) -> MoveTarget | NoTarget:
        """Give a pod that left its node the best of the nodes that may have it.

        ``among`` are the rows that come into question (``None``: all). Unless it ``may_stay``, its
        own node does not, and nothing is done if the scheduler would put it back there.
        """
        waiting = self._waiting(pod)
        if reason := self._scheduler.not_admitted(waiting):
            return NoTarget("Admission", reason)
        rows = self._scheduler.fitting_rows(waiting)
        if not len(rows):
            return NoTarget("Fit", fit_error_message(self._scheduler.diagnosis(waiting)))
        scores = self._scheduler.scores(waiting)
        nodes = self._scheduler.nodes
        totals = scores.totals(rows) + nodes.tie_break[rows]
        preferred = scores.first_preferred(rows)
        if len(preferred) < len(rows):
            totals = np.where(np.isin(rows, preferred), np.inf, totals)
        source = nodes.row(pod.view.node)
        at_source = totals[rows == source] if source is not None else totals[:0]
        source_score = float(at_source[0]) if len(at_source) else None
        possible = np.ones(len(rows), np.bool_) if among is None else among[rows]
        if not may_stay:
            possible &= rows != source
        refused = NoTarget("Target", "no other node comes into question")
        if not may_stay and source_score is not None and possible.any():
            possible &= totals >= source_score
            refused = NoTarget("Return", f"the scheduler would put it back on {pod.view.node}")
        places = np.flatnonzero(possible)
        for place in places[np.argsort(-totals[places], kind="stable")].tolist():
            row, score = int(rows[place]), float(totals[place])
            name = nodes.name(row)
            if why := accepts(name):
                refused = NoTarget("Target", f"{name}: {why}")
                continue
            try:
                self._put(waiting, row)
            except CannotReserve as error:
                refused = NoTarget("Fit", f"{name}: {error}")
                continue
            self._moved[pod.view.key] = name
            return MoveTarget(name, score, source_score, score == totals.max())
        return refused

    def put(self, pod: KnownPod, node: str) -> bool:
        """A pod that left its node takes its room on this one; False if it does not fit there."""
        waiting, row = self._waiting(pod), self._scheduler.nodes.row(node)
        if row is None or row not in self._scheduler.fitting_rows(waiting):
            return False
        try:
            self._put(waiting, row)
        except CannotReserve:
            return False
        self._moved[pod.view.key] = node
        return True

    def let_pending_in(self, accepts: Callable[[str], bool] = lambda _: True) -> dict[str, str]:
        """Pods that wait get the nodes that they would get now; returns these by pod.

        Only those whose namespace/name it ``accepts``.
        """
        found: dict[str, str] = {}
        hopeless: set[object] = set()
        for waiting in sorted(self._scheduler.queue.pods.values(), key=lambda pod: pod.turn):
            key = waiting.scores_key
            if (
                self._moved.get(waiting.key)
                or waiting.key in self._scheduler.placed.by_key
                or waiting.gang
                or key in hopeless
                or not accepts(waiting.key)
                or self._scheduler.not_admitted(waiting)
            ):
                continue
            rows = self._scheduler.fitting_rows(waiting)
            row = self._scheduler.scores(waiting).best(rows)
            if row is None:
                hopeless.add(key)
                continue
            try:
                self._put(waiting, row)
            except CannotReserve:
                continue
            found[waiting.key] = self._scheduler.nodes.name(row)
        return found

    def waiting(self) -> list[QueuedPod]:
        """The pods that wait and have no node here, in the order of their turns."""
        scheduler = self._scheduler
        pods = (
            pod
            for key, pod in scheduler.queue.pods.items()
            if key not in scheduler.placed.by_key and not scheduler.queue.is_gated(key)
        )
        return sorted(pods, key=lambda pod: pod.turn)

    def let_in(self, pod: QueuedPod, node: str) -> bool:
        """A pod that waits takes its room on a node; False if it may not have it."""
        row = self._scheduler.nodes.row(node)
        if self._scheduler.not_admitted(pod) or row not in self._scheduler.fitting_rows(pod):
            return False
        try:
            self._put(pod, cast("int", row))
        except CannotReserve:
            return False
        return True

    def gang_obstacle(self, pod: QueuedPod) -> str:
        """Return why the gang group of a waiting pod cannot start now; "" if it can."""
        report = self._scheduler.gang_cycle.report(pod)
        if report.reason or not report.failed:
            return report.reason
        return f"{report.fitted} of {report.needed} pods fit"

    def gang_domains(self, pod: QueuedPod) -> list[Mask] | None:
        """The rows of which the gang group of a waiting pod has to be in one; ``None``: any."""
        domains = self._scheduler.gang_cycle.domains(pod)
        return None if domains is None else list(map(self.mask, domains))

    def eligible(self, pod: KnownPod | QueuedPod) -> Mask:
        """The rows that may have a pod if nothing else was there; for reading only."""
        queued = pod if isinstance(pod, QueuedPod) else _anew(pod)
        base = self._scheduler.scores(queued).base
        base.refresh()
        return base.fits

    def rows(self, nodes: Iterable[str]) -> Mask:
        """A mask of the rows of these nodes, for ``place``."""
        return self.mask(self.rows_of(nodes))

    def rows_of(self, nodes: Iterable[str]) -> Rows:
        """The rows of these nodes, in their order; of those that the scheduler knows."""
        found = map(self._scheduler.nodes.row, nodes)
        return np.array([row for row in found if row is not None], np.intp)

    def mask(self, rows: Rows) -> Mask:
        """A mask of these rows, for ``place``."""
        found: Mask = np.zeros(len(self._scheduler.nodes), np.bool_)
        found[rows] = True
        return found

    def is_less_preferred(self, pod: KnownPod, node: str) -> bool:
        """True if what a pod that left its node prefers itself is met less on another one."""
        waiting, rows = self._waiting(pod), self.rows_of([pod.view.node, node])
        if len(rows) < 2 or not np.isin(rows, self._scheduler.fitting_rows(waiting)).all():
            return False
        names = _PREFERENCES | ({_SPREAD} if waiting.waiting.pod_class.spread else set())
        scores = self._scheduler.scores(waiting).scores(rows)
        return any(scores[name][1] < scores[name][0] for name in names if name in scores)

    def fitting(self, pod: KnownPod) -> Rows:
        """The rows where a pod that left its node would fit."""
        return self._scheduler.fitting_rows(self._waiting(pod))

    def _put(self, waiting: QueuedPod, row: int) -> None:
        self._scheduler.place(waiting, row)
        key = waiting.key
        left = self._moved.get(key)

        def take_back() -> None:
            self._scheduler.take_back(waiting)
            if left is not None:
                self._moved[key] = left

        self.on_undo(take_back)

    def _waiting(self, pod: KnownPod) -> QueuedPod:
        return self._scheduler.queue.pods[pod.view.key]


def _anew(pod: KnownPod) -> QueuedPod:
    """A pod as it would wait."""
    waiting = cast("WaitingPod", pod.replacement.waiting)
    return QueuedPod(pod.view.key, "", pod.placed.priority, waiting, 0, 0.0)
