"""Usage of one node, and its limits. No IO.

All of it are sums over the node's pods, and of whole numbers, so that pods can be added and taken
off again. A node has four sums (``SUMS``): what a filter and a score compare, each for other pods
and for production pods.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from koord_model.demand import Amounts
from koord_model.keys import MEMORY

from koord_scheduler.objects.pod_times import PodTimes
from koord_scheduler.plugins.load_aware.estimates import LoadEstimator, rounded
from koord_scheduler.plugins.load_aware.load_node import LoadNode, NodeThresholds, thresholds
from koord_scheduler.plugins.load_aware.node_metric import NodeReport
from koord_scheduler.plugins.load_aware.pod_load import PodLoad
from koord_scheduler.plugins.load_aware.settings import (
    DEFAULT_EXPIRATION_SECONDS,
    LoadSettings,
    UsageWindow,
    Vector,
)

SUMS = 4
_MOST_INTERVALS = 2


class AssignedPod(NamedTuple):
    """A pod that has a node; ``key`` is namespace/name."""

    key: str
    load: PodLoad
    times: PodTimes


class UsageBasis(StrEnum):
    """Beginning of a sum, and the pods' additions to it.

    NODE: the reported usage of the node, and what pods will use beyond what is reported of them.
    PROD: that of production pods alone. ESTIMATES: what all pods will use, whatever is reported.
    """

    NODE = "node"
    PROD = "prod"
    ESTIMATES = "estimates"


class RowLoad(NamedTuple):
    """Of one node: ``bases`` of the four sums, and the sums, one vector after the other.

    ``limits`` are what may be used, for others and for prod pods: infinite where nothing forbids
    more, -infinite where no pod may come. ``aggregated`` says of both whether it is an aggregated
    usage that may not be higher. Without ``is_scored`` all scores are 0. From ``expires`` on
    (seconds since the epoch) the report is too old.
    """

    bases: tuple[UsageBasis, ...]
    sums: list[float]
    limits: list[float]
    aggregated: tuple[bool, bool]
    capacity: Vector
    is_scored: bool
    expires: float


def row_load(
    estimator: LoadEstimator,
    node: LoadNode,
    report: NodeReport | None,
    pods: Iterable[AssignedPod],
    epoch: float,
) -> RowLoad:
    """The load of a node at ``epoch``, seconds since the epoch; without a report nothing counts."""
    settings = estimator.settings
    filters = [thresholds(node, settings, for_prod=for_prod) for for_prod in (False, True)]
    aggregated = filters[0].window is not None, filters[1].window is not None
    capacity = _vector(node.allocatable, settings)
    if report is None:
        width = len(capacity)
        bases, free = (UsageBasis.NODE,) * SUMS, [math.inf] * (2 * width)
        return RowLoad(bases, [0.0] * (SUMS * width), free, aggregated, capacity, False, math.inf)
    scored = _Summed(False, settings.score_window), _Summed(settings.scores_prod_apart, None)
    summed = [_Summed(one.of_prod, one.window) for one in filters]
    summed += [scored[0], scored[1] if settings.scores_prod_apart else scored[0]]
    begun = [_begin(settings, node, report, one) for one in summed]
    bases = tuple(basis for basis, _ in begun)
    sums = [float(amount) for _, begin in begun for amount in begin]
    for pod in pods:
        share = pod_share(estimator, report, bases, pod)
        sums = [one + more for one, more in zip(sums, share, strict=True)]
    expires = report.updated + _counts_for(settings, report)
    limits = [
        limit
        for one in filters
        for limit in _limits(settings, report, one, capacity, is_expired=epoch >= expires)
    ]
    is_scored = epoch < expires and _has_scored(settings, report)
    return RowLoad(bases, sums, limits, aggregated, capacity, is_scored, expires)


def _has_scored(settings: LoadSettings, report: NodeReport) -> bool:
    """True if the report has all that scores depend on."""
    if report.usage is None:
        return False
    weighed = zip(settings.resources, settings.weights, strict=True)
    return not any(weight and report.lacks(name) for name, weight in weighed)


def _counts_for(settings: LoadSettings, report: NodeReport) -> float:
    """Seconds; by default one report of a node may fail to come, however rarely it reports."""
    seconds = settings.expiration_seconds
    if seconds != DEFAULT_EXPIRATION_SECONDS or report.interval < seconds:
        return seconds
    return _MOST_INTERVALS * report.interval


def pod_share(
    estimator: LoadEstimator, report: NodeReport, bases: Sequence[UsageBasis], pod: AssignedPod
) -> list[float]:
    """Return a pod's addition to the four sums of its node."""
    load = pod.load
    estimate = estimator.usage(load)
    found = report.pods.get(pod.key)
    if found is None:
        return unreported_share(estimator, bases, load)
    reported = _vector(found.usage, estimator.settings)
    counts_whole = (
        report.updated - report.interval < pod.times.scheduled
        or estimator.ends(load, pod.times) > report.updated
    )
    beyond = _more(estimate, reported) if counts_whole else (0,) * len(estimate)
    of_prod = (0,) * len(estimate)
    if load.is_prod and found.is_prod:
        of_prod = tuple(one + more for one, more in zip(reported, beyond, strict=True))
    elif load.is_prod:
        of_prod = _more(estimate)  # the node took it for another pod, so its usage is not in there
    return _by_basis(bases, beyond, estimate, of_prod)


