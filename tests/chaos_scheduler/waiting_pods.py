"""Which pods may wait where there is room for all: those whose quota is used up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.chaos_scheduler.cluster_state import (
    GANG,
    PARENT,
    QUOTA,
    ClusterState,
    Object,
    amounts,
    has_ended,
    labels,
    name,
    node_of,
    phase,
    requests,
    total,
)
from tests.chaos_scheduler.group_rules import quota_use


def forgotten(state: ClusterState) -> Iterator[str]:
    """The pods, gangs as a whole, and reservations that wait for nothing."""
    for of, pods in _waiting(state).items():
        if not any(_is_full(state, one, pods) for one in _quotas(state, pods[0])):
            yield of
    yield from (name(one) for one in state.reservations if phase(one) in ("", "Pending"))


def _waiting(state: ClusterState) -> dict[str, list[Object]]:
    found = defaultdict(list)
    for one in state.pods:
        if not node_of(one) and not has_ended(one):
            found[labels(one).get(GANG) or name(one)].append(one)
    return found


def _quotas(state: ClusterState, pod: Object) -> Iterator[Object]:
    """The one of a pod, and what that is a part of."""
    by_name = {name(one): one for one in state.quotas}
    quota = by_name.get(labels(pod).get(QUOTA, ""))
    while quota is not None:
        yield quota
        quota = by_name.get(labels(quota).get(PARENT, ""))


def _is_full(state: ClusterState, quota: Object, pods: Iterable[Object]) -> bool:
    wanted = quota_use(state, name(quota)) + total(requests(one) for one in pods)
    most = amounts(quota["spec"]["max"])
    return any(wanted[key] > most[key] for key in most)
