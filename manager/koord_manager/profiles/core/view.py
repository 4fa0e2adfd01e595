"""View of the cluster for applying profiles. No IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from koord_model.json_objects import Object


@dataclass(frozen=True)
class ProfileView:
    """Whole documents by name; ``chance`` gives numbers from 0 up to, but not, 1."""

    profiles: Mapping[str, Object] = field(default_factory=dict)
    namespaces: Mapping[str, Object] = field(default_factory=dict)
    priority_classes: Mapping[str, Object] = field(default_factory=dict)
    chance: Callable[[], float] = lambda: 0.0
