"""What a Recommendation is about: a workload, or the pods that a selector finds. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from koord_model import label_selector
from koord_model.excerpt import excerpt
from koord_model.fields import shown
from koord_model.label_selector import LabelSelector

from koord_manager.recommending.pods import PodFacts

WORKLOAD, POD_SELECTOR = "workload", "podSelector"


@dataclass(frozen=True, slots=True)
class Target:
    """Pods of a namespace: those of the workload ``kind`` ``name``, or what ``selector`` finds."""

    namespace: str
    kind: str = ""
    name: str = ""
    selector: LabelSelector | None = None

    def matches(self, pod: PodFacts) -> bool:
        """Whether a pod is meant."""
        if pod.namespace != self.namespace:
            return False
        if self.selector is not None:
            return self.selector.matches(pod.labels)
        return (self.kind, self.name) in pod.workloads

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.selector is None else "pods by selector"


def parse(document: Mapping[str, object], namespace: str) -> Target:
    """The target in a Recommendation.

    Raises:
        ValueError: there is none, or it cannot be read; one line says what of it.
    """
    target = _object(_object(document.get("spec"), "spec").get("target"), "spec.target")
    kind = target.get("type")
    if kind == WORKLOAD:
        workload = _object(target.get("workload"), "spec.target.workload")
        return Target(namespace, _text(workload, "kind"), _text(workload, "name"))
    if kind == POD_SELECTOR:
        selector = label_selector.parse(target.get("podSelector"), "spec.target.podSelector")
        return Target(namespace, selector=selector)
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
