"""Deployments whose pods' CPU usage is known for a day, by minute: from recorded or made-up series.

A deployment is some machine's series from some day on, at the time of day that it was recorded.
Its pods follow it, each a bit more or less than the others all day long, and with noise of its own.
Somebody has sized their requests by what they use on average, and is off by half or so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from koord_prediction.histogram import Floats, Rows

from bench.peak_loads import DAY, STEP

WARM_UP = 60
"""Minutes before the day, in which pods come and nobody moves them."""
MINUTES = WARM_UP + 1440
_LIMITS = (4.0, 5.0, 6.0)
"""Cores, each as frequent as the others."""
_LEAST_MEAN = 3.0
"""Per cent: machines that idle are nobody's deployment."""
_REPLICAS = 8
"""On average; two at least."""
_UNEVEN, _NOISE, _OFF = 0.25, 0.1, 0.5
"""Of logarithms: of usage between pods of a deployment, from minute to minute, and of requests."""
_REMEMBERED = 5
"""Minutes of the noise."""


class DayLoads(NamedTuple):
    """A row for each pod; ``usage`` by minute, and requests, in cores."""

    deployment: Rows
    request: Floats
    usage: Floats


def draw_loads(series: Floats, used: float, requested: float, seed: int) -> DayLoads:
    """As many pods as use so many cores on average over the day; all request so many together."""
    random = np.random.default_rng(seed)
    series = series[series.mean(axis=1) >= _LEAST_MEAN]
    deployment: list[int] = []
    usage: list[Floats] = []
    total, number = 0.0, 0
    while total < used:
        shape, limit = _shape(random, series) / 100, random.choice(_LIMITS)
        for _ in range(1 + int(random.geometric(1 / (_REPLICAS - 1)))):
            busy = shape * random.lognormal(0, _UNEVEN) * np.exp(_noise(random))
            usage.append(limit * np.minimum(busy, 1.0))
            deployment.append(number)
            total += float(usage[-1][WARM_UP:].mean())
        number += 1
    found = np.array(usage)
    request = found.mean(axis=1) * random.lognormal(0, _OFF, number)[deployment]
    request = np.clip(request * requested / request.sum(), 0.05, max(_LIMITS))
    return DayLoads(np.array(deployment), request, found)


def _shape(random: np.random.Generator, series: Floats) -> Floats:
    """A day of a series and the hour before, by minute, from five minutes to five minutes."""
    days = series.shape[1] // DAY
    begin = int(random.integers(1, days)) * DAY
    before = WARM_UP * 60 // STEP
    row = series[random.integers(len(series)), begin - before : begin + DAY + 1]
    times = np.arange(len(row)) * (STEP / 60)
    found: Floats = np.interp(np.arange(MINUTES), times, row)
    return found


def _noise(random: np.random.Generator) -> Floats:
    """Around 0, each minute remembering the ones before."""
    keep = float(np.exp(-1 / _REMEMBERED))
    fresh = random.normal(0, _NOISE * np.sqrt(1 - keep**2), MINUTES)
    return np.convolve(fresh, keep ** np.arange(10 * _REMEMBERED))[:MINUTES]
