"""Effect of a target for sched_wait beside a threshold: ``python tools/compare_indicators.py``.

Simulates the services and jobs of ``compare_pressure``, and services with recorded loads if a
folder of them is given, with thresholds alone and with ``pressure_suppress``, whose target is what
the services wait under the default threshold. Writes simulation/results/indicators.md. Takes some
minutes.

A recorded load is a CSV file with a head: time, CPU (any unit). Its 99th percentile becomes
``PEAK`` cores; five minutes pass in half a minute.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
# As a program it is given its own folder alone.
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
from koord_prediction.histogram import Floats  # noqa: E402
from koord_simulation.files import strategies  # noqa: E402
from koord_simulation.node_model.curves import Noise, RecordedCurve  # noqa: E402
from koord_simulation.run.record import Run  # noqa: E402
from koord_simulation.run.simulation import simulate  # noqa: E402
from koord_simulation.scenario.scenario import Scenario  # noqa: E402
from koordlet.qos_manager.core.strategy import Strategy  # noqa: E402

from tools import compare_pressure  # noqa: E402
from tools.compare_pressure import PRESSURE, SUPPRESS, spread  # noqa: E402

PAGE = ROOT / "simulation" / "results" / "indicators.md"
SEEDS = range(2)
LADDER = (50, 65, 80, 95)
"""Thresholds alone, percent."""
USUAL, HIGHEST = 65, 95
GENERATED, RECORDED = ("medium", "heavy"), "recorded"
KERNELS = {"15 %": 0.15, "3 %": 0.03}
"""Load of a best-effort task on who wakes up beside it."""
PEAK, STEP = 2.0, 30.0
START, SECONDS = 60, 1860
"""Jobs begin, and the run ends."""


class WaitOutcome(NamedTuple):
    """Result of a run.

    ``wait`` is the services' mean sched_wait, ``high`` what it exceeds in one 10 s of twenty;
    ``hours`` are of a CPU that jobs got, ``worst`` ms that p99 exceeds in one second of a hundred.
    """

    wait: float
    high: float
    hours: float
    worst: float


Arm = Callable[[Scenario, float], Run]
"""Runs a scenario with a target for the services' wait."""


def scenario(load: str, kernel: str, seed: int, folder: str) -> Scenario:
    """The story of a load, without strategies' settings."""
    story = compare_pressure.scenario("medium" if load == RECORDED else load, HIGHEST, seed)
    files = sorted(Path(folder).glob("*.csv")) if load == RECORDED else []
    pods = []
    for number, pod in enumerate(story.pods):
        if not pod.latency_sensitive:
            pods.append(replace(pod, start=START))
        elif files:
            curve = recorded(files[number % len(files)], seed) + Noise(0.05, 20)
            pods.append(replace(pod, cpu=curve))
        else:
            pods.append(pod)
    machine = replace(story.machine, lingering=KERNELS[kernel])
    return replace(story, pods=tuple(pods), machine=machine, seconds=SECONDS)


def recorded(
    file: Path, seed: int, seconds: float = SECONDS, step: float = STEP, peak: float = PEAK
) -> RecordedCurve:
    """A part of a recorded load; another one for each seed. It goes on a point in ``step`` s."""
    with file.open(newline="") as lines:
        points = np.array([float(row[1]) for row in list(csv.reader(lines))[1:]])
    times: Floats = np.arange(0.0, seconds + step, step)
    part = points[(seed * len(times)) % (len(points) - len(times)) :][: len(times)]
    cores: Floats = np.minimum(part / np.percentile(points, 99), 1.5) * peak
    return RecordedCurve(times, cores)


def threshold(percent: int, story: Scenario, target: float) -> Run:
    """Run with a threshold alone."""
    slo = replace(story.slo, threshold=replace(story.slo.threshold, cpu_suppress=percent))
    return simulate(replace(story, slo=slo).only(SUPPRESS), strategies([SUPPRESS]))


