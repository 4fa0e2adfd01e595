"""Logs what plugins say of the nodes of each pod, while somebody wants to know."""

from __future__ import annotations

import re
from collections.abc import Callable

from koord_service.logs import get_log
from koord_service.status import QueryError, StatusPage, Update

from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.placement_report import best_nodes
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.framework.rejected_nodes import rejected_nodes
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.state.arrays import Rows

_MOST_NAMES = 10
_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_FALSE = ("0", "f", "F", "FALSE", "false", "False")
_NUMBER = re.compile("[+-]?[0-9]{1,9}")

log = get_log("scheduler")


class DebugFlags:
    """``--debug-scores`` and ``--debug-filters``, which may change at any time.

    ``scores``: how many of the best nodes of each pod are logged. ``filters``: whether it is
    logged why nodes are rejected. While both are off, a decision costs nothing more.
    """

    def __init__(self, scheduler: Scheduler, scores: int = 0, *, filters: bool = False) -> None:
        self._scheduler = scheduler
        self.scores = scores
        self.filters = filters
        self._apply()

    def set_scores(self, text: str) -> str:
        """As the text says; returns what was done, in Koordinator's words.

        Raises:
            ValueError: it is not a number.
        """
        if not _NUMBER.fullmatch(text):
            raise ValueError(f'debug-scores cannot be "{text}"; expected a whole number')
        self.scores = int(text)
        self._apply()
        return f"successfully set debugTopNScores to {text}"

    def set_filters(self, text: str) -> str:
        """As the text says; returns what was done, in Koordinator's words.

        Raises:
            ValueError: it is neither true nor false, as Go has them.
        """
        if text not in (*_TRUE, *_FALSE):
            raise ValueError(f'debug-filters cannot be "{text}"; expected true or false')
        self.filters = text in _TRUE
        self._apply()
        return f"successfully set debugFilterFailure to {text}"

    def _apply(self) -> None:
        is_on = self.filters or self.scores > 0
        self._scheduler.on_filtered = self._log if is_on else None

    def _log(self, pod: QueuedPod, scores: ClassScores, feasible: Rows) -> None:
        try:
            if self.filters:
                self._log_rejected(pod, scores, feasible)
            if self.scores > 0 and len(feasible):
                self._log_scores(pod, scores)
        except Exception as error:  # a plugin's; the decision says whether it matters
            log.error("cannot explain nodes", pod=pod.key, error=f"{type(error).__name__}: {error}")

    def _log_scores(self, pod: QueuedPod, scores: ClassScores) -> None:
        for best_node in best_nodes(scores, self.scores):
            plugins = ",".join(f"{name}:{score}" for name, score in best_node.by_plugin.items())
            about = {
                "pod": pod.key,
                "rank": best_node.rank,
                "node": best_node.node,
                "score": best_node.total,
            }
            log.info("score", **about, plugins=plugins)

    def _log_rejected(self, pod: QueuedPod, scores: ClassScores, feasible: Rows) -> None:
        for plugin, reason, rows in rejected_nodes(scores, feasible):
            names = ",".join(map(scores.nodes.name, rows[:_MOST_NAMES].tolist()))
            more = ",…" if len(rows) > _MOST_NAMES else ""
            about = {"pod": pod.key, "plugin": plugin, "reason": reason, "nodes": len(rows)}
            log.info("nodes rejected", **about, names=names + more)


def debug_updates(
    flags: DebugFlags, look_up: Callable[[Callable[[], str]], str]
) -> dict[str, Update]:
    """The flags by path, for PUT; ``look_up`` calls in the event loop, for other threads."""

    def update(set_flag: Callable[[str], str]) -> Update:
        def put(body: str) -> StatusPage:
            try:
                return StatusPage(f"{look_up(lambda: set_flag(body.strip()))}\n".encode())
            except ValueError as error:
                raise QueryError(str(error)) from None

        return put

    return {
        "/debug/flags/f": update(flags.set_filters),
        "/debug/flags/s": update(flags.set_scores),
    }
