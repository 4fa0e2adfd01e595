"""Cache ways and memory bandwidth that a pod, or a class of pods, may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from koord_model.qos import QoSClass


@dataclass(frozen=True, slots=True)
class Ways:
    """A part of a cache: from ``start`` to ``end`` percent of its ways."""

    start: int = 0
    end: int = 100


@dataclass(frozen=True, slots=True)
class ResctrlWish:
    """A resctrl group and what it may use.

    ``llc`` and ``mb`` (percent) hold for every cache domain that ``llc_by_domain``
    and ``mb_by_domain`` do not name. ``None``: all of it. ``fallback`` is the class whose
    shared group takes the tasks where the hardware has no group left.
    """

    group: str
    llc: Ways | None = None
    mb: int | None = None
    llc_by_domain: Mapping[int, Ways] = field(default_factory=dict)
    mb_by_domain: Mapping[int, int] = field(default_factory=dict)
    fallback: QoSClass = QoSClass.NONE
