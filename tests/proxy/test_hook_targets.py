"""Hook servers over gRPC, and plugins in the proxy itself."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
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
from koord_proxy.rules.registration import FailurePolicy, HookServerRegistration, parse
from koord_service.breaker import BreakerState

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


@contextlib.asynccontextmanager
async def asking(endpoint: object, **more: object) -> AsyncIterator[HookServerTarget]:
    target = HookServerTarget(registration(endpoint, **more))
    try:
        yield target
    finally:
        await target.close()


async def failure(endpoint: object, **more: object) -> HookError:
    """What is raised of a server."""
    async with asking(endpoint, **more) as target:
        with pytest.raises(HookError) as caught:
            await target.ask(CREATE, CONTAINER)
    return caught.value


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
        hook_request = POD if stage in POD_STAGES else CONTAINER
        async with asking(served.socket) as target:
            response = await target.ask(stage, hook_request)
        assert served.asked == [(stage, hook_request)]
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
        served.behave = lambda _, question: question.refuse(grpc.StatusCode[code], "so")
        error = await failure(served.socket)
        assert (error.outcome, error.reached, str(error)) == (outcome, reached, text)

    async def test_a_stage_it_does_not_know(self, served):
        served.behave = lambda _, question: question.refuse(grpc.StatusCode.UNIMPLEMENTED, "")
        async with asking(served.socket) as target:
            with pytest.raises(NotSubscribedError):
                await target.ask(CREATE, CONTAINER)

    @pytest.mark.parametrize("answer", [b"\xff\xff\xff\xff", b"\x0a\x05ab", b"\x1a\x01\xff"])
    async def test_what_is_no_response(self, served, answer, caplog):
        served.behave = lambda *_: answer
        error = await failure(served.socket)
        assert (error.outcome, error.reached) == ("garbage", True)
        assert str(error) == "the response is not a valid hook response"
        assert caplog.records == []

    async def test_a_response_from_a_newer_server(self, served):
        served.behave = lambda *_: b"\xba\x3e\x06future"
        async with asking(served.socket) as target:
            response = await target.ask(CREATE, CONTAINER)
        assert not response.ListFields()

    async def test_a_path_may_hold_what_addresses_do_not(self, served, tmp_path):
        odd = served.socket.rename(tmp_path / "a b%20?#.sock")
        async with asking(odd) as target:
            await target.ask(CREATE, CONTAINER)

    @pytest.mark.parametrize("there", [False, True], ids=["nobody", "something else"])
    async def test_no_hook_server_there(self, tmp_path, there):
        async def speak(_: Any, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.0 500 no\r\n\r\nI am not who you think I am.\r\n" * 9)
            writer.close()

        path = tmp_path / ("s.sock" if there else "nobody.sock")
        async with await asyncio.start_unix_server(speak, tmp_path / "s.sock"):
            error = await failure(path, timeout=0.3)
            async with asking(path) as target:
                assert not await target.probe()
        assert not error.reached
        assert there or error.outcome == "unavailable"

    async def test_it_is_found_again_after_a_restart(self, served):
        async with asking(served.socket) as target:
            await target.ask(CREATE, CONTAINER)
            served.die()
            with pytest.raises(HookError):
                await target.ask(CREATE, CONTAINER)
            served.start()
            while not await target.probe():
                await asyncio.sleep(0.02)
            await target.ask(CREATE, CONTAINER)

    async def test_whoever_answers_the_probe_at_all_is_alive(self, served, monkeypatch):
        monkeypatch.setattr(hook_targets, "PROBE_TIMEOUT", PATIENCE)
        async with asking(served.socket, timeout=PATIENCE) as target:
            assert await target.probe()
        assert served.asked == []

    @pytest.mark.parametrize("code", ["OK", "INTERNAL"])
    async def test_even_if_it_has_that_method(self, tmp_path, monkeypatch, code):
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
            assert await target.probe()
        await server.stop(0)

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

    async def test_a_plugin_that_fails_is_reported_and_the_others_count(self, caplog):
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
