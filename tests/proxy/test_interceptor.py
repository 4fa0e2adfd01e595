"""The contract of the interceptor, for both runtimes: what is asked, sent on and remembered.

What only one of them does is in ``cri/test_intercepting.py`` and ``docker/test_intercepting.py``.
"""

from __future__ import annotations

import asyncio
import functools
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
from koord_proxy.contract.events import CallAbandoned, CallEnded, Treatment
from koord_proxy.contract.runtime_client import RuntimeNotFoundError
from koord_proxy.hook_targets import HookError
from koord_proxy.interceptor import SkipRule
from koord_proxy.rules.records import MissedHookCall, RecordKind, RuntimeRecord
from koord_proxy.rules.registration import FailurePolicy
from koord_proxy.store import RecordStore

from tests.support import cri_requests, docker_requests, interception
from tests.support.docker_bodies import CONTAINER, PARENT_PATH, SANDBOX, UID
from tests.support.interception import AWAY, SKIP, Client, Hooks, RefusedError, Runtime, said

SHARES = Patch(resources=LinuxResources(cpu_shares=7))
WATCHED: frozenset[Stage] = frozenset()
"""The stages of hooks that nobody wants: all calls are only watched."""
META = {"name": "life", "namespace": "default", "uid": UID}

Intercepting = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(params=[cri_requests, docker_requests], ids=["cri", "docker"])
def runtime(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def intercepting(runtime: Any, tmp_path: Path, caplog: Any) -> Intercepting:
    """Begin intercepting, with hooks, what the runtime has, and other hooks."""
    caplog.set_level(logging.INFO, "pykoord")
    return functools.partial(interception.intercepting, runtime, tmp_path)


def a_pod() -> RuntimeRecord:
    hook_request = pb.PodSandboxHookRequest(pod_meta=META)
    missed = [MissedHookCall("PreRunPodSandbox", "hooks", "not looked", 1.0)]
    return RuntimeRecord(RecordKind.POD, SANDBOX, hook_request, missed=missed)


def a_container() -> RuntimeRecord:
    hook_request = pb.ContainerResourceHookRequest(
        pod_meta=META,
        container_meta={"name": "main", "id": CONTAINER},
        container_resources={"cpu_shares": 2},
    )
    return RuntimeRecord(RecordKind.CONTAINER, CONTAINER, hook_request, SANDBOX)


@pytest.mark.parametrize(
    ("stages", "held"),
    [
        (set(), ""),
        ({Stage.PRE_START_CONTAINER, Stage.POST_STOP_CONTAINER}, "start"),
        ({Stage.PRE_UPDATE_CONTAINER_RESOURCES}, "update"),
        (set(Stage), "create_sandbox create_container start update remove"),
    ],
)
async def test_only_what_is_asked_for_is_held(runtime, intercepting, stages, held):
    calls = ("create_sandbox", "create_container", "start", "update", "stop")
    requests = {name: getattr(runtime, name)() for name in calls}
    requests["remove"] = runtime.remove(SANDBOX)
    async with intercepting(Hooks(stages=frozenset(stages))) as client:
        routes = {name: client.interceptor.route(one.target) for name, one in requests.items()}
        treatments = {name: route.treatment for name, route in routes.items()}
        other = client.interceptor.route(runtime.OTHER.target)
        tallies = set(client.interceptor._metrics.tallies)
    assert " ".join(name for name in treatments if treatments[name] is Treatment.HOLD) == held
    assert Treatment.RELAY not in treatments.values()
    assert other.treatment is Treatment.RELAY
    assert tallies >= {runtime.api(None).label(runtime.OTHER.target)}


class TestRunPodSandbox:
    async def test_as_it_came_if_nobody_wants_a_change(self, intercepting, caplog):
        async with intercepting() as client:
            assert await client.run_pod() is None
            assert client.stages() == ["PreRunPodSandbox"]
            assert client.counted() == {"RunPodSandbox hooked": 1}
            hook_request = client.hook_request(SANDBOX)
        assert hook_request.pod_meta == pb.PodSandboxMetadata(**META)
        assert hook_request.cgroup_parent == PARENT_PATH
        assert [record.fields for record in caplog.records] == [
            {
                "method": "RunPodSandbox",
                "pod": "default/life",
                "container": None,
                "changed": None,
                "missed": None,
            }
        ]

    async def test_changed_and_remembered_as_changed(self, intercepting, caplog):
        wants = Patch(labels={"l": "1"}, annotations={"a": "1"}, cgroup_parent="/q.slice")
        async with intercepting(Hooks(wants=wants)) as client:
            sent = await client.run_pod()
            hook_request = client.hook_request(SANDBOX)
        for seen in (sent, hook_request):
            assert (seen.labels["l"], seen.annotations["a"]) == ("1", "1")
            assert seen.labels["koordinator.sh/qosClass"] == "BE"
            assert seen.cgroup_parent == "/q.slice"
        assert caplog.records[-1].fields["changed"] == "annotations[a], cgroup_parent, labels[l]"

    async def test_it_is_expected_before_it_is_sent_on(self, intercepting, runtime):
        async with intercepting() as client:
            release = client.release

            def check(stream: int, message: bytes | None = None) -> None:
                assert list(client.store._expected) == [f"pod/{UID}/0"]
                release(stream, message)

            client.release = check
            await client.ask(runtime.create_sandbox())
            assert client.ids() == set()
            await client.end(runtime.made(SANDBOX))
            assert client.store._expected == {}

    @pytest.mark.parametrize("response", [None, b"", b"\xff\xff"], ids=repr)
    async def test_one_that_fails_is_expected_no_more(self, intercepting, runtime, response):
        async with intercepting() as client:
            await client.do(runtime.create_sandbox(), response)
            assert client.ids() == set()
            assert client.store._expected == {}

    async def test_a_failure_with_values_of_hooks_is_logged(self, intercepting, runtime, caplog):
        async with intercepting(Hooks(wants=Patch(labels={"l": "1"}))) as client:
            await client.do(runtime.create_sandbox(), None)
            client.hooks.wants = Patch()
            await client.do(runtime.create_sandbox(), None)
        line = "call failed after hooks changed it"
        [event] = [one for one in caplog.records if one.getMessage() == line]
        assert event.fields == {
            "method": "RunPodSandbox",
            "changed": "labels[l]",
            "pod": "default/life",
            "container": None,
        }


async def test_watched_calls_are_remembered_as_well(intercepting, runtime):
    async with intercepting(Hooks(stages=WATCHED)) as client:
        await client.run_pod()
        await client.create()
        assert client.hook_request(SANDBOX).pod_meta.name == "life"
        await client.do(runtime.update(cpu_quota=7000))
        resources = client.hook_request().container_resources
        assert (resources.cpu_quota, resources.cpu_shares) == (7000, 2)
        assert client.hooks.asked == []
        assert client.counted() == {}


class TestCreateContainer:
    async def test_in_a_pod_as_hooks_left_it(self, intercepting):
        patch = Patch(labels={"l": "1"}, annotations={"a": "1"})
        async with intercepting(Hooks(wants=patch)) as client:
            await client.run_pod()
            client.hooks.wants = SHARES
            sent = await client.create()
            _, asked = client.hooks.asked[-1]
            record = client.record()
        assert asked.pod_labels["l"] == asked.pod_annotations["a"] == "1"
        assert asked.pod_labels["koordinator.sh/qosClass"] == "BE"
        assert (asked.container_envs["A"], asked.container_meta.id) == ("1", "")
        assert sent.cpu_shares == record.hook_request.container_resources.cpu_shares == 7
        # What hooks changed of its pod is not written into the container's request.
        assert "l" not in sent.labels
        assert record.hook_request.container_meta.id == CONTAINER
        assert record.sandbox == SANDBOX

    async def test_secrets_are_not_logged(self, intercepting, caplog):
        async with intercepting(Hooks(wants=Patch(env={"B": "hunter2"}))) as client:
            await client.run_pod()
            sent = await client.create()
        assert sent.env["B"] == "hunter2"
        assert caplog.records[-1].fields["changed"] == "env[B]"
        assert "hunter2" not in str([record.__dict__ for record in caplog.records])


async def made(client: Client) -> Client:
    """A pod and its container were made."""
    await client.run_pod()
    await client.create()
    return client


class TestStartContainer:
    async def test_hooks_change_only_what_is_remembered(self, intercepting, runtime):
        async with intercepting() as client:
            (await made(client)).hooks.wants = SHARES
            assert await client.do(runtime.start()) is None
            assert client.hook_request().container_resources.cpu_shares == 7
            assert client.stages()[-2:] == ["PreStartContainer", "PostStartContainer"]
            assert client.hooks.asked[-1][1].container_meta.id == CONTAINER

    async def test_the_hook_after_it_is_asked_even_if_it_failed(self, intercepting, runtime):
        async with intercepting() as client:
            (await made(client)).hooks.wants = SHARES
            await client.do(runtime.start(), None)
            assert client.hook_request().container_resources.cpu_shares == 2
            assert client.stages()[-1] == "PostStartContainer"

    @pytest.mark.parametrize("policy", list(FailurePolicy))
    async def test_a_hook_after_it_that_was_missed_is_noted(self, intercepting, runtime, policy):
        async with intercepting(Hooks(policy=policy)) as client:
            await made(client)
            await client.ask(runtime.start())
            client.hooks.wants = AWAY
            await client.end()
            assert [missed.stage for missed in client.record().missed] == ["PostStartContainer"]
            # What is gone is not brought back.
            await client.do(runtime.stop())
            assert client.ids() == {SANDBOX}


class TestUpdateContainerResources:
    async def test_what_hooks_want_besides(self, intercepting, runtime):
        async with intercepting() as client:
            (await made(client)).hooks.wants = SHARES
            sent = await client.do(runtime.update(cpu_quota=7000))
            _, asked = client.hooks.asked[-1]
            hook_request = client.hook_request()
        assert (sent.cpu_shares, sent.cpu_quota) == (7, 7000)
        assert asked.container_resources.cpu_quota == 7000
        assert asked.container_envs["A"] == hook_request.container_envs["A"] == "1"
        resources = hook_request.container_resources
        assert (resources.cpu_shares, resources.cpu_quota) == (7, 7000)

    async def test_as_it_came_if_nobody_answered(self, intercepting, runtime):
        async with intercepting() as client:
            (await made(client)).hooks.wants = AWAY
            assert await client.ask(runtime.update(cpu_quota=7000)) is None

    @pytest.mark.parametrize("stages", [frozenset(Stage), WATCHED], ids=["held", "watched"])
    async def test_one_that_fails_is_forgotten(self, intercepting, runtime, stages, tmp_path):
        async with intercepting(Hooks(stages=stages)) as client:
            before = (await made(client)).hook_request()
            await client.ask(runtime.update(cpu_quota=7000))
            assert client.hook_request().container_resources.cpu_quota == 7000
            await client.end(None)
            assert client.hook_request() == before
            # On the disk, too.
            again = RecordStore(str(tmp_path / "state.db"))
            assert again.get(RecordKind.CONTAINER, CONTAINER).hook_request == before
            again.close()

    async def test_watched_of_an_unknown_container(self, intercepting, runtime):
        async with intercepting(Hooks(stages=WATCHED)) as client:
            await client.do(runtime.update(cpu_quota=7000))
            assert client.ids() == set()


class TestStopAndRemove:
    @pytest.mark.parametrize(
        ("call", "of", "stage", "remaining"),
        [
            ("stop", CONTAINER, "PostStopContainer", {SANDBOX}),
            ("remove", CONTAINER, None, {SANDBOX}),
            # A pod leaves with its containers.
            ("stop", SANDBOX, "PostStopPodSandbox", set()),
            ("remove", SANDBOX, "PreRemoveRunPodSandbox", set()),
        ],
    )
    async def test_records_leave_when_it_succeeds(
        self, intercepting, runtime, call, of, stage, remaining
    ):
        request = getattr(runtime, call)(of)
        async with intercepting() as client:
            await made(client)
            await client.do(request, None)
            assert client.ids() == {SANDBOX, CONTAINER}
            # A repeated call is hooked again.
            del client.hooks.asked[:]
            assert await client.do(request) is None
            assert client.ids() == remaining
            assert client.stages() == ([stage] if stage else [])
            assert all(
                hook_request.pod_meta.name == "life" for _, hook_request in client.hooks.asked
            )

    async def test_what_is_not_known_has_no_hooks(self, intercepting, runtime):
        async with intercepting() as client:
            await client.do(runtime.stop())
            assert client.hooks.asked == []


class TestSkip:
    @pytest.mark.parametrize("where", ["labels", "annotations"])
    async def test_a_pod_that_says_so_is_never_hooked(self, intercepting, runtime, where):
        # The hooks are away and must not be missed: this may be their own pod.
        hooks = Hooks(wants=AWAY, policy=FailurePolicy.FAIL)
        async with intercepting(hooks) as client:
            assert await client.run_pod(**{where: {SKIP: "true"}}) is None
            assert await client.create() is None
            assert await client.do(runtime.start()) is None
            assert await client.do(runtime.update(cpu_quota=7000)) is None
            # Its records are kept all the same.
            assert client.hook_request().container_resources.cpu_quota == 7000
            for request in (runtime.stop(), runtime.remove(SANDBOX)):
                assert await client.do(request) is None
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
def test_the_skip_rule(rule, labels, skipped):
    pod, container = pb.PodSandboxHookRequest, pb.ContainerResourceHookRequest
    for hook_request in (
        pod(labels=labels),
        pod(annotations=labels),
        container(pod_labels=labels),
        container(pod_annotations=labels),
    ):
        assert rule.matches(hook_request) is skipped
    # The container's own annotations do not count.
    assert rule.matches(container(container_annotations=labels)) is False


class TestMissed:
    async def test_of_a_server_that_is_known_to_be_away_only_the_first_is_a_warning(
        self, intercepting, caplog
    ):
        """And each is marked; what another server misses is not buried."""
        gone = Hooks("gone", wants=HookError("timeout", "no answer", reached=False))
        async with intercepting(Hooks("koordlet"), others=[gone]) as client:
            await client.run_pod()
            await client.create()
            assert client.record().missed[0].server == "gone"
            assert said(caplog).count("unmanaged") == 1
            client.hooks.wants = AWAY
            caplog.clear()
            await client.create()
        assert said(caplog)[-1] == "unmanaged"
        assert caplog.records[-1].fields["missed"] == "koordlet, gone"

    async def test_ignored_it_goes_on_and_is_marked(self, intercepting, tmp_path, caplog):
        async with intercepting(Hooks(wants=AWAY)) as client:
            assert await client.run_pod() is None
            assert await client.create() is None
            for of, stage in ((SANDBOX, "PreRunPodSandbox"), (CONTAINER, "PreCreateContainer")):
                [missed] = client.record(of).missed
                assert (missed.stage, missed.server, missed.reason) == (stage, "hooks", "no answer")
            assert client.counted() == {"RunPodSandbox missed": 1, "CreateContainer missed": 1}
        assert said(caplog) == ["hook not applied", "unmanaged"] * 2
        assert caplog.records[-1].fields["missed"] == "hooks"
        again = RecordStore(str(tmp_path / "state.db"))
        assert again.get(RecordKind.CONTAINER, CONTAINER).missed == [missed]
        again.close()

    @pytest.mark.parametrize(
        ("call", "stage"),
        [
            (lambda runtime: runtime.create_sandbox(), "PreRunPodSandbox"),
            (lambda runtime: runtime.create_container(), "PreCreateContainer"),
            (lambda runtime: runtime.start(), "PreStartContainer"),
            (lambda runtime: runtime.update(cpu_quota=7000), "PreUpdateContainerResources"),
            (lambda runtime: runtime.remove(SANDBOX), "PreRemoveRunPodSandbox"),
        ],
    )
    async def test_under_fail_it_is_refused_and_changes_no_record(
        self, intercepting, runtime, call, stage
    ):
        hooks = Hooks(wants=AWAY, policy=FailurePolicy.FAIL)
        async with intercepting(hooks) as client:
            client.store.put(a_pod())
            client.store.put(a_container())
            with pytest.raises(RefusedError) as caught:
                await client.ask(call(runtime))
            [message] = caught.value.args
            assert message == (
                f"koord-runtime-proxy: hook server hooks at {stage}: no answer "
                "(its failure policy is Fail)"
            )
            assert client.released == client.store._expected == {}
            assert [result.split()[1] for result in client.counted()] == ["refused"]
            assert (client.record(SANDBOX), client.record()) == (a_pod(), a_container())


class TestUnreadable:
    @pytest.mark.parametrize("problem", ["", "compressed in a way not known here"])
    async def test_ignored_it_goes_on(self, intercepting, runtime, problem, caplog):
        request = runtime.unreadable()
        async with intercepting() as client:
            assert await client.ask(request, problem) is None
            assert client.released == {1: None}
            await client.end(runtime.made(CONTAINER))
            assert client.hooks.asked == []
            assert client.ids() == set()
            call = client.interceptor.route(request.target).method
            assert client.counted() == {f"{call} unreadable": 1}
        [event] = caplog.records
        assert event.getMessage() == "cannot decode the request"
        assert event.fields["method"] == call
        assert event.fields["problem"].startswith(problem)

    @pytest.mark.parametrize(
        ("stages", "refused"),
        [(frozenset(Stage), True), (frozenset({Stage.PRE_START_CONTAINER}), False)],
    )
    async def test_refused_if_somebody_must_be_asked(self, intercepting, runtime, stages, refused):
        strict = Hooks("strict", policy=FailurePolicy.FAIL, stages=stages)
        request = runtime.unreadable()
        async with intercepting(others=[strict]) as client:
            call = client.interceptor.route(request.target).method
            if not refused:
                assert await client.ask(request) is None
                return
            start = f"^koord-runtime-proxy: {call}: cannot decode the request: "
            with pytest.raises(RefusedError, match=start):
                await client.ask(request)
            assert client.counted() == {f"{call} refused": 1}

    async def test_watched_it_is_only_logged(self, intercepting, runtime, caplog):
        async with intercepting(Hooks(stages=WATCHED)) as client:
            await client.do(runtime.unreadable())
            assert client.counted() == {}
        assert said(caplog) == ["cannot decode the request"]


class TestUnknown:
    async def test_it_is_looked_up_and_hooked(self, intercepting, runtime):
        has = Runtime(a_container())
        async with intercepting(Hooks(wants=SHARES), has) as client:
            sent = await client.do(runtime.update(cpu_quota=7000))
            assert (sent.cpu_shares, sent.cpu_quota) == (7, 7000)
            assert client.hook_request().container_resources.cpu_quota == 7000
            await client.ask(runtime.update(cpu_quota=6000))
        assert has.asked == [(RecordKind.CONTAINER, CONTAINER)]

    async def test_one_the_runtime_does_not_tell_of_is_refused(self, intercepting, runtime):
        strict = Hooks("x", policy=FailurePolicy.FAIL)
        async with intercepting(Hooks(), Runtime(), [strict]) as client:
            with pytest.raises(RefusedError) as caught:
                await client.ask(runtime.start())
            assert client.hooks.asked == []
            assert client.counted() == {"StartContainer refused": 1}
        [message] = caught.value.args
        assert message.startswith(f"koord-runtime-proxy: {CONTAINER} is unknown here")
        assert "hook server x " in message

    async def test_without_such_a_server_it_goes_on_unhooked(self, intercepting, runtime, caplog):
        async with intercepting(adopt=Runtime()) as client:
            assert await client.do(runtime.start()) is None
            assert client.hooks.asked == []
            assert client.counted() == {"StartContainer unknown": 1}
        [event] = [one for one in caplog.records if "unknown" in one.getMessage()]
        assert event.fields["id"] == CONTAINER

    @pytest.mark.parametrize("policy", list(FailurePolicy))
    async def test_one_that_is_not_there_is_the_runtimes_to_refuse(
        self, intercepting, runtime, policy, caplog
    ):
        has = Runtime(error=RuntimeNotFoundError("no such container"))
        async with intercepting(Hooks(policy=policy), has) as client:
            assert await client.ask(runtime.start()) is None
            assert await client.ask(runtime.remove(SANDBOX)) is None
            assert client.hooks.asked == []
            assert client.counted() == {"StartContainer unknown": 1, "RemovePodSandbox unknown": 1}
        assert caplog.records == []

    async def test_one_that_is_removed_is_not_made_good(self, intercepting, runtime):
        pod = a_pod()
        async with intercepting(Hooks(), Runtime(pod)) as client:
            await client.ask(runtime.remove(SANDBOX))
        assert client.stages() == ["PreRemoveRunPodSandbox"]
        assert pod.missed == []

    @pytest.mark.parametrize("worked", [True, False])
    async def test_one_that_starts_watched_is_looked_for(self, intercepting, runtime, worked):
        """It was made past the proxy."""
        met: list[int] = []
        async with intercepting(Hooks(stages=WATCHED)) as client:
            client.interceptor._met = lambda: met.append(1)
            await client.do(runtime.start(), b"" if worked else None)
            await client.do(runtime.stop())
        assert len(met) == worked


class TestDefects:
    async def test_a_defect_stops_no_pod(self, intercepting, caplog):
        hooks = Hooks(wants=KeyError("defect"), policy=FailurePolicy.FAIL)
        async with intercepting(hooks) as client:
            assert await client.run_pod() is None
            assert client.counted() == {"RunPodSandbox error": 1}
            # It is remembered as far as it is known, and as what it is.
            assert client.hook_request(SANDBOX).pod_meta.name == "life"
            [missed] = client.record(SANDBOX).missed
            assert missed[:3] == ("PreRunPodSandbox", "hooks", "a defect of the proxy")
        assert said(caplog) == ["defect: call not hooked"]

    async def test_nor_one_in_looking_it_up(self, intercepting, runtime, caplog):
        async with intercepting(adopt=Runtime(error=KeyError("defect"))) as client:
            assert await client.ask(runtime.start()) is None
        assert said(caplog) == ["defect: call not hooked"]

    async def test_nor_one_in_a_hook_that_comes_after(self, intercepting, runtime, caplog):
        async with intercepting() as client:
            await made(client)
            await client.ask(runtime.start())
            client.hooks.wants = KeyError("defect")
            await client.end()
            assert said(caplog)[-1] == "defect: post hook failed"
            assert client.calls == {}


async def settle() -> None:
    """Let all happen that waits for nobody, however slowly."""
    for _ in range(20):
        await asyncio.sleep(0)


class TestAbandoned:
    async def test_the_hooks_are_given_up(self, intercepting, runtime):
        async with intercepting(Hooks(hold=asyncio.Event())) as client:
            stream = client.arrive(runtime.create_sandbox())
            await settle()
            assert client.stages() == ["PreRunPodSandbox"]
            client.handle(CallAbandoned(stream))
            client.hooks.hold.set()
            await settle()
            assert (client.released, client.refused, client.calls) == ({}, {}, {})
            assert client.store._expected == {}
            assert client.counted() == {"RunPodSandbox abandoned": 1}

    async def test_before_they_were_asked(self, intercepting, runtime):
        async with intercepting() as client:
            client.handle(CallAbandoned(client.arrive(runtime.start())))
            await settle()
            assert client.hooks.asked == []
            assert client.released == {}

    async def test_a_call_ended_that_nobody_remembers(self, intercepting):
        async with intercepting() as client:
            client.handle(CallEnded(99, b""))

    async def test_several_calls_at_once(self, intercepting, runtime):
        async with intercepting(Hooks(hold=asyncio.Event())) as client:
            client.store.put(a_pod())
            one, other = map(client.arrive, (runtime.create_sandbox(), runtime.create_container()))
            await settle()
            client.handle(CallAbandoned(one))
            client.hooks.hold.set()
            await settle()
            assert client.released == {other: None}
