"""What is shown of the node now."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from koord_host.knobs.weights import RuntimeWeights
from koord_host.planning.jobs import JobKey, JobState
from koord_model.node_info import NodeCPUInfo, Processor
from koord_model.pod import Container, Pod
from koord_model.qos import QoSClass
from koordlet.http_api.documents.node import (
    InformerAge,
    health_document,
    node_document,
    node_psi,
    ready_document,
)
from koordlet.http_api.documents.top import asked_cpu, asked_memory, class_of, top_document
from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.collector import CollectorState
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.support.observed import COLLECTORS, GIB, JOBS, NOW, REPORTS, ObservedNode, busy_node


def test_a_node_of_which_nothing_is_known() -> None:
    observed = ObservedNode().observed()
    node, top = node_document(observed), top_document(observed)
    assert json.loads(json.dumps([node, top], allow_nan=False)) == [node, top]
    assert node["capacity"] == {"cpu": None, "memory": None}
    assert node["usage"] == {"cpu": None, "memory": None, "memory_with_page_cache": None}
    assert (node["machine"], node["psi"], node["numa"], node["peaks"]) == (None, {}, [], None)
    assert (top["pods"], top["classes"], top["node"]["cpu"]) == ([], [], None)


def test_how_the_runtime_makes_weights() -> None:
    """Nothing on cgroup v1; on v2 what is known, and of which container."""
    assert node_document(ObservedNode().observed())["cpu_weights"] is None
    observed = ObservedNode(weights=RuntimeWeights())
    assert node_document(observed.observed())["cpu_weights"] == {}
    assert observed.weights is not None
    observed.weights.learn("kubepods/podu1/c1", 512, 59, 4711)
    found = json.loads(json.dumps(node_document(observed.observed())))["cpu_weights"]
    assert found == {
        "formula": "quadratic",
        "group": "kubepods/podu1/c1",
        "shares": 512,
        "weight": 59,
        "made": 4711,
    }


def test_cpus_that_do_not_run_count_for_nothing() -> None:
    """The kernel does not say where they are."""
    off = replace(Processor(2, core=-1, socket=-1, node=0), online=False)
    cpus = NodeCPUInfo((Processor(0, 0, 0, 0), Processor(1, 1, 0, 0), off))
    node = node_document(ObservedNode(infos=(cpus,)).observed())
    machine = node["machine"]
    assert (machine["cores"], machine["sockets"], machine["numa_nodes"]) == (2, 1, 1)
    assert node["capacity"]["cpu"] == 2


def test_the_node() -> None:
    node = node_document(busy_node(60).observed())
    json.dumps(node, allow_nan=False)
    assert node["capacity"] == {"cpu": 16, "memory": 64 * GIB}
    assert node["machine"]["cores"] == 8
    assert (node["machine"]["smt"], node["machine"]["turbo"]) == (True, None)
    assert {name: set(degrees) for name, degrees in node["psi"].items()} == {
        "cpu": {"some"},
        "memory": {"some", "full"},
        "io": {"some", "full"},
    }
    assert [(one["id"], one["cpu_used"] > 0) for one in node["numa"]] == [(0, True), (1, True)]
    assert node["states"]["pods"] == {"age_seconds": 3.2, "problem": "", "absent": False}
    assert {one["name"]: one["state"] for one in node["collectors"]} == {
        "noderesource": "works",
        "podresource": "works",
        "coldmemory": "unavailable",
        "cpi": "off",
    }
    assert node["cache"]["refused"] == 3
    assert node["reports"]["NodeMetric"] == {
        "way": "direct",
        "leader": "10.0.0.7:9443",
        "age_seconds": 41.0,
        "sent": {"direct": 28, "object": 2},
        "failures": 3,
        "problem": "",
    }
    assert node["reports"]["Device"]["age_seconds"] is None
    assert node["jobs"][1] == {
        "job": "memory.reclaim",
        "target": "kubepods/besteffort/poduid-spark-exec-17",
        "owner": "memory_offload",
        "state": "running",
        "age_seconds": 2.0,
        "deadline_seconds": 30.0,
    }
    ahead = {"NodeMetric": replace(REPORTS["NodeMetric"], reported_at=NOW + 9)}
    node = node_document(ObservedNode(reports=ahead).observed())
    assert node["reports"]["NodeMetric"]["age_seconds"] == 0, "the clock was put back"


@pytest.mark.parametrize(("kind", "fresh"), [("node_cpu_usage", 30), ("node_psi", 150)])
def test_what_is_too_old_is_not_known(kind: str, fresh: float) -> None:
    node = ObservedNode()
    labels = ("cpu", "avg10", "some") if kind == "node_psi" else ()
    node.cache.append(NOW, [Sample(Series(kind, labels), 2.5)])
    observed = node.observed()
    node.now = NOW + fresh
    assert observed.newest(kind) == {labels: 2.5}
    node.now += 0.1
    assert observed.newest(kind) == {}


def test_pressure_of_other_precisions_is_passed_over() -> None:
    node = ObservedNode()
    samples = [
        Sample(Series("node_psi", ("mem", precision, "full")), value)
        for precision, value in (("avg10", 1.5), ("avg300", 80.0))
    ]
    node.cache.append(NOW, samples)
    assert node_psi(node.observed()) == {"memory": {"full": 1.5}}


def test_pods() -> None:
    top = top_document(busy_node(60).observed())
    json.dumps(top, allow_nan=False)
    web = next(one for one in top["pods"] if one["name"] == "web-7c9d8b5f4-x2x9k")
    assert (web["qos"], web["kube_qos"], web["phase"]) == ("LS", "Burstable", "Running")
    assert (web["cpu_request"], web["cpu_limit"], web["memory_request"]) == (2.0, 4.0, 3 * GIB)
    assert [one["name"] for one in web["containers"]] == ["app", "envoy"]
    assert web["containers"][0]["cpu"] == pytest.approx(web["cpu"] * 0.85, abs=1e-3)
    assert web["containers"][0]["psi_cpu"] is None
    assert web["psi_memory"] == pytest.approx(web["psi_cpu"] / 10, abs=1e-3)
    spark = next(one for one in top["pods"] if one["qos"] == "BE")
    assert (spark["cpu_request"], spark["memory_request"]) == (3.0, 4 * GIB)
    assert top["host_applications"][0]["name"] == "nginx"


def test_delays_of_a_pod_are_those_of_its_worst_container() -> None:
    pod = Pod("a", "b", "u", cgroup_parent="/kubepods/podu")
    ids = ("c1", "c2")
    containers = {ident: Container(pod, ident, ident) for ident in ids}
    node = ObservedNode(pods=(PodRecord(pod, containers),))
    for ident, wait in zip(ids, (40.0, 90.0), strict=True):
        node.cache.append(NOW, [Sample(Series("container_disk_wait", ("u", ident)), wait)])
    [shown] = top_document(node.observed())["pods"]
    assert (shown["disk_wait"], shown["tcp_rtt"]) == (90.0, None)
    assert [one["disk_wait"] for one in shown["containers"]] == [40.0, 90.0]


def test_classes_are_the_sums_of_their_pods() -> None:
    top = top_document(busy_node(60).observed())
    assert [(one["qos"], one["pods"]) for one in top["classes"]] == [
        ("LSE", 1),
        ("LSR", 1),
        ("LS", 3),
        ("BE", 3),
    ]
    for row in top["classes"]:
        for key in ("cpu", "memory", "cpu_request", "memory_request"):
            pods = [one[key] for one in top["pods"] if one["qos"] == row["qos"]]
            assert row[key] == pytest.approx(sum(pods), rel=1e-3), key


def test_a_pod_that_no_list_knows_and_nobody_has_measured() -> None:
    record = PodRecord(Pod("a", "b", "u", cgroup_parent="/kubepods/podu"))
    top = top_document(ObservedNode(pods=(record,)).observed())
    [pod] = top["pods"]
    assert {pod[key] for key in ("cpu", "memory", "cpu_request", "throttled", "psi_io")} == {None}
    assert top["classes"] == [
        {"qos": "LSR", "pods": 1, "cpu": None, "memory": None}
        | {"cpu_request": None, "memory_request": None}
    ]


@pytest.mark.parametrize(
    ("label", "group", "expected"),
    [
        ("BE", "burstable", QoSClass.BE),
        ("SYSTEM", "besteffort", QoSClass.SYSTEM),
        ("", "kubepods-besteffort.slice", QoSClass.BE),
        ("", "burstable", QoSClass.LS),
        ("nonsense", "kubepods-podx", QoSClass.LSR),
    ],
)
def test_class_of_a_pod(label: str, group: str, expected: QoSClass) -> None:
    labels = {"koordinator.sh/qosClass": label}
    assert class_of(Pod("a", "b", "u", labels, cgroup_parent=group)) is expected


@pytest.mark.parametrize(
    ("amounts", "cpu", "memory"),
    [
        ({}, None, None),
        ({"cpu": 250, "memory": 7}, 0.25, 7),
        ({"kubernetes.io/batch-cpu": 1500, "kubernetes.io/batch-memory": 8}, 1.5, 8),
        ({"kubernetes.io/mid-cpu": 1, "kubernetes.io/mid-memory": 9}, 0.001, 9),
    ],
)
def test_what_is_asked_for(amounts: dict[str, int], cpu: float | None, memory: int | None) -> None:
    assert (asked_cpu(amounts), asked_memory(amounts)) == (cpu, memory)


def test_health() -> None:
    node = ObservedNode(collectors=COLLECTORS, ages={"pods": InformerAge(1.0)})

    def health() -> tuple[str, list[str]]:
        document, alive = health_document(node.observed())
        assert alive == (document["status"] != "failed")
        return document["status"], document["reasons"]

    assert health() == ("ok", [])
    node.ages["NodeSLO"] = InformerAge(80.0, "refused")
    node.cache.problem = "disk full"
    assert health() == ("degraded", ["metric cache: disk full", "NodeSLO: refused"])
    node.ages, node.cache.problem, node.reports = {}, "", REPORTS
    assert health() == ("degraded", ["report Device: devices: 403 Forbidden"])
    hangs = JobKey("memory.reclaim", "kubepods/pod1", "memory_offload")
    node.reports, node.jobs = {}, (*JOBS, JobState(hangs, "overdue", 47.0, 30.0))
    assert health() == ("degraded", ["job memory.reclaim kubepods/pod1 hangs: began 47 s ago"])
    node.now += 200
    status, reasons = health()
    assert status == "failed"
    assert reasons[0] == "collector noderesource has not looked for 200 s"


def test_ready() -> None:
    waiting = replace(COLLECTORS[0], rounds=0, looked_at=0.0)
    node = ObservedNode(
        collectors=(waiting, CollectorState("cpi", 60.0, False, False, "off")),
        ages={"pods": InformerAge(None, "refused"), "node": InformerAge(None)},
    )
    assert health_document(node.observed())[1], "one that starts is alive"
    assert ready_document(node.observed()) == (
        {
            "status": "waiting",
            "reasons": [
                "collector noderesource has not looked yet",
                "pods: refused",
                "node: not known yet",
            ],
        },
        False,
    )
    # A cluster without a CRD is not waited for.
    missing = InformerAge(None, "nodeslos: 404 no such kind", absent=True)
    node.collectors, node.ages = COLLECTORS, {"pods": InformerAge(0.0), "NodeSLO": missing}
    assert ready_document(node.observed()) == ({"status": "ok", "reasons": []}, True)
