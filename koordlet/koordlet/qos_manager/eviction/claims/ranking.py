"""Selects and orders eviction victims: Koordinator's orders, and one of our own. No IO.

Koordinator's for a rule that goes by priority: ``koordinator.sh/eviction-priority``, then
``spec.priority``, then the label ``koordinator.sh/priority``, the lowest first; then the pod that
frees more. For best-effort pods: ``spec.priority``, then the pod that uses more. Where all is
equal, names decide, so that two rounds do not choose different pods.

Pods that would free nothing are not among the victims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from koord_model.keys import ANNOTATION_EVICTION_PRIORITY, LABEL_PRIORITY
from koord_model.priority import PriorityClass
from koord_model.qos import QoSClass

from koordlet.qos_manager.core.strategy import EvictionVictim, PodView

ReleaseOfPod = Callable[[PodView], float | None]
"""Function of the amount that is free without a pod; ``None`` if unknown."""

_DEFAULTS = {
    PriorityClass.PROD: 9500,
    PriorityClass.MID: 7500,
    PriorityClass.BATCH: 5500,
    PriorityClass.FREE: 3500,
    PriorityClass.NONE: 0,
}
"""The ``spec.priority`` of a class's pods that have none, or 0."""

_CLASSES = (
    PriorityClass.FREE,
    PriorityClass.BATCH,
    PriorityClass.MID,
    PriorityClass.PROD,
    PriorityClass.NONE,
)
_ACTIVE = ("Pending", "Running", "")
_INT32 = range(-(1 << 31), 1 << 31)


def priority(pod: PodView) -> int:
    """``spec.priority``, or its class's where there is none."""
    return pod.priority or _DEFAULTS[pod.priority_class]


def up_to(pods: Iterable[PodView], highest: int) -> Iterator[PodView]:
    """Pods up to a priority, without ended ones and those of unknown specification."""
    return (pod for pod in pods if _active(pod) and pod.demand and priority(pod) <= highest)


def active(pods: Iterable[PodView]) -> Iterator[PodView]:
    """Pods that have not ended."""
    return filter(_active, pods)


def best_effort(pods: Iterable[PodView]) -> Iterator[PodView]:
    """Pods whose label says that they are best-effort."""
    return (pod for pod in pods if pod.asked_qos is QoSClass.BE and _active(pod))


def by_priority(pods: Iterable[PodView], releases: ReleaseOfPod) -> tuple[EvictionVictim, ...]:
    """Pods as victims, in the order of rules that go by priority."""

    def place(victim: EvictionVictim) -> tuple[float | str, ...]:
        pod = victim.pod
        return (
            _eviction_priority(pod),
            priority(pod),
            _label_priority(pod),
            -victim.releases,
            pod.name,
        )

    return tuple(sorted(_victims(pods, releases), key=place))


def by_use(
    pods: Iterable[PodView], releases: ReleaseOfPod, use: ReleaseOfPod | None = None
) -> tuple[EvictionVictim, ...]:
    """Pods as victims, in the order of rules for best-effort pods.

    ``use`` is what counts at the same priority, most first: what they release where it is not
    given; pods of which it is not known go last.
    """
    weigh = use or releases

    def place(victim: EvictionVictim) -> tuple[float | str, ...]:
        pod = victim.pod
        return priority(pod), -(weigh(pod) or 0.0), pod.name

    return tuple(sorted(_victims(pods, releases), key=place))


def lowest_first(
    pods: Iterable[PodView], releases: ReleaseOfPod, use: ReleaseOfPod | None = None
) -> tuple[EvictionVictim, ...]:
    """Our own order: the lowest priority class, then as ``by_use``."""
    return tuple(
        sorted(
            by_use(pods, releases, use),
            key=lambda victim: _CLASSES.index(victim.pod.priority_class),
        )
    )


def first_to_go(victims: Iterable[EvictionVictim], need: float) -> tuple[PodView, ...]:
    """Those of the victims that are enough."""
    found = []
    for pod, releases in victims:
        if need <= 0:
            break
        found.append(pod)
        need -= releases
    return tuple(found)


def _victims(pods: Iterable[PodView], releases: ReleaseOfPod) -> Iterator[EvictionVictim]:
    for pod in pods:
        freed = releases(pod)
        if freed is not None and freed > 0:
            yield EvictionVictim(pod, freed)


def _active(pod: PodView) -> bool:
    return pod.demand is None or pod.demand.phase in _ACTIVE


def _eviction_priority(pod: PodView) -> int:
    """0 where there is none, or none that can be read."""
    found = _whole(pod.record.pod.annotations.get(ANNOTATION_EVICTION_PRIORITY))
    return found if found is not None and found in _INT32 else 0


def _label_priority(pod: PodView) -> int:
    found = _whole(pod.record.pod.labels.get(LABEL_PRIORITY))
    return priority(pod) if found is None else found


def _whole(text: str | None) -> int | None:
    """The whole number that a short text is; Python takes underscores and spaces, Go does not."""
    digits = (text or "")[:1].removeprefix("-").removeprefix("+") + (text or "")[1:]
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19:
        return None
    return int(text or "")
