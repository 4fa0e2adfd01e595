"""Quality classes: how Koordinator names them and how a pod's is found."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from koord_model.excerpt import excerpt
from koord_model.keys import LABEL_QOS


class QoSClass(StrEnum):
    """Koordinator's quality classes; ``NONE`` where the pod says nothing."""

    LSE = "LSE"
    LSR = "LSR"
    LS = "LS"
    BE = "BE"
    SYSTEM = "SYSTEM"
    NONE = ""


def qos_class(labels: Mapping[str, str]) -> QoSClass:
    """The class a pod's labels ask for; an unknown word counts as none."""
    try:
        return QoSClass(labels.get(LABEL_QOS, ""))
    except ValueError:
        return QoSClass.NONE


def unknown_word(labels: Mapping[str, str]) -> str:
    """Says what is wrong with the label that names the class; "" where nothing is.

    The class then counts as none. The runner of hooks says it, so that people read it
    once and not from every plugin that reads the class.
    """
    word = labels.get(LABEL_QOS, "")
    if word in list(QoSClass):
        return ""
    known = ", ".join(qos for qos in QoSClass if qos)
    return f"label {LABEL_QOS} is {excerpt(word)}; expected one of {known} (counts as none)"


class KubeQoS(StrEnum):
    """Kubernetes' own class, as the kubelet shows it in the pod's cgroup."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def qos_class_or_default(labels: Mapping[str, str], kube: KubeQoS) -> QoSClass:
    """The class a pod's labels ask for, or the one that Koordinator takes Kubernetes' for."""
    return qos_class(labels) or _DEFAULTS[kube]


_DEFAULTS = {
    KubeQoS.GUARANTEED: QoSClass.LSR,
    KubeQoS.BURSTABLE: QoSClass.LS,
    KubeQoS.BEST_EFFORT: QoSClass.BE,
}


def kube_qos(cgroup_parent: str) -> KubeQoS:
    """Kubernetes' class read off the pod's cgroup, for both cgroup drivers."""
    if "besteffort" in cgroup_parent:
        return KubeQoS.BEST_EFFORT
    if "burstable" in cgroup_parent:
        return KubeQoS.BURSTABLE
    return KubeQoS.GUARANTEED
