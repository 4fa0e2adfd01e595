"""koordlet watches real pods burn CPU and memory; beside it, what the kernel and ps say (v1).

Figures are printed: ``pytest -s`` shows them.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from koord_model.qos import KubeQoS

from tests.support import kernel_use, kubepods, stress_ng
from tests.support.containerd import Containerd, why_not
from tests.support.cri import PodPlan, burstable_pod_config
from tests.support.kernel_use import KernelUse
from tests.support.koordlet_programs import ObservingKoordlet
from tests.support.kubelet import Kubelet, Pod
from tests.support.kubepods import Kubepods
from tests.support.pod_cases import MIB, PodCase
from tests.support.processes import PATIENCE, until
from tests.support.stalls import Stalls
from tests.support.stress_ng import StressNg

_WHY_NOT = kubepods.why_not() or why_not() or stress_ng.why_not()

pytestmark = [
    pytest.mark.quiet,
    pytest.mark.containerd,
    pytest.mark.skipif(_WHY_NOT is not None, reason=_WHY_NOT or "-"),
]

SECONDS = 20
CLOSE = 0.03
UNEVEN = 0.1
"""Part of how far apart points are by which their average may be off."""
NEAR = 0.3
"""Seconds from a look of koordlet's to the kernel's counters beside it, at most."""
STALL = 1.0
"""Seconds for which a machine may stand still in an interval that counts."""
LOST = 20.0
"""Seconds of history that a crash may cost; twice what is written at a time."""
NOBODY = 65534

STRESS = {
    # Near two thirds of a CPU, and all of one but for its limit.
    "busy": ("--cpu", "1", "--cpu-load", "60"),
    "limited": ("--cpu", "1"),
    "memory": ("--vm", "1", "--vm-bytes", "256M", "--vm-keep", "--vm-method", "flip"),
}
LIMITS = {"limited": 300, "memory": 200}
"""Thousandths of a CPU."""


@dataclass(frozen=True)
class Watched:
    """One interval: what koordlet measured in it, and the kernel's counters around it."""

    seconds: float
    looks: int
    before: KernelUse
    after: KernelUse
    said: Mapping[str, Mapping[tuple[str, ...], Mapping[str, float]]]
    koordlet_cpu: float
    koordlet_resident: float

    def average(self, kind: str, *labels: str) -> float:
        return self.said[kind][labels]["avg"]

    def last(self, kind: str, *labels: str) -> float:
        return self.said[kind][labels]["last"]

    def uneven(self, kind: str, *labels: str) -> float:
        """How far apart a series' points are; 0 under a load that is always the same.

        All weigh as much in an average, though looks are not exactly a second apart on a machine
        that is busy, and two in one step of the cache are one point.
        """
        found = self.said[kind][labels]
        return found["max"] - found["min"]

    def grown(self, counter: Callable[[KernelUse], float]) -> float:
        return counter(self.after) - counter(self.before)

    def throttling(self, group: str) -> float:
        """The part of its quota's periods in which a group was throttled."""
        periods = self.grown(lambda use: use.groups[group].periods)
        return self.grown(lambda use: use.groups[group].throttled) / periods


@dataclass
class Node:
    """What runs."""

    koordlet: ObservingKoordlet
    kubelet: Kubelet
    pods: Mapping[str, Pod]
    containerd: Containerd


@pytest.fixture(scope="module")
def node(containerd: Containerd) -> Iterator[Node]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pykoord-it-")))
        # As /var/run/koordlet is: everybody may look for the socket.
        directory.chmod(0o755)
        kubelet = Kubelet(stack.enter_context(Kubepods()))
        stack.callback(containerd.remove_all_pods)
        pods = {name: _stressed(containerd, kubelet, name) for name in STRESS}
        koordlet = ObservingKoordlet(directory)
        kubelet.list_pods(koordlet.pods_file)
        stack.enter_context(koordlet)
        until(lambda: len(koordlet.top()) == len(pods), "koordlet knows the pods")
        yield Node(koordlet, kubelet, pods, containerd)
        print(koordlet.said)
        assert koordlet.stop() == 0
        assert "Traceback" not in koordlet.said
        assert [one for one in koordlet.events() if one["level"] == "error"] == []


def _stressed(containerd: Containerd, kubelet: Kubelet, name: str) -> Pod:
    limit = LIMITS.get(name, 0)
    case = PodCase(name, KubeQoS.BURSTABLE, cpu_request=limit or 600, cpu_limit=limit)
    with StressNg(containerd.address, *STRESS[name]) as cri:
        pod = kubelet.start(cri, case)
    until(lambda: len(kernel_use.processes(pod.container_group)) > 1, f"{name} works")
    return pod


