"""A PodDisruptionBudget as the scheduler reads it. No IO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from koord_kube.views.decode import decode_view
from koord_model import label_selector
from koord_model.label_selector import LabelSelector

from koord_scheduler.objects.metadata import ObjectMeta


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """Number of a namespace's pods selected by ``selector`` that may be evicted now.

    Pods in ``disrupted`` (names) are counted already. As in Kubernetes' scheduler, a selector
    without requirements means no pod, though for the eviction API it means all of the namespace.
    It ``spares_unready`` pods as well, unless enough others are healthy or its policy lets them go.
    """

    namespace: str
    name: str
    selector: LabelSelector | None
    allowed: int
    disrupted: frozenset[str] = frozenset()
    spares_unready: bool = True

    @property
    def key(self) -> str:
        """The namespace and the name."""
        return f"{self.namespace}/{self.name}"

    def means(self, namespace: str, labels: dict[str, str]) -> bool:
        """True if it covers pods of a namespace with these labels; none without labels."""
        if self.selector is None or not self.selector.requirements or not labels:
            return False
        return namespace == self.namespace and self.selector.matches(labels)


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    unhealthy_pod_eviction_policy: str | None = None
    selector: dict[str, Any] | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    disrupted_pods: dict[str, str | None] | None = None


class DisruptionBudgetObject(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget as the API has it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


_DECODER = msgspec.json.Decoder(DisruptionBudgetObject)


def read_disruption_budget(text: bytes) -> DisruptionBudget:
    """The budget in a JSON document.

    Raises:
        ValueError: it is not a PodDisruptionBudget.
    """
    given = decode_view(_DECODER, text, "a valid PodDisruptionBudget")
    metadata, selector = given.metadata, given.spec.selector
    return DisruptionBudget(
        metadata.namespace,
        metadata.name,
        None if selector is None else label_selector.parse(selector, "spec.selector"),
        given.status.disruptions_allowed,
        frozenset(given.status.disrupted_pods or ()),
        _spares_unready(given),
    )


def _spares_unready(given: DisruptionBudgetObject) -> bool:
    """As the Eviction API: budgets for pods that are not ready (KEP 3017)."""
    status = given.status
    is_healthy = 0 < status.desired_healthy <= status.current_healthy
    return given.spec.unhealthy_pod_eviction_policy != "AlwaysAllow" and not is_healthy
