"""Units that Defragmentation frees for its moves, beside simple rules: clusters of openb's traces.

A cluster is filled to 90 % of its GPUs; then pods leave and come in three waves
(``defragmentation_states``). A demand is what does not fit without moves: free units are taken
first, and those that a plan gains at once. Beside it are three rules (``defragmentation_rules``):
fewest victims first with BestFit, KAI's search as it is, and Koordinator's FragmentationAware.
Half of the pods have disruption budgets. For "gangs of four" a fifth of the pods are in gangs that
run, and only whole gangs that could start count. Each plan is carried out again, move by move: a
pod leaves only when its new room is free, and the units are there in the end.

The traces are not part of the project: a folder as for ``bench.gpu_fragmentation``. Name it by
--traces or PYKOORD_GPU_TRACES.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from koord_descheduler.plugins.defragmentation.goals import DefragmentationGoal
from koord_descheduler.plugins.defragmentation.packing import Packing
from koord_descheduler.plugins.defragmentation.search import SearchLimits, search
from koord_descheduler.plugins.defragmentation.steps import SearchStep

from bench import report
from bench.defragmentation_rules import (
    LITERAL_SECONDS,
    Task,
    Trace,
    fewest_victims,
    fragmentation_aware,
    kai_literal,
    most_units,
)
from bench.defragmentation_states import FILLS, GANG, IN_GANGS, TraceCluster, TraceDemand

TRACES = ("default", "cpu100", "gpushare40", "multigpu20")
SEEDS = (21,)
"""The search was tuned with others: 11, and the last two traces alone."""
MOVES = (10, 50, 200)
OURS, BOUND = "Defragmentation", "bound"
RULES: Mapping[str, Callable[[Task], Trace]] = {
    "fewest victims": fewest_victims,
    "KAI": kai_literal,
    "FragmentationAware": fragmentation_aware,
}
TARGETS = (
    ("CPU-bound gang", 10, 1.4),
    ("usable cards", 10, 1.4),
    ("cards", 200, 1.25),
    ("usable cards", 200, 1.25),
    ("gangs of four", 10, 1.4),
    ("whole nodes", 200, 0.98),
)


@dataclass(frozen=True)
class DefragmentationRun:
    """Units of one method at each number of moves, on one cluster; ``seconds`` are of CPU."""

    units: tuple[float, ...]
    seconds: float = 0.0


Runs = dict[str, dict[str, list[DefragmentationRun]]]
"""By demand and method, one for each cluster."""


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.defragmentation", description=__doc__)
    parser.add_argument("--traces", type=Path, default=os.environ.get("PYKOORD_GPU_TRACES"))
    parser.add_argument("--only", nargs="+", default=TRACES, help="these traces")
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--keep", action="store_true", help="write the results")
    given = parser.parse_args(arguments)
    if given.traces is None:
        print("defragmentation: left out; PYKOORD_GPU_TRACES names no folder with traces")
        return
    runs: Runs = {}
    for trace in given.only:
        cluster = TraceCluster(Path(given.traces), trace)
        for fill in FILLS:
            for seed in given.seeds:
                _run_all(cluster, f"{trace}, {fill}, {seed}", fill, seed, runs)
    measures = _measures(runs)
    print(report.table(measures))
    if given.keep:
        count = len(given.only) * len(FILLS) * len(given.seeds)
        about = f"{', '.join(given.only)}; fills {', '.join(FILLS)}; seeds {given.seeds}"
        notes = {
            "clusters": f"{count}: {about}",
            "KAI": f"stops after {LITERAL_SECONDS:g} s of CPU",
        }
        report.write(measures, "defragmentation", {**notes, **_lines(runs)})
        _plot(runs)


def _run_all(cluster: TraceCluster, name: str, fill: str, seed: int, runs: Runs) -> None:
    state = cluster.state(fill, seed)
    for about, demand in cluster.demands().items():
        by_method = runs.setdefault(about, {})
        task = Task(_ready(state, demand), demand.goal, max(MOVES), demand.units)
        bounds = tuple(most_units(task._replace(moves=moves)) // demand.members for moves in MOVES)
        by_method.setdefault(BOUND, []).append(DefragmentationRun(bounds))
        by_method.setdefault(OURS, []).append(_ours(state, demand))
        for rule, plan in RULES.items():
            task = task._replace(packing=_ready(state, demand))
            begin = time.process_time()
            trace = plan(task)
            seconds = time.process_time() - begin
            units = _at(trace, demand.members)
            by_method.setdefault(rule, []).append(DefragmentationRun(units, seconds))
        last = {
            method: (of[-1].units, round(of[-1].seconds, 2)) for method, of in by_method.items()
        }
        print(name, about, last, flush=True)


def _ours(state: Packing, demand: TraceDemand) -> DefragmentationRun:
    packing, goal = _ready(state, demand), demand.goal
    begin = time.process_time()
    steps = search(packing, goal, SearchLimits(max(MOVES), demand.units))
    seconds = time.process_time() - begin
    _carry_out(_ready(state, demand), goal, steps)
    trace, moves, gained = Trace(), 0, 0
    for step in steps:
        moves, gained = moves + len(step.moves), gained + step.units
        trace.append((moves, gained))
    return DefragmentationRun(_at(trace, demand.members), seconds)


def _ready(state: Packing, demand: TraceDemand) -> Packing:
    """A copy in which free units are taken, and pods of gangs stay."""
    goal = demand.goal
    found = Packing(
        state.total, state.total_cards, state.places, state.budgets, max(state.pods) + 1
    )
    for number, place in sorted(state.pods.items()):
        found.add(number, *place)
        if demand.has_gangs and number % IN_GANGS < GANG:
            found.freeze(number)
    for node in range(len(found.on)):
        goal.take(found, node, goal.units_on(found, node))
    return found


def _carry_out(packing: Packing, goal: DefragmentationGoal, steps: Sequence[SearchStep]) -> None:
    """Make all moves one by one; a pod leaves when its new room is free.

    Raises:
        RuntimeError: a move or a unit is not as planned.
    """
    for step in steps:
        for move in step.moves:
            pod, node, _ = packing.pods[move.pod]
            has_room = packing.fits(pod.needs, np.array([move.target]))[0]
            is_open = not packing.closed[move.target]
            if node != move.source or not (is_open and has_room and packing.may_leave(move.pod)):
                raise RuntimeError(f"{move} of {step} cannot be made as planned")
            packing.evict(move.pod)
            packing.add(move.pod, pod, move.target, packing.cards_for(pod.needs, move.target))
        if goal.units_on(packing, step.node) < step.units:
            raise RuntimeError(f"{step} did not gain its units")
        goal.take(packing, step.node, step.units)


def _at(trace: Trace, members: int) -> tuple[float, ...]:
    return tuple(
        max((units // members for made, units in trace if made <= most), default=0)
        for most in MOVES
    )


def _mean(runs: Sequence[DefragmentationRun], place: int) -> float:
    return float(statistics.mean(run.units[place] for run in runs))


def _best(by_method: Mapping[str, list[DefragmentationRun]], place: int) -> float:
    """The mean of the best of the three rules on each cluster."""
    columns = zip(*(by_method[rule] for rule in RULES), strict=True)
    return float(statistics.mean(max(run.units[place] for run in column) for column in columns))


def _measures(runs: Runs) -> list[report.Measure]:
    """Moves for each unit, so that less is better."""
    found = []
    for demand, moves, target in TARGETS:
        place = MOVES.index(moves)
        ours, best = _mean(runs[demand][OURS], place), _best(runs[demand], place)
        name = f"{demand} at {moves} moves, moves a unit"
        ratio = round(1 / target, 3)
        found.append(report.Measure(name, "", moves / ours, "best rule", moves / best, ratio))
    for moves in (50, 200):
        place = MOVES.index(moves)
        ours, bound = (_mean(runs["empty nodes"][method], place) for method in (OURS, BOUND))
        name = f"empty nodes at {moves} moves, moves a unit"
        ratio = round(1 / 0.95, 3)
        found.append(report.Measure(name, "", moves / ours, BOUND, moves / bound, ratio))
    slowest = max(run.seconds for by_method in runs.values() for run in by_method[OURS])
    return [*found, report.Measure("slowest plan, CPU", "s", slowest, "", None, 5.0)]


def _lines(runs: Runs) -> dict[str, object]:
    """A line for each demand and method: units at each number of moves."""
    at = ", ".join(map(str, MOVES))
    return {
        f"{demand}, {method}": f"{', '.join(f'{_mean(of, place):.1f}' for place in range(3))} "
        f"units at {at} moves, {statistics.mean(run.seconds for run in of):.1f} s of CPU"
        for demand, by_method in runs.items()
        for method, of in by_method.items()
    }


def _plot(runs: Runs) -> None:
    """Units at each number of moves, mean and all clusters."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(1, len(runs), figsize=(19, 4), layout="constrained")
    for axes, (demand, by_method) in zip(places, runs.items(), strict=True):
        methods = [method for method in by_method if method != BOUND]
        width = 0.8 / len(methods)
        for number, method in enumerate(methods):
            means = [_mean(by_method[method], place) for place in range(len(MOVES))]
            lefts = np.arange(len(MOVES)) + number * width
            axes.bar(lefts, means, width, label=method)
            for place, left in enumerate(lefts):
                each = [run.units[place] for run in by_method[method]]
                axes.plot([left] * len(each), each, "k.", markersize=2)
        axes.set_xticks(np.arange(len(MOVES)) + 0.4 - width / 2, map(str, MOVES))
        axes.set(title=demand, xlabel="moves", yscale="symlog")
        axes.spines[["top", "right"]].set_visible(False)
    places[0].set_ylabel("units gained")
    handles, labels = places[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, ncols=4, loc="outside upper center")
    figure.savefig(report.RESULTS / "defragmentation.png", dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
