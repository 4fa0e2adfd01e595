"""A server and batch work on one node: the server's latency, and what batch work gets done.

For real: containerd, two pods at a time, cgroups as a kubelet makes them. The server
(``latency_server``) is a Burstable pod that requests half a core, asked at a fixed rate
(``open_loop``); stress-ng is the batch work, twice as many processes as there are CPUs. In
turns:

- alone: the batch pods are frozen;
- same class: nobody manages anything. Batch work is a pod that requests CPU as every pod
  does, as much as the server: to the kernel both are worth the same;
- best effort: nobody manages anything, and batch work requests nothing. Kubernetes gives it the
  least weight there is;
- quota, idle: that best-effort pod with koordlet's CPU suppression (policy cfsQuota), or as an
  idle group (group identity -1).

koordlet runs all the time and does nothing but in its own turns. It and this program are outside
of pods: to koordlet they are the system, like whatever else the machine is busy with.
CPU suppression by cpuset does nothing here: it never leaves fewer than two CPUs, and is of no
use on a machine that has no more.
"""

from __future__ import annotations

import functools
import hashlib
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from koord_demo.containerd import Containerd
from koord_demo.containerd import why_not as no_containerd
from koord_model.qos import KubeQoS

from bench import open_loop
from bench.report import Measure
from tests.support import kubepods, stress_ng
from tests.support.host_program import PythonProgram
from tests.support.koordlet_programs import DecidingKoordlet
from tests.support.kubelet import Kubelet, Pod
from tests.support.kubepods import CGROUPS, Kubepods
from tests.support.pod_cases import PodCase, qos
from tests.support.processes import until
from tests.support.stress_ng import StressNg

RATE = 150
"""Requests a second."""
WORK_MS = 3.0
"""CPU that a request takes."""
SETTLE, SECONDS = 2.0, 6.0
"""Of each turn: what does not count, and what does."""
THRESHOLD = 65
"""Percent of the node, Koordinator's default."""
QUIET = 0.2
"""Cores that all else on the machine may use; turns in which it used more are repeated."""

_PORT = 39_817
_CORES = os.cpu_count() or 1
_BE_GROUP = "kubepods/besteffort"
_FREE = {"cpu.cfs_quota_us": "-1", "cpu.idle": "0"}
_SUPPRESS = {
    "resourceUsedThresholdWithBE": {
        "enable": True,
        "cpuSuppressThresholdPercent": THRESHOLD,
        "cpuSuppressPolicy": "cfsQuota",
    }
}
_IDLE = {
    "resourceQOSStrategy": {
        "policies": {"cpuPolicy": "groupIdentity"},
        "lsClass": {"cpuQOS": {"enable": True, "groupIdentity": 2}},
        "beClass": {"cpuQOS": {"enable": True, "groupIdentity": -1}},
    }
}


@dataclass(frozen=True)
class Variant:
    """A neighbour of the server, koordlet's settings, and the test that they took effect."""

    name: str
    beside: str = ""
    asked: Mapping[str, Any] = field(default_factory=dict)
    there: Callable[[Mapping[str, str]], bool] = lambda found: found == _FREE


VARIANTS = (
    Variant("alone"),
    Variant("same class", "same-class"),
    Variant("best effort", "best-effort"),
    Variant(
        "koordlet: quota", "best-effort", _SUPPRESS, lambda found: found["cpu.cfs_quota_us"] != "-1"
    ),
    Variant("koordlet: idle", "best-effort", _IDLE, lambda found: found["cpu.idle"] == "1"),
)


class Turn(NamedTuple):
    """One turn of a variant: latencies in milliseconds, and cores in use meanwhile.

    ``rest`` is what neither the server nor batch work used.
    """

    answers: open_loop.Answers
    server: float
    batch: float
    rest: float

    @property
    def p50(self) -> float:
        return self.answers.percentile(0.5)

    @property
    def p99(self) -> float:
        return self.answers.percentile(0.99)


Turns = Mapping[str, Sequence[Turn]]


def why_not() -> str | None:
    """Return why this cannot be measured here."""
    return no_containerd() or kubepods.why_not() or stress_ng.why_not()


