"""Arguments of VolumeBinding. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.problems import problem
from koord_scheduler.arguments.resource_scoring import ShapePoint


class VolumeBindingArgs(PluginArgs, frozen=True):
    """Arguments of VolumeBinding; a ``shape`` needs a feature that is off."""

    bind_timeout_seconds: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 600
    shape: tuple[ShapePoint, ...] | None = None

    def problems(self, path: str) -> Iterator[str]:
        if self.shape is not None:
            yield problem(f"{path}.shape", [], "none: StorageCapacityScoring is off")
