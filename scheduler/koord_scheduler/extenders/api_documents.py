"""Pods and nodes as the API has them, for extenders that want whole objects. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from koord_scheduler.extenders.extender import Extender
from koord_scheduler.objects.node import Node
from koord_scheduler.state.pod_reader import ClusterPod

T = TypeVar("T")


class ApiDocuments:
    """JSON of the objects that ``extenders`` may be sent, and of no others.

    Those are the waiting pods that they are asked about; nodes, if an extender has no cache of
    its own; and all pods, if one that has no cache is asked about victims.
    """

    def __init__(self, extenders: Sequence[Extender]) -> None:
        self._extenders = extenders
        without_cache = [extender for extender in extenders if not extender.has_node_cache]
        self._has_nodes = any(one.filter_verb or one.prioritize_verb for one in without_cache)
        self._has_all_pods = any(one.preempt_verb for one in without_cache)
        self._nodes: dict[str, msgspec.Raw] = {}
        self._pods: dict[str, msgspec.Raw] = {}

    def pod(self, key: str) -> msgspec.Raw:
        """A pod by namespace/name.

        Raises:
            ValueError: it is not there any more.
        """
        found = self._pods.get(key)
        if found is None:
            raise ValueError(f"the pod {key} is gone")
        return found

    def nodes_of(self, names: Iterable[str]) -> list[msgspec.Raw]:
        """Those of these nodes that are still there."""
        return [self._nodes[name] for name in names if name in self._nodes]

    def reading_nodes(self, read: Callable[[bytes], Node]) -> Callable[[bytes], Node]:
        """``read``, of which the document is kept."""
        if not self._has_nodes:
            return read

        def reading(raw: bytes) -> Node:
            node = read(raw)
            self._nodes[node.name] = _as_sent(raw)
            return node

        return reading

    def reading_pods(self, read: Callable[[bytes], ClusterPod]) -> Callable[[bytes], ClusterPod]:
        """``read``, of which the document is kept."""
        if not self._extenders:
            return read

        def reading(raw: bytes) -> ClusterPod:
            pod = read(raw)
            if self._is_of_use(pod):
                self._pods[pod.key] = _as_sent(raw)
            else:
                self.forget_pod(pod.key)
            return pod

        return reading

    def forget_node(self, name: str) -> None:
        """A node is gone."""
        self._nodes.pop(name, None)

    def forget_pod(self, key: str) -> None:
        """A pod is gone."""
        self._pods.pop(key, None)

    def _is_of_use(self, pod: ClusterPod) -> bool:
        if self._has_all_pods:
            return True
        waiting = pod.waiting
        return waiting is not None and any(
            extender.is_interested(waiting.pod_class) for extender in self._extenders
        )


def _as_sent(raw: bytes) -> msgspec.Raw:
    """An object as kube-scheduler sends it: without its type, and without managed fields."""
    document = msgspec.json.decode(raw)
    for name in ("kind", "apiVersion"):
        document.pop(name, None)
    document.get("metadata", {}).pop("managedFields", None)
    return msgspec.Raw(msgspec.json.encode(document))