@pytest.fixture(scope="module")
def watched(node: Node) -> Watched:
    """An interval in which this machine never stood still: then nobody could look at anything."""
    for _ in range(5):
        with Stalls() as stalls:
            found = _watched(node)
        print(f"longest stall: {stalls.longest:.2f} s")
        if stalls.longest < STALL:
            return found
    pytest.skip(f"the machine stands still for {stalls.longest:.1f} s at a time")


def _watched(node: Node) -> Watched:
    """The interval begins and ends with a look of koordlet's; counters are read right after."""
    koordlet, pods = node.koordlet, node.pods.values()
    groups = [group for pod in pods for group in (pod.group, pod.container_group)]
    memory = node.pods["memory"]
    until(lambda: _anonymous(memory) >= 256 * MIB, "memory is in use")
    pids = [pid for pod in pods for pid in kernel_use.processes(pod.container_group)]
    kinds = [f"{who}_{what}_usage" for who in ("pod", "container") for what in ("cpu", "memory")]
    kinds += ["pod_cpu_throttled", "container_cpu_throttled", "node_cpu_usage"]
    koordlet.next_look()
    since, before = _beside_a_look(koordlet, groups, pids)
    own = kernel_use.process_cpu(koordlet.pid)
    time.sleep(SECONDS - 0.5)
    ending, after = _beside_a_look(koordlet, groups, pids)
    own = kernel_use.process_cpu(koordlet.pid) - own
    said = {kind: koordlet.measured(kind, since) for kind in kinds}
    resident = koordlet.resident()
    seconds = after.at - before.at
    return Watched(seconds, round(ending - since), before, after, said, own / seconds, resident)


def _beside_a_look(
    koordlet: ObservingKoordlet, groups: Sequence[str], pids: Sequence[int]
) -> tuple[float, KernelUse]:
    """The time of a look, and counters that were read right after it."""

    def read() -> tuple[float, KernelUse] | None:
        looked = koordlet.next_look()
        found = KernelUse.now(groups, pids)
        return (looked, found) if time.time() - looked < NEAR else None

    found = until(read, "counters beside a look")
    assert found is not None
    return found


def _anonymous(pod: Pod) -> int:
    pids = kernel_use.processes(pod.container_group)
    try:
        return sum(one.anonymous for one in KernelUse.now((), pids).processes.values())
    except (OSError, KeyError, subprocess.CalledProcessError):
        return 0  # One of them has just ended.


def _close(what: str, said: float, found: float, least: float = 0.0) -> None:
    """Koordlet's number is what was found, or as near as ``least``."""
    off = f"{100 * (said / found - 1):+.2f} %" if found else "-"
    print(f"{what}: koordlet {said:.4g}, found {found:.4g}, {off}")
    assert said == pytest.approx(found, rel=CLOSE, abs=least), what


@pytest.mark.parametrize("name", STRESS)
def test_cpu_is_what_the_kernel_counted(node: Node, watched: Watched, name: str) -> None:
    pod, seconds = node.pods[name], watched.seconds
    uid, ident = pod.running.plan.sandbox.metadata.uid, pod.running.container_id
    of_pod = watched.average("pod_cpu_usage", uid)
    of_container = watched.average("container_cpu_usage", uid, ident)
    by_pod = watched.grown(lambda use: use.groups[pod.group].cpu) / 1e9 / seconds
    by_container = watched.grown(lambda use: use.groups[pod.container_group].cpu) / 1e9 / seconds
    # Whatever else the machine is busy with.
    assert by_container > 0.02
    least = watched.uneven("container_cpu_usage", uid, ident) * UNEVEN
    _close(f"\n{name}: pod's cores, cpuacct.usage", of_pod, by_pod, least)
    _close(f"{name}: container's cores, cpuacct.usage", of_container, by_container, least)
    pids = kernel_use.processes(pod.container_group)
    counted = watched.grown(lambda use: sum(use.processes[pid].cpu for pid in pids))
    _close(f"{name}: container's cores, /proc/PID/stat", of_container, counted / seconds, least)
    # ps rounds each process's time down to seconds.
    ps = watched.grown(lambda use: sum(use.processes[pid].ps_cpu for pid in pids))
    print(f"{name}: container's CPU seconds: koordlet {of_container * seconds:.2f}, ps {ps}")
    assert of_container * seconds == pytest.approx(ps, abs=1 + CLOSE * ps + least * seconds)


