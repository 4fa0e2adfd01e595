"""Users that may bind pods to nodes. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ALL = "*"


@dataclass(frozen=True, slots=True)
class BindingPolicy:
    """Users whose names contain one of ``users`` may bind all pods; without such, everybody may.

    Others may not bind pods of ``namespaces`` (``ALL`` is every one) without ``excluded``, unless a
    pod has one of these labels or annotations. They may, with a warning, in a ``dry_run``.
    """

    users: tuple[str, ...] = ()
    namespaces: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    bypass_labels: frozenset[str] = frozenset()
    bypass_annotations: frozenset[str] = frozenset()
    dry_run: bool = False

    def allows(self, user: str, namespace: str) -> bool:
        """True if the user may bind any pod of the namespace."""
        if not self.users or any(name in user for name in self.users):
            return True
        concerned = ALL in self.namespaces or namespace in self.namespaces
        return namespace in self.excluded or not concerned

    def exempts(self, metadata: Mapping[str, Any]) -> bool:
        """True if everybody may bind the pod with this metadata."""
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        by_label = self.bypass_labels.intersection(labels)
        return bool(by_label or self.bypass_annotations.intersection(annotations))
