"""The life of each intercepted call: what is asked, what is sent on, what is remembered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from koord_hooks.stages import Stage
from koord_model.patch import Patch
from koord_model.resources import LinuxResources
from koord_proto import cri_pb2 as cri
from koord_proto import hook_pb2 as pb
from koord_proxy.contract.events import CallAbandoned, CallEnded, Treatment
from koord_proxy.contract.runtime_client import RuntimeNotFoundError
from koord_proxy.cri.calls import INTERCEPTED, MESSAGES, CriApi
from koord_proxy.interceptor import SkipRule
from koord_proxy.rules.records import KEPT_MISSED, MissedHookCall, RecordKind, RuntimeRecord
from koord_proxy.rules.registration import FailurePolicy
from koord_proxy.store import RecordStore

from tests.support import interception
from tests.support.interception import AWAY, SKIP, Hooks, RefusedError, intercepting_for, said


class Client(interception.Client):
    """A kubelet's connection."""

    def arrive(self, method: str, request: Any, *, problem: str = "") -> int:
        return self.arrived(_path(method), _bytes(request), problem)

    async def ask(self, method: str, request: Any, *, problem: str = "") -> Any:
        """The request as it goes on; None if it goes as it came. Raises what refuses it."""
        message = await self.sent(_path(method), _bytes(request), problem)
        return None if message is None else MESSAGES[method].request.FromString(message)

    # What a kubelet does.

    async def run_pod(self, **more: Any) -> Any:
        sent = await self.ask("RunPodSandbox", pod_request(**more))
        await self.end(cri.RunPodSandboxResponse(pod_sandbox_id="s"))
        return sent

    async def create(self, **more: Any) -> Any:
        sent = await self.ask("CreateContainer", create_request(**more))
        await self.end(cri.CreateContainerResponse(container_id="c"))
        return sent


def pod_request(**config: Any) -> cri.RunPodSandboxRequest:
    sandbox = {
        "metadata": {"name": "job", "namespace": "batch", "uid": "u"},
        "labels": {"app": "job"},
        "linux": {"cgroup_parent": "/p"},
        **config,
    }
    return cri.RunPodSandboxRequest(config=sandbox, runtime_handler="runc")


def create_request(sandbox: str = "s", **config: Any) -> cri.CreateContainerRequest:
    container = {
        "metadata": {"name": "main"},
        "envs": [{"key": "A", "value": b"hunter2"}],
        "annotations": {"c": "1"},
        "linux": {"resources": {"cpu_shares": 2, "cpuset_cpus": "0-3"}},
        **config,
    }
    return cri.CreateContainerRequest(
        pod_sandbox_id=sandbox, config=container, sandbox_config=pod_request().config
    )


def update_request(**linux: Any) -> cri.UpdateContainerResourcesRequest:
    return cri.UpdateContainerResourcesRequest(container_id="c", linux=linux)


POD_ID = cri.PodSandboxIdRequest(pod_sandbox_id="s")
CONTAINER_ID = cri.ContainerIdRequest(container_id="c")
SHARES = Patch(resources=LinuxResources(cpu_shares=7))


def intercepting(
    tmp_path: Path,
    hooks: Hooks | None = None,
    adopt: Callable[[RecordKind, str], Awaitable[RuntimeRecord | None]] | None = None,
    others: Iterable[Hooks] = (),
) -> AbstractAsyncContextManager[Client]:
    async def look_up(_: RecordStore, kind: RecordKind, id: str) -> RuntimeRecord | None:  # noqa: A002
        return None if adopt is None else await adopt(kind, id)

    return intercepting_for(Client, lambda _: CriApi(), tmp_path, hooks, look_up, others)


def _path(method: str) -> str:
    return f"/runtime.v1.RuntimeService/{method}"


def _bytes(request: Any) -> bytes:
    data: bytes = request if isinstance(request, bytes) else request.SerializeToString()
    return data


