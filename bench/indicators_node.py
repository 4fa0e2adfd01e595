"""The part of bench/indicators.py that runs on the node: services, jobs, turns.

Two services whose workers answer requests, in waves, beside best-effort jobs that would use every
CPU. Turns are with cpu_suppress alone, and with targets besides. A service's wait is counted from
the kernel (/proc/PID/schedstat of its workers), whatever koordlet measures.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from koord_model.qos import KubeQoS

from bench import grouped_pods, spinning_load
from tests.support.pod_cases import MIB, PodCase, batch, qos
from tests.vm import managed, node, slices
from tests.vm import managed_files as files

CPUS, WORKERS, LOAD = 8, 4, 0.15
"""Workers of each service, and how much of a CPU each uses on average."""
SECONDS = 110.0
USUAL, HIGHEST = 65, 95
SETTLE = {f"{USUAL} %": 25.0, "sched_wait": 150.0, "all three": 150.0}
"""Seconds until a turn counts: a level falls slowly, from all CPUs."""
TURNS = (f"{USUAL} %", "sched_wait", f"{USUAL} %", "all three", f"{USUAL} %")
"""The first says what the targets are."""

WEB = PodCase("web", KubeQoS.BURSTABLE, labels=qos("LS"), cpu_request=2000)
SHOP = WEB.like("shop")
SERVICES = (WEB, SHOP)
JOB = PodCase(
    "job", KubeQoS.BEST_EFFORT, labels=qos("BE"), annotations=batch(main=(8000, 512 * MIB))
)
PODS = (*SERVICES, JOB)

_ENVIRONMENT = f"""\
KOORDLET_NODESLO_FILE={managed.RULES}
KOORDLET_POD_LIST_SOURCE={managed.LISTED}
KOORDLET_KUBELET_SYNC_INTERVAL=1
KOORDLET_FEATURE_GATES=TaskDelayCollector=true,PSICollector=true,PressureSuppress=true,CPUBurst=false
"""

groups: dict[str, Path] = {}
targets: dict[str, float] = {}
taken: list[str] = []


# ---- steps


def indicators_start() -> dict[str, Any]:
    """All CPUs, koordlet, and the loads."""
    for cpu in range(2, CPUS):
        Path(f"/sys/devices/system/cpu/cpu{cpu}/online").write_text("1")
    groups.update(grouped_pods.make(PODS))
    # What a kubelet has of the requests of all burstable pods.
    requested = sum(case.cpu_request for case in SERVICES)
    slices.set_weight("kubepods-burstable.slice", slices.weight(slices.shares(requested)))
    grouped_pods.give(PODS, _slo(USUAL, {}))
    Path("/etc/default/koordlet").write_text(_ENVIRONMENT)
    done = node.run("systemctl restart koordlet")
    for case in SERVICES:
        _load("service", case.name, WORKERS, LOAD)
    _load("job", JOB.name, CPUS)
    node.until("waits", lambda: len(_reported("pod_cpu_sched_wait", 30)) == len(PODS))
    return done


def indicators_turn() -> dict[str, Any]:
    """Put a turn's settings into force, wait, and measure."""
    arm = TURNS[len(taken)]
    taken.append(arm)
    alone = arm.endswith("%")
    percent = int(arm.removesuffix(" %")) if alone else HIGHEST
    asked = {} if alone else dict(targets) if arm == "all three" else _only("sched_wait")
    grouped_pods.put_in_force(_slo(percent, asked))
    time.sleep(SETTLE[arm])
    before, began = _counted(), time.monotonic()
    cpus = []
    while time.monotonic() < began + SECONDS:
        cpus.append(files.cpus(files.BESTEFFORT))
        time.sleep(2)
    after, ended = _counted(), time.monotonic()
    found = {
        "arm": arm,
        "targets": asked,
        "seconds": ended - began,
        "wait": {case.name: _wait(before, after, case.name) for case in SERVICES},
        "used": {name: _grown(before, after, f"{name} used") / 1e9 for name in ("web", "shop")},
        "BE cores": _grown(before, after, "BE usec") / 1e6 / (ended - began),
        "BE CPUs": statistics.mean(cpus),
        "BE CPUs each 2 s": cpus,
        "ms": _latencies(began, ended),
        "koordlet's": {
            name: _reported(kind, SECONDS, **labels) for name, (kind, labels) in _KINDS.items()
        },
        "node cores": grouped_pods.asked("/v1/metrics/query?kind=node_cpu_usage&window=120s"),
        "why strategies": node.run("/opt/pykoord/bin/koordctl why strategies")["output"],
    }
    if not targets:
        targets.update(_targets(found))
    return found


