"""The proxy beside socat (the floor) and HAProxy (C), and hooks beside none.

Backends are real: containerd, and nginx for a large constant answer. In each
round every path is measured once, in turn, so that a machine that slows down
slows all of them down; figures are medians over the rounds.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from koord_demo import cri_client_pb2 as pb
from koord_demo.containerd import Containerd
from koord_demo.cri_client import Cri
from koord_demo.pods import PodPlan, batch_pod_config, remove_pod, run_pod

from bench import load, programs
from bench.report import Measure

VERSION = "/runtime.v1.RuntimeService/Version"
LIST = "/runtime.v1.RuntimeService/ListContainers"
UPDATE = "/runtime.v1.RuntimeService/UpdateContainerResources"
LARGE = 400_000
BATCH_MEMORY = 1 << 27
CALLS, BUSY_CALLS, LARGE_CALLS, UPDATE_CALLS = 2000, 8000, 300, 60

Added = dict[str, dict[str, float]]


class Series:
    """Figures by path, a value a round."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def add(self, path: str, value: float) -> None:
        self._values.setdefault(path, []).append(value)

    def median(self, path: str) -> float:
        return statistics.median(self._values[path])

    def over(self, path: str, base: str = "direct") -> float:
        """The median of what a path takes more than another, round by round."""
        pairs = zip(self._values[path], self._values[base], strict=True)
        return statistics.median(ours - theirs for ours, theirs in pairs)


def measure(rounds: int) -> tuple[list[Measure], Added, dict[str, object]]:
    with tempfile.TemporaryDirectory(prefix="koord-bench-") as name:
        scratch = Path(name)
        with Containerd(scratch) as containerd:
            measures, added = _relayed(Path(containerd.address), scratch, 2 * rounds)
            measures += _large(scratch, rounds)
            measures += _intercepted(containerd, scratch, rounds)
            measures += _pods(containerd, scratch, 8 * rounds)
    settings: dict[str, object] = {
        "rounds": rounds,
        "calls a turn": f"{CALLS} with 1 caller, {BUSY_CALLS} with 16, {UPDATE_CALLS} updates",
        "backend": "containerd; nginx for the large answer",
    }
    return measures, added, settings


def _paths(
    stack: contextlib.ExitStack, backend: Path, scratch: Path, tag: str
) -> tuple[dict[str, Path], dict[str, int]]:
    """The four paths to a backend: their sockets, and the pids of those that are ours or C."""
    sockets = {path: scratch / f"{tag}-{path}.sock" for path in ("socat", "HAProxy", "proxy")}
    hooks = scratch / f"{tag}-hooks"
    stack.enter_context(programs.socat(sockets["socat"], backend))
    pids = {
        "HAProxy": stack.enter_context(programs.haproxy(sockets["HAProxy"], backend, scratch)),
        "proxy": stack.enter_context(programs.proxy(sockets["proxy"], backend, hooks=hooks)),
    }
    return {"direct": backend, **sockets}, pids


