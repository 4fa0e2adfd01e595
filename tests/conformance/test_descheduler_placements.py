"""Plugins whose moves depend on where pods go, against the upstream descheduler's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from koord_scheduler.arguments.problems import SchedulerConfigError

from tests.conformance.descheduling import RecordedRound
from tests.conformance.test_descheduler_upstream import (
    REFUSED,
    made,
    pod_of,
    pods_that_nothing_evicts_stay,
)
from tests.conformance.vectors import Fields, Object, Vector, replay

ROUNDS: dict[int, RecordedRound] = {}
"""The last round, by the place of its vector."""
COPIES, SPREAD = "RemoveDuplicates", "RemovePodsViolatingTopologySpreadConstraint"
APART, AFFINITY = "RemovePodsViolatingInterPodAntiAffinity", "RemovePodsViolatingNodeAffinity"


def moved(vector: Vector) -> Fields:
    given = vector.given
    try:
        evictor = made("DefaultEvictor", given.get("evictor", {}))
        plugin = made(given["plugin"], given["args"])
    except SchedulerConfigError:
        return REFUSED
    ROUNDS.clear()
    cluster = ROUNDS[vector.place] = RecordedRound(given, [evictor])
    cluster.deschedule(plugin)
    cluster.balance(plugin)
    return dict.fromkeys(cluster.asked, True)


def recorded(outcome: Object) -> Fields:
    """Of several outcomes the first: Go's maps decided."""
    return REFUSED if "refused" in outcome else dict.fromkeys(outcome["outcomes"][0], True)


def key_of(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def group(plugin: str, pod: Object) -> Hashable:
    """Pods that a plugin compares with each other: copies, or all of a namespace."""
    metadata = pod["metadata"]
    owners = sorted((one["kind"], one["name"]) for one in metadata.get("ownerReferences", ()))
    images = sorted(one["image"] for one in pod["spec"]["containers"])
    return (metadata["namespace"], *((str(owners), str(images)) if plugin == COPIES else ()))


def fellows(vector: Vector, field: str) -> list[Object]:
    """The pods that are compared with the pod of a field, itself among them."""
    plugin, pod = vector.given["plugin"], pod_of(vector, field)
    own = group(plugin, pod)
    return [one for one in vector.given["pods"] if group(plugin, one) == own]


def one_finds_no_place(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """A pod stays without a place that the scheduler prefers, and perhaps others go for it.

    So they do for a pod that nothing evicts and that they must not be beside.
    """
    rules = (
        "Fit",
        "Return",
        "Target",
        *(("Protected",) if vector.given["plugin"] == APART else ()),
    )
    refusals = ROUNDS[vector.place].refusals
    stay = {key for key, one in refusals.items() if one.rule in rules or "nodeFit" in one.why}
    return field in stay or (bool(stay) and vector.given["plugin"] != AFFINITY)


def pods_that_stay_count(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Upstream does not see pods that its filter keeps."""
    is_about_them = vector.given["plugin"] in (COPIES, SPREAD)
    if not is_about_them or another_one_goes(vector, field, here, there):
        return False
    cluster = ROUNDS[vector.place]
    keys = map(key_of, fellows(vector, field))
    return any(cluster.obstacle(cluster.cluster.pods[key].view)[1] for key in keys)


def another_one_goes(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """As many pods leave each domain; which ones is a matter of order."""
    if vector.given["plugin"] not in (COPIES, SPREAD):
        return False
    nodes = {one["metadata"]["name"]: one["metadata"]["labels"] for one in vector.given["nodes"]}

    def left(fields: Fields) -> Counter[str]:
        pods = (one for one in fellows(vector, field) if fields.get(key_of(one)))
        name = "kubernetes.io/hostname" if vector.given["plugin"] == COPIES else "zone"
        return Counter(nodes[one["spec"]["nodeName"]].get(name, "") for one in pods)

    return left(here) == left(there)


def cordoned_nodes_are_no_targets(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Upstream goes by taints alone."""
    cordoned = any(one.get("spec", {}).get("unschedulable") for one in vector.given["nodes"])
    return cordoned and vector.given["plugin"] == COPIES


def nodes_of_all_copies(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Upstream does not ask where the first copy may go."""
    if vector.given["plugin"] != COPIES:
        return False
    names = ("nodeSelector", "affinity", "tolerations")
    specs = {str([one["spec"].get(name) for name in names]) for one in fellows(vector, field)}
    return len(specs) > 1


def pods_without_the_constraint_stay(
    vector: Vector, field: str, here: Fields, there: Fields
) -> bool:
    """Upstream moves any pod that a constraint counts, and perhaps others stay for it."""
    free = any("topologySpreadConstraints" not in one["spec"] for one in fellows(vector, field))
    return free and vector.given["plugin"] == SPREAD


def node_selectors_are_affinity(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Upstream passes over pods that have a nodeSelector and no affinity."""
    spec = pod_of(vector, field).get("spec", {})
    return vector.given["plugin"] == AFFINITY and "nodeSelector" in spec and field in here


def domains_have_the_label(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Upstream takes a node without the label of a topology for a domain."""
    bare = any("zone" not in one["metadata"]["labels"] for one in vector.given["nodes"])
    return bare and vector.given["plugin"] == APART


def others_need_no_selection(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Pods that the arguments do not select are beside others all the same."""
    return vector.given["plugin"] == APART and bool(vector.given["args"]) and field in here


def test_the_same_pods_move() -> None:
    differences = (
        pods_that_nothing_evicts_stay,
        one_finds_no_place,
        pods_that_stay_count,
        another_one_goes,
        cordoned_nodes_are_no_targets,
        nodes_of_all_copies,
        pods_without_the_constraint_stay,
        node_selectors_are_affinity,
        domains_have_the_label,
        others_need_no_selection,
    )
    replay("descheduler_placements", moved, recorded, differences)
