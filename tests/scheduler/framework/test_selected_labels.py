"""Pods that differ in labels by which nobody selects are of one class; once somebody does, not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from koord_model.label_selector import LabelSelector, Operator, Requirement
from koord_scheduler.config.scheduler_config import read_scheduler_config
from koord_scheduler.framework.cluster_kinds import cluster_kinds
from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.plugin import Plugin
from koord_scheduler.state.pod_labels import PodLabels
from koord_scheduler.state.pod_reader import PodReader
from koord_scheduler.state.selected_labels import MOST_BYTES, SelectedLabels

from tests.support.reservations import reservation

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Reservation}]}}}]
"""
PROFILES = [one.profile for one in read_scheduler_config(CONFIG).profiles]
BY_INDEX = {"matchLabels": {"index": "0"}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERM = {"topologyKey": "zone", "labelSelector": BY_INDEX}
SPREAD = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}


class Replicas:
    """Three pods of one template, with an index each."""

    def __init__(self, profiles: list[Profile] = PROFILES) -> None:
        self.scheduler = Scheduler(profiles)
        self.reader = PodReader(self.scheduler.nodes)
        self.kinds = {one.name: one for one in cluster_kinds(self.scheduler)}
        for index in ("0", "1", "2"):
            self.pod(f"p{index}", {"app": "web", "index": index})

    def pod(self, name: str, labels: Mapping[str, str], **spec: Any) -> None:
        metadata = {"name": name, "namespace": "shop", "uid": name, "labels": labels}
        raw = json.dumps({"metadata": metadata, "spec": spec}).encode()
        self.scheduler.set_pod(self.reader.read(raw), 0.0)

    def classes(self) -> set[frozenset[str]]:
        """The names of the replicas that wait together."""
        self.scheduler.tick(0.0)
        found = [frozenset(pod.key[-1] for pod in one.pods()) for one in queues(self.scheduler)]
        return {one & set("012") for one in found} - {frozenset()}


def queues(scheduler: Scheduler) -> list[Any]:
    return list(scheduler.queue.classes())


def apart(*groups: str) -> set[frozenset[str]]:
    return {frozenset(one) for one in groups}


def test_labels_by_which_nobody_selects_make_no_classes() -> None:
    assert Replicas().classes() == apart("012")


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": {"podAffinity": {REQUIRED: [TERM]}}},
        {
            "affinity": {
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": TERM}
                    ]
                }
            }
        },
        {"topologySpreadConstraints": [{**SPREAD, "labelSelector": BY_INDEX}]},
        {"topologySpreadConstraints": [{**SPREAD, "matchLabelKeys": ["index"]}]},
        {
            "nodeName": "n1",
            "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}
            },
        },
    ],
)
def test_a_pod_that_selects_by_a_label_tells_others_apart(spec: dict[str, Any]) -> None:
    replicas = Replicas()
    assert replicas.classes() == apart("012")
    replicas.pod("x", {"app": "x"}, **spec)
    assert replicas.classes() == apart("0", "1", "2")


def test_a_service_that_selects_by_a_label_tells_pods_apart() -> None:
    replicas = Replicas()
    kind = replicas.kinds["Service"]
    document = {"metadata": {"name": "s"}, "spec": {"selector": {"index": "0"}}}
    kind.put("shop/s", kind.read(json.dumps(document).encode()))
    assert replicas.classes() == apart("0", "1", "2")


def test_a_reservation_whose_owners_have_a_label_tells_pods_apart() -> None:
    replicas = Replicas()
    document = reservation("r", "1", "n1", owners=[{"labelSelector": BY_INDEX}])
    kind = replicas.kinds["Reservation"]
    kind.put("r", kind.read(json.dumps(document).encode()))
    assert replicas.classes() == apart("0", "1", "2")


class Unknown(Plugin):
    """May look at any label."""

    name = "Unknown"


def test_a_plugin_that_may_read_any_label_has_them_all() -> None:
    profile = Profile("default-scheduler", (EnabledPlugin(Unknown()),))
    assert Replicas([profile]).classes() == apart("0", "1", "2")


def test_a_pod_whose_binding_fails_waits_with_its_like_by_then() -> None:
    replicas = Replicas()
    scheduler = replicas.scheduler
    [pod] = [one for one in scheduler.queue.pods.values() if one.key == "shop/p0"]
    scheduler.nodes.add_pod("n1", pod.waiting.usage)
    scheduler.assume(pod, scheduler.nodes.row_of_pods("n1"))
    scheduler.nodes.selected_labels.add_keys(["index"])
    scheduler.tick(0.0)
    scheduler.forget(pod, 0.0)
    labels = scheduler.queue.pods["shop/p0"].waiting.pod_class.labels.labels
    assert labels == (("index", "0"),)


def test_with_too_many_keys_all_labels_count() -> None:
    selected = SelectedLabels()
    pod = PodLabels("shop", (("app", "web"),))
    for number in range(MOST_BYTES // 100 + 1):
        key = f"{number:0100}"
        selected.add([None, LabelSelector((Requirement(key, Operator.EXISTS, frozenset()),))])
        assert selected.of(pod).labels == (() if number < MOST_BYTES // 100 else pod.labels)
