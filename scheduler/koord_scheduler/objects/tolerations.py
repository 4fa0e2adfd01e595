"""Taints that a pod tolerates, as Kubernetes' ``ToleratesTaint`` has it. No IO.

The operators ``Lt`` and ``Gt`` tolerate nothing: they belong to the feature gate
TaintTolerationComparisonOperators, which is off in Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from koord_scheduler.objects.node import Taint
from koord_scheduler.objects.pod import Toleration

FORBIDDING = ("NoSchedule", "NoExecute")
"""The effects of taints that keep a pod off a node."""
_PREFERRING = "PreferNoSchedule"


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """True if a toleration is for a taint: an empty key or effect is for all of them."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def first_untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> Taint | None:
    """The first taint that keeps a pod with these tolerations off a node, if any."""
    for taint in taints:
        if taint.effect in FORBIDDING and not any(
            tolerates(toleration, taint) for toleration in tolerations
        ):
            return taint
    return None


def count_untolerated_preferences(
    taints: Iterable[Taint], tolerations: Iterable[Toleration]
) -> int:
    """Count the PreferNoSchedule taints that a pod does not tolerate."""
    relevant = [toleration for toleration in tolerations if toleration.effect in ("", _PREFERRING)]
    preferring = (taint for taint in taints if taint.effect == _PREFERRING)
    return sum(not any(tolerates(one, taint) for one in relevant) for taint in preferring)
