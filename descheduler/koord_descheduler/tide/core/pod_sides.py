"""The side that a pod belongs to. No IO.

Its label says so, as in Katalyst; of pods without it, those of class BE are offline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koord_model import label_selector
from koord_model.keys import LABEL_QOS
from koord_model.qos import QoSClass

from koord_descheduler.tide.core.pool_spec import PREFIX

LABEL_POD_TYPE = f"{PREFIX}/pod-type"
ONLINE = "online"

OFFLINE_PODS: tuple[dict[str, Any], ...] = (
    {
        "matchExpressions": [
            {"key": LABEL_POD_TYPE, "operator": "Exists"},
            {"key": LABEL_POD_TYPE, "operator": "NotIn", "values": [ONLINE]},
        ]
    },
    {
        "matchLabels": {LABEL_QOS: QoSClass.BE.value},
        "matchExpressions": [{"key": LABEL_POD_TYPE, "operator": "DoesNotExist"}],
    },
)
"""Label selectors; a pod that one of them matches is offline."""
_SELECTORS = tuple(label_selector.parse(given, "offline pods") for given in OFFLINE_PODS)


def is_online(labels: Mapping[str, str]) -> bool:
    """True if a pod with these labels is of a service."""
    return not any(selector.matches(labels) for selector in _SELECTORS)
