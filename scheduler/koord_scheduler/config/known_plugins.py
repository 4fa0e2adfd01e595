"""The plugins that a configuration may name, and the default ones. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from koord_scheduler.config.component_config import PluginItem


class Support(StrEnum):
    """The scheduler's support of an enabled plugin."""

    BUILT = "built"
    CORE = "part of the core"
    NOT_BUILT = "not built: pods that need it are refused by name"


_FILTERS = ("preFilter", "filter")
_SCORES = ("preScore", "score")
_VOLUME_BINDING = (*_FILTERS, "reserve", "preBind", *_SCORES)
_DYNAMIC_RESOURCES = ("preEnqueue", *_FILTERS, "postFilter", "score", "reserve", "preBind")

EXTENSION_POINTS: Mapping[str, tuple[str, ...]] = {
    "SchedulingGates": ("preEnqueue",),
    "PrioritySort": ("queueSort",),
    "NodeUnschedulable": ("filter",),
    "NodeName": ("filter",),
    "TaintToleration": ("filter", *_SCORES),
    "NodeAffinity": (*_FILTERS, *_SCORES),
    "NodePorts": _FILTERS,
    "NodeResourcesFit": (*_FILTERS, *_SCORES, "placementScore"),
    "VolumeRestrictions": _FILTERS,
    "NodeVolumeLimits": _FILTERS,
    "VolumeBinding": _VOLUME_BINDING,
    "VolumeZone": _FILTERS,
    "PodTopologySpread": (*_FILTERS, *_SCORES),
    "InterPodAffinity": (*_FILTERS, *_SCORES),
    "DynamicResources": _DYNAMIC_RESOURCES,
    "DefaultPreemption": ("preEnqueue", "postFilter"),
    "NodeResourcesBalancedAllocation": _SCORES,
    "ImageLocality": ("score",),
    "DefaultBinder": ("bind",),
    "NodeDeclaredFeatures": _FILTERS,
    "GangScheduling": ("preEnqueue", "permit"),
    "TopologyPlacementGenerator": ("placementGenerate",),
    "PodGroupPodsCount": ("placementScore",),
    "NodeResourcesFitPlus": _SCORES,
    "ScarceResourceAvoidance": _SCORES,
    "LoadAwareScheduling": (*_FILTERS, "score", "reserve"),
    "NodeNUMAResource": (*_FILTERS, *_SCORES, "reserve", "preBind"),
    "SchedulingHint": ("preFilter",),
    "DefaultPreBind": ("preBind",),
    "DeviceShare": (*_FILTERS, *_SCORES, "reserve", "preBind"),
    "ElasticQuota": ("preFilter", "postFilter", "reserve"),
    "Reservation": (*_FILTERS, "postFilter", *_SCORES, "reserve", "preBind", "bind"),
    "Coscheduling": (
        "preEnqueue",
        "preFilter",
        "postFilter",
        *_SCORES,
        "reserve",
        "permit",
        "preBind",
        "postBind",
    ),
    "NodeQuarantine": ("filter",),
}
"""Extension points of each plugin."""

_OF_OTHERS = ("filter", "score")
"""Extension points of plugins that are not Kubernetes'."""


def extension_points(name: str) -> tuple[str, ...]:
    """Return the extension points of a plugin."""
    return EXTENSION_POINTS.get(name, _OF_OTHERS)


_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
_OFF_BY_DEFAULT = {
    "GangScheduling",
    "TopologyPlacementGenerator",
    "PodGroupPodsCount",
    "LoadAwareScheduling",
    "NodeResourcesFitPlus",
    "ScarceResourceAvoidance",
    "NodeNUMAResource",
    "SchedulingHint",
    "DefaultPreBind",
    "DeviceShare",
    "ElasticQuota",
    "Reservation",
    "Coscheduling",
    "NodeQuarantine",
}

DEFAULT_PLUGINS = tuple(
    PluginItem(name, _WEIGHTS.get(name, 0))
    for name in EXTENSION_POINTS
    if name not in _OFF_BY_DEFAULT
)
"""Plugins that are enabled, in this order, unless a profile says otherwise."""

CORE = frozenset(
    {"SchedulingGates", "PrioritySort", "DefaultPreemption", "DefaultBinder", "DefaultPreBind"}
)

UNPREPARED = frozenset({"LoadAwareScheduling", "NodeNUMAResource", "DeviceShare"})
"""Plugins that filter and score without preFilter and preScore, as Koordinator configures them."""
