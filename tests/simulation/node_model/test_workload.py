from __future__ import annotations

import io

import pytest
from koord_model.priority import PriorityClass
from koord_model.qos import KubeQoS, QoSClass
from koord_prediction.trace import parse
from koord_simulation.node_model.curves import Constant
from koord_simulation.node_model.machine import GIB, SimulatedMachine
from koord_simulation.node_model.workload import Workload, of_trace

BATCH = {"kubernetes.io/batch-cpu": 2000, "kubernetes.io/batch-memory": 4 * GIB}
HALF = {"cpu": 1000, "memory": GIB}


@pytest.mark.parametrize(
    ("requests", "limits", "kube"),
    [
        ({}, {}, KubeQoS.BEST_EFFORT),
        (BATCH, BATCH, KubeQoS.BEST_EFFORT),
        (HALF, {}, KubeQoS.BURSTABLE),
        (HALF, {"cpu": 2000, "memory": GIB}, KubeQoS.BURSTABLE),
        ({}, {"cpu": 1000}, KubeQoS.BURSTABLE),
        (HALF, HALF, KubeQoS.GUARANTEED),
        ({}, HALF, KubeQoS.GUARANTEED),
    ],
)
def test_kubernetes_class_follows_from_requests_and_limits(
    requests: dict[str, int], limits: dict[str, int], kube: KubeQoS
) -> None:
    assert Workload("a", requests=requests, limits=limits).kube is kube


def test_koordlet_sees_a_pod_as_the_kubelet_lists_it() -> None:
    pod = Workload("web", QoSClass.LSR, requests=HALF, limits=HALF, cpus="2-3", containers=2)
    view = pod.view(SimulatedMachine(), 5.0)
    assert view.qos is QoSClass.LSR
    assert view.name == "default/web"
    assert view.group == "kubepods/poduid-default-web"
    assert [one.group for one in view.containers] == [
        f"{view.group}/web-c0",
        f"{view.group}/web-c1",
    ]
    assert view.priority_class is PriorityClass.PROD
    assert '"2-3"' in view.record.pod.annotations["scheduling.koordinator.sh/resource-status"]
    assert view.demand is not None
    assert view.demand.started == 5.0
    assert view.demand.container_requests["c1"] == {"cpu": 500, "memory": GIB // 2}


def test_what_a_pod_is_unless_it_says_otherwise() -> None:
    assert Workload("a", QoSClass.BE).spec_priority == 5000
    assert Workload("a", QoSClass.BE, priority=5500).spec_priority == 5500
    assert Workload("a", QoSClass.BE, requests=BATCH).view(SimulatedMachine(), 0).qos is QoSClass.BE
    assert Workload("a", QoSClass.LS).latency_sensitive
    assert not Workload("a", QoSClass.BE).latency_sensitive
    assert Workload("a", QoSClass.BE, service_ms=3).service == 3
    assert not Workload("a", QoSClass.LS, service_ms=0).latency_sensitive
    unlabelled = Workload("a", QoSClass.NONE, requests=HALF).view(SimulatedMachine(), 0)
    assert (unlabelled.asked_qos, unlabelled.qos) == (QoSClass.NONE, QoSClass.LS)


def test_a_container_has_its_part_of_what_the_pod_asks_for() -> None:
    pod = Workload("a", QoSClass.BE, requests=BATCH, limits=BATCH, containers=2)
    assert (pod.cpu_request(), pod.cpu_limit(), pod.memory_limit()) == (1.0, 1.0, 2 * GIB)
    assert Workload("a").cpu_limit() == 0


TRACE = """time,pod,priority,request_cpu,request_memory,cpu,memory
0,web,koord-prod,2,1000,1,500
60,web,koord-prod,2,1000,2,500
120,web,koord-prod,2,1000,1,500
60,job,5000,4,2000,3,100
120,job,5000,4,2000,3,100
0,__node-sys__,,0,0,0.5,50
60,__node-sys__,,0,0,0.5,50
120,__node-sys__,,0,0,0.7,50
"""


def test_a_recorded_trace_becomes_pods_and_a_system() -> None:
    (web, job), cpu, _ = of_trace(parse(io.StringIO(TRACE)), speed=60)
    assert (web.qos, web.start, web.end) == (QoSClass.LS, 0.0, 3.0)
    assert (job.qos, job.start, job.end) == (QoSClass.BE, 1.0, 3.0)
    assert job.requests == {"kubernetes.io/batch-cpu": 4000, "kubernetes.io/batch-memory": 2000}
    assert job.spec_priority == 5000
    assert not isinstance(cpu, Constant)


def test_a_trace_without_a_system_has_the_usual_one() -> None:
    lines = [line for line in TRACE.splitlines(keepends=True) if "sys" not in line]
    pods, cpu, _ = of_trace(parse(io.StringIO("".join(lines))))
    assert len(pods) == 2
    assert cpu == Constant(0.5)
