"""Target of a Recommendation: a workload, or the pods that a selector finds. No IO."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from koord_model import label_selector
from koord_model.excerpt import excerpt
from koord_model.fields import shown
from koord_model.label_selector import LabelSelector

from koord_manager.recommendation.core.pods import RecommendationPod

WORKLOAD, POD_SELECTOR = "workload", "podSelector"


@dataclass(frozen=True, slots=True)
class RecommendationTarget:
    """Pods of a namespace: those of the workload ``kind`` ``name``, or what ``selector`` finds."""

    namespace: str
    kind: str = ""
    name: str = ""
    selector: LabelSelector | None = None

    def matches(
        self, namespace: str, labels: Mapping[str, str], workloads: Collection[tuple[str, str]]
    ) -> bool:
        """True if it means a pod with these labels, which these workloads have made."""
        if namespace != self.namespace:
            return False
        if self.selector is not None:
            return self.selector.matches(labels)
        return (self.kind, self.name) in workloads

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.selector is None else "pods by selector"


class TargetCandidates:
    """Pods of one namespace; those of a workload are found without scanning the others."""

    def __init__(self, pods: Collection[RecommendationPod]) -> None:
        self._pods = pods
        self._of: dict[tuple[str, str], list[RecommendationPod]] = {}
        for pod in pods:
            for workload in pod.workloads:
                self._of.setdefault(workload, []).append(pod)

    def matching(self, target: RecommendationTarget) -> list[RecommendationPod]:
        """Those that a target of this namespace means."""
        if target.selector is None:
            return self._of.get((target.kind, target.name), [])
        return [pod for pod in self._pods if target.selector.matches(pod.labels)]


def parse(document: Mapping[str, object], namespace: str) -> RecommendationTarget:
    """The target in a Recommendation.

    Raises:
        ValueError: it is missing or invalid; one line says why.
    """
    target = _object(_object(document.get("spec"), "spec").get("target"), "spec.target")
    kind = target.get("type")
    if kind == WORKLOAD:
        workload = _object(target.get("workload"), "spec.target.workload")
        return RecommendationTarget(namespace, _text(workload, "kind"), _text(workload, "name"))
    if kind == POD_SELECTOR:
        selector = label_selector.parse(target.get("podSelector"), "spec.target.podSelector")
        return RecommendationTarget(namespace, selector=selector)
    expected = f"{excerpt(WORKLOAD)} or {excerpt(POD_SELECTOR)}"
    raise ValueError(f"spec.target.type is {shown(kind)}; expected {expected}")


def _object(given: object, where: str) -> Mapping[str, object]:
    if not isinstance(given, Mapping):
        raise ValueError(f"{where} is {shown(given)}; expected an object")  # noqa: TRY004 - input
    return given


def _text(given: Mapping[str, object], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"spec.target.workload.{name} is {shown(value)}; expected text")
    return value
