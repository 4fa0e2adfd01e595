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
from koord_model.version import VERSION
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


def exits(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main.main(argv)
    out, err = capsys.readouterr()
    return caught.value.code, out, err


class TestWords:
    def test_status_pages_for_the_network_are_refused(self, capsys, tmp_path):
        settings = (f"--koord-runtimeproxy-endpoint={tmp_path}/p.sock", "--state-path=")
        code, out, err = exits(capsys, *settings, "--metrics-address=192.0.2.1:80")
        assert (code, out) == (2, "")
        assert "192.0.2.1:80" in err
        assert len(err.splitlines()) == 1

    def test_version(self, capsys):
        assert exits(capsys, "--version") == (0, f"koord-runtime-proxy {VERSION}\n", "")

    def test_help_names_every_flag_with_its_default(self, capsys):
        code, out, err = exits(capsys, "--help")
        assert (code, err) == (0, "")
        words = " ".join(out.split())
        for field in dataclasses.fields(ProxySettings):
            assert f" {flag_of(field)} " in words.replace("[", " ").replace("]", " ")
            if field.default:
                # Long ones are broken over lines.
                assert str(field.default) in words.replace("- ", "-")
        assert "--config" in words
        assert "--version" in words

    @pytest.mark.parametrize(
        ("argv", "line"),
        [
            (
                ["--koord-runtimeproxy-endpoint=x"],
                '--koord-runtimeproxy-endpoint is "x"; expected the absolute path of a socket',
            ),
            (
                ["--hook-plugins=magic"],
                f'hook plugin "magic" does not exist; there are: {", ".join(load(["all"]).names)}',
            ),
            (["--socket-mode=x"], 'socket mode is "x"; expected octal digits such as "0660"'),
        ],
    )
    def test_bad_settings_are_one_line(self, capsys, argv, line):
        assert exits(capsys, *argv) == (2, "", f"koord-runtime-proxy: {line}\n")

    @pytest.mark.parametrize(
        "argv",
        [["--nonsense"], ["--drain-timeout=x"], ["--config=/none"], ["--backend-runtime-mode=X"]],
        ids=str,
    )
    def test_whatever_is_wrong(self, capsys, argv):
        code, out, err = exits(capsys, *argv)
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
        assert err.startswith("koord-runtime-proxy: ")


class TestSocketTrouble:
    @pytest.fixture
    def argv(self, tmp_path: Path) -> list[str]:
        return [
            f"--koord-runtimeproxy-endpoint={tmp_path}/p.sock",
            f"--remote-runtime-service-endpoint={tmp_path}/r.sock",
            f"--hook-config-path={tmp_path}/hookserver.d",
            "--state-path=",
            "--metrics-address=",
        ]

    def test_a_file_in_its_place(self, capsys, argv, tmp_path):
        (tmp_path / "p.sock").touch()
        code, _, err = exits(capsys, *argv)
        assert code == 1
        expected = "is not a socket; remove it, or choose another path"
        assert err == f"koord-runtime-proxy: {tmp_path}/p.sock: {expected}\n"

    def test_a_live_server_in_its_place(self, capsys, argv, tmp_path):
        with socket.socket(socket.AF_UNIX) as live:
            live.bind(str(tmp_path / "p.sock"))
            live.listen()
            code, _, err = exits(capsys, *argv)
        assert code == 1
        expected = "a running server answers on this socket"
        assert err == f"koord-runtime-proxy: {tmp_path}/p.sock: {expected}\n"

    @pytest.mark.parametrize(
        ("flag", "line"),
        [
            ("--socket-owner=nobody-at-all", "owner: there is no user "),
            (f"--koord-runtimeproxy-endpoint=/{'x' * 120}", "a unix socket path has at most 107"),
        ],
    )
    def test_settings_found_wrong_late(self, capsys, argv, flag, line):
        code, _, err = exits(capsys, *argv, flag)
        assert code == 2
        assert line in err
        assert len(err.splitlines()) == 1

    def test_several_errors_are_no_ones_to_hide(self, argv, monkeypatch):
        async def run(*_: object) -> None:
            raise ExceptionGroup("", [OSError("a"), OSError("b")])

        monkeypatch.setattr(main, "_run", run)
        with pytest.raises(ExceptionGroup):
            main.main(argv)


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
async def running(proxy: Running, plugins: list[str] | None = None) -> AsyncIterator[Running]:
    """Run until the block ends or somebody sends SIGTERM."""
    life = asyncio.get_running_loop().create_task(
        main._run(proxy.settings, load(plugins) if plugins else None)
    )
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


class TestLife:
    async def test_a_pod_with_plugins_in_the_proxy(self, tmp_path):
        async with running(Running(tmp_path), ["batchresource"]) as proxy:
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

    async def test_hook_servers_come_and_go(self, tmp_path):
        with peer.HookServer(
            tmp_path, "hooks", peer.wishing(resources={"cpu_shares": 77})
        ) as hooks:
            async with running(Running(tmp_path)) as proxy:
                file = hooks.register(proxy.hooks, stages=[Stage.PRE_CREATE_CONTAINER])
                while not (await proxy.healthz())["hook_servers"]:
                    await asyncio.sleep(0.01)
                await run_pod(proxy.address)
                assert len(hooks.asked) == 1
                # Another is added: this one keeps its connection.
                other = file.with_name("other.json")
                other.write_text(file.read_text())
                while len((await proxy.healthz())["hook_servers"]) < 2:
                    await asyncio.sleep(0.01)
                for one in (file, other):
                    one.rename(one.with_suffix(".removed"))
                while (await proxy.healthz())["hook_servers"]:
                    await asyncio.sleep(0.01)
                await run_pod(proxy.address)
                assert len(hooks.asked) == 1

    async def test_records_outlive_it(self, tmp_path):
        async with running(Running(tmp_path)) as proxy:
            sandbox, container = await run_pod(proxy.address)
        again = Running(tmp_path)
        again.runtime = proxy.runtime
        async with running(again):
            await until(lambda: again.status.exists())
            [pod] = json.loads(await again.page("/pods"))
            assert pod["id"] == sandbox
            assert pod["containers"][0]["id"] == container

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
        life = asyncio.get_running_loop().create_task(main._run(proxy.settings, None))
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

    async def test_what_systemd_is_told(self, tmp_path, monkeypatch):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(tmp_path / "notify"))
            manager.setblocking(False)
            monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
            monkeypatch.setenv("WATCHDOG_USEC", "40000")
            monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
            told = []

            def hear() -> None:
                with contextlib.suppress(BlockingIOError):
                    while True:
                        told.append(manager.recv(4096).decode().partition("\n")[0])

            async with running(Running(tmp_path)) as proxy:
                await until(proxy.status.exists)
                await until(lambda: hear() or told.count("WATCHDOG=1") >= 2)
            hear()
        assert told[-1] == "STOPPING=1"
        assert "READY=1" in told
