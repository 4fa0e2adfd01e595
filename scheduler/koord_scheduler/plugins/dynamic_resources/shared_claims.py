"""Claims that the pods of a PodGroup share: allocated once, reserved for the group. No IO.

As Kubernetes' feature DRAWorkloadResourceClaims. A pod says of such a claim what its group does.
"""

from __future__ import annotations

from koord_scheduler.gangs.gangs import Gang, Gangs
from koord_scheduler.gangs.scheduling_group import SUFFIX
from koord_scheduler.plugins.dynamic_resources.objects import Consumer
from koord_scheduler.plugins.dynamic_resources.pod_claims import PodClaim, PodClaims


def with_shared(pod: PodClaims, gangs: Gangs | None) -> PodClaims:
    """A pod's claims, of which some are for its group."""
    gang = gangs.gang_of(pod.pod) if pod.claims and gangs is not None else None
    if gang is None or gang.spec is None or not gang.spec.claims:
        return pod
    group = _consumer(gang)
    claims = tuple(_of_group(claim, gang, group) for claim in pod.claims)
    has_nodes = bool(gang.bound or gang.assumed)
    return pod._replace(claims=claims, sole_users=(pod.uid, *([] if has_nodes else [group.uid])))


def is_needed(consumer: Consumer, pod: str, gangs: Gangs | None) -> bool:
    """True if another pod than this one, by its key, has a node and needs claims of its group."""
    if gangs is None:
        return False
    name = consumer.name
    gang = gangs.by_key.get(f"{pod.partition('/')[0]}/{name}{SUFFIX}")
    return gang is not None and bool({*gang.bound, *gang.assumed} - {pod})


def _of_group(pod_claim: PodClaim, gang: Gang, group: Consumer) -> PodClaim:
    is_shared = gang.spec is not None and pod_claim.given in gang.spec.claims
    return pod_claim._replace(group=group) if is_shared else pod_claim


def _consumer(gang: Gang) -> Consumer:
    name = gang.key.partition("/")[2].removesuffix(SUFFIX)
    uid = gang.pod_group.uid if gang.pod_group is not None else ""
    return Consumer(SUFFIX[1:], "podgroups", name, uid)
