"""Inputs for decaying histograms: samples over time, now and then on top of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Object = dict[str, Any]

NUMBER = 1500
_START = 1_700_000_000


def one(random: Random) -> Object:
    """One input."""
    memory = random.random() < 0.5
    halflife = random.choice((60, 3600, 43200, 86400))
    at, samples = _START + random.randint(0, 10**6), []
    common = _value(random, memory)
    for _ in range(random.choice((0, 1, 2, 10, 20, 40))):
        at += random.choice((0, 1, 60, halflife // 2, halflife, 7 * halflife, 101 * halflife))
        if random.random() < 0.95:
            at -= at % 60
        value = common * random.choice((1, 1, 1.04, 0.5, 2))
        samples.append([_value(random, memory) if random.random() < 0.2 else value, at])
    found: Object = {"memory": memory, "halflife": halflife, "samples": samples}
    if random.random() < 0.3:
        found["from"] = {
            "referenceTimestamp": random.choice(("2023-11-14T00:00:00Z", "2023-11-13T12:00:00Z")),
            "bucketWeights": {
                str(place): random.choice((1, 17, 5000, 10000))
                for place in random.sample(range(158), random.randint(1, 8))
            },
            "totalWeight": random.choice((0.5, 1, 123.25, 1e9)),
        }
    return found


def edges(given: Object) -> None:
    """A sample at the very start of a bucket is in that bucket, however it is rounded."""
    given["samples"] = [
        [value * (1 + 1e-9) if value in _EDGES else value, at] for value, at in given["samples"]
    ]


_EDGES = (0.05125, 0.025, 5 << 20)


DECISIONS: dict[str, Callable[[Object], None]] = {"edges": edges}


def _value(random: Random, memory: bool) -> float:
    if memory:
        return float(random.choice((0, 1 << 20, 5 << 20, 1 << 30, 1 << 42, random.getrandbits(40))))
    return random.choice((0, 0.001, 0.025, 0.05125, 1, 3, 64, 2000, random.random() * 100, -1))
