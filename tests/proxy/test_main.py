"""The program: what it says to those who start it, and its life from start to SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import json
import logging
import os
import signal
import socket
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from koord_demo.runtime import DemoRuntime, serve
from koord_hooks.runner import load
from koord_hooks.stages import Stage
from koord_proxy import hook_directory, main, reconciler
from koord_proxy.config import ProxySettings
from koord_service.settings import flag_of
from koord_service.status import StatusServer

from tests.support import hook_server as peer
from tests.support.cri import AsyncCri, batch_pod_config, pb
from tests.support.processes import PATIENCE, get
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("pykoord")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
    # What a life of the program put aside is this process' own again.
    gc.unfreeze()


PLUGINS = load(["all"]).names


@pytest.mark.parametrize(
    ("flag", "code", "words"),
    [
        ("--metrics-address=192.0.2.1:80", 2, "192.0.2.1:80"),
        ("--hook-plugins=magic", 2, f'"magic" does not exist; there are: {", ".join(PLUGINS)}'),
        ("--no-such-flag", 2, "--no-such-flag"),
        ("--socket-owner=nobody-at-all", 2, "owner: there is no user "),
        (f"--koord-runtimeproxy-endpoint=/{'x' * 120}", 2, "a unix socket path has at most 107"),
        ("--koord-runtimeproxy-endpoint={}/file", 1, "/file: is not a socket; remove it"),
        ("--koord-runtimeproxy-endpoint={}/live", 1, "a running server answers on this socket"),
    ],
)
def test_why_it_does_not_start_is_one_line(capsys, tmp_path, flag, code, words):
    (tmp_path / "file").touch()
    settings = Running(tmp_path, state_path="", metrics_address="").settings
    argv = [
        f"{flag_of(field)}={getattr(settings, field.name)}"
        for field in dataclasses.fields(settings)
        if field.name.endswith(("_endpoint", "_path", "_address"))
    ]
    with socket.socket(socket.AF_UNIX) as live:
        live.bind(str(tmp_path / "live"))
        live.listen()
        with pytest.raises(SystemExit) as caught:
            main.main([*argv, flag.format(tmp_path)])
    out, err = capsys.readouterr()
    assert (caught.value.code, out) == (code, "")
    assert words in err
    assert len(err.splitlines()) == 1
    assert err.startswith("koord-runtime-proxy: ")


class Running:
    """A proxy in this process, in front of the embedded runtime."""

    def __init__(self, directory: Path, **changes: Any) -> None:
        self.directory = directory
        self.address = directory / "p.sock"
        self.backend = directory / "r.sock"
        self.hooks = directory / "hookserver.d"
        self.status = directory / "status.sock"
        self.runtime = DemoRuntime(directory / "cgroup")
        self.settings = ProxySettings(
            **{
                "koord_runtimeproxy_endpoint": str(self.address),
                "remote_runtime_service_endpoint": str(self.backend),
                "hook_config_path": str(self.hooks),
                "state_path": str(directory / "state.db"),
                "metrics_address": f"unix://{self.status}",
                "drain_timeout": 2.0,
                **changes,
            }
        )

    async def page(self, path: str) -> str:
        await until(self.status.exists)
        return await asyncio.to_thread(get, self.status, path)

    async def healthz(self) -> Any:
        return json.loads(await self.page("/healthz"))


@contextlib.asynccontextmanager
async def running(proxy: Running) -> AsyncIterator[Running]:
    """Run until the block ends or somebody sends SIGTERM."""
    life = asyncio.get_running_loop().create_task(main._run(proxy.settings))
    try:
        async with serve(proxy.runtime, proxy.backend):
            await until(lambda: proxy.address.exists() or life.done())
            yield proxy
            if not life.done():
                os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(life, PATIENCE)
    finally:
        life.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await life


async def run_pod(address: Path) -> tuple[str, str]:
    plan = batch_pod_config("worker")
    async with AsyncCri(address) as cri:
        run = pb.RunPodSandboxRequest(config=plan.sandbox)
        sandbox = (await cri.call("RunPodSandbox", run, pb.RunPodSandboxResponse)).pod_sandbox_id
        create = pb.CreateContainerRequest(
            pod_sandbox_id=sandbox, config=plan.container, sandbox_config=plan.sandbox
        )
        made = await cri.call("CreateContainer", create, pb.CreateContainerResponse)
        return sandbox, made.container_id


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pykoord")
    monkeypatch.setattr(hook_directory, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(reconciler, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(main, "CHECKPOINT_SECONDS", 0.02)
    for name in ("LISTEN_FDS", "LISTEN_PID", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.delenv(name, raising=False)


async def servers(proxy: Running, number: int) -> bool:
    """Whether so many hook servers are in use."""
    return len((await proxy.healthz())["hook_servers"]) == number


class TestLife:
    async def test_a_pod_with_plugins_in_the_proxy(self, tmp_path):
        async with running(Running(tmp_path, hook_plugins=["batchresource"])) as proxy:
            mode = stat.S_IMODE(proxy.address.stat().st_mode)
            assert mode == 0o660
            _, container = await run_pod(proxy.address)
            [created] = [r for r in proxy.runtime.requests if r.method == "CreateContainer"]
            sent = pb.CreateContainerRequest.FromString(created.data)
            assert sent.config.linux.resources.cpu_shares == 512
            said = await proxy.healthz()
            assert (said["pods"], said["containers"], said["database"]) == (1, 1, "ok")
            assert said["hook_servers"][0]["name"] == "in-process"
            [pod] = json.loads(await proxy.page("/pods"))
            assert pod["containers"][0]["id"] == container
            metrics = await proxy.page("/metrics")
            assert "koord_runtime_proxy_database_ok 1.0" in metrics
            assert 'koord_runtime_proxy_records{kind="pod"} 1.0' in metrics
            await asyncio.sleep(0.05)
        assert not proxy.status.exists()
        # Its records outlive it.
        async with running(proxy):
            await until(proxy.status.exists)
            [pod] = json.loads(await proxy.page("/pods"))
            assert pod["containers"][0]["id"] == container

    async def test_hook_servers_come_and_go(self, tmp_path):
        with peer.HookServer(
            tmp_path, "hooks", peer.wishing(resources={"cpu_shares": 77})
        ) as hooks:
            async with running(Running(tmp_path)) as proxy:
                file = hooks.register(proxy.hooks, stages=[Stage.PRE_CREATE_CONTAINER])
                await until(lambda: servers(proxy, 1))
                await run_pod(proxy.address)
                assert len(hooks.asked) == 1
                # Another is added: this one keeps its connection.
                other = file.with_name("other.json")
                other.write_text(file.read_text())
                await until(lambda: servers(proxy, 2))
                for one in (file, other):
                    one.rename(one.with_suffix(".removed"))
                await until(lambda: servers(proxy, 0))
                await run_pod(proxy.address)
                assert len(hooks.asked) == 1

    async def test_no_status_pages_stop_no_calls(self, tmp_path, caplog):
        for address in ("", f"unix://{tmp_path}/cgroup"):
            proxy = Running(tmp_path, metrics_address=address)
            async with running(proxy):
                async with AsyncCri(proxy.address) as cri:
                    await cri.call("Version", pb.VersionRequest(), pb.VersionResponse)
                assert not proxy.status.exists()
        messages = [record.getMessage() for record in caplog.records]
        assert messages.count("cannot serve status pages") == 1

    async def test_status_pages_of_the_proxy_before_are_waited_for(self, tmp_path, monkeypatch):
        monkeypatch.setattr(main, "STATUS_SECONDS", 0.01)
        proxy = Running(tmp_path)
        before = StatusServer(f"unix://{proxy.status}", {})
        before.start()
        async with running(proxy):
            before.stop()
            await until(proxy.status.exists)
            assert (await proxy.healthz())["hook_servers"] == []
        assert not proxy.status.exists()

    async def test_sighup_rereads(self, tmp_path, monkeypatch, caplog):
        # pytest's own handlers are to stay.
        monkeypatch.setattr(main.logs, "configure", lambda *_: None)
        async with running(Running(tmp_path)) as proxy:
            config = tmp_path / "proxy.yaml"
            config.write_text("runtime-hook-server-key: other\n")
            monkeypatch.setattr(sys, "argv", ["koord-runtime-proxy", f"--config={config}"])
            os.kill(os.getpid(), signal.SIGHUP)
            messages = lambda: [record.getMessage() for record in caplog.records]  # noqa: E731
            await until(lambda: "settings reloaded" in messages())
            config.write_text("drain-timeout: soon\n")
            os.kill(os.getpid(), signal.SIGHUP)
            await until(lambda: "cannot reload settings" in messages())
            # It serves as before.
            await run_pod(proxy.address)

    async def test_it_starts_before_the_runtime(self, tmp_path):
        proxy = Running(tmp_path)
        life = asyncio.get_running_loop().create_task(main._run(proxy.settings))
        await until(proxy.address.exists)
        async with AsyncCri(proxy.address) as cri:
            with pytest.raises(grpc.aio.AioRpcError):
                await cri.call("Version", pb.VersionRequest(), pb.VersionResponse)
            assert (await proxy.healthz())["status"] == "degraded"
            async with serve(proxy.runtime, proxy.backend):
                while not (await proxy.healthz())["reconciled"]:
                    await asyncio.sleep(0.01)
                await run_pod(proxy.address)
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.wait_for(life, PATIENCE)

    async def test_what_systemd_hears(self, tmp_path, monkeypatch):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(tmp_path / "notify"))
            manager.setblocking(False)
            monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
            monkeypatch.setenv("WATCHDOG_USEC", "40000")
            monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
            reported = []

            def hear() -> None:
                with contextlib.suppress(BlockingIOError):
                    while True:
                        reported.append(manager.recv(4096).decode().partition("\n")[0])

            async with running(Running(tmp_path)) as proxy:
                await until(proxy.status.exists)
                await until(lambda: hear() or reported.count("WATCHDOG=1") >= 2)
            hear()
        assert reported[-1] == "STOPPING=1"
        assert "READY=1" in reported
