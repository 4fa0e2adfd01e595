"""The proxy's process: how it starts, gets requests, and ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from koord_demo.programs import console_script
from koord_hooks.stages import Stage

from tests.integration.conftest import assert_sound
from tests.support.cri import Cri, batch_pod_config, pb, run_pod
from tests.support.embedded import EmbeddedRuntime
from tests.support.hook_server import waiting, wishing
from tests.support.processes import PATIENCE, get, until
from tests.support.proxy import Proxy

CREATE = Stage.PRE_CREATE_CONTAINER


# Starting.


def test_starts_before_the_backend_and_serves_once_it_is_there(directory, koordlet):
    proxy = Proxy(directory, directory / "runtime.sock")
    try:
        proxy.start(reconciled=False)
        assert not proxy.healthz()["reconciled"]
        with Cri(proxy.address) as cri:
            with pytest.raises(grpc.RpcError) as failure:
                cri.version(timeout=60)
            assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
            assert "No such file" in proxy.healthz()["backend"]
            assert proxy.healthz()["status"] == "degraded"
            with EmbeddedRuntime(directory) as runtime:
                cri.wait_until_ready()
                proxy.wait_until(lambda: proxy.healthz()["reconciled"], "is not reconciled")
                proxy.wait_for_server("koordlet")
                run_pod(cri, batch_pod_config())
                (sent,) = runtime.requests_of("CreateContainer")
                request = pb.CreateContainerRequest.FromString(sent)
                assert request.config.linux.resources.cpu_shares == 512
                assert proxy.healthz()["status"] == "ok"
        assert_sound(proxy)
    finally:
        proxy.close()


def test_stale_socket_is_replaced(proxy):
    proxy.kill()
    assert proxy.address.is_socket()
    proxy.start()
    with proxy.cri() as cri:
        assert cri.version().runtime_name == "embedded"


def test_live_socket_is_an_error_in_one_line(proxy, cri, directory, runtime):
    second = Proxy(directory, runtime.address, f"--koord-runtimeproxy-endpoint={proxy.address}")
    done = _run(*second.flags, f"--state-path={directory}/second.db", "--metrics-address=")
    assert done.returncode == 1
    assert _lines(done) == [
        f"koord-runtime-proxy: {proxy.address}: a running server answers on this socket"
    ]
    # The first one never noticed.
    assert cri.version().runtime_name == "embedded"


def test_something_else_in_the_sockets_place_is_an_error(directory):
    (directory / "file").write_text("precious")
    done = _run(
        f"--koord-runtimeproxy-endpoint={directory}/file",
        f"--state-path={directory}/state.db",
        f"--hook-config-path={directory}/hookserver.d",
        "--metrics-address=",
    )
    assert done.returncode == 1
    (line,) = _lines(done)
    assert "is not a socket" in line
    assert (directory / "file").read_text() == "precious"


def test_socket_has_the_mode_asked_for(directory, runtime):
    with Proxy(directory, runtime.address) as proxy:
        assert proxy.address.stat().st_mode & 0o777 == 0o660
    with Proxy(directory, runtime.address, "--socket-mode=0600") as proxy:
        assert proxy.address.stat().st_mode & 0o777 == 0o600


def test_status_pages_that_cannot_be_had_are_done_without(directory, runtime):
    flags = ("--metrics-address=unix:///proc/no/such.sock",)
    proxy = Proxy(directory, runtime.address, *flags)
    try:
        proxy.launch()
        proxy.wait_until(proxy.address.exists, "does not serve")
        with proxy.cri() as cri:
            assert cri.version().runtime_name == "embedded"
        assert len(proxy.events("cannot serve status pages")) == 1
    finally:
        proxy.close()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--no-such-flag"], "no-such-flag"),
        (["--log-level=loud"], "loud"),
        (["--socket-mode=rwx"], "rwx"),
        (["--drain-timeout=soon"], "soon"),
        (["--drain-timeout=-1"], "-1"),
        (["--backend-runtime-mode=Rkt"], "Rkt"),
        (["--config=/no/such.yaml"], "/no/such.yaml"),
        (["--hook-plugins=nobody"], "nobody"),
        (["--remote-runtime-service-endpoint=run.sock"], "run.sock"),
        (
            ["--koord-runtimeproxy-endpoint=/x.sock", "--remote-runtime-service-endpoint=/x.sock"],
            "itself",
        ),
        ([f"--koord-runtimeproxy-endpoint=/tmp/{'x' * 120}"], "at most 107 bytes"),
    ],
)
def test_bad_settings_are_one_line_and_exit_2(directory, flags, words):
    files = (f"--state-path={directory}/s.db", f"--hook-config-path={directory}/d")
    done = _run(*files, "--metrics-address=", *flags)
    assert done.returncode == 2
    (line,) = _lines(done)
    assert line.startswith("koord-runtime-proxy: ")
    assert words in line


def test_version_and_help():
    assert _run("--version").stdout.startswith("koord-runtime-proxy ")
    assert "--hook-config-path" in _run("--help").stdout


# Ending.


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_calls_under_way_end_well(directory, runtime, hooks, number):
    answer = threading.Event()
    hooks.behave = waiting(answer, wishing(resources={"cpu_shares": 321}))
    proxy = Proxy(directory, runtime.address, "--drain-timeout=60")
    hooks.register(proxy.hooks, stages=(CREATE,), timeout=60)
    with proxy, proxy.cri() as cri, proxy.cri() as idle, ThreadPoolExecutor(1) as kubelet:
        proxy.wait_for_server(hooks.name)
        plan = batch_pod_config()
        sandbox = cri.run_pod_sandbox(plan.sandbox)
        call = kubelet.submit(cri.create_container, sandbox, plan.container, plan.sandbox)
        until(lambda: hooks.asked, "the hook server was not asked")
        proxy.signal(number)
        proxy.wait_until(lambda: _refused(proxy.address), "still takes connections")
        # What it sends before it has read that it is to leave is still served.
        until(lambda: _code(idle) is grpc.StatusCode.UNAVAILABLE, "still serves others")
        assert not call.done()
        answer.set()
        container = call.result(PATIENCE)
        assert proxy.wait() == 0
        (sent,) = runtime.requests_of("CreateContainer")
        request = pb.CreateContainerRequest.FromString(sent)
        assert request.config.linux.resources.cpu_shares == 321
        # It was noted, too.
        proxy.start()
        assert proxy.containers().keys() == {container}
        assert_sound(proxy)


def test_drain_has_an_end(directory, runtime, hooks):
    never = threading.Event()
    hooks.behave = waiting(never)
    proxy = Proxy(directory, runtime.address, "--drain-timeout=0.5")
    hooks.register(proxy.hooks, stages=(CREATE,), timeout=120)
    with proxy, proxy.cri() as cri, ThreadPoolExecutor(1) as kubelet:
        proxy.wait_for_server(hooks.name)
        plan = batch_pod_config()
        sandbox = cri.run_pod_sandbox(plan.sandbox)
        call = kubelet.submit(cri.create_container, sandbox, plan.container, plan.sandbox)
        until(lambda: hooks.asked, "the hook server was not asked")
        started = time.monotonic()
        assert proxy.stop() == 0
        # Far from what the hook server has.
        assert time.monotonic() - started < 60
        with pytest.raises(grpc.RpcError) as failure:
            call.result(PATIENCE)
        assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
        never.set()
        assert_sound(proxy)


def test_drain_with_an_event_stream_open(directory, runtime):
    """A stream has no end of its own: it is hung up on."""
    proxy = Proxy(directory, runtime.address, "--drain-timeout=0.5")
    with proxy, proxy.cri() as cri, cri.container_events() as events:
        run_pod(cri, batch_pod_config())
        next(events)
        assert proxy.stop() == 0
        with pytest.raises(grpc.RpcError):
            list(events)


def test_stops_at_once_with_nothing_under_way(directory, runtime):
    proxy = Proxy(directory, runtime.address, "--drain-timeout=100")
    with proxy, proxy.cri() as cri:
        cri.version()
        started = time.monotonic()
        assert proxy.stop() == 0
        # Far from the drain timeout.
        assert time.monotonic() - started < 50
        assert [event["message"] for event in proxy.events()][-2:] == ["draining", "stopped"]
        with pytest.raises(OSError, match=r"refused|No such file"):
            get(proxy.status, "/healthz")
        assert_sound(proxy)


def test_asked_to_stop_while_the_backend_is_away(directory):
    proxy = Proxy(directory, directory / "nobody.sock")
    try:
        proxy.start(reconciled=False)
        assert proxy.stop() == 0
        assert_sound(proxy)
    finally:
        proxy.close()


# Requests.


def test_sighup_rereads_the_settings(directory, runtime, hooks):
    file = directory / "proxy.yaml"
    _write_settings(file, key="first.example/skip", level="info")
    proxy = Proxy(directory, runtime.address, f"--config={file}")
    hooks.register(proxy.hooks, stages=(CREATE,))
    with proxy, proxy.cri() as cri:
        proxy.wait_for_server(hooks.name)
        assert _is_skipped(cri, hooks, "first.example/skip")
        assert not _is_skipped(cri, hooks, "second.example/skip")
        _write_settings(file, key="second.example/skip", level="warning")
        proxy.signal(signal.SIGHUP)
        # At this level it does not say that it has done so.
        until(lambda: _is_skipped(cri, hooks, "second.example/skip"), "did not reread")
        assert not _is_skipped(cri, hooks, "first.example/skip")
        quiet = len(proxy.events())
        run_pod(cri, batch_pod_config())
        assert len(proxy.events()) == quiet
        _write_settings(file, key="first.example/skip", level="debug")
        proxy.signal(signal.SIGHUP)
        proxy.wait_until(lambda: proxy.events("settings reloaded"), "did not reread")
        assert _is_skipped(cri, hooks, "first.example/skip")
        assert_sound(proxy)


def test_sighup_with_settings_that_cannot_be_used(directory, runtime, hooks):
    """The ones in use stay in use."""
    file = directory / "proxy.yaml"
    _write_settings(file, key="first.example/skip", level="info")
    proxy = Proxy(directory, runtime.address, f"--config={file}")
    hooks.register(proxy.hooks, stages=(CREATE,))
    with proxy, proxy.cri() as cri:
        proxy.wait_for_server(hooks.name)
        said = "cannot reload settings"
        for times, bad in enumerate(("log-level: loud\n", "no-such-setting: 1\n", "{[", None), 1):
            if bad is None:
                file.unlink()
            else:
                file.write_text(bad)
            proxy.signal(signal.SIGHUP)
            proxy.wait_until(lambda times=times: len(proxy.events(said)) == times, "says nothing")
            assert _is_skipped(cri, hooks, "first.example/skip")
        # Why not is in the one line, too.
        assert "loud" in proxy.events(said)[0]["error"]
        assert_sound(proxy)


def test_sighup_rereads_registrations(proxy, hooks):
    hooks.register(proxy.hooks)
    proxy.signal(signal.SIGHUP)
    proxy.wait_for_server(hooks.name)


# What the tests above need.


def _run(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [console_script("koord-runtime-proxy"), *flags],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def _lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What is not a log line."""
    return [line for line in done.stderr.splitlines() if not line.startswith("{")]


def _refused(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return True
    return False


def _code(cri: Cri) -> grpc.StatusCode:
    """How a call ends."""
    try:
        cri.version(timeout=30)
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return grpc.StatusCode.OK


def _write_settings(file: Path, *, key: str, level: str) -> None:
    file.write_text(f"runtime-hook-server-key: {key}\nlog-level: {level}\n")


def _is_skipped(cri: Cri, hooks: Any, key: str) -> bool:
    """Whether a pod with this label is not hooked."""
    before = len(hooks.asked)
    run_pod(cri, batch_pod_config(labels={key: "true"}))
    return len(hooks.asked) == before
