"""A question of the API server before it keeps an object, and the answer (admission v1). No IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Object = dict[str, Any]
"""An object's JSON."""


class Operation(StrEnum):
    """What is to be done with the object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


@dataclass(frozen=True, slots=True)
class Admission:
    """The question; ``object`` is empty on DELETE, ``old`` on CREATE. Nobody changes them.

    ``resource`` is the plural ("pods"), ``subresource`` "" or a word ("status").
    """

    uid: str
    operation: Operation
    resource: str
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    object: Object = field(default_factory=dict)
    old: Object = field(default_factory=dict)
    user: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer.

    ``refusal`` is one line for people, "" where it is admitted. ``object`` is the object as it
    should be, ``None`` where nothing of it changes. ``warnings`` are shown by kubectl.
    """

    refusal: str = ""
    code: int = 403
    object: Object | None = None
    warnings: tuple[str, ...] = ()


ADMITTED = Verdict()

Webhook = Callable[[Admission, "ClusterView"], Verdict]
"""Each webhook is such a function; it raises nothing for whatever an object says."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What webhooks know of the cluster besides the question: whole documents, by name.

    Namespaced ones are by "namespace/name". ``chance`` gives numbers from 0 up to, but not, 1.
    """

    profiles: Mapping[str, Object] = field(default_factory=dict)
    namespaces: Mapping[str, Object] = field(default_factory=dict)
    priority_classes: Mapping[str, Object] = field(default_factory=dict)
    quotas: Mapping[str, Object] = field(default_factory=dict)
    quota_profiles: Mapping[str, Object] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    """The data of ``slo-controller-config`` as it is in force."""
    config_map: str = "koordinator-system/slo-controller-config"
    """Which ConfigMap that is."""
    node_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    enhanced_validation: Mapping[str, str] = field(default_factory=dict)
    """The data of the ConfigMap ``pod-enhanced-validator-config``."""
    gates: Mapping[str, bool] = field(default_factory=dict)
    chance: Callable[[], float] = lambda: 0.0
