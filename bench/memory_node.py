"""The part of bench/memory_offload.py that runs on the node: pods, loads, measurements.

The pods are real; the loads in them are processes of the node that join the container's cgroup,
since the pods' image has no more than a shell.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from koord_demo.cgroups import container_pid
from koord_model.qos import KubeQoS

from bench import memory_load
from tests.support.pod_cases import MIB, PodCase, batch, qos
from tests.vm import managed, node, slices
from tests.vm import managed_files as files
from tests.vm.kubelet import DEADLINE, Kubelet

SECONDS = 100.0
"""Of one turn; the first 20 are not counted."""
BURST_SECONDS, AFTER_KILL = 90.0, 5.0
"""The longest burst, and what of it comes after the first kill."""
ARMS = ("nothing", "psi at 0.1 %", "integrated", "senpai", "psi at 10 %")
SENPAI = Path("/opt/senpai.py")
JOB_MIB, HOT_MIB, SERVER_MIB, CACHE_MIB = 450, 120, 150, 120
BURST_MIB, EACH_MIB = 3000, 24
CACHE, SERVED = Path("/var/tmp/job"), Path("/var/tmp/served")

_ENVIRONMENT = f"""\
KOORDLET_NODESLO_FILE={managed.RULES}
KOORDLET_POD_LIST_SOURCE={managed.LISTED}
KOORDLET_KUBELET_SYNC_INTERVAL=1
KOORDLET_RUNTIME_HOOKS_RECONCILE_INTERVAL=2
KOORDLET_FEATURE_GATES=PSICollector=true,MemoryStatCollector=true,ZoneInfoCollector=true,\
SchedStatCollector=true,MemoryOffload=true,MemoryGuard=true,MemoryWatermark=true,\
DyingCgroupReclaim=true,BECPUSuppress=false,CPUBurst=false
KOORDLET_PSI_COLLECTOR_INTERVAL=5
KOORDLET_ENABLE_PAGECACHE_COLLECTOR=true
"""
# Twenty percent in 30 s, as senpai has 4 in 6.
_OFFLOAD = {"share_percent": 20, "floor_percent": 0}
_POLICIES: Mapping[str, dict[str, Any]] = {
    "psi at 0.1 %": {"policy": "psi"},
    "integrated": {"policy": "integrated"},
    "psi at 10 %": {"policy": "psi", "target_percent": 10},
}
_SENPAI = ("--min-size", str(64 * MIB), "--max-probe", "0.04")

JOB = PodCase(
    "job", KubeQoS.BEST_EFFORT, labels=qos("BE"), annotations=batch(main=(2000, 1800 * MIB))
)
READER = JOB.like("reader", annotations=batch(main=(500, 100 * MIB)))
WEB = PodCase("web", KubeQoS.BURSTABLE, labels=qos("LS"), cpu_request=1000)

kubelet = Kubelet(node.SOCKET)
groups: dict[str, Path] = {}
names: dict[str, str] = {}
"""Of the pods, as koordctl has them."""


# ---- steps


def memory_start() -> dict[str, Any]:
    """koordlet with these strategies, all of them off; two pods, and swap in zram."""
    slices.make_tree()
    ask()
    Path("/etc/default/koordlet").write_text(_ENVIRONMENT)
    _list_pods()
    done = node.run("systemctl restart koordlet")
    node.until("koordlet in the proxy's list", node.koordlet_is_asked)
    for case in (JOB, READER, WEB):
        ident = kubelet.start(case)
        labels = kubelet.cri.container_status(ident, timeout=DEADLINE).status.labels
        pod = labels["io.kubernetes.pod.namespace"], labels["io.kubernetes.pod.name"]
        names[case.name] = "/".join(pod)
        groups[case.name] = _container_group(ident)
    _list_pods()
    for path, size in ((CACHE, CACHE_MIB), (SERVED, 32)):
        with path.open("wb") as file:
            for _ in range(size):
                file.write(os.urandom(MIB))
            os.fsync(file.fileno())
    return {"restarted": done, "groups": {name: str(path) for name, path in groups.items()}}


def memory_watermark() -> dict[str, Any]:
    """A container that reads files up to its limit, without and with its watermark."""
    found = {}
    for name, changes in (("without", {}), ("with", {"wmarkRatio": 85})):
        ask({"memory_watermark": "on"}, {"beClass": {"memoryQOS": {"enable": True, **changes}}})
        _drop_caches()
        # With its sandbox, the pod comes to its limit before the container does.
        before = _events(groups["reader"].parent)
        with _load("reader", groups["reader"], 10, CACHE):
            time.sleep(45)
            current = _number(groups["reader"] / "memory.current")
        found[name] = {
            "limit": _number(groups["reader"] / "memory.max"),
            "current": current,
            "times at the limit": _events(groups["reader"].parent)["max"] - before["max"],
        }
    ask()
    return {**found, "journal": _journal("memory_watermark")[-4:]}


def memory_dying() -> dict[str, Any]:
    """Groups that are gone but for their page cache, before and after."""
    above = slices.CGROUP / "kubepods.slice/kubepods-besteffort.slice"
    for number in range(200):
        _leave_page_cache(above / f"bench-{number}", Path(f"/var/tmp/left-{number}"))
    before = _keyed(above / "cgroup.stat")["nr_dying_descendants"]
    ask({"dying_cgroups": "on", "dying_cgroups.most": 20})
    begin = time.monotonic()
    while time.monotonic() < begin + 90:
        after = _keyed(above / "cgroup.stat")["nr_dying_descendants"]
        if after <= 20:
            break
        time.sleep(1)
    ask()
    return {
        "before": before,
        "after": after,
        "seconds": round(time.monotonic() - begin, 1),
        "journal": _journal("dying_cgroups"),
    }


def memory_guard(name: str) -> dict[str, Any]:
    """A burst of best-effort memory beside a server, without or with the guard; no swap."""
    mode = "on" if name == "with" else "off"
    ask({"memory_guard": mode}, threshold={"enable": True, "cpuSuppressThresholdPercent": 95})
    time.sleep(10)
    killed = _kills()
    with _server() as (server, latencies):
        time.sleep(15)
        begin = time.monotonic()
        with _load("burst", groups["job"], BURST_MIB, EACH_MIB):
            samples, last = [], begin + BURST_SECONDS
            while time.monotonic() < last:
                free = _keyed(Path("/proc/meminfo"))["MemFree:"] // 1024
                samples.append((free, _number(groups["job"] / "memory.current") // MIB))
                if _kills() != killed:
                    last = min(last, time.monotonic() + AFTER_KILL)
                time.sleep(1)
            seconds = time.monotonic() - begin
        found: dict[str, Any] = {
            "seconds": round(seconds, 1),
            "free, burst (MiB)": samples,
            "server lives": server.poll() is None,
            "oom kills": {case: kills - killed[case] for case, kills in _kills().items()},
            "kernel": node.run("dmesg | grep 'Killed process'")["output"],
            "server": _percentiles(latencies(begin)),
            "server before": _percentiles(latencies(0, begin)),
        }
    found["why"] = node.run("/opt/pykoord/bin/koordctl why strategies")["output"]
    found["journal"] = _journal("memory_guard")[-3:]
    ask()
    found["memory.high when it is off"] = files.text(files.BESTEFFORT / "memory.high")
    return found


def memory_offload(arm: str) -> dict[str, Any]:
    """One turn: a job with cold memory beside a server."""
    _drop_caches()
    job = groups["job"]
    with (
        _swap(),
        _server() as (_, latencies),
        _load("job", job, JOB_MIB, HOT_MIB, CACHE) as process,
    ):
        log = Path(f"/run/load-{process.pid}")
        node.until("a filled job", lambda: log.exists() and "filled" in log.read_text())
        time.sleep(20)
        begin = time.monotonic()
        samples = [{"at": 0.0, **_sample(job.parent)}]
        with _offloading(arm, job.parent):
            while time.monotonic() < begin + SECONDS:
                samples.append({"at": round(time.monotonic() - begin, 1), **_sample(job.parent)})
                time.sleep(5)
            why = node.run(f"/opt/pykoord/bin/koordctl why pod {names[JOB.name]}")["output"]
        counts = [float(line.split()[1]) for line in log.read_text().splitlines() if " " in line]
        return {
            "arm": arm,
            "samples": samples,
            "server": _percentiles(latencies(begin + 20)),
            "job's rounds": counts[-1],
            "journal": _journal("memory_offload")[-2:],
            "why": why,
        }


def memory_cost() -> dict[str, Any]:
    """CPU and memory of koordlet over all of it."""
    properties = "CPUUsageNSec,MemoryCurrent,ActiveEnterTimestampMonotonic"
    return node.run(f"systemctl show --property={properties} koordlet")


def _turn(step: Callable[[str], dict[str, Any]], arm: str) -> Callable[[], dict[str, Any]]:
    def turn() -> dict[str, Any]:
        return step(arm)

    turn.__name__ = f"{step.__name__} {arm}"
    return turn


STEPS: tuple[Callable[[], Any], ...] = (
    memory_start,
    _turn(memory_guard, "with"),
    _turn(memory_guard, "without"),
    *(_turn(memory_offload, arm) for arm in ARMS),
    memory_watermark,
    memory_dying,
    memory_cost,
)


# ---- how


def ask(
    strategies: Mapping[str, Any] | None = None,
    classes: Mapping[str, Any] | None = None,
    threshold: Mapping[str, Any] | None = None,
) -> None:
    """Put a NodeSLO into force: modes of strategies ("NAME") and settings ("NAME.SETTING")."""
    every = ("memory_offload", "memory_guard", "memory_watermark", "dying_cgroups")
    asked: dict[str, dict[str, Any]] = {name: {"mode": "off"} for name in every}
    for key, value in (strategies or {}).items():
        name, _, setting = key.partition(".")
        asked[name] |= {setting or "mode": value}
    spec = {
        "resourceUsedThresholdWithBE": dict(threshold or {"enable": False}),
        "resourceQOSStrategy": dict(classes or {}),
        "extensions": {"pykoord": {"strategies": asked}},
    }
    path = Path(managed.RULES)
    path.parent.mkdir(exist_ok=True)
    aside = path.with_suffix(".new")
    aside.write_text(json.dumps({"kind": "NodeSLO", "spec": spec}))
    aside.rename(path)
    time.sleep(3)


@contextmanager
def _offloading(arm: str, pod: Path) -> Iterator[None]:
    if arm == "senpai":
        command = [sys.executable, str(SENPAI), str(pod), *_SENPAI]
        senpai = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            senpai.kill()
            senpai.wait()
            (pod / "memory.high").write_text("max")
        return
    if arm in _POLICIES:
        settings = _OFFLOAD | _POLICIES[arm]
        named = {f"memory_offload.{name}": value for name, value in settings.items()}
        ask({"memory_offload": "on", **named})
    yield
    ask()


@contextmanager
def _load(kind: str, group: Path, *rest: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A load in a container's group, until it is killed in the end."""
    script = str(Path(memory_load.__file__))
    # The shell becomes the load: the log has the name of its process.
    shell = f'exec "{sys.executable}" "{script}" {kind} "{group}" /run/load-$$ "$@"'
    command = ["sh", "-c", shell, "sh", *map(str, rest)]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def _server() -> Iterator[tuple[subprocess.Popen[bytes], Callable[..., list[float]]]]:
    """The server, and how long its requests took in ms, between two times."""
    with _load("server", groups["web"], SERVER_MIB, 10, SERVED) as process:
        log = Path(f"/run/load-{process.pid}")
        node.until("a server", log.exists)

        def latencies(since: float = 0, until: float = float("inf")) -> list[float]:
            rows = (line.split() for line in log.read_text().splitlines())
            return [
                float(row[1]) for row in rows if len(row) == 2 and since <= float(row[0]) < until
            ]

        node.until("answers", lambda: len(latencies()) > 0)
        yield process, latencies


