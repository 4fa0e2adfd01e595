"""The desired state of a Node, as far as one calculation owns it. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from koord_model.decision import Decision


@dataclass(frozen=True, slots=True)
class DesiredNode:
    """Resources, labels and annotations of a Node that one calculation owns.

    ``resources`` go into capacity and allocatable of the status: whole numbers (millicores for
    batch-cpu and mid-cpu, bytes for memory); labels and annotations into the metadata. ``None``
    takes a name away. A name that is not in here is left as it is. ``decisions`` say why.
    """

    resources: Mapping[str, int | None] = field(default_factory=dict)
    labels: Mapping[str, str | None] = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
