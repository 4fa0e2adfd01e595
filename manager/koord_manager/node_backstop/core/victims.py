"""Pods that are evicted from an unhealthy node, and their order. No IO.

Best-effort and batch pods go first, then others by priority. Those stay that nothing evicts
(``koord_model.never_evicted``), that tolerate the taint, that have ended, or that no controller
would create anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from koord_kube.core.evictions import EvictedPod
from koord_kube.views.decode import decode_view
from koord_kube.views.metadata import OwnerReference
from koord_model.never_evicted import EvictionTraits, never_evicted
from koord_model.priority import PriorityClass, priority_class
from koord_model.qos import QoSClass, qos_class

from koord_manager.node_taints.core.taints import NodeTaint
from koord_manager.slo_config.core.backstop import EvictScope

_LOW = (PriorityClass.BATCH, PriorityClass.FREE)
_ENDED = ("Succeeded", "Failed")


class Victim(msgspec.Struct, frozen=True):
    """A pod that may be evicted; ``is_low`` if it lives on what others leave."""

    pod: EvictedPod
    is_low: bool
    priority: int


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owners: list[OwnerReference] | None = msgspec.field(default=None, name="ownerReferences")
    deleted: str | None = msgspec.field(default=None, name="deletionTimestamp")


class _Toleration(msgspec.Struct):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: NodeTaint) -> bool:
        """True of a taint of ours, which has no value."""
        is_of_any = self.operator == "Exists"
        fits = is_of_any if not self.key else self.key == taint.key
        return fits and (is_of_any or not self.value) and self.effect in ("", taint.effect)


class _Spec(msgspec.Struct):
    priority: int | None = None
    priority_class: str = msgspec.field(default="", name="priorityClassName")
    tolerations: list[_Toleration] | None = None


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_POD = msgspec.json.Decoder(_Pod)


def victim(raw: bytes, taints: Iterable[NodeTaint]) -> Victim | None:
    """The victim that a pod is on a node with these taints; ``None`` if it stays.

    Raises:
        ValueError: it is not a Pod.
    """
    found = decode_view(_POD, raw, "a valid Pod")
    meta, spec = found.metadata, found.spec
    labels: Mapping[str, str] = meta.labels or {}
    controller = next((owner.kind for owner in meta.owners or () if owner.controller), "")
    traits = EvictionTraits(
        meta.namespace,
        labels,
        meta.annotations or {},
        spec.priority,
        spec.priority_class,
        controller,
        meta.deleted is not None,
    )
    if not controller or found.status.phase in _ENDED or never_evicted(traits):
        return None
    tolerations = spec.tolerations or ()
    if all(any(toleration.tolerates(taint) for toleration in tolerations) for taint in taints):
        return None
    is_low = qos_class(labels) is QoSClass.BE or priority_class(labels, spec.priority) in _LOW
    pod = EvictedPod(meta.namespace, meta.name, meta.uid)
    return Victim(pod, is_low, spec.priority or 0)


def in_order(victims: Iterable[Victim], scope: EvictScope) -> list[Victim]:
    """Those within ``scope``, in the order in which they go."""
    within = (victim for victim in victims if victim.is_low or scope is EvictScope.ALL)
    return sorted(within, key=lambda victim: (not victim.is_low, victim.priority, victim.pod))
