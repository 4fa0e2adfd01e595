"""What must be right on a node where nothing goes wrong, one check after the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

from koord_kube.protocol.resources import (
    ELASTIC_QUOTAS,
    EVENTS,
    NODE_METRICS,
    NODES,
    POD_GROUPS,
    RESERVATIONS,
)
from koord_model.keys import (
    ANNOTATION_RESERVATION_ALLOCATED,
    BATCH_CPU,
    BATCH_MEMORY,
    LABEL_EVICTION_ENABLED,
    LABEL_POD_GROUP,
    LABEL_QOS,
    LABEL_QUOTA_NAME,
)
from koord_model.quantity import milli

from tests.chaos_whole.api import Document
from tests.chaos_whole.kubernetes import NODE, RESERVED
from tests.chaos_whole.pods import (
    BATCH,
    CONTAINER,
    EXCLUSIVE,
    MEMORY,
    NAMESPACE,
    PLAIN,
    SERVICE,
    PodKind,
    given_cpus,
    pod_group,
    read,
)
from tests.chaos_whole.population import Population
from tests.chaos_whole.whole import Whole
from tests.support.batch_terms import reckoned
from tests.support.colocation import MARGIN, PERIOD, QUOTA
from tests.support.processes import until
from tests.support.quota_cluster import quota_object

BURNING = ("/bin/sh", "-c", "while :; do :; done")
BURST_PERCENT = 300
BURST = {"policy": "cfsQuotaBurstOnly", "cfsQuotaBurstPercent": BURST_PERCENT}
TOO_LITTLE = {
    "enable": True,
    "cpuAllocatableEvictThresholdPercent": 2,
    "cpuAllocatableEvictLowerPercent": 1,
    "allocatableEvictPriorityThreshold": 5999,
}
"""A batch pod that goes is more than two percent of what the node offers."""

Check = Callable[[], None]


def checks(whole: Whole, population: Population) -> Mapping[str, Check]:
    """All of them, by name, in their order; each leaves no pods behind."""
    made = _Checks(whole, population)
    return {
        "batch resources of the node, by arithmetic": made.offer,
        "profile → webhook → batch-cpu → hook → cgroup": made.batch_pod,
        "pods with CPUs of their own": made.exclusive_cpus,
        "a gang": made.gang,
        "a quota": made.quota,
        "a reservation": made.reservation,
        "a resize in place": made.resize,
        "a resize while cpu_burst holds the quota": made.resize_while_bursting,
        "an eviction, with its reason": made.eviction,
    }


class _Checks:
    def __init__(self, whole: Whole, population: Population) -> None:
        self._whole, self._api, self._population = whole, whole.api, population

    def offer(self) -> None:
        """What is left of the node's capacity after margin, system, and a pod that does nothing."""

        def agrees() -> bool:
            node = self._api.get(NODES, NODE)
            status = self._api.get(NODE_METRICS, NODE).get("status", {})
            if not status.get("nodeMetric", {}).get("systemUsage", {}).get("resources"):
                return False
            terms = reckoned({"podsMetric": [], **status}, node, MARGIN, RESERVED)
            offered = node["status"]["allocatable"]
            found = {"cpu": offered.get(BATCH_CPU), "memory": offered.get(BATCH_MEMORY)}
            return found == {name: str(one.amount) for name, one in terms.items()}

        until(agrees, "NodeMetric, reckoning and Node agree")
        capacity = milli(self._api.get(NODES, NODE)["status"]["capacity"]["cpu"])
        offered = int(self._api.get(NODES, NODE)["status"]["allocatable"][BATCH_CPU])
        kept = int(capacity * MARGIN["cpu"] / 100) + RESERVED["cpu"]
        # What it uses nevertheless is next to nothing.
        assert capacity - kept - 20 <= offered <= capacity - kept, (capacity, kept, offered)

    def batch_pod(self) -> None:
        name = self._population.create(BATCH)
        pod = self._population.pod(name)
        asked = pod["spec"]["containers"][0]["resources"]
        size = BATCH.memory
        assert asked == {
            "requests": {BATCH_CPU: str(BATCH.request), BATCH_MEMORY: f"{size // 4}Mi"},
            "limits": {BATCH_CPU: str(BATCH.limit), BATCH_MEMORY: f"{size}Mi"},
        }, asked
        assert pod["metadata"]["labels"][LABEL_QOS] == "BE"
        assert pod["spec"]["priorityClassName"] == "koord-batch"
        self._population.settle("a batch pod is right")
        # Another that wants more than the node offers waits for ever.
        offered = int(self._api.get(NODES, NODE)["status"]["allocatable"][BATCH_CPU])
        large = self._population.create(BATCH.sized(offered, offered))
        until(lambda: BATCH_CPU in self._why_pending(large), f"too large a pod lacks {BATCH_CPU}")
        self._population.clear()

    def exclusive_cpus(self) -> None:
        """Two pods with a CPU each: not the same."""
        names = [self._population.create(EXCLUSIVE) for _ in range(2)]
        self._population.settle("pods with CPUs of their own are right")
        given = [given_cpus(self._population.pod(name)) for name in names]
        assert all(len(one) == EXCLUSIVE.request // 1000 for one in given), given
        assert not given[0] & given[1], given
        self._population.clear()

    def gang(self) -> None:
        """Two of three wait; all three run."""
        spec = {"minMember": 3, "scheduleTimeoutSeconds": 600}
        self._api.create(POD_GROUPS, _named("band", spec), NAMESPACE)
        kind = _labelled(PLAIN, **{LABEL_POD_GROUP: "band"})
        two = [self._population.create(kind) for _ in range(2)]
        until(lambda: all(self._why_pending(one) for one in two), "two of three wait")
        assert not any(self._population.pod(one)["spec"].get("nodeName") for one in two)
        self._population.create(kind)
        self._population.settle("a gang is right")
        self._population.clear()
        self._api.delete(POD_GROUPS, "band", NAMESPACE)

    def quota(self) -> None:
        """One pod of two has room, then the other."""
        most = {"cpu": f"{PLAIN.request}m"}
        spec = quota_object("team", most, most)["spec"]
        self._api.create(ELASTIC_QUOTAS, _named("team", spec), NAMESPACE)
        kind = _labelled(PLAIN, **{LABEL_QUOTA_NAME: "team"})
        first = self._population.create(kind)
        self._population.settle("a pod of a quota is right")
        second = self._population.create(kind)
        until(lambda: "quota" in self._why_pending(second).lower(), "the quota is used up")
        until(lambda: self._used_of_quota() == PLAIN.request, "the quota says what is used")
        self._population.delete(first)
        self._population.settle("the next pod of a quota is right")
        self._population.clear()
        self._api.delete(ELASTIC_QUOTAS, "team", NAMESPACE)

    def reservation(self) -> None:
        """Room that is kept is taken by who may have it."""
        kind = _labelled(PLAIN, app="reserving")
        spec = {
            "template": {"spec": kind.document("-")["spec"]},
            "owners": [{"labelSelector": {"matchLabels": {"app": "reserving"}}}],
        }
        self._api.create(RESERVATIONS, _named("room", spec))
        until(lambda: self._reservation_phase() == "Available", "the reservation has room")
        name = self._population.create(kind)
        self._population.settle("the reservation's owner is right")
        annotations = self._population.pod(name)["metadata"]["annotations"]
        assert json.loads(annotations[ANNOTATION_RESERVATION_ALLOCATED])["name"] == "room"
        until(lambda: self._reservation_phase() == "Succeeded", "the reservation is used")
        self._population.clear()
        self._api.delete(RESERVATIONS, "room")

    def resize(self) -> None:
        """Up, and down again."""
        name = self._population.create(SERVICE)
        self._population.settle("a service is right")
        for request, limit in ((120, 450), (30, 200)):
            self._resize(name, SERVICE.sized(request, limit))
            self._population.settle(f"a service resized to {request}m, {limit}m is right")
        self._population.clear()

    def resize_while_bursting(self) -> None:
        """A quota that is raised follows what it is raised from, up and down."""
        kind = replace(SERVICE, limit=100, command=BURNING)
        name = self._population.create(kind)
        self._population.settle("a busy service is right")
        self._whole.configure(cpu_burst_config={"clusterStrategy": BURST})
        self._bursts(name, kind)
        for limit in (200, 80):
            kind = kind.sized(kind.request, limit)
            self._resize(name, kind)
            self._bursts(name, kind)
        self._whole.configure(cpu_burst_config={"clusterStrategy": {"policy": "none"}})
        self._population.settle("a service that may not burst any more is right")
        self._population.clear()

    def eviction(self) -> None:
        """More is promised than the node is said to offer: the pod goes, and it is said why."""
        name = self._population.create(
            _labelled(BATCH.sized(100, 200), **{LABEL_EVICTION_ENABLED: "true"})
        )
        self._population.settle("a batch pod is right")
        self._whole.configure(resource_threshold_config={"clusterStrategy": TOO_LITTLE})
        until(lambda: self._evicted(name), "the pod is evicted, and an Event says why")
        self._whole.configure(resource_threshold_config={"clusterStrategy": {"enable": False}})
        self._population.clear()

    # ----

    def _bursts(self, name: str, kind: PodKind) -> None:
        """Wait until the quota is as far up as it may be."""
        pod = self._population.pod(name)
        container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        most = kind.limit * PERIOD // 1000 * BURST_PERCENT // 100
        seen: dict[str, object] = {}

        def is_at_its_most() -> bool:
            seen.update(read(self._whole.machine, f"{pod_group(pod)}/{container}", {QUOTA, MEMORY}))
            return seen[QUOTA] == most

        try:
            until(is_at_its_most)
        except AssertionError:
            raise AssertionError(f"{name}, limit {kind.limit}m: {seen}, not {most}") from None

    def _resize(self, name: str, kind: PodKind) -> None:
        change = {"spec": {"containers": [{"name": CONTAINER, "resources": kind.resources}]}}
        self._population.change(name, kind, change, subresource="resize")

    def _why_pending(self, name: str) -> str:
        """What the scheduler says of a pod that waits; "" as long as it has said nothing."""
        conditions = self._population.pod(name).get("status", {}).get("conditions", ())
        return next((one["message"] for one in conditions if one["type"] == "PodScheduled"), "")

    def _reservation_phase(self) -> str:
        return str(self._api.get(RESERVATIONS, "room").get("status", {}).get("phase", ""))

    def _used_of_quota(self) -> int:
        status = self._api.get(ELASTIC_QUOTAS, "team", NAMESPACE).get("status", {})
        return milli(status.get("used", {}).get("cpu", "0"))

    def _evicted(self, name: str) -> bool:
        there = {one["metadata"]["name"] for one in self._population.list()}
        said = [
            one["message"]
            for one in self._api.list(EVENTS, NAMESPACE)
            if one["involvedObject"]["name"] == name and one["reason"] == "evictPodSuccess"
        ]
        return name not in there and any("cpu_allocatable_evict: " in one for one in said)


def _named(name: str, spec: Document) -> Document:
    return {"metadata": {"name": name}, "spec": spec}


def _labelled(kind: PodKind, **labels: str) -> PodKind:
    return replace(kind, labels={**kind.labels, **labels})
