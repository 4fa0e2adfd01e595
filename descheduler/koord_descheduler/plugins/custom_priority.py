"""CustomPriority: pods leave dear nodes where cheaper ones can have them. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

from koord_scheduler.arguments.fields import Strict
from koord_scheduler.arguments.problems import problem
from koord_scheduler.state.arrays import Mask

from koord_descheduler.framework.balancing.request_table import RequestTable
from koord_descheduler.framework.pod_selection import (
    PodSelection,
    SelectingArgs,
    parsed,
    selector_problems,
)
from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.objects.observed_node import ObservedNode
from koord_descheduler.planner.cluster import KnownPod
from koord_descheduler.planner.protection import belongs_to_node
from koord_descheduler.plugin import DeschedulerPlugin

_MOST_MISFITS = 5
"""In a row: bigger pods than those would not fit either."""


class ResourcePriority(Strict, frozen=True):
    """Nodes that cost the same.

    Nodes whose requests are below all of ``keepThreshold`` (per cent) keep their pods; those above
    any of ``rejectThreshold`` get none.
    """

    name: str = ""
    node_selector: dict[str, Any] | None = None
    keep_threshold: dict[str, float] | None = None
    reject_threshold: dict[str, float] | None = None

    def problems(self, path: str) -> Iterator[str]:
        """Return Koordinator's errors in it."""
        if not self.name:
            yield problem(f"{path}.name", self.name, "a name")
        if self.node_selector is None:
            yield problem(f"{path}.nodeSelector", None, "a label selector")
        yield from selector_problems(self.node_selector, f"{path}.nodeSelector")


class CustomPriorityArgs(SelectingArgs, frozen=True):
    """Arguments of CustomPriority; whatever ``nodeFit`` says, there has to be a place."""

    node_fit: bool = True
    eviction_order: tuple[ResourcePriority, ...] = ()
    mode: Literal["BestEffort", "DrainNode"] = "BestEffort"
    auto_cordon: bool = False

    def problems(self, path: str) -> Iterator[str]:
        yield from super().problems(path)
        order = self.eviction_order
        if len(order) < 2:
            yield problem(f"{path}.evictionOrder", None, "two levels or more, dear ones first")
        names = [level.name for level in order]
        for place, level in enumerate(order):
            yield from level.problems(f"{path}.evictionOrder[{place}]")
            if level.name in names[:place]:
                yield problem(f"{path}.evictionOrder[{place}].name", level.name, "another name")
        if self.auto_cordon:
            yield problem(f"{path}.autoCordon", True, "false: a DrainNode cordons and undoes it")


class _Target(NamedTuple):
    """Nodes of a level, and per cent above which they reject pods."""

    table: RequestTable
    limits: list[float]


class CustomPriority(DeschedulerPlugin):
    """Koordinator's plugin of that name."""

    name: ClassVar[str] = "CustomPriority"
    Args: ClassVar[type[CustomPriorityArgs]] = CustomPriorityArgs

    def __init__(self, args: CustomPriorityArgs) -> None:
        self._args = args
        self._selection = PodSelection(args)
        self.dry_run = args.dry_run
        self._selectors = [parsed(level.node_selector) for level in args.eviction_order]

    def balance(self, cluster: ProfileRound) -> None:
        if self._args.paused:
            return
        order = list(zip(self._args.eviction_order, self._levels(cluster), strict=True))
        cluster.note("levels", {level.name: len(nodes) for level, nodes in order})
        serve = self._drain if self._args.mode == "DrainNode" else self._relieve
        for place, (level, nodes) in enumerate(order):
            cheaper = [
                _Target(RequestTable(cluster, nodes, list(limits)), [*limits.values()])
                for limits, nodes in (
                    (cheaper_level.reject_threshold or {}, nodes)
                    for cheaper_level, nodes in order[place + 1 :]
                )
            ]
            if any(target.table.names for target in cheaper):
                for name in self._sources(level, nodes, cluster):
                    serve(name, level.name, cheaper, cluster)

    def _levels(self, cluster: ProfileRound) -> list[dict[str, ObservedNode]]:
        """The nodes of each level; a node is of the first that selects it."""
        levels: list[dict[str, ObservedNode]] = [{} for _ in self._selectors]
        for name, node in self._selection.nodes(cluster).items():
            for nodes, selector in zip(levels, self._selectors, strict=True):
                if selector.matches(node.labels):
                    nodes[name] = node
                    break
        return levels

    def _sources(
        self, level: ResourcePriority, nodes: Mapping[str, ObservedNode], cluster: ProfileRound
    ) -> list[str]:
        """The nodes of a level that are asked for enough to lose pods."""
        keep = level.keep_threshold
        if not keep:
            return list(nodes)
        parts, limits = 100 * RequestTable(cluster, nodes, list(keep)).parts(), [*keep.values()]
        return [name for name, used in zip(nodes, parts, strict=True) if (used >= limits).any()]

    # ---- one node

    def _pods(self, name: str, cluster: ProfileRound) -> list[KnownPod]:
        """The pods of a node that run, those that ask for little first."""
        pods = (pod for pod in cluster.pods_on(name) if not pod.view.has_ended)
        return sorted(pods, key=_size)

    def _relieve(
        self, name: str, level: str, targets: list[_Target], cluster: ProfileRound
    ) -> None:
        reason = f"evicting from {level} priority resource to lower priority resource"
        misfits = 0
        for pod in self._pods(name, cluster):
            if not self._selection.may_move(pod.view, cluster):
                continue
            among = _accepting(targets, cluster)
            misfits = 0 if cluster.move(pod, reason, among=among) else misfits + 1
            if misfits == _MOST_MISFITS:
                return

    def _drain(self, name: str, level: str, targets: list[_Target], cluster: ProfileRound) -> None:
        """Move all pods of a node, but for those that belong to it, or none."""
        reason = f"drain node {name} (sourcePriority={level})"
        mark = cluster.virtual.mark()
        for pod in self._pods(name, cluster):
            has_left = cluster.virtual.node_of(pod.view.key) != name  # with its gang
            if has_left or belongs_to_node(pod.view) or pod.view.deleted is not None:
                continue
            if not self._selection.may_move(pod.view, cluster) or not cluster.move(
                pod, reason, among=_accepting(targets, cluster)
            ):
                cluster.virtual.undo(mark)
                cluster.note(name, f"stays, as {pod.view.key} does")
                return


def _accepting(targets: list[_Target], cluster: ProfileRound) -> Mask:
    """The rows of cheaper nodes that are not asked for too much."""
    found = cluster.virtual.rows(())
    for table, limits in targets:
        within = (100 * table.parts() <= limits).all(axis=1)
        found[table.rows[within]] = True
    return found


def _size(pod: KnownPod) -> tuple[object, ...]:
    requests = dict(pod.placed.usage.request)
    return requests.get("cpu", 0), requests.get("memory", 0), pod.view.key
