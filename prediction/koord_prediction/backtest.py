"""A recorded trace replayed: what would have been predicted, and what then happened.

At each step the models are trained with that step's usage, and the prod peak is predicted.
It is held against the steps of the next ``horizon``: the greatest sum of what the prod pods
that run now, and the system, then used, and the 99th percentile of that sum. Pods that
start later are left out, as they bring requests of their own (the "peak oracle" of Bashir
et al., "Take it to the Limit", EuroSys 2021); those that end free what they used.

The two predictors it is made of are judged by themselves too, and two simpler ways: the sum
of the pods' requests, as a scheduler without prediction computes it, and the peak of the horizon
before. A step at which nothing is predicted, as its models were never trained, is no window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from koord_prediction.amount import ResourceAmount
from koord_prediction.histogram import Floats
from koord_prediction.models import SYS, Models, PodUse, samples
from koord_prediction.peak import PROD, PeakPolicy, PodDemand, predict
from koord_prediction.trace import Trace

_LATER = 1e9
"""Added to a trace's times, which may begin at 0."""


class PredictionMethod(StrEnum):
    """Methods of predicting the coming peak."""

    PREDICTION = "prediction"
    BY_POD = "by pod"
    BY_PRIORITY = "by priority"
    LAST_PEAK = "last peak"
    REQUESTS = "requests"


@dataclass(frozen=True, slots=True)
class Score:
    """Errors of one method for one resource, in cores or bytes.

    ``under`` and ``under_p99`` are the shares of windows in which it said less than the
    peak, or the 99th percentile, that came. ``mean_under`` is over the windows of
    ``under``, ``mean_over`` (wasted) over all, where it was too little counting as 0.
    Percents are of the peak that came.
    """

    under: float
    under_p99: float
    mean_under: float
    mean_under_percent: float
    worst_under: float
    worst_under_percent: float
    mean_over: float
    mean_over_percent: float


@dataclass(frozen=True, slots=True)
class Backtest:
    """Results of a backtest; ``scores`` by resource ("cpu", "memory") and method, else seconds.

    ``cold`` is the share of prod pods that counted with their request, on average.
    """

    steps: int
    step: float
    pods: int
    horizon: float
    warm_up: float
    windows: int
    cold: float
    mean_peak: ResourceAmount
    scores: Mapping[str, Mapping[PredictionMethod, Score]]


def backtest(
    trace: Trace,
    models: Models,
    rules: PeakPolicy,
    horizon: float = 3600.0,
    warm_up: float = 86400.0,
) -> Backtest:
    """Replay a trace through ``models``, which are new; the first ``warm_up`` is not judged.

    Raises:
        ValueError: the trace is too short for that, or has no prod pods.
    """
    replay = _Replay(trace)
    ahead = max(round(horizon / trace.step), 1)
    start = max(round(warm_up / trace.step), ahead - 1)
    if len(trace.times) <= start + ahead:
        hours = (len(trace.times) - 1) * trace.step / 3600
        raise ValueError(
            f"the trace lasts {hours:.2g} h; expected more than the {warm_up / 3600:.3g} h not "
            f"judged and a horizon of {horizon / 3600:.3g} h"
        )
    said: list[dict[PredictionMethod, ResourceAmount]] = []
    came: list[tuple[ResourceAmount, ResourceAmount]] = []
    cold: list[float] = []
    for index in range(len(trace.times) - ahead):
        at = replay.train(models, index)
        if index < start:
            continue
        pods = replay.demands(index)
        if not pods:
            continue
        peaks = models.percentiles(rules.cpu_percentile, rules.memory_percentile)
        predicted = predict(pods, peaks, None, at, rules)
        columns = replay.columns(index)
        before = replay.sums(columns, index - ahead + 1, index + 1)
        after = replay.sums(columns, index + 1, index + 1 + ahead)
        if predicted.prod is None or predicted.by_pod is None or predicted.by_priority is None:
            continue
        said.append(
            {
                PredictionMethod.PREDICTION: predicted.prod.peak,
                PredictionMethod.BY_POD: predicted.by_pod.peak,
                PredictionMethod.BY_PRIORITY: predicted.by_priority.peak,
                PredictionMethod.LAST_PEAK: _amount(before, _greatest),
                PredictionMethod.REQUESTS: sum((pod.request for pod in pods), ResourceAmount()),
            }
        )
        came.append((_amount(after, _greatest), _amount(after, _p99)))
        cold.append(len(predicted.cold) / len(pods))
    if not said:
        raise ValueError("no prod pod is measured in the time that is judged: nothing to predict")
    return Backtest(
        steps=len(trace.times),
        step=trace.step,
        pods=sum(pod.name != SYS for pod in trace.pods),
        horizon=ahead * trace.step,
        warm_up=start * trace.step,
        windows=len(said),
        cold=float(np.mean(cold)),
        mean_peak=ResourceAmount(
            *np.mean([(peak.cpu, peak.memory) for peak, _ in came], axis=0).tolist()
        ),
        scores=dict(_scores(said, came)),
    )


