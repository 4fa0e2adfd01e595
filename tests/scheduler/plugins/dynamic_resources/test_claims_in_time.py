"""Devices in a cluster that changes: what is kept of answers is what would be answered anew."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from koord_model.keys import CPU
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.plugin import Plugin
from koord_scheduler.plugins.dynamic_resources import plugin as dynamic_resources
from koord_scheduler.plugins.dynamic_resources.assumed_claims import AssumedClaims
from koord_scheduler.plugins.dynamic_resources.columns import ClaimColumns
from koord_scheduler.plugins.dynamic_resources.node_answers import NodeAnswers
from koord_scheduler.plugins.dynamic_resources.objects import (
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
    read_device_object,
)
from koord_scheduler.plugins.dynamic_resources.plugin import DynamicResources
from koord_scheduler.plugins.dynamic_resources.pod_claims import CLAIMS
from koord_scheduler.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from koord_scheduler.plugins.node_resources_fit import FitSettings, NodeResourcesFit
from koord_scheduler.plugins.node_unschedulable import NodeUnschedulable
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass, pod_class

from tests.support.clusters.devices import Object, random_device_cluster
from tests.support.clusters.extended_resources import GPU, random_extended_cluster
from tests.support.prepared import prepared

PLUGIN = DynamicResources()
FIT = NodeResourcesFit(FitSettings({CPU: 1, GPU: 2}))
BALANCED = NodeResourcesBalancedAllocation([CPU, GPU])
ENABLED = [EnabledPlugin(PLUGIN, weight=2)]
ALL = [*ENABLED, EnabledPlugin(FIT, weight=3), EnabledPlugin(BALANCED, weight=5)]


def raw(document: Object) -> bytes:
    return json.dumps(document).encode()


class Changes:
    """Random changes of a cluster, and the pods whose claims have devices meanwhile."""

    def __init__(self, rng: Random, given: Object) -> None:
        self.rng, self.given = rng, given
        self.nodes = prepared([PLUGIN], length=1)
        self.held: list[AssumedClaims] = []
        self.there: set[str] = set()
        for kind in ("nodes", "slices", "classes", "claims"):
            for one in given[kind]:
                if kind == "nodes" or rng.random() < 0.8:
                    self.put(kind, one)

    def put(self, kind: str, one: Object) -> None:
        devices, name = self.nodes.use(ClaimColumns).objects, one["metadata"]["name"]
        self.there.add(f"{kind} {name}")
        match kind:
            case "nodes":
                self.nodes.set(read_node(raw(one)))
            case "slices":
                devices.set_slice(name, read_device_object(ResourceSlice, raw(one)))
            case "classes":
                devices.set_class(name, read_device_object(DeviceClass, raw(one)))
            case "claims":
                claim = read_device_object(ResourceClaim, raw(one))
                devices.set_claim(claim.key, claim)

    def change(self, pod: PodClass) -> None:
        kind = self.rng.choice(["nodes", "slices", "slices", "classes", "claims", "claims", "pod"])
        if kind == "pod":
            return self.reserve(pod)
        if not self.given[kind]:
            return None
        one = self.rng.choice(self.given[kind])
        name = one["metadata"]["name"]
        if kind == "nodes":
            labels = {"zone": self.rng.choice("ab")}
            amounts = one.get("status", {}).get("allocatable", {}) | {GPU: self.rng.choice("014")}
            metadata = {**one["metadata"], "labels": labels}
            one = {"metadata": metadata, "status": {"allocatable": amounts}}
        if kind == "nodes" or f"{kind} {name}" not in self.there or self.rng.random() < 0.5:
            return self.put(kind, one)
        self.there.discard(f"{kind} {name}")
        devices = self.nodes.use(ClaimColumns).objects
        if kind == "slices":
            devices.remove_slice(name)
        elif kind == "classes":
            devices.remove_class(name)
        else:
            devices.remove_claim(f"default/{name}")
        return None

    def reserve(self, pod: PodClass) -> None:
        if self.held and self.rng.random() < 0.5:
            return PLUGIN.unreserve(self.held.pop(), self.nodes)
        rows = ClassScores(pod, self.nodes, ENABLED).feasible()
        if len(rows):
            made = PLUGIN.reserve(pod, self.nodes, int(rows[0]))
            assert made is not None or not pod.of(CLAIMS).claims
            self.held += [made] if made is not None else []
        return None

    def check_devices(self) -> None:
        """What is in use is what claims have, each device once, but where claims share it."""
        devices = self.nodes.use(ClaimColumns).objects
        held: Counter[tuple[str, str, str]] = Counter()
        for reservation in self.held:
            for one in reservation.claims:
                if one.allocation is None or not devices.is_in_flight(one.claim.metadata.uid):
                    continue
                for result in one.allocation["devices"]["results"]:
                    if not result.get("adminAccess") and "shareID" not in result:
                        held[result["driver"], result["pool"], result["device"]] += 1
        assert all(number == 1 for number in held.values())


@pytest.mark.parametrize(
    ("make", "enabled"),
    [
        (random_device_cluster, ENABLED),
        (random_extended_cluster, ALL),
        (random_extended_cluster, ALL[1:]),
    ],
)
@pytest.mark.parametrize("seed", range(15))
def test_kept_answers_are_those_that_would_be_given_anew(
    seed: int, make: Callable[[Random], Object], enabled: list[EnabledPlugin]
) -> None:
    rng = Random(f"in time {seed}")
    given = make(rng)
    changes = Changes(rng, given)
    features = changes.nodes.features.values()
    pods = [pod_class(read_pod(raw(given[who])), features) for who in ("pod", "next")]
    kept = [ClassScores(pod, changes.nodes, enabled) for pod in pods]
    for _ in range(30):
        changes.change(rng.choice(pods))
        changes.check_devices()
        for pod, scores in zip(pods, kept, strict=True):
            assert answers(scores) == anew(pod, changes.nodes, enabled)


def answers(scores: ClassScores) -> Object:
    """The score of each node that fits."""
    rows = scores.feasible()
    return dict(zip(rows.tolist(), scores.totals(rows).tolist(), strict=True))


def anew(pod: PodClass, nodes: ClusterState, enabled: list[EnabledPlugin]) -> Object:
    kept, nodes.use(ClaimColumns).answers = (
        nodes.use(ClaimColumns).answers,
        NodeAnswers(nodes.use(ClaimColumns).objects),
    )
    found = answers(ClassScores(pod, nodes, enabled))
    nodes.use(ClaimColumns).answers = kept
    return found


def test_what_takes_too_long_in_one_go_is_found_bit_by_bit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dynamic_resources, "MOST_STEPS_AT_ONCE", 1)
    nodes = prepared([PLUGIN])
    nodes.use(ClaimColumns).objects.set_class("any", DeviceClass())
    names = ("n1", "n2", "n3")
    for name in names:
        nodes.set(read_node(raw({"metadata": {"name": name}})))
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d", "nodeName": name, "pool": pool, "devices": [{"name": "x"}]}
        piece = {"metadata": {"name": name}, "spec": spec}
        nodes.use(ClaimColumns).objects.set_slice(
            name, read_device_object(ResourceSlice, raw(piece))
        )
    request = {"name": "r", "exactly": {"deviceClassName": "any"}}
    metadata = {"name": "c", "namespace": "default", "uid": "u"}
    claim = {"metadata": metadata, "spec": {"devices": {"requests": [request]}}}
    nodes.use(ClaimColumns).objects.set_claim(
        "default/c", read_device_object(ResourceClaim, raw(claim))
    )
    document = {
        "metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]},
    }
    scores = ClassScores(
        pod_class(read_pod(raw(document)), nodes.features.values()), nodes, ENABLED
    )
    assert [len(scores.feasible()) for _ in range(4)] == [1, 2, 3, 3]
    later = nodes.use(ClaimColumns).answers.postponed
    assert len(scores.feasible()) == len(names)
    assert nodes.use(ClaimColumns).answers.postponed == later


def allocated(consumers: list[str]) -> ClusterState:
    """Two nodes, of which the first is cordoned, and a claim with a device there."""
    nodes = prepared([PLUGIN])
    for name in ("n1", "n2"):
        spec = {"unschedulable": name == "n1"}
        nodes.set(read_node(raw({"metadata": {"name": name}, "spec": spec})))
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    results = [{"request": "r", "driver": "d", "pool": "n1", "device": "x"}]
    claim = {
        "metadata": {"name": "c", "namespace": "default", "uid": "u"},
        "status": {
            "allocation": {"devices": {"results": results}, "nodeSelector": selector},
            "reservedFor": [{"resource": "pods", "name": one, "uid": one} for one in consumers],
        },
    }
    nodes.use(ClaimColumns).objects.set_claim(
        "default/c", read_device_object(ResourceClaim, raw(claim))
    )
    return nodes


@pytest.mark.parametrize(
    ("consumers", "is_deallocated"), [([], True), (["p"], True), (["p", "q"], False)]
)
def test_a_claim_that_keeps_its_pod_off_nodes_is_deallocated_if_nobody_else_uses_it(
    consumers: list[str], is_deallocated: bool
) -> None:
    nodes = allocated(consumers)
    document = {
        "metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]},
    }
    pod = pod_class(read_pod(raw(document)), nodes.features.values())
    plugins: list[Plugin] = [NodeUnschedulable(), PLUGIN]
    scores = ClassScores(pod, nodes, [EnabledPlugin(one, weight=0) for one in plugins])
    assert not len(scores.feasible())

    def rows() -> object:
        return scores.rejected_alone_by(PLUGIN.name)

    found = PLUGIN.post_filter(pod, nodes, rows, ())
    assert (found is not None) is is_deallocated