def turns(rounds: int, spare: float) -> tuple[Turns, int]:
    """So many turns of every variant, one after the other; and how many were repeated.

    ``spare`` are seconds for waiting until the machine is quiet, and for repeating turns in
    which it was not. When they are over, turns are taken as they are.
    """
    found: dict[str, list[Turn]] = {variant.name: [] for variant in VARIANTS}
    repeated = 0
    with _node() as node:
        for seed in range(rounds):
            for variant in VARIANTS:
                spare -= node.wait_for_quiet(spare)
                began = time.monotonic()
                while (turn := node.turn(variant, seed)).rest > QUIET and spare > 0:
                    spare -= time.monotonic() - began
                    spare -= node.wait_for_quiet(spare)
                    began, repeated = time.monotonic(), repeated + 1
                found[variant.name].append(turn)
    return found, repeated


@dataclass
class _Node:
    koordlet: DecidingKoordlet
    kubepods: Kubepods
    server: Pod
    batch: Mapping[str, Pod]

    def turn(self, variant: Variant, seed: int) -> Turn:
        for name, pod in self.batch.items():
            _freeze(pod, frozen=name != variant.beside)
        self.koordlet.ask(**variant.asked)
        until(lambda: variant.there(self._found()), f"{variant.name} is in force")
        use: list[tuple[float, ...]] = []
        groups = [self.server.container_group]
        groups += [pod.container_group for name, pod in self.batch.items()]
        reading = threading.Thread(target=_read_use, args=(groups, use))
        # The same arrivals for all variants of a round.
        due = open_loop.arrivals(RATE, SETTLE + SECONDS, seed)
        reading.start()
        answers = open_loop.ask(_PORT, due, SETTLE)
        reading.join()
        at, node, server, *batch = (after - before for before, after in zip(*use, strict=True))
        cores = [node / at, server / at, sum(batch) / at]
        return Turn(answers, cores[1], cores[2], cores[0] - cores[1] - cores[2])

    def wait_for_quiet(self, most: float) -> float:
        """Wait until a second goes by in which little runs beside pods; the seconds it took."""
        for pod in self.batch.values():
            _freeze(pod, frozen=True)
        began = time.monotonic()
        while True:
            before, at = _node_seconds(), time.monotonic()
            time.sleep(1.0)
            now = time.monotonic()
            if _node_seconds() - before <= QUIET * (now - at) or now - began >= most:
                # The last second would have been there anyway.
                return at - began

    def _found(self) -> dict[str, str]:
        return {file: self.kubepods.read(_BE_GROUP, file) for file in _FREE}


@contextmanager
def _node() -> Iterator[_Node]:
    with ExitStack() as stack:
        directory = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="pykoord-", dir="/tmp"))
        )
        directory.chmod(0o755)
        containerd = stack.enter_context(Containerd())
        groups = stack.enter_context(Kubepods())
        stack.callback(containerd.remove_all_pods)
        kubelet = Kubelet(groups)
        server, batch = _pods(containerd, kubelet)
        for pod in batch.values():
            # What is frozen is not killed.
            stack.callback(_freeze, pod, frozen=False)
        # As a kubelet has it: of all pods what the node has, of Burstable ones what they request.
        groups.write("kubepods", "cpu.shares", 1024 * _CORES)
        groups.write("kubepods/burstable", "cpu.shares", 1024)
        koordlet = DecidingKoordlet(directory, "--idle-besteffort")
        kubelet.list_pods(koordlet.pods_file)
        stack.enter_context(koordlet)
        koordlet.knows(len(kubelet.pods))
        until(lambda: open_loop.answers(_PORT), "the server answers")
        yield _Node(koordlet, groups, server, batch)


def _pods(containerd: Containerd, kubelet: Kubelet) -> tuple[Pod, Mapping[str, Pod]]:
    """The server, and batch work as a pod of either class, frozen."""
    serving = PodCase("server", KubeQoS.BURSTABLE, labels=qos("LS"), cpu_request=500)
    script = Path(open_loop.__file__).with_name("latency_server.py")
    with PythonProgram(containerd.address, script, str(_PORT), str(_iterations())) as cri:
        server = kubelet.start(cri, serving)
    cases = (
        PodCase("same-class", KubeQoS.BURSTABLE, cpu_request=500),
        PodCase("best-effort", KubeQoS.BEST_EFFORT, labels=qos("BE")),
    )
    batch = {}
    with StressNg(
        containerd.address, "--cpu", str(2 * _CORES), "--cpu-method", "matrixprod"
    ) as cri:
        for case in cases:
            batch[case.name] = kubelet.start(cri, case)
            _freeze(batch[case.name], frozen=True)
    return server, batch