def unreported_share(
    estimator: LoadEstimator, bases: Sequence[UsageBasis], load: PodLoad
) -> list[float]:
    """Return the addition of a pod without report, as most pods that come."""
    estimate = estimator.usage(load)
    of_prod = estimate if load.is_prod else (0,) * len(estimate)
    return _by_basis(bases, _more(estimate), estimate, _more(of_prod))


def used_per_cent(used: float, has: float) -> int:
    """As it is compared with thresholds."""
    return rounded(used / has * 100)


class _Summed(NamedTuple):
    of_prod: bool
    window: UsageWindow | None


def _begin(
    settings: LoadSettings, node: LoadNode, report: NodeReport, summed: _Summed
) -> tuple[UsageBasis, Vector]:
    nothing: Amounts = {}
    if summed.of_prod:
        begin = report.system if settings.prod_includes_system else nothing
        return UsageBasis.PROD, _vector(_of_allocatable(begin, node), settings)
    usage = report.usage if summed.window is None else report.over(summed.window)
    basis = UsageBasis.ESTIMATES if usage is None else UsageBasis.NODE
    return basis, _vector(_of_allocatable(usage or nothing, node), settings)


def _of_allocatable(usage: Amounts, node: LoadNode) -> Amounts:
    """Without memory set aside for huge pages: nodes report it as used, and do not offer it."""
    if not node.huge_pages or MEMORY not in usage:
        return usage
    return {**usage, MEMORY: max(usage[MEMORY] - node.huge_pages, 0)}


def _by_basis(
    bases: Sequence[UsageBasis], beyond: Vector, estimate: Vector, of_prod: Vector
) -> list[float]:
    by_basis = {
        UsageBasis.NODE: beyond,
        UsageBasis.ESTIMATES: estimate,
        UsageBasis.PROD: of_prod,
    }
    return [float(amount) for basis in bases for amount in by_basis[basis]]


def _more(estimate: Vector, reported: Vector | None = None) -> Vector:
    """Return the expected usage beyond the reported one."""
    if reported is None:
        return tuple(max(0, one) for one in estimate)
    return tuple(max(0, one - other) for one, other in zip(estimate, reported, strict=True))


def _limits(
    settings: LoadSettings,
    report: NodeReport,
    of_node: NodeThresholds,
    capacity: Vector,
    *,
    is_expired: bool,
) -> list[float]:
    width = len(capacity)
    if not any(of_node.per_cent):
        return [math.inf] * width
    if is_expired and settings.filters_expired:
        return [math.inf if settings.allows_expired else -math.inf] * width
    if report.usage is None:
        return [math.inf] * width
    return [
        _limit(per_cent, has) if per_cent and has else math.inf
        for per_cent, has in zip(of_node.per_cent, capacity, strict=True)
    ]


def _limit(per_cent: int, has: int) -> float:
    """The most that may be used: what is more is more than ``per_cent`` once it is rounded."""
    limit = (2 * per_cent + 1) * has // 200 + 1
    while used_per_cent(limit, has) > per_cent:  # exact but for how floats are divided
        limit -= 1
    return float(limit)


def _vector(amounts: Amounts, settings: LoadSettings) -> Vector:
    return tuple(amounts.get(name, 0) for name in settings.resources)
