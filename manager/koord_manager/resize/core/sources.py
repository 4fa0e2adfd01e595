"""Recommendations and VerticalPodAutoscalers as sources of resizes. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from koord_kube.core.events import reference
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import RECOMMENDATIONS, VERTICAL_POD_AUTOSCALERS, Resource
from koord_kube.views.decode import decode_view
from koord_model.demand import Amounts, amounts
from koord_model.times import from_rfc3339

from koord_manager.recommendation.core import target
from koord_manager.recommendation.core.target import RecommendationTarget
from koord_manager.resize.core import floors, policy
from koord_manager.resize.core.floors import ANNOTATION_FLOORS, Floors
from koord_manager.resize.core.pods import ResizePod
from koord_manager.resize.core.policy import ResizePolicy

_OLD_SECONDS = 3600.0
"""Recommendations are written anew every ten minutes; an older one is nobody's word any more."""
_PROVIDED = "RecommendationProvided"


@dataclass(frozen=True, slots=True)
class ResizeSource:
    """An object with our annotation; ``recommended`` are requests by container.

    ``updated`` is of the epoch, infinite where the object does not say. ``problem`` is why no
    pod is resized by it, "" if nothing speaks against that.
    """

    resource: Resource
    namespace: str
    name: str
    uid: str = ""
    target: RecommendationTarget | None = None
    policy: ResizePolicy = field(default_factory=ResizePolicy)
    recommended: Mapping[str, Amounts] = field(default_factory=dict)
    floors: Floors = field(default_factory=dict)
    updated: float = float("inf")
    problem: str = ""

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def reference(self) -> Object:
        """As much of it as Events need."""
        return reference(self.resource, self.name, self.namespace, self.uid)

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.key}"

    def floors_of(self, container: str, now: float) -> Amounts:
        """Requests at least."""
        known = self.floors.get(container)
        return known.least if known and known.until > now else {}

    def problem_at(self, now: float) -> str:
        """Reason why no pod is resized by it at a time, or ``problem``."""
        if self.problem:
            return self.problem
        if not self.recommended:
            return "nothing is recommended yet"
        age = now - self.updated
        return f"its recommendation is {age / 3600:.1f} h old" if age > _OLD_SECONDS else ""


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] | None = None


class _Document(msgspec.Struct):
    metadata: _Metadata
    spec: Any = None
    status: Any = None


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    message: str = ""


class _ContainerStatus(msgspec.Struct, rename="camel"):
    container_name: str = ""
    resources: dict[str, str | int | float | None] | None = None


class _PodStatus(msgspec.Struct, rename="camel"):
    container_statuses: list[_ContainerStatus] | None = None


class _Status(msgspec.Struct, rename="camel"):
    pod_status: _PodStatus | None = None
    update_time: str = ""
    conditions: list[_Condition] | None = None


class _VpaContainer(msgspec.Struct, rename="camel"):
    container_name: str = ""
    target: dict[str, str | int | float | None] | None = None


class _VpaRecommendation(msgspec.Struct, rename="camel"):
    container_recommendations: list[_VpaContainer] | None = None


class _VpaStatus(msgspec.Struct):
    recommendation: _VpaRecommendation | None = None
    conditions: list[_Condition] | None = None


class _VpaTarget(msgspec.Struct):
    kind: str
    name: str


class _VpaSpec(msgspec.Struct, rename="camel"):
    target_ref: _VpaTarget


_DECODER = msgspec.json.Decoder(_Document)


def read_recommendation(content: bytes) -> ResizeSource | None:
    """A Recommendation's JSON; ``None`` where it has not our annotation.

    Raises:
        ValueError: it is not an object.
    """
    return _read(content, RECOMMENDATIONS)


def read_vpa(content: bytes) -> ResizeSource | None:
    """A VerticalPodAutoscaler's JSON, in the same way."""
    return _read(content, VERTICAL_POD_AUTOSCALERS)