@functools.cache
def _iterations() -> int:
    """Return the iterations of a checksum that take ``WORK_MS`` of CPU here."""
    tried, took = 4000, []
    for _ in range(15):
        began = time.thread_time()
        hashlib.pbkdf2_hmac("sha256", b"request!", b"salt", tried)
        took.append(time.thread_time() - began)
    return round(tried * WORK_MS / 1000 / min(took))


def _freeze(pod: Pod, *, frozen: bool) -> None:
    word = "FROZEN" if frozen else "THAWED"
    state = CGROUPS / "freezer" / pod.container_group / "freezer.state"
    state.write_text(word)
    until(lambda: state.read_text().strip() == word, f"{pod.name} is {word}")


def _read_use(groups: Sequence[str], use: list[tuple[float, ...]]) -> None:
    """Seconds of CPU so far, of the node and of each group, before and after what counts."""
    for pause in (SETTLE, SECONDS):
        time.sleep(pause)
        counters = [CGROUPS / "cpuacct" / group / "cpuacct.usage" for group in groups]
        used = (int(counter.read_text()) / 1e9 for counter in counters)
        use.append((time.monotonic(), _node_seconds(), *used))


def _node_seconds() -> float:
    """User, nice, system, interrupts: not idle, not waiting, not stolen by other machines."""
    words = Path("/proc/stat").read_text().splitlines()[0].split()
    return sum(int(words[place]) for place in (1, 2, 3, 6, 7)) / os.sysconf("SC_CLK_TCK")


# ---- what is said of it


def figures(found: Turns, repeated: int) -> tuple[list[Measure], dict[str, object]]:
    """The figures, and what goes with them."""
    others = [variant.name for variant in VARIANTS if variant.beside]
    alone, unmanaged = VARIANTS[0].name, "best effort"

    def median(name: str, of: Callable[[Turn], float]) -> float:
        return statistics.median(map(of, found[name]))

    measures = [Measure("server p99, alone", "ms", median(alone, _p99), "", None, None)]
    measures += [
        Measure(f"server p99, {name}", "ms", median(name, _p99), alone, median(alone, _p99), None)
        for name in others
    ]
    measures += [
        Measure(
            f"batch work, {name}",
            "cores",
            median(name, _batch),
            unmanaged,
            median(unmanaged, _batch),
            None,
        )
        for name in others
    ]
    settings: dict[str, object] = {
        "turns": f"{SECONDS:g} s each, all variants in turn; {repeated} repeated, for more than "
        f"{QUIET:g} cores were busy with something else",
        "server": f"{RATE} requests/s, {WORK_MS:g} ms of CPU each, on {_CORES} CPUs; a pod that "
        "requests 500m",
        "batch work": f"stress-ng, {2 * _CORES} processes; CPU time is what counts",
        "asked of koordlet": f"quota: cpuSuppressThresholdPercent {THRESHOLD}, policy "
        "cfsQuota; idle: group identity -1 with --idle-besteffort",
    }
    if max(median(variant.name, lambda turn: turn.rest) for variant in VARIANTS) > QUIET:
        settings["beware"] = (
            "the machine was busy with something else: the server waited for that too, and "
            "suppression left that to it"
        )
    for variant in VARIANTS:
        settings[variant.name] = _line(found[variant.name])
    return measures, settings


def _p99(turn: Turn) -> float:
    return turn.p99


def _batch(turn: Turn) -> float:
    return turn.batch


def _line(taken: Sequence[Turn]) -> str:
    """Each figure as the median of all turns, with the least and the most."""

    def spread(of: Callable[[Turn], float]) -> str:
        values = [of(turn) for turn in taken]
        return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"

    return (
        f"{len(taken)} turns; p50 {spread(lambda turn: turn.p50)} ms, p99 {spread(_p99)} ms, "
        f"max {spread(lambda turn: turn.answers.latencies[-1])} ms, "
        f"lost {sum(turn.answers.lost for turn in taken)}; server {spread(lambda t: t.server)}, "
        f"batch {spread(_batch)}, all else {spread(lambda t: t.rest)} cores; requests sent "
        f"{spread(lambda turn: turn.answers.late)} ms late (p99)"
    )
