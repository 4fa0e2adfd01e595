"""The part of bench/interference.py that runs on the node: pods, disturbances, what is found.

Pods are cgroups in the kubelet's tree with processes of the node in them, listed as a kubelet
lists pods; each has a network namespace, on a bridge with a peer. koordlet is the unit as
the README installs it, with the drop-in of docs/collectors.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from koord_model.qos import KubeQoS

from bench import grouped_pods, interference_load
from tests.support.pod_cases import PodCase, qos
from tests.vm import managed, node, readme

TOOLS = "/opt/load-tools.tar"
WARM_UP = 24
"""Points of five seconds, from which is learnt what is usual."""
QUIET_SECONDS, DISTURBED_SECONDS, RECOVERY_SECONDS = 420.0, 45.0, 45.0
PEER = "10.1.0.1"
DISK = Path("/data")
"""A slow one."""

_ENVIRONMENT = f"""\
KOORDLET_NODESLO_FILE={managed.RULES}
KOORDLET_POD_LIST_SOURCE={managed.LISTED}
KOORDLET_KUBELET_SYNC_INTERVAL=1
KOORDLET_FEATURE_GATES=TaskDelayCollector=true,TCPCollector=true,InterferenceDetection=true,\
BECPUSuppress=false,CPUBurst=false
"""
WEB = PodCase("web", KubeQoS.BURSTABLE, labels=qos("LS"), cpu_request=100)
JOB = PodCase("job", KubeQoS.BURSTABLE, labels=qos("BE"), cpu_request=500)
IDLE = PodCase("idle", KubeQoS.BURSTABLE, labels=qos("LS"), cpu_request=100)
PODS = (WEB, JOB, IDLE)

groups: dict[str, Path] = {}
processes: dict[str, subprocess.Popen[bytes]] = {}
disturbed: list[tuple[float, float]] = []


# ---- steps


def interference_start() -> dict[str, Any]:
    """koordlet, three pods on a bridge, and a server in one of them."""
    done = [
        node.run(f"tar -C / -xf {TOOLS} && modprobe -a veth bridge sch_netem sch_tbf tcp_diag"),
    ]
    groups.update(grouped_pods.make(PODS))
    _network()
    settings = {"interference": {"mode": "on", "delay_warm_up_points": WARM_UP}}
    grouped_pods.give(PODS, {"extensions": {"pykoord": {"strategies": settings}}})
    Path("/etc/default/koordlet").write_text(_ENVIRONMENT)
    drop_in = Path("/etc/systemd/system/koordlet.service.d/tcp.conf")
    drop_in.write_text(readme.drop_in(readme.COLLECTORS.read_text(), "CAP_SYS_ADMIN"))
    done.append(node.run("systemctl daemon-reload && systemctl restart koordlet"))
    DISK.mkdir()
    done.append(node.run(f"mount /dev/vdb {DISK}"))
    load = [sys.executable, interference_load.__file__]
    processes["web"] = _in_pod("web", *load, str(groups["web"]), PEER, str(DISK))
    node.until("delays", lambda: bool(_newest("container_cpu_sched_wait")))
    node.until("connections", lambda: bool(_newest("container_tcp_rtt")))
    return {"done": done, "collectors": _koordctl("node")}


def interference_quiet() -> dict[str, Any]:
    """Nobody disturbs anybody."""
    time.sleep(WARM_UP * 5)
    usual = {kind: _newest(kind) for kind in _KINDS}
    began, found = time.time(), []
    while time.time() < began + QUIET_SECONDS - WARM_UP * 5:
        found += _decisions()
        time.sleep(5)
    return {"seconds": QUIET_SECONDS - WARM_UP * 5, "usual": usual, "found": sorted(set(found))}


def _disturbance(
    name: str, aspects: tuple[str, ...], *command: str, pod: str = "job", ready: str = ""
) -> Callable[[], dict[str, Any]]:
    """Disturb for a while: in how many seconds that is found, and what is named.

    It begins once the command has made the file ``ready``, if that is given.
    """

    def step() -> dict[str, Any]:
        first: dict[str, float] = {}
        outcomes: dict[str, str] = {}
        with _running(pod, *command):
            if ready:
                node.until(ready, Path(ready).exists)
            began = time.monotonic()
            while time.monotonic() < began + DISTURBED_SECONDS:
                for aspect, outcome in _decisions():
                    first.setdefault(aspect, round(time.monotonic() - began, 1))
                    outcomes[aspect] = outcome
                time.sleep(0.5)
            now = {kind: _newest(kind) for kind in _KINDS}
            why = _koordctl("why strategies")
        time.sleep(RECOVERY_SECONDS)
        return {
            "aspects": aspects,
            "seconds": first,
            "outcomes": outcomes,
            "values": now,
            "why": why,
            "after": sorted(set(_decisions())),
        }

    step.__name__ = f"interference {name}"
    return step


def interference_cost() -> dict[str, Any]:
    """CPU of koordlet over all of it, and what its page shows."""
    return {
        "unit": node.run("systemctl show --property=CPUUsageNSec,MemoryCurrent koordlet"),
        "top": _koordctl("top --once"),
        "log": node.run("journalctl --unit=koordlet --output=cat --lines=40"),
    }


_UPLOAD = f"""
import socket
made = [socket.create_connection(("{PEER}", 9001)) for _ in range(8)]
while True:
    for one in made:
        one.sendall(bytes(16384))