def _read(content: bytes, resource: Resource) -> ResizeSource | None:
    given = decode_view(_DECODER, content, f"a valid {resource.kind}")
    meta, annotations = given.metadata, given.metadata.annotations or {}
    text = annotations.get(policy.ANNOTATION)
    if text is None:
        return None
    place = resource, meta.namespace, meta.name, meta.uid
    fill = _of_recommendation if resource is RECOMMENDATIONS else _of_vpa
    try:
        return fill(
            place, given, policy.parse(text), floors.read(annotations.get(ANNOTATION_FLOORS, ""))
        )
    except msgspec.ValidationError as error:
        return ResizeSource(*place, problem=f"{error} (no pod is resized)")
    except ValueError as error:
        return ResizeSource(*place, problem=str(error))


_Place = tuple[Resource, str, str, str]


def _of_recommendation(
    place: _Place, given: _Document, chosen: ResizePolicy, known: Floors
) -> ResizeSource:
    status = msgspec.convert(given.status or {}, _Status)
    containers = (status.pod_status or _PodStatus()).container_statuses or ()
    return ResizeSource(
        *place,
        target.parse({"spec": given.spec}, place[1]),
        chosen,
        {container.container_name: amounts(container.resources) for container in containers},
        known,
        from_rfc3339(status.update_time) if status.update_time else float("inf"),
        _denied(status.conditions),
    )


def _of_vpa(place: _Place, given: _Document, chosen: ResizePolicy, known: Floors) -> ResizeSource:
    of_vpa = policy.of_vpa(given.spec or {}, chosen)
    ref = msgspec.convert(given.spec, _VpaSpec).target_ref
    status = msgspec.convert(given.status or {}, _VpaStatus)
    found = (status.recommendation or _VpaRecommendation()).container_recommendations or ()
    return ResizeSource(
        *place,
        RecommendationTarget(place[1], ref.kind, ref.name),
        of_vpa,
        {container.container_name: amounts(container.target) for container in found},
        known,
        problem=_denied(status.conditions),
    )


def _denied(conditions: Sequence[_Condition] | None) -> str:
    for condition in conditions or ():
        if condition.type == _PROVIDED and condition.status == "False":
            return f"nothing is recommended: {condition.message}"
    return ""


RESIZE_SOURCES: Mapping[Resource, Callable[[bytes], ResizeSource | None]] = {
    RECOMMENDATIONS: read_recommendation,
    VERTICAL_POD_AUTOSCALERS: read_vpa,
}
"""Kinds of sources, and how they are read."""


class SourceIndex:
    """Sources by the pods that they mean."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], ResizeSource] = {}
        self._of_workloads: dict[tuple[str, str, str], ResizeSource] = {}
        self._of_selectors: dict[str, list[ResizeSource]] = {}
        self._is_sorted = False

    def put(self, resource: Resource, key: str, source: ResizeSource | None) -> None:
        """Take the newest state of an object; ``None`` if it is gone, or has no annotation."""
        place = resource.plural, key
        if source is None:
            self._known.pop(place, None)
        else:
            self._known[place] = source
        self._is_sorted = False

    def follow(self, resource: Resource) -> Callable[[str, object, ResizeSource | None], None]:
        """A handler for an informer of this kind."""

        def changed(key: str, _before: object, now: ResizeSource | None) -> None:
            self.put(resource, key, now)

        return changed

    def _sort(self) -> None:
        if self._is_sorted:
            return
        self._of_workloads, self._of_selectors, self._is_sorted = {}, {}, True
        for source in self:
            found = source.target
            if found is None:
                continue
            if found.selector is not None:
                self._of_selectors.setdefault(found.namespace, []).append(source)
            else:
                workload = found.namespace, found.kind, found.name
                self._of_workloads.setdefault(workload, source)

    def __iter__(self) -> Iterator[ResizeSource]:
        """All, in their order."""
        return iter([self._known[place] for place in sorted(self._known)])

    @property
    def namespaces(self) -> set[str]:
        """Namespaces in which pods may be resized."""
        return {source.namespace for source in self._known.values() if source.target}

    def of(self, pod: ResizePod, namespace: str = "") -> ResizeSource | None:
        """The source of a pod, the first by name of several.

        ``namespace`` is that of a pod that does not say it.
        """
        self._sort()
        where = pod.namespace or namespace
        for kind, name in pod.workloads:
            source = self._of_workloads.get((where, kind, name))
            if source is not None:
                return source
        for source in self._of_selectors.get(where, ()):
            if source.target and source.target.matches(where, pod.labels, pod.workloads):
                return source
        return None
