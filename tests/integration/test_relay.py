"""What passes through: streams, large messages, slow readers, many connections, secrets."""

from __future__ import annotations

import select
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from tests.support import frames
from tests.support.cri import batch_pod_config, method_path, pb, remove_pod, run_pod
from tests.support.embedded import EmbeddedRuntime
from tests.support.hook_server import HookServer, garbage, refusing, wishing
from tests.support.processes import PATIENCE, until
from tests.support.proxy import Koordlet, Proxy, connect

KB, MB = 1 << 10, 1 << 20
SECRET = "hunter2-do-not-tell"


def _let_status_be(runtime: EmbeddedRuntime, size: int) -> None:
    """Let the runtime answer Status with so many bytes, and a few."""
    answer = pb.StatusResponse(info={"filler": "x" * size})
    runtime.runtime._answers["Status"] = lambda _: answer


@pytest.mark.parametrize("size", [400 * KB, 30 * MB], ids=["400 KB", "30 MB"])
def test_large_response(proxy, cri, runtime, size):
    _let_status_be(runtime, size)
    for _ in range(3):
        assert cri.status(verbose=True).info["filler"] == "x" * size
    sent = proxy.metric("bytes_total", method=method_path("Status"), sender="backend")
    assert sent > 3 * size


@pytest.mark.parametrize("size", [400 * KB, 12 * MB], ids=["400 KB", "12 MB"])
def test_large_hooked_request(proxy, cri, runtime, hooks, size):
    proxy.use(hooks, wishing(resources={"cpu_shares": 321}))
    plan = batch_pod_config(envs={"FILLER": "y" * size})
    run_pod(cri, plan, timeout=PATIENCE)
    sent = pb.CreateContainerRequest.FromString(runtime.requests_of("CreateContainer")[-1])
    assert sent.config.envs == plan.container.envs
    assert sent.config.linux.resources.cpu_shares == 321


def test_event_stream(cri):
    with cri.container_events() as events:
        pod = run_pod(cri, batch_pod_config())
        # Other calls go on beside it, on the same connection.
        assert cri.version().runtime_name == "embedded"
        remove_pod(cri, pod)
        kinds = [next(events).container_event_type for _ in range(4)]
    assert kinds == [
        pb.CONTAINER_CREATED_EVENT,
        pb.CONTAINER_STARTED_EVENT,
        pb.CONTAINER_STOPPED_EVENT,
        pb.CONTAINER_DELETED_EVENT,
    ]


class SlowReader:
    """An HTTP/2 client that asks for much, allows it all, and does not read."""

    def __init__(self, proxy: Proxy) -> None:
        self._frames = frames.ClientFrames()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(proxy.address))
        largest = 2**31 - 1
        settings = self._frames.settings({frames.INITIAL_WINDOW_SIZE: largest})
        credit = self._frames.credit(0, largest - 65_535)
        self._socket.sendall(frames.PREFACE + settings + credit)

    def ask(self, streams: range) -> None:
        path = method_path("Status")
        for stream in streams:
            request = self._frames.request(stream, path)
            data = self._frames.data(stream, frames.message(b""), end=True)
            self._socket.sendall(request + data)

    def read(self, responses: int) -> int:
        """Read until so many streams have ended; bytes of DATA that came."""
        left, total, ended = b"", 0, 0
        while ended < responses:
            ready, _, _ = select.select([self._socket], [], [], PATIENCE)
            assert ready, f"{ended} of {responses} responses after {total} bytes, then silence"
            found, left = frames.read_frames(left + self._socket.recv(1 << 20))
            for frame in found:
                total += len(frame.payload) if frame.kind == frames.DATA else 0
                ended += frame.kind != frames.SETTINGS and bool(frame.flags & frames.END_STREAM)
        return total

    def close(self) -> None:
        self._socket.close()


def test_slow_reader_does_not_fill_the_proxys_memory(proxy, cri, runtime):
    size, asked = 30 * MB, 4
    _let_status_be(runtime, size)
    assert cri.status().info
    before = proxy.resident()
    reader = SlowReader(proxy)
    try:
        reader.ask(range(1, 2 * asked, 2))
        until(lambda: len(runtime.requests_of("Status")) == asked + 1, "not asked")
        peak = 0.0
        for _ in range(20):
            # Others are served meanwhile.
            assert cri.version().runtime_name == "embedded"
            peak = max(peak, proxy.resident())
            time.sleep(0.05)
        assert peak - before < 15
        assert reader.read(asked) > asked * size
    finally:
        reader.close()


