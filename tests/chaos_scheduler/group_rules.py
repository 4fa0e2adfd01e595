"""What may never be wrong of pods that belong together: quotas, gangs, reservations."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos_scheduler.cluster_state import (
    GANG,
    PARENT,
    QUOTA,
    Amounts,
    ClusterState,
    Object,
    amounts,
    excess,
    labels,
    name,
    node_of,
    requests,
    reserved,
    reserved_node,
    total,
    uid,
)


def quotas(state: ClusterState) -> Iterator[str]:
    """No quota has more in use than its max, its children's included."""
    for quota in state.quotas:
        used, most = quota_use(state, name(quota)), amounts(quota["spec"].get("max"))
        for wrong in excess(used, most, most):
            yield f"quota {name(quota)}: {wrong}"


def quota_use(state: ClusterState, quota: str) -> Amounts:
    """What the running pods of a quota and of its children ask for."""
    own = total(requests(one) for one in state.running if labels(one).get(QUOTA) == quota)
    children = [name(one) for one in state.quotas if labels(one).get(PARENT) == quota]
    return own + total(quota_use(state, one) for one in children)


def reported_use(state: ClusterState) -> Iterator[str]:
    """What a quota's status says is in use is what its pods ask for."""
    for quota in state.quotas:
        said = amounts(quota.get("status", {}).get("used"))
        used, most = quota_use(state, name(quota)), amounts(quota["spec"].get("max"))
        for key in sorted(key for key in most if used[key] != said[key]):
            yield f"quota {name(quota)} says {said[key]} of {used[key]} {key}"


def gangs(state: ClusterState) -> Iterator[str]:
    """No gang runs in part."""
    for group in state.groups:
        members = [one for one in state.running if labels(one).get(GANG) == name(group)]
        if 0 < len(members) < group["spec"]["minMember"]:
            yield f"gang {name(group)}: {len(members)} of {group['spec']['minMember']} run"


def owners(state: ClusterState) -> Iterator[str]:
    """A reservation's owners are its own, on its node, and within it where it is restricted."""
    for one in state.reservations:
        owning = state.owners.get(uid(one), [])
        for pod in owning:
            if node_of(pod) != reserved_node(one):
                yield f"pod {name(pod)} uses reservation {name(one)} of another node"
            if not any(_is_owner(pod, rule) for rule in one["spec"]["owners"]):
                yield f"pod {name(pod)} uses reservation {name(one)}, which is not for it"
        if one["spec"].get("allocatePolicy") == "Restricted":
            most, used = reserved(one), total(requests(pod) for pod in owning)
            for wrong in excess(used, most, most):
                yield f"reservation {name(one)}: owners have {wrong}"


def _is_owner(pod: Object, rule: Object) -> bool:
    return bool(rule["labelSelector"]["matchLabels"].items() <= labels(pod).items())


def said_of_owners(state: ClusterState) -> Iterator[str]:
    """A reservation says of its owners what they say of it."""
    for one in state.available:
        owning, status = state.owners.get(uid(one), []), one["status"]
        used, said = total(requests(pod) for pod in owning), amounts(status.get("allocated"))
        for key in sorted(key for key in reserved(one) if used[key] != said[key]):
            yield f"reservation {name(one)} says {said[key]} of {used[key]} {key}"
        named = {owner["uid"] for owner in status.get("currentOwners") or ()}
        if named != {uid(pod) for pod in owning}:
            yield f"reservation {name(one)} names {len(named)} owners of {len(owning)}"