def test_the_nodes_cpu_is_what_the_kernel_counted(watched: Watched) -> None:
    counted = watched.grown(lambda use: use.node_cpu) / watched.seconds
    least = watched.uneven("node_cpu_usage") * UNEVEN
    _close("\nnode's cores, /proc/stat", watched.average("node_cpu_usage"), counted, least)


@pytest.mark.parametrize("name", STRESS)
def test_memory_is_what_the_kernel_counted(node: Node, watched: Watched, name: str) -> None:
    pod = node.pods[name]
    uid, ident = pod.running.plan.sandbox.metadata.uid, pod.running.container_id
    of_pod = watched.last("pod_memory_usage", uid)
    of_container = watched.last("container_memory_usage", uid, ident)
    groups, processes = watched.after.groups, watched.after.processes
    _close(f"\n{name}: pod's bytes, memory.stat", of_pod, groups[pod.group].memory)
    _close(
        f"{name}: container's bytes, memory.stat",
        of_container,
        groups[pod.container_group].memory,
    )
    pids = kernel_use.processes(pod.container_group)
    held = sum(processes[pid].anonymous for pid in pids)
    _close(f"{name}: container's bytes, /proc/PID/smaps_rollup", of_container, held)
    if name == "memory":
        # ps counts the program's own pages, too: little beside so much.
        ps = sum(processes[pid].ps_memory for pid in pids)
        _close(f"{name}: container's bytes, ps", of_container, ps)
        average = watched.average("container_memory_usage", uid, ident)
        _close(f"{name}: container's bytes on average, /proc/PID/smaps_rollup", average, held)


@pytest.mark.parametrize("name", LIMITS)
def test_throttling_is_what_the_kernel_counted(node: Node, watched: Watched, name: str) -> None:
    pod = node.pods[name]
    uid, ident = pod.running.plan.sandbox.metadata.uid, pod.running.container_id
    by_pod = watched.throttling(pod.group)
    by_container = watched.throttling(pod.container_group)
    # On a busy machine nobody may get as far as the limit, and seconds have few periods, or many.
    said = watched.average("pod_cpu_throttled", uid)
    least = 0.01 + watched.uneven("pod_cpu_throttled", uid) / 3
    _close(f"\n{name}: pod's throttled periods, cpu.stat", said, by_pod, least)
    said = watched.average("container_cpu_throttled", uid, ident)
    least = 0.01 + watched.uneven("container_cpu_throttled", uid, ident) / 3
    _close(f"{name}: container's throttled periods, cpu.stat", said, by_container, least)


def test_who_has_no_limit_is_not_throttled(node: Node, watched: Watched) -> None:
    uid = node.pods["busy"].running.plan.sandbox.metadata.uid
    assert (uid,) not in watched.said["pod_cpu_throttled"]


def test_no_look_was_left_out(watched: Watched) -> None:
    counts = {one["count"] for one in watched.said["pod_cpu_usage"].values()}
    print(f"\nlooks in {watched.seconds:.2f} s: {watched.looks}, points: {counts}")
    # Two looks in one step of the cache are one point.
    assert min(counts) >= 0.8 * SECONDS


def test_what_koordlet_takes_itself(watched: Watched) -> None:
    cpu, resident = watched.koordlet_cpu, watched.koordlet_resident
    print(f"\nkoordlet itself: {100 * cpu:.2f} % of a CPU, {resident:.1f} MiB resident")
    assert cpu < 0.5
    assert resident < 200


def test_history_outlives_kill_9(node: Node) -> None:
    koordlet = node.koordlet
    kinds = ("node_cpu_usage", "container_cpu_usage", "container_memory_usage")
    # Clearly longer than what a crash may cost.
    until(lambda: all(_has_history(koordlet, kind) for kind in kinds), "a history")
    before = {kind: koordlet.curve(kind) for kind in kinds}
    koordlet.kill()
    killed = time.time()
    koordlet.start()
    down = time.time() - killed
    koordlet.next_look()  # what was kept is read before the first
    for kind, points in before.items():
        # A minute before the kill may be longer ago than a minute now.
        found = koordlet.curve(kind, window="5m")
        lost = sorted({point[-1] for point, value in points.items() if found.get(point) != value})
        print(f"\n{kind}: {len(points)} points before kill -9, lost those at {lost}")
        assert all(at > killed - LOST for at in lost)
        assert any(point[-1] <= killed - LOST for point in found), "some that is older"
    print(f"serves again {down:.2f} s after the kill")


