"""Hooked calls: an update relayed, hooked in the proxy and hooked by koordlet; and pod starts.

containerd is real. Pods start with koordlet's hooks and directly in turns; what the hooks
take of it is read from the programs' own metrics.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from koord_demo import cri_client_pb2 as pb
from koord_demo.containerd import Containerd
from koord_demo.cri_client import Cri
from koord_demo.pods import PodPlan, batch_pod_config, remove_pod, run_pod
from koord_service.unix_http import UnixConnection
from prometheus_client.parser import text_string_to_metric_families

from bench import load, programs
from bench.relay import VERSION
from bench.report import Measure
from bench.series import Series, in_turn

UPDATE = "/runtime.v1.RuntimeService/UpdateContainerResources"
BATCH_MEMORY = 1 << 27
UPDATE_CALLS = 60


def updates(containerd: Containerd, scratch: Path, rounds: int) -> list[Measure]:
    """UpdateContainerResources relayed, with a hook in the proxy, and with koordlet's."""
    backend, p50 = Path(containerd.address), Series()
    hooks = {name: scratch / f"hooks-{name}" for name in ("relayed", "in-process", "koordlet")}
    sockets = {name: scratch / f"update-{name}.sock" for name in hooks}
    with contextlib.ExitStack() as stack:
        stack.enter_context(programs.koordlet(scratch / "koordlet.sock", hooks["koordlet"]))
        pids = {
            name: stack.enter_context(
                programs.proxy(
                    socket,
                    backend,
                    hooks=hooks[name],
                    plugins="batchresource,cpusetallocator" if name == "in-process" else "",
                )
            )
            for name, socket in sockets.items()
        }
        idle = programs.rss_megabytes(pids["koordlet"])
        plan = batch_pod_config(
            "bench", cgroup_root=containerd.cgroup_root, batch_cpu=500, batch_memory=BATCH_MEMORY
        )
        with Cri(sockets["koordlet"]) as cri:
            cri.wait_until_ready()
            pod = run_pod(cri, plan)
            body = load.message(scratch, "update", _update(pod.container_id, plan))
            for number in range(rounds):
                for path, socket in in_turn({"direct": backend, **sockets}, number):
                    one = load.calls(socket, UPDATE, count=UPDATE_CALLS, body=body, scratch=scratch)
                    p50.add(path, one.percentile(0.5))
            _soak(sockets["koordlet"], body, scratch)
            remove_pod(cri, pod)
        loaded = programs.rss_megabytes(pids["koordlet"])
    grpc = (
        "gRPC: a mere echo between two Python processes, at a call every 8 ms, takes "
        "0.5 to 0.8 ms on two idle cores, and more while containerd uses them."
    )
    own = (
        "Parsing, the plugins and the merge: about 0.1 ms when warm, more when the caches are cold."
    )
    return [
        _over_relayed("hook in the proxy, over relayed, p50", p50, "in-process", 0.2, own),
        _over_relayed("hook in koordlet, over relayed, p50", p50, "koordlet", 1.0, grpc),
        Measure(
            "UpdateContainerResources, direct, p50",
            "ms",
            p50.median("direct") / 1000,
            "",
            None,
            None,
        ),
        Measure("memory, idle", "MB", idle, "", None, None),
        Measure(
            "memory, after 10,000 calls",
            "MB",
            loaded,
            "",
            None,
            55.0,
            "gRPC for the hook calls is most of it.",
        ),
    ]


def _over_relayed(name: str, p50: Series, path: str, target: float, why: str) -> Measure:
    low, high = p50.over_interval(path, "relayed")
    added, interval = p50.over(path, "relayed") / 1000, (low / 1000, high / 1000)
    return Measure(name, "ms", added, "", None, target, why, interval=interval)


def _update(container: str, plan: PodPlan) -> bytes:
    """An update that sets all the kernel values that hooks set, so that runc writes as
    many files on every path; the hooks still have cpu.shares to change.
    """
    request = pb.UpdateContainerResourcesRequest(container_id=container)
    request.linux.CopyFrom(plan.container.linux.resources)
    request.linux.cpu_period, request.linux.cpu_quota = 100_000, 50_000
    request.linux.memory_limit_in_bytes = BATCH_MEMORY
    return request.SerializeToString()


def _soak(socket: Path, update: Path, scratch: Path) -> None:
    """10,000 calls over 100 connections, every tenth of them hooked."""
    empty = load.message(scratch, "empty", b"")
    for method, body, count in ((VERSION, empty, 9000), (UPDATE, update, 1000)):
        load.calls(socket, method, count=count, connections=100, body=body, scratch=scratch)


def pod_starts(containerd: Containerd, scratch: Path, count: int) -> list[Measure]:
    """RunPodSandbox, CreateContainer and StartContainer, with koordlet's hooks and directly."""
    series, hooks, socket = Series(), scratch / "hooks-pods", scratch / "pods.sock"
    backend, koordlet = Path(containerd.address), scratch / "pods" / "koordlet.sock"
    koordlet.parent.mkdir()
    with contextlib.ExitStack() as stack:
        stack.enter_context(programs.koordlet(koordlet, hooks))
        stack.enter_context(programs.proxy(socket, backend, hooks=hooks))
        clients = {
            "direct": stack.enter_context(Cri(backend)),
            "hooked": stack.enter_context(Cri(socket)),
        }
        for client in clients.values():
            client.wait_until_ready()
        for number in range(count):
            for path in ("direct", "hooked") if number % 2 else ("hooked", "direct"):
                plan = batch_pod_config(
                    f"bench-{path}-{number}",
                    cgroup_root=containerd.cgroup_root,
                    batch_cpu=500,
                    batch_memory=BATCH_MEMORY,
                )
                started = time.perf_counter()
                pod = run_pod(clients[path], plan)
                series.add(path, (time.perf_counter() - started) * 1000)
                remove_pod(clients[path], pod)
        waited = _milliseconds(f"{socket}.status", "koord_runtime_proxy_hook_seconds")
        own = _milliseconds(koordlet.with_name("status.sock"), "koordlet_runtime_hook_seconds")
    return _pod_measures(series, waited, own)


def _pod_measures(series: Series, waited: float, own: float) -> list[Measure]:
    hooked, direct = series.median("hooked"), series.median("direct")
    why = (
        "Two hook calls over grpcio and four database commits: the rows below say whose time "
        "it is; two runs of the same path differ by as much."
    )
    return [
        Measure(
            "pod start, hooked",
            "ms",
            hooked,
            "direct",
            direct,
            1.03,
            why,
            interval=series.ratio_interval("hooked", "direct"),
        ),
        Measure(
            "pod start, added",
            "ms",
            series.over("hooked", "direct"),
            "",
            None,
            None,
            interval=series.over_interval("hooked", "direct"),
        ),
        Measure("… two hook calls, mean, as the proxy waits", "ms", waited, "", None, None),
        Measure("… of them koordlet's own work", "ms", own, "", None, None),
        Measure("… grpcio and the way there and back", "ms", waited - own, "", None, None),
    ]


_STARTING = ("PreRunPodSandbox", "PreCreateContainer")


def _milliseconds(status: Path | str, name: str) -> float:
    """Return the time of one pod's hooks: a histogram's means at both stages, summed."""
    connection = UnixConnection(status, timeout=10.0)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    totals: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples if family.name == name else ():
            key = sample.labels["stage"], sample.name.removeprefix(name)
            totals[key] = totals.get(key, 0.0) + sample.value
    return sum(1e3 * totals[stage, "_sum"] / totals[stage, "_count"] for stage in _STARTING)
