"""A Pod's specification as controllers and koordlet read it. No IO.

With a quarter of a million pods each reader decodes only what it uses, so metadata and status
are each reader's own. Admission reads pods by stricter types, so that authors learn of mistakes.
"""

from __future__ import annotations

import msgspec

Quantities = dict[str, str | int | float | None]
"""Amounts by resource name, as the API serves them."""


class ResourceRequirements(msgspec.Struct):
    """Requests and limits of a container or a pod."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerSpec(msgspec.Struct):
    """A container, or an init container."""

    name: str = ""
    resources: ResourceRequirements | None = None
    restart_policy: str | None = msgspec.field(default=None, name="restartPolicy")

    @property
    def is_sidecar(self) -> bool:
        """True if an init container stays and runs beside the others."""
        return self.restart_policy == "Always"


class PodSpec(msgspec.Struct):
    """Node and requests of a pod."""

    node: str = msgspec.field(default="", name="nodeName")
    priority: int | None = None
    overhead: Quantities | None = None
    resources: ResourceRequirements | None = None
    containers: list[ContainerSpec] | None = None
    init_containers: list[ContainerSpec] | None = msgspec.field(default=None, name="initContainers")
