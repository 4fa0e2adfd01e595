from __future__ import annotations

import pytest
from koord_model.allocation import TopologyHint
from koord_model.demand import Demand
from koord_model.pod import Pod
from koord_proto import resource_plugin_pb2 as pb
from koordlet.resource_plugins.core import requests

LEVEL = "katalyst.kubewharf.io/qos_level"
BINDING = "katalyst.kubewharf.io/memory_enhancement"
BATCH, RECLAIMED = "kubernetes.io/batch-cpu", "resource.katalyst.kubewharf.io/reclaimed_millicpu"
POD = Pod("p", "ns", "uid", {"l": "1"}, {"a": "1"}, "/kubepods/burstable/poduid")


def test_a_container_is_asked_about_as_katalyst_does():
    demand = Demand(
        container_requests={"side": {"cpu": 500}, "main": {"cpu": 1500, "none": 0}, "idle": {}},
        init_requests={"init": {"memory": 7}},
    )
    pod = Pod(
        **{name: getattr(POD, name) for name in ("name", "namespace", "uid", "cgroup_parent")},
        annotations={"kubernetes.io/main-container-name": "main"},
    )
    init, side, main = requests.containers(pod, demand)
    assert [(one.name, one.kind, one.index) for one in (init, side, main)] == [
        ("init", pb.INIT, 0),
        ("side", pb.SIDECAR, 0),
        ("main", pb.MAIN, 1),
    ]
    asked = requests.container_request(POD, main, "cpu", TopologyHint(0b101, preferred=True))
    assert asked == pb.ResourceRequest(
        pod_uid="uid",
        pod_namespace="ns",
        pod_name="p",
        container_name="main",
        container_type=pb.MAIN,
        container_index=1,
        resource_name="cpu",
        hint=pb.TopologyHint(nodes=[0, 2], preferred=True),
        resource_requests={"cpu": 1.5},
        labels={"l": "1"},
        annotations={"a": "1"},
        native_qos_class="Burstable",
    )


@pytest.mark.parametrize("name", [BATCH, RECLAIMED])
def test_reclaimed_resources_are_of_the_plugins_of_cpu_and_memory(name):
    assert requests.requested({name: 2000}) == {"cpu": (RECLAIMED, 2000)}
    assert requests.requested({name: 2000, "cpu": 1000}) == {"cpu": ("cpu", 1)}


@pytest.mark.parametrize(
    ("annotations", "requires"),
    [
        ({LEVEL: "dedicated_cores", BINDING: '{"numa_binding": "true"}'}, True),
        ({LEVEL: "dedicated_cores", "katalyst.kubewharf.io/numa_binding": "true"}, True),
        ({LEVEL: "dedicated_cores", BINDING: '{"numa_binding": "false"}'}, False),
        ({LEVEL: "dedicated_cores", BINDING: "{"}, False),
        ({LEVEL: "dedicated_cores"}, False),
        ({LEVEL: "shared_cores", BINDING: '{"numa_binding": "true"}'}, False),
    ],
)
def test_who_must_not_run_without_a_hint(annotations, requires):
    assert requests.requires_hint(Pod("p", "ns", "uid", annotations=annotations)) is requires


def test_pods_of_daemon_sets_are_left_alone_unless_they_are_the_systems():
    demand = Demand(controller="DaemonSet")
    assert requests.is_skipped(POD, demand)
    assert not requests.is_skipped(Pod("p", "ns", "u", annotations={LEVEL: "system_cores"}), demand)
