"""The scheduler in the test's own event loop, beside the double of the API server."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.protocol.resources import (
    EVENTS,
    LEASES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    Resource,
)
from koord_scheduler.config.scheduler_config import SchedulerConfig, default_scheduler_config
from koord_scheduler.io import look_up
from koord_scheduler.io.recorder import Recorder
from koord_scheduler.plugins.volumes.objects import BIND_COMPLETED, SELECTED_NODE
from koord_scheduler.program.program import SchedulerProgram
from koord_scheduler.program.settings import SchedulerSettings

from tests.support.kube_api import KubeApi
from tests.support.kube_api.kinds import DRA, USUAL
from tests.support.processes import PATIENCE
from tests.support.waiting import until

SETTINGS = SchedulerSettings(port=0, leader_elect_retry_period=0.5, pod_name="s1")
NAMESPACE = "shop"


class Side:
    """A cluster, what a test does in it, and what it finds there."""

    def __init__(self, api: KubeApi, client: Client) -> None:
        self.api = api
        self.client = client

    def node(self, name: str, cpu: str = "4", **labels: str) -> None:
        amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
        self.api.put(NODES, {"metadata": metadata, "status": {"allocatable": amounts}})

    async def pod(
        self,
        name: str,
        cpu: str = "1",
        owner: dict[str, Any] | None = None,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        given = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "labels": {"app": "web"},
                "annotations": dict(annotations or {}),
                "ownerReferences": [owner] if owner else [],
            },
            "spec": {"schedulerName": "default-scheduler", "containers": [container], **spec},
        }
        await self.client.create(PODS, given, NAMESPACE)

    def node_of(self, name: str) -> str:
        return str(self.api.get(PODS, name, NAMESPACE)["spec"].get("nodeName", ""))

    def scheduled(self, name: str) -> dict[str, Any]:
        """The pod's condition PodScheduled."""
        status = self.api.get(PODS, name, NAMESPACE).get("status", {})
        conditions = (one for one in status.get("conditions", ()) if one["type"] == "PodScheduled")
        return dict(next(conditions, {}))

    def events(self, name: str) -> set[str]:
        events = (one for key, one in self.api.objects.items() if key.resource == EVENTS)
        return {one["reason"] for one in events if one["involvedObject"]["name"] == name}

    async def bound(self, *names: str) -> None:
        await until(lambda: all(map(self.node_of, names)), f"nodes of {names}")

    @asynccontextmanager
    async def scheduler(
        self,
        settings: SchedulerSettings = SETTINGS,
        config: SchedulerConfig | None = None,
        recorder: Recorder | None = None,
    ) -> AsyncIterator[SchedulerProgram]:
        given = config or default_scheduler_config()
        made = SchedulerProgram(settings, given, self.client, "s1_0", recorder)
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            serving = group.create_task(made.serve())
            try:
                yield made
            finally:
                if not serving.done():
                    os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture
