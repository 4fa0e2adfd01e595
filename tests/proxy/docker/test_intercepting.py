"""The life of each intercepted call of docker's: asked, sent on, remembered."""

from __future__ import annotations

import json
import logging
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from koord_hooks.stages import Stage
from koord_model.patch import Patch
from koord_model.resources import LinuxResources
from koord_proto import hook_pb2 as pb
from koord_proxy.contract.events import Treatment
from koord_proxy.contract.runtime_client import NotKubernetesError, RuntimeNotFoundError
from koord_proxy.docker.calls import DockerApi
from koord_proxy.rules.merge import ContainerHookRequest, PodHookRequest
from koord_proxy.rules.records import RecordKind, RuntimeRecord
from koord_proxy.rules.registration import FailurePolicy
from koord_proxy.store import RecordStore

from tests.support import docker_bodies as bodies
from tests.support import docker_requests as requests
from tests.support import interception
from tests.support.docker_bodies import CONTAINER, CONTAINER_LABELS, PARENT_PATH, SANDBOX, UID, text
from tests.support.docker_requests import Asked
from tests.support.interception import AWAY, SKIP, Hooks, RefusedError, intercepting_for, said

SHARES = Patch(resources=LinuxResources(cpu_shares=7))

FOREIGN = requests.create("web", {"Image": "nginx", "Labels": {"app": "web"}})
UNREADABLE = requests.create(requests.name("main"), b'{"Image": "busybox"')
SWAP_TOO = ("memory_limit_in_bytes", "memory_swap_limit_in_bytes")


class Client(interception.Client):
    """A connection of cri-dockerd's, and the calls that are made on it."""

    def arrive(self, asked: Asked, *, problem: str = "") -> int:
        return self.arrived(asked.target, asked.body, problem)

    async def ask(self, asked: Asked, *, problem: str = "") -> Any:
        """The body as it goes on; None if it goes as it came. Raises what refuses it."""
        message = await self.sent(asked.target, asked.body, problem)
        return None if message is None else json.loads(message)

    # What cri-dockerd does, and what of it succeeds.

    async def run_pod(self, **labels: str | None) -> Any:
        sent = await self.ask(requests.create_sandbox(**labels))
        await self.end(requests.made(SANDBOX))
        return sent

    async def create(self, **more: Any) -> Any:
        sent = await self.ask(requests.create_container(**more))
        await self.end(requests.made(CONTAINER))
        return sent

    async def do(self, asked: Asked) -> Any:
        """One that has no answer but that it was done."""
        sent = await self.ask(asked)
        await self.end(b"")
        return sent


def intercepting(
    tmp_path: Path, hooks: Hooks | None = None, adopt: interception.LookUp | None = None
) -> AbstractAsyncContextManager[Client]:
    return intercepting_for(Client, DockerApi, tmp_path, hooks, adopt)


class LookUp:
    """What there is in dockerd, as far as it is looked up; notes what it was asked for."""

    def __init__(self, *there: RuntimeRecord) -> None:
        self._there = there
        self.asked: list[tuple[RecordKind, str]] = []

    async def __call__(self, store: RecordStore, kind: RecordKind, id: str) -> RuntimeRecord | None:  # noqa: A002
        self.asked.append((kind, id))
        for record in self._there:
            if record.id.startswith(id):
                if record.kind is not kind:
                    raise NotKubernetesError
                store.put(record)
                return record
        return None


class Foreign(LookUp):
    """Whatever is asked for is there, and nothing of Kubernetes'."""

    async def __call__(self, store: RecordStore, kind: RecordKind, id: str) -> RuntimeRecord | None:  # noqa: A002
        await super().__call__(store, kind, id)
        raise NotKubernetesError


def a_pod() -> RuntimeRecord:
    meta = {"name": "life", "namespace": "default", "uid": UID}
    return RuntimeRecord(
        RecordKind.POD,
        SANDBOX,
        PodHookRequest(pod_meta=meta, labels={"found": "1"}, annotations={"too": "1"}),
    )


