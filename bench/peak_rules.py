"""Rules that say which node is best for a pod: what they go by, and the project's own arithmetic.

All but ``Requests``, ``AnyNode`` and ``Foresight`` are LoadAwareScheduling: its table, estimates
and score. They differ in which usage of a node is reported: of the last five minutes, the 95th
percentile of half an hour, or a predicted peak.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from koord_model.keys import CPU
from koord_model.priority import PriorityClass
from koord_prediction.amount import ResourceAmount
from koord_prediction.histogram import Floats
from koord_prediction.models import SYS, Models, item_uid
from koord_prediction.peak import PeakPolicy, PodDemand, predict
from koord_scheduler.objects.pod_times import PodTimes
from koord_scheduler.plugins.load_aware.load_node import LoadNode
from koord_scheduler.plugins.load_aware.load_table import LoadTable
from koord_scheduler.plugins.load_aware.node_metric import NodeReport
from koord_scheduler.plugins.load_aware.pod_load import AskedAmount, PodLoad
from koord_scheduler.plugins.load_aware.row_load import AssignedPod
from koord_scheduler.plugins.load_aware.settings import (
    AggregatedThresholds,
    LoadSettings,
    UsageWindow,
)
from koord_scheduler.state.resource_scores import least_allocated

from bench.peak_loads import DAY, STEP, PodsOverTime
from bench.peak_simulation import SYSTEM_CORES, EqualNodes, NodeGrades, Placements

THRESHOLD = 65
"""Per cent: LoadAwareScheduling's default for CPU, as is the factor of its estimates."""
_FACTOR = 85
_EPOCH = 1e9
"""Added to times, as 0 stands for an unknown one."""
_MILLI = 1000
_HOUR = 3600 // STEP
_HALF_HOUR = 1800 // STEP

NodeUsage = Callable[[int, Placements], Floats]
"""Reported usage of each node at a step, in cores."""


class AnyNode:
    """All nodes are equally good."""

    def __init__(self, pods: PodsOverTime, nodes: EqualNodes) -> None:
        self._nodes = nodes

    def observe(self, step: int, placed: Placements) -> None:
        pass

    def grade(self, pod: int, step: int, placed: Placements) -> NodeGrades:
        count = self._nodes.count
        return NodeGrades(np.zeros(count), np.ones(count, np.bool_))

    def count(self, pod: int, step: int, node: int) -> None:
        pass


class Requests(AnyNode):
    """The node with the least requests: kube-scheduler's default."""

    def __init__(self, pods: PodsOverTime, nodes: EqualNodes) -> None:
        super().__init__(pods, nodes)
        self._request = pods.request

    def grade(self, pod: int, step: int, placed: Placements) -> NodeGrades:
        found = super().grade(pod, step, placed)
        taken = placed.requested + self._request[pod]
        return NodeGrades(_left(taken, self._nodes.cores), found.lets_in)


class Foresight(AnyNode):
    """Knows the future: the least peak of a day of what runs on a node, and of the pod itself."""

    def __init__(self, pods: PodsOverTime, nodes: EqualNodes) -> None:
        super().__init__(pods, nodes)
        self._pods = pods

    def grade(self, pod: int, step: int, placed: Placements) -> NodeGrades:
        end = min(step + DAY, step + int(self._pods.lasts[pod]), self._pods.steps)
        rest = placed.demand[:, end : step + DAY].max(axis=1, initial=0.0)
        both = placed.demand[:, step:end] + self._pods.usage[pod, step:end]
        found = super().grade(pod, step, placed)
        return NodeGrades(-np.maximum(both.max(axis=1), rest), found.lets_in)