def _has_history(koordlet: ObservingKoordlet, kind: str) -> bool:
    times = [point[-1] for point in koordlet.curve(kind)]
    return len(times) >= SECONDS and min(times) < time.time() - LOST - 2


def test_a_pod_is_noticed_at_once(node: Node) -> None:
    koordlet, kubelet = node.koordlet, node.kubelet
    until(lambda: len(koordlet.top()) == len(node.pods), "koordlet knows the pods")
    plan = burstable_pod_config(name="late")
    uid = plan.sandbox.metadata.uid
    _list_also(kubelet, koordlet.pods_file, plan)
    assert uid not in koordlet.top()
    group = kubelet.kubepods.make_pod(KubeQoS.BURSTABLE, uid)
    _soon("\na pod's group is noticed", lambda: uid in koordlet.top())
    with node.containerd.cri() as cri:
        plan.sandbox.linux.cgroup_parent = f"/{group}"
        sandbox = cri.run_pod_sandbox(plan.sandbox)
        ident = cri.create_container(sandbox, plan.container, plan.sandbox)
        _list_also(kubelet, koordlet.pods_file, plan, ident)
        cri.start_container(ident)
        _soon("its container's is", lambda: koordlet.top()[uid]["containers"])
        until(lambda: koordlet.top()[uid]["containers"][0]["cpu"] is not None, "it is measured")
        cri.stop_container(ident)
        cri.stop_pod_sandbox(sandbox)
        cri.remove_pod_sandbox(sandbox)
    kubelet.list_pods(koordlet.pods_file)
    kubelet.kubepods.remove_pod(group)
    _soon("that it is gone is", lambda: uid not in koordlet.top())


def _soon(what: str, there: Callable[[], object]) -> None:
    began = time.monotonic()
    # Far from the ten minutes after which it would look by itself.
    until(there, what, seconds=PATIENCE)
    print(f"{what} after {time.monotonic() - began:.2f} s")


def _list_also(kubelet: Kubelet, file: Path, plan: PodPlan, container_id: str = "") -> None:
    """List a pod that is about to run beside those that do."""
    aside = file.with_name("aside.json")
    kubelet.list_pods(aside)
    listed = json.loads(aside.read_text())
    status: dict[str, object] = {"phase": "Pending", "qosClass": "Burstable"}
    if container_id:
        one = {"name": "main", "containerID": f"containerd://{container_id}"}
        status = {
            "phase": "Running",
            "qosClass": "Burstable",
            "containerStatuses": [{**one, "state": {"running": {}}}],
        }
    metadata = plan.sandbox.metadata
    listed["items"].append(
        {
            "metadata": {
                "name": metadata.name,
                "namespace": metadata.namespace,
                "uid": metadata.uid,
            },
            "spec": {"hostNetwork": True, "containers": [{"name": "main"}]},
            "status": status,
        }
    )
    aside.write_text(json.dumps(listed))
    aside.rename(file)


_AS_NOBODY = f"""\
import contextlib, io, os, sys
from koordctl.main import main
with contextlib.redirect_stdout(io.StringIO()):
    main(sys.argv[1:])
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
main(sys.argv[1:])
"""
"""Once as root, too: all is loaded then, and this Python may be where nobody else can read."""


def _ask_as_nobody(koordlet: ObservingKoordlet, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _AS_NOBODY, *words, f"--address=unix://{koordlet.status}"]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.parametrize(
    "words",
    [("top", "--once"), ("node",), ("metrics", "query", "pod_cpu_usage", "--window=1m")],
    ids=" ".join,
)
def test_people_may_look(node: Node, words: tuple[str, ...]) -> None:
    shown = _ask_as_nobody(node.koordlet, *words)
    print(f"\n{shown.stdout}")
    assert (shown.returncode, shown.stderr) == (0, "")
    if words != ("node",):
        assert all(f"default/{pod.name}" in shown.stdout for pod in node.pods.values())
    reported = _ask_as_nobody(node.koordlet, *words, "--json")
    assert (reported.returncode, reported.stderr) == (0, "")
    assert json.loads(reported.stdout)["at"] == pytest.approx(time.time(), abs=PATIENCE)


def test_who_may_not_use_the_socket_hears_so(node: Node) -> None:
    with _closed_to_others(node.koordlet.status):
        refused = _ask_as_nobody(node.koordlet, "node")
    assert refused.returncode == 1
    assert "Permission denied" in refused.stderr


@contextlib.contextmanager
def _closed_to_others(path: Path) -> Iterator[None]:
    mode = path.stat().st_mode & 0o777
    path.chmod(0o600)
    try:
        yield
    finally:
        os.chmod(path, mode)
