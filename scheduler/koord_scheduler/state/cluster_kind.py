"""The way of a kind's objects into the scheduler. No IO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from koord_kube.protocol.resources import SCHEDULING_GROUPS, Resource
from koord_kube.protocol.selectors import EVERYTHING, ApiSelector


class ClusterKind(NamedTuple):
    """Reading of objects of a kind, and their receivers: ``put`` and ``remove`` get their keys.

    ``read`` raises ValueErrors. ``view`` is what it decodes: as JSON, it reads the same from that.
    An API server may lack a kind that ``is_optional``; one that is not ``is_needed`` by any plugin
    is not followed. With a ``namespace`` and an ``object_name``, it is one object, with a
    ``field_selector`` some of them. In a kind that ``has_decisions`` is what schedulers have
    promised to pods.
    """

    resource: Resource
    view: type[msgspec.Struct]
    read: Callable[[bytes], Any]
    put: Callable[[str, Any], object]
    remove: Callable[[str], object]
    is_optional: bool = False
    is_needed: bool = True
    namespace: str = ""
    object_name: str = ""
    has_decisions: bool = False
    field_selector: ApiSelector = EVERYTHING

    def selects(self, namespace: str, name: str) -> bool:
        """True if an object of the kind counts."""
        return not self.object_name or (self.namespace, self.object_name) == (namespace, name)

    @property
    def name(self) -> str:
        """Name in recordings: its kind, with the API group where Kubernetes' own.

        Some objects of a kind have the selector behind it.
        """
        kind, group = self.resource.kind, self.resource.group
        name = f"{kind}.{group}" if group == SCHEDULING_GROUPS[0].group else kind
        return f"{name}?{self.field_selector}" if self.field_selector else name
