"""A controller that moves a bound until what is measured is near its target. No IO.

PI in its velocity form. With the error e (1 is "all of the target is unused", -1 "twice the
target", 0 within the deadband), and gains that are parts of the highest bound:

1. change = proportional·(e − e before) + integral·e·seconds
2. no faster than ``rise`` up and ``fall`` down a second
3. bound = bound before + change, within [low, high]

There is no sum of errors that could wind up: the bound itself is the sum, and it stays in its
range. One more thing would be windup: a bound far above what is in force anyway, which has to
fall a long way before anybody feels it. So it falls from what is in force, if that is less.
"""

from __future__ import annotations

from typing import NamedTuple

MOST_SECONDS = 60.0
"""The longest step in seconds: what happened during a longer gap is unknown."""


class FeedbackTuning(NamedTuple):
    """Gains and limits, as parts of the highest bound; all but the first are a second's."""

    proportional: float
    integral: float
    rise: float
    fall: float


class FeedbackState(NamedTuple):
    """The bound, in units of the range, and the error it was made of."""

    bound: float
    error: float


def error_of(
    measured: float, target: float, deadband: float, scale: float = 1.0, worst: float = 4.0
) -> float:
    """The error of a measured value, above 0 while there is room.

    ``scale`` is the part of the target that counts as an error of 1, ``deadband`` a part of that,
    on both sides: within it the error is 0, and from there on it grows from 0. It is never below
    ``-worst``, nor above 1.
    """
    error = (target - measured) / target / scale
    if abs(error) <= deadband:
        return 0.0
    return min(max(error - deadband if error > 0 else error + deadband, -worst), 1.0)


def step(
    before: FeedbackState,
    error: float,
    seconds: float,
    tuning: FeedbackTuning,
    low: float,
    high: float,
    in_force: float | None = None,
) -> FeedbackState:
    """The bound ``seconds`` later. ``in_force`` is what holds already, ``None``: not known."""
    seconds = min(max(seconds, 0.0), MOST_SECONDS)
    asked = tuning.proportional * (error - before.error) + tuning.integral * error * seconds
    change = min(max(asked, -tuning.fall * seconds), tuning.rise * seconds) * high
    bound = before.bound
    if change < 0 and in_force is not None:
        bound = min(bound, in_force)
    return FeedbackState(min(max(bound + change, low), high), error)