def indicator(story: Scenario, target: float) -> Run:
    """Run with the highest threshold, and the target for all services."""
    service = {"name": "web", "targets": {"sched_wait": target}}
    return advised(story, strategies([PRESSURE])[0], {"services": [service]})


def advised(story: Scenario, adviser: Strategy, settings: dict[str, object]) -> Run:
    """Run with the highest threshold, and a strategy that advises."""
    slo = replace(story.slo, strategies={adviser.name: settings})
    names = (SUPPRESS, adviser.name)
    return simulate(replace(story, slo=slo).only(*names), (*strategies([SUPPRESS]), adviser))


def outcome(run: Run) -> WaitOutcome:
    """Measure a run from when the jobs are there."""
    waited, used = (_tens(whole[START + 60 :, :8]) for whole in (run.waiting, run.used))
    return WaitOutcome(
        float(1000 * waited.sum() / used.sum()),
        float(np.percentile(1000 * waited / used, 95)),
        float(run.be_cpu[START + 60 :].sum()) / 3600,
        float(np.nanpercentile(run.p99[START + 60 :, :8], 99)),
    )


def _tens(by_pod: Floats) -> Floats:
    seconds: Floats = np.asarray(np.nansum(by_pod, axis=1), np.float64)
    return np.asarray(seconds[: len(seconds) // 10 * 10].reshape(-1, 10).sum(axis=1), np.float64)


def case(arms: dict[str, Arm], folder: str, which: tuple[str, str, int]) -> dict[str, WaitOutcome]:
    """All runs of one load, kernel and seed; the target is what the default threshold costs."""
    story = scenario(*which, folder)
    found = {f"{step} %": outcome(threshold(step, story, 0.0)) for step in LADDER}
    target = found[f"{USUAL} %"].wait
    return found | {name: outcome(arm(story, target)) for name, arm in arms.items()}


def gain(found: dict[str, WaitOutcome], name: str, field: str) -> float:
    """Return percent more CPU of jobs than under the threshold at which services fare alike."""
    ladder = sorted(
        (getattr(found[f"{step} %"], field), found[f"{step} %"].hours) for step in LADDER
    )
    at, hours = zip(*ladder, strict=True)
    same = float(np.interp(getattr(found[name], field), list(at), list(hours)))
    return 100 * (found[name].hours / same - 1)


def row(load: str, kernel: str, name: str, runs: Sequence[dict[str, WaitOutcome]]) -> str:
    """A row of the table."""
    cells = [load, kernel, name]
    cells += [spread([getattr(found[name], field) for found in runs]) for field in ("wait", "high")]
    cells.append(spread([found[name].hours for found in runs], 2))
    cells.append(spread([found[name].worst for found in runs]))
    alone = name.endswith("%")
    cells += [
        "" if alone else spread([gain(found, name, field) for found in runs], 0)
        for field in ("wait", "high")
    ]
    return f"| {' | '.join(cells)} |"


def table(arms: dict[str, Arm], folder: str) -> list[str]:
    """Run all, and make the rows."""
    loads = (*GENERATED, *([RECORDED] if folder else []))
    cases = list(product(loads, KERNELS, SEEDS))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(cases, pool.map(partial(case, arms, folder), cases), strict=True))
    return [
        row(load, kernel, name, [found[load, kernel, seed] for seed in SEEDS])
        for load in loads
        for kernel in KERNELS
        for name in (f"{USUAL} %", *arms)
    ]


def main() -> None:
    """Write the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", default="", help="of recorded loads, *.csv")
    folder = parser.parse_args().folder
    if folder and not sorted(Path(folder).glob("*.csv")):
        parser.error(f"{folder}: no *.csv there; name a folder of recorded loads, or none")
    page = PAGE.read_text()
    before, mark, rest = page.partition("<!-- waits -->\n")
    head, end, after = rest.partition("<!-- end -->")
    top = "".join(f"{line}\n" for line in head.splitlines()[:2])
    lines = "".join(f"{line}\n" for line in table({"sched_wait": indicator}, folder))
    PAGE.write_text(f"{before}{mark}{top}{lines}{end}{after}")


if __name__ == "__main__":
    main()