def test_twenty_connections_at_once(proxy, runtime, koordlet):
    proxy.wait_for_server("koordlet")
    together = threading.Barrier(20)

    def kubelet(_: int) -> bool:
        with proxy.cri() as cri:
            together.wait(PATIENCE)
            for _ in range(3):
                pod = run_pod(cri, batch_pod_config())
                resources = cri.container_status(pod.container_id).status.resources.linux
                assert (resources.cpu_shares, resources.cpu_quota) == (512, 50_000)
                remove_pod(cri, pod)
            return True

    with ThreadPoolExecutor(20) as threads:
        assert all(threads.map(kubelet, range(20)))
    assert proxy.pods() == []
    assert proxy.metric("intercepted_calls_total", method="CreateContainer", result="hooked") == 60


def test_the_kubelet_can_get_what_it_requested(directory, runtime, koordlet):
    with (
        Proxy(directory, runtime.address, "--report-requested-limits") as proxy,
        proxy.cri() as cri,
    ):
        proxy.wait_for_server("koordlet")
        pod = run_pod(cri, batch_pod_config())
        resources = cri.container_status(pod.container_id).status.resources.linux
        assert (resources.cpu_shares, resources.cpu_quota) == (2, 0)
        remove_pod(cri, pod)


def test_many_calls_at_once_on_one_connection(proxy, cri, hooks):
    proxy.use(hooks, wishing(resources={"cpu_shares": 321}))
    pods = [run_pod(cri, batch_pod_config()) for _ in range(10)]

    def call(number: int) -> int:
        container = pods[number % len(pods)].container_id
        if number % 3:
            cri.update_container_resources(container, pb.LinuxContainerResources(cpu_shares=9))
        resources = cri.container_status(container).status.resources.linux
        return int(resources.cpu_shares)

    with ThreadPoolExecutor(30) as threads:
        assert set(threads.map(call, range(300))) == {321}


def test_calls_of_unknown_services_pass(proxy, runtime):
    """Whatever else is on that socket: here the runtime says that there is nothing."""
    for service in ("grpc.reflection.v1", "runtime.v9"):
        said = []
        for address in (runtime.address, proxy.address):
            with connect(address) as client:
                client.service = service
                with pytest.raises(grpc.RpcError) as error:
                    client.call("Anything", pb.VersionRequest(), pb.VersionResponse)
            said.append((error.value.code(), error.value.details()))
        assert said[0] == said[1]
        assert said[0][0] is grpc.StatusCode.UNIMPLEMENTED
    assert proxy.metric("calls_total", method="/runtime.v9.RuntimeService/Anything") == 1


def test_environments_are_never_logged(proxy, cri, directory):
    """Through every path that has something to say, at the most talkative level."""
    with (
        HookServer(directory, "good", wishing(envs={"MORE": f"{SECRET}-too"})) as good,
        HookServer(directory, "zz-disagrees", wishing(envs={"MORE": f"{SECRET}-other"})) as other,
        HookServer(directory, "zz-garbage", garbage) as broken,
        HookServer(directory, "zz-refusing", refusing) as refuses,
        Koordlet(directory, proxy.hooks, "--log-level=debug") as koordlet,
    ):
        servers = (good, other, broken, refuses)
        for server in servers:
            server.register(proxy.hooks)
            proxy.wait_for_server(server.name)
        proxy.wait_for_server("koordlet")
        plan = batch_pod_config(envs={"PASSWORD": SECRET})
        pod = run_pod(cri, plan)
        with pytest.raises(grpc.RpcError, match="reserved"):
            cri.create_container(pod.sandbox_id, plan.container, plan.sandbox)
        cri.update_container_resources(pod.container_id, pb.LinuxContainerResources(cpu_shares=3))
        proxy.kill()
        proxy.state.write_bytes(b"spoilt")
        proxy.start()
        cri.wait_until_ready()
        cri.update_container_resources(pod.container_id, pb.LinuxContainerResources(cpu_shares=4))
        pages = f"{proxy.pods()}{proxy.healthz()}"
        remove_pod(cri, pod)
        assert any(SECRET in str(asked.request) for asked in good.asked)
        for text in (proxy.said, koordlet.said, pages):
            assert text
            assert SECRET not in text
        assert proxy.events("hook servers conflict, keeping the first value")
