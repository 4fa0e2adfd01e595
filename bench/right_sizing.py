"""Do requests by our recommendations save as much as VPA's, with no more out-of-memory kills?

Recorded machines stand for workloads of one container. Each hour both recommenders give a target
from what the machine has used so far; it is applied as the manager applies it, with its threshold
of 10 %, and undone after a kill as the manager does it. The memory limit keeps its proportion to
the request. A sample above the limit is a kill. Requests start as large as the machine, and count
from the second day on. Slack is the part of what is requested that is not used, of all together;
Autopilot's jobs had 23 %, and 46 % those that people sized (Rzadca et al., EuroSys 2020).

The loads are not part of the project: GWA-T-12 by Bitbrains, a folder of the archive "rnd" with a
file for each machine and a line every five minutes, which has CPU and memory.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from koord_manager.recommendation.core.recommender import Recommender
from koord_manager.resize.core import floors
from koord_manager.resize.core.desired import LIMITS, ResizableResources, desired
from koord_manager.resize.core.floors import Floors
from koord_manager.resize.core.policy import ContainerResizePolicy
from koord_manager.resize.core.record import lowered
from koord_model.demand import Amounts
from koord_model.keys import CPU, MEMORY
from koord_prediction.amount import ResourceAmount
from koord_prediction.histogram import Floats, Rows

from bench import report
from bench.vpa_recommender import VpaRecommender

STEP, HOUR, DAY = 300, 12, 288
_LEAST_BYTES = 64 * 2.0**20
"""Machines that use less on average are nobody's workload."""
_START = 1_375_315_200.0
_WHY = "a limit is the most that was used, VPA's p90 of daily peaks, which kills more often"
PROPORTIONS = (1.0, 1.5)
"""Memory limits, in requests."""


@dataclass(frozen=True)
class Machines:
    """A row each, a column every five minutes: cores and bytes used, and what there is."""

    cpu: Floats
    memory: Floats
    cores: Floats
    bytes: Floats


class Rule(Protocol):
    """A recommender of all machines."""

    def learn(self, cpu: Floats, memory: Floats, at: float) -> None: ...

    def killed(self, machine: int, limit: float, before: Amounts, at: float) -> None: ...

    def target(self, machine: int, at: float) -> Amounts: ...

    def floors_of(self, machine: int, at: float) -> Amounts: ...


@dataclass
class Outcome:
    """Sums over machines and steps; ``killed`` are machines with a kill."""

    requested: Floats = field(default_factory=lambda: np.zeros(2))
    used: Floats = field(default_factory=lambda: np.zeros(2))
    kills: int = 0
    killed: set[int] = field(default_factory=set)
    short: int = 0
    samples: int = 0

    @property
    def slack(self) -> Floats:
        """Per cent of CPU and memory that is requested and not used."""
        found: Floats = 100 * (1 - self.used / self.requested)
        return found


class Ours:
    """The manager's recommender, and its memory of what did harm."""

    def __init__(self, machines: int) -> None:
        self._recommender = Recommender()
        self._names = [str(number) for number in range(machines)]
        self._floors: dict[int, Floors] = {}

    def learn(self, cpu: Floats, memory: Floats, at: float) -> None:
        rows = zip(self._names, cpu.tolist(), memory.tolist(), strict=True)
        samples = [(name, "c", ResourceAmount(cores, used)) for name, cores, used in rows]
        self._recommender.learn(samples, at)

    def killed(self, machine: int, limit: float, before: Amounts, at: float) -> None:
        self._recommender.killed(self._names[machine], "c", int(limit), at)
        if before:
            known = self._floors.get(machine, {})
            self._floors[machine] = floors.with_undone(known, {"c": before}, at)

    def target(self, machine: int, at: float) -> Amounts:
        [advice] = self._recommender.advise(self._names[machine], at, ["c"])
        return {
            CPU: round(advice.request.cpu * 1000),
            MEMORY: round(advice.request.memory),
            LIMITS + MEMORY: round(advice.limit.memory),
        }

    def floors_of(self, machine: int, at: float) -> Amounts:
        known = self._floors.get(machine, {}).get("c")
        return known.least if known and known.until > at else {}


class Vpa:
    """VPA's recommender."""

    def __init__(self, machines: int) -> None:
        self._recommender = VpaRecommender(machines, _START)
        self._targets: tuple[float, Floats, Floats] = (0.0, np.zeros(0), np.zeros(0))

    def learn(self, cpu: Floats, memory: Floats, at: float) -> None:
        self._recommender.learn(cpu, memory, at)

    def killed(self, machine: int, limit: float, before: Amounts, at: float) -> None:
        self._recommender.killed(machine, limit)
        self._targets = (0.0, np.zeros(0), np.zeros(0))

    def target(self, machine: int, at: float) -> Amounts:
        if self._targets[0] != at:
            self._targets = at, *self._recommender.targets()
        _, cpu, memory = self._targets
        return {CPU: round(cpu[machine] * 1000), MEMORY: round(memory[machine])}

    def floors_of(self, machine: int, at: float) -> Amounts:
        return {}


