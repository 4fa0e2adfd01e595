"""What koordlet reports, the scheduler gives away; what it writes, koordlet's hooks read."""

from __future__ import annotations

import json

import pytest
from koord_manager.noderesource.core.gpu_resource import gpu
from koord_manager.pod_webhook.device_spec import mutated
from koord_manager.program.gates import gates_of
from koord_manager.webhooks.cluster_view import ClusterView
from koord_model.device_allocated import devices_of
from koord_model.keys import ANNOTATION_DEVICE_ALLOCATED, NPU_CORE, NPU_CPU
from koord_model.node_info import (
    GPUs,
    RDMADevices,
    SchedulableDevice,
    VirtualFunctions,
    XPUs,
)
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.plugins.device_share.assumed_devices import device_reservation
from koord_scheduler.plugins.device_share.candidates import DeviceRejection
from koord_scheduler.plugins.device_share.device_allocation import allocate
from koord_scheduler.plugins.device_share.device_object import read_device_report
from koord_scheduler.plugins.device_share.device_plugins import adaption
from koord_scheduler.plugins.device_share.device_scores import DeviceScorer
from koord_scheduler.plugins.device_share.gpu_templates import read_gpu_templates
from koord_scheduler.plugins.device_share.node_device_state import NodeDeviceState, gpu_labels
from koordlet.metrics_reporter.documents.device import device

from tests.scheduler.plugins.device_share.device_cases import CORE, MEMORY, RATIO, SHARED, K, needs
from tests.scheduler.plugins.device_share.device_cases import RDMA as RDMA_RESOURCE
from tests.scheduler.plugins.node_numa_resource.test_numa_alignment import CARDS as NUMA_CARDS
from tests.scheduler.plugins.node_numa_resource.test_numa_alignment import Cluster, card
from tests.support.views import pod_view

TOTAL = {CORE: 100, MEMORY: 80 << 30, RATIO: 100}
CARDS = tuple(
    SchedulableDevice("gpu", f"GPU-{one}", one, TOTAL, numa_node=one, pcie=f"pci0000:{one}")
    for one in range(2)
)
FUNCTIONS = VirtualFunctions(("0000:3b:00.2", "0000:3b:00.3"), {"kind": "fast"})
NIC = SchedulableDevice(
    "rdma",
    "0000:3b:00.0",
    0,
    {RDMA_RESOURCE: 100},
    numa_node=1,
    pcie="pci0000:1",
    bus="0000:3b:00.0",
    virtual_functions=(FUNCTIONS,),
)


GPU_NODE = [card(minor, numa) for numa, minors in NUMA_CARDS.items() for minor in minors]


def test_a_part_of_a_card_and_a_function_under_its_switch() -> None:
    reported = device("n1", "u", GPUs(CARDS, "nvidia", "A100", "570"), None, RDMADevices((NIC,)), 0)
    report = read_device_report(json.dumps(reported).encode())
    assert report.ignored == ()
    pod = needs(
        {f"{K}gpu": 50, RDMA_RESOURCE: 1},
        device_joint_allocate={"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"},
        device_allocate_hint={"rdma": {"vfSelector": {"matchLabels": {"kind": "fast"}}}},
    )
    found = allocate(pod, NodeDeviceState(report.has), DeviceScorer())
    assert not isinstance(found, DeviceRejection)
    written = dict(device_reservation(found, report.ids).annotations)[ANNOTATION_DEVICE_ALLOCATED]
    assert written is not None
    given = pod_view(annotations={ANNOTATION_DEVICE_ALLOCATED: written}).record.pod
    (part,), ignored = devices_of(given, "gpu")
    amounts = ((f"{K}gpu-core", 50), (MEMORY, 40 << 30), (RATIO, 50))
    assert (part.minor, part.resources, ignored) == (1, amounts, ())
    (nic,), ignored = devices_of(given, "rdma")
    assert (nic.addresses, ignored) == (("0000:3b:00.2",), ())


def test_a_part_of_an_npu_by_its_template() -> None:
    part = {NPU_CORE: 2, NPU_CPU: 2, MEMORY: 6 << 30}
    total = {NPU_CORE: 8, NPU_CPU: 7, MEMORY: 21 << 30, RATIO: 100}
    npus = XPUs((SchedulableDevice("gpu", "N-0", 0, total),), "huawei", "Ascend 310P3")
    reported = device("n1", "u", None, npus, None, 0)
    assert reported is not None
    report = read_device_report(json.dumps(reported).encode())
    labels = gpu_labels(reported["metadata"]["labels"])  # which the manager copies to the Node
    texts = {"data.yaml": json.dumps({f"huawei-{labels.model}": {"vir02": part}})}
    templates = read_gpu_templates(json.dumps({"data": texts}).encode())
    of_model = templates.of_models(frozenset({NPU_CORE}))[f"{labels.vendor}-{labels.model}"]
    state = NodeDeviceState(report.has, labels, templates=of_model)
    found = allocate(needs({**part, SHARED: 1}), state, DeviceScorer())
    assert not isinstance(found, DeviceRejection)
    reported = adaption(found, report.gpu_model, "", "n1", 7)
    assert reported.annotations["huawei.com/npu-core"] == "0-vir02"
    written = dict(device_reservation(found, report.ids).annotations)[ANNOTATION_DEVICE_ALLOCATED]
    assert written is not None
    given = pod_view(annotations={ANNOTATION_DEVICE_ALLOCATED: written}).record.pod
    (card,), ignored = devices_of(given, "gpu")
    assert (card.minor, card.template, ignored) == (0, "vir02", ())
    assert dict(card.resources) == {**part, RATIO: 28}


@pytest.mark.parametrize(
    "request_of",
    [{f"{K}gpu": "50"}, {f"{K}gpu": "200"}, {RATIO: "30"}, {MEMORY: "8Gi", CORE: "20"}],
)
def test_a_pod_of_the_docs_fits_once_webhook_and_manager_did_their_work(
    request_of: dict[str, str],
) -> None:
    cluster = Cluster()
    cluster.node("n1")
    gates, _ = gates_of(())
    given = {"metadata": {"name": "n1", "labels": {}}, "spec": {"devices": GPU_NODE}}
    offered = gpu(given, gates).resources
    amounts = {name: str(amount) for name, amount in offered.items() if amount is not None}
    allocatable = {"cpu": "8", "memory": "16Gi", "pods": "110", **amounts}
    node = {"metadata": {"name": "n1"}, "status": {"allocatable": allocatable}}
    cluster.put("Node", "n1", node)
    container = {"name": "c", "resources": {"requests": request_of, "limits": request_of}}
    made = mutated({"spec": {"containers": [container]}}, "", ClusterView(gates=gates), [])
    metadata = {"name": "web", "namespace": "shop", "uid": "web"}
    cluster.put("Pod", "shop/web", {"metadata": metadata, **made})
    assert isinstance(cluster.scheduler.decide(0.0), Placement)
