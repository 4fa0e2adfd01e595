"""The whole scheduler as it is deployed, against an API that answers at once.

The program has its Lease, watches over TLS, decodes three events a pod, spreads the pods by the
defaults, and writes a Binding and an Event of each over HTTP/2 and TLS. The API is a double in a
process of its own (``instant_api``), which needs less CPU than the scheduler: so what is measured
is the scheduler. Each has a core where there are two.

``python -m bench.scheduler_end_to_end`` measures and writes bench/results/scheduler_end_to_end.*;
``--quick`` takes some small clusters and writes nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.request import Request, urlopen

from bench import programs, report
from bench.report import Measure
from tests.support.certificates import Certificates, make_certificates
from tests.support.scheduler_program import SchedulerProgram
from tests.support.service_account_tokens import unsigned_token

ROUNDS = 3
LIMIT_SECONDS = 600.0
_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: double, user: scheduler}}}}]
clusters: [{{name: double, cluster: {{server: "{url}", certificate-authority: "{authority}"}}}}]
users: [{{name: scheduler, user: {{token: {token}}}}}]
"""
_WHY = (
    "The scheduler's one core is busy throughout, the API's is not; what a decision costs is in "
    "scheduler_core, and the rest of the CPU a pod is for three events, a Binding and an Event."
)
"""Reasons for missed targets."""


class Load(NamedTuple):
    """``waiting`` pods are there when the scheduler starts, ``offered`` ones come once it is idle.

    ``rate`` of these come a second, 0: all at once. ``target`` is pods a second, or where there is
    a rate milliseconds; 0: none.
    """

    nodes: int
    bound: int = 0
    waiting: int = 0
    offered: int = 0
    rate: int = 0
    target: float = 0

    def __str__(self) -> str:
        name = f"{self.nodes:,} nodes"
        if self.bound:
            name += f", {self.bound:,} pods bound"
        return f"{name}, {self.rate:,} pods/s offered" if self.rate else name


LOADS = (
    Load(1_000, offered=20_000),
    Load(5_000, offered=20_000, target=4_000),
    Load(20_000, offered=10_000, target=3_000),
    Load(50_000, offered=8_000, target=2_000),
    Load(5_000, offered=40_000, rate=2_000, target=100),
    Load(5_000, bound=150_000, waiting=100, offered=10_000),
)
QUICK = (
    Load(200, offered=2_000),
    Load(200, offered=1_000, rate=500),
    Load(200, bound=6_000, waiting=10, offered=500),
)


@dataclass(frozen=True, slots=True)
class Run:
    """``rate`` is pods a second from the first that was added to the last that was bound.

    ``busy`` is how many cores the scheduler and the API used meanwhile. CPU in microseconds a pod:
    ``cpu`` of the scheduler, ``api_cpu`` of the API, until each pod has its Event. Added to bound
    in milliseconds; ``start`` is seconds from the start of the process to the first Binding of a
    pod that waited, or until it was ready; memory in MiB, ``ready_memory`` before pods are offered.
    """

    rate: float
    busy: tuple[float, float]
    cpu: float
    api_cpu: float
    p50: float
    p99: float
    start: float
    start_cpu: float
    events: float
    ready_memory: float
    memory: float


class Api:
    """The double, and what it tells."""

    def __init__(self, process: subprocess.Popen[str], authority: Path) -> None:
        assert process.stdout is not None
        self.pid = process.pid
        self.url = f"https://127.0.0.1:{json.loads(process.stdout.readline())['port']}"
        self._context = ssl.create_default_context(cafile=authority)

    def offer(self, load: Load) -> None:
        url = f"{self.url}/bench/offer?pods={load.offered}&rate={load.rate}"
        urlopen(Request(url, method="POST"), context=self._context).close()

    def state(self) -> dict[str, float]:
        with urlopen(f"{self.url}/bench/state", context=self._context) as answer:
            return dict(json.load(answer))

    def wait(self, what: str, pods: int, scheduler: SchedulerProgram) -> dict[str, float]:
        """Until so many are ``bound`` or have ``events``."""
        end = time.monotonic() + LIMIT_SECONDS
        while (state := self.state())[what] < pods:
            assert time.monotonic() < end, scheduler.said[-2000:]
            time.sleep(0.02)
        return state


@contextlib.contextmanager
def running_api(load: Load, made: Certificates) -> Iterator[Api]:
    numbers = [f"--{one}={getattr(load, one)}" for one in ("nodes", "bound", "waiting")]
    files = [f"--certificate={made.certificate}", f"--key={made.key}"]
    command = [sys.executable, "-m", "bench.instant_api", *numbers, *files]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield Api(process, made.authority)
    finally:
        process.kill()
        process.communicate()


def run(load: Load) -> Run:
    """A fresh API and a fresh scheduler."""
    with tempfile.TemporaryDirectory(prefix="pykoord-bench-") as name:
        folder = Path(name)
        made = make_certificates(folder)
        with running_api(load, made) as api:
            kubeconfig = folder / "kubeconfig"
            # A service account's token has some 900 characters.
            token = unsigned_token("x" * 500)
            text = _KUBECONFIG.format(url=api.url, authority=made.authority, token=token)
            kubeconfig.write_text(text)
            scheduler = SchedulerProgram("scheduler", folder, kubeconfig, "--log-level=warning")
            try:
                return _run(load, api, scheduler)
            finally:
                scheduler.close()


