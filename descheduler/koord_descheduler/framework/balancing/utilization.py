"""Parts of the upstream descheduler's plugins of node utilization. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from koord_model.label_selector import LabelSelector
from koord_model.qos import KubeQoS
from koord_scheduler.arguments.problems import problem

from koord_descheduler.framework.balancing.pool_settings import AnomalyCondition, PoolSettings
from koord_descheduler.framework.pod_selection import EvictableNamespaces
from koord_descheduler.objects.observed_pod import ObservedPod

AT_ONCE = AnomalyCondition(60.0, 1, 1)
"""Every load above a threshold counts."""
_QOS = {KubeQoS.BEST_EFFORT: 0, KubeQoS.BURSTABLE: 1, KubeQoS.GUARANTEED: 2}


def importance(pod: ObservedPod) -> tuple[int, ...]:
    """Return upstream's key to sort pods by: those of low priority first, then by quality class."""
    return pod.template.priority or 0, _QOS[pod.template.kube_qos]


def utilization_pool(
    low: Mapping[str, float], high: Mapping[str, float], *, uses_deviation: bool = False
) -> PoolSettings:
    """All nodes, whose resources weigh the same."""
    weights = dict.fromkeys(low, 1)
    selector = LabelSelector()
    return PoolSettings("nodes", selector, uses_deviation, low, high, {}, {}, weights, AT_ONCE)


def threshold_problems(given: Mapping[str, float], path: str) -> Iterator[str]:
    """Return upstream's errors in thresholds in per cent."""
    if not given:
        yield problem(path, None, "a resource with its per cent")
    for name, per_cent in given.items():
        if not 0 <= per_cent <= 100:
            yield problem(f"{path}.{name}", per_cent, "0 to 100")


def namespace_problems(given: EvictableNamespaces | None, path: str) -> Iterator[str]:
    """Return upstream's error in namespaces: they can only be excluded."""
    if given is not None and given.include:
        yield problem(f"{path}.include", ", ".join(given.include), "exclude, the only one there is")