@contextmanager
def _swap() -> Iterator[None]:
    # As a kubelet with NodeSwap has it; without, containers may not swap.
    (groups["job"] / "memory.swap.max").write_text("max")
    for command in (
        "modprobe zram num_devices=1",
        "echo 1G > /sys/block/zram0/disksize",
        "mkswap /dev/zram0",
        "swapon /dev/zram0",
    ):
        done = node.run(command)
        if done["exit"]:
            raise RuntimeError(f"{command}: {done['output']}")
    try:
        yield
    finally:
        node.run("swapoff /dev/zram0; rmmod zram")


def _sample(pod: Path) -> dict[str, Any]:
    stat = _keyed(pod / "memory.stat")
    pressure = (pod / "memory.pressure").read_text().split()
    counters: tuple[str, ...] = ("anon", "file", "pgscan", "pgsteal", "workingset_refault_anon")
    counters += ("workingset_refault_file", "workingset_activate_anon", "workingset_activate_file")
    zram = Path("/sys/block/zram0/mm_stat")
    return {
        "current": _number(pod / "memory.current"),
        "swap": _number(pod / "memory.swap.current"),
        "zram": int(zram.read_text().split()[2]),
        "avg60": float(pressure[2].partition("=")[2]),
        "waited": int(pressure[4].partition("=")[2]),
        **{name: stat.get(name, 0) for name in counters},
    }