def _relayed(backend: Path, scratch: Path, rounds: int) -> tuple[list[Measure], Added]:
    p50, p99, rate, cpu, busy_cpu = Series(), Series(), Series(), Series(), Series()
    body = load.message(scratch, "empty", b"")
    with contextlib.ExitStack() as stack:
        sockets, pids = _paths(stack, backend, scratch, "version")
        for number in range(rounds):
            for path, socket in in_turn(sockets, number):
                with cpu_a_call(pids.get(path), CALLS, lambda used, at=path: cpu.add(at, used)):
                    one = load.calls(socket, VERSION, count=CALLS, body=body, scratch=scratch)
                with cpu_a_call(
                    pids.get(path), BUSY_CALLS, lambda used, at=path: busy_cpu.add(at, used)
                ):
                    many = load.calls(
                        socket, VERSION, count=BUSY_CALLS, callers=16, body=body, scratch=scratch
                    )
                p50.add(path, one.percentile(0.5))
                p99.add(path, one.percentile(0.99))
                rate.add(path, many.rate)
    added = {
        path: {"p50": p50.over(path), "p99": p99.over(path)}
        for path in ("socat", "HAProxy", "proxy")
    }
    ours = added["proxy"]
    near = (
        "The proxy's own work is about 5 µs a call; the rest is two wake-ups and four "
        "system calls, as in HAProxy."
    )
    return [
        Measure(
            "added p50, 1 caller", "µs", ours["p50"], "HAProxy", added["HAProxy"]["p50"], 1.0, near
        ),
        Measure(
            "added p50, 1 caller, floor",
            "µs",
            ours["p50"],
            "socat",
            added["socat"]["p50"],
            2.0,
            near,
        ),
        Measure("added p99, 1 caller", "µs", ours["p99"], "HAProxy", added["HAProxy"]["p99"], None),
        Measure(
            "CPU a call, 1 caller",
            "µs",
            cpu.median("proxy"),
            "HAProxy",
            cpu.median("HAProxy"),
            1.3,
            near,
        ),
        Measure(
            "CPU a call, 16 callers",
            "µs",
            busy_cpu.median("proxy"),
            "HAProxy",
            busy_cpu.median("HAProxy"),
            None,
        ),
        Measure(
            "time a call, 16 callers",
            "µs",
            1e6 / rate.median("proxy"),
            "HAProxy",
            1e6 / rate.median("HAProxy"),
            None,
        ),
    ], added


def _large(scratch: Path, rounds: int) -> list[Measure]:
    root = scratch / "root"
    answer = root / LIST.removeprefix("/")
    answer.parent.mkdir(parents=True)
    load.message(answer.parent, answer.name, bytes(LARGE))
    backend, p50 = scratch / "nginx.sock", Series()
    with contextlib.ExitStack() as stack:
        stack.enter_context(programs.nginx(backend, root, scratch))
        sockets, _ = _paths(stack, backend, scratch, "large")
        for number in range(rounds):
            for path, socket in in_turn(sockets, number):
                one = load.calls(socket, LIST, count=LARGE_CALLS, body=None, scratch=scratch)
                p50.add(path, one.percentile(0.5))
    why = "Each chunk that is read is written in one piece, but crosses Python once."
    return [
        Measure(
            "added p50, 400 KB answer",
            "µs",
            p50.over("proxy"),
            "HAProxy",
            p50.over("HAProxy"),
            1.0,
            why,
        )
    ]


def _intercepted(containerd: Containerd, scratch: Path, rounds: int) -> list[Measure]:
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
        Measure(
            "hook in the proxy, over relayed, p50",
            "ms",
            p50.over("in-process", "relayed") / 1000,
            "",
            None,
            0.2,
            own,
        ),
        Measure(
            "hook in koordlet, over relayed, p50",
            "ms",
            p50.over("koordlet", "relayed") / 1000,
            "",
            None,
            1.0,
            grpc,
        ),
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


def _pods(containerd: Containerd, scratch: Path, count: int) -> list[Measure]:
    """RunPodSandbox, CreateContainer and StartContainer, with koordlet's hooks and directly."""
    series, hooks, socket = Series(), scratch / "hooks-pods", scratch / "pods.sock"
    backend = Path(containerd.address)
    with contextlib.ExitStack() as stack:
        stack.enter_context(programs.koordlet(scratch / "koordlet-pods.sock", hooks))
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
    why = (
        "Two hook calls at more than 1 ms each and four database commits; two runs of "
        "the same path differ by as much."
    )
    return [
        Measure(
            "pod start, hooked",
            "ms",
            series.median("hooked"),
            "direct",
            series.median("direct"),
            1.03,
            why,
        )
    ]


def in_turn(sockets: dict[str, Path], number: int) -> list[tuple[str, Path]]:
    """The paths in order, every other round backwards: none always comes after the same one."""
    return list(sockets.items())[:: -1 if number % 2 else 1]


@contextlib.contextmanager
def cpu_a_call(pid: int | None, calls: int, tell: Callable[[float], None]):
    """CPU time a call of a process while the block runs."""
    before = programs.cpu_micros(pid) if pid else 0
    yield
    if pid:
        tell((programs.cpu_micros(pid) - before) / calls)
