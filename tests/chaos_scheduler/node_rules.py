"""What may never be wrong on one node: room, cards, CPUs, and who keeps away from whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tests.chaos_scheduler.cluster_state import (
    Amounts,
    ClusterState,
    Object,
    amount,
    amounts,
    annotation,
    excess,
    labels,
    name,
    node_of,
    requests,
    reserved,
    reserved_node,
    total,
    uid,
    wants_cpus_alone,
)

_GPU = "koordinator.sh/gpu"
_SHARES = ("koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio")
_CARDS = "scheduling.koordinator.sh/device-allocated"
_CPUS = "scheduling.koordinator.sh/resource-status"
_TOPOLOGY = "node.koordinator.sh/cpu-topology"


def rooms(state: ClusterState) -> Iterator[str]:
    """No node has more than it has room for, in any resource."""
    for node in state.nodes:
        room = amounts(node.get("status", {}).get("allocatable"))
        # One that has just been created says nothing yet.
        if room:
            used = _used(state, name(node))
            for wrong in excess(used, room, used):
                yield f"node {name(node)}: {wrong}"


def _used(state: ClusterState, node: str) -> Amounts:
    pods = state.on.get(node, [])
    used = total(requests(one) for one in pods)
    used["pods"] = len(pods)
    for one in state.held_on.get(node, []):
        # Counters keep what is above 0: the rest that no owner has taken.
        used += reserved(one) - total(requests(pod) for pod in state.owners.get(uid(one), []))
    return used


def cards(state: ClusterState) -> Iterator[str]:
    """No card gives more than it has, and each pod has of cards what it asks for."""
    used: Counter[tuple[str, int, str]] = Counter()
    for pod in state.running:
        given = _shares(pod, node_of(pod))
        used.update(given)
        for share in _SHARES:
            have = sum(part for (*_, what), part in given.items() if what == share)
            if have != requests(pod)[_GPU]:
                yield f"pod {name(pod)} has {have} of {share}, and asks for {requests(pod)[_GPU]}"
    for one in state.available:
        owners = state.owners.get(uid(one), [])
        used += _shares(one, reserved_node(one)) - _sum(
            _shares(pod, node_of(pod)) for pod in owners
        )
    there = {(name(one), card["minor"]): card for one in state.devices for card in _healthy(one)}
    for (node, minor, share), part in sorted(used.items()):
        card = there.get((node, minor), {}).get("resources", {})
        if part > amount(card.get(share, 0)):
            yield f"card {minor} of {node} gives {part} of {card.get(share, 0)} {share}"


def _healthy(device: Object) -> list[Object]:
    return [one for one in device["spec"]["devices"] if one["type"] == "gpu" and one["health"]]


def _shares(one: Object, node: str) -> Counter[tuple[str, int, str]]:
    found: Counter[tuple[str, int, str]] = Counter()
    for card in annotation(one, _CARDS).get("gpu", ()):
        for share in _SHARES:
            found[node, card["minor"], share] += int(amount(card["resources"].get(share, 0)))
    return found


def _sum(several: Iterable[Counter[tuple[str, int, str]]]) -> Counter[tuple[str, int, str]]:
    return sum(several, Counter())


def cpusets(state: ClusterState) -> Iterator[str]:
    """No CPU is in the sets of two, and each that wants CPUs alone has as many as it asks for."""
    there = {name(one): _cpus_there(one) for one in state.topologies}
    for node in sorted({*state.on, *state.held_on}):
        users: dict[int, str] = {}
        for one, cpus in _sets(state, node):
            for cpu in cpus:
                if cpu not in there.get(node, set()):
                    yield f"{node} has no CPU {cpu}, which {one} has"
                elif cpu in users:
                    yield f"CPU {cpu} of {node} is of {users[cpu]} and of {one}"
                users[cpu] = one
    for pod in filter(wants_cpus_alone, state.running):
        if len(_cpus(pod)) != requests(pod)["cpu"]:
            yield f"pod {name(pod)} has {len(_cpus(pod))} CPUs for {requests(pod)['cpu']}"


def _sets(state: ClusterState, node: str) -> Iterator[tuple[str, set[int]]]:
    for pod in filter(wants_cpus_alone, state.on.get(node, [])):
        yield f"pod {name(pod)}", _cpus(pod)
    for one in state.held_on.get(node, []):
        if wants_cpus_alone(one["spec"]["template"]):
            owned = (_cpus(pod) for pod in state.owners.get(uid(one), []))
            yield f"reservation {name(one)}", _cpus(one).difference(*owned)


def _cpus_there(topology: Object) -> set[int]:
    return {one["id"] for one in annotation(topology, _TOPOLOGY)["detail"]}


def _cpus(one: Object) -> set[int]:
    """Of "0-2,5" all four."""
    found: set[int] = set()
    for part in filter(None, annotation(one, _CPUS).get("cpuset", "").split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def neighbours(state: ClusterState) -> Iterator[str]:
    """No pod is in the domain of one from which it, or which from it, keeps away."""
    places = {name(one): labels(one) for one in state.nodes}
    for pod in state.running:
        affinity = pod["spec"].get("affinity") or {}
        terms = affinity.get("podAntiAffinity", {})
        for term in terms.get("requiredDuringSchedulingIgnoredDuringExecution", ()):
            for other in state.running:
                if other is not pod and _is_met(places, term, pod, other):
                    yield f"pod {name(pod)} on {node_of(pod)} keeps away from {name(other)}"


def _is_met(places: dict[str, dict[str, str]], term: Object, pod: Object, other: Object) -> bool:
    key = term["topologyKey"]
    mine, its = (places.get(node_of(one), {}).get(key) for one in (pod, other))
    wanted = term["labelSelector"]["matchLabels"].items()
    return mine is not None and mine == its and wanted <= labels(other).items()
