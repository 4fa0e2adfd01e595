"""Whichever way a pod comes to koordlet, the kernel's files are the same in the end.

Ways: a CRI proxy asks the hook server, NRI asks, or nobody does and the reconciler finds
the pod in the kubelet's list. The fourth, plugins in the proxy itself, has no node agent:
it sets what a request carries (``test_in_process…``), and nothing else.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from koord_hooks.builtin import gpuenvinject, rdmadeviceinject
from koord_hooks.protocol import HookRequest, HookResponse
from koord_hooks.runner import HookRunner, available_plugins, load
from koord_hooks.stages import Stage
from koord_host.knobs.layout import Driver
from koord_model import keys
from koord_model.allocation import ResourceAllocation
from koord_model.patch import Mount
from koord_model.qos import KubeQoS
from koord_proto import nri_pb2 as nri
from koord_proxy.cri.hook_requests import container_hook_request, pod_hook_request, write_container
from koord_proxy.hook_targets import InProcessTarget
from koord_proxy.rules.merge import Merge, PodHookRequest
from koord_service.log_deduplicator import LogDeduplicator
from koordlet.runtime_hooks.hook_metrics import HookMetrics
from koordlet.runtime_hooks.hook_server import HookServer
from koordlet.runtime_hooks.nri.hook_handler import HookHandler
from koordlet.states_informer.state import kubelet_pods

from tests.support.node import NodeFixture, PodSpec
from tests.support.node.fixture import VERBS
from tests.support.node.pods import pod_list

OURS = sorted(available_plugins())
RUNNERS = {name: load([name]) for name in OURS} | {"all": load(OURS)}

# ---- the pods: of every class, with every annotation that some plugin reads

BATCH = {
    "containers": {
        "main": {
            "requests": {keys.BATCH_CPU: 500},
            "limits": {keys.BATCH_CPU: 1000, keys.BATCH_MEMORY: "1Gi"},
        }
    }
}
GPU = {
    "minor": 1,
    "resources": {keys.GPU_CORE: 50, keys.GPU_MEMORY: "8Gi", keys.GPU_MEMORY_RATIO: 50},
}
DEVICES = {"gpu": [GPU], "rdma": [{"minor": 0, "id": VERBS}]}
NUMA = {"numaNodeResources": [{"node": 1, "resources": {"cpu": "1"}}]}
PODS = (
    PodSpec(
        "lse",
        KubeQoS.GUARANTEED,
        "LSE",
        2,
        labels={keys.LABEL_CORE_SCHED_POLICY: "exclusive"},
        annotations={
            keys.ANNOTATION_RESOURCE_STATUS: {"cpuset": "2-3"},
            keys.ANNOTATION_OOM_SCORE_ADJ: "-900",
        },
    ),
    PodSpec(
        "lsr",
        KubeQoS.GUARANTEED,
        "LSR",
        2,
        annotations={
            keys.ANNOTATION_RESOURCE_STATUS: {"cpuset": "4,12"},
            keys.ANNOTATION_OOM_SCORE_ADJ_SPEC: {"main": -500},
        },
    ),
    PodSpec(
        "ls",
        KubeQoS.BURSTABLE,
        "LS",
        4,
        labels={keys.LABEL_CORE_SCHED_GROUP: "shop"},
        annotations={
            keys.ANNOTATION_CPU_QOS: {"groupIdentity": -1},
            keys.ANNOTATION_RESCTRL: {"llc": {"schemata": {"range": [0, 50]}}},
            keys.ANNOTATION_NETWORK_QOS: {"egressLimit": "100M"},
        },
    ),
    PodSpec(
        "numa", KubeQoS.BURSTABLE, "LS", 1, annotations={keys.ANNOTATION_RESOURCE_STATUS: NUMA}
    ),
    PodSpec(
        "be",
        KubeQoS.BEST_EFFORT,
        "BE",
        annotations={
            keys.ANNOTATION_EXTENDED_RESOURCE_SPEC: BATCH,
            keys.ANNOTATION_RESCTRL: {"mb": {"schemata": {"percent": 20}}},
            keys.ANNOTATION_NUMA_BIND_RESULT: "0",
        },
    ),
    PodSpec("system", KubeQoS.BURSTABLE, "SYSTEM", 1),
    PodSpec("plain", KubeQoS.BURSTABLE, "", 3),
    PodSpec(
        "gpu",
        KubeQoS.GUARANTEED,
        "",
        1,
        labels={keys.LABEL_GPU_ISOLATION_PROVIDER: "HAMi-core"},
        annotations={keys.ANNOTATION_DEVICE_ALLOCATED: DEVICES},
    ),
)

ALLOCATIONS = {
    next(pod.uid for pod in PODS if pod.name == "plain"): {
        "main": {
            limit: ResourceAllocation(limit, result)
            for limit, result in {
                "CpusetCpus": "5-6",
                "CpusetMems": "0",
                "CpuShares": "300",
                "MemoryLimitInBytes": "536870912",
            }.items()
        }
    }
}
"""Allocations of resource plugins, under the names of the limits."""

# ---- the nodes, and what rules they have

SHARE = {"enable": True, "egressRequest": 30, "egressLimit": 80}
RULES: dict[str, dict[str, Any]] = {
    "groupIdentity and tc": {"cpuPolicy": "groupIdentity", "netQOSPolicy": "tc"},
    "coreSched and terway-qos": {"cpuPolicy": "coreSched", "netQOSPolicy": "terway-qos"},
}
FIRST, SECOND = RULES


def rules(policies: dict[str, Any]) -> str:
    """The rules file: every class enabled, and faster CPUs than the reference."""
    enabled = {"cpuQOS": {"enable": True}, "networkQOS": SHARE}
    classes = dict.fromkeys(("lsrClass", "lsClass", "beClass"), enabled)
    application = {"name": "nginx", "qos": "LS"}
    slo = {
        "kind": "NodeSLO",
        "spec": {
            "resourceQOSStrategy": {"policies": policies, **classes},
            "systemStrategy": {"totalNetworkBandwidth": "10G"},
            "hostApplications": [application],
        },
    }
    ratio = {keys.ANNOTATION_CPU_NORMALIZATION_RATIO: "1.25"}
    return yaml.safe_dump_all([slo, {"kind": "Node", "metadata": {"annotations": ratio}}])


class Kind(NamedTuple):
    """A kind of node."""

    version: int
    driver: Driver
    vendor: bool

    def __str__(self) -> str:
        kernel = "vendor" if self.vendor else "mainline"
        return f"v{self.version}-{self.driver.value}-{kernel}"


KINDS = [Kind(*kind) for kind in itertools.product((1, 2), Driver, (False, True))]


Ask = Callable[[Stage, HookRequest], Awaitable[HookResponse]]
WAYS = ("proxy", "nri", "reconciler", "proxy and nri")
PROXIED, BY_NRI = {"proxy", "proxy and nri"}, {"nri", "proxy and nri"}


class Rig(NodeFixture):
    """A node, and a koordlet on it with plugins by name and rules: of ``RULES``, or a file."""

    def __init__(self, kind: Kind, plugins: str, rule: str, directory: Path) -> None:
        super().__init__(directory, kind.version, kind.driver, vendor=kind.vendor)
        if rule in RULES:
            (directory / f"{rule}.yaml").write_text(rules(RULES[rule]))
        self.files.cgroups.make_group("host-latency-sensitive/nginx")
        runner = HookRunner([]) if plugins == "none" else RUNNERS[plugins]
        log, metrics = LogDeduplicator(), HookMetrics()
        # In memory: other tests have the same directory.
        settings = {"nodeslo_file": f"{directory}/{rule}.yaml", "state_dir": "/proc/version"}
        node = self.start_koordlet(runner=runner, log=log, **settings)
        if "resourceplugins" in runner.names:
            node.views.allocations = lambda: ALLOCATIONS
        self.loop = node.reconcile_loop
        self.server = HookServer(runner, runner.stages(), metrics, node=self.loop, deduplicator=log)
        self.handler = HookHandler(runner, self.loop, metrics, log)
        self.hook_requests: dict[str, PodHookRequest] = {}

    async def ask(self, stage: Stage, hook_requests: HookRequest) -> HookResponse:
        """What the hook server says; all but the socket is real."""
        method = self.server._handler(stage).unary_unary
        assert method is not None
        response: HookResponse = await method(hook_requests, None)  # type: ignore[arg-type, misc]
        await asyncio.sleep(0)  # the node gets them once the answer is on its way
        return response

    async def sandbox(self, way: str, pod: PodSpec, ask: Ask | None = None) -> None:
        """Run a pod's sandbox one way."""
        request = pod.sandbox_request(self.layout)
        self.runtime.make_pod_group(request.config)
        if way in PROXIED:
            hook_requests = self.hook_requests[pod.name] = pod_hook_request(
                request.config, pod.runtime_handler
            )
            Merge(hook_requests).add(
                "koordlet", await (ask or self.ask)(Stage.PRE_RUN_POD_SANDBOX, hook_requests)
            )
        if way in BY_NRI:
            shown = self.runtime.shown_sandbox(request.config, pod.runtime_handler)
            self.handler.run_pod_sandbox(nri.RunPodSandboxRequest(pod=shown))
        self.runtime.run_sandbox(request.config)

    async def container(self, way: str, pod: PodSpec, ask: Ask | None = None) -> None:
        """Start its container; a proxy changes the request first, and hears of the start last."""
        ask, runtime = ask or self.ask, self.runtime
        request, adjust = pod.container_request(self.layout), None
        if way in PROXIED:
            hook_requests = container_hook_request(
                request.config, request.sandbox_config, self.hook_requests[pod.name]
            )
            merge = Merge(hook_requests)
            merge.add("koordlet", await ask(Stage.PRE_CREATE_CONTAINER, hook_requests))
            assert not merge.conflicts
            write_container(request, hook_requests, merge.claims)
        shown = runtime.shown_sandbox(request.sandbox_config, pod.runtime_handler)
        if way in BY_NRI:
            before = runtime.shown_container(request)
            create = nri.CreateContainerRequest(pod=shown, container=before)
            answer = self.handler.create_container(create)
            adjust = answer.adjust if answer else None
        ident = runtime.create(request, adjust)
        if way in BY_NRI:
            after = runtime.shown_container(request)
            started = nri.PostStartContainerRequest(pod=shown, container=after)
            self.handler.post_start_container(started)
        if way in PROXIED:
            hook_requests.container_meta.id = ident
            await ask(Stage.POST_START_CONTAINER, hook_requests)

    def values(self) -> dict[str, str]:
        self.files.cgroups.check()
        self.files.resctrl.check()
        return self.files.values(self.layout)


