"""Pods get devices of their nodes, and keep them for as long as they have their node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_kube.protocol.pod_requests import annotations_patch
from koord_kube.protocol.request import Request
from koord_model.keys import (
    ANNOTATION_DEVICE_ALLOCATED,
    ANNOTATION_DEVICE_JOINT_ALLOCATE,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    NPU_CORE,
    NPU_CPU,
    RDMA,
)
from koord_scheduler.config.scheduler_config import read_scheduler_config
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.decisions import Placement, PreemptionPlan, Refusal
from koord_scheduler.framework.diagnosis import diagnose
from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.framework.self_check import ROUND_SECONDS, SelfCheck
from koord_scheduler.plugins.device_share.assumed_devices import AssumedDevices
from koord_scheduler.plugins.device_share.candidates import DeviceRejection
from koord_scheduler.plugins.device_share.columns import DeviceColumns
from koord_scheduler.plugins.device_share.device_allocation import (
    MISSING_DEVICE,
    NO_TEMPLATE,
    allocate,
)
from koord_scheduler.plugins.device_share.device_scores import DeviceScorer
from koord_scheduler.plugins.device_share.learned_workload import GPUScores
from koord_scheduler.plugins.device_share.node_device_state import used_devices
from koord_scheduler.plugins.device_share.plugin import DeviceShare, DeviceShareSettings
from koord_scheduler.plugins.device_share.pod_parts import DEVICE_NEEDS
from koord_scheduler.plugins.node_resources_fit import NodeResourcesFit

NUMBER = "koordinator.sh/gpu.shared"
NPUS = {NPU_CORE: "1000", NPU_CPU: "1000"}
AMOUNTS = NPUS | {"cpu": "96", "memory": "960Gi", "pods": "110", GPU: "10000", RDMA: "10000"}
AMOUNTS |= {GPU_CORE: "10000", GPU_MEMORY_RATIO: "10000", GPU_MEMORY: "9Ti", NUMBER: "10000"}


class Cluster:
    """Nodes of so many GPUs under two PCIe switches, with an RDMA card each."""

    def __init__(self, settings: DeviceShareSettings | None = None, **nodes: int) -> None:
        self.plugin = DeviceShare(settings)
        plugins = EnabledPlugin(NodeResourcesFit()), EnabledPlugin(self.plugin, weight=100)
        self.scheduler = Scheduler([Profile("default-scheduler", plugins)])
        kinds = (*cluster_kinds(self.scheduler), pod_kind(self.scheduler, lambda: 0.0))
        self.kinds = {one.resource.kind: one for one in kinds}
        for name, gpus in nodes.items():
            self.node(name)
            self.devices(name, gpus)

    def put(self, kind: str, key: str, document: Mapping[str, Any]) -> None:
        self.kinds[kind].put(key, self.kinds[kind].read(json.dumps(document).encode()))

    def node(self, name: str, **labels: str) -> None:
        given = {f"node.koordinator.sh/{key.replace('_', '-')}": to for key, to in labels.items()}
        metadata = {"name": name, "labels": given}
        self.put("Node", name, {"metadata": metadata, "status": {"allocatable": AMOUNTS}})

    def devices(self, name: str, gpus: int, broken: int = -1) -> None:
        cards = [card(name, minor, minor != broken) for minor in range(gpus)]
        others = [rdma(name, minor) for minor in range(2)]
        document = {"metadata": {"name": name}, "spec": {"devices": [*cards, *others]}}
        self.put("Device", name, document)

    def pod(
        self,
        name: str,
        requests: Mapping[str, str],
        node: str = "",
        priority: int = 0,
        **annotations: str,
    ) -> None:
        container = {"name": "c", "resources": {"requests": {"cpu": "1", **requests}}}
        metadata = {"name": name, "namespace": "shop", "uid": f"u-{name}"}
        spec = {"containers": [container], "nodeName": node, "priority": priority}
        document = {"metadata": {**metadata, "annotations": annotations}, "spec": spec}
        self.put("Pod", f"shop/{name}", document)

    def place(self, name: str, requests: Mapping[str, str], **annotations: str) -> Placement:
        self.pod(name, requests, **annotations)
        decision = self.scheduler.decide(0.0)
        assert isinstance(decision, Placement), decision
        return decision

    def why_not(self, name: str, requests: Mapping[str, str], **annotations: str) -> list[str]:
        self.pod(name, requests, **annotations)
        decision = self.scheduler.decide(0.0)
        assert isinstance(decision, Refusal)
        return list(diagnose(self.scheduler.scores(decision.pod)).reasons)

    def used(self, node: str) -> dict[tuple[str, int], dict[str, int]]:
        row = self.scheduler.nodes.row(node)
        assert row is not None
        state = self.scheduler.nodes.use(DeviceColumns).state(row)
        assert state is not None
        return {(one.type, one.minor): dict(one.resources) for one in state.used}


def card(node: str, minor: int, is_healthy: bool = True) -> dict[str, Any]:
    return {
        "type": "gpu",
        "id": f"GPU-{node}-{minor}",
        "minor": minor,
        "health": is_healthy,
        "resources": {GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_MEMORY: "16Gi"},
        "topology": {"socketID": 0, "nodeID": 0, "pcieID": f"p{minor % 2}"},
    }


def rdma(node: str, minor: int) -> dict[str, Any]:
    topology = {"socketID": 0, "nodeID": 0, "pcieID": f"p{minor % 2}"}
    resources = {RDMA: "100"}
    one = {"type": "rdma", "id": f"0000:0{minor}:00.0", "minor": minor, "health": True}
    return {**one, "resources": resources, "topology": topology}


def request(placement: Placement) -> Request:
    (reservation,) = placement.reserved
    assert isinstance(reservation, AssumedDevices)
    return annotations_patch(placement.pod.key, placement.pod.uid, dict(reservation.annotations))


def given_devices(placement: Placement) -> dict[str, Any]:
    body = request(placement).body
    assert body is not None
    annotations = body["metadata"]["annotations"]
    found: dict[str, Any] = json.loads(annotations[ANNOTATION_DEVICE_ALLOCATED])
    return found


def test_cards_are_taken_confirmed_and_given_back() -> None:
    cluster = Cluster(n1=4)
    first, second = cluster.place("a", {GPU: "50"}), cluster.place("b", {GPU: "200"})
    assert given_devices(first) == {
        "gpu": [
            {
                "minor": 0,
                "id": "GPU-n1-0",
                "resources": {GPU_CORE: "50", GPU_MEMORY: "8Gi", GPU_MEMORY_RATIO: "50"},
            }
        ]
    }
    assert [one["minor"] for one in given_devices(second)["gpu"]] == [1, 3]
    written = {ANNOTATION_DEVICE_ALLOCATED: json.dumps(given_devices(first))}
    cluster.pod("a", {GPU: "50"}, "n1", **written)
    half = {GPU_CORE: 50, GPU_MEMORY: 8 << 30, GPU_MEMORY_RATIO: 50}
    assert cluster.used("n1")["gpu", 0] == half
    assert sorted(cluster.used("n1")) == [("gpu", 0), ("gpu", 1), ("gpu", 3)]
    cluster.scheduler.forget(second.pod, 0.0)
    assert cluster.used("n1") == {("gpu", 0): half}
    cluster.scheduler.remove_pod("shop/a")
    assert cluster.used("n1") == {}


def test_pods_that_run_already_keep_their_devices_though_the_device_comes_later() -> None:
    cluster = Cluster()
    has = {"minor": 0, "resources": {GPU_CORE: "100", GPU_MEMORY_RATIO: "100"}}
    written = {ANNOTATION_DEVICE_ALLOCATED: json.dumps({"gpu": [has]})}
    cluster.pod("old", {GPU: "100"}, "n1", **written)
    cluster.node("n1")
    assert cluster.why_not("a", {GPU: "100"}) == [MISSING_DEVICE.text]
    cluster.devices("n1", 2)
    assert given_devices(cluster.place("b", {GPU: "100"}))["gpu"][0]["minor"] == 1
    assert cluster.why_not("c", {GPU: "100"}) == ["Insufficient GPU Devices"]


def test_a_card_that_fails_is_given_to_nobody() -> None:
    cluster = Cluster(n1=2)
    cluster.devices("n1", 2, broken=0)
    assert given_devices(cluster.place("a", {GPU: "100"}))["gpu"][0]["minor"] == 1
    cluster.kinds["Device"].remove("n1")
    assert cluster.why_not("b", {GPU: "100"}) == [MISSING_DEVICE.text]


def test_a_pod_says_of_whom_it_is() -> None:
    sent = request(Cluster(n1=1).place("a", {GPU: "100"}))
    assert (sent.method, sent.name, sent.namespace) == ("PATCH", "a", "shop")
    assert sent.body is not None
    assert sent.body["metadata"]["uid"] == "u-a"


def test_requests_that_mean_nothing_fit_nowhere() -> None:
    cluster = Cluster(n1=2)
    cluster.pod("a", {GPU: "150"})
    decision = cluster.scheduler.decide(0.0)
    assert isinstance(decision, Refusal)
    found = diagnose(cluster.scheduler.scores(decision.pod))
    assert found.pre_filter == f"invalid resource unit {GPU}: 150"
    assert not len(found.resolvable)


def test_nodes_without_a_device_are_as_good_for_pods_that_need_none() -> None:
    cluster = Cluster()
    cluster.node("n1")
    assert cluster.place("a", {}).node == "n1"


def test_gpus_and_rdma_cards_are_under_one_switch() -> None:
    joint = json.dumps({"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"})
    annotations = {ANNOTATION_DEVICE_JOINT_ALLOCATE: joint}
    cluster = Cluster(n1=4)
    requests = {GPU: "100", RDMA: "100"}
    found = [given_devices(cluster.place(name, requests, **annotations)) for name in "ab"]
    assert [(one["gpu"][0]["minor"], one["rdma"][0]["minor"]) for one in found] == [(0, 0), (1, 1)]
    assert cluster.why_not("c", requests, **annotations) != []


@pytest.mark.parametrize(("packs", "nodes"), [(False, {"n1", "n2"}), (True, {"n1"})])
def test_pods_are_spread_or_packed(packs: bool, nodes: set[str]) -> None:
    cluster = Cluster(DeviceShareSettings(DeviceScorer(is_packing=packs)), n1=4, n2=4)
    first = cluster.place("a", {GPU: "100"})
    second = cluster.place("b", {GPU: "100"})
    assert (first.node == second.node) == packs
    assert {first.node, second.node} <= {"n1", "n2"}
    assert len({first.node, second.node}) == len(nodes)


def test_some_models_are_not_shared() -> None:
    unshared = frozenset({("huawei", "Ascend-310P")})
    cluster = Cluster(DeviceShareSettings(unshared=unshared), n1=1)
    cluster.node("n1", gpu_vendor="huawei", gpu_model="Ascend-310P")
    assert cluster.why_not("a", {GPU: "50"}) == [
        'model "Ascend-310P" of vendor "huawei" does not support GPU Share'
    ]
    assert cluster.place("b", {GPU: "100"}).node == "n1"


def test_what_the_device_plugin_of_a_node_cannot_give_is_looked_for_elsewhere() -> None:
    cluster = Cluster(n1=4)
    cluster.scheduler.nodes.use(DeviceColumns).adapts = True
    cluster.node("n1", gpu_vendor="cambricon")
    assert cluster.place("a", {GPU: "100"}).node == "n1"
    [reason] = cluster.why_not("b", {GPU: "200"})
    assert "cambricon" in reason
    cluster.node("n2")
    cluster.devices("n2", 2)
    assert cluster.place("c", {GPU: "200"}).node == "n2"


def test_templates_of_npus_come_and_go() -> None:
    cluster = Cluster()
    cluster.node("n1", gpu_vendor="huawei", gpu_model="Ascend-310P3")
    npu = card("n1", 0)
    npu["resources"] |= {NPU_CORE: "8", NPU_CPU: "7"}
    cluster.put("Device", "n1", {"metadata": {"name": "n1"}, "spec": {"devices": [npu]}})
    requests = {NUMBER: "1", NPU_CORE: "2", NPU_CPU: "2", GPU_MEMORY: "4Gi"}
    assert cluster.why_not("a", requests) == [NO_TEMPLATE]
    assert cluster.scheduler.wake(1.0) == 0
    part = {name: requests[name] for name in (NPU_CORE, NPU_CPU, GPU_MEMORY)}
    data = {"data.yaml": json.dumps({"huawei-Ascend-310P3": {"vir02": part}})}
    kind = cluster.kinds["ConfigMap"]
    assert kind.is_needed
    assert not kind.selects("koordinator-system", "another")
    cluster.put("ConfigMap", f"{kind.namespace}/{kind.name}", {"data": data})
    assert cluster.scheduler.wake(2.0) == 1
    decision = cluster.scheduler.decide(2.0)
    assert isinstance(decision, Placement)
    [given] = given_devices(decision)["gpu"]
    assert given["extension"] == {"gpuSharedResourceTemplate": "vir02"}
    kind.remove(f"{kind.namespace}/{kind.name}")
    assert cluster.why_not("b", requests) == [NO_TEMPLATE]


def test_profiles_share_templates() -> None:
    profile = "{name: DeviceShare, args: {gpuSharedResourceTemplatesConfig: {configMapName: %s}}}"
    enabled = "plugins: {multiPoint: {enabled: [{name: DeviceShare}]}}"
    text = "".join(
        f"  - {{schedulerName: {name}, {enabled}, pluginConfig: [{profile % name}]}}\n"
        for name in ("a", "b")
    )
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    with pytest.raises(ValueError, match=r"profiles\[1\].*gpuSharedResourceTemplatesConfig"):
        read_scheduler_config(f"{head}profiles:\n{text}")


def test_the_nearest_miss_is_reported() -> None:
    cluster = Cluster(n1=2)
    cluster.place("a", {GPU: "60"})
    cluster.place("b", {GPU: "70"})
    cluster.pod("c", {GPU: "50"})
    nodes = cluster.scheduler.nodes
    decision = cluster.scheduler.decide(0.0)
    assert isinstance(decision, Refusal)
    rows = np.array([nodes.row("n1")])
    (reason,) = cluster.plugin.reasons(decision.pod.waiting.pod_class, nodes, rows)
    assert reason.note is not None
    assert "gpu 0 has 40 of 50 koordinator.sh/gpu-core" in reason.note(0)


def test_a_pod_takes_the_place_of_one_that_has_its_cards() -> None:
    cluster = Cluster(n1=1)
    has = {"minor": 0, "resources": {GPU_CORE: "100", GPU_MEMORY_RATIO: "100"}}
    written = {ANNOTATION_DEVICE_ALLOCATED: json.dumps({"gpu": [has]})}
    cluster.pod("old", {GPU: "100"}, "n1", **written)
    cluster.pod("a", {GPU: "100"}, priority=9)
    decision = cluster.scheduler.decide(0.0)
    assert isinstance(decision, PreemptionPlan)
    assert [one.key for one in decision.preemption.victims] == ["shop/old"]


def test_it_shows_what_nodes_and_pods_have() -> None:
    cluster = Cluster(n1=2, n2=0)
    cluster.place("a", {GPU: "50"})
    shown = cluster.plugin.services(cluster.scheduler.nodes)
    assert set(shown["/nodeDeviceSummaries"]({})) == {"n1", "n2"}
    one = shown["/nodeDeviceSummaries/:name"]({"name": "n1"})
    assert one["deviceTotal"] == {
        GPU_CORE: "200",
        GPU_MEMORY: "32Gi",
        GPU_MEMORY_RATIO: "200",
        RDMA: "200",
    }
    assert one["deviceUsedDetail"]["gpu"]["0"][GPU_CORE] == "50"
    assert one["deviceFreeDetail"]["gpu"]["0"][GPU_CORE] == "50"
    assert list(one["allocateSet"]["gpu"]) == ["shop/a"]
    with pytest.raises(LookupError):
        shown["/nodeDeviceSummaries/:name"]({"name": "n9"})


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from([25, 50, 100, 200, 0]))))
def test_states_are_those_of_the_pods_that_are_there(steps: list[tuple[str, int]]) -> None:
    cluster = Cluster(n1=3)
    nodes = cluster.scheduler.nodes
    row = nodes.row("n1")
    assert row is not None
    there: set[str] = set()
    for name, amount in steps:
        if name in there:
            cluster.scheduler.remove_pod(f"shop/{name}")
            there.remove(name)
            continue
        cluster.pod(name, {GPU: str(amount)} if amount else {})
        state = nodes.use(DeviceColumns).state(row)
        assert state is not None
        pod = cluster.scheduler.queue.pods[f"shop/{name}"].waiting.pod_class
        fits = not isinstance(
            allocate(pod.of(DEVICE_NEEDS), state, DeviceScorer()), DeviceRejection
        )
        decision = cluster.scheduler.decide(0.0)
        assert isinstance(decision, Placement) == fits
        if not fits:
            cluster.scheduler.remove_pod(f"shop/{name}")
        else:
            there.add(name)
    state = nodes.use(DeviceColumns).state(row)
    assert state is not None
    pods = [devices for _, devices in nodes.use(DeviceColumns).pods_on(row)]
    assert state.used == used_devices(pods)
    for one in state.used:
        assert all(amount <= 100 for name, amount in one.resources if name == GPU_CORE)


@given(
    st.lists(
        st.tuples(st.sampled_from(["n1", "n2", "n3"]), st.sampled_from([25, 50, 100])), max_size=9
    ),
    st.sampled_from([25, 50, 100, 200]),
)
def test_rows_are_answered_as_one_by_one(taken: list[tuple[str, int]], amount: int) -> None:
    cluster = Cluster(n1=2, n2=2, n3=3)
    cluster.node("n4")
    for number, (node, per_cent) in enumerate(taken):
        has = {"minor": number % 2, "resources": {GPU_CORE: per_cent, GPU_MEMORY_RATIO: per_cent}}
        written = {ANNOTATION_DEVICE_ALLOCATED: json.dumps({"gpu": [has]})}
        cluster.pod(f"p{number}", {GPU: str(per_cent)}, node, **written)
    cluster.pod("a", {GPU: str(amount)})
    nodes, plugin = cluster.scheduler.nodes, cluster.plugin
    pod = cluster.scheduler.queue.pods["shop/a"].waiting.pod_class
    can_run, score = plugin.filter(pod, nodes), plugin.score(pod, nodes)
    assert can_run is not None
    assert score is not None
    rows = np.array([nodes.row(f"n{number}") for number in range(1, 5)])
    alone = [rows[place : place + 1] for place in range(len(rows))]
    for given_rows, each in ((rows, alone), (np.tile(rows, 32), alone * 32)):
        assert can_run(given_rows).tolist() == [can_run(one)[0] for one in each]
        assert score(given_rows).tolist() == [score(one)[0] for one in each]
    states = [nodes.use(DeviceColumns).state(int(row)) for row in rows]
    free = [
        0 if state is None else sum(one >= 10 * min(amount, 100) for one in state.free_cards)
        for state in states
    ]
    assert can_run(rows).tolist() == [one >= max(1, amount // 100) for one in free]


@pytest.mark.parametrize("wrong", ["missing", "twice"])
def test_devices_that_are_counted_wrongly_are_found_and_repaired(wrong: str) -> None:
    cluster = Cluster(n1=4, n2=4)
    node = cluster.place("a", {GPU: "50"}).node
    nodes, placed = cluster.scheduler.nodes, cluster.scheduler.placed
    row, right = nodes.row(node), cluster.used(node)
    assert row is not None
    check = SelfCheck(nodes, placed)
    assert [check.check_some() for _ in range(ROUND_SECONDS)] == [[]] * ROUND_SECONDS
    columns, usage = nodes.use(DeviceColumns), placed.by_key["shop/a"].usage
    change = columns.uncount if wrong == "missing" else columns.count
    change(row, usage)
    assert cluster.used(node) != right
    found = [name for _ in range(ROUND_SECONDS) for name in check.check_some()]
    assert found == [node]
    assert cluster.used(node) == right


def test_devices_are_watched_only_where_they_count() -> None:
    profile = Profile("default-scheduler", (EnabledPlugin(NodeResourcesFit()),))
    needed = {one.resource.kind for one in cluster_kinds(Scheduler([profile])) if one.is_needed}
    assert "Device" not in needed
    used = Profile("default-scheduler", (EnabledPlugin(DeviceShare()),))
    needed = {one.resource.kind for one in cluster_kinds(Scheduler([used])) if one.is_needed}
    assert "Device" in needed


def configured(args: str) -> str:
    return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins:
      multiPoint: {{enabled: [{{name: DeviceShare, weight: 2}}]}}
    pluginConfig:
      - name: DeviceShare
        args: {args}
"""


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ("{scoringStrategy: {type: RequestedToCapacityRatio}}", "scoringStrategy.type"),
        ("{scoringStrategy: {resources: [{name: a, weight: 101}]}}", "weight"),
        ("{scoringStrategy: {resources: [{name: a, weight: 0}]}}", "weight"),
        ("{gpuSharedResourceTemplatesConfig: {configMapName: ''}}", "configMapName"),
        ("{deviceNUMA: true}", "deviceNUMA"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(args: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        read_scheduler_config(configured(args))


def test_a_configuration_enables_it() -> None:
    models = "gpuShareUnsupportedModels: [{vendor: huawei, model: A}]"
    strategy = "scoringStrategy: {type: MostAllocated, resources: [{name: a, weight: 3}]}"
    config = read_scheduler_config(configured(f"{{{models}, {strategy}}}"))
    (profile,) = config.profiles
    assert "DeviceShare" in {one.plugin.name for one in profile.profile.plugins}
    settings = profile.args.device_share.settings()
    assert settings.scorer == DeviceScorer((("a", 3),), is_packing=True)
    assert settings.unshared == {("huawei", "A")}


@pytest.mark.parametrize("name", ["FreeGPUValue", "FragmentationGradientDescent"])
def test_free_gpus_are_kept_usable(name: str) -> None:
    """Once it is known what pods request: before, the first parts are packed."""
    config = read_scheduler_config(configured(f"{{scoringStrategy: {{type: {name}}}}}"))
    (profile,) = config.profiles
    settings = profile.args.device_share.settings()
    cluster = Cluster(settings, **{f"n{number}": 4 for number in range(20)})
    requests = [{GPU: "50"}, {GPU: "100"}] * 33
    for number, one in enumerate(requests):
        cluster.place(f"p{number}", one)
    used = [dict(cluster.used(f"n{number}")) for number in range(20)]
    halves = sum(has[GPU_CORE] == 50 for devices in used for has in devices.values())
    assert halves <= 1
    assert sum(map(len, used)) == 33 + 17


def test_bytes_of_cards_are_scored_by_what_is_taken() -> None:
    settings = DeviceShareSettings(gpu_scores=GPUScores.VALUE)
    cluster = Cluster(settings, n1=1, n2=1)
    nodes = {cluster.place(name, {GPU_MEMORY: "8Gi"}).node for name in "ab"}
    assert nodes == {"n1", "n2"}
