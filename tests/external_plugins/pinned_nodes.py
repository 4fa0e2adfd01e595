"""PinnedNodes: Koordinator's SchedulingHint, as a plugin of somebody else."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from koord_scheduler.objects.annotations import NO_ANNOTATIONS, read_annotations
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.requests import PodRequests
from koord_scheduler.plugin import ANOTHER_POD, Filter, Plugin, PreFilterResult
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.feature_state import FeatureState, Parts
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_parts import PodPart

KEY = "internal.scheduling.koordinator.sh/scheduling-hint"


class Pin(NamedTuple):
    """The only nodes for a pod, those to try first, and what is wrong with the annotation."""

    nodes: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    problem: str = ""


PIN: PodPart[Pin] = PodPart("pin", Pin())
read_annotations(KEY)


class Pins(FeatureState):
    """Pins of pods."""

    def signature(self, pod: PodInfo) -> object:
        return pod.metadata.annotations

    def class_parts(self, pod: PodInfo, requests: PodRequests) -> Parts:
        yield PIN, pin_of(pod)


class PinnedNodes(Plugin):
    """Pods go where their annotation says, or there first."""

    name: ClassVar[str] = "PinnedNodes"
    reads_labels: ClassVar[bool] = False
    resolvable: ClassVar[bool] = False

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(Pins)

    def pre_filter(self, pod: PodClass, nodes: ClusterState) -> PreFilterResult:
        only, preferred, problem = pod.of(PIN)
        named = frozenset(only) if only else None
        cure = ANOTHER_POD if problem else ""
        return PreFilterResult(problem, nodes=named, preferred=preferred, cure=cure)

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        pin = pod.of(PIN)
        if not pin.nodes and not pin.problem:
            return None

        def can_run(rows: Rows) -> Mask:
            named = [row for row in map(nodes.row, pin.nodes) if row is not None]
            return np.isin(rows, named)

        return can_run

    def sign(self, pod: PodClass) -> Hashable:
        return pod.of(PIN)


def pin_of(pod: PodInfo) -> Pin:
    """The nodes in a pod's annotation."""
    text = (pod.metadata.annotations or NO_ANNOTATIONS).get(KEY)
    try:
        given = json.loads(text) if text else {}
        nodes, preferred = given.get("nodeNames", ()), given.get("preferredNodeNames", ())
        return Pin(tuple(nodes), tuple(preferred))
    except (ValueError, AttributeError, TypeError) as error:
        return Pin(problem=f"annotation {KEY} is no scheduling hint: {error}")


def build(args: Mapping[str, Any]) -> PinnedNodes:
    """The plugin; it has no arguments."""
    return PinnedNodes()
