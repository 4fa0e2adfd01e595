"""Paths of objects in the API: the only place that builds them. No IO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord_model.excerpt import excerpt
from koord_service.http_targets import path_segment

if TYPE_CHECKING:
    from koord_kube.protocol.resources import Resource


def object_path(
    resource: Resource, name: str = "", namespace: str = "", subresource: str = ""
) -> str:
    """The path of all objects, of those of a namespace, or of one or its subresource.

    Raises:
        ValueError: there can be no such object; one line with the name and what is wrong.
    """
    plural = resource.plural
    parts = ["apis", resource.group] if resource.group else ["api"]
    parts.append(resource.version)
    if resource.namespaced and namespace:
        parts += ["namespaces", path_segment(f"namespace of {plural}", namespace)]
    elif resource.namespaced and name:
        raise ValueError(f"{plural} {excerpt(name)}: the namespace is empty")
    parts.append(plural)
    if name:
        parts.append(path_segment(f"name in {plural}", name))
    elif subresource:
        raise ValueError(f"{plural}: the name is empty, of what {subresource} is meant")
    parts += [path_segment("subresource", part) for part in subresource.split("/") if subresource]
    return "/" + "/".join(parts)
