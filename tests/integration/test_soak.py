"""Ten thousand calls over a hundred connections, with hooks on: memory stays flat."""

from __future__ import annotations

import asyncio
import sys

from tests.integration.conftest import assert_sound
from tests.support.cri import AsyncCri, batch_pod_config, pb, remove_pod, run_pod
from tests.support.processes import PATIENCE, Program
from tests.support.proxy import Proxy

CONNECTIONS = 100
WARM = 3_000
CALLS = 10_000
MAY_GROW = 3.0
"""Megabytes. It takes longer to warm up: 2.6 after 50,000 calls, and no more after 100,000."""
TARGET = 57.0
"""Megabytes. The benchmarks hold it to that; here it is shown, and must not be far off."""


async def _calls(clients: list[AsyncCri], containers: list[str], number: int) -> None:
    """So many calls, half of them hooked, each client one at a time."""

    async def one_client(index: int, cri: AsyncCri) -> None:
        container = containers[index % len(containers)]
        for turn in range(number // len(clients)):
            if turn % 2:
                await cri.call("Version", pb.VersionRequest(), pb.VersionResponse, 60.0)
            else:
                request = pb.UpdateContainerResourcesRequest(
                    container_id=container, linux=pb.LinuxContainerResources(cpu_shares=2 + turn)
                )
                await cri.call(
                    "UpdateContainerResources", request, pb.UpdateContainerResourcesResponse, 60.0
                )

    async with asyncio.TaskGroup() as tasks:
        for index, cri in enumerate(clients):
            tasks.create_task(one_client(index, cri))


async def test_memory_is_flat(directory, koordlet, capsys):
    backend = Program("runtime", directory)
    socket = directory / "runtime.sock"
    command = [sys.executable, "-m", "koord_demo.runtime", "--socket", str(socket)]
    backend.spawn([*command, "--root", str(directory / "cgroup")])
    try:
        backend.wait_until(socket.exists, "does not serve")
        with Proxy(directory, socket, "--log-level=info") as proxy:
            proxy.wait_for_server("koordlet")
            with proxy.cri() as cri:
                pods = [run_pod(cri, batch_pod_config()) for _ in range(20)]
                before = proxy.resident()
                warm, after = await _soak(proxy, [pod.container_id for pod in pods])
                for pod in pods:
                    remove_pod(cri, pod)
            with capsys.disabled():
                print(
                    f"\nproxy RSS in MB: {before:.1f} at first, {warm:.1f} after {WARM} calls, "
                    f"{after:.1f} after {CALLS} (target {TARGET:g})"
                )
            assert after - warm <= MAY_GROW
            assert after <= TARGET * 1.1
            hooked = proxy.metric(
                "intercepted_calls_total", method="UpdateContainerResources", result="hooked"
            )
            assert hooked == CALLS / 2
            assert proxy.metric("intercepted_calls_total", result="missed") == 0
            assert proxy.pods() == []
            proxy.wait_until(lambda: proxy.healthz()["connections"] == 0, "keeps connections")
            assert_sound(proxy)
    finally:
        backend.close()


async def _soak(proxy: Proxy, containers: list[str]) -> tuple[float, float]:
    """Megabytes of the proxy when warm, and at the end."""
    clients = [AsyncCri(proxy.address) for _ in range(CONNECTIONS)]
    try:
        for client in clients:
            # Where the machine is busy it takes more than one attempt.
            await asyncio.wait_for(client._channel.channel_ready(), PATIENCE)
        await _calls(clients, containers, WARM)
        warm = proxy.resident()
        await _calls(clients, containers, CALLS - WARM)
        assert proxy.healthz()["connections"] == CONNECTIONS + 1
        return warm, proxy.resident()
    finally:
        for client in clients:
            await client.close()


def test_nothing_is_left_of_many_short_lives(proxy, runtime, hooks):
    """Pods and connections that come and go."""
    hooks.register(proxy.hooks)
    proxy.wait_for_server(hooks.name)

    def live() -> None:
        for _ in range(50):
            with proxy.cri() as cri:
                remove_pod(cri, run_pod(cri, batch_pod_config()))

    live()
    live()
    warm = proxy.resident()
    live()
    live()
    assert proxy.resident() - warm <= MAY_GROW
    assert proxy.pods() == []
    proxy.wait_until(lambda: proxy.healthz()["connections"] == 0, "keeps connections")
