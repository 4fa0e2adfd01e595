"""What is done to the programs; each leaves all of them running again, or starting."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from tests.chaos_whole.whole import Whole

Fault = Callable[[], object]


def faults(whole: Whole, outage: float) -> Mapping[str, Fault]:
    """All of them, by name; the API server is away for ``outage`` seconds in the last."""
    server = whole.server

    def restart(end: Callable[[], object], start: Callable[[], object]) -> Fault:
        def strike() -> None:
            end()
            start()

        return strike

    def api_outage() -> None:
        server.program.kill()
        time.sleep(outage)
        server.start()

    return {
        "none, for comparison": lambda: None,
        "proxy: kill -9": restart(whole.proxy.kill, whole.proxy.launch),
        "koordlet: kill -9": restart(whole.koordlet.kill, whole.koordlet.launch),
        "manager: kill -9": restart(whole.manager.kill, whole.manager.start),
        "scheduler: kill -9": restart(whole.scheduler.kill, whole.scheduler.start),
        "kubelet: kill -9": restart(whole.kubelet.kill, whole.kubelet.start),
        "controller-manager: kill -9": restart(
            whole.controller_manager.kill, whole.controller_manager.start
        ),
        "containerd: kill -9": restart(whole.containerd.kill, whole.containerd.start),
        "API server: kill -9": restart(server.program.kill, server.start),
        "etcd: kill -9": restart(server.etcd.kill, server.start_etcd),
        f"no API server for {outage:g} s": api_outage,
    }
