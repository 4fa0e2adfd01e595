"""Recorded usage as CSV: one row a pod and step, for the backtest.

Columns, by name in the first line, in any order:

- ``time``: seconds since any epoch; the same step all through, gaps being whole steps,
- ``pod``: its name; ``__node-sys__`` is what the node uses beyond its pods (may lack),
- ``priority``: a number as in ``spec.priority``, a class (``koord-prod``), or nothing,
- ``request_cpu``, ``cpu``: cores; ``request_memory``, ``memory``: bytes.

A pod runs from its first row to its last; a row that lacks between them is a step that
was not measured. What a pod asks for does not change.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from koord_model.excerpt import excerpt
from koord_model.priority import LABEL_PRIORITY_CLASS, PriorityClass, priority_class

from koord_prediction.amount import ResourceAmount
from koord_prediction.histogram import Floats
from koord_prediction.models import SYS

COLUMNS = ("time", "pod", "priority", "request_cpu", "request_memory", "cpu", "memory")

_NUMBERS = ("time", "request_cpu", "request_memory", "cpu", "memory")
_MOST_STEPS = 1_000_000


@dataclass(frozen=True, slots=True)
class TracePod:
    """A pod of a trace; the request is 0 of ``__node-sys__``."""

    name: str
    priority: PriorityClass
    request: ResourceAmount


@dataclass(frozen=True, slots=True)
class Trace:
    """Usage of cores and bytes, a line a step and a column a pod; NaN where not measured.

    ``times`` are seconds, ``step`` apart.
    """

    times: Floats
    step: float
    pods: tuple[TracePod, ...]
    cpu: Floats
    memory: Floats


def parse(lines: Iterable[str]) -> Trace:
    """The trace in CSV text.

    Raises:
        ValueError: it is none; one line that names the row and what is wrong in it.
    """
    reader = csv.DictReader(lines)
    lacking = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    if lacking:
        raise ValueError(f"line 1: no column {', '.join(lacking)}; expected {','.join(COLUMNS)}")
    pods: dict[str, TracePod] = {}
    points: dict[tuple[float, str], ResourceAmount] = {}
    try:
        for row in reader:
            _take(row, pods, points)
    except (ValueError, csv.Error) as error:
        raise ValueError(f"line {reader.line_num}: {error}") from None
    return _whole(pods, points)


def _take(
    row: dict[str, str], pods: dict[str, TracePod], points: dict[tuple[float, str], ResourceAmount]
) -> None:
    numbers = {name: _number(name, row[name]) for name in _NUMBERS}
    request = ResourceAmount(numbers["request_cpu"], numbers["request_memory"])
    pod = TracePod(row["pod"], _priority(row["priority"]), request)
    if not pod.name:
        raise ValueError(f"no pod; expected a name, or {SYS} for what belongs to no pod")
    if pods.setdefault(pod.name, pod) != pod:
        raise ValueError(
            f"pod {excerpt(pod.name)} has another priority or request than in its first row; "
            "give it another name from here on"
        )
    key = (numbers["time"], pod.name)
    if key in points:
        raise ValueError(f"pod {excerpt(pod.name)} has a row of time {row['time']} already")
    points[key] = ResourceAmount(numbers["cpu"], numbers["memory"])


def _number(name: str, given: str | None) -> float:
    try:
        number = float(given or "")
    except ValueError:
        number = np.nan
    if not 0 <= number < np.inf:
        raise ValueError(f"{name} is {excerpt(given or '')}; expected a number from 0")
    return number


def _priority(given: str) -> PriorityClass:
    if given.lstrip("-").isdecimal():
        return priority_class({}, int(given))
    found = priority_class({LABEL_PRIORITY_CLASS: given}, None)
    if found != given:
        known = ", ".join(name for name in PriorityClass if name)
        raise ValueError(f"priority is {excerpt(given)}; expected a number, {known}, or nothing")
    return found


def _whole(pods: dict[str, TracePod], points: dict[tuple[float, str], ResourceAmount]) -> Trace:
    times = np.unique([time for time, _ in points])
    if len(times) < 2:
        raise ValueError(f"{len(times)} points in time; expected two at least")
    steps = np.diff(times)
    step = float(steps.min())
    counts = np.rint((times - times[0]) / step).astype(int)
    if (np.abs(times - times[0] - counts * step) > step / 100).any():
        raise ValueError(f"times are not all {step:g} s apart, or a multiple of that")
    length = int(counts[-1]) + 1
    if length > _MOST_STEPS:
        raise ValueError(f"{length} steps of {step:g} s; expected {_MOST_STEPS} at most")
    places = {name: column for column, name in enumerate(pods)}
    lines = dict(zip(times.tolist(), counts.tolist(), strict=True))
    cpu = np.full((length, len(pods)), np.nan)
    memory = np.full((length, len(pods)), np.nan)
    for (time, name), used in points.items():
        place = lines[time], places[name]
        cpu[place], memory[place] = used.cpu, used.memory
    whole = times[0] + step * np.arange(length)
    return Trace(whole, step, tuple(pods.values()), cpu, memory)