class LoadAware(AnyNode):
    """LoadAwareScheduling, by the ``usage`` that a NodeMetric reports.

    Where it ``is_peak`` it may be more than a node has. LoadAwareScheduling's score is 0 there; to
    give peaks their best chance, nodes are then compared by the exact sum.
    """

    def __init__(
        self, pods: PodsOverTime, nodes: EqualNodes, usage: NodeUsage, *, is_peak: bool = False
    ) -> None:
        super().__init__(pods, nodes)
        self._pods, self._usage, self._is_peak = pods, usage, is_peak
        self._loads = [_pod_load(one) for one in zip(pods.request, pods.limit, strict=True)]
        self._table = LoadTable(_SETTINGS, nodes.count)
        self._reports: list[NodeReport] = []
        self._reported = -1

    def grade(self, pod: int, step: int, placed: Placements) -> NodeGrades:
        if self._reported != step:
            self._report(step, placed)
        table, estimate = self._table, self._table.estimator.usage(self._loads[pod])[0]
        # The sums of filters and scores, for production pods; there is one resource.
        used = table.sums[3] + estimate
        score = -used if self._is_peak else least_allocated(used, table.scored[0])
        return NodeGrades(score, table.sums[1] + estimate <= table.limits[1])

    def count(self, pod: int, step: int, node: int) -> None:
        assigned = AssignedPod(str(pod), self._loads[pod], PodTimes(_at(step)))
        self._table.count(node, self._reports[node], assigned, +1)

    def _report(self, step: int, placed: Placements) -> None:
        """A NodeMetric of each node, without its pods.

        A pod that began before the report's interval adds nothing to what the node uses, and there
        is one report a step: those that come after it are all that count, with their estimates.
        """
        self._reported = step
        node = LoadNode("", {CPU: round(self._nodes.cores * _MILLI)})
        self._reports = []
        for row, cores in enumerate(self._usage(step, placed).tolist()):
            used = {CPU: round(cores * _MILLI)}
            report = NodeReport(_at(step), usage=used, windows={_REPORTED: used})
            self._table.set(row, node, report, (), _at(step))
            self._reports.append(report)


class PodPeaks:
    """Of each pod the 95th percentile of what it used, as koordlet's models have it.

    A pod's model does not depend on where the pod is, so all rules share it. As if none waited.
    """

    def __init__(self, pods: PodsOverTime, rules: PeakPolicy) -> None:
        self._cores = np.full(pods.usage.shape, np.nan, np.float32)
        models = Models()
        running: set[int] = set()
        arriving = np.searchsorted(pods.arrives, np.arange(pods.steps + 1))
        for step in range(1, pods.steps):
            running |= set(range(arriving[step - 1], arriving[step]))
            gone = {pod for pod in running if pods.arrives[pod] + pods.lasts[pod] < step}
            running -= gone
            for pod in gone:
                models.drop(str(pod))
            used = pods.usage[:, step - 1]
            models.train({str(pod): ResourceAmount(float(used[pod])) for pod in running}, _at(step))
            found = models.percentiles(rules.cpu_percentile, rules.memory_percentile)
            for uid, peak in found.items():
                self._cores[int(uid), step] = peak.cpu

    def at(self, pod: int, step: int) -> float | None:
        """Cores; ``None`` without a model."""
        found = float(self._cores[pod, step])
        return None if np.isnan(found) else found


