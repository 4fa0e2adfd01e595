"""One run: the checks, then faults amid churn for so long, then what programs say of themselves."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.chaos_whole.checks import checks
from tests.chaos_whole.faults import Fault, faults
from tests.chaos_whole.population import Population
from tests.chaos_whole.report import Report
from tests.chaos_whole.whole import Whole, whole

PODS = 20
REPLACED = 3
"""Pods that come and go as a fault strikes, and as many while it does its work."""
LIMIT = 180.0
"""Seconds after which every pod must be right again."""
DEFECTS = ("Traceback", '"message":"defect')
"""In logs. That an API server which has just started forbids what it knows no rights of is none."""


def run(seconds: float, seed: int, *, pods: int = PODS, outage: float = 30.0) -> Report:
    """Check, then strike with each fault once at least, and for so long."""
    began = time.monotonic()

    def say(what: str) -> None:
        sys.stderr.write(f"{time.monotonic() - began:5.0f} s: {what}\n")

    with whole(say) as running:
        one = _Run(running, random.Random(seed), say)
        one.check()
        one.suffer(seconds, pods, outage)
        one.look_for_defects()
        return one.report


class _Run:
    def __init__(self, running: Whole, chance: random.Random, say: Callable[[str], None]) -> None:
        self._whole, self._chance, self._say = running, chance, say
        self._population = Population(running.api, running.machine)
        self.report = Report()

    def check(self) -> None:
        """Each check, whatever became of those before it."""
        for name, check in checks(self._whole, self._population).items():
            self._say(name)
            since = time.monotonic()
            with self._held_against_it(name):
                check()
            self.report.checks[name] = time.monotonic() - since
            with self._held_against_it(f"{name}: cleaning up"):
                self._population.clear()

    def suffer(self, seconds: float, pods: int, outage: float) -> None:
        """Each fault, in the order of their table; then any, until the time is over."""
        with self._held_against_it("before the first fault"):
            self._population.fill(pods)
            self._population.settle(f"{pods} pods are right")
        all_faults = faults(self._whole, outage)
        end = time.monotonic() + seconds
        for name, fault in all_faults.items():
            self._strike(name, fault)
        while time.monotonic() < end:
            name = self._chance.choice([*all_faults])
            self._strike(name, all_faults[name])

    def look_for_defects(self) -> None:
        running = self._whole
        for program in (running.proxy, running.koordlet, running.manager, running.scheduler):
            lines = program.said.splitlines()
            found = [line for line in lines if any(one in line for one in DEFECTS)]
            self.report.wrong += [f"{program.name} says: {line[:500]}" for line in found[:3]]

    def _strike(self, name: str, fault: Fault) -> None:
        self._say(name)
        with self._held_against_it(name):
            self._population.replace(self._chance, REPLACED)
            since = time.monotonic()
            fault()
            self._population.replace(self._chance, REPLACED)
            self.report.replaced += 2 * REPLACED
            taken = self._population.seconds_until_right(since, LIMIT)
            self.report.faults[name].append(taken)
            self.report.rejected = self._population.rejected

    @contextmanager
    def _held_against_it(self, what: str) -> Iterator[None]:
        """Whatever goes wrong is a line of the report, and the run goes on."""
        try:
            yield
        except Exception as error:
            line = f"{what}: {type(error).__name__}: {' '.join(str(error).split())[:1500]}"
            self._say(f"WRONG: {line}")
            self.report.wrong.append(line)
