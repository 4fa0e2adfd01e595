"""False episodes of interference in quiet days: ``python tools/quiet_days.py FOLDER``.

Simulates days of a node with eight services and no best-effort pod. Their loads are recorded ones
as in ``compare_indicators``, at the speed at which they were recorded, with noise and spikes.
Counts the episodes that the strategy ``interference`` begins by pressure, waits for CPU and
cycles: each is an error, since the services alone use the node. Prints a table. Takes minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[1]
# As a program it is given its own folder alone.
sys.path.insert(0, str(ROOT))

from koord_simulation.files import strategies  # noqa: E402
from koord_simulation.node_model.curves import Noise, Spikes  # noqa: E402
from koord_simulation.run.simulation import simulate  # noqa: E402
from koord_simulation.scenario.scenario import Scenario  # noqa: E402
from koordlet.qos_manager.core.strategy import Plan, StrategyView  # noqa: E402

from tools import compare_indicators  # noqa: E402
from tools.compare_pressure import INTERFERENCE  # noqa: E402

DAY, STEP = 86400, 300.0
DAYS = range(2)
PEAKS = (2.0, 3.0)
"""Cores of each of eight services at the 99th percentile, of 32."""


def scenario(peak: float, folder: str, day: int) -> Scenario:
    """A day of the node."""
    story = compare_indicators.scenario(compare_indicators.RECORDED, "15 %", day, folder)
    files = sorted(Path(folder).glob("*.csv"))
    services = [pod for pod in story.pods if pod.latency_sensitive]
    pods = []
    for number, pod in enumerate(services):
        load = compare_indicators.recorded(files[number % len(files)], day, DAY, STEP, peak)
        beside = Noise(0.15 * peak, 20) + Spikes(peak / 2, 1800, 15, 170 * number)
        pods.append(replace(pod, cpu=load + beside))
    return replace(story, pods=tuple(pods), seconds=DAY)


def episodes(folder: str, case: tuple[float, int]) -> Counter[str]:
    """Episodes of a day, by metric."""
    [detector] = strategies([INTERFERENCE])
    begun: Counter[str] = Counter()
    standing: set[tuple[str, str]] = set()

    def counted(view: StrategyView, settings: object, memory: object) -> Plan:
        plan = detector.plan(view, settings, memory)
        now = {(decision.pod, decision.aspect) for decision in plan.decisions if decision.pod}
        begun.update(aspect for _, aspect in now - standing)
        standing.clear()
        standing.update(now)
        return plan

    story = scenario(*(case[0], folder, case[1]))
    simulate(story.only(INTERFERENCE), [replace(detector, plan=counted)])
    return begun


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", help="of recorded loads, *.csv")
    folder = parser.parse_args().folder
    if not sorted(Path(folder).glob("*.csv")):
        parser.error(f"{folder}: no *.csv there; name a folder of recorded loads")
    cases = list(product(PEAKS, DAYS))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(cases, pool.map(partial(episodes, folder), cases), strict=True))
    print("| cores of a service | days | episodes | a day |\n|---|---|---|---|")
    for peak in PEAKS:
        total = sum((found[peak, day] for day in DAYS), Counter[str]())
        named = ", ".join(f"{count} {name}" for name, count in sorted(total.items())) or "none"
        print(f"| {peak:g} | {len(DAYS)} | {named} | {total.total() / len(DAYS):.2f} |")


if __name__ == "__main__":
    main()
