"""Arguments of Defragmentation. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.fields import NotNegative, Positive, Strict
from koord_scheduler.arguments.problems import problem
from msgspec import Meta

NotLess = Annotated[float, Meta(ge=0.0, le=1e6)]


class DefragmentationTarget(StrEnum):
    """A thing that moves are made for."""

    WAITING_PODS = "WaitingPods"
    """Pods and gangs that wait since no node has enough for them."""
    EMPTY_NODES = "EmptyNodes"
    """Nodes without pods, so that they can be taken away."""


class WaitingRules(Strict, frozen=True):
    """Pods for which others move: those that wait for ``min_seconds`` and have ``min_priority``.

    ``namespaces``: only in these; all if there are none.
    """

    min_seconds: NotNegative = 60
    min_priority: int = 0
    namespaces: tuple[str, ...] = ()


class MoveCosts(Strict, frozen=True):
    """Costs of moving a pod; one that is as others costs 1.

    ``lost_hour`` is for each hour of work that is lost, since the pod started or since its last
    checkpoint, of pods whose work ends some time; at most ``most_lost``. Parts of the cost are
    ``mid``, ``batch`` and ``free`` for pods of these priority classes.
    """

    lost_hour: NotLess = 0.5
    most_lost: NotLess = 4.0
    mid: NotLess = 0.8
    batch: NotLess = 0.6
    free: NotLess = 0.4


class DefragmentationArgs(PluginArgs, frozen=True):
    """Arguments of Defragmentation.

    A plan has at most ``max_moves``. Each of its steps is worth ``min_value`` for a cost of 1: in
    cards, or in nodes; of a job that waits, more by ``wait_hour`` of itself for each hour, up to
    ten hours. ``effort`` limits the search: 10,000 are some 3 s for 1,200 nodes.
    """

    targets: tuple[DefragmentationTarget, ...] = (DefragmentationTarget.WAITING_PODS,)
    max_moves: Positive = 10
    max_jobs: Positive = 4
    min_value: NotLess = 0.1
    wait_hour: NotLess = 0.5
    waiting: WaitingRules = WaitingRules()
    costs: MoveCosts = MoveCosts()
    effort: Positive = 10_000

    def problems(self, path: str) -> Iterator[str]:
        if not self.targets:
            names = ", ".join(DefragmentationTarget)
            yield problem(f"{path}.targets", [], f"one or more of {names}")
        for name in ("mid", "batch", "free"):
            if getattr(self.costs, name) <= 0:
                yield problem(f"{path}.costs.{name}", getattr(self.costs, name), "more than 0")
