"""Results of checks of a cluster, by what its objects and the leaders' pages say."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Callable
from typing import Any

import pytest
from koord_kube.definitions.catalogue import DEFINITIONS
from koordctl.doctor.check_results import Level
from koordctl.doctor.cluster_checks import check_cluster
from koordctl.doctor.cluster_survey import ClusterSurvey

NOW = datetime.datetime(2026, 1, 1, 12, 0, 0, tzinfo=datetime.UTC)
NAMESPACE = "ns"
Objects = dict[str, Any]


def at(seconds: float) -> str:
    return (NOW + datetime.timedelta(seconds=seconds)).isoformat()


def lease(name: str, namespace: str = NAMESPACE, age: float = 1.0) -> dict[str, Any]:
    spec = {"holderIdentity": "p-0_1", "renewTime": at(-age), "leaseDurationSeconds": 15}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def good() -> Objects:
    """A cluster of two nodes, one with GPUs, where everything works."""
    amounts = {"kubernetes.io/batch-cpu": "4k", "koordinator.sh/gpu-memory": "80Gi"}
    service = {"name": "hooks", "namespace": NAMESPACE}
    hook = {"name": "pods.x", "clientConfig": {"caBundle": "Zm9v", "service": service}}
    condition = {"type": "Available", "status": "True"}
    labels = {"kubernetes.io/service-name": "hooks"}
    return {
        "objects": {
            "Node": [
                {"metadata": {"name": name}, "status": {"allocatable": amounts}} for name in "ab"
            ],
            "CustomResourceDefinition": copy.deepcopy(list(DEFINITIONS)),
            "Lease": [
                lease("koordinator-manager"),
                lease("koord-scheduler"),
                lease("koord-descheduler"),
            ],
            "NodeMetric": [
                {"metadata": {"name": name}, "status": {"updateTime": at(-30)}} for name in "ab"
            ],
            "Device": [{"metadata": {"name": "a"}, "spec": {"devices": [{"type": "gpu"}]}}],
            "MutatingWebhookConfiguration": [{"webhooks": [hook]}],
            "APIService": [
                {
                    "metadata": {"name": "v1beta1.metrics.k8s.io"},
                    "spec": {"service": service},
                    "status": {"conditions": [condition]},
                }
            ],
            "EndpointSlice": [
                {"metadata": {"labels": labels}, "endpoints": [{"conditions": {"ready": True}}]}
            ],
        },
        "errors": {},
        "probe": {"metadata": {"creationTimestamp": at(0)}},
        "probe_error": "",
        "manager": {"feature_gates": {"EnableSyncGPUSharedResource": True}},
        "scheduler": {"profiles": {"koord-scheduler": ["DeviceShare"]}},
    }


def cut(kind: str) -> Callable[[Objects], None]:
    return lambda survey: survey["objects"][kind].pop(0)


def put(kind: str, found: dict[str, Any]) -> Callable[[Objects], None]:
    return lambda survey: survey["objects"][kind].append(found)


def bare(kind: str, *path: str) -> Callable[[Objects], None]:
    """Empty what is at the path in all objects of a kind."""

    def change(survey: Objects) -> None:
        for part in survey["objects"][kind]:
            *above, last = path
            for name in above:
                part = part[name] if isinstance(part, dict) else part[0][name]
            part[last] = {}

    return change


def old_definition(survey: Objects) -> None:
    survey["objects"]["CustomResourceDefinition"][0]["spec"]["names"]["shortNames"] = ["other"]


def newer_definition(survey: Objects) -> None:
    versions = survey["objects"]["CustomResourceDefinition"][0]["spec"]["versions"]
    versions.append({**versions[0], "name": "v9"})


def no_bundle(survey: Objects) -> None:
    del survey["objects"]["MutatingWebhookConfiguration"][0]["webhooks"][0]["clientConfig"][
        "caBundle"
    ]


def not_ready(survey: Objects) -> None:
    survey["objects"]["EndpointSlice"][0]["endpoints"][0]["conditions"]["ready"] = False


def reported(seconds: float, **annotations: str) -> Callable[[Objects], None]:
    def change(survey: Objects) -> None:
        metric = survey["objects"]["NodeMetric"][0]
        metric["status"]["updateTime"] = at(seconds)
        metric["metadata"]["annotations"] = annotations

    return change


def takes_the_default(survey: Objects) -> None:
    survey["objects"]["Lease"].append(lease("kube-scheduler", "kube-system"))
    survey["scheduler"]["profiles"]["default-scheduler"] = []


def of(name: str, value: object) -> Callable[[Objects], None]:
    return lambda survey: survey.update({name: value})


def found_in(change: Callable[[Objects], None]) -> list[tuple[str, str, str]]:
    survey = good()
    change(survey)
    return [
        (result.level, result.about, f"{result.text} {result.way_out}")
        for result in check_cluster(ClusterSurvey(NAMESPACE, **survey), NOW)
        if result.level != Level.OK
    ]


def test_a_good_cluster_has_nothing_to_mend() -> None:
    assert found_in(lambda _: None) == []


@pytest.mark.parametrize(
    ("change", "level", "about", "words"),
    [
        (cut("CustomResourceDefinition"), "warning", "definitions", "koordctl crds install"),
        (old_definition, "warning", "definitions", "other than those of this koordctl"),
        (newer_definition, "note", "definitions", "does not know"),
        (cut("Lease"), "note", "koord-manager", "no Lease ns/koordinator-manager"),
        (of("manager", {"problems": ["bad key"]}), "problem", "koord-manager", "bad key"),
        (put("Lease", lease("koord-scheduler", "two")), "problem", "schedulers", "two/koord"),
        (takes_the_default, "problem", "schedulers", "both schedule pods of default-scheduler"),
        (no_bundle, "problem", "webhooks", "pods.x has no caBundle"),
        (not_ready, "problem", "webhooks", "the Service ns/hooks has no ready endpoint"),
        (of("probe_error", "failed calling webhook x"), "problem", "webhooks", "calling webhook x"),
        (of("probe_error", "forbidden"), "unknown", "webhooks", "may create pods"),
        (bare("APIService", "status"), "problem", "API services", "metrics.k8s.io is not avail"),
        (cut("NodeMetric"), "warning", "nodes", "no report from 1 of 2 nodes: a"),
        (reported(-301), "warning", "nodes", "silent for over 5 min: 1 of 2 nodes: a"),
        (reported(31), "warning", "clocks", "ahead of the API server: a"),
        (
            of("probe", {"metadata": {"creationTimestamp": at(-31)}}),
            "warning",
            "clocks",
            "differ by 31 s",
        ),
        (of("scheduler", {"profiles": {"x": []}}), "problem", "devices", "has DeviceShare"),
        (of("errors", {"Lease": "leases: forbidden"}), "unknown", "Lease", "may list them"),
    ],
)
def test_what_is_wrong(
    change: Callable[[Objects], None], level: str, about: str, words: str
) -> None:
    [found] = found_in(change)
    assert found[:2] == (level, about)
    assert words in found[2]


def test_a_report_that_is_said_to_be_stale_is_none() -> None:
    [found] = found_in(reported(0, **{"metrics.koordinator.sh/stale-since": "x"}))
    assert found[:2] == ("warning", "nodes")


def test_a_lease_that_expired() -> None:
    [found] = found_in(
        lambda survey: survey["objects"]["Lease"].__setitem__(
            0, lease("koordinator-manager", age=60)
        )
    )
    assert found[:2] == ("problem", "koord-manager")


def test_gpus_that_are_not_offered_name_the_gate() -> None:
    def change(survey: Objects) -> None:
        survey["manager"]["feature_gates"]["EnableSyncGPUSharedResource"] = False
        bare("Node", "status", "allocatable")(survey)

    devices, batch = found_in(change)
    assert devices[:2] == ("problem", "devices")
    assert "EnableSyncGPUSharedResource writes it and is off" in devices[2]
    assert batch[:2] == ("note", "batch")
