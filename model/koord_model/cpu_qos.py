"""The CPU strategy a pod asks for itself, in the annotation ``koordinator.sh/cpuQOS``.

Also which class's strategy holds for a pod that names none.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from koord_model.annotations import about, decode, read
from koord_model.fields import Fields
from koord_model.keys import ANNOTATION_CPU_QOS
from koord_model.node_slo import CPUQoS, NodeSLO
from koord_model.pod import Pod
from koord_model.qos import KubeQoS, QoSClass, kube_qos, qos_class


@dataclass(frozen=True, slots=True)
class OwnCPUQoS:
    """A pod's own settings; ``group_identity`` is ``None`` where it has none."""

    enable: bool = True
    group_identity: int | None = None


def own_cpu_qos(pod: Pod) -> tuple[OwnCPUQoS | None, tuple[str, ...]]:
    """Parse a pod's own settings, ``None`` without annotation; and lines on ignored fields.

    Raises:
        ValueError: not a JSON object; one line says how.
    """
    given = read(pod, ANNOTATION_CPU_QOS, lambda text: decode(_OBJECT, text))
    if given is None:
        return None, ()
    ignored: list[str] = []
    fields = Fields(given, f"{about(pod, ANNOTATION_CPU_QOS)}:", ignored)
    enable = fields.flag("enable", default=True)
    identity = fields.number("groupIdentity", 0, -1, 2) if fields.has("groupIdentity") else None
    return OwnCPUQoS(enable, None if ignored else identity), tuple(ignored)


_OBJECT: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])


def strategy_class(pod: Pod, slo: NodeSLO) -> QoSClass:
    """The class whose CPU strategy holds for a pod.

    Its own; for SYSTEM pods and those without a class that of Kubernetes' class.
    """
    own = qos_class(pod.labels)
    if own not in (QoSClass.SYSTEM, QoSClass.NONE):
        return own
    return kube_class(kube_qos(pod.cgroup_parent), slo)


def kube_class(kube: KubeQoS, slo: NodeSLO) -> QoSClass:
    """The class whose CPU strategy holds for pods of one of Kubernetes' classes."""
    if kube is KubeQoS.BEST_EFFORT:
        return QoSClass.BE
    if kube is KubeQoS.GUARANTEED and slo.of(QoSClass.LSR).cpu.enable:
        return QoSClass.LSR
    return QoSClass.LS


def any_enabled(slo: NodeSLO) -> bool:
    """True if the CPU strategy of any class of pods is on."""
    strategies: list[CPUQoS] = [slo.of(qos).cpu for qos in (QoSClass.LSR, QoSClass.LS, QoSClass.BE)]
    return any(strategy.enable for strategy in strategies)
