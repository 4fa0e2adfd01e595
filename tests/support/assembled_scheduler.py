"""A scheduler with every plugin on, in a random cluster that changes under it.

``AssembledCluster.documents`` is what the API has; all checks are computed from it, and from what
was decided since.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

from koord_model import cpuset
from koord_model.keys import (
    ANNOTATION_CPU_TOPOLOGY,
    ANNOTATION_DEVICE_ALLOCATED,
    ANNOTATION_NUMA_TOPOLOGY_SPEC,
    ANNOTATION_RESERVATION_ALLOCATED,
    ANNOTATION_RESOURCE_SPEC,
    ANNOTATION_RESOURCE_STATUS,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    LABEL_QUOTA_NAME,
)
from koord_scheduler.config.known_plugins import EXTENSION_POINTS
from koord_scheduler.config.scheduler_config import scheduler_config
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.decisions import Decision, Placement, PreemptionPlan
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.io.placement_annotations import placement_annotations
from koord_scheduler.plugins.dynamic_resources.assumed_claims import (
    AssumedClaims,
    release_claims,
)
from koord_scheduler.plugins.dynamic_resources.columns import ClaimColumns
from koord_scheduler.program.make_scheduler import make_scheduler

from tests.support import assembled_claims
from tests.support.gangs import gang_annotations
from tests.support.reservations import OF_WEB, reservation

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
KOORDINATOR = {
    "LoadAwareScheduling": 1,
    "NodeNUMAResource": 1,
    "DeviceShare": 1,
    "Reservation": 5000,
    "ElasticQuota": 0,
    "Coscheduling": 0,
    "NodeResourcesFitPlus": 2,
    "ScarceResourceAvoidance": 2,
    "SchedulingHint": 0,
}
START = 1_767_225_600.0
CPUS, CARDS = 8, 2
CARD = {GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_MEMORY: "16Gi"}
Document = dict[str, Any]


def random_config(rng: Random, *, every_plugin: bool) -> Document:
    """A configuration with all plugins, or with some, at any weight."""
    enabled = [
        {"name": name, "weight": rng.choice([weight, 1 + rng.randrange(9)])}
        for name, weight in KOORDINATOR.items()
        if every_plugin or rng.random() < 0.6
    ]
    unscored = [one for one in enabled if "score" not in EXTENSION_POINTS[one["name"]]]
    for one in unscored:
        one.pop("weight")
    arguments = [
        {"name": "Reservation", "args": {"enablePreemption": rng.random() < 0.5}},
        {
            "name": "NodeNUMAResource",
            "args": {"scoringStrategy": {"type": rng.choice(["LeastAllocated", "MostAllocated"])}},
        },
    ]
    on = {one["name"] for one in enabled}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "profiles": [
            {
                "plugins": {"multiPoint": {"enabled": enabled}},
                "pluginConfig": [one for one in arguments if one["name"] in on],
            }
        ],
    }


class AssembledCluster:
    """Documents of the API by kind and key, and the scheduler that hears of them.

    ``binding`` are the placements on their way, with what the pods are at the API.
    """

    def __init__(self, rng: Random, *, every_plugin: bool = True) -> None:
        self.rng = rng
        self.config = random_config(rng, every_plugin=every_plugin)
        self.plugins = {
            one["name"] for one in self.config["profiles"][0]["plugins"]["multiPoint"]["enabled"]
        }
        self.documents: dict[str, dict[str, Document]] = {}
        self.binding: dict[str, Placement] = {}
        self.now = 0.0
        self.made = 0
        self.scheduler = self._scheduler()
        self.put("DeviceClass", "accel", assembled_claims.DEVICE_CLASS)

    # ---- the scheduler

    def _scheduler(self) -> Scheduler:
        made = make_scheduler(scheduler_config(self.config), seed=1)
        kinds = [*cluster_kinds(made, lambda: self.now), pod_kind(made, lambda: self.now)]
        self._kinds = {one.resource.kind: one for one in kinds if one.is_needed}
        self._tick(made)
        return made

    def _tick(self, scheduler: Scheduler) -> None:
        scheduler.tick(self.now, START + self.now)

    def restart(self) -> None:
        """Another replica leads, and knows what the API has."""
        self.binding.clear()
        self.scheduler = self._scheduler()
        for kind, documents in self.documents.items():
            for key in documents:
                self._say(kind, key)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self._tick(self.scheduler)
        self.scheduler.wake(self.now)

    def decide(self) -> Decision | None:
        decision = self.scheduler.decide(self.now)
        if isinstance(decision, Placement):
            self.binding[decision.pod.key] = decision
        elif isinstance(decision, PreemptionPlan):
            for victim in decision.preemption.victims:
                self.evict(victim.key)
        return decision

    # ---- the API

    def put(self, kind: str, key: str, document: Document) -> None:
        self.documents.setdefault(kind, {})[key] = document
        self._say(kind, key)

    def remove(self, kind: str, key: str) -> None:
        document = self.documents[kind].pop(key)
        if kind in self._kinds:
            self._kinds[kind].remove(key)
        placement = self.binding.pop(f"Reservation/{key}" if kind == "Reservation" else key, None)
        if placement is not None:
            self._release(placement)
        if kind == "Pod":
            left = assembled_claims.without_pod(document, self.of("ResourceClaim"))
            for name, claim in left.items():
                self.put("ResourceClaim", name, claim)

    def _release(self, placement: Placement) -> None:
        """What was assumed of claims is written, or will not be."""
        for one in placement.reserved:
            if isinstance(one, AssumedClaims):
                release_claims(one, self.scheduler.nodes.use(ClaimColumns).objects)

    def fail(self, key: str) -> None:
        """A pod is not bound after all."""
        placement = self.binding.pop(key)
        self._release(placement)
        self.scheduler.forget(placement.pod, self.now)

    def _say(self, kind: str, key: str) -> None:
        followed = self._kinds.get(kind)
        if followed is not None:
            raw = json.dumps(self.documents[kind][key]).encode()
            followed.put(key, followed.read(raw))

    def of(self, kind: str) -> dict[str, Document]:
        return self.documents.get(kind, {})

    def any_key(self, kind: str) -> str:
        return self.rng.choice(sorted(self.of(kind)))

    def evict(self, key: str) -> None:
        """A victim begins to leave."""
        if key in self.of("Pod"):
            document = self.of("Pod")[key]
            metadata = {**document["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
            target = {"type": "DisruptionTarget", "status": "True"}
            status = {"conditions": [{**target, "reason": "PreemptionByScheduler"}]}
            self.put("Pod", key, {**document, "metadata": metadata, "status": status})

    def bind(self, placement: Placement) -> None:
        """A binding arrives: what the pod is by now gets the node."""
        key = placement.pod.key
        pod, claims = self.of("Pod").get(key), self.of("ResourceClaim")
        written = assembled_claims.bound_claims(placement, pod, claims) if pod else {}
        if written is None:
            self.fail(key)
            return
        del self.binding[key]
        for name, claim in written.items():
            self.put("ResourceClaim", name, claim)
        self._release(placement)
        annotations = {name: one for name, one in placement_annotations(placement).items() if one}
        if placement.pod.waiting.stands_for is not None:
            name = placement.pod.waiting.stands_for.name
            document = self.of("Reservation")[name]
            requests = document["spec"]["template"]["spec"]["containers"][0]["resources"]
            status = {
                "phase": "Available",
                "nodeName": placement.node,
                "allocatable": requests["requests"],
            }
            metadata = {**document["metadata"], "annotations": annotations}
            self.put("Reservation", name, {**document, "metadata": metadata, "status": status})
            return
        document = self.of("Pod")[key]
        if placement.release is not None:
            annotations |= placement.release.annotations
        metadata = document["metadata"]
        metadata = {**metadata, "annotations": {**metadata["annotations"], **annotations}}
        spec = {**document["spec"], "nodeName": placement.node}
        self.put("Pod", key, {**document, "metadata": metadata, "spec": spec})

    # ---- what comes and goes

    def name(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    def node(self, name: str) -> None:
        rng = self.rng
        amounts = {"cpu": str(CPUS), "memory": "16Gi", "pods": "10", GPU: str(100 * CARDS)}
        policy = rng.choice(["", "", "BestEffort", "Restricted", "SingleNUMANode"])
        labels = {HOST: name, ZONE: rng.choice("ab")}
        if policy:
            labels["node.koordinator.sh/numa-topology-policy"] = policy
        taints = [{"key": "busy", "effect": "NoSchedule"}] if rng.random() < 0.2 else []
        document = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints},
            "status": {"allocatable": amounts},
        }
        self.put("Node", name, document)
        self.put("NodeResourceTopology", name, _topology(name))
        cards = [
            {"type": "gpu", "minor": one, "health": True, "resources": CARD} for one in range(CARDS)
        ]
        self.put("Device", name, {"metadata": {"name": name}, "spec": {"devices": cards}})
        self.put("NodeMetric", name, self._node_metric(name))
        self.put("ResourceSlice", name, assembled_claims.resource_slice(name))

    def remove_node(self, name: str) -> None:
        for kind in ("Node", "NodeResourceTopology", "Device", "NodeMetric", "ResourceSlice"):
            if name in self.of(kind):
                self.remove(kind, name)

    def _node_metric(self, name: str) -> Document:
        usage = {"cpu": str(self.rng.randrange(CPUS)), "memory": f"{self.rng.randrange(16)}Gi"}
        status = {"updateTime": "2026-01-01T00:00:00Z", "nodeMetric": {"nodeUsage": usage}}
        spec = {"metricCollectPolicy": {"reportIntervalSeconds": 60}}
        return {"metadata": {"name": name}, "spec": spec, "status": status}

    def quota(self, name: str) -> None:
        amounts = {"cpu": str(self.rng.choice([2, 8, 40, 40])), "memory": "400Gi"}
        metadata = {"name": name, "namespace": "shop", "uid": f"u-{name}"}
        self.put(
            "ElasticQuota",
            f"shop/{name}",
            {"metadata": metadata, "spec": {"max": amounts, "min": amounts}},
        )

    def reservation(self) -> None:
        name = self.name("r")
        policy = self.rng.choice(["", "Aligned", "Restricted"])
        document = reservation(
            name,
            str(self.rng.choice([1, 2, 4])),
            owners=[OF_WEB],
            allocateOnce=self.rng.random() < 0.5,
            allocatePolicy=policy,
            pod={"schedulerName": "default-scheduler"},
        )
        self.put("Reservation", name, document)

    def pods(self) -> None:
        """A pod, or a gang of some."""
        rng = self.rng
        gang = self.name("g") if rng.random() < 0.25 else ""
        size = rng.randrange(2, 4) if gang else 1
        base = self._pod()
        if rng.random() < 0.35:
            base = assembled_claims.with_claim(base, self._claim())
        for _ in range(size):
            name = self.name("p")
            metadata = {**base["metadata"], "name": name, "uid": f"u-{name}"}
            if gang:
                given = gang_annotations(gang, size)
                metadata["annotations"] = {**metadata["annotations"], **given}
            self.put("Pod", f"shop/{name}", {**base, "metadata": metadata})

    def _claim(self) -> str:
        """The name of a claim: a new one, or one that others use."""
        if self.of("ResourceClaim") and self.rng.random() < 0.3:
            return self.any_key("ResourceClaim").removeprefix("shop/")
        name = self.name("c")
        self.put("ResourceClaim", f"shop/{name}", assembled_claims.claim(name, self.rng))
        return name

    def _pod(self) -> Document:
        rng = self.rng
        labels = {"app": rng.choice(["web", "db"])}
        annotations: dict[str, str] = {}
        requests = {"cpu": str(rng.choice([1, 1, 2, 9])), "memory": "1Gi"}
        priority = rng.choice([0, 0, 100])
        spec: Document = {"priority": priority, "schedulerName": "default-scheduler"}
        if rng.random() < 0.3:
            labels[LABEL_QUOTA_NAME] = rng.choice(["q1", "q2", "nowhere"])
        match rng.randrange(9):
            case 0:
                requests |= {GPU: str(rng.choice([50, 100, 200]))}
            case 1:
                labels["koordinator.sh/qosClass"] = "LSR"
                spec["priority"] = 9500
            case 2:
                term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}
                anti = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
                spec["affinity"] = {"podAntiAffinity": anti}
            case 3:
                spec["nodeSelector"] = {ZONE: rng.choice("ab")}
            case 4:
                spec["tolerations"] = [{"key": "busy", "operator": "Exists"}]
            case 5:
                selector = {"matchLabels": {"app": labels["app"]}}
                spread = {"maxSkew": 1, "topologyKey": ZONE, "labelSelector": selector}
                spec["topologySpreadConstraints"] = [
                    {**spread, "whenUnsatisfiable": rng.choice(["DoNotSchedule", "ScheduleAnyway"])}
                ]
            case 6:
                annotations[ANNOTATION_RESOURCE_SPEC] = json.dumps(
                    {"preferredCPUBindPolicy": "FullPCPUs"}
                )
                labels["koordinator.sh/qosClass"] = "LSR"
                spec["priority"] = 9500
            case 7:
                policy = rng.choice(["BestEffort", "Restricted", "SingleNUMANode"])
                annotations[ANNOTATION_NUMA_TOPOLOGY_SPEC] = json.dumps(
                    {"numaTopologyPolicy": policy}
                )
        spec["containers"] = [{"name": "c", "image": "i", "resources": {"requests": requests}}]
        metadata = {
            "namespace": "shop",
            "labels": labels,
            "annotations": annotations,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        return {"metadata": metadata, "spec": spec}

    def change(self) -> None:
        """Something happens."""
        rng = self.rng
        match rng.choice(CHANGES):
            case "node":
                self.node(rng.choice(["n1", "n2", "n3", "n4"]))
            case "no node" if self.of("Node"):
                self.remove_node(self.any_key("Node"))
            case "pods":
                self.pods()
            case "pod gone" if self.of("Pod"):
                self.remove("Pod", self.any_key("Pod"))
            case "pod leaves" if self.of("Pod"):
                self.evict(self.any_key("Pod"))
            case "label" if waiting := [
                key for key, one in self.of("Pod").items() if not one["spec"].get("nodeName")
            ]:
                key = rng.choice(sorted(waiting))
                document = self.of("Pod")[key]
                labels = {**document["metadata"]["labels"], "app": rng.choice(["web", "db"])}
                metadata = {**document["metadata"], "labels": labels}
                self.put("Pod", key, {**document, "metadata": metadata})
            case "quota":
                self.quota(rng.choice(["q1", "q2"]))
            case "no quota" if self.of("ElasticQuota"):
                self.remove("ElasticQuota", self.any_key("ElasticQuota"))
            case "reservation":
                self.reservation()
            case "no reservation" if self.of("Reservation"):
                self.remove("Reservation", self.any_key("Reservation"))
            case "load" if self.of("NodeMetric"):
                name = self.any_key("NodeMetric")
                self.put("NodeMetric", name, self._node_metric(name))
            case "no load" if self.of("NodeMetric"):
                self.remove("NodeMetric", self.any_key("NodeMetric"))
            case "no topology" if self.of("NodeResourceTopology"):
                self.remove("NodeResourceTopology", self.any_key("NodeResourceTopology"))
            case "no devices" if self.of("Device"):
                self.remove("Device", self.any_key("Device"))
            case "no claim" if self.of("ResourceClaim"):
                self.remove("ResourceClaim", self.any_key("ResourceClaim"))
            case "no slice" if self.of("ResourceSlice"):
                self.remove("ResourceSlice", self.any_key("ResourceSlice"))
            case "bound" if self.binding:
                self.bind(self.binding[rng.choice(sorted(self.binding))])
            case "not bound" if self.binding:
                self.fail(rng.choice(sorted(self.binding)))
            case "restart":
                self.restart()
            case "later":
                self.wait(rng.choice([0.1, 2.0, 15.0, 90.0]))

    # ---- hard rules, recomputed

    def held(self) -> dict[str, list[Held]]:
        """What each node's pods hold: those that are bound, and those on their way."""
        found: dict[str, list[Held]] = {}
        for key, document in self.of("Pod").items():
            placement = self.binding.get(key)
            node = placement.node if placement else document["spec"].get("nodeName")
            if node:
                written = dict(document["metadata"]["annotations"])
                if placement is not None:
                    written |= placement_annotations(placement)
                found.setdefault(node, []).append(Held(key, document, written))
        return found


