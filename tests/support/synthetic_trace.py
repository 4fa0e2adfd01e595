"""A made-up trace of one node, not a measured one.

Its shape follows published findings about clusters that run services beside batch jobs:

- CPU of services goes up and down with the day, their memory hardly changes (Jiang et al.,
  "Characterizing Co-located Workloads in Alibaba Cloud Datacenters", IEEE TCC 2020, on
  Alibaba's cluster-trace-v2018 of 4034 machines);
- services run for long, batch jobs come, run hard and go (Cheng et al., "Characterizing
  Co-located Datacenter Workloads: An Alibaba Case Study", 2018, arXiv:1808.02919, who
  also cite 20-40% of capacity used in Google's cluster);
- most services use little of what they ask for, and those with a high mean have high
  peaks (Deng et al., "Resource Utilization Analysis of Alibaba Cloud", ICIC 2018).

The numbers that these say nothing of are ours: a service uses 10-45% of its CPU request on
average, 45-85% of its memory request, swings by 25-60% of its mean with the day, has noise
that lasts about half an hour, and a burst to up to three times its level in one step of 200.
On the third evening all services have half as much again to do for two hours. A job lives an
hour or so and uses 80-100% of its request. Three services are rolled out anew on the second
day, one leaks memory until it is restarted.

``synthetic.csv.gz`` is ``write(synthetic())``, gzipped. ``RandomState`` because numpy promises
that its numbers stay the same for ever.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from koord_model.priority import PriorityClass
from koord_prediction.amount import ResourceAmount
from koord_prediction.histogram import Floats
from koord_prediction.models import SYS
from koord_prediction.trace import COLUMNS, Trace, TracePod

STEP = 300.0
"""Seconds."""

_SEED = 20
_DAYS = 3
_DAY = 288
_SERVICES = 20
_JOBS = 60
_MIB = 2.0**20
_NOISE_STEPS = 6
_RUSH = 2 * 24 + 19
"""Hours from the start."""


class _Maker:
    """Columns one by one, from one sequence of random numbers."""

    def __init__(self) -> None:
        self.steps = np.arange(_DAYS * _DAY)
        self.pods: list[TracePod] = []
        self.cpu: list[Floats] = []
        self.memory: list[Floats] = []
        self._random = np.random.RandomState(_SEED)

    def service(self, index: int) -> None:
        """One that runs all the time; some are rolled out anew."""
        draw = self._random.uniform
        cores, gigabytes = float(self._random.choice([1, 2, 4])), self._random.choice([2, 4, 8])
        request = ResourceAmount(cores, float(gigabytes * 2**30))
        mean = cores * draw(0.10, 0.45)
        peak_hour = draw(13, 21)
        hours = self.steps * STEP / 3600
        day = 1 + draw(0.25, 0.60) * np.cos(2 * np.pi * (hours - peak_hour) / 24)
        rush = np.where((hours >= _RUSH) & (hours < _RUSH + 2), 1.5, 1.0)
        cpu = mean * day * rush * (1 + self._noise(0.12)) * self._bursts()
        memory = request.memory * draw(0.45, 0.85) * (1 + self._noise(0.01))
        if index == 0:
            since = self.steps % (2 * _DAY)
            memory = request.memory * (0.4 + 0.5 * since / (2 * _DAY))
        if index in (1, 2, 3):
            rolled = self.steps >= _DAY + 100 + 2 * index
            self._add(f"service-{index}-a", PriorityClass.PROD, request, cpu, memory, ~rolled)
            self._add(f"service-{index}-b", PriorityClass.PROD, request, cpu, memory, rolled)
        else:
            everywhere = np.ones(len(self.steps), dtype=bool)
            self._add(f"service-{index}", PriorityClass.PROD, request, cpu, memory, everywhere)

    def job(self, index: int) -> None:
        """One that comes, works and goes."""
        draw = self._random.uniform
        request = ResourceAmount(float(self._random.choice([1, 2])), 2.0 * 2**30)
        start = int(draw(0, len(self.steps) - 4))
        there = (self.steps >= start) & (self.steps < start + 3 + self._random.geometric(0.1))
        cpu = request.cpu * draw(0.8, 1.0, len(self.steps))
        memory = request.memory * draw(0.3, 0.9) * (1 + self._noise(0.05))
        self._add(f"job-{index}", PriorityClass.BATCH, request, cpu, memory, there)

    def system(self) -> None:
        """The kubelet, the runtime and the kernel."""
        cpu, memory = 0.4 * (1 + self._noise(0.15)), 1.5 * 2**30 * (1 + self._noise(0.02))
        everywhere = np.ones(len(self.steps), dtype=bool)
        self._add(SYS, PriorityClass.NONE, ResourceAmount(), cpu, memory, everywhere)

    def _noise(self, size: float) -> Floats:
        """Around 0, each step remembering the ones before."""
        keep = float(np.exp(-1 / _NOISE_STEPS))
        fresh = self._random.normal(0, size * np.sqrt(1 - keep**2), len(self.steps))
        noise = np.zeros(len(self.steps))
        for step in range(1, len(noise)):
            noise[step] = keep * noise[step - 1] + fresh[step]
        return np.maximum(noise, -0.9)

    def _bursts(self) -> Floats:
        happens = self._random.uniform(size=len(self.steps)) < 1 / 200
        return np.where(happens, self._random.uniform(1.2, 3.0, len(self.steps)), 1.0)

    def _add(
        self,
        name: str,
        priority: PriorityClass,
        request: ResourceAmount,
        cpu: Floats,
        memory: Floats,
        there: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    ) -> None:
        most = request.memory or np.inf
        self.pods.append(TracePod(name, priority, request))
        self.cpu.append(np.where(there, np.round(cpu, 3), np.nan))
        whole = np.round(np.minimum(memory, most) / (4 * _MIB)) * 4 * _MIB
        self.memory.append(np.where(there, whole, np.nan))


def synthetic() -> Trace:
    """Three days at five minutes of 20 services and 60 jobs; the same each time."""
    maker = _Maker()
    maker.system()
    for index in range(_SERVICES):
        maker.service(index)
    for index in range(_JOBS):
        maker.job(index)
    return Trace(
        np.asarray(maker.steps * STEP, dtype=np.float64),
        STEP,
        tuple(maker.pods),
        np.column_stack(maker.cpu),
        np.column_stack(maker.memory),
    )


def write(trace: Trace) -> Iterator[str]:
    """The trace as lines of CSV, in time order; what was not measured has no row."""
    yield ",".join(COLUMNS) + "\n"
    for index, time in enumerate(trace.times):
        for column, pod in enumerate(trace.pods):
            cpu, memory = trace.cpu[index, column], trace.memory[index, column]
            if not (np.isnan(cpu) or np.isnan(memory)):
                yield (
                    f"{time:.10g},{_quoted(pod.name)},{pod.priority},{pod.request.cpu:.10g},"
                    f"{pod.request.memory:.0f},{cpu:.10g},{memory:.0f}\n"
                )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if set(name) & set(',"\r\n') else name
