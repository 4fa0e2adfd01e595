"""Effect of pressure and interference beside a threshold: ``python tools/compare_pressure.py``.

Simulates services whose load goes up and down beside jobs that would use the whole node, with
thresholds alone and with pressure, and writes simulation/results/pressure.md. Takes some minutes.

Who takes CPU from jobs makes services faster; that is no merit. So a run with pressure is
compared with thresholds alone that leave jobs as many CPU hours (straight lines between them).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from koord_model.keys import BATCH_CPU, BATCH_MEMORY
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from koord_model.used_threshold import UsedThreshold
from koord_simulation.files import strategies
from koord_simulation.node_model.curves import Constant, Noise, Sine, Spikes
from koord_simulation.node_model.machine import GIB, MIB, SimulatedMachine
from koord_simulation.node_model.workload import Workload
from koord_simulation.run.simulation import Simulation, simulate
from koord_simulation.scenario.scenario import Scenario

PAGE = Path(__file__).parents[1] / "simulation" / "results" / "pressure.md"
SEEDS = range(5)
LADDER = (35, 45, 55, 65, 75, 85, 95)
"""Thresholds alone, percent."""
WITH = (65, 80, 95)
LOADS = {"light": 4.0, "medium": 7.0, "heavy": 10.0}
"""Cores of the services together, on average, of 32."""
CACHE = "medium, jobs fill the cache"
LEARN, SECONDS = 1200, 3000
"""Jobs begin when what is usual of the services is learnt."""
SUPPRESS, PRESSURE, INTERFERENCE = "cpu_suppress", "pressure_suppress", "interference"
ARMS = {"pressure": (SUPPRESS, PRESSURE), "and interference": (SUPPRESS, PRESSURE, INTERFERENCE)}


class Outcome(NamedTuple):
    """Milliseconds over the services, and hours of a CPU that jobs got."""

    p99: float
    worst: float
    hours: float


def scenario(load: str, threshold: int, seed: int) -> Scenario:
    """Eight services with a wave of ten minutes, spikes and noise; jobs from ``LEARN`` on."""
    cores = LOADS[load.partition(",")[0]] / 8
    wave = (
        Sine(cores, cores / 2, 600)
        + Spikes(cores / 2, 240, 15, 17 * seed)
        + Noise(0.15 * cores, 20)
    )
    cached = load == CACHE
    web = Workload(
        "web",
        QoSClass.LS,
        wave,
        Constant(2 * GIB),
        requests={"cpu": 2000, "memory": 2 * GIB},
        llc_sensitivity=1.5 if cached else 0.4,
    )
    job = Workload(
        "job",
        QoSClass.BE,
        Constant(5.0) + Noise(0.5, 60),
        Constant(2 * GIB),
        requests={BATCH_CPU: 3000, BATCH_MEMORY: 2 * GIB},
        start=LEARN,
        llc_bytes=6 * MIB if cached else 1.5 * MIB,
        bandwidth=6e9 if cached else 2e9,
    )
    return Scenario(
        name=load,
        machine=SimulatedMachine(cpus=32, memory=128 * GIB),
        pods=(
            *(replace(web, name=f"web-{number}") for number in range(8)),
            *(replace(job, name=f"job-{number}") for number in range(8)),
        ),
        slo=NodeSLO(threshold=UsedThreshold(enable=True, cpu_suppress=threshold)),
        seconds=SECONDS,
        seed=seed,
    )


def outcome(case: tuple[str, tuple[str, ...], int, int]) -> Outcome:
    """One run, from when the jobs are there."""
    load, names, threshold, seed = case
    run = simulate(scenario(load, threshold, seed).only(*names), strategies(names))
    p99 = run.p99[LEARN + 60 :, :8]
    hours = float(run.be_cpu[LEARN + 60 :].sum()) / 3600
    return Outcome(float(np.nanmean(p99)), float(np.nanpercentile(p99, 99)), hours)


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Median, and from the least to the most."""
    low, high = min(values), max(values)
    return f"{median(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def alone_at(hours: float, ladder: Sequence[Outcome], field: str) -> float:
    """Return the services' cost under thresholds alone, at so many CPU hours."""
    known = sorted(ladder, key=lambda step: step.hours)
    return float(
        np.interp(hours, [step.hours for step in known], [getattr(step, field) for step in known])
    )


