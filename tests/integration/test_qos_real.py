"""koordlet levels a real node by what real pods use, and goes back (cgroup v1).

Pods run stress-ng in a real containerd; load rises and falls as their containers are thawed and
frozen. Nothing is judged by how long it takes: what else the machine does is nobody's to say.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from koord_host.resource_executor.journal import ChangeEntry
from koord_model.qos import KubeQoS

from tests.support import kernel_use, kubepods, stress_ng
from tests.support.containerd import Containerd, why_not
from tests.support.journals import read
from tests.support.koordlet_programs import DecidingKoordlet
from tests.support.kubelet import Kubelet, Pod, settles
from tests.support.kubepods import CGROUPS, Kubepods
from tests.support.pod_cases import MIB, PodCase, own_cpus, qos
from tests.support.processes import PATIENCE, until
from tests.support.stress_ng import StressNg

_WHY_NOT = kubepods.why_not() or why_not() or stress_ng.why_not()

pytestmark = [
    pytest.mark.quiet,
    pytest.mark.containerd,
    pytest.mark.skipif(_WHY_NOT is not None, reason=_WHY_NOT or "-"),
]

BUSY = 1.0
"""Cores: what runs here when nothing may be left for anybody."""
BETWEEN = 0.5
"""Seconds between two looks: they are part of the load that is looked at."""
LATELY = 30
"""Looks."""
ROUNDS = 10
"""Koordlet's, each a second: more than enough for two steps."""
BESTEFFORT = "kubepods/besteffort"
QUOTA, BURST, CPUS = "cpu.cfs_quota_us", "cpu.cfs_burst_us", "cpuset.cpus"
FILES = (QUOTA, BURST, CPUS, "cpu.shares", "cpu.idle", "memory.limit_in_bytes")
PERIOD = 100_000
MUCH = 30_000
"""Of a quota: as much as a load of one core must move it, on any machine."""
LEAST = 2_000

LS = PodCase("ls", KubeQoS.BURSTABLE, labels=qos("LS"), cpu_request=500)
LIMITED = LS.like("limited", cpu_limit=200)
BE = PodCase("be", KubeQoS.BEST_EFFORT, labels=qos("BE"))
LSE = PodCase(
    "lse",
    KubeQoS.GUARANTEED,
    labels=qos("LSE"),
    annotations=own_cpus("0"),
    cpu_request=1000,
    cpu_limit=1000,
)
ONE_CORE = ("--cpu", "1")


def suppress(percent: int, policy: str, *, enable: bool = True) -> dict[str, object]:
    return {
        "resourceUsedThresholdWithBE": {
            "enable": enable,
            "cpuSuppressThresholdPercent": percent,
            "cpuSuppressPolicy": policy,
        }
    }


BY_QUOTA = suppress(90, "cfsQuota")
BY_CPUSET = suppress(90, "cpuset")
OFF = suppress(90, "cfsQuota", enable=False)


@dataclass
class Node:
    """A containerd and a kubelet with its pods; koordlet is each test's own."""

    kubelet: Kubelet
    containerd: Containerd
    directory: Path

    def start(self, case: PodCase, *stress: str) -> Pod:
        """A pod that runs stress-ng with these arguments; the kubelet lists it."""
        with StressNg(self.containerd.address, *stress) as cri:
            pod = self.kubelet.start(cri, case)
        until(lambda: len(kernel_use.processes(pod.container_group)) > 1, f"{pod.name} works")
        self._list()
        return pod

    def remove(self, pod: Pod) -> None:
        with self.containerd.cri() as cri:
            self.kubelet.remove(cri, pod)
        self._list()

    def koordlet(self, *flags: str) -> DecidingKoordlet:
        runtime = f"--container-runtime-endpoint=unix://{self.containerd.address}"
        return DecidingKoordlet(self.directory, runtime, *flags)

    def finish(self, koordlet: DecidingKoordlet) -> None:
        """Stop it, and see that it found no defect in itself."""
        print(koordlet.said)
        assert koordlet.stop() == 0
        assert "Traceback" not in koordlet.said
        assert [one for one in koordlet.events() if one["level"] == "error"] == []

    def number(self, group: str, file: str) -> int:
        return int(self.kubelet.kubepods.read(group, file))

    def state(self) -> dict[tuple[str, str], str]:
        """All that strategies may change of pods' groups, and of those above them."""
        groups = [BESTEFFORT, "kubepods", "kubepods/burstable"]
        for pod in self.kubelet.pods:
            groups += pod.group, pod.container_group
        return {
            (group, file): self.kubelet.kubepods.read(group, file)
            for group in groups
            for file in FILES
        }

    def runs(self, pod: Pod) -> bool:
        """Whether the runtime says that its container runs."""
        with self.containerd.cri() as cri:
            return any(
                one.id == pod.running.container_id and one.state == 1
                for one in cri.list_containers()
            )

    def _list(self) -> None:
        self.kubelet.list_pods(self.directory / "pods.json")


