"""RemoveDuplicates of the upstream descheduler: copies on one node are spread over nodes. No IO."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator
from typing import ClassVar

import numpy as np
from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.state.arrays import Mask

from koord_descheduler.framework.pod_selection import EvictableNamespaces
from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.objects.observed_pod import PodTraits
from koord_descheduler.planner.cluster import KnownPod
from koord_descheduler.plugin import DeschedulerPlugin

_FEWEST_NODES = 2
_POD_OWNED = frozenset({"DaemonSet", "Node"})


class RemoveDuplicatesArgs(PluginArgs, frozen=True):
    """Arguments of RemoveDuplicates."""

    namespaces: EvictableNamespaces | None = None
    exclude_owner_kinds: tuple[str, ...] = ()

    def problems(self, path: str) -> Iterator[str]:
        if self.namespaces is not None:
            yield from self.namespaces.problems(f"{path}.namespaces")


class RemoveDuplicates(DeschedulerPlugin):
    """Upstream's plugin of that name.

    Copies are pods of one owner with the same images. No node is to have more than its part of
    them, rounded up, of the nodes that their affinity and tolerations allow.
    """

    name: ClassVar[str] = "RemoveDuplicates"
    Args: ClassVar[type[RemoveDuplicatesArgs]] = RemoveDuplicatesArgs

    def __init__(self, args: RemoveDuplicatesArgs) -> None:
        self._namespaces = args.namespaces or EvictableNamespaces()
        self._excluded = _POD_OWNED | {*args.exclude_owner_kinds}

    def balance(self, cluster: ProfileRound) -> None:
        copies: dict[Hashable, dict[str, list[KnownPod]]] = defaultdict(lambda: defaultdict(list))
        keys: dict[int, Hashable] = {}  # of traits, which copies share
        for node in cluster.nodes:
            for pod in cluster.pods_on(node):
                traits = pod.view.template
                if id(traits) not in keys:
                    keys[id(traits)] = self._copy_key(traits)
                key = keys[id(traits)]
                if key is not None and not pod.view.has_ended and pod.view.deleted is None:
                    copies[key][node].append(pod)
        for by_node in copies.values():
            if any(len(pods) > 1 for pods in by_node.values()):
                self._spread(cluster, by_node)

    def _copy_key(self, traits: PodTraits) -> Hashable:
        """The same for pods of one owner with the same images; ``None`` if they do not count."""
        kinds = {owner.kind for owner in traits.owners}
        if not kinds or kinds & self._excluded or self._namespaces.refusal(traits.namespace):
            return None
        owners = sorted((owner.kind, owner.name) for owner in traits.owners)
        return traits.namespace, tuple(owners), tuple(sorted(traits.images))

    def _spread(self, cluster: ProfileRound, by_node: dict[str, list[KnownPod]]) -> None:
        targets = _allowed(cluster, (pod for pods in by_node.values() for pod in pods))
        nodes = [name for name in cluster.nodes if _is_in(cluster, name, targets)]
        if len(nodes) < _FEWEST_NODES:
            return
        number = sum(map(len, by_node.values()))
        most = math.ceil(number / len(nodes))
        counts = Counter({node: len(pods) for node, pods in by_node.items()})

        def accepts(node: str) -> str:
            return f"it has {counts[node]} copies already" if counts[node] >= most else ""

        for node, pods in sorted(by_node.items()):
            for pod in sorted(pods, key=_youngest_first):
                if counts[node] <= most:
                    break
                reason = f"{len(pods)} copies of it are on its node, {most} are its part"
                if cluster.move(pod, reason, among=targets, accepts=accepts):
                    counts[node] -= 1
                    counts[cluster.virtual.node_of(pod.view.key)] += 1


def _youngest_first(pod: KnownPod) -> tuple[float, str]:
    return -pod.view.created, pod.view.key


def _allowed(cluster: ProfileRound, pods: Iterable[KnownPod]) -> Mask:
    """The rows of nodes that the affinity and the tolerations of some pod allow."""
    state = cluster.cluster.scheduler.nodes
    rows = np.arange(len(state))
    waiting = [pod.replacement.waiting for pod in pods]
    classes = [pod.pod_class for pod in waiting if pod is not None]
    found: Mask = np.zeros(len(rows), np.bool_)
    for required, tolerations in {
        (pod_class.required, pod_class.tolerations) for pod_class in classes
    }:
        found |= state.matches(required, rows) & (state.untolerated(tolerations).of(rows) == 0)
    return found & state.is_node & ~state.unschedulable


def _is_in(cluster: ProfileRound, node: str, rows: Mask) -> bool:
    row = cluster.cluster.scheduler.nodes.row(node)
    return row is not None and bool(rows[row])
