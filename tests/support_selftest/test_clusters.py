"""Random clusters: reproducible plain JSON that has every feature."""

from __future__ import annotations

import json
from random import Random

from tests.support.clusters import random_cluster, random_function_input
from tests.support.clusters.device_nodes import random_device_node, random_reserved_devices
from tests.support.clusters.npu_nodes import random_npu_node
from tests.support.clusters.reservation_nodes import (
    random_reservation_life,
    random_reservation_node,
)

MAKERS = (
    random_cluster,
    random_function_input,
    random_device_node,
    random_npu_node,
    random_reservation_life,
    random_reservation_node,
    random_reserved_devices,
)
FEATURES = {
    *("taints", "unschedulable", "images", "declaredFeatures", "services", "pvcs", "csiNodes"),
    *("nodeAffinity", "podAffinity", "podAntiAffinity", "nodeSelector", "matchFields"),
    *("namespaceSelector", "matchLabelKeys", "mismatchLabelKeys", "minDomains"),
    *("nodeAffinityPolicy", "nodeTaintsPolicy", "hostPort", "hostIP", "tolerations"),
    *("initContainers", "overhead", "allocatedResources", "deletionTimestamp", "args"),
}


def test_a_seed_always_makes_the_same_input() -> None:
    for make in MAKERS:
        for seed in range(50):
            assert json.dumps(make(Random(seed))) == json.dumps(make(Random(seed)))


def test_two_hundred_clusters_have_every_feature() -> None:
    text = json.dumps([random_cluster(Random(seed)) for seed in range(200)])
    assert {feature for feature in FEATURES if f'"{feature}"' not in text} == set()


def test_pods_are_bound_to_nodes_of_the_cluster_or_to_one_that_is_gone() -> None:
    for seed in range(50):
        cluster = random_cluster(Random(seed))
        names = {one["metadata"]["name"] for one in cluster["nodes"]}
        assert {one["spec"]["nodeName"] for one in cluster["pods"]} <= names | {"gone"}