def a_container() -> RuntimeRecord:
    meta = {"name": "life", "namespace": "default", "uid": UID}
    facts = ContainerHookRequest(
        pod_meta=meta,
        pod_labels={"found": "1"},
        container_meta={"name": "main", "id": CONTAINER},
        container_resources={"cpu_shares": 3},
    )
    return RuntimeRecord(RecordKind.CONTAINER, CONTAINER, facts, SANDBOX)


@pytest.fixture(autouse=True)
def seen(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pykoord")


def everything_said(caplog: pytest.LogCaptureFixture) -> str:
    return str([record.__dict__ for record in caplog.records])


class TestRoute:
    @pytest.mark.parametrize(
        ("stages", "held"),
        [
            (set(), set()),
            ({Stage.PRE_RUN_POD_SANDBOX}, {"create"}),
            ({Stage.PRE_CREATE_CONTAINER}, {"create"}),
            ({Stage.PRE_START_CONTAINER, Stage.POST_STOP_CONTAINER}, {"start"}),
            ({Stage.PRE_UPDATE_CONTAINER_RESOURCES}, {"update"}),
            ({Stage.PRE_REMOVE_POD_SANDBOX}, {"remove"}),
            (set(Stage), {"create", "start", "update", "remove"}),
        ],
    )
    async def test_only_what_is_asked_for_is_held(self, tmp_path, stages, held):
        asked = (
            requests.create_container(),
            requests.start(),
            requests.update(),
            requests.stop(),
            requests.remove(),
        )
        async with intercepting(tmp_path, Hooks(stages=frozenset(stages))) as client:
            routes = [client.interceptor.route(one.target) for one in asked]
            assert {route.method for route in routes if route.treatment is Treatment.HOLD} == held
            assert all(route.treatment is not Treatment.RELAY for route in routes)
            assert client.interceptor._metrics.tallies.keys() == {
                "POST /containers/create",
                "POST /containers/{id}/start",
                "POST /containers/{id}/update",
                "POST /containers/{id}/stop",
                "DELETE /containers/{id}",
            }

    @pytest.mark.parametrize(
        "target",
        [
            "GET /v1.46/containers/json?all=1",
            f"GET /v1.46/containers/{CONTAINER}/json",
            f"POST /v1.46/containers/{CONTAINER}/kill?signal=KILL",
            f"POST /v1.46/containers/{CONTAINER}/exec",
            "POST /v1.46/exec/x/start",
            "POST /v1.46/images/create?fromImage=busybox",
        ],
    )
    async def test_the_rest_is_not_read(self, tmp_path, target):
        async with intercepting(tmp_path) as client:
            assert client.interceptor.route(target).treatment is Treatment.RELAY


class TestRunPodSandbox:
    async def test_as_it_came_if_nobody_wants_a_change(self, tmp_path, caplog):
        async with intercepting(tmp_path) as client:
            assert await client.run_pod() is None
            assert client.stages() == ["PreRunPodSandbox"]
            assert client.counted() == {"RunPodSandbox hooked": 1}
            facts = client.facts(RecordKind.POD, SANDBOX)
        assert facts.pod_meta == pb.PodSandboxMetadata(name="life", namespace="default", uid=UID)
        assert facts.cgroup_parent == PARENT_PATH
        assert [record.fields for record in caplog.records] == [
            {
                "method": "RunPodSandbox",
                "pod": "default/life",
                "container": None,
                "changed": None,
                "missed": None,
            }
        ]

    async def test_changed_and_remembered_as_changed(self, tmp_path, caplog):
        wants = Patch(
            labels={"l": "1"},
            annotations={"a": "1"},
            cgroup_parent="/kubepods.slice/kubepods-x.slice",
        )
        async with intercepting(tmp_path, Hooks(wants=wants)) as client:
            sent = await client.run_pod()
            facts = client.facts(RecordKind.POD, SANDBOX)
        assert sent["Labels"]["l"] == facts.labels["l"] == "1"
        assert sent["Labels"]["annotation.a"] == facts.annotations["a"] == "1"
        assert sent["HostConfig"]["CgroupParent"] == "kubepods-x.slice"
        assert facts.cgroup_parent == "/kubepods.slice/kubepods-x.slice"
        untouched = bodies.sandbox_create()
        for body in (sent, untouched):
            del body["Labels"], body["HostConfig"]
        assert sent == untouched
        changed = "annotations[a], cgroup_parent, labels[l]"
        assert caplog.records[-1].fields["changed"] == changed

    async def test_it_is_expected_before_it_is_sent_on(self, tmp_path):
        async with intercepting(tmp_path) as client:
            release = client.release

            def check(stream: int, message: bytes | None = None) -> None:
                assert list(client.store._expected) == [f"pod/{UID}/0"]
                release(stream, message)

            client.release = check
            await client.ask(requests.create_sandbox())
            assert client.store.records(RecordKind.POD) == []
            await client.end(requests.made(SANDBOX))
            assert client.store._expected == {}

    @pytest.mark.parametrize("response", [None, b"", b"{}", b'{"Id":'], ids=repr)
    async def test_one_that_fails_is_expected_no_more(self, tmp_path, response):
        async with intercepting(tmp_path) as client:
            await client.ask(requests.create_sandbox())
            await client.end(response)
            assert client.store.records(RecordKind.POD) == []
            assert client.store._expected == {}

    async def test_watched_it_is_remembered_as_well(self, tmp_path):
        async with intercepting(tmp_path, Hooks(stages=frozenset())) as client:
            await client.run_pod()
            assert client.facts(RecordKind.POD, SANDBOX).pod_meta.name == "life"
            assert client.hooks.asked == []
            assert client.counted() == {}

    async def test_held_for_containers_only(self, tmp_path):
        stages = frozenset({Stage.PRE_CREATE_CONTAINER})
        async with intercepting(tmp_path, Hooks(stages=stages)) as client:
            await client.run_pod()
            assert client.hooks.asked == []
            assert client.facts(RecordKind.POD, SANDBOX).pod_meta.name == "life"
            await client.create()
            assert client.stages() == ["PreCreateContainer"]
            assert client.counted() == {"CreateContainer hooked": 1}

    async def test_its_start_is_no_call_of_its_own(self, tmp_path):
        async with intercepting(tmp_path) as client:
            await client.run_pod()
            for request in (requests.start(SANDBOX), requests.update(SANDBOX, CpuShares=4)):
                assert await client.do(request) is None
            assert client.stages() == ["PreRunPodSandbox"]
            assert client.counted() == {"RunPodSandbox hooked": 1}


class TestCreateContainer:
    async def test_in_a_pod_as_hooks_left_it(self, tmp_path):
        patch = Patch(labels={"l": "1"}, annotations={"a": "1"})
        async with intercepting(tmp_path, Hooks(wants=patch)) as client:
            await client.run_pod()
            client.hooks.wants = SHARES
            sent = await client.create()
            _, asked = client.hooks.asked[-1]
            record = client.store.get(RecordKind.CONTAINER, CONTAINER)
        assert asked.pod_labels["l"] == asked.pod_annotations["a"] == "1"
        assert asked.pod_labels["koordinator.sh/qosClass"] == "BE"
        assert asked.container_envs["A"] == "1"
        assert asked.container_meta.id == ""
        assert sent["HostConfig"] == bodies.container_create()["HostConfig"] | {"CpuShares": 7}
        # What was said of its pod is that of the pod, and not written into the container.
        assert sent["Labels"] == CONTAINER_LABELS
        assert record.facts.container_resources.cpu_shares == 7
        assert record.facts.container_meta.id == CONTAINER
        assert record.sandbox == SANDBOX

    async def test_in_a_pod_that_has_to_be_looked_up(self, tmp_path):
        adopt = LookUp(a_pod())
        async with intercepting(tmp_path, Hooks(wants=SHARES), adopt) as client:
            sent = await client.create()
            _, asked = client.hooks.asked[-1]
            assert client.counted() == {"CreateContainer hooked": 1}
            assert client.store.get(RecordKind.CONTAINER, CONTAINER).sandbox == SANDBOX
        assert adopt.asked == [(RecordKind.POD, SANDBOX)]
        assert sent["HostConfig"]["CpuShares"] == 7
        assert dict(asked.pod_labels) == {"found": "1"}
        assert dict(asked.pod_annotations) == {"too": "1"}
        assert asked.pod_cgroup_parent == PARENT_PATH

    async def test_in_a_pod_that_is_not_found(self, tmp_path):
        """Its names are known all the same."""
        adopt = LookUp()
        async with intercepting(tmp_path, Hooks(wants=SHARES), adopt) as client:
            sent = await client.create()
            _, asked = client.hooks.asked[-1]
            assert client.counted() == {"CreateContainer hooked": 1}
        assert adopt.asked == [(RecordKind.POD, SANDBOX)]
        assert sent["HostConfig"]["CpuShares"] == 7
        assert (asked.pod_meta.name, asked.pod_meta.uid) == ("life", UID)
        assert asked.pod_cgroup_parent == PARENT_PATH
        assert dict(asked.pod_labels) == {}

    async def test_in_what_is_no_pod(self, tmp_path, caplog):
        adopt = Foreign()
        async with intercepting(tmp_path, Hooks(wants=SHARES), adopt) as client:
            assert await client.create() is None
            assert client.hooks.asked == []
            assert client.counted() == {"CreateContainer foreign": 1}
        assert caplog.records == []

    async def test_watched_nothing_is_looked_up(self, tmp_path):
        async with intercepting(tmp_path, Hooks(stages=frozenset())) as client:
            await client.create()
            assert client.store.records(RecordKind.CONTAINER) == []

    async def test_secrets_are_not_said(self, tmp_path, caplog):
        body = bodies.container_create()
        body["Env"] += ["PASSWORD=hunter2"]
        request = requests.create(requests.name("main"), body)
        hooks = Hooks(wants=Patch(env={"TOKEN": "hunter3", "PASSWORD": "hunter4"}))
        async with intercepting(tmp_path, hooks, LookUp(a_pod())) as client:
            sent = await client.ask(request)
            await client.end(requests.made(CONTAINER))
            for more in (requests.start(), requests.update(CpuShares=4)):
                await client.do(more)
            hooks.wants = AWAY
            await client.ask(requests.create(requests.name("main"), body))
            await client.ask(requests.create(requests.name("main"), text(body)[:-2]))
        assert sent["Env"][-2:] == ["PASSWORD=hunter4", "TOKEN=hunter3"]
        assert caplog.records[0].fields["changed"] == "env[PASSWORD], env[TOKEN]"
        assert "hunter" not in everything_said(caplog)
        assert said(caplog)[-1] == "cannot decode the request"

    async def test_memory_takes_swap_along(self, tmp_path):
        wants = Patch(resources=LinuxResources(memory_limit=1 << 27))
        async with intercepting(tmp_path, Hooks(wants=wants), LookUp(a_pod())) as client:
            sent = await client.create()
            resources = client.facts(RecordKind.CONTAINER, CONTAINER).container_resources
        assert sent["HostConfig"]["Memory"] == sent["HostConfig"]["MemorySwap"] == 1 << 27
        assert [getattr(resources, name) for name in SWAP_TOO] == [1 << 27, 1 << 27]

    async def test_what_docker_has_no_field_for_is_told(self, tmp_path, caplog):
        wants = Patch(
            env={"B": "1"}, resources=LinuxResources(unified={"memory.high": "1", "io.weight": "2"})
        )
        async with intercepting(tmp_path, Hooks(wants=wants), LookUp(a_pod())) as client:
            sent = await client.create()
        assert sent["Env"][-1] == "B=1"
        told = caplog.records[-1]
        assert told.getMessage() == "the runtime's API has no field for some changes"
        assert told.levelno == logging.WARNING
        assert told.fields == {
            "method": "CreateContainer",
            "fields": "unified[io.weight], unified[memory.high]",
            "pod": "default/life",
            "container": "main",
        }


class TestForeign:
    @pytest.mark.parametrize("policy", list(FailurePolicy))
    async def test_nobody_is_asked_about_its_making(self, tmp_path, caplog, policy):
        hooks = Hooks(wants=AWAY, policy=policy)
        async with intercepting(tmp_path, hooks) as client:
            stream = client.arrive(FOREIGN)
            # At once, before anything else has its turn.
            assert client.released == {stream: None}
            await client.end(requests.made("f" * 64))
            assert client.hooks.asked == []
            assert client.counted() == {}
            assert (
                client.store.records(RecordKind.CONTAINER)
                == client.store.records(RecordKind.POD)
                == []
            )
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
    async def test_it_is_looked_up_and_let_go(self, tmp_path, caplog, request_, method, kind):
        adopt = Foreign()
        hooks = Hooks(wants=AWAY, policy=FailurePolicy.FAIL)
        async with intercepting(tmp_path, hooks, adopt) as client:
            assert await client.do(request_) is None
            assert client.hooks.asked == []
            assert client.counted() == {f"{method} foreign": 1}
            [(asked, _)] = adopt.asked
            assert asked is kind
        assert caplog.records == []

    async def test_its_stop_is_nobodys_business(self, tmp_path, caplog):
        async with intercepting(tmp_path) as client:
            await client.do(requests.stop("web"))
            assert client.hooks.asked == []
            assert client.counted() == {}
        assert caplog.records == []

    @pytest.mark.parametrize(
        ("request_", "method"),
        [(requests.start(), "StartContainer"), (requests.remove(), "RemovePodSandbox")],
    )
    async def test_one_that_nobody_knows(self, tmp_path, request_, method):
        async def adopt(*_: Any) -> RuntimeRecord:
            raise RuntimeNotFoundError("No such container")

        hooks = Hooks(wants=AWAY, policy=FailurePolicy.FAIL)
        async with intercepting(tmp_path, hooks, adopt) as client:
            assert await client.do(request_) is None
            assert client.counted() == {f"{method} unknown": 1}

    @pytest.mark.parametrize(
        ("request_", "method"),
        [(requests.start(), "StartContainer"), (requests.remove(), "RemovePodSandbox")],
    )
    async def test_one_that_cannot_be_looked_up(self, tmp_path, request_, method):
        async with intercepting(tmp_path, Hooks(policy=FailurePolicy.FAIL), LookUp()) as client:
            with pytest.raises(RefusedError):
                await client.do(request_)
            assert client.counted() == {f"{method} refused": 1}

    async def test_a_defect_stops_nobody(self, tmp_path, caplog):
        async def adopt(*_: Any) -> RuntimeRecord:
            raise KeyError("defect")

        async with intercepting(tmp_path, adopt=adopt) as client:
            assert await client.ask(requests.start()) is None
        assert said(caplog) == ["defect: call not hooked"]


class TestStartContainer:
    async def test_before_and_after(self, tmp_path):
        async with intercepting(tmp_path) as client:
            await client.run_pod()
            await client.create()
            client.hooks.wants = SHARES
            assert await client.do(requests.start()) is None
            assert client.stages()[-2:] == ["PreStartContainer", "PostStartContainer"]
            assert client.hooks.asked[-1][1].container_meta.id == CONTAINER
            assert client.facts(RecordKind.CONTAINER, CONTAINER).container_resources.cpu_shares == 7
            assert client.counted()["StartContainer hooked"] == 1

    async def test_one_that_has_to_be_looked_up(self, tmp_path):
        async with intercepting(tmp_path, adopt=LookUp(a_container())) as client:
            await client.do(requests.start(CONTAINER[:12]))
            assert client.stages() == ["PreStartContainer", "PostStartContainer"]
            assert client.hooks.asked[0][1].container_meta.id == CONTAINER
            assert client.hooks.asked[0][1].pod_labels == {"found": "1"}
            assert client.counted() == {"StartContainer hooked": 1}

    async def test_by_name(self, tmp_path):
        async with intercepting(tmp_path) as client:
            await client.run_pod()
            await client.create()
            await client.do(requests.start(requests.name("main")))
            assert client.stages()[-1] == "PostStartContainer"
            await client.do(requests.start(requests.name()))
            assert client.counted()["StartContainer hooked"] == 1


class TestUpdateContainerResources:
    async def test_what_hooks_want_besides(self, tmp_path):
        async with intercepting(tmp_path) as client:
            await client.run_pod()
            await client.create()
            client.hooks.wants = SHARES
            request = requests.update(CpuQuota=7000, CpusetCpus="1")
            later = b'{"Later":{"a": [1e9, null]},' + request.body[1:].rstrip()
            sent = await client.do(request._replace(body=later))
            _, asked = client.hooks.asked[-1]
            facts = client.facts(RecordKind.CONTAINER, CONTAINER)
        # What it does not know goes on as it came, what nobody changed is not said.
        assert sent == json.loads(later) | {"CpuShares": 7}
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
        assert facts.container_resources.cpu_shares == 7
        assert facts.container_resources.cpu_quota == 7000
        assert dict(facts.container_envs) == dict(asked.container_envs) != {}

    async def test_memory_takes_swap_along(self, tmp_path):
        async with intercepting(tmp_path) as client:
            await client.run_pod()
            await client.create()
            client.hooks.wants = Patch(resources=LinuxResources(memory_limit=1 << 28))
            sent = await client.do(requests.update(CpuShares=4))
            resources = client.facts(RecordKind.CONTAINER, CONTAINER).container_resources
        assert (sent["Memory"], sent["MemorySwap"]) == (1 << 28, 1 << 28)
        assert [getattr(resources, name) for name in SWAP_TOO] == [1 << 28, 1 << 28]

    async def test_as_it_came_if_nobody_wants_anything(self, tmp_path):
        async with intercepting(tmp_path) as client:
            await client.run_pod()
            await client.create()
            assert await client.do(requests.update(CpuShares=4)) is None
            assert client.facts(RecordKind.CONTAINER, CONTAINER).container_resources.cpu_shares == 4

    async def test_what_it_cannot_do_is_told_and_not_remembered(self, tmp_path, caplog):
        async with intercepting(tmp_path) as client:
            await client.run_pod()
            await client.create()
            client.hooks.wants = Patch(resources=LinuxResources(oom_score_adj=5))
            assert await client.do(requests.update(CpuShares=4)) is None
            resources = client.facts(RecordKind.CONTAINER, CONTAINER).container_resources
        assert (resources.oom_score_adj, resources.cpu_shares) == (1000, 4)
        told = caplog.records[-1]
        assert told.getMessage() == "the runtime's API has no field for some changes"
        assert told.fields["method"] == "UpdateContainerResources"
        assert told.fields["fields"] == "resources[oom_score_adj]"

    @pytest.mark.parametrize("stages", [frozenset(Stage), frozenset()], ids=["held", "watched"])
    async def test_one_that_fails_is_forgotten(self, tmp_path, stages):
        adopt = LookUp(a_pod())
        async with intercepting(tmp_path, Hooks(stages=stages), adopt) as client:
            await client.run_pod()
            await client.create()
            before = client.facts(RecordKind.CONTAINER, CONTAINER)
            await client.ask(requests.update(CpuQuota=7000))
            assert (
                client.facts(RecordKind.CONTAINER, CONTAINER).container_resources.cpu_quota == 7000
            )
            await client.end(None)
            assert client.facts(RecordKind.CONTAINER, CONTAINER) == before


class TestStopAndRemove:
    async def test_one_looked_up_by_the_beginning_of_its_id(self, tmp_path):
        async with intercepting(tmp_path, adopt=LookUp(a_pod())) as client:
            await client.do(requests.remove(SANDBOX[:12]))
            assert client.stages() == ["PreRemoveRunPodSandbox"]
            assert client.store.records(RecordKind.POD) == []

    @pytest.mark.parametrize(
        ("request_", "stage"),
        [
            (requests.stop(), "PostStopContainer"),
            (requests.stop(CONTAINER[:12]), "PostStopContainer"),
            (requests.remove(), None),
            (requests.remove(requests.name("main")), None),
        ],
    )
    async def test_a_container(self, tmp_path, request_, stage):
        async with intercepting(tmp_path) as client:
            await client.run_pod()
            await client.create()
            assert await client.do(request_) is None
            assert client.store.get(RecordKind.CONTAINER, CONTAINER) is None
            assert client.store.get(RecordKind.POD, SANDBOX) is not None
            assert client.stages()[2:] == ([stage] if stage else [])

    @pytest.mark.parametrize(
        ("request_", "stage"),
        [
            (requests.stop(SANDBOX), "PostStopPodSandbox"),
            (requests.remove(SANDBOX), "PreRemoveRunPodSandbox"),
            (requests.remove(SANDBOX[:12]), "PreRemoveRunPodSandbox"),
        ],
    )
    async def test_a_pod_with_its_containers(self, tmp_path, request_, stage):
        async with intercepting(tmp_path) as client:
            await client.run_pod()
            await client.create()
            assert await client.do(request_) is None
            assert (
                client.store.records(RecordKind.POD)
                == client.store.records(RecordKind.CONTAINER)
                == []
            )
            assert client.stages()[2:] == [stage]
            assert client.hooks.asked[-1][1].pod_meta.name == "life"

    async def test_a_whole_life(self, tmp_path):
        """In the order of cri-dockerd: all is stopped before it is removed."""
        adopt = LookUp(a_pod())
        async with intercepting(tmp_path, adopt=adopt) as client:
            await client.run_pod()
            await client.do(requests.start(SANDBOX))
            await client.create()
            for request in (
                requests.start(),
                requests.update(CpuShares=4),
                requests.stop(),
                requests.remove(),
                requests.stop(SANDBOX),
                requests.remove(SANDBOX),
            ):
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
            assert (
                client.store.records(RecordKind.POD)
                == client.store.records(RecordKind.CONTAINER)
                == []
            )
        # Whether what is removed is a pod, nobody knows any more.
        assert adopt.asked == [(RecordKind.POD, CONTAINER), (RecordKind.POD, SANDBOX)]

    @pytest.mark.parametrize(
        "request_",
        [requests.stop(), requests.remove(), requests.stop(SANDBOX), requests.remove(SANDBOX)],
    )
    async def test_one_that_fails_keeps_the_record(self, tmp_path, request_):
        async with intercepting(tmp_path) as client:
            await client.run_pod()
            await client.create()
            await client.ask(request_)
            await client.end(None)
            assert client.store.get(RecordKind.POD, SANDBOX)
            assert client.store.get(RecordKind.CONTAINER, CONTAINER)

    async def test_a_removal_is_refused(self, tmp_path):
        hooks = Hooks()
        async with intercepting(tmp_path, hooks) as client:
            await client.run_pod()
            hooks.wants, hooks.policy = AWAY, FailurePolicy.FAIL
            with pytest.raises(RefusedError, match="hooks"):
                await client.ask(requests.remove(SANDBOX))
            assert client.store.get(RecordKind.POD, SANDBOX)


class TestPolicy:
    @pytest.mark.parametrize(
        "request_",
        [
            requests.create_sandbox(),
            requests.create_container(),
            requests.start(),
            requests.update(),
        ],
        ids=["sandbox", "container", "start", "update"],
    )
    async def test_fail_refuses(self, tmp_path, request_):
        hooks = Hooks(wants=AWAY, policy=FailurePolicy.FAIL)
        adopt = LookUp(a_pod(), a_container())

        async with intercepting(tmp_path, hooks, adopt) as client:
            client.store.put(a_pod())
            client.store.put(a_container())
            with pytest.raises(RefusedError, match="hooks"):
                await client.ask(request_)
            assert client.released == {}
            assert client.store._expected == {}
            assert [result.split()[1] for result in client.counted()] == ["refused"]

    async def test_ignore_goes_on_and_is_noted(self, tmp_path, caplog):
        async with intercepting(tmp_path, Hooks(wants=AWAY)) as client:
            assert await client.run_pod() is None
            assert await client.create() is None
            pod = client.store.get(RecordKind.POD, SANDBOX)
            container = client.store.get(RecordKind.CONTAINER, CONTAINER)
            assert [missed.stage for missed in pod.missed] == ["PreRunPodSandbox"]
            assert [missed.stage for missed in container.missed] == ["PreCreateContainer"]
            assert client.counted() == {"RunPodSandbox missed": 1, "CreateContainer missed": 1}
        assert said(caplog) == ["hook not applied", "unmanaged"] * 2
        # And survives.
        again = RecordStore(str(tmp_path / "state.db"))
        assert again.get(RecordKind.CONTAINER, CONTAINER).missed == container.missed
        again.close()


class TestSkip:
    async def test_a_pod_that_says_so_is_never_hooked(self, tmp_path):
        hooks = Hooks(wants=AWAY, policy=FailurePolicy.FAIL)
        async with intercepting(tmp_path, hooks) as client:
            assert await client.run_pod(**{SKIP: "true"}) is None
            assert await client.create() is None
            for request in (
                requests.start(),
                requests.update(CpuShares=4),
                requests.stop(),
                requests.remove(SANDBOX),
            ):
                assert await client.do(request) is None
            assert hooks.asked == []
            assert set(client.counted()) == {
                f"{method} exempt"
                for method in (
                    "RunPodSandbox",
                    "CreateContainer",
                    "StartContainer",
                    "UpdateContainerResources",
                    "RemovePodSandbox",
                )
            }

    async def test_an_annotation_says_so_as_well(self, tmp_path):
        hooks = Hooks(wants=AWAY, policy=FailurePolicy.FAIL)
        async with intercepting(tmp_path, hooks) as client:
            assert await client.run_pod(**{f"annotation.{SKIP}": "true"}) is None
            assert await client.create() is None
            assert hooks.asked == []

    async def test_so_does_one_that_is_looked_up(self, tmp_path):
        pod = a_pod()
        pod.facts.labels[SKIP] = "true"
        hooks = Hooks(wants=AWAY, policy=FailurePolicy.FAIL)
        async with intercepting(tmp_path, hooks, LookUp(pod)) as client:
            assert await client.create() is None
            assert hooks.asked == []


class TestUnreadable:
    async def test_it_goes_on_if_nobody_insists(self, tmp_path, caplog):
        async with intercepting(tmp_path) as client:
            assert await client.ask(UNREADABLE) is None
            await client.end(None)
            assert client.hooks.asked == []
            assert client.counted() == {"create unreadable": 1}
        [told] = caplog.records
        assert told.getMessage() == "cannot decode the request"
        assert told.fields["method"] == "create"
        assert told.fields["problem"].startswith("the create body is not a JSON object")

    @pytest.mark.parametrize("stage", [Stage.PRE_RUN_POD_SANDBOX, Stage.PRE_CREATE_CONTAINER])
    async def test_it_is_refused_if_somebody_does(self, tmp_path, stage):
        hooks = Hooks(policy=FailurePolicy.FAIL, stages=frozenset({stage}))
        async with intercepting(tmp_path, hooks) as client:
            with pytest.raises(RefusedError, match="create: cannot decode the request: the create"):
                await client.ask(UNREADABLE)

    @pytest.mark.parametrize("name", ["web", "k8s_not_quite"])
    async def test_one_of_another_name_is_nobodys_business(self, tmp_path, caplog, name):
        hooks = Hooks(policy=FailurePolicy.FAIL)
        async with intercepting(tmp_path, hooks) as client:
            assert await client.ask(requests.create(name, UNREADABLE.body)) is None
            assert client.counted() == {}
        assert caplog.records == []

    async def test_an_update(self, tmp_path, caplog):
        async with intercepting(tmp_path) as client:
            await client.run_pod()
            await client.create()
            request = requests.update()._replace(body=b"CpuShares=4")
            assert await client.ask(request) is None
            await client.end(None)
            assert client.stages() == ["PreRunPodSandbox", "PreCreateContainer"]
        assert (
            caplog.records[-1].fields["problem"].startswith("the update body is not a JSON object")
        )

    async def test_one_that_is_too_large(self, tmp_path, caplog):
        async with intercepting(tmp_path) as client:
            problem = "it is larger than 1 bytes"
            assert await client.ask(requests.create_container(), problem=problem) is None
        assert caplog.records[-1].fields["problem"] == problem
