"""CPU of best-effort pods: the part of a threshold that the others leave. No IO.

Koordinator's formula, in cores:

    capacity × threshold − non-BE pods − non-BE host applications − max(system, reserved)

A pod is best-effort by its label (BE) or by its cgroup. The system is what the node uses
beside pods and host applications; so an unknown pod counts with it, and not with
best-effort pods. What runs in the cgroup of best-effort pods is theirs whether each of them
was measured or not: a pod that has just started does not hold itself down.
"""

from __future__ import annotations

from typing import NamedTuple

from koord_model.node_slo import HostApplication
from koord_model.qos import KubeQoS, QoSClass

from koordlet.qos_manager.core.strategy import PodView, StrategyView, Term
from koordlet.qos_manager.suppression.be_advice import Advice


class NodeCPULoad(NamedTuple):
    """Present usage of the node's CPUs, in cores.

    ``reserved`` is what is kept back for the system; it counts where the system uses less.
    """

    capacity: float
    pods: float
    applications: float
    best_effort: float
    system: float
    reserved: float

    def left(self, percent: float) -> float:
        """Return the rest of ``percent`` of the node for best-effort pods; below 0 when over it."""
        others = self.pods + self.applications + max(self.system, self.reserved)
        return self.capacity * percent / 100 - others


def is_best_effort(pod: PodView) -> bool:
    """True if its CPU is not counted with that of the pods to be protected."""
    return pod.kube is KubeQoS.BEST_EFFORT or pod.asked_qos is QoSClass.BE


def measure(view: StrategyView) -> NodeCPULoad | str:
    """Return the present usage of the CPUs, or the name of an unknown part.

    A single pod that has not been measured yet counts with the system, or with best-effort
    pods if it is one of them.
    """
    if not view.cpus:
        return "the node's CPUs"
    if not view.pods_known:
        return "which pods run"
    value = view.latest.value
    node = value("node_cpu_usage")
    if node is None:
        return "node_cpu_usage"
    pods = inside = outside = 0.0
    measured = False
    for pod in view.pods:
        used = value("pod_cpu_usage", pod.uid)
        if used is None:
            continue
        measured = True
        if not is_best_effort(pod):
            pods += used
        elif pod.kube is KubeQoS.BEST_EFFORT:
            inside += used
        else:
            outside += used
    if view.pods and not measured:
        return "pod_cpu_usage"
    applications = 0.0
    for host_application in view.slo.host_applications:
        used = value("host_application_cpu_usage", host_application.name) or 0.0
        if _is_best_effort(host_application):
            inside += used
        else:
            applications += used
    group = (value("node_be", "cpu", "usage") or 0.0) / 1000
    best_effort = outside + max(inside, group)
    system = max(node - pods - applications - best_effort, 0.0)
    capacity = float(len(view.cpus))
    return NodeCPULoad(capacity, pods, applications, best_effort, system, view.reserved_cpu)


def _is_best_effort(application: HostApplication) -> bool:
    """Only one in the cgroup of best-effort pods can be held down with them."""
    return application.qos is QoSClass.BE and application.base == "KubepodsBesteffort"


Spell = tuple[tuple[float, float], ...]
"""Amounts of the last seconds that may still be the least: (steady seconds, cores), rising."""


def remember(spell: Spell, steady: float, cores: float, seconds: float) -> Spell:
    """The spell with another amount; its first is the least of the last ``seconds``.

    So less is less at once, and more is more after it has been so for ``seconds``: load that
    goes up and down leaves best-effort pods what it leaves them at its peaks.
    """
    kept = [point for point in spell if point[0] > steady - seconds and point[1] < cores]
    return (*kept, (steady, cores))


class SuppressionLimits(NamedTuple):
    """The settings: percent of the node; ``advice`` is ``None`` where nobody advises."""

    threshold: float
    floor: float = 0.0
    advice: Advice | None = None


class SuppressionAmount(NamedTuple):
    """The limit and the minimum of best-effort pods in cores, and the inputs of the formula."""

    cores: float
    least: float
    capacity: float
    spell: Spell
    formula: str
    given: tuple[Term, ...]


_FORMULA = (
    "capacity × threshold / 100 − non-BE pods − non-BE host applications − max(system, reserved)"
)


def amount(
    load: NodeCPULoad, limits: SuppressionLimits, spell: Spell, steady: float, seconds: float
) -> SuppressionAmount:
    """Return the threshold's rest, within floor and advice: the least of the last ``seconds``.

    ``spell`` is that of the last amount. The floor wins over advice.
    """
    threshold, floor, advice = limits
    least = load.capacity * floor / 100
    left = load.left(threshold)
    now = max(left if advice is None else min(left, advice.cores), least)
    spell = remember(spell, steady, now, seconds)
    cores = max(spell[0][1], least)
    within = _FORMULA if advice is None else f"min({_FORMULA}, advised)"
    spelled = f"least of {seconds:g} s"
    formula = f"left = max({within}, floor); cores = max({spelled}, floor)"
    given = [
        Term("capacity", load.capacity, "cores"),
        Term("threshold", threshold, "%"),
        Term("non-BE pods", load.pods, "cores"),
        Term("non-BE host applications", load.applications, "cores"),
        Term("system", load.system, "cores"),
        Term("reserved", load.reserved, "cores"),
    ]
    if advice is not None:
        given.append(Term("advised", advice.cores, "cores"))
    given += (
        Term("floor", least, "cores"),
        Term("left", now, "cores"),
        Term(spelled, spell[0][1], "cores"),
        Term("cores", cores, "cores"),
    )
    if advice is not None:
        given.append(Term("advised by", advice.strategy))
    return SuppressionAmount(cores, least, load.capacity, spell, formula, tuple(given))
