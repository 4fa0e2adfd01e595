"""Hook servers over gRPC, and plugins in the proxy itself."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import pytest
from koord_hooks.runner import HookRunner
from koord_hooks.specs import hookimpl
from koord_hooks.stages import POD_STAGES, SERVICE, Stage
from koord_model.node import NodeView
from koord_model.patch import Patch
from koord_proto import hook_pb2 as pb
from koord_proxy import hook_targets
from koord_proxy.hook_targets import (
    HookError,
    HookServerTarget,
    InProcessTarget,
    NotSubscribedError,
)
from koord_proxy.rules.breaker import BreakerState
from koord_proxy.rules.registration import FailurePolicy, HookServerRegistration, parse

from tests.support import hook_server as peer
from tests.support.processes import PATIENCE

CREATE = Stage.PRE_CREATE_CONTAINER
POD = pb.PodSandboxHookRequest(labels={"a": "1"}, cgroup_parent="/p")
CONTAINER = pb.ContainerResourceHookRequest(
    container_envs={"A": "1"},
    pod_cgroup_parent="/p",
    container_resources=pb.LinuxContainerResources(cpu_shares=2),
)


def registration(endpoint: object, **more: object) -> HookServerRegistration:
    file = {"remote-endpoint": str(endpoint), "runtime-hooks": list(Stage), **more}
    return parse("server", json.dumps(file).encode())


@pytest.fixture
def served(tmp_path: Path) -> Iterator[peer.HookServer]:
    with peer.HookServer(tmp_path) as server:
        yield server


@contextlib.asynccontextmanager
async def asking(endpoint: object, **more: object) -> AsyncIterator[HookServerTarget]:
    target = HookServerTarget(registration(endpoint, **more))
    try:
        yield target
    finally:
        await target.close()


class TestHookServer:
    async def test_is_what_its_registration_says(self, tmp_path):
        more = {"failure-policy": "Fail", "timeout": 0.5, "runtime-hooks": ["PreCreateContainer"]}
        async with asking(tmp_path / "s", **more) as target:
            assert (target.name, target.policy, target.timeout) == (
                "server",
                FailurePolicy.FAIL,
                0.5,
            )
            assert target.stages == {CREATE}
            assert target.breaker.state is BreakerState.CLOSED

    @pytest.mark.parametrize("stage", list(Stage))
    async def test_every_stage_is_asked_with_its_message(self, served, stage):
        facts = POD if stage in POD_STAGES else CONTAINER
        async with asking(served.socket) as target:
            response = await target.ask(stage, facts)
        assert served.asked == [(stage, facts)]
        if stage in POD_STAGES:
            assert response == pb.PodSandboxHookResponse(labels={"a": "1"}, cgroup_parent="/p")
        else:
            assert response == pb.ContainerResourceHookResponse(
                container_envs={"A": "1"},
                pod_cgroup_parent="/p",
                container_resources=pb.LinuxContainerResources(cpu_shares=2),
            )

    @pytest.mark.parametrize(
        ("code", "outcome", "reached", "text"),
        [
            ("UNAVAILABLE", "unavailable", False, "unreachable (so)"),
            ("DEADLINE_EXCEEDED", "timeout", False, "no answer"),
            ("INTERNAL", "refused", True, "INTERNAL: so"),
            ("PERMISSION_DENIED", "refused", True, "PERMISSION_DENIED: so"),
            ("RESOURCE_EXHAUSTED", "refused", True, "RESOURCE_EXHAUSTED: so"),
        ],
    )
    async def test_errors(self, served, code, outcome, reached, text):
        def behave(_: Any, question: peer.Question) -> bytes:
            question.refuse(grpc.StatusCode[code], "so")
            return b""

        served.behave = behave
        async with asking(served.socket) as target:
            with pytest.raises(HookError) as caught:
                await target.ask(CREATE, CONTAINER)
        assert (caught.value.outcome, caught.value.reached) == (outcome, reached)
        assert str(caught.value) == text

    async def test_a_stage_it_does_not_know(self, served):
        def behave(_: Any, question: peer.Question) -> bytes:
            question.refuse(grpc.StatusCode.UNIMPLEMENTED, "")
            return b""

        served.behave = behave
        async with asking(served.socket) as target:
            with pytest.raises(NotSubscribedError):
                await target.ask(CREATE, CONTAINER)

    @pytest.mark.parametrize("answer", [b"\xff\xff\xff\xff", b"\x0a\x05ab", b"\x1a\x01\xff"])
    async def test_what_is_no_response(self, served, answer, caplog):
        served.behave = lambda *_: answer
        async with asking(served.socket) as target:
            with pytest.raises(HookError) as caught:
                await target.ask(CREATE, CONTAINER)
        assert (caught.value.outcome, caught.value.reached) == ("garbage", True)
        assert str(caught.value) == "the response is not a valid hook response"
        assert caplog.records == []

    async def test_a_response_from_a_newer_server(self, served):
        served.behave = lambda *_: b"\xba\x3e\x06future"
        async with asking(served.socket) as target:
            response = await target.ask(CREATE, CONTAINER)
        assert not response.ListFields()

    async def test_a_path_may_hold_what_addresses_do_not(self, tmp_path):
        with peer.HookServer(tmp_path) as served:
            odd = served.socket.rename(tmp_path / "a b%20?#.sock")
            async with asking(odd) as target:
                await target.ask(CREATE, CONTAINER)

    async def test_nobody_there(self, tmp_path):
        async with asking(tmp_path / "nobody.sock") as target:
            with pytest.raises(HookError) as caught:
                await target.ask(CREATE, CONTAINER)
            assert not await target.probe()
        assert (caught.value.outcome, caught.value.reached) == ("unavailable", False)

    async def test_one_that_speaks_something_else(self, tmp_path):
        with peer.NotHttp2(tmp_path / "s.sock"):
            async with asking(tmp_path / "s.sock", timeout=0.3) as target:
                with pytest.raises(HookError) as caught:
                    await target.ask(CREATE, CONTAINER)
                assert not await target.probe()
        assert not caught.value.reached

    async def test_it_is_found_again_after_a_restart(self, served):
        async with asking(served.socket) as target:
            await target.ask(CREATE, CONTAINER)
            served.die()
            with pytest.raises(HookError):
                await target.ask(CREATE, CONTAINER)
            served.start()
            async with asyncio.timeout(PATIENCE):
                while not await target.probe():
                    await asyncio.sleep(0.02)
            await target.ask(CREATE, CONTAINER)

    async def test_whoever_answers_the_probe_at_all_is_alive(self, served, monkeypatch):
        monkeypatch.setattr(hook_targets, "PROBE_TIMEOUT", PATIENCE)
        async with asking(served.socket, timeout=PATIENCE) as target:
            assert await target.probe()
        assert served.asked == []

    @pytest.mark.parametrize(("code", "alive"), [("OK", True), ("INTERNAL", True)])
    async def test_even_if_it_has_that_method(self, tmp_path, code, alive, monkeypatch):
        monkeypatch.setattr(hook_targets, "PROBE_TIMEOUT", PATIENCE)

        async def answer(_: bytes, context: Any) -> bytes:
            if code != "OK":
                await context.abort(grpc.StatusCode[code], "")
            return b""

        handler = grpc.unary_unary_rpc_method_handler(answer)
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {"Probe": handler}),)
        )
        server.add_insecure_port(f"unix:{tmp_path}/s.sock")
        await server.start()
        async with asking(tmp_path / "s.sock", timeout=PATIENCE) as target:
            assert await target.probe() is alive
        await server.stop(0)

    async def test_a_call_given_up_is_cancelled_at_the_server(self, served):
        never = threading.Event()
        served.behave = peer.waiting(never)
        async with asking(served.socket) as target:
            call = asyncio.get_running_loop().create_task(target.ask(CREATE, CONTAINER))
            async with asyncio.timeout(PATIENCE):
                while not served.asked:
                    await asyncio.sleep(0.01)
                assert not served.cancelled
                call.cancel()
                while not served.cancelled:
                    await asyncio.sleep(0.01)
            with pytest.raises(asyncio.CancelledError):
                await call

    async def test_connections_are_used_in_turn(self, served):
        async with asking(served.socket, connections=3) as target:
            assert len({id(channel) for channel in target._channels}) == 3
            for _ in range(6):
                await target.ask(CREATE, CONTAINER)
            assert target._turn == 0
        assert len(served.asked) == 6

    async def test_one_that_is_closed_answers_nothing(self, served):
        async with asking(served.socket) as target:
            await target.close()
            with pytest.raises(HookError) as caught:
                await target.ask(CREATE, CONTAINER)
            assert not await target.probe()
        assert (caught.value.outcome, caught.value.reached) == ("unavailable", False)


def plugin(patch: Patch | None = None, error: Exception | None = None) -> Any:
    def pre_create_container() -> Patch | None:
        if error is not None:
            raise error
        return patch

    return SimpleNamespace(pre_create_container=hookimpl(pre_create_container))


class TestInProcess:
    async def test_it_has_no_deadline_and_lets_calls_pass(self):
        target = InProcessTarget(HookRunner([("a", plugin())]), NodeView())
        assert (target.name, target.timeout, target.policy) == (
            "in-process",
            None,
            FailurePolicy.IGNORE,
        )
        assert target.stages == {CREATE}
        assert await target.probe()
        await target.close()

    async def test_the_plugins_patch_is_laid_over_the_echo(self, caplog):
        caplog.set_level(logging.INFO, "pykoord")
        runner = HookRunner([("a", plugin(Patch(env={"B": "2"}, why="so")))])
        response = await InProcessTarget(runner, NodeView()).ask(CREATE, CONTAINER)
        await asyncio.sleep(0)
        assert response == pb.ContainerResourceHookResponse(
            container_envs={"A": "1", "B": "2"},
            pod_cgroup_parent="/p",
            container_resources=pb.LinuxContainerResources(cpu_shares=2),
        )
        [event] = caplog.records
        assert event.getMessage() == "changed"
        assert event.fields["why"] == "a: so"

    async def test_a_plugin_that_fails_is_told_and_the_others_count(self, caplog):
        runner = HookRunner(
            [
                ("a", plugin(error=KeyError("x"))),
                ("b", plugin(Patch(env={"B": "2", "C": "1"}))),
                ("c", plugin(Patch(env={"C": "2"}))),
            ]
        )
        with pytest.raises(HookError, match="plugin a failed") as caught:
            await InProcessTarget(runner, NodeView()).ask(CREATE, CONTAINER)
        assert (caught.value.outcome, caught.value.reached) == ("failed", True)
        assert dict(caught.value.partial.container_envs) == {"A": "1", "B": "2"}
        await asyncio.sleep(0)
        failed, disagree = caplog.records
        assert failed.getMessage() == "plugin failed"
        assert failed.fields["plugin"] == "a"
        assert disagree.getMessage() == "plugins disagree"
        assert "env[C]" in disagree.fields["conflict"]