async def start_all(rig: Rig, way: str, pods: Sequence[PodSpec] = PODS) -> None:
    """Start the pods one way, with the rounds that follow."""
    for pod in pods:
        await rig.sandbox(way, pod)
    await rig.loop.reconcile()
    for pod in pods:
        await rig.container(way, pod)
    if way == "reconciler":
        rig.loop.inventory.replace(kubelet_pods.parse(pod_list(pods), rig.layout), 0.0)
    await rig.loop.reconcile()


async def final(kind: Kind, plugins: str, rule: str, way: str, directory: Path) -> dict[str, str]:
    with Rig(kind, plugins, rule, directory) as one:
        await start_all(one, way)
        return one.values()


_UNTOUCHED: dict[tuple[Kind, str], dict[str, str]] = {}


async def untouched(kind: Kind, rule: str, directory: Path) -> dict[str, str]:
    """The same for every plugin: what is there without any."""
    if (kind, rule) not in _UNTOUCHED:
        _UNTOUCHED[kind, rule] = await final(kind, "none", rule, "reconciler", directory)
    return _UNTOUCHED[kind, rule]


# ---- the matrix

IN_REQUESTS_ONLY = {"gpuenvinject", "rdmadeviceinject"}
"""They change nothing that a kernel file shows; a container that runs cannot have it."""
CASES = [
    (kind, name, SECOND if name in ("coresched", "terwayqos") else FIRST)
    for number, name in enumerate(name for name in OURS if name not in IN_REQUESTS_ONLY)
    for place, kind in enumerate(KINDS)
    if place // 2 % 2 == (number + place) % 2  # half of them, and each pair of a node's properties
] + [(kind, "all", rule) for kind, rule in itertools.product(KINDS, RULES)]


