"""DefaultEvictor keeps pods by upstream's rules, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from koord_descheduler.plugins.default_evictor.args import DefaultEvictorArgs
from koord_descheduler.plugins.default_evictor.plugin import (
    ANNOTATION_EVICT,
    ANNOTATION_NO_EVICTION,
    DefaultEvictor,
)

from tests.descheduler.clusters import TestCluster, node, pod
from tests.descheduler.framework.test_round import Emptying


def args(**fields: Any) -> DefaultEvictorArgs:
    return msgspec.convert(fields, DefaultEvictorArgs)


def why(given: Mapping[str, Any], *others: Any, **fields: Any) -> str:
    """Why a pod on a node stays; "" if it moves."""
    cluster = TestCluster()
    cluster.put(node("a", unschedulable=True, labels={"pool": "x"}), node("b"))
    cluster.put(dict(given), *others)
    plan = cluster.round(Emptying(), DefaultEvictor(args(**fields)))
    return next((one.why for one in plan.refusals if one.pod.name == "p"), "")


LOCAL = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
CLAIM = {"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}}
FAILED = {"status": {"phase": "Failed"}}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}


@pytest.mark.parametrize(
    ("given", "fields", "expected"),
    [
        ({}, {}, ""),
        ({"owner": None}, {}, "it has no owner that would make it anew"),
        ({"owner": None, **FAILED}, {}, "it failed and has no owner (FailedBarePods)"),
        (LOCAL, {}, "it has local storage (PodsWithLocalStorage)"),
        (LOCAL, {"evictLocalStoragePods": True}, ""),
        (LOCAL, {"podProtections": {"defaultDisabled": ["PodsWithLocalStorage"]}}, ""),
        (CLAIM, {"ignorePvcPods": True}, "it has a PersistentVolumeClaim (PodsWithPVC)"),
        (
            CLAIM,
            {"podProtections": {"extraEnabled": ["PodsWithPVC"]}},
            "it has a PersistentVolumeClaim (PodsWithPVC)",
        ),
        ({"annotations": {ANNOTATION_NO_EVICTION: ""}}, {}, ""),
        (
            {"annotations": {ANNOTATION_NO_EVICTION: ""}},
            {"noEvictionPolicy": "Mandatory"},
            f"it has the annotation {ANNOTATION_NO_EVICTION}",
        ),
        (
            {"spec": {"priority": 10}},
            {"priorityThreshold": {"value": 10}},
            "its priority 10 is not below priorityThreshold 10",
        ),
        ({"spec": {"priority": 9}}, {"priorityThreshold": {"value": 10}}, ""),
        ({}, {"priorityThreshold": {"value": -1}}, ""),
        (
            {},
            {"labelSelector": {"matchLabels": {"app": "other"}}},
            "labelSelector does not select it",
        ),
        (
            {},
            {"namespaceLabelSelector": {"matchLabels": {"team": "x"}}},
            "namespaceLabelSelector does not select its namespace default",
        ),
        ({}, {"nodeFit": True, "nodeSelector": "pool=x"}, "it fits on no other node (nodeFit)"),
        ({}, {"nodeFit": True, "nodeSelector": "pool!=x"}, ""),
        ({}, {"nodeSelector": "pool=x"}, ""),
        (
            {},
            {"ignorePodsWithoutPDB": True},
            "no PodDisruptionBudget selects it (PodsWithoutPDB)",
        ),
        ({}, {"minPodAge": "2h"}, "it is 3600 s old, minPodAge is 7200 s"),
        ({}, {"minPodAge": "1h"}, ""),
        (
            {},
            {"minReplicas": 2},
            "ReplicaSet default/app has 1 pods, minReplicas is 2",
        ),
        (
            {"annotations": {ANNOTATION_EVICT: "x"}, **LOCAL},
            {"minReplicas": 2, "minPodAge": "2h"},
            "",
        ),
    ],
)
def test_who_stays(given: Mapping[str, Any], fields: Mapping[str, Any], expected: str) -> None:
    assert why(pod("p", "a", **given), NAMESPACE, **fields) == expected


def test_copies_and_namespaces_count() -> None:
    labelled = {**NAMESPACE, "metadata": {"name": "default", "labels": {"team": "x"}}}
    selector = {"matchLabels": {"team": "x"}}
    copy = pod("q", "b")
    found = why(pod("p", "a"), copy, labelled, minReplicas=2, namespaceLabelSelector=selector)
    assert found == ""


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"evictDaemonSetPods": True}, "a.evictDaemonSetPods is true; expected false"),
        ({"minPodAge": "1 h"}, 'a.minPodAge is "1 h"; expected a duration like 5m or 1h'),
        ({"nodeSelector": "=,"}, "a.nodeSelector"),
        ({"labelSelector": {"matchLabels": 3}}, "a.labelSelector"),
        (
            {"priorityThreshold": {"name": "high"}},
            'a.priorityThreshold.name is "high"; expected nothing; give the value',
        ),
        (
            {"podProtections": {"defaultDisabled": ["DaemonSetPods"]}},
            'a.podProtections.defaultDisabled is "DaemonSetPods"; expected FailedBarePods or Pods',
        ),
        (
            {"podProtections": {"extraEnabled": ["FailedBarePods"]}},
            'a.podProtections.extraEnabled is "FailedBarePods"; expected PodsWithPVC or PodsWith',
        ),
        (
            {"podProtections": {"extraEnabled": ["PodsWithPVC", "PodsWithPVC"]}},
            'a.podProtections.extraEnabled is "PodsWithPVC, PodsWithPVC"; expected each',
        ),
        (
            {"podProtections": {"extraEnabled": ["PodsWithPVC"]}, "evictFailedBarePods": True},
            "a.evictFailedBarePods is true; expected podProtections alone to say it",
        ),
        (
            {
                "podProtections": {
                    "config": {"PodsWithPVC": {"protectedStorageClasses": [{"name": "fast"}]}}
                }
            },
            "a.podProtections.config.PodsWithPVC.protectedStorageClasses is an object; expected",
        ),
    ],
)
def test_errors(fields: Mapping[str, Any], line: str) -> None:
    [found] = args(**fields).problems("a")
    assert found.startswith(line)


def test_pods_that_ended_need_no_node_that_they_fit_on() -> None:
    ended = {"owner": "x", "status": {"phase": "Failed"}}
    assert why(pod("p", "a", **ended), nodeFit=True, nodeSelector="pool=x") == ""


def test_pods_stay_until_they_have_started() -> None:
    new = pod("p", "a", status={"startTime": None}, creationTimestamp="2023-11-14T20:13:20Z")
    assert why(new, minPodAge="1m") == "it is not started, minPodAge is 60 s"
    assert why(new) == ""