@pytest.fixture(scope="module")
def groups() -> Iterator[Kubepods]:
    with Kubepods() as made:
        yield made


@pytest.fixture
def node(containerd: Containerd, groups: Kubepods) -> Iterator[Node]:
    with tempfile.TemporaryDirectory(prefix="pykoord-it-") as name:
        Path(name).chmod(0o755)
        kubelet = Kubelet(groups)
        yield Node(kubelet, containerd, Path(name))
        for pod in kubelet.pods:
            thaw(pod)
        containerd.remove_all_pods()
        for pod in kubelet.pods:
            groups.remove_pod(pod.group)
        groups.write(BESTEFFORT, QUOTA, -1)
        groups.write("kubepods", "memory.limit_in_bytes", -1)


def freeze(pod: Pod) -> None:
    _freezer(pod, "FROZEN")


def thaw(pod: Pod) -> None:
    _freezer(pod, "THAWED")


def _freezer(pod: Pod, word: str) -> None:
    state = CGROUPS / "freezer" / pod.container_group / "freezer.state"

    def done() -> bool:
        state.write_text(word)  # again and again: who forks meanwhile is missed
        return state.read_text().strip() == word

    if state.exists():
        until(done, f"{pod.name} is {word}")


# ---- CPU of best-effort pods, by quota


def decided(koordlet: DecidingKoordlet, node: Node) -> Mapping[str, Any]:
    """The numbers of a decision of which the kernel has the result now."""

    def look() -> Mapping[str, Any] | None:
        before = node.number(BESTEFFORT, QUOTA)
        found = koordlet.decision("cpu_suppress")
        numbers: Mapping[str, Any] = found["numbers"] if found else {}
        after = node.number(BESTEFFORT, QUOTA)
        return numbers if before == after == numbers.get("quota") else None

    return until(look, "the kernel has what was decided") or {}


