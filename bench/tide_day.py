"""A simulated day: nodes of a TideNodePool go between services and batch jobs.

Services follow the hours of a day, each minute the product's plan has nodes change sides, and batch
jobs without end take what is offline. Beside it a static split, which has to be made for the peak.
``python -m bench.tide_day``; ``--keep`` writes bench/results/tide_day.md.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from koord_descheduler.tide.core.node_marks import Side

from bench import report
from tests.descheduler.tide.tide_world import App, TideWorld

NODES, CORES = 40, 16
LOW, HIGH = 60, 80
_MINUTES = 24 * 60
_SERVICES = 20
_PEAK, _TROUGH = 0.70, 0.25
"""Parts of all CPUs that services request by day and by night."""
_BATCH_CORES = 4


class TideDay(NamedTuple):
    """Results of a day; ``moves`` are of all nodes, ``most`` of the node with the most."""

    batch: float
    static: float
    moves: int
    most: int
    waited: float
    evicted: int


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tide_day", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=(1, 2, 3))
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args(arguments or None)
    lines = list(_lines([(seed, run_day(seed)) for seed in given.seeds]))
    print("\n".join(lines))
    if given.keep:
        (report.RESULTS / "tide_day.md").write_text("\n".join(lines) + "\n")


def run_day(seed: int) -> TideDay:
    """One day, after an hour in which nodes find their sides."""
    chance = random.Random(seed)
    strategy = {"type": "watermark", "watermark": {"low": LOW, "high": HIGH}}
    reserve = {"online": "20%", "offline": 1}
    world = TideWorld(NODES, CORES, nodeConfigs={"reserve": reserve}, evictStrategy=strategy)
    phases = [chance.gauss(0, 0.5) for _ in range(_SERVICES)]
    for number in range(_SERVICES):
        world.apps[f"s{number}"] = App(chance.choice(["500m", "1", "2"]), 0, disruptions=2)
    world.apps["batch"] = App(str(_BATCH_CORES), NODES * CORES // _BATCH_CORES, Side.OFFLINE)
    batch = waited = peak = 0.0
    started = world.now
    for minute in range(-60, _MINUTES):
        requested = _scale(world, phases, minute / 60, chance)
        world.step()
        if minute >= 0:
            peak = max(peak, requested)
            waiting = len(world.waiting(Side.OFFLINE))
            batch += (len(world.apps["batch"].names) - waiting) * _BATCH_CORES / 60
            waited += len(world.waiting()) / 60
        else:
            started = world.now
    online = math.ceil(peak / (CORES * HIGH / 100))
    moves = Counter(name for at, name, _ in world.changes if at > started)
    most = max(moves.values(), default=0)
    static = (NODES - online) * CORES * 24.0
    return TideDay(batch, static, moves.total(), most, waited, world.evicted)


def _scale(world: TideWorld, phases: list[float], hour: float, chance: random.Random) -> float:
    """Give services the replicas of an hour, each every five minutes; returns their CPUs."""
    requested = 0.0
    for number, phase in enumerate(phases):
        app = world.apps[f"s{number}"]
        cores = 0.5 if app.cpu == "500m" else float(app.cpu)
        if round(hour * 60) % 5 == number % 5:
            day = (1 - math.cos(2 * math.pi * (hour - phase - 3) / 24)) / 2
            share = (_TROUGH + (_PEAK - _TROUGH) * day) * chance.gauss(1, 0.02)
            app.replicas = max(1, round(share * NODES * CORES / _SERVICES / cores))
        requested += app.replicas * cores
    return requested


def _lines(days: list[tuple[int, TideDay]]) -> list[str]:
    rows = [
        f"| {seed} | {day.batch:.0f} | {day.static:.0f} | {day.batch / day.static:.1f} | "
        f"{day.moves / NODES:.1f} | {day.most} | {day.waited:.1f} | {day.evicted} |"
        for seed, day in days
    ]
    return [
        "# A day of a TideNodePool",
        "",
        (
            f"{NODES} nodes of {CORES} CPUs; services request {_TROUGH:.0%} to {_PEAK:.0%}; "
            f"low {LOW}, high {HIGH}, cool-down 15 minutes. `python -m bench.tide_day`."
        ),
        "",
        (
            "| seed | core-hours for batch jobs | with a static split for the peak | times "
            "| moves per node | most of one | pod-hours that services waited | evictions |"
        ),
        "|---|---|---|---|---|---|---|---|",
        *rows,
    ]


if __name__ == "__main__":
    main()