@pytest.mark.parametrize(
    ("kind", "plugins", "rule"), CASES, ids=lambda one: str(one).replace(" ", "-")
)
async def test_every_way_ends_alike(kind, plugins, rule, directory):
    found = {way: await final(kind, plugins, rule, way, directory) for way in WAYS}
    bare = await untouched(kind, rule, directory)
    assert found["reconciler"] != bare, "a plugin that does nothing shows nothing"
    for way in WAYS:
        assert found[way] == found["reconciler"], way


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", KINDS, ids=str)
async def test_nothing_is_written_twice_by_proxy_and_nri_together(kind, rule, directory):
    with Rig(kind, "all", rule, directory) as one:
        await start_all(one, "proxy and nri")
        made = one.files.writes
        assert sorted(made) == sorted(set(made))
        await one.loop.reconcile()
        assert one.files.writes == made


@pytest.mark.parametrize("way", ["proxy", "nri"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
async def test_a_container_has_what_requests_carry_from_its_first_process_on(kind, way, directory):
    with Rig(kind, "all", FIRST, directory) as one:
        for pod in PODS:
            await one.sandbox(way, pod)
        # The pods' own CPUs are out of the shared pools once the node knows of the pods.
        await one.loop.reconcile()
        for pod in PODS:
            await one.container(way, pod)
        first = requested(one)
        await one.loop.reconcile()
        assert requested(one) == first


def requested(one: Rig, pods: Sequence[PodSpec] = PODS) -> dict[str, str]:
    """The containers' own knobs, and their OOM scores, by path."""
    found: dict[str, str] = {}
    for pod in pods:
        found |= one.files.group_values(pod.container_group(one.layout), one.layout)
        score = f"/proc/{one.runtime.pids[f'{pod.name}-main']}/oom_score_adj"
        found[score] = one.files.read(score)
    return found


# ---- what no kernel file shows: the environment, devices, mounts

GPU_ENV = {
    "HOME": "/root",
    "NVIDIA_VISIBLE_DEVICES": "1",
    "CUDA_DEVICE_MEMORY_LIMIT": str(8 << 30),
    "CUDA_DEVICE_SM_LIMIT": "50",
    "LD_PRELOAD": "/usr/local/vgpu/libvgpu.so",
}
MOUNTS = ["/usr/local/vgpu/libvgpu.so"]


@pytest.mark.parametrize(
    ("way", "env", "mounts", "devices"),
    [
        # The hook protocol carries neither mounts nor devices.
        ("proxy", GPU_ENV, [], []),
        ("nri", GPU_ENV, MOUNTS, ["rdma_cm", "uverbs0"]),
        # What NRI is shown has the proxy's changes in it; it adds the rest.
        ("proxy and nri", GPU_ENV, MOUNTS, ["rdma_cm", "uverbs0"]),
        # What runs already keeps what it was started with.
        ("reconciler", {"HOME": "/root"}, [], []),
    ],
)
async def test_what_a_container_is_started_with(
    way, env, mounts, devices, directory, tmp_path, monkeypatch
):
    library = tmp_path / "libvgpu.so"
    monkeypatch.setattr(gpuenvinject, "_MOUNTS", {MOUNTS[0]: Mount(str(library))})
    monkeypatch.setattr(rdmadeviceinject, "_FILES", str(tmp_path))
    monkeypatch.setattr(rdmadeviceinject, "_MANAGER", str(tmp_path / "rdma_cm"))
    for name in ("libvgpu.so", "rdma_cm", "uverbs0"):
        (tmp_path / name).touch()
    with Rig(KINDS[-1], "all", FIRST, directory) as one:
        await start_all(one, way)
        spec = one.runtime.specs["gpu-main"]
    assert spec.env == env
    assert spec.mounts == mounts
    assert spec.devices == [str(tmp_path / name) for name in devices]


# ---- without an agent


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", KINDS, ids=str)
async def test_in_process_sets_what_the_request_carries_and_nothing_else(kind, rule, directory):
    """Without a node agent nobody writes what no CRI request carries, by design.

    That is: pods' and classes' own groups; ``cpu.bvt_warp_ns``, ``cpu.idle``,
    ``net_cls.classid``; core scheduling, resctrl, traffic classes, sysctls, Terway's files.
    """
    with Rig(kind, "all", rule, directory) as asked:
        await start_all(asked, "proxy")
        view, by_agent = asked.loop.view, requested(asked)
    with Rig(kind, "none", rule, directory) as bare:
        await start_all(bare, "reconciler")
        untouched, unlimited = bare.values(), requested(bare)
    with Rig(kind, "none", rule, directory) as one:
        plugins = InProcessTarget(RUNNERS["all"], view)
        for pod in PODS:
            await one.sandbox("proxy", pod, plugins.ask)
        for pod in PODS:
            await one.container("proxy", pod, plugins.ask)
        found, limited = one.values(), requested(one)
    assert limited == by_agent != unlimited
    assert found == {**untouched, **limited}
