"""Requests to extenders, and what their answers mean: k8s.io/kube-scheduler/extender/v1. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from koord_scheduler.extenders import wire
from koord_scheduler.extenders.api_documents import ApiDocuments
from koord_scheduler.extenders.extender import Extender
from koord_scheduler.extenders.preemption import Preemption
from koord_scheduler.extenders.refusal import NodeFailure
from koord_scheduler.state.pod_usage import PlacedPod

_SCALE = 10
"""An extender scores from 0 to 10, plugins to 100."""

Scores = Mapping[str, int]
"""Additions to the scores of nodes, by name."""


class FilterAnswer(NamedTuple):
    """The nodes that passed, in the extender's order, and what is wrong with the others."""

    passed: tuple[str, ...]
    failed: Mapping[str, NodeFailure]


class CallFailure(NamedTuple):
    """That a call failed: a line with the call and the reason."""

    text: str


@dataclass(frozen=True)
class ExtenderCall:
    """A call about the ``pod`` (namespace/name)."""

    extender: Extender
    pod: str

    @property
    def verb(self) -> str:
        """The path below the extender's URL."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        """URL of the call."""
        return f"{self.extender.url.rstrip('/')}/{self.verb}"

    def body(self, documents: ApiDocuments) -> bytes:
        """Encode the request.

        Raises:
            ValueError: the pod is gone.
        """
        raise NotImplementedError

    def answer(self, body: bytes) -> Any:
        """Decode the extender's answer.

        Raises:
            ValueError: it cannot be understood, or not be so.
        """
        raise NotImplementedError

    def failure(self, reason: object) -> CallFailure:
        """That it failed."""
        return CallFailure(f"failed {self.verb} with extender at URL {self.url}: {reason}")


@dataclass(frozen=True)
class _NodesCall(ExtenderCall):
    """A call about some nodes, by name."""

    nodes: tuple[str, ...]

    def body(self, documents: ApiDocuments) -> bytes:
        names, objects = None, None
        if self.extender.has_node_cache:
            names = self.nodes
        else:
            objects = {"metadata": {}, "items": documents.nodes_of(self.nodes)}
        pod = documents.pod(self.pod)
        return msgspec.json.encode({"Pod": pod, "Nodes": objects, "NodeNames": names})


@dataclass(frozen=True)
class FilterCall(_NodesCall):
    """Question about the nodes that a pod can run on."""

    @property
    def verb(self) -> str:
        return self.extender.filter_verb

    def answer(self, body: bytes) -> FilterAnswer:
        found = wire.fields(wire.decode(body), "ExtenderFilterResult")
        if error := wire.expect(found.get("error"), "", "Error"):
            raise ValueError(error)
        passed = tuple(dict.fromkeys(self._passed(found)))
        if strange := set(passed).difference(self.nodes):
            raise ValueError(f'the node "{min(strange)}" was not among those it was asked about')
        left_out = dict.fromkeys(set(self.nodes).difference(passed), NodeFailure(None, False))
        failed = {
            **_reasons(found.get("failednodes"), "FailedNodes", resolvable=True),
            **_reasons(
                found.get("failedandunresolvablenodes"),
                "FailedAndUnresolvableNodes",
                resolvable=False,
            ),
        }
        return FilterAnswer(passed, {name: failed.get(name, one) for name, one in left_out.items()})

    def _passed(self, found: Mapping[str, Any]) -> Iterable[str]:
        names, nodes = found.get("nodenames"), found.get("nodes")
        if self.extender.has_node_cache and names is not None:
            listed = wire.expect(names, list[Any](), "NodeNames")
            return [wire.expect(one, "", "the name of a node") for one in listed]
        items = wire.expect(wire.fields(nodes, "Nodes").get("items"), list[Any](), "Nodes.items")
        return map(_name, items)


@dataclass(frozen=True)
class PrioritizeCall(_NodesCall):
    """Question about the scores of nodes for a pod."""

    @property
    def verb(self) -> str:
        return self.extender.prioritize_verb

    def answer(self, body: bytes) -> Scores:
        scores: dict[str, int] = {}
        for one in wire.expect(wire.decode(body), list[Any](), "HostPriorityList"):
            given = wire.fields(one, "HostPriority")
            host = wire.expect(given.get("host"), "", "Host")
            score = wire.expect(given.get("score"), 0, "Score")
            scores[host] = scores.get(host, 0) + score * self.extender.weight * _SCALE
        return scores


@dataclass(frozen=True)
class PreemptCall(ExtenderCall):
    """Question about the usable ``candidates``, and their victims.

    ``pods_on`` returns the pods on a node, ``None`` if there is no such node.
    """

    candidates: tuple[Preemption, ...]
    pods_on: Callable[[str], Iterable[PlacedPod] | None]

    @property
    def verb(self) -> str:
        return self.extender.preempt_verb

    def body(self, documents: ApiDocuments) -> bytes:
        as_uids = self.extender.has_node_cache

        def victims(preemption: Preemption) -> Mapping[str, Any]:
            pods = [
                {"UID": pod.uid} if as_uids else documents.pod(pod.key)
                for pod in preemption.victims
            ]
            return {"Pods": pods, "NumPDBViolations": preemption.pdb_violations}

        by_node = {candidate.node: victims(candidate) for candidate in self.candidates}
        return msgspec.json.encode(
            {
                "Pod": documents.pod(self.pod),
                "NodeNameToVictims": None if as_uids else by_node,
                "NodeNameToMetaVictims": by_node if as_uids else None,
            }
        )

    def answer(self, body: bytes) -> tuple[Preemption, ...]:
        found = wire.fields(wire.decode(body), "ExtenderPreemptionResult")
        what = "NodeNameToMetaVictims"
        by_node = wire.expect(found.get(what.lower()), dict[str, Any](), what)
        answered = (self._preemption(node, one) for node, one in by_node.items())
        return tuple(one for one in answered if one is not None)

    def _preemption(self, node: str, given: Any) -> Preemption | None:
        """``None``: an extender that may be ignored names no victims."""
        found = wire.fields(given, "MetaVictims")
        there = self.pods_on(node)
        if there is None:
            raise ValueError(f'there is no node "{node}"')
        by_uid = {pod.uid: pod for pod in there}
        victims = []
        for one in wire.expect(found.get("pods"), list[Any](), "Pods"):
            uid = wire.expect(wire.fields(one, "MetaPod").get("uid"), "", "UID")
            if uid not in by_uid:
                raise ValueError(f'there is no pod with the uid "{uid}" on node "{node}"')
            victims.append(by_uid[uid])
        violations = wire.expect(found.get("numpdbviolations"), 0, "NumPDBViolations")
        if victims:
            return Preemption(node, tuple(victims), violations)
        if self.extender.ignorable:
            return None
        raise ValueError(f'expected at least one victim pod on node "{node}"')


@dataclass(frozen=True)
class BindCall(ExtenderCall):
    """That the pod with a ``uid`` gets its ``node``."""

    uid: str
    node: str

    @property
    def verb(self) -> str:
        return self.extender.bind_verb

    def body(self, documents: ApiDocuments) -> bytes:
        namespace, _, name = self.pod.partition("/")
        about = {"PodName": name, "PodNamespace": namespace, "PodUID": self.uid, "Node": self.node}
        return msgspec.json.encode(about)

    def answer(self, body: bytes) -> None:
        found = wire.fields(wire.decode(body), "ExtenderBindingResult")
        if error := wire.expect(found.get("error"), "", "Error"):
            raise ValueError(error)


def _reasons(given: Any, what: str, *, resolvable: bool) -> dict[str, NodeFailure]:
    reasons = wire.expect(given, dict[str, Any](), what)
    return {
        node: NodeFailure(wire.expect(reason, "", "the reason of a node"), resolvable)
        for node, reason in reasons.items()
    }


def _name(node: Any) -> str:
    metadata = wire.fields(wire.fields(node, "a Node").get("metadata"), "metadata")
    return wire.expect(metadata.get("name"), "", "metadata.name")
