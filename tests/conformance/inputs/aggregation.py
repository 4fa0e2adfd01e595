"""Inputs for aggregations of a series: points of time and value."""

from __future__ import annotations

from random import Random
from typing import Any

Object = dict[str, Any]

NUMBER = 1200


def one(random: Random) -> Object:
    """One input; values are such that 32 bits hold them."""
    number = random.choice((1, 2, 3, 9, 10, 11, 19, 20, 21, 40, random.randint(1, 120)))
    step, at = random.choice((1, 5, 15)), 1_700_000_000
    high = random.choice((1, 100, 1 << 20))
    points = []
    for _ in range(number):
        points.append([at, random.randint(-high // 4, high) / random.choice((1, 1, 64))])
        at += step * random.choice((1, 1, 1, 2, 30))
    return {"points": points}
