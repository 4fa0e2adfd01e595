"""Documents of pods with other resources, and of the annotations that say so. No IO."""

from __future__ import annotations

from typing import Any

from koord_model.json_objects import Object, inside, placed
from koord_model.quantity import quantity_texts

from koord_manager.resize.core.pods import ANNOTATION_RECORD
from koord_manager.resize.core.record import Resources


def with_resources(pod: Object, resources: Resources) -> Object:
    """The pod with these requests and limits; other resources of its containers stay."""
    containers = [
        _container(container, resources) for container in inside(pod, "spec").get("containers", ())
    ]
    return placed(pod, containers, "spec", "containers")


def with_record(pod: Object, text: str) -> Object:
    """The pod with the record of a resize."""
    annotations = {**inside(pod, "metadata", "annotations"), ANNOTATION_RECORD: text}
    return placed(pod, annotations, "metadata", "annotations")


def _container(container: Any, resources: Resources) -> Any:
    after = resources.get(container.get("name", ""))
    if after is None:
        return container
    for part, amounts in (("requests", after.requests), ("limits", after.limits)):
        if amounts:
            merged = {**inside(container, "resources", part), **quantity_texts(amounts)}
            container = placed(container, merged, "resources", part)
    return container
