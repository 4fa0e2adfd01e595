"""Extended resources that nodes have though they do not list them. No IO."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from koord_scheduler.state.arrays import Amounts, Rows

if TYPE_CHECKING:
    from koord_scheduler.state.pod_class import PodClass


class ResourceBacking:
    """Return what backs resources of which a node has none; by itself, nothing.

    ``classes`` is another object when resources are backed by something else than before.
    """

    classes: Mapping[str, object] = {}

    def concerns(self, pod: PodClass) -> bool:
        """Return True if a pod asks for resources that may be backed."""
        return False

    def backed(self, pod: PodClass) -> Collection[str]:
        """The resources of a pod that are backed."""
        return ()

    def version(self) -> int:
        """A number that changes with what answers about such a pod depend on beside rows."""
        return 0

    def add(
        self, pod: PodClass, names: Sequence[str], rows: Rows, has: Amounts, taken: Amounts
    ) -> None:
        """Count what backs resources that nodes have none of, in ``has`` and ``taken``.

        Both are by resource, as ``names``, and row.
        """


NO_BACKING = ResourceBacking()
