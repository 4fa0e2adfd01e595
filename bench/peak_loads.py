"""Pods whose CPU usage is known for days: recorded series, or made-up ones, as pods come and go.

A series is what a virtual machine used of its CPUs, in per cent, every five minutes for some days.
A pod is a part of a series, and begins at the time of day that it is in the simulation: what rises
together in the morning does so here. Its limit are the CPUs; its request is a part of that, which
is the same for all pods of a family, so that all of them together use half of what they request.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from koord_prediction.histogram import Floats, Rows

STEP = 300
"""Seconds."""
DAY = 86_400 // STEP
"""Steps."""

_SIZES = (1.0, 2.0, 4.0, 8.0)
"""Limits of pods, cores; each as frequent as the others."""
_USED = 0.5
"""Part of all pods' requests; around the numbers that Google and Alibaba published."""
_OFF = 0.5
"""Of the logarithm of a request that somebody sized."""
_SIGMA = 1.5
"""Of the logarithm of how long pods run: many are short, and a few hold most of the CPUs."""
_MADE_UP, _MADE_UP_DAYS = 200, 7
_NOISE_STEPS = 6


@dataclass(frozen=True)
class PodsOverTime:
    """Pods in the order in which they arrive, a row each.

    ``arrives`` and ``lasts`` are in steps: a pod that waits ends later. ``request``, ``limit`` and
    ``usage`` are in cores; ``usage`` is by the step of the simulation, whether or not it runs then.
    """

    arrives: Rows
    lasts: Rows
    request: Floats
    limit: Floats
    usage: Floats

    @property
    def steps(self) -> int:
        """Length of the simulation in steps."""
        return int(self.usage.shape[1])


def read_series(file: Path) -> Floats:
    """A row for each series: a .csv.gz with a column for each, and a line every five minutes."""
    with gzip.open(file, "rt") as lines:
        next(lines)
        found = np.array([[float(one) for one in line] for line in csv.reader(lines)]).T
    return found[:, : found.shape[1] // DAY * DAY]


def made_up_series(seed: int) -> Floats:
    """Services that are busy by day, and jobs that run hard for hours: not recorded.

    The shape is that of ``tests.support.synthetic_trace``, which names the findings behind it. Of
    its CPUs a service uses 10 to 45 % on average, 25 to 60 % more or less with the day, most in
    the afternoon, with noise of half an hour and bursts. One series in five is a job that works in
    half of the hours.
    """
    random = np.random.default_rng(seed)
    steps = np.arange(_MADE_UP_DAYS * DAY)
    shape = (_MADE_UP, len(steps))
    mean = random.uniform(10, 45, (_MADE_UP, 1))
    hour = random.uniform(13, 21, (_MADE_UP, 1))
    day = np.cos(2 * np.pi * (steps * STEP / 3600 - hour) / 24)
    services = mean * (1 + random.uniform(0.25, 0.6, (_MADE_UP, 1)) * day)
    services *= np.where(random.uniform(size=shape) < 1 / 200, random.uniform(1.2, 3, shape), 1)
    works = random.uniform(size=(_MADE_UP, len(steps) // 12)).repeat(12, axis=1) < 0.5
    jobs = np.where(works, 80.0, 1.0)
    is_job = random.uniform(size=(_MADE_UP, 1)) < 0.2
    found: Floats = np.where(is_job, jobs, services) * (1 + _noise(random, shape, 0.12))
    return np.clip(found, 0.0, 100.0)


def draw_pods(
    series: Floats,
    days: int,
    requested: float,
    median_hours: float,
    seed: int,
    *,
    is_sized: bool = False,
) -> PodsOverTime:
    """Pods for some days that request about so many cores at any time after the first day.

    The first ones arrive over that day, and last as what runs at a time does: longer than what
    arrives. The others arrive as these end, four times as many by day as by night. With
    ``is_sized`` a request is not a fixed part of the limit: somebody has looked at what the pod
    uses on average, and is off by half or so.
    """
    random = np.random.default_rng(seed)
    part = series.mean() / 100 / _USED
    running = round(requested / (part * float(np.mean(_SIZES))))
    steps, log_median = days * DAY, np.log(median_hours * 3600 / STEP)
    first = random.integers(DAY, size=running)
    # What runs at a time is drawn by how long it lasts, and is on average half through.
    first_lasts = random.lognormal(log_median + _SIGMA**2, _SIGMA, running)
    first_lasts *= random.uniform(size=running)
    rate = running / np.exp(log_median + _SIGMA**2 / 2)
    by_day = 1 + 0.6 * np.cos(2 * np.pi * (np.arange(steps) / DAY - 14 / 24))
    later = np.repeat(np.arange(steps), random.poisson(rate * by_day))
    arrives = np.concatenate([first, later])
    lasts = np.concatenate([first_lasts, random.lognormal(log_median, _SIGMA, len(later))])
    order = np.argsort(arrives, kind="stable")
    limit = random.choice(_SIZES, len(order))
    usage = limit[:, None] / 100 * _parts(random, series, len(order), steps)
    request = limit * part
    if is_sized:
        off = random.lognormal(-(_OFF**2) / 2, _OFF, len(order))
        request = np.clip(usage.mean(axis=1) / _USED * off, limit / 100, limit)
    lasts = np.clip(np.ceil(lasts[order]), 1, steps).astype(np.intp)
    return PodsOverTime(arrives[order], lasts, request, limit, usage)


def _parts(random: np.random.Generator, series: Floats, count: int, steps: int) -> Floats:
    """Of each pod a series from some day on; after its last day it goes on with its first."""
    length = series.shape[1]
    which = random.integers(len(series), size=count)
    begins = random.integers(length // DAY, size=count) * DAY
    found = np.empty((count, steps))
    for row, (one, begin) in enumerate(zip(which, begins, strict=True)):
        found[row] = series[one, (begin + np.arange(steps)) % length]
    return found


def _noise(random: np.random.Generator, shape: tuple[int, int], size: float) -> Floats:
    """Around 0, each step remembering the ones before."""
    keep = float(np.exp(-1 / _NOISE_STEPS))
    fresh = random.normal(0, size * np.sqrt(1 - keep**2), shape)
    for step in range(1, shape[1]):
        fresh[:, step] += keep * fresh[:, step - 1]
    return np.maximum(fresh, -0.9)
