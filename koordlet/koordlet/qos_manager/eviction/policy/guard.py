"""Decides whether a pod may be evicted at all, and for a claim. No IO.

Never evicted, whatever claims it:

- a pod whose specification is not known: it may be one of the following;
- static and mirror pods: the kubelet starts them, and no API can end them;
- system-critical pods: priority 2000000000 and above, a priority class ``system-…``, or
  Koordinator's class SYSTEM;
- pods of the namespace kube-system, unless they are labelled for eviction themselves;
- pods of a DaemonSet: its controller puts the next one on this very node;
- pods whose eviction cost is the highest there is (``scheduling.koordinator.sh/eviction-cost``);
- pods that end already: to evict them once more does nothing;
- koordlet's own pod.

A claim besides wants what it says: the label ``koordinator.sh/eviction-enabled=true`` where it
asks for it. A pod that has the annotation ``koordinator.sh/eviction-policy`` is evicted by the
rules that are listed there alone: by none where it cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec
from koord_model.keys import (
    ANNOTATION_EVICTION_COST,
    ANNOTATION_EVICTION_POLICY,
    ANNOTATION_MIRROR,
    LABEL_EVICTION_ENABLED,
)
from koord_model.qos import QoSClass

from koordlet.qos_manager.core.strategy import EvictionClaim, PodView

SYSTEM_CRITICAL = 2_000_000_000
"""``scheduling.SystemCriticalPriority`` of Kubernetes: no user's class may be so high."""

_SOURCE = "kubernetes.io/config.source"
_SYSTEM_CLASSES = "system-"
_SYSTEM_NAMESPACE = "kube-system"
_NEVER = str(2**31 - 1)
_LONGEST_RULES = 4096
"""Longer lists are invalid and not cached: a list of all rules has a tenth of this."""
_RULES = msgspec.json.Decoder(list[str])


def never(pod: PodView, own: frozenset[str] = frozenset()) -> str:
    """Return why a pod may not be evicted by anything; "" if it may.

    ``own`` is what koordlet's own pod is called: its UID or "namespace/name".
    """
    annotations, demand = pod.record.pod.annotations, pod.demand
    if pod.uid in own or pod.name in own:
        return "is koordlet's own pod"
    if ANNOTATION_MIRROR in annotations or annotations.get(_SOURCE, "api") != "api":
        return "is a static pod"
    if demand is None:
        return "has no specification that is known"
    if demand.terminating:
        return "ends already"
    if (demand.priority or 0) >= SYSTEM_CRITICAL:
        return f"is system-critical: its priority is {demand.priority}"
    if demand.priority_name.startswith(_SYSTEM_CLASSES):
        return f"is system-critical: its priority class is {demand.priority_name}"
    if pod.asked_qos is QoSClass.SYSTEM:
        return "is of class SYSTEM"
    if demand.controller == "DaemonSet":
        return "is a DaemonSet's, which would start it again here"
    if pod.record.pod.namespace == _SYSTEM_NAMESPACE and not opted_in(pod):
        return f"is in {_SYSTEM_NAMESPACE} without {LABEL_EVICTION_ENABLED}=true"
    if annotations.get(ANNOTATION_EVICTION_COST) == _NEVER:
        return f"has the highest {ANNOTATION_EVICTION_COST}"
    return ""


def refusal(pod: PodView, claim: EvictionClaim, own: frozenset[str] = frozenset()) -> str:
    """Return why a pod may not be evicted for a claim; "" if it may."""
    if found := never(pod, own):
        return found
    if claim.opt_in and not opted_in(pod):
        return f"is not labelled {LABEL_EVICTION_ENABLED}=true"
    listed = pod.record.pod.annotations.get(ANNOTATION_EVICTION_POLICY)
    if listed is None:
        return ""
    rules = _rules(listed) if len(listed) <= _LONGEST_RULES else None
    if rules is None:
        return f"has an {ANNOTATION_EVICTION_POLICY} that is not a list of rules"
    if claim.rule not in rules:
        return f"has an {ANNOTATION_EVICTION_POLICY} without {claim.rule}"
    return ""


def opted_in(pod: PodView) -> bool:
    """True if the pod itself says that it may be evicted."""
    return pod.record.pod.labels.get(LABEL_EVICTION_ENABLED) == "true"


def own_names(environ: Mapping[str, str]) -> frozenset[str]:
    """The names of koordlet's own pod, from the downward API; empty on a host."""
    names = {environ.get("POD_UID", "")}
    if environ.get("POD_NAMESPACE") and environ.get("POD_NAME"):
        names.add(f"{environ['POD_NAMESPACE']}/{environ['POD_NAME']}")
    return frozenset(names - {""})


# The same few texts, round after round while pods are to go.
@lru_cache(maxsize=1024)
def _rules(text: str) -> frozenset[str] | None:
    try:
        return frozenset(_RULES.decode(text))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