"""
_HOG = """
import mmap, time
open("/proc/self/oom_score_adj", "w").write("1000")
rows = (line.split() for line in open("/proc/meminfo"))
size = next(int(row[1]) for row in rows if row[0] == "MemAvailable:") * 1024 // 4096 * 4096
memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
part = 200 << 20
memory[::4096] = bytes(size // 4096)
open("/run/full", "w").close()
while True:
    memory.madvise(mmap.MADV_DONTNEED, 0, part)
    for place in range(0, part, 4 << 20):
        memory[place : place + (4 << 20) : 4096] = bytes(1024)
    time.sleep(0.2)
"""
"""It takes all memory, and gives a part of it back and takes it again."""
_NETEM = "ip netns exec pod-web tc qdisc replace dev eth0 root netem"
_DISTURBANCES: tuple[Callable[[], Any], ...] = (
    _disturbance("stress-ng --cpu", ("sched_wait",), "stress-ng", "--cpu", "8"),
    _disturbance(
        "stress-ng --hdd",
        ("disk_wait",),
        "stress-ng",
        "--hdd",
        "32",
        "--hdd-opts",
        "direct",
        "--hdd-bytes",
        "16m",
        "--temp-path",
        str(DISK),
    ),
    _disturbance("memory hog", ("memory_delay",), sys.executable, "-c", _HOG, ready="/run/full"),
    _disturbance("bulk upload", ("tcp_rtt", "tcp_retransmits"), sys.executable, "-c", _UPLOAD),
    _disturbance(
        "tc netem delay", ("tcp_rtt",), "sh", "-c", f"{_NETEM} delay 80ms; sleep 1000", pod=""
    ),
    _disturbance(
        "tc netem loss", ("tcp_retransmits",), "sh", "-c", f"{_NETEM} loss 15%; sleep 1000", pod=""
    ),
)
ONLY_WORD = "disturbances"
"""On the kernel's command line: parts of names, with commas between, of those that are wanted."""


def _wanted() -> Iterator[Callable[[], Any]]:
    words = dict(word.partition("=")[::2] for word in Path("/proc/cmdline").read_text().split())
    parts = words.get(ONLY_WORD, "").split(",")
    for step in _DISTURBANCES:
        if any(part in step.__name__ for part in parts):
            yield step


STEPS: tuple[Callable[[], Any], ...] = (
    interference_start,
    interference_quiet,
    *_wanted(),
    interference_cost,
)


# ---- how

_KINDS = (
    *("container_cpu_sched_wait", "container_memory_delay", "container_disk_wait"),
    *("container_tcp_rtt", "container_tcp_retransmits", "pod_disk_usage", "pod_network_usage"),
)
_SINK = """
import socket, threading
def sink(port):
    with socket.create_server(("", port)) as server:
        while True:
            made, _ = server.accept()
            threading.Thread(target=drain, args=(made,), daemon=True).start()
def drain(made):
    try:
        while made.recv(65536):
            pass
    except OSError:
        pass
threading.Thread(target=sink, args=(9000,), daemon=True).start()
sink(9001)
"""


def _network() -> None:
    """A namespace a pod on a bridge, and one for a peer behind a line of 20 Mbit/s."""
    commands = ["ip link add br0 type bridge", "ip link set br0 up"]
    for number, name in enumerate(("peer", *(f"pod-{case.name}" for case in PODS)), start=1):
        commands += [
            f"ip netns add {name}",
            f"ip link add port{number} master br0 type veth peer name eth0 netns {name}",
            f"ip link set port{number} up",
            f"ip -n {name} addr add 10.1.0.{number}/24 dev eth0",
            f"ip -n {name} link set eth0 up",
        ]
    commands.append("tc qdisc add dev port1 root tbf rate 20mbit burst 32k limit 400k")
    for command in commands:
        done = node.run(f"PATH=$PATH:/opt/load/bin {command}")
        if done["exit"]:
            raise RuntimeError(f"{command}: {done['output']}")
    subprocess.Popen(["nsenter", "--net=/run/netns/peer", sys.executable, "-c", _SINK])


def _in_pod(pod: str, *command: str) -> subprocess.Popen[bytes]:
    inside = ["nsenter", f"--net=/run/netns/pod-{pod}"] if pod else []
    environment = os.environ | {"PATH": f"/opt/load/bin:{os.environ.get('PATH', '/usr/bin')}"}
    return subprocess.Popen([*inside, *command], env=environment, start_new_session=True)


@contextmanager
def _running(pod: str, *command: str) -> Iterator[None]:
    """A command in a pod's cgroup and network."""
    join = f'echo $$ > {groups[pod]}/cgroup.procs; exec "$@"' if pod else 'exec "$@"'
    process = _in_pod(pod, "sh", "-c", join, "sh", *command)
    try:
        yield
    finally:
        os.killpg(process.pid, 9)
        process.wait()
        node.run("/opt/load/bin/ip netns exec pod-web /opt/load/bin/tc qdisc del dev eth0 root")


def _decisions() -> list[tuple[str, str]]:
    """The strategy's decisions now: pod and aspect, and outcome."""
    rows = grouped_pods.asked("/v1/why?strategy=interference").get("decisions", [])
    return [(f"{row['pod']} {row['aspect']}", row["outcome"]) for row in rows if row.get("aspect")]


def _newest(kind: str) -> dict[str, float]:
    """The newest value by pod."""
    return grouped_pods.aggregated(kind, 30, "last")


def _koordctl(words: str) -> str:
    return str(node.run(f"/opt/pykoord/bin/koordctl {words}")["output"])
