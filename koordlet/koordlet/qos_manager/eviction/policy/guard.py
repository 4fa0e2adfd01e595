"""Decides whether a pod may be evicted at all, and for a claim. No IO.

Never evicted, whatever claims it: the pods that nothing evicts (``koord_model.never_evicted``),
koordlet's own pod, and a pod whose specification is not known: it may be one of these.

A claim besides wants what it says: the label ``koordinator.sh/eviction-enabled=true`` where it
asks for it. A pod that has the annotation ``koordinator.sh/eviction-policy`` is evicted by the
rules that are listed there alone: by none where it cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec
from koord_model.keys import ANNOTATION_EVICTION_POLICY, LABEL_EVICTION_ENABLED
from koord_model.never_evicted import (
    STATIC,
    EvictionTraits,
    is_static,
    never_evicted,
    opted_in,
)

from koordlet.qos_manager.core.strategy import EvictionClaim, PodView

_LONGEST_RULES = 4096
"""Longer lists are invalid and not cached: a list of all rules has a tenth of this."""
_RULES = msgspec.json.Decoder(list[str])


def never(pod: PodView, own: frozenset[str] = frozenset()) -> str:
    """Return why a pod may not be evicted by anything; "" if it may.

    ``own`` is what koordlet's own pod is called: its UID or "namespace/name".
    """
    record, demand = pod.record.pod, pod.demand
    if pod.uid in own or pod.name in own:
        return "is koordlet's own pod"
    if demand is None:
        if is_static(record.annotations):
            return STATIC
        return "has no specification that is known"
    return never_evicted(
        EvictionTraits(
            record.namespace,
            record.labels,
            record.annotations,
            demand.priority,
            demand.priority_name,
            demand.controller,
            demand.terminating,
        )
    )


def refusal(pod: PodView, claim: EvictionClaim, own: frozenset[str] = frozenset()) -> str:
    """Return why a pod may not be evicted for a claim; "" if it may."""
    if found := never(pod, own):
        return found
    if claim.opt_in and not opted_in(pod.record.pod.labels):
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
