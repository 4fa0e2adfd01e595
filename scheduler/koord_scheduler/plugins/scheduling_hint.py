"""SchedulingHint: pods go where their hint says, or there first. No IO."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Annotated, ClassVar, NamedTuple

import msgspec
import numpy as np
from koord_model.keys import ANNOTATION_OLD_SCHEDULING_HINT, ANNOTATION_SCHEDULING_HINT
from msgspec import Meta

from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.objects.annotations import NO_ANNOTATIONS, read_annotations
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.requests import PodRequests
from koord_scheduler.plugin import ANOTHER_POD, Filter, Plugin, PreFilterResult
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.feature_state import FeatureState, Parts
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_parts import PodPart


class SchedulingHintArgs(PluginArgs, frozen=True):
    """Arguments of SchedulingHint: how many of a pod's preferred nodes are tried."""

    max_hint_nodes: Annotated[int, Meta(gt=0, le=2**31 - 1)] = 100


class PodHint(NamedTuple):
    """The only nodes for a pod, and those to try first, in this order; none: it does not matter.

    ``problem`` says why it cannot be used.
    """

    nodes: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    problem: str = ""


NO_HINT = PodHint()
read_annotations(ANNOTATION_SCHEDULING_HINT, ANNOTATION_OLD_SCHEDULING_HINT)
_HINT: PodPart[PodHint] = PodPart("hint", NO_HINT)


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    node_names: tuple[str, ...] | None = None
    preferred_node_names: tuple[str, ...] | None = None


_DECODER = msgspec.json.Decoder(_Document | None)


class PodHints(FeatureState):
    """Hints of pods; nothing is kept of nodes."""

    def signature(self, pod: PodInfo) -> object:
        return scheduling_hint(pod)

    def class_parts(self, pod: PodInfo, requests: PodRequests) -> Parts:
        yield _HINT, scheduling_hint(pod)


class SchedulingHint(Plugin):
    """Koordinator's plugin of that name; of the preferred nodes the first ``most`` are tried."""

    name: ClassVar[str] = "SchedulingHint"
    reads_labels: ClassVar[bool] = False
    resolvable: ClassVar[bool] = False

    def __init__(self, most: int = 100) -> None:
        self._most = most

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(PodHints)

    def pre_filter(self, pod: PodClass, nodes: ClusterState) -> PreFilterResult:
        only, preferred, problem = pod.of(_HINT)
        named = frozenset(only) if only else None
        cure = ANOTHER_POD if problem else ""
        return PreFilterResult(problem, nodes=named, preferred=preferred[: self._most], cure=cure)

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        if not pod.of(_HINT).nodes and not pod.of(_HINT).problem:
            return None

        def can_run(rows: Rows) -> Mask:
            named = (row for row in map(nodes.row, pod.of(_HINT).nodes) if row is not None)
            return np.isin(rows, list(named))

        return can_run

    def sign(self, pod: PodClass) -> Hashable:
        return pod.of(_HINT)


def scheduling_hint(pod: PodInfo) -> PodHint:
    """The hint of a pod; one that is empty counts as none."""
    annotations = pod.metadata.annotations or NO_ANNOTATIONS
    for key in (ANNOTATION_SCHEDULING_HINT, ANNOTATION_OLD_SCHEDULING_HINT):
        if text := annotations.get(key):
            return _read(key, text)
    return NO_HINT


@lru_cache(1024)
def _read(key: str, text: str) -> PodHint:
    try:
        found = _DECODER.decode(text) or _Document()
    except msgspec.MsgspecError as error:
        return PodHint(problem=f"annotation {key} is no scheduling hint: {error}")
    return PodHint(found.node_names or (), found.preferred_node_names or ())