def rows(found: dict[tuple[str, tuple[str, ...], int, int], Outcome]) -> Iterator[str]:
    """The table of CPU."""
    for load in (*LOADS, CACHE):
        for threshold in WITH:
            plain = [found[load, (SUPPRESS,), threshold, seed] for seed in SEEDS]
            yield _row(load, threshold, "alone", plain, "", "")
            for name, arm in ARMS.items():
                runs = [found[load, arm, threshold, seed] for seed in SEEDS]
                gains: dict[str, list[float]] = {"p99": [], "worst": []}
                for seed, run in zip(SEEDS, runs, strict=True):
                    ladder = [found[load, (SUPPRESS,), step, seed] for step in LADDER]
                    for field, values in gains.items():
                        same = alone_at(run.hours, ladder, field)
                        values.append(100 * (getattr(run, field) / same - 1))
                yield _row(
                    load, threshold, name, runs, spread(gains["p99"]), spread(gains["worst"])
                )


def _row(
    load: str, threshold: int, name: str, runs: Sequence[Outcome], gain: str, worst: str
) -> str:
    cells = (
        load,
        f"{threshold} %",
        name,
        spread([run.p99 for run in runs]),
        spread([run.worst for run in runs]),
        spread([run.hours for run in runs], 2),
        gain,
        worst,
    )
    return f"| {' | '.join(cells)} |"


# ---- memory_offload


def offloaded(case: tuple[float, bool, int]) -> tuple[float, float, float]:
    """GiB freed of a job's 12 after an hour, its own pressure (mean, most percent)."""
    cold, swap, seed = case
    job = Workload(
        "job",
        QoSClass.BE,
        Constant(1.0),
        Constant(4 * GIB) + Noise(0.2 * GIB, 60),
        requests={BATCH_CPU: 1000, BATCH_MEMORY: 6 * GIB},
        page_cache=8 * GIB,
        cold=cold,
    )
    machine = SimulatedMachine(cpus=16, memory=32 * GIB, swap=8 * GIB * swap)
    slo = NodeSLO(strategies={"memory_offload": {"target_percent": 10}})
    story = Scenario(machine=machine, pods=(job,), seconds=3600, seed=seed, slo=slo)
    going = Simulation(story.only("memory_offload"), strategies(["memory_offload"]))
    free = simulate(story)
    for _ in range(3600):
        going.step()
    window = going.measured.windows("pod_psi", 3500)["uid-default-job", "mem", "avg10", "some"]
    freed = float(free.held[-600:, 0].mean() - going.run.held[-600:, 0].mean())
    return freed / GIB, window.avg, window.most


def offload_rows(pool: ProcessPoolExecutor) -> Iterator[str]:
    """The table of memory."""
    for cold, swap in product((0.0, 0.2, 0.5, 0.8), (False, True)):
        found = list(pool.map(offloaded, [(cold, swap, seed) for seed in SEEDS]))
        freed, mean, most = (spread([gains[place] for gains in found]) for place in range(3))
        yield f"| {cold:.0%} | {'yes' if swap else 'no'} | {freed} | {mean} | {most} |"


def main() -> None:
    """Run all, and write the tables into the page."""
    cases = [
        (load, names, threshold, seed)
        for load in (*LOADS, CACHE)
        for names in ((SUPPRESS,), *ARMS.values())
        for threshold in (WITH if len(names) > 1 else sorted({*LADDER, *WITH}))
        for seed in SEEDS
    ]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(cases, pool.map(outcome, cases, chunksize=4), strict=True))
        memory = list(offload_rows(pool))
    page = PAGE.read_text()
    for name, lines in (("cpu", list(rows(found))), ("memory", memory)):
        before, _, rest = page.partition(f"<!-- {name} -->\n")
        head, _, after = rest.partition("<!-- end -->")
        top = "".join(f"{line}\n" for line in head.splitlines()[:2])
        table = "".join(f"{line}\n" for line in lines)
        page = f"{before}<!-- {name} -->\n{top}{table}<!-- end -->{after}"
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