@pytest.fixture(autouse=True)
def seen(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pykoord")


class TestRoute:
    async def test_only_what_is_asked_for_is_held(self, tmp_path):
        stages = frozenset({Stage.PRE_CREATE_CONTAINER, Stage.POST_STOP_CONTAINER})
        async with intercepting(tmp_path, Hooks(stages=stages)) as client:
            routes = {path: client.interceptor.route(path) for path in INTERCEPTED}
            for version in ("v1", "v1alpha2"):
                held = {
                    route.method
                    for path, route in routes.items()
                    if route.treatment is Treatment.HOLD and f".{version}." in path
                }
                assert held == {"CreateContainer"}
            assert {route.treatment for route in routes.values()} == {
                Treatment.HOLD,
                Treatment.WATCH,
            }
            other = client.interceptor.route("/runtime.v1.RuntimeService/ListContainers")
            assert other.treatment is Treatment.RELAY
            assert client.interceptor._metrics.tallies.keys() == {
                *INTERCEPTED,
                "/runtime.v1.RuntimeService/ListContainers",
            }


class TestRunPodSandbox:
    async def test_as_it_came_if_nobody_wants_a_change(self, tmp_path, caplog):
        async with intercepting(tmp_path) as client:
            assert await client.run_pod() is None
            assert client.stages() == ["PreRunPodSandbox"]
            assert client.counted() == {"RunPodSandbox hooked": 1}
            facts = client.facts(RecordKind.POD, "s")
        assert facts.runtime_handler == "runc"
        assert facts.pod_meta.name == "job"
        assert [record.fields for record in caplog.records] == [
            {
                "method": "RunPodSandbox",
                "pod": "batch/job",
                "container": None,
                "changed": None,
                "missed": None,
            }
        ]

    async def test_changed_and_remembered_as_changed(self, tmp_path, caplog):
        hooks = Hooks(wants=Patch(labels={"l": "1"}, annotations={"a": "1"}, cgroup_parent="/q"))
        async with intercepting(tmp_path, hooks) as client:
            sent = await client.run_pod()
            facts = client.facts(RecordKind.POD, "s")
        assert sent.config.labels == {"app": "job", "l": "1"}
        assert sent.config.annotations == {"a": "1"}
        assert sent.config.linux.cgroup_parent == facts.cgroup_parent == "/q"
        assert sent.runtime_handler == "runc"
        assert caplog.records[-1].fields["changed"] == "annotations[a], cgroup_parent, labels[l]"

    async def test_it_is_expected_before_it_is_sent_on(self, tmp_path):
        async with intercepting(tmp_path) as client:
            release = client.release

            def check(stream: int, message: bytes | None = None) -> None:
                assert list(client.store._expected) == ["pod/u/0"]
                release(stream, message)

            client.release = check
            await client.ask("RunPodSandbox", pod_request())
            assert client.store.records(RecordKind.POD) == []
            await client.end(cri.RunPodSandboxResponse(pod_sandbox_id="s"))
            assert client.store._expected == {}

    @pytest.mark.parametrize("response", [None, b"", b"\xff\xff"], ids=repr)
    async def test_one_that_fails_is_expected_no_more(self, tmp_path, response):
        async with intercepting(tmp_path) as client:
            await client.ask("RunPodSandbox", pod_request())
            await client.end(response)
            assert client.store.records(RecordKind.POD) == []
            assert client.store._expected == {}

    async def test_one_that_fails_with_values_of_hooks_says_so(self, tmp_path, caplog):
        hooks = Hooks(wants=Patch(labels={"l": "1"}))
        async with intercepting(tmp_path, hooks) as client:
            await client.ask("RunPodSandbox", pod_request())
            await client.end(None)
            hooks.wants = Patch()
            await client.ask("RunPodSandbox", pod_request())
            await client.end(None)
        line = "call failed after hooks changed it"
        [event] = [one for one in caplog.records if one.getMessage() == line]
        assert event.fields == {
            "method": "RunPodSandbox",
            "changed": "labels[l]",
            "pod": "batch/job",
            "container": None,
        }

    async def test_watched_it_is_remembered_as_well(self, tmp_path):
        async with intercepting(tmp_path, Hooks(stages=frozenset())) as client:
            await client.run_pod()
            assert client.facts(RecordKind.POD, "s").pod_meta.name == "job"
            assert client.hooks.asked == []
            assert client.counted() == {}


class TestCreateContainer:
    async def test_in_a_pod_as_hooks_left_it(self, tmp_path):
        async with intercepting(tmp_path, Hooks(wants=Patch(labels={"l": "1"}))) as client:
            await client.run_pod()
            client.hooks.wants = SHARES
            sent = await client.create()
            _, asked = client.hooks.asked[-1]
            facts = client.facts(RecordKind.CONTAINER, "c")
            record = client.store.get(RecordKind.CONTAINER, "c")
        assert dict(asked.pod_labels) == {"app": "job", "l": "1"}
        assert asked.container_meta.id == ""
        assert dict(asked.container_envs) == {"A": "hunter2"}
        # What the container's request says of its pod stays as the kubelet has it.
        assert dict(sent.sandbox_config.labels) == {"app": "job"}
        assert sent.config.linux.resources.cpu_shares == 7
        assert facts.container_resources.cpu_shares == 7
        assert facts.container_meta.id == "c"
        assert record.sandbox == "s"

    async def test_in_a_pod_that_is_not_known(self, tmp_path):
        async with intercepting(tmp_path, Hooks(wants=SHARES)) as client:
            sent = await client.create()
            _, asked = client.hooks.asked[-1]
        assert sent.config.linux.resources.cpu_shares == 7
        assert asked.pod_meta.name == "job"
        assert asked.pod_cgroup_parent == "/p"

    async def test_secrets_are_not_said(self, tmp_path, caplog):
        async with intercepting(tmp_path, Hooks(wants=Patch(env={"B": "hunter2"}))) as client:
            await client.create()
        assert caplog.records[-1].fields["changed"] == "env[B]"
        assert "hunter2" not in str([record.__dict__ for record in caplog.records])


class TestStartContainer:
    async def test_hooks_change_only_what_is_remembered(self, tmp_path):
        async with intercepting(tmp_path) as client:
            await client.run_pod()
            await client.create()
            client.hooks.wants = SHARES
            assert await client.ask("StartContainer", CONTAINER_ID) is None
            await client.end()
            assert client.facts(RecordKind.CONTAINER, "c").container_resources.cpu_shares == 7
            assert client.stages()[-2:] == ["PreStartContainer", "PostStartContainer"]
            assert client.hooks.asked[-1][1].container_meta.id == "c"

    async def test_the_hook_after_it_is_asked_even_if_it_failed(self, tmp_path):
        async with intercepting(tmp_path) as client:
            await client.create()
            client.hooks.wants = SHARES
            await client.ask("StartContainer", CONTAINER_ID)
            await client.end(None)
            assert client.facts(RecordKind.CONTAINER, "c").container_resources.cpu_shares == 2
            assert client.stages()[-1] == "PostStartContainer"

    @pytest.mark.parametrize("policy", list(FailurePolicy))
    async def test_a_hook_after_it_that_was_missed_is_noted(self, tmp_path, policy):
        async with intercepting(tmp_path, Hooks(policy=policy)) as client:
            await client.create()
            await client.ask("StartContainer", CONTAINER_ID)
            client.hooks.wants = AWAY
            await client.end()
            [missed] = client.store.get(RecordKind.CONTAINER, "c").missed
            assert missed.stage == "PostStartContainer"
            # What is gone is not brought back.
            await client.ask("StopContainer", CONTAINER_ID)
            await client.end()
            assert client.store.records(RecordKind.CONTAINER) == []

    async def test_nobody_waits_for_the_hook_after_it(self, tmp_path, caplog):
        async with intercepting(tmp_path) as client:
            await client.create()
            await client.ask("StartContainer", CONTAINER_ID)
            client.hooks.wants = KeyError("defect")
            await client.end()
            assert said(caplog)[-1] == "defect: post hook failed"
            assert client.calls == {}


class TestUpdateContainerResources:
    async def test_the_full_set_goes_on(self, tmp_path):
        async with intercepting(tmp_path, Hooks(wants=SHARES)) as client:
            await client.create()
            sent = await client.ask(
                "UpdateContainerResources", update_request(cpu_quota=5000, cpuset_cpus="1")
            )
            await client.end()
            _, asked = client.hooks.asked[-1]
            facts = client.facts(RecordKind.CONTAINER, "c")
        wanted = {"cpu_shares": 7, "cpu_quota": 5000, "cpuset_cpus": "1"}
        assert asked.container_resources == pb.LinuxContainerResources(**wanted)
        assert dict(asked.container_envs) == {"A": "hunter2"}
        assert sent.linux == cri.LinuxContainerResources(**wanted)
        assert sent.annotations == {"c": "1"}
        assert facts.container_resources == asked.container_resources

    async def test_as_it_came_if_it_is_the_full_set(self, tmp_path):
        async with intercepting(tmp_path) as client:
            await client.create()
            request = update_request(cpu_shares=3, cpuset_cpus="1")
            request.annotations["c"] = "1"
            assert await client.ask("UpdateContainerResources", request) is None

    async def test_as_it_came_if_nobody_answered(self, tmp_path):
        async with intercepting(tmp_path) as client:
            await client.create()
            client.hooks.wants = AWAY
            request = update_request(cpu_quota=5000)
            assert await client.ask("UpdateContainerResources", request) is None

    @pytest.mark.parametrize("stages", [frozenset(Stage), frozenset()], ids=["held", "watched"])
    async def test_one_that_fails_is_forgotten(self, tmp_path, stages):
        async with intercepting(tmp_path, Hooks(stages=stages)) as client:
            await client.create()
            before = client.facts(RecordKind.CONTAINER, "c")
            await client.ask("UpdateContainerResources", update_request(cpu_quota=5000))
            assert client.facts(RecordKind.CONTAINER, "c").container_resources.cpu_quota == 5000
            await client.end(None)
            assert client.facts(RecordKind.CONTAINER, "c") == before
            # On the disk, too.
            again = RecordStore(str(tmp_path / "state.db"))
            assert again.get(RecordKind.CONTAINER, "c").facts == before
            again.close()

    async def test_watched_it_is_remembered(self, tmp_path):
        async with intercepting(tmp_path, Hooks(stages=frozenset())) as client:
            await client.create()
            await client.ask("UpdateContainerResources", update_request(cpu_quota=5000))
            await client.end()
            facts = client.facts(RecordKind.CONTAINER, "c")
            assert facts.container_resources.cpu_quota == 5000
            assert facts.container_resources.cpu_shares == 2

    async def test_watched_of_an_unknown_container(self, tmp_path):
        async with intercepting(tmp_path, Hooks(stages=frozenset())) as client:
            await client.ask("UpdateContainerResources", update_request(cpu_quota=5000))
            await client.end()
            assert client.store.records(RecordKind.CONTAINER) == []


class TestStopAndRemove:
    @pytest.mark.parametrize("method", ["StopContainer", "RemoveContainer"])
    async def test_a_container(self, tmp_path, method):
        async with intercepting(tmp_path) as client:
            await client.run_pod()
            await client.create()
            assert await client.ask(method, CONTAINER_ID) is None
            await client.end()
            assert client.store.get(RecordKind.CONTAINER, "c") is None
            assert client.store.get(RecordKind.POD, "s") is not None
            expected = ["PostStopContainer"] if method == "StopContainer" else []
            assert client.stages()[2:] == expected

    @pytest.mark.parametrize(
        ("method", "stage"),
        [
            ("StopPodSandbox", "PostStopPodSandbox"),
            ("RemovePodSandbox", "PreRemoveRunPodSandbox"),
        ],
    )
    async def test_a_pod_with_its_containers(self, tmp_path, method, stage):
        async with intercepting(tmp_path) as client:
            await client.run_pod()
            await client.create()
            assert await client.ask(method, POD_ID) is None
            await client.end()
            assert (
                client.store.records(RecordKind.POD)
                == client.store.records(RecordKind.CONTAINER)
                == []
            )
            assert client.stages()[2:] == [stage]
            assert client.hooks.asked[-1][1].pod_meta.name == "job"

    @pytest.mark.parametrize(
        ("method", "request_"),
        [
            ("StopContainer", CONTAINER_ID),
            ("RemoveContainer", CONTAINER_ID),
            ("StopPodSandbox", POD_ID),
            ("RemovePodSandbox", POD_ID),
        ],
    )
    async def test_one_that_fails_keeps_the_record(self, tmp_path, method, request_):
        async with intercepting(tmp_path) as client:
            await client.run_pod()
            await client.create()
            await client.ask(method, request_)
            await client.end(None)
            assert client.store.get(RecordKind.POD, "s")
            assert client.store.get(RecordKind.CONTAINER, "c")
            # A repeated call is hooked again.
            client.hooks.asked.clear()
            await client.ask(method, request_)
            await client.end()
            assert len(client.hooks.asked) == (method != "RemoveContainer")

    async def test_what_is_not_known_has_no_hooks(self, tmp_path):
        async with intercepting(tmp_path) as client:
            await client.ask("StopContainer", CONTAINER_ID)
            await client.end()
            assert client.hooks.asked == []


class TestSkip:
    @pytest.mark.parametrize("where", ["labels", "annotations"])
    async def test_a_pod_that_says_so_is_never_hooked(self, tmp_path, where):
        # The hooks are away and must not be missed: this may be their own pod.
        hooks = Hooks(wants=AWAY, policy=FailurePolicy.FAIL)
        async with intercepting(tmp_path, hooks) as client:
            assert await client.run_pod(**{where: {SKIP: "true"}}) is None
            assert await client.create() is None
            for method in ("StartContainer", "UpdateContainerResources", "StopContainer"):
                request = MESSAGES[method].request(container_id="c")
                assert await client.ask(method, request) is None
                await client.end()
            assert await client.ask("RemovePodSandbox", POD_ID) is None
            await client.end()
            assert hooks.asked == []
            assert client.counted() == {
                f"{method} exempt": 1
                for method in (
                    "RunPodSandbox",
                    "CreateContainer",
                    "StartContainer",
                    "UpdateContainerResources",
                    "RemovePodSandbox",
                )
            }

    async def test_its_records_are_kept_all_the_same(self, tmp_path):
        async with intercepting(tmp_path) as client:
            await client.run_pod(labels={SKIP: "true"})
            await client.create()
            await client.ask("UpdateContainerResources", update_request(cpu_quota=5000))
            await client.end()
            assert client.facts(RecordKind.CONTAINER, "c").container_resources.cpu_quota == 5000

    @pytest.mark.parametrize(
        ("rule", "labels", "skipped"),
        [
            (SkipRule("k", "v"), {"k": "v"}, True),
            (SkipRule("k", "v"), {"k": "w"}, False),
            (SkipRule("k", "v"), {"v": "k"}, False),
            (SkipRule("k", ""), {"k": ""}, True),
            (SkipRule("k", ""), {}, False),
            (SkipRule("", ""), {"": ""}, False),
        ],
        ids=str,
    )
    def test_the_rule(self, rule, labels, skipped):
        assert rule.matches(pb.PodSandboxHookRequest(labels=labels)) is skipped
        assert rule.matches(pb.PodSandboxHookRequest(annotations=labels)) is skipped
        assert rule.matches(pb.ContainerResourceHookRequest(pod_labels=labels)) is skipped
        assert rule.matches(pb.ContainerResourceHookRequest(pod_annotations=labels)) is skipped
        # The container's own annotations are nobody's business here.
        own = pb.ContainerResourceHookRequest(container_annotations=labels)
        assert rule.matches(own) is False


class TestMissed:
    async def test_ignored_it_goes_on_and_is_marked(self, tmp_path, caplog):
        async with intercepting(tmp_path, Hooks(wants=AWAY)) as client:
            assert await client.run_pod() is None
            [missed] = client.store.get(RecordKind.POD, "s").missed
            assert (missed.stage, missed.server) == ("PreRunPodSandbox", "hooks")
            assert missed.reason == "no answer"
            assert client.counted() == {"RunPodSandbox missed": 1}
        assert caplog.records[-1].getMessage() == "unmanaged"
        assert caplog.records[-1].fields["missed"] == "hooks"
        again = RecordStore(str(tmp_path / "state.db"))
        assert again.get(RecordKind.POD, "s").missed == [missed]
        again.close()

    async def test_refused_it_does_not_go_on_and_nothing_is_remembered(self, tmp_path):
        async with intercepting(tmp_path, Hooks(wants=AWAY, policy=FailurePolicy.FAIL)) as client:
            with pytest.raises(RefusedError) as caught:
                await client.ask("RunPodSandbox", pod_request())
            [message] = caught.value.args
            assert message == (
                "koord-runtime-proxy: hook server hooks at PreRunPodSandbox: no answer "
                "(its failure policy is Fail)"
            )
            assert client.released == {}
            assert client.store._expected == {}
            assert client.counted() == {"RunPodSandbox refused": 1}

    async def test_a_refused_update_changes_no_record(self, tmp_path):
        async with intercepting(tmp_path) as client:
            await client.create()
            before = client.facts(RecordKind.CONTAINER, "c").SerializeToString(deterministic=True)
            client.hooks.wants, client.hooks.policy = AWAY, FailurePolicy.FAIL
            with pytest.raises(RefusedError):
                await client.ask("UpdateContainerResources", update_request(cpu_quota=5000))
            after = client.facts(RecordKind.CONTAINER, "c").SerializeToString(deterministic=True)
            assert after == before

    async def test_only_so_many_are_remembered(self, tmp_path):
        async with intercepting(tmp_path) as client:
            await client.create()
            client.hooks.wants = AWAY
            for quota in range(KEPT_MISSED + 3):
                request = update_request(cpu_quota=5000 + quota)
                await client.ask("UpdateContainerResources", request)
                await client.end()
            assert len(client.store.get(RecordKind.CONTAINER, "c").missed) == KEPT_MISSED

    async def test_what_another_server_wants_is_done(self, tmp_path):
        second = Hooks("second", SHARES)
        async with intercepting(tmp_path, Hooks(wants=AWAY), others=[second]) as client:
            sent = await client.create()
            assert sent.config.linux.resources.cpu_shares == 7
            assert client.counted() == {"CreateContainer missed": 1}


class TestUnreadable:
    @pytest.mark.parametrize(
        ("message", "problem"), [(b"\xff\xff", ""), (b"", "compressed in a way not known here")]
    )
    async def test_ignored_it_goes_on(self, tmp_path, message, problem, caplog):
        async with intercepting(tmp_path) as client:
            assert await client.ask("CreateContainer", message, problem=problem) is None
            assert client.released == {1: None}
            await client.end(cri.CreateContainerResponse(container_id="c"))
            assert client.hooks.asked == []
            assert client.store.records(RecordKind.CONTAINER) == []
            assert client.counted() == {"CreateContainer unreadable": 1}
        [event] = caplog.records
        assert event.getMessage() == "cannot decode the request"
        reason = problem or "CreateContainer is not a valid CreateContainerRequest: "
        assert event.fields["problem"].startswith(reason)

    async def test_refused_if_somebody_must_be_asked(self, tmp_path):
        strict = Hooks("strict", policy=FailurePolicy.FAIL)
        async with intercepting(tmp_path, others=[strict]) as client:
            with pytest.raises(RefusedError) as caught:
                await client.ask("CreateContainer", b"\xff\xff")
            [message] = caught.value.args
            start = "koord-runtime-proxy: CreateContainer: cannot decode the request: "
            assert message.startswith(start)
            assert client.counted() == {"CreateContainer refused": 1}

    async def test_not_if_those_are_not_asked_about_it(self, tmp_path):
        strict = Hooks(
            "strict", policy=FailurePolicy.FAIL, stages=frozenset({Stage.PRE_RUN_POD_SANDBOX})
        )
        async with intercepting(tmp_path, others=[strict]) as client:
            assert await client.ask("CreateContainer", b"\xff\xff") is None

    async def test_watched_it_is_only_said(self, tmp_path, caplog):
        async with intercepting(tmp_path, Hooks(stages=frozenset())) as client:
            await client.ask("StopContainer", b"\xff\xff")
            await client.end()
            assert client.counted() == {}
        assert said(caplog) == ["cannot decode the request"]


class TestUnknown:
    async def test_it_is_looked_up_and_hooked(self, tmp_path):
        asked: list[tuple[RecordKind, str]] = []
        facts = pb.ContainerResourceHookRequest(
            container_meta={"name": "main", "id": "c"}, container_resources={"cpu_shares": 2}
        )

        async def adopt(kind: RecordKind, name: str) -> RuntimeRecord:
            asked.append((kind, name))
            record = RuntimeRecord(kind, name, facts, "s")
            client.store.put(record)
            return record

        async with intercepting(tmp_path, Hooks(wants=SHARES), adopt) as client:
            sent = await client.ask("UpdateContainerResources", update_request(cpu_quota=5000))
            await client.end()
            assert asked == [(RecordKind.CONTAINER, "c")]
            assert sent.linux == cri.LinuxContainerResources(cpu_quota=5000, cpu_shares=7)
            assert client.facts(RecordKind.CONTAINER, "c").container_resources.cpu_quota == 5000
            await client.ask("UpdateContainerResources", update_request(cpu_quota=6000))
            assert len(asked) == 1

    async def test_one_the_runtime_does_not_tell_of_is_refused(self, tmp_path, caplog):
        async with intercepting(
            tmp_path, Hooks(), others=[Hooks("x", policy=FailurePolicy.FAIL)]
        ) as client:
            with pytest.raises(RefusedError) as caught:
                await client.ask("StartContainer", CONTAINER_ID)
            assert client.hooks.asked == []
            assert client.counted() == {"StartContainer refused": 1}
        [message] = caught.value.args
        assert message.startswith("koord-runtime-proxy: c is unknown here")
        assert "hook server x " in message

    @pytest.mark.parametrize("policy", list(FailurePolicy))
    async def test_one_that_is_not_there_is_the_runtimes_to_refuse(self, tmp_path, policy, caplog):
        async def adopt(*_: object) -> RuntimeRecord:
            raise RuntimeNotFoundError("no such container")

        async with intercepting(tmp_path, Hooks(policy=policy), adopt) as client:
            assert await client.ask("StartContainer", CONTAINER_ID) is None
            assert client.hooks.asked == []
            assert client.counted() == {"StartContainer unknown": 1}
        assert caplog.records == []

    async def test_one_that_is_removed_is_not_made_good(self, tmp_path):
        record = RuntimeRecord(RecordKind.POD, "s", pb.PodSandboxHookRequest())
        record.note([MissedHookCall("PreRunPodSandbox", "hooks", "not looked", 1.0)])

        async def adopt(*_: object) -> RuntimeRecord:
            return record

        async with intercepting(tmp_path, Hooks(), adopt) as client:
            await client.ask("RemovePodSandbox", cri.PodSandboxIdRequest(pod_sandbox_id="s"))
        assert client.stages() == ["PreRemoveRunPodSandbox"]
        assert record.missed == []

    @pytest.mark.parametrize("worked", [True, False])
    async def test_one_that_starts_and_nobody_asks_about_is_looked_for(self, tmp_path, worked):
        """Its start is only watched: its making was past the proxy."""
        met: list[int] = []
        async with intercepting(tmp_path, Hooks(stages=frozenset())) as client:
            client.interceptor._met = lambda: met.append(1)
            await client.ask("StartContainer", CONTAINER_ID)
            await client.end(b"" if worked else None)
            await client.ask("StopContainer", CONTAINER_ID)
            await client.end()
        assert len(met) == worked

    async def test_one_that_nobody_must_be_asked_about_goes_on_unhooked(self, tmp_path, caplog):
        async with intercepting(tmp_path) as client:
            assert await client.ask("StartContainer", CONTAINER_ID) is None
            await client.end()
            assert client.hooks.asked == []
            assert client.counted() == {"StartContainer unknown": 1}
        [event] = caplog.records
        assert event.getMessage() == "unknown pod or container, call not hooked"
        assert event.fields["id"] == "c"


class TestDefects:
    async def test_a_defect_in_here_stops_no_pod(self, tmp_path, caplog):
        hooks = Hooks(wants=KeyError("defect"), policy=FailurePolicy.FAIL)
        async with intercepting(tmp_path, hooks) as client:
            assert await client.run_pod() is None
            assert client.counted() == {"RunPodSandbox error": 1}
            # It is remembered as far as it is known.
            assert client.facts(RecordKind.POD, "s").pod_meta.name == "job"
        assert said(caplog) == ["defect: call not hooked"]

    async def test_nor_one_in_looking_it_up(self, tmp_path, caplog):
        async def adopt(_: RecordKind, __: str) -> RuntimeRecord:
            raise KeyError("defect")

        async with intercepting(tmp_path, adopt=adopt) as client:
            assert await client.ask("StartContainer", CONTAINER_ID) is None
        assert said(caplog) == ["defect: call not hooked"]


async def settle() -> None:
    """Let all happen that waits for nobody, however slowly."""
    for _ in range(20):
        await asyncio.sleep(0)


class TestAbandoned:
    async def test_the_hooks_are_given_up(self, tmp_path):
        async with intercepting(tmp_path, Hooks(hold=asyncio.Event())) as client:
            stream = client.arrive("RunPodSandbox", pod_request())
            await settle()
            assert client.stages() == ["PreRunPodSandbox"]
            client.handle(CallAbandoned(stream))
            client.hooks.hold.set()
            await settle()
            assert (client.released, client.refused, client.calls) == ({}, {}, {})
            assert client.store._expected == {}
            assert client.counted() == {"RunPodSandbox abandoned": 1}

    async def test_before_they_were_asked(self, tmp_path):
        async with intercepting(tmp_path) as client:
            stream = client.arrive("StartContainer", CONTAINER_ID)
            client.handle(CallAbandoned(stream))
            await settle()
            assert client.hooks.asked == []
            assert client.released == {}

    async def test_a_call_ended_that_nobody_remembers(self, tmp_path):
        async with intercepting(tmp_path) as client:
            client.handle(CallEnded(99, b""))

    async def test_several_calls_at_once(self, tmp_path):
        async with intercepting(tmp_path, Hooks(hold=asyncio.Event())) as client:
            one = client.arrive("RunPodSandbox", pod_request())
            other = client.arrive("CreateContainer", create_request())
            await settle()
            client.handle(CallAbandoned(one))
            client.hooks.hold.set()
            await settle()
            assert client.released == {other: None}


def test_missed_is_a_plain_row() -> None:
    assert MissedHookCall("s", "h", "r", 1.0)._asdict() == {
        "stage": "s",
        "server": "h",
        "reason": "r",
        "at": 1.0,
    }