async def side() -> AsyncIterator[Side]:
    limits = Limits(qps=0, answer=PATIENCE)
    async with KubeApi() as api, Client(Cluster(api.url), limits) as client:
        for value, name in enumerate(("low", "middle", "high")):
            api.put(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        yield Side(api, client)


async def test_pods_get_their_nodes(side: Side) -> None:
    side.node("n1")
    side.node("n2")
    await side.pod("early")
    async with side.scheduler():
        await side.pod("late")
        await side.bound("early", "late")
        assert {side.node_of("early"), side.node_of("late")} == {"n1", "n2"}
        await until(lambda: side.events("late") == {"Scheduled"}, "its Event")


@pytest.mark.parametrize(
    ("resource", "version", "selector"),
    [
        (SERVICES, "v1", {"app": "web"}),
        (REPLICATION_CONTROLLERS, "v1", {"app": "web"}),
        (REPLICA_SETS, "apps/v1", {"matchLabels": {"app": "web"}}),
        (STATEFUL_SETS, "apps/v1", {"matchLabels": {"app": "web"}}),
    ],
)
async def test_pods_that_belong_together_are_spread(
    side: Side, resource: Resource, version: str, selector: dict[str, Any]
) -> None:
    side.node("large", "64")
    side.node("small", "4")
    owner = {"apiVersion": version, "kind": resource.kind, "name": "web", "controller": True}
    workload = {"metadata": {"name": "web"}, "spec": {"selector": selector}}
    side.api.put(resource, workload, NAMESPACE)
    async with side.scheduler() as made:
        for name in ("first", "second"):
            await side.pod(name, owner=owner)
            await side.bound(name)
        assert (side.node_of("first"), side.node_of("second")) == ("large", "small")
        workloads = made._scheduler.nodes.workloads
        version = workloads.version
        side.api.delete(PODS, "second", NAMESPACE)
        side.api.delete(resource, "web", NAMESPACE)
        await until(lambda: made.status().cached["pods"] == 1, "the second pod is gone")
        await until(lambda: workloads.version > version, "the workload is gone")
        await side.pod("alone", owner=owner)
        await side.bound("alone")
        assert side.node_of("alone") == "large"


async def test_a_pod_that_fits_nowhere_says_so_and_gets_a_node_that_comes(side: Side) -> None:
    side.node("small", "500m")
    async with side.scheduler():
        await side.pod("web")
        await until(lambda: side.scheduled("web").get("status") == "False", "its condition")
        assert side.scheduled("web")["reason"] == "Unschedulable"
        assert side.scheduled("web")["message"].startswith("0/1 nodes are available: 1 Insuff")
        await until(lambda: side.events("web") == {"FailedScheduling"}, "its Event")
        side.node("large")
        await side.bound("web")
        assert side.node_of("web") == "large"
        assert side.scheduled("web")["status"] == "True"


@pytest.mark.parametrize(
    "field", [{"schedulingGroup": {"podGroupName": "g"}}, {"workloadRef": {"name": "w"}}]
)
async def test_a_pod_of_a_group_is_refused_by_name(side: Side, field: dict[str, Any]) -> None:
    """Placed by itself, it might run without the rest of its group."""
    side.node("n1")
    async with side.scheduler():
        await side.pod("web", **field)
        await until(lambda: side.scheduled("web").get("status") == "False", "its condition")
        [name] = field
        assert f"spec.{name} needs the plugin GangScheduling" in side.scheduled("web")["message"]
        await until(lambda: side.events("web") == {"FailedScheduling"}, "its Event")
        assert side.node_of("web") == ""


@pytest.mark.parametrize("kinds", [USUAL, USUAL - DRA], ids=["with", "without"])
async def test_a_pod_waits_for_a_claim_that_is_not_there(kinds: frozenset[Resource]) -> None:
    """Also where the API server has no dynamic resource allocation; other pods are placed."""
    limits = Limits(qps=0, answer=PATIENCE)
    async with KubeApi(installed=kinds) as api, Client(Cluster(api.url), limits) as client:
        side = Side(api, client)
        side.node("n1")
        async with side.scheduler():
            await side.pod("web")
            await side.bound("web")
            claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
            await side.pod("training", resourceClaims=claims)
            await until(lambda: side.scheduled("training").get("status") == "False", "a refusal")
            said = side.scheduled("training")["message"]
            assert 'could not find ResourceClaim "shop/gpu"' in said


async def test_room_that_becomes_free_is_used(side: Side) -> None:
    side.node("n1", "1")
    async with side.scheduler():
        await side.pod("first")
        await side.bound("first")
        await side.pod("second")
        await until(lambda: side.scheduled("second").get("status") == "False", "no room")
        side.api.delete(PODS, "first", NAMESPACE)
        await side.bound("second")


async def test_pods_of_others_and_gated_ones_are_left_alone(side: Side) -> None:
    side.node("n1")
    async with side.scheduler():
        await side.pod("theirs", schedulerName="other")
        await side.pod("gated", schedulingGates=[{"name": "example.com/quota"}])
        await side.pod("ours")
        await side.bound("ours")
        assert side.node_of("theirs") == side.node_of("gated") == ""
        await side.client.patch(PODS, "gated", {"spec": {"schedulingGates": None}}, NAMESPACE)
        await side.bound("gated")


@pytest.mark.parametrize("status", [409, 429, 500, 503])
async def test_a_binding_that_fails_is_tried_again(side: Side, status: int) -> None:
    side.node("n1")
    await side.pod("web")
    fault = side.api.fail(verb="create", plural="pods", status=status)
    async with side.scheduler():
        await side.bound("web")
    assert fault.times == 0


async def test_what_was_assumed_is_given_back(side: Side) -> None:
    """A pod that is gone before its binding leaves its room to another."""
    side.node("n1", "1")
    await side.pod("gone")
    fault = side.api.fail(verb="create", plural="pods", status=429)
    async with side.scheduler():
        await until(lambda: fault.times == 0, "a first try")
        await side.client.delete(PODS, "gone", NAMESPACE)
        await side.pod("next")
        await side.bound("next")


async def test_only_the_leader_binds(side: Side, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    side.node("n1")
    holder = {"holderIdentity": "another", "leaseDurationSeconds": 3600}
    times = {
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
    }
    lease = {"metadata": {"name": "kube-scheduler"}, "spec": {**holder, **times}}
    side.api.put(LEASES, lease, "kube-system")
    async with side.scheduler() as made:
        await side.pod("web")
        await until(lambda: made.status().pending["active"] == 1, "the pod is known")
        assert side.node_of("web") == ""
        await until(lambda: "standing by, another one leads" in caplog.text, "it says so")
        await side.client.patch(
            LEASES, "kube-scheduler", {"spec": {"holderIdentity": ""}}, "kube-system"
        )
        await side.bound("web")
    assert side.api.get(LEASES, "kube-scheduler", "kube-system")["spec"]["holderIdentity"] == ""


async def test_a_new_leader_knows_what_the_one_before_decided(side: Side) -> None:
    """Though its watches are late."""
    held = {"holderIdentity": "other", "leaseDurationSeconds": 3600}
    lease = {"metadata": {"name": "kube-scheduler"}, "spec": held}
    side.api.put(LEASES, lease, "kube-system")
    side.node("n1")
    async with side.scheduler() as made:
        await side.pod("second", "3")
        await until(lambda: made.status().pending["active"] == 1, "the pod is known")
        side.api.silence_watches()
        await side.pod("first", "3", nodeName="n1")
        free = {"spec": {"holderIdentity": ""}}
        await side.client.patch(LEASES, "kube-scheduler", free, "kube-system")
        await until(lambda: side.scheduled("second").get("status") == "False", "its condition")
        assert side.node_of("second") == ""


async def test_what_is_decided_is_bound_before_another_one_may_lead(side: Side) -> None:
    side.node("n1")
    async with side.scheduler() as made:
        await until(lambda: made.status().leads, "it leads")
        slow = side.api.fail(slow=0.3, verb="create", plural="pods")
        side.api.put(PODS, _pod("web"), NAMESPACE)
        await until(lambda: slow.times == 0, "the binding is under way")
        os.kill(os.getpid(), signal.SIGTERM)
    assert side.node_of("web") == "n1"
    pod = side.api.get(PODS, "web", NAMESPACE)
    lease = side.api.get(LEASES, "kube-scheduler", "kube-system")
    assert lease["spec"]["holderIdentity"] == ""
    versions = [int(one["metadata"]["resourceVersion"]) for one in (pod, lease)]
    assert versions == sorted(versions)


async def test_nothing_is_decided_of_a_cluster_that_is_not_seen(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    side.node("n1")
    async with side.scheduler() as made:
        monkeypatch.setattr(type(made._cache), "silence", lambda _: "pods: not followed for 31 s")
        await side.pod("web")
        await until(lambda: made.status().pending["active"] == 1, "the pod is known")
        await asyncio.sleep(0.2)
        assert side.node_of("web") == ""
        monkeypatch.undo()
        await side.bound("web")


async def test_decisions_go_on_when_the_api_server_is_back(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also about a pod whose binding was cut off, and though most kinds have no events."""
    monkeypatch.setattr(look_up, "FIRST_PAUSE", 1e6)  # nobody looks again by itself
    monkeypatch.setattr(look_up, "LONGEST_PAUSE", 1e6)
    clock = {"ahead": 0.0}
    side.node("n1")
    async with side.scheduler() as made:
        cache = made._cache
        monkeypatch.setattr(cache, "_monotonic", lambda: time.monotonic() + clock["ahead"])
        await side.pod("early")
        await side.bound("early")
        hanging = side.api.fail(hang=True, verb="create", plural="pods")
        side.api.put(PODS, _pod("cut-off"), NAMESPACE)
        await until(lambda: hanging.times == 0, "its binding is under way")
        await side.api.stop()
        await until(lambda: cache._lost, "the loss is noticed")
        assert cache.silence() == ""
        clock["ahead"] = 31.0
        await until(lambda: made._loop.paused, "nothing is decided")
        assert "not followed for 3" in made._loop.paused
        side.api.put(PODS, _pod("meanwhile"), NAMESPACE)
        await side.api.start()
        await side.bound("cut-off", "meanwhile")
        await until(lambda: not cache._lost, "all kinds are followed")
        clock["ahead"] = 3600.0
        assert cache.silence() == ""


def _pod(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "default-scheduler", "containers": [container]}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _jump(seconds: float) -> Callable[[KubeApi, pytest.MonkeyPatch], object]:
    """The wall clock is set."""
    true = time.time
    return lambda _, patch: patch.setattr(time, "time", lambda: true() + seconds)


def _expire(api: KubeApi, _: pytest.MonkeyPatch) -> None:
    """etcd is compacted, and no watch can be continued."""
    api.compact()
    api.expire_watches()


DISTURBANCES: dict[str, Callable[[KubeApi, pytest.MonkeyPatch], object]] = {
    "clock an hour ahead": _jump(3600),
    "clock an hour back": _jump(-3600),
    "slow answers": lambda api, _: api.fail(times=12, slow=1.0),
    "429 with Retry-After": lambda api, _: api.fail(
        times=6, verb="create", plural="pods", status=429, retry_after=2
    ),
    "watches are cut": lambda api, _: api.cut_watches(),
    "watches have expired": _expire,
}


@pytest.mark.parametrize("disturb", DISTURBANCES.values(), ids=DISTURBANCES)
async def test_it_goes_on_leading_and_binding(
    side: Side, monkeypatch: pytest.MonkeyPatch, disturb: Callable[..., object]
) -> None:
    side.node("n1", "6")
    names = [f"web-{number}" for number in range(6)]
    async with side.scheduler() as made:
        await side.pod("first")
        await side.bound("first")
        term = made._leadership.term
        for name in names[:3]:
            await side.pod(name)
        disturb(side.api, monkeypatch)
        # Stored as by others: what the test asks is not disturbed.
        for name in names[3:]:
            pod = side.api.get(PODS, "first", NAMESPACE)
            spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
            side.api.put(PODS, {"metadata": {"name": name}, "spec": spec}, NAMESPACE)
        await until(lambda: sum(map(bool, map(side.node_of, names))) == 5, "no room for a sixth")
        await until(lambda: made.status().cached["assumed_pods"] == 0, "all confirmed")
        await until(lambda: made.status().pending["unschedulable"] == 1, "the sixth waits")
        assert made._leadership.leads
        assert made._leadership.term == term
        side.api.delete(PODS, "first", NAMESPACE)
        await side.bound(*names)


async def test_a_pod_that_the_kubelet_rejects_frees_its_room(side: Side) -> None:
    side.node("n1", "1")
    async with side.scheduler():
        await side.pod("first")
        await side.bound("first")
        await side.pod("second")
        await until(lambda: side.scheduled("second").get("status") == "False", "no room")
        rejected = {"status": {"phase": "Failed", "reason": "OutOfcpu"}}
        await side.client.patch(PODS, "first", rejected, NAMESPACE, subresource="status")
        await side.bound("second")


async def test_a_more_important_pod_takes_the_place_of_another(side: Side) -> None:
    side.node("n1", "1")
    async with side.scheduler() as made:
        await side.pod("batch", priorityClassName="low")
        await side.bound("batch")
        await side.pod("web", priorityClassName="high")

        def is_leaving() -> bool:
            return "deletionTimestamp" in side.api.get(PODS, "batch", NAMESPACE)["metadata"]

        await until(is_leaving, "the victim is being deleted")
        conditions = side.api.get(PODS, "batch", NAMESPACE)["status"]["conditions"]
        [target] = [one for one in conditions if one["type"] == "DisruptionTarget"]
        assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
        status = side.api.get(PODS, "web", NAMESPACE)["status"]
        assert status["nominatedNodeName"] == "n1"
        await side.pod("late", priorityClassName="middle")
        await until(lambda: made.status().pending["unschedulable"] == 2, "both wait")
        side.api.delete(PODS, "batch", NAMESPACE)
        await side.bound("web")
        await until(lambda: "Preempted" in side.events("batch"), "the victim's Event")
        assert side.node_of("late") == "", "the room was kept"


async def test_nobody_is_preempted_by_a_pod_that_never_preempts(side: Side) -> None:
    side.node("n1", "1")
    async with side.scheduler():
        await side.pod("batch", priorityClassName="low")
        await side.bound("batch")
        await side.pod("web", priorityClassName="high", preemptionPolicy="Never")
        await until(lambda: side.scheduled("web").get("status") == "False", "it waits")
        assert "preemptionPolicy=Never" in side.scheduled("web")["message"]
        assert "deletionTimestamp" not in side.api.get(PODS, "batch", NAMESPACE)["metadata"]


@pytest.mark.parametrize("is_provisioned", [True, False])
async def test_a_pod_is_bound_once_its_claim_is(side: Side, is_provisioned: bool) -> None:
    """The test is the provisioner; the first time it may say that it cannot."""
    side.node("n1")
    storage = {"metadata": {"name": "fast"}, "provisioner": "csi.example.com"}
    side.api.put(STORAGE_CLASSES, {**storage, "volumeBindingMode": "WaitForFirstConsumer"})
    spec = {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"]}
    spec |= {"resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "data"}, "spec": spec, "status": {"phase": "Pending"}}
    side.api.put(VOLUME_CLAIMS, claim, NAMESPACE)

    def selected() -> str | None:
        found = side.api.get(VOLUME_CLAIMS, "data", NAMESPACE)["metadata"]
        node: str | None = found.get("annotations", {}).get(SELECTED_NODE)
        return node

    async with side.scheduler() as made:
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
        await side.pod("db", volumes=[volume])
        await until(lambda: selected() == "n1", "the claim is for the node")
        assert made.status().cached["assumed_pods"] == 1
        assert side.node_of("db") == ""
        if not is_provisioned:
            refused = {"metadata": {"annotations": {SELECTED_NODE: None}}}
            await side.client.patch(VOLUME_CLAIMS, "data", refused, NAMESPACE)
            await until(lambda: selected() == "n1", "it is tried again")
        reference = {"namespace": NAMESPACE, "name": "data"}
        reference["uid"] = side.api.get(VOLUME_CLAIMS, "data", NAMESPACE)["metadata"]["uid"]
        source = {"csi": {"driver": "csi.example.com", "volumeHandle": "1"}}
        given = {**source, "claimRef": reference, "capacity": {"storage": "1Gi"}}
        side.api.put(VOLUMES, {"metadata": {"name": "pv-1"}, "spec": given})
        complete = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}}
        bound = {**complete, "spec": {"volumeName": "pv-1"}}
        await side.client.patch(VOLUME_CLAIMS, "data", bound, NAMESPACE)
        await side.bound("db")
