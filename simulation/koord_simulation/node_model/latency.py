"""Latency of requests, from the load of the CPUs that a container uses. No IO.

``S`` is the time on an idle machine times what slows it down. On top comes waiting:

- **for a CPU**: as in a queue with ``c`` servers (Sakasegawa's approximation of M/M/c),
  ``W = S · ρ^(√(2(c+1))−1) / (c(1−ρ))``. ``c`` is how many CPUs the kernel looks at when a
  task wakes up, at most 8. ``ρ`` is how loaded they are as this container sees it: its own
  demand and that of its peers counts whole, that of groups of less weight less (by weight, but
  at least the machine's ``lingering``, 15 %; 3 % where they are idle or of identity −1).
- **for the next period**, where a quota stops it: demand within a period is taken as a part
  that is always there and one that is exponential (``burstiness``), so that
  ``P = exp(−(q/m − (1−b))/b)`` of the periods need more than quota q. What was saved up
  (``cpu.cfs_burst_us``) counts with the part that lies idle. Half a period on average, a whole
  one for the unlucky.
- **behind what was left over** from the seconds before, requests older than ten seconds being
  given up.

``W/S`` is also how long tasks wait for each second of CPU that they get, whatever the order in
which the kernel serves them (of exponential work the mean is that of processor sharing too). So
as many tasks wait at any time as CPUs are wanted, times ``W/S``; this is what the kernel adds up as
run delay, and what pressure is made of. Assumed are many independent tasks, arrivals at random and
work that varies exponentially: a container with few busy threads waits less.

The median is ``S + W``, the 99th percentile ``2.5 S + ln(100) W``, both plus the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from koord_prediction.histogram import Floats

PATIENCE_SECONDS = 10.0
_SEARCHED = 8
_MOST_BUSY = 0.99
_TAIL = 2.5
_UNLUCKY = float(np.log(100))
_PERIOD_MS = 100.0


class Latency(NamedTuple):
    """By container: milliseconds, and how many tasks wait for a CPU at any time."""

    p50: Floats
    p99: Floats
    waiting: Floats


def throttled(wanted: Floats, quota: Floats, burst: Floats, burstiness: Floats) -> Floats:
    """The part of periods in which each runs into its quota; all but the last in cores."""
    some = np.maximum(wanted, 1e-9)
    spare = np.maximum(1 - wanted / quota, 0.0)
    reach = (quota + burst * spare) / some
    spread = np.maximum(burstiness, 1e-3)
    with np.errstate(over="ignore"):
        part = np.exp(-(reach - (1 - spread)) / spread)
    return np.asarray(np.where(np.isfinite(quota) & (wanted > 1e-9), np.minimum(part, 1.0), 0.0))


def latency(
    service: Floats,
    load: Floats,
    cpus: Floats,
    wanted: Floats,
    throttle: Floats,
    behind: Floats,
) -> Latency:
    """Compute the latency.

    ``service`` is S in milliseconds, ``load`` is ρ, ``behind`` seconds of work left over in the
    container's own time.
    """
    servers = np.minimum(cpus, _SEARCHED)
    busy = np.minimum(load, _MOST_BUSY)
    queue = busy ** (np.sqrt(2 * (servers + 1)) - 1) / (servers * (1 - busy))
    rest = 1000 * np.minimum(behind, PATIENCE_SECONDS)
    p50 = service * (1 + queue) + throttle * _PERIOD_MS / 2 + rest
    p99 = service * (_TAIL + _UNLUCKY * queue) + np.minimum(10 * throttle, 1.0) * _PERIOD_MS + rest
    return Latency(p50, p99, np.minimum(wanted, cpus) * queue)
