"""Predicted peak of prod pods, and the part of their requests that others may borrow.

Two predictors, as Koordinator's, m being 1 + margin/100, prod pods those of class
prod or of none, and peak a percentile of a model:

- by pod: peak = m·Σ peak(pod),
  reclaimable = min(allocatable - peak, Σ max(request - m·peak(pod), 0)).
  A pod that is cold or has no model adds its request to the peak and nothing to what is
  reclaimable.
- by priority: peak = m·(peak(sys) + peak(prod) + peak(none)),
  reclaimable = min(allocatable - peak, max(Σ request - peak, 0)).
  A pod that is not cold and has no model lends nothing of its request.

Reported are the greater peak and the smaller reclaimable, CPU and memory each by itself.

A pod that never gets as old as the cold start (24 h) is never predicted: on a node of
short-lived pods the peak is what they ask for, plus nothing saved. That is meant as the
safe side; a shorter ``cold_start`` is the way out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from koord_model.priority import PriorityClass

from koord_prediction.amount import ResourceAmount, each
from koord_prediction.models import SYS, item_uid

PROD = frozenset({PriorityClass.PROD, PriorityClass.NONE})
"""The classes whose unused requests may be borrowed."""


@dataclass(frozen=True, slots=True)
class PeakPolicy:
    """Caution: percentiles as fractions, ``margin`` in percent, ``cold_start`` in seconds."""

    cpu_percentile: float = 0.95
    memory_percentile: float = 0.98
    margin: float = 10.0
    cold_start: float = 86400.0

    @property
    def factor(self) -> float:
        """Factor by which a percentile is multiplied."""
        return 1 + self.margin / 100


@dataclass(frozen=True, slots=True)
class PodDemand:
    """A pod as it is predicted; ``started`` is seconds since the epoch, 0 where unknown.

    ``ending`` are those that terminate or have terminated: they need nothing any more.
    """

    uid: str
    priority: PriorityClass
    request: ResourceAmount
    started: float
    ending: bool = False


@dataclass(frozen=True, slots=True)
class PredictedPeak:
    """Result of one predictor; ``reclaimable`` is ``None`` while allocatable is not known."""

    peak: ResourceAmount
    reclaimable: ResourceAmount | None


@dataclass(frozen=True, slots=True)
class Prediction:
    """The reported peak (``None`` while a model is missing), and that of each predictor.

    ``cold`` are the pods that counted with their request.
    """

    prod: PredictedPeak | None = None
    by_pod: PredictedPeak | None = None
    by_priority: PredictedPeak | None = None
    cold: tuple[str, ...] = ()


def predict(
    pods: Iterable[PodDemand],
    peaks: Mapping[str, ResourceAmount],
    allocatable: ResourceAmount | None,
    now: float,
    rules: PeakPolicy,
) -> Prediction:
    """Predict from ``peaks``, the models' percentiles by UID, without margin.

    ``allocatable`` is the node's before any amplification.
    """
    prod = [pod for pod in pods if pod.priority in PROD and not pod.ending]
    young = frozenset(pod.uid for pod in prod if is_cold(pod, now, rules.cold_start))
    cold = tuple(pod.uid for pod in prod if pod.uid in young or pod.uid not in peaks)
    by_pod = _by_pod(prod, frozenset(cold), peaks, allocatable, rules.factor)
    # One that is warm and has no model: how much it uses of its request is unknown.
    judged = [pod for pod in prod if pod.uid in young or pod.uid in peaks]
    by_priority = _by_priority(judged, peaks, allocatable, rules.factor)
    both = None if by_priority is None else _careful(by_pod, by_priority)
    return Prediction(both, by_pod, by_priority, cold)


def is_cold(pod: PodDemand, now: float, cold_start: float) -> bool:
    """True if a pod is too young to be judged; one of unknown age is."""
    return pod.started <= 0 or now - pod.started <= cold_start


def _by_pod(
    pods: Iterable[PodDemand],
    cold: frozenset[str],
    peaks: Mapping[str, ResourceAmount],
    allocatable: ResourceAmount | None,
    factor: float,
) -> PredictedPeak:
    predicted, requested, spare = ResourceAmount(), ResourceAmount(), ResourceAmount()
    for pod in pods:
        if pod.uid in cold:
            requested += pod.request
            continue
        peak = peaks[pod.uid].times(factor)
        predicted += peak
        spare += (pod.request - peak).at_least_zero()
    return PredictedPeak(predicted + requested, _within(allocatable, predicted, spare))


def _by_priority(
    pods: Iterable[PodDemand],
    peaks: Mapping[str, ResourceAmount],
    allocatable: ResourceAmount | None,
    factor: float,
) -> PredictedPeak | None:
    """``None`` while sys or a class has no model."""
    uids = [SYS, *(item_uid(name) for name in PROD)]
    if any(uid not in peaks for uid in uids):
        return None
    peak = sum((peaks[uid] for uid in uids), ResourceAmount()).times(factor)
    requests = sum((pod.request for pod in pods), ResourceAmount())
    return PredictedPeak(peak, _within(allocatable, peak, (requests - peak).at_least_zero()))


def _within(
    allocatable: ResourceAmount | None, used: ResourceAmount, spare: ResourceAmount
) -> ResourceAmount | None:
    if allocatable is None:
        return None
    return each(min, (allocatable - used).at_least_zero(), spare)


def _careful(prediction: PredictedPeak, other: PredictedPeak) -> PredictedPeak:
    peak = each(max, prediction.peak, other.peak)
    if prediction.reclaimable is None or other.reclaimable is None:
        return PredictedPeak(peak, None)
    return PredictedPeak(peak, each(min, prediction.reclaimable, other.reclaimable))