def _leave_page_cache(group: Path, path: Path) -> None:
    """A group that ends with memory charged to it."""
    group.mkdir()
    pid = os.fork()
    if pid == 0:
        (group / "cgroup.procs").write_text(str(os.getpid()))
        with path.open("wb") as file:
            file.write(os.urandom(64 << 10))
            os.fsync(file.fileno())
        os._exit(0)
    os.waitpid(pid, 0)
    node.until("an empty group", lambda: not (group / "cgroup.procs").read_text())
    group.rmdir()


def _container_group(ident: str) -> Path:
    [line] = Path(f"/proc/{container_pid(kubelet.cri, ident)}/cgroup").read_text().splitlines()
    return slices.CGROUP / line.removeprefix("0::/")


def _list_pods() -> None:
    Path(managed.LISTED).parent.mkdir(exist_ok=True)
    kubelet.list_pods(Path(managed.LISTED), managed.spec)


def _drop_caches() -> None:
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("1")


def _journal(owner: str) -> list[dict[str, Any]]:
    path = Path("/var/lib/koordlet/journal.jsonl")
    lines = path.read_text().splitlines() if path.exists() else []
    return [one for one in map(json.loads, lines) if one.get("owner") == owner]


def _kills() -> dict[str, int]:
    """Kills for memory by the kernel, by pod."""
    return {case: _events(path)["oom_kill"] for case, path in groups.items()}


def _events(group: Path) -> dict[str, int]:
    return _keyed(group / "memory.events")


def _keyed(path: Path) -> dict[str, int]:
    rows = (line.split() for line in path.read_text().splitlines())
    return {row[0]: int(row[1]) for row in rows}


def _number(path: Path) -> int:
    text = path.read_text().strip()
    return -1 if text == "max" else int(text)


def _percentiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    places = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return (
        {
            "requests": len(ordered),
            **{name: ordered[int(part * (len(ordered) - 1))] for name, part in places.items()},
        }
        if ordered
        else {"requests": 0}
    )