class _Replay:
    """The trace, step by step; a pod is there from its first measured step to its last."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        measured = ~(np.isnan(trace.cpu) | np.isnan(trace.memory))
        self._measured = measured
        self._first = measured.argmax(axis=0)
        self._last = len(measured) - 1 - measured[::-1].argmax(axis=0)
        self._cpu = np.where(measured, trace.cpu, 0.0)
        self._memory = np.where(measured, trace.memory, 0.0)
        self._is_sys = np.array([pod.name == SYS for pod in trace.pods])
        self._is_prod = np.array([pod.priority in PROD for pod in trace.pods]) & ~self._is_sys

    def train(self, models: Models, index: int) -> float:
        """One training step; gives its time."""
        at = float(self._trace.times[index] - self._trace.times[0]) + _LATER
        uses = [
            PodUse(self._trace.pods[column].name, self._trace.pods[column].priority, used)
            for column, used in self._used(index)
        ]
        models.train(samples(uses, self._node(index)), at)
        models.forget(at)
        return at

    def demands(self, index: int) -> list[PodDemand]:
        """The prod pods that run."""
        started = self._first * self._trace.step + _LATER
        return [
            PodDemand(pod.name, pod.priority, pod.request, float(started[column]))
            for column in np.flatnonzero(self._there(index) & self._is_prod)
            for pod in (self._trace.pods[column],)
        ]

    def columns(self, index: int) -> NDArray[np.bool_]:
        """The prod pods that run, and the system."""
        columns: NDArray[np.bool_] = self._there(index) & self._is_prod | self._is_sys
        return columns

    def sums(self, columns: NDArray[np.bool_], start: int, end: int) -> tuple[Floats, Floats]:
        """CPU and memory of these together at each step from ``start`` to before ``end``."""
        cpu, memory = self._cpu[start:end, columns], self._memory[start:end, columns]
        return cpu.sum(axis=1), memory.sum(axis=1)

    def _there(self, index: int) -> NDArray[np.bool_]:
        there: NDArray[np.bool_] = (self._first <= index) & (index <= self._last)
        return there

    def _used(self, index: int) -> Iterator[tuple[int, ResourceAmount | None]]:
        for column in np.flatnonzero(self._there(index) & ~self._is_sys).tolist():
            measured = self._measured[index, column]
            yield column, self._at(index, column) if measured else None

    def _node(self, index: int) -> ResourceAmount | None:
        if (self._is_sys & ~self._measured[index]).any():
            return None
        return ResourceAmount(float(self._cpu[index].sum()), float(self._memory[index].sum()))

    def _at(self, index: int, column: int) -> ResourceAmount:
        return ResourceAmount(float(self._cpu[index, column]), float(self._memory[index, column]))


def _greatest(values: Floats) -> float:
    return float(values.max())


def _p99(values: Floats) -> float:
    return float(np.percentile(values, 99, method="lower"))


def _amount(sums: tuple[Floats, Floats], choose: Callable[[Floats], float]) -> ResourceAmount:
    return ResourceAmount(choose(sums[0]), choose(sums[1]))


def _scores(
    said: list[dict[PredictionMethod, ResourceAmount]],
    came: list[tuple[ResourceAmount, ResourceAmount]],
) -> Iterator[tuple[str, dict[PredictionMethod, Score]]]:
    for resource in ("cpu", "memory"):
        peaks = np.array([getattr(peak, resource) for peak, _ in came])
        p99s = np.array([getattr(p99, resource) for _, p99 in came])
        yield (
            resource,
            {
                method: _score(
                    np.array(
                        [getattr(peaks_by_method[method], resource) for peaks_by_method in said]
                    ),
                    peaks,
                    p99s,
                )
                for method in PredictionMethod
            },
        )


def _score(said: Floats, peaks: Floats, p99s: Floats) -> Score:
    under = np.maximum(peaks - said, 0.0)
    over = np.maximum(said - peaks, 0.0)
    share = np.where(peaks > 0, peaks, np.inf)
    missed = under > 0
    return Score(
        under=float(missed.mean()),
        under_p99=float((said < p99s).mean()),
        mean_under=float(under[missed].mean()) if missed.any() else 0.0,
        mean_under_percent=100 * float((under / share)[missed].mean()) if missed.any() else 0.0,
        worst_under=float(under.max()),
        worst_under_percent=100 * float((under / share).max()),
        mean_over=float(over.mean()),
        mean_over_percent=100 * float((over / share).mean()),
    )