def indicators_end() -> dict[str, Any]:
    """Cost of koordlet, and its log."""
    return {
        "unit": node.run("systemctl show --property=CPUUsageNSec,MemoryCurrent koordlet"),
        "log": node.run("journalctl --unit=koordlet --output=cat --lines=40"),
    }


def _turn(number: int, arm: str) -> Callable[[], dict[str, Any]]:
    def turn() -> dict[str, Any]:
        return indicators_turn()

    turn.__name__ = f"indicators {number} {arm}"
    return turn


STEPS: tuple[Callable[[], Any], ...] = (
    indicators_start,
    *(_turn(number, arm) for number, arm in enumerate(TURNS)),
    indicators_end,
)


# ---- how

_KINDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "sched_wait": ("pod_cpu_sched_wait", {}),
    "psi": (
        "pod_psi",
        {"psi_resource": "cpu", "psi_precision": "avg10", "psi_degree": "some"},
    ),
    "usage": ("pod_cpu_usage", {}),
}


def _slo(percent: int, asked: Mapping[str, float]) -> dict[str, Any]:
    """The NodeSLO: a threshold, and targets of all services, if any."""
    services = [{"name": "web", "targets": dict(asked)}] if asked else []
    pressure = {"mode": "on" if asked else "off", "services": services}
    return {
        "resourceUsedThresholdWithBE": {
            "enable": True,
            "cpuSuppressThresholdPercent": percent,
            "cpuSuppressPolicy": "cpuset",
        },
        "extensions": {"pykoord": {"strategies": {"pressure_suppress": pressure}}},
    }


def _targets(found: Mapping[str, Any]) -> dict[str, float]:
    """Values of services under the default threshold; of the CPU that they request, 80 %."""
    waits = [turn["ms/s"] for turn in found["wait"].values()]
    pressures = [found["koordlet's"]["psi"][case.name] for case in SERVICES]
    return {
        "sched_wait": round(statistics.mean(waits), 1),
        "psi": round(statistics.mean(pressures), 1),
        "usage": 0.8,
    }


def _only(name: str) -> dict[str, float]:
    return {name: targets[name]}


def _load(kind: str, pod: str, *rest: float) -> None:
    """Processes in a pod's cgroup."""
    script = str(Path(spinning_load.__file__))
    command = [sys.executable, script, kind, str(groups[pod]), f"/run/load-{pod}"]
    subprocess.Popen([*command, *map(str, rest)])


def _counted() -> dict[str, float]:
    """Counters of the kernel; ns, and microseconds."""
    found: dict[str, float] = {}
    for case in SERVICES:
        ran = waited = 0
        for pid in (groups[case.name] / "cgroup.procs").read_text().split():
            words = Path(f"/proc/{pid}/schedstat").read_text().split()
            ran, waited = ran + int(words[0]), waited + int(words[1])
        found |= {f"{case.name} used": ran, f"{case.name} waited": waited}
    rows = (line.split() for line in (files.BESTEFFORT / "cpu.stat").read_text().splitlines())
    found["BE usec"] = next(int(row[1]) for row in rows if row[0] == "usage_usec")
    return found


def _grown(before: Mapping[str, float], after: Mapping[str, float], name: str) -> float:
    return after[name] - before[name]


def _wait(before: Mapping[str, float], after: Mapping[str, float], pod: str) -> dict[str, float]:
    """Milliseconds waited for each second of CPU used."""
    waited, used = (_grown(before, after, f"{pod} {what}") for what in ("waited", "used"))
    return {"ms/s": 1000 * waited / used, "waited": waited, "used": used}


def _latencies(since: float, until: float) -> dict[str, float]:
    """Of the requests of all services, ms from when they were due."""
    values = []
    for case in SERVICES:
        for number in range(WORKERS):
            rows = Path(f"/run/load-{case.name}.{number}").read_text().splitlines()
            pairs = (row.split() for row in rows if row.count(" ") == 1)
            values += [float(took) for at, took in pairs if since <= float(at) < until]
    ordered = sorted(values)
    places = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    found = {name: ordered[int(part * (len(ordered) - 1))] for name, part in places.items()}
    return {"requests": len(ordered), **found}


def _reported(kind: str, seconds: float, **labels: str) -> dict[str, float]:
    return grouped_pods.aggregated(kind, seconds, "avg", **labels)
