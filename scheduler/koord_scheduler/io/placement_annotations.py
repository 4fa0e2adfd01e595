"""The annotations that say what plugins reserved for a pod, or for what waits as one. No IO."""

from __future__ import annotations

from koord_scheduler.framework.decisions import Placement


def placement_annotations(placement: Placement) -> dict[str, str | None]:
    """Return the annotations to write before the binding; ``None`` removes one."""
    annotations: dict[str, str | None] = {}
    for reserved in placement.reserved:
        annotations |= dict(getattr(reserved, "annotations", ()))
    return annotations