def follows_the_formula(numbers: Mapping[str, Any]) -> None:
    """The quota is what the formula makes of the numbers that are shown."""
    others = numbers["non-BE pods"] + numbers["non-BE host applications"]
    others += max(numbers["system"], numbers["reserved"])
    left = max(numbers["capacity"] * numbers["threshold"] / 100 - others, numbers["floor"])
    lately = numbers["least of 5 s"]
    assert lately <= left + 1e-9
    wanted = max(int(lately * 1000 + 1e-6) * PERIOD // 1000, LEAST)
    had, percent = numbers["quota before"], numbers["capacity"] * PERIOD / 100
    if had == "no limit":
        expected = wanted
    elif abs(wanted - had) < percent and wanted != LEAST:
        expected = had
    else:
        expected = min(wanted, had + int(10 * percent))
    assert numbers["quota"] == expected, numbers


def grows_to(koordlet: DecidingKoordlet, node: Node, least: int) -> int:
    """Wait until best-effort pods have so much, by the formula; their quota.

    Where something else needs the machine all that time there is nothing to see.
    """
    lately: deque[float] = deque(maxlen=LATELY)

    def look() -> bool:
        time.sleep(BETWEEN)
        found = koordlet.decision("cpu_suppress")
        lately.append((found or {"numbers": {}})["numbers"].get("system") or 0.0)
        return node.number(BESTEFFORT, QUOTA) >= least

    with contextlib.suppress(AssertionError):
        until(look)
    numbers = decided(koordlet, node)
    follows_the_formula(numbers)
    if numbers["quota"] < least:
        busy = max(*lately, numbers["system"])
        left = numbers["capacity"] * numbers["threshold"] / 100 - busy
        assert left * PERIOD < least, (lately, numbers)
        pytest.skip(f"{busy:.1f} cores are busy with something else")
    return int(numbers["quota"])


def shrinks_from(koordlet: DecidingKoordlet, node: Node, wide: int) -> int:
    """Wait until best-effort pods have much less, by the formula; their quota."""
    narrow = max(wide - MUCH, LEAST)
    until(lambda: node.number(BESTEFFORT, QUOTA) <= narrow, "less")
    numbers = decided(koordlet, node)
    follows_the_formula(numbers)
    assert numbers["non-BE pods"] > 0
    return int(numbers["quota"])


def test_best_effort_pods_have_what_the_others_leave(node: Node) -> None:
    ls, be = node.start(LS, *ONE_CORE), node.start(BE, *ONE_CORE)
    freeze(ls)
    before = node.state()
    with node.koordlet() as koordlet:
        koordlet.knows(2)
        assert node.state() == before
        koordlet.ask(**BY_QUOTA)
        wide = grows_to(koordlet, node, LEAST + MUCH)

        thaw(ls)
        low = shrinks_from(koordlet, node, wide)
        shown = koordlet.koordctl_why("suppress")
        print(f"\nquota {wide} µs, with load {low} µs\n{shown}")
        assert "best-effort pods may use" in shown
        assert "capacity × threshold / 100 − non-BE pods" in shown

        freeze(ls)
        grows_to(koordlet, node, low + MUCH // 2)
        reported = koordlet.koordctl_why("cgroup", f"/sys/fs/cgroup/cpu/{BESTEFFORT}")
        assert QUOTA in reported
        assert "cpu_suppress" in reported
        assert "cpu_suppress" in koordlet.koordctl_why("strategies")
        assert koordlet.koordctl_why("pod", f"default/{be.name}")

        koordlet.ask(**OFF)
        settles(node.state, before)
        assert "not held down" in koordlet.outcome("cpu_suppress")
        assert be in node.kubelet.pods
        node.finish(koordlet)
    assert node.state() == before


def test_the_quota_holds_best_effort_pods(node: Node) -> None:
    """What they use is what the kernel lets them, whatever they would."""
    node.start(LS, *ONE_CORE)
    be = node.start(BE, "--cpu", "2")
    with node.koordlet() as koordlet:
        koordlet.ask(**BY_QUOTA)
        until(lambda: node.number(BESTEFFORT, QUOTA) > 0)
        until(lambda: _throttled(node) > 0, "the kernel holds them")
        assert node.runs(be)
        node.finish(koordlet)


def _throttled(node: Node, group: str = BESTEFFORT) -> int:
    """Periods in which a group ran into its quota."""
    words = node.kubelet.kubepods.read(group, "cpu.stat").split()
    return int(words[words.index("nr_throttled") + 1])


def test_a_shadow_shows_what_it_would_do(node: Node) -> None:
    node.start(LS, *ONE_CORE)
    node.start(BE, *ONE_CORE)
    before = node.state()
    with node.koordlet() as koordlet:
        koordlet.ask({"cpu_suppress": {"mode": "shadow"}}, **BY_QUOTA)
        koordlet.knows(2)
        until(lambda: "may use" in koordlet.outcome("cpu_suppress"), "it decides")
        rounds = _rounds(koordlet, "cpu_suppress")
        until(lambda: _rounds(koordlet, "cpu_suppress") >= rounds + 5)
        assert node.state() == before
        assert "mode shadow: not carried out" in koordlet.koordctl_why("suppress")
        assert _changes(koordlet, BESTEFFORT) == []
        node.finish(koordlet)


def _rounds(koordlet: DecidingKoordlet, strategy: str) -> int:
    found = koordlet.why()["strategies"]
    return next(int(one["rounds"]) for one in found if one["name"] == strategy)


def _changes(koordlet: DecidingKoordlet, group: str) -> list[ChangeEntry]:
    """What the journal has of a cgroup."""
    journal = koordlet.directory / "koordlet" / "journal.jsonl"
    return [
        one for one in read(str(journal)) if isinstance(one, ChangeEntry) and one.group == group
    ]


# ---- CPU of best-effort pods, by cpuset


def test_best_effort_pods_leave_the_cpus_of_an_lse_pod(node: Node) -> None:
    """Two CPUs are the least there is, but those of an LSE pod are nobody else's."""
    be = node.start(BE, *ONE_CORE)
    groups = (BESTEFFORT, be.group, be.container_group)
    before = node.state()

    def cpus() -> set[str]:
        return {node.kubelet.kubepods.read(group, CPUS) for group in groups}

    with node.koordlet() as koordlet:
        koordlet.ask(**BY_CPUSET)
        until(lambda: "run on 2 CPUs" in koordlet.outcome("cpu_suppress"))
        assert cpus() == {"0-1"}

        lse = node.start(LSE, *ONE_CORE)
        settles(cpus, {"1"})
        until(lambda: "run on 1 CPUs: 1" in koordlet.outcome("cpu_suppress"))
        pids = kernel_use.processes(be.container_group)
        assert {_allowed(pid) for pid in pids} == {"1"}
        assert "LSE pods" in koordlet.koordctl_why("suppress")

        node.remove(lse)
        until(lambda: cpus() == {"0-1"}, "all CPUs again")
        koordlet.ask(**OFF)
        settles(node.state, before)
        node.finish(koordlet)


def _allowed(pid: int) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list:"))


# ---- koordlet goes, and comes again


def test_kill_9_while_best_effort_pods_are_held_down(node: Node) -> None:
    node.start(LS, *ONE_CORE)
    node.start(BE, *ONE_CORE)
    before = node.state()
    held = lambda: node.number(BESTEFFORT, QUOTA) > 0  # noqa: E731
    with node.koordlet() as koordlet:
        koordlet.ask(**BY_QUOTA)
        until(held)
        follows_the_formula(decided(koordlet, node))
        koordlet.kill()
        assert held()

        # It goes on from what it finds, and is never without.
        koordlet.start()
        until(lambda: koordlet.decision("cpu_suppress"))
        assert held()
        numbers = decided(koordlet, node)
        follows_the_formula(numbers)
        assert numbers["quota before"] > 0
        koordlet.kill()

        # Nobody wants it any more: it is put back by who never wrote it.
        koordlet.ask(**OFF)
        assert held()
        koordlet.start()
        settles(node.state, before)
        node.finish(koordlet)


@pytest.mark.parametrize("asked", [BY_QUOTA, BY_CPUSET], ids=["cfsQuota", "cpuset"])
def test_restore_on_stop_puts_back(node: Node, asked: Mapping[str, object]) -> None:
    node.start(BE, *ONE_CORE)
    before = node.state()
    lse = node.start(LSE, *ONE_CORE)
    with node.koordlet("--restore-on-stop") as koordlet:
        koordlet.ask(**asked)
        file, found = (CPUS, "0-1") if asked is BY_CPUSET else (QUOTA, "-1")
        until(lambda: node.kubelet.kubepods.read(BESTEFFORT, file) != found)
        node.finish(koordlet)
    assert {key: node.state()[key] for key in before} == before
    assert lse in node.kubelet.pods


def test_without_it_what_was_written_stays(node: Node) -> None:
    node.start(BE, *ONE_CORE)
    with node.koordlet() as koordlet:
        koordlet.ask(**BY_QUOTA)
        until(lambda: node.number(BESTEFFORT, QUOTA) > 0)
        node.finish(koordlet)
    assert node.number(BESTEFFORT, QUOTA) > 0


# ---- CPU burst


def test_a_throttled_container_gets_more_for_a_while(node: Node) -> None:
    pod = node.start(LIMITED, *ONE_CORE)
    before = node.state()
    base = node.number(pod.container_group, QUOTA)
    assert base == 20_000
    asked = {"cpuBurstStrategy": {"policy": "auto", "sharePoolThresholdPercent": 100}}
    with node.koordlet() as koordlet:
        koordlet.ask({"cpu_burst": {"calm_seconds": 3}}, **asked)
        raised = lambda: node.number(pod.container_group, QUOTA)  # noqa: E731
        grows(koordlet, node, pod, lambda: raised() >= 1.4 * base)
        assert raised() <= 3 * base
        # No container may have more than its pod.
        of_pod, of_container = until(lambda: quotas(node, pod)) or (0, 1)
        assert of_pod >= of_container
        settles(lambda: 0 < node.number(pod.container_group, BURST) <= raised(), True)

        def reported() -> str:
            """What is shown; "" where it was taken back meanwhile, as the CPUs were overloaded."""
            before = raised()
            shown = koordlet.koordctl_why("pod", f"default/{pod.name}")
            return shown if min(before, raised()) > base else ""

        for _ in range(10):
            grows(koordlet, node, pod, lambda: raised() > base)
            if shown := reported():
                break
        print(f"\nquota {base} µs, throttled {raised()} µs\n{shown}")
        assert "may use more CPU than its limit" in shown

        freeze(pod)
        until(lambda: raised() == base, "it is not needed")
        until(lambda: node.number(pod.group, QUOTA) == base)
        thaw(pod)
        grows(koordlet, node, pod, lambda: raised() > base)

        koordlet.ask(cpuBurstStrategy={"policy": "none"})
        settles(node.state, before)
        node.finish(koordlet)


def quotas(node: Node, pod: Pod) -> tuple[int, int] | None:
    """A pod's and its container's; ``None`` where they changed while they were read."""
    before = node.number(pod.container_group, QUOTA)
    of_pod = node.number(pod.group, QUOTA)
    after = node.number(pod.container_group, QUOTA)
    return (of_pod, after) if after == before else None


def grows(koordlet: DecidingKoordlet, node: Node, pod: Pod, grown: Callable[[], bool]) -> None:
    """Wait until a quota has; where the machine had no room for it all that time, skip.

    After some rounds on end in which the kernel held the container back, and the shared CPUs had
    room, it has to: a busy machine grants neither.
    """
    end = time.monotonic() + PATIENCE
    held, since = _held_back(node, pod), _rounds(koordlet, "cpu_burst")
    lately: deque[tuple[float, bool]] = deque(maxlen=LATELY)
    while not grown():
        time.sleep(BETWEEN)
        before, held = held, _held_back(node, pod)
        pool = koordlet.decision("cpu_burst", "share pool") or {"outcome": "", "numbers": {}}
        lately.append((pool["numbers"].get("node") or 0.0, held > before))
        rounds = _rounds(koordlet, "cpu_burst")
        if held == before or "have room" not in pool["outcome"]:
            since = rounds
        assert rounds <= since + ROUNDS, pool
        if time.monotonic() > end:
            busy = max(cores for cores, _ in lately)
            assert busy > BUSY or not all(throttled for _, throttled in lately), lately
            pytest.skip(f"{busy:.1f} cores are busy with something else")


def _held_back(node: Node, pod: Pod) -> int:
    """Periods in which its container ran into its quota."""
    return _throttled(node, pod.container_group)


# ---- memory


HUNGRY = ("--vm", "1", "--vm-bytes", "1500M", "--vm-keep", "--vm-populate", "--vm-method", "flip")
SMALL = ("--vm", "1", "--vm-bytes", "64M", "--vm-keep", "--vm-populate", "--vm-method", "flip")
LIMIT = 3 << 30
"""Of all pods, so that no mistake here costs the machine."""
ROOM = 3
"""Percent of the node's memory that pods have before any is evicted."""


class Memory:
    """Asks for evictions from a little more on than is in use without best-effort pods.

    Other programs of the machine come and go, so that is not always the same.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._threshold = 0

    def ask(self, koordlet: DecidingKoordlet) -> None:
        threshold = int(self._used_by_others()) + ROOM
        if threshold != self._threshold:
            self._threshold = threshold
            koordlet.ask(
                resourceUsedThresholdWithBE={
                    "enable": True,
                    "memoryEvictThresholdPercent": threshold,
                    "memoryEvictLowerPercent": threshold - 1,
                }
            )

    def _used_by_others(self) -> float:
        """Percent of the node's memory; page cache is not counted."""
        lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
        found = {name: int(size) << 10 for name, size, *_ in lines}
        used = found["MemTotal:"] - found["MemAvailable:"]
        best_effort = self._node.number(BESTEFFORT, "memory.usage_in_bytes")
        return 100 * (used - best_effort) / found["MemTotal:"]


def test_best_effort_pods_go_before_memory_is_short(node: Node) -> None:
    groups, memory = node.kubelet.kubepods, Memory(node)
    groups.write("kubepods", "memory.limit_in_bytes", LIMIT)
    ls = node.start(LS.like("ls", memory_limit=256 * MIB), *SMALL)
    gate = "--feature-gates=BEMemoryEvict=true"
    with node.koordlet(gate, "--evict-dry-run") as koordlet:
        memory.ask(koordlet)
        below = "no eviction: memory is below its threshold"
        until(lambda: memory.ask(koordlet) or koordlet.outcome("be_memory_evict") == below)
        be = node.start(BE, *HUNGRY)
        [reported, *_] = until(lambda: memory.ask(koordlet) or koordlet.events("would evict"))
        assert reported["pod"] == f"default/{be.name}"
        print(f"\n{koordlet.koordctl_why('evicted')}")
        rounds = _rounds(koordlet, "be_memory_evict")
        until(lambda: _rounds(koordlet, "be_memory_evict") >= rounds + 5)
        assert node.runs(be)
        node.finish(koordlet)
    with node.koordlet(gate) as koordlet:
        memory = Memory(node)
        until(lambda: memory.ask(koordlet) or not node.runs(be))
        [reported] = until(lambda: koordlet.events("evicted"))
        assert (reported["pod"], reported["rule"]) == (f"default/{be.name}", "BEMemoryEvict")
        words = ("evicted", f"default/{be.name}")
        # The next round tells of it.
        until(lambda: "evicted by stopping containers" in koordlet.koordctl_why(*words))
        print(f"\n{koordlet.koordctl_why(*words)}")
        node.finish(koordlet)
    assert node.runs(ls)
    assert "oom_kill 0" in groups.read(ls.container_group, "memory.oom_control")
    assert groups.read("kubepods", "memory.failcnt") == "0"


def test_cgroup_v1_cannot_hold_memory_back_and_that_is_said(node: Node) -> None:
    """It has no memory.high: before a limit is met, best-effort pods can but be evicted."""
    ls = node.start(LS.like("ls", memory_limit=256 * MIB), *SMALL)
    be = node.start(BE, *SMALL)
    before = node.state()
    asked = {"memoryQOS": {"enable": True, "minLimitPercent": 50, "throttlingPercent": 80}}
    with node.koordlet("--feature-gates=CgroupReconcile=true") as koordlet:
        koordlet.ask(resourceQOSStrategy={"lsClass": asked, "beClass": asked})

        def reported() -> bool:
            said = [one["outcome"] for one in koordlet.why(strategy="memory_qos")["decisions"]]
            return any("cgroup v1 has none" in one for one in said)

        until(reported)
        rounds = _rounds(koordlet, "memory_qos")
        until(lambda: _rounds(koordlet, "memory_qos") >= rounds + 5)
        assert node.state() == before
        assert node.runs(ls)
        assert node.runs(be)
        node.finish(koordlet)