def read(folder: Path, most: int) -> Machines:
    """Machines whose recording is whole, by the numbers of their files."""
    found: list[tuple[Floats, Floats, float, float]] = []
    files = sorted(folder.glob("*.csv"), key=lambda file: int(file.stem))
    for file in files:
        with file.open() as lines:
            next(lines)
            rows = [line for line in csv.reader(lines, delimiter=";") if len(line) > 6]
        columns = np.array([[float(row[at]) for at in (1, 4, 5, 6)] for row in rows]).T
        if columns.shape[0] != 4 or columns[3].mean() * 1024 < _LEAST_BYTES:
            continue
        cores, percent, capacity, used = columns
        found.append((cores * percent / 100, used * 1024, cores[0], capacity.max() * 1024))
        if len(found) == most:
            break
    length = int(np.median([len(machine_load[0]) for machine_load in found])) // DAY * DAY
    whole = [machine_load for machine_load in found if len(machine_load[0]) >= length]
    return Machines(
        np.array([machine_load[0][:length] for machine_load in whole]),
        np.array([machine_load[1][:length] for machine_load in whole]),
        np.array([machine_load[2] for machine_load in whole]),
        np.array([machine_load[3] for machine_load in whole]),
    )


def run(machines: Machines, rule: Rule, proportion: float) -> Outcome:
    """Replay all samples; the limit of memory is ``proportion`` times its request."""
    outcome = Outcome()
    policy = ContainerResizePolicy()
    present = [
        _resources(cores, memory, proportion)
        for cores, memory in zip(machines.cores, machines.bytes, strict=True)
    ]
    before: list[ResizableResources | None] = [None] * len(present)
    for step in range(machines.cpu.shape[1]):
        at = _START + step * STEP
        cpu, memory = machines.cpu[:, step], machines.memory[:, step]
        limits = np.array([given.limits[MEMORY] for given in present])
        killed = np.flatnonzero(memory > limits) if step >= DAY else np.zeros(0, dtype=np.intp)
        # What a container uses beyond its limit is not seen, it is killed at it.
        rule.learn(cpu, np.minimum(memory, limits) if step >= DAY else memory, at)
        if step < DAY:
            continue
        _count(outcome, cpu, memory, present, killed)
        for machine in killed.tolist():
            had = before[machine] or present[machine]
            held = {
                name: amount
                for name, amount in lowered(had, present[machine]).items()
                if MEMORY in name
            }
            rule.killed(machine, float(limits[machine]), held, at)
        due = range(len(present)) if step % HOUR == 0 else killed.tolist()
        for machine in due:
            target, least = rule.target(machine, at), rule.floors_of(machine, at)
            after = desired(present[machine], target, policy, least)
            if after != present[machine]:
                before[machine], present[machine] = present[machine], after
    return outcome


def _resources(cores: float, memory: float, proportion: float) -> ResizableResources:
    requests = {CPU: int(cores * 1000), MEMORY: int(memory)}
    return ResizableResources(requests, {MEMORY: int(memory * proportion)})


def _count(
    outcome: Outcome,
    cpu: Floats,
    memory: Floats,
    present: Sequence[ResizableResources],
    killed: Rows,
) -> None:
    requests = np.array([(given.requests[CPU] / 1000, given.requests[MEMORY]) for given in present])
    outcome.requested += requests.sum(axis=0)
    outcome.used += np.minimum(np.array([cpu, memory]).T, requests).sum(axis=0)
    outcome.kills += len(killed)
    outcome.killed |= set(killed.tolist())
    outcome.short += int((cpu > requests[:, 0]).sum())
    outcome.samples += len(cpu)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.right_sizing", description=__doc__)
    parser.add_argument("--loads", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--machines", type=int, default=60)
    given = parser.parse_args(arguments)
    machines = read(given.loads, given.machines)
    found = {
        proportion: {
            "ours": run(machines, Ours(len(machines.cores)), proportion),
            "VPA": run(machines, Vpa(len(machines.cores)), proportion),
        }
        for proportion in PROPORTIONS
    }
    days = machines.cpu.shape[1] // DAY
    lines = {"as provisioned": _provisioned(machines)}
    lines |= dict(_lines(found, (days - 1) * len(machines.cores)))
    for line in lines.items():
        print(*line, sep=": ")
    settings = {"machines": len(machines.cores), "days": days, **lines}
    report.write(list(_measures(found)), "right_sizing", settings)


def _provisioned(machines: Machines) -> str:
    """Slack before anything is resized, over the same time."""
    cpu = 1 - machines.cpu[:, DAY:].mean(axis=1).sum() / machines.cores.sum()
    memory = 1 - machines.memory[:, DAY:].mean(axis=1).sum() / machines.bytes.sum()
    return f"slack {100 * cpu:.1f} % of CPU, {100 * memory:.1f} % of memory"


def _lines(found: Mapping[float, Mapping[str, Outcome]], days: int) -> Iterator[tuple[str, str]]:
    for proportion, by_rule in found.items():
        for rule, outcome in by_rule.items():
            cpu, memory = outcome.slack
            rate, short = 1000 * outcome.kills / days, 100 * outcome.short / outcome.samples
            parts = (
                f"slack {cpu:.1f} % of CPU, {memory:.1f} % of memory",
                f"{outcome.kills} kills ({rate:.1f} in 1,000 days of a machine)",
                f"{len(outcome.killed)} machines with one",
                f"{short:.1f} % of samples use more CPU than requested",
            )
            yield f"{rule}, limit {proportion:g} × request", "; ".join(parts)


def _measures(found: Mapping[float, Mapping[str, Outcome]]) -> Iterator[report.Measure]:
    for proportion, by_rule in found.items():
        ours, vpa = by_rule["ours"], by_rule["VPA"]
        about = f"limit {proportion:g} × request"
        for number, name in enumerate(("CPU", "memory")):
            pair = float(ours.slack[number]), float(vpa.slack[number])
            missed = "" if pair[0] <= pair[1] else _WHY
            yield report.Measure(
                f"slack of {name}, {about}", "%", pair[0], "VPA", pair[1], 1.0, missed
            )
        yield report.Measure(f"kills, {about}", "", ours.kills, "VPA", vpa.kills, 1.0)


if __name__ == "__main__":
    main()
