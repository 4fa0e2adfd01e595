"""Nodes and pods that the arguments of a plugin name. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from koord_model import label_selector
from koord_model.label_selector import LabelSelector
from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.fields import Int32, Strict
from koord_scheduler.arguments.problems import problem

from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.objects.observed_node import ObservedNode
from koord_descheduler.objects.observed_pod import ObservedPod


class EvictableNamespaces(Strict, frozen=True):
    """Namespaces whose pods may move: those to ``include``, or all but those to ``exclude``."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def problems(self, path: str) -> Iterator[str]:
        """Return an error where both are given."""
        if self.include and self.exclude:
            yield problem(path, "include and exclude", "one of them")

    def refusal(self, namespace: str) -> str:
        """Return why pods of a namespace may not move, in a line; "" if they may."""
        if self.include and namespace not in self.include:
            return f"namespace {namespace} is not among those to include"
        if namespace in self.exclude:
            return f"namespace {namespace} is excluded"
        return ""


class NamedSelector(Strict, frozen=True):
    """Pods that may move."""

    name: str = ""
    selector: dict[str, Any] | None = None


class SelectingArgs(PluginArgs, frozen=True):
    """Arguments that Koordinator's balance plugins have in common."""

    paused: bool = False
    dry_run: bool = False
    node_selector: dict[str, Any] | None = None
    evictable_namespaces: EvictableNamespaces | None = None
    pod_selectors: tuple[NamedSelector, ...] = ()

    def problems(self, path: str) -> Iterator[str]:
        yield from selector_problems(self.node_selector, f"{path}.nodeSelector")
        if self.evictable_namespaces is not None:
            yield from self.evictable_namespaces.problems(f"{path}.evictableNamespaces")
        for place, given in enumerate(self.pod_selectors):
            yield from selector_problems(given.selector, f"{path}.podSelectors[{place}].selector")


def selector_problems(given: Mapping[str, Any] | None, path: str) -> Iterator[str]:
    """Return the error of a label selector that is not one."""
    try:
        parsed(given)
    except ValueError as error:
        yield path + str(error).removeprefix("selector")


def parsed(given: Mapping[str, Any] | None) -> LabelSelector:
    """The selector in a document; one that is absent selects all.

    Raises:
        ValueError: it is not a selector.
    """
    return label_selector.parse(given or {}, "selector")


class PriorityThreshold(Strict, frozen=True):
    """Pods of this priority, or of that of the class of this name, stay, and of higher ones."""

    value: Int32 | None = None
    name: str = ""


class PodSelection:
    """The nodes and pods that ``SelectingArgs`` name."""

    def __init__(self, args: SelectingArgs) -> None:
        self._nodes = parsed(args.node_selector)
        self._namespaces = args.evictable_namespaces or EvictableNamespaces()
        given = (selector.selector for selector in args.pod_selectors)
        self._pods = [parsed(selector) for selector in given if selector is not None]

    def nodes(self, cluster: ProfileRound) -> dict[str, ObservedNode]:
        """The nodes of a round that are selected, by name."""
        return {
            name: node for name, node in cluster.nodes.items() if self._nodes.matches(node.labels)
        }

    def selects(self, pod: ObservedPod) -> bool:
        """True if a selector of pods selects it, or there are none."""
        return not self._pods or any(selector.matches(pod.labels) for selector in self._pods)

    def names(self, pod: ObservedPod) -> bool:
        """True if a pod and its namespace are selected."""
        return self.selects(pod) and not self._namespaces.refusal(pod.namespace)

    def may_move(self, pod: ObservedPod, cluster: ProfileRound) -> bool:
        """True if a pod is selected, and nothing that costs little keeps it; refusals are noted."""
        if why := self._namespaces.refusal(pod.namespace):
            return cluster.refuse(pod, "EvictableNamespaces", why)
        if not self.selects(pod):
            return cluster.refuse(pod, "PodSelectors", "none of podSelectors selects it")
        return cluster.may_move(pod)
