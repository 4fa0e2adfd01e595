"""What interception does for docker only; the rest is the contract in ``test_interceptor.py``."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from koord_hooks.stages import Stage
from koord_model.patch import Patch
from koord_model.resources import LinuxResources
from koord_proto import hook_pb2 as pb
from koord_proxy.contract.runtime_client import NotKubernetesError
from koord_proxy.rules.merge import ContainerHookRequest, PodHookRequest
from koord_proxy.rules.records import RecordKind, RuntimeRecord
from koord_proxy.rules.registration import FailurePolicy

from tests.support import docker_bodies as bodies
from tests.support import docker_requests as requests
from tests.support import interception
from tests.support.docker_bodies import CONTAINER, CONTAINER_LABELS, PARENT_PATH, SANDBOX, UID, text
from tests.support.interception import AWAY, SKIP, Client, Hooks, RefusedError, Runtime, said

SHARES = Patch(resources=LinuxResources(cpu_shares=7))
META = {"name": "life", "namespace": "default", "uid": UID}
FOREIGN = requests.create("web", {"Image": "nginx", "Labels": {"app": "web"}})
NO_FIELD = "the runtime's API has no field for some changes"

Intercepting = Callable[..., AbstractAsyncContextManager[Client]]


def a_pod(**labels: str) -> RuntimeRecord:
    hook_request = PodHookRequest(
        pod_meta=META, labels={"found": "1", **labels}, annotations={"too": "1"}
    )
    return RuntimeRecord(RecordKind.POD, SANDBOX, hook_request)


def a_container() -> RuntimeRecord:
    hook_request = ContainerHookRequest(
        pod_meta=META,
        pod_labels={"found": "1"},
        container_meta={"name": "main", "id": CONTAINER},
        container_resources={"cpu_shares": 3},
    )
    return RuntimeRecord(RecordKind.CONTAINER, CONTAINER, hook_request, SANDBOX)


def foreign() -> Runtime:
    """Whatever is looked up is there, and does not belong to Kubernetes."""
    return Runtime(error=NotKubernetesError())


@pytest.fixture
def intercepting(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Intercepting:
    caplog.set_level(logging.INFO, "pykoord")
    return functools.partial(interception.intercepting, requests, tmp_path)


async def made(client: Client) -> Client:
    await client.run_pod()
    await client.create()
    return client


class TestSandbox:
    async def test_nothing_else_of_it_is_changed(self, intercepting):
        async with intercepting(Hooks(wants=Patch(labels={"l": "1"}))) as client:
            sent = await client.run_pod()
        body = bodies.sandbox_create()
        assert sent.whole == body | {"Labels": body["Labels"] | {"l": "1"}}

    async def test_held_for_containers_only(self, intercepting):
        """Creates of both have one path."""
        async with intercepting(Hooks(stages=frozenset({Stage.PRE_CREATE_CONTAINER}))) as client:
            await client.run_pod()
            assert client.hooks.asked == []
            assert client.hook_request(SANDBOX).pod_meta.name == "life"
            await client.create()
            assert client.stages() == ["PreCreateContainer"]
            assert client.counted() == {"CreateContainer hooked": 1}

    async def test_its_start_and_update_are_only_relayed(self, intercepting):
        async with intercepting() as client:
            await client.run_pod()
            for request in (requests.start(SANDBOX), requests.update(SANDBOX, CpuShares=4)):
                assert await client.do(request) is None
            assert client.stages() == ["PreRunPodSandbox"]
            assert client.counted() == {"RunPodSandbox hooked": 1}


class TestCreateContainer:
    @pytest.mark.parametrize(
        ("has", "labels", "annotations"),
        [
            (Runtime(a_pod()), {"found": "1"}, {"too": "1"}),
            # Its names are known all the same.
            (Runtime(), {}, {}),
        ],
        ids=["found", "not found"],
    )
    async def test_its_pod_is_looked_up(self, intercepting, has, labels, annotations):
        async with intercepting(Hooks(wants=SHARES), has) as client:
            sent = await client.create()
            _, asked = client.hooks.asked[-1]
            assert client.counted() == {"CreateContainer hooked": 1}
            assert client.record().sandbox == SANDBOX
        assert has.asked == [(RecordKind.POD, SANDBOX)]
        assert sent.whole["HostConfig"] == bodies.container_create()["HostConfig"] | {
            "CpuShares": 7
        }
        assert sent.whole["Labels"] == CONTAINER_LABELS
        assert (asked.pod_labels, asked.pod_annotations) == (labels, annotations)
        assert asked.pod_meta == pb.PodSandboxMetadata(**META)
        assert asked.pod_cgroup_parent == PARENT_PATH

    async def test_one_whose_pod_is_found_and_exempt(self, intercepting):
        hooks = Hooks(wants=AWAY, policy=FailurePolicy.FAIL)
        async with intercepting(hooks, Runtime(a_pod(**{SKIP: "true"}))) as client:
            assert await client.create() is None
            assert hooks.asked == []

    async def test_in_what_is_not_a_pod(self, intercepting, caplog):
        async with intercepting(Hooks(wants=SHARES), foreign()) as client:
            assert await client.create() is None
            assert client.hooks.asked == []
            assert client.counted() == {"CreateContainer foreign": 1}
        assert caplog.records == []

    async def test_watched_nothing_is_looked_up(self, intercepting):
        async with intercepting(Hooks(stages=frozenset())) as client:
            await client.create()
            assert client.ids() == set()

    async def test_no_part_of_a_body_is_logged(self, intercepting, caplog):
        body = bodies.container_create()
        body["Env"] += ["PASSWORD=hunter2"]
        request = requests.create(requests.name("main"), body)
        hooks = Hooks(wants=Patch(env={"TOKEN": "hunter3", "PASSWORD": "hunter4"}))
        async with intercepting(hooks, Runtime(a_pod())) as client:
            sent = await client.do(request, requests.made(CONTAINER))
            for more in (requests.start(), requests.update(CpuShares=4)):
                await client.do(more)
            hooks.wants = AWAY
            await client.ask(request)
            await client.ask(request._replace(body=text(body)[:-2]))
        assert sent.whole["Env"][-2:] == ["PASSWORD=hunter4", "TOKEN=hunter3"]
        assert caplog.records[0].fields["changed"] == "env[PASSWORD], env[TOKEN]"
        assert "hunter" not in str([record.__dict__ for record in caplog.records])
        assert said(caplog)[-1] == "cannot decode the request"

    async def test_what_docker_has_no_field_for_is_logged(self, intercepting, caplog):
        unified = LinuxResources(unified={"memory.high": "1", "io.weight": "2"})
        wants = Patch(env={"B": "1"}, resources=unified)
        async with intercepting(Hooks(wants=wants), Runtime(a_pod())) as client:
            sent = await client.create()
        assert sent.whole["Env"][-1] == "B=1"
        event = caplog.records[-1]
        assert (event.getMessage(), event.levelno) == (NO_FIELD, logging.WARNING)
        assert event.fields == {
            "method": "CreateContainer",
            "fields": "unified[io.weight], unified[memory.high]",
            "pod": "default/life",
            "container": "main",
        }


async def test_memory_takes_swap_along(intercepting):
    async with intercepting() as client:
        await client.run_pod()
        for call, limit in (
            (requests.create_container(), 1 << 27),
            (requests.update(CpuShares=4), 1 << 28),
        ):
            client.hooks.wants = Patch(resources=LinuxResources(memory_limit=limit))
            sent = (await client.do(call, requests.made(CONTAINER))).whole
            limits = sent.get("HostConfig", sent)
            resources = client.hook_request().container_resources
            assert limits["Memory"] == limits["MemorySwap"] == limit
            assert resources.memory_limit_in_bytes == limit
            assert resources.memory_swap_limit_in_bytes == limit


class TestForeign:
    """Containers that do not belong to Kubernetes."""

    @pytest.mark.parametrize("policy", list(FailurePolicy))
    async def test_nobody_is_asked_about_its_making(self, intercepting, caplog, policy):
        async with intercepting(Hooks(wants=AWAY, policy=policy)) as client:
            stream = client.arrive(FOREIGN)
            # At once, before anything else has its turn.
            assert client.released == {stream: None}
            await client.end(requests.made("f" * 64))
            await client.do(requests.stop("web"))
            # A body that cannot be decoded says by its name whose it is.
            for name in ("web", "k8s_not_quite"):
                await client.do(requests.create(name, requests.unreadable().body))
            assert client.hooks.asked == []
            assert client.counted() == {}
            assert client.ids() == set()
        assert caplog.records == []

    @pytest.mark.parametrize(
        ("request_", "method", "kind"),
        [
            (requests.start("f" * 64), "StartContainer", RecordKind.CONTAINER),
            (requests.update("f" * 64), "UpdateContainerResources", RecordKind.CONTAINER),
            (requests.remove("f" * 64), "RemovePodSandbox", RecordKind.POD),
            (requests.start("web"), "StartContainer", RecordKind.CONTAINER),
        ],
    )
    async def test_it_is_looked_up_and_let_go(self, intercepting, caplog, request_, method, kind):
        has = foreign()
        async with intercepting(Hooks(wants=AWAY, policy=FailurePolicy.FAIL), has) as client:
            assert await client.do(request_) is None
            assert client.hooks.asked == []
            assert client.counted() == {f"{method} foreign": 1}
        assert [asked for asked, _ in has.asked] == [kind]
        assert caplog.records == []

    async def test_one_to_be_removed_that_cannot_be_looked_up(self, intercepting):
        async with intercepting(Hooks(policy=FailurePolicy.FAIL), Runtime()) as client:
            with pytest.raises(RefusedError):
                await client.do(requests.remove())
            assert client.counted() == {"RemovePodSandbox refused": 1}


@pytest.mark.parametrize("reference", [CONTAINER[:12], requests.name("main")])
async def test_calls_by_short_ids_and_names(intercepting, reference):
    async with intercepting() as client:
        await made(client)
        await client.do(requests.start(reference))
        assert client.stages()[-1] == "PostStartContainer"
        # One that names the sandbox is not of a container.
        await client.do(requests.start(requests.name()))
        assert client.counted()["StartContainer hooked"] == 1
        await client.do(requests.stop(reference))
        assert client.stages()[-1] == "PostStopContainer"
        assert client.ids() == {SANDBOX}


@pytest.mark.parametrize(
    ("has", "request_", "stages"),
    [
        (
            Runtime(a_container()),
            requests.start(CONTAINER[:12]),
            ["PreStartContainer", "PostStartContainer"],
        ),
        (Runtime(a_pod()), requests.remove(SANDBOX[:12]), ["PreRemoveRunPodSandbox"]),
    ],
)
async def test_what_a_short_id_names_is_looked_up(intercepting, has, request_, stages):
    async with intercepting(adopt=has) as client:
        await client.do(request_)
        assert client.stages() == stages
        assert client.hooks.asked[0][1].pod_meta.name == "life"
        assert client.ids() == ({CONTAINER} if len(stages) > 1 else set())


class TestUpdate:
    async def test_only_what_hooks_changed_is_changed(self, intercepting):
        async with intercepting() as client:
            (await made(client)).hooks.wants = SHARES
            request = requests.update(CpuQuota=7000, CpusetCpus="1")
            later = b'{"Later":{"a": [1e9, null]},' + request.body[1:].rstrip()
            sent = await client.do(request._replace(body=later))
            _, asked = client.hooks.asked[-1]
        assert sent.whole == json.loads(later) | {"CpuShares": 7}
        assert client.released[client.stream] == later.replace(b'"CpuShares":0', b'"CpuShares":7')
        known = bodies.container_create()["HostConfig"]
        assert asked.container_resources == pb.LinuxContainerResources(
            cpu_quota=7000,
            cpuset_cpus="1",
            cpu_shares=known["CpuShares"],
            cpu_period=known["CpuPeriod"],
            memory_limit_in_bytes=known["Memory"],
            memory_swap_limit_in_bytes=known["MemorySwap"],
            oom_score_adj=known["OomScoreAdj"],
        )

    async def test_what_it_cannot_do_is_logged_and_not_remembered(self, intercepting, caplog):
        async with intercepting() as client:
            await made(client)
            client.hooks.wants = Patch(resources=LinuxResources(oom_score_adj=5))
            assert await client.do(requests.update(CpuShares=4)) is None
            resources = client.hook_request().container_resources
        assert (resources.oom_score_adj, resources.cpu_shares) == (1000, 4)
        event = caplog.records[-1]
        assert event.getMessage() == NO_FIELD
        assert event.fields["method"] == "UpdateContainerResources"
        assert event.fields["fields"] == "resources[oom_score_adj]"

    async def test_one_that_cannot_be_decoded(self, intercepting, caplog):
        async with intercepting() as client:
            await made(client)
            request = requests.update()._replace(body=b"CpuShares=4")
            assert await client.do(request, None) is None
            assert client.stages() == ["PreRunPodSandbox", "PreCreateContainer"]
        problem = caplog.records[-1].fields["problem"]
        assert problem.startswith("the update body is not a JSON object")


@pytest.mark.parametrize("stage", [Stage.PRE_RUN_POD_SANDBOX, Stage.PRE_CREATE_CONTAINER])
async def test_an_unreadable_create_may_be_of_either(intercepting, stage):
    hooks = Hooks(policy=FailurePolicy.FAIL, stages=frozenset({stage}))
    async with intercepting(hooks) as client:
        with pytest.raises(RefusedError, match="create: cannot decode the request: the create"):
            await client.ask(requests.unreadable())


async def test_a_whole_life(intercepting):
    """In the order of cri-dockerd: all is stopped before it is removed."""
    has = Runtime(a_pod())
    async with intercepting(adopt=has) as client:
        await client.run_pod()
        await client.do(requests.start(SANDBOX))
        await client.create()
        calls: list[Any] = [requests.start(), requests.update(CpuShares=4), requests.stop()]
        calls += [requests.remove(), requests.stop(SANDBOX), requests.remove(SANDBOX)]
        for request in calls:
            await client.do(request)
        assert client.stages() == [
            "PreRunPodSandbox",
            "PreCreateContainer",
            "PreStartContainer",
            "PostStartContainer",
            "PreUpdateContainerResources",
            "PostStopContainer",
            "PostStopPodSandbox",
            "PreRemoveRunPodSandbox",
        ]
        assert client.ids() == set()
    # Whether what is removed is a pod, nobody knows any more.
    assert has.asked == [(RecordKind.POD, CONTAINER), (RecordKind.POD, SANDBOX)]