def _run(load: Load, api: Api, scheduler: SchedulerProgram) -> Run:
    began = time.monotonic()
    scheduler.start()
    scheduler.wait_until(lambda: scheduler.ready and scheduler.leads, "it leads")
    start = time.monotonic() - began
    if load.waiting:
        start = api.wait("events", load.waiting, scheduler)["first"] - began
    start_cpu = programs.cpu_micros(scheduler.pid) / 1e6
    time.sleep(1.0)  # what is done once after the start
    ready_memory = programs.rss_megabytes(scheduler.pid)
    before = _cpu(scheduler.pid, api.pid)
    api.offer(load)
    state = api.wait("bound", load.offered, scheduler)
    busy = [one - other for one, other in zip(_cpu(scheduler.pid, api.pid), before, strict=True)]
    state = api.wait("events", load.offered, scheduler)
    cpu = [one - other for one, other in zip(_cpu(scheduler.pid, api.pid), before, strict=True)]
    seconds = state["last"] - state["added"]
    return Run(
        load.offered / seconds,
        (busy[0] / seconds / 1e6, busy[1] / seconds / 1e6),
        cpu[0] / load.offered,
        cpu[1] / load.offered,
        state["p50"] * 1e3,
        state["p99"] * 1e3,
        start,
        start_cpu,
        state["last_event"] - state["added"],
        ready_memory,
        programs.peak_megabytes(scheduler.pid),
    )


def _cpu(*pids: int) -> list[float]:
    return [programs.cpu_micros(pid) for pid in pids]


def measures_of(load: Load, runs: list[Run]) -> Iterator[Measure]:
    def one(name: str, unit: str, values: list[float], target: float | None = None) -> Measure:
        middle, interval = statistics.median(values), report.median_interval(values)
        return Measure(f"{load}: {name}", unit, middle, "", None, target, _WHY, interval)

    target = load.target or None
    if load.rate:
        yield one("added to bound, p50", "ms", [run.p50 for run in runs])
        yield one("added to bound, p99", "ms", [run.p99 for run in runs], target)
    else:
        aim = 1e6 / target if target else None
        yield one("time to bind a pod", "µs", [1e6 / run.rate for run in runs], aim)
    if load.bound:
        yield one("start to first binding", "s", [run.start for run in runs], 10.0)
        yield one("memory once started", "MiB", [run.ready_memory for run in runs])
    limit = 400.0 if load.bound else None
    yield one("memory, peak", "MiB", [run.memory for run in runs], limit)
    yield one("CPU a pod with its Event", "µs", [run.cpu for run in runs])
    yield one("the API's CPU a pod", "µs", [run.api_cpu for run in runs])
    yield one("cores of the scheduler", "", [run.busy[0] for run in runs])
    yield one("cores of the API", "", [run.busy[1] for run in runs])


def plot(taken: dict[Load, list[Run]]) -> None:
    """Pods a second, and CPU a pod, by the number of nodes; the targets beside."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    loads = [load for load in taken if not load.rate and not load.bound]
    names = [f"{load.nodes:,}" for load in loads]
    for place, load in enumerate(loads):
        rates = [run.rate for run in taken[load]]
        bar = left.bar(place, statistics.median(rates), 0.6, color="tab:blue")
        left.bar_label(bar, fmt="{:,.0f}", padding=5, fontsize=8)
        left.plot([place] * len(rates), rates, "o", color="tab:grey", markersize=4)
        if load.target:
            left.hlines(load.target, place - 0.4, place + 0.4, color="tab:red", linewidth=2)
    left.plot([], [], "-", color="tab:red", linewidth=2, label="target")
    left.plot([], [], "o", color="tab:grey", markersize=4, label="one run")
    left.set(ylabel="pods a second", title="All at once, until bound")
    left.legend(frameon=False)
    parts: list[tuple[str, Callable[[Run], float]]] = [
        ("scheduler", lambda run: run.cpu),
        ("the API double", lambda run: run.api_cpu),
    ]
    for offset, (name, value) in enumerate(parts):
        values = [statistics.median(value(run) for run in taken[load]) for load in loads]
        places = [place + 0.38 * (offset - 0.5) for place in range(len(loads))]
        right.bar_label(right.bar(places, values, 0.36, label=name), fmt="{:,.0f}", fontsize=8)
    right.set(ylabel="µs", title="CPU a pod with its Event")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.set_xticks(range(len(loads)), names)
        axes.set_xlabel("nodes")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(report.RESULTS / "scheduler_end_to_end.png", dpi=110)
    plt.close(figure)


def main(rounds: int = ROUNDS, *, quick: bool = False) -> None:
    loads = QUICK if quick else LOADS
    taken: dict[Load, list[Run]] = {load: [] for load in loads}
    for _ in range(1 if quick else rounds):
        for load in loads:
            taken[load].append(run(load))
            print(f"{load}: {taken[load][-1]}", flush=True)
    measures = [measure for load, runs in taken.items() for measure in measures_of(load, runs)]
    print(report.table(measures))
    if not quick:
        settings = {"rounds": rounds, "pods": "of 200 ReplicaSets, spread by the defaults"}
        report.write(measures, "scheduler_end_to_end", settings)
        plot(taken)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.scheduler_end_to_end")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    main(options.rounds, quick=options.quick)