class PredictedPeak(LoadAware):
    """By NodeMetric's ``prodPeakMetric``: what koordlet predicts, learnt as it learns it."""

    def __init__(
        self, pods: PodsOverTime, nodes: EqualNodes, peaks: PodPeaks, policy: PeakPolicy
    ) -> None:
        super().__init__(pods, nodes, self._predict, is_peak=True)
        self._peaks, self._policy = peaks, policy
        self._demands: dict[int, PodDemand] = {}
        self._models = Models()

    def observe(self, step: int, placed: Placements) -> None:
        if step:
            used = (placed.demand[:, step - 1] - SYSTEM_CORES).tolist()
            samples = {str(node): ResourceAmount(one) for node, one in enumerate(used)}
            self._models.train(samples, _at(step))

    def _predict(self, step: int, placed: Placements) -> Floats:
        policy = self._policy
        prod = self._models.percentiles(policy.cpu_percentile, policy.memory_percentile)
        found = np.full(self._nodes.count, SYSTEM_CORES)
        for node, pods in enumerate(placed.pods):
            if str(node) in prod:
                demands = [self._demands[pod] for pod in pods]
                peaks = self._of_pods(pods, step) | _of_node(prod[str(node)])
                predicted = predict(demands, peaks, None, _at(step), policy).prod
                found[node] = predicted.peak.cpu if predicted else SYSTEM_CORES
        return found

    def count(self, pod: int, step: int, node: int) -> None:
        super().count(pod, step, node)
        request = ResourceAmount(float(self._pods.request[pod]))
        self._demands[pod] = PodDemand(str(pod), PriorityClass.PROD, request, _at(step))

    def _of_pods(self, pods: list[int], step: int) -> dict[str, ResourceAmount]:
        found = ((pod, self._peaks.at(pod, step)) for pod in pods)
        return {str(pod): ResourceAmount(peak) for pod, peak in found if peak is not None}


def usage_now(nodes: EqualNodes) -> NodeUsage:
    """The average of the last five minutes."""

    def usage(step: int, placed: Placements) -> Floats:
        found: Floats = np.minimum(placed.demand[:, max(step - 1, 0)], nodes.cores)
        return found

    return usage


def usage_p95(nodes: EqualNodes) -> NodeUsage:
    """The 95th percentile of half an hour: the greatest of six values that last five minutes."""

    def usage(step: int, placed: Placements) -> Floats:
        lately = placed.demand[:, max(step - _HALF_HOUR, 0) : max(step, 1)]
        found: Floats = np.minimum(lately.max(axis=1), nodes.cores)
        return found

    return usage


def usage_of_running(pods: PodsOverTime) -> NodeUsage:
    """The 95th percentile of what the pods that run now used together at each time of the last day.

    For the time before a pod began it counts with its mean, and at first with its request.
    """

    so_far = np.pad(pods.usage.cumsum(axis=1), ((0, 0), (1, 0)))

    def usage(step: int, placed: Placements) -> Floats:
        begin = max(step - DAY, 0)
        sums = np.full((len(placed.pods), max(step - begin, 1)), SYSTEM_CORES)
        for node, running in enumerate(placed.pods):
            for pod in running:
                start = max(int(placed.starts[pod]), begin)
                mean = pods.request[pod]
                if start < step:
                    mean = (so_far[pod, step] - so_far[pod, start]) / (step - start)
                    sums[node, start - begin :] += pods.usage[pod, start:step]
                sums[node, : start - begin] += mean
        found: Floats = np.quantile(sums, 0.95, axis=1)
        return found

    return usage


def _of_node(prod: ResourceAmount) -> dict[str, ResourceAmount]:
    return {
        SYS: ResourceAmount(SYSTEM_CORES),
        item_uid(PriorityClass.PROD): prod,
        item_uid(PriorityClass.NONE): ResourceAmount(),
    }


def _left(taken: Floats, cores: float) -> Floats:
    return least_allocated(taken * _MILLI, np.full(len(taken), cores * _MILLI))


def _at(step: int) -> float:
    return _EPOCH + step * STEP


def _pod_load(asked: tuple[float, float]) -> PodLoad:
    request, limit = (round(one * _MILLI) for one in asked)
    return PodLoad(PriorityClass.PROD, (AskedAmount(CPU, request, limit),))


_REPORTED = UsageWindow("reported")
_SETTINGS = LoadSettings(
    resources=(CPU,),
    usage=(0,),
    prod=(0,),
    aggregated=AggregatedThresholds((THRESHOLD,), _REPORTED),
    score_window=_REPORTED,
    weights=(1,),
    dominant_weight=0,
    factors=((CPU, _FACTOR),),
)
