"""Priority classes: how Koordinator names them and how a pod's is found."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from koord_model.qos import KubeQoS, QoSClass, qos_class

LABEL_PRIORITY_CLASS = "koordinator.sh/priority-class"


class PriorityClass(StrEnum):
    """Koordinator's priority classes; ``NONE`` where the pod says nothing."""

    PROD = "koord-prod"
    MID = "koord-mid"
    BATCH = "koord-batch"
    FREE = "koord-free"
    NONE = ""


BANDS = {
    PriorityClass.PROD: range(9000, 10000),
    PriorityClass.MID: range(7000, 8000),
    PriorityClass.BATCH: range(5000, 6000),
    PriorityClass.FREE: range(3000, 4000),
}
"""The values of ``spec.priority`` that mean a class."""

_OF_QOS = {
    QoSClass.SYSTEM: PriorityClass.PROD,
    QoSClass.LSE: PriorityClass.PROD,
    QoSClass.LSR: PriorityClass.PROD,
    QoSClass.LS: PriorityClass.PROD,
    QoSClass.BE: PriorityClass.BATCH,
}


def priority_class(labels: Mapping[str, str], priority: int | None) -> PriorityClass:
    """The class a pod asks for by itself, with its label or else its ``spec.priority``.

    A label counts even when its word is unknown: as none. So does a priority between
    the bands.
    """
    if LABEL_PRIORITY_CLASS in labels:
        try:
            return PriorityClass(labels[LABEL_PRIORITY_CLASS])
        except ValueError:
            return PriorityClass.NONE
    for name, band in BANDS.items():
        if priority in band:
            return name
    return PriorityClass.NONE


def priority_class_or_default(
    labels: Mapping[str, str], priority: int | None, kube: KubeQoS
) -> PriorityClass:
    """The class a pod is treated as having: what it asks for, or what its quality class implies.

    That is batch for best-effort pods and prod for all others. ``kube`` counts where the
    pod has no quality class of Koordinator's.
    """
    asked = priority_class(labels, priority)
    if asked is not PriorityClass.NONE:
        return asked
    implied = _OF_QOS.get(qos_class(labels))
    if implied is not None:
        return implied
    return PriorityClass.BATCH if kube is KubeQoS.BEST_EFFORT else PriorityClass.PROD
