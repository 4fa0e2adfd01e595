"""Nodes where claims' devices can be used, and claims that should get others. No IO."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from koord_scheduler.plugins.dynamic_resources.binding_conditions import has_failed
from koord_scheduler.plugins.dynamic_resources.claim_objects import DeviceObjects
from koord_scheduler.plugins.dynamic_resources.objects import ResourceClaim
from koord_scheduler.plugins.dynamic_resources.pod_claims import PodClaims, claims_with_objects
from koord_scheduler.plugins.dynamic_resources.pool_devices import ClaimingNode, node_matches


class ClaimDeallocation(NamedTuple):
    """A claim that nobody uses is to lose its devices, which keep its pod off nodes."""

    claim: ResourceClaim


class ClaimDeletion(NamedTuple):
    """A claim is to go that is left from an attempt to place a pod, which waits again."""

    claim: ResourceClaim


def is_available(claim: ResourceClaim, node: ClaimingNode) -> bool:
    """True if a claim's devices can be used on a node; one without devices is everywhere."""
    allocation = claim.status.allocation
    selector = allocation.node_selector if allocation is not None else None
    is_here = selector is None or node_matches(node, None, False, selector)
    return is_here and not has_failed(claim)


def find_deallocation(
    pod: PodClaims, nodes: Iterable[ClaimingNode], objects: DeviceObjects
) -> ClaimDeallocation | None:
    """A claim of a pod that is not available on one of these nodes, and that no other pod uses."""
    claims = [claim for _, claim in claims_with_objects(pod, objects)]
    for node in nodes:
        for claim in claims:
            is_free = all(one.uid in pod.sole_users for one in claim.status.reserved_for)
            if is_free and not is_available(claim, node):
                return ClaimDeallocation(claim)
    return None


def find_left_over(waiting: Iterable[str], objects: DeviceObjects) -> ClaimDeletion | None:
    """A claim that was made for extended resources of one of these waiting pods, by their uids."""
    if not objects.extended_claims:
        return None
    keys = (objects.extended_claims.get(uid) for uid in waiting)
    return next((ClaimDeletion(objects.claims[key]) for key in keys if key is not None), None)