CHANGES = (
    *("pods",) * 10,
    *("bound",) * 8,
    *("node", "later") * 4,
    *("pod gone", "reservation") * 2,
    "no node",
    "pod leaves",
    "label",
    "quota",
    "no quota",
    "no reservation",
    "load",
    "no load",
    "no topology",
    "no devices",
    "no claim",
    "no slice",
    "not bound",
    "restart",
)


class Held:
    """A pod on a node, by documents alone."""

    def __init__(self, key: str, document: Document, written: Mapping[str, str | None]) -> None:
        self.key = key
        self.labels: dict[str, str] = document["metadata"]["labels"]
        self.spec: Document = document["spec"]
        [container] = document["spec"]["containers"]
        self.cpus = int(container["resources"]["requests"]["cpu"])
        status = json.loads(written.get(ANNOTATION_RESOURCE_STATUS) or "{}")
        self.cpuset = cpuset.parse(status.get("cpuset") or "")
        devices = json.loads(written.get(ANNOTATION_DEVICE_ALLOCATED) or "{}")
        self.cards = Counter(
            {one["minor"]: int(one["resources"][GPU_CORE]) for one in devices.get("gpu", ())}
        )
        allocated = json.loads(written.get(ANNOTATION_RESERVATION_ALLOCATED) or "{}")
        self.reservation: str = allocated.get("name", "")

    def refuses(self, other: Held) -> bool:
        """Whether its required anti-affinity keeps another pod off its node."""
        anti = self.spec.get("affinity", {}).get("podAntiAffinity")
        return anti is not None and other.labels["app"] == "web"


def _topology(name: str) -> Document:
    detail = [{"id": cpu, "core": cpu // 2, "node": cpu // 4, "socket": 0} for cpu in range(CPUS)]
    has = [{"name": "cpu", "allocatable": "4"}, {"name": "memory", "allocatable": "8Gi"}]
    zones = [{"name": f"node-{zone}", "type": "Node", "resources": has} for zone in (0, 1)]
    annotations = {ANNOTATION_CPU_TOPOLOGY: json.dumps({"detail": detail})}
    return {"metadata": {"name": name, "annotations": annotations}, "zones": zones}
